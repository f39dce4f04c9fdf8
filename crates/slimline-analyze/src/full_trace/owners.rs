//! Whose pointers objects are found by.
//!
//! Site tables tell which load an address is computed of (`LoadedAddress`): of `p->c->x` that of `p->c`, so the element that a thread loaded
//! that pointer of last is the one whose object it accesses. Where the trace tells values, what a pointer holds says so by itself. All else
//! that accesses the object may come through that pointer, too: it does if its element's pointer is one of those that the thread was at last.
//!
//! ```text
//!   load p[3].c            element 3 is at the object …
//!   load c->x, of that     … that this is to: it is its owner
//!   load q->c, c->y        another element's: it has several
//! ```

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::SiteKind;

use super::heap::live_blocks::LiveBlocks;
use super::object_structures::{Filled, ObjectStructure, Structured};
use super::objects::Object;

/// Pointers of a field that a thread is at, at a time.
const OPEN: usize = 4;
/// Size of a pointer.
const POINTER_BYTES: u64 = 8;
/// Nothing is known of an object of another reading.
const UNKNOWN: u32 = u32::MAX;

/// A field that holds pointers to objects of another structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwningField {
    /// The structure that it is of.
    pub owner: u32,
    /// Which of its fields.
    pub field: usize,
    /// From the structure's beginning.
    pub offset: u32,
    /// The structure of what it points to.
    pub pointee: u32,
}

/// An element of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// The object, by its number in the earlier reading.
    pub object: u32,
    /// Which of its elements.
    pub index: u64,
}

/// Whose pointers of one field objects were found by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Objects that one element's pointer leads to, and no other one's, in their order.
    pub objects: Vec<(u32, Holder)>,
    /// How many objects several elements' pointers lead to.
    pub shared: u64,
    /// How many were accessed after their element's pointer led to another one, or the element was freed; or were there still when it did.
    pub outlived: u64,
    /// How often the field's pointers led to what is no single object of that structure.
    pub elsewhere: u64,
    /// Accesses to objects of the structure that come through the field …
    pub through: u64,
    /// … and those that do not; what stores to an object before it is known whose it is, is neither.
    pub otherwise: u64,
}

/// An access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessed {
    pub(super) thread: u32,
    pub(super) site: SiteId,
    pub(super) kind: SiteKind,
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// What it loaded or stored, where that is told.
    pub(super) value: Option<u64>,
}

/// Whose an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    #[default]
    Unknown,
    One {
        holder: Holder,
        is_outlived: bool,
    },
    Several,
}

/// One field.
#[derive(Debug)]
struct OfField {
    field: OwningField,
    owners: FxHashMap<u32, Owner>,
    /// What each element's pointer was seen to lead to last.
    leads_to: FxHashMap<Holder, u32>,
    /// By thread: elements whose pointers it loaded or stored last.
    open: Vec<[Option<Holder>; OPEN]>,
    through: u64,
    otherwise: u64,
    elsewhere: u64,
}

/// An object of the earlier reading, as far as pointers matter.
#[derive(Clone, Copy, Debug)]
struct Known {
    start: u64,
    process: u32,
    sequence: u32,
    structure: Option<ObjectStructure>,
    /// Size of its elements.
    element_bytes: u64,
}

impl Known {
    /// The structure of which it is a single object.
    fn single(&self) -> Option<u32> {
        self.structure.filter(|of| of.filled == Filled::One).map(|of| of.structure)
    }
}

/// Takes in accesses to objects of an earlier reading.
#[derive(Debug)]
pub struct Owners {
    fields: Vec<OfField>,
    known: Vec<Known>,
    /// By process, start and sequence.
    numbers: FxHashMap<(u32, u64, u32), u32>,
    /// By number in this reading.
    own: Vec<u32>,
    /// Loads that sites' addresses are computed of in the same step of a loop.
    loads: FxHashMap<SiteId, Vec<SiteId>>,
    /// All of these.
    are_led_by: FxHashSet<SiteId>,
    /// By thread and site: the field that it loaded last, and of which element.
    last: FxHashMap<(u32, SiteId), (usize, Holder)>,
}

