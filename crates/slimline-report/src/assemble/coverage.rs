//! How much is resolved.

use slimline_analyze::coverage::{Coverage, Missing, What};
use slimline_attribute::tables::{NoType, Tables};
use slimline_trace::access::{GroupId, SiteId};

use super::session::reason;
use crate::view;

/// `weight` is the session's.
pub(super) fn view(found: &Coverage, tables: &Tables, weight: u64) -> view::Coverage {
    let share = |part: f64| part / weight.max(1) as f64;
    view::Coverage {
        accesses: share(found.accesses),
        unknown: share(found.unknown),
        objects: share(found.objects),
        structures: share(found.structures),
        fields: share(found.fields),
        missing: found.missing.iter().map(|row| missing(row, tables, &share)).collect(),
    }
}

fn missing(row: &Missing, tables: &Tables, share: &impl Fn(f64) -> f64) -> view::Missing {
    let (what, reason) = match row.what {
        What::Object(why) => ("object", reason(why)),
        What::Type(why) => ("type", no_type(why)),
        What::Offset => ("field", "no_offset"),
        What::Field => ("field", "outside_fields"),
    };
    view::Missing {
        what: what.to_owned(),
        reason: reason.to_owned(),
        share: share(row.weight),
        examples: row
            .examples
            .iter()
            .map(|&(site, group, weight)| example(site, group, share(weight), tables))
            .collect(),
    }
}

fn example(site: SiteId, group: GroupId, share: f64, tables: &Tables) -> view::MissingUse {
    let row = tables.site(site);
    let module = row.frames.last().map_or("", |frame| frame.module.as_str());
    let place = match row.position() {
        Some(at) => format!("{}:{}", at.file, at.line),
        None => format!("{:#x}", row.svma.0),
    };
    view::MissingUse {
        function: row.function().to_owned(),
        module: module.to_owned(),
        place,
        group: tables.group(group).name.clone(),
        share,
    }
}

fn no_type(reason: Option<NoType>) -> &'static str {
    match reason {
        None | Some(NoType::NoDebugInfo) => "no_debug_info",
        Some(NoType::NoOperand) => "no_operand",
        Some(NoType::TooLong) => "too_long",
        Some(NoType::ThreadLocal) => "thread_local",
        Some(NoType::Gather) => "gather",
        Some(NoType::Spill) => "spill",
        Some(NoType::NoVariable) => "no_variable",
        Some(NoType::Untyped) => "untyped",
        Some(NoType::FromCaller) => "from_caller",
        Some(NoType::CallResult) => "call_result",
        Some(NoType::NoPointer) => "no_pointer",
        Some(NoType::Arithmetic) => "arithmetic",
        Some(NoType::PathsDisagree) => "paths_disagree",
        Some(NoType::OffsetRuns) => "offset_runs",
        Some(NoType::OutsideType) => "outside_type",
    }
}
