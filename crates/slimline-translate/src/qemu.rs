//! QEMU's functions for plugins, looked up when the plugin is loaded.
//!
//! They are exported by the program itself. A plugin says which version of them it was written for; version 1 (QEMU 6.0 to 8.2) and those
//! from 2 on (9.0) have what is used here alike.
#![allow(unsafe_code)] // foreign functions

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// A plugin's number.
pub(crate) type Id = u64;
/// A block that is translated.
#[repr(C)]
pub(crate) struct Block([u8; 0]);
/// One of its instructions.
#[repr(C)]
pub(crate) struct Instruction([u8; 0]);

/// The first fields of what a plugin is told of QEMU.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) target: *const c_char,
    pub(crate) least_version: c_int,
    pub(crate) version: c_int,
    pub(crate) is_system: bool,
}

/// Called for each access: the virtual CPU, what kind it is, its address, and what was asked for.
pub(crate) type OnAccess = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Called for each time that an instruction runs: the virtual CPU, and what was asked for.
pub(crate) type OnInstruction = unsafe extern "C" fn(c_uint, *mut c_void);
/// Called for each virtual CPU that begins.
pub(crate) type OnCpu = unsafe extern "C" fn(Id, c_uint);
/// Called for each system call, before it is done: the virtual CPU, its number and its arguments.
pub(crate) type OnSystemCall = unsafe extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// Called for each block that is translated.
pub(crate) type OnBlock = unsafe extern "C" fn(Id, *mut Block);

/// The value of the access that QEMU calls for just now, by its kind.
pub(crate) type TellValue = unsafe extern "C" fn(u32) -> Value;

/// A value, and how many bytes of it count: the binary logarithm of that.
#[repr(C)]
pub(crate) struct Value {
    shift: c_int,
    words: [u64; 2],
}

impl Value {
    /// As one word, zeros above it; none of what is larger.
    pub(crate) fn word(&self) -> Option<u64> {
        let unused = 64_u32.checked_sub(8 << u32::try_from(self.shift).ok().filter(|shift| *shift <= 3)?)?;
        Some(self.words[0] << unused >> unused)
    }
}

/// Of a call for accesses: loads and stores. Those for one of them only are not what they say in version 7.2.
pub(crate) const READS_AND_WRITES: c_int = 3;

/// Which version of the functions the plugin was written for.
#[unsafe(no_mangle)]
static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// QEMU 9.0 refuses version 1, and looks at the number right after the plugin's constructors have run.
#[used]
#[unsafe(link_section = ".init_array")]
static SAY_VERSION: extern "C" fn() = {
    extern "C" fn say_version() {
        if !look_up(c"qemu_plugin_scoreboard_new").is_null() {
            qemu_plugin_version.store(2, Ordering::Relaxed);
        }
    }
    say_version
};

fn look_up(name: &std::ffi::CStr) -> *mut c_void {
    // SAFETY: a string; the program stays loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// What tells values, since version 9.2.
pub(crate) fn tells_values() -> Option<TellValue> {
    let found = look_up(c"qemu_plugin_mem_get_value");
    // SAFETY: QEMU declares the function of that name so in all versions that have it.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, TellValue>(found) })
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)+) => {
        /// What is used of them.
        #[derive(Clone, Copy)]
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: $type,)+
        }

        impl Functions {
            /// All of them, or the name of one that is missing.
            pub(crate) fn look_up() -> Result<Self, &'static str> {
                $(
                    let $name = {
                        const NAME: &str = concat!("qemu_plugin_", stringify!($name), "\0");
                        let found = std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()).map_or(std::ptr::null_mut(), look_up);
                        if found.is_null() {
                            return Err(NAME.trim_end_matches('\0'));
                        }
                        // SAFETY: QEMU declares the function of that name so in all versions that have it.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                    };
                )+
                Ok(Self { $($name,)+ })
            }
        }
    };
}

functions! {
    /// Asks for blocks.
    register_vcpu_tb_trans_cb: unsafe extern "C" fn(Id, OnBlock),
    /// Asks for virtual CPUs.
    register_vcpu_init_cb: unsafe extern "C" fn(Id, OnCpu),
    /// Asks for system calls.
    register_vcpu_syscall_cb: unsafe extern "C" fn(Id, OnSystemCall),
    /// Asks for an instruction.
    register_vcpu_insn_exec_cb: unsafe extern "C" fn(*mut Instruction, OnInstruction, c_int, *mut c_void),
    /// Asks for accesses of an instruction.
    register_vcpu_mem_cb: unsafe extern "C" fn(*mut Instruction, OnAccess, c_int, c_int, *mut c_void),
    /// Instructions of a block.
    tb_n_insns: unsafe extern "C" fn(*const Block) -> usize,
    /// One of them.
    tb_get_insn: unsafe extern "C" fn(*const Block, usize) -> *mut Instruction,
    /// Its address in the program.
    insn_vaddr: unsafe extern "C" fn(*const Instruction) -> u64,
    /// In QEMU.
    insn_haddr: unsafe extern "C" fn(*const Instruction) -> *const u8,
    /// Its bytes.
    insn_size: unsafe extern "C" fn(*const Instruction) -> usize,
    /// Of an access, the binary logarithm of its bytes.
    mem_size_shift: unsafe extern "C" fn(u32) -> c_uint,
    /// Whether it stores; of one that loads and stores at once, too.
    mem_is_store: unsafe extern "C" fn(u32) -> bool,
}
