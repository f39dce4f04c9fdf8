//! Whose frame an address on a stack is in, and which of its variables.
//!
//! ```text
//!   sample: stack pointer, call path
//!     innermost frame   CFA₀ = stack pointer + how far the CFA is above it there      (unwind information, else the code)
//!     its caller        CFA₁ = CFA₀ + the same at the call: there the stack pointer was CFA₀
//!     …
//!   address ──► the innermost frame whose CFA is above it ──► offset from that ──► variable in scope at that code
//! ```
//!
//! An instruction that names a place in its own frame needs none of that: its operand says where the frame is. That is
//! how accesses of functions are told that a burst called.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use slimline_trace::access::SiteId;
use slimline_trace::address::{Avma, Svma};

use super::{ProcessId, ProcessView};
use crate::typing::frame::FrameLayout;

/// Leaf functions use so much below the stack pointer (System V).
const RED_ZONE_BYTES: u64 = 128;
/// A frame that is larger is a mistake: stacks are at most that large.
const MOST_FRAME_BYTES: i64 = 1 << 32;

/// What is at an address of a stack.
#[derive(Clone, Debug)]
pub(super) enum OnStack {
    /// A variable that is a structure or an array.
    Local {
        /// Number of the module.
        module: usize,
        /// Where its function begins.
        function: Svma,
        layout: Rc<FrameLayout>,
        /// Number in the layout.
        local: usize,
        /// Where the variable begins.
        start: u64,
    },
    /// A number, a saved register, or a frame without debug information.
    Frame,
    /// No known frame.
    Unknown,
}

/// An instruction, and what is known of its function's frame.
#[derive(Clone, Debug)]
struct Code {
    module: usize,
    svma: Svma,
    function: Option<(Svma, Rc<FrameLayout>)>,
}

/// A function that a thread was in.
#[derive(Clone, Debug)]
pub(super) struct Activation {
    cfa: u64,
    code: Code,
}

/// What is known of frames.
#[derive(Default)]
pub(super) struct Frames {
    layouts: FxHashMap<(usize, Svma), Option<Rc<FrameLayout>>>,
    /// By process and address of the code: how far the CFA is above the stack pointer.
    above: FxHashMap<(ProcessId, u64), Option<(i64, Code)>>,
    /// Where the operand of a site is from the CFA, for those in their own frame.
    operands: FxHashMap<SiteId, Option<(i64, Code)>>,
}

impl Frames {
    /// The functions that a thread was in, innermost first, as far as their frames are known.
    pub(super) fn walk(
        &mut self,
        view: ProcessView<'_, '_>,
        (sampled_ip, stack_pointer): (Avma, Avma),
        callers: &[Avma],
        time_ns: u64,
    ) -> Vec<Activation> {
        let mut activations = Vec::new();
        let mut stack_pointer = stack_pointer.0;
        let calls = callers.iter().map(|return_address| Avma(return_address.0.wrapping_sub(1)));
        for address in [sampled_ip].into_iter().chain(calls) {
            let above = self.above.get(&(view.id, address.0)).cloned();
            let above = above.unwrap_or_else(|| {
                let above = self.above_stack_pointer(view, address, time_ns);
                self.above.insert((view.id, address.0), above.clone());
                above
            });
            let Some((above, code)) = above.filter(|(above, _)| (0..MOST_FRAME_BYTES).contains(above)) else { break };
            stack_pointer = stack_pointer.saturating_add_signed(above);
            activations.push(Activation { cfa: stack_pointer, code });
        }
        activations
    }

    fn above_stack_pointer(&mut self, view: ProcessView<'_, '_>, address: Avma, time_ns: u64) -> Option<(i64, Code)> {
        let loaded = view.process.space.module_at(address, time_ns)?;
        let code = self.code(view, loaded.module, loaded.svma(address));
        let unwound = || view.modules.get(loaded.module).image()?.frame_above_stack_pointer(code.svma);
        let by_code = || Some(code.function.as_ref()?.1.depth_at(code.svma)?.wrapping_neg());
        let above = unwound().or_else(by_code)?;
        Some((above, code))
    }

    fn code(&mut self, view: ProcessView<'_, '_>, number: usize, svma: Svma) -> Code {
        let module = view.modules.get(number);
        let function = module.function_bounds(svma).and_then(|(start, end)| {
            let layout = self.layouts.entry((number, start)).or_insert_with(|| {
                let layout = module.debug_info()?.frame_layout(module.code((start, end))?, start)?;
                Some(Rc::new(layout))
            });
            Some((start, Rc::clone(layout.as_ref()?)))
        });
        Code { module: number, svma, function }
    }

    /// What an instruction accesses at an address of a stack; `at` is its place in the code, `walked` what the thread was
    /// in when it was sampled last.
    pub(super) fn find(
        &mut self,
        view: ProcessView<'_, '_>,
        (site, at): (SiteId, Option<(usize, Svma)>),
        address: u64,
        walked: (u64, &[Activation]),
    ) -> OnStack {
        let operand = match self.operands.get(&site) {
            Some(known) => known.clone(),
            None => {
                let code = at.map(|(number, svma)| self.code(view, number, svma));
                let operand = code.and_then(|code| Some((code.function.as_ref()?.1.operand_at(code.svma)?, code)));
                self.operands.insert(site, operand.clone());
                operand
            }
        };
        if let Some((offset, code)) = operand {
            return code.find(offset, address);
        }
        let (stack_pointer, activations) = walked;
        if address < stack_pointer.saturating_sub(RED_ZONE_BYTES) {
            return OnStack::Unknown;
        }
        match activations.iter().find(|activation| address < activation.cfa) {
            Some(Activation { cfa, code }) => code.find(address.wrapping_sub(*cfa).cast_signed(), address),
            None => OnStack::Unknown,
        }
    }
}

impl Code {
    /// What is at an offset from the CFA.
    fn find(&self, offset: i64, address: u64) -> OnStack {
        let Some((function, layout)) = &self.function else { return OnStack::Frame };
        match layout.local_at(self.svma, offset) {
            Some((local, variable)) if variable.is_aggregate => OnStack::Local {
                module: self.module,
                function: *function,
                layout: Rc::clone(layout),
                local,
                start: address.wrapping_add_signed(variable.at.wrapping_sub(offset)),
            },
            _ => OnStack::Frame,
        }
    }
}
