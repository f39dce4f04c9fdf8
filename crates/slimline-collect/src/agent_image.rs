//! What runs inside measured programs, embedded: one copied `slimline` is enough.

/// The shared library that `build.rs` built from `slimline-agent`.
pub(crate) static AGENT: &[u8] = include_bytes!(env!("SLIMLINE_AGENT"));

/// The shared library that `build.rs` built from `slimline-regions`.
pub(crate) static REGIONS: &[u8] = include_bytes!(env!("SLIMLINE_REGIONS_LIBRARY"));

/// The plugin that `build.rs` built from `slimline-translate`, with the runtime's archive in it.
pub(crate) static PLUGIN: &[u8] = include_bytes!(env!("SLIMLINE_TRANSLATE"));

/// The archive that `build.rs` built from `slimline-runtime`: to be linked into whatever has instrumented code.
pub static RUNTIME: &[u8] = include_bytes!(env!("SLIMLINE_RUNTIME"));
