//! The size of a group's elements (StructSlim §4.2.2, equation 5).
//!
//! Debug information names the element type where it can; what the accesses say is then a check. Without it, a group of
//! many small blocks of one size has elements of that size, and an array's element is the GCD of its streams' strides.
//! Streams that walk over everything (unit stride, a `memset`, a loop that reads all fields) say nothing about
//! structure and are left out.

use std::collections::{BTreeMap, BTreeSet};

use slimline_attribute::tables::{Group, GroupKind};

use crate::streams::Stream;
use crate::stride::{FEW_ADDRESSES, gcd, plain_stride, robust_gcd};

/// Confidence above which a stride counts as known.
pub const KNOWN: f64 = 0.95;
/// Blocks of one size that make a group of nodes.
pub(crate) const LEAST_NODES: u64 = 16;
/// Largest node that its blocks' size alone makes one. Larger blocks of one size are rather what many things are put in:
/// libstdc++'s deque takes 512 bytes at a time, arenas and obstacks take a page.
const LARGEST_NODE_BYTES: u64 = 511;
/// Places of a node that one instruction reaches, at most; more are of an array, or of many small objects.
const MOST_PLACES: usize = 8;
/// So many tell that an instruction may reach many.
const FEW_PLACES: usize = 3;
/// Part of the evidence that may be ignored where it alone stands against a structure.
const NOISE: f64 = 0.05;
/// Part of what is known of a group that must be regular before its strides say what it is made of. Arrays that are
/// walked have all of it, and the heaps of garbage collectors a twentieth.
const LEAST_REGULAR: f64 = 0.5;
/// Part of a stream's offsets that must be congruent for its stride to be a structure's.
const CONGRUENT: f64 = 0.9;

/// Where an element size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementFrom {
    /// Debug information.
    DebugInfo,
    /// The size that all blocks of the group have.
    BlockSize,
    /// GCD of strides.
    Stride,
}

/// What a group's objects are arrays of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Structure {
    /// Distance between neighbouring elements.
    pub element_bytes: u64,
    /// Where the first element starts in each object.
    pub start: u64,
    /// Where the size comes from.
    pub from: ElementFrom,
    /// How sure it is, 0 to 1: agreement of the typed accesses, or the GCD's confidence.
    pub confidence: f64,
    /// Element size by the strides alone, where they tell.
    pub by_stride: Option<u64>,
    /// Whether each object holds one element (nodes allocated one by one).
    pub one_per_object: bool,
    /// Whether the element goes on to the end of its object, with an array of any length (C's flexible array member).
    pub is_open: bool,
}

impl Structure {
    /// Whether strides contradict the size: neither walks whole elements nor inside of one.
    pub fn is_contradicted(&self) -> bool {
        !self.is_open
            && self.by_stride.is_some_and(|by_stride| {
                !by_stride.is_multiple_of(self.element_bytes) && !self.element_bytes.is_multiple_of(by_stride)
            })
    }

    /// Offset in the element; `None` before the first one.
    pub fn offset(&self, offset_in_object: u64) -> Option<u64> {
        let offset = offset_in_object.checked_sub(self.start)?;
        Some(if self.is_open { offset } else { offset % self.element_bytes })
    }
}

/// How a stream moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// Distance between successive accesses, seen in windows; `None` where irregular or not seen.
    pub stride_bytes: Option<i64>,
    /// Part of the distances that are this one.
    pub regularity: f64,
    /// Distance by which it mostly goes back where it begins again; `None` where no window shows that.
    pub back_bytes: Option<i64>,
    /// What the stream's offsets are congruent by: the stride, unless it restarts at other phases (a column walk).
    pub grain: Option<Grain>,
}

/// What a stream's offsets are congruent by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grain {
    /// The modulus.
    pub bytes: u64,
    /// How sure, 0 to 1.
    pub confidence: f64,
}

