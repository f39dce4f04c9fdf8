//! What lies where in structures, and so in heap blocks whose type is known.
//!
//! What a site is called is what the compiler knew of its pointer. Where it made one load of two, `bucket[i]` and
//! `entry->next`, that is one of both; so in blocks of a known type the offset says which field is accessed:
//!
//! ```text
//!   block      ┌───────────┬───────────┬───────────┐    Fit::Repeats; Fit::Whole where there is one
//!              │ key  next │ key  next │ key  next │
//!              └───────────┴───────────┴───────────┘
//!   leaf         1    2      1    2      1    2         0 is padding
//! ```
//!
//! What is wider than a byte may begin in one leaf and end in another, as stores that the compiler joined do, and copies. It is of a
//! *span* then, and counts once for each member in that: so shares of members may add up to more than those of what they are
//! members of, which count it once. Of arrays a span may go on in the next element.
//!
//! A block's type is the one that is allocated, or else the structure that is as large as the block and accessed in it:
//! blocks that a function of the program gives out for everything have no other.

mod layout;

use std::iter;
use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Module, Name, SiteKind};

use super::heap::live_blocks::Addresses;
use super::plans::plain_kind;
use super::spots::Column;
pub(super) use layout::{Behind, Element, Part, Span, is_rusts, language_of};
use layout::{Declaration, Leaf, MAX_DEPTH, Repeat, Width, declaration};

/// A structure of any module, by a number of our own; [`NO_ELEMENT`] is none.
pub(super) type ElementId = u32;
pub(super) const NO_ELEMENT: ElementId = 0;
/// A member without members, or several of those (a *span*); of an element.
pub(super) type LeafId = u16;
/// Of an element, but of none of its members.
const PADDING: LeafId = 0;
/// Nothing is known of the place.
pub(super) const NO_LEAF: LeafId = u16::MAX;
/// Nothing of that width was accessed there yet.
const UNSEEN: LeafId = u16::MAX - 1;
/// Spans that are told apart; others count as the whole.
const MOST_SPANS: usize = 1 << 10;
/// How a block is filled with elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fit {
    #[default]
    None,
    /// One at its beginning, and nobody knows what behind.
    First,
    /// One, whose last array has all that is left.
    Open,
    /// One behind the other.
    Repeats,
    /// One.
    Whole,
}

/// What is in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    element: ElementId,
    fit: Fit,
    /// Bytes before the first element.
    skipped: u32,
    /// It is a variable: of what sites name in it by themselves they know better which member of which union that is.
    is_variable: bool,
}

impl Content {
    /// What it is full of.
    pub(super) fn element(&self) -> ElementId {
        self.element
    }

    /// How.
    pub(super) fn fit(&self) -> Fit {
        self.fit
    }

    /// Bytes before the first element.
    pub(super) fn skipped(&self) -> u32 {
        self.skipped
    }
}

impl Element {
    /// By where accesses of a width begin: what they are of, [`UNSEEN`] where none did.
    #[inline]
    fn leaves_of(&self, view: &View) -> &[LeafId] {
        match view.width {
            0 => &self.leaf_of,
            index => &self.widths[usize::from(index) - 1].leaf_of,
        }
    }

    /// The index of a width, from 1; 0 is that of bytes.
    fn width(&mut self, bytes: u32, behind: Behind) -> u16 {
        if bytes <= 1 || self.leaf_of.is_empty() {
            return 0;
        }
        let known = self.widths.iter().position(|width| (width.bytes, width.behind) == (bytes, behind));
        let index = known.unwrap_or_else(|| {
            let leaf_of = vec![UNSEEN; self.leaf_of.len()].into();
            self.widths.push(Width { bytes, behind, leaf_of });
            self.widths.len() - 1
        });
        index as u16 + 1
    }

    /// The leaf of so many bytes from one of the element's on, or the span that they are.
    fn covered(&mut self, from: u32, bytes: u64, behind: Behind) -> LeafId {
        let size = self.leaf_of.len() as u32;
        let whole = Span { offset_bytes: 0, bytes: size, behind: Behind::Unknown };
        let span = match (u32::try_from(bytes), behind) {
            (Ok(bytes), Behind::Unknown) => Span { offset_bytes: from, bytes: bytes.min(size - from), behind },
            (Ok(bytes), Behind::Another) if bytes >= size => whole,
            (Ok(bytes), _) => Span { offset_bytes: from, bytes, behind },
            (Err(_), _) => whole,
        };
        let leaf = self.leaf_of[from as usize];
        if self.ranges(span).flat_map(|range| self.within(range)).all(|(of, _)| of == leaf) {
            return leaf;
        }
        let place = |spans: &[Span], span| spans.iter().position(|known| *known == span);
        let index = match place(&self.spans, span) {
            Some(index) => index,
            None => {
                // The last place is for the whole, which all others count as then.
                let span = if self.spans.len() + 1 < MOST_SPANS { span } else { whole };
                place(&self.spans, span).unwrap_or_else(|| {
                    self.spans.push(span);
                    self.spans.len() - 1
                })
            }
        };
        (self.leaves.len() + index) as LeafId
    }

