//! What `clang -###` or `flang -###` says that it would run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::SHORT_NAMES;

/// One program that the compiler would start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
}

/// What a job is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Code is made of a source: an object or assembly.
    Compile,
    /// A source is preprocessed or checked, or a header precompiled.
    Read,
    /// A program or a shared object is linked.
    Link,
    /// Anything else: assembling, asking.
    Other,
}

/// Everything that `-###` had it say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Said {
    /// `… clang version 19.1.7 …`.
    pub(super) version: String,
    pub(super) jobs: Vec<Job>,
    /// Warnings about the command line, which the jobs do not repeat.
    pub(super) warnings: Vec<String>,
}

/// What precedes the compiler's version.
const VERSIONS: [&str; 3] = ["clang version ", "flang version ", "flang-new version "];
/// Those of flang's options that code generation needs.
const FOR_CODE: [&str; 3] = ["-emit-obj", "-S", "-pic-is-pie"];
/// How others of these begin.
const BEGINNINGS_FOR_CODE: [&str; 6] =
    ["-O", "-mframe-pointer=", "-mcmodel=", "-mlarge-data-threshold=", "-ffunction-sections", "-fdata-sections"];
/// Those whose value is the next argument.
const FOR_CODE_WITH_VALUE: [&str; 8] =
    ["-triple", "-mrelocation-model", "-pic-level", "-target-cpu", "-tune-cpu", "-target-feature", "-mllvm", "-o"];

impl Said {
    /// Reads what the compiler wrote to standard error.
    pub(super) fn parse(mut text: &[u8]) -> Self {
        let mut said = Self::default();
        while !text.is_empty() {
            if text.starts_with(b" \"") {
                let (words, rest) = quoted_words(text);
                let mut words = words.into_iter();
                if let Some(program) = words.next() {
                    said.jobs.push(Job { program: program.into(), arguments: words.collect() });
                }
                text = rest;
                continue;
            }
            let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
            let line = String::from_utf8_lossy(&text[..end]);
            if VERSIONS.iter().any(|version| line.contains(version)) && said.version.is_empty() {
                said.version = line.trim().to_owned();
            } else if [": warning: ", ": error: ", ": note: "].iter().any(|mark| line.contains(mark)) {
                said.warnings.push(line.into_owned());
            }
            text = text.get(end + 1..).unwrap_or_default();
        }
        said
    }
}

/// The words up to the end of the line, each in quotes with `\`, `"` and `$` behind a backslash; and what comes after.
fn quoted_words(text: &[u8]) -> (Vec<OsString>, &[u8]) {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut is_quoted = false;
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => {
                if is_quoted {
                    words.push(OsString::from_vec(std::mem::take(&mut word)));
                }
                is_quoted = !is_quoted;
            }
            b'\\' if is_quoted => word.extend(bytes.next().map(|(_, escaped)| *escaped)),
            b'\n' if !is_quoted => return (words, &text[at + 1..]),
            _ if is_quoted => word.push(byte),
            _ => {}
        }
    }
    (words, &[])
}

