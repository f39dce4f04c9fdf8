//! From findings to the view. Numbers are taken over and named, never computed.

mod session;

use slimline_analyze::quality::SampleQuality;
use slimline_attribute::tables::Tables;
use slimline_trace::session::SessionInfo;

use crate::view::{Breakdowns, Report, SCHEMA};

/// The view of a session.
pub fn report(info: &SessionInfo, quality: &SampleQuality, tables: &Tables) -> Report {
    Report {
        schema: SCHEMA,
        session: session::view(info, quality, tables.threads.len() as u64),
        groups: Vec::new(),
        loops: Vec::new(),
        breakdowns: Breakdowns::default(),
        advice: Vec::new(),
    }
}
