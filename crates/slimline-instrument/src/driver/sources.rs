//! What clang is given in place of sources that have directives ([`crate::directives`]): an overlay of its file system.
//!
//! Which files a compilation reads is what its preprocessor says. Those of them that have directives are rewritten, and lie over
//! what is on disk, by its name, size and time. What comes through standard input is rewritten on its way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fortran::{Copy, copy};
use super::jobs::Job;
use super::prepared::{Prepared, read_input, run};
use super::{DriverError, io_error};
use crate::directives::c::{definitions, rewritten, rewritten_preprocessed};
use crate::directives::fortran::Lines;

/// What the source of a job is.
struct Language {
    is_cpp: bool,
    is_preprocessed: bool,
}

impl Language {
    /// None of those that have no such directives.
    fn of(job: &Job) -> Option<Self> {
        let (is_cpp, is_preprocessed) = match job.after("-x")?.as_bytes() {
            b"c" | b"c-header" => (false, false),
            b"c++" | b"c++-header" => (true, false),
            b"cpp-output" => (false, true),
            b"c++-cpp-output" => (true, true),
            _ => return None,
        };
        Some(Self { is_cpp, is_preprocessed })
    }

    fn rewritten(&self, text: &[u8], name: &OsStr) -> Option<Vec<u8>> {
        match self.is_preprocessed {
            true => rewritten_preprocessed(text, self.is_cpp, &name.to_string_lossy()),
            false => rewritten(text),
        }
    }
}

/// The job with calls in the place of directives. What it needs lies in `directory`, under names that begin with `number`.
pub(super) fn prepared(job: &Job, directory: &Path, number: usize) -> Result<Prepared, DriverError> {
    let mut prepared = Prepared::of(job.clone());
    if job.is_fortran() {
        of_fortran(&mut prepared, &directory.join(format!("{number}.source")))?;
        return Ok(prepared);
    }
    let (Some(language), Some(source)) = (Language::of(job), job.arguments.last()) else { return Ok(prepared) };
    let mut has_directives = false;
    if source == "-" {
        prepared.input = Some(read_input().map_err(|error| io_error(Path::new("standard input"), error))?);
    }
    let files = match language.is_preprocessed {
        true => vec![PathBuf::from(source)],
        false => files_of(&prepared, &directory.join(format!("{number}.d")))?,
    };
    if let Some(changed) = prepared.input.as_deref().and_then(|text| language.rewritten(text, OsStr::new("<stdin>"))) {
        prepared.input = Some(changed);
        has_directives = true;
    }
    let mut overlay = Vec::new();
    // A file that has several names stays one, which is included once.
    let mut copies: HashMap<PathBuf, Option<PathBuf>> = HashMap::new();
    for file in files {
        // What is no file now is the compiler's to say.
        let (Ok(one), Ok(text)) = (file.canonicalize(), fs::read(&file)) else { continue };
        let number_of_copy = copies.len();
        let copy = match copies.entry(one) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let changed = language.rewritten(&text, file.as_os_str());
                let copy = changed.map(|changed| {
                    let copy = directory.join(format!("{number}.{number_of_copy}.source"));
                    write_as(&copy, &changed, &file).map(|()| copy.clone()).map_err(|error| io_error(&copy, error))
                });
                new.insert(copy.transpose()?).clone()
            }
        };
        if let Some(copy) = copy {
            overlay.push((std::path::absolute(&file).map_err(|error| io_error(&file, error))?, copy));
        }
    }
    let mut ours: Vec<OsString> = Vec::new();
    if !overlay.is_empty() {
        let file = directory.join(format!("{number}.yaml"));
        fs::write(&file, yaml(&overlay)).map_err(|error| io_error(&file, error))?;
        ours.extend(["-ivfsoverlay".into(), file.into()]);
    }
    // Who uses a precompiled header has to define what it has defined.
    let is_precompiled = job.has("-emit-pch") || job.has("-include-pch");
    if is_precompiled {
        ours.push("-Wno-pch-vfs-diff".into());
    }
    if (has_directives || !overlay.is_empty() || is_precompiled) && !language.is_preprocessed {
        for (name, body) in definitions(language.is_cpp) {
            ours.extend(["-D".into(), format!("{name}={body}").into()]);
        }
    }
    prepared.job.arguments.splice(1..1, ours);
    Ok(prepared)
}

fn of_fortran(prepared: &mut Prepared, directory: &Path) -> Result<(), DriverError> {
    let Some((source, options)) = prepared.job.arguments.split_last_mut() else { return Ok(()) };
    let copied = copy(Path::new(source), options, Lines::Once, directory);
    match copied.map_err(|error| io_error(directory, error))? {
        Copy::None => {}
        Copy::Wrong(mistake) => prepared.mistake = Some(mistake),
        Copy::At(copy, beside) => {
            prepared.copy = Some((copy.clone(), std::mem::replace(source, copy.into()).into()));
            prepared.job.arguments.insert(1, beside);
        }
    }
    Ok(())
}

