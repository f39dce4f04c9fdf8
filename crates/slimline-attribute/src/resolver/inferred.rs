//! Whose accesses are that name no object by themselves: what the same code was seen to access otherwise.

use std::collections::BTreeMap;

use slimline_trace::access::{GroupId, SiteId};

use super::groups::Groups;
use super::sites::Sites;
use super::typed::Uses;
use crate::tables::Inferred;

/// Owners, in proportion to accesses.
pub(super) fn inferred(groups: &Groups, sites: &Sites, uses: &Uses) -> Inferred {
    let mut inferred = Inferred::default();
    if let Some(group) = groups.not_followed() {
        inferred = inferred.with(group, not_followed(group, sites, uses));
    }
    if let Some(group) = groups.lost_group() {
        inferred = inferred.with(group, lost(group, groups, uses));
    }
    inferred
}

/// Of blocks that were not followed: as the same instruction's are that were, else as its function's.
fn not_followed(group: GroupId, sites: &Sites, uses: &Uses) -> Vec<(SiteId, GroupId, u64)> {
    let mut by_site: BTreeMap<SiteId, Vec<(GroupId, u64)>> = BTreeMap::new();
    let mut by_function: BTreeMap<(&str, &str), BTreeMap<GroupId, u64>> = BTreeMap::new();
    for (&(group, site), used) in uses.iter().filter(|(_, used)| used.in_followed_heap > 0) {
        by_site.entry(site).or_default().push((group, used.in_followed_heap));
        *by_function.entry(function_of(sites, site)).or_default().entry(group).or_default() += used.in_followed_heap;
    }
    let mut followed = Vec::new();
    for &(_, site) in uses.keys().filter(|(of, _)| *of == group) {
        match (by_site.get(&site), by_function.get(&function_of(sites, site))) {
            (Some(own), _) => followed.extend(own.iter().map(|&(group, accesses)| (site, group, accesses))),
            (None, Some(own)) => followed.extend(own.iter().map(|(&group, &accesses)| (site, group, accesses))),
            (None, None) => {}
        }
    }
    followed
}

/// Of samples without an address: as the same instruction's others.
fn lost(lost: GroupId, groups: &Groups, uses: &Uses) -> Vec<(SiteId, GroupId, u64)> {
    let without = uses.keys().filter(|(group, _)| *group == lost).map(|&(_, site)| (site, ()));
    let without: BTreeMap<SiteId, ()> = without.collect();
    let seen = uses.iter().filter(|((group, site), _)| without.contains_key(site) && groups.is_named(*group));
    seen.map(|(&(group, site), used)| (site, group, used.tally.accesses)).collect()
}

/// The function that a site is in, by its outermost frame's module and name.
fn function_of(sites: &Sites, site: SiteId) -> (&str, &str) {
    let frame = sites.row(site).frames.last();
    frame.map_or(("", ""), |frame| (frame.module.as_str(), frame.function.as_str()))
}
