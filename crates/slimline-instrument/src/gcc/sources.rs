//! What gcc's compilers are given in place of sources that have directives ([`crate::directives`]).
//!
//! gcc has no overlays. Of C and C++ it is given the source as its preprocessor leaves it that follows directives only: headers are
//! in it, and what `#if` leaves out is not, but macros stand where they stood. So lines and columns stay what they are, and gcc makes the
//! same code of it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::steps::name_of;
use super::{GccError, io_error};
use crate::directives::c::rewritten_preprocessed;
use crate::directives::fortran::Lines;
use crate::driver::Job;
use crate::driver::fortran::{Copy, copy};
use crate::driver::prepared::{Prepared, read_input, run};

/// Options of gcc's compilers whose value is the next argument, where that does not begin with `-`.
const WITH_VALUE: [&str; 26] = [
    "-o",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-auxbase",
    "-auxbase-strip",
    "-imultiarch",
    "-imultilib",
    "-isystem",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
    "-I",
    "-D",
    "-U",
    "-A",
    "-MD",
    "-MMD",
    "-MF",
    "-MT",
    "-MQ",
];
/// Those of the preprocessor that write down which files are read, and whether they have a value.
const DEPENDENCIES: [(&str, bool); 7] =
    [("-MD", true), ("-MMD", true), ("-MF", true), ("-MT", true), ("-MQ", true), ("-MP", false), ("-MG", false)];

/// Options that have pragmas of their own, and what of them is left for the preprocessor: the versions that gcc has from 11 on.
const PARALLEL: [(&str, &str); 3] = [
    ("-fopenmp", "-D_OPENMP=201511"),
    ("-fopenacc", "-D_OPENACC=201711"),
    // It has no macro.
    ("-fopenmp-simd", "-fno-openmp-simd"),
];

/// The job with calls in the place of directives. What it needs lies in files whose names begin with `between`.
pub(super) fn prepared(job: &Job, between: &Path) -> Result<Prepared, GccError> {
    let Some(source) = source_of(&job.arguments) else { return Ok(Prepared::of(job.clone())) };
    match name_of(job) {
        Some("f951") => of_fortran(job, source, between),
        // A precompiled header has to be of the header itself. Who includes it is preprocessed without.
        _ if job.beginning("--output-pch").is_some() => Ok(Prepared::of(job.clone())),
        compiler => of_c(job, source, compiler == Some("cc1plus"), between),
    }
}

/// Which argument is the source.
fn source_of(arguments: &[OsString]) -> Option<usize> {
    let is_value = |at: usize| at > 0 && WITH_VALUE.iter().any(|option| arguments[at - 1] == *option);
    (0..arguments.len()).find(|at| {
        let argument = &arguments[*at];
        (argument == "-" || !argument.as_bytes().starts_with(b"-")) && !is_value(*at)
    })
}

fn of_fortran(job: &Job, source: usize, between: &Path) -> Result<Prepared, GccError> {
    let mut prepared = Prepared::of(job.clone());
    let name = &job.arguments[source];
    let copied = copy(Path::new(name), &job.arguments, Lines::Each, between);
    match copied.map_err(|error| io_error(between, error))? {
        Copy::None => {}
        Copy::Wrong(mistake) => prepared.mistake = Some(mistake),
        Copy::At(copy, beside) => {
            // Where it is preprocessed its name is given a second time.
            for argument in prepared.job.arguments.iter_mut().filter(|argument| *argument == name) {
                *argument = copy.clone().into();
            }
            // Debug information names the unit by what is read, whatever its first line says.
            let mut named = OsString::from("-ffile-prefix-map=");
            named.push(&copy);
            named.push("=");
            named.push(name);
            prepared.job.arguments.push(named);
            // The source's own directory comes before others.
            prepared.job.arguments.insert(0, beside);
            prepared.copy = Some((copy, name.into()));
        }
    }
    Ok(prepared)
}

