//! What was observed: record layouts, access batches, tables and the session directory.
