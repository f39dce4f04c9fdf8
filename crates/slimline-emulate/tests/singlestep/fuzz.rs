//! Random instructions on random registers, against the CPU: reaches what programs rarely execute.
//!
//! A child stopped at its start lends its CPU state: each round writes an instruction to its code,
//! sets all registers, steps once and compares registers, flags, vectors, opmasks and memory.
//!
//! ```text
//! SLIMLINE_FUZZ=1000000 cargo test --release -p slimline-emulate --test singlestep -- --ignored --nocapture fuzz
//! ```

use std::collections::BTreeMap;
use std::process::Command;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, Register};
use slimline_emulate::{Access, CodeAround, Emulator, End, Memory, State, plan, undo};

use crate::tracee::Tracee;
use crate::{check_accesses, differences, is_bit_string, is_masked_move};

const PAGE: u64 = 4096;

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    /// A register value: small, extreme or anything.
    fn value(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(70),
            1 => u64::MAX - self.below(4),
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            _ => self.next(),
        }
    }

    /// Vector contents: bytes, repeated or small integers, floats of both kinds.
    fn vector(&mut self) -> [u8; 64] {
        let mut bytes = [0; 64];
        let kind = self.below(7);
        for word in bytes.chunks_mut(8) {
            let small =
                |random: &mut Random| (random.below(40) as f64 - 20.0) * if random.below(2) == 0 { 1.0 } else { 0.37 };
            let value = match kind {
                0 => self.next(),
                1 => self.below(16) | self.below(16) << 32,
                2 => small(self).to_bits(),
                3 => u64::from((small(self) as f32).to_bits()) << 32 | u64::from((small(self) as f32).to_bits()),
                4 => match self.below(8) {
                    0 => f64::NAN.to_bits() | self.below(1 << 40),
                    1 => f64::INFINITY.to_bits(),
                    2 => f64::NEG_INFINITY.to_bits(),
                    3 => 1 << 63,
                    4 => self.below(1 << 50),
                    5 => 0x7ff0_0000_0000_0001,
                    _ => self.next(),
                },
                5 => {
                    let mut half = || match self.below(6) {
                        0 => 0x7fc0_0001,
                        1 => 0x7f80_0000,
                        2 => 0xff80_0001,
                        3 => 1 << 31,
                        4 => self.below(1 << 22),
                        _ => self.next() & 0xffff_ffff,
                    };
                    half() << 32 | half()
                }
                _ => self.value(),
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Bytes that are likely an instruction.
    fn instruction(&mut self) -> [u8; 15] {
        let mut code: [u8; 15] = std::array::from_fn(|_| self.byte());
        let mut at = 0;
        let mut put = |byte: u8| {
            code[at] = byte;
            at += 1;
        };
        match self.below(4) {
            0 | 1 => {
                match self.below(6) {
                    0 => put(0x66),
                    1 => put(0xf2),
                    2 => put(0xf3),
                    3 if self.below(4) == 0 => put(0xf0),
                    _ => {}
                }
                if self.below(2) == 0 {
                    put(0x40 | self.byte() & 15);
                }
                match self.below(5) {
                    0 | 1 => {}
                    2 => put(0x0f),
                    3 => {
                        put(0x0f);
                        put(0x38);
                    }
                    _ => {
                        put(0x0f);
                        put(0x3a);
                    }
                }
            }
            2 => {
                put(0xc4);
                put(self.byte() & 0xe0 | (1 + self.below(3) as u8));
                put(self.byte());
            }
            _ => {
                put(0x62);
                put(self.byte() & 0xf0 | (1 + self.below(3) as u8));
                put(self.byte() | 4);
                // Seldom masks or broadcasts that the instruction does not have.
                put(if self.below(2) == 0 { self.byte() } else { self.byte() & 0x68 });
            }
        }
        put(self.byte());
        // Registers, or memory near rsi or r14, sometimes with an index (for gathers).
        match self.below(5) {
            0 | 1 => put(0xc0 | self.byte()),
            4 => {
                put(0x44 | self.byte() & 0x38);
                put(self.byte() & 0xf8 | 6);
                put(self.byte() & 0x3f);
            }
            _ => {
                put(0x46 | self.byte() & 0x38);
                put(self.byte() & 0x3f);
            }
        }
        code
    }
}

fn admissible(instruction: &Instruction) -> bool {
    let control = matches!(
        instruction.mnemonic(),
        // They change what the rounds share, or trap on purpose.
        Mnemonic::Popf
            | Mnemonic::Popfq
            | Mnemonic::Wrfsbase
            | Mnemonic::Wrgsbase
            | Mnemonic::Ldmxcsr
            | Mnemonic::Vldmxcsr
            | Mnemonic::Syscall
            | Mnemonic::Std
            | Mnemonic::Fldenv
            | Mnemonic::Frstor
            | Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
            | Mnemonic::Fldcw
            | Mnemonic::Wrpkru
    );
    let segment = (0..instruction.op_count()).any(|index| {
        instruction.op_kind(index) == iced_x86::OpKind::Register && instruction.op_register(index).is_segment_register()
    });
    let prefixed = instruction.segment_prefix() != Register::None;
    let repeated =
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    let flows = instruction.flow_control() != FlowControl::Next;
    !(instruction.is_invalid() || instruction.is_privileged() || flows || control || segment || prefixed || repeated)
}

fn fuzz(rounds: usize) {
    slimline_emulate::prepare();
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut tracee = Tracee::start(Command::new("/bin/true"));
    let start = tracee.registers();
    let (rip, page) = (start.rip & !15, start.gpr[4] & !(PAGE - 1));
    let mut emulator = Box::new(Emulator::<64>::new());
    let mut factory = InstructionInfoFactory::new();
    let (mut done, mut compared, mut known_results) = (0, BTreeMap::<Mnemonic, usize>::new(), 0_usize);
    let mut unsupported = BTreeMap::<String, usize>::new();
    let mut mismatches: BTreeMap<String, String> = BTreeMap::new();
    while done < rounds {
        let code = random.instruction();
        let instruction = Decoder::with_ip(64, &code, rip, DecoderOptions::NONE).decode();
        if !admissible(&instruction) {
            continue;
        }
        done += 1;
        let code = &code[..instruction.len()];
        let mut gpr: [u64; 16] = std::array::from_fn(|_| random.value());
        for pointer in [4, 5, 6, 7, 13, 14] {
            gpr[pointer] =
                page + 1024 + 64 * random.below(16) + if random.below(2) == 0 { 0 } else { random.below(64) };
        }
        let vectors: [[u8; 64]; 32] = std::array::from_fn(|_| random.vector());
        let masks: [u64; 8] = std::array::from_fn(|_| random.value());
        let mxcsr = if random.below(4) == 0 { 0x9fc0 } else { 0x1f80 };
        let scratch: Vec<u8> = (0..PAGE / 64).flat_map(|_| random.vector()).collect();
        tracee.write(rip, code);
        tracee.write_data(page, &scratch);
        tracee.set_registers(&gpr, rip, 0x202 | random.next() & 0x8d5);
        tracee.set_vectors(&vectors, &masks, mxcsr);
        let before = tracee.registers();
        let vectors_before = tracee.state();
        // Every other round part of the state is unknown: what is then claimed must hold all the same.
        let mut state =
            if random.below(2) == 0 { vectors_before.clone() } else { partly(&vectors_before, mxcsr, &mut random) };
        let mut accesses = Vec::new();
        emulator.begin();
        match emulator.step(&mut state, &mut tracee, &mut |access| accesses.push(access)) {
            Ok(()) => {}
            Err(end) => {
                if let End::Unsupported(mnemonic) = end {
                    *unsupported.entry(format!("{mnemonic:?}")).or_default() += 1;
                }
                continue;
            }
        }
        // Not on this CPU, misaligned, or outside of the page.
        if tracee.try_step() != libc::SIGTRAP {
            continue;
        }
        *compared.entry(instruction.mnemonic()).or_default() += 1;
        let real = tracee.state();
        let mut problems = differences(&state, &real);
        known_results += usize::from(is_known(&instruction, &state));
        if !is_bit_string(&instruction) {
            problems.extend(check_accesses(&mut factory, &instruction, &before, &vectors_before, &accesses));
        }
        problems.extend(check_undo(code, rip, &gpr, &state));
        problems.extend(check_blame(code, (&mut emulator, &mut tracee), &instruction, &vectors_before, &accesses));
        let mut after = vec![0; PAGE as usize];
        assert!(after.chunks_mut(64).enumerate().all(|(line, bytes)| tracee.read(page + 64 * line as u64, bytes)));
        for (at, &theirs) in after.iter().enumerate() {
            let address = page + at as u64;
            if let Some(ours) = emulator.peek(&mut Before(&scratch, page), address, 1)
                && ours != u64::from(theirs)
            {
                problems.push(format!("memory at {address:#x} {ours:#x}, really {theirs:#x}"));
                break;
            }
        }
        if !problems.is_empty() {
            let text = format!("{code:02x?} mxcsr {mxcsr:#x}: {}", problems.join("; "));
            mismatches.entry(format!("{:?}", instruction.code())).or_insert(text);
        }
    }
    let total: usize = compared.values().sum();
    println!(
        "{total} of {done} random instructions compared ({} mnemonics), {known_results} with a known destination",
        compared.len()
    );
    println!("unsupported: {unsupported:?}");
    for (code, problem) in mismatches.iter().take(60) {
        println!("  {code}: {problem}");
    }
    assert!(mismatches.is_empty(), "{} encodings disagree with the CPU", mismatches.len());
    assert!(compared.len() > 100, "hardly anything was compared");
}

/// A copy of `whole` of which a random part is unknown. Pointers stay known, or nothing would run.
fn partly(whole: &State, mxcsr: u32, random: &mut Random) -> State {
    let mut state = State::unknown(whole.rip);
    for register in 0..16 {
        if [4, 5, 6, 7, 13, 14].contains(&register) || random.below(3) != 0 {
            state.set_gpr(register, whole.gpr(register));
        }
    }
    if random.below(3) != 0 {
        state.set_flags(whole.flags().0);
    }
    if random.below(4) != 0 {
        state.set_mxcsr(Some(mxcsr));
    }
    for register in 0..32 {
        let (bytes, _) = whole.vector(register);
        match random.below(4) {
            0 => {}
            1 => {
                let (at, length) = (random.below(64) as usize, 1 + random.below(64) as usize);
                state.set_vector(register, at, &bytes[at..(at + length).min(64)]);
            }
            _ => state.set_vector(register, 0, bytes),
        }
    }
    for register in 0..8 {
        if random.below(4) != 0 {
            state.set_opmask(register, whole.opmask(register));
        }
    }
    state
}

/// The page as it was before the instruction, for what the emulator did not store to.
struct Before<'a>(&'a [u8], u64);

impl Memory for Before<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let start = address.wrapping_sub(self.1) as usize;
        let Some(from) = self.0.get(start..start.saturating_add(into.len())) else { return false };
        into.copy_from_slice(from);
        true
    }
}

