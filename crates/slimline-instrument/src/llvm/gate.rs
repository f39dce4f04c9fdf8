//! Code that asks a byte of another object, the gate, whether it is to be traced: it is open where it is 0.
//!
//! A function gets two versions, and the one with its name chooses:
//!
//! ```text
//!   f(…) { if (gate == 0) musttail return f.traced(…); … as it was … }
//! ```
//!
//! The C API can't copy a function, and the inliner can: what was `f` becomes `f.traced`, the new `f` calls it by two ways,
//! and the call where the gate is closed is inlined. All that refers to `f` refers to the new one, so that its address
//! stays one, and calls ask the gate each time, also those that `f` makes of itself.
//!
//! Both calls take their function's place on the stack (`musttail`), but where structures are given by value.
//!
//! Where a function has loops that one version may enter while the other is in it ([`crossing`](super::crossing)), both are inlined
//! and `f.traced` is gone.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use super::build::{INTEGER_EQUAL, INTERNAL};
use super::module::OF_FUNCTION;
use super::{Builder, Function, LlvmError, Module, Room, TypeKind, Value, api, text};

/// Of a call: it takes its function's place on the stack.
const MUST_TAIL: i32 = 2;
/// Of a visibility: what a local function has.
const DEFAULT: i32 = 0;
/// Of debug information's flags: the compiler made it.
const ARTIFICIAL: i32 = 1 << 6;
/// Number of a kind of metadata: `DICompileUnit`.
const COMPILE_UNIT: i32 = 16;
/// Operand of a `DISubprogram`: its name.
const NAME: usize = 2;

/// The byte.
#[derive(Clone, Copy)]
pub struct Gate<'m>(pub(super) Value<'m>);

/// The version of a function that is traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// Its name.
    pub name: String,
    /// The name of the function, which is that of the other version.
    pub function: String,
    /// It is the only one: the other calls it, whether the gate is open or not.
    pub is_alone: bool,
    /// It is in the function itself, as is the other version.
    pub is_within: bool,
}

/// A function that gives a time stamp if any is needed.
#[derive(Clone, Copy)]
pub struct Stamp<'m>(Function<'m>);

/// A function that writes a record of so many words if the gate is open, and gives the cursor to go on with.
#[derive(Clone, Copy)]
pub struct Segment<'m> {
    function: Function<'m>,
    words: usize,
}

