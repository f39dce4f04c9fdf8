//! What hardware tells of samples, on disk: a column for each thing that it tells of any sample of the file.
//!
//! A clock tells nothing, so its sessions have none of these columns; nor have those of before version 2.

use parquet::errors::Result;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;

use super::column::{Columns, NewColumn, RowCount, has_column, read_column, write_column};
use super::{Layout, TableError};
use crate::address::PhysicalAddress;
use crate::served::{MemoryLevel, Served, Snoop, Translation};

/// Implements [`Columns`] for [`Served`] from its fields, all of which are options.
macro_rules! spread {
    ($($field:ident: $type:ty as $layout:ident,)+) => {
        impl Columns for Served {
            fn columns(values: &[Self], _: &[&'static str], _: Layout) -> Result<Vec<NewColumn>> {
                let mut columns = Vec::new();
                $(if values.iter().any(|value| value.$field.is_some()) {
                    columns.push(NewColumn::of::<Option<$type>>(stringify!($field), Layout::$layout)?);
                })+
                Ok(columns)
            }

            fn write(values: &[Self], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
                $(if values.iter().any(|value| value.$field.is_some()) {
                    let cells: Vec<Option<$type>> = values.iter().map(|value| value.$field).collect();
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
                values.resize(rows.of_others.max(first), Self::UNKNOWN);
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
