//! Types of debug information: their names, what they point to, and which member lies where.

use std::collections::HashMap;
use std::rc::Rc;

use slimline_trace::stream::sites::{Nameless, ValueKind};

use crate::llvm::{Metadata, MetadataKind, Module, Value};

use super::rust;

/// Where names of namespaces are.
pub(super) const NAME: usize = 2;
/// Most types within types that are followed: debug information of a hostile file may be a circle.
pub(super) const MAX_DEPTH: usize = 32;
/// Types that are looked into for one access: of unions in unions each member may lead on.
const MOST_WAYS: u32 = 1 << 10;
/// Most members of a union that are named as what may be meant.
const MOST_ALTERNATIVES: usize = 4;
/// Most parents of parents that are asked for virtual ones: each may have several.
const MAX_PARENTS: usize = 8;

/// DWARF's numbers of tags.
pub(super) mod tag {
    pub(in crate::naming) const ARRAY: u16 = 0x01;
    pub(in crate::naming) const CLASS: u16 = 0x02;
    pub(in crate::naming) const ENUMERATION: u16 = 0x04;
    pub(in crate::naming) const MEMBER: u16 = 0x0d;
    pub(in crate::naming) const POINTER: u16 = 0x0f;
    pub(in crate::naming) const REFERENCE: u16 = 0x10;
    pub(in crate::naming) const STRUCTURE: u16 = 0x13;
    pub(in crate::naming) const SUBROUTINE: u16 = 0x15;
    pub(in crate::naming) const TYPEDEF: u16 = 0x16;
    pub(in crate::naming) const UNION: u16 = 0x17;
    pub(in crate::naming) const INHERITANCE: u16 = 0x1c;
    pub(in crate::naming) const CONST: u16 = 0x26;
    pub(in crate::naming) const VOLATILE: u16 = 0x35;
    pub(in crate::naming) const VARIANT_PART: u16 = 0x33;
    pub(in crate::naming) const RESTRICT: u16 = 0x37;
    pub(in crate::naming) const BASE: u16 = 0x24;
    pub(in crate::naming) const RVALUE_REFERENCE: u16 = 0x42;
    /// Of `nullptr`'s type alone, as far as clang writes it.
    pub(in crate::naming) const UNSPECIFIED: u16 = 0x3b;
    pub(in crate::naming) const ATOMIC: u16 = 0x47;
}

/// A place in a structure.
pub(super) struct Member<'m> {
    /// The outermost structure that is known.
    pub(super) structure: String,
    /// The member with those within it, `position.x`, and `[]` for elements of arrays; empty where several are covered.
    pub(super) field: String,
    /// From the structure's beginning.
    pub(super) offset_bytes: u64,
    /// The member's type.
    pub(super) r#type: Option<Metadata<'m>>,
    /// What it points to, if it is a pointer.
    pub(super) pointee: Option<Metadata<'m>>,
    /// The outermost structure.
    pub(super) of: Metadata<'m>,
}

/// A structure's member as it was declared.
pub(super) struct Declared<'m> {
    /// Empty for parents, and for what has no name.
    pub(super) name: String,
    pub(super) from_bytes: u64,
    pub(super) bytes: u64,
    pub(super) r#type: Option<Metadata<'m>>,
    is_bit_field: bool,
    is_parent: bool,
    /// It is a parent without members.
    takes_no_room: bool,
}

impl Declared<'_> {
    fn holds(&self, offset_bytes: u64) -> bool {
        !self.takes_no_room && (self.from_bytes..self.from_bytes + self.bytes.max(1)).contains(&offset_bytes)
    }
}

/// What is accessed of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// 0 where it is not known.
    pub(super) bytes: u64,
    /// What is loaded or stored, where that is one value.
    pub(super) kind: Option<ValueKind>,
}

impl Extent {
    /// A pointer.
    pub(super) const POINTER: Self = Self { bytes: 8, kind: Some(ValueKind::Pointer) };
}

/// What structures without a name differ in: bits, and their members' names, types, places and bytes.
type Content = (u64, Vec<(String, String, u64, u64)>);

