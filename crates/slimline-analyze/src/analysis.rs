//! What an analysis is, and how several run over one pass of the stream.
//!
//! ```text
//!   batches of shard 0 ──update──► State ─┐
//!   batches of shard 1 ──update──► State ─┴─merge─┐
//!   batches of shard 2 ──update──► State ─┐       ├─merge──► State ──finish──► Findings
//!   batches of shard 3 ──update──► State ─┴─merge─┘
//! ```
//!
//! Shards share nothing while they are read, and states merge in a tree. For every way of cutting that
//! [`Analysis::ORDER`] allows the findings are the same, bit for bit: states hold integers and sets only, and whatever
//! depends on order is sorted in [`Analysis::finish`].

use std::thread;

use slimline_attribute::tables::Tables;
use slimline_trace::access::{AccessBatch, ThreadId};

/// What of the stream must stay together, in its order. Later ones ask for more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// Nothing: any batch may go to any shard.
    AnyChunk,
    /// All batches of one thread.
    PerThread,
    /// All batches of the threads that share a cache.
    PerCache,
    /// Everything: it does not shard.
    Total,
}

/// What a shard is a shard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardInfo {
    /// Its number, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl ShardInfo {
    /// The stream in one piece.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
}

/// A question asked of the stream of accesses.
///
/// What handles name is known only when the stream has ended: attribution names a structure after it has seen all of
/// its accesses. So the tables come with [`Analysis::finish`].
pub trait Analysis: Sync {
    /// What must stay together.
    const ORDER: Order;
    /// What one shard remembers.
    type State: Send;
    /// The answer.
    type Findings;

    /// The state before the first batch.
    fn start(&self, shard: &ShardInfo) -> Self::State;
    /// Takes a batch in.
    fn update(&self, state: &mut Self::State, batch: &AccessBatch);
    /// Adds what another shard remembers.
    fn merge(&self, into: &mut Self::State, from: Self::State);
    /// Answers.
    fn finish(&self, state: Self::State, tables: &Tables) -> Self::Findings;
}

/// Two analyses over one pass; nest pairs for more.
impl<A: Analysis, B: Analysis> Analysis for (A, B) {
    const ORDER: Order = if (A::ORDER as u8) < B::ORDER as u8 { B::ORDER } else { A::ORDER };
    type State = (A::State, B::State);
    type Findings = (A::Findings, B::Findings);

    fn start(&self, shard: &ShardInfo) -> Self::State {
        (self.0.start(shard), self.1.start(shard))
    }

    fn update(&self, state: &mut Self::State, batch: &AccessBatch) {
        self.0.update(&mut state.0, batch);
        self.1.update(&mut state.1, batch);
    }

    fn merge(&self, into: &mut Self::State, from: Self::State) {
        self.0.merge(&mut into.0, from.0);
        self.1.merge(&mut into.1, from.1);
    }

    fn finish(&self, state: Self::State, tables: &Tables) -> Self::Findings {
        (self.0.finish(state.0, tables), self.1.finish(state.1, tables))
    }
}

/// One pass that is pushed batch by batch, as a collector or a resolver makes them.
pub struct Pass<'a, A: Analysis> {
    analysis: &'a A,
    state: A::State,
}

impl<'a, A: Analysis> Pass<'a, A> {
    /// A pass before its first batch.
    pub fn new(analysis: &'a A) -> Self {
        Self { analysis, state: analysis.start(&ShardInfo::WHOLE) }
    }

    /// Takes a batch in.
    pub fn push(&mut self, batch: &AccessBatch) {
        self.analysis.update(&mut self.state, batch);
    }

    /// Answers.
    pub fn finish(self, tables: &Tables) -> A::Findings {
        self.analysis.finish(self.state, tables)
    }
}

/// Reads all shards, up to `workers` at a time, and merges what they remember.
///
/// The caller cuts as [`Analysis::ORDER`] allows; [`shard_of`] does it for whole batches.
pub fn run<A, S>(analysis: &A, shards: Vec<S>, workers: usize, tables: &Tables) -> A::Findings
where
    A: Analysis,
    S: IntoIterator<Item = AccessBatch> + Send,
{
    let count = shards.len().max(1);
    let read = |(index, shard): (usize, S)| {
        let mut state = analysis.start(&ShardInfo { index, count });
        for batch in shard {
            analysis.update(&mut state, &batch);
        }
        state
    };
    let states = in_parallel(shards.into_iter().enumerate().collect(), workers, &read);
    let state = reduce(analysis, states, workers).unwrap_or_else(|| analysis.start(&ShardInfo::WHOLE));
    analysis.finish(state, tables)
}

