//! Types, once all sites and groups are known: what each instruction accesses, and what each group is an array of.
//!
//! A function is followed once for all of its sites. A group's element type is what its declaration or its allocation
//! says, unless most of its accesses say otherwise.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_trace::access::{GroupId, SiteId};
use slimline_trace::address::Svma;

use super::groups::{Groups, Origin};
use super::naming::{Candidates, Reached};
use super::sites::{Sites, Tally};
use super::unlike::allocated;
use crate::data::address_space::Modules;
use crate::data::wrappers::WrapperRules;
use crate::tables::{Element, Group, Site, Type};
use crate::typing::element::{Vote, element};
use crate::typing::layout::TypeTable;

/// What one site did to one group: a vote for the group's element type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Offset in the object of the first access seen.
    pub(super) offset: u64,
    pub(super) tally: Tally,
    /// Accesses to blocks that were not followed for which these stand ([`Chance::others`](slimline_trace::tables::Chance::others)).
    pub(super) others: u64,
}

/// Which sites used which groups.
pub(super) type Uses = FxHashMap<(GroupId, SiteId), Use>;

struct Typing<'m, 'a> {
    modules: &'m Modules<'a>,
    table: TypeTable,
    rules: WrapperRules,
}

/// Fills in the types of `sites` and `groups` and returns the rows that they name.
pub(super) fn fill(modules: &Modules<'_>, sites: &mut Sites, groups: &mut Groups, uses: &Uses) -> Vec<Type> {
    let rules = groups.rules().clone();
    let mut typing = Typing { modules, table: TypeTable::new(), rules };
    typing.sites(sites);
    let mut votes: BTreeMap<GroupId, Vec<Vote>> = BTreeMap::new();
    let mut reached: BTreeMap<GroupId, Reached> = BTreeMap::new();
    for (&(group, site), used) in uses {
        reached.entry(group).or_default().add(sites.row(site).variable.as_deref(), used.tally.accesses);
        if let Some(accessed) = sites.row(site).accessed {
            let weight = used.tally.accesses;
            votes.entry(group).or_default().push(Vote { accessed, offset: used.offset, weight });
        }
    }
    for (id, origin) in groups.origins() {
        let cast = votes.remove(&id).unwrap_or_default();
        let reached = reached.remove(&id).unwrap_or_default();
        typing.group(groups.row_mut(id), &origin, cast, &reached);
    }
    typing.table.into_rows()
}

impl Typing<'_, '_> {
    fn sites(&mut self, sites: &mut Sites) {
        let mut functions: BTreeMap<(usize, Svma, Svma), Vec<SiteId>> = BTreeMap::new();
        for (id, module, row) in sites.in_modules() {
            if let Some((start, end)) = self.modules.get(module).function_bounds(row.svma) {
                functions.entry((module, start, end)).or_default().push(id);
            }
        }
        for ((number, start, end), ids) in functions {
            let module = self.modules.get(number);
            let Some((info, code)) = module.debug_info().zip(module.code((start, end))) else { continue };
            let places: Vec<Svma> = ids.iter().map(|&id| sites.row(id).svma).collect();
            for (id, found) in ids.into_iter().zip(info.infer(code, start, &places, &mut self.table)) {
                let row: &mut Site = sites.row_mut(id);
                match found {
                    Ok(found) => {
                        row.accessed = Some(found.accessed);
                        row.variable = found.variable;
                    }
                    Err(reason) => row.untyped = Some(reason),
                }
            }
        }
    }

    fn group(&mut self, row: &mut Group, origin: &Origin, mut votes: Vec<Vote>, reached: &Reached) {
        // The map that the votes come from has no order.
        votes.sort_by_key(|vote| (vote.accessed.type_id, vote.accessed.offset, vote.offset, vote.weight));
        let room = row.bytes.checked_div(row.objects).unwrap_or(u64::MAX);
        match *origin {
            Origin::Static(number, svma) | Origin::ThreadLocal(number, svma) => {
                let table = &mut self.table;
                let variable = self.modules.get(number).debug_info().and_then(|info| match origin {
                    Origin::ThreadLocal(..) => info.thread_local_at(svma, table),
                    _ => info.static_at(svma, table),
                });
                let declared = variable.as_ref().map(|variable| variable.element);
                row.declared_at = variable.and_then(|variable| variable.declared_at);
                row.element = element(self.table.rows(), declared, &votes, room);
            }
            Origin::Local(number, ref layout, local) => {
                let info = self.modules.get(number).debug_info();
                let found = info.and_then(|info| info.local_element(&layout.locals()[local], &mut self.table));
                let (declared, declared_at) = found.unzip();
                row.declared_at = declared_at.flatten();
                row.element = element(self.table.rows(), declared, &votes, room);
            }
            Origin::Path(ref calls) | Origin::File(ref calls) => {
                let found = allocated(self.modules, calls, row.object_bytes, &mut self.table);
                row.element = element(self.table.rows(), found.element, &votes, room);
                let types = self.table.rows();
                let named = |element: Element| (element, types[element.type_id.index()].name.as_str());
                let candidates = Candidates {
                    holder: found.holder.as_ref(),
                    reached,
                    element: row.element.map(named).filter(|(_, name)| !self.rules.is_library_name(name)),
                    objects: row.objects,
                    object_bytes: row.object_bytes,
                };
                let is_named = matches!(origin, Origin::File(..));
                if let Some(name) = candidates.best().filter(|_| !is_named) {
                    row.name = name.to_owned();
                }
            }
        }
    }
}
