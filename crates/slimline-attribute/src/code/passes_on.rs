//! Whether a function hands on what a call gave it: `xmalloc` does, `allocate_tables` does not.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use slimline_trace::address::Svma;

use super::effects::{always_writes, is_conditional_move, may_write};
use super::flow::{decode, find};
use crate::module::Module;

/// Instructions looked at; an allocator's wrapper is short.
const MAX_STEPS: usize = 512;
/// A wrapper may keep a header in front of what it returns; a function that writes more is building something.
const MAX_STORES: usize = 1;

/// Where copies of the value are.
#[derive(Clone, Default, PartialEq)]
struct Copies {
    registers: Vec<Register>,
    /// (base, displacement) of words of the frame.
    slots: Vec<(Register, u64)>,
}

/// Whether the function that a call returns to at `return_address` returns the call's result and stores nothing (but
/// a header) through it. Where the code can't be read, it is taken to.
pub fn passes_on(module: &Module<'_>, return_address: Svma) -> bool {
    let call = Svma(return_address.0.wrapping_sub(1));
    let Some((start, end)) = module.function_bounds(call) else { return true };
    let Some(image) = module.image() else { return true };
    let code = image.bytes_from(start);
    let bytes = usize::try_from(end.0 - start.0).unwrap_or(usize::MAX);
    follow(&decode(code.get(..bytes).unwrap_or(code), start), return_address.0)
}

fn follow(instructions: &[Instruction], return_address: u64) -> bool {
    let Some(first) = find(instructions, return_address) else { return true };
    let mut factory = InstructionInfoFactory::new();
    let mut seen = vec![false; instructions.len()];
    let mut open = vec![(first, Copies { registers: vec![Register::RAX], slots: Vec::new() })];
    let (mut returned, mut stores, mut steps) = (false, 0, 0);
    while let Some((index, mut copies)) = open.pop() {
        let Some(instruction) = instructions.get(index) else { continue };
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        steps += 1;
        if steps > MAX_STEPS {
            return false;
        }
        stores += usize::from(copies.stores_through(instruction, &mut factory));
        let target = || find(instructions, instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Return => returned |= copies.registers.contains(&Register::RAX),
            FlowControl::UnconditionalBranch => match target() {
                Some(target) => open.push((target, copies)),
                // A tail call passes on what it is given: `return memset(p, 0, n)`.
                None => returned |= copies.registers.contains(&Register::RDI),
            },
            FlowControl::ConditionalBranch => {
                open.extend(target().map(|target| (target, copies.clone())));
                open.push((index + 1, copies));
            }
            FlowControl::IndirectBranch | FlowControl::Exception | FlowControl::Interrupt => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                copies.registers.retain(|register| is_kept_over_calls(*register));
                open.push((index + 1, copies));
            }
            FlowControl::Next | FlowControl::XbeginXabortXend => {
                copies.step(instruction, &mut factory);
                open.push((index + 1, copies));
            }
        }
    }
    returned && stores <= MAX_STORES
}

impl Copies {
    /// Where the copies are after an instruction.
    fn step(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let is_move = instruction.mnemonic() == Mnemonic::Mov;
        let derives = match instruction.mnemonic() {
            // A pointer past a header is still the block; a masked one is where it was aligned to.
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And => {
                instruction.op0_kind() == OpKind::Register && self.holds(instruction.op0_register())
            }
            Mnemonic::Lea => self.holds(instruction.memory_base()),
            mnemonic if mnemonic == Mnemonic::Mov || is_conditional_move(mnemonic) => match instruction.op1_kind() {
                OpKind::Register => self.holds(instruction.op1_register()),
                OpKind::Memory => self.slots.contains(&slot_of(instruction)) && is_frame(instruction),
                _ => false,
            },
            _ => false,
        };
        if is_move && instruction.op0_kind() == OpKind::Memory && is_frame(instruction) {
            let slot = slot_of(instruction);
            self.slots.retain(|other| *other != slot);
            if derives {
                self.slots.push(slot);
            }
            return;
        }
        for used in factory.info(instruction).used_registers() {
            // What may keep its value is a copy still: the ways through a function are joined.
            if always_writes(used.access()) {
                let written = used.register().full_register();
                self.registers.retain(|register| *register != written);
            }
        }
        if derives && instruction.op0_kind() == OpKind::Register {
            self.registers.push(instruction.op0_register().full_register());
        }
    }

