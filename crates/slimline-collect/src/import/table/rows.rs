//! The rows of a table, whatever file it is in.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufRead;

use csv::{ByteRecord, Position, ReaderBuilder, StringRecord};
use slimline_trace::access::AccessKind;
use slimline_trace::served::Served;
use slimline_trace::tables::{ForeignCell, ForeignTable, ForeignTableError};

use super::bounded;
use super::columns::{Column, ColumnMap, Role};
use super::dialect::Dialect;
use super::values;
use crate::import::ImportError;
use crate::import::input::{Input, decode_text};

/// What a file of Parquet begins with.
const PARQUET: &[u8] = b"PAR1";

/// Where a table is.
pub(in crate::import) enum TableInput {
    /// Text with a line of its columns' names.
    Text(Box<dyn BufRead>),
    Parquet(File),
}

impl TableInput {
    /// The table that an input holds.
    ///
    /// # Errors
    /// It can't be read, or is cut off.
    pub(in crate::import) fn of(input: Input) -> Result<Self, ImportError> {
        if !input.begin().starts_with(PARQUET) {
            return Ok(Self::Text(decode_text(input.into_stream()).map_err(ImportError::Read)?));
        }
        match input.into_file().map_err(ImportError::Read)? {
            (file, false) => Ok(Self::Parquet(file)),
            (_, true) => Err(ImportError::Ends("packed data: Parquet has its index at its end")),
        }
    }
}

/// What a row says; `None`, or nothing, for what it does not.
#[derive(Debug, Default)]
pub(super) struct Row<'a> {
    pub(super) variable: Option<Cow<'a, str>>,
    pub(super) function: Cow<'a, str>,
    pub(super) file: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) ip: Option<u64>,
    pub(super) address: Option<u64>,
    pub(super) index: Option<u64>,
    /// Bytes of an element, where its number is told.
    pub(super) element_bytes: u64,
    pub(super) size: Option<u64>,
    pub(super) kind: Option<AccessKind>,
    pub(super) process: Option<u32>,
    pub(super) thread: Option<u32>,
    pub(super) cpu: Option<u32>,
    pub(super) time: Option<u64>,
    pub(super) latency: Option<u64>,
    pub(super) weight: Option<u64>,
    pub(super) served: Option<Served>,
}

/// Which row it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowPlace {
    /// It begins in this line of text, from 1.
    Line(u64),
    /// Its number, from 1.
    Number(u64),
}

impl RowPlace {
    /// What is wrong with it.
    pub(super) fn error(self, reason: String) -> ImportError {
        match self {
            Self::Line(line) => ImportError::Row { line, reason },
            Self::Number(row) => ImportError::TableRow { row, reason },
        }
    }
}

/// What takes rows: how many bytes were read until then, and the row with its place, or why there is none.
type TakeRow<'t> = dyn FnMut(u64, Result<(RowPlace, Row<'_>), ImportError>) -> Result<(), ImportError> + 't;

/// Hands on each row of a table.
///
/// # Errors
/// It is no such table, has not the columns, or whoever takes the rows gives up.
pub(super) fn each_row(input: TableInput, map: &ColumnMap, take: &mut TakeRow<'_>) -> Result<(), ImportError> {
    match input {
        TableInput::Text(text) => each_of_text(text, map, take),
        TableInput::Parquet(file) => each_of_parquet(file, map, take),
    }
}

fn each_of_text(input: Box<dyn BufRead>, map: &ColumnMap, take: &mut TakeRow<'_>) -> Result<(), ImportError> {
    let (dialect, input) = Dialect::find(input, map).map_err(ImportError::Read)?;
    let (input, bound) = bounded::pair(input);
    let mut reader = ReaderBuilder::new().flexible(true).delimiter(dialect.separator).from_reader(input);
    bound.begin_record(reader.position());
    let header = reader.headers().map_err(|error| broken(error, &bound))?;
    let (places, columns) = (places(header, map)?, header.len());
    let mut record = ByteRecord::new();
    loop {
        bound.begin_record(reader.position());
        if !reader.read_byte_record(&mut record).map_err(|error| broken(error, &bound))? {
            return Ok(());
        }
        let text = StringRecord::from_byte_record_lossy(record.clone());
        let cell = |place: usize| text.get(place).map(ForeignCell::Text);
        // Cells of no column push those behind them into others'.
        let row = match text.iter().skip(columns).find(|cell| !cell.trim().is_empty()) {
            Some(more) => {
                Err(format!("`{more}` is in none of the {columns} columns: is a separator in a cell not quoted?"))
            }
            None => row(places.iter().map(|&(column, place)| (column, cell(place))), dialect.has_decimal_commas()),
        };
        let line = record.position().map_or(0, Position::line) + dialect.lines_before;
        let place = RowPlace::Line(line);
        take(reader.position().byte(), row.map(|row| (place, row)).map_err(|reason| place.error(reason)))?;
    }
}

