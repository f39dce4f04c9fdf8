//! Several that take the same accesses in, on as many threads as the machine has.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::access::{Access, Consumer, Located};

/// Accesses that are handed on at once.
const BATCH: usize = 1 << 16;
/// Batches that wait for the slowest, beside the one that is made: 16 MiB.
const QUEUE: usize = 4;

/// Has all of these take in what `read` hands on, each all of it and in its order; returns them in theirs. Where pages are nobody is told.
pub fn on_threads<C: Consumer + Send, R>(consumers: Vec<C>, read: impl FnOnce(&mut dyn Consumer) -> R) -> (Vec<C>, R) {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(consumers.len()).max(1);
    let mut shares: Vec<Vec<(usize, C)>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, consumer) in consumers.into_iter().enumerate() {
        shares[number % threads].push((number, consumer));
    }
    thread::scope(|scope| {
        let (mut senders, mut workers) = (Vec::with_capacity(threads), Vec::with_capacity(threads));
        for mut share in shares {
            let (sender, batches) = sync_channel::<Arc<Vec<Access>>>(QUEUE);
            senders.push(sender);
            workers.push(scope.spawn(move || {
                for batch in batches {
                    share.iter_mut().for_each(|(_, consumer)| consumer.take(&batch));
                }
                share
            }));
        }
        let mut handing_on = HandingOn { senders, batch: Vec::with_capacity(BATCH) };
        let read = read(&mut handing_on);
        handing_on.send();
        drop(handing_on);
        let mut taken: Vec<(usize, C)> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        taken.sort_by_key(|(number, _)| *number);
        (taken.into_iter().map(|(_, consumer)| consumer).collect(), read)
    })
}

struct HandingOn {
    senders: Vec<SyncSender<Arc<Vec<Access>>>>,
    batch: Vec<Access>,
}

impl HandingOn {
    fn send(&mut self) {
        let batch = Arc::new(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH)));
        // One that is gone has panicked, which is told where it is joined.
        self.senders.iter().for_each(|sender| _ = sender.send(Arc::clone(&batch)));
    }
}

impl Consumer for HandingOn {
    fn take(&mut self, accesses: &[Access]) {
        self.batch.extend_from_slice(accesses);
        if self.batch.len() >= BATCH {
            self.send();
        }
    }

    fn locate(&mut self, _: &Located<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessKind;
    use crate::access::Work;

    #[derive(Default)]
    struct Sum {
        own: u64,
        seen: u64,
        last: u64,
        is_in_order: bool,
    }

    impl Consumer for Sum {
        fn take(&mut self, accesses: &[Access]) {
            for access in accesses {
                self.is_in_order &= access.address == self.last + 1 || self.seen == 0;
                (self.seen, self.last) = (self.seen + 1, access.address);
            }
        }
    }

    #[test]
    fn each_takes_all_of_it_in_its_order() {
        let consumers = (0..5).map(|own| Sum { own, is_in_order: true, ..Sum::default() }).collect();
        let access =
            |address| Access { address, key: 0, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        let (taken, read) = on_threads(consumers, |to| {
            let all: Vec<Access> = (1..=200_000).map(access).collect();
            all.chunks(777).for_each(|part| to.take(part));
            "read"
        });
        assert_eq!((taken.len(), read), (5, "read"));
        for (number, sum) in (0..).zip(&taken) {
            assert_eq!((sum.own, sum.seen, sum.last, sum.is_in_order), (number, 200_000, 200_000, true));
        }
        assert!(on_threads(Vec::<Sum>::new(), |to| to.take(&[access(1)])).0.is_empty());
    }
}
