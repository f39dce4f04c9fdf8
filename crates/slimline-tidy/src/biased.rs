//! A lock that costs its owner nothing: the thread that takes it first, as long as no other thread wants it (Kawachiya et al.,
//! Lock Reservation, 2002).
//!
//! ```text
//!   nobody's ── first thread ──► a thread's ── another one ──► being taken away ──► nobody's, the first time
//!                                                                               ──► all threads', from then on
//! ```
//!
//! The owner says in its own slot which lock it is in, and looks whether the lock still is its own: a store and three loads, no
//! exchange. Who takes the lock away changes the owner, lets [`fence::heavy`] pass, and waits until the former owner's slot
//! no longer has this lock. What is all threads' is a lock of one word that waits by spinning, and counts how often another thread's
//! turn it is. Who only looks after what a lock guards borrows it: it is taken away likewise, and its owner's again then.

use std::cell::Cell;
use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::{
    self, AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::thread::yield_now;

use crate::fence;
use crate::lock::ROUNDS;

/// Threads that may be owners at a time, but for a few slots. Others take what is all threads'. More than most programs have
/// threads, and 64 KiB of zero bytes of which the kernel makes what is used.
pub(crate) const SLOTS: usize = 1024;

/// Slots that are no thread's: they are what an owner can be besides a thread.
const STRANGER: usize = 0;
const ALL: usize = 1;
const BETWEEN: usize = 2;
/// Of threads that are in a lock, while they may come to other ones.
const WITHIN: usize = 3;

/// Of a thread. A line each, as each thread writes its own all the time.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// The address of the lock that its thread is in; 0: it is in none.
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

/// The number of this thread's slot, less than [`SLOTS`].
#[inline(always)]
pub(crate) fn slot() -> Option<usize> {
    let number = number(mine());
    (number > WITHIN).then_some(number)
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
    taken_away: AtomicBool,
    /// How often another thread than before took it while it was all threads'. This and the next two are nothing that the lock needs, but
    /// would be bytes that nothing is in.
    turns: AtomicU8,
    /// Whose turn it was last.
    last: AtomicU16,
    /// What it is the lock of.
    number: AtomicU32,
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

    /// `None`: it is all threads', and another one has it; or it is being taken away or borrowed. Whoever has it next did not get
    /// it by [`own`](Self::own), unless it was borrowed.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        self.own().or_else(|| self.lock_others(false))
    }

    #[inline(always)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Where it is this thread's own. `None` says nothing of whether it is free.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<Held<'_>> {
        let mine = MINE.get();
        // Before anything is written: threads without a slot have one for all of them, which is nobody's owner.
        if !std::ptr::eq(self.owner.load(Ordering::Relaxed), mine) {
            return None;
        }
        debug_assert!(mine.inside.load(Ordering::Relaxed) == 0, "a lock within a lock");
        // Releases, as leaving does: who takes the lock before away may see this, and not that it was left.
        mine.inside.store(self.address(), Ordering::Release);
        let held = Held(&mine.inside);
        fence::light();
        // It may have been taken away until the slot told of it: then `held` is dropped, and was nothing. Acquires what the owner
        // before did, and who borrowed it.
        std::ptr::eq(self.owner.load(Ordering::Acquire), mine).then_some(held)
    }

    /// Where it is not.
    #[inline(always)]
    fn lock_others(&self, waits: bool) -> Option<Held<'_>> {
        if is(self.owner.load(Ordering::Acquire), ALL)
            && self.shared.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Some(Held(&self.shared));
        }
        self.lock_or_own(waits)
    }

    #[cold]
    fn lock_or_own(&self, waits: bool) -> Option<Held<'_>> {
        let mine = mine();
        let may_own = number(mine) > WITHIN;
        let all = (&raw const TABLE[ALL]).cast_mut();
        let next = if may_own { std::ptr::from_ref(mine).cast_mut() } else { all };
        let mut round = 0;
        loop {
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
                // Whose `try_lock` failed before has this one see what it wrote before.
                atomic::fence(Ordering::SeqCst);
                continue;
            } else if may_own && std::ptr::eq(owner, mine) {
                if let Some(held) = self.own() {
                    return Some(held);
                }
            } else if !is(owner, BETWEEN) {
                take_away(Owner(owner), std::iter::once(self), Taken::One);
                continue;
            } else if !waits {
                return None;
            }
            wait(&mut round);
        }
    }

    /// Whether it once was taken away from its owner.
    pub(crate) fn was_taken_away(&self) -> bool {
        self.taken_away.load(Ordering::Relaxed)
    }

    /// Whether several threads wanted it, by turns, and it is all threads' now.
    pub(crate) fn is_wanted_by_several(&self) -> bool {
        is(self.owner.load(Ordering::Relaxed), ALL) && self.was_taken_away()
    }

    /// A thread that is not its owner is about to lock it. Those without a slot are as one.
    #[inline(always)]
    pub(crate) fn take_turn(&self) {
        // A number of ten bits.
        let mine = number(mine()) as u16;
        if self.last.load(Ordering::Relaxed) != mine {
            self.last.store(mine, Ordering::Relaxed);
            // Where two do it at once one may be lost, but it never becomes less.
            self.turns.fetch_max(self.turns().saturating_add(1), Ordering::Relaxed);
        }
    }

    /// How many turns there were, or 255.
    #[inline(always)]
    pub(crate) fn turns(&self) -> u8 {
        self.turns.load(Ordering::Relaxed)
    }

    /// What [`set_number`](Self::set_number) was told.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Locks it, and leaves it to whom it is.
    pub(crate) fn borrow(&self) -> Borrowed<'_> {
        let mut round: u32 = 0;
        loop {
            if let Some(held) = self.own() {
                return Borrowed { lock: self, by: By::Lock(held) };
            }
            let owner = self.owner.load(Ordering::Acquire);
            if is(owner, ALL) {
                if self.shared.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Borrowed { lock: self, by: By::Lock(Held(&self.shared)) };
                }
            } else if !is(owner, BETWEEN) && self.begin_to_take(owner) {
                if !owner.is_null() {
                    fence::heavy();
                    self.wait_until_left(owner);
                }
                return Borrowed { lock: self, by: By::Taking(owner) };
            }
            wait(&mut round);
        }
    }

    fn begin_to_take(&self, owner: *mut Slot) -> bool {
        let between = (&raw const TABLE[BETWEEN]).cast_mut();
        self.owner.load(Ordering::Relaxed) == owner
            && self.owner.compare_exchange(owner, between, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// After the fence.
    fn wait_until_left(&self, owner: *mut Slot) {
        let mut round = 0;
        while TABLE[number(owner)].inside.load(Ordering::Acquire) == self.address() {
            wait(&mut round);
        }
    }

    /// Another thread that it has to be taken away from.
    ///
    /// [`lock`](Self::lock) does so by itself, of one lock.
    #[inline(always)]
    pub(crate) fn owner_elsewhere(&self) -> Option<Owner> {
        let owner = self.owner.load(Ordering::Acquire);
        let elsewhere = !owner.is_null() && number(owner) > WITHIN && !std::ptr::eq(owner, MINE.get());
        elsewhere.then_some(Owner(owner))
    }
}

/// A thread that owns locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(*mut Slot);

/// Locks whose owner is known that are taken away at once.
pub(crate) const TOGETHER: usize = 256;

/// What is taken away, and whose it is then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A lock that is wanted: nobody's, the second time all threads'.
    One,
    /// Those beside it that nobody ever took away, and nobody's. Others were wanted elsewhere once, and not by who comes now.
    Fresh,
    /// All, and all threads'.
    ForAll,
}

