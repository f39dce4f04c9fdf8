//! What relies on the layouts of structures: sources on this machine, and who uses what modules export.

use std::collections::BTreeSet;
use std::path::Path;

use slimline_analyze::advise::Advice;
use slimline_analyze::relayout::own_name;
use slimline_analyze::ties::{Reliance, Tie, Ties, ties};
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::{SourcePosition, Tables, Type};
use slimline_attribute::typing::layout::TypeTable;

use crate::disk::{Disk, check_whole};
use crate::sources::text;

/// Functions and variables that are named for a structure, of all modules.
const MOST_EXPORTED: usize = 3;

/// Sources, as far as they are on this machine, with their paths.
pub(crate) struct Sources(Vec<(String, String)>);

impl Sources {
    pub(crate) fn of<'p>(files: impl IntoIterator<Item = &'p Path>) -> Self {
        let read = |file: &Path| Some((file.display().to_string(), text(file)?));
        Self(files.into_iter().filter_map(read).collect())
    }

    pub(crate) fn texts(&self) -> &[(String, String)] {
        &self.0
    }

    /// These lines of them, and nothing else.
    pub(crate) fn with_lines(&self, found: Vec<(String, Tie)>) -> Ties {
        Ties { found, has_sources: !self.0.is_empty() }
    }

    fn on(&self, structure: &Structure<'_>) -> Vec<(String, Tie)> {
        let Some(name) = own_name(structure.name) else { return Vec::new() };
        let in_file = |(file, text): &(String, String)| {
            ties(name, text).into_iter().map(|tie| (file.clone(), tie)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(in_file).collect()
    }
}

/// A structure whose layout is to change.
pub(crate) struct Structure<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: u64,
    /// None where it is not known.
    pub(crate) declared_at: Option<&'a SourcePosition>,
}

impl Structure<'_> {
    fn is(&self, known: &Type) -> bool {
        // One header has several paths, and not all compilers tell columns.
        let place = |at: &SourcePosition| (at.file.rsplit('/').next().map(str::to_owned), at.line);
        let both = self.declared_at.zip(known.declared_at.as_ref());
        let is_there = both.is_none_or(|(own, other)| place(own) == place(other));
        known.bytes == self.bytes
            && is_there
            && own_name(&known.name).is_some_and(|name| own_name(self.name) == Some(name))
    }
}

/// What relies on each of these, by sources, and by what these modules export as they are now.
///
/// # Errors
/// A module was cut off meanwhile.
pub(crate) fn on_each<'p>(
    structures: &[Structure<'_>],
    sources: &Sources,
    modules: impl IntoIterator<Item = &'p str>,
) -> anyhow::Result<Vec<Ties>> {
    let mut found: Vec<BTreeSet<(String, Tie)>> =
        structures.iter().map(|structure| sources.on(structure).into_iter().collect()).collect();
    let mut exported = vec![BTreeSet::new(); structures.len()];
    let names: BTreeSet<&str> = structures.iter().filter_map(|structure| own_name(structure.name)).collect();
    let is_wanted = |name: &str| own_name(name).is_some_and(|name| names.contains(name));
    if !names.is_empty() {
        for path in modules {
            for (type_, by) in exported_by(path, &is_wanted) {
                let of_it = structures.iter().zip(&mut exported).filter(|(structure, _)| structure.is(&type_));
                of_it.for_each(|(_, all)| all.extend(by.iter().map(|at| (at.file.clone(), at.line))));
            }
        }
        check_whole()?;
    }
    for (found, exported) in found.iter_mut().zip(exported) {
        let first = exported.into_iter().take(MOST_EXPORTED);
        found.extend(first.map(|(file, line)| (file, Tie { reliance: Reliance::Exported, line })));
    }
    Ok(found.into_iter().map(|found| sources.with_lines(found.into_iter().collect())).collect())
}

/// Structures of these names that functions and variables of a module have which others find there, with where these are declared.
fn exported_by(path: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<(Type, Vec<SourcePosition>)> {
    let store = FileStore::new(&Disk);
    let module = Module::open(&store, path);
    let exports = module.exports();
    let Some(info) = module.debug_info().filter(|_| !exports.is_empty()) else { return Vec::new() };
    let mut table = TypeTable::new();
    let found = info.exported_types(&exports, is_wanted, &mut table);
    found.into_iter().map(|of| (table.get(of.type_id).clone(), of.by)).collect()
}

/// Advice of a session in which these modules were loaded, with what relies on the layouts that it changes.
///
/// # Errors
/// See [`on_each`].
pub(crate) fn with_ties(
    advice: Vec<Advice>,
    tables: &Tables,
    modules: &BTreeSet<String>,
) -> anyhow::Result<Vec<Advice>> {
    let type_of = |advice: &Advice| {
        let element = tables.group(advice.group).element.filter(|_| advice.changes_layout())?;
        Some(tables.type_(element.type_id))
    };
    let types = advice.iter().filter_map(type_of);
    let structures: Vec<Structure<'_>> = types
        .map(|type_| Structure { name: &type_.name, bytes: type_.bytes, declared_at: type_.declared_at.as_ref() })
        .collect();
    if structures.is_empty() {
        return Ok(advice);
    }
    let frames = tables.sites.iter().flat_map(|site| &site.frames);
    let files: BTreeSet<&Path> =
        frames.filter_map(|frame| frame.position.as_ref()).map(|at| Path::new(at.file.as_str())).collect();
    let mut all = on_each(&structures, &Sources::of(files), modules.iter().map(String::as_str))?.into_iter();
    let told = |advice: Advice| match type_of(&advice).and_then(|_| all.next()) {
        Some(ties) => advice.with_ties(ties),
        None => advice,
    };
    Ok(advice.into_iter().map(told).collect())
}
