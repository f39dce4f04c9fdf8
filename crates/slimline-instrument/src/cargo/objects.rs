//! Objects that rustc made, and those that take their place.

use std::env;
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};

use super::archive::{self, Member};
use super::scratch::Signal;
use super::{CargoError, io_error, scratch};
use crate::llvm::{CodeLevel, Llvm, Module};
use crate::rewrite::{Origin, OwnAllocators, Told, rewrite_to_object};

/// How the names of objects of one crate's parts end.
const OBJECT: &str = ".rcgu.o";
/// Where rustc puts bitcode into objects that may be optimized together with others, before it was rewritten.
const FOR_LTO: &str = ".llvmbc";
const LIBLLVM_VARIABLE: &str = "SLIMLINE_LIBLLVM";
const LEVEL_VARIABLE: &str = "SLIMLINE_LEVEL";
const VALUES_VARIABLE: &str = "SLIMLINE_VALUES";

/// How objects are to be made.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) libllvm: PathBuf,
    pub(super) level: CodeLevel,
    pub(super) told: Told,
    /// Where what is made in between is.
    pub(super) scratch: PathBuf,
}

impl Job {
    /// Leaves it to the tools that this program will start.
    pub(super) fn leave_to(&self, program: &mut Command) {
        program.env(LIBLLVM_VARIABLE, &self.libllvm).env(LEVEL_VARIABLE, (self.level as u8).to_string());
        program.env(VALUES_VARIABLE, if self.told.values { "1" } else { "" });
        scratch::leave(&self.scratch, program);
    }

    /// What was left; none where nothing is to be rewritten.
    pub(super) fn left(allocators: &OwnAllocators) -> Option<Self> {
        let level = CodeLevel::parse(&env::var(LEVEL_VARIABLE).ok()?);
        let values = env::var_os(VALUES_VARIABLE).is_some_and(|value| !value.is_empty());
        let libllvm = env::var_os(LIBLLVM_VARIABLE)?.into();
        Some(Self { libllvm, level, told: Told { values, allocators: allocators.clone() }, scratch: scratch::left()? })
    }
}

/// How many parts of a crate are traced, and how many can't be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    pub(super) traced: usize,
    pub(super) untraced: usize,
}

impl Parts {
    /// Reads what was written as text, if it is whole.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (traced, untraced) = text.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { traced: traced.parse().ok()?, untraced: untraced.parse().ok()? })
    }

    /// Whether nothing is traced of what has code.
    pub(super) fn lack_all(self) -> bool {
        self.traced == 0 && self.untraced > 0
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} {}", self.traced, self.untraced)
    }
}

impl AddAssign<Outcome> for Parts {
    fn add_assign(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Traced => self.traced += 1,
            Outcome::NoBitcode => self.untraced += 1,
            Outcome::NotOurs => {}
        }
    }
}

/// What became of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It is traced, now or since the linker's turn.
    Traced,
    /// It is a part of the crate, and rustc wrote no bitcode of it.
    NoBitcode,
    /// It is no part of the crate, or none that has code of the program's.
    NotOurs,
}

/// Makes objects of the bitcode that lies beside those of rustc.
pub(super) struct Objects {
    job: Job,
    signal: Signal,
    /// Loaded once it is needed.
    llvm: Option<Llvm>,
}

impl Objects {
    pub(super) fn new(job: Job, signal: Signal) -> Self {
        Self { job, signal, llvm: None }
    }

    /// Puts another object in the place of this one, if rustc wrote bitcode of it.
    pub(super) fn replace(&mut self, object: &Path) -> Result<Outcome, CargoError> {
        let Some(name) = object.file_name().and_then(|name| name.to_str()) else { return Ok(Outcome::NotOurs) };
        let directory = object.parent().unwrap_or(Path::new("."));
        let bytes = fs::read(object).map_err(|error| io_error(object, error))?;
        let Some(bitcode) = self.bitcode(directory, name)? else { return Ok(without_bitcode(&bytes)) };
        let new = self.make(&bitcode, &bytes)?;
        fs::rename(&new, object).map_err(|error| io_error(object, error))?;
        Ok(Outcome::Traced)
    }

