//! Programs compiled for a test, with their debug information in memory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gimli::{EndianSlice, LittleEndian};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use object::{Object, ObjectSection, ObjectSymbol};
use slimline_attribute::typing::debug_info::{DebugInfo, Dwarf};
use slimline_attribute::typing::infer::{Reason, SiteType};
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;
use slimline_trace::address::Svma;

/// A compiled program. Its bytes are leaked: a test is short, and borrowed DWARF is what the library takes.
pub(crate) struct Compiled {
    pub(crate) path: PathBuf,
    pub(crate) file: object::File<'static>,
    pub(crate) dwarf: Arc<Dwarf<'static>>,
    _directory: tempfile::TempDir,
}

impl Compiled {
    /// Compiles `source` as the extension says (`c`, `cpp`, `rs`) with `flags`.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn new(extension: &str, source: &str, flags: &[&str]) -> Self {
        let compiler = match extension {
            "c" => "gcc",
            "cpp" => "g++",
            "rs" => "rustc",
            other => panic!("no compiler for {other}"),
        };
        Self::with(compiler, extension, source, flags)
    }

    /// The same by that compiler.
    pub(crate) fn with(compiler: &str, extension: &str, source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let from = directory.path().join(format!("program.{extension}"));
        let path = directory.path().join("program");
        std::fs::write(&from, source).expect("source written");
        let status = Command::new(compiler).args(["-g"]).args(flags).arg("-o").arg(&path).arg(&from).output();
        let output = status.unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Self::open(&path, directory)
    }

    /// The same program with its debug sections passed through `damage`.
    #[allow(dead_code, reason = "each test file uses its own part")]
    pub(crate) fn damaged(&self, mut damage: impl FnMut(gimli::SectionId, &mut Vec<u8>)) -> DebugInfo<'static> {
        let load = |id: gimli::SectionId| -> Result<_, gimli::Error> {
            let section = self.file.section_by_name(id.name());
            let mut data =
                section.and_then(|section| Some(section.uncompressed_data().ok()?.into_owned())).unwrap_or_default();
            damage(id, &mut data);
            let data: &'static [u8] = data.leak();
            Ok(EndianSlice::new(data, LittleEndian))
        };
        DebugInfo::new(Arc::new(Dwarf::load(load).expect("sections")))
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
        let dwarf = Arc::new(Dwarf::load(load).expect("sections"));
        Self { path: path.to_owned(), file, dwarf, _directory: directory }
    }

    pub(crate) fn info(&self) -> DebugInfo<'static> {
        DebugInfo::new(Arc::clone(&self.dwarf))
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

/// A memory instruction of a function, with its line in the program's own source file (0 in another file).
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) struct Inferred {
    pub(crate) address: u64,
    pub(crate) line: u64,
    pub(crate) text: String,
    pub(crate) answer: Result<SiteType, Reason>,
}

#[allow(dead_code, reason = "each test file uses its own part")]
impl Compiled {
    /// What each memory instruction of the function called `symbol` accesses.
    pub(crate) fn infer(&self, symbol: &str, table: &mut TypeTable) -> Vec<Inferred> {
        let (begin, size) = self.symbol(symbol);
        self.infer_at(&self.info(), begin, size, table)
    }

    pub(crate) fn infer_at(
        &self,
        info: &DebugInfo<'static>,
        begin: u64,
        size: u64,
        table: &mut TypeTable,
    ) -> Vec<Inferred> {
        let code = self.code(begin, begin + size);
        let mut sites = Vec::new();
        let mut texts = Vec::new();
        for instruction in Decoder::with_ip(64, code, begin, DecoderOptions::NONE) {
            let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
            if memory && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
                sites.push(Svma(instruction.ip()));
                texts.push(describe(&instruction));
            }
        }
        let answers = info.infer(code, Svma(begin), &sites, table);
        assert_eq!(answers.len(), sites.len());
        let lines = self.lines();
        let line_of = |address: u64| {
            let after = lines.partition_point(|line| line.0 <= address);
            after.checked_sub(1).map_or(0, |at| lines[at].1)
        };
        let rows = sites.iter().zip(texts).zip(answers);
        rows.map(|((site, text), answer)| Inferred { address: site.0, line: line_of(site.0), text, answer }).collect()
    }

    /// (address, line in `program.*` or 0), in order of address.
    fn lines(&self) -> Vec<(u64, u64)> {
        let mut lines = Vec::new();
        let mut units = self.dwarf.units();
        while let Some(header) = units.next().expect("units") {
            let unit = self.dwarf.unit(header).expect("unit");
            let Some(program) = unit.line_program.clone() else { continue };
            let mut rows = program.rows();
            while let Some((header, row)) = rows.next_row().expect("rows") {
                let own = row.file(header).is_some_and(|file| {
                    let name = self.dwarf.attr_string(&unit, file.path_name()).expect("a name");
                    name.to_string_lossy().contains("program.")
                });
                let line = row.line().map_or(0, |line| line.get());
                let line = if own && !row.end_sequence() { line } else { 0 };
                // Of rows for one address the last one holds.
                lines.push((row.address(), line));
            }
        }
        lines.sort_by_key(|line| line.0);
        lines
    }
}

