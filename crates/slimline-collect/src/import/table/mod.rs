//! Someone else's samples: a table with a line of column names, and a [`ColumnMap`] that says which is what.
//!
//! No program's file is asked for what the table names by itself: its variables and its lines get addresses of their own,
//! and the session's table of names says what is there (see `naming`).

mod columns;
mod values;

use std::io::Read;

use csv::{ByteRecord, Position, ReaderBuilder, StringRecord};
use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::session::{Imported, WeightUnit};
use slimline_trace::tables::Sample;
use slimline_trace::wire::{BurstEnd, Quality};

use super::description::Description;
use super::naming::Code;
use super::{ImportError, Programs, Progress};
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
    size: Option<u64>,
    kind: Option<AccessKind>,
    process: Option<u64>,
    thread: Option<u64>,
    cpu: Option<u64>,
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
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(input);
    let places = places(reader.headers().map_err(broken)?, map)?;
    let weight = match () {
        () if map.of(Role::Latency).is_some() => WeightUnit::LatencyCycles,
        () if map.of(Role::Weight).is_some() => WeightUnit::Period,
        () => WeightUnit::Samples,
    };
    let mut counts = Imported { format: "table of samples".to_owned(), ..Imported::default() };
    let mut times: Option<[u64; 2]> = None;
    let mut first_bad = None;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(broken)? {
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
                let time_ns = row.time.unwrap_or(0);
                let [first, last] = times.unwrap_or([time_ns; 2]);
                times = Some([first.min(time_ns), last.max(time_ns)]);
                take(&row, weight, programs, &mut counts)?;
            }
        }
    }
    if let Some(error) = first_bad.filter(|_| programs.samples() == 0) {
        return Err(error);
    }
    let [started_ns, ended_ns] = times.unwrap_or_default();
    Ok(Description { weight, started_ns, ended_ns, counts, ..Description::default() })
}

fn broken(error: csv::Error) -> ImportError {
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
        match column.role {
            Role::Variable => row.variable = Some(cell),
            Role::Function => cell.clone_into(&mut row.code.function),
            Role::File => cell.clone_into(&mut row.code.file),
            Role::Line => row.code.line = u32::try_from(number()?).map_err(|_| unreadable())?,
            Role::Ip => row.ip = Some(number()?),
            Role::Address => row.address = Some(number()?),
            Role::Index => row.index = Some(number()?),
            Role::Size => row.size = Some(number()?),
            Role::Kind => row.kind = Some(values::kind(cell).ok_or_else(unreadable)?),
            Role::Process => row.process = Some(number()?),
            Role::Thread => row.thread = Some(number()?),
            Role::Cpu => row.cpu = Some(number()?),
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

fn take(row: &Row<'_>, unit: WeightUnit, programs: &mut Programs, counts: &mut Imported) -> Result<(), ImportError> {
    let number = |number: Option<u64>| number.map_or(0, |number| number as u32);
    let time_ns = row.time.unwrap_or(0);
    let tid = number(row.thread.or(row.cpu));
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
    programs.push(number(row.process), |program| {
        let thread = program.thread(tid, time_ns);
        if row.thread.is_none() && row.cpu.is_some() {
            program.thread_named(tid, time_ns, &format!("CPU {tid}"));
        }
        let naming = program.naming();
        let place = row.address.or(row.index);
        let address = match row.variable {
            Some(variable) => naming.variable(variable, place.unwrap_or(0), bytes),
            None => row.address,
        };
        let address = address.unwrap_or(0);
        let ip = naming.code(row.ip, row.code.clone());
        counts.samples_without_address += u64::from(address == 0);
        Sample {
            time_ns,
            thread,
            cpu_ns: 0,
            weight,
            sampled_ip: Avma(ip),
            ip: Avma(ip),
            address: Avma(address),
            stack_pointer: Avma(0),
            access_bytes: bytes.min(256) as u16,
            kind,
            quality: if address == 0 { Quality::Lost } else { Quality::Exact },
            block: None,
            stack: None,
            accesses: 0,
            burst_instructions: 0,
            burst_end: BurstEnd::NotStarted,
            served,
        }
    })?;
    Ok(())
}
