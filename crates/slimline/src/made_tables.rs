//! Site tables that are made here when a program runs: of what gcc has compiled, of code that a translator finds, and of static
//! variables.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use slimline_attribute::hooked::{TranslatedCode, site_tables};
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::statics::StaticsTable;
use slimline_collect::{Event, FoundCode, TraceSink};
use slimline_trace::stream::STATICS_STREAM;
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::ring::ObjectHead;

use crate::disk::Disk;

/// A file as it was: device, inode, bytes, and when it was changed.
type FileState = (u64, u64, u64, i64, i64);

/// Gives a sink all tables of each object, and where its static variables are.
pub(crate) struct WithMadeTables<'s, S> {
    sink: &'s mut S,
    code: TranslatedCode<'s>,
    /// Each process of a run tells of its files, most of the same ones: their tables are made once.
    made: HashMap<FileState, Made>,
    /// By process: chunks of its static variables so far.
    told: HashMap<u32, u64>,
}

/// What was made of a file.
struct Made {
    /// None where it has no hooks.
    hooks: Result<Option<Vec<u8>>, String>,
    statics: Option<StaticsTable>,
}

impl Made {
    fn of(path: &str) -> Self {
        let store = FileStore::new(&Disk);
        let module = Module::open(&store, path);
        Self { hooks: site_tables(&module).map_err(|error| error.to_string()), statics: StaticsTable::of(&module) }
    }

    /// All tables of a file whose compilers have left this in it.
    fn with(&self, section: Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
        let mut tables = match (section, self.hooks.clone()?) {
            (section, None) => section?,
            // It may have none but those of hooks.
            (section, Some(made)) => [section.unwrap_or_default(), made].concat(),
        };
        tables.extend(self.statics.iter().flat_map(StaticsTable::blob));
        Ok(tables)
    }
}

impl<'s, S: TraceSink> WithMadeTables<'s, S> {
    /// Code that is translated is looked up in files of `store`.
    pub(crate) fn new(sink: &'s mut S, store: &'s FileStore<'s>) -> Self {
        Self { sink, code: TranslatedCode::new(store), made: HashMap::new(), told: HashMap::new() }
    }
}

impl<S: TraceSink> TraceSink for WithMadeTables<'_, S> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        let (process, path, head, section) = match event {
            Event::Object { process, path, head, section } => (process, path, head, section),
            Event::Code { process, found } => {
                let tables = found.into_iter().flat_map(|FoundCode { module, first, file, segments, functions }| {
                    self.code.table((module, first), file.as_deref(), &segments, &functions)
                });
                let section = Ok(tables.collect());
                let head = ObjectHead { start: 0, offset: 0 };
                return self.sink.take(Event::Object { process, path: "translated code".to_owned(), head, section });
            }
            event => return self.sink.take(event),
        };
        let state = fs::metadata(&path).map(|of| (of.dev(), of.ino(), of.size(), of.ctime(), of.ctime_nsec()));
        let fresh;
        let made = match state {
            Ok(state) => &*self.made.entry(state).or_insert_with(|| Made::of(&path)),
            Err(_) => {
                fresh = Made::of(&path);
                &fresh
            }
        };
        let section = made.with(section);
        // Of a library that is translated and has no variable that is known.
        if section.as_ref().is_ok_and(Vec::is_empty) {
            return Ok(());
        }
        let statics = made.statics.as_ref().filter(|_| section.is_ok());
        let chunks = statics.and_then(|statics| statics.chunks(head.start, head.offset));
        self.sink.take(Event::Object { process, path, head, section })?;
        for words in chunks.into_iter().flatten() {
            let next = self.told.entry(process).or_default();
            let sequence = *next;
            *next += 1;
            let (stream, words) = (STATICS_STREAM, words.into());
            // Before all that threads wrote: who loaded the object has no record of when that was. Addresses of objects are theirs until
            // the process ends, so what came to lie there before did so where nothing was loaded yet.
            let (began, ended) = (0, 0);
            let chunk = Chunk { process, stream, tid: 0, sequence, began, ended, words, is_open: false };
            self.sink.take(Event::Chunk(chunk))?;
        }
        Ok(())
    }

    fn spare(&mut self) -> Vec<u64> {
        self.sink.spare()
    }

    fn needs_order(&self) -> bool {
        self.sink.needs_order()
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        self.sink.take_growing(chunk, now)
    }
}
