//! What counting costs, and times without it.

use std::collections::HashMap;

use crate::kind::{Kind, Phase};
use crate::path::{PathId, ROOT};
use crate::profile::{Profile, Row};
use crate::times::Times;

/// What counting one execution of a region costs, in picoseconds: two events, each of which asks for the time at its middle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// What of it the region's own time has: from when its begin was told to when its end was. Each of its phases has as much.
    pub inside_ps: u64,
    /// The rest, which is in the time of the region around it.
    pub outside_ps: u64,
}

impl Cost {
    /// Of so many executions, which took so long, of which so much was within.
    #[must_use]
    pub fn of(executions: u64, inside_ns: u64, whole_ns: u64) -> Self {
        let each = |ns: u64| ns.saturating_mul(1000) / executions.max(1);
        Self { inside_ps: each(inside_ns), outside_ps: each(whole_ns.saturating_sub(inside_ns)) }
    }

    /// Of an execution with so many phases.
    fn of_execution(&self, phases: u64) -> u64 {
        // A phase more is an event more: half of what two cost.
        let events_more = phases.saturating_sub(1).saturating_mul(self.inside_ps.saturating_add(self.outside_ps)) / 2;
        self.inside_ps.saturating_add(self.outside_ps).saturating_add(events_more)
    }
}

/// What was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subtracted {
    /// Executions of regions, and creations of tasks.
    pub executions: u64,
    /// What counting them cost, in nanoseconds summed over threads.
    pub cost_ns: u64,
}

impl Profile {
    /// Takes what counting cost away from all times: from each phase what is within it, from the region around what is not. Of tasks, which
    /// may run elsewhere than they were created, the latter is taken from where they were created, if that thread was there. The process's
    /// duration stays as it is: other threads may have run meanwhile.
    pub fn subtract_cost(&mut self) -> Subtracted {
        let Some(cost) = self.cost else { return Subtracted::default() };
        let places: HashMap<(PathId, u32), usize> =
            self.rows.iter().enumerate().map(|(place, row)| ((row.path, row.thread), place)).collect();
        let mut subtracted = Subtracted::default();
        // Children have larger numbers than their parents: by the time that a row is met, all that is within it was.
        let mut rows: Vec<usize> = (0..self.rows.len()).collect();
        rows.sort_by_key(|place| std::cmp::Reverse(self.rows[*place].path));
        // Picoseconds within a row's regions, and at their edges.
        let mut within = vec![0_u64; self.rows.len()];
        let mut edges = vec![0_u64; self.rows.len()];
        for place in rows {
            let row = &self.rows[place];
            let Some(node) = self.node(row.path) else { continue };
            let parent = node.parent;
            let kind = node.region.kind;
            // A task is created at one time and executed at another one: that is as two executions of one phase each.
            let (counted, phases_each) = match kind {
                Kind::Task => (row.times.count.saturating_add(row.times.created), 1),
                _ => (row.times.count, kind.phases().iter().filter(|phase| has_any(row, **phase)).count() as u64),
            };
            let times_in = |phase: Phase| match (kind, phase) {
                _ if !has_any(row, phase) => 0,
                (Kind::Task, Phase::Enter) => row.times.created,
                _ => row.times.count,
            };
            let inside_ps = Phase::ALL.map(|phase| times_in(phase).saturating_mul(cost.inside_ps));
            let all_ps = counted.saturating_mul(cost.of_execution(phases_each));
            subtracted.executions = subtracted.executions.saturating_add(counted);
            subtracted.cost_ns = subtracted.cost_ns.saturating_add(all_ps / 1000);
            if parent != ROOT
                && let Some(&outer) = places.get(&(parent, row.thread))
            {
                within[outer] = within[outer].saturating_add(all_ps).saturating_add(within[place]);
                let inside_ps = inside_ps.iter().fold(0_u64, |sum, ps| sum.saturating_add(*ps));
                edges[outer] = edges[outer].saturating_add(all_ps.saturating_sub(inside_ps));
            }
            take(&mut self.rows[place].times, (inside_ps, edges[place], within[place]));
        }
        subtracted
    }
}

fn has_any(row: &Row, phase: Phase) -> bool {
    row.times.exclusive_ns[phase as usize] > 0
}

/// Takes away what is inside of each phase, and of the body what is at the edges of regions within it, and, where those count, what is in them.
fn take(times: &mut Times, (inside_ps, edges_ps, within_ps): ([u64; Phase::COUNT], u64, u64)) {
    for (phase, own_ps) in inside_ps.into_iter().enumerate() {
        let is_body = phase == Phase::Body as usize;
        let own_ns = own_ps / 1000;
        let [edges_ns, within_ns] = [edges_ps, within_ps].map(|ps| if is_body { ps / 1000 } else { 0 });
        let exclusive_ns = times.exclusive_ns[phase];
        let taken_ns = own_ns.saturating_add(edges_ns).min(exclusive_ns);
        times.exclusive_ns[phase] = exclusive_ns - taken_ns;
        // Never less than without the regions within.
        let inclusive_ns = times.inclusive_ns[phase].saturating_sub(own_ns.saturating_add(within_ns));
        times.inclusive_ns[phase] = inclusive_ns.max(times.exclusive_ns[phase].min(times.inclusive_ns[phase]));
    }
    times.limited_ns = times.limited_ns.min(times.exclusive_ns[Phase::ExitBarrier as usize]);
}
