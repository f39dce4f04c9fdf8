//! Site tables in the files that instrumented code came from.

use std::fs::File;
use std::path::Path;

use object::{Object, ObjectSection, ReadCache};
use slimline_trace::regular_file::open_regular;
use slimline_trace::stream::{hooks, sites::SECTION};

/// The content of an object's section of site tables, or why there is none, in a few words.
pub fn site_section(path: &Path) -> Result<Vec<u8>, String> {
    let file: File = open_regular(path).map_err(|error| error.to_string())?;
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let section = object.section_by_name(SECTION).ok_or_else(|| format!("it has no section {SECTION}"))?;
    let content = section.uncompressed_data().map_err(|error| error.to_string())?;
    Ok(content.into_owned())
}

/// Whether an object that can be read has no symbols but those that it is linked by when it is loaded.
pub(super) fn is_stripped(path: &Path) -> bool {
    let Ok(file) = open_regular(path) else { return false };
    let cache = ReadCache::new(file);
    object::File::parse(&cache).is_ok_and(|object| object.symbol_table().is_none())
}

/// Whether an object has code that writes records, with site tables or with hooks that those are made of.
pub(super) fn writes_records(path: &Path) -> bool {
    let Ok(file) = open_regular(path) else { return false };
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else { return false };
    [SECTION, hooks::SECTION].into_iter().any(|name| object.section_by_name(name).is_some())
}
