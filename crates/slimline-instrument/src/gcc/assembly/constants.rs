//! Registers that hold a known number: how many bytes a hook for ranges is told.

use std::collections::HashMap;

use super::Instruction;

/// What is known at one place of a function, going from line to line.
#[derive(Debug, Default)]
pub(super) struct Constants {
    /// Since the last label.
    now: HashMap<u8, u64>,
    /// Of registers that nothing else is ever put into in this function, but what was there before.
    always: HashMap<u8, Option<u64>>,
}

/// Registers by number, with the parts that they have names for.
const REGISTERS: [&[&str]; 8] = [
    &["%rax", "%eax", "%ax", "%al", "%ah"],
    &["%rbx", "%ebx", "%bx", "%bl", "%bh"],
    &["%rcx", "%ecx", "%cx", "%cl", "%ch"],
    &["%rdx", "%edx", "%dx", "%dl", "%dh"],
    &["%rsi", "%esi", "%si", "%sil"],
    &["%rdi", "%edi", "%di", "%dil"],
    &["%rbp", "%ebp", "%bp", "%bpl"],
    &["%rsp", "%esp", "%sp", "%spl"],
];
const RAX: u8 = 0;
const RDX: u8 = 3;
/// Those that functions give back as they were.
const KEPT: [u8; 7] = [1, 6, 7, 12, 13, 14, 15];

fn number(register: &str) -> Option<u8> {
    if let Some(at) = REGISTERS.iter().position(|names| names.contains(&register)) {
        return Some(at as u8);
    }
    let rest = register.strip_prefix("%r")?.trim_end_matches(['d', 'w', 'b']);
    rest.parse().ok().filter(|number| (8..16).contains(number))
}

/// What an instruction leaves in registers.
enum Effect {
    Nothing,
    /// A number, or what another register holds, or something else.
    Sets(u8, Source),
    /// Results that no operand names.
    SetsResult,
    Anything,
    /// A register comes back as it was when the function began.
    Restores,
}

enum Source {
    Number(u64),
    Register(u8),
    Other,
}

fn effect(mnemonic: &str, operands: &str) -> Effect {
    let last = operands.rsplit([',', ' ']).next().unwrap_or_default();
    match mnemonic {
        "cqto" | "cltd" | "cltq" | "cwtl" | "cqo" | "cdq" => return Effect::SetsResult,
        _ if mnemonic.starts_with("rep") || mnemonic.starts_with("xchg") || mnemonic == "cpuid" => {
            return Effect::Anything;
        }
        _ if mnemonic.starts_with("cmpxchg") || mnemonic.starts_with("lock") || mnemonic.starts_with("xadd") => {
            return Effect::Anything;
        }
        _ if mnemonic.starts_with("cmp") || mnemonic.starts_with("test") || mnemonic.starts_with("push") => {
            return Effect::Nothing;
        }
        _ if mnemonic.starts_with("pop") => return Effect::Restores,
        _ if (mnemonic.starts_with("mul") || mnemonic.starts_with("imul") || mnemonic.contains("div"))
            && !operands.contains(", ") =>
        {
            return Effect::SetsResult;
        }
        _ if operands.is_empty() && (mnemonic.starts_with("movs") || mnemonic.starts_with("stos")) => {
            return Effect::Anything;
        }
        _ => {}
    }
    let Some(register) = number(last) else { return Effect::Nothing };
    let moves = matches!(mnemonic, "movl" | "movq" | "movabsq");
    let source = match operands.split_once(", ") {
        Some((from, _)) if moves => match from.strip_prefix('$').map(str::parse) {
            Some(Ok(value)) => Source::Number(value),
            _ => number(from).map_or(Source::Other, Source::Register),
        },
        // Nothing from itself.
        Some((one, other)) if mnemonic == "xorl" && one == other => Source::Number(0),
        _ => Source::Other,
    };
    Effect::Sets(register, source)
}

