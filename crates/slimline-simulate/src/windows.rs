//! A part of the accesses, in windows over all of them.
//!
//! Of a run that is long enough the windows say what all of it does, but for what was in the caches as each begins: that is what was
//! there when the one before ended.

use crate::access::{Access, Consumer, Located};

/// Accesses of a window: many times those that fill a last level, where it is not hundreds of MiB.
pub const WINDOW: u64 = 1 << 20;

/// Hands on windows that lie evenly over all accesses.
#[derive(Debug)]
pub struct Windows<C> {
    to: C,
    /// From one window's beginning to the next one's.
    period: u64,
    /// Accesses so far.
    seen: u64,
}

impl<C: Consumer> Windows<C> {
    /// Of so many accesses in all, about so many at most; all of them where there are no more.
    pub fn new(to: C, all: u64, most: u64) -> Self {
        let windows = (most / WINDOW).max(1);
        let period = if all <= most { WINDOW } else { (all / windows).max(WINDOW) };
        Self { to, period, seen: 0 }
    }

    /// Who took them in.
    pub fn finish(self) -> C {
        self.to
    }
}

impl<C: Consumer> Consumer for Windows<C> {
    fn take(&mut self, accesses: &[Access]) {
        let mut rest = accesses;
        while !rest.is_empty() {
            let at = self.seen % self.period;
            let (is_within, left) = if at < WINDOW { (true, WINDOW - at) } else { (false, self.period - at) };
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            match is_within {
                true => self.to.take(now),
                false => self.to.skip(now),
            }
            self.seen += now.len() as u64;
            rest = later;
        }
    }

    fn locate(&mut self, located: &Located<'_>) {
        self.to.locate(located);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessKind;
    use crate::access::Work;

    #[derive(Default)]
    struct Seen(Vec<u64>);

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend(accesses.iter().map(|access| access.address));
        }
    }

    fn seen(all: u64, most: u64, batch: usize) -> Vec<u64> {
        let access =
            |address| Access { address, key: 0, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        let mut windows = Windows::new(Seen::default(), all, most);
        (0..all).map(access).collect::<Vec<_>>().chunks(batch).for_each(|accesses| windows.take(accesses));
        windows.finish().0
    }

    #[test]
    fn windows_lie_over_all_of_it() {
        // Two windows of eight.
        let all = 8 * WINDOW;
        let addresses = seen(all, 2 * WINDOW, 70_000);
        let expected: Vec<u64> = (0..WINDOW).chain(4 * WINDOW..5 * WINDOW).collect();
        assert!(addresses == expected);
        assert_eq!(seen(1000, 1000, 7).len(), 1000);
        // All of what is hardly more than wanted.
        assert_eq!(seen(WINDOW + 10, WINDOW, 1 << 16).len() as u64, WINDOW);
    }
}
