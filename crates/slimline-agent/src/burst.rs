//! One trigger's sample: the blamed access, the call stack, and the burst of accesses that follow.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use slimline_emulate as emulate;
use slimline_trace::access::AccessKind;
use slimline_trace::wire::{
    AccessRecord, BlockRecord, BurstEnd, MAX_BURST, MAX_BURST_ACCESSES, MAX_FRAMES, MAX_SAMPLE_BLOCKS, NO_BLOCK,
    Quality, SampleHead,
};

use crate::blame::Plans;
use crate::blocks::{self, BLOCKS, Block, INNER};
use crate::boundary_tags;
use crate::memory::{Copies, Soon};
use crate::recorder::bytes_of;
use crate::signals::faults::Loads;
use crate::signals::forward::Context;
use crate::thread::Thread;
use crate::trigger::{Clock, Trigger};
use crate::unwind::{self, CopiedStack};
use crate::{follow, handler, maps, process, registers, thread};

/// Decoded instructions kept for each thread.
const DECODED: usize = 2048;

/// Without a burst, the instructions that are looked at for the next instance of a blamed one whose address is lost.
const NEXT_INSTANCE_WITHIN: u32 = 64;

/// Followed blocks of a sample whose boundary tags are looked at.
const COMPARED: usize = 4;
/// So many blocks of a sample are looked for at most, …
const MOST_SOUGHT: u32 = 32;
/// … and so many of them in vain: these cost most.
const MOST_IN_VAIN: u32 = 8;

/// What a thread's samples may cost in advance.
const ADVANCE_NS: i64 = 400_000;

/// What sampling one thread needs. Zeros are a fresh one.
pub(crate) struct Sampler {
    pub(crate) budget: emulate::Budget<ADVANCE_NS>,
    latest: Stop,
    emulator: emulate::Emulator<DECODED>,
    plans: Plans,
    copies: Copies,
    frames: [u64; MAX_FRAMES],
    seen: Seen,
}

/// What of a burst goes into the record.
struct Seen {
    accesses: [AccessRecord; MAX_BURST_ACCESSES],
    access_count: usize,
    blocks: [BlockRecord; MAX_SAMPLE_BLOCKS],
    block_count: usize,
    /// Row of the block that was found last.
    last_block: usize,
    /// An access or a block that has no room any more came.
    full: bool,
}

/// What [`PREPARED`] holds.
const NOT_YET: u32 = 0;
const BEING_PREPARED: u32 = 1;
const DONE: u32 = 2;
static PREPARED: AtomicU32 = AtomicU32::new(NOT_YET);

/// Whether [`prepare`] is done.
#[inline]
pub(crate) fn is_prepared() -> bool {
    PREPARED.load(Acquire) == DONE
}

/// Builds what all samples need, once. At the first trigger, not when the process starts: it takes longer than all
/// the rest of starting, and many processes end before. Asking for memory is safe here (see `tables`).
///
/// Comes back undone where another thread is at it. In a child that is forked at that moment nobody will be: its
/// triggers are counted as held back.
pub(crate) fn prepare() {
    if PREPARED.compare_exchange(NOT_YET, BEING_PREPARED, Relaxed, Relaxed).is_ok() {
        emulate::prepare();
        registers::prepare();
        PREPARED.store(DONE, Release);
    }
}

impl Seen {
    fn clear(&mut self) {
        (self.access_count, self.block_count, self.last_block, self.full) = (0, 0, 0, false);
    }

    /// Row of the heap block that holds `address`, or [`NO_BLOCK`].
    #[inline]
    fn block(&mut self, address: u64) -> u16 {
        let holds = |block: &BlockRecord| address.wrapping_sub(block.base) < u64::from(block.bytes());
        let known = &self.blocks[..self.block_count];
        // There may be a block in that block.
        if !blocks::has_inner() && known.get(self.last_block).is_some_and(holds) {
            return self.last_block as u16;
        }
        let Some(found) = block_at(address) else { return NO_BLOCK };
        let row = known.iter().rposition(|block| *block == found).unwrap_or(self.block_count);
        if row == self.block_count {
            let Some(free) = self.blocks.get_mut(row) else {
                self.full = true;
                return NO_BLOCK;
            };
            *free = found;
            self.block_count += 1;
        }
        self.last_block = row;
        row as u16
    }

