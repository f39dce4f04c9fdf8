//! Reports as one HTML page each, which needs no other file and no network: [`page`] is what all pages have, [`table`], [`bar`], [`chart`],
//! [`matrix`], [`affinity`], [`source`] and [`structure_map`] are what they show numbers by, and each kind of report has a module.
//!
//! All is there without JavaScript, but for rows of tables that have very many; with it tables are sorted, rows are looked for and code is
//! copied. No colour says what is not said otherwise.

mod affinity;
mod bar;
mod chart;
mod heat;
mod matrix;
mod page;
mod regions;
mod report;
mod source;
mod structure_map;
mod table;
mod trace;

pub use self::regions::regions;
pub use self::report::{report, source_files};
pub use self::trace::{Analysis, Finding, trace, traced_source_files};
