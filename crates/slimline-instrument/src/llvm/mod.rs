//! The part of LLVM that is used, as safe types.
//!
//! This is the one place with `unsafe` code in this crate, because all of LLVM is behind C functions. What makes the
//! rest safe:
//!
//! - [`Value`], [`Block`], [`Type`] and [`Metadata`] borrow their [`Module`], and what they name lives as long as it:
//!   nothing is ever erased but within one method here that hands out no handle before. Passes, which erase, take the
//!   module by `&mut`.
//! - A function of the API that takes one kind of value only (an operand's number, a branch, an integer constant) is
//!   called once the value's kind was asked; those methods give `None` else.
//! - Nothing is `Send`: a context belongs to one thread.
#![allow(unsafe_code)]

mod api;
mod build;
mod code;
mod crossing;
mod find;
mod function;
mod gate;
mod labels;
mod loops;
mod metadata;
mod module;
mod nesting;
mod note;
mod reaching;
mod value;
mod versions;

use std::path::{Path, PathBuf};

use api::Api;

pub use build::{Builder, Room};
pub use code::CodeLevel;
pub use find::libllvm_of;
pub use gate::{Gate, Segment, Stamp, Traced};
pub use metadata::{Expressions, Metadata, MetadataKind, ToldVariable};
pub use module::{Function, Module};
pub use nesting::{BlocksOfLoop, BodyBlocks, Nesting};
pub use note::{Note, Noted};
pub use value::{Block, Opcode, Type, TypeKind, Value};
pub use versions::{Unasked, Versions, Ways};

/// Versions of LLVM that this is written for.
pub const SUPPORTED: std::ops::RangeInclusive<u32> = 19..=22;

/// Why LLVM could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LlvmError {
    /// The dynamic linker refused the library.
    #[error("{} can't be loaded: {reason}", library.display())]
    Load {
        /// The library.
        library: PathBuf,
        /// What the dynamic linker says.
        reason: String,
    },
    /// The library is not the libLLVM that is needed.
    #[error("{} has no function {symbol}: is it a libLLVM of version 19 to 22?", library.display())]
    Lacks {
        /// The library.
        library: PathBuf,
        /// What is missing.
        symbol: &'static str,
    },
    /// Another version of LLVM than this was written for.
    #[error("{} is LLVM {found}, versions {} to {} are known", library.display(), SUPPORTED.start(), SUPPORTED.end())]
    Version {
        /// The library.
        library: PathBuf,
        /// Its version.
        found: u32,
    },
    /// No libLLVM belongs to the compiler.
    #[error("{} needs no libLLVM.so and none lies beside it: is LLVM linked into it statically?", compiler.display())]
    None {
        /// The compiler.
        compiler: PathBuf,
    },
    /// A file could not be read.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// LLVM itself refused.
    #[error("LLVM: {0}")]
    Refused(String),
}

/// A libLLVM that was loaded.
pub struct Llvm {
    api: Api,
    version: u32,
}

impl Llvm {
    /// Loads a libLLVM. It stays loaded as long as the process lives.
    pub fn load(library: &Path) -> Result<Self, LlvmError> {
        let api = Api::load(library)?;
        let (mut version, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places to write to.
        unsafe { (api.LLVMGetVersion)(&mut version, &mut minor, &mut patch) };
        if !SUPPORTED.contains(&version) {
            return Err(LlvmError::Version { library: library.to_owned(), found: version });
        }
        // Without one of them variables would silently have no names.
        if api.LLVMDbgRecordGetKind.is_none() && api.LLVMSetIsNewDbgInfoFormat.is_none() {
            return Err(LlvmError::Lacks { library: library.to_owned(), symbol: "LLVMDbgRecordGetKind" });
        }
        Ok(Self { api, version })
    }

    /// Its major version.
    pub fn version(&self) -> u32 {
        self.version
    }
}

/// The text at a pointer that LLVM gave, with its length; empty where there is none.
///
/// # Safety
///
/// `text` is null or points to `bytes` bytes that nobody changes meanwhile.
unsafe fn text<'a>(text: *const std::ffi::c_char, bytes: usize) -> std::borrow::Cow<'a, str> {
    // SAFETY: promised by the caller.
    String::from_utf8_lossy(unsafe { bytes_at(text, bytes) })
}

/// The bytes of a text.
///
/// # Safety
///
/// As of [`text`].
unsafe fn bytes_at<'a>(text: *const std::ffi::c_char, bytes: usize) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(text.cast(), bytes) }
}
