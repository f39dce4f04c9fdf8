//! Data structures.

use slimline_analyze::findings::{Field, GroupFindings};
use slimline_analyze::service::Service;
use slimline_analyze::structure::ElementFrom;
use slimline_analyze::threads::{Evidence, Sharing, ThreadUse};
use slimline_attribute::tables::{Frame, Group, GroupKind, Tables};

use super::breakdowns::interval;
use super::{layout, served};
use crate::view;

/// `loop_rows` gives the view's row of each of the findings' loops; `whole` is what hardware tells of the session.
pub(super) fn view(found: &GroupFindings, tables: &Tables, loop_rows: &[usize], whole: &Service) -> view::Group {
    let group = tables.group(found.group);
    let amount = group.at_one_time();
    let structure = found.structure.as_ref();
    // A type of another size than the element's is not the element's type.
    let element = group.element.filter(|element| structure.is_none_or(|found| found.element_bytes == element.bytes));
    let offset = |row: usize| found.fields[row].offset;
    view::Group {
        id: found.group.0,
        name: group.name.clone(),
        kind: kind(group.kind).to_owned(),
        share: found.share.value,
        share_interval: interval(&found.share),
        samples: found.share.samples,
        loads: found.loads,
        stores: found.stores,
        blocks: amount.objects,
        bytes: amount.bytes,
        blocks_estimated: group.estimated,
        blocks_at_least: !group.is_seen_whole(found.share.samples),
        allocated_at: group.allocated_at.as_ref().map(|frame| place(frame, group)),
        declared_at: group.declared_at.as_ref().map(|at| view::Position { file: at.file.clone(), line: at.line }),
        type_name: element.map(|element| tables.type_(element.type_id).name.clone()),
        element_bytes: structure.map(|structure| structure.element_bytes),
        element_from: structure.map(|structure| {
            match structure.from {
                ElementFrom::DebugInfo => "debug_info",
                ElementFrom::Stride => "stride",
                ElementFrom::BlockSize => "block_size",
            }
            .to_owned()
        }),
        element_confidence: structure.map(|structure| structure.confidence),
        fields: found.fields.iter().map(|row| field(row, loop_rows, &found.service)).collect(),
        elsewhere: found.elsewhere,
        affinity: found
            .affinity
            .iter()
            .map(|pair| view::Affinity { a: offset(pair.a), b: offset(pair.b), value: pair.value })
            .collect(),
        clusters: found
            .clusters
            .iter()
            .map(|cluster| cluster.fields.iter().map(|&row| offset(row)).collect())
            .collect(),
        layout: element.and_then(|element| layout::view(element.type_id, &tables.types)),
        threads: found.threads.threads.iter().map(|used| thread(used, tables)).collect(),
        sharing: found.threads.sharing.as_ref().map(sharing),
        served: served::view(&found.service, whole),
    }
}

fn thread(used: &ThreadUse, tables: &Tables) -> view::GroupThread {
    let row = tables.thread(used.thread);
    let &ThreadUse { share, loads, stores, .. } = used;
    view::GroupThread { tid: row.tid, pid: row.pid, name: row.name.clone(), share, loads, stores }
}

fn sharing(found: &Sharing) -> view::Sharing {
    view::Sharing {
        evidence: match found.evidence() {
            Evidence::Shared => "shared",
            Evidence::Apart => "apart",
            Evidence::Unknown => "unknown",
        }
        .to_owned(),
        lines: found.lines as u64,
        lines_met_again: found.met_again as u64,
        lines_shared: found.shared as u64,
    }
}

fn kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Heap => "heap",
        GroupKind::Static => "static",
        GroupKind::Stack => "stack",
        GroupKind::ThreadLocal => "thread_local",
        GroupKind::Mapping => "mapping",
        GroupKind::SharedMemory => "shared_memory",
        GroupKind::File => "file",
        GroupKind::Named => "named",
        GroupKind::Unattributed => "unattributed",
    }
}

fn place(frame: &Frame, group: &Group) -> view::Place {
    view::Place {
        function: frame.function.clone(),
        file: frame.position.as_ref().map(|at| at.file.clone()),
        line: frame.position.as_ref().map_or(0, |at| at.line),
        stack: group.stack.iter().map(one_line).collect(),
    }
}

/// `function file:line`, or `function module` without lines.
fn one_line(frame: &Frame) -> String {
    match &frame.position {
        Some(at) => format!("{} {}:{}", frame.function, at.file, at.line),
        None => format!("{} {}", frame.function, frame.module),
    }
}

fn field(field: &Field, loop_rows: &[usize], of_group: &Service) -> view::Field {
    let mut loops: Vec<usize> = Vec::new();
    for &row in &field.loops {
        if !loops.contains(&loop_rows[row]) {
            loops.push(loop_rows[row]);
        }
    }
    view::Field {
        offset: field.offset,
        bytes: field.bytes,
        name: if field.name.is_empty() { "(element)".to_owned() } else { field.name.clone() },
        share: field.share,
        share_interval: field.share_interval.into(),
        access_share: field.access_share,
        access_share_interval: field.access_share_interval.into(),
        loads: field.loads,
        stores: field.stores,
        stride_bytes: field.stride_bytes,
        loops,
        served: served::view(&field.service, of_group),
    }
}