impl Motion {
    /// What `stream` shows.
    pub fn of(stream: &Stream) -> Self {
        let offsets = stream.some_offsets();
        let voted = stream.voted().filter(|&(_, agreeing)| agreeing * 2 > stream.steps);
        let regularity = voted.map_or(0.0, |(_, agreeing)| agreeing as f64 / stream.steps as f64);
        let stride_bytes = voted.map(|(stride, _)| stride);
        let by_gcd = || {
            let found = if offsets.len() <= FEW_ADDRESSES { plain_stride(&offsets) } else { robust_gcd(&offsets) };
            found.map(|found| Grain { bytes: found.bytes, confidence: found.confidence })
        };
        let grain = match stride_bytes {
            Some(0) => None,
            Some(stride) if congruent(&offsets, stride.unsigned_abs()) >= CONGRUENT => Some(Grain {
                bytes: stride.unsigned_abs(),
                confidence: succession(voted.map_or(0, |(_, agreeing)| agreeing), stream.steps),
            }),
            Some(stride) => by_gcd().map(|grain| Grain { bytes: gcd(grain.bytes, stride.unsigned_abs()), ..grain }),
            None => by_gcd(),
        };
        let back_bytes = stride_bytes.and_then(|stride| stream.returned(stride));
        Self { stride_bytes, regularity, back_bytes, grain }
    }
}

/// How likely the next distance is the same, after `agreeing` of `steps` were (Laplace's rule of succession): however
/// well a few agree, they are few.
fn succession(agreeing: u64, steps: u64) -> f64 {
    (agreeing as f64 + 1.0) / (steps as f64 + 2.0)
}

/// Part of the offsets in the fullest residue class of `stride`.
fn congruent(offsets: &[u64], stride: u64) -> f64 {
    fullest_class(offsets, stride).map_or(0.0, |(_, count)| count as f64 / offsets.len() as f64)
}

/// The residue by `stride` that most of the offsets have, and how many have it.
pub(crate) fn fullest_class(offsets: &[u64], stride: u64) -> Option<(u64, usize)> {
    let mut classes = BTreeMap::<u64, usize>::new();
    for offset in offsets {
        *classes.entry(offset % stride).or_default() += 1;
    }
    classes.into_iter().max_by_key(|&(residue, count)| (count, std::cmp::Reverse(residue)))
}

/// A stream as evidence of structure.
struct Witness {
    /// Where its loop is, as a number.
    place: usize,
    grain: u64,
    residue: u64,
    bytes: u64,
    confidence: f64,
    evidence: f64,
}

/// The element of a group, derived from its streams, their motions and places; `None` if nothing indicates one. `is_open`:
/// its declared type ends in a flexible array.
pub fn structure(group: &Group, is_open: bool, streams: &[(&Stream, Motion, usize)]) -> Option<Structure> {
    let by_stride = by_stride(streams);
    let (steps, hops) =
        streams.iter().fold((0, 0), |(steps, hops), (stream, ..)| (steps + stream.steps, hops + stream.hops));
    let mean_bytes = group.bytes.checked_div(group.objects).unwrap_or(0);
    let one_per_object = |element: u64, start: u64| {
        group.kind == GroupKind::Heap && group.objects > 1 && mean_bytes < start + 2 * element
    };
    if let Some(element) = group.element.filter(|element| element.bytes > 0) {
        return Some(Structure {
            element_bytes: element.bytes,
            start: element.start,
            from: ElementFrom::DebugInfo,
            confidence: element.agreement,
            by_stride: by_stride.map(|(bytes, _)| bytes),
            one_per_object: is_open || one_per_object(element.bytes, element.start),
            is_open,
        });
    }
    let nodes = group.kind == GroupKind::Heap
        && group.objects >= LEAST_NODES
        && (1..=LARGEST_NODE_BYTES).contains(&group.object_bytes)
        && hops >= steps
        && !are_cut_up(streams, by_stride.map(|(cell, _)| cell));
    if nodes {
        return Some(Structure {
            element_bytes: group.object_bytes,
            start: 0,
            from: ElementFrom::BlockSize,
            confidence: 1.0 - 1.0 / group.objects as f64,
            by_stride: by_stride.map(|(bytes, _)| bytes),
            one_per_object: true,
            is_open: false,
        });
    }
    // Without types, what starts where in a stack or in a mapping of unknown make has no meaning.
    if matches!(group.kind, GroupKind::Stack | GroupKind::Unattributed) {
        return None;
    }
    // A few regular walks say nothing of memory that most instructions hop about in: a pool of unlike things.
    by_stride.filter(|_| regular(streams) >= LEAST_REGULAR).map(|(element_bytes, confidence)| Structure {
        element_bytes,
        start: 0,
        from: ElementFrom::Stride,
        confidence,
        by_stride: Some(element_bytes),
        one_per_object: false,
        is_open: false,
    })
}

