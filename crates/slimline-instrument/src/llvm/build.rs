//! What is added to a module.

use std::ffi::CStr;

use super::module::OF_FUNCTION;
use super::{Block, Function, Module, Opcode, TypeKind, Value, api};

const INITIAL_EXEC: i32 = 3;
const PRIVATE: i32 = 9;
pub(super) const INTERNAL: i32 = 8;
const APPENDING: i32 = 7;
const EXTERN_WEAK: i32 = 12;
pub(super) const INTEGER_EQUAL: i32 = 32;
const INTEGER_ABOVE: i32 = 34;
/// The calling convention `preserve_all`: a call keeps every register but the result's and r11.
const PRESERVE_ALL: u32 = 15;

/// Puts instructions in before others.
pub struct Builder<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) raw: *mut api::BuilderRaw,
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { (self.module.api().LLVMDisposeBuilder)(self.raw) };
    }
}

impl<'m> Builder<'m> {
    /// One for this module that stands before `at`, which must be an instruction; nothing else is.
    pub fn new(module: &'m Module<'_>, at: Value<'m>) -> Option<Self> {
        at.opcode()?;
        // SAFETY: a living context.
        let raw = unsafe { (module.api().LLVMCreateBuilderInContext)(module.context) };
        let builder = Self { module, raw };
        builder.before(at);
        Some(builder)
    }

    /// Goes on before this instruction, as part of the same line of the source. What is no instruction changes nothing.
    pub fn before(&self, instruction: Value<'m>) {
        if instruction.opcode().is_some() {
            let api = self.module.api();
            // SAFETY: an instruction in a block; a missing position is null, which is allowed.
            unsafe {
                (api.LLVMPositionBuilderBefore)(self.raw, instruction.raw);
                let location = (api.LLVMInstructionGetDebugLoc)(instruction.raw);
                (api.LLVMSetCurrentDebugLocation2)(self.raw, location);
            }
        }
    }

    /// Goes on before this instruction, as part of the line of another one.
    pub fn before_as(&self, instruction: Value<'m>, other: Value<'m>) {
        self.before(instruction);
        if other.opcode().is_some() {
            let api = self.module.api();
            // SAFETY: as above.
            unsafe {
                let location = (api.LLVMInstructionGetDebugLoc)(other.raw);
                (api.LLVMSetCurrentDebugLocation2)(self.raw, location);
            }
        }
    }

