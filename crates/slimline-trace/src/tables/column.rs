//! How a column of a table is stored in Parquet: as one column there, or as several.
//!
//! Nothing that is read back is trusted: a column that is missing, of another type, of another length or with a value
//! out of range ends in a reason, never in a panic.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{Type, TypePtr};

use super::{Layout, TableError};
use crate::access::AccessKind;
use crate::address::{Avma, FileOffset, PhysicalAddress};
use crate::served::{MemoryLevel, Snoop, Translation};
use crate::wire::{BurstEnd, Quality};

/// Rows decoded in one go: bounds what a false row count can make us allocate before the data runs out.
const READ_ROWS: usize = 64 << 10;
/// Bytes of one column in memory: a small file may stand for any number of equal rows.
const MOST_COLUMN_BYTES: usize = 128 << 20;

/// A value that one cell of a table can hold.
pub(super) trait Cell: Sized {
    /// Parquet's physical type.
    type Physical: DataType;
    /// Whether the column holds no nulls.
    const REQUIRED: bool = true;
    /// How foreign readers should understand the physical value.
    fn logical() -> Option<LogicalType>;
    /// The stored form; `None` is null.
    fn store(&self) -> Option<<Self::Physical as DataType>::T>;
    /// The value of a stored form that is not null; `None` where no value has this form.
    fn load(stored: <Self::Physical as DataType>::T) -> Option<Self>;
    /// The value of null, where there is one.
    fn null() -> Option<Self> {
        None
    }
    /// What it takes in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Implements [`Cell`] for what is a number: the stored form is the same number, bit for bit.
macro_rules! number_cell {
    ($type:ty, $bits:literal, $physical:ty, $store:expr, $load:expr) => {
        impl $crate::tables::column::Cell for $type {
            type Physical = $physical;
            fn logical() -> Option<parquet::basic::LogicalType> {
                Some(parquet::basic::LogicalType::integer($bits, false))
            }
            fn store(&self) -> Option<<$physical as parquet::data_type::DataType>::T> {
                #[allow(clippy::redundant_closure_call)]
                Some($store(self))
            }
            fn load(stored: <$physical as parquet::data_type::DataType>::T) -> Option<Self> {
                #[allow(clippy::redundant_closure_call)]
                $load(stored)
            }
        }
    };
}
pub(super) use number_cell;

number_cell!(u64, 64, Int64Type, |cell: &u64| cell.cast_signed(), |stored: i64| Some(stored.cast_unsigned()));
number_cell!(Avma, 64, Int64Type, |cell: &Avma| cell.0.cast_signed(), |stored: i64| Some(Avma(stored.cast_unsigned())));
number_cell!(FileOffset, 64, Int64Type, |cell: &FileOffset| cell.0.cast_signed(), |stored: i64| {
    Some(FileOffset(stored.cast_unsigned()))
});
number_cell!(u32, 32, Int32Type, |cell: &u32| cell.cast_signed(), |stored: i32| Some(stored.cast_unsigned()));
number_cell!(PhysicalAddress, 64, Int64Type, |cell: &PhysicalAddress| cell.0.cast_signed(), |stored: i64| {
    Some(PhysicalAddress(stored.cast_unsigned()))
});
number_cell!(u16, 16, Int32Type, |cell: &u16| i32::from(*cell), |stored: i32| u16::try_from(stored).ok());
number_cell!(u8, 8, Int32Type, |cell: &u8| i32::from(*cell), |stored: i32| u8::try_from(stored).ok());
number_cell!(AccessKind, 8, Int32Type, |cell: &AccessKind| i32::from(cell.bits()), |stored: i32| {
    let bits = u8::try_from(stored).ok()?;
    (AccessKind::from_bits(bits).bits() == bits).then(|| AccessKind::from_bits(bits))
});

impl Cell for String {
    type Physical = ByteArrayType;
    fn logical() -> Option<LogicalType> {
        Some(LogicalType::String)
    }
    fn store(&self) -> Option<ByteArray> {
        Some(ByteArray::from(self.as_str()))
    }
    fn load(stored: ByteArray) -> Option<Self> {
        stored.as_utf8().ok().map(str::to_owned)
    }
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.len()
    }
}

