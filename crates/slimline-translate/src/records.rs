//! Which records a block of code writes.
//!
//! A block runs from its first instruction to its last one, so its accesses are one record that grows with each of them
//! (`slimline_trace::stream::record`). And of an address that is always as far from another one of the record nobody needs to be told:
//!
//! ```text
//!   push rbp          A   [A] rsp - 8
//!   push rbx                            A - 8
//!   mov rax, [rdi]    B   [B] rsp - 8, rdi          two accesses go without saying once this one is told
//!   add [rdi+16], rax                   rdi + 16, twice
//!   ret               C   [C] rsp - 8, rdi          what a block's last access has before it is told with it
//! ```
//!
//! So QEMU is asked for those only that have a word of their own, and for the last one of each record: what comes before an access of
//! the same block has happened. What a fault interrupts is told up to the last one that was asked for.
//!
//! Where values are wanted, each access that has one is asked for, as that is what memory holds right behind it, and has its address and
//! its value as words: `[A, value of A]`.

use iced_x86::{CodeSize, CpuidFeature, Instruction, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use slimline_trace::stream::record::{MAX_RECORD_SITES, Relative, SiteKind, ValueKind};

use crate::code::Code;

/// An access of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which of the block's instructions.
    pub instruction: usize,
    /// A load, a store or an update; or a call or a return, of which the access before it says where on the stack.
    pub kind: SiteKind,
    /// Bytes of it.
    pub bytes: u32,
    /// A record begins with it; else it goes on in that of the access before it.
    pub begins: bool,
    /// Where its address has no word.
    pub relative: Option<Relative>,
    /// What the word behind its address says, if there is one.
    pub value: Option<ValueKind>,
    /// Its instruction makes this access only, and once.
    pub is_only: bool,
    /// A record may end with it: it is asked for.
    pub is_asked: bool,
}

/// The general registers, by their numbers in instructions.
const REGISTERS: usize = 16;
const RSP: usize = 4;
const RBP: usize = 5;

/// A value that nobody knows, by a number that no other one has, and how far it is from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    origin: u32,
    plus: i64,
}

/// What the instructions came with whose accesses are as simple as they look.
const PLAIN: [CpuidFeature; 24] = [
    CpuidFeature::INTEL8086,
    CpuidFeature::INTEL8086_ONLY,
    CpuidFeature::INTEL186,
    CpuidFeature::INTEL286,
    CpuidFeature::INTEL386,
    CpuidFeature::INTEL486,
    CpuidFeature::X64,
    CpuidFeature::CMOV,
    CpuidFeature::MOVBE,
    CpuidFeature::POPCNT,
    CpuidFeature::LZCNT,
    CpuidFeature::BMI1,
    CpuidFeature::BMI2,
    CpuidFeature::ADX,
    CpuidFeature::SSE,
    CpuidFeature::SSE2,
    CpuidFeature::SSE3,
    CpuidFeature::SSSE3,
    CpuidFeature::SSE4_1,
    CpuidFeature::SSE4_2,
    CpuidFeature::AVX,
    CpuidFeature::AVX2,
    CpuidFeature::FMA,
    CpuidFeature::F16C,
];

/// Those among them that access what a mask says.
const MASKED: [Mnemonic; 6] = [
    Mnemonic::Vmaskmovps,
    Mnemonic::Vmaskmovpd,
    Mnemonic::Vpmaskmovd,
    Mnemonic::Vpmaskmovq,
    Mnemonic::Maskmovdqu,
    Mnemonic::Vmaskmovdqu,
];

/// What an address consists of besides a number: values, and the factor of the second.
type Terms = (Register, Option<u32>, Option<(u32, u32)>);

/// Accesses of the block so far.
#[derive(Debug)]
pub struct Planner {
    planned: Vec<Planned>,
    registers: [Value; REGISTERS],
    origins: u32,
    /// Of the record that is open: its sites, its words, and the addresses that have one.
    sites: usize,
    words: u32,
    told: Vec<(Terms, i64, u32)>,
    /// The next access begins a record.
    is_closed: bool,
    /// Values are wanted.
    has_values: bool,
}

impl Planner {
    /// Of a block that begins, with values or without.
    pub fn new(has_values: bool) -> Self {
        let registers = std::array::from_fn(|number| Value { origin: number as u32, plus: 0 });
        let (planned, told) = (Vec::new(), Vec::new());
        Self { planned, registers, origins: REGISTERS as u32, sites: 0, words: 0, told, is_closed: true, has_values }
    }

