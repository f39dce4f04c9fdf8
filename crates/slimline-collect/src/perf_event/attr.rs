//! `perf_event_attr`: what an event counts and what its records hold.

use super::fields::{ByteOrder, Fields, Malformed};

/// Values of [`EventAttr::kind`].
#[allow(missing_docs)] // the kernel's names
pub mod event_type {
    pub const HARDWARE: u32 = 0;
    pub const SOFTWARE: u32 = 1;
    pub const TRACEPOINT: u32 = 2;
    pub const HW_CACHE: u32 = 3;
    pub const RAW: u32 = 4;
    pub const BREAKPOINT: u32 = 5;
}

/// Values of [`EventAttr::config`] for [`event_type::SOFTWARE`].
#[allow(missing_docs)] // the kernel's names
pub mod software_event {
    pub const CPU_CLOCK: u64 = 0;
    pub const TASK_CLOCK: u64 = 1;
    pub const DUMMY: u64 = 9;
}

/// Bits of [`EventAttr::sample_type`]: the fields of samples.
#[allow(missing_docs)] // the kernel's names
pub mod sample_type {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// All of them. Where a field of another bit would lie is not known.
    pub const KNOWN: u64 = (1 << 25) - 1;
}

/// Bits of [`EventAttr::read_format`]: what is read of counters.
#[allow(missing_docs)] // the kernel's names
pub mod read_format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
    pub const KNOWN: u64 = (1 << 5) - 1;
}

/// Bits of [`EventAttr::branch_sample_type`] that change what a branch stack holds.
#[allow(missing_docs)] // the kernel's names
pub mod branch_sample_type {
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
    pub const KNOWN: u64 = (1 << 20) - 1;
}

/// The bit field of switches in the middle of the attribute, bit 0 the one declared first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u64);

