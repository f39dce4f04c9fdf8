//! Stubs: where the jump at a hooked function's entry leads to. A few instructions that differ from hook to hook, because they
//! know which argument is what; the rest is in functions that all have in common.
//!
//! ```text
//!   makes a block: push [hook] ; push r11, r10, rax ; rax = its size  ; jmp [made]
//!   frees one:     push [hook] ; push r11, r10, rax ; rax = the block ; call [freed] ; pop them ; moved instructions
//!   all others:    push [hook] ; jmp [common]
//! ```

use slimline_trace::wire::AllocatorRole;

use super::hooked::{Hook, common};
use super::passed_over::{freed_inner, freed_outer, made_inner, made_outer};

/// Length of a stub: what follows is the function's first instructions.
pub(super) const BYTES: usize = 64;
/// Where the hook's address is in it, and behind that the one that it calls or jumps to.
const ADDRESSES_AT: usize = 48;

/// A stub while it is written.
struct Writer {
    code: [u8; BYTES],
    length: usize,
}

impl Writer {
    fn push(&mut self, bytes: &[u8]) {
        self.code[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// An instruction on the address at `at`.
    fn push_with(&mut self, opcode: [u8; 2], at: usize) {
        self.push(&opcode);
        let distance = at - (self.length + 4);
        self.push(&(distance as u32).to_le_bytes());
    }
}

/// REX prefix and number of an argument's register, from 1 (System V).
const REGISTERS: [(u8, u8); 6] = [(0, 7), (0, 6), (0, 2), (0, 1), (1, 0), (1, 1)];

fn register(argument: u8) -> Option<(u8, u8)> {
    REGISTERS.get(usize::from(argument).checked_sub(1)?).copied()
}

/// `mov rax, argument`
fn take(argument: (u8, u8)) -> [u8; 3] {
    [0x48 | argument.0 << 2, 0x89, 0xc0 | argument.1 << 3]
}

/// `imul rax, argument`
fn times(argument: (u8, u8)) -> [u8; 4] {
    [0x48 | argument.0, 0x0f, 0xaf, 0xc0 | argument.1]
}

const PUSH_HOOK: [u8; 2] = [0xff, 0x35];
const JUMP: [u8; 2] = [0xff, 0x25];
const CALL: [u8; 2] = [0xff, 0x15];

/// The stub of a hook that lies at `place`.
pub(super) fn code(hook: &Hook, place: u64) -> [u8; BYTES] {
    let mut stub = Writer { code: [0xcc; BYTES], length: 0 };
    stub.push_with(PUSH_HOOK, ADDRESSES_AT);
    let address = match (hook.role, register(hook.block)) {
        // What is stored and not returned would have to be looked for.
        (AllocatorRole::Allocate, _) if hook.place == 0 && i32::try_from(hook.unit_bytes).is_ok() => {
            push_registers(&mut stub);
            push_size(&mut stub, hook);
            stub.push_with(JUMP, ADDRESSES_AT + 8);
            if hook.is_inner { made_inner as *const () } else { made_outer as *const () }
        }
        (AllocatorRole::Free, Some(block)) => {
            push_registers(&mut stub);
            stub.push(&take(block));
            stub.push_with(CALL, ADDRESSES_AT + 8);
            // pop rax ; pop r10 ; pop r11 ; lea rsp, [rsp + 8]
            stub.push(&[0x58, 0x41, 0x5a, 0x41, 0x5b, 0x48, 0x8d, 0x64, 0x24, 8]);
            let rest = BYTES - (stub.length + 2);
            stub.push(&[0xeb, rest as u8]);
            if hook.is_inner { freed_inner as *const () } else { freed_outer as *const () }
        }
        _ => {
            stub.push_with(JUMP, ADDRESSES_AT + 8);
            common as *const ()
        }
    };
    stub.code[ADDRESSES_AT..ADDRESSES_AT + 8].copy_from_slice(&place.to_le_bytes());
    stub.code[ADDRESSES_AT + 8..].copy_from_slice(&(address as u64).to_le_bytes());
    stub.code
}

/// `push r11 ; push r10 ; push rax`
fn push_registers(stub: &mut Writer) {
    stub.push(&[0x41, 0x53, 0x41, 0x52, 0x50]);
}

/// The size of the block to rax, modulo 2^64: where it is more there is none.
fn push_size(stub: &mut Writer, hook: &Hook) {
    match (register(hook.size), register(hook.count)) {
        (Some(size), Some(count)) => {
            stub.push(&take(size));
            stub.push(&times(count));
        }
        (Some(one), None) | (None, Some(one)) => stub.push(&take(one)),
        (None, None) => stub.push(&[0xb8, 1, 0, 0, 0]),
    }
    if hook.unit_bytes != 1 {
        stub.push(&[0x48, 0x69, 0xc0]);
        stub.push(&hook.unit_bytes.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
    use slimline_trace::wire::AllocatorFunction;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const AT: u64 = 0x1000;
    const PLACE: u64 = 0x1122_3344_5566_7788;

    /// An instruction: what it is, the registers that it names, and its immediate, or the address that it names.
    fn line(one: &Instruction) -> String {
        let registers = (0..one.op_count()).map(|number| one.op_register(number));
        let registers: String = registers.filter(|&one| one != Register::None).map(|one| format!(" {one:?}")).collect();
        let number = match one.op0_kind() {
            OpKind::NearBranch64 => one.near_branch_target(),
            _ if one.is_ip_rel_memory_operand() => one.ip_rel_memory_address(),
            _ if one.memory_base() != Register::None => one.memory_displacement64(),
            _ if one.op_count() > 1 && one.op_kind(one.op_count() - 1) != OpKind::Register => {
                one.immediate(one.op_count() - 1)
            }
            _ => 0,
        };
        format!("{:?}{registers} {number:#x}", one.mnemonic())
    }

    /// A function's stub, an instruction a line, up to where it goes on elsewhere.
    fn told(role: AllocatorRole, arguments: [u8; 4], unit_bytes: u32) -> (Vec<String>, u64) {
        let [size, count, block, place] = arguments;
        let function = AllocatorFunction {
            name: [0; 496],
            module: [0; 240],
            role: role as u32,
            is_inner: 1,
            needs_own_malloc: 0,
            size,
            count,
            block,
            place,
            pool: 0,
            reserved: [0; 3],
            unit_bytes,
            padding: [0; 2],
        };
        let code = code(&Hook::of(&function).unwrap(), PLACE);
        assert_eq!(code[ADDRESSES_AT..ADDRESSES_AT + 8], PLACE.to_le_bytes());
        let decoder = Decoder::with_ip(64, &code[..ADDRESSES_AT], AT, DecoderOptions::NONE);
        let lines = decoder.into_iter().map(|one| line(&one)).take_while(|line| !line.starts_with("Int3")).collect();
        (lines, u64::from_le_bytes(code[ADDRESSES_AT + 8..].try_into().unwrap()))
    }

    fn address(function: unsafe extern "C" fn()) -> u64 {
        function as *const () as u64
    }

    const BEGIN: [&str; 4] = ["Push 0x1030", "Push R11 0x0", "Push R10 0x0", "Push RAX 0x0"];

    #[test]
    fn sizes_are_arguments_times_arguments_times_units() {
        let sizes = [
            ([1, 0, 0, 0], 1, &["Mov RAX RDI 0x0"][..]),
            ([6, 0, 0, 0], 1, &["Mov RAX R9 0x0"]),
            ([2, 5, 0, 0], 1, &["Mov RAX RSI 0x0", "Imul RAX R8 0x0"]),
            ([3, 4, 0, 0], 24, &["Mov RAX RDX 0x0", "Imul RAX RCX 0x0", "Imul RAX RAX 0x18"]),
            ([0, 1, 0, 0], 48, &["Mov RAX RDI 0x0", "Imul RAX RAX 0x30"]),
            ([0, 0, 0, 0], 48, &["Mov EAX 0x1", "Imul RAX RAX 0x30"]),
        ];
        for (arguments, unit_bytes, size) in sizes {
            let (lines, goes_to) = told(AllocatorRole::Allocate, arguments, unit_bytes);
            assert_eq!(lines, [&BEGIN[..], size, &["Jmp 0x1038"]].concat());
            assert_eq!(goes_to, address(made_inner));
        }
    }

    #[test]
    fn a_stub_that_frees_goes_on_to_what_was_moved() {
        let (lines, goes_to) = told(AllocatorRole::Free, [0, 0, 2, 0], 1);
        let end = ["Pop RAX 0x0", "Pop R10 0x0", "Pop R11 0x0", "Lea RSP 0x8", "Jmp 0x1040"];
        assert_eq!(lines, [&BEGIN[..], &["Mov RAX RSI 0x0", "Call 0x1038"], &end].concat());
        assert_eq!(goes_to, address(freed_inner));
    }

    #[test]
    fn all_others_are_never_passed_over_before_they_ran() {
        let others = [
            (AllocatorRole::Allocate, [1, 0, 0, 2], 1),
            (AllocatorRole::Allocate, [1, 0, 0, 0], u32::MAX),
            (AllocatorRole::Resize, [2, 0, 1, 0], 1),
            (AllocatorRole::Reset, [0; 4], 1),
        ];
        for (role, arguments, unit_bytes) in others {
            let (lines, goes_to) = told(role, arguments, unit_bytes);
            assert_eq!(lines, ["Push 0x1030", "Jmp 0x1038"]);
            assert_eq!(goes_to, address(common));
        }
    }
}
