//! Data structures, their fields and layout.

use serde::{Deserialize, Serialize};

use super::{Interval, Served};

/// A data structure.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Group {
    /// Handle, for `loops` and `advice`.
    pub id: u32,
    /// Name.
    pub name: String,
    /// `heap`, `static`, `stack`, `thread_local`, `mapping`, `shared_memory`, `file`, `named`, `unattributed`.
    pub kind: String,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// Samples that it rests on.
    pub samples: u64,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
    /// The most objects that were alive at one time, where that is known; else all that samples and bursts touched.
    pub blocks: u64,
    /// Their size.
    pub bytes: u64,
    /// Whether there may be many more than `blocks` and `bytes` say: they outnumber `samples`, or not all were followed.
    pub blocks_at_least: bool,
    /// Whether `blocks` and `bytes` are estimates, from a part of the blocks.
    pub blocks_estimated: bool,
    /// Where it is allocated; none where it isn't.
    pub allocated_at: Option<Place>,
    /// Where it is declared; none where not known.
    pub declared_at: Option<Position>,
    /// Element type; none where debug information does not tell.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Element size; none where there is no evidence.
    pub element_bytes: Option<u64>,
    /// `debug_info` or `stride`.
    pub element_from: Option<String>,
    /// How sure, 0 to 1.
    pub element_confidence: Option<f64>,
    /// All fields that debug information names, else those accessed; by offset.
    pub fields: Vec<Field>,
    /// Share of the group's weight that is in none of them: beside or before the first element, in padding, or the whole
    /// group's where its fields are not known.
    pub elsewhere: f64,
    /// Pairs with any affinity, strongest first.
    pub affinity: Vec<Affinity>,
    /// Offsets of the fields that belong together, one list a new structure, hottest first.
    pub clusters: Vec<Vec<u64>>,
    /// The element type as declared, holes included, where debug information has it.
    pub layout: Option<Layout>,
    /// Threads that have a hundredth of its time, or of its accesses, or more; the busiest first.
    pub threads: Vec<GroupThread>,
    /// Whether several of them use it at the same time, and one stores; none where not. What that costs is not judged.
    pub sharing: Option<Sharing>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

/// How a thread uses a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupThread {
    /// Kernel's number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Name.
    pub name: String,
    /// Share of the group's weight.
    pub share: f64,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
}

/// What is known of a group that several threads use at the same time, one of them storing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Sharing {
    /// `shared`: lines were seen that one thread stored to and another one used. `apart`: of many lines that were met
    /// again, none. `unknown`: too few were met again.
    pub evidence: String,
    /// Cache lines looked at: all that were accessed, or a random part of them.
    pub lines: u64,
    /// Those that more than one window of accesses showed.
    pub lines_met_again: u64,
    /// Those that one thread stored to and another one used.
    pub lines_shared: u64,
}

/// Where something is allocated.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Place {
    /// Function.
    pub function: String,
    /// Source file; none without debug information.
    pub file: Option<String>,
    /// Line; 0 where not known.
    pub line: u32,
    /// Call path, innermost first, as `function file:line`.
    pub stack: Vec<String>,
}

/// A place in the source.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Position {
    /// Source file.
    pub file: String,
    /// Line.
    pub line: u32,
}

/// A field of a group's element.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Field {
    /// Byte offset in the element.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Name; `+40` where there is none.
    pub name: String,
    /// Share of the group's weight.
    pub share: f64,
    /// 95 % interval of `share`: of sampling the time, not of how a cache line's time was divided among its fields.
    pub share_interval: Interval,
    /// Share of the group's accesses, as bursts and paces tell.
    pub access_share: f64,
    /// 95 % interval of `access_share`: of what samples and bursts showed by chance, not of paces.
    pub access_share_interval: Interval,
    /// Loads seen in bursts.
    pub loads: u64,
    /// Stores seen in bursts.
    pub stores: u64,
    /// Distance between successive accesses in a loop; none where irregular or not seen.
    pub stride_bytes: Option<i64>,
    /// Rows of the report's `loops` that touch it, costliest first.
    pub loops: Vec<usize>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

impl Field {
    /// Whether anything was seen to use it.
    pub fn is_used(&self) -> bool {
        let is_seen = self.share > 0.0 || self.access_share > 0.0 || self.loads + self.stores > 0;
        is_seen || !self.loops.is_empty() || self.served.is_some()
    }

    /// Whether it was only seen to be reached by wide loads of several elements that begin in an earlier field, as vector
    /// code makes them: whether their values of it are used is not visible.
    pub fn is_only_spanned(&self) -> bool {
        let is_begun_in = self.share > 0.0 || self.access_share > 0.0 || self.loads + self.stores > 0;
        self.is_used() && !is_begun_in && self.served.is_none()
    }
}

/// How much two fields are used together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Affinity {
    /// Offset of the one.
    pub a: u64,
    /// Offset of the other.
    pub b: u64,
    /// 0 to 1.
    pub value: f64,
}

/// A structure as declared.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Layout {
    /// Name as the language spells it.
    pub name: String,
    /// `c`, `c++`, `rust`, `fortran`, `other`.
    pub language: String,
    /// Size.
    pub bytes: u64,
    /// Members, in order of offset.
    pub members: Vec<LayoutMember>,
}

/// A member of a structure, or a hole in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LayoutMember {
    /// Byte offset.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Name; empty for a hole, and for a structure or union without one.
    pub name: String,
    /// Type as the language spells it; empty for a hole.
    pub type_name: String,
    /// First bit and number of bits, for a bit-field.
    pub bits: Option<(u8, u8)>,
    /// How deep it is nested; 0 for a direct member.
    pub depth: u32,
    /// Whether deeper rows follow that make up this one (a nested structure, a union without a name).
    pub nested: bool,
    /// Whether it is a hole at the end of its structure, which no order of the members closes.
    pub padding: bool,
}

impl LayoutMember {
    /// Whether no member uses these bytes.
    pub fn is_hole(&self) -> bool {
        self.type_name.is_empty()
    }
}