#[allow(missing_docs)] // the kernel's names
impl Flags {
    pub const DISABLED: Self = Self(1 << 0);
    pub const INHERIT: Self = Self(1 << 1);
    pub const EXCLUDE_USER: Self = Self(1 << 4);
    pub const EXCLUDE_KERNEL: Self = Self(1 << 5);
    pub const EXCLUDE_HV: Self = Self(1 << 6);
    pub const MMAP: Self = Self(1 << 8);
    pub const COMM: Self = Self(1 << 9);
    /// [`EventAttr::period_or_frequency`] is a frequency.
    pub const FREQ: Self = Self(1 << 10);
    pub const ENABLE_ON_EXEC: Self = Self(1 << 12);
    pub const TASK: Self = Self(1 << 13);
    pub const WATERMARK: Self = Self(1 << 14);
    pub const MMAP_DATA: Self = Self(1 << 17);
    /// Records other than samples have a trailer, too.
    pub const SAMPLE_ID_ALL: Self = Self(1 << 18);
    pub const MMAP2: Self = Self(1 << 23);
    pub const COMM_EXEC: Self = Self(1 << 24);
    pub const USE_CLOCKID: Self = Self(1 << 25);
    pub const CONTEXT_SWITCH: Self = Self(1 << 26);
    pub const BUILD_ID: Self = Self(1 << 34);
    /// Threads inherit the event, new processes do not.
    pub const INHERIT_THREAD: Self = Self(1 << 35);
    const PRECISE_SHIFT: u32 = 15;
    /// Bits 15 and 16, the only field of more than one bit.
    const PRECISE_BITS: u64 = 3 << Self::PRECISE_SHIFT;

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The first without the second.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// With the skid asked for: 0 any, 3 none.
    #[must_use]
    pub const fn with_precise_ip(self, precise: u8) -> Self {
        Self(self.0 & !Self::PRECISE_BITS | (precise as u64) << Self::PRECISE_SHIFT & Self::PRECISE_BITS)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// How near a sample's instruction pointer had to be to the instruction that caused it: 0 anywhere, 1 at a constant
    /// distance, 2 at it if possible, 3 at it.
    pub const fn precise_ip(self) -> u8 {
        ((self.0 & Self::PRECISE_BITS) >> Self::PRECISE_SHIFT) as u8
    }

    fn from_word(word: u64, order: ByteOrder) -> Self {
        match order {
            ByteOrder::Little => Self(word),
            ByteOrder::Big => {
                let precise = order.bit_field(word, Self::PRECISE_SHIFT, 2);
                Self(word.reverse_bits() & !Self::PRECISE_BITS | precise << Self::PRECISE_SHIFT)
            }
        }
    }
}

/// An event as it was asked for: the kernel's `perf_event_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventAttr {
    /// Major type, or the number of a PMU; see [`event_type`].
    pub kind: u32,
    /// What of that.
    pub config: u64,
    /// Events between two samples, or samples a second where [`Flags::FREQ`] is set.
    pub period_or_frequency: u64,
    /// Fields of samples; see [`sample_type`].
    pub sample_type: u64,
    /// What is read of counters; see [`read_format`].
    pub read_format: u64,
    /// Switches.
    pub flags: Flags,
    /// Records, or with [`Flags::WATERMARK`] bytes, before the reader is woken.
    pub wakeup: u32,
    /// What a breakpoint stops at.
    pub breakpoint_type: u32,
    /// More of `config`, or a breakpoint's address.
    pub config1: u64,
    /// More of `config`, or a breakpoint's length.
    pub config2: u64,
    /// Which branches, and what of them; see [`branch_sample_type`].
    pub branch_sample_type: u64,
    /// Registers of user mode in samples, a bit each.
    pub user_registers: u64,
    /// Bytes of the user's stack in samples.
    pub user_stack_bytes: u32,
    /// Clock of times, with [`Flags::USE_CLOCKID`].
    pub clock_id: i32,
    /// Registers at the interrupt in samples, a bit each.
    pub interrupt_registers: u64,
    /// Watermark of the AUX area.
    pub aux_watermark: u32,
    /// Longest call chain.
    pub max_stack: u16,
    /// Bytes of the AUX area in samples.
    pub aux_sample_bytes: u32,
    /// What `sigtrap` sends along.
    pub signal_data: u64,
    /// More of `config`.
    pub config3: u64,
}

/// Smallest size that a kernel ever had (`PERF_ATTR_SIZE_VER0`).
const LEAST_BYTES: usize = 64;
/// Size with all fields known here (`PERF_ATTR_SIZE_VER8`).
const KNOWN_BYTES: usize = 136;
/// No kernel takes more (a page).
const MOST_BYTES: usize = 4096;

impl EventAttr {
    /// Decodes an attribute of the size that it states itself, and tells that size. Fields that a shorter, older one
    /// lacks are 0; what a longer, newer one has behind [`Self::config3`] is left out.
    ///
    /// # Errors
    /// It is shorter than it states, or states a size that no kernel has.
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Result<(Self, usize), Malformed> {
        const WITHIN: &str = "event attribute";
        let mut head = Fields::new(bytes, order);
        head.u32(WITHIN)?;
        // Before the field had a meaning it was 0.
        let size = match head.u32(WITHIN)? as usize {
            0 => LEAST_BYTES,
            size => size,
        };
        if !(LEAST_BYTES..=MOST_BYTES).contains(&size) || bytes.len() < size {
            return Err(Malformed { within: WITHIN });
        }
        let mut known = [0; KNOWN_BYTES];
        let copied = size.min(KNOWN_BYTES);
        known[..copied].copy_from_slice(&bytes[..copied]);
        Ok((Self::decode_known(&known, order)?, size))
    }

