//! One view of the findings, shown as text, JSON or HTML, browsed in a terminal, and written for other tools.
//!
//! Every form is made of the same [`view::Report`], so they can't disagree. No metric is computed here.

pub mod annotate;
pub mod assemble;
mod cautions;
pub mod comparison;
pub mod csv;
pub mod declared_layouts;
pub mod doctor;
pub mod export;
mod failures;
pub mod full_trace;
mod hint_code;
pub mod histogram;
mod hooks;
pub mod html;
mod imported;
pub mod layout;
pub mod layout_picture;
pub mod learning;
mod no_samples;
mod numbered;
pub mod object_graph;
pub mod placement;
pub mod regions;
pub mod relayout;
pub mod reuse;
#[cfg(test)]
#[path = "../../slimline-trace/tests/session_info/mod.rs"]
mod session_info;
pub mod sharing;
pub mod simulation;
pub mod source;
#[cfg(test)]
mod strict;
mod structure_map;
pub mod svg;
pub mod text;
pub mod tui;
pub mod view;

pub use failures::failures;
pub use hooks::{followed_calls, unseen_calls};
pub use imported::{import_losses, import_remarks};
pub use no_samples::{few_samples, why_no_samples};

/// The report as JSON, indented, with a line end.
pub fn json(report: &view::Report) -> String {
    pretty(report)
}

/// The reports of all processes as JSON, likewise.
pub fn json_per_process(processes: Vec<view::ProcessReport>) -> String {
    pretty(&view::PerProcess { schema: view::SCHEMA, processes })
}

fn pretty(view: &impl serde::Serialize) -> String {
    let text = serde_json::to_string_pretty(view).expect("a view holds string keys and finite numbers only");
    slimline_trace::escape::json(&text) + "\n"
}
