//! The analyses on synthetic programs.

mod advice;
mod published;
mod sharding;
mod synthetic;
mod windows;
