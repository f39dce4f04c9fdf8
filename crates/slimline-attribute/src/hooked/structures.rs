//! Structures as site tables have them.

use std::collections::HashMap;
use std::ops::Range;

use slimline_trace::stream::sites::{Member, ModuleBuilder, Name, Structure};

use crate::tables::{self, Language, Type, TypeId, TypeKind, TypeRef};
use crate::typing::layout::ANONYMOUS;

/// Structures within structures that are declared, and looked into for a member.
const MAX_DEPTH: u32 = 16;
/// Most members of a union that are named as what may be meant.
const MOST_ALTERNATIVES: usize = 4;

/// The structures of a table.
#[derive(Default)]
pub(super) struct Structures {
    /// By their rows, and whether they have a name: what has none of its own is given one where it is no member.
    declared: HashMap<(TypeId, bool), Option<u32>>,
    /// What those names are of.
    given: HashMap<String, TypeId>,
}

/// A member of a structure that a table has.
pub(super) struct Declared {
    pub(super) structure: Name,
    pub(super) field: Name,
    pub(super) offset_bytes: u64,
}

impl Structures {
    /// The member that an access of so many bytes is of; none where it is to no structure.
    pub(super) fn member(
        &mut self,
        table: &mut ModuleBuilder,
        types: &[Type],
        accessed: TypeRef,
        bytes: u32,
    ) -> Option<Declared> {
        let (id, offset_bytes) = element_at(types, accessed)?;
        let structure = self.name(table, types, id);
        if structure.is_none() {
            return None;
        }
        let field = table.name(&field_at(types, id, offset_bytes, u64::from(bytes)));
        Some(Declared { structure, field, offset_bytes })
    }

    /// The name of the structure that a type is, or is an array of, which the table has then; of other types none.
    pub(super) fn name(&mut self, table: &mut ModuleBuilder, types: &[Type], id: TypeId) -> Name {
        let Some(id) = structure_of(types, id) else { return Name::NONE };
        let row = &types[id.index()];
        let own = title(row);
        let name = if own.is_empty() { table.name(&self.given_name(row, id)) } else { table.name(own) };
        if !name.is_none() {
            self.declare(table, types, id, name, 0);
        }
        name
    }

    /// What compilers call a structure without a name: `(anonymous struct at file.c:12)`.
    fn given_name(&mut self, row: &Type, id: TypeId) -> String {
        let Some(at) = &row.declared_at else { return String::new() };
        let keyword = row.name.split(' ').next().unwrap_or_default();
        let file = at.file.rsplit('/').next().unwrap_or_default();
        let in_line = format!("(anonymous {keyword} at {file}:{})", at.line);
        if *self.given.entry(in_line.clone()).or_insert(id) == id {
            return in_line;
        }
        format!("(anonymous {keyword} at {file}:{}:{})", at.line, at.column)
    }