/// Of so many locks those that are an owner's are taken away.
pub(crate) fn take_away<'l>(Owner(owner): Owner, locks: impl Iterator<Item = &'l Biased> + Clone, which: Taken) {
    let mut taken = [0_u64; TOGETHER / 64];
    for (number, lock) in locks.clone().take(TOGETHER).enumerate() {
        if (which != Taken::Fresh || !lock.was_taken_away()) && lock.begin_to_take(owner) {
            taken[number / 64] |= 1 << (number % 64);
        }
    }
    if taken == [0; TOGETHER / 64] {
        return;
    }
    fence::heavy();
    for (number, lock) in locks.take(TOGETHER).enumerate() {
        if taken[number / 64] >> (number % 64) & 1 == 0 {
            continue;
        }
        lock.wait_until_left(owner);
        let before = lock.taken_away.swap(true, Ordering::Relaxed);
        let for_all = which == Taken::ForAll || (which == Taken::One && before);
        let next = if for_all { (&raw const TABLE[ALL]).cast_mut() } else { null_mut() };
        lock.owner.store(next, Ordering::Release);
    }
    // Whose `try_lock` failed meanwhile has the taker see what it wrote before.
    atomic::fence(Ordering::SeqCst);
}

/// Before the next look. The processor is given to others now and then: who is waited for may have been interrupted.
fn wait(round: &mut u32) {
    *round = round.wrapping_add(1);
    if round.is_multiple_of(ROUNDS) { yield_now() } else { spin_loop() }
}

