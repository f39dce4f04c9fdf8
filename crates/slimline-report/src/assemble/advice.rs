//! Advice.

use std::path::Path;

use slimline_analyze::advise::{Advice, Confidence, Kind, NewLayout, PlacedField};
use slimline_attribute::tables::Tables;

use crate::{cautions, view};

pub(super) fn view(advice: &Advice, tables: &Tables) -> view::Advice {
    view::Advice {
        kind: match advice.kind {
            Kind::Split => "split",
            Kind::HotColdSplit => "hot_cold_split",
            Kind::Reorder => "reorder",
            Kind::Interchange => "interchange",
            Kind::LeaveAlone => "leave_alone",
            Kind::NotJudged => "not_judged",
        }
        .to_owned(),
        group: advice.group.0,
        other_groups: advice.others.iter().map(|group| group.0).collect(),
        title: advice.title.clone(),
        fields: advice.fields.clone(),
        layouts: advice.layouts.iter().map(layout).collect(),
        predicted: advice.predicted.as_ref().map(|predicted| view::Predicted {
            cycles: predicted.cycles,
            cycles_interval: view::Interval { low: predicted.cycles_low, high: predicted.cycles_high },
            lines: predicted.lines,
            method: predicted.method.clone(),
        }),
        confidence: match advice.confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
        .to_owned(),
        why: advice.why.clone(),
        code: advice.code.clone(),
        declared_at: advice.declared_at.as_ref().map(|at| view::Position { file: at.file.clone(), line: at.line }),
        touched_lines: advice.touched_lines.iter().map(|(file, line)| format!("{file}:{line}")).collect(),
        cautions: cautions(advice, tables),
    }
}

/// What to mind where a layout changes; nothing where none does, or where nobody knows the type.
fn cautions(advice: &Advice, tables: &Tables) -> Vec<String> {
    let element = tables.group(advice.group).element.filter(|_| advice.changes_layout());
    let Some(type_) = element.map(|element| tables.type_(element.type_id)) else { return Vec::new() };
    let found = cautions::of_type(type_, &tables.types, &advice.ties);
    // Nothing is below no directory: files are told as they are.
    found.iter().map(|caution| caution.seen_from(Path::new(""))).collect()
}

fn layout(layout: &NewLayout) -> view::NewLayout {
    let field = |&PlacedField { from, offset, bytes }: &PlacedField| view::PlacedField { from, offset, bytes };
    view::NewLayout {
        bytes: layout.bytes,
        fields: layout.fields.iter().map(field).collect(),
        pointer_at: layout.pointer_at,
    }
}
