//! What simulated machines did, by what they did it for.

use std::cmp::Reverse;

use slimline_simulate::simulation::{Counts, Outcome};

use crate::origins::{By, Origin, Origins};

/// One row of a machine's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRow<I = u32> {
    /// What it is of: a number as [`Origins::number`] gives it.
    pub of: I,
    /// Its counts.
    pub counts: Counts,
}

/// The counts of a machine cut so, most cycles first. They add up to those of all.
pub fn rows(outcome: &Outcome, origins: &Origins, by: By) -> Vec<SimulatedRow> {
    let mut rows = sums(outcome, origins, |key| origins.number(key, by));
    rows.sort_by_key(|row| Reverse(row.counts.cycles));
    rows
}

/// Who misses: variable and line, with those that miss the farthest cache most first (as DINAMITE's table of offenders).
pub fn offenders(outcome: &Outcome, origins: &Origins) -> Vec<SimulatedRow<(u32, u32)>> {
    let mut rows = sums(outcome, origins, |key| {
        let origin = origins.of(key);
        (origin.variable, origin.line)
    });
    let path = outcome.machine().path(false);
    rows.sort_by_cached_key(|row| {
        Reverse(path.iter().rev().map(|&cache| row.counts.misses[cache].total()).collect::<Vec<_>>())
    });
    rows
}

/// What a line of code does to a field of data: numbers as [`Origins::number`] gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// The line.
    pub line: u32,
    /// Its function.
    pub function: u32,
    /// The data.
    pub data: u32,
    /// Type and member.
    pub field: u32,
}

/// Which lines use which fields of which data, most cycles first.
pub fn uses(outcome: &Outcome, origins: &Origins) -> Vec<SimulatedRow<Use>> {
    let mut rows = sums(outcome, origins, |key| {
        let Origin { line, function, data, field, .. } = origins.of(key);
        Use { line, function, data, field }
    });
    rows.sort_by_key(|row| Reverse((row.counts.cycles, row.counts.accesses())));
    rows
}

fn sums<I: Copy + Eq + std::hash::Hash>(
    outcome: &Outcome,
    origins: &Origins,
    identity: impl Fn(u32) -> I,
) -> Vec<SimulatedRow<I>> {
    let sums = origins.sums(identity, |key| outcome.of_key(key), |sum, counts| sum.add(&counts));
    sums.into_iter().map(|(of, counts)| SimulatedRow { of, counts }).collect()
}
