//! What can be in sight: tables of the whole report as tabs, and what is opened from their rows.

use super::code::Code;
use super::list::List;
use super::listing::{Breakdown, Listing};
use super::structure::Structure;
use crate::text::By;
use crate::view::Report;

/// A table of the whole report, as `slimline report --by` prints it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tab {
    pub(super) by: By,
    pub(super) title: &'static str,
}

const fn tab(by: By, title: &'static str) -> Tab {
    Tab { by, title }
}

/// In the order in which they are asked for most.
pub(super) const TABS: [Tab; 8] = [
    tab(By::Group, "data"),
    tab(By::Field, "fields"),
    tab(By::Loop, "loops"),
    tab(By::Function, "functions"),
    tab(By::Line, "lines"),
    tab(By::Type, "types"),
    tab(By::Thread, "threads"),
    tab(By::Region, "regions"),
];

impl Tab {
    pub(super) fn listing(self, report: &Report) -> Listing {
        match self.by {
            By::Field => Listing::fields(report),
            By::Loop => Listing::all_loops(report),
            By::Function => Listing::breakdown(report, Breakdown::Functions),
            By::Line => Listing::breakdown(report, Breakdown::Lines),
            By::Type => Listing::breakdown(report, Breakdown::Types),
            By::Thread => Listing::breakdown(report, Breakdown::Threads),
            By::Region => Listing::breakdown(report, Breakdown::Regions),
            By::Group | By::Quality => Listing::groups(report, |_| true),
        }
    }
}

/// What was opened.
pub(super) enum Screen {
    /// Rows that belong to what was opened.
    List {
        title: String,
        list: List,
    },
    Structure(Structure),
    Code(Code),
}
