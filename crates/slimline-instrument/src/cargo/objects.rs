//! Objects that rustc made, and those that take their place.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSection as _};

use super::archive::{self, Member};
use super::{CargoError, io_error};
use crate::llvm::{CodeLevel, Llvm, Module};
use crate::rewrite::{Origin, Told, rewrite_to_object};

/// How the names of objects of one crate's parts end.
const OBJECT: &str = ".rcgu.o";
/// Where rustc puts bitcode into objects that may be optimized together with others, before it was rewritten.
const FOR_LTO: &str = ".llvmbc";
const LIBLLVM_VARIABLE: &str = "SLIMLINE_LIBLLVM";
const LEVEL_VARIABLE: &str = "SLIMLINE_LEVEL";
const VALUES_VARIABLE: &str = "SLIMLINE_VALUES";

/// How objects are to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) libllvm: PathBuf,
    pub(super) level: CodeLevel,
    pub(super) told: Told,
}

impl Job {
    /// Leaves it to the tools that this program will start.
    pub(super) fn leave_to(&self, program: &mut Command) {
        program.env(LIBLLVM_VARIABLE, &self.libllvm).env(LEVEL_VARIABLE, (self.level as u8).to_string());
        program.env(VALUES_VARIABLE, if self.told.values { "1" } else { "" });
    }

    /// What was left; none where nothing is to be rewritten.
    pub(super) fn left() -> Option<Self> {
        let level = CodeLevel::parse(&env::var(LEVEL_VARIABLE).ok()?);
        let values = env::var_os(VALUES_VARIABLE).is_some_and(|value| !value.is_empty());
        Some(Self { libllvm: env::var_os(LIBLLVM_VARIABLE)?.into(), level, told: Told { values } })
    }
}

/// Makes objects of the bitcode that lies beside those of rustc.
pub(super) struct Objects {
    job: Job,
    /// Loaded once it is needed.
    llvm: Option<Llvm>,
}

impl Objects {
    pub(super) fn new(job: Job) -> Self {
        Self { job, llvm: None }
    }

    /// Puts another object in the place of this one, if rustc wrote bitcode of it. Whether it did.
    pub(super) fn replace(&mut self, object: &Path) -> Result<bool, CargoError> {
        let Some(name) = object.file_name().and_then(|name| name.to_str()) else { return Ok(false) };
        let directory = object.parent().unwrap_or(Path::new("."));
        let Some(bitcode) = self.bitcode(directory, name)? else { return Ok(false) };
        let bytes = fs::read(object).map_err(|error| io_error(object, error))?;
        self.make(&bitcode, &bytes, object)?;
        Ok(true)
    }

    /// The same of the members of an archive, whose bitcode is in this directory.
    pub(super) fn replace_members(&mut self, file: &Path, directory: &Path) -> Result<(), CargoError> {
        let failed = |reason: String| CargoError::Archive { archive: file.to_owned(), reason };
        let bytes = fs::read(file).map_err(|error| io_error(file, error))?;
        let mut members = archive::read(&bytes).map_err(|error| failed(error.to_string()))?;
        let [mut has_any, mut has_code] = [false; 2];
        let new = with_end(file, ".slimline");
        for Member { name, data } in &mut members {
            let Ok(name) = str::from_utf8(name) else { continue };
            has_code |= is_part(name);
            let Some(bitcode) = self.bitcode(directory, name)? else { continue };
            // The linker's turn came before, where rustc has made a shared library too.
            if is_instrumented(data) {
                has_code = false;
                continue;
            }
            self.make(&bitcode, data, &new)?;
            *data = fs::read(&new).map_err(|error| io_error(&new, error))?.into();
            has_any = true;
        }
        if has_any {
            let whole = archive::write(&members).ok_or_else(|| failed("would be larger than 4 GiB".to_owned()))?;
            fs::write(&new, whole).and_then(|()| fs::rename(&new, file)).map_err(|error| io_error(file, error))?;
        } else if has_code {
            return Err(CargoError::NoBitcode { made: file.to_owned() });
        }
        Ok(())
    }

