//! Code that is changed: jumps in the place of functions' first instructions, and the stubs that they lead to.
//!
//! Stubs lie in memory of their own within reach of the object. It is filled while it is writable, made executable, and
//! only then do jumps lead there. A thread that was between the first bytes of a function would go on in the middle of a
//! jump: so it is for the caller to know that nobody runs them, and to have signals blocked, whose handlers might.

use core::slice;
use slimline_emulate::relocate::{JUMP_BYTES, MOST_MOVED_BYTES, Refusal, distance, relocate};
use slimline_trace::wire::HookState;

use super::hooked::Hook;
use super::{Found, stub};
use crate::kernel;

/// A stub, and the moved instructions behind it.
const STUB_BYTES: usize = stub::BYTES + MOST_MOVED_BYTES;
const PAGE_BYTES: u64 = 4096;
/// How far from the object memory is looked for, in steps of [`STEP_BYTES`].
const MOST_STEPS: u64 = 4096;
const STEP_BYTES: u64 = 64 << 10;
/// Larger functions are not looked through for jumps back to their start.
const MOST_CODE_BYTES: u64 = 1 << 20;

/// A jump to be written.
#[derive(Clone, Copy)]
pub(super) struct Jump {
    at: u64,
    code: [u8; JUMP_BYTES],
}

/// Memory that hooks of one object have as long as it is loaded: stubs, and what they are told of.
#[derive(Clone, Copy)]
pub(super) struct Stubs {
    start: u64,
    bytes: usize,
    hooks: u64,
    hooks_bytes: usize,
}

impl Stubs {
    /// Gives it back.
    ///
    /// # Safety
    /// No jump may lead there any more.
    pub(super) unsafe fn unmap(self) {
        // SAFETY: both mapped in this size; promised by the caller.
        unsafe {
            kernel::unmap(self.start as *mut u8, self.bytes);
            kernel::unmap(self.hooks as *mut u8, self.hooks_bytes);
        }
    }
}

/// Hooks of one object. Memory of the agent's own: jumps until they are written, and the rest as long as it is loaded.
pub(super) struct Patcher<'a> {
    segments: &'a [libc::Elf64_Phdr],
    bias: u64,
    stubs: u64,
    stubs_bytes: usize,
    hooks: *mut Hook,
    jumps: *mut Jump,
    room: usize,
    count: usize,
}

impl<'a> Patcher<'a> {
    /// For so many hooks; None where there is no memory for them.
    pub(super) fn new(info: &'a libc::dl_phdr_info, room: usize) -> Option<Self> {
        // SAFETY: the linker's headers.
        let segments = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let bias = info.dlpi_addr;
        let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
        let low = bias.wrapping_add(loaded().map(|segment| segment.p_vaddr).min()?) & !(STEP_BYTES - 1);
        let high = bias.wrapping_add(loaded().map(|segment| segment.p_vaddr + segment.p_memsz).max()?);
        let stubs_bytes = (room * STUB_BYTES).next_multiple_of(PAGE_BYTES as usize);
        let hooks = kernel::map(room * size_of::<Hook>())?.as_ptr().cast();
        let jumps = kernel::map(room * size_of::<Jump>())?.as_ptr().cast();
        let high = high.next_multiple_of(STEP_BYTES);
        let below = (1..MOST_STEPS).filter_map(|step| low.checked_sub(step * STEP_BYTES)).filter(|&at| at > 0);
        let above = (0..MOST_STEPS).map(|step| high + step * STEP_BYTES);
        let stubs = below.chain(above).find_map(|at| kernel::map_at(at, stubs_bytes))?.as_ptr() as u64;
        Some(Self { segments, bias, stubs, stubs_bytes, hooks, jumps, room, count: 0 })
    }

    /// The segment that holds code, if it is executable and not writable.
    fn segment(&self, at: u64) -> Option<&libc::Elf64_Phdr> {
        let is_code = |flags: u32| flags & libc::PF_X != 0 && flags & libc::PF_W == 0;
        self.segments.iter().find(|segment| {
            let offset = at.wrapping_sub(self.bias).wrapping_sub(segment.p_vaddr);
            segment.p_type == libc::PT_LOAD && is_code(segment.p_flags) && offset < segment.p_filesz
        })
    }

