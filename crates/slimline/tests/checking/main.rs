//! `slimline layouts`, `diff` and `check`: what types are declared as, what changed, and whether it may.

mod declared;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/scratch.rs"]
mod scratch;
