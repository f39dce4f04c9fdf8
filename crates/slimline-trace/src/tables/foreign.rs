//! Parquet that others wrote: some of its columns by name, rows in their order, whatever the types.

use std::fmt;
use std::fs::File;

use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::TableError;
use super::forged::survive;

/// Rows of a batch.
const BATCH_ROWS: usize = 16 << 10;

/// Why such a file can't be read. Each displays as one line without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum ForeignTableError {
    /// It is damaged, or packed in a way that is not read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// It has no column of that name.
    #[error("has no column `{name}`; it has {}", others.join(", "))]
    Missing {
        /// Its name.
        name: String,
        /// What is there.
        others: Vec<String>,
    },
    /// A column of lists, of several names, or of a type that holds neither numbers nor text.
    #[error("column `{0}` is neither of numbers nor of text")]
    Type(String),
}

impl From<ParquetError> for ForeignTableError {
    fn from(error: ParquetError) -> Self {
        Self::Table(error.into())
    }
}

/// What stands in a row of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ForeignCell<'a> {
    /// Nothing.
    Null,
    /// A whole number: 0 or 1 of what is true or false; of one below 0 its 64 bits.
    Number(u64),
    /// A number with a fraction.
    Decimal(f64),
    /// Text.
    Text(&'a str),
}

impl fmt::Display for ForeignCell<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Number(number) => number.fmt(to),
            Self::Decimal(number) => number.fmt(to),
            Self::Text(text) => text.fmt(to),
        }
    }
}

/// A file of which some columns are read, a batch of rows at a time.
pub struct ForeignTable {
    reader: SerializedFileReader<File>,
    names: Vec<String>,
    /// Row groups that were begun.
    groups: usize,
    columns: Vec<Column>,
    rows: usize,
}

impl fmt::Debug for ForeignTable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ForeignTable").field("names", &self.names).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A column of a row group, and what of it is in the batch.
struct Column {
    reader: ColumnReader,
    values: Values,
    is_unsigned: bool,
    /// Levels of definition: below this nothing stands in a row. 0 where something stands in each.
    defined: i16,
    levels: Vec<i16>,
    /// Of each row its place among the values, where something may be missing.
    places: Vec<Option<u32>>,
}

enum Values {
    Bools(Vec<bool>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl ForeignTable {
    /// Opens a file of which these columns are read.
    ///
    /// # Errors
    /// It is no Parquet, or has no such columns.
    pub fn open(file: File, names: &[&str]) -> Result<Self, ForeignTableError> {
        let reader = survived(|| Ok(SerializedFileReader::new(file)?))?;
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let table = Self { reader, names, groups: 0, columns: Vec::new(), rows: 0 };
        table.names.iter().try_for_each(|name| table.index(name).map(|_| ()))?;
        Ok(table)
    }

    /// Reads the next rows; how many, 0 at the end.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn read(&mut self) -> Result<usize, ForeignTableError> {
        survived(|| self.read_rows())
    }

    /// What stands in a row of the batch, in the column that was the `column`th to be named.
    ///
    /// # Errors
    /// It is text in another encoding than UTF-8.
    pub fn cell(&self, row: usize, column: usize) -> Result<ForeignCell<'_>, ForeignTableError> {
        let Column { values, is_unsigned, defined, places, .. } = &self.columns[column];
        let place = if *defined == 0 { Some(row as u32) } else { places[row] };
        let Some(place) = place.map(|place| place as usize) else { return Ok(ForeignCell::Null) };
        Ok(match values {
            Values::Bools(values) => ForeignCell::Number(values[place].into()),
            Values::Ints(values) if *is_unsigned => ForeignCell::Number(values[place].cast_unsigned().into()),
            Values::Ints(values) => ForeignCell::Number(i64::from(values[place]).cast_unsigned()),
            Values::Longs(values) => ForeignCell::Number(values[place].cast_unsigned()),
            Values::Floats(values) => ForeignCell::Decimal(values[place].into()),
            Values::Doubles(values) => ForeignCell::Decimal(values[place]),
            Values::Bytes(values) => ForeignCell::Text(
                values[place].as_utf8().map_err(|_| ForeignTableError::Type(self.names[column].clone()))?,
            ),
        })
    }

    /// Where a column is among the file's.
    fn index(&self, name: &str) -> Result<usize, ForeignTableError> {
        let columns = self.reader.metadata().file_metadata().schema_descr().columns();
        let others = || columns.iter().map(|column| column.path().string()).collect();
        let index = columns.iter().position(|column| column.path().string() == name);
        let index = index.ok_or_else(|| ForeignTableError::Missing { name: name.to_owned(), others: others() })?;
        let is_plain = columns[index].max_rep_level() == 0;
        if is_plain { Ok(index) } else { Err(ForeignTableError::Type(name.to_owned())) }
    }

    fn read_rows(&mut self) -> Result<usize, ForeignTableError> {
        loop {
            self.rows = 0;
            for (number, column) in self.columns.iter_mut().enumerate() {
                let rows = column.read()?;
                if number > 0 && rows != self.rows {
                    return Err(TableError::Rows { found: rows, expected: self.rows }.into());
                }
                self.rows = rows;
            }
            if self.rows > 0 || self.groups == self.reader.num_row_groups() {
                return Ok(self.rows);
            }
            let group = self.reader.get_row_group(self.groups)?;
            self.groups += 1;
            let column = |name: &String| {
                let index = self.index(name)?;
                let about = group.metadata().column(index).column_descr();
                Column::new(group.get_column_reader(index)?, about).ok_or_else(|| ForeignTableError::Type(name.clone()))
            };
            self.columns = self.names.iter().map(column).collect::<Result<_, _>>()?;
        }
    }
}

