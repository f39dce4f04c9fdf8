//! How hot something is, as colours of the style sheet.

use crate::structure_map;

/// The classes of [`structure_map::HEAT`].
const CLASSES: [&str; structure_map::HEAT.len()] = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5"];

/// The class of a share.
pub(super) fn heat(share: f64) -> &'static str {
    CLASSES[structure_map::heat(share)]
}
