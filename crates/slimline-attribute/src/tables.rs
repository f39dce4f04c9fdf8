//! What attribution found, as tables with typed handles.
//!
//! ```text
//!   AccessBatch.site  ──► Site ──► Loop ──► parent Loop
//!                          │ └───► Frame… (inline stack) ──► source line
//!                          └─────► TypeRef (type accessed, offset in it) ──► Type ──► Member…
//!   AccessBatch.group ──► Group ──► element: TypeRef
//! ```

mod code;
mod data;

use std::collections::BTreeMap;
use std::ops::Range;

use slimline_trace::access::{CallPathId, GroupId, SiteId, ThreadId};

pub use self::code::{CallPath, CodePlace, Frame, Loop, Module, Site, SourcePosition, SymbolSource};
pub(crate) use self::code::{file_name_of, may_overlap};
pub use self::data::{
    Amount, Element, Group, GroupKind, Language, Leaf, Member, MemberRole, Thread, Type, TypeKind, TypeRef,
};
use crate::typing::element::holds;
pub use crate::typing::infer::Reason as NoType;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The row of the table that this handle names.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A loaded module; a row of [`Tables::modules`].
    ModuleId
}
id! {
    /// A loop of the binary's control flow; a row of [`Tables::loops`].
    LoopId
}
id! {
    /// A frame of a sample's call path; a row of [`Tables::callers`].
    CallerId
}
id! {
    /// A type of the program; a row of [`Tables::types`].
    TypeId
}

/// Everything attribution found in one session.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Modules, by [`ModuleId`].
    pub modules: Vec<Module>,
    /// Memory instructions, by [`SiteId`]. Row 0 is always [`Site::unknown`].
    pub sites: Vec<Site>,
    /// Loops, by [`LoopId`].
    pub loops: Vec<Loop>,
    /// Data structures, by [`GroupId`]. Row 0 is always [`Group::unattributed`].
    pub groups: Vec<Group>,
    /// Types, by [`TypeId`].
    pub types: Vec<Type>,
    /// Threads, by [`ThreadId`].
    pub threads: Vec<Thread>,
    /// Who called where samples were taken, by [`CallPathId`]; empty where it was not asked for.
    pub call_paths: Vec<CallPath>,
    /// Frames of these, by [`CallerId`].
    pub callers: Vec<Frame>,
    /// Whose accesses are that name no object by themselves.
    pub inferred: Inferred,
}

impl Tables {
    /// Tables that hold the two fixed rows only.
    pub fn new() -> Self {
        Self { sites: vec![Site::unknown()], groups: vec![Group::unattributed()], ..Self::default() }
    }

    /// The site of the accesses whose instruction is unknown.
    pub const UNKNOWN_SITE: SiteId = SiteId(0);
    /// The group of the accesses that belong to no known object.
    pub const UNATTRIBUTED: GroupId = GroupId(0);

    /// The owners of the accesses that `site` made to `group`: all belongs to one, `None`; or a part to each of several, by
    /// estimate. Parts are disjoint and make up 0 to 1.
    pub fn owners(&self, group: GroupId, site: SiteId) -> impl Iterator<Item = (GroupId, Option<Range<f64>>)> {
        let inferred = self.inferred.of(group, site);
        let whole = inferred.is_empty().then(|| (self.inferred.whole(group, site), None));
        let mut from = 0.0;
        let parts =
            inferred.iter().map(move |&(.., owner, until)| (owner, Some(std::mem::replace(&mut from, until)..until)));
        whole.into_iter().chain(parts)
    }

    /// The owner of all accesses that `site` made to `group`; where there are several, `group` itself.
    pub fn sole_owner(&self, group: GroupId, site: SiteId) -> GroupId {
        self.owners(group, site).find_map(|(owner, part)| part.is_none().then_some(owner)).unwrap_or(group)
    }

    /// The site's row.
    pub fn site(&self, id: SiteId) -> &Site {
        &self.sites[id.index()]
    }

    /// The line of an instruction, or what is known instead: its innermost loop, its function. `None` where it is not known
    /// which instruction it is.
    pub fn code_place(&self, id: SiteId) -> Option<CodePlace> {
        let site = self.site(id);
        let outermost = site.frames.last()?;
        if let Some(at) = site.position() {
            return Some(CodePlace::Line { file: at.file.clone(), line: at.line });
        }
        let module = outermost.module.clone();
        Some(match site.innermost_loop.map(|id| &self.loops[id.index()]) {
            Some(found) => CodePlace::Loop { module, start: found.start, end: found.end },
            None => CodePlace::Function { module, function: outermost.function.clone() },
        })
    }

