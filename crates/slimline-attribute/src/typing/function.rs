//! One function, and what its variables add to what the flow knows.

use super::bound::{Bound, Bounds, FrameVariable, Names};
use super::debug_info::{DebugInfo, Die};
use super::flow::Flow;
use super::location::{Gpr, Indexed};
use super::scope::FunctionScope;
use super::state::State;
use super::value::{Pointer, Value};
use crate::tables::Language;

/// Evidence of what the watched call's block is used as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Use {
    /// Type as which it is used: where in the block the pointer points, and to what.
    pub(super) pointer: Pointer,
    /// Where in the block that pointer points.
    pub(super) start: i64,
    pub(super) kind: UseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UseKind {
    /// Stored to a member or a static.
    Stored,
    /// In a variable.
    Variable,
    /// Stored to a member of an object of the type that the block itself is: one node's link to the next.
    Linked,
    /// Passed on as an argument.
    Argument,
    /// Returned.
    Returned,
    /// Stored where the caller wants a large result, at that offset: a `Vec` that is returned.
    Built(i64),
}

/// The call whose block is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) return_address: u64,
    pub(super) handed: Handed,
}

/// How a call hands its block to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    /// It returns its address.
    Returned,
    /// It stores its address at that offset of its result, for which the caller passes room.
    Built(i64),
}

/// One function with all that inference needs of it.
pub(super) struct Function<'i, 'a> {
    pub(super) info: &'i DebugInfo<'a>,
    pub(super) die: Die,
    pub(super) scope: FunctionScope,
    pub(super) flow: Flow,
    pub(super) bounds: Bounds,
    pub(super) names: Names,
    pub(super) watch: Option<Watch>,
}

impl Function<'_, '_> {
    pub(super) fn language(&self) -> Language {
        self.info.language(self.die.unit)
    }

    /// Lets the variables in place at an instruction add to what is known.
    pub(super) fn apply_bounds(&self, state: &mut State, index: usize, uses: &mut Vec<Use>) {
        if self.watch.is_some() {
            self.note_variables(state, index, uses);
        }
        let mut best: [Option<Pointer>; 16] = [None; 16];
        for bound in self.bounds.at(index) {
            let (register, pointer) = match *bound {
                Bound::Register(register, pointer) => (register, pointer),
                Bound::Element(indexed, pointer) => match base_of(state, indexed, pointer) {
                    Some(base) => base,
                    None => continue,
                },
                Bound::Address(register, _, pointer) => match state.get(register) {
                    Value::Frame(_) => continue,
                    _ => (register, pointer),
                },
                _ => continue,
            };
            if register == Gpr::RSP {
                continue;
            }
            let known = &mut best[usize::from(register.0)];
            if known.is_none_or(|known| self.rank(known) < self.rank(pointer)) {
                *known = Some(pointer);
            }
        }
        for (number, pointer) in best.into_iter().enumerate() {
            let Some(pointer) = pointer else { continue };
            state.registers[number] = self.reconcile(state.registers[number], pointer);
        }
    }

    /// Notes which variables in place at an instruction hold the block.
    fn note_variables(&self, state: &State, index: usize, uses: &mut Vec<Use>) {
        for bound in self.bounds.at(index) {
            match *bound {
                Bound::Register(register, pointer) => {
                    if let Value::Fresh(at) = state.get(register) {
                        uses.push(Use { pointer, start: at.wrapping_sub(pointer.offset), kind: UseKind::Variable });
                    }
                }
                // Its scope may begin after the store that fills it in.
                Bound::Frame(variable) => self.note_words(state, variable, uses),
                Bound::Address(register, variable, _) => {
                    if let Value::Frame(at) = state.get(register) {
                        self.note_words(state, variable.moved(at), uses);
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes the pointers inside of a variable in the frame that hold the block.
    fn note_words(&self, state: &State, variable: FrameVariable, uses: &mut Vec<Use>) {
        for (at, start) in state.fresh_slots(variable.at, variable.bytes) {
            let inside = variable.inside.cast_signed().wrapping_add(at.wrapping_sub(variable.at));
            let to = self.info.pointer_to(Some(variable.type_), variable.type_.unit);
            if let Some(pointer) = self.pointer_in(Pointer { offset: inside, name: variable.name, ..to }) {
                uses.push(Use { pointer, start, kind: UseKind::Variable });
            }
        }
    }

    /// How much a pointer's type tells.
    pub(super) fn rank(&self, pointer: Pointer) -> u32 {
        match pointer.bytes {
            // An empty class is none of what a block is made of.
            _ if self.info.is_empty_class(pointer.target) => 0,
            _ if self.info.is_structure(pointer.target) => 2,
            0 | 1 => 0,
            _ => 1,
        }
    }

    /// What holds where the flow says `known` and a declaration says `declared`: the outermost structure if both can be
    /// true, else the declaration.
    pub(super) fn reconcile(&self, known: Value, declared: Pointer) -> Value {
        let Value::Pointer(flow) = known else {
            return match known {
                Value::Fresh(_) => known,
                _ => Value::Pointer(declared),
            };
        };
        let named = Value::Pointer(flow.renamed(declared.name));
        if flow.target == declared.target {
            let exact = flow.bytes > 0 && flow.step % flow.bytes == 0;
            let apart = flow.offset.wrapping_sub(declared.offset);
            let size = flow.bytes.cast_signed().max(1);
            return if exact && apart % size == 0 { named } else { Value::Pointer(declared) };
        }
        if self.rank(declared) == 0 {
            return named;
        }
        let at = Pointer { offset: flow.offset.wrapping_sub(declared.offset), ..flow };
        match self.info.offset_in_target(at) {
            Ok(offset) if self.info.has_subobject(flow.target, offset, declared.target) => named,
            _ => Value::Pointer(declared),
        }
    }
}

/// Which register of an element's address points into the array, and how, by what is known of the other one: the element's
/// address less a multiple of something.
fn base_of(state: &State, indexed: Indexed, element: Pointer) -> Option<(Gpr, Pointer)> {
    let Indexed { base, index, factor, .. } = indexed;
    let less = |other: Gpr, factor: i64| {
        let other = state.get(other);
        let is_number = !other.is_address();
        match Value::Pointer(element).minus(other.times(factor)) {
            Value::Pointer(pointer) if is_number && pointer.step != 1 => Some(pointer),
            _ => None,
        }
    };
    let by_index = less(index, factor).map(|pointer| (base, pointer));
    // Without a factor either may be the index.
    by_index.or_else(|| less(base, 1).filter(|_| factor == 1).map(|pointer| (index, pointer)))
}
