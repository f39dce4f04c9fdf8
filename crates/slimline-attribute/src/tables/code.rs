//! Code: modules, instructions, loops, and where they are in the source.

use slimline_trace::address::Svma;

use super::{CallerId, LoopId, ModuleId, NoType, TypeRef};

/// A loaded module: an executable or a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path as mapped.
    pub path: String,
    /// Build-id in hex where the file has one.
    pub build_id: Option<String>,
    /// What names and lines come from.
    pub symbols: SymbolSource,
}

impl Module {
    /// Last part of the path.
    pub fn file_name(&self) -> &str {
        file_name_of(&self.path)
    }
}

/// Last part of a module's path as the kernel shows it, which marks files that are gone.
pub(crate) fn file_name_of(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or(path)
}

/// Where a module's names come from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSource {
    /// DWARF in the file itself.
    DebugInfo,
    /// DWARF in a separate debug file (`.gnu_debuglink` or build-id).
    SeparateDebugInfo,
    /// ELF symbol table only: functions and variables, no lines, no types.
    SymbolTable,
    /// Dynamic symbols only.
    DynamicSymbols,
    /// Nothing: functions are named by their address.
    Stripped,
    /// The file is gone, unreadable or damaged.
    Unreadable,
}

/// One place in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// Path as the debug information has it, directory included.
    pub file: String,
    /// 1-based; 0 where not known.
    pub line: u32,
    /// 1-based; 0 where not known.
    pub column: u32,
}

/// One function on a stack: an inlined one or the function that the code really belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Demangled name, or `module+0x1234` where there is none.
    pub function: String,
    /// File name of the module.
    pub module: String,
    /// Where in it.
    pub position: Option<SourcePosition>,
    /// Whether this function was inlined into the next frame.
    pub inlined: bool,
}

impl Frame {
    /// Whether debug information or a symbol names the function, rather than its address alone.
    pub fn is_named(&self) -> bool {
        self.position.is_some() || !self.function.strip_prefix(&self.module).is_some_and(|rest| rest.starts_with('+'))
    }
}

/// The functions that called where a sample was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPath {
    /// Innermost caller first, inlined functions too.
    pub frames: Vec<CallerId>,
    /// Whether outer frames are missing.
    pub is_cut: bool,
}

/// A static memory instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its module; `None` for code outside any file (JIT) and the unknown site.
    pub module: Option<ModuleId>,
    /// Its link-time address (run-time address where there is no module).
    pub svma: Svma,
    /// Inline stack, innermost first; the last is the real function. Empty for the unknown site.
    pub frames: Vec<Frame>,
    /// The innermost frame that is the program's own code, not inlined from a library: its place in `frames`.
    pub own_frame: Option<usize>,
    /// Innermost loop.
    pub innermost_loop: Option<LoopId>,
    /// Whether its address comes from what an earlier turn of that loop loaded, as of a list.
    pub is_chased: bool,
    /// Type that the instruction's operand is known to have, by debug information.
    pub accessed: Option<TypeRef>,
    /// Why `accessed` is not known; `None` where it is, and where the code has no debug information.
    pub untyped: Option<NoType>,
    /// Name of the variable that holds the base address there, where debug information tells.
    pub variable: Option<String>,
}

impl Site {
    /// The row of accesses whose instruction is unknown.
    pub fn unknown() -> Self {
        Self {
            module: None,
            svma: Svma(0),
            frames: Vec::new(),
            own_frame: None,
            innermost_loop: None,
            is_chased: false,
            accessed: None,
            untyped: None,
            variable: None,
        }
    }

    /// Source position of the innermost frame.
    pub fn position(&self) -> Option<&SourcePosition> {
        self.frames.first().and_then(|frame| frame.position.as_ref())
    }

    /// Source position in the innermost frame that is the program's own code, not inlined from a library; `None` where
    /// there is none.
    pub fn own_position(&self) -> Option<&SourcePosition> {
        self.frames.get(self.own_frame?)?.position.as_ref()
    }

    /// Name of the function that the code really belongs to (not an inlined one).
    pub fn function(&self) -> &str {
        self.frames.last().map_or("?", |frame| frame.function.as_str())
    }
}

/// Where code is, as exactly as it can be said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodePlace {
    /// A line of the source.
    Line {
        /// Path as the debug information has it.
        file: String,
        /// 1-based.
        line: u32,
    },
    /// A loop of code without lines.
    Loop {
        /// File name of its module.
        module: String,
        /// Lowest link-time address of its code.
        start: Svma,
        /// The address after the highest.
        end: Svma,
    },
    /// A function without lines, outside of its loops.
    Function {
        /// File name of its module.
        module: String,
        /// Its name, or `module+0x1234` of its start.
        function: String,
    },
}

/// A loop of the control flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Module that holds it.
    pub module: ModuleId,
    /// Link-time address of its header (of its first entry where it is irreducible).
    pub header: Svma,
    /// Lowest link-time address of its code, and the address after the highest; code that is not its own may lie
    /// between.
    pub start: Svma,
    /// See `start`.
    pub end: Svma,
    /// Function that holds it, as the source has it: an inlined function's name where the whole loop came from there.
    pub function: String,
    /// Source file of its lines.
    pub file: Option<String>,
    /// First and last source line of its own body in that file; 0 where not known.
    pub first_line: u32,
    /// See `first_line`.
    pub last_line: u32,
    /// First and last column of a loop on a single line, where they are known.
    pub columns: Option<(u32, u32)>,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Whether it has more than one entry.
    pub irreducible: bool,
    /// A function called in it, or in a loop inside of it, that may do more than compute.
    pub call: Option<String>,
    /// Whether it may end in the middle of its steps.
    pub leaves_early: bool,
}

impl Loop {
    /// Whether the two are in the same place of the source. A loop beside another one on its line is in other columns.
    pub(super) fn is_where(&self, other: &Self) -> bool {
        let shown = |of: &Self| (of.module, of.first_line, of.last_line);
        self.file.is_some()
            && self.first_line > 0
            && shown(self) == shown(other)
            && self.function == other.function
            && self.file == other.file
            && may_overlap(self.columns, other.columns)
    }
}

/// Whether two loops may share columns of their line: where the columns of either are not known, they may.
pub(crate) fn may_overlap(one: Option<(u32, u32)>, other: Option<(u32, u32)>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
}
