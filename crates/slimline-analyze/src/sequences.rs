//! Sequences: the order of the accesses in windows, kept of a bounded random part of them.

use std::ops::Range;

use slimline_trace::access::Window;

use crate::bottom::mix;

/// Windows kept, at most: those of 16 s at 1000 Hz, of about a minute at the usual tick. Of 115 accesses each on average;
/// twice as many, and those of another shard, are held for a while: 30 MB. More would make shares little surer and
/// reports slower.
const KEPT: usize = 1 << 14;

/// Windows of known time and length, with their accesses in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sequences {
    /// By handle, once [finished](Self::finish); each with an access at least.
    pub(crate) windows: Vec<Sequence>,
    /// The accesses of all windows, one window after another, as numbers of streams.
    pub(crate) accesses: Vec<u32>,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sequence {
    /// Its handle.
    pub(crate) id: u32,
    /// Where its accesses begin in [`Sequences::accesses`].
    pub(crate) first: usize,
    /// Where they end.
    pub(crate) end: usize,
    /// What the sample that it began with was blamed on, as number of a stream.
    pub(crate) blamed: u32,
    /// User time that it stands for: since the window before.
    pub(crate) weight: u64,
    /// Instructions, at least one.
    pub(crate) instructions: u32,
}

impl Sequences {
    /// Whether the window's time and length are known. Those of a full trace are not; all its accesses were seen.
    pub(crate) fn takes(window: &Window) -> bool {
        window.weight > 0 && window.instructions > 0
    }

    /// Ends the window whose accesses were pushed since the one before, and whose sample was blamed on this stream.
    pub(crate) fn end_window(&mut self, window: &Window, blamed: u32) {
        let (first, end) = (self.windows.last().map_or(0, |before| before.end), self.accesses.len());
        if first < end {
            let (id, weight, instructions) = (window.id.0, window.weight, window.instructions);
            self.windows.push(Sequence { id, first, end, blamed, weight, instructions });
            self.thin(2 * KEPT);
        }
    }

    /// Adds what another kept, whose stream of number i is `streams[i]` here.
    pub(crate) fn merge(&mut self, other: Self, streams: &[u32]) {
        let shift = self.accesses.len();
        self.accesses.extend(other.accesses.iter().map(|&stream| streams[stream as usize]));
        let moved = |window: Sequence| Sequence {
            first: window.first + shift,
            end: window.end + shift,
            blamed: streams[window.blamed as usize],
            ..window
        };
        self.windows.extend(other.windows.into_iter().map(moved));
        self.thin(2 * KEPT);
    }

    /// The kept windows by handle, with stream number i as `streams[i]`.
    pub(crate) fn finish(mut self, streams: &[u32]) -> Self {
        self.thin(KEPT);
        self.sort();
        let blamed = self.windows.iter_mut().map(|window| &mut window.blamed);
        self.accesses.iter_mut().chain(blamed).for_each(|stream| *stream = streams[*stream as usize]);
        self
    }

    /// Once there are more than `most`: keeps those whose handles have the smallest hashes, which does not depend on the
    /// order they came in.
    fn thin(&mut self, most: usize) {
        if self.windows.len() > most {
            self.windows.select_nth_unstable_by_key(KEPT, |window| mix(u64::from(window.id)));
            self.windows.truncate(KEPT);
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.windows.sort_unstable_by_key(|window| window.id);
        let mut accesses = Vec::with_capacity(self.windows.iter().map(|window| window.end - window.first).sum());
        for window in &mut self.windows {
            let first = accesses.len();
            accesses.extend_from_slice(&self.accesses[window.first..window.end]);
            (window.first, window.end) = (first, accesses.len());
        }
        self.accesses = accesses;
    }

    /// One of `parts` random parts of the windows, of which together each has one.
    pub(crate) fn part(&self, part: u64, parts: u64) -> Self {
        let mut kept = Self::default();
        for window in &self.windows {
            // Other bits than those by which windows were kept.
            if (mix(u64::from(window.id)) >> 32) % parts == part {
                let first = kept.accesses.len();
                kept.accesses.extend_from_slice(&self.accesses[window.first..window.end]);
                kept.windows.push(Sequence { first, end: kept.accesses.len(), ..*window });
            }
        }
        kept
    }

    /// A window's accesses.
    pub(crate) fn of(&self, window: usize) -> &[u32] {
        let Range { start, end } = self.windows[window].first..self.windows[window].end;
        &self.accesses[start..end]
    }

    /// The window that an access is in.
    pub(crate) fn window_of(&self, access: usize) -> usize {
        self.windows.partition_point(|window| window.end <= access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slimline_trace::access::WindowId;

    fn window(id: u32) -> Window {
        Window { id: WindowId(id), first_row: 0, time_ns: 0, instructions: 9, weight: 1 }
    }

    /// Windows of two accesses to streams that their handles name.
    fn kept(ids: impl Iterator<Item = u32>) -> Sequences {
        let mut kept = Sequences::default();
        for id in ids {
            kept.accesses.extend([id, id + 1]);
            kept.end_window(&window(id), id);
        }
        kept
    }

    #[test]
    fn which_are_kept_does_not_depend_on_the_shards() {
        let all = 3 * KEPT as u32;
        let same: Vec<u32> = (0..=all).collect();
        let whole = kept(0..all).finish(&same);
        assert_eq!(whole.windows.len(), KEPT);
        assert!(
            whole.windows.iter().all(|window| whole.accesses[window.first..window.end] == [window.id, window.id + 1]
                && window.blamed == window.id)
        );
        let mut shards = kept((0..all).rev().filter(|id| id % 3 == 0));
        shards.merge(kept((0..all).filter(|id| id % 3 != 0)), &same);
        assert_eq!(shards.finish(&same), whole);
    }

    #[test]
    fn streams_are_renumbered() {
        let mut into = kept([7].into_iter());
        into.merge(kept([0].into_iter()), &[4, 5]);
        let found = into.finish(&[10, 11, 12, 13, 14, 15, 16, 17, 18]);
        assert_eq!(found.accesses, [14, 15, 17, 18]);
        assert_eq!([found.windows[0].blamed, found.windows[1].blamed], [14, 17]);
        assert_eq!((found.of(1), found.window_of(1), found.window_of(2)), (&[17, 18][..], 0, 1));
    }

    #[test]
    fn parts_are_the_whole() {
        let same: Vec<u32> = (0..1001).collect();
        let whole = kept(0..1000).finish(&same);
        let parts: Vec<Sequences> = (0..4).map(|part| whole.part(part, 4)).collect();
        let mut ids: Vec<u32> = parts.iter().flat_map(|part| &part.windows).map(|window| window.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, same[..1000]);
        for part in parts {
            assert!((200..300).contains(&part.windows.len()), "{}", part.windows.len());
            assert!((0..part.windows.len()).all(|row| part.of(row)[0] == part.windows[row].id));
        }
    }

    #[test]
    fn windows_without_accesses_or_time_are_not_kept() {
        let mut kept = kept([1].into_iter());
        kept.end_window(&window(2), 2);
        assert_eq!(kept.windows.len(), 1);
        assert!(Sequences::takes(&window(1)));
        assert!(!Sequences::takes(&Window { weight: 0, ..window(1) }));
        assert!(!Sequences::takes(&Window { instructions: 0, ..window(1) }));
    }
}
