//! Functions that give out and take back memory of a program's own allocators, as its user names them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

pub use slimline_trace::wire::AllocatorRole;

use super::touch::{Attributes, Touch, Word};
use crate::llvm::{Function, Metadata, Module, TypeKind, Value};

/// A function of an allocator. Arguments are counted from 1, as registers pass them: integers and pointers. 0 is none.
#[derive(Clone, Debug)]
pub struct OwnAllocator {
    /// As linked, or as in the source.
    pub function: String,
    /// What it does.
    pub role: AllocatorRole,
    /// The argument that is the size in bytes.
    pub size: u8,
    /// The argument that the size is multiplied by.
    pub count: u8,
    /// The argument that is the block to free or to resize.
    pub block: u8,
    /// The argument that says where the new block is stored; it is returned where there is none.
    pub place: u8,
    /// What the size is multiplied by beside that.
    pub unit_bytes: u32,
}

/// All of a program's.
#[derive(Clone, Debug)]
pub struct OwnAllocators {
    /// Their functions.
    pub functions: Vec<OwnAllocator>,
    /// Whether a linked name is that of a function as it is written in the source.
    pub is_named: fn(linked: &str, written: &str) -> bool,
    /// The file that tells of them, or that there are none, for tools that run elsewhere: an absolute path.
    pub file: Option<PathBuf>,
}

impl Default for OwnAllocators {
    fn default() -> Self {
        Self { functions: Vec::new(), is_named: |linked, written| linked == written, file: None }
    }
}

impl OwnAllocators {
    /// Another one where they are others; none where there are none.
    pub(crate) fn mark(&self) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.functions).hash(&mut hasher);
        (!self.functions.is_empty()).then(|| format!("{:016x}", hasher.finish()))
    }

    /// Whether this is the linked name of one of them.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.functions.iter().any(|own| own.function == name)
    }

    /// Those that a module calls or has, by their names in it.
    pub(super) fn of(&self, module: &Module<'_>) -> HashMap<String, OwnAllocator> {
        if self.functions.is_empty() {
            return HashMap::new();
        }
        let functions = module.functions().into_iter().filter_map(|function| {
            let name = function.value().name();
            let is_meant = |own: &&OwnAllocator| name == own.function || (self.is_named)(&name, &own.function);
            let own = self.functions.iter().find(is_meant)?;
            Some((name.into_owned(), own.clone()))
        });
        functions.collect()
    }
}

/// What a call of such a function does.
pub(super) struct OwnCall<'m> {
    /// The block that lives no more, unless this fails.
    pub(super) resized: Option<Value<'m>>,
    /// None where a whole pool is emptied: which blocks that frees only the pool knows.
    pub(super) touch: Option<Touch<'m>>,
}

impl<'m> OwnCall<'m> {
    /// None where the call is not as its user tells.
    pub(super) fn of(call: Value<'m>, name: &str, own: &OwnAllocator, attributes: &Attributes) -> Option<Self> {
        let nothing = Self { resized: None, touch: None };
        if own.role == AllocatorRole::Reset {
            return Some(nothing);
        }
        let called = call.called().and_then(Value::as_function);
        if called.is_some_and(|called| is_changed(called, call.arguments() as usize)) {
            // The optimizer has left out what nobody uses: which is which now?
            return None;
        }
        let arguments = in_registers(call, attributes);
        // What the function doesn't look at may be anything.
        let argument = |number: u8| {
            let argument = arguments.get(usize::from(number).checked_sub(1)?).copied();
            argument.filter(|argument| !argument.is_undefined())
        };
        let pointer = |value: Value<'m>| Some(value).filter(|value| value.r#type().address_space() == Some(0));
        let factor = |number: u8| match number {
            0 => Some(None),
            number => Some(Some(argument(number).filter(|value| value.r#type().kind() == TypeKind::Integer)?)),
        };
        let block = match own.block {
            0 => None,
            number => Some(pointer(argument(number)?)?),
        };
        if own.role == AllocatorRole::Free {
            let touch = Touch::of_allocator(own.role, vec![Word::Value(block?)], block?, name);
            return Some(Self { touch: Some(touch), ..nothing });
        }
        let new = match own.place {
            0 => Word::Value(pointer(call)?),
            number => {
                call.r#type().integer_bits()?;
                Word::IfZero { status: call, place: pointer(argument(number)?)? }
            }
        };
        let bytes = Word::Bytes { factors: [factor(own.size)?, factor(own.count)?], unit: own.unit_bytes };
        let touch = Touch::of_allocator(own.role, vec![new, bytes], call, name);
        Some(Self { resized: block, touch: Some(touch) })
    }
}

/// The arguments that are passed in registers for integers and pointers.
fn in_registers<'m>(call: Value<'m>, attributes: &Attributes) -> Vec<Value<'m>> {
    let is_passed = |number: &u32| call.argument_type_attribute(*number, attributes.by_value).is_none();
    let arguments = (0..call.arguments()).filter(is_passed).filter_map(|number| call.operand(number));
    arguments.filter(|value| matches!(value.r#type().kind(), TypeKind::Integer | TypeKind::Pointer)).collect()
}

/// Whether the optimizer has given a function other parameters than it has in the source, if debug information tells.
/// Numbers alone don't: what is empty need not be passed, and what is large may be passed in parts.
fn is_changed(function: Function<'_>, passed: usize) -> bool {
    const TYPE: usize = 4;
    let r#type = function.subprogram().and_then(|subprogram| subprogram.operand(TYPE));
    let types = r#type.and_then(|it| it.operands().last().copied().flatten());
    let types = types.map(|types| types.as_metadata().operands()).unwrap_or_default();
    // The first one is what it returns: that alone may have been left out. None at the end stands for the dots.
    let Some((_, written)) = types.split_first() else { return false };
    let written = written.len() - usize::from(written.last().is_some_and(Option::is_none));
    written != passed && r#type.is_some_and(Metadata::is_no_call_type)
}
