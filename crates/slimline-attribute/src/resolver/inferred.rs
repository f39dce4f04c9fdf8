//! Whose accesses are that name no object by themselves: what the same code was seen to access otherwise.

use std::collections::{BTreeMap, BTreeSet};

use slimline_trace::access::{GroupId, SiteId};

use super::groups::{Fit, Groups};
use super::sites::Sites;
use super::typed::Uses;
use crate::tables::{Inferred, Type, TypeId, TypeKind};
use crate::typing::element::holds;

/// Owners, in proportion to accesses. If one block in n was followed, an access to it stands for n - 1 accesses to blocks that
/// were not (Horvitz and Thompson 1952).
pub(super) fn inferred(groups: &Groups, sites: &Sites, uses: &Uses, types: &[Type]) -> Inferred {
    let mut inferred = Inferred::default();
    let seen = Seen::new(sites, uses, types);
    let (by_size, rest) = (groups.passed_over_by_size(), groups.not_followed());
    let mut sites_of: BTreeMap<GroupId, Vec<SiteId>> =
        by_size.values().copied().chain(rest).map(|group| (group, Vec::new())).collect();
    for &(group, site) in uses.keys() {
        if let Some(sites) = sites_of.get_mut(&group) {
            sites.push(site);
        }
    }
    let accessing: Vec<SiteId> = sites_of.values().flatten().copied().collect();
    let made_of = seen.made_of(groups, &accessing);
    if let Some(group) = rest {
        inferred = inferred.with(group, not_followed(&sites_of[&group], &seen, &made_of));
    }
    for (usable_bytes, group) in by_size {
        let sites = &sites_of[&group];
        let Owners { known, guessed } = passed_over(sites, usable_bytes, groups, &seen, &made_of);
        inferred = inferred.with(group, guessed).with_known(group, known, sites.len());
        if let Some(rest) = rest {
            inferred = inferred.with_rest(group, rest);
        }
    }
    inferred.known_share = known_share(&sites_of, &inferred, uses);
    if let Some(group) = groups.lost_group() {
        inferred = inferred.with(group, lost(group, groups, uses));
    }
    inferred
}

/// Accesses to blocks that were not followed, by group.
type ByGroup = BTreeMap<GroupId, u64>;