impl Constants {
    /// A function begins, which has these instructions.
    pub(super) fn begin<'a>(&mut self, body: impl Iterator<Item = Instruction<'a>>) {
        self.now.clear();
        self.always.clear();
        for instruction in body {
            if let Effect::Sets(register, source) = effect(instruction.mnemonic, instruction.operands) {
                let value = if let Source::Number(value) = source { Some(value) } else { None };
                let known = self.always.entry(register).or_insert(value);
                if *known != value {
                    *known = None;
                }
            }
        }
    }

    /// Other code may come here.
    pub(super) fn forget_all(&mut self) {
        self.now.clear();
    }

    /// What a register holds.
    pub(super) fn of(&self, register: &str) -> Option<u64> {
        self.value(number(register)?)
    }

    fn value(&self, register: u8) -> Option<u64> {
        let always = || self.always.get(&register).copied().flatten().filter(|_| KEPT.contains(&register));
        self.now.get(&register).copied().or_else(always)
    }

    /// An instruction is carried out.
    pub(super) fn take(&mut self, mnemonic: &str, operands: &str) {
        if mnemonic == "call" {
            self.now.retain(|register, _| KEPT.contains(register));
            return;
        }
        match effect(mnemonic, operands) {
            Effect::Nothing | Effect::Restores => {}
            Effect::Anything => self.forget_all(),
            Effect::SetsResult => self.now.retain(|register, _| ![RAX, RDX].contains(register)),
            Effect::Sets(register, source) => {
                let value = match source {
                    Source::Number(value) => Some(value),
                    Source::Register(from) => self.value(from),
                    Source::Other => None,
                };
                match value {
                    Some(value) => self.now.insert(register, value),
                    None => self.now.remove(&register),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str], register: &str) -> Option<u64> {
        let parsed = |line: &&'static str| Instruction::of(line);
        let lines: Vec<&'static str> = lines.iter().map(|line| &*format!("\t{line}").leak()).collect();
        let mut constants = Constants::default();
        constants.begin(lines.iter().filter_map(parsed));
        for instruction in lines.iter().filter_map(parsed) {
            if instruction.mnemonic == "label" {
                constants.forget_all();
            } else {
                constants.take(instruction.mnemonic, instruction.operands);
            }
        }
        constants.of(register)
    }

    #[test]
    fn numbers_are_followed_through_registers() {
        assert_eq!(after(&["movl\t$400, %esi"], "%rsi"), Some(400));
        assert_eq!(after(&["movq\t$24, %rsi", "movq\t%rbx, %rdi"], "%rsi"), Some(24));
        assert_eq!(after(&["movl\t$12, %ebp", "movl\t%ebp, %esi"], "%rsi"), Some(12));
        assert_eq!(after(&["xorl\t%edx, %edx"], "%rdx"), Some(0));
        assert_eq!(after(&["movl\t$3, %esi", "movq\t%rsi, 8(%rsp)", "cmpl\t$1, %esi"], "%rsi"), Some(3));
    }

    #[test]
    fn what_changes_is_forgotten() {
        assert_eq!(after(&["movl\t$400, %esi", "addl\t$1, %esi"], "%rsi"), None);
        assert_eq!(after(&["movl\t$400, %esi", "call\tf"], "%rsi"), None);
        assert_eq!(after(&["movl\t$400, %edx", "cltd"], "%rdx"), None);
        assert_eq!(after(&["movl\t$400, %edx", "idivl\t%ecx"], "%rdx"), None);
        assert_eq!(after(&["movl\t$400, %esi", "rep movsq"], "%rsi"), None);
        assert_eq!(after(&["movl\t$400, %esi", "movl\t%eax, %esi"], "%rsi"), None);
    }

    #[test]
    fn what_a_function_puts_there_once_stays_over_labels() {
        let loops = ["pushq\t%r12", "movl\t$48, %r12d", "label", "movl\t%r12d, %esi", "call\tf"];
        assert_eq!(after(&loops[..4], "%rsi"), Some(48));
        let popped = [&loops[..4], &["popq\t%r12"]].concat();
        assert_eq!(after(&popped, "%rsi"), Some(48));
        let twice = [&loops[..4], &["movl\t$49, %r12d"]].concat();
        assert_eq!(after(&twice[..4], "%rsi"), Some(48));
        assert_eq!(after(&[&twice[..], &["label", "movl\t%r12d, %esi"]].concat(), "%rsi"), None);
        // What calls may change.
        assert_eq!(after(&["movl\t$48, %esi", "label"], "%rsi"), None);
    }
}