/// All files that a compilation reads. None where it can't be preprocessed: it will say why.
fn files_of(prepared: &Prepared, list: &Path) -> Result<Vec<PathBuf>, DriverError> {
    let job = &prepared.job;
    let mut arguments = Vec::with_capacity(job.arguments.len());
    let mut given = job.arguments.iter();
    while let Some(argument) = given.next() {
        match argument.as_bytes() {
            b"-emit-obj" | b"-S" | b"-emit-pch" | b"-E" | b"-fsyntax-only" => arguments.push("-Eonly".into()),
            b"-o" | b"-dependency-file" | b"-MT" | b"-header-include-file" | b"-serialize-diagnostic-file" => {
                given.next();
            }
            b"-H" | b"-MP" | b"-MG" | b"-sys-header-deps" => {}
            _ => arguments.push(argument.clone()),
        }
    }
    let ours: [&OsStr; 5] =
        ["-dependency-file".as_ref(), list.as_os_str(), "-MT".as_ref(), TARGET.as_ref(), "-sys-header-deps".as_ref()];
    arguments.splice(1..1, ours.map(OsStr::to_owned));
    let mut command = Command::new(&job.program);
    command.args(&arguments).stdout(Stdio::null()).stderr(Stdio::null());
    run(&mut command, prepared.input.as_deref()).map_err(|error| io_error(&job.program, error))?;
    Ok(fs::read(list).map(|text| dependencies(&text)).unwrap_or_default())
}

/// What the list of dependencies is of.
const TARGET: &str = "x";

/// The files of a list that is written for `make`.
fn dependencies(text: &[u8]) -> Vec<PathBuf> {
    let text = text.strip_prefix(b"x:").unwrap_or_default();
    let mut files = Vec::new();
    let mut file = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escapes = text[at..].iter().take_while(|byte| **byte == b'\\').count();
        let escaped = text.get(at + escapes).copied();
        at += 1;
        match byte {
            b'\\' if matches!(escaped, Some(b' ' | b'#')) => {
                file.extend(std::iter::repeat_n(b'\\', escapes / 2));
                at += escapes - 1;
                if escapes % 2 == 1 {
                    file.extend(escaped);
                    at += 1;
                }
            }
            b'\\' if escaped == Some(b'\n') => {}
            b'$' if text.get(at) == Some(&b'$') => {
                file.push(b'$');
                at += 1;
            }
            b' ' | b'\n' => files.extend(named(&mut file)),
            _ => file.push(byte),
        }
    }
    files.extend(named(&mut file));
    files
}

/// The file of that name, which becomes empty; none where it is.
fn named(name: &mut Vec<u8>) -> Option<PathBuf> {
    (!name.is_empty()).then(|| OsString::from_vec(std::mem::take(name)).into())
}

/// Writes a file that is as old as another.
fn write_as(path: &Path, text: &[u8], old: &Path) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text)?;
    file.set_modified(fs::metadata(old)?.modified()?)
}

/// Files, each with what is read in its place, as `-ivfsoverlay` takes them. Messages and debug information name the files.
fn yaml(overlay: &[(PathBuf, PathBuf)]) -> Vec<u8> {
    let mut text =
        b"{\"version\": 0, \"case-sensitive\": \"true\", \"use-external-names\": \"false\", \"roots\": [".to_vec();
    for (number, (file, contents)) in overlay.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        text.extend(b"\n{\"type\": \"file\", \"name\": ");
        quote(&mut text, file.as_os_str());
        text.extend(b", \"external-contents\": ");
        quote(&mut text, contents.as_os_str());
        text.push(b'}');
    }
    text.extend(b"\n]}\n");
    text
}

/// Adds a string.
fn quote(text: &mut Vec<u8>, value: &OsStr) {
    text.push(b'"');
    for &byte in value.as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', byte]),
            0..0x20 | 0x7f => text.extend(format!("\\x{byte:02x}").bytes()),
            _ => text.push(byte),
        }
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_as_make_does() {
        let files = |text: &str| dependencies(text.as_bytes());
        assert_eq!(files("x: a.c \\\n  sub/b.h /usr/c.h\n"), ["a.c", "sub/b.h", "/usr/c.h"].map(PathBuf::from));
        assert_eq!(files("x: a\\ b\\#c$$d.h e\\f.h"), ["a b#c$d.h", "e\\f.h"].map(PathBuf::from));
        assert_eq!(files("x: a\\\\\\ b"), [PathBuf::from("a\\ b")]);
        assert_eq!(files(""), Vec::<PathBuf>::new());
    }

    #[test]
    fn names_are_quoted() {
        let text = yaml(&[("/a \"b\"\\c\n.h".into(), "/t/0".into()), ("/d".into(), "/t/1".into())]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(r#""name": "/a \"b\"\\c\x0a.h", "external-contents": "/t/0"},"#), "{text}");
        assert!(text.ends_with("\"name\": \"/d\", \"external-contents\": \"/t/1\"}\n]}\n"), "{text}");
    }
}
