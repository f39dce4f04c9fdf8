//! A compiler's job whose source has had its directives made calls of.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::exit_status;
use super::jobs::Job;

/// What is run.
pub(crate) struct Prepared {
    pub(crate) job: Job,
    /// Its standard input, where that was read already.
    pub(crate) input: Option<Vec<u8>>,
    /// What is wrong with its source, as compilers say it: then it can't be run.
    pub(crate) mistake: Option<String>,
    /// The file that stands in place of its source, and that source, where the compiler is given another one.
    pub(crate) copy: Option<(PathBuf, PathBuf)>,
}

impl Prepared {
    /// The job as it is.
    pub(crate) fn of(job: Job) -> Self {
        Self { job, input: None, mistake: None, copy: None }
    }

    /// Runs it, and gives its exit status.
    pub(crate) fn start(&self) -> io::Result<u8> {
        if let Some(mistake) = &self.mistake {
            let _ = writeln!(io::stderr(), "{mistake}");
            return Ok(1);
        }
        let mut command = Command::new(&self.job.program);
        command.args(&self.job.arguments);
        let Some((copy, source)) = &self.copy else { return run(&mut command, self.input.as_deref()).map(exit_status) };
        let (there, here) = (directory(copy), directory(source));
        if self.job.is_fortran() {
            // flang names what it was given where it says how many mistakes there were.
            let output = command.stderr(Stdio::piped()).spawn()?.wait_with_output()?;
            let _ = io::stderr().write_all(&replaced(&output.stderr, there, here));
            return Ok(exit_status(output.status));
        }
        let status = command.status()?;
        // What make is told to look for has to be there.
        if let Some(list) = ["-MF", "-MD", "-MMD"].iter().find_map(|option| self.job.after(option))
            && let Ok(text) = fs::read(list)
        {
            fs::write(list, replaced(&text, &for_make(there), &for_make(here)))?;
        }
        Ok(exit_status(status))
    }
}

/// What precedes the name of a file in its path.
fn directory(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}

/// A name as it stands in what is written for `make`.
fn for_make(name: &[u8]) -> Vec<u8> {
    let escaped = name.iter().flat_map(|byte| match byte {
        b' ' | b'#' => vec![b'\\', *byte],
        b'$' => b"$$".to_vec(),
        _ => vec![*byte],
    });
    escaped.collect()
}

/// A text with one part in the place of another.
fn replaced(text: &[u8], known: &[u8], instead: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&first) = rest.first() {
        match rest.strip_prefix(known).filter(|_| !known.is_empty()) {
            Some(behind) => {
                changed.extend(instead);
                rest = behind;
            }
            None => {
                changed.push(first);
                rest = &rest[1..];
            }
        }
    }
    changed
}

/// Runs a command with this input, or that of this process.
pub(crate) fn run(command: &mut Command, input: Option<&[u8]>) -> io::Result<ExitStatus> {
    let Some(input) = input else { return command.status() };
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // Who reads no further has its reasons, and says them.
        let _ = pipe.write_all(input);
    }
    child.wait()
}

/// All of this process's standard input.
pub(crate) fn read_input() -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies_are_replaced() {
        let list = |source: &str| {
            let there = for_make(directory(Path::new("/run/s 1/a.f90")));
            let changed =
                replaced(b"a.o: /run/s\\ 1/a.f90 /run/s/b.inc", &there, &for_make(directory(Path::new(source))));
            String::from_utf8(changed).unwrap()
        };
        assert_eq!(list("a.f90"), "a.o: a.f90 /run/s/b.inc");
        assert_eq!(list("d$/e f/a.f90"), "a.o: d$$/e\\ f/a.f90 /run/s/b.inc");
    }
}
