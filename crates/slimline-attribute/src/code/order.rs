//! What binds the steps of the loops around a source line to their order, by the machine code of that line.
//!
//! A trace names lines, not instructions: all code of the line counts, whichever functions it was inlined into.

use std::collections::BTreeSet;

use slimline_trace::address::Svma;

use super::source::Loops;
use crate::data::wrappers::WrapperRules;
use crate::module::Module;
use crate::tables::{LoopId, ModuleId};

/// What binds the steps of two loops, one in the other, to their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepOrder {
    /// The first call in them that may do more than compute, by name.
    pub call: Option<String>,
    /// One of them may end in the middle of its steps.
    pub leaves_early: bool,
    /// The inner one finds the data of the next step by what it loads in this one, as in a list.
    pub is_chase: bool,
}

impl StepOrder {
    fn add(&mut self, other: Self) {
        self.call = self.call.take().or(other.call);
        self.leaves_early |= other.leaves_early;
        self.is_chase |= other.is_chase;
    }

    /// Of the innermost loop around the code of a line, from 1, and the loop around that. `None` if the module has no
    /// debug information, or no code of the line is in a loop.
    pub fn around(module: &Module<'_>, is_file: &dyn Fn(&str) -> bool, line: u32) -> Option<Self> {
        let debug = module.debug()?;
        let is_there = |svma: Svma| {
            let mut is_there = false;
            debug.for_each_frame(svma, |level| {
                is_there |= level.line == Some(line) && level.file.is_some_and(is_file);
            });
            is_there
        };
        let mut begins: BTreeSet<Svma> = BTreeSet::new();
        module.for_each_function(&mut |_, start, bytes| {
            let statements = debug.statements_in(start, Svma(start.0.saturating_add(bytes)));
            begins.extend(statements.iter().filter(|of| of.line == line).map(|of| of.address));
        });
        let mut loops = Loops::new(WrapperRules::default());
        let innermost: BTreeSet<LoopId> = begins
            .into_iter()
            .filter(|&svma| is_there(svma))
            .filter_map(|svma| loops.innermost(module, ModuleId(0), svma))
            .collect();
        innermost.into_iter().map(|innermost| loops.step_order(innermost)).reduce(|mut all, more| {
            all.add(more);
            all
        })
    }
}
