//! The process's begin, end and forks.
