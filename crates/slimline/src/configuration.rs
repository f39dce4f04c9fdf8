//! `slimline.toml`: what a user tells once of a program, and checks of it before anything runs.

use slimline_trace::path_text::text_of_existing;
use std::env;
use std::fs;
use std::io;
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::module::{Module, demangle};
use slimline_collect::{AllocatorCall, AllocatorRole, MOST_ARGUMENTS};
use slimline_instrument::cargo::ALLOCATORS_VARIABLE;
use slimline_instrument::rewrite::{OwnAllocator, OwnAllocators};

use crate::cli::hot_field;
use crate::disk::Disk;

/// Where it is looked for: in the directory that slimline runs in, by compilers in those around it, too.
pub(crate) const FILE: &str = "slimline.toml";

/// The whole of the file.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    /// As it is told; empty where there is none.
    #[serde(skip)]
    file: PathBuf,
    /// Allocators of the program's own.
    #[serde(default)]
    allocator: Vec<Allocator>,
    /// Limits of `slimline check`.
    #[serde(default)]
    check: CheckLimits,
}

/// How much worse `slimline check` lets things be; percentages as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CheckLimits {
    pub(crate) size: Option<f64>,
    pub(crate) lines: Option<u64>,
    pub(crate) holes: Option<u64>,
    #[serde(default)]
    pub(crate) hot: Vec<String>,
    pub(crate) hot_share: Option<f64>,
    pub(crate) share_points: Option<f64>,
    pub(crate) misses: Option<f64>,
}

/// An allocator: its functions by what they do.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocator {
    /// How the path of the file ends that has its functions; any file where it is left out.
    #[serde(default)]
    module: String,
    #[serde(default)]
    allocate: Vec<Function>,
    #[serde(default)]
    resize: Vec<Function>,
    #[serde(default)]
    free: Vec<Function>,
    #[serde(default)]
    reset: Vec<Function>,
}

/// A function, and which of its arguments, from 1, is what.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    /// Name as written in the source, with its namespace, or as linked.
    function: String,
    /// Size in bytes.
    size: Option<u8>,
    /// What the size is multiplied by.
    count: Option<u8>,
    /// Size in bytes where no argument says it; or what arguments are multiplied by.
    bytes: Option<u32>,
    /// The block to free or to resize.
    block: Option<u8>,
    /// Where the new block's address is stored; left out where it is returned.
    stored_at: Option<u8>,
    /// The pool that the block is of.
    pool: Option<u8>,
}

impl Configuration {
    /// That of the environment, else that of the directory that slimline runs in; the defaults where there is none.
    pub(crate) fn here() -> anyhow::Result<Self> {
        match named() {
            Some(file) => Self::read(&file),
            None => Ok(Self::read_if_there(Path::new(FILE))?.unwrap_or_default()),
        }
    }

    /// The same, or that of the nearest directory around it: build systems run compilers in directories of their own.
    pub(crate) fn found() -> anyhow::Result<Self> {
        if let Some(file) = named() {
            return Self::read(&file);
        }
        if let Some(here) = Self::read_if_there(Path::new(FILE))? {
            return Ok(here);
        }
        // A directory that is gone has none around it.
        let own = env::current_dir().unwrap_or_default();
        for directory in own.ancestors().skip(1) {
            if let Some(found) = Self::read_if_there(&directory.join(FILE))? {
                return Ok(found);
            }
        }
        Ok(Self::default())
    }

    /// That of the environment alone.
    pub(crate) fn named() -> anyhow::Result<Self> {
        named().map_or_else(|| Ok(Self::default()), |file| Self::read(&file))
    }

    fn read_if_there(file: &Path) -> anyhow::Result<Option<Self>> {
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text, file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // In a directory that may not be searched there is none for this user.
            Err(_)
                if fs::symlink_metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::parse(&text, file)
    }

    /// The limits of `slimline check`.
    pub(crate) fn check_limits(&self) -> anyhow::Result<CheckLimits> {
        let of = |name: &str| format!("{}: check: {name}", self.file.display());
        let CheckLimits { size, hot, hot_share, share_points, misses, .. } = &self.check;
        for (name, percent) in
            [("size", size), ("hot-share", hot_share), ("share-points", share_points), ("misses", misses)]
        {
            let is_right = percent.is_none_or(|percent| percent.is_finite() && percent >= 0.0);
            ensure!(is_right, "{}: not a percentage, 0 or more", of(name));
        }
        for field in hot {
            hot_field(field).map_err(|why| anyhow::anyhow!("{} = {field:?}: {why}", of("hot")))?;
        }
        Ok(self.check.clone())
    }

