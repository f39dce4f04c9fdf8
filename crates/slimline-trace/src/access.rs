//! The access batch: the columns that every analysis reads.

#[cfg(feature = "session")]
use crate::address::Avma;
#[cfg(feature = "session")]
use crate::served::Served;

/// What an access does to memory. A read-modify-write is a load and a store at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(transparent)]
pub struct AccessKind(u8);

impl AccessKind {
    /// No memory operand: a sample of code that computes.
    pub const NONE: Self = Self(0);
    /// Reads memory.
    pub const LOAD: Self = Self(1);
    /// Writes memory.
    pub const STORE: Self = Self(2);
    /// Reads, then writes the same bytes.
    pub const LOAD_STORE: Self = Self(3);
    /// Whether memory is accessed is not known: the code of a sample could not be read, or nobody looked. Never stored.
    pub const UNKNOWN: Self = Self(8);
    const ATOMIC: u8 = 4;

    /// The same access, marked as an atomic (locked) one.
    pub const fn atomic(self) -> Self {
        Self(self.0 | Self::ATOMIC)
    }

    /// Whether memory is read.
    pub const fn loads(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether memory is written.
    pub const fn stores(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the access is atomic.
    pub const fn is_atomic(self) -> bool {
        self.0 & Self::ATOMIC != 0
    }

    /// The stored form; unknown bits are dropped, so any byte read back from a file is valid.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// The form stored in records and tables: bit 0 load, bit 1 store, bit 2 atomic.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The row of the table that this handle names.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A static memory instruction; a row of the sites table.
    SiteId
}
id! {
    /// A data structure as a person would name it; a row of the groups table.
    GroupId
}
id! {
    /// One object of a group (one heap block, one static variable); unique over the session.
    ObjectId
}
id! {
    /// A thread of the session (not the kernel's number: threads of all processes are counted through).
    ThreadId
}
id! {
    /// The functions that called where a sample was taken; a row of the table of call paths.
    CallPathId
}
id! {
    /// A run of consecutive instructions of one thread in which every access was seen.
    WindowId
}

/// What one row of a batch is evidence of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Evidence {
    /// A sample: it carries weight (cost), and counts for no execution.
    Cost,
    /// An observed execution inside a window: it counts, and carries no weight.
    Execution,
    /// Both, as in a full trace where each access has its cost.
    Both,
}

impl Evidence {
    /// Whether the row's weight is part of the session's weight.
    pub const fn has_cost(self) -> bool {
        matches!(self, Self::Cost | Self::Both)
    }

    /// Whether the row is an execution to be counted.
    pub const fn is_execution(self) -> bool {
        matches!(self, Self::Execution | Self::Both)
    }
}

/// What concerns a whole window: its rows follow one another in the batch.
#[cfg(feature = "session")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its handle, as its rows have it.
    pub id: WindowId,
    /// Its first row; it ends where the next one starts.
    pub first_row: u32,
    /// When it began; 0 where not known.
    pub time_ns: u64,
    /// Instructions executed from its start to its end; 0 where not known.
    pub instructions: u32,
    /// Weight of its rows. Where a clock started it: user time of the thread since the window before.
    pub weight: u64,
}

/// Consecutive accesses of one thread, attributed, as columns of equal length.
///
/// Rows are in program order inside one window, windows in order of time. A window never spans two batches.
#[cfg(feature = "session")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessBatch {
    /// The thread all rows belong to; `None` only in an empty batch.
    pub thread: Option<ThreadId>,
    /// The windows, by first row; every row belongs to one.
    pub windows: Vec<Window>,
    /// The window each row was seen in.
    pub window: Vec<WindowId>,
    /// The instruction.
    pub site: Vec<SiteId>,
    /// The address accessed; 0 where it is unknown (the row then belongs to the unattributed group).
    pub address: Vec<Avma>,
    /// Size of the access in bytes.
    pub bytes: Vec<u16>,
    /// Load, store or both.
    pub kind: Vec<AccessKind>,
    /// The data structure accessed.
    pub group: Vec<GroupId>,
    /// The object of that group.
    pub object: Vec<ObjectId>,
    /// Bytes from the start of the object to the address.
    pub offset: Vec<u64>,
    /// Cost in the session's weight unit; 0 where `evidence` is `Execution`.
    pub weight: Vec<u64>,
    /// What the row is evidence of.
    pub evidence: Vec<Evidence>,
    /// Of the rows with cost, in their order: CPU time of the thread when the sample was taken; 0 where not known.
    pub sample_cpu_ns: Vec<u64>,
    /// Of the rows with cost, likewise: when the sample was taken, in the session's time; 0 where not known.
    pub sample_time_ns: Vec<u64>,
    /// Of the rows with cost, likewise: who called; `None` where that was not asked for, or is not known.
    pub sample_path: Vec<Option<CallPathId>>,
    /// Of the rows with cost, likewise: what hardware tells of the access.
    pub served: Vec<Served>,
    /// Of the rows with cost, likewise: the path of regions that the thread was on, by its process's number for it; 0 outside of all, and where
    /// nobody tells. Executions of a window are where its last sample was.
    pub sample_region: Vec<u32>,
}

/// What is known of a sample beside the access that it is blamed on: a row of the columns of rows with cost.
#[cfg(feature = "session")]
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the columns above say what each is
pub struct Taken {
    pub cpu_ns: u64,
    pub time_ns: u64,
    pub path: Option<CallPathId>,
    pub served: Served,
    pub region: u32,
}

