//! What several streams did, in one order.
//!
//! A record has no time of its own, but some have a time stamp (`SiteKind::Acquire`): those after which a thread may see
//! what others did, and those from which on others may see what it did. Up to the next one a stream's records are a *stretch*, which knows nothing of others that is later than
//! its beginning. So stretches in the order in which they begin keep cause and effect in order: what a thread did before
//! it gave a lock back is in a stretch that began before then, and who takes the lock begins one afterwards. The beginning
//! of a chunk has a time stamp, too.
//!
//! Records of stretches that overlap are in no particular order: nothing that the program did says which was first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use super::decode::{Program, Visits};
use super::record::NO_STAMP;

/// A stream of any process: the process' number in the trace, and its own in the process.
pub type StreamKey = (u32, u32);

/// Records of one stream that follow each other, decoded.
#[derive(Debug, Default)]
pub struct Piece {
    /// Number of its chunk.
    pub sequence: u64,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// Time stamp of when the chunk was full; 0 where it never was.
    pub ended: u64,
    /// What [`Visits::at`] are indexes of.
    pub words: Vec<u64>,
    /// What ran.
    pub visits: Vec<Visits>,
    /// It is known that all words but headers are below [`ADDRESSES_END`](super::record::ADDRESSES_END).
    pub is_plain: bool,
    stretches: Vec<Stretch>,
    /// How many of them were handed on.
    done: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// Its records are no earlier.
    since: u64,
    /// Index of its first visits; they go on to the next one's.
    first: usize,
}

impl Piece {
    /// Finds the stretches in the visits, the first of which begins when the chunk did, or at `after` if that is later. Gives how many stamps are earlier
    /// than the one before them, as those of a clock that can't be relied on: their stretches begin with the one before.
    pub fn find_stretches(&mut self, program: &Program, began: u64, after: u64) -> u64 {
        self.done = 0;
        self.stretches.clear();
        self.stretches.push(Stretch { since: began.max(after), first: 0 });
        let mut back = 0;
        let is_stamped = |visits: &Visits| program.segments()[visits.segment.0 as usize].is_stamped;
        if !self.visits.iter().any(is_stamped) {
            return 0;
        }
        // Runs end at stamps.
        let mut split = Vec::with_capacity(self.visits.len());
        // The first one may be of a moment before the chunk was taken for its record.
        let (mut since, mut last) = (began.max(after), 0);
        for visits in &self.visits {
            if !is_stamped(visits) {
                split.push(*visits);
                continue;
            }
            for at in visits.places(program.segments()[visits.segment.0 as usize].words) {
                match self.words.get(at) {
                    Some(&NO_STAMP | 0) | None => {}
                    Some(&stamp) => {
                        back += u64::from(stamp < last);
                        last = stamp;
                        since = since.max(stamp);
                        self.stretches.push(Stretch { since, first: split.len() });
                    }
                }
                split.push(Visits { at: at as u32, times: 1, ..*visits });
            }
        }
        self.visits = split;
        back
    }

    /// The stretches whose visits are in this range, which begins with one: when each began, when it ended, where that is
    /// known, and its visits.
    pub fn stretches(&self, range: Range<usize>) -> impl Iterator<Item = (u64, Option<u64>, Range<usize>)> {
        let is_inside = move |stretch: &Stretch| range.contains(&stretch.first);
        let last = (self.ended != 0).then_some(self.ended);
        self.stretches.iter().enumerate().filter(move |(_, stretch)| is_inside(stretch)).map(move |(at, stretch)| {
            let next = self.stretches.get(at + 1);
            let end = next.map_or(self.visits.len(), |next| next.first);
            (stretch.since, next.map(|next| next.since).or(last), stretch.first..end)
        })
    }

    /// When the next stretch begins; none behind the last.
    fn since(&self) -> Option<u64> {
        self.stretches.get(self.done).map(|stretch| stretch.since)
    }

    /// Indexes of the visits of the next stretches, those that begin no later than `limit`.
    fn up_to(&mut self, limit: u64) -> Range<usize> {
        let first = self.stretches.get(self.done).map_or(self.visits.len(), |stretch| stretch.first);
        while self.since().is_some_and(|since| since <= limit) {
            self.done += 1;
        }
        first..self.stretches.get(self.done).map_or(self.visits.len(), |stretch| stretch.first)
    }
}

/// Where pieces come from.
pub trait Pieces {
    /// Why there may be none.
    type Error;

    /// When the stream's next piece begins; none behind the last one. Nothing is read for that.
    fn next_since(&mut self, stream: StreamKey) -> Option<u64>;

    /// That piece.
    ///
    /// # Errors
    /// It can't be read.
    fn next(&mut self, stream: StreamKey) -> Result<Piece, Self::Error>;

    /// Takes back a piece of which all was handed on.
    fn is_done(&mut self, piece: Piece);
}

/// Hands on what these streams did: parts of pieces, by indexes of their visits.
///
/// # Errors
/// A piece can't be read.
pub fn in_order<P: Pieces>(
    pieces: &mut P,
    streams: impl IntoIterator<Item = StreamKey>,
    mut take: impl FnMut(StreamKey, &Piece, Range<usize>),
) -> Result<(), P::Error> {
    let mut next = BinaryHeap::new();
    let mut begun: HashMap<StreamKey, Piece> = HashMap::new();
    for stream in streams {
        next.extend(pieces.next_since(stream).map(|since| Reverse((since, stream))));
    }
    while let Some(Reverse((_, stream))) = next.pop() {
        // Where nobody else has anything before that, a stream goes on.
        let limit = next.peek().map_or(u64::MAX, |Reverse((since, _))| *since);
        let mut piece = match begun.remove(&stream) {
            Some(piece) => piece,
            None => pieces.next(stream)?,
        };
        let range = piece.up_to(limit);
        take(stream, &piece, range);
        let since = match piece.since() {
            Some(since) => {
                begun.insert(stream, piece);
                Some(since)
            }
            None => {
                pieces.is_done(piece);
                pieces.next_since(stream)
            }
        };
        next.extend(since.map(|since| Reverse((since, stream))));
    }
    Ok(())
}
