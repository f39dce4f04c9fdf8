//! Files that were made to break their reader.
//!
//! Parquet's decoder reports what goes wrong by accident, and asserts or computes past the rest: a file that was forged,
//! with the checksum that belongs to it, makes it panic. That is damage to the file, told as such, and no message of its own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::TableError;

thread_local! {
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

/// What `decode` makes of a file; its panic is [`TableError::Forged`].
pub(super) fn survive<R>(decode: impl FnOnce() -> Result<R, TableError>) -> Result<R, TableError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let tell = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_DECODING.get() {
                tell(panic);
            }
        }));
    });
    IS_DECODING.set(true);
    // A table that was not finished is dropped with the panic.
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    IS_DECODING.set(false);
    decoded.unwrap_or(Err(TableError::Forged))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_damage_and_the_next_file_is_read() {
        let broken: Result<(), _> = survive(|| [1, 2].get(7).map(|_| ()).ok_or_else(|| panic!("past the end")));
        assert!(matches!(broken, Err(TableError::Forged)));
        assert!(matches!(survive(|| Ok(3)), Ok(3)));
        assert!(!IS_DECODING.get());
    }
}
