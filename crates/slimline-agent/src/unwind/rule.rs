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

/// What is known of an instruction, in one word that is never 0: the rule, and where the instruction's function begins.
///
/// ```text
///   63 CFA offset 43 │ 42 rbp offset 30 │ 29 bytes from the function's start 5 │ 4 kind of rbp rule 3 │ 2 kind 0
/// ```
///
/// Offsets in words: stacks are aligned so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u64);

const CFA_SHIFT: u32 = 43;
const RBP_SHIFT: u32 = 30;
const START_SHIFT: u32 = 5;
/// Functions are shorter.
const MAX_START: u64 = (1 << (RBP_SHIFT - START_SHIFT)) - 1;

impl Code {
    const BY_RSP: u64 = 1;
    const BY_RBP: u64 = 2;
    const AT_RSP: u64 = 3;
    const AT_RBP: u64 = 4;
    const SIGNAL_FRAME: u64 = 5;
    const OUTERMOST: u64 = 6;
    const RBP_AT_CFA: u64 = 1 << 3;
    const RBP_AT_RBP: u64 = 2 << 3;

    /// None where something is larger than it has room for, which no compiler makes.
    fn new(rule: Rule, bytes_from_start: u64) -> Option<Self> {
        let offset = |bytes: i32, bits: u32| {
            let words = i64::from(bytes) / 8;
            (bytes % 8 == 0 && words.unsigned_abs() < 1 << (bits - 1)).then_some(words as u64 & ((1 << bits) - 1))
        };
        let rule = match rule {
            Rule::SignalFrame => Self::SIGNAL_FRAME,
            Rule::Outermost => Self::OUTERMOST,
            Rule::Frame { cfa, rbp } => {
                let (kind, cfa_offset) = match cfa {
                    Cfa::Rsp(offset) => (Self::BY_RSP, offset),
                    Cfa::Rbp(offset) => (Self::BY_RBP, offset),
                    Cfa::AtRsp(offset) => (Self::AT_RSP, offset),
                    Cfa::AtRbp(offset) => (Self::AT_RBP, offset),
                };
                let (rbp_kind, rbp_offset) = match rbp {
                    CallerRbp::Kept => (0, 0),
                    CallerRbp::AtCfa(offset) => (Self::RBP_AT_CFA, offset),
                    CallerRbp::AtRbp(offset) => (Self::RBP_AT_RBP, offset),
                };
                let (cfa_offset, rbp_offset) =
                    (offset(cfa_offset, 64 - CFA_SHIFT)?, offset(rbp_offset, CFA_SHIFT - RBP_SHIFT)?);
                kind | rbp_kind | rbp_offset << RBP_SHIFT | cfa_offset << CFA_SHIFT
            }
        };
        (bytes_from_start <= MAX_START).then_some(Self(rule | bytes_from_start << START_SHIFT))
    }

    #[inline(always)]
    fn cfa_offset(self) -> i64 {
        (self.0 as i64 >> CFA_SHIFT) * 8
    }

    #[inline(always)]
    fn rbp_offset(self) -> i64 {
        ((self.0 << (64 - CFA_SHIFT)) as i64 >> (64 - CFA_SHIFT + RBP_SHIFT)) * 8
    }

    /// Where the function begins that has this instruction.
    #[inline(always)]
    pub(crate) fn function(self, instruction: u64) -> u64 {
        instruction - (self.0 >> START_SHIFT & MAX_START)
    }

    #[inline]
    pub(super) fn rule(self) -> Rule {
        let (offset, rbp_offset) = (self.cfa_offset() as i32, self.rbp_offset() as i32);
        let rbp = match self.0 & (3 << 3) {
            0 => CallerRbp::Kept,
            Self::RBP_AT_CFA => CallerRbp::AtCfa(rbp_offset),
            _ => CallerRbp::AtRbp(rbp_offset),
        };
        match self.0 & 7 {
            Self::BY_RSP => Rule::Frame { cfa: Cfa::Rsp(offset), rbp },
            Self::BY_RBP => Rule::Frame { cfa: Cfa::Rbp(offset), rbp },
            Self::AT_RSP => Rule::Frame { cfa: Cfa::AtRsp(offset), rbp },
            Self::AT_RBP => Rule::Frame { cfa: Cfa::AtRbp(offset), rbp },
            Self::SIGNAL_FRAME => Rule::SignalFrame,
            _ => Rule::Outermost,
        }
    }

    /// Whether it is known to have no caller, whatever the stack holds.
    pub(crate) fn is_outermost(self) -> bool {
        self.0 & 7 == Self::OUTERMOST
    }

    /// Whether the caller is found by means of the frame pointer register.
    pub(crate) fn uses_bp(self) -> bool {
        matches!(self.0 & 7, Self::BY_RBP | Self::AT_RBP) || self.0 & (3 << 3) == Self::RBP_AT_RBP
    }

    /// In a frame of constant size, given its stack pointer: the CFA, and the slot of the caller's frame pointer, 0 if
    /// that is in the register still. None for other frames.
    #[inline(always)]
    pub(crate) fn constant_frame(self, sp: u64) -> Option<(u64, u64)> {
        let cfa = sp.wrapping_add_signed(self.cfa_offset());
        match self.0 & (3 << 3 | 7) {
            Self::BY_RSP => Some((cfa, 0)),
            kind if kind == Self::BY_RSP | Self::RBP_AT_CFA => Some((cfa, cfa.wrapping_add_signed(self.rbp_offset()))),
            _ => None,
        }
    }
}