    /// The bitcode of the object of this name: `crate-1f3a.part.rcgu.bc`, or `crate-1f3a.bc` where there is one part.
    fn bitcode(&mut self, directory: &Path, object: &str) -> Result<Option<PathBuf>, CargoError> {
        let Some(part) = object.strip_suffix(OBJECT) else { return Ok(None) };
        let numbered = directory.join(format!("{part}.rcgu.bc"));
        if numbered.is_file() {
            return Ok(Some(numbered));
        }
        let Some((stem, name)) = part.split_once('.') else { return Ok(None) };
        let whole = directory.join(format!("{stem}.bc"));
        if !whole.is_file() {
            return Ok(None);
        }
        // Objects besides it are of the compiler's own making, without bitcode. Incremental ones have one name more.
        let source = Module::read(self.llvm()?, &whole)?.source();
        let is_of_it = name.strip_prefix(&*source).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        Ok(is_of_it.then_some(whole))
    }

    /// Makes the object of this bitcode that takes the place of `old`.
    fn make(&mut self, bitcode: &Path, old: &[u8], object: &Path) -> Result<(), CargoError> {
        let Job { level, told, .. } = self.job;
        // What is in another's place must not be changed: incremental builds have links to it.
        let [new, held] = [".new", ".held"].map(|end| with_end(object, end));
        let origin = Origin { object: bitcode.with_extension("o").display().to_string(), ..Origin::default() };
        let for_lto = section(old, FOR_LTO);
        if let Some(content) = for_lto {
            fs::write(&held, content).map_err(|error| io_error(&held, error))?;
        }
        let finish = |module: &Module<'_>| {
            if for_lto.is_some() {
                module.hold(FOR_LTO, &held);
            }
        };
        let made = rewrite_to_object(self.llvm()?, bitcode, (&new, level), told, &origin, finish);
        if for_lto.is_some() {
            let _ = fs::remove_file(&held);
        }
        made.map_err(|error| CargoError::Rewrite { object: bitcode.with_extension("o"), error })?;
        fs::rename(&new, object).map_err(|error| io_error(object, error))
    }

    fn llvm(&mut self) -> Result<&Llvm, CargoError> {
        Ok(match &mut self.llvm {
            Some(llvm) => llvm,
            none => none.insert(Llvm::load(&self.job.libllvm)?),
        })
    }
}

/// Whether an object of this name is a part of a crate.
pub(super) fn is_part(object: &str) -> bool {
    object.ends_with(OBJECT)
}

/// Removes the bitcode of a crate whose files begin with `stem`.
pub(super) fn remove_bitcode(directory: &Path, stem: &str) {
    for file in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = file.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_prefix('.'));
        if rest.is_some_and(|rest| rest == "bc" || rest.ends_with(".rcgu.bc")) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn is_instrumented(object: &[u8]) -> bool {
    section(object, slimline_trace::stream::sites::SECTION).is_some()
}

/// What is in a section of an object.
fn section<'o>(object: &'o [u8], name: &str) -> Option<&'o [u8]> {
    object::File::parse(object).ok()?.section_by_name(name)?.data().ok()
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitcode_of_one_crate_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let [gone, kept] = [
            &["a-1.bc", "a-1.a.5-cgu.0.rcgu.bc"][..],
            &["a-1.d", "a-12.bc", "a-1.bc.txt", "b-1.a.rcgu.bc", "a-1.a.5-cgu.0.rcgu.o"],
        ];
        for name in gone.iter().chain(kept) {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_bitcode(directory.path(), "a-1");
        assert!(gone.iter().all(|name| !directory.path().join(name).exists()));
        assert!(kept.iter().all(|name| directory.path().join(name).exists()));
    }
}
