//! Call paths of samples: the functions that called where each was taken, for who asks.

use rustc_hash::FxHashMap;
use slimline_trace::access::CallPathId;
use slimline_trace::tables::{StackEnd, StackRow};

use super::call_paths::CallPaths;
use super::{ProcessId, ProcessView};
use crate::tables::{CallPath, CallerId, Frame};

/// The call paths that were met, each once; their frames are shared by all processes.
#[derive(Default)]
pub(super) struct SampledPaths {
    by_stack: FxHashMap<(ProcessId, StackRow), CallPathId>,
    numbers: FxHashMap<Frame, CallerId>,
    paths: Vec<CallPath>,
    frames: Vec<Frame>,
}

impl SampledPaths {
    /// The call path of a sample of the process, taken at that time.
    pub(super) fn find(
        &mut self,
        view: ProcessView<'_, '_>,
        all: &mut CallPaths,
        stack: StackRow,
        time_ns: u64,
    ) -> CallPathId {
        if let Some(&known) = self.by_stack.get(&(view.id, stack)) {
            return known;
        }
        let frames = all.frames(view, stack, time_ns).into_iter().map(|frame| self.number(frame)).collect();
        let is_cut = view.process.tables.stacks.end(stack) != StackEnd::Outermost;
        let id = CallPathId(self.paths.len() as u32);
        self.paths.push(CallPath { frames, is_cut });
        self.by_stack.insert((view.id, stack), id);
        id
    }

    fn number(&mut self, frame: Frame) -> CallerId {
        let next = CallerId(self.frames.len() as u32);
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    pub(super) fn into_rows(self) -> (Vec<CallPath>, Vec<Frame>) {
        (self.paths, self.frames)
    }
}
