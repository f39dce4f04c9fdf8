//! The tables of a recorded process: columns in memory, Parquet on disk.
//!
//! ```text
//!   Samples.thread ─► Threads          Samples.stack ─┐
//!   Samples.block  ─► Blocks.stack ───────────────────┼─► Stacks (frames) ◄─ Paths.stack
//!   Accesses.block ─► Blocks           Ranges.stack ──┘
//! ```
//!
//! Each table is a struct of equally long columns; its row type is for building, tests and single look-ups. A handle
//! such as [`BlockRow`] names a row of one table and can't be mixed up with another. On disk every number is unsigned,
//! times are `CLOCK_MONOTONIC` nanoseconds, enumerations are stored by name, and what is not known is null.

mod accesses;
mod blocks;
mod column;
mod foreign;
mod forged;
mod mappings;
mod names;
mod paths;
mod ranges;
mod region_steps;
mod row_handle;
mod samples;
mod served;
mod stacks;
mod threads;
mod traced;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use column::NewColumn;

pub use accesses::{Access, Accesses};
pub use blocks::{Block, Blocks, Chance};
pub use foreign::{ForeignCell, ForeignTable, ForeignTableError};
pub use mappings::{Mapping, Mappings};
pub use names::{Name, NameKind, Names};
pub use paths::{PathTotal, Paths};
pub use ranges::{Range, RangeOrigin, RangeSource, Ranges};
pub use region_steps::{RegionStep, RegionSteps};
pub use row_handle::{BlockRow, StackRow, ThreadRow};
pub use samples::{Sample, Samples, Within};
pub use stacks::{StackEnd, StackFrame, StackFrames, Stacks};
pub use threads::{Thread, Threads};
pub use traced::{TracedAccess, TracedAccesses, TracedKey, TracedKeys};

/// Why a table could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Not Parquet, or damaged Parquet.
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// Made to break its reader, as no writer would by accident.
    #[error("forged, or damaged beyond what its decoder knows")]
    Forged,
    /// One column is not what the table needs.
    #[error("column {name} {reason}")]
    Column {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Columns of different lengths, or not the rows that were announced.
    #[error("holds {found} rows where {expected} were written")]
    Rows {
        /// Rows found; where there are more, of those that were read until then.
        found: usize,
        /// Rows announced.
        expected: usize,
    },
    /// A row names a row of another table that does not exist, or breaks the table's order.
    #[error("{0}")]
    Reference(&'static str),
}

/// A table that can be stored.
pub trait Table: Default + Sized {
    /// Name of the table in file names.
    const NAME: &'static str;

    /// Number of rows.
    fn rows(&self) -> usize;

    /// The table as a Parquet file.
    ///
    /// # Errors
    /// Only a fault of the encoder.
    fn to_parquet(&self) -> Result<Vec<u8>, ParquetError>;

    /// The table in a Parquet file, which must hold `rows` rows.
    ///
    /// # Errors
    /// [`TableError`] for anything but a table that [`Table::to_parquet`] of this version or a later one with more
    /// columns wrote.
    fn from_parquet(file: Bytes, rows: usize) -> Result<Self, TableError>;
}

/// A table in a Parquet file that has as many rows as it says itself.
///
/// # Errors
/// As [`Table::from_parquet`].
pub fn whole_table<T: Table>(file: Vec<u8>) -> Result<T, TableError> {
    let file = Bytes::from(file);
    let rows = forged::survive(|| Ok(SerializedFileReader::new(file.clone())?.metadata().file_metadata().num_rows()))?;
    T::from_parquet(file, usize::try_from(rows).map_err(|_| TableError::Forged)?)
}

/// How a column is laid out on disk (measured in the bench `tables`).
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Differences of neighbours: times, addresses, counters.
    Delta,
    /// Few distinct values.
    Dictionary,
    /// As several columns, each of which has a layout of its own.
    Spread,
}

