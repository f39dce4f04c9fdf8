//! Descriptors of ours that the target must neither see nor close.
//!
//! Programs close all descriptors when they become daemons. Ours lie at high numbers, and the functions that close or
//! overwrite a descriptor, or ask whether it is open, answer for them as if there were none.

use crate::{process, recorder, trigger};

/// Whether a descriptor is ours.
#[inline]
pub(crate) fn is_ours(file: i32) -> bool {
    file >= 0 && ours().contains(&file) && (file != recorder::file() || recorder::has_file())
}

/// Those that are open; -1 for others.
fn ours() -> [i32; 3] {
    let [main, between] = trigger::events();
    [main, between, recorder::file()]
}

/// Leaves a descriptor number to the target, which wants just this one.
fn make_way(file: i32) {
    if is_ours(file) && process::is_ours() {
        trigger::move_event(file);
        recorder::move_file(file);
    }
}

/// The ranges of `first..=last` that are left when ours are taken out; an empty one has its end before its start.
fn ranges_without_ours(first: u32, last: u32) -> [(u32, u32); 4] {
    let mut ours = ours();
    ours.sort_unstable();
    without(first, last, ours)
}

/// `sorted` are the descriptors to leave out, in ascending order.
fn without(first: u32, last: u32, sorted: [i32; 3]) -> [(u32, u32); 4] {
    const NOTHING: (u32, u32) = (1, 0);
    let mut ranges = [(first, last), NOTHING, NOTHING, NOTHING];
    let mut at = 0;
    for ours in sorted {
        let Ok(ours) = u32::try_from(ours) else { continue };
        let (start, end) = ranges[at];
        if start <= ours && ours <= end {
            ranges[at] = if ours == 0 { NOTHING } else { (start, ours - 1) };
            at += 1;
            ranges[at] = if ours == u32::MAX { NOTHING } else { (ours + 1, end) };
        }
    }
    ranges
}

#[cfg(feature = "preload")]
#[allow(unsafe_code)] // the C library's functions
pub(crate) mod interpose {
    use core::ffi::{c_int, c_uint};

    use super::{is_ours, make_way, ranges_without_ours};
    use crate::onward::{fail, onward};
    use crate::process;

    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn close(file: c_int) -> c_int {
        if is_ours(file) {
            return fail(libc::EBADF);
        }
        let close = onward!(c"close", fn(c_int) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        unsafe { close(file) }
    }

    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        let close_range = onward!(c"close_range", fn(c_uint, c_uint, c_int) -> c_int, or fail(libc::ENOSYS));
        if first > last || !process::is_ours() {
            // SAFETY: the caller's own call.
            return unsafe { close_range(first, last, flags) };
        }
        for (first, last) in ranges_without_ours(first, last) {
            // SAFETY: as above, without what is ours.
            if first <= last && unsafe { close_range(first, last, flags) } != 0 {
                return -1;
            }
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn closefrom(first: c_int) {
        let first = first.max(0) as c_uint;
        // SAFETY: the caller's own call; the kernel's answer is as good as the C library's own way.
        unsafe { close_range(first, c_uint::MAX, 0) };
    }

    macro_rules! fcntls {
        ($($function:ident as $symbol:literal;)*) => { $(
            /// Its third argument is a number or an address, whatever the command is.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $function(file: c_int, command: c_int, argument: usize) -> c_int {
                if is_ours(file) {
                    return fail(libc::EBADF);
                }
                let next = onward!($symbol, fn(c_int, c_int, usize) -> c_int, or fail(libc::ENOSYS));
                // SAFETY: the caller's own call.
                unsafe { next(file, command, argument) }
            }
        )* };
    }

    fcntls! {
        fcntl as c"fcntl";
        fcntl64 as c"fcntl64";
    }

    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
        if is_ours(from) {
            return fail(libc::EBADF);
        }
        make_way(to);
        let dup2 = onward!(c"dup2", fn(c_int, c_int) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        unsafe { dup2(from, to) }
    }

    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        if is_ours(from) {
            return fail(libc::EBADF);
        }
        make_way(to);
        let dup3 = onward!(c"dup3", fn(c_int, c_int, c_int) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        unsafe { dup3(from, to, flags) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_descriptors_are_left_out_of_ranges() {
        let left = |first, last, ours| {
            without(first, last, ours).into_iter().filter(|(first, last)| first <= last).collect::<std::vec::Vec<_>>()
        };
        assert_eq!(left(3, u32::MAX, [-1, -1, -1]), [(3, u32::MAX)]);
        assert_eq!(left(3, u32::MAX, [-1, -1, 900]), [(3, 899), (901, u32::MAX)]);
        assert_eq!(left(3, u32::MAX, [-1, 900, 901]), [(3, 899), (902, u32::MAX)]);
        assert_eq!(left(3, 905, [-1, 900, 903]), [(3, 899), (901, 902), (904, 905)]);
        assert_eq!(left(3, 910, [900, 903, 905]), [(3, 899), (901, 902), (904, 904), (906, 910)]);
        assert_eq!(left(3, 10, [-1, 900, 901]), [(3, 10)]);
        assert_eq!(left(900, 902, [900, 901, 902]), []);
    }
}
