//! What a type's declaration alone says of how it lies in memory: holes, padding, and members that cross cache lines.
//!
//! ```text
//!   struct { int id; double pos[6]; char tag; double mass; }      64 bytes a line
//!   0   4    8                   56    57     64     72
//!   │id │hole│pos                │tag │ hole │mass  │       2 holes, 11 bytes; mass begins the second line
//! ```
//!
//! Bytes are the type's own: those of a named structure within it are told with that structure, once and not in each that has one. What
//! has no name (a union within a structure) is the own of the one around it, and so are the variants of a Rust enum.

use std::ops::Range;

use slimline_attribute::tables::{Language, Member, MemberRole, Type, TypeId, TypeKind};
use slimline_attribute::typing::leaves::Hole;

/// Bytes of a cache line: 64 on every x86-64.
pub const LINE_BYTES: u64 = 64;
/// Structures without a name within such are looked through so deep.
const MOST_NESTED: u32 = 32;

/// What a type's declaration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredLayout {
    /// Bytes between members that no member uses, by offset: another order of the members may close them.
    pub holes: Vec<Hole>,
    /// Bytes behind the last member.
    pub padding_bytes: u64,
    /// Members that lie on two lines and would fit in one, by offset, where the type begins at a line's start.
    pub crossings: Vec<Crossing>,
}

/// A member on two lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

impl DeclaredLayout {
    /// That of a structure or union, of `types`.
    pub fn of(types: &[Type], id: TypeId) -> Self {
        let type_ = &types[id.index()];
        let mut members = Vec::new();
        own_members(types, type_, 0, 0, &mut members);
        let mut layout = Self { crossings: crossings(&members), ..Self::default() };
        let mut used: Vec<Range<u64>> = members.iter().map(|member| member.bytes.clone()).collect();
        used.sort_unstable_by_key(|range| (range.start, range.end));
        let mut end = 0;
        for range in used {
            if range.start > end {
                layout.holes.push(Hole { offset: end, bytes: range.start - end });
            }
            end = end.max(range.end);
        }
        // A flexible array uses what would be padding, and a type without members is one byte that nobody could save.
        let is_open = type_.members.iter().any(|member| member.role == MemberRole::FlexibleArray);
        if !is_open && !members.is_empty() {
            layout.padding_bytes = type_.bytes.saturating_sub(end);
        }
        layout
    }

    /// Bytes of all holes.
    pub fn hole_bytes(&self) -> u64 {
        self.holes.iter().map(|hole| hole.bytes).sum()
    }
}

/// Cache lines of that many bytes that begin at a line's start.
pub fn lines(bytes: u64) -> u64 {
    bytes.div_ceil(LINE_BYTES)
}

/// Whether bytes lie on two lines or more, and would fit in one.
pub fn crosses_line(offset: u64, bytes: u64) -> bool {
    (1..=LINE_BYTES).contains(&bytes) && offset % LINE_BYTES + bytes > LINE_BYTES
}

/// Whether a type is an enum of Rust whose variants have fields: a union of structures that are called after it.
pub fn is_rust_enum(types: &[Type], type_: &Type) -> bool {
    type_.language == Language::Rust
        && type_.kind == TypeKind::Union
        && type_.members.iter().any(|member| is_variant(types, type_, member))
}

fn is_variant(types: &[Type], type_: &Type, member: &Member) -> bool {
    let is_of =
        |id: TypeId| types[id.index()].name.strip_prefix(&type_.name).is_some_and(|rest| rest.starts_with("::"));
    type_.language == Language::Rust && type_.kind == TypeKind::Union && member.type_id.is_some_and(is_of)
}

/// A member with the bytes that it uses.
struct Used<'t> {
    name: &'t str,
    bytes: Range<u64>,
    is_bit_field: bool,
}

