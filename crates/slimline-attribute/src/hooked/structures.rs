//! Structures as site tables have them.

use std::collections::HashMap;
use std::ops::Range;

use slimline_trace::stream::sites::{Member, ModuleBuilder, Name, Nameless, Structure};

use crate::tables::{self, Language, Type, TypeId, TypeKind, TypeRef};
use crate::typing::layout::ANONYMOUS;

/// Structures within structures that are declared, and looked into for a member.
const MAX_DEPTH: u32 = 16;
/// Structures and unions that are looked into for one access: of unions in unions each member may lead on.
const MOST_WAYS: u32 = 256;
/// Most members of a union that are named as what may be meant.
const MOST_ALTERNATIVES: usize = 4;

/// The structures of a table.
#[derive(Default)]
pub(crate) struct Structures {
    /// By their rows, and whether they have a name: what has none of its own is given one where it is no member.
    declared: HashMap<(TypeId, bool), Option<u32>>,
    /// Those without a name: bytes and members.
    nameless: Nameless<(u64, Vec<tables::Member>)>,
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
    pub(crate) fn name(&mut self, table: &mut ModuleBuilder, types: &[Type], id: TypeId) -> Name {
        let Some(id) = structure_of(types, id) else { return Name::NONE };
        let row = &types[id.index()];
        let own = title(row);
        let name = if own.is_empty() { table.name(&self.given_name(types, id)) } else { table.name(own) };
        if !name.is_none() {
            self.declare(table, types, id, name, 0);
        }
        name
    }

    /// A name for a structure without one; empty where nobody knows where it is declared.
    fn given_name(&mut self, types: &[Type], id: TypeId) -> String {
        let row = &types[id.index()];
        let Some(at) = &row.declared_at else { return String::new() };
        let keyword = row.name.split(' ').next().unwrap_or_default();
        self.nameless.name(&format!("anonymous {keyword}"), &at.file, at.line, (row.bytes, row.members.clone()))
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
        for member in row.members.iter().filter(|member| is_anywhere(types, member)) {
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
                // Of an array without a length there are more.
                size_bytes: if member.bytes == 0 && member.bits.is_none() { 0 } else { bytes(end - start) },
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

/// Whether a member has any bytes, or may have: not so text of no length, and structures without members.
fn is_anywhere(types: &[Type], member: &tables::Member) -> bool {
    let kind = member.type_id.and_then(|id| types.get(id.index())).map(|row| row.kind);
    member.bytes > 0 || member.bits.is_some() || matches!(kind, Some(TypeKind::Array { .. }))
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
    let mut left = MOST_WAYS;
    way_to(types, id, offset, bytes, (0, &mut left)).0
}

/// The same, and whether just that is accessed; at a depth, with so many ways left that may be gone.
fn way_to(types: &[Type], id: TypeId, offset: u64, bytes: u64, (depth, left): (u32, &mut u32)) -> (String, bool) {
    *left = left.saturating_sub(1);
    let row = &types[id.index()];
    let holds = |member: &&tables::Member| bytes_of(member).contains(&offset);
    let mut way_by = |member: &tables::Member| match member.type_id.filter(|_| depth < MAX_DEPTH && *left > 0) {
        Some(inner) => {
            let (way, is_exact) = way_to(types, inner, offset - member.offset, bytes, (depth + 1, &mut *left));
            (joined(name_of(member), &way), is_exact)
        }
        None => (name_of(member).to_owned(), false),
    };
    match row.kind {
        TypeKind::Array { element, .. } => {
            let offset = offset.checked_rem(types[element.index()].bytes).unwrap_or(0);
            if depth == MAX_DEPTH || *left == 0 {
                return ("[]".to_owned(), false);
            }
            let (way, is_exact) = way_to(types, element, offset, bytes, (depth + 1, left));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{MemberRole, SourcePosition};

    fn row(name: &str, kind: TypeKind, bytes: u64, members: Vec<tables::Member>) -> Type {
        let declared_at = Some(SourcePosition { file: "/w/a.c".to_owned(), line: 3, column: 1 });
        Type { name: name.to_owned(), language: Language::C, kind, bytes, declared_at, members }
    }

    fn member(name: &str, type_id: u32, bytes: u64) -> tables::Member {
        let (type_id, type_name) = (Some(TypeId(type_id)), String::new());
        tables::Member {
            name: name.to_owned(),
            offset: 0,
            bytes,
            bits: None,
            type_id,
            type_name,
            role: MemberRole::Field,
            line: 0,
        }
    }

    /// Unions of eight of the next: without a bound the ways were 8 to the sixteenth.
    #[test]
    fn unions_in_unions_end() {
        let mut types: Vec<Type> = (1..20)
            .map(|next| {
                let members = (0..8).map(|number| member(&format!("m{number}"), next, 8)).collect();
                row("union u", TypeKind::Union, 8, members)
            })
            .collect();
        types.push(row("long", TypeKind::Scalar, 8, Vec::new()));
        assert!(field_at(&types, TypeId(0), 0, 8).starts_with("m0.m0"));
        // What is looked through whole is told as ever.
        assert_eq!(field_at(&types, TypeId(18), 0, 8), "m0 | m1 | m2 | m3");
    }

    #[test]
    fn members_without_bytes_are_arrays_that_go_on_or_nowhere() {
        let at = |offset, member: tables::Member| tables::Member { offset, ..member };
        let members = vec![
            member("tag", 1, 6),
            at(6, member("nothing", 2, 0)),
            at(8, member("n", 3, 8)),
            at(16, member("items", 4, 0)),
        ];
        let scalar = |name: &str, bytes| row(name, TypeKind::Scalar, bytes, Vec::new());
        let array = TypeKind::Array { element: TypeId(3), count: 0 };
        let types = [
            row("type(entry)", TypeKind::Structure, 16, members),
            scalar("character(len=6)", 6),
            scalar("character(len=0)", 0),
            scalar("long", 8),
            row("long[]", array, 0, Vec::new()),
        ];
        let (mut table, mut structures) = (ModuleBuilder::new(), Structures::default());
        let name = structures.name(&mut table, &types, TypeId(0));
        assert_eq!(table.text(name), "entry");
        let module = table.finish("a.f90", "a.o", "/", "test");
        let sizes = module.structures[0].members.iter().map(|member| (module.name(member.name), member.size_bytes));
        assert_eq!(sizes.collect::<Vec<_>>(), [("tag", 6), ("n", 8), ("items", 0)]);
    }

    /// By a macro, which has one column.
    #[test]
    fn each_structure_of_a_line_has_a_name() {
        let name = format!("struct {ANONYMOUS}");
        let of = |member_name: &str| row(&name, TypeKind::Structure, 8, vec![member(member_name, 4, 8)]);
        let types = [of("a"), of("b"), of("c"), of("b"), row("long", TypeKind::Scalar, 8, Vec::new())];
        let (mut table, mut structures) = (ModuleBuilder::new(), Structures::default());
        let names = [0, 1, 2, 3, 0].map(|id| structures.name(&mut table, &types, TypeId(id)));
        let texts = names.map(|name| table.text(name).to_owned());
        let expected = ["", " #2", " #3", " #2", ""].map(|number| format!("(anonymous struct at a.c:3{number})"));
        assert_eq!(texts, expected);
        assert_eq!(names.map(|name| table.structure_named(name)), [0, 1, 2, 1, 0].map(Some));
    }
}