impl Job {
    pub(crate) fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|given| given == argument)
    }

    /// The first argument that begins so.
    pub(crate) fn beginning(&self, prefix: &str) -> Option<&OsStr> {
        self.arguments.iter().map(OsString::as_os_str).find(|given| given.as_bytes().starts_with(prefix.as_bytes()))
    }

    /// The argument after this one.
    pub(crate) fn after(&self, argument: &str) -> Option<&OsStr> {
        let at = self.arguments.iter().rposition(|given| given == argument)?;
        self.arguments.get(at + 1).map(OsString::as_os_str)
    }

    /// Whether it reads Fortran.
    pub(super) fn is_fortran(&self) -> bool {
        self.arguments.first().is_some_and(|first| first == FLANG)
    }

    pub(super) fn purpose(&self) -> Purpose {
        let first = self.arguments.first().map(|first| first.to_string_lossy().into_owned()).unwrap_or_default();
        if ["-cc1", FLANG].contains(&&*first) {
            return match self.has("-emit-obj") || self.has("-S") {
                true => Purpose::Compile,
                false if ["-E", "-emit-pch", "-fsyntax-only"].iter().any(|it| self.has(it)) => Purpose::Read,
                false => Purpose::Other,
            };
        }
        if !first.starts_with("-cc1") && is_linker(&self.program) && !self.has("-r") {
            return Purpose::Link;
        }
        Purpose::Other
    }

    /// The job that makes bitcode, optimized as it would be, where this one makes code.
    pub(super) fn to_bitcode(&self, bitcode: &Path) -> Self {
        let mut arguments = Vec::with_capacity(self.arguments.len());
        let mut given = self.arguments.iter();
        while let Some(argument) = given.next() {
            match argument.as_bytes() {
                b"-emit-obj" | b"-S" => arguments.push("-emit-llvm-bc".into()),
                // Names of values are often those of variables.
                b"-discard-value-names" => {}
                // Sites would have the names without arguments, too. A file of arguments may say it.
                name if name.starts_with(SHORT_NAMES.as_bytes()) => {}
                // What only code generation writes.
                b"-split-dwarf-output" | b"-stack-usage-file" => drop(given.next()),
                b"-o" => {
                    given.next();
                    arguments.extend([argument.clone(), bitcode.into()]);
                }
                _ => arguments.push(argument.clone()),
            }
        }
        Self { program: self.program.clone(), arguments }
    }

    /// The job that makes the code of such bitcode.
    pub(super) fn of_bitcode(&self, bitcode: &Path) -> Self {
        if self.is_fortran() {
            return self.of_flangs_bitcode(bitcode);
        }
        let mut arguments = Vec::with_capacity(self.arguments.len());
        // The source is the last argument, after `-x` and its language.
        let source = self.arguments.len().saturating_sub(1);
        let mut given = self.arguments[..source].iter();
        while let Some(argument) = given.next() {
            match argument.as_bytes() {
                b"-emit-obj" | b"-S" => arguments.extend([argument.clone(), "-disable-llvm-passes".into()]),
                // What the front end wrote already.
                b"-dependency-file" | b"-MT" | b"-header-include-file" | b"-include-pch" | b"-x" => drop(given.next()),
                b"-sys-header-deps" | b"-module-file-deps" | b"-MP" | b"-MG" | b"-H" => {}
                _ => arguments.push(argument.clone()),
            }
        }
        arguments.extend(["-x".into(), "ir".into(), bitcode.into()]);
        Self { program: self.program.clone(), arguments }
    }

    /// Flang optimizes whatever it makes code of; the clang beside it does not, if it is told.
    fn of_flangs_bitcode(&self, bitcode: &Path) -> Self {
        let mut arguments: Vec<OsString> = vec!["-cc1".into(), "-disable-llvm-passes".into()];
        let mut given = self.arguments.iter();
        while let Some(argument) = given.next() {
            let is = |known: &&str| argument == *known;
            let is_for_code = |text: &str| BEGINNINGS_FOR_CODE.iter().any(|known| text.starts_with(known));
            if FOR_CODE_WITH_VALUE.iter().any(is) {
                arguments.push(argument.clone());
                arguments.extend(given.next().cloned());
            } else if FOR_CODE.iter().any(is) || argument.to_str().is_some_and(is_for_code) {
                arguments.push(argument.clone());
            }
        }
        arguments.extend(["-x".into(), "ir".into(), bitcode.into()]);
        Self { program: self.program.with_file_name("clang"), arguments }
    }

    /// Whether it links a program of which the runtime could not find what it calls. Shared objects find it where they are loaded.
    pub(crate) fn lacks_c_library(&self) -> bool {
        let is_c_library = |argument: &OsString| {
            let name = Path::new(argument).file_name().unwrap_or_default().as_bytes();
            name == b"-lc" || name == b"-l:libc.so.6" || name.starts_with(b"libc.so")
        };
        // What stands in a file of arguments is the linker's to find.
        self.beginning("@").is_none() && !self.has("-shared") && !self.arguments.iter().any(is_c_library)
    }

    /// The link with the runtime in it: after everything that needs it, before the libraries that it needs.
    pub(crate) fn with_runtime(&self, runtime: &Path) -> Self {
        let mut job = self.clone();
        let is_end = |argument: &OsString| {
            let name = Path::new(argument).file_name().unwrap_or_default().as_bytes();
            name.starts_with(b"crtend") && name.ends_with(b".o") || name == b"crtn.o"
        };
        let end = job.arguments.iter().position(is_end).unwrap_or(job.arguments.len());
        let is_of_driver = |argument: &OsString| argument.to_str().is_some_and(|it| DRIVERS_LIBRARIES.contains(&it));
        let at = job.arguments[..end].iter().rposition(|argument| !is_of_driver(argument)).map_or(0, |last| last + 1);
        let before = before_runtime(self.has("-shared")).iter().map(OsString::from);
        let ours = before.chain([runtime.into(), BEHIND_RUNTIME.into()]);
        job.arguments.splice(at..at, ours);
        job
    }
}

