//! How to get from a frame to its caller's at one instruction: the call frame information (CFI) that compilers emit,
//! read where the dynamic linker mapped it, and boiled down to a word.
//!
//! An evaluator of our own on gimli's parser rather than framehop: the walker must know *which stack slots and
//! registers a caller was found from* (the call-path cache checks exactly those again), the tables come from memory
//! without a list of modules to keep, and a rule is one word in one process-wide table that threads and signal
//! handlers read without a lock.
#![allow(unsafe_code)] // reads unwind tables of loaded objects

use super::modules;
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian, Operation, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};

type Bytes = EndianSlice<'static, NativeEndian>;

/// Where a frame ends: its canonical frame address, the stack pointer of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// Stack pointer plus offset.
    Rsp(i32),
    /// Frame pointer plus offset.
    Rbp(i32),
    /// The word at the stack pointer plus offset.
    AtRsp(i32),
    /// The word at the frame pointer plus offset: functions that align their stack.
    AtRbp(i32),
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerRbp {
    /// Still in the register.
    Kept,
    /// At the canonical frame address plus offset.
    AtCfa(i32),
    /// At the frame pointer plus offset.
    AtRbp(i32),
}

/// What to do at one instruction. The return address of a normal frame lies at its CFA − 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Frame {
        cfa: Cfa,
        rbp: CallerRbp,
    },
    /// Where a signal handler returns to: the interrupted registers are in the kernel's frame.
    SignalFrame,
    /// The start of a thread.
    Outermost,
}

const OFFSET_BITS: u32 = 28;

impl Rule {
    /// One word, never 0: bits 0–2 kind, 4–5 kind of frame pointer rule, 8–35 its offset, 36–63 offset of the CFA.
    #[inline]
    fn pack(self) -> u64 {
        let Self::Frame { cfa, rbp } = self else { return if self == Self::SignalFrame { 5 } else { 6 } };
        let (kind, offset) = match cfa {
            Cfa::Rsp(offset) => (1, offset),
            Cfa::Rbp(offset) => (2, offset),
            Cfa::AtRsp(offset) => (3, offset),
            Cfa::AtRbp(offset) => (4, offset),
        };
        let (rbp_kind, rbp_offset) = match rbp {
            CallerRbp::Kept => (0, 0),
            CallerRbp::AtCfa(offset) => (1, offset),
            CallerRbp::AtRbp(offset) => (2, offset),
        };
        let low = |offset: i32| offset as u64 & ((1 << OFFSET_BITS) - 1);
        kind | rbp_kind << 4 | low(rbp_offset) << 8 | low(offset) << (8 + OFFSET_BITS)
    }

    #[inline]
    fn unpack(word: u64) -> Self {
        let offset = (word as i64 >> (8 + OFFSET_BITS)) as i32;
        let rbp_offset = ((word << OFFSET_BITS) as i64 >> (8 + OFFSET_BITS)) as i32;
        let rbp = match word >> 4 & 3 {
            0 => CallerRbp::Kept,
            1 => CallerRbp::AtCfa(rbp_offset),
            _ => CallerRbp::AtRbp(rbp_offset),
        };
        match word & 7 {
            1 => Self::Frame { cfa: Cfa::Rsp(offset), rbp },
            2 => Self::Frame { cfa: Cfa::Rbp(offset), rbp },
            3 => Self::Frame { cfa: Cfa::AtRsp(offset), rbp },
            4 => Self::Frame { cfa: Cfa::AtRbp(offset), rbp },
            5 => Self::SignalFrame,
            _ => Self::Outermost,
        }
    }
}

/// A rule and its instruction, readable without a lock: `check` is the instruction's address xor the rule, so a pair
/// that was torn apart by a writer fits no address.
struct Cell {
    check: AtomicU64,
    rule: AtomicU64,
}

/// 512 KiB, sparse: an instruction that is asked for has one place.
const CELLS: usize = 1 << 15;
static CACHE: [Cell; CELLS] = [const { Cell { check: AtomicU64::new(0), rule: AtomicU64::new(0) } }; CELLS];

/// The rule for the instruction at `address`; None where there is no CFI, or none that is understood.
#[inline]
pub(super) fn find(address: u64, may_lock: bool) -> Option<Rule> {
    let cell = &CACHE[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CELLS.ilog2())) as usize];
    let word = cell.rule.load(Acquire);
    if word != 0 && cell.check.load(Relaxed) ^ word == address {
        return Some(Rule::unpack(word));
    }
    let word = read(address, may_lock)?.pack();
    cell.check.store(address ^ word, Relaxed);
    cell.rule.store(word, Release);
    Some(Rule::unpack(word))
}

