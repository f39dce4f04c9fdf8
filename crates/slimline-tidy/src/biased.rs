//! A lock that costs its owner nothing: the thread that takes it first, as long as no other thread wants it (Kawachiya et al.,
//! Lock Reservation, 2002).
//!
//! ```text
//!   nobody ── first thread ──► a thread's ── another one ──► being taken away ──► that one's, once
//!                                                                             ──► all threads', from then on
//! ```
//!
//! The owner says in its own slot which lock it is in, and looks whether the lock still is its own: a store and two loads, no
//! exchange. Who takes the lock away changes the owner, lets [`fence::heavy`] pass, and waits until the former owner's slot
//! no longer has this lock. What is all threads' is a lock of one word that waits by spinning.

use std::cell::Cell;
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread::yield_now;

use crate::fence;
use crate::lock::ROUNDS;

/// Threads that may be owners at a time. Others take what is all threads'.
const SLOTS: usize = 1024;

/// Slots that are no thread's: they are what an owner can be besides a thread.
const STRANGER: usize = 0;
const ALL: usize = 1;
const BETWEEN: usize = 2;
/// Of threads that are in a lock, while they may come to other ones.
const WITHIN: usize = 3;

/// How often a lock goes to the next thread that wants it before it is all threads'.
const MOVES: u8 = 1;

/// Of a thread. A line each, as each thread writes its own all the time.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// The address of the lock that its thread is in, 0: of none.
    inside: AtomicUsize,
}

static TABLE: [Slot; SLOTS] = [const { Slot { inside: AtomicUsize::new(0) } }; SLOTS];

/// A bit for each slot that is a thread's. Those that are no thread's are never given out.
static GIVEN: [AtomicU64; SLOTS / 64] = {
    let mut given = [const { AtomicU64::new(0) }; SLOTS / 64];
    given[0] = AtomicU64::new(1 << STRANGER | 1 << ALL | 1 << BETWEEN | 1 << WITHIN);
    given
};

thread_local! {
    static MINE: Cell<&'static Slot> = const { Cell::new(&TABLE[STRANGER]) };
    static GIVES_BACK: GivesBack = const { GivesBack };
}

/// The next thread that has the slot finds what this one owned its own: what happened before is before it by the bit.
struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        let mine = MINE.replace(&TABLE[STRANGER]);
        let number = number(mine);
        if number > WITHIN {
            GIVEN[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
        }
    }
}

/// The number of a slot of the table.
fn number(slot: *const Slot) -> usize {
    (slot.addr() - TABLE.as_ptr().addr()) / size_of::<Slot>()
}

fn is(slot: *const Slot, number: usize) -> bool {
    std::ptr::eq(slot, &raw const TABLE[number])
}

/// This thread's slot; that of strangers where there is none.
fn mine() -> &'static Slot {
    let mine = MINE.get();
    // A thread that ends has given its slot back and gets no other one.
    if !is(mine, STRANGER) || !fence::is_there() || GIVES_BACK.try_with(|_| ()).is_err() {
        return mine;
    }
    for (word, given) in GIVEN.iter().enumerate() {
        let free = |bits: u64| (!bits != 0).then(|| bits | (bits + 1));
        if let Ok(before) = given.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            MINE.set(&TABLE[word * 64 + before.trailing_ones() as usize]);
            break;
        }
    }
    MINE.get()
}

/// Does what may come to other locks while one is held: an allocator below may have contexts of its own. A slot tells of one
/// lock only, so that the others are taken as by threads without one.
pub(crate) fn within<T>(what: impl FnOnce() -> T) -> T {
    let mine = MINE.replace(&TABLE[WITHIN]);
    let done = what();
    MINE.set(mine);
    done
}

/// All zero bytes are one that is free, and nobody's.
#[derive(Debug, Default)]
pub(crate) struct Biased {
    /// Null: nobody's.
    owner: AtomicPtr<Slot>,
    /// Not 0: held, where it is all threads'.
    shared: AtomicUsize,
    moves: AtomicU8,
}