fn of_c(job: &Job, source: usize, is_cpp: bool, between: &Path) -> Result<Prepared, GccError> {
    let mut prepared = Prepared::of(job.clone());
    let name = &job.arguments[source];
    if name == "-" {
        prepared.input = Some(read_input().map_err(|error| io_error(Path::new("standard input"), error))?);
    }
    let file = between.with_extension("i");
    let mut warnings = Vec::new();
    // What is no file now is the compiler's to say.
    let text = match job.has("-fpreprocessed") {
        true => prepared.input.clone().or_else(|| fs::read(name).ok()),
        false => preprocessed(&prepared, &file, &mut warnings).map_err(|error| io_error(&job.program, error))?,
    };
    let Some(changed) = text.and_then(|text| rewritten_preprocessed(&text, is_cpp, &name.to_string_lossy())) else {
        return Ok(prepared);
    };
    fs::write(&file, changed).map_err(|error| io_error(&file, error))?;
    let _ = io::stderr().write_all(&warnings);
    prepared.input = None;
    prepared.job.arguments = without_dependencies(&job.arguments);
    if let Some(source) = source_of(&prepared.job.arguments) {
        prepared.job.arguments[source] = file.into();
    }
    // What is preprocessed so knows the macros that stand in it.
    prepared.job.arguments.extend(["-fpreprocessed", "-fdirectives-only"].map(OsString::from));
    Ok(prepared)
}

/// The source with its headers, and what the preprocessor warns of; none where it can't be preprocessed, which the compiler will say.
fn preprocessed(prepared: &Prepared, file: &Path, warnings: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut arguments = prepared.job.arguments.clone();
    if let Some(output) = arguments.iter().rposition(|argument| argument == "-o").filter(|at| at + 1 < arguments.len())
    {
        arguments[output + 1] = file.into();
    }
    // With these gcc's preprocessor leaves out their pragmas where it follows directives only: it is told their macros alone.
    for (option, macros) in PARALLEL {
        arguments.iter_mut().filter(|argument| *argument == option).for_each(|argument| *argument = macros.into());
    }
    let said = file.with_extension("warnings");
    let mut command = Command::new(&prepared.job.program);
    command.args(["-E", "-fdirectives-only"]).args(&arguments);
    command.stdout(Stdio::null()).stderr(fs::File::create(&said)?);
    if !run(&mut command, prepared.input.as_deref())?.success() {
        return Ok(None);
    }
    *warnings = fs::read(said)?;
    // Many sources in one command would fill the disk.
    let text = fs::read(file)?;
    fs::remove_file(file)?;
    Ok(Some(text))
}

fn without_dependencies(arguments: &[OsString]) -> Vec<OsString> {
    let mut given = arguments.iter();
    let mut left = Vec::with_capacity(arguments.len());
    while let Some(argument) = given.next() {
        match DEPENDENCIES.iter().find(|(option, _)| argument == option) {
            Some((_, true)) => drop(given.next()),
            Some((_, false)) => {}
            None => left.push(argument.clone()),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_source_is_told_from_options_and_their_values() {
        let source = |text: &str| source_of(&words(text)).map(|at| words(text)[at].clone());
        let of_c =
            "-quiet -imultiarch x86_64-linux-gnu -MD c.d -include hh.h -D_X c.c -quiet -dumpbase c.c -g -o /tmp/c.s";
        assert_eq!(source(of_c).unwrap(), "c.c");
        assert_eq!(source("t.F90 -cpp=/tmp/x.f90 -quiet t.F90 -o t.s").unwrap(), "t.F90");
        assert_eq!(source("-quiet - -dumpbase - -o x.s").unwrap(), "-");
        assert_eq!(source("-quiet -dumpbase c.c"), None);
    }

    #[test]
    fn dependencies_are_written_once() {
        let left = without_dependencies(&words("-quiet -MD c.d -MP -MQ c.o c.c -o c.s"));
        assert_eq!(left, words("-quiet c.c -o c.s"));
    }
}