impl Owners {
    /// Of these fields, of objects that an earlier reading found.
    pub fn new(program: &Program, (objects, structured): (&[Object], &Structured), fields: &[OwningField]) -> Self {
        let known = |(object, structure): (&Object, &Option<ObjectStructure>)| Known {
            start: object.start,
            process: object.process,
            sequence: object.sequence,
            structure: structure.filter(|of| matches!(of.filled, Filled::One | Filled::Array)),
            element_bytes: structure.map_or(1, |of| structured.structures[of.structure as usize].bytes.max(1)).into(),
        };
        let known: Vec<Known> = objects.iter().zip(&structured.objects).map(known).collect();
        let numbers = (0..).zip(&known).map(|(number, of)| ((of.process, of.start, of.sequence), number)).collect();
        let of_field = |&field: &OwningField| OfField {
            field,
            owners: FxHashMap::default(),
            leads_to: FxHashMap::default(),
            open: Vec::new(),
            through: 0,
            otherwise: 0,
            elsewhere: 0,
        };
        let loaded = program.addresses().iter().filter(|address| !address.is_carried && !address.loads.is_empty());
        Self {
            fields: fields.iter().map(of_field).collect(),
            known,
            numbers,
            own: Vec::new(),
            are_led_by: loaded.clone().flat_map(|address| address.loads.iter().copied()).collect(),
            loads: loaded.map(|address| (address.site, address.loads.clone())).collect(),
            last: FxHashMap::default(),
        }
    }

    /// An access, to an object that this reading has under this number; none where it is to no object.
    pub(super) fn access(&mut self, live: &mut LiveBlocks, object: Option<(u32, &Object)>, accessed: Accessed) {
        let number = object.map_or(UNKNOWN, |(own, object)| self.number(own, object));
        let of = self.known.get(number as usize).copied();
        let single = of.and_then(|of| of.single());
        let mut leading = self.leading(&accessed);
        if let Some((at, _)) = leading
            && single != Some(self.fields[at].field.pointee)
        {
            self.fields[at].elsewhere += 1;
            leading = None;
        }
        let Some(of) = of else { return };
        let Some(ObjectStructure { structure, skipped, .. }) = of.structure else { return };
        let delta = accessed.address.checked_sub(of.start + u64::from(skipped));
        for at in 0..self.fields.len() {
            let field = self.fields[at].field;
            if field.owner == structure
                && let Some(delta) = delta
                && delta % of.element_bytes == u64::from(field.offset)
                && accessed.bytes == POINTER_BYTES
            {
                let holder = Holder { object: number, index: delta / of.element_bytes };
                self.pointer(live, (at, of.process, holder), accessed);
            }
            if field.pointee == structure {
                self.pointee(live, (at, number), leading, accessed);
            }
        }
    }

    /// The field and element whose pointer an access comes through, as its address is computed of that, and of no other one that is known. What
    /// the access itself loaded before it loads no more.
    fn leading(&mut self, accessed: &Accessed) -> Option<(usize, Holder)> {
        let Accessed { thread, site, .. } = *accessed;
        if self.are_led_by.contains(&site) {
            self.last.remove(&(thread, site));
        }
        let mut by = self.loads.get(&site)?.iter().filter_map(|load| self.last.get(&(thread, *load)));
        let first = *by.next()?;
        by.all(|other| *other == first).then_some(first)
    }

    /// The earlier reading's number of an object.
    fn number(&mut self, own: u32, object: &Object) -> u32 {
        let own = own as usize;
        if self.own.len() <= own {
            self.own.resize(own + 1, UNKNOWN);
        }
        if self.own[own] == UNKNOWN {
            let known = self.numbers.get(&(object.process, object.start, object.sequence));
            self.own[own] = known.copied().unwrap_or(UNKNOWN);
        }
        self.own[own]
    }

    /// An element's pointer is loaded or stored.
    fn pointer(&mut self, live: &mut LiveBlocks, (at, process, holder): (usize, u32, Holder), accessed: Accessed) {
        let of_field = &mut self.fields[at];
        of_field.open(accessed.thread, holder);
        if accessed.kind == SiteKind::Load {
            self.last.insert((accessed.thread, accessed.site), (at, holder));
        }
        let Some(value) = accessed.value else { return };
        let pointee = (value != 0).then(|| {
            let block = live.find(value);
            self.numbers.get(&(process, live.block(block).start, live.born(block).sequence)).copied()
        });
        let is_single = |of: &u32| self.known[*of as usize].single() == Some(of_field.field.pointee);
        match pointee {
            Some(Some(pointee)) if is_single(&pointee) => self.leads_to(live, (at, holder), pointee),
            _ => {
                of_field.leads_to.remove(&holder);
                of_field.elsewhere += u64::from(pointee.is_some());
            }
        }
    }

