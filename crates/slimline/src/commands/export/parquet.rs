//! `slimline export --to parquet`

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use slimline_analyze::full_trace::attributed::own_address;
use slimline_analyze::full_trace::findings::Place;
use slimline_analyze::origins::Origins;
use slimline_simulate::access::{Access, AccessKind, Consumer};
use slimline_trace::address::Avma;
use slimline_trace::tables::{Table, TracedAccess, TracedAccesses, TracedKey, TracedKeys};

use crate::accesses::{self, Accesses};
use crate::cli::{self, AccessInput};
use crate::say;

/// Rows of a file of accesses: what is held in memory, and what a query reads at a time.
const ROWS: usize = 1 << 20;

/// Writes files one by one, the keys last: without them it is not whole.
pub(super) fn write_tables(options: &cli::Export, output: &Path) -> anyhow::Result<()> {
    if !options.from.is_dir() {
        options.from.metadata().with_context(|| options.from.display().to_string())?;
        bail!("{}: no trace: wanted is what slimline trace -o wrote", options.from.display());
    }
    // Addresses and names of the program are its owner's, as in the trace.
    fs::DirBuilder::new().mode(0o700).create(output).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!("{}: is there already: name another directory (-o)", output.display()),
        _ => anyhow!("{}: {error}", output.display()),
    })?;
    let input = AccessInput::written(&options.from, options.callers);
    let mut writer = Writer { directory: output.to_owned(), rows: TracedAccesses::default(), files: 0, failed: None };
    let written = accesses::read(&input, &mut writer).and_then(|accesses| {
        writer.flush();
        if let Some(error) = writer.failed.take() {
            return Err(error).context(output.display().to_string());
        }
        write(output, accesses::KEYS, &keys(&accesses.origins))?;
        Ok(accesses)
    });
    match written {
        Ok(Accesses { origins, trace, .. }) => {
            let all: u64 = origins.keys().iter().map(|key| key.accesses).sum();
            let keys = origins.keys().len();
            say(format_args!("slimline: {}: {all} accesses of {keys} keys", output.display()));
            trace.missing.iter().for_each(|missing| say(format_args!("slimline: missing: {missing}")));
            Ok(())
        }
        Err(error) => {
            // What is there is ours, as is the directory, and would be taken for a whole.
            let _ = fs::remove_dir_all(output);
            Err(error)
        }
    }
}

/// Takes accesses in and writes a file of every so many.
struct Writer {
    directory: PathBuf,
    rows: TracedAccesses,
    files: usize,
    failed: Option<io::Error>,
}

impl Consumer for Writer {
    fn take(&mut self, accesses: &[Access]) {
        for &Access { address, key, bytes, kind, .. } in accesses {
            self.rows.push(TracedAccess {
                key,
                address: Avma(own_address(address)),
                bytes,
                loads: kind != AccessKind::Store,
                stores: kind.stores(),
            });
            if self.rows.len() == ROWS {
                self.flush();
            }
        }
    }
}

impl Writer {
    fn flush(&mut self) {
        if self.failed.is_none() && !self.rows.is_empty() {
            let name = format!("{}{:05}.parquet", accesses::ACCESSES, self.files);
            self.failed = write(&self.directory, &name, &self.rows).err();
            self.files += 1;
        }
        self.rows.clear();
    }
}

/// A file that is there once it is whole.
fn write(directory: &Path, name: &str, table: &impl Table) -> io::Result<()> {
    let content = table.to_parquet().map_err(io::Error::other)?;
    let unfinished = directory.join(format!("{name}.tmp"));
    fs::write(&unfinished, content)?;
    fs::rename(unfinished, directory.join(name))
}

fn keys(origins: &Origins) -> TracedKeys {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let name = |number: u32| known(origins.name(number));
    let mut keys = TracedKeys::default();
    for (key, of) in (0..).zip(origins.keys()) {
        let data = &origins.data()[of.data as usize];
        let thread = &origins.threads()[of.thread as usize];
        let Place { file, line, .. } = &data.allocated_at;
        let callers: Vec<&str> = data.callers.iter().map(|caller| caller.function.as_str()).collect();
        keys.push(TracedKey {
            key,
            data_number: of.data,
            kind: data.kind.name().to_owned(),
            data: known(&data.name),
            type_name: known(&data.type_name),
            allocated_at: (!file.is_empty()).then(|| format!("{file}:{line}")),
            callers: known(&callers.join(" < ")),
            blocks: data.blocks,
            peak_bytes: data.peak_bytes,
            variable: name(of.variable),
            field: name(of.field),
            function: name(of.function),
            line: name(of.line),
            process: thread.process,
            tid: thread.tid,
            accesses: of.accesses,
        });
    }
    keys
}
