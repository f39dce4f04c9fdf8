//! Addresses of labels (`&&add`), which tie a function to its one copy: they become numbers.
//!
//! ```text
//!   goto *labels[n]   indirectbr ptr          switch i64 ptr
//!   labels            blockaddress(@f, %add)  inttoptr (1)
//! ```
//!
//! A number means the same in each copy of the function, also one that the program keeps in its data, as interpreters do
//! that translate programs into labels. (No function is changed whose labels are given to inline assembly, which would jump to
//! numbers; who keeps them for assembly elsewhere, or prints them, sees the numbers.) What does it is LLVM's pass for processors that had better not jump to addresses
//! from memory (`indirectbr-expand`), which asks each function for such a processor.

use std::collections::HashSet;
use std::ffi::CStr;

use super::module::OF_FUNCTION;
use super::{Block, CodeLevel, Function, LlvmError, Module, Opcode, Value, api, text};

/// What a function is compiled for.
const FEATURES: &str = "target-features";
/// A processor that is to be kept from jumping to addresses from memory.
const WITHOUT_JUMPS: &str = "+retpoline-indirect-branches";
const PASS: &CStr = c"function(indirectbr-expand)";

/// A function that jumps to labels.
struct Jumping {
    function: api::Value,
    /// As they are to be again.
    features: Option<String>,
    /// Passes leave it alone (`-O0`): not this one.
    is_left_alone: bool,
    /// Its own switches.
    switches: HashSet<api::Value>,
}

impl Module<'_> {
    /// Makes switches over numbers of all jumps to labels.
    pub fn number_labels(&mut self) -> Result<(), LlvmError> {
        let left_alone = self.attribute_kind("optnone");
        let is_changed = |function: &Function<'_>| function.jumps_to_labels() && !function.gives_labels_to_assembly();
        let functions = self.defined_functions().into_iter().filter(is_changed);
        let jumping: Vec<Jumping> = functions
            .map(|function| Jumping {
                function: function.value().raw,
                features: function.text_attribute(FEATURES),
                is_left_alone: function.attribute(left_alone).is_some(),
                switches: function.switches().map(|switch| switch.raw).collect(),
            })
            .collect();
        if jumping.is_empty() {
            return Ok(());
        }
        for Jumping { function, features, .. } in &jumping {
            Function(Value::new(self, *function)).remove_attribute(left_alone);
            let features = features.iter().map(String::as_str).chain([WITHOUT_JUMPS]).filter(|it| !it.is_empty());
            self.set_text_attribute(*function, FEATURES, Some(&features.collect::<Vec<_>>().join(",")));
        }
        self.run_passes_for_machine(PASS, CodeLevel::Default)?;
        // The pass erases neither functions nor switches.
        for Jumping { function, features, is_left_alone, switches } in &jumping {
            self.set_text_attribute(*function, FEATURES, features.as_deref());
            if *is_left_alone {
                // SAFETY: a function and an attribute of this module.
                unsafe { (self.api().LLVMAddAttributeAtIndex)(*function, OF_FUNCTION, self.attribute("optnone")) };
            }
            for switch in Function(Value::new(self, *function)).switches() {
                if !switches.contains(&switch.raw) {
                    self.leave_out_other_labels(*function, switch);
                }
            }
        }
        Ok(())
    }

    /// The pass has the first label, whose number is 1, stand for whatever has no other: it gets its own case, as then no code
    /// asks whether it is any.
    fn leave_out_other_labels(&self, function: api::Value, switch: Value<'_>) {
        let api = self.api();
        // SAFETY: a function of this module and a switch over 64-bit integers in it; the first successor is where it goes
        // otherwise. The builder is ours.
        unsafe {
            let first = (api.LLVMGetSuccessor)(switch.raw, 0);
            (api.LLVMAddCase)(switch.raw, self.constant(64, 1), first);
            let nowhere = (api.LLVMAppendBasicBlockInContext)(self.context, function, c"nowhere".as_ptr());
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            (api.LLVMPositionBuilderAtEnd)(builder, nowhere);
            (api.LLVMBuildUnreachable)(builder);
            (api.LLVMDisposeBuilder)(builder);
            (api.LLVMSetSuccessor)(switch.raw, 0, nowhere);
        }
    }

    fn set_text_attribute(&self, function: api::Value, name: &str, value: Option<&str>) {
        let api = self.api();
        let (name, name_bytes) = (name.as_ptr().cast(), name.len() as u32);
        // SAFETY: a function of this module, texts with their lengths, and an attribute of its context.
        unsafe {
            (api.LLVMRemoveStringAttributeAtIndex)(function, OF_FUNCTION, name, name_bytes);
            if let Some(value) = value {
                let (value, value_bytes) = (value.as_ptr().cast(), value.len() as u32);
                let attribute = (api.LLVMCreateStringAttribute)(self.context, name, name_bytes, value, value_bytes);
                (api.LLVMAddAttributeAtIndex)(function, OF_FUNCTION, attribute);
            }
        }
    }
}

impl<'m> Function<'m> {
    /// Whether it jumps to addresses of labels.
    pub fn jumps_to_labels(self) -> bool {
        self.ends(Opcode::IndirectBranch).next().is_some()
    }

    fn gives_labels_to_assembly(self) -> bool {
        let is_assembly = |user: &Value<'_>| user.called().is_some_and(Value::is_assembly);
        let labels = self.0.users().into_iter().filter(|user| user.is(|api| api.LLVMIsABlockAddress));
        labels.into_iter().any(|label| label.users().iter().any(is_assembly))
    }

    fn switches(self) -> impl Iterator<Item = Value<'m>> {
        self.ends(Opcode::Switch)
    }

    /// Last instructions of blocks that do this.
    fn ends(self, opcode: Opcode) -> impl Iterator<Item = Value<'m>> {
        let last = |block: Block<'m>| block.instructions().last().copied();
        self.blocks().into_iter().filter_map(last).filter(move |end| end.opcode() == Some(opcode))
    }

    /// The attribute of this name, which is a text.
    pub fn text_attribute(self, name: &str) -> Option<String> {
        let api = self.0.module.api();
        let mut bytes = 0;
        // SAFETY: a function, a name with its length; the text of an attribute lives as long as the context.
        unsafe {
            let attribute =
                (api.LLVMGetStringAttributeAtIndex)(self.0.raw, OF_FUNCTION, name.as_ptr().cast(), name.len() as u32);
            (!attribute.is_null())
                .then(|| text((api.LLVMGetStringAttributeValue)(attribute, &mut bytes), bytes as usize).into_owned())
        }
    }
}
