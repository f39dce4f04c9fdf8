//! Where an indirect jump goes: the tables that compilers make of `switch` and of computed `goto`.
//!
//! ```text
//!   position-independent, 4-byte distances        absolute, 8-byte addresses
//!     lea    rB, [rip+table]                        jmp [table + rI*8]         or
//!     movsxd rX, dword [rB + rI*4]                  mov rX, [table + rI*8]     or
//!     add    rX, rB                                 lea rB, [rip+table]; jmp [rB + rI*8]
//!     jmp    rX
//! ```
//!
//! The instructions that make up the target are looked for before the jump, in order of address; compilers keep them
//! together but for the `lea`, which they hoist. A table has no length of its own: it ends before the bound that the
//! index was compared with, where there is such a comparison, and where an entry is no instruction of the function.

use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use slimline_trace::address::Svma;

use super::effects::may_write;
use super::flow::find;
use crate::module::image::Image;

/// Instructions before the jump in which its parts are looked for; a hoisted `lea` is looked for in all of them.
const REACH: usize = 32;
/// More entries are not read: the largest tables of real programs have a few thousand.
const MAX_ENTRIES: u64 = 16 << 10;

/// How entries give targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entries {
    /// 8-byte addresses.
    Addresses,
    /// 4-byte distances from the table.
    Distances,
}

/// Indices of the instructions that the indirect jump at `jump` may go to; empty where that can't be told.
pub(super) fn targets(image: &Image<'_>, instructions: &[Instruction], jump: usize) -> Vec<usize> {
    let Some((table, entries)) = table_of(instructions, jump) else { return Vec::new() };
    let count = bound_before(instructions, jump).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
    let mut found = Vec::new();
    for index in 0..count {
        let target = match entries {
            Entries::Addresses => image.pointer_at(Svma(table.wrapping_add(index * 8))).map(|target| target.0),
            Entries::Distances => image
                .bytes_from(Svma(table.wrapping_add(index * 4)))
                .first_chunk()
                .map(|bytes| table.wrapping_add_signed(i64::from(i32::from_le_bytes(*bytes)))),
        };
        let Some(target) = target.and_then(|target| find(instructions, target)) else { break };
        found.push(target);
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn table_of(instructions: &[Instruction], jump: usize) -> Option<(u64, Entries)> {
    let instruction = &instructions[jump];
    match instruction.op0_kind() {
        OpKind::Memory => address_table(instructions, jump, instruction),
        OpKind::Register => {
            let target = instruction.op0_register().full_register();
            let maker = definition(instructions, jump, target)?;
            let made = &instructions[maker];
            match made.mnemonic() {
                Mnemonic::Mov if made.op1_kind() == OpKind::Memory => address_table(instructions, maker, made),
                Mnemonic::Add if made.op1_kind() == OpKind::Register => {
                    // Either operand may be the table, the other then is the distance read from it.
                    [made.op0_register(), made.op1_register()].into_iter().find_map(|register| {
                        let load = definition(instructions, maker, register.full_register())?;
                        distance_table(instructions, load)
                    })
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The table of `[table + index*8]` or `[base + index*8]`.
fn address_table(instructions: &[Instruction], at: usize, access: &Instruction) -> Option<(u64, Entries)> {
    if access.memory_index() == Register::None || access.memory_index_scale() != 8 {
        return None;
    }
    let displacement = access.memory_displacement64();
    let base = match access.memory_base() {
        Register::None => 0,
        base => table_address(instructions, at, base)?,
    };
    Some((base.wrapping_add(displacement), Entries::Addresses))
}

/// The table of `movsxd distance, dword [base + index*4]`.
fn distance_table(instructions: &[Instruction], load: usize) -> Option<(u64, Entries)> {
    let access = &instructions[load];
    if access.code() != Code::Movsxd_r64_rm32
        || access.op1_kind() != OpKind::Memory
        || access.memory_index_scale() != 4
        || access.memory_base() == Register::None
    {
        return None;
    }
    let base = table_address(instructions, load, access.memory_base())?;
    Some((base.wrapping_add(access.memory_displacement64()), Entries::Distances))
}

/// The constant that `lea register, [rip+…]` put into a register: nearest before `at`, else the only one after.
fn table_address(instructions: &[Instruction], at: usize, register: Register) -> Option<u64> {
    let address = |instruction: &Instruction| {
        let is_it = instruction.mnemonic() == Mnemonic::Lea
            && instruction.op0_register().full_register() == register.full_register()
            && instruction.is_ip_rel_memory_operand();
        is_it.then(|| instruction.ip_rel_memory_address())
    };
    if let Some(found) = instructions[..at].iter().rev().find_map(address) {
        return Some(found);
    }
    let mut after = instructions[at..].iter().filter_map(address);
    after.next().filter(|_| after.next().is_none())
}

/// The nearest instruction before `at` that writes `register`, not looking past an unconditional jump.
fn definition(instructions: &[Instruction], at: usize, register: Register) -> Option<usize> {
    let mut factory = InstructionInfoFactory::new();
    for index in (at.saturating_sub(REACH)..at).rev() {
        let instruction = &instructions[index];
        if matches!(instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::Return) {
            return None;
        }
        let writes = factory
            .info(instruction)
            .used_registers()
            .iter()
            .any(|used| used.register().full_register() == register && may_write(used.access()));
        if writes {
            return Some(index);
        }
    }
    None
}

/// One more than the largest index that the comparison before the jump lets through: `cmp index, 7; ja default`.
fn bound_before(instructions: &[Instruction], jump: usize) -> Option<u64> {
    for index in (jump.saturating_sub(REACH)..jump).rev() {
        let instruction = &instructions[index];
        let limit = || {
            let compared =
                instructions[..index].iter().rev().take(4).find(|before| before.mnemonic() == Mnemonic::Cmp)?;
            let kind = compared.op1_kind();
            let is_immediate = !matches!(kind, OpKind::Register | OpKind::Memory);
            is_immediate.then(|| compared.immediate(1))
        };
        match instruction.mnemonic() {
            Mnemonic::Ja => return limit().map(|limit| limit.saturating_add(1)),
            Mnemonic::Jae => return limit(),
            _ if matches!(instruction.flow_control(), FlowControl::IndirectBranch | FlowControl::Return) => {
                return None;
            }
            _ => {}
        }
    }
    None
}
