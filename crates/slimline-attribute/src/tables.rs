//! What attribution found, as tables with typed handles.
//!
//! ```text
//!   AccessBatch.site  ──► Site ──► Loop ──► parent Loop
//!                          │ └───► Frame… (inline stack) ──► source line
//!                          └─────► TypeRef (type accessed, offset in it) ──► Type ──► Member…
//!   AccessBatch.group ──► Group ──► element: TypeRef
//! ```

use std::ops::Range;

use slimline_trace::access::{GroupId, SiteId, ThreadId};
use slimline_trace::address::Svma;

use crate::resolver::Reason;
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

    /// Whose an access is that `site` made to `group`: the group's own; or, to heap blocks that were not followed and at
    /// addresses that could not be told, that of several groups, with the part of each. Parts are disjoint and make up 0
    /// to 1.
    pub fn owners(&self, group: GroupId, site: SiteId) -> impl Iterator<Item = (GroupId, Range<f64>)> {
        let inferred = self.inferred.of(group, site);
        let own = inferred.is_empty().then_some((group, 0.0..1.0));
        let mut from = 0.0;
        let parts = inferred.iter().map(move |&(.., owner, until)| (owner, std::mem::replace(&mut from, until)..until));
        own.into_iter().chain(parts)
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

    /// The thread's row.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }
}

/// Whose accesses are that name no object by themselves: at each instruction, of those groups that it was seen to access
/// otherwise, in proportion to these accesses.
///
/// - Heap blocks that were not followed belong to the groups whose followed blocks the instruction accesses; where it was
///   seen to access none, its function's. At any time blocks are followed by chance, whatever they are. But the part
///   changes as a program allocates: an instruction that uses blocks from before and after favours those of the larger
///   part here.
/// - Samples whose address could not be told belong to the groups that the instruction accesses in other samples and in
///   bursts. What makes an address be lost are the instructions around it, not the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inferred {
    /// Groups that stand for such accesses. What is left of them belongs to instructions of which nothing else was seen.
    groups: Vec<GroupId>,
    /// By group that stands for it and by site: a group and where its part of 0 to 1 ends, in the order of all.
    parts: Vec<(GroupId, SiteId, GroupId, f64)>,
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

/// A loaded module: an executable or a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path as mapped.
    pub path: String,
    /// Build-id in hex where the file has one.
    pub build_id: Option<String>,
    /// What names and lines come from.
    pub symbols: SymbolSource,
}

impl Module {
    /// Last part of the path.
    pub fn file_name(&self) -> &str {
        file_name_of(&self.path)
    }
}

/// Last part of a module's path as the kernel shows it, which marks files that are gone.
pub(crate) fn file_name_of(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or(path)
}

/// Where a module's names come from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSource {
    /// DWARF in the file itself.
    DebugInfo,
    /// DWARF in a separate debug file (`.gnu_debuglink` or build-id).
    SeparateDebugInfo,
    /// ELF symbol table only: functions and variables, no lines, no types.
    SymbolTable,
    /// Dynamic symbols only.
    DynamicSymbols,
    /// Nothing: functions are named by their address.
    Stripped,
    /// The file is gone, unreadable or damaged.
    Unreadable,
}

/// One place in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePosition {
    /// Path as the debug information has it, directory included.
    pub file: String,
    /// 1-based; 0 where not known.
    pub line: u32,
    /// 1-based; 0 where not known.
    pub column: u32,
}

/// One function on a stack: an inlined one or the function that the code really belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Demangled name, or `module+0x1234` where there is none.
    pub function: String,
    /// File name of the module.
    pub module: String,
    /// Where in it.
    pub position: Option<SourcePosition>,
    /// Whether this function was inlined into the next frame.
    pub inlined: bool,
}

impl Frame {
    /// Whether debug information or a symbol names the function, rather than its address alone.
    pub fn is_named(&self) -> bool {
        self.position.is_some() || !self.function.strip_prefix(&self.module).is_some_and(|rest| rest.starts_with('+'))
    }
}