    /// The leaves of some bytes, each with how many in a row; an array may go on behind the last.
    fn within(&self, Range { start, end }: Range<u32>) -> impl Iterator<Item = (LeafId, u32)> {
        let size = self.leaf_of.len() as u32;
        let declared = &self.leaf_of[start.min(size) as usize..end.min(size) as usize];
        let behind = self.open.filter(|_| end > size).map(|open| (open, end - start.max(size)));
        declared.iter().map(|leaf| (*leaf, 1)).chain(behind)
    }

    /// The bytes of a span: those that it has of this element, and those of the next one.
    fn ranges(&self, Span { offset_bytes: from, bytes, behind }: Span) -> impl Iterator<Item = Range<u32>> + use<> {
        let (size, end) = (self.leaf_of.len() as u32, from.saturating_add(bytes.max(1)));
        let goes_on = behind == Behind::Another && (from..end).contains(&size);
        let own = from..if goes_on { size } else { end };
        iter::once(own).chain(goes_on.then(|| 0..end - size))
    }
}

/// The leaf at an address, as its site sees the block.
#[inline]
fn leaf_at(leaves: &[LeafId], repeat: Repeat, open: Option<LeafId>, view: &View, address: u64) -> LeafId {
    let at = address.wrapping_sub(view.origin);
    if at >= view.extent {
        return NO_LEAF;
    }
    match leaves.get(at as usize) {
        Some(leaf) => *leaf,
        None if view.behind == Behind::Array => open.unwrap_or(0),
        None => leaves[repeat.within(at)],
    }
}

/// What a site knows of a block that it accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    origin: u64,
    extent: u64,
    element: ElementId,
    behind: Behind,
    /// Of the site's accesses, by the element's widths: see [`Element::leaves_of`].
    width: u16,
}

impl View {
    /// The same of another block, that begins elsewhere and has the same in as many bytes.
    pub(super) fn of_block(self, start: u64, content: Content) -> Self {
        Self { origin: start + u64::from(content.skipped), ..self }
    }

    pub(super) fn element(&self) -> ElementId {
        self.element
    }
}

/// Members that lie in some bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// `node.next`, each with how many of the bytes it has. The structure's name alone is of paddings.
    pub(super) named: Vec<(String, u32)>,
    /// All of the bytes, those of paddings between members, too.
    pub(super) bytes: u32,
}

impl Members {
    /// All bytes are of this one.
    pub(super) fn one(name: String, bytes: u32) -> Self {
        Self { named: vec![(name, bytes)], bytes }
    }
}

/// What a site says by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    /// The structure that it accesses a member of, or allocates.
    pub(super) element: ElementId,
    pub(super) offset_bytes: Option<u32>,
    /// Another one that it may access.
    pub(super) other: ElementId,
    is_array_of_cpp: bool,
    /// Of its loads or stores; 1 where that is not always the same.
    width_bytes: u32,
}

/// The structures of all modules.
#[derive(Debug, Default)]
pub(super) struct Elements {
    all: Vec<Element>,
    known: FxHashMap<Declaration, ElementId>,
    /// By module and name.
    by_name: FxHashMap<(u32, Name), ElementId>,
    modules: usize,
    by_site: Vec<Named>,
}

impl Elements {
    pub(super) fn make_room(&mut self, program: &Program) {
        if self.all.is_empty() {
            self.all.push(Element::default());
        }
        for (index, (_, module)) in program.modules().iter().enumerate().skip(self.modules) {
            self.add(index as u32, module);
        }
        self.modules = program.modules().len();
        for site in self.by_site.len()..program.site_count() {
            let id = SiteId(site as u32);
            let (module, site) = program.site(id);
            let index = program.module_index(id);
            let named = |name: Name| self.by_name.get(&(index, name)).copied().unwrap_or(NO_ELEMENT);
            self.by_site.push(Named {
                element: named(site.structure),
                offset_bytes: site.offset_bytes,
                other: named(site.other_structure),
                width_bytes: plain_kind(site.kind).map_or(1, |_| site.size_bytes),
                is_array_of_cpp: site.kind == SiteKind::Allocate && module.name(site.detail).starts_with("_Zna"),
            });
        }
    }

