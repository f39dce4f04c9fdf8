//! A file of code: where it was loaded, what it names, and what its debug information says about an address.
//!
//! ```text
//!   bias      mappings + segments ─► load bias            image     ELF: segments, bytes, relocations, FDEs
//!   debug     DWARF, here or in a separate file           symbols   functions and variables by address
//!   virtual_tables  where virtual bases of C++ classes lie
//!   archive   members of static libraries               unread    what files are that have no types
//! ```

pub mod archive;
pub mod bias;
pub mod debug;
mod demangled;
pub mod image;
mod split;
pub mod store;
pub mod symbols;
pub mod units;
pub mod unread;
mod unwind;
pub mod virtual_tables;

use std::cell::OnceCell;
use std::rc::Rc;

use object::elf;
use rustc_hash::FxHashSet;
use slimline_trace::address::Svma;

use crate::tables::{self, Frame, SourcePosition, SymbolSource};
use crate::typing::debug_info::DebugInfo;
use debug::{Debug, DebugFile};
pub use demangled::demangle;
use image::Image;
use store::FileStore;
use symbols::Symbols;
use virtual_tables::VirtualTables;

/// One executable or shared library, read as far as questions need it.
pub struct Module<'a> {
    path: String,
    file_name: String,
    build_id: Option<String>,
    source: SymbolSource,
    parsed: Rc<Parsed<'a>>,
    debug_path: Option<String>,
    alternate: Option<Image<'a>>,
    store: &'a FileStore<'a>,
    debug: OnceCell<Option<Debug<'a>>>,
    debug_info: OnceCell<Option<DebugInfo<'a>>>,
}

/// What a module has for others, by where it is.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    /// Where functions begin.
    pub functions: FxHashSet<Svma>,
    /// Where variables begin.
    pub variables: FxHashSet<Svma>,
}

impl Exports {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.variables.is_empty()
    }
}

/// A module's file and its debug file.
struct Parsed<'a> {
    image: Option<Image<'a>>,
    separate: Option<Image<'a>>,
    symbols: OnceCell<Symbols<'a>>,
}

impl<'a> Parsed<'a> {
    fn images(&self) -> impl Iterator<Item = &Image<'a>> {
        [self.image.as_ref(), self.separate.as_ref()].into_iter().flatten()
    }

    fn symbols(&self) -> &Symbols<'a> {
        self.symbols.get_or_init(|| Symbols::read(self.images()))
    }
}

impl<'a> Module<'a> {
    /// Opens the file that was mapped from `path`, and its debug file. What can't be read is told by
    /// [`Module::source`].
    pub fn open(store: &'a FileStore<'a>, path: &str) -> Self {
        // The kernel marks what was unlinked or replaced since: what is at the path now is another file.
        let image = if path.ends_with(" (deleted)") { None } else { store.open(path).and_then(Image::parse) };
        let mut separate = None;
        let mut debug_path = None;
        let mut alternate = None;
        let mut source = SymbolSource::Unreadable;
        if let Some(image) = &image {
            source = if image.has_debug_info() {
                SymbolSource::DebugInfo
            } else {
                separate = debug::find_separate(store, path, image).map(|DebugFile { image, path }| {
                    alternate = debug::find_alternate(store, &path, &image);
                    debug_path = Some(path);
                    image
                });
                match &separate {
                    Some(file) if file.has_debug_info() => SymbolSource::SeparateDebugInfo,
                    Some(file) if file.has_symbol_table() => SymbolSource::SymbolTable,
                    _ if image.has_symbol_table() => SymbolSource::SymbolTable,
                    _ if image.has_dynamic_symbols() => SymbolSource::DynamicSymbols,
                    _ => SymbolSource::Stripped,
                }
            };
            if source == SymbolSource::DebugInfo {
                alternate = debug::find_alternate(store, path, image);
            }
        }
        let file_name = tables::file_name_of(path).to_owned();
        Self {
            path: path.to_owned(),
            file_name,
            build_id: image.as_ref().and_then(Image::build_id).map(hex),
            source,
            parsed: Rc::new(Parsed { image, separate, symbols: OnceCell::new() }),
            debug_path,
            alternate,
            store,
            debug: OnceCell::new(),
            debug_info: OnceCell::new(),
        }
    }

    /// Path as mapped.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Last part of the path.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Where its names come from.
    pub fn source(&self) -> SymbolSource {
        self.source
    }

    /// Its separate debug file; `None` where the file has debug information itself, or nothing was found.
    pub fn debug_path(&self) -> Option<&str> {
        self.debug_path.as_deref()
    }

    /// What tells the same file in two processes: the build-id, else the path.
    pub fn identity(&self) -> &str {
        self.build_id.as_deref().unwrap_or(&self.path)
    }

