//! One view of the findings, shown as text, JSON or dot.
//!
//! Every form is made of the same [`view::Report`], so they can't disagree. No metric is computed here.

pub mod view;
