//! The agent, embedded: one copied `slimline` is enough.

/// The shared library that `build.rs` built from `slimline-agent`.
pub(crate) static AGENT: &[u8] = include_bytes!(env!("SLIMLINE_AGENT"));