/// Layouts of a module's types, each read once.
pub(super) struct Layouts<'m> {
    members: HashMap<Metadata<'m>, Rc<[Declared<'m>]>>,
    pub(super) nameless: Nameless<Content>,
    /// Operand of a type that is the type it is made of; those after it count from here.
    pub(super) base: usize,
    /// rustc has made the module.
    pub(super) is_rust: bool,
    /// Of [`MOST_WAYS`], those that are left for the access that is looked at.
    ways_left: u32,
}

/// The way from a structure to a member.
#[derive(Default)]
struct Way<'m> {
    /// Names on the way.
    field: String,
    /// Bytes from the member's place to the end of the last one that has a name.
    room_bytes: u64,
    /// What a pointer to bytes points to in truth.
    element: Option<Metadata<'m>>,
}

impl<'m> Layouts<'m> {
    pub(super) fn new(module: &'m Module<'_>) -> Self {
        /// Where it was before sizes became operands too.
        const FIRST_LAYOUT: usize = 3;
        let base = module.base_type_operand().unwrap_or(FIRST_LAYOUT);
        let (members, nameless) = (HashMap::new(), Nameless::default());
        Self { members, nameless, base, is_rust: rust::unit(module).is_some(), ways_left: 0 }
    }

    /// The type without names and qualifiers around it, and the first of those names.
    pub(super) fn bare(&self, r#type: Metadata<'m>) -> (Option<Metadata<'m>>, String) {
        let mut name = String::new();
        let mut bare = r#type;
        for _ in 0..MAX_DEPTH {
            match bare.tag() {
                Some(tag::TYPEDEF) if name.is_empty() => name = bare.type_name().into_owned(),
                Some(tag::TYPEDEF | tag::CONST | tag::VOLATILE | tag::RESTRICT | tag::ATOMIC | tag::MEMBER) => {}
                _ => return (Some(bare), name),
            }
            match bare.operand(self.base) {
                Some(base) => bare = base,
                // `const void`, `typedef void`.
                None => return (None, name),
            }
        }
        (None, name)
    }

