//! Functions that are regions, where whoever started the program has chosen them by name.
#![allow(unsafe_code)] // a look into the program's own headers

use std::path::PathBuf;
use std::slice;
use std::sync::OnceLock;

use crate::format::FUNCTIONS_VARIABLE;

/// Those of the program that were chosen, by their addresses in the process, from the smallest.
static CHOSEN: OnceLock<Option<Vec<u64>>> = OnceLock::new();

/// Reads the choice, once, when the process begins.
pub(crate) fn begin() {
    let _ = CHOSEN.set(std::env::var(FUNCTIONS_VARIABLE).ok().map(|text| {
        // A program that this one becomes has other functions there.
        let own = std::env::current_exe().ok();
        let (program, addresses) = text.rsplit_once(':').unwrap_or_default();
        if own.is_none_or(|own| own != PathBuf::from(program)) {
            return Vec::new();
        }
        let bias = bias();
        let mut chosen: Vec<u64> =
            addresses.split(',').filter_map(|at| Some(bias.wrapping_add(u64::from_str_radix(at, 16).ok()?))).collect();
        chosen.sort_unstable();
        chosen
    }));
}

/// Whether the function at an address is a region: where nobody has chosen, each one is that the compiler instrumented.
pub(crate) fn is_region(address: u64) -> bool {
    match CHOSEN.get() {
        Some(Some(chosen)) => chosen.binary_search(&address).is_ok(),
        _ => true,
    }
}

/// What the loader has added to addresses of the program's file.
fn bias() -> u64 {
    // SAFETY: looks into the auxiliary vector.
    let [at, count] = [libc::AT_PHDR, libc::AT_PHNUM].map(|entry| unsafe { libc::getauxval(entry) });
    if at == 0 {
        return 0;
    }
    // SAFETY: the kernel says that so many of them are there, in memory that stays mapped.
    let headers = unsafe { slice::from_raw_parts(at as *const libc::Elf64_Phdr, count as usize) };
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
    own.map_or(0, |own| at.wrapping_sub(own.p_vaddr))
}
