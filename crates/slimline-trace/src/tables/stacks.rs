//! Stacks: call paths of samples and of allocations.

use super::column::named_cell;
use super::{StackRow, TableError, table};
use crate::address::Avma;

/// Where a call path stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackEnd {
    /// At its outermost frame.
    Outermost,
    /// At [`MAX_FRAMES`](crate::wire::MAX_FRAMES); the outer frames are missing.
    Depth,
    /// Where unwinding failed; the outer frames are missing.
    Unwinding,
}

impl StackEnd {
    /// From the agent's number; see [`SampleHead::stack_cut`](crate::wire::SampleHead::stack_cut).
    pub fn from_cut(cut: u8) -> Self {
        match cut {
            0 => Self::Outermost,
            1 => Self::Depth,
            _ => Self::Unwinding,
        }
    }
}

named_cell!(StackEnd { Outermost => "outermost", Depth => "depth", Unwinding => "unwinding" });

table! {
    /// Call paths flattened: the stored form of [`Stacks`].
    StackFrames of
    /// One frame of a call path.
    StackFrame in "stacks" {
        /// The call path; all its frames are neighbours, and paths come in ascending order.
        stack: StackRow as Delta,
        /// 0 is the innermost caller.
        depth: u32 as Delta,
        /// Return address; the call is just before it.
        return_address: Avma as Delta,
        /// Where the path stops; the same in all its frames.
        end: StackEnd as Dictionary,
    }
}

impl StackFrames {
    /// Appends all frames of `stack`.
    pub fn push_stack(&mut self, stack: StackRow, frames: impl IntoIterator<Item = Avma>, end: StackEnd) {
        for (depth, return_address) in (0..).zip(frames) {
            self.push(StackFrame { stack, depth, return_address, end });
        }
    }
}

/// The call paths of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacks {
    /// Where each path's frames end; they start where those of the path before end.
    ends: Vec<usize>,
    frames: Vec<Avma>,
    stops: Vec<StackEnd>,
}

impl Stacks {
    /// Number of call paths.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Return addresses of `stack`, innermost first; panics where there is no such row, as slices do.
    pub fn frames(&self, stack: StackRow) -> &[Avma] {
        let row = stack.index();
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.frames[start..self.ends[row]]
    }

    /// Where `stack` stops.
    pub fn end(&self, stack: StackRow) -> StackEnd {
        self.stops[stack.index()]
    }

    /// All call paths with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (StackRow, &[Avma])> {
        (0..self.len()).map(|row| (StackRow::new(row), self.frames(StackRow::new(row))))
    }

    /// Appends a call path of at least one frame.
    pub fn push(&mut self, frames: &[Avma], end: StackEnd) -> StackRow {
        let row = StackRow::new(self.len());
        self.frames.extend_from_slice(frames);
        self.ends.push(self.frames.len());
        self.stops.push(end);
        row
    }

    /// Appends the next paths of a process in their stored form.
    ///
    /// # Errors
    /// [`TableError::Reference`] where paths or frames are not in order.
    pub fn append(&mut self, stored: &StackFrames) -> Result<(), TableError> {
        for frame in stored.iter() {
            let row = frame.stack.index();
            if frame.depth == 0 && row == self.len() {
                self.push(&[frame.return_address], frame.end);
                continue;
            }
            let (start, last) = match self.ends[..] {
                [.., before, _] => (before, self.len() - 1),
                [_] => (0, 0),
                [] => return Err(TableError::Reference("call paths are out of order")),
            };
            if row != last || self.frames.len() - start != frame.depth as usize {
                return Err(TableError::Reference("call paths are out of order"));
            }
            self.frames.push(frame.return_address);
            self.ends[last] += 1;
        }
        Ok(())
    }
}