/// Defines a table: its columns, its row and how both are stored. A column that is `Spread` comes last.
macro_rules! table {
    (
        $(#[$table_doc:meta])* $table:ident of $(#[$row_doc:meta])* $row:ident in $name:literal {
            $($(#[$doc:meta])* $column:ident: $type:ty as $layout:ident $(formerly $former:literal)?,)+
        }
    ) => {
        $(#[$table_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $table {
            $($(#[$doc])* pub $column: Vec<$type>,)+
        }

        $(#[$row_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $($(#[$doc])* pub $column: $type,)+
        }

        impl $table {
            /// An empty table with room for `rows`.
            pub fn with_capacity(rows: usize) -> Self {
                Self { $($column: Vec::with_capacity(rows),)+ }
            }

            /// Number of rows.
            pub fn len(&self) -> usize {
                $crate::tables::first_length(&[$(self.$column.len()),+])
            }

            /// Whether there is no row.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Appends a row.
            pub fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)+
            }

            /// The row at `index`; panics where there is none, as slices do.
            pub fn row(&self, index: usize) -> $row {
                $row { $($column: self.$column[index].clone(),)+ }
            }

            /// All rows.
            pub fn iter(&self) -> impl ExactSizeIterator<Item = $row> + '_ {
                (0..self.len()).map(|index| self.row(index))
            }

            /// Removes all rows and keeps the room they took.
            pub fn clear(&mut self) {
                $(self.$column.clear();)+
            }

            /// Moves all rows of `other` to the end.
            pub fn append(&mut self, other: &mut Self) {
                $(self.$column.append(&mut other.$column);)+
            }
        }

        impl $crate::tables::Table for $table {
            const NAME: &'static str = $name;

            fn rows(&self) -> usize {
                self.len()
            }

            fn to_parquet(&self) -> Result<Vec<u8>, parquet::errors::ParquetError> {
                use $crate::tables::{Layout, column::Columns};
                let mut columns = Vec::new();
                $(columns.extend(Columns::columns(&self.$column, &[stringify!($column)], Layout::$layout)?);)+
                $crate::tables::write_file($name, self.len(), columns, |group| {
                    $(Columns::write(&self.$column, group)?;)+
                    Ok(())
                })
            }

            fn from_parquet(file: bytes::Bytes, rows: usize) -> Result<Self, $crate::tables::TableError> {
                use $crate::tables::column::{Columns, RowCount};
                $crate::tables::forged::survive(|| {
                    let mut table = Self::default();
                    let mut found = RowCount { of_others: 0, most: rows };
                    $crate::tables::read_file(file, |group| {
                        $(Columns::read(&mut table.$column, group, &[stringify!($column) $(, $former)?], found)?;
                        found.of_others = table.$column.len();)+
                        Ok(())
                    })?;
                    $crate::tables::expect_rows(found.of_others, rows)?;
                    $($crate::tables::expect_rows(table.$column.len(), rows)?;)+
                    Ok(table)
                })
            }
        }
    };
}
use table;

/// The columns' common length.
fn first_length(lengths: &[usize]) -> usize {
    debug_assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]), "columns of unequal lengths: {lengths:?}");
    lengths[0]
}

fn expect_rows(found: usize, expected: usize) -> Result<(), TableError> {
    if found == expected { Ok(()) } else { Err(TableError::Rows { found, expected }) }
}

type RowGroup<'a> = parquet::file::writer::SerializedRowGroupWriter<'a, Vec<u8>>;

/// Rows below which a table is not compressed: setting up the compressor for each column takes longer than writing them,
/// and a build or a script starts hundreds of processes.
const COMPRESSED_ROWS: usize = 1024;

fn write_file(
    table: &str,
    rows: usize,
    columns: Vec<NewColumn>,
    write: impl FnOnce(&mut RowGroup<'_>) -> Result<(), ParquetError>,
) -> Result<Vec<u8>, ParquetError> {
    let compression =
        if rows < COMPRESSED_ROWS { Compression::UNCOMPRESSED } else { Compression::ZSTD(ZstdLevel::try_new(1)?) };
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("slimline ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for NewColumn { schema, layout } in &columns {
        let path = ColumnPath::from(schema.name());
        properties = match layout {
            Layout::Delta => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Layout::Dictionary => properties.set_column_dictionary_enabled(path, true),
            Layout::Spread => properties,
        };
    }
    let columns = columns.into_iter().map(|column| column.schema).collect();
    let schema = Type::group_type_builder(table).with_fields(columns).build()?;
    let mut writer = SerializedFileWriter::new(Vec::new(), schema.into(), properties.build().into())?;
    let mut group = writer.next_row_group()?;
    write(&mut group)?;
    group.close()?;
    writer.into_inner()
}

fn read_file(
    file: Bytes,
    mut read: impl FnMut(&dyn parquet::file::reader::RowGroupReader) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let reader = SerializedFileReader::new(file)?;
    for index in 0..reader.num_row_groups() {
        read(reader.get_row_group(index)?.as_ref())?;
    }
    Ok(())
}
