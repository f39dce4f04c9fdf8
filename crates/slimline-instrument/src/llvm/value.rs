//! Values, blocks and types, to look at.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::ptr::null_mut;

use super::module::OF_FUNCTION;
use super::{Function, Metadata, Module, api, text};

/// Defines enumerations of LLVM-C whose numbers are fixed.
macro_rules! numbered {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "as LLVM has them")]
        pub enum $type { $($name,)+ Other }

        impl $type {
            fn from_number(number: i32) -> Self {
                match number { $($number => Self::$name,)+ _ => Self::Other }
            }
        }
    };
}

numbered! {
    /// What an instruction or a constant expression does.
    Opcode {
        Return = 1, Branch = 2, Switch = 3, IndirectBranch = 4, Invoke = 5, Unreachable = 7, Add = 8, Subtract = 10, ShiftLeft = 20, Or = 24, CallBranch = 67, Alloca = 26, Load = 27, Store = 28, ElementPointer = 29,
        BitCast = 41, Compare = 42, Phi = 44, Call = 45, Select = 46, VaArg = 49, Fence = 55, CompareExchange = 56, ReadModifyWrite = 57, Resume = 58,
        LandingPad = 59, AddressSpaceCast = 60, Freeze = 68,
    }
}

numbered! {
    /// What sort of type it is.
    TypeKind {
        Void = 0, Float = 2, Double = 3, Integer = 8, Struct = 10, Array = 11, Pointer = 12, Vector = 13, Metadata = 14, Token = 16, ScalableVector = 17,
        MatrixTile = 19, TargetExtension = 20,
    }
}

/// Anything that an instruction may have as an operand, and instructions themselves.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) raw: api::Value,
}

/// A basic block.
#[derive(Clone, Copy)]
pub struct Block<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) raw: api::Block,
}

/// A type.
#[derive(Clone, Copy)]
pub struct Type<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) raw: api::Type,
}

/// Handles are equal where they name the same thing.
macro_rules! identity {
    ($($type:ident),+) => {
        $(
            impl PartialEq for $type<'_> {
                fn eq(&self, other: &Self) -> bool {
                    self.raw == other.raw
                }
            }
            impl Eq for $type<'_> {}
            impl Hash for $type<'_> {
                fn hash<H: Hasher>(&self, state: &mut H) {
                    self.raw.hash(state);
                }
            }
        )+
    };
}
identity!(Value, Block, Type);

impl<'m> Value<'m> {
    pub(super) fn new(module: &'m Module<'_>, raw: api::Value) -> Self {
        Self { module, raw }
    }

    pub(super) fn some(module: &'m Module<'_>, raw: api::Value) -> Option<Self> {
        (!raw.is_null()).then_some(Self { module, raw })
    }

    pub(super) fn is(self, test: impl FnOnce(&api::Api) -> unsafe extern "C" fn(api::Value) -> api::Value) -> bool {
        // SAFETY: these tests take any value.
        !unsafe { test(self.module.api())(self.raw) }.is_null()
    }

    /// What it does if it is an instruction.
    pub fn opcode(self) -> Option<Opcode> {
        let is_instruction = self.is(|api| api.LLVMIsAInstruction);
        // SAFETY: it is an instruction.
        is_instruction.then(|| Opcode::from_number(unsafe { (self.module.api().LLVMGetInstructionOpcode)(self.raw) }))
    }

    /// Whether two instructions do the same, to operands of their own.
    pub(super) fn does_as(self, other: Self) -> bool {
        let number = |value: Self| {
            // SAFETY: it is an instruction.
            value.opcode().map(|_| unsafe { (self.module.api().LLVMGetInstructionOpcode)(value.raw) })
        };
        number(self) == number(other)
    }

    /// Whether it is an instruction that does nothing but compute something of its operands.
    pub fn is_computation(self) -> bool {
        // Arithmetic, addresses, conversions, comparisons, choices, parts of vectors and structures; not what accesses memory, calls or jumps.
        let numbers = [8..=25, 29..=43, 46..=46, 50..=54, 60..=60, 66..=66, 68..=68];
        // SAFETY: it is an instruction.
        let number = self.opcode().map(|_| unsafe { (self.module.api().LLVMGetInstructionOpcode)(self.raw) });
        number.is_some_and(|number| numbers.iter().any(|of| of.contains(&number)))
    }