    fn value(&self, raw: api::Value) -> Value<'m> {
        Value::new(self.module, raw)
    }

    /// A 64-bit constant.
    pub fn constant(&self, number: u64) -> Value<'m> {
        self.value(self.module.constant(64, number))
    }

    /// A 32-bit constant.
    pub fn half_constant(&self, number: u32) -> Value<'m> {
        self.value(self.module.constant(32, number.into()))
    }

    /// A local variable for a pointer.
    pub fn pointer_variable(&self, name: &CStr) -> Value<'m> {
        // SAFETY: the builder stands somewhere; a type and a name.
        self.value(unsafe { (self.module.api().LLVMBuildAlloca)(self.raw, self.module.pointer(), name.as_ptr()) })
    }

    /// The pointer at `place`; itself if that is no pointer.
    pub fn load_pointer(&self, place: Value<'m>) -> Value<'m> {
        if place.r#type().kind() != TypeKind::Pointer {
            return place;
        }
        let api = self.module.api();
        // SAFETY: the builder stands somewhere; `place` is a pointer.
        self.value(unsafe { (api.LLVMBuildLoad2)(self.raw, self.module.pointer(), place.raw, c"".as_ptr()) })
    }

    /// Stores at `place`, which is a multiple of 8 and a pointer; nowhere else.
    pub fn store(&self, value: Value<'m>, place: Value<'m>) {
        if place.r#type().kind() == TypeKind::Pointer {
            let api = self.module.api();
            // SAFETY: the builder stands somewhere; a first-class value and a pointer.
            unsafe {
                let store = (api.LLVMBuildStore)(self.raw, value.raw, place.raw);
                (api.LLVMSetAlignment)(store, 8);
            }
        }
    }

    /// The pointer `bytes` further; itself if it is no pointer.
    pub fn offset(&self, pointer: Value<'m>, bytes: u64) -> Value<'m> {
        if bytes == 0 || pointer.r#type().kind() != TypeKind::Pointer {
            return pointer;
        }
        self.value(self.module.further(self.raw, pointer.raw, bytes))
    }

    /// What a call of `function` with this pointer returns, both as [`Module::add_room`] makes them.
    pub fn call_room(&self, room: Room<'m>, cursor: Value<'m>) -> Value<'m> {
        self.value(self.module.call(self.raw, room.function.0.raw, cursor.raw))
    }

    /// What the function of another object returns that gives a cursor with room behind it.
    pub fn call_next(&self, room: Room<'m>, cursor: Value<'m>) -> Value<'m> {
        let call = self.module.call(self.raw, room.next.0.raw, cursor.raw);
        // SAFETY: a call.
        unsafe { (self.module.api().LLVMSetInstructionCallConv)(call, PRESERVE_ALL) };
        self.value(call)
    }

    /// A value as one word: pointers as they are, integers with zeros before them. None for anything else.
    pub fn word(&self, value: Value<'m>) -> Option<Value<'m>> {
        let api = self.module.api();
        let r#type = value.r#type();
        match r#type.kind() {
            TypeKind::Pointer if r#type.address_space() == Some(0) => Some(value),
            TypeKind::Integer => {
                let bits = r#type.integer_bits()?;
                let wide = self.module.integer(64);
                // SAFETY: the builder stands somewhere; an integer is widened or cut.
                Some(self.value(unsafe {
                    match bits {
                        64 => value.raw,
                        ..64 => (api.LLVMBuildZExt)(self.raw, value.raw, wide, c"".as_ptr()),
                        _ => (api.LLVMBuildTrunc)(self.raw, value.raw, wide, c"".as_ptr()),
                    }
                }))
            }
            _ => None,
        }
    }

    /// The bits of a value of at most 64 as a word, with zeros before them. None of larger ones, and of vectors.
    pub fn bits_word(&self, value: Value<'m>) -> Option<Value<'m>> {
        let bits = match value.r#type().kind() {
            TypeKind::Float => 32,
            TypeKind::Double => 64,
            _ => return self.word(value),
        };
        let integer = self.module.integer(bits);
        // SAFETY: the builder stands somewhere; a number is as large as an integer of as many bits.
        let cast = unsafe { (self.module.api().LLVMBuildBitCast)(self.raw, value.raw, integer, c"".as_ptr()) };
        self.word(self.value(cast))
    }

    /// The product of two integers, as a word.
    pub fn product(&self, one: Value<'m>, other: Value<'m>) -> Option<Value<'m>> {
        let is_number = |value: Value<'m>| value.r#type().kind() == TypeKind::Integer;
        if !is_number(one) || !is_number(other) {
            return None;
        }
        let [one, other] = [self.word(one)?, self.word(other)?];
        // SAFETY: the builder stands somewhere; two 64-bit integers.
        Some(self.value(unsafe { (self.module.api().LLVMBuildMul)(self.raw, one.raw, other.raw, c"".as_ptr()) }))
    }

    /// A vector of bits, at most 64, as a word: bit n is lane n.
    pub fn mask_word(&self, mask: Value<'m>) -> Option<Value<'m>> {
        let r#type = mask.r#type();
        let lanes = r#type.lanes().filter(|lanes| *lanes <= 64)?;
        if r#type.element()?.integer_bits() != Some(1) {
            return None;
        }
        // SAFETY: the builder stands somewhere; a vector of bits is as large as an integer of as many.
        let bits = unsafe {
            (self.module.api().LLVMBuildBitCast)(self.raw, mask.raw, self.module.integer(lanes), c"".as_ptr())
        };
        self.word(self.value(bits))
    }

    /// One lane of a vector of pointers.
    pub fn lane(&self, vector: Value<'m>, lane: u64) -> Option<Value<'m>> {
        if vector.r#type().lanes().is_none_or(|lanes| lane >= u64::from(lanes)) {
            return None;
        }
        let index = self.constant(lane);
        let api = self.module.api();
        // SAFETY: the builder stands somewhere; a vector and an index in it.
        let lane = unsafe { (api.LLVMBuildExtractElement)(self.raw, vector.raw, index.raw, c"".as_ptr()) };
        self.word(self.value(lane))
    }

    /// Where the return address of the function lies, in which the builder stands.
    pub fn return_address_place(&self) -> Value<'m> {
        const NAME: &CStr = c"llvm.addressofreturnaddress.p0";
        let api = self.module.api();
        // SAFETY: the builder stands somewhere; an intrinsic of x86-64, of its type.
        self.value(unsafe {
            let r#type = (api.LLVMFunctionType)(self.module.pointer(), std::ptr::null_mut(), 0, 0);
            let known = (api.LLVMGetNamedFunction)(self.module.raw, NAME.as_ptr());
            let function =
                if known.is_null() { (api.LLVMAddFunction)(self.module.raw, NAME.as_ptr(), r#type) } else { known };
            (api.LLVMBuildCall2)(self.raw, r#type, function, std::ptr::null_mut(), 0, c"".as_ptr())
        })
    }

    /// The pointer at `place` where `status`, an integer, is zero; else null.
    pub fn pointer_if_zero(&self, status: Value<'m>, place: Value<'m>) -> Option<Value<'m>> {
        let bits = status.r#type().integer_bits()?;
        let pointer = self.load_pointer(place);
        let api = self.module.api();
        // SAFETY: the builder stands somewhere; two integers of one type are compared, and one of two pointers is chosen.
        Some(self.value(unsafe {
            let zero = self.module.constant(bits, 0);
            let null = (api.LLVMConstPointerNull)(self.module.pointer());
            let is_zero = (api.LLVMBuildICmp)(self.raw, INTEGER_EQUAL, status.raw, zero, c"".as_ptr());
            (api.LLVMBuildSelect)(self.raw, is_zero, pointer.raw, null, c"".as_ptr())
        }))
    }

    /// Bytes of the array that `descriptor`, a pointer, leads to, as flang lays descriptors out:
    ///
    /// ```text
    /// { ptr array; u64 element_bytes; u32 version; u8 rank; u8 …[3]; { i64 lower, extent, stride; } dimensions[rank]; }
    /// ```
    pub fn described_bytes(&self, descriptor: Value<'m>) -> Value<'m> {
        const MAX_RANK: u64 = 15;
        let (api, word) = (self.module.api(), self.module.integer(64));
        let number = |place: Value<'m>, r#type| {
            // SAFETY: the builder stands somewhere; a pointer and a type.
            self.value(unsafe { (api.LLVMBuildLoad2)(self.raw, r#type, place.raw, c"".as_ptr()) })
        };
        let element = self.offset(descriptor, 8);
        let rank = number(self.offset(descriptor, 20), self.module.integer(8));
        (0..MAX_RANK).fold(number(element, word), |bytes, dimension| {
            let extent = self.offset(descriptor, 32 + 24 * dimension);
            // SAFETY: the builder stands somewhere; operands of one type each.
            self.value(unsafe {
                let name = c"".as_ptr();
                let is_there =
                    (api.LLVMBuildICmp)(self.raw, INTEGER_ABOVE, rank.raw, self.module.constant(8, dimension), name);
                // Only what is there is read.
                let place = (api.LLVMBuildSelect)(self.raw, is_there, extent.raw, element.raw, name);
                let extent = number(self.value(place), word);
                let one = self.module.constant(64, 1);
                let factor = (api.LLVMBuildSelect)(self.raw, is_there, extent.raw, one, name);
                (api.LLVMBuildMul)(self.raw, bytes.raw, factor, name)
            })
        })
    }
}

/// The function that gives a cursor with room behind it.
#[derive(Clone, Copy)]
pub struct Room<'m> {
    pub(super) function: Function<'m>,
    /// What gives one where there is none.
    next: Function<'m>,
}

impl Module<'_> {
    pub(super) fn pointer(&self) -> api::Type {
        // SAFETY: a living context.
        unsafe { (self.api().LLVMPointerTypeInContext)(self.context, 0) }
    }

    pub(super) fn integer(&self, bits: u32) -> api::Type {
        // SAFETY: a living context.
        unsafe { (self.api().LLVMIntTypeInContext)(self.context, bits) }
    }

    pub(super) fn constant(&self, bits: u32, number: u64) -> api::Value {
        // SAFETY: an integer type.
        unsafe { (self.api().LLVMConstInt)(self.integer(bits), number, 0) }
    }

    /// The type of functions that take a pointer and give one.
    fn pointer_to_pointer(&self) -> api::Type {
        let mut parameters = [self.pointer()];
        // SAFETY: a type and one parameter's.
        unsafe { (self.api().LLVMFunctionType)(self.pointer(), parameters.as_mut_ptr(), 1, 0) }
    }

    pub(super) fn call(&self, builder: *mut api::BuilderRaw, function: api::Value, argument: api::Value) -> api::Value {
        let mut arguments = [argument];
        // SAFETY: a function of this type, and its one argument.
        unsafe {
            let r#type = self.pointer_to_pointer();
            (self.api().LLVMBuildCall2)(builder, r#type, function, arguments.as_mut_ptr(), 1, c"".as_ptr())
        }
    }

    /// The pointer `bytes` further. The builder stands somewhere, and it is a pointer.
    pub(super) fn further(&self, builder: *mut api::BuilderRaw, pointer: api::Value, bytes: u64) -> api::Value {
        let mut index = [self.constant(64, bytes)];
        // SAFETY: a pointer and one index.
        unsafe {
            let byte = self.integer(8);
            (self.api().LLVMBuildInBoundsGEP2)(builder, byte, pointer, index.as_mut_ptr(), 1, c"".as_ptr())
        }
    }

    /// An attribute without a value.
    pub(super) fn attribute(&self, name: &str) -> *mut api::AttributeRaw {
        // SAFETY: a living context and a kind that is known.
        unsafe { (self.api().LLVMCreateEnumAttribute)(self.context, self.attribute_kind(name), 0) }
    }

    /// Whether the module has a variable or a function of this name.
    pub fn has_global(&self, name: &CStr) -> bool {
        // SAFETY: a whole module and a name.
        unsafe {
            !(self.api().LLVMGetNamedGlobal)(self.raw, name.as_ptr()).is_null()
                || !(self.api().LLVMGetNamedFunction)(self.raw, name.as_ptr()).is_null()
        }
    }

    /// Declares a thread-local pointer of another object, at a fixed distance from the thread pointer.
    pub fn add_thread_local_pointer(&self, name: &CStr) -> Value<'_> {
        let api = self.api();
        // SAFETY: a whole module, a type and a name.
        Value::new(self, unsafe {
            let global = (api.LLVMAddGlobal)(self.raw, self.pointer(), name.as_ptr());
            (api.LLVMSetThreadLocalMode)(global, INITIAL_EXEC);
            // Shared objects are linked where nobody has it.
            (api.LLVMSetLinkage)(global, EXTERN_WEAK);
            (api.LLVMSetAlignment)(global, 8);
            global
        })
    }

    /// Defines, to be inlined everywhere, what gives its argument back where that has the bit `room`, and else what
    /// `next` returns, a function of another object that keeps all registers:
    ///
    /// ```text
    /// ptr room(ptr cursor) { return cursor & room ? cursor : next(cursor); }
    /// ```
    ///
    /// The C API can't split a block, and the inliner can.
    pub fn add_room(&self, next: &CStr, room: u64) -> Room<'_> {
        let api = self.api();
        let attribute = |function, name: &str| {
            // SAFETY: a function and an attribute.
            unsafe { (api.LLVMAddAttributeAtIndex)(function, OF_FUNCTION, self.attribute(name)) };
        };
        // SAFETY: everything is of this module and of the types that the functions ask for; the builder is ours.
        unsafe {
            let r#type = self.pointer_to_pointer();
            let next = (api.LLVMAddFunction)(self.raw, next.as_ptr(), r#type);
            (api.LLVMSetFunctionCallConv)(next, PRESERVE_ALL);
            attribute(next, "cold");
            // Who binds it at the first call, as the dynamic linker does, keeps registers of arguments only.
            attribute(next, "nonlazybind");
            attribute(next, "nounwind");
            let function = (api.LLVMAddFunction)(self.raw, c"slimline.room".as_ptr(), r#type);
            (api.LLVMSetLinkage)(function, INTERNAL);
            attribute(function, "alwaysinline");
            attribute(function, "nounwind");
            let block = |name: &CStr| (api.LLVMAppendBasicBlockInContext)(self.context, function, name.as_ptr());
            let [entry, has_room, is_full] = [c"entry", c"has_room", c"is_full"].map(block);
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            (api.LLVMPositionBuilderAtEnd)(builder, entry);
            let cursor = (api.LLVMGetParam)(function, 0);
            let number = (api.LLVMBuildPtrToInt)(builder, cursor, self.integer(64), c"".as_ptr());
            let bit = (api.LLVMBuildAnd)(builder, number, self.constant(64, room), c"".as_ptr());
            let test = (api.LLVMBuildICmp)(builder, INTEGER_EQUAL, bit, self.constant(64, 0), c"".as_ptr());
            let branch = (api.LLVMBuildCondBr)(builder, test, is_full, has_room);
            self.mark_unlikely(branch);
            (api.LLVMPositionBuilderAtEnd)(builder, has_room);
            (api.LLVMBuildRet)(builder, cursor);
            (api.LLVMPositionBuilderAtEnd)(builder, is_full);
            let new = self.call(builder, next, cursor);
            (api.LLVMSetInstructionCallConv)(new, PRESERVE_ALL);
            (api.LLVMBuildRet)(builder, new);
            (api.LLVMDisposeBuilder)(builder);
            let [function, next] = [function, next].map(|raw| Function(Value::new(self, raw)));
            Room { function, next }
        }
    }

    /// Says that a conditional branch hardly ever goes the first way.
    pub(super) fn mark_unlikely(&self, branch: api::Value) {
        let api = self.api();
        let text = "branch_weights";
        // As LLVM weighs `__builtin_expect`.
        let weight = |weight| self.constant(32, weight);
        // SAFETY: a branch, and metadata of this context.
        unsafe {
            let mut node = [
                (api.LLVMMDStringInContext2)(self.context, text.as_ptr().cast(), text.len()),
                (api.LLVMValueAsMetadata)(weight(1)),
                (api.LLVMValueAsMetadata)(weight(2000)),
            ];
            let node = (api.LLVMMDNodeInContext2)(self.context, node.as_mut_ptr(), node.len());
            let node = (api.LLVMMetadataAsValue)(self.context, node);
            (api.LLVMSetMetadata)(branch, self.metadata_kind("prof"), node);
        }
    }

    /// Puts bytes into a section of the object, where no linker drops them.
    pub fn add_section(&self, section: &CStr, bytes: &[u8]) {
        let api = self.api();
        // SAFETY: bytes with their length, and everything of this module.
        unsafe {
            let content = (api.LLVMConstStringInContext2)(self.context, bytes.as_ptr().cast(), bytes.len(), 1);
            let r#type = (api.LLVMTypeOf)(content);
            let global = (api.LLVMAddGlobal)(self.raw, r#type, c"slimline.sites".as_ptr());
            (api.LLVMSetInitializer)(global, content);
            (api.LLVMSetGlobalConstant)(global, 1);
            (api.LLVMSetLinkage)(global, PRIVATE);
            (api.LLVMSetSection)(global, section.as_ptr());
            (api.LLVMSetAlignment)(global, 8);
            self.mark_used(global);
        }
    }

    /// Adds to the list `llvm.used`, which is made anew as it can't grow.
    fn mark_used(&self, global: api::Value) {
        let api = self.api();
        // SAFETY: a whole module. The old list is an array of globals; nothing refers to a list, so it can be deleted, and
        // handles to it are never given out by name.
        unsafe {
            let mut used = Vec::new();
            let old = (api.LLVMGetNamedGlobal)(self.raw, c"llvm.used".as_ptr());
            if !old.is_null() {
                let list = (api.LLVMGetInitializer)(old);
                let count = (api.LLVMGetNumOperands)(list).max(0) as u32;
                used.extend((0..count).map(|number| (api.LLVMGetOperand)(list, number)));
                (api.LLVMDeleteGlobal)(old);
            }
            used.push(global);
            let list = (api.LLVMConstArray2)(self.pointer(), used.as_mut_ptr(), used.len() as u64);
            let new = (api.LLVMAddGlobal)(self.raw, (api.LLVMTypeOf)(list), c"llvm.used".as_ptr());
            (api.LLVMSetInitializer)(new, list);
            (api.LLVMSetLinkage)(new, APPENDING);
            (api.LLVMSetSection)(new, c"llvm.metadata".as_ptr());
        }
    }

    /// Gives every `invoke` that returns into a block with other ways in a block of its own in between, so that
    /// something can be put behind it. Phis of such blocks are made anew, which is why nobody may have handles.
    pub fn split_invoke_edges(&mut self) {
        let mut edges = Vec::new();
        for function in self.defined_functions() {
            let blocks = function.blocks();
            let mut ways_in = std::collections::HashMap::new();
            for block in blocks.iter().flat_map(|block| block.successors()) {
                *ways_in.entry(block.raw).or_insert(0) += 1;
            }
            for invoke in blocks.iter().filter_map(|block| block.instructions().last().copied()) {
                if let Some([normal, _]) = invoke.invoke_ends()
                    && ways_in.get(&normal.raw).is_some_and(|ways| *ways > 1)
                {
                    edges.push((function.0.raw, invoke.raw, normal.raw));
                }
            }
        }
        for (function, invoke, normal) in edges {
            self.split_edge(function, invoke, normal);
        }
    }

    fn split_edge(&self, function: api::Value, invoke: api::Value, normal: api::Block) {
        let api = self.api();
        // SAFETY: an invoke of this function that returns into `normal`. Phis are replaced by equal ones in which the way
        // from the invoke comes from the new block; nobody has handles of them, as the caller has the module by `&mut`.
        unsafe {
            let from = (api.LLVMGetInstructionParent)(invoke);
            let between = (api.LLVMAppendBasicBlockInContext)(self.context, function, c"".as_ptr());
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            (api.LLVMPositionBuilderAtEnd)(builder, between);
            (api.LLVMSetCurrentDebugLocation2)(builder, (api.LLVMInstructionGetDebugLoc)(invoke));
            (api.LLVMBuildBr)(builder, normal);
            (api.LLVMSetNormalDest)(invoke, between);
            let first = Block { module: self, raw: normal }.instructions();
            let phis = first.into_iter().take_while(|value| value.opcode() == Some(Opcode::Phi));
            for phi in phis.map(|phi| phi.raw).collect::<Vec<_>>() {
                (api.LLVMPositionBuilderBefore)(builder, phi);
                (api.LLVMSetCurrentDebugLocation2)(builder, (api.LLVMInstructionGetDebugLoc)(phi));
                let new = (api.LLVMBuildPhi)(builder, (api.LLVMTypeOf)(phi), c"".as_ptr());
                for number in 0..(api.LLVMCountIncoming)(phi) {
                    let block = (api.LLVMGetIncomingBlock)(phi, number);
                    let mut value = [(api.LLVMGetIncomingValue)(phi, number)];
                    // A phi that feeds itself feeds its successor.
                    if value[0] == phi {
                        value[0] = new;
                    }
                    let mut block = [if block == from { between } else { block }];
                    (api.LLVMAddIncoming)(new, value.as_mut_ptr(), block.as_mut_ptr(), 1);
                }
                (api.LLVMReplaceAllUsesWith)(phi, new);
                (api.LLVMInstructionEraseFromParent)(phi);
            }
            (api.LLVMDisposeBuilder)(builder);
        }
    }
}
