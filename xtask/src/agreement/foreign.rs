//! Programs that nobody here wrote, built with debug information from Debian's source packages into
//! `<target>/foreign`. Nothing of them enters the repository.
//!
//! Needs `apt-get` and the archives that this machine's own apt sources name; the system's configuration needs no
//! `deb-src`, and stays as it is. Elsewhere, `SLIMLINE_FOREIGN` names a directory with the finished executables.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::cases::{Case, Structure};
use crate::measure::{read, timed};
use crate::{setup, target_dir};

/// A program of Debian's with an input that keeps it busy for some seconds.
pub(super) struct Foreign {
    pub(super) name: &'static str,
    /// Debian's source package.
    package: &'static str,
    /// Shell words: the compiler with its options, and the source files in the unpacked package.
    compiler: &'static str,
    sources: &'static str,
    /// Text of the input file.
    input: fn() -> String,
    /// Arguments; `INPUT` stands for the input file.
    arguments: &'static [&'static str],
    skip: &'static [&'static str],
    structures: &'static [Allocated],
}

/// A structure, and where the program allocates it.
struct Allocated {
    name: &'static str,
    element_bytes: u64,
    /// Part of the oracle's name of the site: the function that really holds the call, others inlined into it.
    site: &'static str,
    /// The function as the source has it.
    function: &'static str,
    line: Option<u32>,
}

pub(super) const PROGRAMS: &[Foreign] = &[
    Foreign {
        name: "svm-train",
        package: "libsvm",
        compiler: "g++",
        sources: "svm.cpp svm-train.c",
        input: svm_problem,
        arguments: &["-q", "-m", "1", "INPUT", "/dev/null"],
        skip: &[],
        structures: &[Allocated {
            name: "svm_node",
            element_bytes: 16,
            site: "read_problem(char const*) svm-train.c",
            function: "read_problem",
            line: Some(316),
        }],
    },
    Foreign {
        name: "lua",
        package: "lua5.4",
        // Its hash seed is random otherwise, and with it the collisions: each run would have shares of its own.
        compiler: "gcc -DLUA_USE_POSIX '-Dluai_makeseed(L)=0x5eedu'",
        sources: "$(ls src/*.c | grep -v luac.c)",
        input: || LUA.to_owned(),
        arguments: &["INPUT"],
        skip: &["l_alloc", "luaM_malloc_", "luaM_realloc_", "luaM_saferealloc_", "luaC_newobj"],
        structures: &[
            Allocated { name: "Table", element_bytes: 56, site: "luaH_new ltable.c", function: "luaH_new", line: None },
            Allocated { name: "Node", element_bytes: 24, site: "ltable.c:490", function: "setnodevector", line: None },
            Allocated {
                name: "TValue",
                element_bytes: 16,
                site: "luaH_resize ltable.c:571",
                function: "luaH_resize",
                line: Some(571),
            },
            Allocated {
                name: "StackValue",
                element_bytes: 16,
                site: "lstate.c:183",
                function: "stack_init",
                line: None,
            },
        ],
    },
    Foreign {
        name: "bzip2",
        package: "bzip2",
        compiler: "gcc -D_FILE_OFFSET_BITS=64",
        sources: "blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c bzip2.c",
        input: || (0..12_000_000).map(|number: u32| format!("{number}\n")).collect(),
        arguments: &["-k", "-f", "INPUT"],
        skip: &["default_bzalloc"],
        structures: &[
            // One block: counters and arrays in it.
            Allocated {
                name: "EState",
                element_bytes: 55768,
                site: "BZ2_bzCompressInit bzlib.c:168",
                function: "BZ2_bzCompressInit",
                line: Some(168),
            },
            Allocated {
                name: "bzFile",
                element_bytes: 5104,
                site: "BZ2_bzWriteOpen bzlib.c",
                function: "BZ2_bzWriteOpen",
                line: None,
            },
        ],
    },
    Foreign {
        name: "mujs",
        package: "mujs",
        compiler: "gcc",
        sources: "one.c main.c",
        input: || JAVASCRIPT.to_owned(),
        arguments: &["INPUT"],
        skip: &["js_defaultalloc", "js_malloc", "js_realloc", "jsV_newobject"],
        structures: &[
            Allocated {
                name: "js_Property",
                element_bytes: 64,
                site: "jsproperty.c:33",
                function: "newproperty",
                line: None,
            },
            Allocated {
                name: "js_Object",
                element_bytes: 104,
                site: "js_newobject jsproperty.c:154",
                function: "js_newobject",
                line: None,
            },
            Allocated {
                name: "js_Value",
                element_bytes: 16,
                site: "js_newstate jsstate.c:315",
                function: "js_newstate",
                line: Some(315),
            },
            Allocated {
                name: "js_State",
                element_bytes: 19872,
                site: "js_newstate jsstate.c:298",
                function: "js_newstate",
                line: Some(298),
            },
        ],
    },
    Foreign {
        name: "picosat",
        package: "picosat",
        // What its configure writes; and its exit status, 20, is no failure.
        compiler: "gcc -DNDEBUG -DPICOSAT_VERSION='\"\"' -DPICOSAT_CC='\"\"' -DPICOSAT_CFLAGS='\"\"'",
        sources: "$(: >config.h; sed 's/return \\(.*\\);/\\1; return 0;/' main.c >start.c; echo start.c app.c picosat.c version.c)",
        input: satisfiability_problem,
        arguments: &["INPUT", "-o", "/dev/null"],
        skip: &["new", "resize"],
        structures: &[
            Allocated {
                name: "PicoSAT",
                element_bytes: 1232,
                site: "picosat.c:1188",
                function: "init",
                line: Some(1188),
            },
            Allocated {
                name: "Var",
                element_bytes: 16,
                site: "enlarge picosat.c:2917",
                function: "enlarge",
                line: Some(2917),
            },
        ],
    },
];

