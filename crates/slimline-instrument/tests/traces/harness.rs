//! Compiles a program with and without tracing, runs both, and counts what the trace says.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use object::{Object as _, ObjectSection as _};
use slimline_instrument::driver::{self, Language};
use slimline_instrument::rewrite::{OwnAllocator, OwnAllocators};
use slimline_trace::stream::record::Header;
use slimline_trace::stream::sites::{Module, ModuleId, SECTION, Segment, Site, SiteKind};
use tempfile::TempDir;

/// One site's execution: its words.
pub(crate) struct Execution {
    pub(crate) module: usize,
    pub(crate) site: usize,
    pub(crate) words: Vec<u64>,
}

/// What a traced program did.
pub(crate) struct Trace {
    pub(crate) modules: Vec<(ModuleId, Module)>,
    /// All threads' executions, one thread after the other.
    pub(crate) executions: Vec<Execution>,
    pub(crate) threads: usize,
    pub(crate) output: Output,
    /// Keeps the program, for what a test wants to do besides.
    pub(crate) directory: TempDir,
}

/// The archive that programs of tests are linked with.
pub(crate) fn runtime() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/runtime.c");
        let object = directory.path().join("runtime.o");
        let archive = directory.path().join("runtime.a");
        run(Command::new(clang()).args(["-O2", "-fPIC", "-Wall", "-c", "-o"]).arg(&object).arg(source));
        run(Command::new("ar").arg("rcs").arg(&archive).arg(object));
        std::fs::read(archive).unwrap()
    })
}

/// The compiler that the driver would take.
pub(crate) fn clang() -> OsString {
    std::env::var_os(driver::CLANG_VARIABLE).unwrap_or_else(|| "clang-19".into())
}

/// Runs what must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Compiles and links these sources (name, text) traced and as they are, runs both, and checks that they do the same.
pub(crate) fn trace_files(sources: &[(&str, &str)], options: &[&str]) -> Trace {
    trace_with(sources, options, Vec::new())
}

/// The same of a program with allocators of its own.
pub(crate) fn trace_with(sources: &[(&str, &str)], options: &[&str], own: Vec<OwnAllocator>) -> Trace {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let mut files = Vec::new();
    for (name, text) in sources {
        std::fs::write(place(name), text).unwrap();
        files.push(place(name));
    }
    let is_c = sources.iter().all(|(name, _)| name.ends_with(".c"));
    let language = if is_c { Language::C } else { Language::CPlusPlus };
    let arguments = |program: &Path| {
        let options = options.iter().map(OsString::from);
        options.chain(files.iter().map(OsString::from)).chain(["-o".into(), program.into()]).collect::<Vec<_>>()
    };
    let (plain, traced) = (place("plain"), place("traced"));
    let mode = if is_c { "--driver-mode=gcc" } else { "--driver-mode=g++" };
    run(Command::new(clang()).arg(mode).args(arguments(&plain)));
    let allocators = OwnAllocators { functions: own, ..OwnAllocators::default() };
    let status = driver::compile(language, &arguments(&traced), runtime(), allocators);
    let status = status.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status, 0);
    let expected = Command::new(&plain).output().unwrap();
    let closed = Command::new(&traced).env("UNTRACED", "").env("TRACE", place("untraced")).output().unwrap();
    assert_eq!((closed.status, &closed.stdout), (expected.status, &expected.stdout));
    // Whoever opens and closes the gate meanwhile changes nothing but what is traced.
    let flipped = Command::new(&traced).env("FLIP", "").env("TRACE", place("flipped")).output().unwrap();
    assert_eq!((flipped.status, &flipped.stdout), (expected.status, &expected.stdout));
    let trace = run_traced(directory, &traced);
    assert!(!trace.directory.path().join("untraced.0").exists(), "nothing is written while the gate is closed");
    assert_eq!(trace.output.status, expected.status, "{}", String::from_utf8_lossy(&trace.output.stderr));
    assert_eq!(String::from_utf8_lossy(&trace.output.stdout), String::from_utf8_lossy(&expected.stdout));
    trace
}

/// [`trace_files`] of one C file.
pub(crate) fn trace_c(source: &str, options: &[&str]) -> Trace {
    trace_files(&[("program.c", source)], options)
}

/// [`trace_files`] of one C++ file.
pub(crate) fn trace_cpp(source: &str, options: &[&str]) -> Trace {
    trace_files(&[("program.cpp", source)], options)
}

