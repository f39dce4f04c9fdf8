//! Native code of a module, where its compiler does not make code of bitcode itself: rustc does not. And passes that ask what
//! processor the code is for.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;

use super::api::{self, Api};
use super::module::{c_path, taken};
use super::{Function, LlvmError, Module};

/// Code that may lie anywhere, also in a shared object.
const POSITION_INDEPENDENT: i32 = 2;
/// The code model that the target has by itself.
const USUAL_MODEL: i32 = 0;
/// An object, and not assembly.
const OBJECT: i32 = 1;

/// How much the code generator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeLevel {
    /// As little as it can.
    None = 0,
    /// A little.
    Less = 1,
    /// As usual.
    Default = 2,
    /// All it can.
    Most = 3,
}

impl CodeLevel {
    /// As its number says; that of `-C opt-level=s` and what else there is as usual.
    pub fn parse(text: &str) -> Self {
        match text {
            "0" => Self::None,
            "1" => Self::Less,
            "3" => Self::Most,
            _ => Self::Default,
        }
    }
}

impl Module<'_> {
    /// Has its object hold the content of a file in a section that linkers leave out of what they make.
    pub fn hold(&self, section: &str, file: &Path) {
        let quoted = file.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!(".pushsection {section},\"e\",@progbits\n.incbin \"{quoted}\"\n.popsection\n");
        // SAFETY: a whole module, and a text with its length.
        unsafe { (self.api().LLVMAppendModuleInlineAsm)(self.raw, text.as_ptr().cast(), text.len()) };
    }

    /// Writes the object of this module. Each function gets a section of its own, so that linkers can leave it out.
    pub fn write_object(&self, file: &Path, level: CodeLevel) -> Result<(), LlvmError> {
        let api = self.api();
        for function in self.defined_functions() {
            self.give_section(function);
        }
        let failed = |reason| LlvmError::File { file: file.to_owned(), reason };
        let path = c_path(file)?;
        let mut message = null_mut();
        // SAFETY: a whole module, texts that end in NUL, places to write to; the machine is disposed of once it was used.
        let has_failed = unsafe {
            let machine = self.machine(level)?;
            let has_failed =
                (api.LLVMTargetMachineEmitToFile)(machine, self.raw, path.as_ptr(), OBJECT, &mut message) != 0;
            (api.LLVMDisposeTargetMachine)(machine);
            has_failed
        };
        if has_failed {
            return Err(failed(taken(api, message)));
        }
        self.last_complaint().map_or(Ok(()), |complaint| Err(failed(complaint)))
    }

    /// As [`Self::run_passes`], with passes that ask for the machine.
    pub(super) fn run_passes_for_machine(&mut self, passes: &CStr, level: CodeLevel) -> Result<(), LlvmError> {
        // SAFETY: the machine is disposed of once it was used.
        unsafe {
            let machine = self.machine(level)?;
            let done = self.run_passes_with(passes, machine);
            (self.api().LLVMDisposeTargetMachine)(machine);
            done
        }
    }

    /// The machine that the module's functions are for.
    ///
    /// # Safety
    ///
    /// It must be disposed of before the module.
    unsafe fn machine(&self, level: CodeLevel) -> Result<*mut api::TargetMachine, LlvmError> {
        let api = self.api();
        start(api);
        // What each function has of its own is used for it; this is for assembly outside of functions.
        let [processor, features] =
            ["target-cpu", "target-features"].map(|name| CString::new(self.first_attribute(name)).unwrap_or_default());
        let mut target = null_mut();
        let mut message = null_mut();
        // SAFETY: the triple is the module's and ends in NUL, as do the others; two places to write to.
        unsafe {
            let triple = (api.LLVMGetTarget)(self.raw);
            if (api.LLVMGetTargetFromTriple)(triple, &mut target, &mut message) != 0 {
                return Err(LlvmError::Refused(taken(api, message)));
            }
            let machine = (api.LLVMCreateTargetMachine)(
                target,
                triple,
                processor.as_ptr(),
                features.as_ptr(),
                level as i32,
                POSITION_INDEPENDENT,
                USUAL_MODEL,
            );
            if machine.is_null() {
                Err(LlvmError::Refused("no code generator for x86-64".to_owned()))
            } else {
                Ok(machine)
            }
        }
    }

    /// The attribute of this name of the first function that has it; empty where none has.
    fn first_attribute(&self, name: &str) -> String {
        let functions = self.defined_functions();
        functions.into_iter().find_map(|function| function.text_attribute(name)).unwrap_or_default()
    }

    /// `.text.name`, unless it is to be somewhere else. The C API has no other way to ask for sections of functions.
    fn give_section(&self, function: Function<'_>) {
        let api = self.api();
        let raw = function.value().raw;
        let Ok(section) = CString::new(format!(".text.{}", function.value().name())) else { return };
        // SAFETY: a function and a name that ends in NUL.
        unsafe {
            let own = (api.LLVMGetSection)(raw);
            if own.is_null() || *own == 0 {
                (api.LLVMSetSection)(raw, section.as_ptr());
            }
        }
    }
}

/// Makes the code generator known to LLVM; more than once does nothing.
fn start(api: &Api) {
    // SAFETY: they take nothing and may be called again.
    unsafe {
        (api.LLVMInitializeX86TargetInfo)();
        (api.LLVMInitializeX86Target)();
        (api.LLVMInitializeX86TargetMC)();
        (api.LLVMInitializeX86AsmPrinter)();
        (api.LLVMInitializeX86AsmParser)();
    }
}
