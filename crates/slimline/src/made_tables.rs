//! Site tables that are made here when a program runs: of what gcc has compiled, of code that a translator finds, and of static
//! variables. Also records of what a process has that none of its threads wrote: what it inherited, and memory that it shares.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use slimline_attribute::hooked::{TranslatedCode, site_tables};
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::statics::StaticsTable;
use slimline_collect::{Event, Fork, FoundCode, OwnBlock, SharedRange, TraceSink};
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::record::{INHERITS, SHARED};
use slimline_trace::stream::ring::ObjectHead;
use slimline_trace::stream::{MOST_STATICS_STREAMS, STATICS_STREAM};

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
    /// Streams of it: a stream's chunks are in the order of time, and what is told later may be of an earlier one.
    streams: Vec<ToldStream>,
    /// Files with variables that each thread has of its own, and how far below its pointer the block of those begins.
    objects: Vec<(Rc<StaticsTable>, u64)>,
    /// Pointers of threads that were seen. Where one ended and another has come to have the same, so it has the same places.
    threads: HashSet<u64>,
    /// Files with such variables whose blocks are made for one thread at a time, by what was added to their addresses.
    opened: HashMap<u64, Rc<StaticsTable>>,
    /// Where these blocks begin and end, and whose they are.
    blocks: BTreeMap<u64, (u64, u64)>,
    /// Shared mappings that no chunk has come for yet.
    mappings: Vec<SharedRange>,
}

#[derive(Clone, Copy, Default)]
struct ToldStream {
    chunks: u64,
    /// When the last one of them began.
    began: u64,
}

impl Told {
    /// The stream in which a chunk that began then comes next, and its number there.
    fn next(&mut self, began: u64) -> (u32, u64) {
        let fits = |stream: &ToldStream| stream.began <= began;
        let at = self.streams.iter().position(fits).unwrap_or_else(|| {
            // Beyond, what is told is told late.
            self.streams.resize((self.streams.len() + 1).min(MOST_STATICS_STREAMS as usize), ToldStream::default());
            self.streams.len() - 1
        });
        let stream = &mut self.streams[at];
        stream.chunks += 1;
        stream.began = began;
        (STATICS_STREAM - at as u32, stream.chunks - 1)
    }

    /// A thread has got a block. The variables of whose these are, if they are not known to be there.
    fn got(&mut self, OwnBlock { bias, start, .. }: OwnBlock) -> Option<Rc<StaticsTable>> {
        let statics = self.opened.get(&bias)?;
        let end = start.saturating_add(statics.thread_bytes());
        if self.blocks.get(&start) == Some(&(end, bias)) {
            return None;
        }
        // Others were there, of a thread that has ended or a file that was closed.
        self.blocks.retain(|&other, &mut (other_end, _)| other_end <= start || end <= other);
        self.blocks.insert(start, (end, bias));
        Some(Rc::clone(statics))
    }
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

/// Before all that threads wrote: who loaded an object has no record of when that was. Addresses of objects are theirs until the process ends,
/// so what came to lie there before did so where nothing was loaded yet.
const ALWAYS: u64 = 0;

impl<'s, S: TraceSink> WithMadeTables<'s, S> {
    /// Code that is translated is looked up in files of `store`.
    pub(crate) fn new(sink: &'s mut S, store: &'s FileStore<'s>) -> Self {
        Self { sink, code: TranslatedCode::new(store), made: HashMap::new(), told: HashMap::new() }
    }

    /// Tells where variables are, which have been there since then, of what has all of them in these chunks.
    fn tell(&mut self, process: u32, began: u64, chunks: Vec<Vec<u64>>) -> io::Result<()> {
        for words in chunks {
            let (stream, sequence) = self.told.entry(process).or_default().next(began);
            let (words, ended, thread_pointer) = (words.into(), 0, 0);
            let chunk =
                Chunk { process, stream, tid: 0, thread_pointer, sequence, began, ended, words, is_open: false };
            self.sink.take(Event::Chunk(chunk))?;
        }
        Ok(())
    }