    fn holds(&self, register: Register) -> bool {
        register != Register::None && self.registers.contains(&register.full_register())
    }

    fn stores_through(&self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
        factory
            .info(instruction)
            .used_memory()
            .iter()
            .any(|memory| may_write(memory.access()) && self.holds(memory.base()))
    }
}

fn is_frame(instruction: &Instruction) -> bool {
    matches!(instruction.memory_base(), Register::RSP | Register::RBP) && instruction.memory_index() == Register::None
}

fn slot_of(instruction: &Instruction) -> (Register, u64) {
    (instruction.memory_base(), instruction.memory_displacement64())
}

/// Registers that the System V ABI makes a called function keep.
fn is_kept_over_calls(register: Register) -> bool {
    matches!(register, Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14 | Register::R15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], return_address: u64, expected: bool) {
        assert_eq!(follow(&decode(code, Svma(0x1000)), return_address), expected);
    }

    #[test]
    fn a_checked_malloc_passes_on() {
        // call 2000 · test rax,rax · je 100d · add rsp,8 · ret · 100f: call 3000
        let code = [
            0xe8, 0xfb, 0x0f, 0x00, 0x00, 0x48, 0x85, 0xc0, 0x74, 0x05, 0x48, 0x83, 0xc4, 0x08, 0xc3, 0xe8, 0, 0, 0, 0,
        ];
        check(&code, 0x1005, true);
    }

    #[test]
    fn a_value_kept_over_another_call_passes_on() {
        // call · mov rbx,rax · call · mov rax,rbx · pop rbx · ret
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xd8, 0x5b, 0xc3];
        check(&code, 0x1005, true);
        // The same, returning what the second call gave.
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0xe8, 0, 0, 0, 0, 0x90, 0x90, 0x90, 0x5b, 0xc3];
        check(&code, 0x1005, false);
    }

    #[test]
    fn a_constructor_is_no_wrapper() {
        // call · mov [rax],rbx · mov [rax+8],rbp · ret: two fields written.
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x18, 0x48, 0x89, 0x68, 0x08, 0xc3];
        check(&code, 0x1005, false);
        // call · mov [rax],rbx · add rax,8 · ret: a header.
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x18, 0x48, 0x83, 0xc0, 0x08, 0xc3];
        check(&code, 0x1005, true);
    }

    #[test]
    fn storing_it_elsewhere_is_no_passing_on() {
        // call · mov [rip+0],rax · xor eax,eax · ret
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x05, 0, 0, 0, 0, 0x31, 0xc0, 0xc3];
        check(&code, 0x1005, false);
    }

    #[test]
    fn a_conditional_move_may_pass_on() {
        // call · test rax,rax · cmove rax,rbx · ret: the block, or what the caller has for the worst case.
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x85, 0xc0, 0x48, 0x0f, 0x44, 0xc3, 0xc3];
        check(&code, 0x1005, true);
        // call · mov rbx,rax · xor eax,eax · test rbx,rbx · cmovne rax,rbx · ret
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xc3, 0x31, 0xc0, 0x48, 0x85, 0xdb, 0x48, 0x0f, 0x45, 0xc3, 0xc3];
        check(&code, 0x1005, true);
        // call · mov rdx,rax · lock cmpxchg [rdx],rbx, twice · mov rax,rdx · ret: it may be written twice.
        let compare_and_store = [0xf0, 0x48, 0x0f, 0xb1, 0x1a];
        let [call, keep, back] = [&[0xe8, 0, 0, 0, 0][..], &[0x48, 0x89, 0xc2], &[0x48, 0x89, 0xd0]];
        check(&[call, keep, &compare_and_store, back, &[0xc3]].concat(), 0x1005, true);
        check(&[call, keep, &compare_and_store, &compare_and_store, back, &[0xc3]].concat(), 0x1005, false);
    }

    #[test]
    fn spilled_to_the_frame_and_back_passes_on() {
        // call · mov [rbp-8],rax · xor eax,eax · mov rax,[rbp-8] · leave · ret
        let code = [0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x45, 0xf8, 0x31, 0xc0, 0x48, 0x8b, 0x45, 0xf8, 0xc9, 0xc3];
        check(&code, 0x1005, true);
    }
}