/// What is refused where [`Job::lacks_c_library`], of which the linker is not told, and why.
pub(crate) const WITHOUT_C_LIBRARY: (&str, &str) =
    ("-nostdlib or -nodefaultlibs", "the runtime needs the C library; link it too (-lc)");

/// What stands before the runtime's archive: it makes the linked-in runtime the process's only one. Where a program is linked with shared
/// objects that bring the runtime, too, nothing is missing that linkers would take from an archive, but each object's tables are told
/// by the runtime that is linked into it: so that is asked for.
pub(crate) fn before_runtime(is_shared: bool) -> &'static [&'static str] {
    match is_shared {
        // Threads that end call into the first copy of the runtime, also after the object was closed. Their words are the executable's.
        true => &["-z", "nodelete", "-u", "slimline_object", "--push-state", "--no-whole-archive"],
        // Shared objects that bring the runtime too must use the program's.
        false => &["--export-dynamic-symbol=__slimline_*", "--push-state", "--whole-archive"],
    }
}

/// What stands behind it.
pub(crate) const BEHIND_RUNTIME: &str = "--pop-state";

/// First argument of what makes code of Fortran.
const FLANG: &str = "-fc1";

/// What clang itself puts behind a program's own objects and libraries.
const DRIVERS_LIBRARIES: &[&str] = &[
    "-lc",
    "-lm",
    "-lgcc",
    "-lgcc_s",
    "-lgcc_eh",
    "-lpthread",
    "-lstdc++",
    "-lc++",
    "-lunwind",
    "-lgfortran",
    "-lFortranRuntime",
    "-lFortranDecimal",
    "-lflang_rt.runtime",
    "-lquadmath",
    "--push-state",
    "--pop-state",
    "--as-needed",
    "--no-as-needed",
    "--start-group",
    "--end-group",
];

