//! Records of the kernel, each with its own fields and a trailer.

use crate::mapped_path::mapped_path;
use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::tables;

use super::attr::EventAttr;
use super::counters::Counters;
use super::fields::{Fields, Malformed};
use super::raw::{RawRecord, misc_bits, record_type};
use super::sample::Sample;
use super::trailer::{RecordId, TaskId};

/// A record and who wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<'a> {
    /// What it says.
    pub record: Record<'a>,
    /// Who, when and where; of a sample the same as [`Sample::id`].
    pub id: RecordId,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Box<Sample<'a>>),
    /// Memory was mapped (MMAP, MMAP2).
    Mapping(Mapping<'a>),
    /// A thread has a name.
    Comm {
        /// Thread.
        task: TaskId,
        /// Name.
        name: &'a [u8],
        /// It has it from `exec`: what was mapped before is gone.
        by_exec: bool,
    },
    /// A thread began.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// The buffer was full.
    Lost {
        /// Records of any kind that are missing.
        records: u64,
    },
    /// Samples that hardware or kernel dropped.
    LostSamples {
        /// How many.
        samples: u64,
    },
    /// The kernel stops the event, as it interrupts too often.
    Throttle,
    /// The kernel lets it go on.
    Unthrottle,
    /// Counters of a thread that ended.
    Read {
        /// Thread.
        task: TaskId,
        /// Values.
        counters: Counters<'a>,
    },
    /// The AUX area has new data.
    Aux {
        /// Where it begins.
        offset: u64,
        /// How much.
        bytes: u64,
        /// `PERF_AUX_FLAG_*`.
        flags: u64,
    },
    /// A thread was switched to or from.
    Switch {
        /// From.
        is_out: bool,
        /// It could have gone on.
        is_preempted: bool,
        /// The thread that ran before, or runs next, where the event counts whole CPUs.
        other: Option<TaskId>,
    },
    /// Code of the kernel came or went.
    KernelSymbol {
        /// Where.
        address: u64,
        /// How much.
        bytes: u32,
        /// It went.
        is_gone: bool,
        /// Name.
        name: &'a [u8],
    },
    /// A record that says nothing of data, its type.
    Other(u32),
    /// A record that is not known here, its type.
    Unknown(u32),
}

/// Memory that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Thread that did it; a mapping of the kernel's has a `pid` with all bits set.
    pub task: TaskId,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Place in the file.
    pub file_offset: u64,
    /// File, or a name such as `[heap]` or `//anon`.
    pub name: &'a [u8],
    /// It holds no code, as far as is known: see [`Self::protection`] for what is.
    pub is_data: bool,
    /// `PROT_*` and `MAP_*`, of MMAP2.
    pub protection: Option<[u32; 2]>,
    /// What is known of the file, of MMAP2.
    pub origin: MappingOrigin<'a>,
}

impl Mapping<'_> {
    /// As `/proc/<pid>/maps` would tell it; `None` for memory that is none.
    pub fn row(&self, time_ns: u64) -> Option<tables::Mapping> {
        const PROT: [(u32, char); 3] = [(1, 'r'), (2, 'w'), (4, 'x')];
        const MAP_SHARED: u32 = 1;
        let end = self.start.checked_add(self.bytes).filter(|_| self.bytes > 0)?;
        let permissions = match self.protection {
            Some([protection, flags]) => {
                let letters = PROT.iter().map(|&(bit, letter)| if protection & bit != 0 { letter } else { '-' });
                letters.chain([if flags & MAP_SHARED != 0 { 's' } else { 'p' }]).collect()
            }
            // MMAP tells code from data, and no more.
            None if self.is_data => "rw-p".to_owned(),
            None => "r-xp".to_owned(),
        };
        let (device, inode) = match self.origin {
            MappingOrigin::Inode { major, minor, inode } => (format!("{major:02x}:{minor:02x}"), inode),
            MappingOrigin::BuildId(_) | MappingOrigin::Untold => ("00:00".to_owned(), 0),
        };
        let name = mapped_path(self.name, inode, None);
        let is_anonymous = name == "//anon";
        Some(tables::Mapping {
            start: Avma(self.start),
            end: Avma(end),
            // Where there is no file, the kernel tells the address here.
            file_offset: FileOffset(if name.starts_with('/') && !is_anonymous { self.file_offset } else { 0 }),
            permissions,
            device,
            inode,
            path: if is_anonymous { String::new() } else { name },
            first_seen_ns: time_ns,
            last_seen_ns: time_ns,
        })
    }
}

/// Which file a mapping is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingOrigin<'a> {
    /// MMAP does not tell.
    Untold,
    /// By inode.
    Inode {
        /// Device, major number.
        major: u32,
        /// Device, minor number.
        minor: u32,
        /// Inode; 0 for anonymous memory.
        inode: u64,
    },
    /// By content.
    BuildId(&'a [u8]),
}

/// A thread that began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The thread.
    pub task: TaskId,
    /// The thread that made it.
    pub parent: TaskId,
    /// When.
    pub time: u64,
    /// The thread began with the mappings of its parent, if it is a process of its own.
    pub inherits: bool,
}