/// A linked list of objects walked through again and again.
const JAVASCRIPT: &str = r"
var points = [];
for (var i = 0; i < 20000; i++) points[i] = { x: i % 97, y: i % 89, mass: 1.5, next: null };
for (var i = 1; i < 20000; i++) points[i - 1].next = points[i];
var sum = 0;
for (var pass = 0; pass < 480; pass++)
  for (var p = points[0]; p; p = p.next) { sum = sum + p.x * p.mass; p.y = p.y + 1; }
print(sum, points[100].y);
";

const LUA: &str = r#"
local points = {}
for i = 1, 100000 do points[i] = { x = i % 97, y = i % 89, mass = 1.5, name = "p" .. i % 50 } end
local sum = 0
for pass = 1, 960 do
  for i = 1, #points do local p = points[i]; sum = sum + p.x * p.mass; p.y = p.y + 1 end
end
print(sum, points[100].y)
"#;

impl Foreign {
    /// Downloads and builds what isn't there yet.
    pub(super) fn case(&self) -> Result<Case> {
        let directory = target_dir()?.join("foreign");
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        // Named by what is in it: the oracle keeps its answers by the arguments.
        let text = (self.input)();
        let input = directory.join(format!("{}.{:016x}.input", self.name, hash(&text)));
        std::fs::write(&input, text).with_context(|| input.display().to_string())?;
        let argument = |word: &&str| if *word == "INPUT" { input.display().to_string() } else { (*word).to_owned() };
        Ok(Case {
            name: self.name.to_owned(),
            executable: self.executable(&directory).with_context(|| format!("getting {}", self.name))?,
            arguments: self.arguments.iter().map(argument).collect(),
            skip: self.skip,
            structures: self
                .structures
                .iter()
                .map(|allocated| Structure {
                    name: allocated.name.to_owned(),
                    site: allocated.site.to_owned(),
                    element_bytes: allocated.element_bytes,
                    start: 0,
                    function: allocated.function.to_owned(),
                    line: allocated.line,
                })
                .collect(),
        })
    }

    fn executable(&self, directory: &Path) -> Result<PathBuf> {
        if let Some(finished) = std::env::var_os("SLIMLINE_FOREIGN") {
            let executable = Path::new(&finished).join(self.name);
            if !executable.is_file() {
                bail!("no {}, though SLIMLINE_FOREIGN is set", executable.display());
            }
            return Ok(executable);
        }
        if !setup::on_path("apt-get") {
            bail!(
                "needs apt-get for Debian's source package {}; or set SLIMLINE_FOREIGN to a directory that has {}, \
                 built with -O2 -g",
                self.package,
                self.name
            );
        }
        let script = format!("{} -O2 -g -w {} -lm -o \"$OUTPUT\"", self.compiler, self.sources);
        let executable = directory.join(format!("{}.{:016x}", self.name, hash(&script)));
        if !executable.exists() {
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(source(self.package, directory)?).env("OUTPUT", &executable);
            timed(command)?;
        }
        Ok(executable)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Xorshift numbers (Marsaglia 2003), the same each time.
fn random_numbers() -> impl FnMut() -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    }
}

