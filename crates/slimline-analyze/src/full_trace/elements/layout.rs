//! Structures as they are declared, and which member each of their bytes belongs to.

use std::collections::BTreeSet;

use slimline_attribute::tables::Language;
use slimline_trace::fortran_names;
use slimline_trace::stream::sites::{Module, Structure};

use super::{ElementId, Fit, LeafId, NO_ELEMENT};

/// Larger ones are not looked into: their arrays are accessed by their own names.
const MOST_BYTES: u32 = 1 << 16;
/// Leaves that an element may have; spans come above.
const MOST_LEAVES: usize = 1 << 14;
/// Structures within structures that are looked into.
pub(super) const MAX_DEPTH: u32 = 16;
/// How types of arrays begin that objects are put into.
const RAW: [&str; 3] = ["char[", "unsigned char[", "enum byte["];
/// How the names of atomics begin.
const ATOMICS: [&str; 4] = ["atomic<", "__atomic_base<", "__atomic_float<", "Atomic"];
/// What may stand before the elements of `new T[n]`: their number, aligned as they are.
const COOKIES: [u32; 2] = [8, 16];

/// What makes a structure one: units that see another one of its name have another structure.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::full_trace) struct Declaration {
    pub(in crate::full_trace) name: String,
    pub(in crate::full_trace) is_alias: bool,
    pub(in crate::full_trace) bytes: u32,
    /// It is of the system's headers.
    pub(in crate::full_trace) is_foreign: bool,
    /// Rust, Fortran, or C for what is C or C++.
    pub(in crate::full_trace) language: Language,
    members: Vec<DeclaredMember>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct DeclaredMember {
    name: String,
    type_name: String,
    offset_bytes: u32,
    bytes: u32,
    made_of: ElementId,
}

/// A member, or those that share bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::full_trace) struct Part {
    /// Of those that share bytes all of them; of one without a name its type.
    pub(in crate::full_trace) name: String,
    /// Of the first.
    pub(in crate::full_trace) type_name: String,
    pub(in crate::full_trace) offset_bytes: u32,
    pub(in crate::full_trace) bytes: u32,
    /// The structures that they are, or are arrays of.
    pub(in crate::full_trace) made_of: Vec<ElementId>,
    members: u32,
    has_name: bool,
}

impl Part {
    pub(in crate::full_trace) fn end(&self) -> u32 {
        self.offset_bytes.saturating_add(self.bytes.max(1))
    }

    /// Whether it is several members that share bytes.
    pub(in crate::full_trace) fn is_shared(&self) -> bool {
        self.members > 1
    }

    /// Whether it is declared by a name.
    pub(in crate::full_trace) fn has_name(&self) -> bool {
        self.has_name
    }

    /// The structure that it is or is an array of, if nothing else shares its bytes.
    pub(in crate::full_trace) fn is_all(&self) -> Option<ElementId> {
        match self.made_of.as_slice() {
            [one] if self.members == 1 => Some(*one),
            _ => None,
        }
    }
}

/// A structure.
#[derive(Debug, Default)]
pub(in crate::full_trace) struct Element {
    pub(in crate::full_trace) declaration: Declaration,
    pub(in crate::full_trace) parts: Vec<Part>,
    /// By byte; empty of what is not looked into.
    pub(super) leaf_of: Box<[LeafId]>,
    /// Where in one of several an offset is.
    pub(super) repeat: Repeat,
    pub(super) leaves: Vec<Leaf>,
    pub(super) spans: Vec<Span>,
    /// What accesses that are wider than a byte are of.
    pub(super) widths: Vec<Width>,
    /// The last leaf, if it is an array that may go on behind the structure.
    pub(super) open: Option<LeafId>,
    /// That array has no length.
    is_open: bool,
    /// How many structures within structures it has, itself one.
    depth: u32,
    /// All structures that it is made of, at any depth, in order; empty of what is not looked into.
    made_of: Box<[ElementId]>,
}

/// Offsets in elements of so many bytes, one behind the other: a remainder by two multiplications, as a division takes several times
/// as long (Lemire, Kaser and Kurz, Software: Practice and Experience, 2019).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeat {
    bytes: u32,
    /// 2⁶⁴ divided by them, rounded up, modulo 2⁶⁴.
    reciprocal: u64,
}

impl Repeat {
    fn of(bytes: u32) -> Self {
        Self { bytes, reciprocal: (u64::MAX / u64::from(bytes)).wrapping_add(1) }
    }

    /// Where in its element an offset is.
    #[inline(always)]
    pub(super) fn within(self, offset: u64) -> usize {
        match u32::try_from(offset) {
            Ok(offset) => self.within_short(offset),
            Err(_) => (offset % u64::from(self.bytes)) as usize,
        }
    }

