//! Any text as a machine file: a machine that can be simulated, or why not in one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slimline_simulate::access::{Access, AccessKind, Consumer};
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::{LargePages, Options, Simulation};

/// Of a larger machine the memory is not there for hundreds a second.
const MOST_LINES: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let machine = match Machine::parse(text) {
        Ok(machine) => machine,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let lines: u64 = machine.caches.iter().map(|cache| cache.lines() * u64::from(cache.sharing.caches())).sum();
    let entries: u64 = machine.tlbs.iter().map(|tlb| u64::from(tlb.entries) * u64::from(machine.cores)).sum();
    if lines + entries > MOST_LINES {
        return;
    }
    for (classes, used_bytes) in [(false, false), (true, true)] {
        let options = Options { classes, used_bytes, large_pages: LargePages::None };
        let Ok(mut simulation) = Simulation::new(&machine, &options) else { continue };
        let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Modify, AccessKind::Fetch];
        let access = |n: u64| Access {
            address: n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 14),
            key: n as u32 % 7,
            bytes: n as u32 % 90,
            thread: n as u32 % 5,
            kind: kinds[n as usize % 4],
        };
        let accesses: Vec<Access> = (0..300).map(access).collect();
        simulation.take(&accesses);
        let outcome = simulation.finish();
        let total = outcome.total();
        for ((misses, lookups), events) in total.misses.iter().zip(total.lookups(&machine)).zip(outcome.events()) {
            assert!(
                misses.total() <= lookups
                    && misses.cold + misses.coherence_true + misses.coherence_false <= misses.total()
            );
            assert!(events.used_prefetches <= events.prefetches);
        }
        let written: Vec<u64> = outcome.events().iter().map(|events| events.write_backs).collect();
        assert_eq!((&total.write_backs, total.memory_writes), (&written, outcome.machine_events().memory_writes));
    }
});
