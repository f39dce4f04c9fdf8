//! A module: read from bitcode, verified, put through passes, written.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr::{self, null_mut};

use super::api::{Api, Context, DiBuilder, DiagnosticInfo, ModuleRaw, TargetData, TargetMachine};
use super::{Llvm, LlvmError, Metadata, Value, text};

/// Of a severity: an error. Warnings and remarks come after it.
const ERROR: i32 = 0;
/// Of a linkage: there is a body to look at, but the function is another object's.
const AVAILABLE_EXTERNALLY: i32 = 1;
/// Index of attributes that are the function's and no argument's.
pub(super) const OF_FUNCTION: u32 = u32::MAX;

/// A translation unit in memory.
pub struct Module<'l> {
    pub(super) llvm: &'l Llvm,
    pub(super) context: *mut Context,
    pub(super) raw: *mut ModuleRaw,
    pub(super) layout: *mut TargetData,
    /// LLVM's handler of errors has a pointer to it.
    complaints: Box<Complaints>,
}

/// A function of the module: a [`Value`] that is known to be one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function<'m>(pub(super) Value<'m>);

/// Collects errors; without it LLVM would end the process.
unsafe extern "C" fn complain(info: *mut DiagnosticInfo, place: *mut c_void) {
    // SAFETY: `place` is a module's `Complaints`, which outlive its context, as does the library. The diagnostic was just
    // made, and its description is ours to dispose of. Nobody borrows the list while LLVM runs.
    unsafe {
        let Complaints { api, list } = &*place.cast::<Complaints>();
        let api = &**api;
        if (api.LLVMGetDiagInfoSeverity)(info) == ERROR {
            let message = (api.LLVMGetDiagInfoDescription)(info);
            list.borrow_mut().push(CStr::from_ptr(message).to_string_lossy().into_owned());
            (api.LLVMDisposeMessage)(message);
        }
    }
}

/// What LLVM complained of, and how to ask it.
struct Complaints {
    api: *const Api,
    list: RefCell<Vec<String>>,
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        let api = self.api();
        // SAFETY: handles borrow the module, so none is left. A module is disposed of before its context.
        unsafe {
            if !self.raw.is_null() {
                (api.LLVMDisposeModule)(self.raw);
            }
            (api.LLVMContextDispose)(self.context);
        }
    }
}

impl<'l> Module<'l> {
    /// Reads a file of bitcode.
    pub fn read(llvm: &'l Llvm, file: &Path) -> Result<Self, LlvmError> {
        let api = &llvm.api;
        let failed = |reason: String| LlvmError::File { file: file.to_owned(), reason };
        let path = c_path(file)?;
        let mut buffer = null_mut();
        let mut message = null_mut();
        // SAFETY: a path that ends in NUL and two places to write to.
        if unsafe { (api.LLVMCreateMemoryBufferWithContentsOfFile)(path.as_ptr(), &mut buffer, &mut message) } != 0 {
            return Err(failed(taken(api, message)));
        }
        // SAFETY: no arguments.
        let context = unsafe { (api.LLVMContextCreate)() };
        let complaints = Box::new(Complaints { api, list: RefCell::default() });
        let mut module = Self { llvm, context, raw: null_mut(), layout: null_mut(), complaints };
        // SAFETY: the context is new; what the handler is given stays where it is until the context is gone. The buffer was just made, is only read, and is ours to dispose of.
        let refused = unsafe {
            let place = ptr::from_ref(&*module.complaints).cast_mut().cast();
            (api.LLVMContextSetDiagnosticHandler)(context, Some(complain), place);
            let refused = (api.LLVMParseBitcodeInContext2)(context, buffer, &mut module.raw);
            (api.LLVMDisposeMemoryBuffer)(buffer);
            refused
        };
        if refused != 0 {
            module.raw = null_mut();
            return Err(failed(module.complaint("no bitcode of this version")));
        }
        // SAFETY: a module that was just read; its layout lives as long.
        module.layout = unsafe { (api.LLVMGetModuleDataLayout)(module.raw) };
        Ok(module)
    }