fn broken(error: csv::Error, bound: &bounded::Bound) -> ImportError {
    if let Some(line) = bound.exceeded_at() {
        let reason = format!("longer than {} KiB: a quote that is not closed, or no table", bounded::MOST_BYTES >> 10);
        return ImportError::Row { line, reason };
    }
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ImportError::Read(error),
        kind => ImportError::Columns(format!("not a table of text ({kind:?})")),
    }
}

/// Where the columns are.
fn places<'m>(header: &StringRecord, map: &'m ColumnMap) -> Result<Vec<(&'m Column, usize)>, ImportError> {
    let place = |column: &'m Column| match header.iter().position(|name| name.trim() == column.name) {
        Some(place) => Ok((column, place)),
        None => {
            let names: Vec<&str> = header.iter().map(str::trim).collect();
            Err(ImportError::Columns(format!("has no column `{}`; it has {}", column.name, names.join(", "))))
        }
    };
    map.columns().iter().map(place).collect()
}

fn each_of_parquet(file: File, map: &ColumnMap, take: &mut TakeRow<'_>) -> Result<(), ImportError> {
    let wrong = |error: ForeignTableError| ImportError::Columns(error.to_string());
    let bytes = file.metadata().map_err(ImportError::Read)?.len();
    let names: Vec<&str> = map.columns().iter().map(|column| column.name.as_str()).collect();
    let mut table = ForeignTable::open(file, &names).map_err(wrong)?;
    let mut before = 0;
    loop {
        let rows = table.read().map_err(wrong)?;
        if rows == 0 {
            return Ok(());
        }
        let mut cells = Vec::with_capacity(names.len());
        for number in 0..rows {
            cells.clear();
            for (place, column) in map.columns().iter().enumerate() {
                cells.push((column, Some(table.cell(number, place).map_err(wrong)?)));
            }
            let row = row(cells.iter().copied(), false);
            let place = RowPlace::Number(before + number as u64 + 1);
            take(bytes, row.map(|row| (place, row)).map_err(|reason| place.error(reason)))?;
        }
        before += rows as u64;
    }
}

/// What the cells of a row say; none where the row ends before its column.
fn row<'a>(
    cells: impl Iterator<Item = (&'a Column, Option<ForeignCell<'a>>)>,
    has_decimal_commas: bool,
) -> Result<Row<'a>, String> {
    let mut row = Row::default();
    for (column, cell) in cells {
        let cell = cell.ok_or_else(|| format!("it ends before its column `{}`", column.name))?;
        let Some(cell) = values::told(cell) else { continue };
        let unreadable = || format!("`{cell}` in column `{}` can't be read", column.name);
        let number = || values::number(cell, column, has_decimal_commas).ok_or_else(unreadable);
        let short = || u32::try_from(number()?).map_err(|_| unreadable());
        match column.role {
            Role::Variable => row.variable = Some(values::text(cell)),
            Role::Function => row.function = values::text(cell),
            Role::File => row.file = values::text(cell),
            Role::Line => row.line = short()?,
            Role::Ip => row.ip = Some(number()?),
            Role::Address => row.address = Some(number()?),
            Role::Index => (row.index, row.element_bytes) = (Some(number()?), column.scale),
            Role::Size => row.size = Some(number()?),
            Role::Kind => row.kind = Some(values::kind(cell).ok_or_else(unreadable)?),
            Role::Process => row.process = Some(short()?),
            Role::Thread => row.thread = Some(short()?),
            Role::Cpu => row.cpu = Some(short()?),
            Role::Time => row.time = Some(number()?),
            Role::Latency => row.latency = Some(number()?),
            Role::Weight => row.weight = Some(number()?),
            Role::Level => row.served = Some(values::served(cell, column).ok_or_else(unreadable)?),
        }
    }
    // A line is one of a file.
    if row.file.is_empty() {
        row.line = 0;
    }
    Ok(row)
}
