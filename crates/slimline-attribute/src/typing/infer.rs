//! Which type and offset a memory instruction accesses.
//!
//! As the kernel's data-type profiling (`perf annotate --data-type`) does, the variables in scope at an instruction
//! say what registers and frame slots hold. Optimized code mostly keeps its pointers elsewhere; so types flow along the
//! function's control flow through moves, loads of pointer members, address arithmetic and calls, and paths that meet
//! keep what they agree on.

use iced_x86::{InstructionInfoFactory, OpKind};
use slimline_trace::address::Svma;

use super::bound::{Bounds, Names};
use super::debug_info::DebugInfo;
use super::flow::Flow;
use super::function::{Function, Use, Watch};
use super::layout::TypeTable;
use super::state::State;
use crate::tables::TypeRef;

/// What an instruction accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteType {
    /// Type and offset. The type is the outermost structure known; a number's or pointer's own type where the access is
    /// to no structure.
    pub accessed: TypeRef,
    /// The variable that held the base address, or the object itself; with members (`net->neurons`) where the base was
    /// loaded from one.
    pub variable: Option<String>,
}

/// Why the type an instruction accesses is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No debug information covers the function, or it has lines only.
    NoDebugInfo,
    /// There is no instruction, or it names no memory operand (`push`, `ret`, `rep movs`).
    NoOperand,
    /// The function is longer than [`MAX_CODE_BYTES`].
    TooLong,
    /// Thread-local, by a segment.
    ThreadLocal,
    /// A vector of addresses.
    Gather,
    /// A word of the frame that belongs to no variable: a saved register.
    Spill,
    /// A fixed address, or an array in the frame, that belongs to no variable with debug information.
    NoVariable,
    /// A pointer to `void`, or to a type that is declared only.
    Untyped,
    /// The base is a register as the caller left it, and no variable tells.
    FromCaller,
    /// The base is the result of a call whose type is not known, or was lost over a call.
    CallResult,
    /// The base was loaded from where the type has no pointer.
    NoPointer,
    /// The base was computed in a way that is not followed.
    Arithmetic,
    /// Paths that meet disagree about the base.
    PathsDisagree,
    /// The type is known, but the offset runs in steps that no array in it has.
    OffsetRuns,
    /// The type is known, but the offset is outside of it.
    OutsideType,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 15] = [
        Self::NoDebugInfo,
        Self::NoOperand,
        Self::TooLong,
        Self::ThreadLocal,
        Self::Gather,
        Self::Spill,
        Self::NoVariable,
        Self::Untyped,
        Self::FromCaller,
        Self::CallResult,
        Self::NoPointer,
        Self::Arithmetic,
        Self::PathsDisagree,
        Self::OffsetRuns,
        Self::OutsideType,
    ];
}

/// Longer functions (generated interpreters, mostly) are not followed: time grows with blocks times registers.
pub const MAX_CODE_BYTES: usize = 1 << 20;

/// After that many visits a block's changing values are given up; pointer steps halve at most 64 times before.
const MAX_VISITS: u32 = 24;

impl<'a> DebugInfo<'a> {
    /// What each of `sites` accesses, in the function whose code `code` lies at `begin`; types go to `table`.
    ///
    /// The function is followed once, whatever the number of sites.
    pub fn infer(
        &self,
        code: &[u8],
        begin: Svma,
        sites: &[Svma],
        table: &mut TypeTable,
    ) -> Vec<Result<SiteType, Reason>> {
        let all = |reason| sites.iter().map(|_| Err(reason)).collect();
        if code.len() > MAX_CODE_BYTES {
            return all(Reason::TooLong);
        }
        let Some(function) = self.function(code, begin, None) else { return all(Reason::NoDebugInfo) };
        let solved = function.solve();
        let mut answers = vec![Err(Reason::NoOperand); sites.len()];
        let mut wanted: Vec<(usize, usize)> = Vec::new();
        for (at, site) in sites.iter().enumerate() {
            wanted.extend(function.flow.at(site.0).map(|index| (index, at)));
        }
        wanted.sort_unstable();
        let mut wanted = wanted.into_iter().peekable();
        function.walk(&solved, |index, state, _| {
            while let Some((_, at)) = wanted.next_if(|&(next, _)| next == index) {
                answers[at] = function.site_type(state, index, table).map_err(|reason| match reason {
                    Reason::FromCaller if function.scope.variables == 0 => Reason::NoDebugInfo,
                    reason => reason,
                });
            }
        });
        answers
    }

