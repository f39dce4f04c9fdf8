//! From findings to the view. Numbers are taken over and named, never computed.

mod advice;
mod breakdowns;
mod groups;
mod layout;
mod loops;
mod session;

use slimline_analyze::advise::Advice;
use slimline_analyze::findings::Findings;
use slimline_analyze::quality::SampleQuality;
use slimline_attribute::resolver::Resolution;
use slimline_trace::session::SessionInfo;

use crate::view::{Report, SCHEMA};

/// The view of a session.
pub fn report(
    info: &SessionInfo,
    quality: &SampleQuality,
    resolution: &Resolution,
    findings: &Findings,
    advice: &[Advice],
) -> Report {
    let tables = &resolution.tables;
    let id = |row: usize| findings.loops[row].loop_id;
    let (loops, went) = loops::with_copies_joined(
        findings.loops.iter().map(|found| loops::view(found, findings, tables)).collect(),
        |a, b| tables.are_copies(id(a), id(b)),
    );
    Report {
        schema: SCHEMA,
        session: session::view(info, quality, &resolution.unresolved, findings),
        groups: findings.groups.iter().map(|found| groups::view(found, tables, &went)).collect(),
        loops,
        breakdowns: breakdowns::view(&findings.hot, tables),
        advice: advice.iter().map(advice::view).collect(),
    }
}
