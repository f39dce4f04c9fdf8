//! What accesses memory and nobody knows where, or how much: no access is made of it, so it is counted.

use std::collections::BTreeMap;

use slimline_trace::stream::decode::{Program, SegmentId, Told, Visits};
use slimline_trace::stream::sites::{Site, SiteKind};

/// Bytes that one instruction may copy or fill; no program has more.
const MOST_BYTES: u64 = 1 << 36;

/// What of a trace no access was made of.
#[derive(Debug, Default)]
pub struct Unseen {
    oversized: u64,
    /// By segment: visits of those with sites that access memory nobody knows where.
    untraced: Vec<Option<u64>>,
}

impl Unseen {
    pub(super) fn make_room(&mut self, program: &Program) {
        for segment in self.untraced.len()..program.segments().len() {
            let is_untraced = |(_, site): (Told, &Site)| site.kind == SiteKind::Untraced;
            self.untraced.push(program.sites_of(SegmentId(segment as u32)).any(is_untraced).then_some(0));
        }
    }

    pub(super) fn visit(&mut self, visits: &[Visits]) {
        for visits in visits {
            if let Some(times) = &mut self.untraced[visits.segment.0 as usize] {
                *times += u64::from(visits.times);
            }
        }
    }

    /// Whether one instruction accesses so many bytes; one that accesses more is counted here.
    pub(super) fn is_possible(&mut self, bytes: u64) -> bool {
        let is_possible = bytes <= MOST_BYTES;
        self.oversized += u64::from(!is_possible);
        is_possible
    }

    /// Copies and fills that were left out, as no program makes so large ones.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// What ran that may access memory, nobody knows where: what it is, and how often.
    pub fn untraced(&self, program: &Program) -> BTreeMap<String, u64> {
        let mut untraced = BTreeMap::new();
        let ran = (0..).zip(&self.untraced).filter_map(|(segment, times)| Some((SegmentId(segment), (*times)?)));
        for (segment, times) in ran.filter(|(_, times)| *times > 0) {
            let sites = program.sites_of(segment).filter(|(_, site)| site.kind == SiteKind::Untraced);
            for (told, site) in sites {
                let what = program.site(told.site).0.name(site.detail);
                *untraced.entry(what.to_owned()).or_default() += times;
            }
        }
        untraced
    }
}
