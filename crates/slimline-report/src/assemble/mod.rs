//! From findings to the view. Numbers are taken over and named, never computed.

mod advice;
mod breakdowns;
mod costs;
mod coverage;
mod groups;
pub(crate) mod layout;
mod lines;
mod loops;
mod served;
mod session;

use slimline_analyze::advise::Advice;
use slimline_analyze::findings::Findings;
use slimline_analyze::quality::SampleQuality;
use slimline_analyze::service::Service;
use slimline_attribute::resolver::Resolution;
use slimline_trace::session::SessionInfo;

pub use self::costs::{session_costs, traced_costs};
use crate::regions::SessionRegions;
use crate::view::{Report, SCHEMA};

/// The view of a session, with the regions that its processes met.
pub fn report(
    info: &SessionInfo,
    quality: &SampleQuality,
    resolution: &Resolution,
    findings: &Findings,
    advice: &[Advice],
    regions: &SessionRegions,
) -> Report {
    let tables = &resolution.tables;
    let id = |row: usize| findings.loops[row].loop_id;
    let (mut loops, went) = loops::with_copies_joined(
        findings.loops.iter().map(|found| loops::view(found, findings, tables)).collect(),
        |a, b| tables.are_copies(id(a), id(b)),
    );
    let mut services = vec![Service::default(); loops.len()];
    went.iter().zip(&findings.loops).for_each(|(&to, found)| services[to].merge(&found.service));
    loops.iter_mut().zip(&services).for_each(|(row, of)| row.served = served::view(of, &findings.service));
    Report {
        schema: SCHEMA,
        session: session::view(info, quality, resolution, findings),
        groups: findings.groups.iter().map(|found| groups::view(found, tables, &went, &findings.service)).collect(),
        loops,
        breakdowns: breakdowns::view(&findings.hot, tables, regions),
        lines: lines::view(findings, tables),
        coverage: coverage::view(&findings.coverage, tables, findings.hot.whole.weight),
        advice: advice.iter().map(|advice| advice::view(advice, tables)).collect(),
    }
}
