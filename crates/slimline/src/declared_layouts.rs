//! The types that files declare by their debug information.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use slimline_analyze::full_trace::filter::is_match;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::Type;
use slimline_attribute::typing::definitions::{Definition, Definitions};
use slimline_attribute::typing::layout::TypeTable;
use slimline_report::annotate::is_called;
use slimline_report::declared_layouts::{LayoutOrder, LayoutsFile, LayoutsReport, TypeFilter, TypeLayout, is_library};
use slimline_trace::path_text::{text_of, text_of_existing};
use slimline_trace::regular_file::open_regular;

use crate::disk::{Disk, check_whole};
use crate::progress::Progress;

/// Reads the types of all files that are wanted, in that order.
pub(crate) fn read(files: &[PathBuf], wanted: &TypeFilter, order: LayoutOrder) -> anyhow::Result<LayoutsReport> {
    let store = FileStore::new(&Disk);
    let mut table = TypeTable::new();
    let mut found = Definitions::new();
    let mut read = Vec::new();
    for file in files {
        read.push(read_file(file, &store, &mut table, &mut found)?);
    }
    check_whole()?;
    let types = table.into_rows();
    let mut left_out = 0;
    let mut layouts = Vec::new();
    for definition in found.into_rows() {
        if !is_wanted(&definition, &types, wanted) {
            continue;
        }
        if !wanted.all && is_library(&definition, &types) {
            left_out += 1;
        } else {
            layouts.extend(TypeLayout::of(&definition, &types));
        }
    }
    Ok(LayoutsReport::new(read, (wanted.clone(), left_out), layouts, order))
}

fn read_file<'a>(
    file: &Path,
    store: &'a FileStore<'a>,
    table: &mut TypeTable,
    found: &mut Definitions,
) -> anyhow::Result<LayoutsFile> {
    let shown = text_of(file.as_os_str());
    open_regular(file).with_context(|| shown.to_string())?;
    let path = file.canonicalize().with_context(|| shown.to_string())?;
    let module = Module::open(store, &text_of_existing(path.as_os_str()));
    ensure!(module.image().is_some(), "{shown}: no program, library or object file for x86-64 (ELF)");
    let Some(info) = module.debug_info() else {
        bail!("{shown}: has no debug information: compile it with -g, or install its debug package");
    };
    let progress = Progress::of(&format!("reading types of {shown}"), u64::from(info.unit_count()));
    let mut damaged = 0;
    for unit in 0..info.unit_count() {
        damaged += u32::from(!info.define(unit, table, found));
        progress.advance(1);
    }
    let mut missing = Vec::new();
    if damaged > 0 {
        let are = if damaged == 1 { "is" } else { "are" };
        missing.push(format!("{damaged} of {} units {are} damaged", info.unit_count()));
    }
    match info.lost_units() {
        0 => {}
        1 => missing.push("1 unit is in a .dwo file that is not there, or of another build".to_owned()),
        lost => missing.push(format!("{lost} units are in .dwo files that are not there, or of another build")),
    }
    Ok(LayoutsFile {
        path: shown.to_string(),
        debug_file: module.debug_path().map(str::to_owned),
        units: info.compilation_units(),
        missing,
    })
}

fn is_wanted(definition: &Definition, types: &[Type], wanted: &TypeFilter) -> bool {
    let type_ = &types[definition.type_id.index()];
    let is_in = |pattern: &String| definition.declared_at.as_ref().is_some_and(|at| is_file(pattern, &at.file));
    (wanted.types.is_empty() || wanted.types.iter().any(|pattern| is_called(&type_.name, pattern)))
        && (wanted.sources.is_empty() || wanted.sources.iter().any(is_in))
        && type_.bytes >= wanted.least_bytes
}

/// Whether a pattern is that of a path, or of what is behind any of its slashes.
fn is_file(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    ends.chain([path]).any(|end| is_match(pattern, end))
}

#[cfg(test)]
mod tests {
    use super::is_file;

    #[test]
    fn files_are_known_by_the_end_of_their_path() {
        assert!(is_file("node.h", "/work/src/node.h") && is_file("src/*", "/work/src/node.h"));
        assert!(is_file("/work/*", "/work/src/node.h") && is_file("*.h", "node.h"));
        assert!(!is_file("ode.h", "/work/src/node.h") && !is_file("src", "/work/src/node.h"));
    }
}
