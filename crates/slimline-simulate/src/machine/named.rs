//! Machines known by name.

/// Their names, in the order in which they are told.
pub const NAMES: [&str; 3] = ["valgrind", "dinero-i5", "pena-sp"];

/// The description of one.
pub(super) fn text(name: &str) -> Option<&'static str> {
    match name {
        "valgrind" => Some(include_str!("named/valgrind.toml")),
        "dinero-i5" => Some(include_str!("named/dinero-i5.toml")),
        "pena-sp" => Some(include_str!("named/pena-sp.toml")),
        _ => None,
    }
}
