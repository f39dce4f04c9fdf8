//! The library preloaded into the target: allocations, triggers and emulated bursts.