    /// Prepares the hook of a function.
    pub(super) fn add(&mut self, found: Found, mut hook: Hook) -> Result<(), HookState> {
        let segment = self.segment(found.address).ok_or(HookState::UnknownCode)?;
        if has_code_to_relocate(self.segments, self.bias) {
            return Err(HookState::UnknownCode);
        }
        let end = self.bias.wrapping_add(segment.p_vaddr).wrapping_add(segment.p_filesz);
        let bytes = found.bytes.min(end - found.address);
        if self.count == self.room || bytes > MOST_CODE_BYTES {
            return Err(HookState::Refused);
        }
        let number = self.count;
        let stub = self.stubs + (number * STUB_BYTES) as u64;
        let moved_at = stub + stub::BYTES as u64;
        // SAFETY: inside of a loaded segment, which can be read where it can run.
        let code = unsafe { slice::from_raw_parts(found.address as *const u8, bytes as usize) };
        let moved = relocate(code, found.address, moved_at).map_err(state_of)?;
        // Behind an `endbr64`.
        let at = found.address + moved.patch_at as u64;
        let jump = Jump::new(at, stub).ok_or(HookState::OutOfReach)?;
        hook.moved = moved_at;
        // SAFETY: both tables have room for more than that, and are ours alone.
        let place = unsafe {
            self.jumps.add(number).write(jump);
            let place = self.hooks.add(number);
            place.write(hook);
            place as u64
        };
        let code = stub::code(&hook, place);
        // SAFETY: the stub's place, in memory that nobody runs yet; it and the moved instructions fit.
        unsafe {
            (stub as *mut u8).copy_from_nonoverlapping(code.as_ptr(), code.len());
            (moved_at as *mut u8).copy_from_nonoverlapping(moved.code().as_ptr(), moved.code().len());
        }
        self.count += 1;
        Ok(())
    }

    /// Has all prepared hooks take effect, and returns the memory that they need; None where the kernel refuses, or there
    /// are none.
    ///
    /// # Safety
    /// Nobody may run the object's code, and the calling thread's signals must be blocked.
    pub(super) unsafe fn finish(self) -> Option<Stubs> {
        let (start, bytes) = (self.stubs, self.stubs_bytes);
        let stubs = Stubs { start, bytes, hooks: self.hooks as u64, hooks_bytes: self.room * size_of::<Hook>() };
        // SAFETY: nobody writes to the stubs any more.
        let is_ready = unsafe { kernel::protect(start, bytes, libc::PROT_READ | libc::PROT_EXEC) };
        // SAFETY: so many were written.
        let jumps = unsafe { slice::from_raw_parts(self.jumps, self.count) };
        // SAFETY: promised by the caller.
        let write = |jump: &&Jump| unsafe { jump.write() };
        let done = if is_ready { jumps.iter().take_while(write).count() } else { 0 };
        // SAFETY: mapped in this size; the slice is not used any more.
        unsafe { kernel::unmap(self.jumps.cast(), self.room * size_of::<Jump>()) };
        if done == 0 {
            // SAFETY: no jump leads there.
            unsafe { stubs.unmap() };
        }
        (done > 0 && done == self.count).then_some(stubs)
    }
}

impl Jump {
    /// None where it is too far.
    pub(super) fn new(at: u64, to: u64) -> Option<Self> {
        let mut jump = Self { at, code: [0xe9; JUMP_BYTES] };
        jump.code[1..].copy_from_slice(&distance(at + JUMP_BYTES as u64, to).ok()?.to_le_bytes());
        Some(jump)
    }

    /// Writes it; false where the kernel refuses.
    ///
    /// Through `/proc/self/mem`, which keeps the page's protection: a page that was made writable may not become executable
    /// again (`PR_SET_MDWE`, SELinux).
    ///
    /// # Safety
    /// Until it is done nobody may run this code: neither another thread nor a signal handler.
    pub(super) unsafe fn write(&self) -> bool {
        let Ok(memory) = kernel::open(c"/proc/self/mem", libc::O_RDWR, 0) else { return false };
        // SAFETY: code of the program, which nobody runs now, as the caller promised.
        let written = unsafe { kernel::write_at(memory, &self.code, self.at) };
        kernel::close(memory);
        match written {
            Ok(JUMP_BYTES) => true,
            Ok(1..) => kernel::abort(), // half a jump: better it ends here than somewhere
            Ok(0) | Err(_) => false,
        }
    }
}

/// Whether the dynamic linker writes addresses into the object's code, over jumps too where that is still to come.
fn has_code_to_relocate(segments: &[libc::Elf64_Phdr], bias: u64) -> bool {
    const TEXT_RELOCATIONS: u64 = 22;
    const FLAGS: u64 = 30;
    const TEXT_RELOCATIONS_FLAG: u64 = 4;
    let Some(table) = segments.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC) else { return false };
    let entries = table.p_memsz as usize / size_of::<[u64; 2]>();
    // SAFETY: the linker's own table, which is loaded with the object and aligned.
    let entries = unsafe { slice::from_raw_parts(bias.wrapping_add(table.p_vaddr) as *const [u64; 2], entries) };
    entries
        .iter()
        .take_while(|[tag, _]| *tag != 0)
        .any(|&[tag, value]| tag == TEXT_RELOCATIONS || tag == FLAGS && value & TEXT_RELOCATIONS_FLAG != 0)
}

fn state_of(refusal: Refusal) -> HookState {
    match refusal {
        Refusal::Short => HookState::Short,
        Refusal::Calls => HookState::Calls,
        Refusal::BranchInside => HookState::BranchInside,
        Refusal::OutOfReach => HookState::OutOfReach,
        Refusal::Unknown => HookState::UnknownCode,
    }
}