/// Releases its lock when it is dropped: what says that it is held.
#[derive(Debug)]
pub(crate) struct Held<'l>(&'l AtomicUsize);

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Biased {
    #[inline(always)]
    pub(crate) fn lock(&self) -> Held<'_> {
        self.own().unwrap_or_else(|| self.lock_others(true).unwrap_or_else(|| unreachable!()))
    }

    /// `None`: another thread has it, and it is all threads'.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        self.own().or_else(|| self.lock_others(false))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Where it is this thread's own; nobody's [`try_lock`](Self::try_lock) fails then.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<Held<'_>> {
        let mine = MINE.get();
        mine.inside.store(self.address(), Ordering::Relaxed);
        let held = Held(&mine.inside);
        fence::light();
        // Acquires what the owner before did, if there was one. Else `held` is dropped, and was nothing: of slots that are no
        // thread's nobody reads what they are in.
        std::ptr::eq(self.owner.load(Ordering::Acquire), mine).then_some(held)
    }

    #[cold]
    fn lock_others(&self, waits: bool) -> Option<Held<'_>> {
        let mine = mine();
        let may_own = number(mine) > WITHIN;
        let all = (&raw const TABLE[ALL]).cast_mut();
        let next = if may_own { std::ptr::from_ref(mine).cast_mut() } else { all };
        for round in 1_u32.. {
            let owner = self.owner.load(Ordering::Acquire);
            if is(owner, ALL) {
                if self.shared.load(Ordering::Relaxed) == 0
                    && self.shared.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return Some(Held(&self.shared));
                }
                if !waits {
                    return None;
                }
            } else if owner.is_null() {
                let _ = self.owner.compare_exchange(null_mut(), next, Ordering::AcqRel, Ordering::Relaxed);
                continue;
            } else if may_own && std::ptr::eq(owner, mine) {
                if let Some(held) = self.own() {
                    return Some(held);
                }
            } else if !is(owner, BETWEEN) {
                self.take_away(owner, next);
                continue;
            }
            if round.is_multiple_of(ROUNDS) {
                yield_now();
            } else {
                spin_loop();
            }
        }
        None
    }

    /// From its owner, if it still is that one's.
    fn take_away(&self, owner: *mut Slot, next: *mut Slot) {
        let between = (&raw const TABLE[BETWEEN]).cast_mut();
        if self.owner.compare_exchange(owner, between, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        fence::heavy();
        let mut round: u32 = 0;
        while TABLE[number(owner)].inside.load(Ordering::Acquire) == self.address() {
            round += 1;
            if round.is_multiple_of(ROUNDS) { yield_now() } else { spin_loop() }
        }
        let moves = self.moves.load(Ordering::Relaxed);
        let next = if moves < MOVES { next } else { (&raw const TABLE[ALL]).cast_mut() };
        self.moves.store(moves.saturating_add(1), Ordering::Relaxed);
        self.owner.store(next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn is_shared(held: &Held<'_>) -> bool {
        !std::ptr::eq(held.0, &raw const MINE.get().inside)
    }

    #[test]
    fn is_its_first_threads_then_the_next_ones_then_all_threads() {
        let lock = Biased::default();
        let owner = || lock.owner.load(Ordering::Relaxed).cast_const();
        drop(lock.lock());
        assert!(std::ptr::eq(owner(), MINE.get()) || is(owner(), ALL));
        let both = Barrier::new(2);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                drop(lock.lock());
                assert!(std::ptr::eq(owner(), MINE.get()) || is(owner(), ALL));
                both.wait();
                both.wait();
            });
            both.wait();
            drop(lock.try_lock());
            assert!(is(owner(), ALL));
            let held = lock.lock();
            assert!(is_shared(&held));
            assert!(lock.try_lock().is_none());
            drop(held);
            assert!(lock.try_lock().is_some());
            both.wait();
            other.join().unwrap();
        });
    }

    /// A thread that is in one lock takes another one as all threads do.
    #[test]
    fn one_within_another() {
        let (outer, inner) = (Biased::default(), Biased::default());
        drop(inner.lock());
        let held = outer.lock();
        within(|| assert!(is_shared(&inner.lock())));
        assert_eq!(is_shared(&held), !fence::is_there());
        assert!(is_shared(&held) || MINE.get().inside.load(Ordering::Relaxed) == outer.address());
    }

    struct Counter(UnsafeCell<usize>);

    #[allow(unsafe_code)] // what the lock guards
    // SAFETY: it is used under a lock only.
    unsafe impl Sync for Counter {}

    #[test]
    #[allow(unsafe_code)] // what the lock guards
    fn one_at_a_time() {
        let (rounds, times) = if cfg!(miri) { (3, 20) } else { (200, 1000) };
        for _ in 0..rounds {
            let lock = Biased::default();
            let counter = Counter(UnsafeCell::new(0));
            let counter = &counter;
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..times {
                            let _held = lock.lock();
                            // SAFETY: the lock is held.
                            unsafe { *counter.0.get() += 1 };
                        }
                    });
                }
            });
            let _held = lock.lock();
            // SAFETY: the lock is held.
            assert_eq!(unsafe { *counter.0.get() }, 3 * times);
        }
    }
}
