//! Who takes accesses in, on a thread of its own: to make them of what was written takes about as long as what is done with them.
//!
//! What it is told are copies, in their order, some thousand accesses at a time. Who makes them waits where too many wait for it.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use slimline_simulate::access::{Access, Consumer, Located};

/// Accesses that are handed on together: some of these are in a core's second-level cache on their way.
const BATCH: usize = 1 << 12;
/// Batches that may wait.
const MOST_WAITING: usize = 8;

/// Who takes accesses in, on whichever thread.
type Shared<'c> = Mutex<&'c mut (dyn Consumer + Send)>;

/// Has `read` hand accesses to one who takes them in on a thread of its own; on this one, where no other processor may be used, or there can be
/// no other thread. All were taken in when it returns.
pub(super) fn beside<R>(consumer: &mut (dyn Consumer + Send), read: impl FnOnce(&mut dyn Consumer) -> R) -> R {
    if thread::available_parallelism().map_or(1, NonZero::get) == 1 {
        return read(consumer);
    }
    let shared = Mutex::new(consumer);
    thread::scope(|scope| match Working::begin(scope, &shared) {
        Some(mut working) => {
            let read = read(&mut working);
            working.finish();
            read
        }
        None => read(&mut *locked(&shared)),
    })
}

/// What there is to take in.
enum Told {
    Accesses(Vec<Access>),
    Skipped(Vec<Access>),
    Located { nodes: Vec<u32>, pages: Vec<(u64, u32)>, thread: Option<(u32, u32)> },
}

/// Hands on what it is told.
struct Working<'scope> {
    told: SyncSender<Told>,
    batch: Vec<Access>,
    /// Batches that were taken in, for their memory.
    spare: Receiver<Vec<Access>>,
    /// None once it was joined.
    thread: Option<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Working<'scope> {
    fn begin(scope: &'scope Scope<'scope, '_>, shared: &'scope Shared<'_>) -> Option<Self> {
        let (told, all) = sync_channel(MOST_WAITING);
        let (done, spare) = channel();
        let thread = Builder::new().name("accesses".to_owned()).spawn_scoped(scope, move || take(shared, &all, &done));
        Some(Self { told, batch: Vec::with_capacity(BATCH), spare, thread: Some(thread.ok()?) })
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let empty = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
            let batch = std::mem::replace(&mut self.batch, empty);
            self.tell(Told::Accesses(batch));
        }
    }

    fn tell(&mut self, told: Told) {
        if self.told.send(told).is_err()
            && let Some(thread) = self.thread.take()
        {
            // It takes nothing any more only where it panicked.
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// All was told: waits until it is taken in.
    fn finish(mut self) {
        self.flush();
        let Self { told, thread, .. } = self;
        drop(told);
        if let Some(thread) = thread {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
}

impl Consumer for Working<'_> {
    fn take(&mut self, accesses: &[Access]) {
        for accesses in accesses.chunks(BATCH) {
            if self.batch.len() + accesses.len() > BATCH {
                self.flush();
            }
            self.batch.extend_from_slice(accesses);
        }
    }

    fn skip(&mut self, accesses: &[Access]) {
        self.flush();
        for accesses in accesses.chunks(BATCH) {
            self.tell(Told::Skipped(accesses.to_vec()));
        }
    }

    fn locate(&mut self, located: &Located<'_>) {
        self.flush();
        let Located { nodes, pages, thread } = *located;
        self.tell(Told::Located { nodes: nodes.to_vec(), pages: pages.to_vec(), thread });
    }
}

fn locked<'scope, 'c>(shared: &'scope Shared<'c>) -> MutexGuard<'scope, &'c mut (dyn Consumer + Send)> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes all in.
fn take(shared: &Shared<'_>, all: &Receiver<Told>, done: &Sender<Vec<Access>>) {
    let mut consumer = locked(shared);
    for told in all {
        match told {
            Told::Accesses(mut accesses) => {
                consumer.take(&accesses);
                accesses.clear();
                // Nobody wants it any more at the end.
                drop(done.send(accesses));
            }
            Told::Skipped(accesses) => consumer.skip(&accesses),
            Told::Located { nodes, pages, thread } => {
                consumer.locate(&Located { nodes: &nodes, pages: &pages, thread })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{AccessKind, Work};

    use super::*;

    /// What was told, in words.
    #[derive(Default)]
    struct Seen {
        told: Vec<String>,
        accesses: Vec<u64>,
        threads: Vec<thread::ThreadId>,
    }

    impl Consumer for Seen {
        fn take(&mut self, accesses: &[Access]) {
            assert!(accesses.iter().all(|access| access.address != 13), "13");
            self.accesses.extend(accesses.iter().map(|access| access.address));
            self.threads.push(thread::current().id());
        }

        fn skip(&mut self, accesses: &[Access]) {
            self.told.push(format!("{} taken, {} left out", self.accesses.len(), accesses.len()));
        }

        fn locate(&mut self, located: &Located<'_>) {
            self.told.push(format!("{} taken, {located:?}", self.accesses.len()));
        }
    }

    fn access(address: u64) -> Access {
        Access { address, key: 0, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL }
    }

    #[test]
    fn all_is_told_in_its_order() {
        let mut seen = Seen::default();
        let counts = [1, BATCH - 1, BATCH, BATCH + 1, 0, 3 * BATCH + 7, 40 * BATCH, 5];
        let all: Vec<Access> = (100..100 + counts.iter().sum::<usize>() as u64).map(access).collect();
        let returned = beside(&mut seen, |consumer| {
            let mut rest = &all[..];
            for count in counts {
                let (now, later) = rest.split_at(count);
                consumer.take(now);
                rest = later;
                if count == BATCH {
                    consumer.locate(&Located { pages: &[(4096, 1)], thread: Some((0, 1)), ..Located::default() });
                    consumer.skip(&all[..3]);
                }
            }
            7
        });
        assert_eq!(returned, 7);
        assert!(seen.accesses.iter().copied().eq(all.iter().map(|access| access.address)));
        assert_eq!(
            seen.told,
            ["8192 taken, Located { nodes: [], pages: [(4096, 1)], thread: Some((0, 1)) }", "8192 taken, 3 left out"]
        );
        let is_alone = thread::available_parallelism().map_or(1, NonZero::get) == 1;
        assert!(seen.threads.iter().all(|id| (*id == thread::current().id()) == is_alone));
    }

    #[test]
    fn where_nothing_is_told_nobody_waits() {
        let mut seen = Seen::default();
        beside(&mut seen, |_| ());
        assert!(seen.accesses.is_empty() && seen.told.is_empty());
    }

    #[test]
    #[should_panic(expected = "13")]
    fn who_panics_is_heard() {
        let mut seen = Seen::default();
        beside(&mut seen, |consumer| (0..100_000).for_each(|address| consumer.take(&[access(address)])));
    }
}
