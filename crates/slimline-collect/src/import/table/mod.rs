//! Someone else's samples: a table with a line of column names, and a [`ColumnMap`] that says which is what.
//!
//! No program's file is asked for what the table names by itself: its variables and its lines get addresses of their own,
//! and the session's table of names says what is there (see `naming`).

mod bounded;
mod columns;
mod values;

use std::io::Read;

use csv::{ByteRecord, Position, ReaderBuilder, StringRecord};
use slimline_trace::access::AccessKind;
use slimline_trace::served::Served;
use slimline_trace::session::{Imported, WeightUnit};
use slimline_trace::wire::Quality;

use super::description::Description;
use super::naming::Code;
use super::{ImportError, Programs, Progress};
use crate::perf_event::{Caught, Taken};
pub use columns::ColumnMap;
use columns::{Column, Role};

/// Rows between two reports of progress.
const ROWS_PER_REPORT: u64 = 4096;

/// What a row says; `None` for what it does not.
#[derive(Debug, Default)]
struct Row<'a> {
    variable: Option<&'a str>,
    code: Code,
    ip: Option<u64>,
    address: Option<u64>,
    index: Option<u64>,
    /// Bytes of an element, where its number is told.
    element_bytes: u64,
    size: Option<u64>,
    kind: Option<AccessKind>,
    process: Option<u32>,
    thread: Option<u32>,
    cpu: Option<u32>,
    time: Option<u64>,
    latency: Option<u64>,
    weight: Option<u64>,
    served: Option<Served>,
}

/// Reads a table into `programs`.
///
/// # Errors
/// The table has not the columns, or none of its rows can be read.
pub(super) fn read(
    input: impl Read,
    map: &ColumnMap,
    programs: &mut Programs,
    progress: &mut dyn FnMut(Progress),
) -> Result<Description, ImportError> {
    let (input, bound) = bounded::pair(input);
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(input);
    bound.begin_record(reader.position());
    let places = places(reader.headers().map_err(|error| broken(error, &bound))?, map)?;
    let weight = match () {
        () if map.of(Role::Latency).is_some() => WeightUnit::LatencyCycles,
        () if map.of(Role::Weight).is_some() => WeightUnit::Period,
        () => WeightUnit::Samples,
    };
    let mut counts = Imported { format: "table of samples".to_owned(), ..Imported::default() };
    let mut times: Option<[u64; 2]> = None;
    // A row that tells no time has that of the row before it.
    let mut before_ns = 0;
    let mut first_bad = None;
    let mut record = ByteRecord::new();
    loop {
        bound.begin_record(reader.position());
        if !reader.read_byte_record(&mut record).map_err(|error| broken(error, &bound))? {
            break;
        }
        counts.records += 1;
        if counts.records.is_multiple_of(ROWS_PER_REPORT) {
            progress(Progress { read_bytes: reader.position().byte(), samples: programs.samples() });
        }
        let text = StringRecord::from_byte_record_lossy(record.clone());
        match row(&text, &places) {
            Err(reason) => {
                counts.malformed_records += 1;
                let line = record.position().map_or(0, Position::line);
                first_bad.get_or_insert(ImportError::Row { line, reason });
            }
            Ok(row) => {
                if let Some(time_ns) = row.time {
                    let [first, last] = times.unwrap_or([time_ns; 2]);
                    times = Some([first.min(time_ns), last.max(time_ns)]);
                    before_ns = time_ns;
                }
                take(&row, before_ns, weight, programs, &mut counts)?;
            }
        }
    }
    if let Some(error) = first_bad.filter(|_| programs.samples() == 0) {
        return Err(error);
    }
    let [started_ns, ended_ns] = times.unwrap_or_default();
    Ok(Description { weight, started_ns, ended_ns, counts, ..Description::default() })
}

fn broken(error: csv::Error, bound: &bounded::Bound) -> ImportError {
    if let Some(line) = bound.exceeded_at() {
        let reason = format!("longer than {} KiB: a quote that is not closed, or no table", bounded::MOST_BYTES >> 10);
        return ImportError::Row { line, reason };
    }
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ImportError::Read(error),
        kind => ImportError::Columns(format!("not a table with commas between its columns ({kind:?})")),
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

fn row<'a>(record: &'a StringRecord, places: &[(&Column, usize)]) -> Result<Row<'a>, String> {
    let mut row = Row::default();
    for &(column, place) in places {
        let cell = record.get(place).ok_or_else(|| format!("it ends before its column `{}`", column.name))?;
        let Some(cell) = values::text(cell) else { continue };
        let unreadable = || format!("`{cell}` in column `{}` can't be read", column.name);
        let number = || values::number(cell, column).ok_or_else(unreadable);
        let short = || u32::try_from(number()?).map_err(|_| unreadable());
        match column.role {
            Role::Variable => row.variable = Some(cell),
            Role::Function => cell.clone_into(&mut row.code.function),
            Role::File => cell.clone_into(&mut row.code.file),
            Role::Line => row.code.line = short()?,
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
    if row.code.file.is_empty() {
        row.code.line = 0;
    }
    Ok(row)
}

fn take(
    row: &Row<'_>,
    time_ns: u64,
    unit: WeightUnit,
    programs: &mut Programs,
    counts: &mut Imported,
) -> Result<(), ImportError> {
    let tid = row.thread.or(row.cpu).unwrap_or(0);
    let bytes = row.size.unwrap_or(0);
    let weight = match unit {
        WeightUnit::LatencyCycles => row.latency.unwrap_or(0),
        WeightUnit::Period | WeightUnit::TimeNs => row.weight.unwrap_or(0),
        WeightUnit::Samples => 1,
    };
    let latency_cycles = row.latency.map(|cycles| u32::try_from(cycles).unwrap_or(u32::MAX));
    let served = Served { latency_cycles, ..row.served.unwrap_or(Served::UNKNOWN) };
    // Latencies and levels are measured of loads.
    let is_load = row.latency.is_some() || row.served.is_some();
    let kind = row.kind.unwrap_or(if is_load { AccessKind::LOAD } else { AccessKind::NONE });
    let kind = if served.locked == Some(true) { kind.atomic() } else { kind };
    programs.push(row.process.unwrap_or(0), |program| {
        let thread = program.run.thread(tid, time_ns);
        if row.thread.is_none() && row.cpu.is_some() {
            program.run.thread_named(tid, time_ns, &format!("CPU {tid}"));
        }
        let naming = program.naming();
        let place = row.address.or(row.index);
        // A variable is as large as what is seen of it: whole elements, where their numbers are told.
        let seen_bytes = bytes.max(row.element_bytes);
        let named = row.variable.map(|variable| naming.variable(variable, place.unwrap_or(0), seen_bytes));
        let is_of_another = matches!(named, Some(None));
        let address = named.unwrap_or(row.address).unwrap_or(0);
        let ip = naming.code(row.ip, row.code.clone());
        counts.samples_of_other_variables += u64::from(is_of_another);
        counts.samples_without_address += u64::from(address == 0 && !is_of_another);
        let caught = Caught { address, bytes: bytes.min(256) as u16, kind, served, is_no_access: false };
        let quality = if address == 0 { Quality::Lost } else { Quality::Exact };
        caught.row(Taken { time_ns, thread, weight, sampled_ip: ip, ip, quality, stack_pointer: 0, stack: None })
    })?;
    Ok(())
}
