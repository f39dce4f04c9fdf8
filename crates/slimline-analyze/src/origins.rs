//! What the accesses of a stream are of: the meaning of their keys.
//!
//! Whoever makes accesses gives each a key and makes one [`Origins`] of all keys; whoever consumes them counts by key and sums
//! up by what is wanted ([`Origins::sums`]). So no consumer knows where accesses come from.

use rustc_hash::FxHashMap;

use crate::full_trace::filter::is_called;
use crate::full_trace::findings::Place;
use crate::full_trace::regions::MemoryRange;

/// Names that [`Origins::data_names`] tells.
const MOST_NAMES: usize = 12;

/// What accesses are cut by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Heap blocks by their allocating instruction, static variables, else what instructions name.
    Data,
    /// Type and member.
    Field,
    /// Function as in the source, what was inlined into it not counted.
    Function,
    /// `file:line`.
    Line,
    /// Thread.
    Thread,
}

/// What the address is in whose part an access is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Parts were not asked for, or nothing is known of the data.
    #[default]
    Nobodys,
    /// Offset in its block.
    Block,
    /// Address in a process.
    Variable {
        /// Number of the process in the trace.
        process: u32,
    },
}

/// A part of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// What `start` is.
    pub whose: Whose,
    /// First byte, a multiple of `bytes`.
    pub start: u64,
    /// How many; 0 where it is nobody's. Parts of the same data may differ in that, by powers of two.
    pub bytes: u64,
}

/// What a key stands for: numbers among the names, data and threads of [`Origins`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// [`Origins::name`].
    pub variable: u32,
    /// Likewise.
    pub field: u32,
    /// Likewise.
    pub function: u32,
    /// Likewise.
    pub line: u32,
    /// In that line; 0 where it is not known.
    pub column: u32,
    /// [`Origins::name`]: the line that calls the function, where that was inlined.
    pub called_at: u32,
    /// In that line; 0 where it is not known.
    pub called_at_column: u32,
    /// Which of [`Origins::threads`].
    pub thread: u32,
    /// The path of regions that the thread was on, by its process's number for it: 0 outside of all, and where they were not asked for.
    pub region: u32,
    /// Which of [`Origins::ranges_of`].
    pub ranges: u32,
    /// Which part of the data, where parts were asked for.
    pub part: Part,
    /// Accesses with this key; one that loads and stores is one.
    pub accesses: u64,
}

impl Origin {
    /// What is the same for all copies of an instruction that the compiler made: thread, data, member and place in the source.
    pub(crate) fn place_in_source(&self) -> [u32; 9] {
        let &Self { thread, data, variable, field, function, line, column, called_at, called_at_column, .. } = self;
        [thread, data, variable, field, function, line, column, called_at, called_at_column]
    }
}

/// What data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataKind {
    /// Blocks of the heap that one instruction allocates.
    Heap,
    /// A static variable; where the optimizer took it apart all of its parts.
    Static,
    /// Accesses outside known data by the name of a variable, or of the pointer that was gone by.
    Variable,
    /// Nothing is known.
    #[default]
    Unattributed,
}

impl DataKind {
    /// The name in reports and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Static => "static",
            Self::Variable => "variable",
            Self::Unattributed => "unattributed",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Heap, Self::Static, Self::Variable, Self::Unattributed].into_iter().find(|kind| kind.name() == name)
    }
}

/// A group of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// What it is.
    pub kind: DataKind,
    /// Of a variable its name (of several of one name with where they are declared), of blocks the one that they are mostly accessed
    /// by; empty where it is not known.
    pub name: String,
    /// Type that is allocated, or of a static variable's elements; empty where it is not known.
    pub type_name: String,
    /// Where blocks are allocated, or a static variable is declared.
    pub allocated_at: Place,
    /// The functions that called for them, innermost first, where groups are told apart by them.
    pub callers: Vec<Place>,
    /// How many.
    pub blocks: u64,
    /// The most bytes that lived at a time.
    pub peak_bytes: u64,
    /// Of the largest block that was accessed, where parts were asked for.
    pub largest_block_bytes: u64,
}

impl Data {
    /// Whether that is its title, its name, its type, or where blocks are allocated; a variable's name may stand behind its file's:
    /// `step.c:calls`. Files may leave out directories; `*` and `?` stand for others, as for `slimline trace --variable`.
    pub fn is_called(&self, pattern: &str) -> bool {
        let is_file = |pattern: &str, file: &str| is_called(pattern, file) || is_called(&format!("*/{pattern}"), file);
        let Place { file, line, .. } = &self.allocated_at;
        let of_file = |(of, name): (&str, &str)| {
            is_file(of, file)
                && if self.kind == DataKind::Heap { name == line.to_string() } else { is_called(name, &self.name) }
        };
        [&self.name, &self.type_name].iter().any(|name| is_called(pattern, name))
            || !file.is_empty() && pattern.rsplit_once(':').is_some_and(of_file)
    }
}

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Number of the process in the trace.
    pub process: u32,
    /// The kernel's number.
    pub tid: u32,
}

