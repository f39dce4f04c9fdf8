//! Structures looked through down to their leaves.
//!
//! Leaves never overlap. What shares bytes is one leaf, because it can only move as one: the bit-fields of a storage
//! unit, the alternatives of a union (a nested union by its name, an anonymous one as `i|f`), an enum of Rust.
//! Nested structures and arrays of up to [`MAX_SPELLED_ELEMENTS`] elements are looked through; longer arrays are one
//! leaf, and so are those of single bytes: text and flags are read as wide as the processor likes. What a standard library wraps around one value (`Unique`, `NonNull`, `_Head_base`) is not named.

use super::effort::{Descent, Effort};
use crate::tables::{Language, Leaf, Member, MemberRole, Type, TypeId, TypeKind};

/// Arrays of more elements than this are one leaf: a report of each element would not be read.
pub const MAX_SPELLED_ELEMENTS: u64 = 16;
/// Beyond that many members, nested structures are leaves themselves: nobody reads so many.
const MOST_MEMBERS: u32 = 4096;
/// Structures in structures that are looked through for what is not the program's own.
const MOST_NESTED: u32 = 32;
/// Wrappers of wrappers that are looked through.
const MAX_WRAPPERS: u32 = 32;

/// Bytes of a structure that no member uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Where they start.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// All leaves of `id`, by offset, without overlap. A scalar, pointer or array has one: itself, with an empty path.
pub fn leaves(types: &[Type], id: TypeId) -> Vec<Leaf> {
    let mut found = Vec::new();
    let type_ = &types[id.index()];
    match type_.kind {
        TypeKind::Structure | TypeKind::Union => {
            collect(types, type_, "", 0, Effort::of(MOST_MEMBERS).begin(), &mut found);
        }
        TypeKind::Pointer | TypeKind::Scalar | TypeKind::Array { .. } => {
            found.push(Leaf { path: String::new(), offset: 0, bytes: type_.bytes, type_name: type_.name.clone() })
        }
    }
    merge_overlapping(found)
}

/// The leaf that holds the byte at `offset` of `id`; `None` in a hole and outside.
///
/// Behind the end of a structure with a flexible array it is that array.
pub fn field_at(types: &[Type], id: TypeId, offset: u64) -> Option<Leaf> {
    let flexible = types[id.index()].members.last().filter(|last| last.role == MemberRole::FlexibleArray);
    if let Some(last) = flexible.filter(|last| offset >= last.offset) {
        return Some(Leaf {
            path: last.name.clone(),
            offset: last.offset,
            bytes: 0,
            type_name: last.type_name.clone(),
        });
    }
    leaves(types, id).into_iter().find(|leaf| leaf.offset <= offset && offset - leaf.offset < leaf.bytes)
}

/// The outermost member that holds the byte at `offset` of `id` and is of a type whose inside is not the program's own to
/// rearrange: a standard library's, one of Rust's own making, one of another crate. `None` where there is none.
pub fn foreign_at(types: &[Type], id: TypeId, offset: u64) -> Option<Leaf> {
    let outer = &types[id.index()];
    let (mut type_, mut path, mut begin) = (outer, String::new(), 0);
    for _ in 0..MOST_NESTED {
        let holds = |member: &&Member| {
            let at = offset.checked_sub(begin).and_then(|at| at.checked_sub(member.offset));
            member.bits.is_none() && at.is_some_and(|at| at < member.bytes)
        };
        let member = type_.members.iter().find(holds)?;
        path = dotted(&path, if member.role.is_base() { "" } else { &member.name });
        begin = begin.saturating_add(member.offset);
        let inner = &types[member.type_id?.index()];
        match inner.kind {
            TypeKind::Structure | TypeKind::Union if is_foreign(inner, outer) => {
                let (bytes, type_name) = (member.bytes, member.type_name.clone());
                return Some(Leaf { path, offset: begin, bytes, type_name });
            }
            TypeKind::Structure => type_ = inner,
            _ => return None,
        }
    }
    None
}

fn is_foreign(inner: &Type, outer: &Type) -> bool {
    let crate_of = |type_: &Type| type_.name.split("::").next().unwrap_or_default().to_owned();
    inner.is_built_in() || inner.language == Language::Rust && crate_of(inner) != crate_of(outer)
}

/// The bytes of `id` that no leaf covers, padding at the end included, by offset.
pub fn holes(types: &[Type], id: TypeId) -> Vec<Hole> {
    let mut holes = Vec::new();
    let mut end = 0;
    for leaf in leaves(types, id) {
        if leaf.offset > end {
            holes.push(Hole { offset: end, bytes: leaf.offset - end });
        }
        end = end.max(leaf.offset.saturating_add(leaf.bytes));
    }
    // A flexible array uses what would be padding.
    let flexible = types[id.index()].members.iter().any(|member| member.role == MemberRole::FlexibleArray);
    let total = types[id.index()].bytes;
    if total > end && !flexible {
        holes.push(Hole { offset: end, bytes: total - end });
    }
    holes
}