    /// Row of the block that the blamed access is in.
    fn block_of(&mut self, blamed: &Blamed) -> u16 {
        if blamed.address == 0 { NO_BLOCK } else { self.block(blamed.address) }
    }

    /// The accesses so far from that row on.
    fn accesses_from(&self, first: usize) -> &[AccessRecord] {
        &self.accesses[first..self.access_count]
    }

    #[inline]
    fn add(&mut self, access: emulate::Access) {
        if self.access_count == MAX_BURST_ACCESSES {
            self.full = true;
            return;
        }
        let block = self.block(access.address);
        if self.full {
            return;
        }
        let kind = kind_of(access.kind);
        let kind = if access.atomic { kind.atomic() } else { kind };
        self.accesses[self.access_count] = AccessRecord::new(access.ip, access.address, access.bytes, kind, block);
        self.access_count += 1;
    }

    /// Gives blocks that were passed over rows of their own, as far as the allocator's tags tell their bounds and there is
    /// room. `of_blamed` is the row of the block that holds the blamed address; returns its row from now on.
    fn bound_passed_over(&mut self, memory: &mut impl emulate::Memory, of_blamed: u16, blamed_address: u64) -> u16 {
        let blocks = &self.blocks[..self.block_count];
        let unbounded = blocks.iter().position(|block| *block == BlockRecord::NOT_FOLLOWED);
        let Some(unbounded) = unbounded.map(|row| row as u16) else { return of_blamed };
        let most_bytes = follow::followed_bytes();
        if boundary_tags::are_unclear() {
            let accesses = &self.accesses[..self.access_count];
            let first = accesses.iter().find(|access| access.block() == unbounded);
            let address = first.map_or(blamed_address, |access| access.address());
            let small = BLOCKS.starts_near(address).filter(|block| u64::from(block.bytes) < most_bytes);
            small.take(COMPARED).for_each(|block| boundary_tags::compare(memory, block.base, block.bytes.into()));
        }
        // Blocks that an allocator of the program's own made are none of the C library's.
        let is_outer = |block: &&BlockRecord| BLOCKS.find(block.base).is_some_and(|outer| outer.base == block.base);
        let small = blocks.iter().filter(|block| block.is_followed() && u64::from(block.bytes()) < most_bytes);
        small
            .filter(is_outer)
            .take(COMPARED)
            .for_each(|block| boundary_tags::compare(memory, block.base, block.bytes().into()));
        if !boundary_tags::are_kept() {
            return of_blamed;
        }
        let (mut sought, mut in_vain, mut latest_in_vain) = (0, 0, None);
        let mut row_of = |seen: &mut Self, row: u16, address: u64| {
            let word = address / 8;
            if row != unbounded || latest_in_vain == Some(word) {
                return row;
            }
            if let Some(known) = seen.known_passed_over(address) {
                return known;
            }
            if sought == MOST_SOUGHT || in_vain == MOST_IN_VAIN {
                return row;
            }
            sought += 1;
            let found = seen.passed_over(memory, address, most_bytes);
            if found.is_none() {
                (in_vain, latest_in_vain) = (in_vain + 1, Some(word));
            }
            found.unwrap_or(row)
        };
        let of_blamed = row_of(self, of_blamed, blamed_address);
        for index in 0..self.access_count {
            let access = self.accesses[index];
            let row = row_of(self, access.block(), access.address());
            self.accesses[index] = access.with_block(row);
        }
        of_blamed
    }

    /// Row of the block that was passed over and holds `address`, if it has one.
    fn known_passed_over(&self, address: u64) -> Option<u16> {
        let holds =
            |block: &BlockRecord| !block.is_followed() && address.wrapping_sub(block.base) < u64::from(block.bytes());
        self.blocks[..self.block_count].iter().rposition(holds).map(|row| row as u16)
    }