    /// The file itself; `None` where it is gone, unreadable or no ELF file for x86-64.
    pub fn image(&self) -> Option<&Image<'a>> {
        self.parsed.image.as_ref()
    }

    /// Its functions and variables by name.
    pub fn symbols(&self) -> &Symbols<'a> {
        self.parsed.symbols()
    }

    /// Where the virtual bases of its C++ classes lie.
    fn virtual_tables(&self) -> VirtualTables<'a> {
        VirtualTables::of_module(Rc::clone(&self.parsed))
    }

    /// Calls `visit` with the linked name of each function that its symbol tables have, also of those that share an address,
    /// with that address, and its size in bytes as the symbol has it.
    pub fn for_each_function(&self, visit: &mut dyn FnMut(&str, Svma, u64)) {
        for image in self.parsed.images() {
            image.for_each_symbol(|symbol| {
                if symbol.kind == object::elf::STT_FUNC {
                    visit(symbol.name, Svma(symbol.address), symbol.bytes);
                }
            });
        }
    }

    /// The functions and variables that other modules find here.
    pub fn exports(&self) -> Exports {
        let mut exports = Exports::default();
        if let Some(image) = self.image() {
            let copies = image.copies();
            image.for_each_exported(|symbol| {
                let all = match symbol.kind {
                    _ if symbol.binding == elf::STB_LOCAL => return,
                    elf::STT_FUNC | elf::STT_GNU_IFUNC => &mut exports.functions,
                    // But for what a compiler makes of classes.
                    elf::STT_OBJECT if !symbol.name.starts_with("_ZT") && !copies.contains(&Svma(symbol.address)) => {
                        &mut exports.variables
                    }
                    _ => return,
                };
                all.insert(Svma(symbol.address));
            });
        }
        exports
    }

    /// Its debug information; `None` where there is none or its table of addresses is damaged.
    pub fn debug(&self) -> Option<&Debug<'a>> {
        self.debug
            .get_or_init(|| {
                let (path, holder) = match self.source {
                    SymbolSource::DebugInfo => (&self.path, self.parsed.image.as_ref()?),
                    SymbolSource::SeparateDebugInfo => (self.debug_path.as_ref()?, self.parsed.separate.as_ref()?),
                    _ => return None,
                };
                Debug::read(self.store, path, holder, self.alternate.as_ref())
            })
            .as_ref()
    }

    /// What that says of types and variables; read once.
    pub fn debug_info(&self) -> Option<&DebugInfo<'a>> {
        let read = || Some(DebugInfo::of(self.debug()?).with_virtual_tables(self.virtual_tables()));
        self.debug_info.get_or_init(read).as_ref()
    }

    /// What lies in the file at these addresses, as a function's code.
    pub fn code(&self, (start, end): (Svma, Svma)) -> Option<&'a [u8]> {
        let length = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
        self.image()?.bytes_from(start).get(..length)
    }

    /// First and last+1 address of the function that holds `svma`, by symbols, else by unwind information.
    pub fn function_bounds(&self, svma: Svma) -> Option<(Svma, Svma)> {
        let symbol = self.symbols().function_at(svma);
        let frame = || self.parsed.image.as_ref()?.unwind_bounds(svma);
        match symbol {
            Some(function) if function.sized => Some((function.start, function.end)),
            // Hand-written code often has a name and no size: unwind information then knows where it ends.
            Some(function) => Some(match frame() {
                Some((start, end)) if start >= function.start => (start, end),
                Some((_, end)) => (function.start, end.min(function.end)),
                None => (function.start, function.end),
            }),
            None => frame(),
        }
    }

    /// Inline stack at an address, innermost first; never empty. For a return address, ask for the byte before it.
    pub fn frames(&self, svma: Svma) -> Vec<Frame> {
        let mut frames = Vec::new();
        // Whether the outermost level, visited last, has the name it was linked by.
        let mut is_linked = false;
        if let Some(debug) = self.debug() {
            debug.for_each_frame(svma, |level| {
                is_linked = level.name.is_some_and(|name| name.starts_with("_Z") || name.starts_with("_R"));
                frames.push(Frame {
                    function: level.name.map_or_else(|| self.symbol_name(svma), demangle),
                    module: self.file_name.clone(),
                    position: level.position(),
                    inlined: true,
                });
            });
        }
        match frames.last_mut() {
            Some(outermost) => {
                outermost.inlined = false;
                // Templates over a local type have no linkage name in DWARF and so no namespace; their symbol has.
                let symbol = self.symbols().function_at(svma).map(|function| function.name);
                if let Some(symbol) = symbol.filter(|name| name.starts_with("_Z") && !is_linked) {
                    outermost.function = demangle(symbol);
                }
            }
            None => frames.push(Frame {
                function: self.symbol_name(svma),
                module: self.file_name.clone(),
                position: None,
                inlined: false,
            }),
        }
        frames
    }

    /// Demangled name of the function at an address, by symbol; `module+0x1234` of its start where there is none.
    fn symbol_name(&self, svma: Svma) -> String {
        if let Some(function) = self.symbols().function_at(svma) {
            return demangle(function.name);
        }
        let start =
            self.parsed.image.as_ref().and_then(|image| image.unwind_bounds(svma)).map_or(svma, |bounds| bounds.0);
        format!("{}+{start}", self.file_name)
    }

    /// Name as linked of the function at an address; `module+0x1234` of its start where there is none.
    pub fn linked_name(&self, svma: Svma) -> String {
        match self.symbols().function_at(svma) {
            Some(function) => function.name.to_owned(),
            None => self.symbol_name(svma),
        }
    }

    /// Its row of the tables.
    pub fn row(&self) -> tables::Module {
        tables::Module { path: self.path.clone(), build_id: self.build_id.clone(), symbols: self.source }
    }
}

impl debug::Level<'_> {
    /// Where this level's code is, as tables have it; `None` without a line.
    pub fn position(&self) -> Option<SourcePosition> {
        let line = self.line.filter(|&line| line != 0)?;
        Some(SourcePosition { file: self.file?.to_owned(), line, column: self.column.unwrap_or(0) })
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
