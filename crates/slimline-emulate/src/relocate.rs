//! The first instructions of a function, moved elsewhere, so that a jump can take their place: what the agent does to hook
//! functions of allocators, and `doctor` foresees.
//!
//! Only where that changes nothing: they don't call, they name no address that is out of reach from their new place, and
//! nothing in the function jumps back between them.

use iced_x86::{Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// A jump to anywhere in 2 GiB: what takes their place.
pub const JUMP_BYTES: usize = 5;
/// Longest that moved instructions can become, with the jump back: up to five of them, each at most ten bytes longer
/// (a short jump that has to become a long one), or one of fifteen behind four.
pub const MOST_MOVED_BYTES: usize = 64;
/// Begins a function that may be jumped to indirectly where the processor checks that; it stays in its place.
pub const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Why a function is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too short.
    Short,
    /// Its first instructions call.
    Calls,
    /// An instruction of its own jumps between its first ones.
    BranchInside,
    /// They name an address that their new place can't reach.
    OutOfReach,
    /// They are not decoded.
    Unknown,
}

/// What [`relocate`] made.
#[derive(Debug)]
pub struct Moved {
    /// Where the jump is to be written, behind the function's start.
    pub patch_at: usize,
    /// Instructions from there on, as they run in their new place, and the jump back behind them.
    code: [u8; MOST_MOVED_BYTES],
    length: usize,
}

impl Moved {
    /// Those instructions.
    pub fn code(&self) -> &[u8] {
        &self.code[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let end = self.length + bytes.len();
        self.code.get_mut(self.length..end).ok_or(Refusal::Unknown)?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// A jump from here, which is `to` behind its new place's start, with `opcode` before the distance.
    fn push_jump(&mut self, opcode: &[u8], new_place: u64, target: u64) -> Result<(), Refusal> {
        self.push(opcode)?;
        let next = new_place + self.length as u64 + 4;
        self.push(&distance(next, target)?.to_le_bytes())
    }
}

/// How far `target` is from the instruction behind.
///
/// # Errors
/// [`Refusal::OutOfReach`] where it is more than 2 GiB.
pub fn distance(next: u64, target: u64) -> Result<i32, Refusal> {
    i32::try_from(target.wrapping_sub(next).cast_signed()).map_err(|_| Refusal::OutOfReach)
}

/// The first instructions of the function `code`, which is at `at`, as they are to be at `new_place`.
///
/// # Errors
/// [`Refusal`], where it would not be the same function any more.
pub fn relocate(code: &[u8], at: u64, new_place: u64) -> Result<Moved, Refusal> {
    let patch_at = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let mut moved = Moved { patch_at, code: [0; MOST_MOVED_BYTES], length: 0 };
    let mut decoder = Decoder::with_ip(64, &code[patch_at..], at + patch_at as u64, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let start = at + patch_at as u64;
    let mut is_over = false;
    while decoder.position() < JUMP_BYTES {
        if is_over || !decoder.can_decode() {
            return Err(Refusal::Short);
        }
        let from = patch_at + decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Refusal::Unknown);
        }
        let offsets = decoder.get_constant_offsets(&instruction);
        let bytes = code.get(from..from + instruction.len()).ok_or(Refusal::Unknown)?;
        push_instruction(&mut moved, &instruction, &offsets, bytes, new_place)?;
        is_over = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
    }
    let end = start + decoder.position() as u64;
    if jumps_between(code, at, start, end) {
        return Err(Refusal::BranchInside);
    }
    if !is_over {
        moved.push_jump(&[0xe9], new_place, end)?;
    }
    Ok(moved)
}

/// Adds an instruction as it has to be in its new place.
fn push_instruction(
    moved: &mut Moved,
    instruction: &Instruction,
    offsets: &ConstantOffsets,
    bytes: &[u8],
    new_place: u64,
) -> Result<(), Refusal> {
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            // The condition is the low half of the opcode, short or long: 7x, or 0f 8x.
            let opcode = bytes.iter().find(|byte| matches!(byte, 0x70..=0x8f));
            let condition = opcode.ok_or(Refusal::Unknown)? & 0xf;
            return moved.push_jump(&[0x0f, 0x80 | condition], new_place, instruction.near_branch_target());
        }
        FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() => {
            return moved.push_jump(&[0xe9], new_place, instruction.near_branch_target());
        }
        FlowControl::IndirectBranch | FlowControl::Return => {}
        FlowControl::Call | FlowControl::IndirectCall => return Err(Refusal::Calls),
        // `loop`, `jrcxz`, interrupts, transactions.
        _ => return Err(Refusal::Unknown),
    }
    let from = moved.length;
    moved.push(bytes)?;
    if instruction.is_ip_rel_memory_operand() {
        let field = from + offsets.displacement_offset();
        if offsets.displacement_size() != 4 {
            return Err(Refusal::Unknown);
        }
        let next = new_place + moved.length as u64;
        let distance = distance(next, instruction.ip_rel_memory_address())?;
        moved.code[field..field + 4].copy_from_slice(&distance.to_le_bytes());
    }
    Ok(())
}

/// Whether an instruction of the function goes to one of those that are moved. (A loop back to the first would be taken
/// for a call.)
fn jumps_between(code: &[u8], at: u64, start: u64, end: u64) -> bool {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter().any(|instruction| {
        let is_branch = matches!(instruction.op0_kind(), OpKind::NearBranch64);
        is_branch && instruction.code() != Code::INVALID && (start..end).contains(&instruction.near_branch_target())
    })
}

#[cfg(test)]
#[allow(unsafe_code)] // reads the C library's code
mod tests {
    use super::*;
    use std::vec::Vec;