    /// How many instructions of a processor it is: none where most do it within another one, or where there is none for it (phis, addresses, conversions of
    /// integers and pointers, comparisons that are jumped by, remarks for debuggers); two where it is a product and a sum, which x86-64 has no one
    /// instruction for unless a compiler is told so.
    pub fn instructions(self) -> u64 {
        let within_another = [29..=32, 39..=42, 44..=44, 60..=60, 68..=68];
        // SAFETY: it is an instruction.
        let number = self.opcode().map(|_| unsafe { (self.module.api().LLVMGetInstructionOpcode)(self.raw) });
        if number.is_none_or(|number| within_another.iter().any(|of| of.contains(&number))) {
            return 0;
        }
        let calls = |begin: &str| self.called().is_some_and(|called| called.name().starts_with(begin));
        if calls("llvm.dbg.") || calls("llvm.lifetime.") {
            return 0;
        }
        if calls("llvm.fmuladd.") { 2 } else { 1 }
    }

    /// Whether it is a block, as jumps have them as operands.
    pub(super) fn is_block(self) -> bool {
        // SAFETY: any value.
        unsafe { (self.module.api().LLVMValueIsBasicBlock)(self.raw) != 0 }
    }

    /// What it does, as an instruction or as a constant expression.
    pub fn operation(self) -> Option<Opcode> {
        self.opcode().or_else(|| {
            let is_expression = self.is(|api| api.LLVMIsAConstantExpr);
            // SAFETY: it is a constant expression.
            is_expression.then(|| Opcode::from_number(unsafe { (self.module.api().LLVMGetConstOpcode)(self.raw) }))
        })
    }

    fn does(self, opcodes: &[Opcode]) -> bool {
        self.opcode().is_some_and(|opcode| opcodes.contains(&opcode))
    }

    /// Whether it calls something.
    pub fn is_call(self) -> bool {
        self.does(&[Opcode::Call, Opcode::Invoke, Opcode::CallBranch])
    }

    /// Whether it is a variable of the module.
    pub fn is_global_variable(self) -> bool {
        self.is(|api| api.LLVMIsAGlobalVariable)
    }

    /// Whether it may be anything, as what the optimizer passes where nobody looks at it.
    pub fn is_undefined(self) -> bool {
        self.is(|api| api.LLVMIsAUndefValue)
    }

    /// Whether it is a constant of zeros, as a pointer to nothing.
    pub fn is_null(self) -> bool {
        // SAFETY: a value.
        unsafe { (self.module.api().LLVMIsNull)(self.raw) != 0 }
    }