    fn add(&mut self, index: u32, module: &Module) {
        let mut of_module: Vec<ElementId> = Vec::with_capacity(module.structures.len());
        for structure in &module.structures {
            let declaration = declaration(module, structure, &of_module);
            let next = self.all.len() as ElementId;
            let id = *self.known.entry(declaration.clone()).or_insert(next);
            if id == next {
                self.all.push(Element::new(declaration, &self.all));
            }
            of_module.push(id);
            if !structure.name.is_none() {
                self.by_name.entry((index, structure.name)).or_insert(id);
            }
        }
    }

    pub(super) fn get(&self, id: ElementId) -> &Element {
        &self.all[id as usize]
    }

    /// How many there are; their numbers begin at 1.
    pub(super) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// What a site says by itself.
    pub(super) fn named(&self, site: SiteId) -> Named {
        self.by_site[site.0 as usize]
    }

    /// What is in a block of so many bytes that this site allocates.
    pub(super) fn allocated(&self, site: u32, bytes: u64) -> Content {
        let Named { element, is_array_of_cpp, .. } = self.by_site[site as usize];
        let (fit, skipped) = self.get(element).fit(bytes, is_array_of_cpp);
        if fit == Fit::None { Content::default() } else { Content { element, fit, skipped, is_variable: false } }
    }

    /// Of an array of structures: where its elements begin in its block, and the bytes of each.
    pub(super) fn array(&self, content: Content) -> Option<(u32, u32)> {
        (content.fit == Fit::Repeats).then(|| (content.skipped, self.get(content.element).declaration.bytes))
    }

    /// What is in a static variable of so many bytes, as this site declares it.
    pub(super) fn declared(&self, site: u32, bytes: u64) -> Content {
        let content = self.allocated(site, bytes);
        if self.get(content.element).is_union() { Content::default() } else { Content { is_variable: true, ..content } }
    }

    /// What is in a block now that a site made it larger or smaller, which another one allocated.
    pub(super) fn resized(&self, (site, allocated_by): (u32, u32), before: Content, bytes: u64) -> Content {
        let known = [site, allocated_by].map(|site| self.allocated(site, bytes));
        if let Some(content) = known.into_iter().find(|content| content.fit != Fit::None) {
            return content;
        }
        let (fit, skipped) = self.get(before.element).fit(bytes, false);
        match fit {
            Fit::None => Content::default(),
            // Nobody said that it is an array.
            Fit::Repeats if before.fit != Fit::Repeats => {
                Content { element: before.element, fit: Fit::First, skipped, is_variable: false }
            }
            _ => Content { element: before.element, fit, skipped, is_variable: false },
        }
    }

    /// What is in a block of so many bytes, now that the site accesses it at this offset; none where that says nothing new.
    pub(super) fn learned(&self, content: Content, site: u32, at: u64, bytes: u64) -> Option<Content> {
        let Named { element, offset_bytes: Some(offset), .. } = self.by_site[site as usize] else { return None };
        let is_known = element == content.element || content.fit == Fit::Whole;
        if is_known && !content.is_variable || element == NO_ELEMENT || at != u64::from(offset) {
            return None;
        }
        let candidate = self.get(element);
        if candidate.is_union() {
            return None;
        }
        // One that is as large: others begin as it does, pools have headers, and many sizes divide theirs.
        let (fit, skipped) = candidate.fit(bytes, false);
        (fit == Fit::Whole).then_some(Content { element, fit, skipped, is_variable: false })
    }

    /// What an array of so many bytes is of which nobody has said it, where all that names what it accesses there names this element.
    pub(super) fn array_of(&self, element: ElementId, bytes: u64) -> Option<Content> {
        let candidate = self.get(element);
        let is_one = candidate.is_union() || candidate.declaration.is_foreign;
        let (fit, skipped) = candidate.fit(bytes, false);
        (fit == Fit::Repeats && !is_one).then_some(Content { element, fit, skipped, is_variable: false })
    }

    /// How a site sees a block.
    pub(super) fn view(&mut self, content: Content, site: u32, start: u64, end: u64) -> View {
        let Content { element, fit, skipped, is_variable } = content;
        if is_variable && self.by_site[site as usize].element != NO_ELEMENT {
            return View::default();
        }
        let origin = start + u64::from(skipped);
        let all = end - origin.min(end);
        let size = u64::from(self.get(element).declaration.bytes);
        let (extent, behind) = match fit {
            Fit::None => return View::default(),
            // Of what begins with one and has others behind it.
            Fit::Repeats if self.contradicts(site, element) => (size, Behind::Unknown),
            Fit::First => (size, Behind::Unknown),
            Fit::Open => (all, Behind::Array),
            Fit::Repeats => (all, Behind::Another),
            Fit::Whole => (all, Behind::Unknown),
        };
        let width = self.all[element as usize].width(self.by_site[site as usize].width_bytes, behind);
        View { origin, extent, element, behind, width }
    }

