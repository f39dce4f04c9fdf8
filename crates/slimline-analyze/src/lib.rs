//! Pure analyses over access batches, and the advice that follows from them.

pub mod quality;
