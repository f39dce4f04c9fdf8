//! What a call or a jump out of a function goes to.

use iced_x86::{FlowControl, Instruction};
use slimline_trace::address::Svma;

use super::flow::decode;
use crate::module::Module;
use crate::module::image::Relocated;

/// Where a call goes, or a jump that leaves its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// To a function of another module, as linked.
    Import(&'a str),
    /// To code of the same module.
    Here(Svma),
    /// Where a register or a word of memory says at run time.
    Computed,
}

/// Where `branch` goes: a stub of the procedure linkage table is looked through, and so is a word that the dynamic
/// linker fills.
pub(crate) fn target_of<'a>(module: &Module<'a>, branch: &Instruction) -> Target<'a> {
    if branch.is_ip_rel_memory_operand() {
        return target_in(module, Svma(branch.ip_rel_memory_address()));
    }
    match branch.flow_control() {
        FlowControl::Call | FlowControl::UnconditionalBranch => {}
        _ => return Target::Computed,
    }
    let target = Svma(branch.near_branch_target());
    let Some(image) = module.image() else { return Target::Here(target) };
    let code = image.bytes_from(target);
    // `endbr64; bnd jmp [slot]` or `jmp [slot]`.
    let stub = decode(&code[..code.len().min(16)], target).into_iter().take(2).find(|instruction| {
        instruction.flow_control() == FlowControl::IndirectBranch && instruction.is_ip_rel_memory_operand()
    });
    match stub.map(|jump| target_in(module, Svma(jump.ip_rel_memory_address()))) {
        Some(Target::Computed) | None => Target::Here(target),
        Some(through) => through,
    }
}

/// What a word that the dynamic linker fills points to.
pub(super) fn target_in<'a>(module: &Module<'a>, slot: Svma) -> Target<'a> {
    match module.image().and_then(|image| image.relocated(slot)) {
        Some(Relocated::Import(name)) => Target::Import(name),
        Some(Relocated::Address(target)) => Target::Here(target),
        None => Target::Computed,
    }
}