    /// Whether a site certainly accesses another structure, which is not part of this one.
    fn contradicts(&self, site: u32, element: ElementId) -> bool {
        let named = self.by_site[site as usize];
        named.element != NO_ELEMENT
            && named.element != element
            && named.other == NO_ELEMENT
            && !self.get(element).has_within(named.element)
            && !self.begins_with(element, named.element)
    }

    /// Whether a structure begins with all members of another one, as derived ones do in C.
    pub(super) fn begins_with(&self, element: ElementId, header: ElementId) -> bool {
        let (parts, header) = (&self.get(element).parts, &self.get(header).parts);
        !header.is_empty() && parts.starts_with(header)
    }

    /// What an access of the site's width is of that begins there, as the site sees the block: a leaf, or the span that it covers.
    pub(super) fn leaf(&mut self, view: &View, address: u64) -> LeafId {
        let element = &mut self.all[view.element as usize];
        let leaf = leaf_at(element.leaves_of(view), element.repeat, element.open, view, address);
        if leaf != UNSEEN {
            return leaf;
        }
        let index = usize::from(view.width) - 1;
        let from = (address - view.origin) % element.leaf_of.len() as u64;
        let leaf = element.covered(from as u32, element.widths[index].bytes.into(), view.behind);
        element.widths[index].leaf_of[from as usize] = leaf;
        leaf
    }

    /// How many addresses from the first on are some of these, and of this leaf, as their site sees the block.
    #[inline]
    pub(super) fn count_same(&self, view: &View, leaf: LeafId, within: Addresses, column: Column<'_>) -> usize {
        let Column { words, distance } = column;
        if view.extent == 0 {
            let within = within.before(distance);
            return words.iter().take_while(|word| within.contain(**word)).count();
        }
        let element = &self.all[view.element as usize];
        let (leaves, repeat, open) = (element.leaves_of(view), element.repeat, element.open);
        let seen = Addresses { from: view.origin, bytes: view.extent };
        if leaf == NO_LEAF || view.behind == Behind::Array || u32::try_from(view.extent).is_err() {
            let within = within.before(distance);
            let is_same = |word: &&u64| {
                within.contain(**word) && leaf_at(leaves, repeat, open, view, word.wrapping_add(distance)) == leaf
            };
            return words.iter().take_while(is_same).count();
        }
        // As most are: of an array of elements, or one of them.
        let within = within.of_both(seen).before(distance);
        let to_offset = distance.wrapping_sub(view.origin);
        let is_same = |word: &&u64| {
            within.contain(**word) && leaves[repeat.within_short(word.wrapping_add(to_offset) as u32)] == leaf
        };
        words.iter().take_while(is_same).count()
    }

    /// The leaf of an access of so many bytes, or the span of those that it covers. One byte stands for the site's width.
    pub(super) fn span(&mut self, view: &View, address: u64, bytes: u64) -> LeafId {
        if bytes <= 1 {
            return self.leaf(view, address);
        }
        let element = &mut self.all[view.element as usize];
        let at = address.wrapping_sub(view.origin);
        let size = element.leaf_of.len() as u64;
        if at >= view.extent {
            return NO_LEAF;
        }
        // Behind the block lies something else.
        let bytes = bytes.clamp(1, view.extent - at);
        match (view.behind == Behind::Array, at >= size) {
            (true, true) => element.open.unwrap_or(0),
            _ => element.covered((at % size) as u32, bytes, view.behind),
        }
    }

    /// The bytes of an element that a leaf or a span stands for, of which an access has so many. None of what no member has:
    /// paddings, and virtual bases.
    pub(super) fn bytes_of(&self, id: ElementId, leaf: LeafId, bytes: u32) -> Option<Span> {
        let element = self.get(id);
        match element.leaves.get(leaf as usize) {
            Some(_) if leaf == PADDING => None,
            Some(leaf) => Some(Span { offset_bytes: leaf.offset_bytes, bytes, behind: Behind::Array }),
            None => Some(element.spans[leaf as usize - element.leaves.len()]),
        }
    }

    /// Which bytes of an element a span has.
    pub(super) fn ranges(&self, id: ElementId, span: Span) -> Vec<Range<u32>> {
        self.get(id).ranges(span).collect()
    }