    /// Takes the block's next instruction.
    pub fn take(&mut self, number: usize, code: &Code<'_>) {
        let is_plain = is_plain(code);
        self.is_closed |= !is_plain;
        let accesses = code.accesses();
        let is_only = is_plain && accesses.each().count() == 1;
        for (kind, bytes) in accesses.each() {
            // Its time stamp is a site, too.
            let is_stamped = kind == SiteKind::Update;
            let tells = match kind {
                SiteKind::Store if accesses.is_call => Some(SiteKind::Call),
                SiteKind::Load if accesses.is_return => Some(SiteKind::Return),
                _ => None,
            };
            let begins = self.is_closed || is_stamped || self.sites + usize::from(tells.is_some()) >= MAX_RECORD_SITES;
            if begins {
                self.begin();
                (self.sites, self.words) = (usize::from(is_stamped), u32::from(is_stamped));
                self.is_closed = false;
            }
            let address = is_plain.then(|| code.info.used_memory().iter().find(|memory| fits(memory, kind))).flatten();
            let address = address.and_then(|memory| self.address(memory));
            let value = self.has_values.then(|| code.value(kind, bytes)).flatten();
            let relative = address.filter(|_| value.is_none()).and_then(|(terms, plus)| {
                let (_, other, word) = self.told.iter().find(|(known, ..)| *known == terms)?;
                Some(Relative { word: *word, bytes: i32::try_from(plus.checked_sub(*other)?).ok()? })
            });
            let by = relative.unwrap_or(Relative { word: self.words, bytes: 0 });
            if relative.is_none() {
                self.told.extend(address.map(|(terms, plus)| (terms, plus, self.words)));
                self.words += 1 + u32::from(value.is_some());
            }
            let is_asked = relative.is_none() || !is_plain;
            let access = Planned { instruction: number, kind, bytes, begins, relative, value, is_only, is_asked };
            self.planned.push(access);
            self.sites += 1;
            if let Some(kind) = tells {
                let (begins, relative, value, is_asked) = (false, Some(by), None, false);
                self.planned.push(Planned { kind, bytes: 0, begins, relative, value, is_asked, ..access });
                self.sites += 1;
            }
        }
        self.is_closed |= !is_plain;
        self.run(code);
    }

    /// What comes next goes on in no record from before.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// All of the block, in order.
    pub fn finish(mut self) -> Vec<Planned> {
        self.begin();
        self.planned
    }

    /// The open record ends.
    fn begin(&mut self) {
        if let Some(last) = self.planned.iter_mut().rfind(|planned| planned.kind.is_plain()) {
            last.is_asked = true;
        }
        self.told.clear();
        (self.sites, self.words) = (0, 0);
    }

    fn address(&self, memory: &UsedMemory) -> Option<(Terms, i64)> {
        let value = |register: Register| {
            (register != Register::None).then(|| number_of(register).map(|number| self.registers[number]))
        };
        let (base, index) = (value(memory.base()), value(memory.index()));
        let (base, index) = (base.map_or(Some(None), |it| it.map(Some))?, index.map_or(Some(None), |it| it.map(Some))?);
        let scale = memory.scale();
        let plus = memory.displacement().cast_signed();
        let plus = plus.wrapping_add(base.map_or(0, |value| value.plus));
        let plus = plus.wrapping_add(index.map_or(0, |value| value.plus.wrapping_mul(scale.into())));
        // Only these two have a base of their own.
        let segment = Some(memory.segment()).filter(|segment| matches!(segment, Register::FS | Register::GS));
        let index = index.map(|value| (value.origin, scale));
        Some(((segment.unwrap_or(Register::None), base.map(|value| value.origin), index), plus))
    }

    /// What it does to registers.
    fn run(&mut self, code: &Code<'_>) {
        let instruction = &code.instruction;
        let result = self.result(instruction);
        let before = self.registers;
        for used in code.info.used_registers() {
            let is_written = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if let Some(number) = number_of(used.register().full_register()).filter(|_| is_written) {
                self.registers[number] = Value { origin: self.origins, plus: 0 };
                self.origins += 1;
            }
        }
        let by = instruction.stack_pointer_increment();
        // `pop rsp` says itself where that is then.
        if by != 0 && instruction.op0_register() != Register::RSP {
            self.registers[RSP] = before[RSP].and(by.into());
        }
        if instruction.mnemonic() == Mnemonic::Leave {
            self.registers[RSP] = before[RBP].and(8);
        }
        if let Some((number, value)) = result {
            self.registers[number] = value;
        }
    }