fn describe(instruction: &Instruction) -> String {
    format!(
        "{:?} [{:?}+{:?}*{}{:+#x}]",
        instruction.mnemonic(),
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64().cast_signed()
    )
}

/// `type.leaf` of an answer.
#[allow(dead_code, reason = "each test file uses its own part")]
pub(crate) fn spelled(table: &TypeTable, answer: &SiteType) -> String {
    let row = table.get(answer.accessed.type_id);
    let leaf = leaves::field_at(table.rows(), answer.accessed.type_id, answer.accessed.offset);
    match leaf {
        Some(leaf) if leaf.path.is_empty() => row.name.clone(),
        Some(leaf) => format!("{}.{}", row.name, leaf.path),
        None => format!("{}+{}?", row.name, answer.accessed.offset),
    }
}

/// A frame of a call path, by the function's place and the return address in it.
#[allow(dead_code, reason = "each test file uses its own part")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) begin: u64,
    pub(crate) size: u64,
    pub(crate) return_address: u64,
}

#[allow(dead_code, reason = "each test file uses its own part")]
impl Compiled {
    /// The shortest call path from the function called `from` to one whose symbol contains `to`, innermost first.
    pub(crate) fn call_path(&self, from: &str, to: &str) -> Vec<Call> {
        let functions: Vec<(u64, u64, &str)> = self
            .file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .map(|symbol| (symbol.address(), symbol.size(), symbol.name().unwrap_or("")))
            .collect();
        let relocations = self.file.dynamic_relocations().into_iter().flatten();
        let table: std::collections::HashMap<u64, u64> =
            relocations.map(|(at, relocation)| (at, relocation.addend().cast_unsigned())).collect();
        let by_address = |address: u64| functions.iter().find(|function| function.0 == address);
        let start = functions.iter().find(|function| function.2 == from).unwrap_or_else(|| panic!("no symbol {from}"));
        let mut paths = std::collections::VecDeque::from([(*start, Vec::new())]);
        let mut seen = std::collections::HashSet::new();
        while let Some(((begin, size, _), path)) = paths.pop_front() {
            for instruction in Decoder::with_ip(64, self.code(begin, begin + size), begin, DecoderOptions::NONE) {
                // A jump out of the function is a call in tail position: it leaves no frame.
                let tail = instruction.is_jmp_near() || instruction.is_jmp_short();
                let through_table = instruction.is_call_near_indirect() && instruction.is_ip_rel_memory_operand();
                let target = match through_table {
                    true => table.get(&instruction.ip_rel_memory_address()).copied().unwrap_or(0),
                    false => instruction.near_branch_target(),
                };
                if !(instruction.is_call_near() || through_table || tail) || (begin..begin + size).contains(&target) {
                    continue;
                }
                let call = Call { begin, size, return_address: instruction.next_ip() };
                let own = (!tail).then_some(call);
                let path: Vec<Call> = own.into_iter().chain(path.iter().copied()).collect();
                let Some(&callee) = by_address(target) else { continue };
                if callee.2.contains(to) {
                    return path;
                }
                if seen.insert(callee.0) && path.len() < 16 {
                    paths.push_back((callee, path));
                }
            }
        }
        panic!("{from} never calls {to}");
    }
}
