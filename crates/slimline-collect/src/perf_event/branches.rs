//! Branch stacks (`PERF_SAMPLE_BRANCH_STACK`): LBR, BRBE and their like.

use super::attr::{EventAttr, branch_sample_type};
use super::fields::{ByteOrder, Fields, Malformed, Words};

/// The last branches taken before a sample, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// Place of the newest one in the hardware's own buffer.
    pub hardware_index: Option<u64>,
    entries: Words<'a>,
    counters: Words<'a>,
    order: ByteOrder,
}

/// A branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The branching instruction.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// It went there against prediction.
    pub mispredicted: bool,
    /// As predicted. Neither where the hardware does not tell.
    pub predicted: bool,
    /// Cycles since the branch before; 0 where not told.
    pub cycles: u16,
    /// Events of each counter since the branch before, as the PMU packs them.
    pub counters: Option<u64>,
}

const WORDS_EACH: u64 = 3;

impl<'a> BranchStack<'a> {
    pub(super) fn decode(fields: &mut Fields<'a>, attr: &EventAttr) -> Result<Self, Malformed> {
        const WITHIN: &str = "branch stack";
        let has = |bit| attr.branch_sample_type & bit != 0;
        let count = fields.u64(WITHIN)?;
        let hardware_index = has(branch_sample_type::HW_INDEX).then(|| fields.u64(WITHIN)).transpose()?;
        let words = count.checked_mul(WORDS_EACH).ok_or(Malformed { within: WITHIN })?;
        let entries = fields.words(words, WITHIN)?;
        let counted = if has(branch_sample_type::COUNTERS) { count } else { 0 };
        let counters = fields.words(counted, WITHIN)?;
        Ok(Self { hardware_index, entries, counters, order: fields.order() })
    }

    /// The branches.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + use<'a> {
        let (mut words, mut counters, order) = (self.entries.iter(), self.counters.iter(), self.order);
        std::iter::from_fn(move || {
            let (from, to, flags) = (words.next()?, words.next()?, words.next()?);
            let bits = |first, width| order.bit_field(flags, first, width);
            Some(Branch {
                from,
                to,
                mispredicted: bits(0, 1) != 0,
                predicted: bits(1, 1) != 0,
                cycles: bits(4, 16) as u16,
                counters: counters.next(),
            })
        })
    }
}
