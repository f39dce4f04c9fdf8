//! What is known of registers and of the frame's words before an instruction.

use std::collections::BTreeMap;

use super::debug_info::DebugInfo;
use super::infer::Reason;
use super::location::Gpr;
use super::value::{Home, Pointer, Symbol, Value};

/// What is known before an instruction.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    pub(super) registers: [Value; 16],
    /// Words in the frame by offset from the call frame address; absent means nothing is known.
    slots: BTreeMap<i64, Value>,
    /// What the low 8 bytes of the vector registers hold: compilers store pairs of pointers by them.
    vectors: [Value; 16],
    /// Whether the code was reached in a known way; if not, slots of other paths are taken as they are.
    reached: bool,
}

impl State {
    /// At the function's entry, or wherever nothing else is known.
    pub(super) fn at_entry() -> Self {
        let mut registers = [Value::Unknown(Reason::FromCaller); 16];
        for (number, register) in registers.iter_mut().enumerate() {
            *register = register.with_symbol(Self::at_entry_in(Gpr(number as u8)));
        }
        registers[usize::from(Gpr::RSP.0)] = Value::Frame(-8);
        Self { registers, slots: BTreeMap::new(), vectors: [Value::Unknown(Reason::FromCaller); 16], reached: true }
    }

    /// Somewhere within a function.
    pub(super) fn within() -> Self {
        Self { registers: [Value::Unseen; 16], slots: BTreeMap::new(), vectors: [Value::Unseen; 16], reached: false }
    }

    /// What stands for the word that the caller left in a register.
    pub(super) fn at_entry_in(register: Gpr) -> Symbol {
        Symbol::Paths(u32::MAX, register.0)
    }

    /// Where code is reached in ways not known: the frame is as `prologue` leaves it.
    pub(super) fn unseen(prologue: &Self) -> Self {
        let frame = |value: Value| if let Value::Frame(_) = value { value } else { Value::Unseen };
        let vectors = [Value::Unseen; 16];
        Self { registers: prologue.registers.map(frame), slots: BTreeMap::new(), vectors, reached: false }
    }

    pub(super) fn get(&self, register: Gpr) -> Value {
        self.registers[usize::from(register.0)]
    }

    pub(super) fn set(&mut self, register: Gpr, value: Value) {
        self.registers[usize::from(register.0)] = value;
    }

    /// What is known of the frame's word at `at`.
    pub(super) fn slot(&self, at: i64) -> Option<Value> {
        self.slots.get(&at).copied()
    }

    /// The words in those bytes of the frame that point into the watched call's block, and where in it.
    pub(super) fn fresh_slots(&self, at: i64, bytes: u64) -> impl Iterator<Item = (i64, i64)> {
        self.slots.range(at..at.saturating_add_unsigned(bytes)).filter_map(|(&at, value)| match *value {
            Value::Fresh(start) => Some((at, start)),
            _ => None,
        })
    }

    /// The low 8 bytes of the vector register with that number.
    pub(super) fn vector(&self, number: usize) -> Value {
        self.vectors.get(number).copied().unwrap_or(Value::Unknown(Reason::Arithmetic))
    }

    pub(super) fn set_vector(&mut self, number: usize, value: Value) {
        if let Some(known) = self.vectors.get_mut(number) {
            *known = value;
        }
    }

    /// Loses what `other`, on another path into the block with that number, does not know alike; whether anything was
    /// lost. `info` tells which of two types holds the other.
    pub(super) fn join(&mut self, other: &Self, block: u32, info: &DebugInfo<'_>) -> bool {
        let mut changed = false;
        for (number, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            let symbol = Symbol::Paths(block, number as u8);
            // It already stands for whatever the paths bring.
            if mine.symbol() == Some(symbol) {
                continue;
            }
            let joined = meet(info, *mine, *theirs).with_symbol(symbol);
            changed |= joined != *mine;
            *mine = joined;
        }
        for (mine, theirs) in self.vectors.iter_mut().zip(&other.vectors) {
            let joined = meet(info, *mine, *theirs);
            changed |= joined != *mine;
            *mine = joined;
        }
        if !other.reached {
            return changed;
        }
        if !self.reached {
            self.slots.clone_from(&other.slots);
            self.reached = true;
            return true;
        }
        let before = self.slots.len();
        self.slots.retain(|at, mine| {
            let joined =
                other.slots.get(at).map_or(Value::Unknown(Reason::PathsDisagree), |theirs| meet(info, *mine, *theirs));
            changed |= joined != *mine;
            *mine = joined;
            !matches!(joined, Value::Unknown(_))
        });
        changed || before != self.slots.len()
    }