    /// Bytes of a type; 0 where it is not known.
    pub(super) fn bytes(&self, r#type: Metadata<'m>) -> u64 {
        self.bare(r#type).0.map_or(0, |bare| match bare.tag() {
            // Of nullptr's type no size is told: it is a pointer's.
            Some(tag::UNSPECIFIED) => 8,
            _ => bare.size_bits() / 8,
        })
    }

    /// Whether it has members.
    pub(super) fn is_structure(&self, r#type: Metadata<'m>) -> bool {
        let (bare, _) = self.bare(r#type);
        matches!(bare.and_then(Metadata::tag), Some(tag::STRUCTURE | tag::CLASS | tag::UNION))
    }

    /// What a pointer or a reference points to.
    pub(super) fn pointee(&self, r#type: Metadata<'m>) -> Option<Metadata<'m>> {
        let bare = self.bare(r#type).0?;
        matches!(bare.tag()?, tag::POINTER | tag::REFERENCE | tag::RVALUE_REFERENCE).then(|| bare.operand(self.base))?
    }

    /// What a value of this type points to, at an offset in it: Rust's pointers are often in structures.
    pub(super) fn pointee_in(&mut self, r#type: Metadata<'m>, offset_bytes: u64) -> Option<Metadata<'m>> {
        if !self.is_rust || !self.is_structure(r#type) {
            return self.pointee(r#type).filter(|_| offset_bytes == 0);
        }
        self.member(r#type, offset_bytes, Extent::POINTER)?.pointee
    }

    /// What an array consists of; itself if it is none.
    pub(super) fn element(&self, r#type: Metadata<'m>) -> Option<Metadata<'m>> {
        let mut element = self.bare(r#type).0?;
        for _ in 0..MAX_DEPTH {
            if element.tag() != Some(tag::ARRAY) {
                return Some(element);
            }
            element = self.bare(element.operand(self.base)?).0?;
        }
        None
    }

    /// Whether integers of this type have a sign; none if it is no integer of so many bytes.
    pub(super) fn is_signed(&self, r#type: Metadata<'m>, bytes: u64) -> Option<bool> {
        let mut at = self.element(r#type)?;
        if at.tag() == Some(tag::ENUMERATION) {
            at = self.bare(at.operand(self.base)?).0?;
        }
        if at.tag() != Some(tag::BASE) || at.size_bits() != bytes * 8 {
            return None;
        }
        // LLVM's C API does not tell the encoding, but clang has one name for each of these types.
        match &*at.type_name() {
            "char" if self.is_rust => Some(false),
            "char" | "signed char" | "short" | "int" | "long" | "long long" | "wchar_t" => Some(true),
            "i8" | "i16" | "i32" | "i64" | "isize" => Some(true),
            "u8" | "u16" | "u32" | "u64" | "usize" => Some(false),
            "unsigned char" | "unsigned short" | "unsigned int" | "unsigned long" | "unsigned long long" | "bool"
            | "_Bool" | "char8_t" | "char16_t" | "char32_t" => Some(false),
            _ => None,
        }
    }

    /// The structure that a type is, or is an array of, with its name; the first `typedef`'s where it has none itself.
    pub(super) fn structure(&self, r#type: Metadata<'m>) -> Option<(Metadata<'m>, String)> {
        let (bare, alias) = self.bare(r#type);
        let is_array = bare?.tag() == Some(tag::ARRAY);
        let structure = self.element(bare?)?;
        if !self.is_structure(structure) {
            return None;
        }
        let own = self.title(structure);
        let name = match (own.is_empty(), is_array) {
            (false, _) => own,
            (true, false) => alias,
            // The typedef of the elements, which `element` has looked through.
            (true, true) => self.element_alias(r#type),
        };
        Some((structure, name))
    }

    /// The member at an offset in an object, of which so much is accessed. Arrays of structures count as one of them. Of bit fields that
    /// lie together, `a, b`; of a union's members that may be meant, `a | b`.
    pub(super) fn member(&mut self, object: Metadata<'m>, offset_bytes: u64, extent: Extent) -> Option<Member<'m>> {
        let (structure, name) = self.structure(object)?;
        let size = structure.size_bits() / 8;
        let offset_bytes = offset_bytes.checked_rem(size).unwrap_or(offset_bytes);
        let mut way = Way { room_bytes: size.saturating_sub(offset_bytes), ..Way::default() };
        self.ways_left = MOST_WAYS;
        let r#type = self.descend(structure, offset_bytes, extent, &mut way, 0);
        if extent.bytes > way.room_bytes || r#type.is_none() {
            way.field.clear();
        }
        let pointee = r#type.and_then(|r#type| {
            let pointee = self.pointee(r#type)?;
            Some(way.element.filter(|_| pointee.type_name() == "u8").unwrap_or(pointee))
        });
        let name = if name.is_empty() { self.given_name(structure) } else { name };
        Some(Member { structure: name, field: way.field, offset_bytes, r#type, pointee, of: structure })
    }

    /// Follows members down to one without members.
    fn descend(
        &mut self,
        structure: Metadata<'m>,
        mut offset_bytes: u64,
        extent: Extent,
        way: &mut Way<'m>,
        depth: usize,
    ) -> Option<Metadata<'m>> {
        self.ways_left = self.ways_left.checked_sub(1)?;
        let mut at = structure;
        for _ in depth..MAX_DEPTH {
            // What a library's structure is made of has no name in a program's; but what it holds does.
            let is_quiet = !way.field.is_empty() && (self.is_librarys(at) || is_atomic(at));
            match at.tag() {
                Some(tag::ARRAY) => {
                    way.field.push_str("[]");
                    let element = at.operand(self.base)?;
                    offset_bytes = offset_bytes.checked_rem(self.bytes(element)).unwrap_or(0);
                    at = self.bare(element).0?;
                }
                Some(tag::VARIANT_PART) => return self.variant(at, offset_bytes, extent, way, depth),
                Some(tag::UNION) if !self.is_rust => return self.alternative(at, offset_bytes, extent, way, depth),
                Some(tag::STRUCTURE | tag::CLASS | tag::UNION) => {
                    way.element = if self.is_rust { rust::vector_element(at, self.base) } else { None }.or(way.element);
                    let members = self.members(at);
                    let holders = || members.iter().filter(|member| member.holds(offset_bytes));
                    // Of a union the member that is as large as the access; else any.
                    let exact = holders().find(|member| at.tag() == Some(tag::UNION) && member.bytes == extent.bytes);
                    let member = exact.or_else(|| holders().next())?;
                    if member.is_bit_field {
                        push_bit_fields(way, &members, offset_bytes, extent);
                        return self.bare(member.r#type?).0;
                    }
                    // Parents and anonymous members have no name: theirs are as if they were declared here.
                    if !member.name.is_empty() && !is_quiet {
                        push_name(&mut way.field, &member.name);
                    }
                    offset_bytes -= member.from_bytes;
                    if !is_quiet {
                        way.room_bytes = member.bytes.max(1).saturating_sub(offset_bytes);
                    }
                    at = self.bare(member.r#type?).0?;
                }
                _ => return Some(at),
            }
        }
        None
    }

    /// The member of one of Rust's alternatives: of all that have one of so many bytes there, as `Circle.r | Square.side`. Of
    /// the standard library's, such as `Some`, only what they hold has a name.
    fn variant(
        &mut self,
        part: Metadata<'m>,
        offset_bytes: u64,
        extent: Extent,
        way: &mut Way<'m>,
        depth: usize,
    ) -> Option<Metadata<'m>> {
        let mut names: Vec<String> = Vec::new();
        let mut found = None;
        for variant in &*self.members(part) {
            let Some(of) = variant.r#type.and_then(|of| self.bare(of).0) else { continue };
            let mut inner = Way { room_bytes: way.room_bytes, ..Way::default() };
            let Some(r#type) = self.descend(of, offset_bytes - variant.from_bytes, extent, &mut inner, depth + 1)
            else {
                continue;
            };
            if self.bytes(r#type) != extent.bytes {
                continue;
            }
            if found.is_none() {
                found = Some(r#type);
                way.element = inner.element.or(way.element);
                way.room_bytes = inner.room_bytes;
            }
            let name = if self.is_librarys(of) {
                // `0` of `Some`, and what is behind it.
                inner.field.split_once('.').map_or_else(String::new, |(_, rest)| rest.to_owned())
            } else {
                format!("{}.{}", variant.name, inner.field)
            };
            if !names.contains(&name) && !name.is_empty() {
                names.push(name);
            }
        }
        if !names.is_empty() {
            push_name(&mut way.field, &names.join(" | "));
        }
        found
    }

    /// The member of a union: of those that are as large as the access the ones that are such values; where none is, any.
    fn alternative(
        &mut self,
        union: Metadata<'m>,
        offset_bytes: u64,
        extent: Extent,
        way: &mut Way<'m>,
        depth: usize,
    ) -> Option<Metadata<'m>> {
        let mut found = Vec::new();
        for member in self.members(union).iter().filter(|member| member.holds(offset_bytes)) {
            let Some(of) = member.r#type.and_then(|of| self.bare(of).0) else { continue };
            let mut inner = Way { field: member.name.clone(), room_bytes: member.bytes - offset_bytes, element: None };
            if let Some(r#type) = self.descend(of, offset_bytes, extent, &mut inner, depth + 1) {
                found.push((inner, r#type));
            }
        }
        let mut keep_if_any = |is_meant: &dyn Fn(Metadata<'m>) -> bool| {
            if found.iter().any(|(_, r#type)| is_meant(*r#type)) {
                found.retain(|(_, r#type)| is_meant(*r#type));
            }
        };
        keep_if_any(&|r#type| self.bytes(r#type) == extent.bytes);
        keep_if_any(&|r#type| extent.kind.is_some() && self.kind(r#type) == extent.kind);
        let mut names: Vec<String> = Vec::new();
        for (inner, _) in &found {
            if !inner.field.is_empty() && !names.contains(&inner.field) {
                names.push(inner.field.clone());
            }
        }
        if names.len() > MOST_ALTERNATIVES {
            names.truncate(MOST_ALTERNATIVES);
            names.push("…".to_owned());
        }
        if !names.is_empty() {
            push_name(&mut way.field, &names.join(" | "));
        }
        way.room_bytes = found.iter().map(|(inner, _)| inner.room_bytes).max()?;
        found.first().map(|(_, r#type)| *r#type)
    }

    /// What values of a type are to a processor.
    fn kind(&self, r#type: Metadata<'m>) -> Option<ValueKind> {
        match r#type.tag()? {
            tag::POINTER | tag::REFERENCE | tag::RVALUE_REFERENCE | tag::UNSPECIFIED => Some(ValueKind::Pointer),
            tag::ENUMERATION => Some(ValueKind::Integer),
            // LLVM's C API does not tell the encoding.
            tag::BASE if ["float", "double"].contains(&&*r#type.type_name()) => Some(ValueKind::Float),
            tag::BASE if r#type.type_name() != "long double" => Some(ValueKind::Integer),
            _ => None,
        }
    }

    /// The members of a structure, in their order.
    pub(super) fn members(&mut self, structure: Metadata<'m>) -> Rc<[Declared<'m>]> {
        if let Some(known) = self.members.get(&structure) {
            return Rc::clone(known);
        }
        let elements = structure.operand(self.base + 1).map(Metadata::operands).unwrap_or_default();
        let alternatives = elements.iter().flatten().map(|element| element.as_metadata());
        let alternatives = alternatives.filter(|element| self.is_rust && element.tag() == Some(tag::VARIANT_PART));
        let alternatives: Vec<_> = alternatives
            .map(|part| Declared {
                name: String::new(),
                from_bytes: 0,
                bytes: structure.size_bits() / 8,
                r#type: Some(part),
                is_bit_field: false,
                is_parent: false,
                takes_no_room: false,
            })
            .collect();
        let members = elements.into_iter().flatten().map(Value::as_metadata).filter_map(|member| {
            let is_member = member.kind() == MetadataKind::DerivedType
                && matches!(member.tag(), Some(tag::MEMBER | tag::INHERITANCE))
                && !member.is_static_member();
            let is_parent = member.tag() == Some(tag::INHERITANCE);
            // What is told as its offset is one in the virtual table.
            let is_member = is_member && !(is_parent && member.is_virtual_base());
            is_member.then(|| {
                let r#type = member.operand(self.base);
                // Parents have no size of their own.
                let of_type = r#type.map_or(0, |r#type| self.bytes_as_parent(r#type));
                let first_bit = member.offset_bits();
                let last_bit = first_bit + if is_parent { of_type * 8 } else { member.size_bits() };
                Declared {
                    name: if is_parent { String::new() } else { self.field_name(&member.type_name()) },
                    from_bytes: first_bit / 8,
                    bytes: last_bit.div_ceil(8) - first_bit / 8,
                    r#type,
                    is_bit_field: member.is_bit_field(),
                    is_parent,
                    takes_no_room: false,
                }
            })
        });
        let mut members: Vec<_> = members.collect();
        if self.is_rust {
            // rustc chooses the order by itself, and what takes no room lies anywhere.
            members.retain(|member| member.bytes > 0);
            members.sort_by_key(|member| member.from_bytes);
            members.extend(alternatives);
        }
        // No class is its own parent, but a hostile file's may be.
        self.members.insert(structure, Rc::new([]));
        for parent in members.iter_mut().filter(|member| member.is_parent) {
            let of = parent.r#type.and_then(|r#type| self.bare(r#type).0);
            parent.takes_no_room = of.is_some_and(|of| self.members(of).iter().all(|member| member.takes_no_room));
        }
        let members: Rc<[_]> = members.into();
        self.members.insert(structure, Rc::clone(&members));
        members
    }

    /// Bytes that a class takes as a part of another one: virtual bases, its own and its parents', are in the object once, elsewhere.
    fn bytes_as_parent(&self, r#type: Metadata<'m>) -> u64 {
        let class = self.bare(r#type).0.filter(|class| self.has_virtual_bases(*class, 0));
        class.map_or_else(|| self.bytes(r#type), |class| self.bytes_without_virtual_bases(class, 0))
    }

    fn parts_of(&self, class: Metadata<'m>) -> impl Iterator<Item = Metadata<'m>> + use<'m> {
        let elements = class.operand(self.base + 1).map(Metadata::operands).unwrap_or_default();
        elements.into_iter().flatten().map(Value::as_metadata)
    }

    /// Its parents, with whether each is virtual.
    fn parents_of(&self, class: Metadata<'m>) -> impl Iterator<Item = (Metadata<'m>, bool)> {
        self.parts_of(class).filter(|part| part.tag() == Some(tag::INHERITANCE)).filter_map(|part| {
            let parent = self.bare(part.operand(self.base)?).0?;
            Some((parent, part.is_virtual_base()))
        })
    }

    fn has_virtual_bases(&self, class: Metadata<'m>, depth: usize) -> bool {
        depth < MAX_DEPTH
            && self
                .parents_of(class)
                .any(|(parent, is_virtual)| is_virtual || self.has_virtual_bases(parent, depth + 1))
    }

    fn bytes_without_virtual_bases(&self, class: Metadata<'m>, depth: usize) -> u64 {
        let ends = self.parts_of(class).filter_map(|part| match part.tag()? {
            tag::MEMBER if !part.is_static_member() => Some((part.offset_bits() + part.size_bits()).div_ceil(8)),
            tag::INHERITANCE if !part.is_virtual_base() && depth < MAX_PARENTS => {
                let parent = self.bare(part.operand(self.base)?).0?;
                let bytes = match self.has_virtual_bases(parent, depth + 1) {
                    true => self.bytes_without_virtual_bases(parent, depth + 1),
                    false => self.bytes(parent),
                };
                Some(part.offset_bits() / 8 + bytes)
            }
            _ => None,
        });
        ends.max().unwrap_or(0)
    }

    /// Whether all of a structure of Rust's is the program's own, and always there.
    pub(super) fn is_plain(&mut self, structure: Metadata<'m>) -> bool {
        !self.is_librarys(structure) && self.members(structure).iter().all(|member| !member.name.is_empty())
    }

    fn field_name(&self, name: &str) -> String {
        if self.is_rust { rust::field_name(name) } else { name }.to_owned()
    }
}

/// Adds the names of bit fields that an access covers, which is of all of them.
fn push_bit_fields(way: &mut Way<'_>, members: &[Declared<'_>], offset_bytes: u64, extent: Extent) {
    let end = offset_bytes + extent.bytes.max(1);
    let covers = |member: &&Declared<'_>| {
        let ends = member.from_bytes + member.bytes.max(1);
        member.is_bit_field && member.from_bytes < end && offset_bytes < ends
    };
    let covered: Vec<_> = members.iter().filter(covers).collect();
    let names: Vec<_> = covered.iter().map(|member| &*member.name).filter(|name| !name.is_empty()).collect();
    if !names.is_empty() {
        push_name(&mut way.field, &names.join(", "));
    }
    let ends = covered.iter().map(|member| member.from_bytes + member.bytes.max(1));
    way.room_bytes = ends.max().unwrap_or(offset_bytes) - offset_bytes;
}

/// Whether a structure is one of the C++ library's atomics.
fn is_atomic(structure: Metadata<'_>) -> bool {
    let name = structure.type_name();
    ["atomic<", "__atomic_base<", "__atomic_float<"].iter().any(|start| name.starts_with(start))
        && rust::scopes_of(structure).last().is_some_and(|outermost| outermost.operand_text(NAME) == "std")
}

/// Adds a name to a path.
fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