/// Random clauses of three variables each, as many for each variable as make them hard to satisfy (Mitchell, Selman,
/// Levesque 1992).
fn satisfiability_problem() -> String {
    const VARIABLES: u64 = 280;
    const CLAUSES: u64 = 1192;
    let mut random = random_numbers();
    let mut text = format!("p cnf {VARIABLES} {CLAUSES}\n");
    for _ in 0..CLAUSES {
        for _ in 0..3 {
            let sign = if random() >> 40 & 1 == 0 { "" } else { "-" };
            write!(text, "{sign}{} ", 1 + (random() >> 20) % VARIABLES).expect("a string takes all");
        }
        text.push_str("0\n");
    }
    text
}

/// Two classes of sparse vectors of random numbers.
fn svm_problem() -> String {
    let mut next = random_numbers();
    let mut random = 0;
    let mut text = String::new();
    for _ in 0..4500 {
        let mut features = String::new();
        for column in 1..=40 {
            random = next();
            if random & 3 != 0 {
                let value = (random % 2000) as f64 / 1000.0 - 1.0;
                write!(features, " {column}:{value:.3}").expect("a string takes all");
            }
        }
        let class = if random & 64 == 0 { "-1" } else { "+1" };
        writeln!(text, "{class}{features}").expect("a string takes all");
    }
    text
}

/// The unpacked upstream source of a Debian source package.
fn source(package: &str, directory: &Path) -> Result<PathBuf> {
    let unpacked = directory.join(format!("{package}.source"));
    if unpacked.exists() {
        return Ok(unpacked);
    }
    setup::install(setup::SOURCES)?;
    let lists = source_lists(directory)?;
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.arg("-o").arg("Dir::Etc::sourcelist=/dev/null");
        command.arg("-o").arg(format!("Dir::Etc::sourceparts={}", lists.display()));
        command.arg("-o").arg(format!("Dir::State::lists={}", lists.join("lists").display()));
        command.args(arguments).current_dir(directory);
        timed(command)
    };
    apt_get(&["update", "-qq"])?;
    apt_get(&["source", "-qq", "--tar-only", package])?;
    let tar = std::fs::read_dir(directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{package}_")) && name.contains(".orig.tar.")
        })
        .with_context(|| format!("apt-get source {package} left no upstream source"))?;
    let unfinished = directory.join(format!("{package}.unpacking"));
    std::fs::create_dir_all(&unfinished)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&tar).arg("--strip-components=1").arg("-C").arg(&unfinished);
    timed(unpack)?;
    std::fs::rename(&unfinished, &unpacked)?;
    Ok(unpacked)
}

/// A directory with this machine's own apt sources, asked for source packages instead of binary ones; the system's
/// configuration stays as it is.
fn source_lists(directory: &Path) -> Result<PathBuf> {
    let lists = directory.join("apt");
    std::fs::create_dir_all(lists.join("lists/partial"))?;
    let system = Path::new("/etc/apt/sources.list.d/debian.sources");
    let ubuntu = Path::new("/etc/apt/sources.list.d/ubuntu.sources");
    if let Some(deb822) = [system, ubuntu].into_iter().find(|path| path.exists()) {
        std::fs::write(lists.join("sources.sources"), read(deb822)?.replace("Types: deb\n", "Types: deb-src\n"))?;
    } else {
        let lines = read(Path::new("/etc/apt/sources.list")).context("neither debian.sources nor sources.list")?;
        let lines: Vec<String> = lines
            .lines()
            .filter_map(|line| line.strip_prefix("deb "))
            .map(|source| format!("deb-src {source}\n"))
            .collect();
        if lines.is_empty() {
            bail!("/etc/apt/sources.list names no archive");
        }
        std::fs::write(lists.join("sources.list"), lines.concat())?;
    }
    Ok(lists)
}
