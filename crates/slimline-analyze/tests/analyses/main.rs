//! The analyses on synthetic programs.

mod published;
mod synthetic;
