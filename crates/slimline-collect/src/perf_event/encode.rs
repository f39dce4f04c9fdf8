//! The decoder's twin for tests: writes records as the kernel does, in either byte order.

use super::attr::{EventAttr, Flags, branch_sample_type, read_format, sample_type};
use super::fields::ByteOrder;
use super::raw::{HEADER_BYTES, record_type};

/// Values for every field that a sample can have; which of them are written is for its event to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SyntheticSample {
    pub(crate) misc: u16,
    pub(crate) identifier: u64,
    pub(crate) ip: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time: u64,
    pub(crate) address: u64,
    pub(crate) id: u64,
    pub(crate) stream_id: u64,
    pub(crate) cpu: u32,
    pub(crate) period: u64,
    pub(crate) times: [u64; 2],
    /// Value, id, lost.
    pub(crate) counters: Vec<[u64; 3]>,
    pub(crate) chain: Vec<u64>,
    pub(crate) raw: Vec<u8>,
    pub(crate) hardware_index: u64,
    /// From, to, mispredicted, predicted, cycles, counters.
    pub(crate) branches: Vec<(u64, u64, bool, bool, u16, u64)>,
    pub(crate) user_abi: u64,
    pub(crate) user_registers: Vec<u64>,
    pub(crate) user_stack: Vec<u8>,
    pub(crate) valid_stack_bytes: u64,
    pub(crate) weight: u64,
    pub(crate) data_source: u64,
    pub(crate) transaction: u64,
    pub(crate) interrupt_abi: u64,
    pub(crate) interrupt_registers: Vec<u64>,
    pub(crate) physical_address: u64,
    pub(crate) cgroup: u64,
    pub(crate) data_page_bytes: u64,
    pub(crate) code_page_bytes: u64,
    pub(crate) aux: Vec<u8>,
}

