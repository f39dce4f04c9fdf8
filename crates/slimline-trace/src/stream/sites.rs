//! Site tables: what the words of a trace mean.
//!
//! Each translation unit that was compiled with instrumentation has one table, a blob without relocations in the
//! section [`SECTION`] of its object. Linkers concatenate sections, so a linked file has the blobs of all of its units
//! one after the other; [`Module::read_section`] takes them apart again.
//!
//! ```text
//!   0 ┌──────────────────────────┐
//!     │ MAGIC                    │  8 bytes
//!   8 │ VERSION                  │  u32, little-endian, as all numbers of the head
//!  12 │ zero                     │  u32; of a module that had its number before its table was made, as the code that
//!     │                          │  writes its records came first: the lower half of the hash, with its lowest bit set
//!  16 │ bytes of the whole blob  │  u64, a multiple of 8
//!  24 │ module                   │  u64, else ModuleId::from_hash(xxh64 of all that follows)
//!  32 ├──────────────────────────┤
//!     │ numbers, LEB128          │  counts, names, frames, structures, sites, segments
//!     │ zeros up to the length   │
//!     └──────────────────────────┘
//! ```
//!
//! Anybody may have written such a section: a reader trusts no count, no index and no length.

mod accesses;
mod builder;
mod codec;
mod nameless;

pub use super::record::{ModuleId, Relative, SiteKind, ValueKind};
pub use builder::ModuleBuilder;
pub use codec::{SECTION, SitesError, VERSION};
pub use nameless::Nameless;

/// The producer of code that is translated while it runs.
pub const TRANSLATED: &str = "translated";

/// The table of one translation unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Module {
    /// Every name that the table uses; see [`Self::name`].
    pub names: Vec<String>,
    /// The source file, as the compiler was given it.
    pub source: Name,
    /// The object that was compiled, as the compiler was given it.
    pub object: Name,
    /// The directory of compilation: relative names of files start there.
    pub directory: Name,
    /// What compiled it: compiler and version.
    pub producer: Name,
    /// Positions in the source. A frame's caller stands before it.
    pub frames: Vec<Frame>,
    /// Structures that sites access members of or allocate, and those in them, as they are declared: one of each name, but any
    /// number without one. What a structure is made of stands before it.
    pub structures: Vec<Structure>,
    /// The number of its first segment: tables of code that is found while it runs come in parts, one behind the other, of one module.
    pub first_segment: u32,
    /// In the order of their numbers, which are in the records' headers.
    pub segments: Vec<Segment>,
    /// Sites of the first segment, then of the second, and so on.
    pub sites: Vec<Site>,
    /// Functions that were left as they were.
    pub skipped: Vec<Skipped>,
    /// Functions with loops in which nobody asks whether they are to be traced.
    pub unasked: Vec<Unasked>,
    /// What is known of addresses and pointers that are loaded, in the order of the loads.
    pub addresses: Vec<LoadedAddress>,
    /// What loops with accesses, and functions around them, are made of: of a function what is around something before that.
    pub bodies: Vec<Body>,
}

/// A name of its [`Module`]; [`Name::NONE`] is the empty one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Name(pub u32);

impl Name {
    /// Nothing is known.
    pub const NONE: Self = Self(0);

    /// Whether nothing is known.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A position in the source, and where the function around it was inlined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Frame {
    /// The function as in the source, without arguments.
    pub function: Name,
    /// Its file.
    pub file: Name,
    /// From 1; 0 where the compiler made it up.
    pub line: u32,
    /// From 1; 0 where it is not known.
    pub column: u32,
    /// Index in [`Module::frames`] of the call that was inlined.
    pub caller: Option<u32>,
}

/// A structure, class or union. Members that share bytes are a union's, or bit fields.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Structure {
    /// As [`Site::structure`] has it; empty where it has none and is a member of another only.
    pub name: Name,
    /// The name is a `typedef`'s: the structure itself has none.
    pub is_alias: bool,
    /// It is declared in one of the system's headers.
    pub is_foreign: bool,
    /// Its size.
    pub size_bytes: u32,
    /// In the order of their declarations.
    pub members: Vec<Member>,
}

/// A member of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Member {
    /// Empty where it has none.
    pub name: Name,
    /// Its type, as C spells it.
    pub type_name: Name,
    /// From the structure's beginning.
    pub offset_bytes: u32,
    /// Its size; of bit fields that of the bytes that they lie in.
    pub size_bytes: u32,
    /// Index in [`Module::structures`] of what it is, or is an array of.
    pub structure: Option<u32>,
}

/// The accesses of one basic block between two calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Segment {
    /// The segment that always ran right before it, whose record goes on in its own: a lower number.
    pub continues: Option<u32>,
    /// Index of its first site in [`Module::sites`].
    pub first_site: u32,
    /// How many sites it has.
    pub sites: u32,
    /// Words of its record, the header not counted, with those of what it continues; at most
    /// [`MAX_SEGMENT_WORDS`](super::record::MAX_SEGMENT_WORDS).
    pub words: u32,
}