impl Cell for bool {
    type Physical = BoolType;
    fn logical() -> Option<LogicalType> {
        None
    }
    fn store(&self) -> Option<bool> {
        Some(*self)
    }
    fn load(stored: bool) -> Option<Self> {
        Some(stored)
    }
}

impl<C: Cell> Cell for Option<C> {
    type Physical = C::Physical;
    const REQUIRED: bool = false;
    fn logical() -> Option<LogicalType> {
        C::logical()
    }
    fn store(&self) -> Option<<Self::Physical as DataType>::T> {
        self.as_ref().and_then(C::store)
    }
    fn load(stored: <Self::Physical as DataType>::T) -> Option<Self> {
        C::load(stored).map(Some)
    }
    fn null() -> Option<Self> {
        Some(None)
    }
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.as_ref().map_or(0, C::bytes)
    }
}

/// Implements [`Cell`] for an enumeration, stored by name so that a query reads without our source.
macro_rules! named_cell {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $crate::tables::column::Cell for $type {
            type Physical = parquet::data_type::ByteArrayType;
            fn logical() -> Option<parquet::basic::LogicalType> {
                Some(parquet::basic::LogicalType::String)
            }
            fn store(&self) -> Option<parquet::data_type::ByteArray> {
                Some(parquet::data_type::ByteArray::from(match self { $($type::$variant => $name),+ }))
            }
            fn load(stored: parquet::data_type::ByteArray) -> Option<Self> {
                match stored.as_utf8().ok()? { $($name => Some($type::$variant),)+ _ => None }
            }
        }
    };
}
pub(super) use named_cell;

/// The same for an enumeration that knows its names.
macro_rules! self_named_cell {
    ($($type:ident),+) => {
        $(impl Cell for $type {
            type Physical = ByteArrayType;
            fn logical() -> Option<LogicalType> {
                Some(LogicalType::String)
            }
            fn store(&self) -> Option<ByteArray> {
                Some(ByteArray::from(self.name()))
            }
            fn load(stored: ByteArray) -> Option<Self> {
                $type::from_name(stored.as_utf8().ok()?)
            }
        })+
    };
}
self_named_cell!(MemoryLevel, Snoop, Translation);

named_cell!(Quality {
    Exact => "exact",
    Inverted => "inverted",
    NextInstance => "next_instance",
    Lost => "lost",
    NoMemory => "no_memory",
    NoCode => "no_code",
    Ambiguous => "ambiguous",
});
named_cell!(BurstEnd {
    Limit => "limit",
    Unknown => "unknown",
    Unsupported => "unsupported",
    Syscall => "syscall",
    Fault => "fault",
    Full => "full",
    NotStarted => "not_started",
    Agent => "agent",
});

/// A column of a file that is to be written.
pub(super) struct NewColumn {
    pub(super) schema: TypePtr,
    pub(super) layout: Layout,
}