/// A static memory instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its module; `None` for code outside any file (JIT) and the unknown site.
    pub module: Option<ModuleId>,
    /// Its link-time address (run-time address where there is no module).
    pub svma: Svma,
    /// Inline stack, innermost first; the last is the real function. Empty for the unknown site.
    pub frames: Vec<Frame>,
    /// The innermost frame that is the program's own code, not inlined from a library: its place in `frames`.
    pub own_frame: Option<usize>,
    /// Innermost loop.
    pub innermost_loop: Option<LoopId>,
    /// Type that the instruction's operand is known to have, by debug information.
    pub accessed: Option<TypeRef>,
    /// Why `accessed` is not known; `None` where it is, and where the code has no debug information.
    pub untyped: Option<NoType>,
    /// Name of the variable that holds the base address there, where debug information tells.
    pub variable: Option<String>,
}

impl Site {
    /// The row of accesses whose instruction is unknown.
    pub fn unknown() -> Self {
        Self {
            module: None,
            svma: Svma(0),
            frames: Vec::new(),
            own_frame: None,
            innermost_loop: None,
            accessed: None,
            untyped: None,
            variable: None,
        }
    }

    /// Source position of the innermost frame.
    pub fn position(&self) -> Option<&SourcePosition> {
        self.frames.first().and_then(|frame| frame.position.as_ref())
    }

    /// Source position in the innermost frame that is the program's own code, not inlined from a library; `None` where
    /// there is none.
    pub fn own_position(&self) -> Option<&SourcePosition> {
        self.frames.get(self.own_frame?)?.position.as_ref()
    }

    /// Name of the function that the code really belongs to (not an inlined one).
    pub fn function(&self) -> &str {
        self.frames.last().map_or("?", |frame| frame.function.as_str())
    }
}

/// Where code is, as exactly as it can be said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodePlace {
    /// A line of the source.
    Line {
        /// Path as the debug information has it.
        file: String,
        /// 1-based.
        line: u32,
    },
    /// A loop of code without lines.
    Loop {
        /// File name of its module.
        module: String,
        /// Lowest link-time address of its code.
        start: Svma,
        /// The address after the highest.
        end: Svma,
    },
    /// A function without lines, outside of its loops.
    Function {
        /// File name of its module.
        module: String,
        /// Its name, or `module+0x1234` of its start.
        function: String,
    },
}

/// A byte inside a type: "offset 8 of `struct Node`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef {
    /// The outermost structure known.
    pub type_id: TypeId,
    /// Byte offset of the access in it.
    pub offset: u64,
}

/// A loop of the control flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Module that holds it.
    pub module: ModuleId,
    /// Link-time address of its header (of its first entry where it is irreducible).
    pub header: Svma,
    /// Lowest link-time address of its code, and the address after the highest; code that is not its own may lie
    /// between.
    pub start: Svma,
    /// See `start`.
    pub end: Svma,
    /// Function that holds it, as the source has it: an inlined function's name where the whole loop came from there.
    pub function: String,
    /// Source file of its lines.
    pub file: Option<String>,
    /// First and last source line of its own body in that file; 0 where not known.
    pub first_line: u32,
    /// See `first_line`.
    pub last_line: u32,
    /// First and last column of a loop on a single line, where they are known.
    pub columns: Option<(u32, u32)>,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Whether it has more than one entry.
    pub irreducible: bool,
}

impl Loop {
    /// Whether the two are in the same place of the source. A loop beside another one on its line is in other columns.
    fn is_where(&self, other: &Self) -> bool {
        let shown = |of: &Self| (of.module, of.first_line, of.last_line);
        self.file.is_some()
            && self.first_line > 0
            && shown(self) == shown(other)
            && self.function == other.function
            && self.file == other.file
            && may_overlap(self.columns, other.columns)
    }
}

/// Whether two loops may share columns of their line: where the columns of either are not known, they may.
pub(crate) fn may_overlap(one: Option<(u32, u32)>, other: Option<(u32, u32)>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
}

/// What sort of object a group is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// Heap blocks with one allocation call path.
    Heap,
    /// A static variable.
    Static,
    /// Stacks of threads.
    Stack,
    /// A thread-local variable or the thread-local area.
    ThreadLocal,
    /// A mapping that the program made, or a mapped file.
    Mapping,
    /// A variable that an imported file names by itself.
    Named,
    /// No known object.
    Unattributed,
}

