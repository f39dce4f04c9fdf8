//! Site tables of code that has none of its own: what its debug information says of the places where it writes records.
//!
//! gcc calls hooks before it accesses memory, and tells them addresses only. What is accessed there is a question like that
//! of a sample: the function's variables and the flow of types through it say what the hook's argument points to
//! ([`typing::infer`](crate::typing::infer)), and of an allocation what becomes of the block
//! ([`typing::heap`](crate::typing::heap)). The answers are tables as compilers make them, so that nobody after us needs to
//! know the difference. Likewise a translator tells which instructions access memory, and no more
//! ([`TranslatedCode`]).

mod scalars;
pub(crate) mod structures;
mod translated;

use std::collections::BTreeMap;
use std::path::Path;

use slimline_trace::address::Svma;
use slimline_trace::stream::hooks::{Hook, HooksError, SECTION, read_section};
use slimline_trace::stream::record::{ModuleId, SiteKind};
use slimline_trace::stream::sites::{CopySource, Frame, ModuleBuilder, Name, Site};

use crate::module::Module;
use crate::module::debug::Debug;
use crate::tables::Type;
use crate::typing::debug_info::DebugInfo;
use crate::typing::heap::{ANY_BYTES, AllocationFrame, allocation};
use crate::typing::infer::SiteType;
use crate::typing::layout::TypeTable;
use structures::{Declared, Structures};
pub use translated::TranslatedCode;

/// What compiled such code, as far as it is told.
const PRODUCER: &str = "gcc";

/// The blobs of the site tables of a file's hooks, one behind the other; none where it has no hooks.
///
/// # Errors
/// What is in the section is of no hook.
pub fn site_tables(module: &Module<'_>) -> Result<Option<Vec<u8>>, HooksError> {
    let Some((address, content)) = module.image().and_then(|image| image.linked_section(SECTION)) else {
        return Ok(None);
    };
    let hooks = read_section(content, address.0)?;
    let found = Found::of(module, &hooks);
    let mut units: BTreeMap<ModuleId, BTreeMap<u32, usize>> = BTreeMap::new();
    for (index, hook) in hooks.iter().enumerate() {
        units.entry(hook.header.module()).or_default().entry(hook.header.segment()).or_insert(index);
    }
    let directory = compiled_in(module);
    let mut blobs = Vec::new();
    for (id, segments) in units {
        let table = ModuleBuilder::new();
        let types = found.types.rows();
        let mut unit = Unit { table, structures: Structures::default(), types, module, directory: &directory };
        for (segment, index) in segments {
            // The linker has left out functions that it had already.
            while (unit.table.segments() as u32) < segment {
                unit.table.segment([]);
            }
            let (accessed, made) = (found.accesses[index].as_ref(), found.allocations[index].as_ref());
            let site = unit.site(&hooks[index], accessed, made);
            unit.table.segment([site]);
        }
        blobs.extend(unit.table.finish("", module.path(), &directory, PRODUCER).encode_as(id));
    }
    Ok(Some(blobs))
}

/// What debug information says of each hook.
struct Found {
    types: TypeTable,
    accesses: Vec<Option<SiteType>>,
    allocations: Vec<Option<Allocated>>,
}

/// A block, by its element's type and who holds it.
struct Allocated {
    element: Option<crate::tables::TypeId>,
    holder: Option<String>,
}

impl Allocated {
    /// What an allocation gives a function that begins there with this code.
    fn by(info: &DebugInfo<'_>, (code, begin): (&[u8], Svma), hook: &Hook<'_>, types: &mut TypeTable) -> Self {
        let frame =
            AllocationFrame { info: Some(info), code, begin, return_address: Svma(hook.place), characters: None };
        let made = allocation(&[frame], ANY_BYTES, types);
        let element = made.element.map(|element| element.type_id);
        Self { element, holder: made.holder.map(|holder| holder.name) }
    }
}

impl Found {
    fn of(module: &Module<'_>, hooks: &[Hook<'_>]) -> Self {
        let nothing = |_: &Hook<'_>| None;
        let mut found = Self {
            types: TypeTable::new(),
            accesses: hooks.iter().map(nothing).collect(),
            allocations: hooks.iter().map(|_| None).collect(),
        };
        let Some(info) = module.debug_info() else { return found };
        let mut functions: BTreeMap<(Svma, Svma), Vec<usize>> = BTreeMap::new();
        for (index, hook) in hooks.iter().enumerate() {
            let is_asked = hook.kind.makes_block() || hook.kind.reads() || hook.kind.writes();
            if let Some(bounds) = module.function_bounds(code_of(hook)).filter(|_| is_asked) {
                functions.entry(bounds).or_default().push(index);
            }
        }
        for ((start, end), indices) in functions {
            let Some(code) = module.code((start, end)) else { continue };
            let accesses: Vec<usize> = indices.iter().copied().filter(|&at| !hooks[at].kind.makes_block()).collect();
            let places: Vec<Svma> = accesses.iter().map(|&at| Svma(hooks[at].place)).collect();
            for (at, answer) in accesses.into_iter().zip(info.infer(code, start, &places, &mut found.types)) {
                found.accesses[at] = answer.ok();
            }
            for at in indices.into_iter().filter(|&at| hooks[at].kind.makes_block()) {
                found.allocations[at] = Some(Allocated::by(info, (code, start), &hooks[at], &mut found.types));
            }
        }
        found
    }
}

