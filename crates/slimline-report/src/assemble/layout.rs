//! An element type as declared, nested structures and holes included.

use slimline_attribute::tables::{Language, Member, Tables, Type, TypeId, TypeKind};
use slimline_attribute::typing::leaves::{Hole, holes};

use crate::view::{Layout, LayoutMember};

/// Deepest nesting shown.
const MAX_DEPTH: u32 = 8;

/// The layout of a structure; `None` for anything else.
pub(super) fn view(id: TypeId, tables: &Tables) -> Option<Layout> {
    let row = tables.type_(id);
    if !matches!(row.kind, TypeKind::Structure | TypeKind::Union) {
        return None;
    }
    let mut members = Vec::new();
    add(row, 0, 0, tables, &mut members);
    let gaps = holes(&tables.types, id);
    let around = |hole: &Hole| {
        let holds = |member: &&LayoutMember| {
            member.nested
                && member.offset <= hole.offset
                && hole.offset + hole.bytes <= member.offset.saturating_add(member.bytes)
        };
        members.iter().filter(holds).map(|member| member.depth + 1).max().unwrap_or(0)
    };
    let gaps: Vec<LayoutMember> = gaps
        .iter()
        .map(|hole| LayoutMember {
            offset: hole.offset,
            bytes: hole.bytes,
            depth: around(hole),
            ..LayoutMember::default()
        })
        .collect();
    for gap in gaps {
        let is_behind = |member: &LayoutMember| member.offset >= gap.offset + gap.bytes && member.depth <= gap.depth;
        let at = members.iter().position(is_behind).unwrap_or(members.len());
        members.insert(at, gap);
    }
    Some(Layout { name: row.name.clone(), language: language(row.language).to_owned(), bytes: row.bytes, members })
}

fn add(row: &Type, base: u64, depth: u32, tables: &Tables, into: &mut Vec<LayoutMember>) {
    // Rust declares them in an order of its own.
    let mut members: Vec<&Member> = row.members.iter().collect();
    members.sort_by_key(|member| member.offset);
    for member in members {
        let inner = inner(member, tables).filter(|_| depth < MAX_DEPTH);
        into.push(LayoutMember {
            offset: base + member.offset,
            bytes: member.bytes,
            name: member.name.clone(),
            type_name: member.type_name.clone(),
            bits: member.bits,
            depth,
            nested: inner.is_some(),
        });
        if let Some(inner) = inner {
            add(inner, base + member.offset, depth + 1, tables, into);
        }
    }
}

/// The structure that a member is, or the union whose members are the outer structure's own, if it is one.
fn inner<'t>(member: &Member, tables: &'t Tables) -> Option<&'t Type> {
    let row = tables.type_(member.type_id?);
    let is_inner = row.kind == TypeKind::Structure || row.kind == TypeKind::Union && member.name.is_empty();
    (is_inner && !row.members.is_empty()).then_some(row)
}

pub(super) fn language(language: Language) -> &'static str {
    match language {
        Language::C => "c",
        Language::Cpp => "c++",
        Language::Rust => "rust",
        Language::Fortran => "fortran",
        Language::Other => "other",
    }
}
