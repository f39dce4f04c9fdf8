//! The analyses on synthetic programs.

mod advice;
mod coverage;
mod hardware;
mod not_followed;
mod published;
mod sharding;
mod synthetic;
mod threads;
mod windows;
