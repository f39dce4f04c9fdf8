//! Structures as site tables have them.

use std::collections::HashMap;

use slimline_trace::stream::sites::{Member, ModuleBuilder, Name, Structure};

use crate::tables::{self, Language, Type, TypeId, TypeKind, TypeRef};

/// Structures within structures that are declared, and looked into for a member.
const MAX_DEPTH: u32 = 16;

/// The structures of a table, by their rows.
#[derive(Default)]
pub(super) struct Structures(HashMap<TypeId, Option<u32>>);

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
        let name = table.name(title(&types[id.index()]));
        if !name.is_none() {
            self.declare(table, types, id, 0);
        }
        name
    }

    fn declare(&mut self, table: &mut ModuleBuilder, types: &[Type], id: TypeId, depth: u32) -> Option<u32> {
        if let Some(known) = self.0.get(&id) {
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
            members.push(Member {
                name: table.name(name_of(member)),
                type_name: table.name(&member.type_name),
                offset_bytes: bytes(member.offset),
                size_bytes: bytes(member.bytes),
                structure: made_of.and_then(|id| self.declare(table, types, id, depth + 1)),
            });
        }
        let is_foreign = row.declared_at.as_ref().is_some_and(|at| is_foreign(&at.file));
        let name = table.name(title(row));
        let structure = Structure { name, is_alias: is_alias(row), is_foreign, size_bytes: bytes(row.bytes), members };
        let index = Some(table.structure(structure));
        self.0.insert(id, index);
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

/// As it is called in its language, without the keyword.
fn title(row: &Type) -> &str {
    let of_fortran = || row.name.strip_prefix("type(")?.strip_suffix(')');
    let of_c = ["struct ", "union ", "class "].iter().find_map(|keyword| row.name.strip_prefix(keyword));
    of_c.or_else(of_fortran).unwrap_or(&row.name)
}

/// Whether the name is a `typedef`'s, as the structure has none.
fn is_alias(row: &Type) -> bool {
    row.language == Language::C && title(row).len() == row.name.len()
}

/// Bases are as if their members were the class's own.
fn name_of(member: &tables::Member) -> &str {
    if member.role.is_base() { "" } else { &member.name }
}

/// Members down to one without any at this byte; those of elements of an array behind `[]`.
fn field_at(types: &[Type], id: TypeId, mut offset: u64, bytes: u64) -> String {
    let mut field = String::new();
    let mut id = id;
    for _ in 0..MAX_DEPTH {
        let row = &types[id.index()];
        match row.kind {
            TypeKind::Array { element, .. } => {
                field.push_str("[]");
                offset = offset.checked_rem(types[element.index()].bytes).unwrap_or(0);
                id = element;
            }
            TypeKind::Structure | TypeKind::Union => {
                let holds =
                    |member: &&tables::Member| member.offset <= offset && offset - member.offset < member.bytes.max(1);
                // Of a union's the one that is as large as what is accessed.
                let fits = |member: &&tables::Member| holds(member) && member.bytes == bytes;
                let fitting = row.members.iter().find(fits).filter(|_| row.kind == TypeKind::Union);
                let Some(member) = fitting.or_else(|| row.members.iter().find(holds)) else { break };
                let name = name_of(member);
                if !name.is_empty() {
                    if !field.is_empty() {
                        field.push('.');
                    }
                    field.push_str(name);
                }
                offset -= member.offset;
                let Some(inner) = member.type_id else { break };
                id = inner;
            }
            TypeKind::Pointer | TypeKind::Scalar => break,
        }
    }
    field
}

/// Whether a file is one of the system's headers: of the C library, the C++ library or the compiler.
fn is_foreign(path: &str) -> bool {
    path.starts_with("/usr/") && path.contains("/include/") && !path.starts_with("/usr/local/")
}
