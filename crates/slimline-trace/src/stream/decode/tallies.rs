//! How often segments ran of which nothing else is asked.
//!
//! Who wants to know where each record's words are gets a list of them, which is as long as what it came from. Where it is enough how
//! often each ran, there is nothing to write down but that.

use super::SegmentId;

/// Counts of one chunk.
#[derive(Debug, Default)]
pub struct Tallies {
    /// By segment.
    segments: Vec<Tally>,
    /// Those that ran, and are counted.
    ran: Vec<SegmentId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    times: u32,
    /// More is asked of it.
    is_asked: bool,
}

impl Tallies {
    /// Counts of segments of which so much is asked: by segment, whether more than how often it ran. There must be all of the program's.
    pub fn ask(&mut self, is_asked: impl Iterator<Item = bool>) {
        self.ran.clear();
        self.segments.clear();
        self.segments.extend(is_asked.map(|is_asked| Tally { times: 0, is_asked }));
    }

    /// Counts nothing any more.
    pub(super) fn clear(&mut self) {
        for segment in self.ran.drain(..) {
            self.segments[segment.0 as usize].times = 0;
        }
    }

    /// Counts a visit, unless more is asked of the segment; whether it did.
    #[inline(always)]
    pub(super) fn count(&mut self, segment: SegmentId) -> bool {
        let tally = &mut self.segments[segment.0 as usize];
        if tally.is_asked {
            return false;
        }
        if tally.times == 0 {
            self.ran.push(segment);
        }
        tally.times += 1;
        true
    }

    /// Segments that were counted, each with how often it ran, in the order in which they first did.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, u32)> {
        self.ran.iter().map(|&segment| (segment, self.segments[segment.0 as usize].times))
    }
}