#[cfg(feature = "session")]
impl Taken {
    /// A sample of which nothing more is known.
    pub const UNKNOWN: Self = Self { cpu_ns: 0, time_ns: 0, path: None, served: Served::UNKNOWN, region: 0 };
}

/// One row of an [`AccessBatch`], for building and reading batches in tests and adapters.
#[cfg(feature = "session")]
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the columns above say what each is
pub struct Access {
    pub window: WindowId,
    pub site: SiteId,
    pub address: Avma,
    pub bytes: u16,
    pub kind: AccessKind,
    pub group: GroupId,
    pub object: ObjectId,
    pub offset: u64,
    pub weight: u64,
    pub evidence: Evidence,
}

#[cfg(feature = "session")]
impl AccessBatch {
    /// An empty batch of `thread` with room for `rows`.
    pub fn with_capacity(thread: ThreadId, rows: usize) -> Self {
        Self {
            thread: Some(thread),
            windows: Vec::new(),
            window: Vec::with_capacity(rows),
            site: Vec::with_capacity(rows),
            address: Vec::with_capacity(rows),
            bytes: Vec::with_capacity(rows),
            kind: Vec::with_capacity(rows),
            group: Vec::with_capacity(rows),
            object: Vec::with_capacity(rows),
            offset: Vec::with_capacity(rows),
            weight: Vec::with_capacity(rows),
            evidence: Vec::with_capacity(rows),
            sample_cpu_ns: Vec::new(),
            sample_time_ns: Vec::new(),
            sample_path: Vec::new(),
            served: Vec::new(),
            sample_region: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.site.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.site.is_empty()
    }

    /// Begins a window: rows pushed from now on belong to it.
    pub fn begin_window(&mut self, id: WindowId, time_ns: u64, instructions: u32) {
        let first_row = self.len() as u32;
        self.windows.push(Window { id, first_row, time_ns, instructions, weight: 0 });
    }

    /// The rows of the window at `index` of [`Self::windows`]; panics where there is none, as slices do.
    pub fn window_rows(&self, index: usize) -> core::ops::Range<usize> {
        let end = self.windows.get(index + 1).map_or(self.len(), |next| next.first_row as usize);
        self.windows[index].first_row as usize..end
    }

    /// Appends a sample of which so much is known; otherwise as [`Self::push`].
    pub fn push_sample(&mut self, row: Access, taken: Taken) {
        debug_assert!(row.evidence.has_cost(), "a sample has a cost");
        self.push_taken(row, taken);
    }

    /// Appends one row. Begins its window where that is not the last one begun; nothing is known of its time then.
    pub fn push(&mut self, row: Access) {
        self.push_taken(row, Taken::UNKNOWN);
    }

    fn push_taken(&mut self, row: Access, taken: Taken) {
        if self.windows.last().is_none_or(|window| window.id != row.window) {
            self.begin_window(row.window, 0, 0);
        }
        if let Some(window) = self.windows.last_mut().filter(|_| row.evidence.has_cost()) {
            window.weight += row.weight;
            self.sample_cpu_ns.push(taken.cpu_ns);
            self.sample_time_ns.push(taken.time_ns);
            self.sample_path.push(taken.path);
            self.served.push(taken.served);
            self.sample_region.push(taken.region);
        }
        self.window.push(row.window);
        self.site.push(row.site);
        self.address.push(row.address);
        self.bytes.push(row.bytes);
        self.kind.push(row.kind);
        self.group.push(row.group);
        self.object.push(row.object);
        self.offset.push(row.offset);
        self.weight.push(row.weight);
        self.evidence.push(row.evidence);
    }

    /// The row at `index`; panics where there is none, as slices do.
    pub fn row(&self, index: usize) -> Access {
        Access {
            window: self.window[index],
            site: self.site[index],
            address: self.address[index],
            bytes: self.bytes[index],
            kind: self.kind[index],
            group: self.group[index],
            object: self.object[index],
            offset: self.offset[index],
            weight: self.weight[index],
            evidence: self.evidence[index],
        }
    }
}

#[cfg(all(test, feature = "session"))]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_the_window_they_name() {
        let row = |window, weight, evidence| Access {
            window: WindowId(window),
            site: SiteId(1),
            address: Avma(0x1000),
            bytes: 8,
            kind: AccessKind::LOAD,
            group: GroupId(1),
            object: ObjectId(1),
            offset: 0,
            weight,
            evidence,
        };
        let mut batch = AccessBatch::with_capacity(ThreadId(0), 4);
        batch.begin_window(WindowId(7), 1_000, 250);
        let served = Served { latency_cycles: Some(30), ..Served::UNKNOWN };
        let taken = Taken { cpu_ns: 99, time_ns: 1_200, path: Some(CallPathId(3)), served, region: 4 };
        batch.push_sample(row(7, 30, Evidence::Cost), taken);
        batch.push(row(7, 0, Evidence::Execution));
        batch.push(row(8, 5, Evidence::Both));
        let windows = [
            Window { id: WindowId(7), first_row: 0, time_ns: 1_000, instructions: 250, weight: 30 },
            Window { id: WindowId(8), first_row: 2, time_ns: 0, instructions: 0, weight: 5 },
        ];
        assert_eq!(batch.windows, windows);
        assert_eq!((batch.window_rows(0), batch.window_rows(1)), (0..2, 2..3));
        assert_eq!(batch.sample_cpu_ns, [99, 0]);
        assert_eq!((batch.sample_time_ns, batch.sample_path), (vec![1_200, 0], vec![Some(CallPathId(3)), None]));
        assert_eq!(batch.served, [served, Served::UNKNOWN]);
        assert_eq!(batch.sample_region, [4, 0]);
    }
}
