//! How every command ends where something is wrong: one clear line, the documented exit status, no panic, and no part
//! of a session that looks whole.

mod browsing;
mod debugged_heaps;
mod exporting;
mod forks;
mod importing;
mod inputs;
mod outside;
mod parallel;
mod reading;
mod recording;
mod scratch;
mod signals;
mod terminal;
mod tracers;
mod tree;
mod viewers;