    /// The members that lie in a span of an element.
    pub(super) fn members(&self, id: ElementId, span: Span) -> Members {
        let element = self.get(id);
        let mut covered: Vec<(LeafId, u32)> = Vec::new();
        for (leaf, count) in element.ranges(span).flat_map(|range| element.within(range)) {
            match covered.iter_mut().find(|(known, _)| *known == leaf) {
                Some((_, bytes)) => *bytes += count,
                None => covered.push((leaf, count)),
            }
        }
        let bytes = covered.iter().map(|(_, bytes)| bytes).sum::<u32>();
        // Paddings are copied with what is around them, and are nobody's.
        if covered.len() > 1 {
            covered.retain(|(leaf, _)| *leaf != PADDING);
        }
        let named = covered.into_iter().map(|(leaf, bytes)| {
            let Leaf { name, owner, .. } = &element.leaves[leaf as usize];
            let structure = &self.get(*owner).declaration.name;
            (if name.is_empty() { structure.clone() } else { format!("{structure}.{name}") }, bytes)
        });
        Members { named: named.collect(), bytes }
    }

    /// The one member that lies in so many bytes of an element from an offset on; none where it is none, or several.
    pub(super) fn member_at(&self, id: ElementId, offset_bytes: u32, bytes: u32) -> Option<String> {
        let leaf = *self.get(id).leaf_of.get(offset_bytes as usize)?;
        let mut named = self.members(id, self.bytes_of(id, leaf, bytes)?).named;
        if named.len() == 1 { named.pop().map(|(name, _)| name) } else { None }
    }