    /// The same of an offset of 32 bits.
    #[inline(always)]
    pub(super) fn within_short(self, offset: u32) -> usize {
        let fraction = self.reciprocal.wrapping_mul(offset.into());
        ((u128::from(fraction) * u128::from(self.bytes)) >> 64) as usize
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    /// With those around it: `position.x`; empty of paddings.
    pub(super) name: String,
    /// The structure whose member it is; of what has a parent that parent.
    pub(super) owner: ElementId,
    /// Bytes for something else to be put in.
    pub(super) is_raw: bool,
    /// Where it is first.
    pub(super) offset_bytes: u32,
}

/// Bytes of an element, and of what is behind it where they are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::full_trace) struct Span {
    pub(in crate::full_trace) offset_bytes: u32,
    pub(in crate::full_trace) bytes: u32,
    pub(in crate::full_trace) behind: Behind,
}

/// What is behind an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::full_trace) enum Behind {
    #[default]
    Unknown,
    /// Another one.
    Another,
    /// More of its last array.
    Array,
}

/// Accesses of so many bytes.
#[derive(Debug)]
pub(super) struct Width {
    pub(super) bytes: u32,
    pub(super) behind: Behind,
    /// By where they begin: see [`Element::leaves_of`](super::Element).
    pub(super) leaf_of: Box<[LeafId]>,
}

impl Element {
    /// The next of all elements.
    pub(super) fn new(declaration: Declaration, all: &[Self]) -> Self {
        let parts = parts(&declaration, all);
        let mut element = Self { declaration, parts, ..Self::default() };
        element.lay_out(all);
        if element.is_laid_out() {
            element.made_of = all_within(&element.parts, all);
        }
        element
    }

    fn lay_out(&mut self, all: &[Self]) {
        let bytes = self.declaration.bytes;
        let inner = self.parts.iter().flat_map(|part| &part.made_of);
        self.depth = 1 + inner.map(|inner| all[*inner as usize].depth).max().unwrap_or(0);
        if bytes == 0 || bytes > MOST_BYTES || self.depth > MAX_DEPTH {
            return;
        }
        let mut leaf_of = vec![0; bytes as usize];
        let own = all.len() as ElementId;
        self.leaves.push(Leaf { owner: own, ..Leaf::default() });
        for part in &self.parts {
            self.open = None;
            let is_array = part.type_name.ends_with(']');
            let (from, to) = (part.offset_bytes.min(bytes) as usize, part.end().min(bytes) as usize);
            let inner = part.is_all().map(|inner| &all[inner as usize]);
            // Of a parent with virtual bases these lie elsewhere.
            let is_whole = |inner: &&Self| !part.has_name || part.bytes >= inner.declaration.bytes;
            let inner = inner.filter(|inner| !inner.leaf_of.is_empty()).filter(is_whole);
            // Which member of a union it is nobody can tell.
            let inner = inner.filter(|inner| !part.has_name || !inner.is_union());
            let name = match (part.has_name, is_array) {
                (true, true) => format!("{}[]", part.name),
                (false, _) if inner.is_some() => String::new(),
                _ => part.name.clone(),
            };
            let first = self.leaves.len();
            match inner {
                Some(inner) => {
                    let is_atomic = inner.declaration.is_atomic();
                    // Members of what has no name are as if they were declared here.
                    let is_parent = name.is_empty() && !inner.declaration.name.is_empty();
                    self.leaves.extend(inner.leaves.iter().map(|leaf| Leaf {
                        name: match (name.is_empty(), leaf.name.is_empty()) {
                            (true, _) | (_, true) => leaf.name.clone(),
                            // What the library's atomics keep their values in is nothing that a program names.
                            _ if is_atomic => name.clone(),
                            _ => format!("{name}.{}", leaf.name),
                        },
                        owner: if is_parent { leaf.owner } else { own },
                        offset_bytes: part.offset_bytes + leaf.offset_bytes,
                        is_raw: leaf.is_raw,
                    }));
                    for (at, leaf) in leaf_of[from..to].iter_mut().enumerate() {
                        *leaf = match inner.leaf_of[at % inner.leaf_of.len()] {
                            0 => 0,
                            within => first as LeafId + within,
                        };
                    }
                }
                None => {
                    let is_raw = RAW.iter().any(|start| part.type_name.starts_with(start));
                    self.leaves.push(Leaf { name, owner: own, offset_bytes: part.offset_bytes, is_raw });
                    let end = if part.bytes == 0 { bytes as usize } else { to };
                    leaf_of[from..end.max(from)].fill(first as LeafId);
                    self.open = is_array.then_some(first as LeafId);
                    self.is_open = part.bytes == 0;
                }
            }
            if self.leaves.len() > MOST_LEAVES {
                self.leaves.clear();
                return;
            }
        }
        self.repeat = Repeat::of(bytes);
        self.leaf_of = leaf_of.into();
    }

    /// Whether it is known which member each byte of it belongs to.
    pub(in crate::full_trace) fn is_laid_out(&self) -> bool {
        !self.leaf_of.is_empty()
    }

    /// Whether it is made of this one, at any depth.
    pub(in crate::full_trace) fn has_within(&self, inner: ElementId) -> bool {
        self.made_of.binary_search(&inner).is_ok()
    }

    /// Whether its members all share their bytes.
    pub(super) fn is_union(&self) -> bool {
        self.parts.len() == 1 && self.parts[0].members > 1
    }

