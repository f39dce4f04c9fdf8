//! The emulator against the CPU: at many points of a real program's run, emulate a burst ahead, then
//! single-step the program through the same instructions and compare everything known.
//!
//! `cargo test` runs a short form. The long form (over 100,000 steps; prints mean burst lengths and
//! why bursts ended):
//!
//! ```text
//! cargo test --release -p slimline-emulate --test singlestep -- --ignored --nocapture
//! SLIMLINE_STEP_ONLY=sort SLIMLINE_STEP_BURSTS=200 cargo test …    # some programs, more bursts
//! ```

mod fuzz;
mod programs;
mod tracee;

use std::collections::BTreeMap;
use std::time::Duration;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use programs::{Program, programs};
use slimline_emulate::{Access, AccessKind, CodeAround, Emulator, End, MAX_BACK, Memory, Quality, State, plan};
use tracee::Tracee;

const LIMIT: usize = 300;

/// What stepping one program found.
#[derive(Default)]
struct Outcome {
    bursts: usize,
    steps: usize,
    accesses: usize,
    emulated: usize,
    /// Unknown general-purpose registers at the ends of bursts.
    unknown: usize,
    ends: BTreeMap<String, usize>,
    mismatches: Vec<String>,
    /// Of samples at each step: what is blamed with an address, and what of that was not executed.
    blamed: usize,
    phantoms: Vec<String>,
    ambiguous: usize,
}

/// One emulated step: the state before it and its accesses.
struct Predicted {
    before: State,
    accesses: Vec<Access>,
}

fn predict(emulator: &mut Emulator, tracee: &mut Tracee) -> (Vec<Predicted>, State, End) {
    let mut state = tracee.state();
    let mut steps = Vec::new();
    emulator.begin();
    while steps.len() < LIMIT {
        let before = state.clone();
        let mut accesses = Vec::new();
        match emulator.step(&mut state, tracee, &mut |access| accesses.push(access)) {
            Ok(()) => steps.push(Predicted { before, accesses }),
            Err(end) => return (steps, state, end),
        }
    }
    (steps, state, End::Limit)
}

/// Differences between what the emulator claims to know and the real state.
fn differences(emulated: &State, real: &State) -> Vec<String> {
    let mut found = Vec::new();
    if emulated.rip != real.rip {
        found.push(format!("rip {:#x}, really {:#x}", emulated.rip, real.rip));
    }
    for register in 0..16 {
        if let (Some(ours), Some(theirs)) = (emulated.gpr(register), real.gpr(register))
            && ours != theirs
        {
            found.push(format!("gpr {register} {ours:#x}, really {theirs:#x}"));
        }
    }
    let ((ours, known), (theirs, _)) = (emulated.flags(), real.flags());
    if ours != theirs & known {
        found.push(format!("flags {ours:#x}, really {:#x}", theirs & known));
    }
    for register in 0..32 {
        let ((ours, known), (theirs, _)) = (emulated.vector(register), real.vector(register));
        for byte in 0..64 {
            if known >> byte & 1 == 1 && ours[byte] != theirs[byte] {
                found.push(format!("vector {register} byte {byte}: {:02x?}, really {:02x?}", ours, theirs));
                break;
            }
        }
    }
    for register in 0..8 {
        if let (Some(ours), Some(theirs)) = (emulated.opmask(register), real.opmask(register))
            && ours != theirs
        {
            found.push(format!("opmask {register} {ours:#x}, really {theirs:#x}"));
        }
    }
    found
}