fn own_members<'t>(types: &'t [Type], type_: &'t Type, base: u64, depth: u32, into: &mut Vec<Used<'t>>) {
    for member in &type_.members {
        let begin = base.saturating_add(member.offset);
        let inner = member.type_id.map(|id| &types[id.index()]);
        let has_no_name =
            |inner: &Type| member.name.is_empty() && matches!(inner.kind, TypeKind::Structure | TypeKind::Union);
        let inner = inner.filter(|inner| has_no_name(inner) || is_variant(types, type_, member));
        match inner.filter(|_| depth < MOST_NESTED) {
            Some(inner) => own_members(types, inner, begin, depth + 1, into),
            None => {
                let bytes = match member.bits {
                    Some((first, bits)) => {
                        let end = u64::from(first) + u64::from(bits);
                        begin.saturating_add(u64::from(first) / 8)..begin.saturating_add(end.div_ceil(8))
                    }
                    None => begin..begin.saturating_add(member.bytes),
                };
                if !bytes.is_empty() {
                    into.push(Used { name: &member.name, bytes, is_bit_field: member.bits.is_some() });
                }
            }
        }
    }
}

fn crossings(members: &[Used<'_>]) -> Vec<Crossing> {
    let found = members.iter().filter(|member| !member.is_bit_field);
    let found = found.filter(|member| crosses_line(member.bytes.start, member.bytes.end - member.bytes.start));
    let mut found: Vec<Crossing> = found
        .map(|member| Crossing {
            name: member.name.to_owned(),
            offset: member.bytes.start,
            bytes: member.bytes.end - member.bytes.start,
        })
        .collect();
    found.sort_by_key(|crossing| crossing.offset);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(name: &str, offset: u64, bytes: u64) -> Member {
        Member {
            name: name.to_owned(),
            offset,
            bytes,
            bits: None,
            type_id: None,
            type_name: "t".to_owned(),
            role: MemberRole::Field,
            line: 1,
        }
    }

    fn type_(name: &str, kind: TypeKind, bytes: u64, members: Vec<Member>) -> Type {
        Type { name: name.to_owned(), language: Language::C, kind, bytes, declared_at: None, members }
    }

    fn hole(offset: u64, bytes: u64) -> Hole {
        Hole { offset, bytes }
    }

    /// The structure of this module's head.
    #[test]
    fn holes_and_lines_are_those_of_the_declaration() {
        let members = vec![member("id", 0, 4), member("pos", 8, 48), member("tag", 56, 1), member("mass", 64, 8)];
        let types = [type_("struct s", TypeKind::Structure, 72, members)];
        let layout = DeclaredLayout::of(&types, TypeId(0));
        assert_eq!(layout.holes, [hole(4, 4), hole(57, 7)]);
        assert_eq!((layout.hole_bytes(), layout.padding_bytes, lines(72)), (11, 0, 2));
        assert!(layout.crossings.is_empty());
    }

    /// Seven bits from bit 6 of byte 4 on use bytes 4 and 5; `a[6]` at 60 crosses, 80 bytes could not but do so.
    #[test]
    fn bits_use_their_bytes_and_only_what_would_fit_crosses() {
        let bits = Member { bits: Some((6, 7)), ..member("bits", 4, 4) };
        let members = vec![member("id", 0, 4), bits, member("big", 8, 80), member("a", 124, 6)];
        let types = [type_("struct s", TypeKind::Structure, 136, members)];
        let layout = DeclaredLayout::of(&types, TypeId(0));
        assert_eq!(layout.holes, [hole(6, 2), hole(88, 36)]);
        assert_eq!(layout.padding_bytes, 6);
        assert_eq!(layout.crossings, [Crossing { name: "a".to_owned(), offset: 124, bytes: 6 }]);
    }

    /// `struct { char c; union { int i; struct { char d; double e; }; }; struct in n; }`: the second alternative's hole, which
    /// `i` does not fill, is the structure's own, and the hole of `n`, which has a type with a name, is not.
    #[test]
    fn what_has_no_name_belongs_to_what_is_around_it() {
        let named = type_("struct in", TypeKind::Structure, 16, vec![member("k", 0, 1), member("l", 8, 8)]);
        let inner = type_("struct {…}", TypeKind::Structure, 16, vec![member("d", 0, 1), member("e", 8, 8)]);
        let inside = Member { type_id: Some(TypeId(1)), ..member("", 0, 16) };
        let either = type_("union {…}", TypeKind::Union, 16, vec![member("i", 0, 4), inside]);
        let members = vec![
            member("c", 0, 1),
            Member { type_id: Some(TypeId(2)), ..member("", 8, 16) },
            Member { type_id: Some(TypeId(0)), ..member("n", 24, 16) },
        ];
        let types = [named, inner, either, type_("struct out", TypeKind::Structure, 40, members)];
        assert_eq!(DeclaredLayout::of(&types, TypeId(3)).holes, [hole(1, 7), hole(12, 4)]);
        assert_eq!(DeclaredLayout::of(&types, TypeId(0)).holes, [hole(1, 7)]);
    }

    /// `enum E { A(u8), B(u64), C }`: bytes that no variant uses are a hole, though each variant is as large as the enum.
    #[test]
    fn variants_are_looked_through() {
        let variant = |name: &str, members| Type {
            language: Language::Rust,
            ..type_(&format!("E::{name}"), TypeKind::Structure, 16, members)
        };
        let of = |number| Member { type_id: Some(TypeId(number)), ..member("v", 0, 16) };
        let members = vec![member("discriminant", 0, 1), of(0), of(1), of(2)];
        let types = [
            variant("A", vec![member("0", 1, 1)]),
            variant("B", vec![member("0", 8, 8)]),
            variant("C", Vec::new()),
            Type { language: Language::Rust, ..type_("E", TypeKind::Union, 16, members) },
        ];
        assert!(is_rust_enum(&types, &types[3]) && !is_rust_enum(&types, &types[0]));
        let layout = DeclaredLayout::of(&types, TypeId(3));
        assert_eq!((layout.holes.as_slice(), layout.padding_bytes), ([hole(2, 6)].as_slice(), 0));
    }

    #[test]
    fn a_flexible_array_leaves_no_padding() {
        let array = Member { role: MemberRole::FlexibleArray, ..member("text", 5, 0) };
        let types = [
            type_("struct s", TypeKind::Structure, 8, vec![member("n", 0, 4), member("c", 4, 1), array]),
            type_("struct empty", TypeKind::Structure, 1, Vec::new()),
        ];
        assert_eq!(DeclaredLayout::of(&types, TypeId(0)), DeclaredLayout::default());
        assert_eq!(DeclaredLayout::of(&types, TypeId(1)), DeclaredLayout::default());
    }

    proptest! {
        /// Against a map of bytes and, for crossings, the lines of the first and the last byte.
        #[test]
        fn bytes_are_counted_as_one_by_one(
            places in prop::collection::vec((0_u64..200, 1_u64..90), 1..12),
            behind in 0_u64..20,
        ) {
            let members: Vec<Member> = places.iter().map(|&(offset, bytes)| member("m", offset, bytes)).collect();
            let total = members.iter().map(|member| member.offset + member.bytes).max().unwrap_or(0) + behind;
            let mut used = vec![false; total as usize];
            for member in &members {
                used[member.offset as usize..(member.offset + member.bytes) as usize].fill(true);
            }
            let crossing = members.iter().filter(|member| {
                member.bytes <= 64 && member.offset / 64 != (member.offset + member.bytes - 1) / 64
            });
            let crossings = crossing.count();
            let layout = DeclaredLayout::of(&[type_("struct s", TypeKind::Structure, total, members)], TypeId(0));
            prop_assert_eq!(layout.padding_bytes, behind);
            let unused = used.iter().filter(|used| !**used).count() as u64;
            prop_assert_eq!(layout.hole_bytes() + layout.padding_bytes, unused);
            prop_assert!(layout.holes.iter().all(|hole| !used[hole.offset as usize]));
            prop_assert_eq!(layout.crossings.len(), crossings);
        }
    }
}
