//! What to mind where a layout changes.

use std::path::Path;

use serde::{Serialize, Serializer};
use slimline_analyze::full_trace::held_values::ROOM;
use slimline_analyze::full_trace::object_structures::{FieldShape, Hold, StructureShape};
use slimline_analyze::relayout::candidates::Candidate;
use slimline_analyze::relayout::own_name;
use slimline_analyze::ties::{Reliance, Ties};
use slimline_attribute::tables::{Member, MemberRole, Type, TypeKind};

use crate::full_trace::bounds;
use crate::relayout::NarrowerRow;
use crate::source::seen_from;

/// What to mind where a layout changes, and where that is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// In words.
    pub what: String,
    /// Lines, as `file:line`; none where it is of no line.
    pub at: Vec<String>,
}

impl Caution {
    /// Of no line.
    pub(crate) fn of(what: &str) -> Self {
        Self { what: what.to_owned(), at: Vec::new() }
    }

    /// With files below this directory told relative to it.
    pub(crate) fn seen_from(&self, here: &Path) -> String {
        let at: Vec<String> = self.at.iter().map(|at| seen_from(here, at)).collect();
        if at.is_empty() { self.what.clone() } else { format!("{} at {}", self.what, at.join(", ")) }
    }
}

impl Serialize for Caution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Nothing is below no directory.
        serializer.serialize_str(&self.seen_from(Path::new("")))
    }
}

/// What the fields that get narrower types were seen to hold: another input may have more.
fn narrowed(shape: &StructureShape, candidate: &Candidate) -> Option<Caution> {
    let seen = |&field: &usize| {
        let field = &shape.fields[field];
        let row = NarrowerRow::of(shape.language, field.narrower.as_ref()?);
        Some(format!("{} {} to {} ({})", field.name, row.least, row.greatest, row.type_name))
    };
    let seen: Vec<String> = candidate.types.narrowed.iter().filter_map(seen).collect();
    (!seen.is_empty()).then(|| {
        Caution::of(&format!(
            "narrower types are by what this run was seen to load and store, with room for {ROOM} times as much: {}",
            seen.join(", ")
        ))
    })
}

/// What the fields that become bits were seen to hold.
fn packed(shape: &StructureShape, candidate: &Candidate) -> Option<Caution> {
    let seen = |&field: &usize| {
        let field = &shape.fields[field];
        let few = field.few_bits?;
        let held = few.range.map(|range| {
            let (least, greatest) = bounds(range);
            format!(" {least} to {greatest}")
        });
        let bits = if few.bits == 1 { "1 bit".to_owned() } else { format!("{} bits", few.bits) };
        Some(format!("{}{} ({bits})", field.name, held.unwrap_or_default()))
    };
    let seen: Vec<String> = candidate.types.packed.iter().filter_map(seen).collect();
    (!seen.is_empty()).then(|| {
        Caution::of(&format!(
            "bit-fields are by what this run was seen to load and store, with room for {ROOM} times as much but for what was 0 and 1, and by which threads stored: {}",
            seen.join(", ")
        ))
    })
}

/// What indexes do not lead to.
fn indexed(candidate: &Candidate) -> Option<Caution> {
    (!candidate.types.indexed.is_empty()).then(|| {
        Caution::of(
            "only what is in the pool or array has an index: not one on a stack, in a variable or in another structure, and no pointer with a tag in its lowest bits",
        )
    })
}

/// What to mind where a structure of a trace changes: by values, what relies on its layout, and its declaration.
pub(crate) fn of_layout(shape: &StructureShape, candidate: &Candidate, ties: &Ties) -> Vec<Caution> {
    let types = [narrowed(shape, candidate), packed(shape, candidate), indexed(candidate)];
    let of_it = of_ties(ties).into_iter().chain(Declared::by_trace(shape).cautions());
    types.into_iter().flatten().chain(of_it).collect()
}

/// What to mind where a type of a session changes: what relies on its layout, and its declaration.
pub(crate) fn of_type(type_: &Type, types: &[Type], ties: &Ties) -> Vec<Caution> {
    of_ties(ties).into_iter().chain(Declared::by_type(type_, types).cautions()).collect()
}

