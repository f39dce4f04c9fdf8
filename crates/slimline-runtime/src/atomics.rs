//! Atomic operations, for code whose compiler has made calls of them.
//!
//! All are sequentially consistent, whatever order was asked for: that is what each instruction with `lock` is on x86-64,
//! and all that a weaker one would save is an `xchg` in the place of a `mov`.
#![allow(unsafe_code)] // places that the program names

use core::arch::asm;
use core::ffi::c_int;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, compiler_fence, fence};

/// Functions of one width: `place` is aligned and the program's to access.
macro_rules! atomics {
    ($bits:literal, $integer:ty, $atomic:ty) => {
        const _: () = {
            #[unsafe(export_name = concat!("__slimline_atomic", $bits, "_load"))]
            unsafe extern "C" fn load(place: *const $atomic, _: c_int) -> $integer {
                // SAFETY: promised by the caller, here and below.
                unsafe { (*place).load(SeqCst) }
            }
            #[unsafe(export_name = concat!("__slimline_atomic", $bits, "_store"))]
            unsafe extern "C" fn store(place: *const $atomic, value: $integer, _: c_int) {
                // SAFETY: as above.
                unsafe { (*place).store(value, SeqCst) };
            }
    atomics!(@update $bits, $integer, $atomic, exchange, swap);
    atomics!(@update $bits, $integer, $atomic, fetch_add, fetch_add);
    atomics!(@update $bits, $integer, $atomic, fetch_sub, fetch_sub);
    atomics!(@update $bits, $integer, $atomic, fetch_and, fetch_and);
    atomics!(@update $bits, $integer, $atomic, fetch_or, fetch_or);
    atomics!(@update $bits, $integer, $atomic, fetch_xor, fetch_xor);
    atomics!(@update $bits, $integer, $atomic, fetch_nand, fetch_nand);
    atomics!(@compare $bits, $integer, $atomic, compare_exchange_strong);
    atomics!(@compare $bits, $integer, $atomic, compare_exchange_weak);
            #[unsafe(export_name = concat!("__slimline_atomic", $bits, "_compare_exchange_val"))]
            unsafe extern "C" fn compare_exchange_val(
                place: *const $atomic,
                expected: $integer,
                value: $integer,
                _: c_int,
                _: c_int,
            ) -> $integer {
                // SAFETY: as above.
                let result = unsafe { (*place).compare_exchange(expected, value, SeqCst, SeqCst) };
                result.unwrap_or_else(|found| found)
            }
        };
    };
    (@update $bits:literal, $integer:ty, $atomic:ty, $name:ident, $operation:ident) => {
        #[unsafe(export_name = concat!("__slimline_atomic", $bits, "_", stringify!($name)))]
        unsafe extern "C" fn $name(place: *const $atomic, value: $integer, _: c_int) -> $integer {
            // SAFETY: as above.
            unsafe { (*place).$operation(value, SeqCst) }
        }
    };
    (@compare $bits:literal, $integer:ty, $atomic:ty, $name:ident) => {
        #[unsafe(export_name = concat!("__slimline_atomic", $bits, "_", stringify!($name)))]
        unsafe extern "C" fn $name(
            place: *const $atomic,
            expected: *mut $integer,
            value: $integer,
            _: c_int,
            _: c_int,
        ) -> bool {
            // SAFETY: as above; what is expected is the caller's own.
            unsafe {
                match (*place).compare_exchange(*expected, value, SeqCst, SeqCst) {
                    Ok(_) => true,
                    Err(found) => {
                        *expected = found;
                        false
                    }
                }
            }
        }
    };
}

atomics!("8", u8, AtomicU8);
atomics!("16", u16, AtomicU16);
atomics!("32", u32, AtomicU32);
atomics!("64", u64, AtomicU64);
atomics!("128", u128, Wide);

/// 16 bytes, by `cmpxchg16b`: only code for processors that have it has such operations.
#[repr(C, align(16))]
struct Wide(core::cell::UnsafeCell<u128>);

impl Wide {
    fn compare_exchange(
        &self,
        expected: u128,
        value: u128,
        _: core::sync::atomic::Ordering,
        _: core::sync::atomic::Ordering,
    ) -> Result<u128, u128> {
        let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
        let is_done: u64;
        // SAFETY: 16 aligned bytes; rbx, which LLVM keeps for itself, is exchanged and comes back.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b [rdi]",
                "sete cl",
                "mov rbx, rsi",
                inout("rsi") value as u64 => _,
                in("rdi") self.0.get(),
                inout("rcx") (value >> 64) as u64 => is_done,
                inout("rax") low,
                inout("rdx") high,
                options(nostack),
            );
        }
        let found = u128::from(low) | u128::from(high) << 64;
        if is_done as u8 != 0 { Ok(found) } else { Err(found) }
    }

    fn update(&self, change: impl Fn(u128) -> u128) -> u128 {
        let mut known = self.load(SeqCst);
        loop {
            match self.compare_exchange(known, change(known), SeqCst, SeqCst) {
                Ok(before) => return before,
                Err(found) => known = found,
            }
        }
    }

    /// Writes what it reads: memory that can't be written can't be loaded so.
    fn load(&self, order: core::sync::atomic::Ordering) -> u128 {
        self.compare_exchange(0, 0, order, order).unwrap_or_else(|found| found)
    }

    fn store(&self, value: u128, order: core::sync::atomic::Ordering) {
        self.swap(value, order);
    }

    fn swap(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|_| value)
    }

    fn fetch_add(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| before.wrapping_add(value))
    }

    fn fetch_sub(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| before.wrapping_sub(value))
    }

    fn fetch_and(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| before & value)
    }

    fn fetch_or(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| before | value)
    }

    fn fetch_xor(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| before ^ value)
    }

    fn fetch_nand(&self, value: u128, _: core::sync::atomic::Ordering) -> u128 {
        self.update(|before| !(before & value))
    }
}

#[unsafe(no_mangle)]
extern "C" fn __slimline_atomic_thread_fence(_: c_int) {
    fence(SeqCst);
}

#[unsafe(no_mangle)]
extern "C" fn __slimline_atomic_signal_fence(_: c_int) {
    compiler_fence(SeqCst);
}
