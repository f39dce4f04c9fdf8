//! What a Fortran compiler is given in place of a source that has directives ([`crate::directives::fortran`]): a copy whose lines are
//! numbered as the source's.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::directives::fortran::{Form, Lines, rewritten};

/// What is compiled in place of a source.
pub(crate) enum Copy {
    /// Itself: it has no directives.
    None,
    /// This file, with an option by which files are found that it includes.
    At(PathBuf, OsString),
    /// Nothing: what is wrong, as compilers say it.
    Wrong(String),
}

/// Makes a copy in a directory that is there for it, where the source has directives.
pub(crate) fn copy(source: &Path, options: &[OsString], lines: Lines, directory: &Path) -> io::Result<Copy> {
    // What is no file now is the compiler's to say.
    let Ok(text) = fs::read(source) else { return Ok(Copy::None) };
    let form = Form::of(options.iter().filter_map(|option| option.to_str()), source);
    match rewritten(&text, (form, lines), source.as_os_str().as_bytes()) {
        Ok(None) => Ok(Copy::None),
        Err(mistakes) => {
            let lines = mistakes.iter().map(|mistake| format!("{}:{mistake}", source.display()));
            Ok(Copy::Wrong(lines.collect::<Vec<_>>().join("\n")))
        }
        Ok(Some(changed)) => {
            fs::create_dir_all(directory)?;
            let copy = directory.join(source.file_name().unwrap_or(OsStr::new("source.f90")));
            fs::write(&copy, changed)?;
            let mut beside = OsString::from("-I");
            beside.push(source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")));
            Ok(Copy::At(copy, beside))
        }
    }
}