    /// Looks for the block that was passed over and holds `address`, and gives it a row.
    fn passed_over(&mut self, memory: &mut impl emulate::Memory, address: u64, most_bytes: u64) -> Option<u16> {
        // What an allocator of the program's own cuts into blocks is followed itself.
        if BLOCKS.find(address).is_some() {
            return None;
        }
        let row = self.block_count;
        let free = self.blocks.get_mut(row)?;
        let found = boundary_tags::bounds(memory, address, most_bytes)?;
        *free = BlockRecord::passed_over(found.base, found.usable_bytes as u32);
        self.block_count += 1;
        Some(row as u16)
    }
}

/// The innermost block that holds `address`, or that one was passed over there.
fn block_at(address: u64) -> Option<BlockRecord> {
    let reach_bytes = follow::reach_bytes();
    let layers: &[_] = if blocks::has_inner() { &[&INNER, &BLOCKS] } else { &[&BLOCKS] };
    layers.iter().find_map(|layer| match layer.find(address) {
        Some(Block { base, bytes, stack, follow_shift }) => Some(BlockRecord::new(base, bytes, stack, follow_shift)),
        None => layer.may_be_passed_over(address, reach_bytes).then_some(BlockRecord::NOT_FOLLOWED),
    })
}

fn kind_of(kind: emulate::AccessKind) -> AccessKind {
    match kind {
        emulate::AccessKind::Load => AccessKind::LOAD,
        emulate::AccessKind::Store => AccessKind::STORE,
        emulate::AccessKind::Update => AccessKind::LOAD_STORE,
    }
}

/// What a sample is blamed on.
struct Blamed {
    ip: u64,
    address: u64,
    bytes: u16,
    kind: AccessKind,
    quality: Quality,
}

impl Blamed {
    const fn nothing(quality: Quality) -> Self {
        Self { ip: 0, address: 0, bytes: 0, kind: AccessKind::NONE, quality }
    }
}

/// When a thread was interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) time_ns: u64,
    /// The thread's CPU time, without what its samples took until then.
    pub(crate) cpu_ns: u64,
}

/// Where a sample stopped its thread.
#[derive(Clone, Copy, Debug)]
struct Stop {
    ip: u64,
    stack_pointer: u64,
    cpu_ns: u64,
}

impl Stop {
    /// CPU time from one sample to the next where the signal for the second waited until the first was taken: what it
    /// takes to leave the handler and to enter it again.
    const BACK_TO_BACK_NS: u64 = 5_000;

    /// Whether the thread did nothing since it was stopped `before`. A trigger of one clock that comes while the
    /// other's is served is late, but shows the thread where it was. The same place alone does not tell: who blocks
    /// signals by system calls that we don't see gets each trigger at the end of the blocking.
    fn is_still(&self, before: Self) -> bool {
        (self.ip, self.stack_pointer) == (before.ip, before.stack_pointer)
            && self.cpu_ns.saturating_sub(before.cpu_ns) < Self::BACK_TO_BACK_NS
    }
}