    fn decode_known(bytes: &[u8; KNOWN_BYTES], order: ByteOrder) -> Result<Self, Malformed> {
        const WITHIN: &str = "event attribute";
        let mut fields = Fields::new(bytes, order);
        let kind = fields.u32(WITHIN)?;
        fields.u32(WITHIN)?;
        let config = fields.u64(WITHIN)?;
        let period_or_frequency = fields.u64(WITHIN)?;
        let sample_type = fields.u64(WITHIN)?;
        let read_format = fields.u64(WITHIN)?;
        let flags = Flags::from_word(fields.u64(WITHIN)?, order);
        let wakeup = fields.u32(WITHIN)?;
        let breakpoint_type = fields.u32(WITHIN)?;
        let config1 = fields.u64(WITHIN)?;
        let config2 = fields.u64(WITHIN)?;
        let branch_sample_type = fields.u64(WITHIN)?;
        let user_registers = fields.u64(WITHIN)?;
        let user_stack_bytes = fields.u32(WITHIN)?;
        let clock_id = fields.u32(WITHIN)?.cast_signed();
        let interrupt_registers = fields.u64(WITHIN)?;
        let aux_watermark = fields.u32(WITHIN)?;
        let max_stack = fields.u16(WITHIN)?;
        fields.u16(WITHIN)?;
        let aux_sample_bytes = fields.u32(WITHIN)?;
        fields.u32(WITHIN)?;
        let signal_data = fields.u64(WITHIN)?;
        let config3 = fields.u64(WITHIN)?;
        Ok(Self {
            kind,
            config,
            period_or_frequency,
            sample_type,
            read_format,
            flags,
            wakeup,
            breakpoint_type,
            config1,
            config2,
            branch_sample_type,
            user_registers,
            user_stack_bytes,
            clock_id,
            interrupt_registers,
            aux_watermark,
            max_stack,
            aux_sample_bytes,
            signal_data,
            config3,
        })
    }

    /// As this machine's kernel takes it.
    pub fn encode(&self) -> [u8; KNOWN_BYTES] {
        let mut bytes = Vec::with_capacity(KNOWN_BYTES);
        let flags = match ByteOrder::NATIVE {
            ByteOrder::Little => self.flags.0,
            // The way back is the same way.
            ByteOrder::Big => {
                let precise = u64::from(self.flags.precise_ip()) << (64 - Flags::PRECISE_SHIFT - 2);
                (self.flags.0 & !Flags::PRECISE_BITS).reverse_bits() | precise
            }
        };
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend((KNOWN_BYTES as u32).to_ne_bytes());
        for word in [self.config, self.period_or_frequency, self.sample_type, self.read_format, flags] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.wakeup.to_ne_bytes());
        bytes.extend(self.breakpoint_type.to_ne_bytes());
        for word in [self.config1, self.config2, self.branch_sample_type, self.user_registers] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.user_stack_bytes.to_ne_bytes());
        bytes.extend(self.clock_id.to_ne_bytes());
        bytes.extend(self.interrupt_registers.to_ne_bytes());
        bytes.extend(self.aux_watermark.to_ne_bytes());
        bytes.extend(self.max_stack.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.aux_sample_bytes.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.signal_data.to_ne_bytes());
        bytes.extend(self.config3.to_ne_bytes());
        bytes.try_into().unwrap_or([0; KNOWN_BYTES])
    }

    /// Whether samples have all fields of `bits`.
    pub fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    /// What of this attribute makes the layout of records unknown here: bits that a newer kernel has.
    pub fn unknown_layout(&self) -> Option<String> {
        let unknown = |name: &str, bits: u64| (bits != 0).then(|| format!("{name} bits {bits:#x}"));
        unknown("sample_type", self.sample_type & !sample_type::KNOWN)
            .or_else(|| unknown("read_format", self.read_format & !read_format::KNOWN))
            .or_else(|| {
                let branches = self.samples(sample_type::BRANCH_STACK);
                let bits = self.branch_sample_type & !branch_sample_type::KNOWN;
                unknown("branch_sample_type", if branches { bits } else { 0 })
            })
    }

    /// Whether it counts time: its period is in nanoseconds.
    pub fn counts_time(&self) -> bool {
        self.kind == event_type::SOFTWARE
            && matches!(self.config, software_event::CPU_CLOCK | software_event::TASK_CLOCK)
    }
}