fn collect(types: &[Type], type_: &Type, path: &str, offset: u64, descent: Descent<'_>, found: &mut Vec<Leaf>) {
    // Storage unit of the run of bit-fields that ends `found`.
    let mut unit_end = 0;
    let is_empty = |id: TypeId| {
        let alternative = &types[id.index()];
        alternative.kind == TypeKind::Structure && alternative.members.is_empty()
    };
    for member in &type_.members {
        // As debug information has it, an alternative without fields is as large as the enum.
        if member.bytes == 0 || type_.kind == TypeKind::Union && member.type_id.is_some_and(is_empty) {
            continue;
        }
        if let Some(bits) = member.bits {
            let leaf = bit_field(member, bits, path, offset);
            match found.last_mut() {
                Some(last) if member.offset < unit_end => join(last, leaf),
                _ => found.push(leaf),
            }
            unit_end = unit_end.max(member.offset.saturating_add(member.bytes));
            continue;
        }
        unit_end = 0;
        // The fields of a base class are written as the class's own; so is what a library wraps around one value.
        let is_structure = |id: TypeId| matches!(types[id.index()].kind, TypeKind::Structure);
        let is_only = member.bytes == type_.bytes && member.type_id.is_some_and(is_structure) && type_.is_library();
        let name = if member.role.is_base() || is_only { "" } else { member.name.as_str() };
        descend(types, member, dotted(path, name), offset.saturating_add(member.offset), descent, found);
    }
}

fn dotted(path: &str, name: &str) -> String {
    let separator = if path.is_empty() || name.is_empty() { "" } else { "." };
    format!("{path}{separator}{name}")
}

/// A bit-field as the bytes that hold its bits: its storage unit may reach over ordinary members.
fn bit_field(member: &Member, (first, size): (u8, u8), path: &str, offset: u64) -> Leaf {
    let (first, end) = (u64::from(first), u64::from(first) + u64::from(size));
    Leaf {
        path: dotted(path, &member.name),
        offset: offset.saturating_add(member.offset).saturating_add(first / 8),
        bytes: end.div_ceil(8) - first / 8,
        type_name: member.type_name.clone(),
    }
}

fn descend(types: &[Type], member: &Member, path: String, offset: u64, descent: Descent<'_>, found: &mut Vec<Leaf>) {
    let bottom = |path: String| Leaf { path, offset, bytes: member.bytes, type_name: member.type_name.clone() };
    let Some((id, descent)) = member.type_id.zip(descent.deeper()) else {
        found.push(bottom(path));
        return;
    };
    let type_ = &types[id.index()];
    match type_.kind {
        TypeKind::Structure if type_.members.is_empty() => found.push(bottom(path)),
        TypeKind::Structure if is_wrapper(types, type_) => found.push(bottom(path)),
        TypeKind::Structure => collect(types, type_, &path, offset, descent, found),
        TypeKind::Union if member.name.is_empty() => {
            let mut alternatives = Vec::new();
            collect(types, type_, &path, offset, descent, &mut alternatives);
            found.extend(merge_overlapping(alternatives));
        }
        TypeKind::Array { element, count } if count <= MAX_SPELLED_ELEMENTS && types[element.index()].bytes != 1 => {
            let element_type = &types[element.index()];
            for index in 0..count {
                let member = Member {
                    bytes: element_type.bytes,
                    type_id: Some(element),
                    type_name: element_type.name.clone(),
                    ..member.clone()
                };
                let at = offset.saturating_add(index.saturating_mul(element_type.bytes));
                descend(types, &member, format!("{path}[{index}]"), at, descent, found);
            }
        }
        TypeKind::Union | TypeKind::Array { .. } | TypeKind::Pointer | TypeKind::Scalar => found.push(bottom(path)),
    }
}

/// Whether a standard library's type holds nothing but one value, however deep.
fn is_wrapper(types: &[Type], type_: &Type) -> bool {
    let mut type_ = type_;
    if !type_.is_library() {
        return false;
    }
    for _ in 0..MAX_WRAPPERS {
        let mut members = type_.members.iter().filter(|member| member.bytes > 0);
        match (members.next(), members.next()) {
            (Some(only), None) if only.bytes == type_.bytes => match only.type_id {
                Some(id) => type_ = &types[id.index()],
                None => return true,
            },
            _ => break,
        }
    }
    !matches!(type_.kind, TypeKind::Structure | TypeKind::Array { .. })
}

/// Leaves that share bytes, as one.
fn merge_overlapping(mut leaves: Vec<Leaf>) -> Vec<Leaf> {
    leaves.sort_by_key(|leaf| leaf.offset);
    let mut merged: Vec<Leaf> = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        match merged.last_mut() {
            Some(last) if leaf.offset < last.offset.saturating_add(last.bytes) => join(last, leaf),
            _ => merged.push(leaf),
        }
    }
    merged
}

/// Makes `leaf`, which does not start before `last`, a part of it.
fn join(last: &mut Leaf, leaf: Leaf) {
    last.bytes = last.bytes.max((leaf.offset - last.offset).saturating_add(leaf.bytes));
    last.path = format!("{}|{}", last.path, leaf.path);
    if last.type_name != leaf.type_name {
        last.type_name = format!("{}|{}", last.type_name, leaf.type_name);
    }
}