    /// The structures that a leaf or a span of an element is in: the element, and whose member a leaf is.
    pub(super) fn names_around(&self, id: ElementId, leaf: LeafId) -> Vec<&str> {
        if id == NO_ELEMENT || leaf == NO_LEAF {
            return Vec::new();
        }
        let element = self.get(id);
        let owner = element.leaves.get(leaf as usize).map(|leaf| self.get(leaf.owner));
        let names = iter::once(element).chain(owner).map(|element| element.declaration.name.as_str());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Whether a site knows better what a leaf holds: it is bytes, and the site says what it has there.
    pub(super) fn is_put_into(&self, named: Named, id: ElementId, leaf: LeafId) -> bool {
        let is_raw = self.get(id).leaves.get(leaf as usize).is_some_and(|leaf| leaf.is_raw);
        is_raw && ![NO_ELEMENT, id].contains(&named.element) && named.other == NO_ELEMENT
    }

    /// Whether a site's own names are right for what it accesses at this offset of an element.
    pub(super) fn agrees(&self, named: Named, id: ElementId, offset_bytes: u32) -> bool {
        let Named { element, offset_bytes: Some(own), .. } = named else { return false };
        element != NO_ELEMENT && self.has_at(id, offset_bytes, element, own, 0)
    }

    /// Whether an element has, where this offset is, a structure at its own offset; in an array of it anywhere.
    fn has_at(&self, id: ElementId, offset_bytes: u32, inner: ElementId, own: u32, depth: u32) -> bool {
        if id == inner {
            let element = self.get(id);
            let leaf = |offset: u32| element.leaf_of.get(offset as usize);
            return offset_bytes == own || leaf(offset_bytes).is_some_and(|known| leaf(own) == Some(known));
        }
        let parts = &self.get(id).parts;
        let parts = parts.iter().filter(|part| (part.offset_bytes..part.end()).contains(&offset_bytes));
        let made_of = parts.flat_map(|part| part.made_of.iter().map(move |of| (part.offset_bytes, *of)));
        depth < MAX_DEPTH
            && made_of.into_iter().any(|(from, of)| {
                let within = (offset_bytes - from) % self.get(of).declaration.bytes.max(1);
                self.has_at(of, within, inner, own, depth + 1)
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slimline_trace::stream::sites::{Member, ModuleBuilder, Site, Structure};

    use super::*;

    /// `point { short x, y; }`, `value { long number | double ratio; }`, `base {}`, `node { base; point corner[2]; char tag; value
    /// extra; node *next; }`, `text { int length; char bytes[]; }` and `header { node *next; }`, which nothing here begins with.
    fn elements() -> Elements {
        let mut builder = ModuleBuilder::new();
        let mut add = |name: &str, size_bytes, members: &[(&str, &str, u32, u32, Option<u32>)]| {
            let members = members.iter().map(|&(name, type_name, offset_bytes, size_bytes, structure)| Member {
                name: builder.name(name),
                type_name: builder.name(type_name),
                offset_bytes,
                size_bytes,
                structure,
            });
            let members = members.collect();
            let name = builder.name(name);
            builder.structure(Structure { name, is_alias: false, is_foreign: false, size_bytes, members })
        };
        add("point", 4, &[("x", "short", 0, 2, None), ("y", "short", 2, 2, None)]);
        add("value", 8, &[("number", "long", 0, 8, None), ("ratio", "double", 0, 8, None)]);
        add("base", 1, &[]);
        let node = [
            ("", "struct base", 0, 1, Some(2)),
            ("corner", "struct point[2]", 0, 8, Some(0)),
            ("tag", "char", 8, 1, None),
            ("extra", "union value", 16, 8, Some(1)),
            ("next", "struct node *", 24, 8, None),
        ];
        add("node", 32, &node);
        add("text", 4, &[("length", "int", 0, 4, None), ("bytes", "char[]", 4, 0, None)]);
        add("header", 8, &[("next", "struct node *", 0, 8, None)]);
        let [point, node, text, value, header] =
            ["point", "node", "text", "value", "header"].map(|name| builder.name(name));
        let [new, malloc] = ["_Znam", "malloc"].map(|name| builder.name(name));
        let allocation = |structure, detail| Site { structure, detail, ..Site::new(SiteKind::Allocate, 0) };
        let load = |structure, offset| Site { structure, offset_bytes: Some(offset), ..Site::new(SiteKind::Load, 2) };
        builder.segment([allocation(node, malloc), allocation(node, new), allocation(text, malloc)]);
        builder.segment([load(node, 16), load(point, 2), load(value, 0), load(header, 0)]);
        builder.segment([Site { other_structure: node, ..load(header, 0) }, Site::new(SiteKind::Resize, 0)]);
        builder.segment([Site::new(SiteKind::Load, 16)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let mut elements = Elements::default();
        elements.make_room(&program);
        elements
    }

    const NODE: ElementId = 4;
    // Sites.
    const OF_MALLOC: u32 = 0;
    const OF_NEW: u32 = 1;
    const OF_TEXT: u32 = 2;
    const LOADS_EXTRA: u32 = 3;
    const LOADS_Y: u32 = 4;
    const LOADS_VALUE: u32 = 5;
    const LOADS_HEADER: u32 = 6;
    const LOADS_SOME: u32 = 7;
    const RESIZES: u32 = 8;
    const LOADS_WIDE: u32 = 9;

    fn names(elements: &Elements, id: ElementId, from: u32, bytes: u32) -> Vec<String> {
        let members = elements.members(id, Span { offset_bytes: from, bytes, behind: Behind::Another });
        members.named.into_iter().map(|(name, bytes)| format!("{name} {bytes}")).collect()
    }

    #[test]
    fn each_byte_has_its_member() {
        let elements = elements();
        assert_eq!(names(&elements, NODE, 6, 2), ["node.corner[].y 2"]);
        assert_eq!(names(&elements, NODE, 8, 1), ["node.tag 1"]);
        assert_eq!(names(&elements, NODE, 9, 4), ["node 4"]);
        assert_eq!(names(&elements, NODE, 20, 4), ["node.extra 4"]);
        let all = ["node.corner[].x 4", "node.corner[].y 4", "node.tag 1", "node.extra 8", "node.next 8"];
        assert_eq!(names(&elements, NODE, 0, 32), all);
        let parts: Vec<_> = elements.get(NODE).parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, ["corner", "tag", "extra", "next"]);
    }

    #[test]
    fn blocks_are_filled() {
        let elements = elements();
        let fit = |site, bytes| {
            let Content { element, fit, skipped, .. } = elements.allocated(site, bytes);
            (element, fit, skipped)
        };
        assert_eq!(fit(OF_MALLOC, 32), (NODE, Fit::Whole, 0));
        assert_eq!(fit(OF_MALLOC, 320), (NODE, Fit::Repeats, 0));
        assert_eq!(fit(OF_MALLOC, 40), (NODE, Fit::First, 0));
        assert_eq!(fit(OF_MALLOC, 31), (NO_ELEMENT, Fit::None, 0));
        assert_eq!(fit(OF_NEW, 328), (NODE, Fit::Repeats, 8));
        assert_eq!(fit(OF_TEXT, 400), (5, Fit::Open, 0));
        assert_eq!(fit(LOADS_HEADER, 16), (6, Fit::Repeats, 0));
    }

    #[test]
    fn a_block_is_what_is_as_large_and_accessed_in_it() {
        let elements = elements();
        let none = Content::default();
        let learned = |content, site, at, bytes| elements.learned(content, site, at, bytes);
        let whole = Content { element: NODE, fit: Fit::Whole, skipped: 0, is_variable: false };
        assert_eq!(learned(none, LOADS_EXTRA, 16, 32), Some(whole));
        assert_eq!(learned(none, LOADS_EXTRA, 24, 32), None, "elsewhere in the block");
        assert_eq!(learned(none, LOADS_HEADER, 0, 32), None, "no array, whatever the sizes");
        let header = elements.allocated(LOADS_HEADER, 32);
        assert_eq!((header.element, header.fit), (6, Fit::Repeats), "as it is allocated");
        assert_eq!(learned(header, LOADS_EXTRA, 16, 32), Some(whole));
        assert_eq!(learned(whole, LOADS_HEADER, 0, 32), None);
        assert_eq!(learned(none, LOADS_VALUE, 0, 8), None, "a union says nothing of its block");
        assert_eq!(elements.resized((RESIZES, RESIZES), whole, 33), Content { fit: Fit::First, ..whole });
        assert_eq!(elements.resized((RESIZES, RESIZES), whole, 64), Content { fit: Fit::First, ..whole });
        let array = Content { fit: Fit::Repeats, ..whole };
        assert_eq!(elements.resized((RESIZES, RESIZES), array, 64), array);
        assert_eq!(elements.resized((RESIZES, RESIZES), none, 64), none);
        assert_eq!(elements.resized((OF_MALLOC, RESIZES), none, 64).fit, Fit::Repeats);
        assert_eq!(elements.resized((RESIZES, OF_MALLOC), whole, 64).fit, Fit::Repeats);
    }

    #[test]
    fn what_a_site_says_stays_where_it_is_right() {
        let elements = elements();
        let agrees = |site, offset| elements.agrees(elements.named(SiteId(site)), NODE, offset);
        assert!(agrees(LOADS_EXTRA, 16) && !agrees(LOADS_EXTRA, 24));
        assert!(agrees(LOADS_Y, 2) && agrees(LOADS_Y, 6) && !agrees(LOADS_Y, 4) && !agrees(LOADS_Y, 18));
        assert!(agrees(LOADS_VALUE, 16) && !agrees(LOADS_HEADER, 24));
    }

    #[test]
    fn copies_are_of_all_that_they_cover() {
        let mut elements = elements();
        let content = elements.allocated(OF_MALLOC, 320);
        let view = elements.view(content, LOADS_EXTRA, 0x1000, 0x1000 + 320);
        let mut range = |address, bytes| {
            let leaf = elements.span(&view, address, bytes);
            elements.bytes_of(NODE, leaf, 1).map(|span| (span.offset_bytes, span.bytes))
        };
        assert_eq!(range(0x1000 + 32 + 16, 8), Some((16, 1)), "a member by itself is no span");
        assert_eq!(range(0x1000 + 32 + 16, 16), Some((16, 16)));
        assert_eq!(range(0x1000, 320), Some((0, 32)));
        assert_eq!(range(0x1000 + 56, 16), Some((24, 16)), "it ends in the next element");
        assert_eq!(range(0x1000 + 32 + 9, 4), None, "padding is not the first member");
        assert_eq!(range(0x1000 + 312, 16), Some((24, 1)), "there is none behind the last");
        let span = |offset_bytes, bytes| Span { offset_bytes, bytes, behind: Behind::Another };
        assert_eq!(elements.ranges(NODE, span(24, 16)), [24..32, 0..8]);
        assert_eq!(names(&elements, NODE, 24, 10), ["node.next 8", "node.corner[].x 2"]);
        assert_eq!(elements.members(NODE, span(8, 16)).bytes, 16, "7 bytes of padding are among them");
        assert_eq!(names(&elements, NODE, 8, 16), ["node.tag 1", "node.extra 8"]);
    }

    /// Sites that load two and 16 bytes, from wherever they like.
    #[test]
    fn wide_accesses_are_of_all_that_they_cover() {
        let mut elements = elements();
        let content = elements.allocated(OF_MALLOC, 320);
        let mut view = |site| elements.view(content, site, 0x1000, 0x1000 + 320);
        let (narrow, wide) = (view(LOADS_EXTRA), view(LOADS_WIDE));
        let members = |view: &View, elements: &mut Elements, at: u64| {
            let leaf = elements.leaf(view, 0x1000 + at);
            let column = |words| Column { words, distance: 0 };
            let all = Addresses { from: 0x1000, bytes: 320 };
            // As often as it is asked, here and in another element.
            assert_eq!(elements.leaf(view, 0x1000 + at % 32), leaf);
            let same = [0x1000 + at, 0x1000 + at % 32, 0x1000 + 8];
            assert_eq!(elements.count_same(view, leaf, all, column(&same)), 2 + usize::from(at % 32 == 8));
            let span = elements.bytes_of(NODE, leaf, 2).expect("a member");
            names(elements, NODE, span.offset_bytes, span.bytes)
        };
        assert_eq!(members(&narrow, &mut elements, 64 + 16), ["node.extra 2"]);
        assert_eq!(members(&wide, &mut elements, 64 + 16), ["node.extra 8", "node.next 8"]);
        let wrapped = ["node.next 8", "node.corner[].x 4", "node.corner[].y 4"];
        assert_eq!(members(&wide, &mut elements, 64 + 24), wrapped);
        let first = elements.view(Content { fit: Fit::First, ..content }, LOADS_WIDE, 0x1000, 0x1000 + 320);
        assert_eq!(members(&first, &mut elements, 24), ["node.next 2"], "nobody knows what is behind");
        assert_eq!([320, 1 << 40].map(|at| elements.leaf(&wide, 0x1000 + at)), [NO_LEAF; 2]);
    }

    /// An array at the end that has what is left of its block: what begins before it may end in it.
    #[test]
    fn wide_accesses_end_in_open_arrays() {
        let mut elements = elements();
        let content = elements.allocated(OF_TEXT, 400);
        let view = elements.view(content, LOADS_WIDE, 0x1000, 0x1000 + 400);
        let leaf = elements.leaf(&view, 0x1000);
        let span = elements.bytes_of(5, leaf, 1).unwrap();
        let members = elements.members(5, span);
        assert_eq!(members.named, [("text.length".to_owned(), 4), ("text.bytes[]".to_owned(), 12)]);
        let behind = elements.leaf(&view, 0x1000 + 40);
        assert_eq!(
            elements.members(5, elements.bytes_of(5, behind, 16).unwrap()).named,
            [("text.bytes[]".to_owned(), 16)]
        );
    }

    #[test]
    fn behind_the_first_element_others_may_lie() {
        let mut elements = elements();
        let content = elements.allocated(OF_MALLOC, 320);
        let mut leaf = |site| {
            let view = elements.view(content, site, 0x1000, 0x1000 + 320);
            elements.leaf(&view, 0x1000 + 56)
        };
        assert_eq!(leaf(LOADS_HEADER), NO_LEAF, "certainly something else");
        assert_eq!([leaf(LOADS_SOME), leaf(LOADS_Y)], [leaf(LOADS_EXTRA); 2]);
    }

    proptest! {
        /// Whatever a table declares: no panic, and every access has a name or none.
        #[test]
        fn no_declaration_breaks_it(
            structures in prop::collection::vec(
                (0..40_u32, prop::collection::vec((0..50_u32, 0..20_u32, any::<bool>(), any::<u8>()), 0..5)), 1..12),
            accesses in prop::collection::vec((0..200_u64, 0..50_u64), 0..20),
        ) {
            let mut builder = ModuleBuilder::new();
            let count = structures.len();
            let names: Vec<Name> = (0..count).map(|index| builder.name(&format!("s{index}"))).collect();
            for (index, (size_bytes, members)) in structures.into_iter().enumerate() {
                let member = |(offset_bytes, size_bytes, is_array, of): (u32, u32, bool, u8)| Member {
                    name: names[of as usize % count],
                    type_name: builder.name(if is_array { "T[3]" } else { "T" }),
                    offset_bytes,
                    size_bytes,
                    structure: u32::from(of).checked_rem(index as u32),
                };
                let members = members.into_iter().map(member).collect();
                builder.structure(Structure { name: names[index], is_alias: false, is_foreign: false, size_bytes, members });
            }
            let allocations = names.iter().map(|name| Site { structure: *name, ..Site::new(SiteKind::Allocate, 0) });
            for site in allocations.collect::<Vec<_>>() {
                builder.segment([site]);
            }
            let module = builder.finish("a.c", "a.o", "/", "test");
            let mut program = Program::new();
            program.add(module.encode().0, module);
            let mut elements = Elements::default();
            elements.make_room(&program);
            // Whether one is made of another is kept of each.
            fn is_within(elements: &Elements, inner: ElementId, outer: ElementId) -> bool {
                let mut made_of = elements.get(outer).parts.iter().flat_map(|part| &part.made_of);
                made_of.any(|of| *of == inner || is_within(elements, inner, *of))
            }
            for outer in (0..elements.count()).filter(|id| elements.get(*id).is_laid_out()) {
                for inner in 0..elements.count() {
                    prop_assert_eq!(elements.get(outer).has_within(inner), is_within(&elements, inner, outer));
                }
            }
            for site in 0..count as u32 {
                let content = elements.allocated(site, 200);
                let view = elements.view(content, site, 1000, 1200);
                for (at, bytes) in &accesses {
                    let leaf = elements.span(&view, 1000 + at, (*bytes).min(200 - at));
                    if leaf != NO_LEAF
                        && let Some(span) = elements.bytes_of(view.element, leaf, 1)
                    {
                        prop_assert!(!elements.members(view.element, span).named.is_empty());
                    }
                }
            }
        }
    }
}
