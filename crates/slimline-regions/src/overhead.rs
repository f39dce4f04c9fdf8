//! The four classes of overhead, as ompP has them.
//!
//! Fürlinger, Gerndt: "Analyzing Overheads and Scalability Characteristics of OpenMP Applications", VECPAR 2006, table 1.
//! Waiting is counted without the tasks that were executed meanwhile.

use std::ops::AddAssign;

use crate::kind::{Kind, Phase};
use crate::path::PathId;
use crate::profile::Profile;
use crate::times::Times;

/// Time lost, in nanoseconds summed over threads, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Threads wait for one another, to coordinate: at barriers and `taskwait`, in front of critical sections.
    pub synchronization_ns: u64,
    /// Threads have more or less work than others, and wait at the end of what they share.
    pub imbalance_ns: u64,
    /// There is not work for all threads: the others wait for a `single`, or for fewer sections than threads.
    pub limited_parallelism_ns: u64,
    /// The runtime starts and ends teams, creates tasks, leaves critical sections.
    pub management_ns: u64,
}

impl Overheads {
    /// All four.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        [self.synchronization_ns, self.imbalance_ns, self.limited_parallelism_ns, self.management_ns]
            .iter()
            .fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// What of the times of a region of that kind is overhead.
    #[must_use]
    pub fn of(kind: Kind, times: &Times) -> Self {
        let ns = |phase: Phase| times.exclusive_ns[phase as usize];
        let waited_ns = ns(Phase::ExitBarrier);
        let mut overheads = Self::default();
        match kind {
            Kind::Parallel => {
                overheads.management_ns = ns(Phase::Enter).saturating_add(ns(Phase::Exit));
                overheads.imbalance_ns = waited_ns;
            }
            Kind::Loop | Kind::Sections | Kind::Single | Kind::ImplicitBarrier => {
                overheads.limited_parallelism_ns = times.limited_ns.min(waited_ns);
                overheads.imbalance_ns = waited_ns - overheads.limited_parallelism_ns;
            }
            Kind::Critical | Kind::Atomic | Kind::Ordered => {
                overheads.synchronization_ns = ns(Phase::Enter);
                overheads.management_ns = ns(Phase::Exit);
            }
            Kind::Barrier | Kind::Taskwait | Kind::Taskgroup => overheads.synchronization_ns = waited_ns,
            Kind::Task => overheads.management_ns = ns(Phase::Enter),
            Kind::Section | Kind::Masked | Kind::User | Kind::Function => {}
        }
        overheads
    }
}

impl AddAssign for Overheads {
    fn add_assign(&mut self, other: Self) {
        self.synchronization_ns = self.synchronization_ns.saturating_add(other.synchronization_ns);
        self.imbalance_ns = self.imbalance_ns.saturating_add(other.imbalance_ns);
        self.limited_parallelism_ns = self.limited_parallelism_ns.saturating_add(other.limited_parallelism_ns);
        self.management_ns = self.management_ns.saturating_add(other.management_ns);
    }
}

/// Overheads, and what they are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// The time lost.
    pub overheads: Overheads,
    /// Of a parallel region its `execT` summed over threads, of a program its duration times its threads; in nanoseconds.
    pub whole_ns: u64,
}

impl Analysis {
    /// So many nanoseconds in per cent of the whole. 0 of nothing.
    #[must_use]
    pub fn percent(&self, ns: u64) -> f64 {
        if self.whole_ns == 0 { 0.0 } else { 100.0 * ns as f64 / self.whole_ns as f64 }
    }
}

/// The overhead analysis of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverheadReport {
    /// By the path of a parallel region, in the order of paths. What is in a nested one is that one's only.
    pub regions: Vec<(PathId, Analysis)>,
    /// Of the program. Time outside of parallel regions is no overhead.
    pub program: Analysis,
    /// How long the program was in parallel regions, at most its duration, in nanoseconds: that of the initial thread,
    /// number 0, in those that are not nested.
    pub parallel_ns: u64,
}

impl OverheadReport {
    /// Analyses a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut report = Self::default();
        report.program.whole_ns = profile.duration_ns.saturating_mul(profile.threads.len() as u64);
        let mut place = vec![None; profile.nodes.len() + 1];
        for (path, node) in profile.paths() {
            place[path.0 as usize] = if node.region.kind == Kind::Parallel {
                report.regions.push((path, Analysis::default()));
                Some(report.regions.len() - 1)
            } else {
                place[node.parent.0 as usize]
            };
        }
        for row in &profile.rows {
            let Some(node) = profile.node(row.path) else { continue };
            let overheads = Overheads::of(node.region.kind, &row.times);
            report.program.overheads += overheads;
            let Some(region) = place[row.path.0 as usize] else { continue };
            let (_, analysis) = &mut report.regions[region];
            analysis.overheads += overheads;
            if node.region.kind == Kind::Parallel {
                analysis.whole_ns = analysis.whole_ns.saturating_add(row.times.exec_ns());
                if row.thread == 0 && place[node.parent.0 as usize].is_none() {
                    report.parallel_ns = report.parallel_ns.saturating_add(row.times.exec_ns());
                }
            }
        }
        report.parallel_ns = report.parallel_ns.min(profile.duration_ns);
        report
    }
}