/// What undoing claims to know must be what was.
fn check_undo(code: &[u8], rip: u64, gpr: &[u64; 16], after: &State) -> Option<String> {
    let mut undone = after.clone();
    assert!(undo(code, rip, &mut undone));
    let wrong = (0..16).find(|&index| undone.gpr(index).is_some_and(|value| value != gpr[index]))?;
    Some(format!("undone register {wrong} {:#x?}, really {:#x}", undone.gpr(wrong), gpr[wrong]))
}

/// What a plan says about the instruction itself must be what it accesses.
fn check_blame(
    code: &[u8],
    (emulator, tracee): (&mut Emulator<64>, &mut Tracee),
    instruction: &Instruction,
    before: &State,
    accesses: &[Access],
) -> Option<String> {
    let rip = before.rip;
    let blamed = plan(CodeAround { bytes: code, start: rip, is_whole: true }, rip, 0).locate(before, emulator, tracee);
    let masked = instruction.op_mask() != Register::None || is_masked_move(instruction.mnemonic());
    match blamed.address {
        _ if blamed.ip.is_none() => (!accesses.is_empty()).then(|| format!("not blamed for {accesses:x?}")),
        None => None,
        Some(address) => {
            let fits = |access: &Access| {
                access.address == address && access.bytes == blamed.bytes && access.kind == blamed.kind
            };
            (!masked && !accesses.iter().any(fits)).then(|| format!("{blamed:x?} for {accesses:x?}"))
        }
    }
}

/// Whether the destination's first bytes are known.
fn is_known(instruction: &Instruction, state: &State) -> bool {
    let register = instruction.op0_register();
    if register.is_vector_register() {
        state.vector(register.number()).1 & 15 == 15
    } else if register.is_gpr() {
        state.gpr(register.full_register().number()).is_some()
    } else if register.is_k() {
        state.opmask(register.number()).is_some()
    } else {
        true
    }
}

#[test]
fn random_instructions_agree_with_the_cpu() {
    fuzz(3000);
}

#[test]
#[ignore = "minutes: see the head of this file"]
fn fuzz_long() {
    fuzz(std::env::var("SLIMLINE_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(200_000));
}
