//! What is made in between while a crate is compiled, and goes away however that ends.
//!
//! Ctrl-C reaches rustc and the linker as well, which end by it; this process lives on to tidy up. What is left where it is
//! killed goes away when the crate is compiled again, since it is called after the crate.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::invocation::Invocation;
use super::objects::Parts;
use super::{CargoError, io_error};

const VARIABLE: &str = "SLIMLINE_SCRATCH";
/// In which the linker tells of the parts that it saw.
const PARTS: &str = "parts";
/// In which whoever rewrites objects says what the user is to know, a line each.
const REMARKS: &str = "remarks";

/// A directory for what is made in between, and the bitcode of one crate.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    /// The directory and the stem of the bitcode, where nobody else asked for it.
    bitcode: Option<(PathBuf, String)>,
    signal: Signal,
}

/// The signal that asks this process for its end, if one did.
#[derive(Clone, Debug, Default)]
pub(super) struct Signal(Arc<AtomicUsize>);

impl Signal {
    /// From now on this process outlives such signals.
    pub(super) fn outlived() -> io::Result<Self> {
        let signal = Self::default();
        let ignored = ignored_signals();
        // Those that are ignored (`nohup`) stay so.
        for number in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0) {
            let value = usize::try_from(number).unwrap_or_default();
            signal_hook::flag::register_usize(number, Arc::clone(&signal.0), value)?;
        }
        Ok(signal)
    }

    /// One that came already.
    #[cfg(test)]
    pub(super) fn came(number: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(number)))
    }

    /// The status to end with, where one came.
    pub(super) fn ended(&self) -> Option<u8> {
        let signal = self.0.load(Ordering::Relaxed);
        u8::try_from(signal).ok().filter(|signal| *signal > 0).map(|signal| 128 + signal)
    }
}

impl Scratch {
    /// For this crate; nothing of an earlier time is in it.
    pub(super) fn new(invocation: &Invocation) -> Result<Self, CargoError> {
        let directory = invocation.out_dir.join(format!("{}.slimline", invocation.stem()));
        let signal = Signal::outlived().map_err(|error| io_error(&directory, error))?;
        let bitcode = (!invocation.emits_bitcode()).then(|| (invocation.out_dir.clone(), invocation.stem()));
        let scratch = Self { directory, bitcode, signal };
        scratch.tidy();
        fs::create_dir_all(&scratch.directory).map_err(|error| io_error(&scratch.directory, error))?;
        Ok(scratch)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// What the linker told.
    pub(super) fn parts(&self) -> Result<Parts, CargoError> {
        let file = self.directory.join(PARTS);
        match fs::read_to_string(&file) {
            Ok(text) => Parts::parse(&text).ok_or_else(|| {
                let damage = "damaged, so nobody knows which parts are traced";
                io_error(&file, io::Error::new(io::ErrorKind::InvalidData, damage))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Parts::default()),
            Err(error) => Err(io_error(&file, error)),
        }
    }

    /// What the user is to know, once each.
    pub(super) fn remarks(&self) -> Result<BTreeSet<String>, CargoError> {
        let file = self.directory.join(REMARKS);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(io_error(&file, error)),
        }
    }

    fn tidy(&self) {
        let _ = fs::remove_dir_all(&self.directory);
        if let Some((directory, stem)) = &self.bitcode {
            remove_bitcode(directory, stem);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.tidy();
    }
}

/// Leaves a directory to the tools that this program will start.
pub(super) fn leave(directory: &Path, program: &mut std::process::Command) {
    program.env(VARIABLE, directory);
}

/// The directory that was left.
pub(super) fn left() -> Option<PathBuf> {
    env::var_os(VARIABLE).map(PathBuf::from)
}

/// Tells who compiles of the parts that were seen when linking: what linkers print rustc keeps to itself.
pub(super) fn tell(directory: &Path, parts: Parts) -> Result<(), CargoError> {
    let file = directory.join(PARTS);
    fs::write(&file, parts.to_string()).map_err(|error| io_error(&file, error))
}

/// Says something that the user is to know.
pub(super) fn remark(directory: &Path, line: &str) -> Result<(), CargoError> {
    let file = directory.join(REMARKS);
    let opened = fs::OpenOptions::new().append(true).create(true).open(&file);
    opened.and_then(|mut opened| writeln!(opened, "{line}")).map_err(|error| io_error(&file, error))
}

/// The signals that this process was told to ignore, one bit each.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Removes the bitcode of a crate whose files begin with `stem`.
fn remove_bitcode(directory: &Path, stem: &str) {
    for file in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = file.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_prefix('.'));
        if rest.is_some_and(|rest| rest == "bc" || rest.ends_with(".rcgu.bc")) {
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn invocation(directory: &Path, more: &[&str]) -> Invocation {
        let mut arguments = ["--crate-name=a", "-Cextra-filename=-1", "--out-dir"].map(OsString::from).to_vec();
        arguments.push(directory.into());
        arguments.extend(more.iter().map(OsString::from));
        Invocation::parse(&arguments)
    }

    #[test]
    fn all_that_was_made_in_between_goes_away() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let [gone, kept] = [
            &["a-1.bc", "a-1.a.5-cgu.0.rcgu.bc", "a-1.slimline/held"][..],
            &["a-1.d", "a-12.bc", "a-1.bc.txt", "b-1.a.rcgu.bc", "a-1.a.5-cgu.0.rcgu.o"],
        ];
        let make = || {
            fs::create_dir_all(place("a-1.slimline")).unwrap();
            gone.iter().chain(kept).for_each(|name| fs::write(place(name), "").unwrap());
        };
        let check = || {
            assert!(gone.iter().all(|name| !place(name).exists()));
            assert!(kept.iter().all(|name| place(name).exists()));
        };
        // Also what a killed one has left.
        make();
        let scratch = Scratch::new(&invocation(directory.path(), &[])).unwrap();
        check();
        assert!(scratch.directory().is_dir() && scratch.signal().ended().is_none());
        make();
        drop(scratch);
        check();
        assert!(!place("a-1.slimline").exists());
        // Who asks for bitcode keeps it.
        make();
        drop(Scratch::new(&invocation(directory.path(), &["--emit=llvm-bc,link"])).unwrap());
        assert!(place(gone[0]).exists() && place(gone[1]).exists() && !place(gone[2]).exists());
    }

    #[test]
    fn the_linker_tells_of_parts() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(&invocation(directory.path(), &[])).unwrap();
        assert_eq!(scratch.parts().unwrap(), Parts::default());
        let parts = Parts { traced: 17, untraced: 2 };
        tell(scratch.directory(), parts).unwrap();
        assert_eq!(scratch.parts().unwrap(), parts);
        // Where the disk was full.
        for damaged in ["", "17", "17 2", "17 x\n"] {
            fs::write(scratch.directory().join(PARTS), damaged).unwrap();
            let line = scratch.parts().unwrap_err().to_string();
            assert!(line.ends_with("parts: damaged, so nobody knows which parts are traced"), "{line}");
        }
        assert!(scratch.remarks().unwrap().is_empty());
        ["b", "a", "b"].iter().for_each(|line| remark(scratch.directory(), line).unwrap());
        assert!(scratch.remarks().unwrap().iter().eq(["a", "b"]));
    }
}