/// Texts by number; 0 is the empty one.
#[derive(Clone, Debug)]
pub struct Names {
    numbers: FxHashMap<String, u32>,
    texts: Vec<String>,
}

impl Default for Names {
    fn default() -> Self {
        Self { numbers: [(String::new(), 0)].into_iter().collect(), texts: vec![String::new()] }
    }
}

impl Names {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        let number = self.texts.len() as u32 - 1;
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The meaning of all keys of a stream. Of one without any (the addresses of another tool) every key is unattributed.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    keys: Vec<Origin>,
    data: Vec<Data>,
    names: Names,
    threads: Vec<Thread>,
    ranges: Vec<MemoryRange>,
    range_sets: Vec<Vec<u32>>,
}

impl Origins {
    /// Of these keys.
    pub fn new(keys: Vec<Origin>, data: Vec<Data>, names: Names, threads: Vec<Thread>) -> Self {
        Self { keys, data, names, threads, ..Self::default() }
    }

    /// The same, of keys that also tell ranges of memory: `sets` of numbers of `ranges`, by [`Origin::ranges`].
    pub(crate) fn with_ranges(self, ranges: Vec<MemoryRange>, sets: Vec<Vec<u32>>) -> Self {
        Self { ranges, range_sets: sets, ..self }
    }

    /// All ranges of memory that accesses are told by.
    pub fn ranges(&self) -> &[MemoryRange] {
        &self.ranges
    }

    /// Which of them a key's accesses are in.
    pub fn ranges_of(&self, key: u32) -> &[u32] {
        self.range_sets.get(self.of(key).ranges as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether anything is known.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// By key.
    pub fn keys(&self) -> &[Origin] {
        &self.keys
    }

    /// What a key stands for.
    pub fn of(&self, key: u32) -> Origin {
        self.keys.get(key as usize).copied().unwrap_or_default()
    }

    /// All groups of data.
    pub fn data(&self) -> &[Data] {
        &self.data
    }

    /// All threads, in the order of their first accesses.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Which of these names no data that was accessed is called, nor any member of it that was.
    pub fn lacking<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        let is_of = |name: &str, origin: &Origin| {
            self.data[origin.data as usize].is_called(name) || is_called(name, self.name(origin.field))
        };
        let is_lacking = |name: &&String| !self.keys.iter().any(|origin| origin.accesses > 0 && is_of(name, origin));
        names.iter().filter(is_lacking).map(String::as_str).collect()
    }

    /// What data can be asked for by, in words.
    pub fn data_names(&self) -> String {
        let mut names: Vec<&str> = self.data.iter().flat_map(|data| [data.name.as_str(), &data.type_name]).collect();
        // Compilers have names of their own.
        names.retain(|name| !name.is_empty() && !name.starts_with('.'));
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        match (names.join(", "), more) {
            (names, _) if names.is_empty() => "none with a name".to_owned(),
            (names, 0) => names,
            (names, more) => format!("{names} and {more} more"),
        }
    }

    /// A name; the empty one where nothing is known.
    pub fn name(&self, number: u32) -> &str {
        self.names.texts.get(number as usize).map_or("", String::as_str)
    }

    /// The number that a key has in this respect: of data, of a thread, or of a name.
    pub fn number(&self, key: u32, by: By) -> u32 {
        let origin = self.of(key);
        match by {
            By::Data => origin.data,
            By::Field => origin.field,
            By::Function => origin.function,
            By::Line => origin.line,
            By::Thread => origin.thread,
        }
    }

    /// Sums of what each key has, by what `identity` makes of the key, in the order of first keys.
    pub fn sums<I: Copy + Eq + std::hash::Hash, T>(
        &self,
        identity: impl Fn(u32) -> I,
        of_key: impl Fn(u32) -> T,
        add: impl Fn(&mut T, T),
    ) -> Vec<(I, T)> {
        let mut places: FxHashMap<I, usize> = FxHashMap::default();
        let mut sums: Vec<(I, T)> = Vec::new();
        for key in 0..self.keys.len() as u32 {
            let identity = identity(key);
            match places.get(&identity) {
                Some(&place) => add(&mut sums[place].1, of_key(key)),
                None => {
                    places.insert(identity, sums.len());
                    sums.push((identity, of_key(key)));
                }
            }
        }
        sums
    }
}
