//! One view of the findings, shown as text, JSON or dot.