    /// The register that it changes to a value which is known, if that is all that it does.
    fn result(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        let into = (instruction.op0_kind() == OpKind::Register).then(|| number_of(instruction.op0_register()))??;
        let is_immediate = matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
        let own = self.registers[into];
        let value = match instruction.mnemonic() {
            Mnemonic::Add if is_immediate => own.and(instruction.immediate(1).cast_signed()),
            Mnemonic::Sub if is_immediate => own.and(instruction.immediate(1).cast_signed().wrapping_neg()),
            Mnemonic::Inc => own.and(1),
            Mnemonic::Dec => own.and(-1),
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                self.registers[number_of(instruction.op1_register())?]
            }
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                let base = self.registers[number_of(instruction.memory_base())?];
                base.and(instruction.memory_displacement64().cast_signed())
            }
            _ => return None,
        };
        Some((into, value))
    }
}

impl Value {
    fn and(self, plus: i64) -> Self {
        Self { plus: self.plus.wrapping_add(plus), ..self }
    }
}

/// The number of a whole general register.
fn number_of(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

/// Whether an operand in memory is what an access of this kind is to.
fn fits(memory: &UsedMemory, kind: SiteKind) -> bool {
    match memory.access() {
        OpAccess::Read => kind.reads(),
        OpAccess::Write => kind.writes(),
        OpAccess::ReadWrite => true,
        _ => false,
    }
}

/// Whether it makes each of its accesses once, whatever its operands are, and all translators tell them. Not so what is repeated or
/// masked, and what some tell in part only: the older floating-point instructions, and those that save whole states.
fn is_plain(code: &Code<'_>) -> bool {
    let (instruction, memory) = (&code.instruction, code.info.used_memory());
    let is_once = |memory: &UsedMemory| {
        matches!(memory.access(), OpAccess::Read | OpAccess::Write | OpAccess::ReadWrite)
            && matches!(memory.memory_size().size(), 1..=32)
            && memory.address_size() == CodeSize::Code64
            && memory.vsib_size() == 0
    };
    let is_one = |kind: SiteKind| memory.iter().filter(|memory| fits(memory, kind)).count() <= 1;
    memory.is_empty()
        || memory.iter().all(is_once)
            && is_one(SiteKind::Load)
            && is_one(SiteKind::Store)
            && instruction.cpuid_features().iter().all(|feature| PLAIN.contains(feature))
            && !instruction.is_string_instruction()
            && !MASKED.contains(&instruction.mnemonic())
            // `enter` stores any number of frames; `pop` of a place in memory that `rsp` leads to has changed that before.
            && !(instruction.mnemonic() == Mnemonic::Enter || instruction.mnemonic() == Mnemonic::Pop && memory.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Analyst;

    fn plan(block: &[&[u8]]) -> String {
        plan_with(false, block)
    }

    /// Each access as `L8 word`, `S4 word+distance`: what it is of, `|` before one that begins a record, `!` behind one that is asked for,
    /// and before that `=` of one with a value.
    fn plan_with(has_values: bool, block: &[&[u8]]) -> String {
        let (mut planner, mut analyst, mut address) = (Planner::new(has_values), Analyst::default(), 0x40_0000);
        for (number, bytes) in block.iter().enumerate() {
            planner.take(number, &analyst.decode(bytes, address).expect("whole"));
            address += bytes.len() as u64;
        }
        let mut words = 0;
        let told = |planned: Planned| {
            if planned.begins {
                words = u32::from(planned.kind == SiteKind::Update);
            }
            let place = match planned.relative {
                Some(Relative { word, bytes }) => format!("{word}{bytes:+}"),
                None => {
                    let at = words;
                    words += 1 + u32::from(planned.value.is_some());
                    format!("{at}{}", if planned.value.is_some() { "=" } else { "" })
                }
            };
            let kind = match planned.kind {
                SiteKind::Load => 'L',
                SiteKind::Store => 'S',
                SiteKind::Call => 'C',
                SiteKind::Return => 'R',
                _ => 'U',
            };
            let (begins, asked) = (if planned.begins { "| " } else { "" }, if planned.is_asked { "!" } else { "" });
            format!("{begins}{kind}{}:{place}{asked}", planned.bytes)
        };
        planner.finish().into_iter().map(told).collect::<Vec<_>>().join(" ")
    }

    const RET: &[u8] = &[0xc3];
    const LOAD_RDI: &[u8] = &[0x48, 0x8b, 0x07]; // mov rax, [rdi]

    #[test]
    fn the_stack_is_told_by_one_word() {
        let add: &[u8] = &[0x48, 0x01, 0x47, 0x10]; // add [rdi+16], rax
        // push rbp; push rbx; mov rax, [rdi]; add [rdi+16], rax; pop rbx; pop rbp; ret
        assert_eq!(
            plan(&[&[0x55], &[0x53], LOAD_RDI, add, &[0x5b], &[0x5d], RET]),
            "| S8:0! S8:0-8 L8:1! L8:1+16 S8:1+16 L8:0-8 L8:0+0 L8:0+8! R0:0+8"
        );
        // leave; ret: where `rbp` led to. push [rsp+8]; call [rsp+16]
        assert_eq!(plan(&[&[0xc9], RET]), "| L8:0! L8:0+8! R0:0+8");
        assert_eq!(
            plan(&[&[0xff, 0x74, 0x24, 0x08], &[0xff, 0x54, 0x24, 0x10]]),
            "| L8:0! S8:0-16 L8:0+0 S8:0-24! C0:0-24"
        );
        // ret 16; what comes next is told by where the stack pointer is then.
        assert_eq!(plan(&[&[0xc2, 0x10, 0x00], &[0x5b]]), "| L8:0! R0:0+0 L8:0+24!");
    }

    #[test]
    fn registers_that_change_by_a_number_are_followed() {
        let indexed: &[u8] = &[0x8b, 0x04, 0xb7]; // mov eax, [rdi+rsi*4]
        let behind: &[u8] = &[0x8b, 0x4c, 0xb7, 0x08]; // mov ecx, [rdi+rsi*4+8]
        let (add_rsi, add_rcx): (&[u8], &[u8]) = (&[0x48, 0x83, 0xc6, 0x02], &[0x48, 0x01, 0xcf]); // rsi += 2, rdi += rcx
        assert_eq!(plan(&[indexed, behind, add_rsi, indexed, add_rcx, indexed]), "| L4:0! L4:0+8 L4:0+8 L4:1!");
        // mov rdi, rsp; mov rax, [rdi]; lea rbp, [rsp+64]; mov rax, [rbp-8]; dec rdi; mov rax, [rdi]; mov edi, edi; mov rax, [rdi]
        let (lea, at_rbp): (&[u8], &[u8]) = (&[0x48, 0x8d, 0x6c, 0x24, 0x40], &[0x48, 0x8b, 0x45, 0xf8]);
        let (from_rsp, dec, cut): (&[u8], &[u8], &[u8]) = (&[0x48, 0x89, 0xe7], &[0x48, 0xff, 0xcf], &[0x89, 0xff]);
        assert_eq!(
            plan(&[from_rsp, LOAD_RDI, lea, at_rbp, dec, LOAD_RDI, cut, LOAD_RDI]),
            "| L8:0! L8:0+56 L8:0-1 L8:1!"
        );
        // The register that was loaded is another one. cmovne rdi, rax; sub rdi, 16
        let (chase, cmov, sub): (&[u8], &[u8], &[u8]) =
            (&[0x48, 0x8b, 0x3f], &[0x48, 0x0f, 0x45, 0xf8], &[0x48, 0x83, 0xef, 0x10]);
        assert_eq!(plan(&[chase, chase, cmov, LOAD_RDI, sub, LOAD_RDI]), "| L8:0! L8:1! L8:2! L8:2-16!");
    }

    #[test]
    fn addresses_without_registers_are_told_by_each_other() {
        // movups [rip+0x100], xmm0; movups xmm1, [rip+0x100], seven bytes on
        let (store, load): (&[u8], &[u8]) = (&[0x0f, 0x11, 0x05, 0, 1, 0, 0], &[0x0f, 0x10, 0x0d, 0, 1, 0, 0]);
        assert_eq!(plan(&[store, load]), "| S16:0! L16:0+7!");
        // fs:[0x28], [0x28], fs:[0x30]: of another segment
        let canary: &[u8] = &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        let absolute: &[u8] = &[0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
        let other: &[u8] = &[0x64, 0x48, 0x33, 0x04, 0x25, 0x30, 0, 0, 0];
        assert_eq!(plan(&[canary, absolute, other]), "| L8:0! L8:1! L8:0+8!");
        // Two that are farther from each other than is told: [rdi], [rdi+rsi*8] is of other registers, not farther.
        assert_eq!(plan(&[LOAD_RDI, &[0x48, 0x8b, 0x04, 0xf7]]), "| L8:0! L8:1!");
    }

    #[test]
    fn what_is_not_simple_has_records_of_its_own() {
        let lock: &[u8] = &[0xf0, 0x01, 0x07]; // lock add [rdi], eax
        let behind: &[u8] = &[0x48, 0x8b, 0x5f, 0x08]; // mov rbx, [rdi+8]
        assert_eq!(plan(&[LOAD_RDI, lock, behind]), "| L8:0! | U4:1! L8:1+8!");
        let (movs, fld): (&[u8], &[u8]) = (&[0xf3, 0x48, 0xa5], &[0xdd, 0x07]);
        assert_eq!(plan(&[LOAD_RDI, movs, behind]), "| L8:0! | L8:0! S8:1! | L8:0!");
        assert_eq!(plan(&[LOAD_RDI, fld, LOAD_RDI, behind]), "| L8:0! | L8:0! | L8:0! L8:0+8!");
        // vmaskmovps ymm0, ymm1, [rdi]; pop [rsp+8]; pop rsp
        assert_eq!(plan(&[LOAD_RDI, &[0xc4, 0xe2, 0x75, 0x2c, 0x07]]), "| L8:0! | L32:0!");
        let at_rsp: &[u8] = &[0x48, 0x8b, 0x04, 0x24];
        assert_eq!(plan(&[at_rsp, &[0x8f, 0x44, 0x24, 0x08]]), "| L8:0! | L8:0! S8:1!");
        assert_eq!(plan(&[at_rsp, &[0x5c], at_rsp]), "| L8:0! L8:0+0 L8:1!");
    }

    #[test]
    fn values_have_words_behind_their_addresses() {
        let add: &[u8] = &[0x48, 0x01, 0x47, 0x10]; // add [rdi+16], rax
        let (double, four): (&[u8], &[u8]) = (&[0xf2, 0x0f, 0x11, 0x47, 0x08], &[0x0f, 0x11, 0x47, 0x08]); // movsd, movups [rdi+8], xmm0
        // push rbp; mov rax, [rdi]; add [rdi+16], rax; movsd; movups; pop rbp; ret: what has no value is told by others' addresses.
        assert_eq!(
            plan_with(true, &[&[0x55], LOAD_RDI, add, double, four, &[0x5d], RET]),
            "| S8:0! L8:1=! L8:3=! S8:5=! S8:7=! S16:1+8 L8:0+0 L8:0+8! R0:0+8"
        );
        // push [rsp+8]; call [rsp+16]: what is pushed has none. lock add [rdi], eax: nor has an update.
        assert_eq!(
            plan_with(true, &[&[0xff, 0x74, 0x24, 0x08], &[0xff, 0x54, 0x24, 0x10]]),
            "| L8:0=! S8:0-16 L8:2=! S8:0-24! C0:0-24"
        );
        assert_eq!(plan_with(true, &[LOAD_RDI, &[0xf0, 0x01, 0x07]]), "| L8:0=! | U4:1!");
        let loads: Vec<&[u8]> = vec![LOAD_RDI; MAX_RECORD_SITES + 1];
        assert!(plan_with(true, &loads).ends_with("L8:28=! L8:30=! | L8:0=!"));
    }

    #[test]
    fn records_have_an_end() {
        let loads: Vec<&[u8]> = vec![LOAD_RDI; MAX_RECORD_SITES + 1];
        let first = format!("| L8:0! {}L8:0+0! ", "L8:0+0 ".repeat(MAX_RECORD_SITES - 2));
        assert_eq!(plan(&loads), format!("{first}| L8:0!"));
        assert_eq!(plan(&[&[0x90]]), "");
    }
}
