//! Mappings: what `/proc/self/maps` said, over time.

use super::table;
use crate::address::{Avma, FileOffset};

table! {
    /// Distinct lines of the snapshots of `/proc/self/maps`.
    Mappings of
    /// One line, and when it was seen.
    Mapping in "mappings" {
        /// First address.
        start: Avma as Delta,
        /// Address after the last.
        end: Avma as Delta,
        /// Place in the file of the first address.
        file_offset: FileOffset as Delta,
        /// `rwxp` as the kernel writes it.
        permissions: String as Dictionary,
        /// Device, `major:minor` in hex.
        device: String as Dictionary,
        /// Inode; 0 for anonymous memory.
        inode: u64 as Delta,
        /// Path or name in brackets; empty for anonymous memory. A path's text ([`path_text`](crate::path_text)); it ends in
        /// ` (deleted)` only where the file was gone.
        path: String as Dictionary,
        /// First snapshot that had it.
        first_seen_ns: u64 as Delta,
        /// Last snapshot that had it.
        last_seen_ns: u64 as Delta,
    }
}
