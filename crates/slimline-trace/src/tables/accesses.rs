//! Accesses: what the emulated bursts touched.

use super::{BlockRow, table};
use crate::access::AccessKind;
use crate::address::Avma;

table! {
    /// Accesses in program order inside each window; windows in the order of their samples.
    Accesses of
    /// One access of a burst.
    Access in "accesses" {
        /// Number of the sample in its process, which is the number of the window.
        window: u32 as Delta,
        /// Instruction.
        ip: Avma as Dictionary,
        /// Address accessed.
        address: Avma as Delta,
        /// Size in bytes; 256 stands for that and more.
        bytes: u16 as Dictionary,
        /// Bit 0 load, bit 1 store, bit 2 atomic.
        kind: AccessKind as Dictionary,
        /// Small heap block that holds `address`.
        block: Option<BlockRow> as Delta,
    }
}