impl NewColumn {
    /// A column of `C`.
    pub(super) fn of<C: Cell>(name: &str, layout: Layout) -> Result<Self> {
        let repetition = if C::REQUIRED { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let column = Type::primitive_type_builder(name, C::Physical::get_physical_type())
            .with_repetition(repetition)
            .with_logical_type(C::logical())
            .build()?;
        Ok(Self { schema: Arc::new(column), layout })
    }
}

/// How many rows a column has after a row group.
#[derive(Clone, Copy)]
pub(super) struct RowCount {
    /// Where no column of its own tells: as many as the table's others.
    pub(super) of_others: usize,
    /// Never more: those of the whole table.
    pub(super) most: usize,
}

/// A value that a table holds in one column of its own in memory, and in any number of columns on disk.
pub(super) trait Columns: Sized {
    /// The columns that `values` take on disk; `names` are those of the column in memory: what it is called, then what it
    /// was called once.
    fn columns(values: &[Self], names: &[&'static str], layout: Layout) -> Result<Vec<NewColumn>>;
    /// Writes those columns, which are the next of the row group.
    fn write(values: &[Self], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()>;
    /// Appends what a row group holds to `values`, of which there are to be as many as `rows` says.
    fn read(
        values: &mut Vec<Self>,
        group: &dyn RowGroupReader,
        names: &[&'static str],
        rows: RowCount,
    ) -> std::result::Result<(), TableError>;
}

impl<C: Cell> Columns for C {
    fn columns(_: &[Self], names: &[&'static str], layout: Layout) -> Result<Vec<NewColumn>> {
        Ok(vec![NewColumn::of::<C>(names[0], layout)?])
    }

    fn write(values: &[Self], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        write_column(group, values)
    }

    fn read(
        values: &mut Vec<Self>,
        group: &dyn RowGroupReader,
        names: &[&'static str],
        rows: RowCount,
    ) -> std::result::Result<(), TableError> {
        let name = names.iter().copied().find(|name| has_column(group, name)).unwrap_or(names[0]);
        read_column(group, name, values, rows.most)
    }
}

/// Whether a row group has the column `name`.
pub(super) fn has_column(group: &dyn RowGroupReader, name: &str) -> bool {
    group.metadata().schema_descr().columns().iter().any(|column| column.name() == name)
}

/// Writes the next column of a row group.
pub(super) fn write_column<C: Cell>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, cells: &[C]) -> Result<()> {
    let mut column = group.next_column()?.expect("the schema was made of these columns");
    let writer: &mut ColumnWriterImpl<'_, C::Physical> = column.typed();
    if C::REQUIRED {
        let values: Vec<_> = cells.iter().filter_map(C::store).collect();
        writer.write_batch(&values, None, None)?;
    } else {
        let mut values = Vec::with_capacity(cells.len());
        let mut levels = Vec::with_capacity(cells.len());
        for cell in cells {
            let value = cell.store();
            levels.push(i16::from(value.is_some()));
            values.extend(value);
        }
        writer.write_batch(&values, Some(&levels), None)?;
    }
    column.close()
}

/// Appends the column `name` of a row group to `cells`, which are to be no more than `most` then.
pub(super) fn read_column<C: Cell>(
    group: &dyn RowGroupReader,
    name: &'static str,
    cells: &mut Vec<C>,
    most: usize,
) -> std::result::Result<(), TableError> {
    let bad = |reason| TableError::Column { name, reason };
    let mut bytes_left = MOST_COLUMN_BYTES;
    let mut add = |cells: &mut Vec<C>, cell: Option<C>| {
        let cell = cell.ok_or(bad("holds an unknown value"))?;
        bytes_left = bytes_left.checked_sub(cell.bytes()).ok_or(bad("takes more than 128 MiB"))?;
        cells.push(cell);
        Ok::<(), TableError>(())
    };
    let columns = group.metadata().schema_descr().columns();
    let index = columns.iter().position(|column| column.name() == name).ok_or(bad("is missing"))?;
    if columns[index].max_rep_level() != 0 || columns[index].max_def_level() != i16::from(!C::REQUIRED) {
        return Err(bad("has another nesting"));
    }
    let mut reader = C::Physical::get_column_reader(group.get_column_reader(index)?).ok_or(bad("has another type"))?;
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        values.clear();
        levels.clear();
        let (rows, ..) = reader.read_records(READ_ROWS, (!C::REQUIRED).then_some(&mut levels), None, &mut values)?;
        if rows == 0 {
            return Ok(());
        }
        if cells.len() + rows > most {
            return Err(TableError::Rows { found: cells.len() + rows, expected: most });
        }
        cells.reserve(rows);
        if C::REQUIRED {
            values.drain(..).try_for_each(|value| add(cells, C::load(value)))?;
        } else {
            let mut present = values.drain(..);
            for &level in &levels {
                add(cells, if level == 0 { C::null() } else { present.next().and_then(C::load) })?;
            }
        }
    }
}