impl Module<'_> {
    /// Declares the gate.
    pub fn add_gate(&self, name: &CStr) -> Gate<'_> {
        let api = self.api();
        // SAFETY: a whole module, a type and a name.
        Gate(Value::new(self, unsafe {
            let known = (api.LLVMGetNamedGlobal)(self.raw, name.as_ptr());
            if known.is_null() { (api.LLVMAddGlobal)(self.raw, self.integer(8), name.as_ptr()) } else { known }
        }))
    }

    /// Gives the functions of these names a version that is traced, which the gate chooses.
    pub fn put_behind(&mut self, gate: &CStr, names: &[String]) -> Result<Vec<Traced>, LlvmError> {
        let mut made = Vec::new();
        for name in names {
            let Ok(function) = CString::new(name.as_str()) else { continue };
            // SAFETY: a whole module and a name.
            let raw = unsafe { (self.api().LLVMGetNamedFunction)(self.raw, function.as_ptr()) };
            if !raw.is_null() {
                let is_within = Function(Value::new(self, raw)).has_crossings();
                made.push((self.add_version(raw, &function, gate, is_within), name.clone(), is_within));
            }
        }
        if made.is_empty() {
            return Ok(Vec::new());
        }
        self.verify()?;
        self.run_passes(c"always-inline")?;
        let traced = made.into_iter().map(|(name, function, is_within)| {
            // SAFETY: as above. No pass has removed it: it is called where the gate is open, or is about to go.
            let raw = unsafe { (self.api().LLVMGetNamedFunction)(self.raw, name.as_ptr()) };
            let calls = Value::some(self, raw).map_or(0, |traced| traced.users().len());
            if is_within && calls == 0 {
                // SAFETY: a function of this module that nothing refers to, of which nobody has a handle.
                unsafe { (self.api().LLVMDeleteFunction)(raw) };
                return Traced { name: function.clone(), function, is_alone: false, is_within };
            }
            Traced { name: name.to_string_lossy().into_owned(), function, is_alone: calls > 1, is_within: false }
        });
        Ok(traced.collect())
    }

    /// Puts a new function in the place of `old`, which it calls by two ways; the new name of `old`.
    fn add_version(&self, old: api::Value, name: &CStr, gate: &CStr, is_within: bool) -> CString {
        let api = self.api();
        let gate = self.add_gate(gate).0.raw;
        // SAFETY: everything is of this module and of the kinds that the functions ask for; the builder is ours.
        unsafe {
            let traced = [name.to_bytes(), b".traced"].concat();
            (api.LLVMSetValueName2)(old, traced.as_ptr().cast(), traced.len());
            let r#type = (api.LLVMGlobalGetValueType)(old);
            let new = (api.LLVMAddFunction)(self.raw, name.as_ptr(), r#type);
            (api.LLVMReplaceAllUsesWith)(old, new);
            self.take_over(old, new);
            let location = self.describe_version(old, new);
            let block = |name: &CStr| (api.LLVMAppendBasicBlockInContext)(self.context, new, name.as_ptr());
            let [entry, closed, open] = [c"gate", c"closed", c"open"].map(block);
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            (api.LLVMSetCurrentDebugLocation2)(builder, location);
            (api.LLVMPositionBuilderAtEnd)(builder, entry);
            let is_open = self.is_open(builder, gate);
            (api.LLVMBuildCondBr)(builder, is_open, open, closed);
            for (block, is_inlined) in [(closed, true), (open, is_within)] {
                (api.LLVMPositionBuilderAtEnd)(builder, block);
                let call = self.call_in_place(builder, old, new);
                if is_inlined {
                    (api.LLVMAddCallSiteAttribute)(call, OF_FUNCTION, self.attribute("alwaysinline"));
                }
            }
            (api.LLVMDisposeBuilder)(builder);
            let mut bytes = 0;
            let name = (api.LLVMGetValueName2)(old, &mut bytes);
            CString::new(text(name, bytes).as_bytes()).unwrap_or_default()
        }
    }

    /// Whether the byte at `gate` is 0.
    ///
    /// # Safety
    ///
    /// The builder stands at the end of a block, and the gate is a pointer, both of this module.
    pub(super) unsafe fn is_open(&self, builder: *mut api::BuilderRaw, gate: api::Value) -> api::Value {
        let api = self.api();
        // SAFETY: promised by the caller.
        unsafe {
            let byte = (api.LLVMBuildLoad2)(builder, self.integer(8), gate, c"".as_ptr());
            // Somebody else opens and closes it.
            (api.LLVMSetVolatile)(byte, 1);
            (api.LLVMBuildICmp)(builder, INTEGER_EQUAL, byte, self.constant(8, 0), c"".as_ptr())
        }
    }

    /// Gives `new` all that others see of `old`, which becomes this module's own.
    ///
    /// # Safety
    ///
    /// Both are functions of this module and of one type.
    unsafe fn take_over(&self, old: api::Value, new: api::Value) {
        let api = self.api();
        let debug = self.metadata_kind("dbg");
        // SAFETY: promised by the caller; lists have as many entries as they are said to have.
        unsafe {
            (api.LLVMSetFunctionCallConv)(new, (api.LLVMGetFunctionCallConv)(old));
            (api.LLVMSetLinkage)(new, (api.LLVMGetLinkage)(old));
            (api.LLVMSetVisibility)(new, (api.LLVMGetVisibility)(old));
            (api.LLVMSetUnnamedAddress)(new, (api.LLVMGetUnnamedAddress)(old));
            (api.LLVMSetAlignment)(new, (api.LLVMGetAlignment)(old));
            let section = (api.LLVMGetSection)(old);
            if !section.is_null() && *section != 0 {
                (api.LLVMSetSection)(new, section);
            }
            let comdat = (api.LLVMGetComdat)(old);
            if !comdat.is_null() {
                (api.LLVMSetComdat)(new, comdat);
            }
            for index in self.attribute_indices(old) {
                for attribute in self.attributes(old, index) {
                    (api.LLVMAddAttributeAtIndex)(new, index, attribute);
                }
            }
            let always = self.attribute_kind("alwaysinline");
            for function in [old, new] {
                Function(Value::new(self, function)).remove_attribute(always);
            }
            let mut count = 0;
            let entries = (api.LLVMGlobalCopyAllMetadata)(old, &mut count);
            for n in 0..count as u32 {
                let kind = (api.LLVMValueMetadataEntriesGetKind)(entries, n);
                if kind != debug {
                    (api.LLVMGlobalSetMetadata)(new, kind, (api.LLVMValueMetadataEntriesGetMetadata)(entries, n));
                }
            }
            (api.LLVMDisposeValueMetadataEntries)(entries);
            (api.LLVMSetVisibility)(old, DEFAULT);
            (api.LLVMSetLinkage)(old, INTERNAL);
        }
    }

    /// Describes `new` in debug information, as a function of the compiler's into which the other is inlined; a description
    /// is of one function only. Gives a position in it; null where `old` has none.
    ///
    /// # Safety
    ///
    /// Both are functions of this module.
    unsafe fn describe_version(&self, old: api::Value, new: api::Value) -> api::Metadata {
        let api = self.api();
        let Some(described) = Function(Value::new(self, old)).subprogram() else { return null_mut() };
        let operands = described.operands();
        let unit = operands.iter().enumerate().find_map(|(number, operand)| {
            let operand = operand.map(Value::as_metadata)?;
            (operand.number() == COMPILE_UNIT).then_some((number as u32, operand.raw))
        });
        let Some((number, unit)) = unit else { return null_mut() };
        let (name, linked) = (described.operand_text(NAME), Value::new(self, new).name());
        // SAFETY: promised by the caller; the description is a function's. A new one lacks its unit only, which is put where
        // the other has it.
        unsafe {
            let file = (api.LLVMDIScopeGetFile)(described.raw);
            let line = (api.LLVMDISubprogramGetLine)(described.raw);
            let made = self.with_debug_builder(|builder| {
                let r#type = (api.LLVMDIBuilderCreateSubroutineType)(builder, file, null_mut(), 0, 0);
                let [(name, name_bytes), (linked, linked_bytes)] =
                    [&name, &linked].map(|it| (it.as_ptr().cast(), it.len()));
                (api.LLVMDIBuilderCreateFunction)(
                    builder,
                    file,
                    name,
                    name_bytes,
                    linked,
                    linked_bytes,
                    file,
                    line,
                    r#type,
                    1,
                    1,
                    line,
                    ARTIFICIAL,
                    1,
                )
            });
            let wrapped = (api.LLVMMetadataAsValue)(self.context, made);
            (api.LLVMReplaceMDNodeOperandWith)(wrapped, number, unit);
            (api.LLVMSetSubprogram)(new, made);
            (api.LLVMDIBuilderCreateDebugLocation)(self.context, line, 0, made, null_mut())
        }
    }

    /// Calls `callee` with the arguments of `caller`, in its place, and returns what it does.
    ///
    /// # Safety
    ///
    /// Both are functions of this module and of one type without variable arguments; the builder stands in the caller, at
    /// the end of a block.
    unsafe fn call_in_place(
        &self,
        builder: *mut api::BuilderRaw,
        callee: api::Value,
        caller: api::Value,
    ) -> api::Value {
        let api = self.api();
        // SAFETY: promised by the caller.
        unsafe {
            let r#type = (api.LLVMGlobalGetValueType)(callee);
            let mut arguments: Vec<_> =
                (0..(api.LLVMCountParams)(caller)).map(|n| (api.LLVMGetParam)(caller, n)).collect();
            let count = arguments.len() as u32;
            let call = (api.LLVMBuildCall2)(builder, r#type, callee, arguments.as_mut_ptr(), count, c"".as_ptr());
            (api.LLVMSetInstructionCallConv)(call, (api.LLVMGetFunctionCallConv)(callee));
            if !Function(Value::new(self, callee)).takes_copies() {
                (api.LLVMSetTailCallKind)(call, MUST_TAIL);
            }
            // How arguments are given is part of a call.
            for index in self.attribute_indices(callee).filter(|index| *index != OF_FUNCTION) {
                for attribute in self.attributes(callee, index) {
                    (api.LLVMAddCallSiteAttribute)(call, index, attribute);
                }
            }
            let is_void = Value::new(self, call).r#type().kind() == TypeKind::Void;
            if is_void {
                (api.LLVMBuildRetVoid)(builder)
            } else {
                (api.LLVMBuildRet)(builder, call)
            };
            call
        }
    }

    /// Where a function may have attributes: it itself, its result, its parameters.
    ///
    /// # Safety
    ///
    /// It is a function of this module.
    unsafe fn attribute_indices(&self, function: api::Value) -> impl Iterator<Item = u32> {
        // SAFETY: promised by the caller.
        let parameters = unsafe { (self.api().LLVMCountParams)(function) };
        std::iter::once(OF_FUNCTION).chain(0..=parameters)
    }

    /// # Safety
    ///
    /// It is a function of this module, and the index one of [`Self::attribute_indices`].
    unsafe fn attributes(&self, function: api::Value, index: u32) -> Vec<*mut api::AttributeRaw> {
        let api = self.api();
        // SAFETY: promised by the caller; as many places to write to as there are attributes.
        unsafe {
            let mut attributes = vec![null_mut(); (api.LLVMGetAttributeCountAtIndex)(function, index) as usize];
            (api.LLVMGetAttributesAtIndex)(function, index, attributes.as_mut_ptr());
            attributes
        }
    }
}

impl Function<'_> {
    /// Whether it takes arguments as copies in memory, which a call in a function's place would not keep apart.
    pub fn takes_copies(self) -> bool {
        let Value { module, raw } = self.0;
        let (api, by_value) = (module.api(), module.attribute_kind("byval"));
        // SAFETY: a function and its parameters, which are numbered from 1.
        unsafe {
            let mut parameters = 1..=(api.LLVMCountParams)(raw);
            parameters.any(|index| !(api.LLVMGetEnumAttributeAtIndex)(raw, index, by_value).is_null())
        }
    }
}

