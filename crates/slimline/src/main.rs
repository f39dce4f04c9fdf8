//! A data-centric memory profiler: which data costs the time, why, and what layout would be better.
fn main() {}