/// An instruction and what is known of it, readable without a lock: what a writer left torn fits no address.
#[repr(C, align(16))]
struct Cell {
    check: AtomicU64,
    code: AtomicU64,
}

impl Cell {
    /// Multiplied, because addresses and codes differ in few bits: one difference must not undo the other.
    #[inline(always)]
    fn check(address: u64, code: u64) -> u64 {
        address ^ code.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// 1 MiB, sparse. The place of an instruction is near that of its neighbours, so that little code touches few pages.
const CELLS: usize = 1 << 16;
static CACHE: [Cell; CELLS] = [const { Cell { check: AtomicU64::new(0), code: AtomicU64::new(0) } }; CELLS];

#[inline(always)]
fn cell(address: u64) -> &'static Cell {
    // A call has five bytes or more, but for those through registers.
    &CACHE[((address >> 2) ^ (address >> 18)) as usize % CELLS]
}

/// What the cache knows of the instruction at `address`.
#[inline(always)]
pub(super) fn find_known(address: u64) -> Option<Code> {
    let cell = cell(address);
    let code = cell.code.load(Acquire);
    (code != 0 && cell.check.load(Relaxed) == Cell::check(address, code)).then_some(Code(code))
}

/// What is known of the instruction at `address`; None where there is no CFI, or none that is understood.
#[inline(always)]
pub(super) fn find(address: u64, may_lock: bool) -> Option<Code> {
    find_known(address).or_else(|| find_anew(address, may_lock))
}

#[cold]
#[inline(never)]
fn find_anew(address: u64, may_lock: bool) -> Option<Code> {
    let code = read(address, may_lock)?;
    let cell = cell(address);
    cell.check.store(Cell::check(address, code.0), Relaxed);
    cell.code.store(code.0, Release);
    Some(code)
}

/// Forgets all rules: an object was unloaded, another may take its place.
pub(super) fn forget() {
    CACHE.iter().for_each(|cell| cell.code.store(0, Release));
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

fn read(address: u64, may_lock: bool) -> Option<Code> {
    let function = function(address, may_lock)?;
    Code::new(rule_at(&function, address)?, address - function.entry.initial_address())
}

fn rule_at(Function { frames, bases, entry }: &Function, address: u64) -> Option<Rule> {
    if entry.is_signal_trampoline() {
        return Some(Rule::SignalFrame);
    }
    let mut context = UnwindContext::<_, Storage>::new_in();
    let row = entry.unwind_info_for_address(frames, bases, &mut context, address).ok()?;
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Some(Rule::Outermost),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return None,
    }
    let evaluate =
        |expression: UnwindExpression<usize>| evaluate(expression.get(frames).ok()?, entry.cie().encoding(), address);
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
    i32::try_from(offset).ok()
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
        fn a_rule_survives_packing(
            cfa in 0..4,
            rbp in 0..3,
            offset in -(1i32 << 20) + 1..1 << 20,
            rbp_offset in -(1i32 << 12) + 1..1 << 12,
            from_start in 0..=MAX_START,
        ) {
            let (offset, rbp_offset) = (offset * 8, rbp_offset * 8);
            let cfa = [Cfa::Rsp(offset), Cfa::Rbp(offset), Cfa::AtRsp(offset), Cfa::AtRbp(offset)][cfa as usize];
            let rbp = [CallerRbp::Kept, CallerRbp::AtCfa(rbp_offset), CallerRbp::AtRbp(rbp_offset)][rbp as usize];
            for rule in [Rule::Frame { cfa, rbp }, Rule::SignalFrame, Rule::Outermost] {
                let code = Code::new(rule, from_start).unwrap();
                prop_assert!(code.0 != 0);
                prop_assert_eq!((code.rule(), code.function(1 << 30)), (rule, (1 << 30) - from_start));
                let slot = match (rule, rbp) {
                    (Rule::Frame { cfa: Cfa::Rsp(_), .. }, CallerRbp::Kept) => Some(0),
                    (Rule::Frame { cfa: Cfa::Rsp(_), .. }, CallerRbp::AtCfa(_)) => {
                        Some((1u64 << 40).wrapping_add_signed((offset + rbp_offset).into()))
                    }
                    _ => None,
                };
                let expected = slot.map(|slot| ((1u64 << 40).wrapping_add_signed(offset.into()), slot));
                prop_assert_eq!(code.constant_frame(1 << 40), expected);
            }
        }
    }

    #[test]
    fn what_no_compiler_makes_is_not_held() {
        let by_rsp = |offset| Rule::Frame { cfa: Cfa::Rsp(offset), rbp: CallerRbp::Kept };
        assert_eq!(Code::new(by_rsp(12), 0), None);
        assert_eq!(Code::new(by_rsp(8 << 20), 0), None);
        assert!(Code::new(by_rsp(-8), 0).is_some());
        assert_eq!(Code::new(by_rsp(8), MAX_START + 1), None);
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
        let rule = Rule::Frame { cfa: Cfa::Rsp(8), rbp: CallerRbp::Kept };
        let expected = Code::new(rule, 0);
        assert_eq!((find(at, true), find_known(at)), (expected, expected), "at its entry");
        assert_eq!(bounds(&raw const start as u64), None);
        assert_eq!(find(8, true), None);
    }
}