/// Records one after another.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Self { order, bytes: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    /// Text with its zero, padded to whole words.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes());
        let padding = 8 - text.len() % 8;
        self.raw(&[0; 8][..padding])
    }

    /// A record: its fields are what `body` writes.
    pub(crate) fn record(&mut self, kind: u32, misc: u16, body: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::new(self.order);
        body(&mut inner);
        let size = u16::try_from(HEADER_BYTES + inner.bytes.len()).expect("records are shorter than 64 KiB");
        self.u32(kind).u16(misc).u16(size).raw(&inner.bytes)
    }

    /// A record with the trailer that the event has.
    pub(crate) fn with_trailer(
        &mut self,
        attr: &EventAttr,
        values: &SyntheticSample,
        kind: u32,
        misc: u16,
        body: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.record(kind, misc, |fields| {
            body(fields);
            if attr.flags.has(Flags::SAMPLE_ID_ALL) {
                fields.trailer(attr, values);
            }
        })
    }

    fn trailer(&mut self, attr: &EventAttr, values: &SyntheticSample) {
        let has = |field| attr.samples(field);
        if has(sample_type::TID) {
            self.u32(values.pid).u32(values.tid);
        }
        if has(sample_type::TIME) {
            self.u64(values.time);
        }
        if has(sample_type::ID) {
            self.u64(values.id);
        }
        if has(sample_type::STREAM_ID) {
            self.u64(values.stream_id);
        }
        if has(sample_type::CPU) {
            self.u32(values.cpu).u32(0);
        }
        if has(sample_type::IDENTIFIER) {
            self.u64(values.identifier);
        }
    }

    pub(crate) fn comm(
        &mut self,
        attr: &EventAttr,
        values: &SyntheticSample,
        pid: u32,
        tid: u32,
        name: &str,
        by_exec: bool,
    ) -> &mut Self {
        let misc = if by_exec { super::misc_bits::COMM_EXEC } else { 0 };
        self.with_trailer(attr, values, record_type::COMM, misc, |fields| {
            fields.u32(pid).u32(tid).text(name);
        })
    }

    pub(crate) fn sample(&mut self, attr: &EventAttr, sample: &SyntheticSample) -> &mut Self {
        self.record(record_type::SAMPLE, sample.misc, |fields| fields.sample_fields(attr, sample))
    }

    fn sample_fields(&mut self, attr: &EventAttr, sample: &SyntheticSample) {
        let has = |field| attr.samples(field);
        let mut word = |field, value| {
            if has(field) {
                self.u64(value);
            }
        };
        word(sample_type::IDENTIFIER, sample.identifier);
        word(sample_type::IP, sample.ip);
        if has(sample_type::TID) {
            self.u32(sample.pid).u32(sample.tid);
        }
        let mut word = |field, value| {
            if has(field) {
                self.u64(value);
            }
        };
        word(sample_type::TIME, sample.time);
        word(sample_type::ADDR, sample.address);
        word(sample_type::ID, sample.id);
        word(sample_type::STREAM_ID, sample.stream_id);
        if has(sample_type::CPU) {
            self.u32(sample.cpu).u32(0);
        }
        if has(sample_type::PERIOD) {
            self.u64(sample.period);
        }
        if has(sample_type::READ) {
            self.counters(attr.read_format, sample);
        }
        if has(sample_type::CALLCHAIN) {
            self.words(&sample.chain);
        }
        if has(sample_type::RAW) {
            let size = (sample.raw.len() + 4).next_multiple_of(8) - 4;
            self.u32(size as u32).raw(&sample.raw).raw(&vec![0; size - sample.raw.len()]);
        }
        if has(sample_type::BRANCH_STACK) {
            self.branches(attr.branch_sample_type, sample);
        }
        if has(sample_type::REGS_USER) {
            self.registers(sample.user_abi, &sample.user_registers);
        }
        if has(sample_type::STACK_USER) {
            self.u64(sample.user_stack.len() as u64).raw(&sample.user_stack);
            if !sample.user_stack.is_empty() {
                self.u64(sample.valid_stack_bytes);
            }
        }
        if has(sample_type::WEIGHT) || has(sample_type::WEIGHT_STRUCT) {
            self.u64(sample.weight);
        }
        if has(sample_type::DATA_SRC) {
            self.u64(sample.data_source);
        }
        if has(sample_type::TRANSACTION) {
            self.u64(sample.transaction);
        }
        if has(sample_type::REGS_INTR) {
            self.registers(sample.interrupt_abi, &sample.interrupt_registers);
        }
        let mut word = |field, value| {
            if has(field) {
                self.u64(value);
            }
        };
        word(sample_type::PHYS_ADDR, sample.physical_address);
        word(sample_type::CGROUP, sample.cgroup);
        word(sample_type::DATA_PAGE_SIZE, sample.data_page_bytes);
        word(sample_type::CODE_PAGE_SIZE, sample.code_page_bytes);
        if has(sample_type::AUX) {
            self.u64(sample.aux.len() as u64).raw(&sample.aux);
        }
    }

    fn words(&mut self, words: &[u64]) {
        self.u64(words.len() as u64);
        words.iter().for_each(|&word| {
            self.u64(word);
        });
    }

    fn registers(&mut self, abi: u64, values: &[u64]) {
        self.u64(abi);
        let values = if abi == 0 { &[] } else { values };
        values.iter().for_each(|&value| {
            self.u64(value);
        });
    }

    fn counters(&mut self, format: u64, sample: &SyntheticSample) {
        let has = |bit| format & bit != 0;
        let is_group = has(read_format::GROUP);
        self.u64(if is_group { sample.counters.len() as u64 } else { sample.counters[0][0] });
        if has(read_format::TOTAL_TIME_ENABLED) {
            self.u64(sample.times[0]);
        }
        if has(read_format::TOTAL_TIME_RUNNING) {
            self.u64(sample.times[1]);
        }
        for &[value, id, lost] in if is_group { &sample.counters[..] } else { &sample.counters[..1] } {
            if is_group {
                self.u64(value);
            }
            if has(read_format::ID) {
                self.u64(id);
            }
            if has(read_format::LOST) {
                self.u64(lost);
            }
        }
    }

    fn branches(&mut self, format: u64, sample: &SyntheticSample) {
        self.u64(sample.branches.len() as u64);
        if format & branch_sample_type::HW_INDEX != 0 {
            self.u64(sample.hardware_index);
        }
        for &(from, to, mispredicted, predicted, cycles, _) in &sample.branches {
            // Declared in this order, so counted from the lowest bit or from the highest.
            let fields = [(u64::from(mispredicted), 0, 1), (u64::from(predicted), 1, 1), (cycles.into(), 4, 16)];
            let shift = |first: u32, width: u32| match self.order {
                ByteOrder::Little => first,
                ByteOrder::Big => 64 - first - width,
            };
            let flags = fields.iter().map(|&(value, first, width)| value << shift(first, width)).sum();
            self.u64(from).u64(to).u64(flags);
        }
        if format & branch_sample_type::COUNTERS != 0 {
            sample.branches.iter().for_each(|branch| {
                self.u64(branch.5);
            });
        }
    }
}