/// Forgets all rules: an object was unloaded, another may take its place.
pub(super) fn forget() {
    CACHE.iter().for_each(|cell| cell.rule.store(0, Release));
}

/// Room for a row of any compiler's CFI: x86-64 has 17 columns, and states are seldom nested more than once.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

struct Function {
    frames: EhFrame<Bytes>,
    bases: BaseAddresses,
    entry: FrameDescriptionEntry<Bytes>,
}

fn function(address: u64, may_lock: bool) -> Option<Function> {
    let table = modules::find(address, may_lock)?;
    // SAFETY: from the table to the segment's end is mapped and constant while the object is loaded; the agent keeps
    // nothing that refers to it.
    let bytes = |start: u64| unsafe { core::slice::from_raw_parts(start as *const u8, (table.end - start) as usize) };
    let header = EhFrameHdr::new(bytes(table.header), NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(table.header);
    let header = header.parse(&bases, 8).ok()?;
    let gimli::Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
    if start >= table.end {
        return None;
    }
    let frames = EhFrame::new(bytes(start), NativeEndian);
    let bases = bases.set_eh_frame(start);
    let entry = header.table()?.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
    Some(Function { frames, bases, entry })
}

/// First address of the function around `address` and the first behind it, as its CFI says. Async-signal-safe.
pub(super) fn bounds(address: u64) -> Option<(u64, u64)> {
    let entry = function(address, false)?.entry;
    Some((entry.initial_address(), entry.end_address()))
}

#[cold]
fn read(address: u64, may_lock: bool) -> Option<Rule> {
    let Function { frames, bases, entry } = function(address, may_lock)?;
    if entry.is_signal_trampoline() {
        return Some(Rule::SignalFrame);
    }
    let mut context = UnwindContext::<_, Storage>::new_in();
    let row = entry.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Some(Rule::Outermost),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let evaluate =
        |expression: UnwindExpression<usize>| evaluate(expression.get(&frames).ok()?, entry.cie().encoding(), address);
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => Cfa::Rsp(narrow(*offset)?),
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => Cfa::Rbp(narrow(*offset)?),
        CfaRule::RegisterAndOffset { .. } => return None,
        CfaRule::Expression(expression) => match evaluate(*expression)? {
            Symbolic::Rsp(offset) => Cfa::Rsp(narrow(offset)?),
            Symbolic::Rbp(offset) => Cfa::Rbp(narrow(offset)?),
            Symbolic::AtRsp(offset) => Cfa::AtRsp(narrow(offset)?),
            Symbolic::AtRbp(offset) => Cfa::AtRbp(narrow(offset)?),
            Symbolic::Constant(_) => return None,
        },
    };
    let rbp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => CallerRbp::Kept,
        Some(RegisterRule::Offset(offset)) => CallerRbp::AtCfa(narrow(offset)?),
        Some(RegisterRule::Expression(expression)) => match evaluate(expression)? {
            Symbolic::Rbp(offset) => CallerRbp::AtRbp(narrow(offset)?),
            _ => return None,
        },
        Some(_) => return None,
    };
    Some(Rule::Frame { cfa, rbp })
}

fn narrow(offset: i64) -> Option<i32> {
    (offset.unsigned_abs() < 1 << (OFFSET_BITS - 1)).then_some(offset as i32)
}

/// A value as a function of the frame's registers; the instruction pointer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbolic {
    Constant(u64),
    Rsp(i64),
    Rbp(i64),
    AtRsp(i64),
    AtRbp(i64),
}

