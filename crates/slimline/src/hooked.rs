//! Site tables of what gcc has compiled: made here, of its debug information, when the program runs.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use slimline_attribute::hooked::site_tables;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;

use crate::disk::Disk;

/// A file as it was: device, inode, bytes, and when it was changed.
type FileState = (u64, u64, u64, i64, i64);

/// Site tables that were made; none where a file has no hooks.
type Made = Result<Option<Vec<u8>>, String>;

/// The site tables of files with hooks. Each process of a run tells of its files, most of the same ones: they are made once.
#[derive(Debug, Default)]
pub(crate) struct HookTables(HashMap<FileState, Made>);

impl HookTables {
    /// A file's site tables: those that compilers have left in it, with those of its hooks.
    pub(crate) fn with_hooks(&mut self, path: &str, section: Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
        let state = fs::metadata(path).map(|of| (of.dev(), of.ino(), of.size(), of.ctime(), of.ctime_nsec()));
        let made = match state {
            Ok(state) => self.0.entry(state).or_insert_with(|| make(path)).clone(),
            Err(_) => make(path),
        };
        match (section, made?) {
            (section, None) => section,
            (Ok(section), Some(made)) => Ok([section, made].concat()),
            // It has none of those.
            (Err(_), Some(made)) => Ok(made),
        }
    }
}

fn make(path: &str) -> Made {
    let store = FileStore::new(&Disk);
    site_tables(&Module::open(&store, path)).map_err(|error| error.to_string())
}
