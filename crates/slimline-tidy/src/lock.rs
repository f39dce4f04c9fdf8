//! A lock of one byte that waits by spinning.
//!
//! What is done under it takes some tens of nanoseconds, now and then a call of the allocator below: less than it takes to
//! put a thread to sleep. A lock that can sleep is also released by an exchange, which costs as much as taking it; this one
//! is released by a plain store.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::yield_now;

/// Rounds before the processor is given to others: who holds the lock may have been interrupted.
pub(crate) const ROUNDS: u32 = 64;

/// All zero bytes are one that is free.
#[derive(Debug, Default)]
pub(crate) struct Lock(AtomicBool);

/// Releases its lock when it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'l>(&'l Lock);

impl Lock {
    /// `None`: another thread has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Held(self))
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Held<'_> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    #[cold]
    fn wait(&self) -> Held<'_> {
        loop {
            for _ in 0..ROUNDS {
                if !self.0.load(Ordering::Relaxed)
                    && let Some(held) = self.try_lock()
                {
                    return held;
                }
                spin_loop();
            }
            yield_now();
        }
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let lock = Lock::default();
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
        assert!(lock.try_lock().is_some());
    }
}
