//! Samples: every field that an event can ask for.

use super::attr::{EventAttr, sample_type};
use super::branches::BranchStack;
use super::counters::Counters;
use super::data_source::DataSource;
use super::fields::{Fields, Malformed, Words};
use super::raw::{RawRecord, misc_bits};
use super::trailer::{RecordId, TaskId};

/// A sample. A field is `None` where its event does not ask for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample<'a> {
    /// In which mode the CPU was; see [`misc_bits::CPUMODE_MASK`].
    pub cpu_mode: u16,
    /// [`Self::ip`] is that of the instruction that caused the sample, as the hardware says.
    pub has_exact_ip: bool,
    /// Who, when and where.
    pub id: RecordId,
    /// Instruction pointer.
    pub ip: Option<u64>,
    /// Address accessed; 0 where the event has none.
    pub address: Option<u64>,
    /// Events since the sample before.
    pub period: Option<u64>,
    /// Values of counters.
    pub counters: Option<Counters<'a>>,
    /// Call chain, see [`Self::callchain`].
    pub chain: Option<Words<'a>>,
    /// What the PMU or the tracepoint adds.
    pub raw: Option<&'a [u8]>,
    /// Branches before the sample.
    pub branches: Option<BranchStack<'a>>,
    /// Registers of user mode.
    pub user_registers: Option<Registers<'a>>,
    /// Copy of the user's stack.
    pub user_stack: Option<UserStack<'a>>,
    /// Cost of the access.
    pub weight: Option<Weight>,
    /// How memory served the access.
    pub data_source: Option<DataSource>,
    /// What became of a hardware transaction.
    pub transaction: Option<u64>,
    /// Registers at the interrupt, or at the instruction where the hardware keeps them.
    pub interrupt_registers: Option<Registers<'a>>,
    /// Physical address; 0 where there is none.
    pub physical_address: Option<u64>,
    /// Number of the thread's cgroup.
    pub cgroup: Option<u64>,
    /// Size of the page of [`Self::address`]; 0 where not known.
    pub data_page_bytes: Option<u64>,
    /// Size of the page of [`Self::ip`]; 0 where not known.
    pub code_page_bytes: Option<u64>,
    /// A piece of the AUX area.
    pub aux: Option<&'a [u8]>,
}

/// Cost of an access, in units of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One number (`PERF_SAMPLE_WEIGHT`): on x86 cycles.
    One(u64),
    /// Three (`PERF_SAMPLE_WEIGHT_STRUCT`).
    Three {
        /// x86: cycles of the access. POWER: of the load.
        access: u32,
        /// x86: cycles of the instruction, from dispatch or tag to its end.
        instruction: u16,
        /// Intel: cycles that it held up retiring. POWER: a stage of the pipeline.
        retire: u16,
    },
}

/// Registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// 0 none, 1 of 32 bits, 2 of 64 bits.
    pub abi: u64,
    /// Which registers there are.
    pub mask: u64,
    /// Their values, in the order of the mask's bits; none where `abi` is 0.
    pub values: Words<'a>,
}

impl<'a> Registers<'a> {
    const WITHIN: &'static str = "registers";

    fn decode(fields: &mut Fields<'a>, mask: u64) -> Result<Self, Malformed> {
        let abi = fields.u64(Self::WITHIN)?;
        let count = if abi == 0 { 0 } else { mask.count_ones() };
        Ok(Self { abi, mask, values: fields.words(count.into(), Self::WITHIN)? })
    }

    /// The register of bit `number` of the mask.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        self.values.get((self.mask & (bit - 1)).count_ones() as usize)
    }
}

/// Copy of the user's stack, from its pointer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// All bytes copied; those beyond `valid_bytes` mean nothing.
    pub bytes: &'a [u8],
    /// Bytes that could be read.
    pub valid_bytes: u64,
}

impl<'a> UserStack<'a> {
    fn decode(fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        const WITHIN: &str = "user stack";
        let size = fields.u64(WITHIN)?;
        let bytes = fields.sized(size, WITHIN)?;
        // Where nothing was copied nothing says how much was.
        let valid_bytes = if size == 0 { 0 } else { fields.u64(WITHIN)?.min(size) };
        Ok(Self { bytes, valid_bytes })
    }
}

/// In whose code the frames are that follow in a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A hypervisor's.
    Hypervisor,
    /// The kernel's.
    Kernel,
    /// The program's.
    User,
    /// That of a guest of this machine.
    Guest,
    /// Another, of a newer kernel.
    Unknown,
}

/// An entry of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainFrame {
    /// Whose code.
    pub context: Context,
    /// The instruction pointer for the first frame of each context, else a return address.
    pub address: u64,
}

impl Context {
    /// The kernel marks contexts by addresses that none can be: the last page but one byte.
    fn of_marker(address: u64) -> Option<Self> {
        const FIRST_MARKER: u64 = -4095_i64 as u64;
        (address >= FIRST_MARKER).then(|| match address.cast_signed() {
            -32 => Self::Hypervisor,
            -128 => Self::Kernel,
            -512 => Self::User,
            -2048 | -2176 | -2560 => Self::Guest,
            _ => Self::Unknown,
        })
    }
}

impl<'a> Sample<'a> {
    /// Decodes a sample of the event `attr`.
    ///
    /// # Errors
    /// It ends before its fields do.
    pub fn decode(record: &RawRecord<'a>, attr: &EventAttr) -> Result<Self, Malformed> {
        let mut sample = Self {
            cpu_mode: record.cpu_mode(),
            has_exact_ip: record.misc & misc_bits::EXACT_IP != 0,
            ..Self::default()
        };
        let mut fields = record.fields();
        sample.decode_head(&mut fields, attr)?;
        sample.decode_context(&mut fields, attr)?;
        sample.decode_access(&mut fields, attr)?;
        Ok(sample)
    }

