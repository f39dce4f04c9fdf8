//! Vector state as the kernel hands it over: the XSAVE area in its standard format.

use crate::state::State;

/// Where the CPU puts each component of an XSAVE area; it differs between vendors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XsaveLayout {
    /// Upper halves of ymm0–15 (component 2), bytes from the start of the area; 0 = absent.
    pub ymm_upper: usize,
    /// Opmasks k0–7 (component 5); 0 = absent.
    pub opmask: usize,
    /// Upper halves of zmm0–15 (component 6); 0 = absent.
    pub zmm_upper: usize,
    /// zmm16–31 (component 7); 0 = absent.
    pub zmm_high: usize,
}

impl XsaveLayout {
    /// Asks this CPU (leaf 0xD of `cpuid`). `cpuid` traps in a VM: call it once, not per sample.
    pub fn of_this_cpu() -> XsaveLayout {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        if __cpuid(0).eax < 0xd {
            return XsaveLayout { ymm_upper: 0, opmask: 0, zmm_upper: 0, zmm_high: 0 };
        }
        let offset = |component| {
            let leaf = __cpuid_count(0xd, component);
            if leaf.eax == 0 { 0 } else { leaf.ebx as usize }
        };
        XsaveLayout { ymm_upper: offset(2), opmask: offset(5), zmm_upper: offset(6), zmm_high: offset(7) }
    }
}

const LEGACY_BYTES: usize = 512;
const HEADER_BYTES: usize = 64;

fn word(area: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(area.get(at..at + 8)?.try_into().ok()?))
}

pub(crate) fn take(state: &mut State, area: &[u8], layout: &XsaveLayout) -> bool {
    if area.len() < LEGACY_BYTES + HEADER_BYTES {
        return false;
    }
    // XSTATE_BV: a component whose bit is clear is in its initial state, which is zero.
    let Some(present) = word(area, LEGACY_BYTES) else {
        return false;
    };
    let has = |component: u32, at: usize| at != 0 && present >> component & 1 == 1;
    let needs =
        [(2, layout.ymm_upper, 256), (5, layout.opmask, 64), (6, layout.zmm_upper, 512), (7, layout.zmm_high, 1024)];
    if needs.iter().any(|&(component, at, bytes)| has(component, at) && area.len() < at + bytes) {
        return false;
    }
    state.vectors = [[0; 64]; 32];
    state.vectors_known = [u64::MAX; 32];
    state.masks = [0; 8];
    state.masks_known = 0xff;
    let Some(mxcsr) = area.get(24..28) else {
        return false;
    };
    state.mxcsr = Some(u32::from_le_bytes([mxcsr[0], mxcsr[1], mxcsr[2], mxcsr[3]]));
    for register in 0..16 {
        let vector = &mut state.vectors[register];
        if present >> 1 & 1 == 1 {
            vector[..16].copy_from_slice(&area[160 + 16 * register..][..16]);
        }
        if has(2, layout.ymm_upper) {
            vector[16..32].copy_from_slice(&area[layout.ymm_upper + 16 * register..][..16]);
        }
        if has(6, layout.zmm_upper) {
            vector[32..].copy_from_slice(&area[layout.zmm_upper + 32 * register..][..32]);
        }
    }
    if has(7, layout.zmm_high) {
        for register in 16..32 {
            state.vectors[register].copy_from_slice(&area[layout.zmm_high + 64 * (register - 16)..][..64]);
        }
    }
    if has(5, layout.opmask) {
        for register in 0..8 {
            state.masks[register] = word(area, layout.opmask + 8 * register).unwrap_or(0);
        }
    }
    true
}