    /// The same of the members of an archive that are parts of the crate whose files begin with `stem`, and whose bitcode is
    /// beside it. Archives for other languages have the parts of all crates. Nothing changes where a signal comes.
    pub(super) fn replace_members(&mut self, file: &Path, stem: &str) -> Result<Parts, CargoError> {
        let failed = |reason: String| CargoError::Archive { archive: file.to_owned(), reason };
        let directory = file.parent().unwrap_or(Path::new("."));
        let bytes = fs::read(file).map_err(|error| io_error(file, error))?;
        let mut members = archive::read(&bytes).map_err(|error| failed(error.to_string()))?;
        let mut parts = Parts::default();
        let mut has_any = false;
        for Member { name, data } in &mut members {
            let Ok(name) = str::from_utf8(name) else { continue };
            let is_ours = is_part(name) && name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
            if !is_ours {
                continue;
            }
            if self.signal.ended().is_some() {
                return Ok(Parts::default());
            }
            // The linker's turn came before, where rustc has made a shared library too.
            if is_instrumented(data) {
                parts += Outcome::Traced;
                continue;
            }
            let Some(bitcode) = self.bitcode(directory, name)? else {
                parts += without_bitcode(data);
                continue;
            };
            let new = self.make(&bitcode, data)?;
            *data = fs::read(&new).map_err(|error| io_error(&new, error))?.into();
            parts += Outcome::Traced;
            has_any = true;
        }
        if parts.lack_all() {
            return Err(CargoError::NoBitcode { made: file.to_owned() });
        }
        if has_any {
            let whole = archive::write(&members).ok_or_else(|| failed("would be larger than 4 GiB".to_owned()))?;
            let new = self.job.scratch.join("archive");
            fs::write(&new, whole).and_then(|()| fs::rename(&new, file)).map_err(|error| io_error(file, error))?;
        }
        Ok(parts)
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

    /// Makes the object of this bitcode that is to take the place of `old`: what is in another's place must not be changed,
    /// incremental builds have links to it.
    fn make(&mut self, bitcode: &Path, old: &[u8]) -> Result<PathBuf, CargoError> {
        let [new, held] = ["new", "held"].map(|name| self.job.scratch.join(name));
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
        let llvm = match &mut self.llvm {
            Some(llvm) => llvm,
            none => none.insert(Llvm::load(&self.job.libllvm)?),
        };
        let done = rewrite_to_object(llvm, bitcode, (&new, self.job.level), &self.job.told, &origin, finish)
            .map_err(|error| CargoError::Rewrite { object: bitcode.with_extension("o"), error })?;
        for remark in done.remarks() {
            scratch::remark(&self.job.scratch, &remark)?;
        }
        Ok(new)
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

/// What an object is of which there is no bitcode: rustc makes some by itself, that hand allocations on and nothing else.
fn without_bitcode(object: &[u8]) -> Outcome {
    let Ok(file) = object::File::parse(object) else { return Outcome::NoBitcode };
    let has_code = file.sections().any(|section| section.kind() == SectionKind::Text && section.size() > 0);
    let mut defined = file.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition());
    let is_for_allocations = |name: &str| name.starts_with("__rust") || name.contains("__rustc");
    let is_rustc_s = defined.all(|symbol| symbol.name().is_ok_and(is_for_allocations));
    if has_code && !is_rustc_s { Outcome::NoBitcode } else { Outcome::NotOurs }
}

fn is_instrumented(object: &[u8]) -> bool {
    section(object, slimline_trace::stream::sites::SECTION).is_some()
}

/// What is in a section of an object.
fn section<'o>(object: &'o [u8], name: &str) -> Option<&'o [u8]> {
    object::File::parse(object).ok()?.section_by_name(name)?.data().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The object of this C source.
    fn object(source: &str) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let [c, o] = ["a.c", "a.o"].map(|name| directory.path().join(name));
        fs::write(&c, source).unwrap();
        assert!(Command::new("cc").arg("-c").arg(&c).arg("-o").arg(&o).status().unwrap().success());
        fs::read(o).unwrap()
    }

    #[test]
    fn objects_of_rustc_s_own_making_are_not_missed() {
        let shim =
            "void *__rdl_alloc(long); void *__rust_alloc(long n) { return __rdl_alloc(n); } char __rust_no_alloc_shim;";
        assert_eq!(without_bitcode(&object(shim)), Outcome::NotOurs);
        assert_eq!(without_bitcode(&object("void _RNvCs1_7___rustc12___rust_alloc(void) {}")), Outcome::NotOurs);
        assert_eq!(without_bitcode(&object("int table[3] = {1};")), Outcome::NotOurs);
        assert_eq!(
            without_bitcode(&object("void __rust_alloc(void) {} int add(int a) { return a + 1; }")),
            Outcome::NoBitcode
        );
        assert_eq!(without_bitcode(b"BC\xc0\xde"), Outcome::NoBitcode);
    }

    #[test]
    fn parts_without_bitcode_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let scratch = place("scratch");
        fs::create_dir(&scratch).unwrap();
        let [plain, shim] = [object("int one(void) { return 1; }"), object("void __rust_alloc(void) {}")];
        // The linker's turn came before.
        let traced = object("__attribute__((section(\"slimline_sites\"))) char s; int two(void) { return 2; }");
        let told = Told::default();
        let job = Job { libllvm: place("none"), level: CodeLevel::Most, told, scratch };
        let mut objects = Objects::new(job.clone(), Signal::default());
        let mut parts = |members: &[(&'static str, &Vec<u8>)]| {
            let members =
                members.iter().map(|(name, data)| Member { name: name.as_bytes().into(), data: (&***data).into() });
            let file = place("liba-1.a");
            fs::write(&file, archive::write(&members.collect::<Vec<_>>()).unwrap()).unwrap();
            objects.replace_members(&file, "a-1")
        };
        let others = [("std-2.std.5-cgu.0.rcgu.o", &plain), ("lib.rmeta", &plain), ("a-1.6g1.rcgu.o", &shim)];
        assert_eq!(parts(&others).unwrap(), Parts::default());
        let [first, second, third] = ["a-1.a.5-cgu.0.rcgu.o", "a-1.a.5-cgu.1.rcgu.o", "a-1.a.5-cgu.2.rcgu.o"];
        let some = [others[0], (first, &traced), (second, &plain), (third, &plain), others[2]];
        assert_eq!(parts(&some).unwrap(), Parts { traced: 1, untraced: 2 });
        assert!(matches!(parts(&[(second, &plain), others[2]]), Err(CargoError::NoBitcode { .. })));
        assert_eq!(objects.replace(&place("liba-1.a")).unwrap(), Outcome::NoBitcode);
        // On Ctrl-C no part is looked at any more.
        let mut ended = Objects::new(job, Signal::came(2));
        assert_eq!(ended.replace_members(&place("liba-1.a"), "a-1").unwrap(), Parts::default());
    }
}