/// Records one sample of the thread that was interrupted at `context` at this moment.
pub(crate) fn sample(thread: &Thread, sampler: &mut Sampler, trigger: Trigger, context: &Context, at: Moment) {
    let Some(config) = process::config() else { return };
    let weight_ns = trigger.weight_ns();
    let mut state = registers::state_of(context);
    let sampled_ip = state.rip;
    let stack_pointer = context.register(libc::REG_RSP);
    let Sampler { budget, latest, emulator, plans, copies, frames, seen } = sampler;
    seen.clear();
    let code = Soon { address: sampled_ip, chunks: 1 };
    let innermost_frames = Soon { address: stack_pointer, chunks: 2 };
    copies.begin(thread.tid.get(), Loads::for_sample(context), [code, innermost_frames]);
    if trigger.is_timer && returned_from_kernel(copies, sampled_ip) {
        return; // it waited until a system call ended: that time has no samples
    }

    let here = Stop { ip: sampled_ip, stack_pointer, cpu_ns: at.cpu_ns };
    let before = core::mem::replace(latest, here);
    let is_late = trigger.late && !here.is_still(before);
    let mut blamed =
        if is_late { Blamed::nothing(Quality::NoMemory) } else { blame(plans, emulator, copies, &state, config.skid) };

    let mut code = CodeSeen { range: (0, 0), unknown: false };
    code.visit(sampled_ip);
    // Its row before all others: a burst may fill them.
    let reserved = seen.block_of(&blamed);
    let wanted = config.burst_instructions.min(MAX_BURST as u32);
    let has_burst = match trigger.clock {
        Clock::First => budget.earn(weight_ns, config.budget_ppm) && wanted > 0,
        Clock::Second => false, // it has no time that could pay for one, nor that one could stand for
    };
    let is_lost = blamed.quality == Quality::Lost;
    let mut ahead = Ahead { emulator, copies, state: &mut state, seen, code: &mut code };
    let burst = match (has_burst, is_lost) {
        (true, _) => ahead.run(wanted, &mut blamed, false),
        (false, true) => {
            ahead.run(wanted.min(NEXT_INSTANCE_WITHIN), &mut blamed, true);
            seen.clear();
            Burst::NOT_STARTED
        }
        (false, false) => Burst::NOT_STARTED,
    };
    let block = if is_lost { seen.block_of(&blamed) } else { reserved };
    let block = seen.bound_passed_over(copies, block, blamed.address);
    let mut stack = CopiedStack::new(copies);
    let (frame_count, stack_cut) =
        unwind::walk(sampled_ip, stack_pointer, context.register(libc::REG_RBP), &mut stack, frames);

    // A signal may end the program before the snapshot at its end.
    if code.unknown || !thread.is_mapped.get() {
        maps::snapshot_for(thread);
    }
    let head = [SampleHead {
        time_ns: at.time_ns,
        cpu_ns: at.cpu_ns,
        weight_ns,
        sampled_ip,
        ip: blamed.ip,
        address: blamed.address,
        stack_pointer,
        burst_instructions: burst.instructions,
        accesses: seen.access_count as u32,
        frames: frame_count as u16,
        blocks: seen.block_count as u16,
        block,
        access_bytes: blamed.bytes,
        kind: blamed.kind.bits(),
        quality: blamed.quality as u8,
        burst_end: burst.end as u8,
        stack_cut,
        region: thread::region(),
    }];
    let parts = [
        bytes_of(&head),
        bytes_of(&frames[..frame_count]),
        bytes_of(&seen.blocks[..seen.block_count]),
        bytes_of(&seen.accesses[..seen.access_count]),
    ];
    thread.write_sample(weight_ns, &parts);
}

/// What became of a burst.
struct Burst {
    instructions: u32,
    end: BurstEnd,
}

impl Burst {
    const NOT_STARTED: Self = Self { instructions: 0, end: BurstEnd::NotStarted };
}

/// What a burst runs on.
struct Ahead<'s> {
    emulator: &'s mut emulate::Emulator<DECODED>,
    copies: &'s mut Copies,
    state: &'s mut emulate::State,
    seen: &'s mut Seen,
    code: &'s mut CodeSeen,
}

impl Ahead<'_> {
    /// Runs what the thread will do next, up to `limit` instructions. A blamed instruction whose address is lost gets
    /// that of its next execution; `until_found`: that is all that is wanted.
    fn run(&mut self, limit: u32, blamed: &mut Blamed, until_found: bool) -> Burst {
        if limit == 0 {
            return Burst::NOT_STARTED;
        }
        self.emulator.begin();
        let mut instructions = 0;
        let end = loop {
            if instructions == limit {
                break BurstEnd::Limit;
            }
            let first = match self.step() {
                Ok(first) => first,
                Err(end) => break end,
            };
            instructions += 1;
            if blamed.quality == Quality::Lost
                && let Some(next) = self.seen.accesses_from(first).iter().find(|access| access.ip() == blamed.ip)
            {
                (blamed.address, blamed.quality) = (next.address(), Quality::NextInstance);
                if until_found {
                    break BurstEnd::Limit;
                }
            }
            if handler::is_agent_code(self.state.rip) {
                break BurstEnd::Agent;
            }
            self.code.visit(self.state.rip);
        };
        Burst { instructions, end }
    }

    /// Runs one instruction. Row of the first of its accesses, or why it can't be run, or not be seen whole.
    fn step(&mut self) -> Result<usize, BurstEnd> {
        let Self { emulator, copies, state, seen, .. } = self;
        let (accesses, blocks) = (seen.access_count, seen.block_count);
        emulator.step(state, *copies, &mut |access| seen.add(access)).map_err(burst_end)?;
        if seen.full {
            // Half an instruction's accesses are none.
            (seen.access_count, seen.block_count) = (accesses, blocks);
            return Err(BurstEnd::Full);
        }
        Ok(accesses)
    }
}

