//! How much of the time is told, and why the rest is not.
//!
//! ```text
//!   all weight ──► computing: the code accesses no memory there
//!             ├──► unknown: nobody could look at the code
//!             └──► accesses ──► to an object that has a name          missing: why not
//!                          └──► into a structure, as far as known ──► to one of its fields   missing: why not
//! ```
//!
//! An access whose type is not known may be into a structure, so it counts as one whose field is missing. What is known
//! to go to a number, a pointer or an array of those, or to a register that was saved on the stack, goes into none.

use std::collections::BTreeMap;

use slimline_attribute::resolver::Reason;
use slimline_attribute::tables::{Group, GroupKind, NoType, Site, Tables, TypeId, TypeRef};
use slimline_attribute::typing::element::holds;
use slimline_attribute::typing::leaves::leaves;
use slimline_trace::access::{GroupId, SiteId};

use crate::hot::HotFindings;
use crate::streams::Stream;

/// Uses that stand for a reason.
const EXAMPLES: usize = 4;

/// What is told of a session's weight; all sums are of the weights of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Of samples that a memory access is blamed for; the rest is computing, but for what is unknown.
    pub accesses: f64,
    /// Of samples whose code nobody could look at.
    pub unknown: f64,
    /// Of those, to an object that has a name.
    pub objects: f64,
    /// Of accesses into structures, and of those that may be.
    pub structures: f64,
    /// Of those, to a field that has a name.
    pub fields: f64,
    /// What is missing from `objects` and from `fields`, by reason, the heaviest first.
    pub missing: Vec<Missing>,
}

/// Weight that lacks something for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// What and why.
    pub what: What,
    /// How much.
    pub weight: f64,
    /// What does it to what, the heaviest first: not all.
    pub examples: Vec<(SiteId, GroupId, f64)>,
}

/// What an access lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The object.
    Object(Reason),
    /// The type: nothing tells what the instruction accesses, nor what the object is made of. `None`: its code has no
    /// debug information.
    Type(Option<NoType>),
    /// The offset: whose object it is was inferred, and where in it is not known.
    Offset,
    /// The field: the offset is in no field of the type (padding, a header of the allocator's).
    Field,
}

/// Takes streams in, one after another.
pub(crate) struct Counting<'t> {
    tables: &'t Tables,
    hot: &'t HotFindings,
    found: Coverage,
    missing: BTreeMap<What, BTreeMap<(SiteId, GroupId), f64>>,
    /// Fields of each structure asked for: offset and end.
    fields: BTreeMap<TypeId, Vec<(u64, u64)>>,
}

impl<'t> Counting<'t> {
    pub(crate) fn new(tables: &'t Tables, hot: &'t HotFindings) -> Self {
        Self { tables, hot, found: Coverage::default(), missing: BTreeMap::new(), fields: BTreeMap::new() }
    }

    pub(crate) fn finish(self) -> Coverage {
        let mut missing: Vec<Missing> = self
            .missing
            .into_iter()
            .map(|(what, uses)| {
                let mut examples: Vec<_> =
                    uses.into_iter().map(|((site, group), weight)| (site, group, weight)).collect();
                let weight = examples.iter().map(|example| example.2).sum();
                examples.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
                examples.truncate(EXAMPLES);
                Missing { what, weight, examples }
            })
            .collect();
        missing.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.what.cmp(&b.what)));
        Coverage { missing, ..self.found }
    }

    pub(crate) fn add(&mut self, stream: &Stream) {
        let mut weight = stream.cost.weight as f64;
        if stream.group == Tables::UNATTRIBUTED {
            // Samples that no access is blamed for have no address either.
            let of = |at: &BTreeMap<SiteId, u64>| at.get(&stream.site).copied().unwrap_or(0) as f64;
            let unknown = of(&self.hot.unknown_at);
            self.found.unknown += unknown;
            weight -= of(&self.hot.computing_at) + unknown;
        }
        if weight <= 0.0 {
            return;
        }
        let (site, group) = (self.tables.site(stream.site), self.tables.group(stream.group));
        self.found.accesses += weight;
        match no_object(stream, group) {
            Some(reason) => self.lacks(What::Object(reason), stream, weight),
            None => self.found.objects += weight,
        }
        self.add_field(stream, site, group, weight);
    }

    fn add_field(&mut self, stream: &Stream, site: &Site, group: &Group, weight: f64) {
        let tables = self.tables;
        let element = group.element.filter(|element| element.bytes > 0);
        let accessed = site.accessed.filter(|accessed| tables.is_structure(accessed.type_id));
        let of_element = element.filter(|element| {
            tables.is_structure(element.type_id)
                && site.accessed.is_none_or(|accessed| holds(&tables.types, element.type_id, accessed.type_id))
        });
        if let Some(element) = of_element {
            self.found.structures += weight;
            for (offset, part) in stream.weighed() {
                let part = part * weight / stream.cost.weight as f64;
                let lacks = if offset.is_none() { What::Offset } else { What::Field };
                let inside = offset.and_then(|offset| offset.checked_sub(element.start));
                let inside = inside.map(|inside| TypeRef {
                    type_id: element.type_id,
                    // Behind the end of a structure that each object has one of is its flexible array.
                    offset: if self.is_open_ended(element.type_id) { inside } else { inside % element.bytes },
                });
                match inside.or(accessed).is_some_and(|inside| self.has_field(inside)) {
                    true => self.found.fields += part,
                    false => self.lacks(lacks, stream, part),
                }
            }
            return;
        }
        if let Some(accessed) = accessed {
            self.found.structures += weight;
            match self.has_field(accessed) {
                true => self.found.fields += weight,
                false => self.lacks(What::Field, stream, weight),
            }
            return;
        }
        let is_saved_register = group.kind == GroupKind::Stack
            && matches!(site.untyped, Some(NoType::Spill | NoType::NoOperand | NoType::NoVariable));
        if site.accessed.is_none() && element.is_none() && !is_saved_register {
            self.found.structures += weight;
            self.lacks(What::Type(site.untyped), stream, weight);
        }
    }

    fn lacks(&mut self, what: What, stream: &Stream, weight: f64) {
        *self.missing.entry(what).or_default().entry((stream.site, stream.group)).or_default() += weight;
    }

    fn is_open_ended(&self, id: TypeId) -> bool {
        self.tables.type_(id).is_open()
    }

    fn has_field(&mut self, at: TypeRef) -> bool {
        let type_ = self.tables.type_(at.type_id);
        if self.is_open_ended(at.type_id) && type_.members.last().is_some_and(|last| at.offset >= last.offset) {
            return true;
        }
        let fields = self.fields.entry(at.type_id).or_insert_with(|| {
            let leaves = leaves(&self.tables.types, at.type_id).into_iter();
            leaves.map(|leaf| (leaf.offset, leaf.offset.saturating_add(leaf.bytes))).collect()
        });
        let after = fields.partition_point(|&(start, _)| start <= at.offset);
        fields[..after].last().is_some_and(|&(_, end)| at.offset < end)
    }
}

/// Why an access is to no object that has a name.
fn no_object(stream: &Stream, group: &Group) -> Option<Reason> {
    let has_address = || stream.sampled().next().is_some();
    match group.nameless {
        None if group.kind != GroupKind::Unattributed => None,
        None if has_address() => Some(Reason::NoMapping),
        None => Some(Reason::NoAddress),
        known => known,
    }
}
