//! An element type as declared, nested structures and holes included.

use slimline_attribute::tables::{Language, Member, Type, TypeId, TypeKind};
use slimline_attribute::typing::leaves::{Hole, holes};

use crate::view::{Layout, LayoutMember};

/// Deepest nesting shown.
const MAX_DEPTH: u32 = 8;
/// Beyond that many members nested structures are not looked into.
const MOST_MEMBERS: usize = 4096;

/// The layout of a structure; `None` for anything else.
pub(crate) fn view(id: TypeId, types: &[Type]) -> Option<Layout> {
    let row = &types[id.index()];
    if !matches!(row.kind, TypeKind::Structure | TypeKind::Union) {
        return None;
    }
    let mut members = Vec::new();
    add(row, 0, 0, types, &mut members);
    let gaps = holes(types, id);
    // Depth of the structure around a hole, and where it ends.
    let around = |hole: &Hole| {
        let holds = |member: &&LayoutMember| {
            member.nested
                && member.offset <= hole.offset
                && hole.offset + hole.bytes <= member.offset.saturating_add(member.bytes)
        };
        let inner = members.iter().filter(holds).max_by_key(|member| member.depth);
        inner.map_or((0, row.bytes), |member| (member.depth + 1, member.offset.saturating_add(member.bytes)))
    };
    let gaps: Vec<LayoutMember> = gaps
        .iter()
        .map(|&Hole { offset, bytes }| {
            let (depth, end) = around(&Hole { offset, bytes });
            LayoutMember { offset, bytes, depth, padding: offset + bytes == end, ..LayoutMember::default() }
        })
        .collect();
    for gap in gaps {
        let is_behind = |member: &LayoutMember| member.offset >= gap.offset + gap.bytes && member.depth <= gap.depth;
        let at = members.iter().position(is_behind).unwrap_or(members.len());
        members.insert(at, gap);
    }
    Some(Layout { name: row.name.clone(), language: language(row.language).to_owned(), bytes: row.bytes, members })
}

fn add(row: &Type, base: u64, depth: u32, types: &[Type], into: &mut Vec<LayoutMember>) {
    // Rust declares them in an order of its own.
    let mut members: Vec<&Member> = row.members.iter().collect();
    members.sort_by_key(|member| member.offset);
    for member in members {
        let inner = inner(member, types).filter(|_| depth < MAX_DEPTH && into.len() < MOST_MEMBERS);
        into.push(LayoutMember {
            offset: base + member.offset,
            bytes: member.bytes,
            name: member.name.clone(),
            type_name: member.type_name.clone(),
            bits: member.bits,
            depth,
            nested: inner.is_some(),
            padding: false,
        });
        if let Some(inner) = inner {
            add(inner, base + member.offset, depth + 1, types, into);
        }
    }
}

/// The structure that a member is, or the union whose members are the outer structure's own, if it is one.
fn inner<'t>(member: &Member, types: &'t [Type]) -> Option<&'t Type> {
    let row = &types[member.type_id?.index()];
    let is_inner = row.kind == TypeKind::Structure || row.kind == TypeKind::Union && member.name.is_empty();
    (is_inner && !row.members.is_empty()).then_some(row)
}

pub(crate) fn language(language: Language) -> &'static str {
    match language {
        Language::C => "c",
        Language::Cpp => "c++",
        Language::Rust => "rust",
        Language::Fortran => "fortran",
        Language::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use slimline_attribute::tables::{MemberRole, Tables};

    use super::*;

    fn structure(tables: &mut Tables, bytes: u64, members: &[(&str, u64, u64, Option<TypeId>)]) -> TypeId {
        let member = |&(name, offset, bytes, type_id): &(&str, u64, u64, Option<TypeId>)| Member {
            name: name.into(),
            offset,
            bytes,
            bits: None,
            type_id,
            type_name: "t".into(),
            role: MemberRole::Field,
            line: 1,
        };
        tables.types.push(Type {
            name: "s".into(),
            language: Language::C,
            kind: TypeKind::Structure,
            bytes,
            declared_at: None,
            members: members.iter().map(member).collect(),
        });
        TypeId(tables.types.len() as u32 - 1)
    }

    /// `struct { struct { double d; char c; } in; char tag; int k; char t; }`: the nested structure's end is padding, as
    /// the outer one's is, and what lies between `tag` and `k` is a hole.
    #[test]
    fn holes_at_the_end_are_padding() {
        let mut tables = Tables::new();
        let inner = structure(&mut tables, 16, &[("d", 0, 8, None), ("c", 8, 1, None)]);
        let members = [("in", 0, 16, Some(inner)), ("tag", 16, 1, None), ("k", 20, 4, None), ("t", 24, 1, None)];
        let outer = structure(&mut tables, 32, &members);
        let layout = view(outer, &tables.types).expect("a structure");
        let holes = layout.members.iter().filter(|member| member.is_hole());
        let found: Vec<_> = holes.map(|hole| (hole.offset, hole.bytes, hole.depth, hole.padding)).collect();
        assert_eq!(found, [(9, 7, 1, true), (17, 3, 0, false), (25, 7, 0, true)]);
    }
}