    pub(super) fn api(&self) -> &'l Api {
        &self.llvm.api
    }

    /// The LLVM it is in.
    pub fn llvm(&self) -> &'l Llvm {
        self.llvm
    }

    /// The last error that was complained of.
    pub(super) fn last_complaint(&self) -> Option<String> {
        self.complaints.list.borrow().last().cloned()
    }

    fn complaint(&self, otherwise: &str) -> String {
        self.last_complaint().unwrap_or_else(|| otherwise.to_owned())
    }

    /// Writes it as bitcode.
    pub fn write(&self, file: &Path) -> Result<(), LlvmError> {
        let path = c_path(file)?;
        // SAFETY: a whole module and a path that ends in NUL.
        if unsafe { (self.api().LLVMWriteBitcodeToFile)(self.raw, path.as_ptr()) } != 0 {
            return Err(LlvmError::File { file: file.to_owned(), reason: "can't be written".to_owned() });
        }
        Ok(())
    }

    /// Checks that it is well-formed.
    pub fn verify(&self) -> Result<(), LlvmError> {
        const RETURN_STATUS: i32 = 2;
        let mut message = null_mut();
        // SAFETY: a whole module and a place to write to.
        let broken = unsafe { (self.api().LLVMVerifyModule)(self.raw, RETURN_STATUS, &mut message) } != 0;
        let message = taken(self.api(), message);
        if broken {
            return Err(LlvmError::Refused(message.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(())
    }

    /// Runs passes, in the language of `opt -passes=`. They change and erase what they like: no handle survives.
    pub fn run_passes(&mut self, passes: &CStr) -> Result<(), LlvmError> {
        // SAFETY: no machine, which these passes do not ask for.
        unsafe { self.run_passes_with(passes, null_mut()) }
    }

    /// The same, with a machine for passes that ask for one.
    ///
    /// # Safety
    ///
    /// The machine is null or a whole one.
    pub(super) unsafe fn run_passes_with(
        &mut self,
        passes: &CStr,
        machine: *mut TargetMachine,
    ) -> Result<(), LlvmError> {
        let api = self.api();
        // SAFETY: a whole module that nobody has handles of; the machine is promised by the caller. A message of an error is
        // ours to dispose of, and takes the error with it.
        unsafe {
            let options = (api.LLVMCreatePassBuilderOptions)();
            let error = (api.LLVMRunPasses)(self.raw, passes.as_ptr(), machine, options);
            (api.LLVMDisposePassBuilderOptions)(options);
            if error.is_null() {
                return Ok(());
            }
            let message = (api.LLVMGetErrorMessage)(error);
            let refused = LlvmError::Refused(CStr::from_ptr(message).to_string_lossy().into_owned());
            (api.LLVMDisposeErrorMessage)(message);
            Err(refused)
        }
    }

    /// Changes how variables are told, where LLVM knows both ways: as calls, which can be read, or as records.
    /// Handles to such calls must not be kept.
    pub fn tell_variables_by_calls(&mut self, by_calls: bool) {
        if let (None, Some(set)) = (self.api().LLVMDbgRecordGetKind, self.api().LLVMSetIsNewDbgInfoFormat) {
            // SAFETY: a whole module that nobody has handles of.
            unsafe { set(self.raw, i32::from(!by_calls)) };
        }
    }

    /// The target's triple.
    pub fn target(&self) -> String {
        // SAFETY: a whole module; the text ends in NUL and lives as long.
        unsafe { CStr::from_ptr((self.api().LLVMGetTarget)(self.raw)) }.to_string_lossy().into_owned()
    }

    /// The source file, as the compiler was given it.
    pub fn source(&self) -> String {
        let mut bytes = 0;
        // SAFETY: a whole module; the text has this length and is copied before anything changes.
        unsafe { text((self.api().LLVMGetSourceFileName)(self.raw, &mut bytes), bytes) }.into_owned()
    }

    /// Functions that it has or calls by name.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let api = self.api();
        let mut functions = Vec::new();
        // SAFETY: a whole module; the list ends in null.
        let mut raw = unsafe { (api.LLVMGetFirstFunction)(self.raw) };
        while !raw.is_null() {
            functions.push(Function(Value::new(self, raw)));
            // SAFETY: a function of this module.
            raw = unsafe { (api.LLVMGetNextFunction)(raw) };
        }
        functions
    }

    /// Functions that have a body which goes into this object.
    pub fn defined_functions(&self) -> Vec<Function<'_>> {
        let api = self.api();
        let is_here = |function: &Function<'_>| {
            let raw = function.value().raw;
            // SAFETY: a function of this module.
            let (is_declared, linkage) = unsafe { ((api.LLVMIsDeclaration)(raw), (api.LLVMGetLinkage)(raw)) };
            is_declared == 0 && linkage != AVAILABLE_EXTERNALLY
        };
        self.functions().into_iter().filter(is_here).collect()
    }

    /// Has all that refers to another object's function `name` refer to `instead`.
    pub fn redirect(&self, name: &CStr, instead: &CStr) {
        let api = self.api();
        // SAFETY: a whole module and names that end in NUL; functions of this module, which are pointers of one type.
        unsafe {
            let function = (api.LLVMGetNamedFunction)(self.raw, name.as_ptr());
            if function.is_null() || (api.LLVMIsDeclaration)(function) == 0 {
                return;
            }
            let there = (api.LLVMGetNamedFunction)(self.raw, instead.as_ptr());
            if there.is_null() {
                (api.LLVMSetValueName2)(function, instead.as_ptr(), instead.count_bytes());
            } else {
                (api.LLVMReplaceAllUsesWith)(function, there);
            }
        }
    }

    /// Functions that the dynamic linker calls to choose others, before thread-local storage can be relied on.
    pub fn resolvers(&self) -> Vec<Function<'_>> {
        let api = self.api();
        let mut functions = Vec::new();
        // SAFETY: a whole module; the list ends in null.
        let mut raw = unsafe { (api.LLVMGetFirstGlobalIFunc)(self.raw) };
        while !raw.is_null() {
            // SAFETY: an ifunc of this module, whose resolver is a function or a constant made of one.
            unsafe {
                let resolver = (api.LLVMGetGlobalIFuncResolver)(raw);
                functions.extend(Value::some(self, resolver).and_then(Value::as_function));
                raw = (api.LLVMGetNextGlobalIFunc)(raw);
            }
        }
        functions
    }

    /// What a named list of metadata holds, such as `llvm.dbg.cu`.
    pub fn named_metadata(&self, name: &CStr) -> Vec<Metadata<'_>> {
        let api = self.api();
        // SAFETY: a whole module, and as many places to write to as it says that there are operands.
        let values = unsafe {
            let count = (api.LLVMGetNamedMetadataNumOperands)(self.raw, name.as_ptr());
            let mut values = vec![null_mut(); count as usize];
            (api.LLVMGetNamedMetadataOperands)(self.raw, name.as_ptr(), values.as_mut_ptr());
            values
        };
        values.into_iter().filter_map(|value| Value::some(self, value)).map(Value::as_metadata).collect()
    }

    /// Runs `with` with a builder of debug information, for asking how LLVM would make something.
    pub(super) fn with_debug_builder<T>(&self, with: impl FnOnce(*mut DiBuilder) -> T) -> T {
        let api = self.api();
        // SAFETY: a module of its own, so that this one does not change; both are disposed of in order.
        unsafe {
            let scratch = (api.LLVMModuleCreateWithNameInContext)(c"scratch".as_ptr(), self.context);
            let builder = (api.LLVMCreateDIBuilder)(scratch);
            let result = with(builder);
            (api.LLVMDisposeDIBuilder)(builder);
            (api.LLVMDisposeModule)(scratch);
            result
        }
    }

    /// The number of a kind of metadata, such as `tbaa`.
    pub fn metadata_kind(&self, name: &str) -> u32 {
        // SAFETY: a text and its length.
        unsafe { (self.api().LLVMGetMDKindIDInContext)(self.context, name.as_ptr().cast(), name.len() as u32) }
    }

    /// The number of an attribute, such as `memory`; 0 where this LLVM does not know it.
    pub fn attribute_kind(&self, name: &str) -> u32 {
        // SAFETY: a text and its length.
        unsafe { (self.api().LLVMGetEnumAttributeKindForName)(name.as_ptr().cast(), name.len()) }
    }
}

pub(super) fn c_path(file: &Path) -> Result<CString, LlvmError> {
    use std::os::unix::ffi::OsStrExt as _;
    let refused = |_| LlvmError::File { file: file.to_owned(), reason: "a NUL in the name".to_owned() };
    CString::new(file.as_os_str().as_bytes()).map_err(refused)
}

/// The text of a message that is ours to dispose of.
pub(super) fn taken(api: &Api, message: *mut std::ffi::c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: a message that LLVM has just made, which ends in NUL.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        (api.LLVMDisposeMessage)(message);
        text
    }
}
