//! Functions and their blocks, to look at.

use super::module::OF_FUNCTION;
use super::{Block, Function, Metadata, Opcode, Value};

impl<'m> Function<'m> {
    /// As a value.
    pub fn value(self) -> Value<'m> {
        self.0
    }

    /// Its blocks, the entry first.
    pub fn blocks(self) -> Vec<Block<'m>> {
        let Value { module, raw } = self.0;
        let mut blocks = Vec::new();
        // SAFETY: a function; the list ends in null.
        let mut block = unsafe { (module.api().LLVMGetFirstBasicBlock)(raw) };
        while !block.is_null() {
            blocks.push(Block { module, raw: block });
            // SAFETY: a block of a function.
            block = unsafe { (module.api().LLVMGetNextBasicBlock)(block) };
        }
        blocks
    }

    /// Whether it has no body in this module.
    pub fn is_declared(self) -> bool {
        // SAFETY: a function.
        unsafe { (self.0.module.api().LLVMIsDeclaration)(self.0.raw) != 0 }
    }

    /// The number in an attribute; 0 for those without one.
    pub fn attribute(self, kind: u32) -> Option<u64> {
        if kind == 0 {
            return None;
        }
        let api = self.0.module.api();
        // SAFETY: a function and a kind that is known.
        unsafe {
            let attribute = (api.LLVMGetEnumAttributeAtIndex)(self.0.raw, OF_FUNCTION, kind);
            (!attribute.is_null()).then(|| (api.LLVMGetEnumAttributeValue)(attribute))
        }
    }

    /// Takes an attribute from it.
    pub fn remove_attribute(self, kind: u32) {
        if self.attribute(kind).is_some() {
            // SAFETY: a function that has it.
            unsafe { (self.0.module.api().LLVMRemoveEnumAttributeAtIndex)(self.0.raw, OF_FUNCTION, kind) };
        }
    }

    /// Whether calls of it can be inlined: then another function can become a copy of it.
    pub fn can_be_inlined(self) -> bool {
        let Value { module, raw } = self.0;
        let api = module.api();
        // SAFETY: a function, whose type is a function's.
        let is_plain = unsafe {
            (api.LLVMIsFunctionVarArg)((api.LLVMGlobalGetValueType)(raw)) == 0
                && (api.LLVMHasPrefixData)(raw) == 0
                && (api.LLVMHasPrologueData)(raw) == 0
        };
        // Labels whose addresses are taken: the other copy would jump into this one.
        let is_label = |user: &Value<'_>| user.is(|api| api.LLVMIsABlockAddress) && !user.users().is_empty();
        is_plain && !self.jumps_to_labels() && !self.0.users().iter().any(is_label)
    }

    /// Its description in debug information.
    pub fn subprogram(self) -> Option<Metadata<'m>> {
        // SAFETY: a function.
        Metadata::some(self.0.module, unsafe { (self.0.module.api().LLVMGetSubprogram)(self.0.raw) })
    }
}

impl<'m> Block<'m> {
    /// Its instructions.
    pub fn instructions(self) -> Vec<Value<'m>> {
        // SAFETY: a block.
        let first = unsafe { (self.module.api().LLVMGetFirstInstruction)(self.raw) };
        std::iter::successors(Value::some(self.module, first), |instruction| instruction.next()).collect()
    }

    /// The first instruction that is no phi.
    pub(super) fn first_behind_phis(self) -> Option<Value<'m>> {
        self.instructions().into_iter().find(|value| value.opcode() != Some(Opcode::Phi))
    }

    /// The first instruction that others may be put before.
    pub fn first_insertion(self) -> Option<Value<'m>> {
        let is_head = |value: &Value<'m>| matches!(value.opcode(), Some(Opcode::Phi | Opcode::LandingPad));
        self.instructions().into_iter().find(|value| !is_head(value))
    }

    /// The first instruction of a function's first block behind its local variables, which have to stay in that block.
    pub fn first_behind_variables(self) -> Option<Value<'m>> {
        let is_head = |value: &Value<'m>| {
            matches!(value.opcode(), Some(Opcode::Phi | Opcode::Alloca))
                || value.called().is_some_and(|called| called.name().starts_with("llvm.dbg."))
        };
        self.instructions().into_iter().find(|value| !is_head(value))
    }

    /// The function that it is of.
    pub fn function(self) -> Function<'m> {
        // SAFETY: a block, which is in a function.
        Function(Value::new(self.module, unsafe { (self.module.api().LLVMGetBasicBlockParent)(self.raw) }))
    }

    /// Where it may go on.
    pub fn successors(self) -> Vec<Self> {
        let api = self.module.api();
        // SAFETY: a block, its terminator if it has one, and no more of its successors than it has.
        unsafe {
            let terminator = (api.LLVMGetBasicBlockTerminator)(self.raw);
            let count = if terminator.is_null() { 0 } else { (api.LLVMGetNumSuccessors)(terminator) };
            (0..count).map(|n| Self { module: self.module, raw: (api.LLVMGetSuccessor)(terminator, n) }).collect()
        }
    }
}
