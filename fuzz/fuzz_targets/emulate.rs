//! Any code, with any registers and memory: a burst ends, within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slimline_emulate::{Emulator, Memory, State};

const CODE: u64 = 0x40_0000;
const LIMIT: u32 = 300;

/// The input's bytes, once as code and again and again wherever else is read; one page in sixteen is unreadable.
struct Bytes<'a>(&'a [u8]);

impl Memory for Bytes<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let last = address.wrapping_add(into.len() as u64).wrapping_sub(1);
        if [address, last].iter().any(|end| (end >> 12) % 16 == 15) {
            return false;
        }
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = address.wrapping_add(offset as u64).wrapping_sub(CODE) as usize;
            *byte = self.0[at % self.0.len()];
        }
        true
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((registers, code)) = input.split_at_checked(8 * 16).filter(|(_, code)| !code.is_empty()) else { return };
    slimline_emulate::prepare();
    let mut emulator = Box::new(Emulator::<256>::new());
    let mut state = State::unknown(CODE);
    for (number, bytes) in registers.chunks_exact(8).enumerate() {
        let value = u64::from_le_bytes(bytes.try_into().unwrap());
        // Registers that no sample tells are unknown.
        state.set_gpr(number, (value != 0).then_some(value));
    }
    let burst = emulator.run(&mut state, &mut Bytes(code), LIMIT, |access| assert!(access.bytes > 0));
    assert!(burst.instructions <= LIMIT);
});