/// What was seen of blocks that were followed, among others that were not.
struct Seen<'a> {
    sites: &'a Sites,
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
        let mut seen = Self { sites, types, by_site, by_use, by_type, by_function };
        for (&(group, site), used) in uses.iter().filter(|(_, used)| used.others > 0) {
            let function = function_of(sites, site);
            let count = |groups: &mut ByGroup| *groups.entry(group).or_default() += used.others;
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

    /// What says best whose the accesses of a site are, of `candidates`, if these are all: what the instruction itself accessed
    /// otherwise; what others did by the same type, of its function before those of the whole program; who has objects made
    /// of that; the function's others.
    fn owners(
        &self,
        site: SiteId,
        made_of: &BTreeMap<TypeId, ByGroup>,
        candidates: Option<&BTreeSet<GroupId>>,
    ) -> ByGroup {
        let function = function_of(self.sites, site);
        let structure = self.structure(site);
        let evidence = [
            self.by_site.get(&site),
            structure.and_then(|structure| self.by_use.get(&(function, structure))),
            structure.and_then(|structure| self.by_type.get(&structure)),
            structure.and_then(|structure| made_of.get(&structure)),
            self.by_function.get(&function),
        ];
        let may_be = |group: &GroupId| candidates.is_none_or(|candidates| candidates.contains(group));
        let owners = evidence.into_iter().flatten().map(|groups| {
            groups.iter().filter(|(group, _)| may_be(group)).map(|(&group, &seen)| (group, seen)).collect::<ByGroup>()
        });
        owners.into_iter().find(|owners| !owners.is_empty()).unwrap_or_default()
    }

    /// Whether a group's objects are made of the structure that debug information has the instruction access, or have one
    /// inside; `None` where either is not known.
    fn is_made_of(&self, groups: &Groups, group: GroupId, site: SiteId) -> Option<bool> {
        let element = groups.row(group).element?;
        Some(holds(self.types, element.type_id, self.structure(site)?))
    }

    /// Which of the groups whose blocks fit a site may access, by its type: those that are made of it; where none is, those
    /// whose type is not known. Of these the ones whose chunks are made of that size, if there are any; and those of which not
    /// all sizes are known (`None`).
    fn candidates(&self, site: SiteId, fitting: &BTreeMap<GroupId, Option<Fit>>, groups: &Groups) -> BTreeSet<GroupId> {
        let of_kind = |kind| {
            let of_kind = fitting.iter().filter(move |(group, _)| self.is_made_of(groups, **group, site) == kind);
            let of_kind: Vec<_> = of_kind.map(|(&group, &fit)| (group, fit)).collect();
            let best = of_kind.iter().map(|&(_, fit)| fit).max().flatten();
            let fits = move |fit: Option<Fit>| fit.is_none() || fit == best;
            of_kind.into_iter().filter(|&(_, fit)| fits(fit)).map(|(group, _)| group).collect::<BTreeSet<_>>()
        };
        match self.structure(site) {
            Some(_) => Some(of_kind(Some(true))).filter(|of| !of.is_empty()).unwrap_or_else(|| of_kind(None)),
            None => of_kind(None),
        }
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

/// Owners of what sites access.
#[derive(Default)]
struct Owners {
    /// The only one whose size fits, which is of the site's type or was met there.
    known: Vec<(SiteId, GroupId)>,
    /// Estimates: in proportion to the number.
    guessed: Vec<(SiteId, GroupId, u64)>,
}

/// The owners of blocks that were passed over and have so many usable bytes.
fn passed_over(
    sites: &[SiteId],
    usable_bytes: u64,
    groups: &Groups,
    seen: &Seen<'_>,
    made_of: &BTreeMap<TypeId, ByGroup>,
) -> Owners {
    let fitting: BTreeMap<GroupId, Option<Fit>> = groups
        .sizes()
        .map(|(group, sizes)| (group, sizes.fit(usable_bytes), sizes.are_mixed()))
        .filter(|(_, fit, are_mixed)| fit.is_some() || *are_mixed)
        .map(|(group, fit, _)| (group, fit))
        .collect();
    let Owners { mut known, mut guessed } = Owners::default();
    for &site in sites {
        let candidates = seen.candidates(site, &fitting, groups);
        let owners = seen.owners(site, made_of, Some(&candidates));
        let only = candidates.first().copied().filter(|_| candidates.len() == 1);
        match only {
            // Where few are followed, none of these may have been met.
            Some(owner)
                if fitting[&owner].is_some()
                    && (owners.contains_key(&owner) || seen.is_made_of(groups, owner, site) == Some(true)) =>
            {
                known.push((site, owner));
            }
            // Where nothing else tells, any block of that size is as likely.
            _ if owners.is_empty() => {
                let blocks = |&group: &GroupId| groups.sizes_of(group).map_or(0, |sizes| sizes.blocks_of(usable_bytes));
                guessed.extend(candidates.iter().map(|group| (site, *group, blocks(group))));
            }
            _ => guessed.extend(owners.into_iter().map(|(owner, accesses)| (site, owner, accesses))),
        }
    }
    Owners { known, guessed }
}

/// Of the accesses to blocks that were not followed the part whose owner is known.
fn known_share(sites_of: &BTreeMap<GroupId, Vec<SiteId>>, inferred: &Inferred, uses: &Uses) -> f64 {
    let (mut all, mut known) = (0, 0);
    for (&group, sites) in sites_of {
        for &site in sites {
            let accesses = uses[&(group, site)].tally.accesses;
            all += accesses;
            known += if inferred.is_known(group, site) { accesses } else { 0 };
        }
    }
    known as f64 / all.max(1) as f64
}

/// Of blocks that were not followed.
fn not_followed(sites: &[SiteId], seen: &Seen<'_>, made_of: &BTreeMap<TypeId, ByGroup>) -> Vec<(SiteId, GroupId, u64)> {
    let owners = |&site: &SiteId| {
        seen.owners(site, made_of, None).into_iter().map(move |(group, accesses)| (site, group, accesses))
    };
    sites.iter().flat_map(owners).collect()
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
