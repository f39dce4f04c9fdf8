//! What one visit of a site accesses, by its words.

use super::{Site, SiteKind};

impl Site {
    /// Each access of a visit whose words, the site's own, these are: a load, a store or an update, its address and its bytes. None of
    /// words that are missing.
    pub fn each_access(&self, own: &[u64], mut access: impl FnMut(SiteKind, u64, u64)) {
        let size = u64::from(self.size_bytes);
        let kind = if self.kind.reads() { SiteKind::Load } else { SiteKind::Store };
        match (self.kind, own) {
            (SiteKind::Load | SiteKind::Store | SiteKind::Update, &[address, ..]) => access(self.kind, address, size),
            // What is copied is read before it is written.
            (SiteKind::Copy, &[to, from, bytes, ..]) => {
                access(SiteKind::Load, from, bytes);
                access(SiteKind::Store, to, bytes);
            }
            (SiteKind::Fill, &[address, bytes, ..]) => access(SiteKind::Store, address, bytes),
            (SiteKind::MaskedLoad | SiteKind::MaskedStore, &[address, mask, ..]) => {
                if let Some((offset, bytes)) = self.span_of_lanes(mask) {
                    access(kind, address.wrapping_add(offset), bytes);
                }
            }
            (SiteKind::Gather | SiteKind::Scatter, [mask, lanes @ ..]) => {
                let active = lanes.iter().take(64).enumerate().filter(|(lane, _)| mask >> lane & 1 != 0);
                active.for_each(|(_, &address)| access(kind, address, size));
            }
            _ => {}
        }
    }

    /// Which bytes a masked access reaches over: from the first lane that its mask lets through to the last, as an offset from
    /// lane 0, and how many. None where it lets none through.
    pub fn span_of_lanes(&self, mask: u64) -> Option<(u64, u64)> {
        let mask = mask & self.lanes_mask();
        let size = u64::from(self.size_bytes);
        let (first, end) = (u64::from(mask.trailing_zeros()), u64::from(u64::BITS - mask.leading_zeros()));
        (mask != 0).then(|| (first * size, (end - first) * size))
    }

    /// Bits of a mask that stand for lanes.
    pub fn lanes_mask(&self) -> u64 {
        if self.lanes >= 64 { u64::MAX } else { (1 << self.lanes) - 1 }
    }
}