    /// Whether it tells of any allocator.
    pub(crate) fn has_allocators(&self) -> bool {
        !self.allocator.is_empty()
    }

    fn parse(text: &str, file: &Path) -> anyhow::Result<Self> {
        let parsed = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            anyhow::anyhow!("{}:{line}: {}", file.display(), error.message().lines().next().unwrap_or_default())
        })?;
        Ok(Self { file: file.to_owned(), ..parsed })
    }

    /// The functions of its allocators by their linked names, for a run of `command` (none: of a process that runs).
    pub(crate) fn allocator_calls(&self, program: Option<&Path>) -> anyhow::Result<Vec<AllocatorCall>> {
        let mut names = Names::new(program);
        self.calls(|function, module| names.linked(function, module))
    }

    /// The same for a program that is compiled: the compiler sees all linked names there are.
    pub(crate) fn own_allocators(&self) -> anyhow::Result<OwnAllocators> {
        let of_call = |call: AllocatorCall| {
            let AllocatorCall { function, role, size, count, block, place, unit_bytes, .. } = call;
            OwnAllocator { function, role, size, count, block, place, unit_bytes }
        };
        let calls = self.calls(|function, _| Ok(vec![function.to_owned()]))?;
        let is_there = !self.file.as_os_str().is_empty();
        let file = is_there.then(|| path::absolute(&self.file)).transpose().context(FILE)?;
        Ok(OwnAllocators { functions: calls.into_iter().map(of_call).collect(), is_named, file })
    }

    /// Functions that make blocks and that none of these linked names is of: as code that was compiled for tracing has no call of them,
    /// nothing is known of their blocks.
    pub(crate) fn never_called<'a>(&'a self, called: &[&str]) -> Vec<&'a str> {
        let is_called = |written: &str| called.iter().any(|linked| *linked == written || is_named(linked, written));
        let making = self.allocator.iter().flat_map(|allocator| allocator.allocate.iter().chain(&allocator.resize));
        making.map(|of| of.function.as_str()).filter(|written| !is_called(written)).collect()
    }

    /// The functions of its allocators; `linked` gives the names of one as it is written, of files whose paths end so.
    fn calls(
        &self,
        mut linked: impl FnMut(&str, &str) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Vec<AllocatorCall>> {
        let mut calls = Vec::new();
        for (number, allocator) in (1..).zip(&self.allocator) {
            let of = |name: &str| format!("{}: allocator {number}: {name}", self.file.display());
            let kinds = [
                (AllocatorRole::Allocate, "allocate", &allocator.allocate),
                (AllocatorRole::Resize, "resize", &allocator.resize),
                (AllocatorRole::Free, "free", &allocator.free),
                (AllocatorRole::Reset, "reset", &allocator.reset),
            ];
            ensure!(
                !allocator.allocate.is_empty() || !allocator.resize.is_empty(),
                "{}",
                of("none of its functions makes blocks (`allocate` or `resize`)")
            );
            for (role, kind, functions) in kinds {
                for function in functions {
                    let described = of(&format!("{kind}: `{}`", function.function));
                    let call = function.call(role, &allocator.module).context(described.clone())?;
                    for linked in linked(&function.function, &allocator.module).context(described.clone())? {
                        let call = AllocatorCall { function: linked, ..call.clone() };
                        ensure!(call.is_nameable(), "{described}: its name or its module's is too long");
                        calls.push(call);
                    }
                }
            }
        }
        Ok(calls)
    }
}

