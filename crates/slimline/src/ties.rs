//! What relies on the layouts of structures: sources on this machine, and who uses what modules export.

use std::collections::BTreeSet;
use std::path::Path;

use slimline_analyze::advise::Advice;
use slimline_analyze::relayout::plain_name;
use slimline_analyze::ties::{Reliance, Tie, ties};
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::{SourcePosition, Tables};
use slimline_attribute::typing::debug_info::DebugInfo;
use slimline_attribute::typing::layout::TypeTable;

use crate::disk::Disk;
use crate::sources::text;

/// Where to look.
pub(crate) struct Reliers {
    /// Sources, as far as they are on this machine, with their paths.
    sources: Vec<(String, String)>,
    /// Structures that other modules know, by name and size, with what exports them.
    exported: Vec<(String, u64, Vec<SourcePosition>)>,
}

impl Reliers {
    /// These sources, and these modules as they are now.
    pub(crate) fn of<'p>(
        sources: impl IntoIterator<Item = &'p Path>,
        modules: impl IntoIterator<Item = &'p str>,
    ) -> Self {
        let read = |file: &Path| Some((file.display().to_string(), text(file)?));
        let sources = sources.into_iter().filter_map(read).collect();
        let store = FileStore::new(&Disk);
        let exported = modules.into_iter().flat_map(|path| exported(&store, path)).collect();
        Self { sources, exported }
    }

    /// The sources, with their paths.
    pub(crate) fn sources(&self) -> &[(String, String)] {
        &self.sources
    }

    /// What relies on the layout of a structure; none where no source is here.
    pub(crate) fn on(&self, name: &str, bytes: u64) -> Option<Vec<(String, Tie)>> {
        let name = plain_name(name);
        let in_file = |(file, text): &(String, String)| {
            ties(name, text).into_iter().map(|tie| (file.clone(), tie)).collect::<Vec<_>>()
        };
        let is_it = |(known, of, _): &&(String, u64, Vec<SourcePosition>)| plain_name(known) == name && *of == bytes;
        let exported = self.exported.iter().filter(is_it).flat_map(|(.., by)| by);
        let exported = exported.map(|at| (at.file.clone(), Tie { reliance: Reliance::Exported, line: at.line }));
        let found: BTreeSet<(String, Tie)> = self.sources.iter().flat_map(in_file).chain(exported).collect();
        (!self.sources.is_empty() || !found.is_empty()).then(|| found.into_iter().collect())
    }
}

fn exported(store: &FileStore<'_>, path: &str) -> Vec<(String, u64, Vec<SourcePosition>)> {
    let module = Module::open(store, path);
    let exports = module.exports();
    let Some(debug) = module.debug().filter(|_| !exports.is_empty()) else { return Vec::new() };
    let mut table = TypeTable::new();
    let info = DebugInfo::of(debug).with_virtual_tables(module.virtual_tables());
    let found = info.exported_types(&|name| exports.contains(name), &mut table);
    let row = |type_id| table.get(type_id);
    found.into_iter().map(|of| (row(of.type_id).name.clone(), row(of.type_id).bytes, of.by)).collect()
}

/// Advice of a session with what relies on the layouts that it changes.
pub(crate) fn with_ties(advice: Vec<Advice>, tables: &Tables) -> Vec<Advice> {
    if !advice.iter().any(|advice| advice.changes_layout()) {
        return advice;
    }
    let frames = tables.sites.iter().flat_map(|site| &site.frames);
    let files: BTreeSet<&Path> =
        frames.filter_map(|frame| frame.position.as_ref()).map(|at| Path::new(at.file.as_str())).collect();
    let reliers = Reliers::of(files, tables.modules.iter().map(|module| module.path.as_str()));
    let told = |advice: Advice| {
        let element = tables.group(advice.group).element.filter(|_| advice.changes_layout());
        match element.map(|element| tables.type_(element.type_id)) {
            Some(type_) => advice.with_ties(reliers.on(&type_.name, type_.bytes)),
            None => advice,
        }
    };
    advice.into_iter().map(told).collect()
}
