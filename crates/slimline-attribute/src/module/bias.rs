//! Where a module was loaded.
//!
//! ```text
//!   file      │·········p_offset·······│            offset of the mapping, a whole page
//!             │            ╲            │
//!   image     │·············p_vaddr─────│            avma = svma + bias
//!             │                ╲        │
//!   process   │·················start of the mapping
//!
//!   svma of the mapping's first byte = offset − p_offset + p_vaddr     (wrapping: the page may begin before the segment)
//!   bias                             = start − that
//! ```
//!
//! Which segment a mapping belongs to is not written anywhere: a page of the file that holds the end of one segment
//! and the start of the next is mapped twice. So each mapping names every bias it could have, and the bias that most
//! mappings of the file agree on wins. A position-dependent executable comes out with bias 0.

use slimline_trace::address::{Avma, FileOffset, Svma};

/// x86-64 maps files by pages of this size at least.
const PAGE_BYTES: u64 = 4096;

/// One mapping of a file, as `/proc/<pid>/maps` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMapping {
    /// First address.
    pub start: Avma,
    /// Address after the last.
    pub end: Avma,
    /// Place in the file of the first address.
    pub offset: FileOffset,
}

/// A part of a file that is loaded, as its program header tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where it is linked to be.
    pub svma: Svma,
    /// Where it begins in the file.
    pub file_offset: u64,
    /// Its bytes in the file.
    pub file_bytes: u64,
}

/// The bias of each mapping of one file in one process; `None` where no segment fits (the file was replaced, or is
/// mapped as data).
///
/// The same file can be loaded twice (`dlmopen`); each mapping then takes the most supported bias of those it could
/// have, and at a tie the one that its neighbours below took.
pub fn load_biases(mappings: &[FileMapping], loads: &[Load]) -> Vec<Option<u64>> {
    let possible: Vec<Vec<u64>> = mappings.iter().map(|mapping| possible_biases(mapping, loads)).collect();
    let support = |bias: u64| possible.iter().filter(|biases| biases.contains(&bias)).count();
    let mut below = None;
    let mut chosen = Vec::with_capacity(mappings.len());
    for biases in &possible {
        let best = biases.iter().copied().max_by_key(|&bias| (support(bias), Some(bias) == below));
        below = best.or(below);
        chosen.push(best);
    }
    chosen
}

fn possible_biases(mapping: &FileMapping, loads: &[Load]) -> Vec<u64> {
    let mut found = Vec::new();
    for load in loads {
        let first_page = load.file_offset & !(PAGE_BYTES - 1);
        let Some(file_end) = load.file_offset.checked_add(load.file_bytes) else { continue };
        let fits = mapping.offset.0 >= first_page && mapping.offset.0 < file_end;
        let svma = mapping.offset.0.wrapping_sub(load.file_offset).wrapping_add(load.svma.0);
        let bias = mapping.start.0.wrapping_sub(svma);
        if fits && bias.is_multiple_of(PAGE_BYTES) && !found.contains(&bias) {
            found.push(bias);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads by file offset, address and bytes in the file.
    #[track_caller]
    fn check(loads: &[(u64, u64, u64)], mappings: &[(u64, u64, u64)], expected: &[Option<u64>]) {
        let load = |&(file_offset, svma, file_bytes)| Load { svma: Svma(svma), file_offset, file_bytes };
        let loads: Vec<Load> = loads.iter().map(load).collect();
        let mappings: Vec<FileMapping> = mappings
            .iter()
            .map(|&(start, end, offset)| FileMapping { start: Avma(start), end: Avma(end), offset: FileOffset(offset) })
            .collect();
        assert_eq!(load_biases(&mappings, &loads), expected);
    }

    #[test]
    fn position_independent_executable() {
        // GNU ld: each segment begins on its own page, and vaddr = offset but for the last one.
        let bias = Some(0x5555_5555_4000);
        check(
            &[(0, 0, 0x628), (0x1000, 0x1000, 0x1a1), (0x2000, 0x2000, 0xe4), (0x2dd0, 0x3dd0, 0x260)],
            &[
                (0x5555_5555_4000, 0x5555_5555_5000, 0),
                (0x5555_5555_5000, 0x5555_5555_6000, 0x1000),
                (0x5555_5555_6000, 0x5555_5555_7000, 0x2000),
                // RELRO splits the last segment in two.
                (0x5555_5555_7000, 0x5555_5555_8000, 0x2000),
                (0x5555_5555_8000, 0x5555_5555_9000, 0x3000),
            ],
            &[bias; 5],
        );
    }

    #[test]
    fn position_dependent_executable_has_no_bias() {
        check(
            &[(0, 0x40_0000, 0x498), (0x1000, 0x40_1000, 0x175), (0x2e10, 0x40_3e10, 0x220)],
            &[(0x40_0000, 0x40_1000, 0), (0x40_1000, 0x40_2000, 0x1000), (0x40_3000, 0x40_5000, 0x2000)],
            &[Some(0); 3],
        );
    }

    #[test]
    fn segments_that_share_a_page_of_the_file() {
        // lld: the file is packed, so offsets 0x1000–0x1fff are mapped twice, one page of addresses apart.
        let bias = Some(0x7f00_0000_0000);
        check(
            &[(0, 0, 0x1640), (0x1640, 0x2640, 0x9a0), (0x1fe0, 0x3fe0, 0x200)],
            &[
                (0x7f00_0000_0000, 0x7f00_0000_2000, 0),
                (0x7f00_0000_2000, 0x7f00_0000_3000, 0x1000),
                (0x7f00_0000_3000, 0x7f00_0000_5000, 0x1000),
            ],
            &[bias; 3],
        );
    }

    #[test]
    fn prelinked_library_keeps_the_difference() {
        // Linked for 0x3f00_0000_0000 and loaded elsewhere: the bias is the difference, below zero here.
        check(
            &[(0, 0x3f00_0000_0000, 0x2000)],
            &[(0x1000_0000, 0x1000_2000, 0)],
            &[Some(0x1000_0000_u64.wrapping_sub(0x3f00_0000_0000))],
        );
    }

    #[test]
    fn loaded_twice() {
        check(
            &[(0, 0, 0x1000), (0x1000, 0x1000, 0x1000)],
            &[
                (0x10_0000, 0x10_1000, 0),
                (0x10_1000, 0x10_2000, 0x1000),
                (0x20_0000, 0x20_1000, 0),
                (0x20_1000, 0x20_2000, 0x1000),
            ],
            &[Some(0x10_0000), Some(0x10_0000), Some(0x20_0000), Some(0x20_0000)],
        );
    }

    #[test]
    fn another_file_fits_nowhere() {
        check(&[(0, 0, 0x1000)], &[(0x10_0000, 0x10_1000, 0x8000)], &[None]);
        // Offset and address that don't agree within the page come from damage.
        check(&[(0x10, 0x20, 0x1000)], &[(0x10_0000, 0x10_1000, 0)], &[None]);
        check(&[], &[(0x10_0000, 0x10_1000, 0)], &[None]);
    }
}
