//! Alignment checks, which a program may have the processor make (flag AC): each access at an address that is no multiple of
//! its size is then a `SIGBUS`. The agent makes such accesses.
#![allow(unsafe_code)] // changes the flags

use core::arch::asm;

/// The flag.
pub(crate) const CHECK_BIT: u32 = 18;
pub(crate) const CHECK: u32 = 1 << CHECK_BIT;

/// While it lives, the calling thread's accesses are not checked.
pub(crate) struct Unchecked {
    were_checked: bool,
}

impl Unchecked {
    #[inline]
    pub(crate) fn begin() -> Self {
        let flags: u64;
        // SAFETY: the stack is as it was.
        unsafe { asm!("pushfq", "pop {0}", out(reg) flags, options(preserves_flags)) };
        let were_checked = flags & u64::from(CHECK) != 0;
        if were_checked {
            stop_checks();
        }
        Self { were_checked }
    }
}

impl Drop for Unchecked {
    #[inline]
    fn drop(&mut self) {
        if self.were_checked {
            start_checks();
        }
    }
}

#[cold]
fn stop_checks() {
    // SAFETY: the stack is as it was, and no other flag changes.
    unsafe { asm!("pushfq", "and dword ptr [rsp], {0}", "popfq", const !CHECK as i32) };
}

#[cold]
fn start_checks() {
    // SAFETY: as above. The program's code, which goes on, has asked for them.
    unsafe { asm!("pushfq", "or dword ptr [rsp], {0}", "popfq", const CHECK) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_checked() -> bool {
        let unchecked = Unchecked::begin();
        unchecked.were_checked
    }

    #[test]
    fn checks_stop_meanwhile_and_go_on() {
        assert!(!are_checked());
        start_checks();
        let unchecked = Unchecked::begin();
        let inside = are_checked();
        let were_checked = unchecked.were_checked;
        drop(unchecked);
        let after = are_checked();
        stop_checks();
        assert_eq!((inside, were_checked, after, are_checked()), (false, true, true, false));
    }
}
