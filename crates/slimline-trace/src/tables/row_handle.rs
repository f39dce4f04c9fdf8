//! Handles of rows.

use std::num::NonZeroU32;

use parquet::data_type::Int32Type;

use super::column::number_cell;

fn row_number(index: usize) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(index).ok()?.checked_add(1)?)
}

/// Defines a handle of a table's row.
macro_rules! row_handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        // Holds the row plus one, so that an `Option` of a handle takes four bytes too.
        pub struct $name(NonZeroU32);

        impl $name {
            /// The handle of row `index`; panics beyond 2³² − 2, which no table reaches (its part is written before).
            pub fn new(index: usize) -> Self {
                Self(row_number(index).expect("tables hold less than 2^32 - 1 rows"))
            }

            /// The row.
            pub const fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.index())
            }
        }

        number_cell!(
            $name,
            32,
            Int32Type,
            |cell: &$name| (cell.0.get() - 1).cast_signed(),
            |stored: i32| row_number(stored.cast_unsigned() as usize).map($name)
        );

        const _: () = assert!(size_of::<Option<$name>>() == 4);
    };
}
row_handle! {
    /// A row of [`Blocks`](super::Blocks): valid within the part of the session that holds it.
    BlockRow
}
row_handle! {
    /// A call path: a row of [`Stacks`](super::Stacks), valid within its process.
    StackRow
}
row_handle! {
    /// A row of [`Threads`](super::Threads), valid within its process.
    ThreadRow
}