/// One instruction that accesses memory, or does something else that the trace tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    /// What it does, and so which words it writes.
    pub kind: SiteKind,
    /// It is atomic.
    pub is_atomic: bool,
    /// It is volatile.
    pub is_volatile: bool,
    /// Bytes of the access; of one lane where there are lanes; 0 where words say it.
    pub size_bytes: u32,
    /// Lanes of a masked, gathering or scattering access; else 1.
    pub lanes: u16,
    /// What the word behind its address says; none where values are not kept, and of what is larger than a word.
    pub value: Option<ValueKind>,
    /// The function that it was compiled into, as linked.
    pub function: Name,
    /// Index in [`Module::frames`] of its position.
    pub frame: Option<u32>,
    /// The variable that it accesses, or that its pointer came from: `list`, `list->next` (a member that was loaded).
    pub variable: Name,
    /// The structure that it accesses a member of; of an allocation the type that is allocated.
    pub structure: Name,
    /// The member, with those within it after dots: `position.x`.
    pub field: Name,
    /// Offset of the access from the structure's beginning.
    pub offset_bytes: Option<u32>,
    /// Of a copy: what it loads. The other names are of what it stores.
    pub source: Option<CopySource>,
    /// Where its address is told by another site's; none where it has a word of its own.
    pub relative: Option<Relative>,
    /// Another structure that it may access: its pointer comes from several places, of which the first gives the names.
    pub other_structure: Name,
    /// Of an allocation the function that was called, of a static variable its type, of what is not traced why not; of a load, a store or an
    /// update of code that was translated the instruction's address in its file, as linked (`0x10e8`).
    pub detail: Name,
}

/// What is known of the place that a copy loads from, as [`Site`] tells it of the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CopySource {
    /// The variable.
    pub variable: Name,
    /// The structure.
    pub structure: Name,
    /// The member.
    pub field: Name,
    /// From the structure's beginning.
    pub offset_bytes: Option<u32>,
}

impl Site {
    /// A site of this kind and size of which nothing else is known.
    pub const fn new(kind: SiteKind, size_bytes: u32) -> Self {
        Self {
            kind,
            is_atomic: false,
            is_volatile: false,
            size_bytes,
            lanes: 1,
            value: None,
            function: Name::NONE,
            frame: None,
            variable: Name::NONE,
            structure: Name::NONE,
            field: Name::NONE,
            offset_bytes: None,
            source: None,
            relative: None,
            other_structure: Name::NONE,
            detail: Name::NONE,
        }
    }

    /// What a copy loads, as a site of its own; itself where it does not tell that.
    pub fn of_source(&self) -> Self {
        let Some(CopySource { variable, structure, field, offset_bytes }) = self.source else { return *self };
        let (other_structure, source) = (Name::NONE, None);
        Self { variable, structure, field, offset_bytes, other_structure, source, ..*self }
    }

    /// Words that it writes.
    pub const fn words(&self) -> usize {
        self.kind.words(self.lanes, self.value.is_some()) - self.relative.is_some() as usize
    }
}

/// A function that was not instrumented.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Skipped {
    /// As linked.
    pub function: Name,
    /// Why.
    pub reason: Name,
}

/// A function that asks whether it is to be traced when it begins, but not in all of its loops: what a program says in one of those, or
/// windows, takes effect once it is called again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Unasked {
    /// As linked.
    pub function: Name,
    /// Index in [`Module::frames`] of where it was written.
    pub frame: Option<u32>,
    /// Why.
    pub reason: Name,
}

/// What a load's address is computed of, and where what it loads goes: of each load of which any is known.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LoadedAddress {
    /// Index in [`Module::sites`] of the load.
    pub site: u32,
    /// Indexes of loads in its innermost loop that its address is computed of, with nothing else but what the loop leaves as it is or counts up;
    /// empty where there are none, or the address comes of something else, too.
    pub loads: Vec<u32>,
    /// One of these was loaded in a step before, by an address that came of that: `node = node->next`.
    pub is_carried: bool,
    /// It loads a pointer that goes on to where its way is not followed: another function, or the next step of a loop.
    pub leads_on: bool,
    /// Instructions that compute the address of these.
    pub instructions: u32,
}

/// What a step of a loop is made of, or a call of a function, without the loops in it that access memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Body {
    /// Instructions, as the compiler's intermediate code has them, but for those that other instructions usually have in them.
    pub instructions: u32,
    /// Indexes in [`Module::sites`] of its loads and stores.
    pub sites: Vec<u32>,
    /// Index in [`Module::bodies`], where it is before this one, of the next one around this one, which has accesses of its own, too.
    pub around: Option<u32>,
    /// It is a loop's.
    pub is_loop: bool,
}

impl Module {
    /// The table of what the runtime writes by itself, of which no object tells.
    pub fn of_runtime() -> (ModuleId, Self) {
        let mut builder = ModuleBuilder::new();
        use SiteKind::{Forks, Inherits, Region, Resumes, Shared, Unwatch, Watch};
        for kind in [Resumes, Region, Watch, Unwatch, Forks, Inherits, Shared] {
            builder.segment([Site::new(kind, 0)]);
        }
        (ModuleId::RUNTIME, builder.finish("", "", "", ""))
    }

    /// Whether it is of code that is found while it runs: then its table comes in parts, and calls are seen that are of none.
    pub fn is_translated(&self) -> bool {
        self.name(self.producer) == TRANSLATED
    }

    /// The text of a name; empty where the module does not have it.
    pub fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", String::as_str)
    }

    /// The sites of a segment, without those of what it continues; none where the module does not have it.
    pub fn sites_of(&self, segment: u32) -> &[Site] {
        let Some(segment) = self.segments.get(segment as usize) else { return &[] };
        let first = segment.first_site as usize;
        self.sites.get(first..first + segment.sites as usize).unwrap_or(&[])
    }

    /// Where a site stands: the function that it was written in first, the one that it was compiled into last.
    pub fn frames_of(&self, site: &Site) -> impl Iterator<Item = &Frame> {
        let frame = |index: u32| self.frames.get(index as usize);
        // A caller stands before what it calls, so this ends.
        std::iter::successors(site.frame.and_then(frame), move |inner| inner.caller.and_then(frame))
    }
}
