//! Time per emulated instruction, beside the time to decode each with iced-x86 and no cache.
//!
//! `cargo bench -p slimline-emulate`. Bursts of 300 instructions run over functions of this very
//! binary, reading this process's memory as the agent does. The ratio is what to compare between
//! machines and revisions; nanoseconds are for orientation.

// The emulated functions' code and data are read through raw pointers, as in a profiled process.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use slimline_emulate::{Emulator, End, Memory, RDI, RSI, RSP, State};

const LIMIT: u32 = 300;
const BURSTS: u32 = 3000;
const ROUNDS: usize = 7;
const STACK_BYTES: usize = 1 << 16;

/// This process's memory. Address zero, where the emulated functions return to, is unreadable.
struct Own;

impl Memory for Own {
    #[inline(always)]
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        if address < 4096 {
            return false;
        }
        // SAFETY: the functions below touch only their arguments, their stack and static data, all
        // of it mapped; the code read past their ends lies inside this binary's text.
        unsafe { std::ptr::copy_nonoverlapping(address as usize as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }
}

#[inline(never)]
extern "C" fn hash(data: *const u64, length: usize) -> u64 {
    // SAFETY: called (and emulated) with a whole slice.
    let data = unsafe { std::slice::from_raw_parts(data, length) };
    let mut table = [0_u64; 64];
    for &value in data {
        let mixed = value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ value >> 7;
        let slot = &mut table[(mixed >> 58) as usize];
        *slot = if *slot > mixed { slot.wrapping_sub(mixed) } else { *slot + (mixed & 0xffff) };
    }
    table.iter().fold(0, |sum, &value| sum ^ value)
}

#[inline(never)]
extern "C" fn sort(data: *const u64, length: usize) -> u64 {
    // SAFETY: as above.
    let data = unsafe { std::slice::from_raw_parts(data, length) };
    let mut copy = [0_u64; 128];
    copy.copy_from_slice(&data[..128]);
    for start in 1..copy.len() {
        let mut at = start;
        while at > 0 && copy[at - 1] > copy[at] {
            copy.swap(at - 1, at);
            at -= 1;
        }
    }
    copy[17]
}

#[inline(never)]
extern "C" fn floats(data: *const u64, length: usize) -> u64 {
    // SAFETY: as above; any bits are a float.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<f64>(), length) };
    let mut sums = [1.0_f64; 8];
    for chunk in data.chunks_exact(8) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = *sum * 0.5 + value * value;
        }
    }
    sums.iter().sum::<f64>().to_bits()
}

fn start(function: extern "C" fn(*const u64, usize) -> u64, data: &[u64], stack: &[u64]) -> State {
    let mut state = State::unknown(function as usize as u64);
    for register in 0..16 {
        state.set_gpr(register, Some(0));
    }
    for register in 0..32 {
        state.set_vector(register, 0, &[0; 64]);
    }
    state.set_mxcsr(Some(0x1f80));
    state.set_flags(2);
    state.set_gpr(RDI, Some(data.as_ptr() as usize as u64));
    state.set_gpr(RSI, Some(data.len() as u64));
    let top = stack.as_ptr() as usize as u64 + STACK_BYTES as u64 - 64;
    state.set_gpr(RSP, Some((top & !15) - 8));
    state
}

/// Best of several rounds, in nanoseconds per instruction.
fn best(instructions: u64, mut round: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            round();
            begin.elapsed().as_nanos() as f64 / instructions as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    slimline_emulate::prepare();
    let data: Vec<u64> = (0..4096_u64).map(|index| index.wrapping_mul(0x2545_F491_4F6C_DD1D)).collect();
    let stack = vec![0_u64; STACK_BYTES / 8];
    let mut emulator = Box::new(Emulator::<2048>::new());
    println!("{:10} {:>12} {:>12} {:>8} {:>14}", "code", "emulate ns", "decode ns", "ratio", "accesses/instr");
    let functions: [(&str, extern "C" fn(*const u64, usize) -> u64); 3] =
        [("hash", hash), ("sort", sort), ("floats", floats)];
    for (name, function) in functions {
        let state = start(function, &data, &stack);
        // The instructions of one burst, for the baseline, and a check that it runs at all.
        let (mut ips, mut stepped) = (Vec::new(), state.clone());
        emulator.begin();
        while ips.len() < LIMIT as usize {
            ips.push(stepped.rip);
            let done = emulator.step(&mut stepped, &mut Own, &mut |_| {});
            assert_eq!(done, Ok(()), "{name} at {:#x}", stepped.rip);
        }
        let total = u64::from(LIMIT * BURSTS);
        let mut accesses = 0_u64;
        let emulate = best(total, || {
            accesses = 0;
            for _ in 0..BURSTS {
                let mut state = state.clone();
                let burst =
                    emulator.run(&mut state, &mut Own, LIMIT, |access| accesses += black_box(access).address & 1 | 1);
                assert_eq!(burst.end, End::Limit);
            }
        });
        let mut instruction = Instruction::default();
        let decode = best(total, || {
            for _ in 0..BURSTS {
                for &ip in &ips {
                    let mut code = [0; 15];
                    Own.read(ip, &mut code);
                    Decoder::with_ip(64, &code, ip, DecoderOptions::NONE).decode_out(&mut instruction);
                    black_box(&instruction);
                }
            }
        });
        let per_instruction = accesses as f64 / total as f64;
        println!("{name:10} {emulate:12.1} {decode:12.1} {:8.2} {per_instruction:14.2}", emulate / decode);
    }
}