/// The few operations that assemblers and compilers use in CFI: procedure linkage tables (an offset that depends on
/// the instruction), aligned stacks (a pointer saved in the frame).
fn evaluate(expression: gimli::Expression<Bytes>, encoding: gimli::Encoding, address: u64) -> Option<Symbolic> {
    use Symbolic::{AtRbp, AtRsp, Constant, Rbp, Rsp};
    let mut stack = [Constant(0); 8];
    let mut depth = 0usize;
    let mut operations = expression.operations(encoding);
    while let Some(operation) = operations.next().ok()? {
        let binary = |stack: &[Symbolic; 8]| depth.checked_sub(2).map(|left| (stack[left], stack[left + 1]));
        let constants = |stack: &[Symbolic; 8]| match binary(stack)? {
            (Constant(left), Constant(right)) => Some((left, right)),
            _ => None,
        };
        let (popped, value) = match operation {
            Operation::RegisterOffset { register: X86_64::RSP, offset, .. } => (0, Rsp(offset)),
            Operation::RegisterOffset { register: X86_64::RBP, offset, .. } => (0, Rbp(offset)),
            Operation::RegisterOffset { register: X86_64::RA, offset, .. } => {
                (0, Constant(address.wrapping_add_signed(offset)))
            }
            Operation::UnsignedConstant { value } => (0, Constant(value)),
            Operation::SignedConstant { value } => (0, Constant(value as u64)),
            Operation::PlusConstant { value } => (1, add(stack[depth.checked_sub(1)?], value)?),
            Operation::Plus => match binary(&stack)? {
                (left, Constant(right)) => (2, add(left, right)?),
                (Constant(left), right) => (2, add(right, left)?),
                _ => return None,
            },
            Operation::And => constants(&stack).map(|(left, right)| (2, Constant(left & right)))?,
            Operation::Ge => {
                constants(&stack).map(|(left, right)| (2, Constant(u64::from(left as i64 >= right as i64))))?
            }
            Operation::Shl => {
                constants(&stack).map(|(left, right)| (2, Constant(left.checked_shl(right as u32).unwrap_or(0))))?
            }
            Operation::Deref { size: 8, .. } => match stack[depth.checked_sub(1)?] {
                Rsp(offset) => (1, AtRsp(offset)),
                Rbp(offset) => (1, AtRbp(offset)),
                _ => return None,
            },
            Operation::Nop => continue,
            _ => return None,
        };
        depth -= popped;
        *stack.get_mut(depth)? = value;
        depth += 1;
    }
    stack.get(depth.checked_sub(1)?).copied()
}

fn add(value: Symbolic, constant: u64) -> Option<Symbolic> {
    Some(match value {
        Symbolic::Constant(other) => Symbolic::Constant(other.wrapping_add(constant)),
        Symbolic::Rsp(offset) => Symbolic::Rsp(offset.wrapping_add_unsigned(constant)),
        Symbolic::Rbp(offset) => Symbolic::Rbp(offset.wrapping_add_unsigned(constant)),
        Symbolic::AtRsp(_) | Symbolic::AtRbp(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rule_survives_packing(cfa in 0..4, rbp in 0..3, offset in -(1i32 << 27) + 1..1 << 27, rbp_offset in -(1i32 << 27) + 1..1 << 27) {
            let cfa = [Cfa::Rsp(offset), Cfa::Rbp(offset), Cfa::AtRsp(offset), Cfa::AtRbp(offset)][cfa as usize];
            let rbp = [CallerRbp::Kept, CallerRbp::AtCfa(rbp_offset), CallerRbp::AtRbp(rbp_offset)][rbp as usize];
            for rule in [Rule::Frame { cfa, rbp }, Rule::SignalFrame, Rule::Outermost] {
                prop_assert!(rule.pack() != 0);
                prop_assert_eq!(Rule::unpack(rule.pack()), rule);
            }
        }
    }

    fn check(expression: &'static [u8], address: u64, expected: Option<Symbolic>) {
        let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 1 };
        let expression = gimli::Expression(EndianSlice::new(expression, NativeEndian));
        assert_eq!(evaluate(expression, encoding, address), expected);
    }

    #[test]
    fn evaluates_the_expressions_that_occur() {
        // .plt of GNU ld: rsp + 8 + ((rip & 15) >= 11) * 8.
        const PLT: &[u8] = &[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        check(PLT, 0x1000, Some(Symbolic::Rsp(8)));
        check(PLT, 0x100a, Some(Symbolic::Rsp(8)));
        check(PLT, 0x100b, Some(Symbolic::Rsp(16)));
        // gcc, aligned stack: the word at rbp - 8.
        check(&[0x76, 0x78, 0x06], 0, Some(Symbolic::AtRbp(-8)));
        check(&[0x76, 0], 0, Some(Symbolic::Rbp(0)));
        // Nothing on the stack; a sum of two registers; more than is held.
        check(&[0x06], 0, None);
        check(&[0x77, 0, 0x76, 0, 0x22], 0, None);
        check(&[0x30; 9], 0, None);
    }

    #[test]
    fn a_function_has_bounds_and_rules() {
        modules::start();
        let at = libc::qsort as *const () as u64;
        let (start, end) = bounds(at).unwrap();
        assert!(start == at && end > at);
        assert_eq!(find(at, true), Some(Rule::Frame { cfa: Cfa::Rsp(8), rbp: CallerRbp::Kept }), "at its entry");
        assert_eq!(find(at, true), read(at, true), "from the cache");
        assert_eq!(bounds(&raw const start as u64), None);
        assert_eq!(find(8, true), None);
    }
}