    fn declare(
        &mut self,
        table: &mut ModuleBuilder,
        types: &[Type],
        id: TypeId,
        name: Name,
        depth: u32,
    ) -> Option<u32> {
        if let Some(known) = self.declared.get(&(id, name.is_none())) {
            return *known;
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let row = &types[id.index()];
        let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut members = Vec::with_capacity(row.members.len());
        for member in &row.members {
            let made_of = member.type_id.and_then(|id| structure_of(types, id));
            let Range { start, end } = bytes_of(member);
            let structure = made_of.and_then(|id| {
                let name = table.name(title(&types[id.index()]));
                self.declare(table, types, id, name, depth + 1)
            });
            members.push(Member {
                name: table.name(name_of(member)),
                type_name: table.name(&member.type_name),
                offset_bytes: bytes(start),
                size_bytes: bytes(end - start),
                structure,
            });
        }
        let is_foreign = row.declared_at.as_ref().is_some_and(|at| is_foreign(&at.file));
        let structure = Structure { name, is_alias: is_alias(row), is_foreign, size_bytes: bytes(row.bytes), members };
        let index = Some(table.structure(structure));
        self.declared.insert((id, name.is_none()), index);
        index
    }
}

/// The structure that a type is or is an array of.
fn structure_of(types: &[Type], mut id: TypeId) -> Option<TypeId> {
    for _ in 0..MAX_DEPTH {
        match types.get(id.index())?.kind {
            TypeKind::Structure | TypeKind::Union => return Some(id),
            TypeKind::Array { element, .. } => id = element,
            TypeKind::Pointer | TypeKind::Scalar => return None,
        }
    }
    None
}

/// The same with where in it a byte of the type is.
fn element_at(types: &[Type], at: TypeRef) -> Option<(TypeId, u64)> {
    let id = structure_of(types, at.type_id)?;
    let offset = if id == at.type_id { at.offset } else { at.offset.checked_rem(types[id.index()].bytes)? };
    Some((id, offset))
}

/// As it is called in its language, without the keyword; empty of what has no name.
fn title(row: &Type) -> &str {
    if row.name.ends_with(ANONYMOUS) {
        return "";
    }
    let of_fortran = || row.name.strip_prefix("type(")?.strip_suffix(')');
    let of_c = ["struct ", "union ", "class "].iter().find_map(|keyword| row.name.strip_prefix(keyword));
    of_c.or_else(of_fortran).unwrap_or(&row.name)
}

/// Whether the name is a `typedef`'s, as the structure has none.
fn is_alias(row: &Type) -> bool {
    row.language == Language::C && !row.name.ends_with(ANONYMOUS) && title(row).len() == row.name.len()
}

/// Bases are as if their members were the class's own.
fn name_of(member: &tables::Member) -> &str {
    if member.role.is_base() { "" } else { &member.name }
}

/// Members down to one without any at this byte; those of elements of an array behind `[]`, bit fields that are accessed together as
/// `a, b`, and members of a union that may be meant as `a | b`.
fn field_at(types: &[Type], id: TypeId, offset: u64, bytes: u64) -> String {
    way_to(types, id, offset, bytes, 0).0
}

/// The same, and whether just that is accessed.
fn way_to(types: &[Type], id: TypeId, offset: u64, bytes: u64, depth: u32) -> (String, bool) {
    let row = &types[id.index()];
    let holds = |member: &&tables::Member| bytes_of(member).contains(&offset);
    let way_by = |member: &tables::Member| match member.type_id.filter(|_| depth < MAX_DEPTH) {
        Some(inner) => {
            let (way, is_exact) = way_to(types, inner, offset - member.offset, bytes, depth + 1);
            (joined(name_of(member), &way), is_exact)
        }
        None => (name_of(member).to_owned(), false),
    };
    match row.kind {
        TypeKind::Array { element, .. } => {
            let offset = offset.checked_rem(types[element.index()].bytes).unwrap_or(0);
            if depth == MAX_DEPTH {
                return ("[]".to_owned(), false);
            }
            let (way, is_exact) = way_to(types, element, offset, bytes, depth + 1);
            (joined("[]", &way), is_exact)
        }
        TypeKind::Union => {
            let ways: Vec<_> = row.members.iter().filter(holds).map(way_by).collect();
            let has_exact = ways.iter().any(|(_, is_exact)| *is_exact);
            let mut names: Vec<&str> = Vec::new();
            for (name, _) in ways.iter().filter(|(_, is_exact)| *is_exact || !has_exact) {
                if !name.is_empty() && !names.contains(&&**name) && names.len() < MOST_ALTERNATIVES {
                    names.push(name);
                }
            }
            (names.join(" | "), has_exact)
        }
        TypeKind::Structure => match row.members.iter().find(holds) {
            Some(member) if member.bits.is_some() => {
                let end = offset + bytes.max(1);
                let covers = |member: &&tables::Member| {
                    let Range { start, end: behind } = bytes_of(member);
                    member.bits.is_some() && start < end && offset < behind
                };
                let names = row.members.iter().filter(covers).map(name_of).filter(|name| !name.is_empty());
                (names.collect::<Vec<_>>().join(", "), true)
            }
            Some(member) => way_by(member),
            None => (String::new(), false),
        },
        TypeKind::Pointer | TypeKind::Scalar => (String::new(), offset == 0 && row.bytes == bytes),
    }
}

/// A way of two parts.
fn joined(way: &str, rest: &str) -> String {
    let separator = if way.is_empty() || rest.is_empty() || rest.starts_with('[') { "" } else { "." };
    format!("{way}{separator}{rest}")
}

/// Where a member lies; of bit fields the bytes that have their bits, which other fields of their unit do not.
fn bytes_of(member: &tables::Member) -> Range<u64> {
    let (start, bytes) = match member.bits {
        Some((first, count)) => {
            let (first, count) = (u64::from(first), u64::from(count));
            (member.offset + first / 8, (first % 8 + count).div_ceil(8))
        }
        None => (member.offset, member.bytes),
    };
    start..start.saturating_add(bytes.max(1))
}

/// Whether a file is one of the system's headers: of the C library, the C++ library or the compiler.
fn is_foreign(path: &str) -> bool {
    path.starts_with("/usr/") && path.contains("/include/") && !path.starts_with("/usr/local/")
}
