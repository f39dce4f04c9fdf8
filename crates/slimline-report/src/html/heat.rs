//! How hot something is, as colours and in words.

/// What heat means, coldest first: class of the style sheet, share from which on it is that, words.
pub(super) const HEAT: [(&str, f64, &str); 6] = [
    ("heat-0", 0.0, "none"),
    ("heat-1", f64::MIN_POSITIVE, "below 1 %"),
    ("heat-2", 0.01, "from 1 %"),
    ("heat-3", 0.05, "from 5 %"),
    ("heat-4", 0.15, "from 15 %"),
    ("heat-5", 0.35, "from 35 %"),
];

/// The class of a share.
pub(super) fn heat(share: f64) -> &'static str {
    HEAT.iter().rev().find(|(_, from, _)| share >= *from).map_or("heat-0", |(class, ..)| class)
}