/// Runs a traced program and reads what it wrote.
pub(crate) fn run_traced(directory: TempDir, program: &Path) -> Trace {
    let output = Command::new(program).env("TRACE", directory.path().join("trace")).output().unwrap();
    let mut modules = tables(program);
    modules.push(Module::of_runtime());
    let mut trace = Trace { modules, executions: Vec::new(), threads: 0, output, directory };
    while let Ok(bytes) = std::fs::read(trace.directory.path().join(format!("trace.{}", trace.threads))) {
        let words: Vec<_> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        trace.walk(&words);
        trace.threads += 1;
    }
    trace
}

/// The site tables in an executable.
pub(crate) fn tables(program: &Path) -> Vec<(ModuleId, Module)> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(SECTION).map(|section| section.data().unwrap()).unwrap_or_default();
    Module::read_section(section).unwrap()
}

impl Trace {
    fn walk(&mut self, mut words: &[u64]) {
        while let Some((first, rest)) = words.split_first() {
            let header = Header::from_word(*first).expect("a header where one must be");
            let module = self.modules.iter().position(|(id, _)| *id == header.module()).expect("a known module");
            let table = &self.modules[module].1;
            let segment = table.segments[header.segment() as usize];
            let (own, rest) = rest.split_at(segment.words as usize);
            let before = |segment: &Segment| segment.continues.map(|number| table.segments[number as usize]);
            let mut path: Vec<_> = std::iter::successors(Some(segment), before).collect();
            path.reverse();
            let mut at = 0;
            for site in path.iter().flat_map(|segment| segment.first_site..segment.first_site + segment.sites) {
                let known = &table.sites[site as usize];
                let words = match known.relative {
                    Some(relative) => vec![own[relative.word as usize].wrapping_add_signed(relative.bytes.into())],
                    None => own[at..at + known.words()].to_vec(),
                };
                at += known.words();
                self.executions.push(Execution { module, site: site as usize, words });
            }
            words = rest;
        }
    }

    pub(crate) fn site(&self, execution: &Execution) -> &Site {
        &self.modules[execution.module].1.sites[execution.site]
    }

    /// The function that an execution's site was compiled into.
    pub(crate) fn linked(&self, execution: &Execution) -> &str {
        self.modules[execution.module].1.name(self.site(execution).function)
    }

    /// Executions of sites for which this holds, given names.
    pub(crate) fn count(&self, is_meant: impl Fn(Named<'_>) -> bool) -> usize {
        self.of(is_meant).count()
    }

    /// Words of executions of such sites.
    pub(crate) fn words(&self, is_meant: impl Fn(Named<'_>) -> bool) -> Vec<Vec<u64>> {
        self.of(is_meant).map(|execution| execution.words.clone()).collect()
    }

    fn of(&self, is_meant: impl Fn(Named<'_>) -> bool) -> impl Iterator<Item = &Execution> {
        self.executions.iter().filter(move |execution| is_meant(self.named(execution)))
    }

    fn named<'a>(&'a self, execution: &Execution) -> Named<'a> {
        let module = &self.modules[execution.module].1;
        let site = &module.sites[execution.site];
        let mut frames = module.frames_of(site);
        let inner = frames.next();
        Named {
            kind: site.kind,
            bytes: site.size_bytes,
            linked: module.name(site.function),
            function: inner.map(|frame| module.name(frame.function)).unwrap_or_default(),
            line: inner.map_or(0, |frame| frame.line),
            inlined_into: frames.last().map(|frame| module.name(frame.function)).unwrap_or_default(),
            variable: module.name(site.variable),
            structure: module.name(site.structure),
            field: module.name(site.field),
            detail: module.name(site.detail),
        }
    }
}

/// A site with its names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) kind: SiteKind,
    pub(crate) bytes: u32,
    pub(crate) linked: &'a str,
    pub(crate) function: &'a str,
    pub(crate) line: u32,
    pub(crate) inlined_into: &'a str,
    pub(crate) variable: &'a str,
    pub(crate) structure: &'a str,
    pub(crate) field: &'a str,
    pub(crate) detail: &'a str,
}

impl Named<'_> {
    pub(crate) fn is(&self, kind: SiteKind, function: &str) -> bool {
        self.kind == kind && self.function == function
    }
}