/// What `decode` makes of a file that may have been forged.
fn survived<R>(decode: impl FnOnce() -> Result<R, ForeignTableError>) -> Result<R, ForeignTableError> {
    survive(|| Ok(decode()))?
}

impl Column {
    /// `None` of a type that is not read.
    fn new(reader: ColumnReader, about: &ColumnDescriptor) -> Option<Self> {
        let values = match reader {
            ColumnReader::BoolColumnReader(_) => Values::Bools(Vec::new()),
            ColumnReader::Int32ColumnReader(_) => Values::Ints(Vec::new()),
            ColumnReader::Int64ColumnReader(_) => Values::Longs(Vec::new()),
            ColumnReader::FloatColumnReader(_) => Values::Floats(Vec::new()),
            ColumnReader::DoubleColumnReader(_) => Values::Doubles(Vec::new()),
            ColumnReader::ByteArrayColumnReader(_) => Values::Bytes(Vec::new()),
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => return None,
        };
        let is_unsigned = match about.logical_type_ref() {
            Some(LogicalType::Integer(integer)) => !integer.is_signed,
            _ => matches!(
                about.converted_type(),
                ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
            ),
        };
        let defined = about.max_def_level();
        Some(Self { reader, values, is_unsigned, defined, levels: Vec::new(), places: Vec::new() })
    }

    /// Reads a batch; how many rows there are.
    fn read(&mut self) -> Result<usize, ForeignTableError> {
        self.levels.clear();
        let levels = (self.defined > 0).then_some(&mut self.levels);
        macro_rules! read {
            ($reader:expr, $values:expr) => {{
                $values.clear();
                $reader.read_records(BATCH_ROWS, levels, None, $values)?
            }};
        }
        let (rows, found, _) = match (&mut self.reader, &mut self.values) {
            (ColumnReader::BoolColumnReader(reader), Values::Bools(values)) => read!(reader, values),
            (ColumnReader::Int32ColumnReader(reader), Values::Ints(values)) => read!(reader, values),
            (ColumnReader::Int64ColumnReader(reader), Values::Longs(values)) => read!(reader, values),
            (ColumnReader::FloatColumnReader(reader), Values::Floats(values)) => read!(reader, values),
            (ColumnReader::DoubleColumnReader(reader), Values::Doubles(values)) => read!(reader, values),
            (ColumnReader::ByteArrayColumnReader(reader), Values::Bytes(values)) => read!(reader, values),
            _ => return Err(TableError::Forged.into()),
        };
        self.places.clear();
        if self.defined > 0 {
            let mut next = 0;
            self.places.extend(self.levels.iter().map(|level| {
                let is_there = *level == self.defined;
                next += u32::from(is_there);
                is_there.then(|| next - 1)
            }));
            if next as usize != found || self.places.len() != rows {
                return Err(TableError::Forged.into());
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;
    use crate::address::Avma;
    use crate::tables::{Table, TracedAccess, TracedAccesses, TracedKey, TracedKeys};

    fn open(content: &[u8], names: &[&str]) -> Result<ForeignTable, ForeignTableError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        ForeignTable::open(file, names)
    }

    fn row(table: &ForeignTable, row: usize) -> [ForeignCell<'_>; 3] {
        [0, 1, 2].map(|column| table.cell(row, column).unwrap())
    }

    #[test]
    fn columns_of_all_types_come_in_batches() {
        let mut accesses = TracedAccesses::default();
        for at in 0..BATCH_ROWS as u64 + 5 {
            let (key, address) = (at as u32, Avma(u64::MAX - at));
            accesses.push(TracedAccess { key, address, bytes: u32::MAX, loads: at % 2 == 0, stores: true });
        }
        let mut table = open(&accesses.to_parquet().unwrap(), &["bytes", "address", "loads"]).unwrap();
        assert_eq!(table.read().unwrap(), BATCH_ROWS);
        let expected = |at: u64| [u32::MAX.into(), u64::MAX - at, (at + 1) % 2].map(ForeignCell::Number);
        assert_eq!((row(&table, 0), row(&table, 7)), (expected(0), expected(7)));
        assert_eq!(table.read().unwrap(), 5);
        assert_eq!(row(&table, 4), expected(BATCH_ROWS as u64 + 4));
        assert_eq!(table.read().unwrap(), 0);
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let mut keys = TracedKeys::default();
        for (key, data) in [(0, Some("list")), (1, None), (2, Some("tree"))] {
            let (data, kind) = (data.map(str::to_owned), "heap".to_owned());
            let [type_name, allocated_at, callers, variable, field, function, line] = [const { None }; 7];
            let (process, tid, accesses, blocks, peak_bytes) = (0, 1, 1, 1, 16);
            keys.push(TracedKey {
                key,
                data_number: key,
                kind,
                data,
                type_name,
                allocated_at,
                callers,
                blocks,
                peak_bytes,
                variable,
                field,
                function,
                line,
                process,
                tid,
                accesses,
            });
        }
        let content = keys.to_parquet().unwrap();
        let mut table = open(&content, &["data"]).unwrap();
        assert_eq!(table.read().unwrap(), 3);
        let cells = [0, 1, 2].map(|row| table.cell(row, 0).unwrap());
        assert_eq!(cells, [ForeignCell::Text("list"), ForeignCell::Null, ForeignCell::Text("tree")]);
        let error = open(&content, &["data", "colour"]).unwrap_err().to_string();
        assert!(error.starts_with("has no column `colour`; it has key, data_number, kind, data, "), "{error}");
        assert!(open(b"PAR1 and no more", &["data"]).is_err());
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 0x55;
            if let Ok(mut table) = open(&damaged, &["key", "data"]) {
                while table.read().is_ok_and(|rows| (0..rows).any(|row| table.cell(row, 1).is_ok())) {}
            }
        }
    }
}
