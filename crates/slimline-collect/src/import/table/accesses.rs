//! Tables of accesses, each row one.

use std::path::Path;

use super::columns::{ColumnMap, Role};
use super::rows::{TableInput, each_row};
use crate::import::address_trace::MOST_BYTES;
use crate::import::input::Input;
use crate::import::{ImportError, TracedAccess, TracedKind};

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableAccess<'a> {
    /// What is accessed.
    pub access: TracedAccess,
    /// By which process; 0 where that is not told.
    pub process: u32,
    /// By which thread, or on which CPU; likewise.
    pub thread: u32,
    /// When, in nanoseconds or whatever the table counts; that of the row before where it tells none.
    pub time: u64,
    /// The instruction.
    pub instruction: Option<u64>,
    /// The variable that is accessed; empty where it is not told, as all that follows.
    pub variable: &'a str,
    /// The function that accesses.
    pub function: &'a str,
    /// Its file.
    pub file: &'a str,
    /// The line in it; 0 where it is not told.
    pub line: u32,
}

/// Rows that do not tell all that an access has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLosses {
    /// No address: they are passed over.
    pub without_address: u64,
    /// No size: they are taken to access one byte.
    pub without_size: u64,
    /// Neither load nor store: they are taken for loads.
    pub without_kind: u64,
}

impl ColumnMap {
    /// Whether it says what accesses are, not only what samples are.
    ///
    /// # Errors
    /// What is in the way, in a line.
    pub fn check_accesses(&self) -> Result<(), String> {
        let of_samples =
            [("index", Role::Index), ("latency", Role::Latency), ("weight", Role::Weight), ("level", Role::Level)];
        match of_samples.into_iter().find(|(_, role)| self.of(*role).is_some()) {
            Some((name, _)) => Err(format!("`{name}` is of samples, not of accesses")),
            None if self.of(Role::Address).is_none() => Err("tells no `address`".to_owned()),
            None => Ok(()),
        }
    }

    /// Whether rows tell when they were.
    pub fn tells_time(&self) -> bool {
        self.of(Role::Time).is_some()
    }

    /// Whether rows tell by which thread they were, or on which CPU.
    pub fn tells_threads(&self) -> bool {
        self.of(Role::Thread).or(self.of(Role::Cpu)).is_some()
    }
}

/// Reads a table of accesses (`-` for standard input) to its end, and hands on each row.
///
/// # Errors
/// The table has not the columns, a row can't be read, or none is an access.
pub fn read_access_table(
    path: &Path,
    map: &ColumnMap,
    take: &mut dyn FnMut(&TableAccess<'_>),
) -> Result<TableLosses, ImportError> {
    map.check_accesses().map_err(ImportError::Columns)?;
    let mut losses = TableLosses::default();
    let (mut time, mut is_empty) = (0, true);
    each_row(TableInput::of(Input::open(path)?)?, map, &mut |_, row| {
        let (place, row) = row?;
        time = row.time.unwrap_or(time);
        let Some(address) = row.address else {
            losses.without_address += 1;
            return Ok(());
        };
        losses.without_size += u64::from(row.size.is_none());
        losses.without_kind += u64::from(row.kind.is_none());
        let bytes = u32::try_from(row.size.unwrap_or(1)).ok().filter(|bytes| (1..=MOST_BYTES).contains(bytes));
        let bytes = bytes.ok_or_else(|| place.error("a size that no access has".to_owned()))?;
        let kind = match row.kind {
            Some(kind) if kind.loads() && kind.stores() => TracedKind::Modify,
            Some(kind) if kind.stores() => TracedKind::Store,
            _ => TracedKind::Load,
        };
        is_empty = false;
        take(&TableAccess {
            access: TracedAccess { address, bytes, kind },
            process: row.process.unwrap_or(0),
            thread: row.thread.or(row.cpu).unwrap_or(0),
            time,
            instruction: row.ip,
            variable: row.variable.as_deref().unwrap_or_default(),
            function: &row.function,
            file: &row.file,
            line: row.line,
        });
        Ok(())
    })?;
    if is_empty { Err(ImportError::NoAccesses) } else { Ok(losses) }
}