    /// How a block of so many bytes is filled with it.
    pub(super) fn fit(&self, bytes: u64, is_array_of_cpp: bool) -> (Fit, u32) {
        let size = u64::from(self.declaration.bytes);
        if self.leaf_of.is_empty() || bytes < size {
            return (Fit::None, 0);
        }
        let left = (bytes % size) as u32;
        let fit = match left {
            _ if bytes == size => Fit::Whole,
            _ if self.is_open => Fit::Open,
            0 => Fit::Repeats,
            _ if is_array_of_cpp && COOKIES.contains(&left) => return (Fit::Repeats, left),
            _ if self.open.is_some() => Fit::Open,
            _ => Fit::First,
        };
        (fit, 0)
    }
}

/// The structures that these are made of, at any depth, in order.
fn all_within(parts: &[Part], all: &[Element]) -> Box<[ElementId]> {
    let mut found = BTreeSet::new();
    let mut left: Vec<ElementId> = parts.iter().flat_map(|part| &part.made_of).copied().collect();
    while let Some(id) = left.pop() {
        if found.insert(id) {
            left.extend(all[id as usize].parts.iter().flat_map(|part| &part.made_of));
        }
    }
    found.into_iter().collect()
}

/// The members of a structure, those that share bytes put together.
fn parts(declaration: &Declaration, all: &[Element]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for member in &declaration.members {
        let DeclaredMember { name, type_name, offset_bytes, bytes, made_of } = member;
        let inner = &all[*made_of as usize];
        // A parent without members takes no room, wherever it is said to be.
        if *made_of != NO_ELEMENT && inner.declaration.members.is_empty() {
            continue;
        }
        let is_made_of = *made_of != NO_ELEMENT && bytes.checked_rem(inner.declaration.bytes) == Some(0);
        let shown = if name.is_empty() { type_name } else { name };
        match parts.last_mut() {
            // Bit fields, and members of a union.
            Some(last) if *offset_bytes < last.offset_bytes.saturating_add(last.bytes) => {
                last.name = format!("{}, {shown}", last.name);
                let end = offset_bytes.saturating_add(*bytes).saturating_sub(last.offset_bytes);
                last.bytes = last.bytes.max(end);
                last.made_of.extend(Some(*made_of).filter(|of| is_made_of && !last.made_of.contains(of)));
                last.members += 1;
                last.has_name = true;
            }
            _ => parts.push(Part {
                name: shown.clone(),
                type_name: type_name.clone(),
                offset_bytes: *offset_bytes,
                bytes: *bytes,
                made_of: is_made_of.then_some(*made_of).into_iter().collect(),
                members: 1,
                has_name: !name.is_empty(),
            }),
        }
    }
    parts
}

pub(super) fn declaration(module: &Module, declared: &Structure, of_module: &[ElementId]) -> Declaration {
    let text = |name| module.name(name).to_owned();
    let members = declared.members.iter().map(|member| DeclaredMember {
        name: text(member.name),
        type_name: text(member.type_name),
        offset_bytes: member.offset_bytes,
        bytes: member.size_bytes,
        made_of: member.structure.and_then(|of| of_module.get(of as usize)).copied().unwrap_or(NO_ELEMENT),
    });
    Declaration {
        name: text(declared.name),
        is_alias: declared.is_alias,
        bytes: declared.size_bytes,
        is_foreign: declared.is_foreign,
        language: language_of(module, declared.members.iter().map(|member| module.name(member.type_name))),
        members: members.collect(),
    }
}

/// The language of what is of these types: Rust, Fortran, or C for what is C or C++.
pub(in crate::full_trace) fn language_of<'a>(module: &Module, types: impl IntoIterator<Item = &'a str>) -> Language {
    match types.into_iter().any(fortran_names::is_type) {
        true => Language::Fortran,
        false if is_rusts(module) => Language::Rust,
        false => Language::C,
    }
}

/// Whether what a table tells of is written in Rust.
pub(in crate::full_trace) fn is_rusts(module: &Module) -> bool {
    module.name(module.producer).starts_with("rustc ")
}

impl Declaration {
    /// Whether it is one of the C++ library's or Rust's atomics.
    pub(in crate::full_trace) fn is_atomic(&self) -> bool {
        let own = self.name.rsplit_once("atomic::").map_or(&*self.name, |(_, own)| own);
        self.is_foreign && ATOMICS.iter().any(|start| own.starts_with(start))
    }

    /// Whether its members can be declared elsewhere as they are here.
    pub(in crate::full_trace) fn is_plain(&self) -> bool {
        let has_names = self.members.iter().all(|member| !member.name.is_empty());
        has_names && self.members.last().is_none_or(|last| last.bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_repeat() {
        for bytes in [1, 2, 3, 12, 16, 24, 65_535, MOST_BYTES] {
            let size = u64::from(bytes);
            let near = |offset: u64| [offset.saturating_sub(1), offset, offset + 1];
            let offsets = [0, size, 7 * size, u32::MAX.into(), (u64::from(u32::MAX) / size) * size, 5 << 40];
            for offset in offsets.into_iter().flat_map(near) {
                assert_eq!(Repeat::of(bytes).within(offset) as u64, offset % size, "{offset} of {bytes}");
            }
        }
    }
}