    pub(super) fn function<'i>(&'i self, code: &[u8], begin: Svma, watch: Option<Watch>) -> Option<Function<'i, 'a>> {
        let die = self.function_at(begin.0)?;
        let scope = self.function_scope(die)?;
        let flow = Flow::new(code, begin.0);
        let names = Names::default();
        let bounds = Bounds::new(self, &scope, &flow, &names);
        Some(Function { info: self, die, scope, flow, bounds, names, watch })
    }
}

impl Function<'_, '_> {
    /// What is known at the start of each block.
    pub(super) fn solve(&self) -> Vec<Option<State>> {
        let blocks = &self.flow.blocks;
        let mut known: Vec<Option<State>> = vec![None; blocks.len()];
        if blocks.is_empty() {
            return known;
        }
        let begin = self.flow.instructions[0].ip();
        // Of a part that was moved away from the function it is not known how it is reached, nor where the frame is.
        let is_entry = self.info.entry_address(self.die).is_none_or(|entry| entry == begin);
        known[0] = Some(if is_entry { State::at_entry() } else { State::within() });
        self.iterate(&mut known, 0);
        // Blocks that nothing leads to: landing pads, and what a part of the function elsewhere jumps to.
        let mut prologue = known[0].clone().unwrap_or_else(State::at_entry);
        self.run_block(0, &mut prologue, &mut InstructionInfoFactory::new(), &mut Vec::new(), |_, _, _| ());
        let unseen = State::unseen(&prologue);
        for block in 0..blocks.len() {
            if known[block].is_none() {
                known[block] = Some(unseen.clone());
                self.iterate(&mut known, block);
            }
        }
        known
    }

    fn iterate(&self, known: &mut [Option<State>], from: usize) {
        let mut factory = InstructionInfoFactory::new();
        let mut visits = vec![0_u32; known.len()];
        let mut waiting = std::collections::BTreeSet::from([from]);
        while let Some(block) = waiting.pop_first() {
            let Some(mut state) = known[block].clone() else { continue };
            visits[block] += 1;
            self.run_block(block, &mut state, &mut factory, &mut Vec::new(), |_, _, _| ());
            for &next in &self.flow.blocks[block].successors {
                let number = next as u32;
                let state = state.clone().entering(number);
                let changed = match &mut known[next] {
                    Some(there) if visits[next] > MAX_VISITS => {
                        let before = there.clone();
                        there.widen(&state, number);
                        before != *there
                    }
                    Some(there) => there.join(&state, number, self.info),
                    none => {
                        *none = Some(state);
                        true
                    }
                };
                if changed {
                    waiting.insert(next);
                }
            }
        }
    }

    /// Visits each instruction once, in order of address, with what is known before it.
    pub(super) fn walk(
        &self,
        known: &[Option<State>],
        mut visit: impl FnMut(usize, &State, &mut Vec<Use>),
    ) -> Vec<Use> {
        let mut uses = Vec::new();
        let mut factory = InstructionInfoFactory::new();
        for (block, state) in known.iter().enumerate() {
            let mut state = state.clone().unwrap_or_else(State::at_entry);
            self.run_block(block, &mut state, &mut factory, &mut uses, &mut visit);
        }
        uses
    }

    fn run_block(
        &self,
        block: usize,
        state: &mut State,
        factory: &mut InstructionInfoFactory,
        uses: &mut Vec<Use>,
        mut visit: impl FnMut(usize, &State, &mut Vec<Use>),
    ) {
        let block = &self.flow.blocks[block];
        for index in block.begin..block.end {
            self.apply_bounds(state, index, uses);
            visit(index, state, uses);
            self.step(state, index, factory, uses);
        }
    }

    fn site_type(&self, state: &State, index: usize, table: &mut TypeTable) -> Result<SiteType, Reason> {
        let instruction = &self.flow.instructions[index];
        let has_operand = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        if !has_operand {
            return Err(Reason::NoOperand);
        }
        let place = self.accessed(state, index)?;
        let type_id = self.info.row(place.target, table).ok_or(Reason::Untyped)?;
        let offset = u64::try_from(place.offset).map_err(|_| Reason::OutsideType)?;
        Ok(SiteType { accessed: TypeRef { type_id, offset }, variable: place.name.map(|name| self.names.text(name)) })
    }
}