/// A lock that is held, and whose it was when it is dropped.
#[derive(Debug)]
pub(crate) struct Borrowed<'l> {
    lock: &'l Biased,
    by: By<'l>,
}

#[derive(Debug)]
enum By<'l> {
    /// As any that has it, whose lock it is.
    Lock(#[allow(dead_code, reason = "dropped")] Held<'l>),
    /// From this owner, or nobody.
    Taking(*mut Slot),
}

impl Borrowed<'_> {
    /// Others' [`try_lock`](Biased::try_lock) may have failed though it is to be its owner's again, who does not look at what they
    /// left. Once it is dropped who borrowed it has to look.
    pub(crate) fn is_from_owner(&self) -> bool {
        matches!(self.by, By::Taking(_))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // The slot may have become another thread's: so has what its thread owned.
        if let By::Taking(owner) = self.by {
            self.lock.owner.store(owner, Ordering::Release);
            atomic::fence(Ordering::SeqCst);
        }
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

    fn owner(lock: &Biased) -> *const Slot {
        lock.owner.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_borrowed_is_its_owners_again() {
        let [nobodys, others, all] = std::array::from_fn(|_| Biased::default());
        all.owner.store((&raw const TABLE[ALL]).cast_mut(), Ordering::Relaxed);
        let both = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(others.lock());
                both.wait();
                both.wait();
                drop(others.lock());
                assert!(std::ptr::eq(owner(&others), MINE.get()) || is(owner(&others), ALL));
            });
            both.wait();
            for lock in [&nobodys, &others, &all] {
                let before = owner(lock);
                let borrowed = lock.borrow();
                assert_eq!(borrowed.is_from_owner(), is(owner(lock), BETWEEN));
                // Who frees does not wait.
                assert!(lock.try_lock().is_none());
                drop(borrowed);
                assert_eq!((owner(lock), lock.was_taken_away()), (before, false));
            }
            both.wait();
        });
        drop(others.lock());
        let borrowed = others.borrow();
        assert!(!borrowed.is_from_owner());
    }

    #[test]
    fn a_turn_is_another_threads() {
        let lock = Biased::default();
        (0..3).for_each(|_| lock.take_turn());
        let one = u8::from(fence::is_there());
        assert_eq!(lock.turns(), one);
        thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| lock.take_turn()));
        });
        lock.take_turn();
        assert_eq!(lock.turns(), 3 * one);
        for _ in 0..300 {
            lock.last.store(SLOTS as u16, Ordering::Relaxed);
            lock.take_turn();
        }
        assert_eq!(lock.turns(), u8::MAX);
    }

    #[test]
    fn more_threads_than_slots_one_after_the_other() {
        let lock = Biased::default();
        for _ in 0..if cfg!(miri) { 3 } else { SLOTS + 100 } {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let fresh = Biased::default();
                    drop(fresh.lock());
                    assert_eq!(std::ptr::eq(owner(&fresh), MINE.get()), fence::is_there());
                    drop(lock.lock());
                });
            });
        }
        // Who has the slot of one that ended has what that one owned, so that whose it is now nobody knows.
        assert!(lock.try_lock().is_some());
    }

    /// Those without a slot have one that they never write.
    #[test]
    fn a_thread_without_a_slot() {
        MINE.set(&TABLE[WITHIN]);
        let [fresh, all] = [Biased::default(), Biased::default()];
        let held = fresh.lock();
        assert!(is_shared(&held) && is(owner(&fresh), ALL));
        assert!(all.own().is_none());
        assert!([STRANGER, WITHIN].iter().all(|slot| TABLE[*slot].inside.load(Ordering::Relaxed) == 0));
    }

    /// Threads' destructors may free when the slot has been given back.
    #[test]
    fn after_the_slot_was_given_back() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert!(is(MINE.get(), STRANGER));
                let lock = Biased::default();
                assert!(is_shared(&lock.lock()));
                assert!(is(MINE.get(), STRANGER) && is(owner(&lock), ALL));
                LATE_ENDED.store(true, Ordering::Relaxed);
            }
        }
        static LATE_ENDED: AtomicBool = AtomicBool::new(false);
        thread_local! {
            static LATE: Late = const { Late };
        }
        thread::spawn(|| {
            // What was first used last is dropped first.
            LATE.with(|_| ());
            let lock = Biased::default();
            drop(lock.lock());
            assert_eq!(std::ptr::eq(owner(&lock), MINE.get()), fence::is_there());
        })
        .join()
        .unwrap();
        assert!(LATE_ENDED.load(Ordering::Relaxed));
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
