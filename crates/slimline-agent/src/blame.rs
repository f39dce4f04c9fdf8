//! Which instruction a sample is blamed on: plans, kept by sampled instruction.

use slimline_emulate::{CodeAround, Memory, Plan, code_window, plan};

use crate::memory::Copies;
use crate::unwind;

/// Plans kept for each thread, a power of two; 650 bytes each. An interpreter has a few thousand sampled instructions.
const PLANS: usize = 2048;
/// Code bytes before the sampled instruction that a kept plan is checked against: they change when code is generated,
/// or another library comes to the same place.
const CHECKED_BYTES: usize = 16;

/// Kept plans. Zeros are an empty one.
pub(crate) struct Plans {
    entries: [Entry; PLANS],
}

struct Entry {
    /// 0: empty.
    ip: u64,
    before: [u8; CHECKED_BYTES],
    plan: core::mem::MaybeUninit<Plan>,
}

impl Plans {
    /// The plan for a sample at `ip`; None where there is no code to look at.
    pub(crate) fn plan(&mut self, ip: u64, skid: u32, copies: &mut Copies) -> Option<&Plan> {
        let mut before = [0; CHECKED_BYTES];
        if !copies.read(ip.wrapping_sub(CHECKED_BYTES as u64), &mut before) {
            // The very start of a mapping.
            before = [0; CHECKED_BYTES];
        }
        let row = (ip.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLANS.ilog2())) as usize;
        let entry = &mut self.entries[row % PLANS];
        if entry.ip != ip || entry.before != before {
            entry.ip = 0;
            entry.plan.write(make(ip, skid, copies)?);
            entry.before = before;
            entry.ip = ip;
        }
        Some(valid(entry))
    }
}

#[allow(unsafe_code)]
fn valid(entry: &Entry) -> &Plan {
    debug_assert_ne!(entry.ip, 0);
    // SAFETY: written before `ip` is, and `ip` is not 0.
    unsafe { entry.plan.assume_init_ref() }
}

fn make(ip: u64, skid: u32, copies: &mut Copies) -> Option<Plan> {
    let bounds = unwind::function_bounds(ip).filter(|&(start, end)| start <= ip && ip < end);
    let (mut start, end, mut is_whole) = code_window(ip, bounds);
    let mut bytes = copies.copy_code(start, end);
    if start + bytes as u64 <= ip {
        // Cut off before the instruction: a hole lies between, or it is code that can't be read.
        start = ip & !4095;
        bytes = copies.copy_code(start, end);
    }
    is_whole &= start + bytes as u64 == end;
    let code = CodeAround { bytes: copies.copied_code(bytes), start, is_whole };
    (start + bytes as u64 > ip).then(|| plan(code, ip, skid.min(1) as u8))
}