    /// An object that pointers of a field may lead to is accessed.
    fn pointee(
        &mut self,
        live: &mut LiveBlocks,
        (at, object): (usize, u32),
        leading: Option<(usize, Holder)>,
        accessed: Accessed,
    ) {
        let Accessed { thread, kind, .. } = accessed;
        if let Some((_, holder)) = leading.filter(|(field, _)| *field == at) {
            self.leads_to(live, (at, holder), object);
        }
        let of_field = &mut self.fields[at];
        let (holder, is_outlived) = match of_field.owners.entry(object).or_default() {
            Owner::Unknown if kind == SiteKind::Store => return,
            Owner::Unknown | Owner::Several => return of_field.otherwise += 1,
            Owner::One { holder, is_outlived } => (*holder, is_outlived),
        };
        let is_led_to = of_field.leads_to.get(&holder) == Some(&object);
        if is_led_to && of_field.open.get(thread as usize).is_some_and(|open| open.contains(&Some(holder))) {
            return of_field.through += 1;
        }
        of_field.otherwise += 1;
        *is_outlived |= !is_led_to || !is_alive(live, &self.known[holder.object as usize]);
    }

    /// The pointer of an element leads to an object.
    fn leads_to(&mut self, live: &mut LiveBlocks, (at, holder): (usize, Holder), object: u32) {
        let of_field = &mut self.fields[at];
        // Of what is there still, two would be in one place.
        if let Some(before) = of_field.leads_to.insert(holder, object)
            && before != object
            && is_alive(live, &self.known[before as usize])
            && let Some(Owner::One { is_outlived, .. }) = of_field.owners.get_mut(&before)
        {
            *is_outlived = true;
        }
        let owner = of_field.owners.entry(object).or_default();
        // The elements of an array that grew are elsewhere since.
        let is_array =
            |of: &Holder| self.known[of.object as usize].structure.is_some_and(|of| of.filled == Filled::Array);
        let mut is_moved = |other: &Holder| {
            other.index == holder.index
                && is_array(other)
                && is_array(&holder)
                && !is_alive(live, &self.known[other.object as usize])
        };
        *owner = match owner {
            Owner::One { holder: other, .. } if *other == holder => return,
            Owner::One { holder: other, is_outlived } if is_moved(other) => {
                Owner::One { holder, is_outlived: *is_outlived }
            }
            Owner::Unknown => Owner::One { holder, is_outlived: false },
            Owner::One { .. } | Owner::Several => Owner::Several,
        };
    }

    /// By field.
    pub(super) fn finish(self) -> Vec<Owned> {
        self.fields.into_iter().map(OfField::finish).collect()
    }
}

impl OfField {
    /// A thread is at this element's pointer.
    fn open(&mut self, thread: u32, holder: Holder) {
        let thread = thread as usize;
        if self.open.len() <= thread {
            self.open.resize(thread + 1, [None; OPEN]);
        }
        let open = &mut self.open[thread];
        // The last one first.
        let place = open.iter().position(|of| *of == Some(holder)).unwrap_or(OPEN - 1);
        open[..=place].rotate_right(1);
        open[0] = Some(holder);
    }

    fn finish(self) -> Owned {
        let Self { through, otherwise, elsewhere, .. } = self;
        let mut owned = Owned { through, otherwise, elsewhere, ..Owned::default() };
        for (object, owner) in self.owners {
            match owner {
                Owner::Unknown => {}
                Owner::One { is_outlived: true, .. } => owned.outlived += 1,
                Owner::One { holder, .. } => owned.objects.push((object, holder)),
                Owner::Several => owned.shared += 1,
            }
        }
        owned.objects.sort_unstable();
        owned
    }
}