fn blame(
    plans: &mut Plans,
    emulator: &mut emulate::Emulator<DECODED>,
    copies: &mut Copies,
    state: &emulate::State,
    skid: u32,
) -> Blamed {
    let Some(plan) = plans.plan(state.rip, skid, copies) else { return Blamed::nothing(Quality::NoCode) };
    let found = plan.locate(state, emulator, copies);
    let quality = match found.quality {
        emulate::Quality::Exact => Quality::Exact,
        emulate::Quality::Inverted => Quality::Inverted,
        emulate::Quality::Lost => Quality::Lost,
        emulate::Quality::NoMemoryInstruction => Quality::NoMemory,
        emulate::Quality::Ambiguous => Quality::Ambiguous,
    };
    let Some(ip) = found.ip else { return Blamed::nothing(quality) };
    Blamed { ip, address: found.address.unwrap_or(0), bytes: found.bytes, kind: kind_of(found.kind), quality }
}

fn burst_end(end: emulate::End) -> BurstEnd {
    use emulate::End;
    match end {
        End::Limit => BurstEnd::Limit,
        End::Syscall => BurstEnd::Syscall,
        End::UnknownAddress | End::UnknownCondition | End::UnknownTarget => BurstEnd::Unknown,
        End::Fault | End::Exception => BurstEnd::Fault,
        End::OverlayFull => BurstEnd::Full,
        End::Undecodable | End::FarBranch | End::Unsupported(_) => BurstEnd::Unsupported,
    }
}

/// Whether the instruction before `ip` is `syscall`.
fn returned_from_kernel(copies: &mut Copies, ip: u64) -> bool {
    let mut before = [0; 2];
    emulate::Memory::read(copies, ip.wrapping_sub(2), &mut before) && before == [0x0f, 0x05]
}

/// Whether a burst came through code that no snapshot of the mappings has shown.
struct CodeSeen {
    range: (u64, u64),
    unknown: bool,
}

impl CodeSeen {
    #[inline]
    fn visit(&mut self, ip: u64) {
        if ip < self.range.0 || ip >= self.range.1 {
            self.enter(ip);
        }
    }

    #[cold]
    fn enter(&mut self, ip: u64) {
        let known = maps::code_range(ip);
        self.unknown |= known.is_none();
        self.range = known.unwrap_or((ip & !4095, (ip & !4095) + 4096));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    #[test]
    fn accesses_beyond_the_record_end_the_burst() {
        // SAFETY: integers and bool; zeros are a fresh one.
        #[allow(unsafe_code)]
        let mut seen: Box<Seen> = unsafe { Box::new_zeroed().assume_init() };
        let access =
            emulate::Access { ip: 0x1000, address: 0x2000, bytes: 8, kind: emulate::AccessKind::Update, atomic: true };
        for _ in 0..MAX_BURST_ACCESSES {
            seen.add(access);
            assert!(!seen.full);
        }
        assert_eq!(seen.accesses[0].kind(), AccessKind::LOAD_STORE.atomic());
        assert_eq!(seen.accesses[0].block(), NO_BLOCK);
        seen.add(access);
        assert!(seen.full);
        assert_eq!(seen.access_count, MAX_BURST_ACCESSES);
        seen.clear();
        seen.add(access);
        assert_eq!(seen.access_count, 1);
    }

    #[test]
    fn a_thread_is_still_where_hardly_any_time_went_by() {
        let before = Stop { ip: 0x1000, stack_pointer: 0x7000, cpu_ns: 50_000 };
        assert!(Stop { cpu_ns: 52_000, ..before }.is_still(before));
        assert!(!Stop { cpu_ns: 1_050_000, ..before }.is_still(before), "the same place a millisecond later");
        assert!(!Stop { ip: 0x1004, ..before }.is_still(before));
        assert!(!Stop { stack_pointer: 0x6ff0, ..before }.is_still(before), "a deeper call");
    }
}