fn register_value(
    tracee: &tracee::Registers,
    vectors: &State,
    register: Register,
    element: usize,
    size: usize,
) -> Option<u64> {
    if register.is_vector_register() {
        let (bytes, _) = vectors.vector(register.number());
        let part = bytes.get(element * size..element * size + size)?;
        return Some(match size {
            4 => i64::from(i32::from_le_bytes(part.try_into().ok()?)) as u64,
            _ => u64::from_le_bytes(part.try_into().ok()?),
        });
    }
    Some(match register {
        Register::FS => tracee.fs_base,
        Register::GS => tracee.gs_base,
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        _ => {
            let full = register.full_register();
            let value = tracee.gpr[full.number()];
            match register.size() {
                1 => value & 0xff,
                2 => value & 0xffff,
                4 => value & 0xffff_ffff,
                _ => value,
            }
        }
    })
}

/// Compares reported accesses with what the instruction decoder says about the real registers.
fn check_accesses(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    real: &tracee::Registers,
    vectors: &State,
    accesses: &[Access],
) -> Option<String> {
    let info = factory.info(instruction);
    let mut unexplained: Vec<&Access> = accesses.iter().collect();
    // Groups of repeated string instructions differ in width by design.
    let grouped = instruction.is_string_instruction();
    for memory in info.used_memory() {
        let vsib = memory.index().is_vector_register();
        let conditional = matches!(memory.access(), OpAccess::CondRead | OpAccess::CondWrite | OpAccess::ReadCondWrite)
            || instruction.op_mask() != Register::None
            || is_masked_move(instruction.mnemonic())
            || grouped
            || vsib;
        let kind = match memory.access() {
            // The decoder says that cache control reads; no data is accessed.
            _ if is_cache_control(instruction.mnemonic()) => continue,
            OpAccess::Read | OpAccess::CondRead => AccessKind::Load,
            OpAccess::Write | OpAccess::CondWrite => AccessKind::Store,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => AccessKind::Update,
            _ => continue,
        };
        let size = memory.memory_size().size() as u64;
        let mut seen = false;
        for element in 0..if vsib { 16 } else { 1 } {
            let Some(address) = memory.virtual_address(element, |register, element, size| {
                register_value(real, vectors, register, element, size)
            }) else {
                continue;
            };
            unexplained.retain(|access| {
                let inside = access.address.wrapping_sub(address) < size.max(1)
                    && (grouped || access.address + u64::from(access.bytes) <= address + size);
                // A bit string's address depends on the bit number, which the decoder leaves out.
                let explained = inside && access.kind == kind;
                seen |= explained;
                !explained
            });
        }
        if !seen && !conditional {
            return Some(format!("no {kind:?} of {size} bytes reported, only {accesses:x?}"));
        }
    }
    (!unexplained.is_empty()).then(|| format!("unexplained {unexplained:x?}"))
}

/// What a sample at the last step would blame, given the code around it, against what really was executed.
fn check_plan(emulator: &mut Emulator, tracee: &mut Tracee, steps: &[Predicted], outcome: &mut Outcome) {
    /// Code on each side.
    const AROUND: u64 = 512;
    let Some((sampled, before)) = steps.split_last() else { return };
    let ip = sampled.before.rip;
    // Where an instruction begins: of one that was executed, or that one itself.
    let near = |at: &u64| (ip.saturating_sub(AROUND)..ip).contains(at);
    let start = before.iter().map(|step| step.before.rip).filter(near).min().unwrap_or(ip);
    let mut byte = [0];
    let code: Vec<u8> = (start..ip + AROUND).map_while(|at| tracee.read(at, &mut byte).then_some(byte[0])).collect();
    let plan = plan(CodeAround { bytes: &code, start, is_whole: false }, ip, 1);
    let blamed = plan.locate(&sampled.before, emulator, tracee);
    outcome.ambiguous += usize::from(blamed.quality == Quality::Ambiguous);
    let (Some(blamed_ip), Some(address)) = (blamed.ip, blamed.address) else { return };
    // Back beyond the burst's beginning nothing is known.
    let Some(from) = before.len().checked_sub(usize::from(blamed.distance)) else { return };
    outcome.blamed += 1;
    let masked = decode(tracee, blamed_ip).op_mask() != Register::None;
    // Ways of other lengths may lead to the same access.
    let recent = before[before.len().saturating_sub(MAX_BACK)..].iter().chain(&before[from..]);
    // A repeated instruction that goes on is blamed for its next element.
    let recent = recent.chain((blamed.distance == 0).then_some(sampled));
    let executed = recent.filter(|step| step.before.rip == blamed_ip);
    let is_right = |step: &Predicted| masked || step.accesses.iter().any(|access| access.address == address);
    if !executed.clone().any(is_right) {
        let way: Vec<_> = before.iter().rev().take(MAX_BACK).map(|step| format!("{:x}", step.before.rip)).collect();
        outcome.phantoms.push(format!("at {ip:x} {blamed:x?}, executed: {}", way.join(" ")));
    }
}

