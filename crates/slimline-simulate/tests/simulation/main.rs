//! The simulator against answers computed by hand, published ones, and a slow twin.

mod by_hand;
mod known_answers;
mod same_as_twin;
mod twin;

use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::{Options, Outcome, Simulation};

/// What becomes of these accesses.
fn outcome(machine: &Machine, options: &Options, accesses: &[Access]) -> Outcome {
    let mut simulation = Simulation::new(machine, options).unwrap();
    simulation.take(accesses);
    simulation.finish()
}

fn access(core: u32, kind: AccessKind, address: u64, bytes: u32) -> Access {
    Access { address, key: 0, bytes, thread: core, kind, work: Work::USUAL }
}