/// What relies on a layout.
fn of_ties(ties: &Ties) -> Vec<Caution> {
    const NO_SOURCES: &str =
        "sources that access it are not here: what relies on its layout (offsetof, files of it) was not looked for";
    let caution = |(reliance, words): (Reliance, &str)| {
        let of_it = ties.found.iter().filter(|(_, tie)| tie.reliance == reliance);
        let at: Vec<String> = of_it.map(|(file, tie)| format!("{file}:{}", tie.line)).collect();
        (!at.is_empty()).then(|| Caution { what: words.to_owned(), at })
    };
    let unseen = (!ties.has_sources).then(|| Caution::of(NO_SOURCES));
    unseen.into_iter().chain(RELIANCES.into_iter().filter_map(caution)).collect()
}

/// How sources and other programs rely on a layout, in words.
const RELIANCES: [(Reliance, &str); 6] = [
    (Reliance::Bytes, "it is read, written or compared as bytes"),
    (Reliance::Offsets, "offsets of its members are asked for"),
    (Reliance::Size, "its size is relied on"),
    (Reliance::Declared, "its layout is declared"),
    (Reliance::HandedOn, "code that is not traced gets the address of one of its arrays, which stays by itself,"),
    (
        Reliance::Exported,
        "other programs that were built with its header rely on its layout, as functions or variables of it are exported",
    ),
];

/// Names of types that are locks: of pthreads, C11, OpenMP, C++ and Rust, and what many programs call theirs.
const LOCKS: [&str; 16] = [
    "pthread_mutex_t",
    "pthread_rwlock_t",
    "pthread_spinlock_t",
    "sem_t",
    "mtx_t",
    "omp_lock_t",
    "omp_nest_lock_t",
    "spinlock_t",
    "mutex",
    "timed_mutex",
    "recursive_mutex",
    "recursive_timed_mutex",
    "shared_mutex",
    "shared_timed_mutex",
    "Mutex",
    "RwLock",
];

/// Whether a type is a lock: `pthread_mutex_t`, `std::mutex`, `std::sync::Mutex<u64>`; no pointer to one.
fn is_lock(type_name: &str) -> bool {
    own_name(type_name).is_some_and(|name| LOCKS.contains(&name))
}

/// What the declaration of a structure tells.
struct Declared<'a> {
    has_atomics: bool,
    /// Members that are locks.
    locks: Vec<&'a str>,
    /// Bit-fields, or members of unions.
    has_shared: bool,
    looks_packed: bool,
    /// A parent, virtual functions, or members without a name.
    has_held: bool,
    /// The array without bound at its end.
    open: Option<&'a str>,
}

impl<'a> Declared<'a> {
    fn by_trace(shape: &'a StructureShape) -> Self {
        let is_packed = |field: &FieldShape| {
            !field.is_shared && !field.type_name.contains('[') && is_astray(field.offset.into(), field.bytes.into())
        };
        let locks = shape.fields.iter().filter(|field| is_lock(&field.type_name));
        Self {
            has_atomics: shape.has_atomics,
            locks: locks.map(|field| field.name.as_str()).collect(),
            has_shared: shape.fields.iter().any(|field| field.is_shared),
            looks_packed: !shape.is_columns && shape.fields.iter().any(is_packed),
            has_held: !shape.is_columns && shape.fields.iter().any(|field| field.hold != Hold::None),
            open: None,
        }
    }