fn decode(tracee: &mut Tracee, ip: u64) -> Instruction {
    let mut code = [0; 15];
    let mut bytes = code.len();
    while bytes > 0 && !tracee.read(ip, &mut code[..bytes]) {
        bytes -= 1;
    }
    Decoder::with_ip(64, &code[..bytes], ip, DecoderOptions::NONE).decode()
}

/// Steps `program` through bursts until it ends or `bursts` are done.
fn step(program: &Program, bursts: usize, seed: &mut u64) -> Outcome {
    let mut outcome = Outcome::default();
    let mut emulator = Box::new(Emulator::new());
    let mut factory = InstructionInfoFactory::new();
    let mut tracee = Tracee::start((program.command)());
    let mut restarts = 0;
    while outcome.bursts < bursts {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if !tracee.run_for(Duration::from_micros(200 + (*seed >> 40) % 5000)) {
            // Ended before enough bursts: once more from its start.
            restarts += 1;
            if restarts > 10 {
                break;
            }
            tracee = Tracee::start((program.command)());
            continue;
        }
        let (steps, last, end) = predict(&mut emulator, &mut tracee);
        outcome.bursts += 1;
        outcome.emulated += steps.len();
        outcome.unknown += (0..16).filter(|&register| last.gpr(register).is_none()).count();
        let name = match end {
            End::Unsupported(mnemonic) => format!("unsupported {mnemonic:?}"),
            _ => {
                let mut name = end.name().to_owned();
                if end != End::Limit && end != End::Syscall {
                    name = format!("{name} at {:?}", decode(&mut tracee, last.rip).mnemonic());
                }
                name
            }
        };
        *outcome.ends.entry(name).or_default() += 1;
        let mut alive = true;
        for (index, predicted) in steps.iter().enumerate() {
            let after = steps.get(index + 1).map_or(&last, |next| &next.before);
            let (registers, real) = (tracee.registers(), tracee.state());
            let instruction = decode(&mut tracee, registers.rip);
            if let Some(problem) = check_accesses(&mut factory, &instruction, &registers, &real, &predicted.accesses)
                && !is_bit_string(&instruction)
            {
                outcome.mismatches.push(format!("{}: access of {:?}: {problem}", program.name, instruction.code()));
            }
            outcome.accesses += predicted.accesses.len();
            check_plan(&mut emulator, &mut tracee, &steps[..=index], &mut outcome);
            alive = tracee.step();
            // A repeated string instruction traps after each element, a group has several.
            let mut elements = 1;
            while alive && elements < 64 && instruction.is_string_instruction() {
                let now = tracee.registers();
                if now.rip != registers.rip || Some(now.gpr[1]) == after.gpr(1) && after.rip == now.rip {
                    break;
                }
                alive = tracee.step();
                elements += 1;
            }
            if !alive {
                break;
            }
            outcome.steps += 1;
            let found = differences(after, &tracee.state());
            if !found.is_empty() {
                let text = format!(
                    "{}: after {:?} at {:#x}: {}",
                    program.name,
                    instruction.code(),
                    registers.rip,
                    found.join("; ")
                );
                outcome.mismatches.push(text);
                break;
            }
        }
        if outcome.mismatches.len() > 20 {
            break;
        }
        if !alive {
            tracee = Tracee::start((program.command)());
        }
    }
    outcome
}

