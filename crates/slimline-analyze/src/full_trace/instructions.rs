//! Rows of instructions, one of each.
//!
//! A translator meets an instruction in each block of code that it is a part of, and in each process anew: its sites have its address, and
//! become one row.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use slimline_trace::stream::sites::{Module, Site, SiteKind};

use super::findings::SiteRow;

/// An instruction of a file, and what it does: one that moves from memory to memory does two things.
type Instruction = (String, String, SiteKind);

/// Those that ran.
#[derive(Debug, Default)]
pub(super) struct Instructions {
    rows: Vec<SiteRow>,
    /// By instruction, its row, and the accesses of the site that it has its names of: the one with most.
    known: HashMap<Instruction, (usize, u64)>,
}

/// The address of a site's instruction in its file, as linked; empty where that is not told.
pub(super) fn address<'m>(module: &'m Module, site: &Site) -> &'m str {
    if site.kind.is_plain() { module.name(site.detail) } else { "" }
}

impl Instructions {
    /// Takes in what a site did.
    pub(super) fn add(&mut self, module: &Module, row: SiteRow) {
        if row.address.is_empty() {
            return self.rows.push(row);
        }
        let key = (module.name(module.object).to_owned(), row.address.clone(), row.kind);
        let accesses = row.accesses.count();
        match self.known.entry(key) {
            Entry::Vacant(new) => {
                new.insert((self.rows.len(), accesses));
                self.rows.push(row);
            }
            Entry::Occupied(known) => {
                let (at, most) = known.into_mut();
                let of = &mut self.rows[*at];
                of.visits = of.visits.saturating_add(row.visits);
                of.accesses.add(row.accesses);
                if accesses > *most {
                    *most = accesses;
                    (of.variable, of.field) = (row.variable, row.field);
                }
            }
        }
    }

    /// Most accesses first.
    pub(super) fn rows(mut self) -> Vec<SiteRow> {
        self.rows.sort_by(|a, b| {
            let of = |row: &SiteRow| (row.place.clone(), row.kind, row.address.clone());
            b.accesses.count().cmp(&a.accesses.count()).then_with(|| of(a).cmp(&of(b)))
        });
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::{ModuleBuilder, TRANSLATED};

    use super::*;
    use crate::full_trace::Accesses;

    #[test]
    fn an_instruction_of_several_blocks_is_one_row() {
        let row = |kind, address: &str, field: &str, visits| SiteRow {
            place: Default::default(),
            inlined: None,
            kind,
            address: address.to_owned(),
            variable: String::new(),
            field: field.to_owned(),
            visits,
            accesses: Accesses { loads: visits, loaded_bytes: 8 * visits, ..Accesses::default() },
        };
        let [a, b] = ["/lib/a.so", "/lib/b.so"].map(|file| ModuleBuilder::new().finish("", file, "", TRANSLATED));
        let mut all = Instructions::default();
        for (module, row) in [
            (&a, row(SiteKind::Load, "0x10", "node.next", 1)),
            (&a, row(SiteKind::Load, "0x18", "node.key", 10)),
            (&a, row(SiteKind::Load, "0x10", "leaf.next", 90)),
            (&a, row(SiteKind::Store, "0x10", "", 3)),
            (&b, row(SiteKind::Load, "0x10", "", 4)),
            // Of code in no file nobody knows which.
            (&a, row(SiteKind::Load, "", "", 2)),
            (&a, row(SiteKind::Load, "", "", 2)),
        ] {
            all.add(module, row);
        }
        let rows = all.rows();
        let told = rows.iter().map(|row| (&*row.address, &*row.field, row.visits, row.accesses.loaded_bytes));
        let first: Vec<_> = told.take(3).collect();
        assert_eq!(first, [("0x10", "leaf.next", 91, 728), ("0x18", "node.key", 10, 80), ("0x10", "", 4, 32)]);
        assert_eq!(rows.len(), 6);
    }
}