    /// Itself as a function.
    pub fn as_function(self) -> Option<Function<'m>> {
        self.is(|api| api.LLVMIsAFunction).then_some(Function(self))
    }

    /// Its name; empty where it has none.
    pub fn name(self) -> Cow<'m, str> {
        let mut bytes = 0;
        // SAFETY: any value; names live as long as their values and are not changed.
        unsafe { text((self.module.api().LLVMGetValueName2)(self.raw, &mut bytes), bytes) }
    }

    /// Its type.
    pub fn r#type(self) -> Type<'m> {
        // SAFETY: any value has one.
        Type { module: self.module, raw: unsafe { (self.module.api().LLVMTypeOf)(self.raw) } }
    }

    /// How many operands it has; of an instruction or a constant expression.
    pub fn operands(self) -> u32 {
        if self.operation().is_none() {
            return 0;
        }
        // SAFETY: instructions and constant expressions are users.
        unsafe { (self.module.api().LLVMGetNumOperands)(self.raw) }.try_into().unwrap_or(0)
    }

    /// Its operand of this number.
    pub fn operand(self, number: u32) -> Option<Self> {
        if number >= self.operands() {
            return None;
        }
        // SAFETY: it has so many.
        Self::some(self.module, unsafe { (self.module.api().LLVMGetOperand)(self.raw, number) })
    }

    /// The integer that it is, if it is a constant of at most 64 bits.
    pub fn constant(self) -> Option<i64> {
        let bits = self.r#type().integer_bits().filter(|bits| *bits <= 64);
        (bits.is_some() && self.is(|api| api.LLVMIsAConstantInt))
            // SAFETY: an integer constant that fits.
            .then(|| unsafe { (self.module.api().LLVMConstIntGetSExtValue)(self.raw) })
    }

    /// The function or pointer that a call calls.
    pub fn called(self) -> Option<Self> {
        if !self.is_call() {
            return None;
        }
        // SAFETY: a call.
        Self::some(self.module, unsafe { (self.module.api().LLVMGetCalledValue)(self.raw) })
    }

    /// Arguments of a call.
    pub fn arguments(self) -> u32 {
        if !self.is_call() {
            return 0;
        }
        // SAFETY: a call.
        unsafe { (self.module.api().LLVMGetNumArgOperands)(self.raw) }
    }

    /// Whether it is inline assembly, as what a call calls.
    pub fn is_assembly(self) -> bool {
        self.is(|api| api.LLVMIsAInlineAsm)
    }

    /// Whether it is inline assembly that does more than compute.
    pub fn has_side_effects(self) -> bool {
        // SAFETY: inline assembly.
        self.is_assembly() && unsafe { (self.module.api().LLVMGetInlineAsmHasSideEffects)(self.raw) } != 0
    }

    /// Whether it is a call that takes its function's place on the stack, whatever the optimizer thinks of it.
    pub fn is_must_tail(self) -> bool {
        const MUST: i32 = 2;
        // SAFETY: a call instruction.
        self.does(&[Opcode::Call]) && unsafe { (self.module.api().LLVMGetTailCallKind)(self.raw) } == MUST
    }

    /// Whether it is a call that may take its function's place on the stack, if it is the last thing that the function does.
    pub fn may_tail(self) -> bool {
        const TAIL: i32 = 1;
        // SAFETY: a call instruction.
        let kind = self.does(&[Opcode::Call]).then(|| unsafe { (self.module.api().LLVMGetTailCallKind)(self.raw) });
        kind == Some(TAIL) || self.is_must_tail()
    }

    /// Whether it is an `or` of numbers without a common bit, as which sums are written.
    pub fn is_disjoint(self) -> bool {
        let told = self.module.api().LLVMGetIsDisjoint.filter(|_| self.does(&[Opcode::Or]));
        // SAFETY: an `or`.
        told.is_some_and(|told| unsafe { told(self.raw) } != 0)
    }

    /// Whether it is a volatile access.
    pub fn is_volatile(self) -> bool {
        self.does(&[Opcode::Load, Opcode::Store, Opcode::CompareExchange, Opcode::ReadModifyWrite])
            // SAFETY: one of those that may be.
            && unsafe { (self.module.api().LLVMGetVolatile)(self.raw) } != 0
    }

    /// Whether it is a load or store that is atomic.
    pub fn is_atomic(self) -> bool {
        // SAFETY: one of those that have an ordering.
        self.does(&[Opcode::Load, Opcode::Store]) && unsafe { (self.module.api().LLVMGetOrdering)(self.raw) } != 0
    }

    /// Whether what follows it may see what other threads did before: an atomic read or a fence, of an order that says so.
    pub fn acquires(self) -> bool {
        const ORDERS: [i32; 3] = [4, 6, 7]; // acquire, both, sequentially consistent
        let api = self.module.api();
        match self.opcode() {
            Some(Opcode::Load | Opcode::ReadModifyWrite) => {
                // SAFETY: those that have one ordering.
                ORDERS.contains(&unsafe { (api.LLVMGetOrdering)(self.raw) })
            }
            Some(Opcode::CompareExchange) => {
                // SAFETY: the one that has two.
                ORDERS.contains(&unsafe { (api.LLVMGetCmpXchgSuccessOrdering)(self.raw) })
            }
            Some(Opcode::Fence) => true,
            _ => false,
        }
    }

    /// Whether other threads that see what it stores may see what this one did before: an atomic store, or a change that is
    /// only that. What [acquires](Self::acquires) too, as most changes do, is told there.
    pub fn releases(self) -> bool {
        const ORDERS: [i32; 3] = [5, 6, 7]; // release, both, sequentially consistent
        let api = self.module.api();
        let order = match self.opcode() {
            // SAFETY: those that have one ordering.
            Some(Opcode::Store | Opcode::ReadModifyWrite) => unsafe { (api.LLVMGetOrdering)(self.raw) },
            // SAFETY: the one that has two.
            Some(Opcode::CompareExchange) => unsafe { (api.LLVMGetCmpXchgSuccessOrdering)(self.raw) },
            _ => return false,
        };
        ORDERS.contains(&order) && !self.acquires()
    }

    /// Inline assembly as it was written; empty where it is none.
    pub fn assembly(self) -> Cow<'m, str> {
        let mut bytes = 0;
        if !self.is_assembly() {
            return Cow::Borrowed("");
        }
        // SAFETY: inline assembly, whose text lives as long as it.
        unsafe { text((self.module.api().LLVMGetInlineAsmAsmString)(self.raw, &mut bytes), bytes) }
    }

    /// Values that come into a phi.
    pub fn incoming(self) -> Vec<Self> {
        if !self.does(&[Opcode::Phi]) {
            return Vec::new();
        }
        let api = self.module.api();
        // SAFETY: a phi, and no more of its values than it has.
        unsafe { (0..(api.LLVMCountIncoming)(self.raw)).map(|n| (api.LLVMGetIncomingValue)(self.raw, n)) }
            .map(|raw| Self::new(self.module, raw))
            .collect()
    }

    /// What has it as an operand, once for each time.
    pub fn users(self) -> Vec<Self> {
        let api = self.module.api();
        let mut users = Vec::new();
        // SAFETY: any value; the list ends in null.
        unsafe {
            let mut r#use = (api.LLVMGetFirstUse)(self.raw);
            while !r#use.is_null() {
                users.push(Self::new(self.module, (api.LLVMGetUser)(r#use)));
                r#use = (api.LLVMGetNextUse)(r#use);
            }
        }
        users
    }

    /// The type that the first index of an element pointer counts.
    pub fn element_type(self) -> Option<Type<'m>> {
        // SAFETY: an element pointer, instruction or constant.
        (self.operation() == Some(Opcode::ElementPointer)).then(|| Type {
            module: self.module,
            // SAFETY: as above.
            raw: unsafe { (self.module.api().LLVMGetGEPSourceElementType)(self.raw) },
        })
    }

    /// The instruction after it in its block.
    pub fn next(self) -> Option<Self> {
        self.opcode()?;
        // SAFETY: an instruction.
        Self::some(self.module, unsafe { (self.module.api().LLVMGetNextInstruction)(self.raw) })
    }

    /// The block of an instruction.
    pub fn block(self) -> Option<Block<'m>> {
        self.opcode()?;
        // SAFETY: an instruction; those that are in a module are in a block.
        Some(Block { module: self.module, raw: unsafe { (self.module.api().LLVMGetInstructionParent)(self.raw) } })
    }

    /// Where an `invoke` goes on: where it returns, and where something was thrown.
    pub fn invoke_ends(self) -> Option<[Block<'m>; 2]> {
        if !self.does(&[Opcode::Invoke]) {
            return None;
        }
        let api = self.module.api();
        // SAFETY: an invoke.
        let ends = unsafe { [(api.LLVMGetNormalDest)(self.raw), (api.LLVMGetUnwindDest)(self.raw)] };
        Some(ends.map(|raw| Block { module: self.module, raw }))
    }

    /// The metadata of this kind at an instruction.
    pub fn metadata(self, kind: u32) -> Option<Metadata<'m>> {
        self.opcode()?;
        // SAFETY: an instruction; what comes is a metadata value or null.
        Self::some(self.module, unsafe { (self.module.api().LLVMGetMetadata)(self.raw, kind) }).map(Self::as_metadata)
    }

    /// Where an instruction was written.
    pub fn location(self) -> Option<Metadata<'m>> {
        self.opcode()?;
        // SAFETY: an instruction.
        Metadata::some(self.module, unsafe { (self.module.api().LLVMInstructionGetDebugLoc)(self.raw) })
    }

    /// As metadata: what it wraps, or itself wrapped.
    pub fn as_metadata(self) -> Metadata<'m> {
        // SAFETY: any value.
        let raw = unsafe { (self.module.api().LLVMValueAsMetadata)(self.raw) };
        Metadata { module: self.module, raw }
    }

    /// Metadata of a global variable, of all kinds.
    pub fn global_metadata(self) -> Vec<Metadata<'m>> {
        if !self.is_global_variable() {
            return Vec::new();
        }
        let api = self.module.api();
        let mut count = 0;
        // SAFETY: a global variable; the list has `count` entries and is ours to dispose of.
        unsafe {
            let entries = (api.LLVMGlobalCopyAllMetadata)(self.raw, &mut count);
            let entry = |n| (api.LLVMValueMetadataEntriesGetMetadata)(entries, n);
            let all = (0..count as u32).filter_map(|n| Metadata::some(self.module, entry(n))).collect();
            (api.LLVMDisposeValueMetadataEntries)(entries);
            all
        }
    }

    /// The type in an attribute of a call's argument, such as `byval`.
    pub fn argument_type_attribute(self, argument: u32, kind: u32) -> Option<Type<'m>> {
        if argument >= self.arguments() || kind == 0 {
            return None;
        }
        let api = self.module.api();
        // SAFETY: a call and an argument that it has (those are numbered from 1); the kind is one with a type.
        unsafe {
            let attribute = (api.LLVMGetCallSiteEnumAttribute)(self.raw, argument + 1, kind);
            (!attribute.is_null())
                .then(|| Type { module: self.module, raw: (api.LLVMGetTypeAttributeValue)(attribute) })
        }
    }

    /// Whether a call has this attribute, of its own.
    pub fn call_has_attribute(self, kind: u32) -> bool {
        // SAFETY: a call and a kind that is known.
        self.is_call()
            && kind != 0
            && !unsafe { (self.module.api().LLVMGetCallSiteEnumAttribute)(self.raw, OF_FUNCTION, kind) }.is_null()
    }

    /// Takes an attribute from a call.
    pub fn remove_call_attribute(self, kind: u32) {
        if self.call_has_attribute(kind) {
            // SAFETY: a call that has it.
            unsafe { (self.module.api().LLVMRemoveCallSiteEnumAttribute)(self.raw, OF_FUNCTION, kind) };
        }
    }
}