/// Whether an object was not freed yet.
fn is_alive(live: &mut LiveBlocks, of: &Known) -> bool {
    let block = live.find(of.start);
    live.born(block).sequence == of.sequence
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::record::ValueKind;
    use slimline_trace::stream::sites::{LoadedAddress, Member, ModuleBuilder, Name, Site, Structure};

    use super::super::TraceBatch;
    use super::super::objects::ObjectAccesses;
    use super::super::tests::visits_of;
    use super::*;

    /// Segments, each a site.
    const NEW_OWNERS: u32 = 0;
    const NEW_PART: u32 = 1;
    const FREE: u32 = 2;
    const LOAD_POINTER: u32 = 3;
    /// By an address that was loaded by that.
    const LOAD_BY_IT: u32 = 4;
    const LOAD: u32 = 5;
    const STORE: u32 = 6;
    const STORE_POINTER_WITH_VALUE: u32 = 7;

    /// `struct owner { long key; struct part *part; long last; }` and `struct part { long x, y; }`.
    fn program() -> Program {
        let mut builder = ModuleBuilder::new();
        let [owner, part, key, long, pointer, malloc] =
            ["owner", "part", "key", "long", "struct part *", "malloc"].map(|name| builder.name(name));
        let member =
            |type_name, offset_bytes| Member { name: key, type_name, offset_bytes, size_bytes: 8, structure: None };
        let members = vec![member(long, 0), member(pointer, 8), member(long, 16)];
        builder.structure(Structure { name: owner, size_bytes: 24, members, ..Structure::default() });
        let members = vec![member(long, 0), member(long, 8)];
        builder.structure(Structure { name: part, size_bytes: 16, members, ..Structure::default() });
        let new = |structure: Name| Site { structure, detail: malloc, ..Site::new(SiteKind::Allocate, 0) };
        builder.segment([new(owner)]);
        builder.segment([new(part)]);
        builder.segment([Site::new(SiteKind::Free, 0)]);
        for _ in [LOAD_POINTER, LOAD_BY_IT, LOAD] {
            builder.segment([Site::new(SiteKind::Load, 8)]);
        }
        builder.segment([Site::new(SiteKind::Store, 8)]);
        builder.segment([Site { value: Some(ValueKind::Pointer), ..Site::new(SiteKind::Store, 8) }]);
        let loads = vec![LOAD_POINTER];
        builder.address(LoadedAddress { site: LOAD_BY_IT, loads, is_carried: false, leads_on: false, instructions: 0 });
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        program
    }

    const OWNERS: u64 = 0x1000;
    const PARTS: u64 = 0x4000;

    fn pointer(owner: u64) -> u64 {
        OWNERS + 24 * owner + 8
    }

    fn part(number: u64) -> u64 {
        PARTS + 0x100 * number
    }

    /// Ten owners, and as many parts, then this; as first numbers of parts, those of whose owners are told, and the counts of the others.
    fn owned(run: &[(u32, Vec<u64>)]) -> (Vec<(u64, u64, u64)>, Owned) {
        let program = program();
        let mut all = vec![(NEW_OWNERS, vec![OWNERS, 240])];
        all.extend((0..10).map(|number| (NEW_PART, vec![part(number), 16])));
        all.extend(run.iter().cloned());
        let (words, visits) = visits_of(&program, &all);
        let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
        let mut first = ObjectAccesses::with_structures();
        first.update(&program, &batch, &mut Vec::new(), &mut |_| {});
        let structured = first.structured(&program);
        let objects = first.into_objects();
        let named = |name: &str| structured.structures.iter().position(|of| of.name == name).unwrap() as u32;
        let field = OwningField { owner: named("owner"), field: 1, offset: 8, pointee: named("part") };
        let mut again = ObjectAccesses::with_owners(Owners::new(&program, (&objects, &structured), &[field]));
        again.update(&program, &batch, &mut Vec::new(), &mut |_| {});
        let mut owned = again.into_owned();
        let owned = owned.pop().unwrap();
        let start = |object: u32| objects[object as usize].start;
        let mut told: Vec<(u64, u64, u64)> = owned
            .objects
            .iter()
            .map(|(object, of)| ((start(*object) - PARTS) / 0x100, start(of.object), of.index))
            .collect();
        told.sort_unstable();
        (told, owned)
    }

    /// A loop's step: the pointer of this owner leads to this part.
    fn through(owner: u64, number: u64) -> [(u32, Vec<u64>); 2] {
        [(LOAD_POINTER, vec![pointer(owner)]), (LOAD_BY_IT, vec![part(number)])]
    }

    fn counts(of: &Owned) -> [u64; 4] {
        [of.shared, of.outlived, of.through, of.otherwise]
    }

    #[test]
    fn an_address_tells_whose_pointer_it_was_loaded_of() {
        let mut run = vec![(STORE, vec![part(9)])];
        run.extend((0..10).flat_map(|owner| through(owner, 9 - owner)));
        // Of the last four owners' pointers all is through them; part 9 is owner 0's.
        run.extend([(STORE, vec![part(0) + 8]), (LOAD, vec![part(3)]), (LOAD, vec![part(9) + 8])]);
        let (told, of) = owned(&run);
        assert_eq!(told, (0..10).map(|number| (number, OWNERS, 9 - number)).collect::<Vec<_>>());
        assert_eq!(counts(&of), [0, 0, 12, 1]);
    }

    #[test]
    fn what_several_lead_to_is_shared() {
        let (told, of) = owned(&[through(0, 0), through(1, 1), through(2, 0)].concat());
        assert_eq!((told, counts(&of)), (vec![(1, OWNERS, 1)], [1, 0, 2, 1]));
    }

    /// Owner 0 has another part later on: the first one must be gone by then.
    #[test]
    fn what_is_there_once_its_owner_has_another_one_outlives_it() {
        let run = [through(0, 0).to_vec(), vec![(FREE, vec![part(0)])], through(0, 1).to_vec()].concat();
        let (told, of) = owned(&run);
        assert_eq!((told, counts(&of)), (vec![(0, OWNERS, 0), (1, OWNERS, 0)], [0, 0, 2, 0]));
        // As a pointer that goes through all of a list.
        let (told, of) = owned(&[through(0, 0), through(0, 1), through(0, 2)].concat());
        assert_eq!((told, counts(&of)), (vec![(2, OWNERS, 0)], [0, 2, 3, 0]));
    }

    #[test]
    fn pointers_to_anything_else_are_counted() {
        // To another owner, and to what is no object.
        let run =
            [through(0, 0).to_vec(), vec![(LOAD_POINTER, vec![pointer(1)]), (LOAD_BY_IT, vec![pointer(3)])]].concat();
        assert_eq!(owned(&run).1.elsewhere, 1);
        let run = [through(0, 0).to_vec(), vec![(STORE_POINTER_WITH_VALUE, vec![pointer(1), 0x77])]].concat();
        assert_eq!(owned(&run).1.elsewhere, 1);
        // What is loaded elsewhere leads nowhere that is known.
        let run = [vec![(LOAD_POINTER, vec![pointer(1)]), (LOAD_POINTER, vec![part(3)]), (LOAD_BY_IT, vec![part(0)])]]
            .concat();
        let (told, of) = owned(&run);
        assert_eq!((told, of.elsewhere), (Vec::new(), 0));
    }

    /// The owners are freed; or they are elsewhere since, as those of an array that grew.
    #[test]
    fn what_is_used_once_its_owner_is_gone_outlives_it() {
        let gone = [through(0, 0).to_vec(), vec![(FREE, vec![OWNERS])]].concat();
        let others = [5, 6, 7, 8].map(|other| (LOAD_POINTER, vec![0x2000 + 24 * other + 8]));
        let grown = [gone.clone(), vec![(NEW_OWNERS, vec![0x2000, 480])], others.to_vec()].concat();
        let (told, of) = owned(&[grown.clone(), vec![(LOAD, vec![part(0)])]].concat());
        assert_eq!((told, counts(&of)), (Vec::new(), [0, 1, 1, 1]));
        let moved = [(LOAD_POINTER, vec![0x2008]), (LOAD_BY_IT, vec![part(0)])];
        let (told, of) = owned(&[grown.clone(), moved.to_vec()].concat());
        assert_eq!((told, counts(&of)), (vec![(0, 0x2000, 0)], [0, 0, 2, 0]));
        // What was used in between was so without an owner.
        let (told, of) = owned(&[grown.clone(), vec![(LOAD, vec![part(0)])], moved.to_vec()].concat());
        assert_eq!((told, counts(&of)), (Vec::new(), [0, 1, 2, 1]));
        // Another element is another one, even if the first one is gone.
        let other = [(LOAD_POINTER, vec![0x2008 + 24]), (LOAD_BY_IT, vec![part(0)])];
        let (told, of) = owned(&[grown, other.to_vec()].concat());
        assert_eq!((told, counts(&of)), (Vec::new(), [1, 0, 1, 1]));
    }

    #[test]
    fn a_pointer_s_value_tells_where_it_leads_to() {
        let store = |owner, value| (STORE_POINTER_WITH_VALUE, vec![pointer(owner), value]);
        let run = [store(3, part(7)), store(4, 0), store(5, 0x77), (LOAD, vec![part(7)]), (LOAD, vec![part(6)])];
        let (told, of) = owned(&run);
        assert_eq!((told, counts(&of)), (vec![(7, OWNERS, 3)], [0, 0, 1, 1]));
        // What is used once its pointer is cleared is another one's.
        let (told, of) = owned(&[store(3, part(7)), store(3, 0), (LOAD, vec![part(7)])]);
        assert_eq!((told, counts(&of)), (Vec::new(), [0, 1, 0, 1]));
    }

    #[test]
    fn the_last_pointers_are_those_that_were_loaded_last() {
        let mut run: Vec<_> = (0..4).flat_map(|owner| through(owner, owner)).collect();
        run.extend([0, 4].map(|owner| (LOAD_POINTER, vec![pointer(owner)])));
        run.extend([0, 1].map(|number| (LOAD, vec![part(number)])));
        assert_eq!(counts(&owned(&run).1), [0, 0, 5, 1]);
    }
}
