//! Accesses that `slimline export --to parquet` made tables of.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use slimline_analyze::full_trace::attributed::{address_space, own_address};
use slimline_analyze::full_trace::findings::Place;
use slimline_analyze::origins::{Data, DataKind, Names, Origin, Origins, Thread};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, AccessKind, Consumer, Work};
use slimline_trace::tables::{Table, TracedAccesses, TracedKey, TracedKeys, whole_table};

use super::{Accesses, Ended};

/// File of what keys are of: the last one that is written, so that without it nothing is whole.
pub(crate) const KEYS: &str = "keys.parquet";
/// How names of files with accesses begin, in their order.
pub(crate) const ACCESSES: &str = "accesses-";

/// Whether that is what such a directory has.
pub(super) fn is_exported(directory: &Path) -> bool {
    directory.join(KEYS).is_file()
}

/// Reads all accesses, in the order in which they were written, which is that of time.
pub(super) fn read(directory: &Path, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    let keys: TracedKeys = table(&directory.join(KEYS))?;
    let origins = origins(&keys).with_context(|| directory.join(KEYS).display().to_string())?;
    let mut read = 0;
    for file in files(directory)? {
        let rows: TracedAccesses = table(&file)?;
        let mut accesses = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            let kind = match (row.loads, row.stores) {
                (true, true) => AccessKind::Modify,
                (false, true) => AccessKind::Store,
                (true, false) => AccessKind::Load,
                (false, false) => bail!("{}: an access that neither loads nor stores", file.display()),
            };
            ensure!((row.key as usize) < keys.len(), "{}: key {} is not in {KEYS}", file.display(), row.key);
            let thread = origins.of(row.key).thread;
            let address = own_address(row.address.0) | address_space(origins.threads()[thread as usize].process);
            accesses.push(Access { address, key: row.key, bytes: row.bytes, thread, kind, work: Work::USUAL });
        }
        read += accesses.len() as u64;
        consumer.take(&accesses);
    }
    let written: u64 = keys.accesses.iter().sum();
    ensure!(read == written, "{}: holds {read} accesses where {written} were written", directory.display());
    ensure!(read > 0, "{}: holds no access", directory.display());
    let threads = Some(origins.threads().len() as u64);
    let trace =
        AccessTrace { file: directory.display().to_string(), format: "export", threads, ..AccessTrace::default() };
    Ok(Accesses { trace, origins, overlap: None, pids: Vec::new(), ended: Ended(None) })
}

/// Files of accesses, in their order.
fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(ACCESSES) && name.ends_with(".parquet")) {
            files.push(directory.join(name));
        }
    }
    files.sort();
    Ok(files)
}

fn table<T: Table>(file: &Path) -> anyhow::Result<T> {
    let read = || anyhow::Ok(whole_table(fs::read(file)?)?);
    read().with_context(|| file.display().to_string())
}

/// What keys stand for.
fn origins(keys: &TracedKeys) -> anyhow::Result<Origins> {
    let (mut names, mut threads) = (Names::default(), Vec::new());
    // In the order in which they were numbered, without those that no key is of.
    let mut numbers = keys.data_number.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let mut data = vec![Data::default(); numbers.len()];
    let mut thread_numbers: HashMap<Thread, u32> = HashMap::new();
    let mut origins = Vec::with_capacity(keys.len());
    for (row, key) in keys.iter().enumerate() {
        ensure!(key.key as usize == row, "key {} is in row {row}", key.key);
        let number = numbers.partition_point(|number| *number < key.data_number) as u32;
        data[number as usize] = data_of(&key)?;
        let thread = Thread { process: key.process, tid: key.tid };
        let next = threads.len() as u32;
        let thread_number = *thread_numbers.entry(thread).or_insert(next);
        if thread_number == next {
            threads.push(thread);
        }
        let [variable, field, function, line] = [&key.variable, &key.field, &key.function, &key.line]
            .map(|name| names.number(name.as_deref().unwrap_or_default()));
        let (thread, accesses) = (thread_number, key.accesses);
        origins.push(Origin { data: number, variable, field, function, line, thread, accesses, ..Origin::default() });
    }
    Ok(Origins::new(origins, data, names, threads))
}

fn data_of(key: &TracedKey) -> anyhow::Result<Data> {
    let kind = DataKind::from_name(&key.kind).with_context(|| format!("kind {:?} is not known", key.kind))?;
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    let (file, line) = match key.allocated_at.as_deref().unwrap_or_default().rsplit_once(':') {
        Some((file, line)) => (file.to_owned(), line.parse().context("allocated_at is no FILE:LINE")?),
        None => (String::new(), 0),
    };
    let callers = text(&key.callers);
    let callers = callers.split(" < ").filter(|name| !name.is_empty());
    let callers = callers.map(|function| Place { function: function.to_owned(), ..Place::default() });
    Ok(Data {
        kind,
        name: text(&key.data),
        type_name: text(&key.type_name),
        allocated_at: Place { file, line, ..Place::default() },
        callers: callers.collect(),
        blocks: key.blocks,
        peak_bytes: key.peak_bytes,
        ..Data::default()
    })
}