    fn by_type(type_: &'a Type, types: &'a [Type]) -> Self {
        let kind = |member: &Member| member.type_id.map(|id| types[id.index()].kind);
        let any = |is: &dyn Fn(&Member) -> bool| type_.members.iter().any(is);
        let is_pointer = |member: &Member| kind(member) == Some(TypeKind::Pointer);
        let locks = type_.members.iter().filter(|member| !is_pointer(member) && is_lock(&member.type_name));
        // One with a name is a member like others.
        let is_union = |member: &Member| member.name.is_empty() && kind(member) == Some(TypeKind::Union);
        let is_single = |member: &Member| {
            let is_number = kind(member) == Some(TypeKind::Scalar) && has_its_alignment(&member.type_name);
            member.bits.is_none() && (is_number || is_pointer(member))
        };
        let is_free = |role: MemberRole| matches!(role, MemberRole::Field | MemberRole::FlexibleArray);
        let open = type_.members.iter().find(|member| member.role == MemberRole::FlexibleArray);
        Self {
            has_atomics: any(&|member| !is_pointer(member) && is_atomic(&member.type_name)),
            locks: locks.map(|member| member.name.as_str()).collect(),
            has_shared: any(&|member| member.bits.is_some() || is_union(member)),
            looks_packed: any(&|member| is_single(member) && is_astray(member.offset, member.bytes)),
            has_held: any(&|member| !is_free(member.role) || member.name.is_empty() && !is_union(member)),
            open: open.map(|member| member.name.as_str()),
        }
    }

    fn cautions(&self) -> Vec<Caution> {
        let lock = self.locks.join(", ");
        let lock = format!(
            "{lock} is a lock: who holds it uses what it guards, which is best kept beside it, and which fields that are nothing here tells"
        );
        let open = format!("{} is an array without bound, which stays last", self.open.unwrap_or_default());
        [
            (self.has_atomics, "it has atomics: other threads' stores to their line cost whatever else is on it"),
            (!self.locks.is_empty(), &lock),
            (self.has_shared, "bit-fields and members of unions move together"),
            (self.looks_packed, "it looks packed: its layout may be a file's, a device's or a protocol's"),
            (self.has_held, "it has a parent, virtual functions, or members without a name, which stay together"),
            (self.open.is_some(), &open),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, what)| Caution::of(what))
        .collect()
    }
}

/// Whether a number or pointer does not lie as it is aligned.
fn is_astray(offset: u64, bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes <= 8 && !offset.is_multiple_of(bytes)
}

/// Whether numbers of a type are aligned as they are large: pairs of numbers and texts of Fortran are not.
fn has_its_alignment(type_name: &str) -> bool {
    !["complex", "Complex", "character"].iter().any(|word| type_name.contains(word))
}

/// Whether a type is an atomic of C, or a standard library's: `_Atomic long`, `atomic_int`, `std::atomic<long>`, `core::sync::atomic::AtomicU64`.
fn is_atomic(type_name: &str) -> bool {
    let path = type_name.split('<').next().unwrap_or(type_name);
    let of_std = path.strip_prefix("std::").map(|name| {
        // libc++ has a namespace for its version.
        name.split_once("::").filter(|(inline, _)| inline.starts_with("__")).map_or(name, |(_, name)| name)
    });
    let of_rust = path.strip_prefix("core::sync::atomic::");
    type_name.starts_with("_Atomic")
        || path.starts_with("atomic_")
        || of_std.is_some_and(|name| name.trim_start_matches('_').starts_with("atomic") && !name.contains("::"))
        || of_rust.is_some_and(|name| name.starts_with("Atomic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_known_by_their_types() {
        for lock in ["pthread_mutex_t", "std::mutex", "std::sync::poison::mutex::Mutex<u64>", "struct spinlock_t"] {
            assert!(is_lock(lock), "{lock}");
        }
        for other in ["pthread_mutex_t *", "struct mutex_stats", "std::unique_ptr<std::mutex>", "long"] {
            assert!(!is_lock(other), "{other}");
        }
    }

    #[test]
    fn atomics_are_known_by_their_types() {
        for atomic in [
            "_Atomic long",
            "std::atomic<long>",
            "std::__1::atomic<long>",
            "core::sync::atomic::AtomicU64",
            "atomic_flag",
        ] {
            assert!(is_atomic(atomic), "{atomic}");
        }
        for other in ["long", "AtomicString", "app::AtomicQueue", "std::shared_ptr<std::atomic<long>>"] {
            assert!(!is_atomic(other), "{other}");
        }
    }
}
