//! What lies where in a function's frame, at each of its instructions.
//!
//! ```text
//!   caller's frame
//!   ─────────────── call frame address (CFA): the stack pointer before the call
//!   return address  CFA − 8
//!   locals          CFA + at                    (DW_OP_fbreg, or a frame register plus a constant)
//!   ─────────────── stack pointer = CFA + depth (depth < 0, as the code says)
//!   red zone        down to 128 bytes below it
//! ```

use std::collections::HashMap;

use slimline_trace::address::Svma;

use super::bound::{Bound, FrameVariable};
use super::debug_info::{DebugInfo, Die};
use super::function::Function;
use super::layout::TypeTable;
use super::location::Gpr;
use super::shape::Shape;
use super::state::State;
use super::value::Value;
use crate::tables::{Element, SourcePosition};

/// Where a function keeps what, at each of its instructions.
#[derive(Debug, Default)]
pub struct FrameLayout {
    /// In order of address.
    instructions: Vec<Instruction>,
    locals: Vec<Local>,
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    address: u64,
    /// Stack pointer before it, from the call frame address; `None` where it is not known (`alloca`).
    depth: Option<i64>,
    /// Its memory operand, from the call frame address, where that is in the frame.
    operand: Option<i64>,
}

/// A variable in a frame.
#[derive(Clone, Debug)]
pub struct Local {
    /// Where it starts, from the call frame address.
    pub at: i64,
    /// Size in bytes.
    pub bytes: u64,
    /// As the source has it.
    pub name: String,
    /// Whether it is more than a number or a pointer: a structure, or an array.
    pub is_aggregate: bool,
    die: Die,
    type_: Die,
    /// Addresses of the code where it is in scope.
    scope: Vec<(u64, u64)>,
}

impl Local {
    fn holds(&self, offset: i64) -> bool {
        offset >= self.at && offset.wrapping_sub(self.at).cast_unsigned() < self.bytes
    }
}

impl FrameLayout {
    /// The stack pointer, from the call frame address, before the instruction that holds the byte at an address.
    pub fn depth_at(&self, address: Svma) -> Option<i64> {
        let after = self.instructions.partition_point(|instruction| instruction.address <= address.0);
        self.instructions.get(after.checked_sub(1)?)?.depth
    }

    /// Where an instruction's memory operand is, from the call frame address.
    pub fn operand_at(&self, address: Svma) -> Option<i64> {
        let found = self.instructions.binary_search_by_key(&address.0, |instruction| instruction.address).ok()?;
        self.instructions[found].operand
    }

    /// The variable at an offset from the call frame address that is in scope at an address of the code; where none is,
    /// the only one that is ever there.
    ///
    /// With its number in [`Self::locals`].
    pub fn local_at(&self, address: Svma, offset: i64) -> Option<(usize, &Local)> {
        let mut here = self.locals.iter().enumerate().filter(|(_, local)| local.holds(offset));
        let in_scope =
            |(_, local): &(usize, &Local)| local.scope.iter().any(|&(begin, end)| (begin..end).contains(&address.0));
        // Of an object and what an inlined function calls a part of it, the object is told.
        let found =
            here.clone().filter(in_scope).max_by_key(|(number, local)| (local.bytes, std::cmp::Reverse(*number)));
        found.or_else(|| {
            let first = here.next()?;
            here.all(|(_, other)| (other.at, other.type_) == (first.1.at, first.1.type_)).then_some(first)
        })
    }

    /// All variables.
    pub fn locals(&self) -> &[Local] {
        &self.locals
    }
}

impl<'a> DebugInfo<'a> {
    /// The frame of the function whose code `code` lies at `begin`; `None` without debug information of it.
    pub fn frame_layout(&self, code: &[u8], begin: Svma) -> Option<FrameLayout> {
        if code.len() > super::infer::MAX_CODE_BYTES {
            return None;
        }
        let function = self.function(code, begin, None)?;
        // A part of a function that lies apart from it is entered with a frame of unknown depth.
        if self.entry_address(function.die)? != begin.0 {
            return None;
        }
        let solved = function.solve();
        let mut layout = FrameLayout::default();
        let mut known: HashMap<(i64, Die), Option<usize>> = HashMap::new();
        function.walk(&solved, |index, state, _| {
            let instruction = &function.flow.instructions[index];
            layout.instructions.push(Instruction {
                address: instruction.ip(),
                depth: frame_offset(state.get(Gpr::RSP)),
                operand: function.operand_in_frame(state, index),
            });
            for (variable, die) in function.frame_variables(state, index) {
                let at = variable.at.wrapping_sub_unsigned(variable.inside);
                let row = known.entry((at, die)).or_insert_with(|| {
                    layout.locals.push(self.local(variable, at, die)?);
                    Some(layout.locals.len() - 1)
                });
                let Some(row) = *row else { continue };
                // The scope goes on, or there is another part of it.
                let scope = &mut layout.locals[row].scope;
                match scope.last_mut() {
                    Some((_, end)) if *end >= instruction.ip() => *end = instruction.next_ip(),
                    _ => scope.push((instruction.ip(), instruction.next_ip())),
                }
            }
        });
        Some(layout)
    }

    fn local(&self, variable: FrameVariable, at: i64, die: Die) -> Option<Local> {
        let shape = self.shape(variable.type_)?;
        let is_aggregate = matches!(shape, Shape::Aggregate { .. } | Shape::Array { .. });
        Some(Local {
            at,
            bytes: shape.bytes(),
            name: self.name(die)?.into_owned(),
            is_aggregate,
            die,
            type_: variable.type_,
            scope: Vec::new(),
        })
    }

    /// What a local variable is an array of, and where it is declared.
    pub fn local_element(&self, local: &Local, table: &mut TypeTable) -> Option<(Element, Option<SourcePosition>)> {
        let (element, bytes) = self.innermost_element(local.type_);
        let element = Element { type_id: self.row(element, table)?, bytes, start: 0, agreement: 1.0 };
        Some((element, self.declared_at(local.die)))
    }
}

fn frame_offset(value: Value) -> Option<i64> {
    match value {
        Value::Frame(at) => Some(at),
        _ => None,
    }
}

impl Function<'_, '_> {
    /// Where the instruction's memory operand is in the frame; of those that push and pop, the word that they do.
    fn operand_in_frame(&self, state: &State, index: usize) -> Option<i64> {
        use iced_x86::{Mnemonic, OpKind};
        let instruction = &self.flow.instructions[index];
        let depth = || frame_offset(state.get(Gpr::RSP));
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Call => Some(depth()?.wrapping_sub(8)),
            Mnemonic::Pop | Mnemonic::Ret => depth(),
            Mnemonic::Leave => frame_offset(state.get(Gpr::RBP)),
            _ => {
                let has_operand =
                    (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
                if has_operand { frame_offset(self.address(state, index)) } else { None }
            }
        }
    }

    /// The variables in the frame that are in place at an instruction.
    fn frame_variables(&self, state: &State, index: usize) -> Vec<(FrameVariable, Die)> {
        let in_frame = |bound: &Bound| match *bound {
            Bound::Frame(variable) => Some((variable, variable.die)),
            Bound::Address(register, variable, _) => {
                Some((variable.moved(frame_offset(state.get(register))?), variable.die))
            }
            _ => None,
        };
        self.bounds.at(index).filter_map(in_frame).collect()
    }
}
