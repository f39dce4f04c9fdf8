//! Whose arenas are after what others do to them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::fence;

const LAYOUT: Layout = Layout::new::<[u64; 3]>();

impl Context {
    fn own_arenas(&self) -> Vec<usize> {
        self.supply.arenas.present().filter(|arena| arena.is_own()).map(Arena::number).collect()
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

/// What is put off while an arena is borrowed is freed, though its owner does not look; so is what is while it becomes all threads', and
/// while each gets its own.
#[test]
fn what_was_put_off_is_freed_beside_statistics() {
    let context = Context::new(&[2]).unwrap();
    let rounds = if cfg!(miri) { 10 } else { 5000 };
    for makers in [1, 2] {
        thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::sync_channel(4);
            let context = &context;
            for _ in 0..makers {
                let sender = sender.clone();
                scope.spawn(move || {
                    for round in 0..rounds {
                        let object = context.alloc(LAYOUT, &[round]).unwrap();
                        if sender.send(Sent(object)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            scope.spawn(move || {
                for Sent(object) in receiver {
                    // SAFETY: it is of this context, and used no longer.
                    unsafe { context.free(object) };
                }
            });
            scope.spawn(move || {
                for _ in 0..rounds / 5 {
                    context.trim();
                    let now = context.statistics();
                    assert!(now.objects < 20 && now.arenas <= 2);
                }
            });
        });
    }
    assert_eq!(context.statistics().objects, 0);
}

/// Two threads that take turns in an arena until each has one of its own. Whether all that they asked for was there.
fn take_turns<A: GlobalAlloc + Sync>(context: &Context<A>, hint: usize) -> bool {
    let both = Barrier::new(2);
    let all = AtomicBool::new(true);
    let run = || {
        for _ in 0..u8::MAX {
            both.wait();
            match context.alloc(LAYOUT, &[hint]) {
                // SAFETY: it is of this context, and used no longer.
                Ok(object) => unsafe { context.free(object) },
                Err(_) => all.store(false, Ordering::Relaxed),
            }
        }
    };
    thread::scope(|scope| [(); 2].iter().for_each(|()| drop(scope.spawn(run))));
    all.into_inner()
}

/// Allocates three objects of one hint in each of two threads at a time; two others free them. How many buckets they were in.
fn buckets_of_two_threads<A: GlobalAlloc + Sync>(context: &Context<A>, hint: usize) -> usize {
    let both = Barrier::new(2);
    let before = context.statistics();
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
    assert_eq!((now.objects, now.arenas), (before.objects + 6, before.arenas + 1));
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
    assert_eq!((left.objects, left.arenas), (before.objects, before.arenas));
    now.buckets - before.buckets
}

#[test]
fn after_many_turns_each_thread_allocates_in_an_arena_of_its_own() {
    let context = Context::new(&[300]).unwrap();
    let arenas = &context.supply.arenas;
    assert_eq!(buckets_of_two_threads(&context, 298), 1);
    context.trim();
    assert!(take_turns(&context, 299));
    let crowded = arenas.get(299, &context.supply.below).unwrap();
    assert_eq!(crowded.is_crowded(), fence::is_there());
    context.trim();
    assert_eq!(buckets_of_two_threads(&context, 299), if fence::is_there() { 2 } else { 1 });
    context.trim();
    assert_eq!(buckets_of_two_threads(&context, 298), 1);
    context.trim();
    assert_eq!(context.statistics().buckets, 0);
    // Parts are of 256, and of the second one all are there.
    let numbers = arenas.by_number().map(|(first, own)| {
        assert!(own.into_iter().all(|own| own.number() == first.number()));
        first.number()
    });
    assert!(numbers.eq(256..512));
    for arena in arenas.present().step_by(37) {
        let beside = arenas.beside(arena);
        assert!(std::ptr::eq(&raw const beside[arena.number() - 256], arena));
    }
}

/// The system's allocator, which hands out so many pieces of memory and counts what is not given back.
struct Limited {
    left: AtomicUsize,
    held: AtomicUsize,
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for &Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return std::ptr::null_mut();
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn without_memory_for_arenas_of_their_own_threads_share_one() {
    // What a context and its first slab take; the rest is for lanes.
    const ALL_BUT_LANES: usize = 7;
    let mut kept = 0;
    for pieces in (0..20).step_by(if cfg!(miri) { 3 } else { 1 }) {
        let below = Limited { left: AtomicUsize::new(pieces), held: AtomicUsize::new(0) };
        if let Ok(context) = Context::over(&below, &[2], DEFAULT_BUCKET_BYTES) {
            assert_eq!(take_turns(&context, 0), pieces >= ALL_BUT_LANES, "{pieces}");
            if pieces >= ALL_BUT_LANES {
                buckets_of_two_threads(&context, 0);
                kept = context.statistics().buckets;
            }
        }
        assert_eq!(below.held.into_inner(), 0, "{pieces}");
    }
    // Each arena keeps one: that of all, and with memory for them those of the two threads that took turns and of the two after them, which have the
    // same slots if these were given back by then.
    assert!(if fence::is_there() { (3..=5).contains(&kept) } else { kept == 1 }, "{kept}");
}

/// What was made before threads took turns is not lost to them when it is freed.
#[test]
fn room_that_all_share_is_of_use_to_threads_with_arenas_of_their_own() {
    let below = Limited { left: AtomicUsize::new(usize::MAX), held: AtomicUsize::new(0) };
    // Two objects fit into a bucket.
    let context = Context::over(&below, &[2], 64).unwrap();
    let objects: Vec<_> = (0..100).map(|_| context.alloc(LAYOUT, &[0]).unwrap()).collect();
    assert!(take_turns(&context, 0));
    below.left.store(0, Ordering::Relaxed);
    let fill = |hint| std::iter::from_fn(|| context.alloc(LAYOUT, &[hint]).ok()).count();
    assert!(fill(0) + fill(1) > 0);
    assert_eq!(fill(0), 0);
    // Of each bucket one: none is empty, and any arena's.
    for object in objects.into_iter().step_by(2) {
        // SAFETY: it is of this context, and used no longer.
        unsafe { context.free(object) };
    }
    assert_eq!(fill(0), 50);
}