impl<'m> Type<'m> {
    fn some(module: &'m Module<'m>, raw: api::Type) -> Option<Self> {
        (!raw.is_null()).then_some(Self { module, raw })
    }

    /// What sort it is.
    pub fn kind(self) -> TypeKind {
        // SAFETY: any type.
        TypeKind::from_number(unsafe { (self.module.api().LLVMGetTypeKind)(self.raw) })
    }

    /// Bytes that a store of it writes; none where that is not known before it runs.
    pub fn store_bytes(self) -> Option<u64> {
        // SAFETY: types that have a size; opaque ones can't be loaded or stored.
        self.has_size().then(|| unsafe { (self.module.api().LLVMStoreSizeOfType)(self.module.layout, self.raw) })
    }

    /// Bytes from one element of an array of it to the next.
    pub fn array_bytes(self) -> Option<u64> {
        // SAFETY: as above.
        self.has_size().then(|| unsafe { (self.module.api().LLVMABISizeOfType)(self.module.layout, self.raw) })
    }

    fn has_size(self) -> bool {
        // void, labels, functions, metadata, tokens, vectors of unknown length, AMX tiles and what targets add.
        // SAFETY: any type.
        let number = unsafe { (self.module.api().LLVMGetTypeKind)(self.raw) };
        !matches!(number, 0 | 7 | 9 | 14 | 16 | 17 | 19 | 20)
    }