/// Whether the objects look like an allocator's, cut into cells of `cell` bytes that it hands out, or may be: most of what
/// is known is of instructions that each reach many places of an object. Where they lie whole cells apart these are cells.
/// What uses a node reaches one field each, or the children of a trie's node: those lie one access apart, which is no
/// cell. Where nothing tells how far apart the places lie, they may be either.
fn are_cut_up(streams: &[(&Stream, Motion, usize)], cell: Option<u64>) -> bool {
    let (mut all, mut scattered, mut by_cells, mut by_accesses) = (0, 0, false, false);
    for (stream, motion, _) in streams {
        let evidence = stream.evidence();
        let places = stream.offsets().len();
        all += evidence;
        // Also what was seen a few times, mostly at a new place.
        if places > MOST_PLACES || places >= FEW_PLACES && places as u64 * 2 >= evidence {
            scattered += evidence;
            if let Some(grain) = motion.grain.filter(|grain| grain.confidence >= KNOWN) {
                by_cells |= cell.is_some_and(|cell| grain.bytes.is_multiple_of(cell));
                by_accesses |= grain.bytes <= u64::from(stream.bytes.1);
            }
        }
    }
    scattered * 2 > all && (by_cells || !by_accesses)
}

/// Part of what is known of a group that comes from instructions which go by multiples of something.
fn regular(streams: &[(&Stream, Motion, usize)]) -> f64 {
    let (mut all, mut regular) = (0, 0);
    for (stream, motion, _) in streams {
        let evidence = stream.evidence();
        all += evidence;
        if motion.grain.is_some_and(|grain| grain.confidence >= KNOWN) {
            regular += evidence;
        }
    }
    regular as f64 / all.max(1) as f64
}

/// Equation 5 over the streams that tell of structure, with its confidence.
fn by_stride(streams: &[(&Stream, Motion, usize)]) -> Option<(u64, f64)> {
    let witnesses: Vec<Witness> = streams
        .iter()
        .filter_map(|&(stream, motion, place)| {
            let grain = motion.grain.filter(|grain| grain.confidence >= KNOWN)?;
            // Of a few wrong addresses any may come first.
            let (residue, _) = fullest_class(&stream.some_offsets(), grain.bytes)?;
            Some(Witness {
                place,
                grain: grain.bytes,
                residue,
                bytes: u64::from(stream.bytes.1),
                confidence: grain.confidence,
                evidence: stream.evidence() as f64,
            })
        })
        .collect();
    let telling = telling(witnesses);
    let all: f64 = telling.iter().map(|witness| witness.evidence).sum();
    let size = telling.iter().fold(0, |size, witness| gcd(size, witness.grain));
    let widest = telling.iter().map(|witness| witness.bytes).max()?;
    if size > widest {
        return Some((size, confidence(&telling, size)));
    }
    // Does it all hang on a few stray accesses?
    let loud: Vec<&Witness> = telling.iter().filter(|witness| witness.evidence >= NOISE * all).collect();
    let size = loud.iter().fold(0, |size, witness| gcd(size, witness.grain));
    let quiet = 1.0 - loud.iter().map(|witness| witness.evidence).sum::<f64>() / all;
    (size > widest && quiet <= NOISE).then(|| (size, confidence(&telling, size) * (1.0 - quiet)))
}

fn confidence(witnesses: &[Witness], size: u64) -> f64 {
    let direct = witnesses.iter().filter(|witness| witness.grain == size).map(|witness| witness.confidence);
    // The GCD of several strides is right only where all of them are.
    direct.reduce(f64::max).unwrap_or_else(|| witnesses.iter().map(|witness| witness.confidence).product())
}

