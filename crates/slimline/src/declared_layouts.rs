//! The types that files declare by their debug information.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use slimline_analyze::full_trace::filter::is_match;
use slimline_attribute::files::{FileBytes, Files};
use slimline_attribute::module::Module;
use slimline_attribute::module::archive::{MemberContent, is_archive, members};
use slimline_attribute::module::store::FileStore;
use slimline_attribute::module::unread::{why_no_debug_info, why_no_image};
use slimline_attribute::tables::Type;
use slimline_attribute::typing::debug_info::DebugInfo;
use slimline_attribute::typing::definitions::{Definition, Definitions};
use slimline_attribute::typing::layout::TypeTable;
use slimline_collect::packing_advice;
use slimline_report::annotate::is_called;
use slimline_report::declared_layouts::{LayoutOrder, LayoutsFile, LayoutsReport, TypeFilter, TypeLayout, is_library};
use slimline_trace::path_text::{text_of, text_of_existing};
use slimline_trace::regular_file::open_regular;

use crate::disk::{Disk, check_whole};
use crate::progress::Progress;

/// Reads the types of all files that are wanted, in that order.
pub(crate) fn read(files: &[PathBuf], wanted: &TypeFilter, order: LayoutOrder) -> anyhow::Result<LayoutsReport> {
    let mut table = TypeTable::new();
    let mut found = Definitions::new();
    let mut read = Vec::new();
    for file in files {
        read.push(read_file(file, &mut table, &mut found)?);
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

fn read_file(file: &Path, table: &mut TypeTable, found: &mut Definitions) -> anyhow::Result<LayoutsFile> {
    let shown = text_of(file.as_os_str());
    open_regular(file).with_context(|| shown.to_string())?;
    let path = file.canonicalize().with_context(|| shown.to_string())?;
    let path = &text_of_existing(path.as_os_str());
    let bytes = Disk.open(path).with_context(|| format!("{shown}: can't be read"))?;
    let bytes = (*bytes).as_ref();
    if is_archive(bytes) {
        return read_archive(file, path, bytes, table, found);
    }
    let store = FileStore::new(&Disk);
    let module = Module::open(&store, path);
    let info =
        debug_info(&module, bytes).map_err(|why| anyhow!("{shown}: {}", packing_advice(bytes, file).unwrap_or(why)))?;
    let missing = define(info, &shown, table, found);
    Ok(LayoutsFile {
        path: shown.to_string(),
        debug_file: module.debug_path().map(str::to_owned),
        units: info.compilation_units(),
        missing,
    })
}

/// The debug information of a file of these bytes, or why there is none and what to do.
fn debug_info<'m, 'a>(module: &'m Module<'a>, bytes: &[u8]) -> Result<&'m DebugInfo<'a>, String> {
    let image = module.image().ok_or_else(|| why_no_image(bytes))?;
    module.debug_info().ok_or_else(|| why_no_debug_info(image))
}

/// Reads all types that debug information has; what is missing of it, in words.
fn define(info: &DebugInfo<'_>, shown: &str, table: &mut TypeTable, found: &mut Definitions) -> Vec<String> {
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
    if info.is_cut() {
        missing.push(format!(
            "a unit's header behind the first {} is damaged: what follows is not read",
            info.unit_count()
        ));
    }
    match info.lost_units() {
        0 => {}
        1 => missing.push("1 unit is in a .dwo file that is not there, or of another build".to_owned()),
        lost => missing.push(format!("{lost} units are in .dwo files that are not there, or of another build")),
    }
    missing
}

/// The files of the machine, and the members of an archive.
struct Members(HashMap<String, FileBytes>);

impl Files for Members {
    fn open(&self, path: &str) -> Option<FileBytes> {
        self.0.get(path).cloned().or_else(|| Disk.open(path))
    }
}

/// Reads the members of an archive as object files are read.
fn read_archive(
    file: &Path,
    path: &str,
    bytes: &[u8],
    table: &mut TypeTable,
    found: &mut Definitions,
) -> anyhow::Result<LayoutsFile> {
    let shown = text_of(file.as_os_str());
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let members = members(bytes);
    ensure!(!members.is_empty(), "{shown}: an archive without members");
    let mut read = LayoutsFile { path: shown.to_string(), debug_file: None, units: 0, missing: Vec::new() };
    // How many were not read for the same reason, and the first of them.
    let mut unread: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    let mut any = false;
    for member in &members {
        // Read one by one: what is held of a library is a member.
        let (member_path, here) = match &member.content {
            MemberContent::Here(bytes) => {
                // A copy begins where a file of its own does: at an address that numbers in it may have.
                let copy: FileBytes = Arc::new(bytes.to_vec());
                (format!("{path}({})", member.name), Some(copy))
            }
            MemberContent::File(name) if name.starts_with('/') => (name.clone(), None),
            MemberContent::File(name) => (format!("{directory}/{name}"), None),
            MemberContent::Damaged => {
                unread.entry("the archive is damaged there, or cut off".to_owned()).or_insert((0, &member.name)).0 += 1;
                continue;
            }
        };
        let files = Members(here.map(|bytes| (member_path.clone(), bytes)).into_iter().collect());
        let store = FileStore::new(&files);
        let bytes = files.open(&member_path);
        let module = Module::open(&store, &member_path);
        let info = match &bytes {
            Some(bytes) => debug_info(&module, (**bytes).as_ref()),
            None => Err("a file of a thin archive, which is not there".to_owned()),
        };
        match info {
            Err(why) => unread.entry(why).or_insert((0, &member.name)).0 += 1,
            Ok(info) => {
                any = true;
                let missing = define(info, &format!("{shown}({})", member.name), table, found);
                read.units += info.compilation_units();
                read.missing.extend(missing.into_iter().map(|what| format!("{}: {what}", member.name)));
            }
        }
    }
    for (why, (count, first)) in &unread {
        let of = members.len();
        read.missing.push(match count {
            1 => format!("1 of {of} members, {first}: {why}"),
            _ => format!("{count} of {of} members, {first} and others: {why}"),
        });
    }
    ensure!(any, "{shown}: an archive of which no member can be read: {}", read.missing.join("; "));
    Ok(read)
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