    /// The group's row.
    pub fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.index()]
    }

    /// Whether a reader of the source could not tell two loops apart: copies of one, made where its function was inlined
    /// or its macro expanded, however deep that is.
    pub fn are_copies(&self, one: LoopId, other: LoopId) -> bool {
        let (a, b) = (&self.loops[one.index()], &self.loops[other.index()]);
        one == other || a.is_where(b) && self.loops_around_in_place(one) == self.loops_around_in_place(other)
    }

    /// How many of the loops around a loop are in the same place of the source as itself: a nest on one line.
    pub fn loops_around_in_place(&self, id: LoopId) -> usize {
        let inner = &self.loops[id.index()];
        let around = std::iter::successors(inner.parent, |parent| self.loops[parent.index()].parent);
        around.filter(|parent| self.loops[parent.index()].is_where(inner)).count()
    }

    /// The type's row.
    pub fn type_(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }

    /// Whether the type has fields.
    pub fn is_structure(&self, id: TypeId) -> bool {
        matches!(self.type_(id).kind, TypeKind::Structure | TypeKind::Union)
    }

    /// The type that `site` uses a group's objects as: what they are arrays of, unless debug information has the
    /// instruction access a structure that is no part of that (in a pool of unlike things).
    pub fn used_type(&self, group: GroupId, site: SiteId) -> Option<TypeId> {
        let element = self.group(group).element.map(|element| element.type_id);
        let accessed = self.site(site).accessed.map(|accessed| accessed.type_id).filter(|&id| self.is_structure(id));
        match (element, accessed) {
            (Some(element), Some(accessed)) if !holds(&self.types, element, accessed) => Some(accessed),
            (element, accessed) => element.or(accessed),
        }
    }

    /// The call path's row.
    pub fn call_path(&self, id: CallPathId) -> &CallPath {
        &self.call_paths[id.index()]
    }

    /// The thread's row.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }
}

/// Whose accesses are that name no object by themselves: at each instruction, of those groups that it was seen to access
/// otherwise, in proportion to these accesses (of those made of its type, to how many of each were met).
///
/// - Heap blocks that were not followed belong to the groups whose followed blocks the instruction accesses; where it was
///   seen to access none, those that others access by the same type, of its function before any of the program; else those
///   made of that type; else its function's. Chance decides which blocks are followed. If one block in n
///   was, each access to it counts as n - 1 accesses to blocks that were not.
/// - Where the allocator's tags show a block's bounds, its owner must have blocks of that size, or of sizes that are not all
///   known, and be made of the type that the instruction accesses, or of one that is not known. If one such group is left, and
///   code was seen to access it so, all belongs to it.
/// - Samples whose address could not be told belong to the groups that the instruction accesses in other samples and in
///   bursts. What makes an address be lost are the instructions around it, not the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inferred {
    /// Groups that stand for such accesses. What is left of them belongs to instructions of which nothing else was seen.
    groups: Vec<GroupId>,
    /// By group that stands for it and by site: a group and where its part of 0 to 1 ends, in the order of all.
    parts: Vec<(GroupId, SiteId, GroupId, f64)>,
    /// The only group that fits, by the group that stands for the accesses and by site.
    known: BTreeMap<(GroupId, SiteId), GroupId>,
    /// Of a group that stands for accesses the owner of all of them.
    only: BTreeMap<GroupId, GroupId>,
    /// Where accesses go to which no group fits.
    rests: BTreeMap<GroupId, GroupId>,
    /// Of the accesses to blocks that were not followed the part with an owner that is known, 0 to 1.
    pub known_share: f64,
}

impl Inferred {
    /// With what `group` stands for, from how many accesses to each of the owners stand for each site.
    #[must_use]
    pub fn with(mut self, group: GroupId, mut seen: Vec<(SiteId, GroupId, u64)>) -> Self {
        seen.retain(|&(.., accesses)| accesses > 0);
        seen.sort_unstable();
        for of_site in seen.chunk_by(|a, b| a.0 == b.0) {
            let all: u64 = of_site.iter().map(|&(.., accesses)| accesses).sum();
            let mut until = 0;
            self.parts.extend(of_site.iter().map(|&(site, owner, accesses)| {
                until += accesses;
                (group, site, owner, until as f64 / all as f64)
            }));
        }
        self.parts.sort_by_key(|part| (part.0, part.1, part.2));
        self.groups.push(group);
        self
    }

    /// With the owners of what `group` stands for at sites where one alone fits. `sites` is how many access it.
    #[must_use]
    pub fn with_known(mut self, group: GroupId, owners: Vec<(SiteId, GroupId)>, sites: usize) -> Self {
        if let [(_, first), ..] = owners[..]
            && owners.len() == sites
            && owners.iter().all(|(_, owner)| *owner == first)
        {
            self.only.insert(group, first);
        }
        self.known.extend(owners.into_iter().map(|(site, owner)| ((group, site), owner)));
        self
    }

    /// With the group to which what `group` stands for belongs where no owner fits.
    #[must_use]
    pub fn with_rest(mut self, group: GroupId, rest: GroupId) -> Self {
        self.rests.insert(group, rest);
        self
    }

    /// Whether the accesses of a site to what a group stands for can have one owner only.
    pub fn is_known(&self, group: GroupId, site: SiteId) -> bool {
        self.known.contains_key(&(group, site))
    }

    /// The group to which all belongs that `group` stands for, if there is one; itself where it stands for nothing.
    pub fn only_owner(&self, group: GroupId) -> GroupId {
        self.only.get(&group).copied().unwrap_or(group)
    }