/// The instruction that a hook is of: of a call the one before the place that it returns to.
fn code_of(hook: &Hook<'_>) -> Svma {
    Svma(if hook.kind.makes_block() { hook.place.wrapping_sub(1) } else { hook.place })
}

/// A table that is made.
struct Unit<'u, 'a> {
    table: ModuleBuilder,
    structures: Structures,
    types: &'u [Type],
    module: &'u Module<'a>,
    /// As [`compiled_in`] has it.
    directory: &'u str,
}

impl Unit<'_, '_> {
    fn site(&mut self, hook: &Hook<'_>, accessed: Option<&SiteType>, made: Option<&Allocated>) -> Site {
        let code = code_of(hook);
        let mut site = Site::new(hook.kind, hook.size_bytes);
        (site.is_atomic, site.is_volatile) = (hook.is_atomic, hook.is_volatile);
        let function = self.module.linked_name(code);
        // gcc puts what hardly ever runs of a function elsewhere, as a part of its own.
        site.function = self.table.name(function.split(".cold").next().unwrap_or(&function));
        site.detail = self.table.name(hook.detail);
        site.frame = self.frame(code);
        // Whose that is nobody looks for: not of what it is copied to.
        site.source = (hook.kind == SiteKind::Copy).then(CopySource::default);
        let types = self.types;
        if let Some(accessed) = accessed {
            site.variable = accessed.variable.as_deref().map_or(Name::NONE, |name| self.table.name(name));
            let member = self.structures.member(&mut self.table, types, accessed.accessed, hook.size_bytes);
            if let Some(Declared { structure, field, offset_bytes }) = member {
                (site.structure, site.field, site.offset_bytes) = (structure, field, u32::try_from(offset_bytes).ok());
            }
        }
        if let Some(made) = made {
            site.variable = made.holder.as_deref().map_or(Name::NONE, |name| self.table.name(name));
            site.structure = made.element.map_or(Name::NONE, |id| self.structures.name(&mut self.table, types, id));
        }
        site
    }

    /// The position of some code, with those around it that it was inlined into.
    fn frame(&mut self, code: Svma) -> Option<u32> {
        let mut caller = None;
        for frame in self.module.frames(code).iter().rev() {
            let function = self.table.name(&frame.function);
            let (file, line, column) = match &frame.position {
                Some(at) => (self.table.name(self.relative(&at.file)), at.line, at.column),
                None => (Name::NONE, 0, 0),
            };
            caller = Some(self.table.frame(Frame { function, file, line, column, caller }));
        }
        caller
    }

    /// The path of a file from where the program was compiled, if it is below that.
    fn relative<'p>(&self, path: &'p str) -> &'p str {
        let below = path.strip_prefix(self.directory).and_then(|below| below.strip_prefix('/'));
        below.filter(|_| !self.directory.is_empty()).unwrap_or(path)
    }
}

/// The directory that all units of a module's own program were compiled in or below; empty where there is none but the root.
fn compiled_in(module: &Module<'_>) -> String {
    common_directory(&module.debug().map(Debug::directories).unwrap_or_default(), Path::is_dir)
}

/// What came compiled, as Rust's library did, was so in directories that are not here; crates of others are where cargo puts them. They count
/// where there is nothing else.
fn common_directory(directories: &[String], is_here: impl Fn(&Path) -> bool) -> String {
    const OTHERS: [&str; 2] = ["/registry/src/", "/git/checkouts/"];
    let is_own =
        |directory: &&String| is_here(Path::new(directory)) && !OTHERS.iter().any(|others| directory.contains(others));
    let own: Vec<&String> = directories.iter().filter(is_own).collect();
    let all = if own.is_empty() { directories.iter().collect() } else { own };
    let Some((first, others)) = all.split_first() else { return String::new() };
    // Without a slash at its end.
    let mut common = Path::new(first).components().as_path();
    while !others.iter().all(|other| Path::new(other).starts_with(common)) {
        match common.parent() {
            Some(parent) => common = parent,
            None => return String::new(),
        }
    }
    // What is below the root is told whole.
    if common.parent().is_none() { String::new() } else { common.display().to_string() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::common_directory;

    #[test]
    fn files_are_relative_to_what_all_units_are_compiled_below() {
        let common = |directories: &[&str]| {
            let all: Vec<String> = directories.iter().map(|of| (*of).to_owned()).collect();
            common_directory(&all, |directory: &Path| !directory.starts_with("/gone"))
        };
        assert_eq!(common(&["/src/sky/"]), "/src/sky");
        assert_eq!(common(&["/src/sky/lib", "/src/sky", "/src/sky/star"]), "/src/sky");
        assert_eq!(common(&["/src/sky/lib", "/src/skylight"]), "/src");
        assert_eq!(common(&["/src/sky", "/build"]), "");
        assert_eq!(common(&["/src/sky", "/gone/library", "/home/.cargo/registry/src/index/crate-1.0"]), "/src/sky");
        assert_eq!(common(&["/gone/sky", "/gone/sky/lib"]), "/gone/sky");
        assert_eq!(common(&[]), "");
    }
}