/// Leaves out streams that walk over everything, and sees through unrolled loops: sites of one loop that go by the same
/// stride and are evenly spaced are copies of one site whose stride is that spacing.
fn telling(witnesses: Vec<Witness>) -> Vec<Witness> {
    let mut by_walk: BTreeMap<(usize, u64, u64), Vec<Witness>> = BTreeMap::new();
    for witness in witnesses {
        by_walk.entry((witness.place, witness.grain, witness.bytes)).or_default().push(witness);
    }
    let mut covered: BTreeMap<(usize, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut telling = Vec::new();
    let unrolled = unrolled_grains(&by_walk);
    for ((place, grain, bytes), mut walk) in by_walk {
        let residues = residues(&walk);
        if let Some(spacing) = spacing(grain, &residues).filter(|_| unrolled.contains(&grain)) {
            walk.iter_mut().for_each(|witness| witness.grain = spacing);
        }
        covered.entry((place, grain)).or_default().extend(residues.iter().map(|&residue| (residue, bytes)));
        telling.extend(walk.into_iter().map(|witness| (grain, witness)));
    }
    let dense: Vec<(usize, u64)> =
        covered.into_iter().filter(|((_, grain), ranges)| covers(ranges, *grain)).map(|(key, _)| key).collect();
    telling
        .into_iter()
        .filter(|(grain, witness)| witness.grain > witness.bytes && !dense.contains(&(witness.place, *grain)))
        .map(|(_, witness)| witness)
        .collect()
}

/// Where in their stride the sites of a walk begin, in order.
fn residues(walk: &[Witness]) -> Vec<u64> {
    let mut residues: Vec<u64> = walk.iter().map(|witness| witness.residue).collect();
    residues.sort_unstable();
    residues.dedup();
    residues
}

/// The distance of sites that go by the same stride and are evenly spaced; `None` where they are not, or are one.
fn spacing(grain: u64, residues: &[u64]) -> Option<u64> {
    let spacing = grain / residues.len() as u64;
    let even =
        grain.is_multiple_of(residues.len() as u64) && residues.windows(2).all(|pair| pair[1] - pair[0] == spacing);
    (residues.len() > 1 && even).then_some(spacing)
}

/// Strides by which only unrolled loops seem to go. Two fields that are half an element apart look like the copies of an
/// unrolled loop as well; but then other loops go by the same stride at one place of the element each.
fn unrolled_grains(by_walk: &BTreeMap<(usize, u64, u64), Vec<Witness>>) -> BTreeSet<u64> {
    /// Evidence for one place each, as a part of that for several, from which the several are fields.
    const FIELDS: f64 = 0.5;
    let mut by_grain: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (&(_, grain, _), walk) in by_walk {
        let evidence: f64 = walk.iter().map(|witness| witness.evidence).sum();
        let residues = residues(walk);
        let (at_one, spaced) = by_grain.entry(grain).or_default();
        if residues.len() == 1 {
            *at_one += evidence;
        } else if spacing(grain, &residues).is_some() {
            *spaced += evidence;
        }
    }
    let unrolled = by_grain.into_iter().filter(|(_, (at_one, spaced))| *at_one < FIELDS * spaced);
    unrolled.map(|(grain, _)| grain).collect()
}

/// Whether the ranges (offset, bytes) together use every byte of `0..length`, taken as a ring.
fn covers(ranges: &[(u64, u64)], length: u64) -> bool {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for &(offset, bytes) in ranges {
        let end = offset.saturating_add(bytes);
        pieces.push((offset, end.min(length)));
        if end > length {
            pieces.push((0, end - length));
        }
    }
    pieces.sort_unstable();
    let mut reached = 0;
    for (from, to) in pieces {
        if from > reached {
            return false;
        }
        reached = reached.max(to);
    }
    reached >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_that_agree_are_few() {
        assert_eq!(succession(3, 3), 0.8);
        assert!(succession(17, 17) < KNOWN && succession(18, 18) >= KNOWN);
        assert_eq!(succession(0, 0), 0.5);
    }
}