fn is_masked_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq)
}

fn is_cache_control(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Clflush | M::Clflushopt | M::Clwb | M::Cldemote)
}

fn is_bit_string(instruction: &Instruction) -> bool {
    use iced_x86::OpKind;
    matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op1_kind() == OpKind::Register
}

/// Steps all programs and prints the table; the total number of steps.
fn step_all(bursts: usize) -> usize {
    slimline_emulate::prepare();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let only = std::env::var("SLIMLINE_STEP_ONLY").ok();
    let bursts = std::env::var("SLIMLINE_STEP_BURSTS").ok().and_then(|text| text.parse().ok()).unwrap_or(bursts);
    let programs: Vec<Program> = programs(directory.path())
        .into_iter()
        .filter(|program| only.as_ref().is_none_or(|only| program.name.contains(only.as_str())))
        .collect();
    assert!(!programs.is_empty(), "none of the programs to step is installed");
    let mut seed = 42;
    let (mut steps, mut mismatches, mut blamed, mut phantoms) = (0, Vec::new(), 0, 0);
    // Mean burst length, and of the 16 registers how many are unknown at the end.
    println!("{:16} {:>7} {:>9} {:>9} {:>6} {:>7}  ends", "program", "bursts", "steps", "accesses", "mean", "unknown");
    for program in &programs {
        let outcome = step(program, bursts, &mut seed);
        let mut ends: Vec<_> = outcome.ends.iter().collect();
        ends.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let ends: Vec<_> = ends.iter().take(8).map(|(name, count)| format!("{name} {count}")).collect();
        println!(
            "{:16} {:7} {:9} {:9} {:6.1} {:7.2}  {}",
            program.name,
            outcome.bursts,
            outcome.steps,
            outcome.accesses,
            outcome.emulated as f64 / outcome.bursts.max(1) as f64,
            outcome.unknown as f64 / outcome.bursts.max(1) as f64,
            ends.join(", ")
        );
        assert!(outcome.steps > 0, "{} was not stepped", program.name);
        println!(
            "{:16} blamed {}, not executed {}, ambiguous {}",
            "",
            outcome.blamed,
            outcome.phantoms.len(),
            outcome.ambiguous
        );
        if std::env::var_os("SLIMLINE_STEP_PHANTOMS").is_some() {
            outcome.phantoms.iter().for_each(|phantom| println!("  {phantom}"));
        }
        blamed += outcome.blamed;
        phantoms += outcome.phantoms.len();
        steps += outcome.steps;
        mismatches.extend(outcome.mismatches);
    }
    println!("{steps} steps, {} mismatches", mismatches.len());
    for mismatch in mismatches.iter().take(40) {
        println!("  {mismatch}");
    }
    println!("{blamed} blamed, {phantoms} not executed");
    assert!(blamed * 2 >= steps, "of {steps} samples only {blamed} are blamed on an access");
    // In six runs the share was 0.6 to 1.2 %: first turns of short loops, and branches from elsewhere. Without a look at flags and
    // registers it was 4.
    assert!(phantoms * 40 <= blamed, "of {blamed} blamed accesses {phantoms} were not executed");
    assert!(mismatches.is_empty(), "{} of {steps} steps disagree, first: {}", mismatches.len(), mismatches[0]);
    steps
}

#[test]
fn agrees_with_the_cpu() {
    assert!(step_all(3) > 500);
}

#[test]
#[ignore = "minutes: see the head of this file"]
fn agrees_with_the_cpu_over_100_000_steps() {
    let filtered = std::env::var_os("SLIMLINE_STEP_ONLY").is_some();
    assert!(step_all(60) >= 100_000 || filtered);
}