/// A data structure as a person would name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The variable that holds it, else its type, else its allocating function and line.
    pub name: String,
    /// What it is made of.
    pub kind: GroupKind,
    /// Allocation: the program's own innermost frame, wrappers looked through. `None` where it isn't allocated.
    pub allocated_at: Option<Frame>,
    /// Allocation call path with inlined frames, innermost first: what is the program's own of it, and where nothing is,
    /// the whole.
    pub stack: Vec<Frame>,
    /// Where a static variable is declared.
    pub declared_at: Option<SourcePosition>,
    /// Element type from debug information.
    pub element: Option<Element>,
    /// Objects of the group that were touched; where `estimated`, most of them that were alive at one time.
    pub objects: u64,
    /// Their size altogether, in bytes.
    pub bytes: u64,
    /// Whether `objects` and `bytes` are estimates, from a part of the blocks.
    pub estimated: bool,
    /// Size of each of them, where all have the same; 0 otherwise.
    pub object_bytes: u64,
    /// Whether there may be objects that were not followed: nothing can be said of how many were not touched.
    pub partly_followed: bool,
    /// Why it stands for no object that one could name; `None` where it does.
    pub nameless: Option<Reason>,
}

impl Group {
    /// The row of accesses that belong to no known object.
    pub fn unattributed() -> Self {
        Self {
            name: "unattributed".to_owned(),
            kind: GroupKind::Unattributed,
            allocated_at: None,
            stack: Vec::new(),
            declared_at: None,
            element: None,
            objects: 0,
            bytes: 0,
            object_bytes: 0,
            partly_followed: false,
            nameless: None,
            estimated: false,
        }
    }

    /// Whether `objects` and `bytes` are about all that there are, where `samples` were taken in them: with more objects
    /// than samples most were touched once, and how many never is not known. Of stacks and variables the mappings and
    /// symbols tell.
    pub fn is_seen_whole(&self, samples: u64) -> bool {
        let may_be_many = matches!(self.kind, GroupKind::Heap | GroupKind::Mapping);
        self.estimated || !may_be_many || !self.partly_followed && self.objects <= samples
    }
}

/// What a group's objects are arrays of, by debug information.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    /// The type.
    pub type_id: TypeId,
    /// Its size in bytes, padding to alignment included: the distance between neighbours.
    pub bytes: u64,
    /// Where the first element starts in the object (an array cookie, a reference count…).
    pub start: u64,
    /// Share of the group's typed access weight that agrees with this type, 0 to 1.
    pub agreement: f64,
}

/// Language that declared a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Fortran.
    Fortran,
    /// Any other.
    Other,
}

/// A type of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name as its language spells it (`struct node`, `ns::Node<int>`, `crate::Node`).
    pub name: String,
    /// Language.
    pub language: Language,
    /// Sort of type.
    pub kind: TypeKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Where it is declared.
    pub declared_at: Option<SourcePosition>,
    /// Members in order of offset; of an array or a scalar none.
    pub members: Vec<Member>,
}

/// Sort of type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// A structure or class, with named members.
    Structure,
    /// A union (also the variant part of a Rust enum): members overlap.
    Union,
    /// A pointer or reference.
    Pointer,
    /// A fixed array.
    Array {
        /// Element type.
        element: TypeId,
        /// Number of elements.
        count: u64,
    },
    /// A number, character, boolean, enumeration.
    Scalar,
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name; of a base class its type's name.
    pub name: String,
    /// Byte offset in the type.
    pub offset: u64,
    /// Size in bytes (of the storage unit, for a bit-field).
    pub bytes: u64,
    /// First bit and number of bits in the storage unit, for a bit-field.
    pub bits: Option<(u8, u8)>,
    /// Its type.
    pub type_id: Option<TypeId>,
    /// Its type as the language spells it.
    pub type_name: String,
    /// What limits moving it.
    pub role: MemberRole,
    /// Line of its declaration; 0 where not known.
    pub line: u32,
}

/// What a member is, as far as moving it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// An ordinary field.
    Field,
    /// A base class subobject.
    Base,
    /// The pointer to the virtual table.
    VirtualTable,
    /// An array without bound at the end of a structure.
    FlexibleArray,
}

/// A thread of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Process it belongs to.
    pub pid: u32,
    /// Kernel's number.
    pub tid: u32,
    /// Name as the kernel had it last.
    pub name: String,
}

/// A leaf of a structure: where nested structures are looked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Path from the outer type: `pos.x`, `edge[2]`.
    pub path: String,
    /// Byte offset in the outer type.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Spelled type of the leaf.
    pub type_name: String,
}

#[cfg(test)]
mod tests {
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
}
