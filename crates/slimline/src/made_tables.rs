//! Site tables that are made here when a program runs: of what gcc has compiled, of code that a translator finds, and of static
//! variables.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

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
    /// By process.
    told: HashMap<u32, Told>,
}

/// What was told of a process' static variables.
#[derive(Default)]
struct Told {
    chunks: u64,
    /// Files with variables that each thread has of its own, and how far below its pointer the block of those begins.
    objects: Vec<(Rc<StaticsTable>, u64)>,
    /// Pointers of threads that were seen. Where one ended and another has come to have the same, so it has the same places.
    threads: HashSet<u64>,
}

/// What was made of a file.
struct Made {
    /// None where it has no hooks.
    hooks: Result<Option<Vec<u8>>, String>,
    statics: Option<Rc<StaticsTable>>,
}

impl Made {
    fn of(path: &str) -> Self {
        let store = FileStore::new(&Disk);
        let module = Module::open(&store, path);
        Self {
            hooks: site_tables(&module).map_err(|error| error.to_string()),
            statics: StaticsTable::of(&module).map(Rc::new),
        }
    }

    /// All tables of a file whose compilers have left this in it.
    fn with(&self, section: Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
        let mut tables = match (section, self.hooks.clone()?) {
            (section, None) => section?,
            // It may have none but those of hooks.
            (section, Some(made)) => [section.unwrap_or_default(), made].concat(),
        };
        tables.extend(self.statics.iter().flat_map(|statics| statics.blob()));
        Ok(tables)
    }
}

impl<'s, S: TraceSink> WithMadeTables<'s, S> {
    /// Code that is translated is looked up in files of `store`.
    pub(crate) fn new(sink: &'s mut S, store: &'s FileStore<'s>) -> Self {
        Self { sink, code: TranslatedCode::new(store), made: HashMap::new(), told: HashMap::new() }
    }

    /// Tells where variables are of what has all of them in these chunks.
    fn tell(&mut self, process: u32, chunks: Vec<Vec<u64>>) -> io::Result<()> {
        for words in chunks {
            let next = &mut self.told.entry(process).or_default().chunks;
            let sequence = *next;
            *next += 1;
            let (stream, words) = (STATICS_STREAM, words.into());
            // Before all that threads wrote: who loaded the object has no record of when that was. Addresses of objects are theirs until
            // the process ends, so what came to lie there before did so where nothing was loaded yet.
            let (began, ended, thread_pointer) = (0, 0, 0);
            let chunk =
                Chunk { process, stream, tid: 0, thread_pointer, sequence, began, ended, words, is_open: false };
            self.sink.take(Event::Chunk(chunk))?;
        }
        Ok(())
    }

    /// Tells where a thread's own variables are, before the first of its chunks.
    fn meet(&mut self, chunk: &Chunk<'_>) -> io::Result<()> {
        let (process, pointer) = (chunk.process, chunk.thread_pointer);
        if pointer == 0 || !self.told.entry(process).or_default().threads.insert(pointer) {
            return Ok(());
        }
        let objects = self.told.get(&process).map(|told| told.objects.clone()).unwrap_or_default();
        objects
            .into_iter()
            .try_for_each(|(statics, below)| self.tell(process, statics.thread_chunks(pointer.wrapping_sub(below))))
    }
}

impl<S: TraceSink> TraceSink for WithMadeTables<'_, S> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        let (process, path, head, section) = match event {
            Event::Object { process, path, head, section } => (process, path, head, section),
            Event::Code { process, found } => {
                let tables = found.into_iter().flat_map(|FoundCode { module, first, file, sites, functions }| {
                    self.code.table((module, first), file.as_deref(), &sites, &functions)
                });
                let section = Ok(tables.collect());
                let head = ObjectHead { start: 0, offset: 0, block_below: 0 };
                return self.sink.take(Event::Object { process, path: "translated code".to_owned(), head, section });
            }
            event => {
                if let Event::Chunk(chunk) | Event::Part(chunk) = &event {
                    self.meet(chunk)?;
                }
                return self.sink.take(event);
            }
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
        let statics = made.statics.clone().filter(|_| section.is_ok());
        let chunks = statics.as_ref().and_then(|statics| statics.chunks(head.start, head.offset));
        self.sink.take(Event::Object { process, path, head, section })?;
        self.tell(process, chunks.unwrap_or_default())?;
        let Some(statics) = statics.filter(|_| head.block_below != 0) else { return Ok(()) };
        let told = self.told.entry(process).or_default();
        told.objects.push((Rc::clone(&statics), head.block_below));
        let blocks = told.threads.iter().map(|pointer| pointer.wrapping_sub(head.block_below)).collect::<Vec<_>>();
        blocks.into_iter().try_for_each(|block| self.tell(process, statics.thread_chunks(block)))
    }

    fn spare(&mut self) -> Vec<u64> {
        self.sink.spare()
    }

    fn needs_order(&self) -> bool {
        self.sink.needs_order()
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        self.meet(&chunk)?;
        self.sink.take_growing(chunk, now)
    }
}