/// Whether a program is a linker, by its name: `ld`, `ld.lld`, `x86_64-linux-gnu-ld.bfd`, `mold`.
fn is_linker(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.rsplit('-').next().unwrap_or_default();
    matches!(name, "ld" | "lld" | "mold" | "gold") || name.starts_with("ld.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &[u8] = br#"Debian clang version 19.1.7 (3~deb12u1)
Target: x86_64-pc-linux-gnu
clang: warning: argument unused during compilation: '-foo' [-Wunused-command-line-argument]
 (in-process)
 "/usr/lib/llvm-19/bin/clang" "-cc1" "-triple" "x86_64-pc-linux-gnu" "-emit-obj" "-discard-value-names" "-dependency-file" "a.d" "-MT" "a.o" "-D" "X=\"a b\"\\\$
c" "-o" "/work/a-1.o" "-x" "c" "a.c"
 "/usr/bin/ld" "-pie" "-dynamic-linker" "/lib64/ld-linux-x86-64.so.2" "-o" "a" "/work/a-1.o" "-lc" "/usr/lib/gcc/x86_64-linux-gnu/12/crtendS.o" "/lib/crtn.o"
"#;

    fn words(job: &Job) -> Vec<&str> {
        job.arguments.iter().map(|argument| argument.to_str().unwrap()).collect()
    }

    #[test]
    fn jobs_and_warnings_are_read() {
        let said = Said::parse(SAID);
        assert_eq!(said.version, "Debian clang version 19.1.7 (3~deb12u1)");
        assert_eq!(said.warnings.len(), 1);
        let [compile, link] = &said.jobs[..] else { panic!("{said:?}") };
        assert_eq!(compile.program, Path::new("/usr/lib/llvm-19/bin/clang"));
        assert_eq!(compile.after("-D").unwrap(), "X=\"a b\"\\$\nc");
        assert_eq!((compile.purpose(), link.purpose()), (Purpose::Compile, Purpose::Link));
        assert_eq!(Said::parse(b"\n \"unfinished").jobs, []);
    }

    #[test]
    fn a_compilation_becomes_two() {
        let said = Said::parse(SAID);
        let compile = &said.jobs[0];
        let to = compile.to_bitcode(Path::new("t.bc"));
        let expected =
            ["-cc1", "-triple", "x86_64-pc-linux-gnu", "-emit-llvm-bc", "-dependency-file", "a.d", "-MT", "a.o"];
        assert_eq!(words(&to)[..8], expected);
        assert_eq!(words(&to)[10..], ["-o", "t.bc", "-x", "c", "a.c"]);
        let of = compile.of_bitcode(Path::new("u.bc"));
        assert_eq!(words(&of)[3..6], ["-emit-obj", "-disable-llvm-passes", "-discard-value-names"]);
        assert_eq!(words(&of)[8..], ["-o", "/work/a-1.o", "-x", "ir", "u.bc"]);
    }

    #[test]
    fn clang_makes_the_code_of_flang_s_bitcode() {
        let said = br#"Debian flang-new version 19.1.7 (3~deb12u1)
 "/usr/lib/llvm-19/bin/flang-new" "-fc1" "-triple" "x86_64-pc-linux-gnu" "-emit-obj" "-mrelocation-model" "pic" "-pic-level" "2" "-pic-is-pie" "-target-cpu" "x86-64" "-mcmodel=medium" "-debug-info-kind=standalone" "-resource-dir" "/usr/lib/llvm-19/lib/clang/19" "-mframe-pointer=none" "-O2" "-o" "/work/a.o" "-x" "f95-cpp-input" "a.f90"
"#;
        let said = Said::parse(said);
        assert_eq!(said.version, "Debian flang-new version 19.1.7 (3~deb12u1)");
        let compile = &said.jobs[0];
        assert_eq!(compile.purpose(), Purpose::Compile);
        let to = compile.to_bitcode(Path::new("t.bc"));
        assert_eq!(
            (words(&to)[3], &words(&to)[17..]),
            ("-emit-llvm-bc", &["-o", "t.bc", "-x", "f95-cpp-input", "a.f90"][..])
        );
        let of = compile.of_bitcode(Path::new("u.bc"));
        assert_eq!(of.program, Path::new("/usr/lib/llvm-19/bin/clang"));
        let expected = "-cc1 -disable-llvm-passes -triple x86_64-pc-linux-gnu -emit-obj -mrelocation-model pic -pic-level 2 \
                        -pic-is-pie -target-cpu x86-64 -mcmodel=medium -mframe-pointer=none -O2 -o /work/a.o -x ir u.bc";
        assert_eq!(words(&of).join(" "), expected);
    }

    #[test]
    fn the_runtime_is_linked_before_the_end() {
        let said = Said::parse(SAID);
        let link = said.jobs[1].with_runtime(Path::new("r.a"));
        let expected =
            "/work/a-1.o --export-dynamic-symbol=__slimline_* --push-state --whole-archive r.a --pop-state -lc";
        assert_eq!(words(&link)[5..12].join(" "), expected);
        assert!(words(&link)[12].ends_with("crtendS.o"));
    }

    #[test]
    fn what_makes_no_code_is_told_apart() {
        let purpose = |arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from).collect();
            Job { program: "/usr/lib/llvm-19/bin/clang".into(), arguments }.purpose()
        };
        for read in ["-E", "-emit-pch", "-fsyntax-only"] {
            assert_eq!(purpose(&["-cc1", read]), Purpose::Read);
        }
        assert_eq!(purpose(&["-fc1", "-E"]), Purpose::Read);
        assert_eq!(purpose(&["-cc1", "-Eonly"]), Purpose::Other);
        assert_eq!(purpose(&["-cc1as"]), Purpose::Other);
    }

    #[test]
    fn linkers_by_name() {
        for name in ["/usr/bin/ld", "ld.lld", "/x/x86_64-linux-gnu-ld.bfd", "mold"] {
            assert!(is_linker(Path::new(name)), "{name}");
        }
        for name in ["as", "/usr/bin/llvm-objcopy", "clang", "old"] {
            assert!(!is_linker(Path::new(name)), "{name}");
        }
    }
}
