//! Where in its data an access is, as finely as was asked for: which part of a block, or of the memory that goes by the
//! name of a variable.
//!
//! Nobody knows beforehand how large data is. So parts of data that turns out to have too many become twice as large, as
//! often as it takes; what was accessed before keeps its smaller ones, of which each lies in one of the larger.

use std::num::NonZeroU64;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};

use super::heap::live_blocks::{Block, NO_GROUP};
use crate::origins::{Part, Whose};

/// Parts of one data.
const MOST_PARTS: u64 = 4096;
/// In place of a variable's number: the site names none.
const NO_VARIABLE: u32 = u32::MAX;

/// Parts of all data so far.
#[derive(Debug)]
pub(super) struct Parts {
    /// As asked for.
    bytes: u64,
    extents: FxHashMap<(Whose, u32), Extent>,
    /// By site.
    variables: Vec<u32>,
    numbers: FxHashMap<String, u32>,
}

/// From where to where data was seen to reach, and how large its parts are now.
#[derive(Clone, Copy, Debug)]
struct Extent {
    least: u64,
    most: u64,
    bytes: u64,
}

impl Extent {
    fn grow(&mut self, from: u64, to: u64) {
        self.least = self.least.min(from);
        self.most = self.most.max(to);
        while (self.most - self.least).div_ceil(self.bytes) > MOST_PARTS {
            self.bytes *= 2;
        }
    }
}

impl Parts {
    /// Of so many bytes, as long as these are not too many.
    pub(super) fn of(bytes: NonZeroU64) -> Self {
        Self { bytes: bytes.get(), extents: FxHashMap::default(), variables: Vec::new(), numbers: FxHashMap::default() }
    }

    pub(super) fn make_room(&mut self, program: &Program) {
        for site in self.variables.len()..program.site_count() {
            let (module, site) = program.site(SiteId(site as u32));
            let name = module.name(site.variable);
            let next = self.numbers.len() as u32;
            let number = match name {
                "" => NO_VARIABLE,
                name => *self.numbers.entry(name.to_owned()).or_insert(next),
            };
            self.variables.push(number);
        }
    }

    /// The part of `block`, or outside blocks of the site's variable, that has this address.
    pub(super) fn part(&mut self, process: u32, block: &Block, site: u32, address: u64) -> Part {
        let (whose, number, at, from, to) = if block.group == NO_GROUP {
            let variable = self.variables[site as usize];
            if variable == NO_VARIABLE {
                return Part::default();
            }
            (Whose::Variable { process }, variable, address, address, address.saturating_add(1))
        } else {
            (Whose::Block, block.group, address - block.start, 0, block.end - block.start)
        };
        let fresh = Extent { least: from, most: to, bytes: self.bytes };
        let extent = self.extents.entry((whose, number)).or_insert(fresh);
        extent.grow(from, to);
        Part { whose, start: at / extent.bytes * extent.bytes, bytes: extent.bytes }
    }

    /// The largest block of a group.
    pub(super) fn largest(&self, group: u32) -> u64 {
        self.extents.get(&(Whose::Block, group)).map_or(0, |extent| extent.most)
    }
}