    /// Gives up everything that still changes.
    pub(super) fn widen(&mut self, other: &Self, block: u32) {
        for (number, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            let symbol = Symbol::Paths(block, number as u8);
            if mine.symbol() != Some(symbol) && mine.join(*theirs) != *mine {
                *mine = Value::Unknown(Reason::PathsDisagree).with_symbol(symbol);
            }
        }
        for (mine, theirs) in self.vectors.iter_mut().zip(&other.vectors) {
            if mine.join(*theirs) != *mine {
                *mine = Value::Unknown(Reason::PathsDisagree);
            }
        }
        if !other.reached {
            return;
        }
        self.slots.retain(|at, mine| other.slots.get(at).is_some_and(|theirs| mine.join(*theirs) == *mine));
    }

    /// The state as it enters a block anew, where the block's own symbols come to stand for other values.
    pub(super) fn entering(mut self, block: u32) -> Self {
        let renew = |value: &mut Value| {
            if let Some(symbol @ Symbol::Paths(at, _)) = value.symbol()
                && at == block
            {
                *value = value.without_symbol(symbol);
            }
        };
        self.registers.iter_mut().for_each(renew);
        self.slots.values_mut().for_each(renew);
        self.vectors.iter_mut().for_each(renew);
        self
    }

    /// Sets a register to what an instruction computes, which has a symbol even if nothing is known of it.
    pub(super) fn define(&mut self, register: Gpr, value: Value, index: usize) {
        let symbol = Symbol::Instruction(index as u32);
        let forget = |known: &mut Value| *known = known.without_symbol(symbol);
        self.registers.iter_mut().for_each(forget);
        self.slots.values_mut().for_each(forget);
        self.vectors.iter_mut().for_each(forget);
        // An instruction that defines two registers names the first one's value only.
        self.set(register, value.without_symbol(symbol).with_symbol(symbol));
    }

    pub(super) fn store(&mut self, at: i64, bytes: u64, value: Value) {
        let end = at.saturating_add_unsigned(bytes);
        let overlapping: Vec<i64> = self.slots.range(at.saturating_sub(7)..end).map(|(&at, _)| at).collect();
        for slot in overlapping {
            self.slots.remove(&slot);
        }
        if bytes == 8 && !matches!(value, Value::Unknown(_)) {
            self.slots.insert(at, value);
        }
    }
}

/// What holds of both values. Of pointers to an object and to a part of it, where both point to the part, the part's.
fn meet(info: &DebugInfo<'_>, a: Value, b: Value) -> Value {
    let holds = |outer: Pointer, inner: Pointer| {
        let at = Pointer { offset: outer.offset.wrapping_sub(inner.offset), ..outer };
        info.offset_in_target(at).is_ok_and(|offset| info.has_subobject(outer.target, offset, inner.target))
    };
    match (a, b) {
        (Value::Pointer(a), Value::Pointer(b)) if a.target != b.target => {
            let (name, home) = (a.name.filter(|_| a.name == b.name), Home::of_both(a.home, b.home));
            let origin = a.origin().filter(|_| a.origin() == b.origin());
            let common = if holds(a, b) {
                Pointer { name, home, ..b }
            } else if holds(b, a) {
                Pointer { name, home, ..a }
            } else {
                return Value::Unknown(Reason::PathsDisagree);
            };
            Value::Pointer(common.with_origin(origin))
        }
        _ => a.join(b),
    }
}
