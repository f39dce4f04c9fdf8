//! Whose accesses are that name no object by themselves: what the same code was seen to access otherwise.

use std::collections::{BTreeMap, BTreeSet};

use slimline_trace::access::{GroupId, SiteId};

use super::groups::Groups;
use super::sites::Sites;
use super::typed::Uses;
use crate::tables::{Inferred, Type, TypeId, TypeKind};
use crate::typing::element::holds;

/// Owners, in proportion to accesses.
pub(super) fn inferred(groups: &Groups, sites: &Sites, uses: &Uses, types: &[Type]) -> Inferred {
    let mut inferred = Inferred::default();
    if let Some(group) = groups.not_followed() {
        inferred = inferred.with(group, not_followed(group, groups, &Seen::new(sites, uses, types)));
    }
    if let Some(group) = groups.lost_group() {
        inferred = inferred.with(group, lost(group, groups, uses));
    }
    inferred
}

/// Accesses by group.
type ByGroup = BTreeMap<GroupId, u64>;

/// What was seen of blocks that were followed, among others that were not.
struct Seen<'a> {
    sites: &'a Sites,
    uses: &'a Uses,
    types: &'a [Type],
    by_site: BTreeMap<SiteId, ByGroup>,
    /// By the structure that debug information has the instruction access, in its function and anywhere.
    by_use: BTreeMap<(Function<'a>, TypeId), ByGroup>,
    by_type: BTreeMap<TypeId, ByGroup>,
    by_function: BTreeMap<Function<'a>, ByGroup>,
}

impl<'a> Seen<'a> {
    fn new(sites: &'a Sites, uses: &'a Uses, types: &'a [Type]) -> Self {
        let (by_site, by_use, by_type, by_function) = Default::default();
        let mut seen = Self { sites, uses, types, by_site, by_use, by_type, by_function };
        for (&(group, site), used) in uses.iter().filter(|(_, used)| used.in_followed_heap > 0) {
            let function = function_of(sites, site);
            let count = |groups: &mut ByGroup| *groups.entry(group).or_default() += used.in_followed_heap;
            count(seen.by_site.entry(site).or_default());
            count(seen.by_function.entry(function).or_default());
            if let Some(structure) = seen.structure(site) {
                count(seen.by_use.entry((function, structure)).or_default());
                count(seen.by_type.entry(structure).or_default());
            }
        }
        seen
    }

    /// The structure that debug information has the instruction access.
    fn structure(&self, site: SiteId) -> Option<TypeId> {
        let accessed = self.sites.row(site).accessed?.type_id;
        matches!(self.types[accessed.index()].kind, TypeKind::Structure | TypeKind::Union).then_some(accessed)
    }

    /// What says best whose the accesses of a site are: what the instruction itself accessed otherwise; what others did
    /// by the same type, of its function before those of the whole program; the function's others.
    fn owners(&self, site: SiteId, made_of: &BTreeMap<TypeId, ByGroup>) -> ByGroup {
        let function = function_of(self.sites, site);
        let by_type = |structure| {
            let seen = self.by_use.get(&(function, structure)).or_else(|| self.by_type.get(&structure));
            seen.or_else(|| made_of.get(&structure))
        };
        let own = self.by_site.get(&site).or_else(|| self.structure(site).and_then(by_type));
        own.or_else(|| self.by_function.get(&function)).cloned().unwrap_or_default()
    }

    /// Groups whose blocks were followed, by each structure that the sites access: those whose objects are made of it or
    /// have one inside, with how many of these were met.
    fn made_of(&self, groups: &Groups, accessing: &[SiteId]) -> BTreeMap<TypeId, ByGroup> {
        let followed: BTreeSet<GroupId> = self.by_site.values().flat_map(|groups| groups.keys().copied()).collect();
        let mut made_of: BTreeMap<TypeId, ByGroup> = BTreeMap::new();
        for structure in accessing.iter().filter_map(|&site| self.structure(site)).collect::<BTreeSet<_>>() {
            for &id in &followed {
                let row = groups.row(id);
                if row.element.is_some_and(|element| holds(self.types, element.type_id, structure)) {
                    made_of.entry(structure).or_default().insert(id, row.objects);
                }
            }
        }
        made_of
    }
}

/// Of blocks that were not followed.
fn not_followed(group: GroupId, groups: &Groups, seen: &Seen<'_>) -> Vec<(SiteId, GroupId, u64)> {
    let sites: Vec<SiteId> = seen.uses.keys().filter(|(of, _)| *of == group).map(|&(_, site)| site).collect();
    let made_of = seen.made_of(groups, &sites);
    let owners = |site| seen.owners(site, &made_of).into_iter().map(move |(group, accesses)| (site, group, accesses));
    sites.into_iter().flat_map(owners).collect()
}

/// Of samples without an address: as the same instruction's others.
fn lost(lost: GroupId, groups: &Groups, uses: &Uses) -> Vec<(SiteId, GroupId, u64)> {
    let without = uses.keys().filter(|(group, _)| *group == lost).map(|&(_, site)| (site, ()));
    let without: BTreeMap<SiteId, ()> = without.collect();
    let seen = uses.iter().filter(|((group, site), _)| without.contains_key(site) && groups.is_named(*group));
    seen.map(|(&(group, site), used)| (site, group, used.tally.accesses)).collect()
}

/// A module and a name.
type Function<'a> = (&'a str, &'a str);

/// The function that a site is in, by its outermost frame.
fn function_of(sites: &Sites, site: SiteId) -> Function<'_> {
    let frame = sites.row(site).frames.last();
    frame.map_or(("", ""), |frame| (frame.module.as_str(), frame.function.as_str()))
}