impl Function {
    /// With the name as it is written.
    fn call(&self, role: AllocatorRole, module: &str) -> anyhow::Result<AllocatorCall> {
        let argument = |name: &str, number: Option<u8>| match number {
            None => Ok(0),
            Some(number) if (1..=MOST_ARGUMENTS).contains(&number) => Ok(number),
            Some(number) => bail!("{name} = {number}: arguments are counted from 1 to {MOST_ARGUMENTS}"),
        };
        let call = AllocatorCall {
            function: self.function.clone(),
            module: module.to_owned(),
            role,
            is_inner: true,
            size: argument("size", self.size)?,
            count: argument("count", self.count)?,
            block: argument("block", self.block)?,
            place: argument("stored_at", self.stored_at)?,
            pool: argument("pool", self.pool)?,
            unit_bytes: self.bytes.unwrap_or(1),
        };
        let makes = matches!(role, AllocatorRole::Allocate | AllocatorRole::Resize);
        let takes = matches!(role, AllocatorRole::Free | AllocatorRole::Resize);
        ensure!(!makes || call.size != 0 || self.bytes.is_some(), "which argument is the `size`, or how many `bytes`?");
        ensure!(
            makes || call.size == 0 && call.count == 0 && self.bytes.is_none(),
            "it makes no block that has a size"
        );
        ensure!(makes || call.place == 0, "it makes no block that is stored");
        ensure!(!takes || call.block != 0, "which argument is the `block`?");
        ensure!(takes || call.block == 0, "it takes no block");
        ensure!(role != AllocatorRole::Reset || call.pool != 0, "which argument is the `pool`?");
        let used: Vec<u8> =
            [call.size, call.count, call.block, call.place, call.pool].into_iter().filter(|&used| used != 0).collect();
        let is_twice = |&used_for: &u8| used.iter().filter(|&&other| other == used_for).count() > 1;
        if let Some(twice) = used.iter().find(|used_for| is_twice(used_for)) {
            bail!("argument {twice} can't be two things");
        }
        Ok(call)
    }
}

