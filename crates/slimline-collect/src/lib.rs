//! Starts the target, drains what its agent saw, and writes the session.
