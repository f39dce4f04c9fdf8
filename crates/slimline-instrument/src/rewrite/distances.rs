//! Addresses as sums, so that two can be told by one word where they are always as far from each other.
//!
//! ```text
//!   &a[i].x        a + i × 24 + 0        one word
//!   &a[i].y        a + i × 24 + 8        8 behind it
//!   &a[i + 1].x    a + i × 24 + 24       24 behind it
//! ```

use crate::llvm::{Opcode, TypeKind, Value};

/// Most terms of a sum, and most steps to one: what is longer is one term of itself.
const MOST: usize = 8;

/// Values times constants and a constant, modulo 2⁶⁴.
#[derive(Clone, Default)]
pub(super) struct Sum<'m> {
    /// Each value once.
    terms: Vec<(Value<'m>, i64)>,
    constant: i64,
}

impl<'m> Sum<'m> {
    /// What a pointer is the sum of.
    pub(super) fn of(mut pointer: Value<'m>) -> Self {
        let mut sum = Self::default();
        for _ in 0..MOST {
            let Some(base) = sum.add_indexes(pointer) else { break };
            pointer = base;
        }
        sum.add(pointer, 1);
        sum
    }

    /// Adds what an element pointer adds to another one, and gives that; none where it is no such thing.
    fn add_indexes(&mut self, pointer: Value<'m>) -> Option<Value<'m>> {
        let base = pointer.operand(0)?;
        let are_pointers = [pointer, base].iter().all(|value| value.r#type().kind() == TypeKind::Pointer);
        let mut of = pointer.element_type().filter(|_| are_pointers)?;
        let mut found = self.clone();
        found.add_index(pointer.operand(1)?, of.array_bytes()?, MOST);
        for number in 2..pointer.operands() {
            let index = pointer.operand(number)?;
            if of.kind() == TypeKind::Struct {
                let (offset, member) = of.member(u32::try_from(index.constant()?).ok()?)?;
                found.constant = found.constant.wrapping_add_unsigned(offset);
                of = member;
            } else {
                // Elements of vectors may lie closer than those of arrays.
                of = of.element().filter(|_| of.kind() == TypeKind::Array)?;
                found.add_index(index, of.array_bytes()?, MOST);
            }
        }
        *self = found;
        Some(base)
    }

    /// Adds an index of things of so many bytes.
    fn add_index(&mut self, index: Value<'m>, bytes: u64, steps: usize) {
        let factor = bytes.cast_signed();
        if let Some(constant) = index.constant() {
            self.constant = self.constant.wrapping_add(constant.wrapping_mul(factor));
            return;
        }
        // A narrower one is extended, and its own sum may have been cut.
        let is_wide = index.r#type().integer_bits() == Some(64);
        if is_wide
            && steps > 0
            && let Some(other) = index.operand(0)
            && let Some(constant) = index.operand(1).and_then(Value::constant)
        {
            let (factor, rest) = match index.opcode() {
                Some(Opcode::Add) => (factor, constant),
                Some(Opcode::Or) if index.is_disjoint() => (factor, constant),
                Some(Opcode::ShiftLeft) if (0..64).contains(&constant) => (factor.wrapping_shl(constant as u32), 0),
                _ => return self.add(index, factor),
            };
            self.constant = self.constant.wrapping_add(rest.wrapping_mul(factor));
            return self.add_index(other, factor.cast_unsigned(), steps - 1);
        }
        self.add(index, factor);
    }

    fn add(&mut self, value: Value<'m>, factor: i64) {
        match self.terms.iter_mut().find(|(known, _)| *known == value) {
            Some((_, known)) => *known = known.wrapping_add(factor),
            None => self.terms.push((value, factor)),
        }
    }

    /// How far this is from another one, where that is always the same.
    pub(super) fn distance_from(&self, other: &Self) -> Option<i32> {
        let is_same = self.terms.len() == other.terms.len() && self.terms.iter().all(|term| other.terms.contains(term));
        i32::try_from(self.constant.wrapping_sub(other.constant)).ok().filter(|_| is_same)
    }
}