/// The shard, of `count`, that a batch goes to, where an analysis asks for `order`.
///
/// Which threads share a cache is not known here, so [`Order::PerCache`] is not cut either.
pub fn shard_of(order: Order, batch_number: usize, thread: Option<ThreadId>, count: usize) -> usize {
    match order {
        Order::AnyChunk => batch_number % count,
        Order::PerThread => thread.map_or(0, ThreadId::index) % count,
        Order::PerCache | Order::Total => 0,
    }
}

/// Merges neighbours until one state is left; each level's merges run in parallel. `None` for no state.
pub fn reduce<A: Analysis>(analysis: &A, mut states: Vec<A::State>, workers: usize) -> Option<A::State> {
    while states.len() > 1 {
        let mut pairs = Vec::with_capacity(states.len().div_ceil(2));
        let mut rest = states.into_iter();
        while let Some(first) = rest.next() {
            pairs.push((first, rest.next()));
        }
        states = in_parallel(pairs, workers, &|(mut into, from)| {
            if let Some(from) = from {
                analysis.merge(&mut into, from);
            }
            into
        });
    }
    states.pop()
}

/// Maps `items` on up to `workers` threads; answers come in the order of `items`.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, workers: usize, map: &(impl Fn(T) -> R + Sync)) -> Vec<R> {
    let workers = workers.clamp(1, items.len().max(1));
    if workers == 1 {
        return items.into_iter().map(map).collect();
    }
    // Item i goes to worker i mod workers: no queue, and neighbours, which tend to be alike, spread.
    let mut hands: Vec<Vec<T>> = (0..workers).map(|_| Vec::new()).collect();
    let count = items.len();
    for (index, item) in items.into_iter().enumerate() {
        hands[index % workers].push(item);
    }
    let mut answers: Vec<std::vec::IntoIter<R>> = thread::scope(|scope| {
        let running: Vec<_> =
            hands.into_iter().map(|hand| scope.spawn(move || hand.into_iter().map(map).collect::<Vec<R>>())).collect();
        running
            .into_iter()
            .map(|worker| match worker.join() {
                Ok(answers) => answers.into_iter(),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    (0..count).filter_map(|index| answers[index % workers].next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists which shards were merged into which.
    struct Genealogy;

    impl Analysis for Genealogy {
        const ORDER: Order = Order::AnyChunk;
        type State = String;
        type Findings = String;

        fn start(&self, shard: &ShardInfo) -> String {
            shard.index.to_string()
        }

        fn update(&self, state: &mut String, batch: &AccessBatch) {
            state.push_str(&format!("+{}", batch.len()));
        }

        fn merge(&self, into: &mut String, from: String) {
            *into = format!("({into} {from})");
        }

        fn finish(&self, state: String, _: &Tables) -> String {
            state
        }
    }

    struct PerCache;

    impl Analysis for PerCache {
        const ORDER: Order = Order::PerCache;
        type State = ();
        type Findings = ();

        fn start(&self, _: &ShardInfo) {}
        fn update(&self, (): &mut (), _: &AccessBatch) {}
        fn merge(&self, (): &mut (), (): ()) {}
        fn finish(&self, (): (), _: &Tables) {}
    }

    #[test]
    fn states_merge_as_a_tree_whatever_the_number_of_workers() {
        for workers in [1, 2, 3, 64] {
            let shards = vec![vec![AccessBatch::default()]; 5];
            assert_eq!(run(&Genealogy, shards, workers, &Tables::new()), "(((0+0 1+0) (2+0 3+0)) 4+0)");
        }
        assert_eq!(run(&Genealogy, Vec::<Vec<AccessBatch>>::new(), 4, &Tables::new()), "0");
    }

    #[test]
    fn a_pair_asks_for_the_stricter_order() {
        assert_eq!(<(Genealogy, PerCache)>::ORDER, Order::PerCache);
        assert_eq!(<(PerCache, Genealogy)>::ORDER, Order::PerCache);
        assert_eq!(<(Genealogy, Genealogy)>::ORDER, Order::AnyChunk);
    }

    #[test]
    fn a_thread_stays_in_one_shard() {
        let thread = Some(ThreadId(7));
        let shards: Vec<usize> = (0..9).map(|batch| shard_of(Order::PerThread, batch, thread, 4)).collect();
        assert_eq!(shards, [3; 9]);
        assert_eq!(shard_of(Order::AnyChunk, 9, thread, 4), 1);
        assert_eq!(shard_of(Order::Total, 9, thread, 4), 0);
    }
}