    /// Decodes who, when and where alone.
    pub(super) fn decode_id(record: &RawRecord<'a>, attr: &EventAttr) -> Result<RecordId, Malformed> {
        let mut sample = Self::default();
        sample.decode_head(&mut record.fields(), attr)?;
        Ok(sample.id)
    }

    /// The fields of fixed size.
    fn decode_head(&mut self, fields: &mut Fields<'a>, attr: &EventAttr) -> Result<(), Malformed> {
        let has = |field| attr.samples(field);
        if has(sample_type::IDENTIFIER) {
            self.id.id = Some(fields.u64("identifier")?);
        }
        if has(sample_type::IP) {
            self.ip = Some(fields.u64("instruction pointer")?);
        }
        if has(sample_type::TID) {
            self.id.task = Some(TaskId::decode(fields)?);
        }
        if has(sample_type::TIME) {
            self.id.time = Some(fields.u64("time")?);
        }
        if has(sample_type::ADDR) {
            self.address = Some(fields.u64("address")?);
        }
        if has(sample_type::ID) {
            self.id.id = Some(fields.u64("event id")?);
        }
        if has(sample_type::STREAM_ID) {
            self.id.stream_id = Some(fields.u64("stream id")?);
        }
        if has(sample_type::CPU) {
            self.id.cpu = Some(fields.u32("cpu")?);
            fields.u32("cpu")?;
        }
        if has(sample_type::PERIOD) {
            self.period = Some(fields.u64("period")?);
        }
        Ok(())
    }

    /// What surrounds the instruction: counters, callers, branches, registers, stack.
    fn decode_context(&mut self, fields: &mut Fields<'a>, attr: &EventAttr) -> Result<(), Malformed> {
        let has = |field| attr.samples(field);
        if has(sample_type::READ) {
            self.counters = Some(Counters::decode(fields, attr.read_format)?);
        }
        if has(sample_type::CALLCHAIN) {
            const WITHIN: &str = "call chain";
            let count = fields.u64(WITHIN)?;
            self.chain = Some(fields.words(count, WITHIN)?);
        }
        if has(sample_type::RAW) {
            const WITHIN: &str = "raw data";
            let size = fields.u32(WITHIN)?;
            self.raw = Some(fields.sized(size.into(), WITHIN)?);
            // Size and data together fill whole words; the kernel counts the padding as data.
            let padding = (size.wrapping_add(4)).wrapping_neg() % 8;
            fields.sized(padding.into(), WITHIN)?;
        }
        if has(sample_type::BRANCH_STACK) {
            self.branches = Some(BranchStack::decode(fields, attr)?);
        }
        if has(sample_type::REGS_USER) {
            self.user_registers = Some(Registers::decode(fields, attr.user_registers)?);
        }
        if has(sample_type::STACK_USER) {
            self.user_stack = Some(UserStack::decode(fields)?);
        }
        Ok(())
    }

    /// What is told of the access.
    fn decode_access(&mut self, fields: &mut Fields<'a>, attr: &EventAttr) -> Result<(), Malformed> {
        let has = |field| attr.samples(field);
        if has(sample_type::WEIGHT) {
            self.weight = Some(Weight::One(fields.u64("weight")?));
        } else if has(sample_type::WEIGHT_STRUCT) {
            // A union with one word: its parts are at the same bits in both byte orders.
            let word = fields.u64("weight")?;
            let [access, upper] = [word as u32, (word >> 32) as u32];
            self.weight = Some(Weight::Three { access, instruction: upper as u16, retire: (upper >> 16) as u16 });
        }
        if has(sample_type::DATA_SRC) {
            self.data_source = Some(DataSource(fields.u64("data source")?));
        }
        if has(sample_type::TRANSACTION) {
            self.transaction = Some(fields.u64("transaction")?);
        }
        if has(sample_type::REGS_INTR) {
            self.interrupt_registers = Some(Registers::decode(fields, attr.interrupt_registers)?);
        }
        if has(sample_type::PHYS_ADDR) {
            self.physical_address = Some(fields.u64("physical address")?);
        }
        if has(sample_type::CGROUP) {
            self.cgroup = Some(fields.u64("cgroup")?);
        }
        if has(sample_type::DATA_PAGE_SIZE) {
            self.data_page_bytes = Some(fields.u64("page size")?);
        }
        if has(sample_type::CODE_PAGE_SIZE) {
            self.code_page_bytes = Some(fields.u64("page size")?);
        }
        if has(sample_type::AUX) {
            const WITHIN: &str = "AUX data";
            let size = fields.u64(WITHIN)?;
            self.aux = Some(fields.sized(size, WITHIN)?);
        }
        Ok(())
    }

    /// The call chain, innermost first, without the marks between contexts.
    pub fn callchain(&self) -> impl Iterator<Item = CallchainFrame> + use<'a> {
        let mut context = match self.cpu_mode {
            misc_bits::CPUMODE_KERNEL => Context::Kernel,
            misc_bits::CPUMODE_USER => Context::User,
            misc_bits::CPUMODE_HYPERVISOR => Context::Hypervisor,
            misc_bits::CPUMODE_GUEST_KERNEL | misc_bits::CPUMODE_GUEST_USER => Context::Guest,
            _ => Context::Unknown,
        };
        self.chain.unwrap_or_default().iter().filter_map(move |address| {
            if let Some(next) = Context::of_marker(address) {
                context = next;
                return None;
            }
            Some(CallchainFrame { context, address })
        })
    }

    /// Whether the program itself was running, not the kernel or a guest of this machine.
    pub fn is_user(&self) -> bool {
        self.cpu_mode == misc_bits::CPUMODE_USER
    }
}