    /// The group to which all accesses of a site belong that one alone fits, or none.
    fn whole(&self, group: GroupId, site: SiteId) -> GroupId {
        self.known.get(&(group, site)).or_else(|| self.rests.get(&group)).copied().unwrap_or(group)
    }

    /// Whether a group stands for such accesses.
    pub fn stands_in(&self, group: GroupId) -> bool {
        self.groups.contains(&group)
    }

    fn of(&self, group: GroupId, site: SiteId) -> &[(GroupId, SiteId, GroupId, f64)] {
        let start = self.parts.partition_point(|part| (part.0, part.1) < (group, site));
        let end = self.parts.partition_point(|part| (part.0, part.1) <= (group, site));
        &self.parts[start..end]
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::address::Svma;

    use super::*;

    /// An outermost loop of `sum` in these lines of a.c.
    fn in_lines(first_line: u32, last_line: u32) -> Loop {
        Loop {
            module: ModuleId(0),
            header: Svma(0x1000),
            start: Svma(0x1000),
            end: Svma(0x1040),
            function: "sum".to_owned(),
            file: Some("a.c".to_owned()),
            first_line,
            last_line,
            columns: None,
            parent: None,
            depth: 1,
            irreducible: false,
            call: None,
            leaves_early: false,
        }
    }

    #[test]
    fn what_can_be_told_apart_is_no_copy() {
        let found = in_lines(7, 9);
        let inlined_again = Loop { header: Svma(0x2000), start: Svma(0x2000), end: Svma(0x2040), ..found.clone() };
        assert!(found.is_where(&inlined_again));
        for other in [
            Loop { last_line: 8, ..found.clone() },
            Loop { function: "add".to_owned(), ..found.clone() },
            Loop { file: Some("b.c".to_owned()), ..found.clone() },
            Loop { module: ModuleId(1), ..found.clone() },
        ] {
            assert!(!found.is_where(&other), "{other:?}");
        }
        let on_one_line = |columns| Loop { last_line: 7, columns, ..found.clone() };
        assert!(on_one_line(Some((3, 20))).is_where(&on_one_line(Some((12, 25)))));
        assert!(on_one_line(Some((3, 20))).is_where(&on_one_line(None)));
        assert!(!on_one_line(Some((3, 20))).is_where(&on_one_line(Some((24, 40)))), "for (…) …; for (…) …;");
        let stripped = Loop { file: None, first_line: 0, last_line: 0, ..found };
        assert!(!stripped.is_where(&stripped), "without lines any two loops of a function look alike");
    }

    /// A nest on one line, inlined in a straight function and in a loop of another line: outer loops are copies of each
    /// other and inner ones are, whatever their depth.
    #[test]
    fn copies_are_alike_in_their_own_nest() {
        let a_loop =
            |line, parent: Option<u32>, depth| Loop { parent: parent.map(LoopId), depth, ..in_lines(line, line) };
        let mut tables = Tables::new();
        tables.loops = vec![
            a_loop(7, None, 1),
            a_loop(7, Some(0), 2),
            a_loop(20, None, 1),
            a_loop(7, Some(2), 2),
            a_loop(7, Some(3), 3),
        ];
        let copies = |of: u32| (0..5).filter(|&other| tables.are_copies(LoopId(of), LoopId(other))).collect::<Vec<_>>();
        assert_eq!([copies(0), copies(1), copies(2)], [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!((0..5).map(|id| tables.loops_around_in_place(LoopId(id))).collect::<Vec<_>>(), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_group_with_one_owner_is_its_own_at_every_site() {
        let [tags, other, nodes, leaves] = [1, 2, 3, 4].map(GroupId);
        let of_nodes = || vec![(SiteId(7), nodes), (SiteId(9), nodes)];
        let one = Inferred::default().with_known(tags, of_nodes(), 2);
        assert_eq!([one.only_owner(tags), one.only_owner(other)], [nodes, other]);
        assert!(one.is_known(tags, SiteId(7)) && !one.is_known(tags, SiteId(8)));
        let of_both = vec![(SiteId(7), nodes), (SiteId(8), leaves)];
        assert_eq!(Inferred::default().with_known(tags, of_both, 2).only_owner(tags), tags);
        let guessed = Inferred::default().with_known(tags, of_nodes(), 3);
        assert_eq!(guessed.only_owner(tags), tags, "a third site accesses it");
        let guessed = guessed.with(tags, vec![(SiteId(8), nodes, 1), (SiteId(8), leaves, 3)]);
        let tables = Tables { inferred: guessed.with_rest(tags, other), ..Tables::new() };
        let owners = |site| tables.owners(tags, SiteId(site)).collect::<Vec<_>>();
        assert_eq!(owners(7), [(nodes, None)]);
        assert_eq!(owners(8), [(nodes, Some(0.0..0.25)), (leaves, Some(0.25..1.0))]);
        assert_eq!(owners(6), [(other, None)]);
        assert_eq!([7, 8].map(|site| tables.sole_owner(tags, SiteId(site))), [nodes, tags]);
    }
}
