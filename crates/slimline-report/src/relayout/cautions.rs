//! What to mind where a layout changes.

use std::path::Path;

use serde::{Serialize, Serializer};
use slimline_analyze::full_trace::held_values::ROOM;
use slimline_analyze::full_trace::object_structures::{FieldShape, Hold, StructureShape};
use slimline_analyze::relayout::candidates::Candidate;
use slimline_analyze::relayout::ties::{Reliance, Tie};

use super::NarrowerRow;
use crate::full_trace::bounds;
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
    pub(super) fn of(what: &str) -> Self {
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

/// What to mind where a structure changes, as far as values, sources and its declaration tell.
pub(super) fn cautions(shape: &StructureShape, candidate: &Candidate, ties: Option<&[(String, Tie)]>) -> Vec<Caution> {
    let types = [narrowed(shape, candidate), packed(shape, candidate), indexed(candidate)];
    let mut cautions: Vec<Caution> = types.into_iter().flatten().collect();
    let Some(ties) = ties else {
        cautions.push(Caution::of(
            "sources that access it are not here: what relies on its layout (offsetof, files of it) was not looked for",
        ));
        return with_declared(shape, cautions);
    };
    for (reliance, words) in RELIANCES {
        let of_it = ties.iter().filter(|(_, tie)| tie.reliance == reliance);
        let at: Vec<String> = of_it.map(|(file, tie)| format!("{file}:{}", tie.line)).collect();
        if !at.is_empty() {
            cautions.push(Caution { what: words.to_owned(), at });
        }
    }
    with_declared(shape, cautions)
}

/// How sources rely on a layout, in words.
const RELIANCES: [(Reliance, &str); 5] = [
    (Reliance::Bytes, "it is read, written or compared as bytes"),
    (Reliance::Offsets, "offsets of its members are asked for"),
    (Reliance::Size, "its size is relied on"),
    (Reliance::Declared, "its layout is declared"),
    (Reliance::HandedOn, "code that is not traced gets the address of one of its arrays, which stays by itself,"),
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
    let name = type_name.split('<').next().unwrap_or(type_name);
    let name = name.rsplit("::").next().unwrap_or(name);
    LOCKS.contains(&name.strip_prefix("struct ").unwrap_or(name))
}

/// And what its declaration tells.
fn with_declared(shape: &StructureShape, mut cautions: Vec<Caution>) -> Vec<Caution> {
    if shape.has_atomics {
        cautions.push(Caution::of("it has atomics: other threads' stores to their line cost whatever else is on it"));
    }
    let locks = shape.fields.iter().filter(|field| is_lock(&field.type_name));
    let locks: Vec<&str> = locks.map(|field| field.name.as_str()).collect();
    if !locks.is_empty() {
        cautions.push(Caution::of(&format!(
            "{} is a lock: who holds it uses what it guards, which is best kept beside it, and which fields that are no trace tells",
            locks.join(", ")
        )));
    }
    if shape.fields.iter().any(|field| field.is_shared) {
        cautions.push(Caution::of("bit-fields and members of unions move together"));
    }
    let is_packed = |field: &FieldShape| {
        field.bytes.is_power_of_two()
            && field.bytes <= 8
            && !field.is_shared
            && !field.offset.is_multiple_of(field.bytes)
            && !field.type_name.contains('[')
    };
    if !shape.is_columns && shape.fields.iter().any(is_packed) {
        cautions.push(Caution::of("it looks packed: its layout may be a file's, a device's or a protocol's"));
    }
    if !shape.is_columns && shape.fields.iter().any(|field| field.hold != Hold::None) {
        cautions
            .push(Caution::of("it has a parent, virtual functions, or members without a name, which stay together"));
    }
    cautions
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
}