impl Task {
    fn decode(record: &RawRecord<'_>, fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        const WITHIN: &str = "thread";
        let (pid, parent_pid) = (fields.u32(WITHIN)?, fields.u32(WITHIN)?);
        let (tid, parent_tid) = (fields.u32(WITHIN)?, fields.u32(WITHIN)?);
        let parent = TaskId { pid: parent_pid, tid: parent_tid };
        let inherits = record.misc & misc_bits::FORK_EXEC == 0;
        Ok(Self { task: TaskId { pid, tid }, parent, time: fields.u64(WITHIN)?, inherits })
    }
}

impl<'a> Mapping<'a> {
    fn decode(record: &RawRecord<'a>, fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        const WITHIN: &str = "mapping";
        let task = TaskId::decode(fields)?;
        let (start, bytes, file_offset) = (fields.u64(WITHIN)?, fields.u64(WITHIN)?, fields.u64(WITHIN)?);
        let (mut origin, mut protection) = (MappingOrigin::Untold, None);
        if record.kind == record_type::MMAP2 {
            const ORIGIN_BYTES: usize = 24;
            let mut of_file = Fields::new(fields.take(ORIGIN_BYTES, WITHIN)?, fields.order());
            origin = if record.misc & misc_bits::MMAP_BUILD_ID != 0 {
                let size = usize::from(of_file.u8(WITHIN)?);
                of_file.take(3, WITHIN)?;
                MappingOrigin::BuildId(of_file.take(size, "build id")?)
            } else {
                let (major, minor) = (of_file.u32(WITHIN)?, of_file.u32(WITHIN)?);
                MappingOrigin::Inode { major, minor, inode: of_file.u64(WITHIN)? }
            };
            protection = Some([fields.u32(WITHIN)?, fields.u32(WITHIN)?]);
        }
        let is_data = record.misc & misc_bits::MMAP_DATA != 0;
        Ok(Self { task, start, bytes, file_offset, name: fields.text(), is_data, protection, origin })
    }
}

impl<'a> Record<'a> {
    /// Decodes a record that the event `attr` wrote. A type that is not known is no error.
    ///
    /// # Errors
    /// The record ends before its fields do.
    pub fn decode(record: &RawRecord<'a>, attr: &EventAttr) -> Result<Decoded<'a>, Malformed> {
        if record.kind == record_type::SAMPLE {
            let sample = Sample::decode(record, attr)?;
            return Ok(Decoded { id: sample.id, record: Self::Sample(Box::new(sample)) });
        }
        if record.kind >= record_type::FIRST_OF_PERF {
            return Ok(Decoded { record: Self::Unknown(record.kind), id: RecordId::default() });
        }
        let mut fields = record.fields();
        let id = RecordId::split_off(&mut fields, attr)?;
        Ok(Decoded { record: Self::decode_fields(record, &mut fields, attr)?, id })
    }

    fn decode_fields(record: &RawRecord<'a>, fields: &mut Fields<'a>, attr: &EventAttr) -> Result<Self, Malformed> {
        let is_out = record.misc & misc_bits::SWITCH_OUT != 0;
        let is_preempted = is_out && record.misc & misc_bits::SWITCH_OUT_PREEMPT != 0;
        Ok(match record.kind {
            record_type::MMAP | record_type::MMAP2 => Self::Mapping(Mapping::decode(record, fields)?),
            record_type::COMM => Self::Comm {
                task: TaskId::decode(fields)?,
                name: fields.text(),
                by_exec: record.misc & misc_bits::COMM_EXEC != 0,
            },
            record_type::FORK => Self::Fork(Task::decode(record, fields)?),
            record_type::EXIT => Self::Exit(Task::decode(record, fields)?),
            record_type::LOST => {
                fields.u64("event id")?;
                Self::Lost { records: fields.u64("losses")? }
            }
            record_type::LOST_SAMPLES => Self::LostSamples { samples: fields.u64("losses")? },
            record_type::THROTTLE => Self::Throttle,
            record_type::UNTHROTTLE => Self::Unthrottle,
            record_type::READ => {
                Self::Read { task: TaskId::decode(fields)?, counters: Counters::decode(fields, attr.read_format)? }
            }
            record_type::AUX => Self::Aux {
                offset: fields.u64("AUX range")?,
                bytes: fields.u64("AUX range")?,
                flags: fields.u64("AUX range")?,
            },
            record_type::SWITCH => Self::Switch { is_out, is_preempted, other: None },
            record_type::SWITCH_CPU_WIDE => Self::Switch { is_out, is_preempted, other: Some(TaskId::decode(fields)?) },
            record_type::KSYMBOL => {
                const WITHIN: &str = "symbol";
                const GONE: u16 = 1;
                let (address, bytes) = (fields.u64(WITHIN)?, fields.u32(WITHIN)?);
                fields.u16(WITHIN)?;
                let is_gone = fields.u16(WITHIN)? & GONE != 0;
                Self::KernelSymbol { address, bytes, is_gone, name: fields.text() }
            }
            record_type::ITRACE_START
            | record_type::NAMESPACES
            | record_type::BPF_EVENT
            | record_type::CGROUP
            | record_type::TEXT_POKE
            | record_type::AUX_OUTPUT_HW_ID => Self::Other(record.kind),
            unknown => Self::Unknown(unknown),
        })
    }
}
