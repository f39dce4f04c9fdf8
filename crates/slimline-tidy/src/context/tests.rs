//! Whose arenas are after what others do to them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::fence;

const LAYOUT: Layout = Layout::new::<[u64; 3]>();

impl Context {
    fn own_arenas(&self) -> Vec<usize> {
        self.supply.arenas.present().enumerate().filter(|(_, arena)| arena.is_own()).map(|(number, _)| number).collect()
    }
}

struct Sent(NonNull<u8>);

// SAFETY: who sends an object keeps no pointer to it.
unsafe impl Send for Sent {}

#[test]
fn statistics_and_trim_leave_arenas_their_threads() {
    let context = Context::new(&[4]).unwrap();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let objects = [0, 1].map(|arena| context.alloc(LAYOUT, &[arena]).unwrap());
            let kept = context.alloc(LAYOUT, &[2]).unwrap();
            // SAFETY: they are of this context, and used no longer.
            unsafe { context.free(kept) };
            let own = context.own_arenas();
            both.wait();
            both.wait();
            assert_eq!(context.own_arenas(), own);
            // SAFETY: as above.
            objects.into_iter().for_each(|object| unsafe { context.free(object) });
            assert_eq!(context.own_arenas(), own);
            own
        });
        both.wait();
        for _ in 0..3 {
            let now = context.statistics();
            assert_eq!((now.objects, now.arenas, now.buckets), (2, 2, 3));
        }
        for _ in 0..3 {
            // An arena keeps a bucket the first time, which it has to be borrowed for.
            context.trim();
            let now = context.statistics();
            assert_eq!((now.objects, now.arenas, now.buckets), (2, 2, 2));
        }
        both.wait();
        let own = owner.join().unwrap();
        assert_eq!(own, if fence::is_there() { vec![0, 1, 2] } else { vec![] });
    });
    assert_eq!((context.statistics().objects, context.statistics().arenas), (0, 0));
    context.trim();
    assert_eq!(context.statistics().buckets, 0);
}

/// Of arenas beside one that is taken away those go with it that never were: what a thread has got back stays its own.
#[test]
fn one_freed_elsewhere_takes_no_arena_twice() {
    if !fence::is_there() {
        return;
    }
    let context = Context::new(&[4]).unwrap();
    let alloc = |arena: usize| Sent(context.alloc(LAYOUT, &[arena]).unwrap());
    let free_elsewhere = |Sent(object): Sent| {
        let sent = Sent(object);
        thread::scope(|scope| {
            scope.spawn(|| {
                let Sent(object) = { sent };
                // SAFETY: it is of this context, and used no longer.
                unsafe { context.free(object) };
            });
        });
    };
    let first = [0, 1, 2].map(alloc);
    assert_eq!(context.own_arenas(), [0, 1, 2]);
    let [first, ..] = first;
    free_elsewhere(first);
    assert_eq!(context.own_arenas(), []);
    let _again = [1, 2].map(alloc);
    let fresh = alloc(3);
    assert_eq!(context.own_arenas(), [1, 2, 3]);
    free_elsewhere(fresh);
    assert_eq!(context.own_arenas(), [1, 2]);
}

/// What is put off while an arena is borrowed is freed, though its owner does not look.
#[test]
fn what_was_put_off_is_freed_beside_statistics() {
    let context = Context::new(&[2]).unwrap();
    let rounds = if cfg!(miri) { 10 } else { 5000 };
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        let context = &context;
        scope.spawn(move || {
            for round in 0..rounds {
                let object = context.alloc(LAYOUT, &[round]).unwrap();
                if sender.send(Sent(object)).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            for Sent(object) in receiver {
                // SAFETY: it is of this context, and used no longer.
                unsafe { context.free(object) };
            }
        });
        scope.spawn(move || {
            for _ in 0..rounds / 5 {
                context.trim();
                assert!(context.statistics().objects < 20);
            }
        });
    });
    assert_eq!(context.statistics().objects, 0);
}

/// Allocates three objects of one hint in each of two threads at a time, of which each frees the other's. How many buckets
/// they were in.
fn buckets_of_two_threads<A: GlobalAlloc + Sync>(context: &Context<A>, hint: usize) -> usize {
    let both = Barrier::new(2);
    let halves = thread::scope(|scope| {
        let run = || {
            // One that has ended would leave the other its slot.
            both.wait();
            let objects = [0, 1, 2].map(|_| Sent(context.alloc(LAYOUT, &[hint]).unwrap()));
            both.wait();
            objects
        };
        [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap())
    });
    let now = context.statistics();
    assert_eq!((now.objects, now.arenas), (6, 1));
    thread::scope(|scope| {
        let both = &both;
        for objects in halves {
            scope.spawn(move || {
                both.wait();
                for Sent(object) in objects {
                    // SAFETY: it is of this context, and used no longer.
                    unsafe { context.free(object) };
                }
                both.wait();
            });
        }
    });
    let left = context.statistics();
    assert_eq!((left.objects, left.arenas), (0, 0));
    context.trim();
    assert_eq!(context.statistics().buckets, 0);
    now.buckets
}

#[test]
fn after_many_turns_each_thread_allocates_in_an_arena_of_its_own() {
    let context = Context::new(&[300]).unwrap();
    assert_eq!(buckets_of_two_threads(&context, 298), 1);
    context.supply.arenas.get(299, &context.supply.below).unwrap().crowd();
    assert_eq!(buckets_of_two_threads(&context, 299), if fence::is_there() { 2 } else { 1 });
    assert_eq!(buckets_of_two_threads(&context, 298), 1);
    let arenas = &context.supply.arenas;
    // Some of each part, as miri takes long.
    for arena in arenas.present().step_by(37) {
        assert!(arenas.beside(arena).iter().any(|beside| std::ptr::eq(beside, arena)));
        assert_eq!(arenas.number(arena) / 256, 1);
    }
}

/// The system's allocator until it is told to refuse all.
#[derive(Default)]
struct Refusing(AtomicBool);

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for &Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.0.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn without_memory_for_arenas_of_their_own_threads_share_one() {
    let below = Refusing::default();
    let context = Context::over(&below, &[2], DEFAULT_BUCKET_BYTES).unwrap();
    // A slab is there then, and its buckets.
    let first = context.alloc(LAYOUT, &[0]).unwrap();
    // SAFETY: it is of this context, and used no longer.
    unsafe { context.free(first) };
    below.0.store(true, Ordering::Relaxed);
    context.supply.arenas.get(0, &context.supply.below).unwrap().crowd();
    assert_eq!(buckets_of_two_threads(&context, 0), 1);
}