    /// Bits of an integer.
    pub fn integer_bits(self) -> Option<u32> {
        // SAFETY: an integer type.
        (self.kind() == TypeKind::Integer).then(|| unsafe { (self.module.api().LLVMGetIntTypeWidth)(self.raw) })
    }

    /// The address space of a pointer.
    pub fn address_space(self) -> Option<u32> {
        // SAFETY: a pointer type.
        (self.kind() == TypeKind::Pointer).then(|| unsafe { (self.module.api().LLVMGetPointerAddressSpace)(self.raw) })
    }

    /// Lanes of a vector.
    pub fn lanes(self) -> Option<u32> {
        // SAFETY: a vector type.
        (self.kind() == TypeKind::Vector).then(|| unsafe { (self.module.api().LLVMGetVectorSize)(self.raw) })
    }

    /// What an array or a vector is made of.
    pub fn element(self) -> Option<Self> {
        let has_elements = matches!(self.kind(), TypeKind::Array | TypeKind::Vector);
        // SAFETY: an array or a vector.
        let raw = if has_elements { unsafe { (self.module.api().LLVMGetElementType)(self.raw) } } else { null_mut() };
        Self::some(self.module, raw)
    }

    /// A structure's member of this number, with its offset.
    pub fn member(self, number: u32) -> Option<(u64, Self)> {
        let api = self.module.api();
        // SAFETY: a structure that has so many members.
        unsafe {
            if self.kind() != TypeKind::Struct || number >= (api.LLVMCountStructElementTypes)(self.raw) {
                return None;
            }
            let offset = (api.LLVMOffsetOfElement)(self.module.layout, self.raw, number);
            Some((offset, Self { module: self.module, raw: (api.LLVMStructGetTypeAtIndex)(self.raw, number) }))
        }
    }
}
