//! How many cache lines a loop touches per element it visits, in a given layout.

use std::collections::BTreeSet;

use super::Subject;
use crate::fields::LINE_BYTES;
use crate::findings::LoopGroup;

/// Elements over which lines are counted: every phase of an element in its line occurs.
const ELEMENTS: u64 = 64;
/// What glibc's allocator puts before a block, and what it rounds block and header up to.
const HEADER_BYTES: u64 = 8;
const CHUNK_BYTES: u64 = 16;
const LEAST_CHUNK_BYTES: u64 = 32;

/// Byte ranges (offset, bytes) that a loop uses of the elements of one array, `spacing` apart.
pub(super) struct Layout {
    pub(super) spacing: u64,
    pub(super) used: Vec<(u64, u64)>,
}

impl Layout {
    /// Lines touched per visit when every `step`th element is visited in turn: a line that the neighbour touched already
    /// costs nothing.
    pub(super) fn lines_per_visit(&self, step: u64) -> f64 {
        let mut lines = BTreeSet::new();
        for visit in 0..ELEMENTS {
            let start = visit * step * self.spacing;
            for &(offset, bytes) in &self.used {
                let first = (start + offset) / LINE_BYTES;
                let last = (start + offset + bytes.max(1) - 1) / LINE_BYTES;
                lines.extend(first..=last);
            }
        }
        lines.len() as f64 / ELEMENTS as f64
    }
}

/// Distance of blocks of this size that are allocated one after another.
pub(super) fn block_spacing(bytes: u64) -> u64 {
    (bytes + HEADER_BYTES).next_multiple_of(CHUNK_BYTES).max(LEAST_CHUNK_BYTES)
}

/// Lines before and after a change, over all loops of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packing {
    before: f64,
    after: f64,
    /// Part of the session's time in which the lines that are saved are fetched.
    pub saved_share: f64,
}

impl Packing {
    /// Change of the lines touched, weighted by time: −0.5 is half.
    pub fn change(&self) -> f64 {
        if self.before > 0.0 { self.after / self.before - 1.0 } else { 0.0 }
    }

    /// Counts the group's loops; `before` and `after` give the layouts for the fields a loop uses.
    pub(super) fn of(
        subject: &Subject<'_>,
        before: impl Fn(&[usize]) -> Vec<Layout>,
        after: impl Fn(&[usize]) -> Vec<Layout>,
    ) -> Self {
        let mut packing = Self::default();
        let lines = |layouts: Vec<Layout>, step| layouts.iter().map(|of| of.lines_per_visit(step)).sum::<f64>();
        for (_, of_group) in subject.loops() {
            let fields: Vec<usize> =
                of_group.fields.iter().filter(|field| !field.only_spanned).map(|field| field.field).collect();
            if fields.is_empty() || of_group.share <= 0.0 {
                continue;
            }
            let step = step(subject, of_group);
            let (old, new) = (lines(before(&fields), step), lines(after(&fields), step));
            packing.before += of_group.share;
            packing.after += of_group.share * new / old;
            packing.saved_share += of_group.share * (1.0 - new / old);
        }
        packing
    }
}

/// By how many elements the loop advances.
fn step(subject: &Subject<'_>, of_group: &LoopGroup) -> u64 {
    let Some(structure) = subject.group.structure else { return 1 };
    let leading = of_group.fields.iter().filter(|field| !field.only_spanned).find_map(|field| field.stride_bytes);
    match leading.map(i64::unsigned_abs) {
        // A loop inside of the element, or one whose stride is not known, is taken to visit every element.
        Some(stride) if stride >= structure.element_bytes => (stride / structure.element_bytes).min(LINE_BYTES),
        _ => 1,
    }
}
