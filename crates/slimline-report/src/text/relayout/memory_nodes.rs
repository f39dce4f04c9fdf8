//! Where pages should live, in sentences.

use std::path::Path;

use slimline_trace::escape::plain;

use super::super::advice::gain;
use super::super::number::{count, percent, plural, plural_of};
use super::super::simulation::data_name;
use super::run_time;
use crate::relayout::{ENOUGH, MemoryNodesRow, NodesAdvice, NodesDataRow};
use crate::source::seen_from;

/// What to do, what it gains, and which data it is for; files are seen from `here`.
pub(crate) fn lines(nodes: &MemoryNodesRow, here: &Path) -> Vec<String> {
    let share = |part: u64, of: u64| percent(part as f64 / of.max(1) as f64);
    let far = share(nodes.far, nodes.served);
    let served = plural_of(nodes.served, "access", "accesses");
    let as_it_is = format!(
        "Of {served} that memory served {far} were to another node's than the thread's, with pages where they are touched first."
    );
    let of_used = &nodes.touched_where_used;
    let [interleaved, used] = [&nodes.interleaved, of_used].map(|of| gain(of.time_ratio - 1.0));
    let advice = match nodes.advice {
        Some(NodesAdvice::Interleave) => {
            format!(
                "Spread the program's pages over all nodes: numactl --interleave=all before the command. Predicted: {}; with each \
                 page near to the threads that use it most {used}.",
                run_time(&nodes.interleaved)
            )
        }
        Some(NodesAdvice::TouchWhereUsed) => format!(
            "Have threads touch first what they use: fill data in a loop that is parallel like those that use it. Predicted: {}; \
             with pages spread over all nodes instead (numactl --interleave=all) {interleaved}.",
            run_time(of_used)
        ),
        None => {
            return vec![
                as_it_is,
                format!(
                    "Neither pages spread over all nodes ({interleaved} run time) nor near to who uses them ({used}) gain {ENOUGH}."
                ),
            ];
        }
    };
    let mut lines = vec![advice, as_it_is];
    lines.extend(nodes.data.iter().map(|of| of_data(of, here)));
    if nodes.other_far > 0 {
        lines.push(format!("Of other data {} came from afar.", count(nodes.other_far)));
    }
    lines
}

fn of_data(of: &NodesDataRow, here: &Path) -> String {
    let share = |part: u64| percent(part as f64 / of.served.max(1) as f64);
    let name = data_name(of.name.as_deref(), &of.data);
    let threads = plural(of.touching_threads, "thread");
    let touched = match &of.touched_at {
        // Other data on its pages was there before.
        _ if of.touching_threads == 0 => String::new(),
        Some(at) => format!("; touched first by {threads}, mostly at {}", plain(&seen_from(here, at))),
        None => format!("; touched first by {threads}"),
    };
    format!(
        "{name}: {} of {} from afar, {} if touched where it is used{touched}.",
        share(of.far),
        plural_of(of.served, "access", "accesses"),
        share(of.far_as_used)
    )
}
