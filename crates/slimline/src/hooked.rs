//! Site tables of what gcc has compiled: made here, of its debug information, when the program runs.

use slimline_attribute::hooked::site_tables;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;

use crate::disk::Disk;

/// A file's site tables: those that compilers have left in it, with those of its hooks.
pub(crate) fn with_hooks(path: &str, section: Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
    let store = FileStore::new(&Disk);
    let made = site_tables(&Module::open(&store, path)).map_err(|error| error.to_string())?;
    match (section, made) {
        (section, None) => section,
        (Ok(section), Some(made)) => Ok([section, made].concat()),
        // It has none of those.
        (Err(_), Some(made)) => Ok(made),
    }
}