    /// Tells which state of its parent a process begins with, once it is known itself.
    fn begin(&mut self, process: u32, fork: Option<Fork>) -> io::Result<()> {
        let Some(Fork { stamp, process: parent }) = fork else { return Ok(()) };
        self.tell(process, stamp, vec![vec![INHERITS.word(), stamp, parent]])
    }

    /// Tells of shared mappings, before the first chunk that may know of them.
    fn tell_mappings(&mut self, process: u32, until: u64) -> io::Result<()> {
        let Some(told) = self.told.get_mut(&process) else { return Ok(()) };
        let ripe: Vec<_> = told.mappings.extract_if(.., |mapping| mapping.since <= until).collect();
        ripe.into_iter().try_for_each(|SharedRange { start, bytes, object, offset, since }| {
            let began = since - u64::from(object != 0);
            self.tell(process, began, vec![vec![SHARED.word(), start, bytes, object, offset]])
        })
    }

    /// Tells where a thread's own variables are, before the first of its chunks.
    fn meet(&mut self, chunk: &Chunk<'_>) -> io::Result<()> {
        self.tell_mappings(chunk.process, chunk.began)?;
        let (process, pointer) = (chunk.process, chunk.thread_pointer);
        if pointer == 0 || !self.told.entry(process).or_default().threads.insert(pointer) {
            return Ok(());
        }
        let objects = self.told.get(&process).map(|told| told.objects.clone()).unwrap_or_default();
        objects.into_iter().try_for_each(|(statics, below)| {
            self.tell(process, ALWAYS, statics.thread_chunks(pointer.wrapping_sub(below)))
        })
    }

    /// Tells where the variables are of blocks that threads have got.
    fn take_blocks(&mut self, process: u32, blocks: Vec<OwnBlock>) -> io::Result<()> {
        blocks.into_iter().try_for_each(|block| {
            let statics = self.told.entry(process).or_default().got(block);
            // Before the chunk that the thread had then.
            let began = block.since.saturating_sub(1);
            statics.map_or(Ok(()), |statics| self.tell(process, began, statics.thread_chunks(block.start)))
        })
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
            Event::Blocks { process, blocks } => return self.take_blocks(process, blocks),
            Event::SharedMappings { process, mappings } => {
                self.told.entry(process).or_default().mappings.extend(mappings);
                return Ok(());
            }
            Event::Begin(process) => {
                let (number, fork) = (process.number, process.fork);
                self.sink.take(Event::Begin(process))?;
                return self.begin(number, fork);
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
        let placed = statics.and_then(|statics| Some((statics.bias(head.start, head.offset)?, statics)));
        self.sink.take(Event::Object { process, path, head, section })?;
        let Some((bias, statics)) = placed else { return Ok(()) };
        self.tell(process, ALWAYS, statics.chunks(bias))?;
        let told = self.told.entry(process).or_default();
        if head.block_below == 0 {
            told.opened.insert(bias, statics);
            return Ok(());
        }
        told.objects.push((Rc::clone(&statics), head.block_below));
        let blocks = told.threads.iter().map(|pointer| pointer.wrapping_sub(head.block_below)).collect::<Vec<_>>();
        blocks.into_iter().try_for_each(|block| self.tell(process, ALWAYS, statics.thread_chunks(block)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_late_has_a_stream_in_which_it_is_not() {
        let mut told = Told::default();
        let next: Vec<_> = [0, 9, 0, 5, 9, 0, 7].map(|began| told.next(began)).to_vec();
        let stream = |number| STATICS_STREAM - number;
        let expected = [
            (stream(0), 0),
            (stream(0), 1),
            (stream(1), 0),
            (stream(1), 1),
            (stream(0), 2),
            (stream(2), 0),
            (stream(1), 2),
        ];
        assert_eq!(next, expected);
    }
}
