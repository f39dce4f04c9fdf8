//! Loops.

use slimline_analyze::findings::{Findings, LoopFindings};
use slimline_attribute::tables::Tables;

use super::breakdowns::interval;
use crate::view;

pub(super) fn view(found: &LoopFindings, findings: &Findings, tables: &Tables) -> view::Loop {
    let row = &tables.loops[found.loop_id.index()];
    view::Loop {
        function: row.function.clone(),
        file: row.file.clone(),
        first_line: row.first_line,
        last_line: row.last_line,
        share: found.share.value,
        share_interval: interval(&found.share),
        depth: row.depth,
        groups: found
            .groups
            .iter()
            .map(|part| {
                let group = findings.groups.iter().find(|group| group.group == part.group);
                let offset = |field: usize| group.map(|group| group.fields[field].offset);
                let used = part.fields.iter().filter(|field| !field.only_spanned);
                view::LoopGroup {
                    id: part.group.0,
                    share: part.share,
                    fields: used.filter_map(|field| offset(field.field)).collect(),
                }
            })
            .collect(),
    }
}
