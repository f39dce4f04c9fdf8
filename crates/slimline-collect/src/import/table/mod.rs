//! Someone else's samples or accesses: a table of named columns (text or Parquet), and a [`ColumnMap`] that says which is what.
//!
//! No program's file is asked for what a table of samples names by itself: its variables and its lines get addresses of their own,
//! and the session's table of names says what is there (see `naming`).

mod accesses;
mod bounded;
mod columns;
mod dialect;
mod rows;
mod values;

use slimline_trace::access::AccessKind;
use slimline_trace::served::Served;
use slimline_trace::session::{Imported, WeightUnit};
use slimline_trace::wire::Quality;

use super::description::Description;
use super::naming::Code;
use super::{ImportError, Programs};
use crate::perf_event::{Caught, Taken};
pub use accesses::{TableAccess, TableLosses, read_access_table};
pub use columns::ColumnMap;
use columns::Role;
pub(super) use rows::TableInput;
use rows::{Row, each_row};

/// Rows between two reports of progress.
const ROWS_PER_REPORT: u64 = 4096;

/// Reads a table of samples into `programs`.
///
/// # Errors
/// The table has not the columns, or none of its rows can be read.
pub(super) fn read(
    input: TableInput,
    map: &ColumnMap,
    programs: &mut Programs,
    progress: &mut dyn FnMut(u64),
) -> Result<Description, ImportError> {
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
    each_row(input, map, &mut |read_bytes, row| {
        counts.records += 1;
        if counts.records.is_multiple_of(ROWS_PER_REPORT) {
            progress(read_bytes);
        }
        match row {
            Err(error) => {
                counts.malformed_records += 1;
                first_bad.get_or_insert(error);
                Ok(())
            }
            Ok((_, row)) => {
                if let Some(time_ns) = row.time {
                    let [first, last] = times.unwrap_or([time_ns; 2]);
                    times = Some([first.min(time_ns), last.max(time_ns)]);
                    before_ns = time_ns;
                }
                take(&row, before_ns, weight, programs, &mut counts)
            }
        }
    })?;
    if let Some(error) = first_bad.filter(|_| programs.samples() == 0) {
        return Err(error);
    }
    let [started_ns, ended_ns] = times.unwrap_or_default();
    Ok(Description { weight, started_ns, ended_ns, counts, ..Description::default() })
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
        let code = Code { function: row.function.to_string(), file: row.file.to_string(), line: row.line };
        let place = row.address.or(row.index);
        // A variable is as large as what is seen of it: whole elements, where their numbers are told.
        let seen_bytes = bytes.max(row.element_bytes);
        let named = row.variable.as_deref().map(|variable| naming.variable(variable, place.unwrap_or(0), seen_bytes));
        let is_of_another = matches!(named, Some(None));
        let address = named.unwrap_or(row.address).unwrap_or(0);
        let ip = naming.code(row.ip, code);
        counts.samples_of_other_variables += u64::from(is_of_another);
        counts.samples_without_address += u64::from(address == 0 && !is_of_another);
        let caught = Caught { address, bytes: bytes.min(256) as u16, kind, served, is_no_access: false };
        let quality = if address == 0 { Quality::Lost } else { Quality::Exact };
        caught.row(Taken { time_ns, thread, weight, sampled_ip: ip, ip, quality, stack_pointer: 0, stack: None })
    })?;
    Ok(())
}