/// The file that the environment names.
fn named() -> Option<PathBuf> {
    env::var_os(ALLOCATORS_VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// Functions of the program that is to be recorded.
struct Names<'p> {
    program: Option<&'p Path>,
    /// The program and the libraries that it is linked with; looked up once.
    files: Option<Vec<PathBuf>>,
}

impl<'p> Names<'p> {
    fn new(program: Option<&'p Path>) -> Self {
        Self { program, files: None }
    }

    /// The linked names of a function.
    fn linked(&mut self, function: &str, module: &str) -> anyhow::Result<Vec<String>> {
        let program = self.program;
        let files = self.files.get_or_insert_with(|| program.map(files_of).unwrap_or_default());
        let own = Path::new(module);
        let is_there = module.contains('/') && own.is_file();
        let looked_at: Vec<&Path> = if is_there {
            vec![own]
        } else {
            files.iter().map(PathBuf::as_path).filter(|path| path.to_string_lossy().ends_with(module)).collect()
        };
        if looked_at.is_empty() && !module.is_empty() {
            // Of a file that is loaded later, or in another program: it can't be looked into now.
            return Ok(vec![function.to_owned()]);
        }
        let mut found: Vec<String> = Vec::new();
        let mut clone = None;
        for path in &looked_at {
            let store = FileStore::new(&Disk);
            Module::open(&store, &text_of_existing(path.as_os_str())).for_each_function(&mut |name, _, _| {
                let is_clone = name.contains('.');
                if name == function || !is_clone && is_named(name, function) {
                    found.push(name.to_owned());
                } else if is_clone && is_named(name, function) {
                    clone = Some(name.to_owned());
                }
            });
        }
        found.sort_unstable();
        found.dedup();
        match (found.is_empty(), clone) {
            (false, _) => Ok(found),
            (true, Some(clone)) => bail!(
                "the compiler has left of it `{clone}` only, whose arguments are not the same: compile it with \
                 __attribute__((noinline, noclone)) or the like"
            ),
            (true, None) => {
                let program =
                    program.map_or_else(String::new, |program| format!("{} or its libraries", program.display()));
                let place = if is_there { module.to_owned() } else { program };
                bail!("no such function in {place} (inlined, perhaps; of another file's, name that: module = \"…\")")
            }
        }
    }
}

/// Whether a linked name is that of a function as it is written in the source.
fn is_named(linked: &str, written: &str) -> bool {
    (linked.starts_with("_Z") || linked.starts_with("_R") || linked.contains('.')) && demangle(linked) == written
        || linked.split_once('.').is_some_and(|(plain, _)| plain == written)
}

/// The program and the libraries that its loader would take, which is asked for them.
pub(crate) fn files_of(program: &Path) -> Vec<PathBuf> {
    let mut files = vec![program.to_owned()];
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let listed = command.output().map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let paths = listed.lines().filter_map(|line| line.split_once("=> ")?.1.split(" (0x").next());
    files.extend(paths.filter(|path| path.starts_with('/')).map(PathBuf::from));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Result<Vec<AllocatorCall>, String> {
        let told = |error: anyhow::Error| format!("{error:#}");
        Configuration::parse(text, Path::new(FILE)).map_err(told)?.allocator_calls(None).map_err(told)
    }

    const POOL: &str = r#"
        [[allocator]]
        module = "libpool.so"
        allocate = [{ function = "pool_take", size = 2, count = 3, pool = 1 }, { function = "node_new", bytes = 48 }]
        resize = [{ function = "pool_resize", block = 2, size = 3 }]
        free = [{ function = "pool_give", block = 2 }]
        reset = [{ function = "pool_empty", pool = 1 }]
    "#;

    #[test]
    fn functions_are_told_with_their_arguments() {
        let calls = calls(POOL).unwrap();
        let told: Vec<_> = calls
            .iter()
            .map(|call| (call.function.as_str(), [call.size, call.count, call.block, call.pool], call.unit_bytes))
            .collect();
        assert_eq!(
            told,
            [
                ("pool_take", [2, 3, 0, 1], 1),
                ("node_new", [0; 4], 48),
                ("pool_resize", [3, 0, 2, 0], 1),
                ("pool_give", [0, 0, 2, 0], 1),
                ("pool_empty", [0, 0, 0, 1], 1),
            ]
        );
        assert!(calls.iter().all(|call| call.module == "libpool.so" && call.is_inner));
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        let with = |functions: &str| calls(&format!("[[allocator]]\nmodule = \"m\"\n{functions}")).unwrap_err();
        let cases = [
            ("allocate = [{ function = \"f\", size = 7 }]", "size = 7: arguments are counted from 1 to 6"),
            ("allocate = [{ function = \"f\" }]", "which argument is the `size`"),
            ("allocate = [{ function = \"f\", size = 1, count = 1 }]", "argument 1 can't be two things"),
            ("allocate = [{ function = \"f\", size = 1, block = 2 }]", "it takes no block"),
            ("resize = [{ function = \"f\", size = 1 }]", "which argument is the `block`"),
            ("free = [{ function = \"f\", block = 1 }]", "none of its functions makes blocks"),
            ("allocate = [{ function = \"f\", sise = 1 }]", "slimline.toml:3: unknown field `sise`"),
            ("allocate = [{ function = 5 }]", "slimline.toml:3: invalid type"),
        ];
        for (functions, expected) in cases {
            let line = with(functions);
            assert!(line.contains(expected) && line.starts_with("slimline.toml"), "{functions}: {line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
        assert!(calls("[[alocator]]").unwrap_err().starts_with("slimline.toml:1: unknown field"));
    }

    #[test]
    fn limits_of_check_are_told() {
        let limits = |text: &str| {
            let told = |error: anyhow::Error| format!("{error:#}");
            Configuration::parse(text, Path::new(FILE)).map_err(told)?.check_limits().map_err(told)
        };
        let found = limits("[check]\nsize = 5\nhot = [\"body.mass\"]\nhot-share = 2.5\n").unwrap();
        assert_eq!(
            (found.size, found.hot.as_slice(), found.hot_share),
            (Some(5.0), ["body.mass".to_owned()].as_slice(), Some(2.5))
        );
        assert_eq!(limits("").unwrap(), CheckLimits::default());
        let cases = [
            ("[check]\nsise = 5", "slimline.toml:1: unknown field `sise`"),
            ("[check]\nmisses = -1.0", "slimline.toml: check: misses: not a percentage, 0 or more"),
            ("[check]\nhot = [\"mass\"]", "slimline.toml: check: hot = \"mass\": not one TYPE.FIELD, as in body.mass"),
        ];
        for (text, expected) in cases {
            let line = limits(text).unwrap_err();
            assert!(line.starts_with(expected), "{text}: {line}");
        }
    }

    #[test]
    fn functions_that_no_call_is_of_are_told() {
        let configuration = Configuration::parse(POOL, Path::new(FILE)).unwrap();
        assert_eq!(configuration.never_called(&["malloc", "pool_take.constprop.0"]), ["node_new", "pool_resize"]);
        // Others make no blocks.
        assert!(configuration.never_called(&["pool_take", "node_new", "pool_resize"]).is_empty());
    }

    #[test]
    fn names_are_those_of_the_source() {
        assert!(is_named("_ZN3app4Pool4takeEm", "app::Pool::take"));
        assert!(is_named("pool_take.constprop.0", "pool_take"));
        assert!(!is_named("_ZN3app4Pool4takeEm", "Pool::take"));
        assert!(!is_named("main", "pool_take"));
    }
}