    const AT: u64 = 0x40_1000;
    const NEW_PLACE: u64 = 0x3f_0020;

    /// What runs, by instruction: what it is, and the address that it names or goes to.
    fn told(code: &[u8], at: u64, count: usize) -> Vec<(Code, u64)> {
        let to = |instruction: &Instruction| match instruction.op0_kind() {
            OpKind::NearBranch64 => instruction.near_branch_target(),
            _ if instruction.is_ip_rel_memory_operand() => instruction.ip_rel_memory_address(),
            _ => 0,
        };
        // A long jump is the same as a short one.
        let long = |code: Code| if code.is_jcc_short() || code.is_jmp_short() { code.as_near_branch() } else { code };
        let decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        decoder.into_iter().take(count).map(|instruction| (long(instruction.code()), to(&instruction))).collect()
    }

    /// Moves a function's beginning and looks whether the same runs then; where its rest begins.
    fn check(code: &[u8], at: u64, new_place: u64) -> Result<usize, Refusal> {
        let moved = relocate(code, at, new_place)?;
        let instructions: Vec<_> =
            Decoder::with_ip(64, &code[moved.patch_at..], at, DecoderOptions::NONE).into_iter().collect();
        let mut bytes = 0;
        let begins_inside = |one: &&Instruction| {
            bytes += one.len();
            bytes - one.len() < JUMP_BYTES
        };
        let count = instructions.iter().take_while(begins_inside).count();
        let end: usize = instructions[..count].iter().map(|one| one.len()).sum();
        let mut expected = told(&code[moved.patch_at..], at + moved.patch_at as u64, count);
        let last = instructions[count - 1].flow_control();
        if !matches!(last, FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return) {
            expected.push((Code::Jmp_rel32_64, at + (moved.patch_at + end) as u64));
        }
        assert_eq!(told(moved.code(), new_place, usize::MAX), expected, "{code:02x?}");
        Ok(moved.patch_at)
    }

    #[test]
    fn the_same_runs_in_the_new_place() {
        // push rbp ; mov rbp, rsp ; sub rsp, 16 ; ret
        assert_eq!(check(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3], AT, NEW_PLACE), Ok(0));
        // endbr64 ; push rbx ; mov rax, [rip + 16] ; ret
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3];
        assert_eq!(check(&code, AT, NEW_PLACE), Ok(4));
        // test rdi, rdi ; je +2 ; xor eax, eax ; ret
        assert_eq!(check(&[0x48, 0x85, 0xff, 0x74, 0x02, 0x31, 0xc0, 0xc3], AT, NEW_PLACE), Ok(0));
        // cmp byte ptr [rip + 8], 5 ; ret: a constant behind the displacement
        assert_eq!(check(&[0x80, 0x3d, 0x08, 0, 0, 0, 0x05, 0xc3], AT, NEW_PLACE), Ok(0));
        // jmp +256: a function that is but another name
        assert_eq!(check(&[0xe9, 0, 1, 0, 0], AT, NEW_PLACE), Ok(0));
    }

    #[test]
    fn what_would_not_be_the_same_is_left_alone() {
        let refused = |code: &[u8], new_place| relocate(code, AT, new_place).err();
        // xor eax, eax ; ret
        assert_eq!(refused(&[0x31, 0xc0, 0xc3], NEW_PLACE), Some(Refusal::Short));
        // ret, and what the linker puts behind
        assert_eq!(refused(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc], NEW_PLACE), Some(Refusal::Short));
        // push rax ; call
        assert_eq!(refused(&[0x50, 0xe8, 0, 0, 0, 0, 0x58, 0xc3], NEW_PLACE), Some(Refusal::Calls));
        // dec rdi ; inc rax ; jne back to the second ; ret
        let back = [0x48, 0xff, 0xcf, 0x48, 0xff, 0xc0, 0x75, 0xfb, 0xc3];
        assert_eq!(refused(&back, NEW_PLACE), Some(Refusal::BranchInside));
        // The same back to the first.
        assert_eq!(
            refused(&[0x48, 0xff, 0xcf, 0x48, 0xff, 0xc0, 0x75, 0xf8, 0xc3], NEW_PLACE),
            Some(Refusal::BranchInside)
        );
        let far = [0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3];
        assert_eq!(refused(&far, AT + (3 << 30)), Some(Refusal::OutOfReach));
        // loop -2 and more
        assert_eq!(refused(&[0xe2, 0xfe, 0x90, 0x90, 0x90, 0xc3], NEW_PLACE), Some(Refusal::Unknown));
        assert_eq!(refused(&[0x06; 8], NEW_PLACE), Some(Refusal::Unknown));
        assert_eq!(refused(&[], NEW_PLACE), Some(Refusal::Short));
    }

    /// Beginnings that compilers made.
    #[test]
    fn functions_of_the_c_library_are_the_same_in_another_place() {
        let functions = [
            libc::strtol as *const () as u64,
            libc::qsort as *const () as u64,
            libc::getenv as *const () as u64,
            libc::fopen as *const () as u64,
            libc::calloc as *const () as u64,
            libc::realloc as *const () as u64,
            libc::free as *const () as u64,
            libc::posix_memalign as *const () as u64,
            libc::opendir as *const () as u64,
            libc::strdup as *const () as u64,
        ];
        let moved = functions.iter().filter(|&&at| {
            // SAFETY: functions of the C library are followed by others.
            let code = unsafe { core::slice::from_raw_parts(at as *const u8, 32) };
            check(code, at, at - (1 << 28)).is_ok()
        });
        assert!(moved.count() >= 5);
    }
}