impl<'m> Gate<'m> {
    /// The function that gives the time stamp counter if the byte `offset` behind the gate is set, else `none`; to be inlined
    /// everywhere. The counter is read once everything before it was, if `waits`; else it may be read before that.
    ///
    /// ```text
    /// i64 stamp() { if (gate[offset] == 0) return none; lfence(); return rdtsc(); }
    /// ```
    pub fn add_stamp(self, offset: u64, none: u64, waits: bool) -> Stamp<'m> {
        let module = self.0.module;
        let api = module.api();
        // SAFETY: everything is of this module and of the types that the functions ask for; the builder is ours.
        Stamp(Function(Value::new(module, unsafe {
            let r#type = (api.LLVMFunctionType)(module.integer(64), null_mut(), 0, 0);
            let fence_type = (api.LLVMFunctionType)((api.LLVMVoidTypeInContext)(module.context), null_mut(), 0, 0);
            let intrinsic = |name: &CStr, r#type| {
                let known = (api.LLVMGetNamedFunction)(module.raw, name.as_ptr());
                if known.is_null() { (api.LLVMAddFunction)(module.raw, name.as_ptr(), r#type) } else { known }
            };
            let fence = intrinsic(c"llvm.x86.sse2.lfence", fence_type);
            let counter = intrinsic(c"llvm.readcyclecounter", r#type);
            let function = (api.LLVMAddFunction)(module.raw, c"slimline.stamp".as_ptr(), r#type);
            (api.LLVMSetLinkage)(function, INTERNAL);
            for name in ["alwaysinline", "nounwind"] {
                (api.LLVMAddAttributeAtIndex)(function, OF_FUNCTION, module.attribute(name));
            }
            let block = |name: &CStr| (api.LLVMAppendBasicBlockInContext)(module.context, function, name.as_ptr());
            let [entry, alone, several] = [c"entry", c"alone", c"several"].map(block);
            let builder = (api.LLVMCreateBuilderInContext)(module.context);
            (api.LLVMPositionBuilderAtEnd)(builder, entry);
            let byte = module.further(builder, self.0.raw, offset);
            let is_alone = module.is_open(builder, byte);
            (api.LLVMBuildCondBr)(builder, is_alone, alone, several);
            (api.LLVMPositionBuilderAtEnd)(builder, alone);
            (api.LLVMBuildRet)(builder, module.constant(64, none));
            (api.LLVMPositionBuilderAtEnd)(builder, several);
            if waits {
                (api.LLVMBuildCall2)(builder, fence_type, fence, null_mut(), 0, c"".as_ptr());
            }
            let stamp = (api.LLVMBuildCall2)(builder, r#type, counter, null_mut(), 0, c"".as_ptr());
            (api.LLVMBuildRet)(builder, stamp);
            (api.LLVMDisposeBuilder)(builder);
            function
        })))
    }

    /// The function that writes records of `words` words where this gate is open, to be inlined everywhere; `room` gives a
    /// cursor with room behind it.
    ///
    /// ```text
    /// ptr segment(ptr cursor, i64 word, …) {
    ///     if (gate != 0) return cursor;
    ///     cursor = room(cursor);
    ///     cursor[0] = word;
    ///     …
    ///     return cursor + words;
    /// }
    /// ```
    pub fn add_segment(self, room: Room<'m>, words: usize) -> Segment<'m> {
        let module = self.0.module;
        let api = module.api();
        // SAFETY: everything is of this module and of the types that the functions ask for; the builder is ours.
        let function = unsafe {
            let mut parameters = vec![module.integer(64); 1 + words];
            parameters[0] = module.pointer();
            let count = parameters.len() as u32;
            let r#type = (api.LLVMFunctionType)(module.pointer(), parameters.as_mut_ptr(), count, 0);
            let function = (api.LLVMAddFunction)(module.raw, c"slimline.segment".as_ptr(), r#type);
            (api.LLVMSetLinkage)(function, INTERNAL);
            for name in ["alwaysinline", "nounwind"] {
                (api.LLVMAddAttributeAtIndex)(function, OF_FUNCTION, module.attribute(name));
            }
            let block = |name: &CStr| (api.LLVMAppendBasicBlockInContext)(module.context, function, name.as_ptr());
            let [entry, closed, open] = [c"entry", c"closed", c"open"].map(block);
            let builder = (api.LLVMCreateBuilderInContext)(module.context);
            let cursor = (api.LLVMGetParam)(function, 0);
            (api.LLVMPositionBuilderAtEnd)(builder, entry);
            let is_open = module.is_open(builder, self.0.raw);
            (api.LLVMBuildCondBr)(builder, is_open, open, closed);
            (api.LLVMPositionBuilderAtEnd)(builder, closed);
            (api.LLVMBuildRet)(builder, cursor);
            (api.LLVMPositionBuilderAtEnd)(builder, open);
            let mut at = module.call(builder, room.function.0.raw, cursor);
            for word in 0..words as u32 {
                let store = (api.LLVMBuildStore)(builder, (api.LLVMGetParam)(function, 1 + word), at);
                (api.LLVMSetAlignment)(store, 8);
                at = module.further(builder, at, 8);
            }
            (api.LLVMBuildRet)(builder, at);
            (api.LLVMDisposeBuilder)(builder);
            function
        };
        Segment { function: Function(Value::new(module, function)), words }
    }
}

impl<'m> Builder<'m> {
    /// A time stamp.
    pub fn call_stamp(&self, stamp: Stamp<'m>) -> Value<'m> {
        let api = self.module.api();
        let function = stamp.0.0.raw;
        // SAFETY: the builder stands somewhere; a function of this module, without arguments.
        Value::new(self.module, unsafe {
            let r#type = (api.LLVMGlobalGetValueType)(function);
            (api.LLVMBuildCall2)(self.raw, r#type, function, null_mut(), 0, c"".as_ptr())
        })
    }

    /// The cursor to go on with after these words, pointers or 64-bit integers. Words that the segment does not have are
    /// left out, those that it lacks are zero.
    pub fn call_segment(&self, segment: Segment<'m>, cursor: Value<'m>, words: &[Value<'m>]) -> Value<'m> {
        let module = self.module;
        let api = module.api();
        let mut arguments = vec![module.constant(64, 0); 1 + segment.words];
        arguments[0] = cursor.raw;
        // SAFETY: the builder stands somewhere; as many arguments as the function takes, of the types that it takes.
        unsafe {
            for (argument, word) in arguments[1..].iter_mut().zip(words) {
                *argument = match word.r#type().kind() {
                    TypeKind::Pointer => (api.LLVMBuildPtrToInt)(self.raw, word.raw, module.integer(64), c"".as_ptr()),
                    _ => word.raw,
                };
            }
            let function = segment.function.0.raw;
            let r#type = (api.LLVMGlobalGetValueType)(function);
            let count = arguments.len() as u32;
            let end = (api.LLVMBuildCall2)(self.raw, r#type, function, arguments.as_mut_ptr(), count, c"".as_ptr());
            Value::new(module, end)
        }
    }
}
