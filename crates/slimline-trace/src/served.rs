//! How the memory system served an access: what a hardware counter tells of a sample beyond its address.
//!
//! Which of it is told differs from processor to processor (AMD IBS, Intel PEBS, Arm SPE) and from sample to sample, so
//! each part may be missing; none is ever assumed.

use crate::address::PhysicalAddress;

/// Defines an enumeration whose values have names, as tables and reports spell them.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident => $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $type {
            /// All values, in their order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in tables and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The value of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }
    };
}

named! {
    /// Where the data came from, nearest first.
    MemoryLevel {
        /// First-level data cache.
        L1 => "l1",
        /// A line that was on its way to the first level already (Intel: line fill buffer; AMD: miss address buffer).
        LineFillBuffer => "line_fill_buffer",
        /// Second-level cache.
        L2 => "l2",
        /// Third-level cache, whichever core's part of it.
        L3 => "l3",
        /// A cache beyond it, on the memory's side.
        L4 => "l4",
        /// Another core's or another socket's cache; [`Served::hops`] says how far away.
        RemoteCache => "remote_cache",
        /// Memory of this NUMA node.
        LocalDram => "local_dram",
        /// Memory of another NUMA node; [`Served::hops`] says how far away.
        RemoteDram => "remote_dram",
        /// Persistent memory.
        Pmem => "pmem",
        /// Memory behind CXL.
        Cxl => "cxl",
        /// A device.
        Io => "io",
        /// Memory that is not cached.
        Uncached => "uncached",
    }
}

named! {
    /// What other caches were found to hold of the line.
    Snoop {
        /// They did not have to be asked.
        None => "none",
        /// Asked, and none had it.
        Miss => "miss",
        /// One had it unmodified.
        Hit => "hit",
        /// One had it modified: another core wrote the line.
        HitModified => "hit_modified",
        /// One had it, and forwarded it.
        Forward => "forward",
        /// It came from a peer core's cache; whether modified is not told.
        Peer => "peer",
    }
}

impl Snoop {
    /// Whether another core had written the line, as far as hardware tells.
    pub const fn is_modified(self) -> bool {
        matches!(self, Self::HitModified)
    }
}

named! {
    /// How the address was translated.
    Translation {
        /// First-level TLB.
        L1 => "l1",
        /// Second-level TLB.
        L2 => "l2",
        /// A TLB had it; which is not told.
        Tlb => "tlb",
        /// None had it: the page tables were walked.
        Walk => "walk",
        /// The kernel had to resolve a fault.
        Fault => "fault",
    }
}

impl Translation {
    /// Whether no TLB had it.
    pub const fn is_miss(self) -> bool {
        matches!(self, Self::Walk | Self::Fault)
    }
}

/// How the memory system served an access. `None`: hardware does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Served {
    /// Core cycles until the data was there: the access's own latency. AMD IBS counts that of misses of the first level
    /// only.
    pub latency_cycles: Option<u32>,
    /// Core cycles of the whole instruction, from its dispatch to its completion, where that is told as well.
    pub instruction_cycles: Option<u16>,
    /// Core cycles that it held up those before which it could not retire (Intel).
    pub retire_cycles: Option<u16>,
    /// Where the data came from.
    pub level: Option<MemoryLevel>,
    /// How far away that is, as perf counts: 1 another core of the node, 2 another node of the socket, 3 another
    /// socket, 4 another board.
    pub hops: Option<u8>,
    /// What other caches were found to hold of the line.
    pub snoop: Option<Snoop>,
    /// How the address was translated.
    pub translation: Option<Translation>,
    /// Whether the access was locked.
    pub locked: Option<bool>,
    /// Physical address of the access.
    pub physical_address: Option<PhysicalAddress>,
    /// Size of the page that holds it.
    pub page_bytes: Option<u64>,
}

impl Served {
    /// Nothing is told.
    pub const UNKNOWN: Self = Self {
        latency_cycles: None,
        instruction_cycles: None,
        retire_cycles: None,
        level: None,
        hops: None,
        snoop: None,
        translation: None,
        locked: None,
        physical_address: None,
        page_bytes: None,
    };

    /// Whether the data came from beyond this NUMA node; `None` where that is not told.
    pub fn is_remote(&self) -> Option<bool> {
        let level = self.level?;
        Some(match level {
            MemoryLevel::RemoteDram => true,
            // Another core of the same node is near.
            MemoryLevel::RemoteCache => self.hops.is_none_or(|hops| hops > 1),
            _ => self.hops.is_some_and(|hops| hops > 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        for level in MemoryLevel::ALL {
            assert_eq!(MemoryLevel::from_name(level.name()), Some(level));
        }
        for snoop in Snoop::ALL {
            assert_eq!(Snoop::from_name(snoop.name()), Some(snoop));
        }
        for translation in Translation::ALL {
            assert_eq!(Translation::from_name(translation.name()), Some(translation));
        }
        assert_eq!(MemoryLevel::from_name("L1"), None);
    }

    #[test]
    fn remote_is_beyond_the_node() {
        let from = |level, hops| Served { level: Some(level), hops, ..Served::UNKNOWN }.is_remote();
        assert_eq!(from(MemoryLevel::L3, None), Some(false));
        assert_eq!(from(MemoryLevel::LocalDram, None), Some(false));
        assert_eq!(from(MemoryLevel::RemoteDram, None), Some(true));
        assert_eq!(from(MemoryLevel::RemoteCache, None), Some(true));
        assert_eq!(from(MemoryLevel::RemoteCache, Some(1)), Some(false));
        assert_eq!(from(MemoryLevel::RemoteCache, Some(3)), Some(true));
        assert_eq!(from(MemoryLevel::Cxl, Some(2)), Some(true));
        assert_eq!(Served { hops: Some(3), ..Served::UNKNOWN }.is_remote(), None);
    }
}
