//! What hardware tells of samples, in which regions they are, and what is mapped by ranges, on disk: a column for each thing that
//! is told of any row of the file.
//!
//! A clock tells nothing, so its sessions have none of the first; and sessions of earlier versions have none.

use parquet::errors::Result;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;

use super::blocks::Chance;
use super::column::{Columns, NewColumn, RowCount, has_column, read_column, write_column};
use super::ranges::RangeSource;
use super::samples::Within;
use super::{Layout, TableError};
use crate::address::{FileOffset, PhysicalAddress};
use crate::served::{MemoryLevel, Served, Snoop, Translation};

/// Implements [`Columns`] for a structure from its fields, all of which are options.
macro_rules! spread {
    ($spread:ident, unknown $unknown:expr; $($field:ident: $type:ty as $layout:ident,)+) => {
        impl Columns for $spread {
            fn columns(values: &[Self], _: &[&'static str], _: Layout) -> Result<Vec<NewColumn>> {
                let mut columns = Vec::new();
                $(if values.iter().any(|value| value.$field.is_some()) {
                    columns.push(NewColumn::of::<Option<$type>>(stringify!($field), Layout::$layout)?);
                })+
                Ok(columns)
            }

            fn write(values: &[Self], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
                $(if values.iter().any(|value| value.$field.is_some()) {
                    let cells: Vec<Option<$type>> = values.iter().map(|value| value.$field.clone()).collect();
                    write_column(group, &cells)?;
                })+
                Ok(())
            }

            fn read(
                values: &mut Vec<Self>,
                group: &dyn RowGroupReader,
                _: &[&'static str],
                rows: RowCount,
            ) -> std::result::Result<(), TableError> {
                let first = values.len();
                values.resize(rows.of_others.max(first), $unknown);
                $(if has_column(group, stringify!($field)) {
                    let mut cells: Vec<Option<$type>> = Vec::new();
                    read_column(group, stringify!($field), &mut cells, rows.most)?;
                    if cells.len() != values.len() - first {
                        let name = stringify!($field);
                        return Err(TableError::Column { name, reason: "has another number of rows" });
                    }
                    values[first..].iter_mut().zip(cells).for_each(|(value, cell)| value.$field = cell);
                })+
                Ok(())
            }
        }
    };
}

spread! {
    Served, unknown Served::UNKNOWN;
    latency_cycles: u32 as Delta,
    instruction_cycles: u16 as Delta,
    retire_cycles: u16 as Delta,
    level: MemoryLevel as Dictionary,
    hops: u8 as Dictionary,
    snoop: Snoop as Dictionary,
    translation: Translation as Dictionary,
    locked: bool as Dictionary,
    physical_address: PhysicalAddress as Delta,
    page_bytes: u64 as Dictionary,
}

spread! {
    Within, unknown Within::default();
    region: u32 as Dictionary,
}

spread! {
    Chance, unknown Chance::default();
    follow_shift: u8 as Dictionary,
}

spread! {
    RangeSource, unknown RangeSource::default();
    name: String as Dictionary,
    file_offset: FileOffset as Delta,
    is_shared: bool as Dictionary,
    module_bias: u64 as Delta,
}
