//! Code that is changed: jumps in the place of functions' first instructions, and the stubs that they lead to.
//!
//! Stubs lie in memory of their own within reach of the object. It is filled while it is writable, made executable, and
//! only then do jumps lead there; the pages that these are written to can't run meanwhile, which no thread but ours
//! would notice, and there is no other.

use core::slice;
use slimline_trace::wire::HookState;

use super::Found;
use super::hooked::{Hook, common};
use super::relocate::{JUMP_BYTES, MOST_MOVED_BYTES, Refusal, distance, relocate};
use crate::kernel;

/// `push [hook] ; jmp [common]`, both addresses, and the moved instructions.
const STUB_BYTES: usize = STUB_HEAD_BYTES + MOST_MOVED_BYTES;
const STUB_HEAD_BYTES: usize = 32;
const PAGE_BYTES: u64 = 4096;
/// How far from the object memory is looked for, in steps of [`STEP_BYTES`].
const MOST_STEPS: u64 = 4096;
const STEP_BYTES: u64 = 64 << 10;
/// Larger functions are not looked through for jumps back to their start.
const MOST_CODE_BYTES: u64 = 1 << 20;

/// A jump to be written.
#[derive(Clone, Copy)]
struct Jump {
    at: u64,
    code: [u8; JUMP_BYTES],
}

/// Hooks of one object. Memory of the agent's own: hooks for ever, jumps until they are written.
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
        let end = self.bias.wrapping_add(segment.p_vaddr).wrapping_add(segment.p_filesz);
        let bytes = found.bytes.min(end - found.address);
        if self.count == self.room || bytes > MOST_CODE_BYTES {
            return Err(HookState::Refused);
        }
        let number = self.count;
        let stub = self.stubs + (number * STUB_BYTES) as u64;
        let moved_at = stub + STUB_HEAD_BYTES as u64;
        // SAFETY: inside of a loaded segment, which can be read where it can run.
        let code = unsafe { slice::from_raw_parts(found.address as *const u8, bytes as usize) };
        let moved = relocate(code, found.address, moved_at).map_err(state_of)?;
        // Behind an `endbr64`.
        let at = found.address + moved.patch_at as u64;
        let to_stub = distance(at + JUMP_BYTES as u64, stub).map_err(state_of)?;
        let mut jump = Jump { at, code: [0xe9; JUMP_BYTES] };
        jump.code[1..].copy_from_slice(&to_stub.to_le_bytes());
        hook.moved = moved_at;
        // SAFETY: both tables have room for more than that, and are ours alone.
        let place = unsafe {
            self.jumps.add(number).write(jump);
            let place = self.hooks.add(number);
            place.write(hook);
            place as u64
        };
        let mut head = [0xcc; STUB_HEAD_BYTES];
        // push [rip + 10] ; jmp [rip + 12] ; two addresses from 16 on
        head[..12].copy_from_slice(&[0xff, 0x35, 10, 0, 0, 0, 0xff, 0x25, 12, 0, 0, 0]);
        head[16..24].copy_from_slice(&place.to_le_bytes());
        head[24..].copy_from_slice(&(common as *const () as u64).to_le_bytes());
        // SAFETY: the stub's place, in memory that nobody runs yet; the head and the moved instructions fit.
        unsafe {
            (stub as *mut u8).copy_from_nonoverlapping(head.as_ptr(), head.len());
            (moved_at as *mut u8).copy_from_nonoverlapping(moved.code().as_ptr(), moved.code().len());
        }
        self.count += 1;
        Ok(())
    }

    /// Has all prepared hooks take effect; false, and none has, where the kernel refuses.
    pub(super) fn finish(self) -> bool {
        // SAFETY: nobody writes to the stubs any more.
        if !unsafe { kernel::protect(self.stubs, self.stubs_bytes, libc::PROT_READ | libc::PROT_EXEC) } {
            return self.count == 0;
        }
        // SAFETY: so many were written.
        let jumps = unsafe { slice::from_raw_parts(self.jumps, self.count) };
        let done = jumps.iter().take_while(|jump| jump.write()).count();
        // SAFETY: mapped in this size; the slice is not used any more.
        unsafe { kernel::unmap(self.jumps.cast(), self.room * size_of::<Jump>()) };
        done == self.count
    }
}

impl Jump {
    fn write(&self) -> bool {
        let first = self.at & !(PAGE_BYTES - 1);
        let end = (self.at + JUMP_BYTES as u64).next_multiple_of(PAGE_BYTES);
        let bytes = (end - first) as usize;
        // SAFETY: code of the program, which doesn't run now; made what it was again at once.
        unsafe {
            if !kernel::protect(first, bytes, libc::PROT_READ | libc::PROT_WRITE) {
                return false;
            }
            (self.at as *mut u8).copy_from_nonoverlapping(self.code.as_ptr(), JUMP_BYTES);
            if !kernel::protect(first, bytes, libc::PROT_READ | libc::PROT_EXEC) {
                // The program can't run without it: better it ends here than somewhere.
                kernel::abort();
            }
        }
        true
    }
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
