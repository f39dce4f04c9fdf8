//! Programs compiled for a test, with their debug information in memory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;

use gimli::{EndianSlice, LittleEndian};
use object::{Object, ObjectSection, ObjectSymbol};
use slimline_attribute::typing::debug_info::{DebugInfo, Dwarf};

/// A compiled program. Its bytes are leaked: a test is short, and borrowed DWARF is what the library takes.
pub(crate) struct Compiled {
    pub(crate) path: PathBuf,
    pub(crate) file: object::File<'static>,
    pub(crate) dwarf: &'static Dwarf<'static>,
    _directory: tempfile::TempDir,
}

impl Compiled {
    /// Compiles `source` as the extension says (`c`, `cpp`, `rs`, `f90`) with `flags`.
    pub(crate) fn new(extension: &str, source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let from = directory.path().join(format!("program.{extension}"));
        let path = directory.path().join("program");
        std::fs::write(&from, source).expect("source written");
        let compiler = match extension {
            "c" => "gcc",
            "cpp" => "g++",
            "rs" => "rustc",
            other => panic!("no compiler for {other}"),
        };
        let status = Command::new(compiler).args(["-g"]).args(flags).arg("-o").arg(&path).arg(&from).output();
        let output = status.unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Self::open(&path, directory)
    }

    fn open(path: &Path, directory: tempfile::TempDir) -> Self {
        let bytes: &'static [u8] = std::fs::read(path).expect("a program").leak();
        let file = object::File::parse(bytes).expect("an ELF file");
        let load = |id: gimli::SectionId| -> Result<_, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
            let data: &'static [u8] = match data {
                Some(Cow::Borrowed(data)) => data,
                Some(Cow::Owned(data)) => data.leak(),
                None => &[],
            };
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let dwarf = Box::leak(Box::new(Dwarf::load(load).expect("sections")));
        Self { path: path.to_owned(), file, dwarf, _directory: directory }
    }

    pub(crate) fn info(&self) -> DebugInfo<'static> {
        DebugInfo::new(self.dwarf)
    }

    /// Output of running the program.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn run(&self) -> String {
        let output = Command::new(&self.path).output().expect("the program runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    }

    /// Address and size of a symbol.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn symbol(&self, name: &str) -> (u64, u64) {
        let symbol = self.file.symbols().find(|symbol| symbol.name() == Ok(name));
        let symbol = symbol.unwrap_or_else(|| panic!("no symbol {name}"));
        (symbol.address(), symbol.size())
    }

    /// Bytes of the code at `begin..end`.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn code(&self, begin: u64, end: u64) -> &'static [u8] {
        for section in self.file.sections() {
            let start = section.address();
            if start <= begin && end <= start + section.size() && section.kind() == object::SectionKind::Text {
                let Ok(Cow::Borrowed(data)) = section.uncompressed_data() else { break };
                return &data[(begin - start) as usize..(end - start) as usize];
            }
        }
        panic!("no code at {begin:#x}");
    }
}

impl Compiled {
    /// Address of the first symbol called `name.…`, as gcc calls function statics.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn file_symbol_prefix(&self, name: &str) -> u64 {
        let prefix = format!("{name}.");
        let found = self.file.symbols().find(|symbol| symbol.name().is_ok_and(|name| name.starts_with(&prefix)));
        found.unwrap_or_else(|| panic!("no symbol {prefix}")).address()
    }
}
