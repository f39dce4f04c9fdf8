//! Data: groups of objects and the types that they are made of.

use std::iter::Sum;

use super::{Frame, SourcePosition, TypeId};
use crate::resolver::Reason;

/// A byte inside a type: "offset 8 of `struct Node`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef {
    /// The outermost structure known.
    pub type_id: TypeId,
    /// Byte offset of the access in it.
    pub offset: u64,
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
    /// Memory of the process's own that it had the kernel map: by `mmap` or by moving the break.
    Mapping,
    /// Memory that other processes may have mapped too, and no file.
    SharedMemory,
    /// A mapped file.
    File,
    /// A variable that an imported file names by itself.
    Named,
    /// No known object.
    Unattributed,
}

impl GroupKind {
    /// Whether the program had the kernel map it.
    pub fn is_mapped(self) -> bool {
        matches!(self, Self::Mapping | Self::SharedMemory | Self::File)
    }
}

/// How much there is of a data structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Objects.
    pub objects: u64,
    /// Their size altogether, in bytes.
    pub bytes: u64,
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        let add = |sum: Self, one: Self| Self {
            objects: sum.objects.saturating_add(one.objects),
            bytes: sum.bytes.saturating_add(one.bytes),
        };
        amounts.fold(Self::default(), add)
    }
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
    /// The most that was alive at one time, touched or not, where that is known: all blocks were counted, or enough of them.
    pub alive: Option<Amount>,
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
            alive: None,
            object_bytes: 0,
            partly_followed: false,
            nameless: None,
            estimated: false,
        }
    }

    /// How much there was of it at one time, where that is known; else all that was touched.
    pub fn at_one_time(&self) -> Amount {
        self.alive.unwrap_or(Amount { objects: self.objects, bytes: self.bytes })
    }

    /// Whether [`Self::at_one_time`] is about all that there is, where `samples` were taken in them: with more objects
    /// than samples most were touched once, and how many never is not known. Of stacks and variables the mappings and
    /// symbols tell.
    pub fn is_seen_whole(&self, samples: u64) -> bool {
        let may_be_many = self.kind == GroupKind::Heap || self.kind.is_mapped();
        self.estimated || self.alive.is_some() || !may_be_many || !self.partly_followed && self.objects <= samples
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    #[default]
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

impl Type {
    /// Whether a standard library declares it.
    pub fn is_library(&self) -> bool {
        ["core::", "alloc::", "std::", "__gnu_cxx::"].iter().any(|library| self.name.starts_with(library))
    }

    /// Whether it ends in an array of any length (C's flexible array member).
    pub fn is_open(&self) -> bool {
        self.members.last().is_some_and(|last| last.role == MemberRole::FlexibleArray)
    }

    /// Whether its definition is nobody's to change: a standard library's, or one of Rust's own making (`(u32, f32)`,
    /// `&str`).
    pub fn is_built_in(&self) -> bool {
        let has_no_path = |name: &str| !name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        self.is_library() || self.language == Language::Rust && has_no_path(&self.name)
    }
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
    /// One of a virtual base of the object's own class.
    VirtualBase,
    /// One of a virtual base that only its bases have, who bring it along wherever they are a member.
    InheritedVirtualBase,
    /// The pointer to the virtual table.
    VirtualTable,
    /// An array without bound at the end of a structure.
    FlexibleArray,
}

impl MemberRole {
    /// Whether its fields are the class's own.
    pub fn is_base(self) -> bool {
        self == Self::Base || self.is_virtual_base()
    }

    /// Whether it lies where the virtual table says.
    pub fn is_virtual_base(self) -> bool {
        matches!(self, Self::VirtualBase | Self::InheritedVirtualBase)
    }
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
