//! Where objects are once their elements have other sizes.
//!
//! Memory that was used for one object after the other still is: objects that began at one address do so again. What lay side by side
//! still does, nearer by what each is smaller; what lay apart stays as far apart.
//!
//! ```text
//!   as it is    ┌ a ┬ b ┐        ┌ c, then d ┐
//!   part 0      ┌a┬b┐        ┌c, then d┐           part 1  likewise, elsewhere
//! ```

use std::collections::BTreeMap;

use slimline_simulate::relaid::{Holds, MovedField, Part, PlacedObject, Relayout, StructureLayout};

use super::candidates::Candidate;
use crate::full_trace::attributed::{address_space, own_address};
use crate::full_trace::object_structures::{FieldShape, Filled, StructureShape, Structured};
use crate::full_trace::objects::Object;
use crate::full_trace::owners::Holder;
use crate::object_layout::{ALIGNMENT, PLACE, block_spacing};

/// Addresses that each part of each structure has for itself.
const REGION_BYTES: u64 = 1 << 36;
const REGIONS: u64 = PLACE >> 36;
/// What is further away is elsewhere: its distance matters by its place in sets and pages alone.
const FAR: u64 = 1 << 26;
/// Blocks from this size on have pages of their own.
const MAPPED_BYTES: u64 = 128 << 10;
const PAGE_BYTES: u64 = 4096;

/// The layouts that structures have in a replay: none where one stays as it is.
pub type Chosen<'a> = [Option<&'a Candidate>];

/// A part that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Objects of which some structures are laid out otherwise.
///
/// # Errors
/// If a structure's objects need more than [`REGION_BYTES`], or there are too many parts.
pub fn relayout(objects: &[Object], structured: &Structured, chosen: &Chosen<'_>) -> Result<Relayout, TooLarge> {
    let mut relayout = Relayout { objects: Vec::with_capacity(objects.len()), ..Relayout::default() };
    // One that stays has its layout, too: who replays it learns of its fields.
    let layouts = chosen.iter().zip(&structured.structures);
    relayout.layouts =
        layouts.map(|(chosen, shape)| chosen.map_or_else(|| as_it_is(shape), |of| of.layout.clone())).collect();
    // By structure, process and start: the most elements, the end, and the objects there.
    let mut slots: Vec<BTreeMap<(u32, u64), Slot>> = vec![BTreeMap::new(); chosen.len()];
    for (number, object) in objects.iter().enumerate() {
        let of = structured.objects.get(number).copied().flatten();
        let start = address_of(object) + of.map_or(0, |of| u64::from(of.skipped));
        let structure = of.map(|of| of.structure);
        let known = of.filter(|of| of.filled != Filled::Otherwise);
        let mut layout = known.map(|of| of.structure);
        let mut bases = relayout.bases.len() as u32;
        let Some(known) = known else {
            relayout.objects.push(PlacedObject { layout, structure, start, bases: 0 });
            continue;
        };
        let (shape, chosen) = (&structured.structures[known.structure as usize], chosen[known.structure as usize]);
        let slots = &mut slots[known.structure as usize];
        let (mut element_bytes, mut slot) = (shape.bytes, (object.process, own_address(start)));
        if let Filled::Column(field) = known.filled {
            let field = &shape.fields[field as usize];
            layout = Some(relayout.layouts.len() as u32);
            relayout.layouts.push(of_column(field, chosen.map(|of| &of.layout)));
            // All of them are where the first one is.
            slot = slots.first_key_value().map_or(slot, |(first, _)| *first);
            element_bytes = field.bytes;
        }
        if chosen.is_some() {
            let elements = object.bytes.saturating_sub(known.skipped.into()) / u64::from(element_bytes.max(1));
            let slot = slots.entry(slot).or_default();
            slot.elements = slot.elements.max(elements);
            slot.end = slot.end.max(object.start.saturating_add(object.bytes));
            slot.objects.push(number as u32);
            bases = 0;
        } else {
            relayout.bases.push(start);
        }
        relayout.objects.push(PlacedObject { layout, structure, start, bases });
    }
    for inlined in chosen.iter().filter_map(|candidate| candidate.as_ref()?.inlined.as_ref()) {
        // Where it was alone there is nothing then.
        let slots = &mut slots[inlined.field.owner as usize];
        for (object, _) in &inlined.objects {
            let Object { process, start, bytes, .. } = objects[*object as usize];
            let slot = slots.entry((process, own_address(start))).or_default();
            slot.end = slot.end.max(start.saturating_add(bytes));
        }
    }
    let mut region = 0;
    for (candidate, slots) in chosen.iter().zip(&slots) {
        let Some(candidate) = candidate else { continue };
        let parts = candidate.layout.parts().len();
        for slot in slots.values() {
            for &object in &slot.objects {
                relayout.objects[object as usize].bases = relayout.bases.len() as u32;
            }
            relayout.bases.resize(relayout.bases.len() + candidate.layout.bases(), 0);
        }
        for part in 0..parts {
            place(&mut relayout, candidate, part, slots, region)?;
            region += 1;
        }
        if candidate.layout.has_indexes() {
            // A variable that nothing else is beside.
            let variable = begin_of(region)?;
            for ((process, _), slot) in slots {
                for &object in &slot.objects {
                    let bases = relayout.objects[object as usize].bases as usize;
                    relayout.bases[bases + parts] = variable ^ address_space(*process);
                }
            }
            region += 1;
        }
    }
    chosen.iter().flatten().for_each(|candidate| inline(&mut relayout, candidate));
    Ok(relayout)
}

/// Where a region begins: on pages that are mapped one after the other, so that regions do not begin in the same sets of all caches.
fn begin_of(region: u64) -> Result<u64, TooLarge> {
    (region < REGIONS).then_some(PLACE + region * REGION_BYTES + (37 * region + 1) * PAGE_BYTES).ok_or(TooLarge)
}

/// Addresses that objects of one structure begin at, one after the other; without objects: where there is nothing then.
#[derive(Clone, Debug, Default)]
struct Slot {
    elements: u64,
    end: u64,
    objects: Vec<u32>,
}

fn as_it_is(shape: &StructureShape) -> StructureLayout {
    let field = |field: &FieldShape| MovedField {
        from: field.offset,
        bytes: field.bytes.min(shape.bytes.saturating_sub(field.offset)),
        part: 0,
        to: field.offset,
        to_bytes: field.bytes.min(shape.bytes.saturating_sub(field.offset)),
        holds: field.holds(),
    };
    let fields = shape.fields.iter().filter(|field| field.offset < shape.bytes).map(field).collect();
    StructureLayout::new(shape.bytes, fields, vec![Part { bytes: shape.bytes, lanes: 1 }], None)
}

/// Of an array that has one field of each element: where that goes.
fn of_column(field: &FieldShape, layout: Option<&StructureLayout>) -> StructureLayout {
    let bytes = field.bytes;
    let stays = MovedField { from: 0, bytes, part: 0, to: 0, to_bytes: bytes, holds: field.holds() };
    let Some(layout) = layout else {
        return StructureLayout::new(bytes, vec![stays], vec![Part { bytes, lanes: 1 }], None);
    };
    let moved = layout.fields().iter().find(|of| of.from == field.offset).copied();
    let moved = moved.map_or(stays, |of| MovedField { from: 0, ..of });
    StructureLayout::new(bytes, vec![moved], layout.parts().to_vec(), None)
}

fn address_of(object: &Object) -> u64 {
    own_address(object.start) ^ address_space(object.process)
}

/// Objects that are in the place of pointers to them go to where these are.
fn inline(relayout: &mut Relayout, candidate: &Candidate) {
    let Some(inlined) = &candidate.inlined else { return };
    let is_it = |field: &&MovedField| field.holds == Holds::Pointee;
    let Some(within) = candidate.layout.fields().iter().find(is_it).map(|field| u64::from(field.to)) else { return };
    let stride = u64::from(candidate.layout.parts()[0].bytes);
    for (object, Holder { object: owner, index }) in &inlined.objects {
        let at = relayout.bases[relayout.objects[*owner as usize].bases as usize] + index * stride + within;
        relayout.bases[relayout.objects[*object as usize].bases as usize] = at;
    }
}

fn place(
    relayout: &mut Relayout,
    candidate: &Candidate,
    part: usize,
    slots: &BTreeMap<(u32, u64), Slot>,
    region: u64,
) -> Result<(), TooLarge> {
    let begins = begin_of(region)?;
    // The process, the farthest end so far, and what the C library needs behind that.
    let (mut at, mut before): (u64, Option<(u32, u64, u64)>) = (begins, None);
    for (&(process, start), slot) in slots {
        let bytes = candidate.layout.bytes_of(part, slot.elements);
        let (ended, beside) = match before {
            Some((of, end, beside)) if of == process => (end, beside),
            // On that byte of its page where it was: which lines elements lie across is no matter of layouts.
            _ => {
                at = begins + start % PAGE_BYTES;
                (start, 0)
            }
        };
        // What lies between two objects stays there, but for what allocators need between them.
        let gap = start.saturating_sub(ended).saturating_sub(beside);
        at = at.saturating_add(if gap > FAR { FAR + gap % FAR } else { gap });
        let of_slot = slot.end.saturating_sub(start);
        before = Some((process, slot.end.max(ended), block_spacing(of_slot) - of_slot));
        if slot.objects.is_empty() {
            continue;
        }
        let is_pool = candidate.is_from_pool(part);
        let taken = if is_pool { bytes } else { block_spacing(bytes) };
        at = match (candidate.align, is_pool) {
            (0, true) => at.next_multiple_of(1 << bytes.trailing_zeros().min(ALIGNMENT.trailing_zeros())),
            (0, false) if bytes >= MAPPED_BYTES => at.next_multiple_of(PAGE_BYTES) + start % PAGE_BYTES,
            (0, false) => at.next_multiple_of(ALIGNMENT),
            (align, _) => at.next_multiple_of(align),
        };
        let base = at ^ address_space(process);
        for &object in &slot.objects {
            relayout.bases[relayout.objects[object as usize].bases as usize + part] = base;
        }
        at = at.saturating_add(taken);
        if at - begins > REGION_BYTES / 2 {
            return Err(TooLarge);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::candidates::tests::structure;
    use super::super::candidates::{Change, Objects, candidates, with_inlined};
    use super::super::inlining::inlined;
    use super::super::visits::Visits;
    use super::*;
    use crate::full_trace::object_structures::ObjectStructure;
    use crate::full_trace::owners::{Owned, OwningField};

    fn object(start: u64, bytes: u64) -> Object {
        Object { process: 0, start, bytes, sequence: 1, ordinal: 1, origin: 0, index: None }
    }

    fn of(filled: Filled) -> Option<ObjectStructure> {
        Some(ObjectStructure { structure: 0, filled, skipped: 0 })
    }

    #[test]
    fn nodes_stay_side_by_side_and_apart() {
        // 56 bytes, of which the 40 in the middle are cold: 24 with a pointer to them.
        let structure = structure(56, &[("key", 8), ("note", 40), ("next", 8)]);
        let visits = Visits { accesses: 2000, in_arrays: 0, most_elements: 1, ..Visits::of(&[(0b101, 1000)]) };
        let found = candidates(&structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        let split = found.iter().find(|found| found.change == Change::HotCold).unwrap();
        let objects =
            [object(0x1000, 56), object(0x1040, 56), object(0x1000, 56), object(0x9000, 56), object(0x5000, 8)];
        let structured = Structured {
            structures: vec![structure],
            objects: vec![of(Filled::One), of(Filled::One), of(Filled::One), of(Filled::One), None],
            ..Structured::default()
        };
        let relaid = relayout(&objects, &structured, &[Some(split)]).unwrap();
        let at = |object: usize, part: usize| {
            relaid.bases[relaid.objects[object].bases as usize + part] - PLACE - part as u64 * REGION_BYTES
        };
        let page = PAGE_BYTES;
        // 24 bytes and a header are 32; what lay far away stays so, but for the header and the room of 64 that the one before had.
        assert_eq!(
            [0, 1, 2, 3].map(|object| at(object, 0) - page),
            [0, 32, 0, (64_u64 + 0x9000 - 0x1080).next_multiple_of(16)]
        );
        // Cold parts have no header.
        assert_eq!([0, 1].map(|object| at(object, 1) - 38 * page), [0, 40]);
        assert_eq!((relaid.objects[4].layout, relaid.objects[4].structure), (None, None));
        let as_it_is = relayout(&objects, &structured, &[None]).unwrap();
        assert_eq!((as_it_is.objects[1].layout, as_it_is.objects[1].structure), (Some(0), Some(0)));
        assert_eq!(as_it_is.bases[as_it_is.objects[1].bases as usize], 0x1040);
    }

    /// Nodes of 56 bytes in blocks of 64 with others of 32 between them, one in another part of memory, and one behind a number as C++ puts it.
    #[test]
    fn what_is_between_objects_stays() {
        let structure = structure(56, &[("key", 8), ("note", 40), ("next", 8)]);
        let visits = Visits { accesses: 2000, in_arrays: 0, most_elements: 1, ..Visits::of(&[(0b101, 1000)]) };
        let found = candidates(&structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        let split = found.iter().find(|found| found.change == Change::HotCold && !found.is_pool).unwrap();
        let objects =
            [object(0x1000, 56), object(0x1060, 56), object(0x7fff_0000_0000, 56), object(0x7fff_0000_0038, 64)];
        let mut all = vec![of(Filled::One); 4];
        all[3] = Some(ObjectStructure { structure: 0, filled: Filled::Array, skipped: 8 });
        let structured = Structured { structures: vec![structure], objects: all, ..Structured::default() };
        let relaid = relayout(&objects, &structured, &[Some(split)]).unwrap();
        let at = |object: usize| relaid.bases[relaid.objects[object].bases as usize] - PLACE - PAGE_BYTES;
        assert_eq!([at(0), at(1)], [0, 32 + 32]);
        assert!((FAR..FAR * 3).contains(&at(2)), "{:#x}", at(2));
        assert_eq!(at(3) - at(2), 32);
        assert_eq!(relaid.objects[3].start, 0x7fff_0000_0040);
    }

    /// Two owners of 24 bytes in blocks of 32, each with a part of 40 in a block of 48 behind it; behind the first part are 16 bytes of something else.
    #[test]
    fn what_is_pointed_to_goes_to_its_owner() {
        let (owner, part) = (structure(24, &[("key", 8), ("part", 8), ("next", 8)]), structure(40, &[("x", 40)]));
        let of = |structure| Some(ObjectStructure { structure, filled: Filled::One, skipped: 0 });
        let mut structured = Structured {
            structures: vec![owner, part],
            objects: vec![of(0), of(1), of(0), of(1), of(1)],
            ..Structured::default()
        };
        structured.structures[0].fields[1].type_name = "struct part *".to_owned();
        let objects =
            [object(0x1000, 24), object(0x1020, 40), object(0x1060, 24), object(0x1080, 40), object(0x7000, 40)];
        let field = OwningField { owner: 0, field: 1, offset: 8, pointee: 1 };
        let holder = |object| Holder { object, index: 0 };
        let owned = Owned { objects: vec![(1, holder(0)), (3, holder(2))], through: 2, ..Owned::default() };
        let inlined = inlined(&structured, (field, owned), (2, 2)).unwrap();
        let visits = Visits::of(&[(0b111, 1000)]);
        let found = with_inlined(Vec::new(), (&structured.structures[0], &visits), &[Arc::new(inlined)]);
        let at = |candidate| {
            let relaid = relayout(&objects, &structured, &[Some(candidate), None]).unwrap();
            [0, 1, 2, 3, 4].map(|of: usize| relaid.bases[relaid.objects[of].bases as usize])
        };
        // 56 bytes in a block of 64; the part that is nobody's stays.
        let [first, second] = [PLACE + PAGE_BYTES, PLACE + PAGE_BYTES + 64 + 16];
        assert_eq!(at(&found[0]), [first, first + 8, second, second + 8, 0x7000]);
        assert_eq!(at(&found[1])[2..4], [first + 56 + 16, first + 56 + 16 + 8]);
    }

    /// x and y, of 100 elements of 8 and 4 bytes, as they are, and as one array of 16 bytes an element.
    #[test]
    fn arrays_become_one() {
        let mut structure = structure(12, &[("x", 8), ("y", 4)]);
        structure.is_columns = true;
        let visits = Visits { accesses: 200, in_arrays: 200, most_elements: 100, ..Visits::of(&[(0b11, 100)]) };
        let found = candidates(&structure, &visits, Objects { count: 2, otherwise: 0, apart: 0 }).unwrap();
        let merged = found.iter().find(|found| found.change == Change::Merge).unwrap();
        let column = |field| Some(ObjectStructure { structure: 0, filled: Filled::Column(field), skipped: 0 });
        let objects = [object(0x9000, 400), object(0x1000, 800)];
        let structured =
            Structured { structures: vec![structure], objects: vec![column(1), column(0)], ..Structured::default() };
        let as_it_is = relayout(&objects, &structured, &[None]).unwrap();
        assert_eq!([0, 1].map(|of| as_it_is.bases[as_it_is.objects[of].bases as usize]), [0x9000, 0x1000]);
        let relaid = relayout(&objects, &structured, &[Some(merged)]).unwrap();
        let [y, x] = [0, 1].map(|of| relaid.objects[of]);
        assert_eq!((x.bases, x.structure, y.structure), (y.bases, Some(0), Some(0)));
        let layout = |of: PlacedObject| {
            let layout = &relaid.layouts[of.layout.unwrap() as usize];
            let field = layout.fields()[0];
            (field.from, field.to, field.bytes, layout.parts()[0].bytes)
        };
        assert_eq!([layout(x), layout(y)], [(0, 0, 8, 16), (0, 8, 4, 16)]);
    }

    /// Nodes of 24 bytes, two of which are of another process, with an index in the place of their pointer: each process has a variable that the
    /// first node's address is in.
    #[test]
    fn indexes_count_from_a_variable() {
        let mut structure = structure(24, &[("key", 8), ("count", 4), ("kind", 4), ("next", 8)]);
        structure.fields.iter_mut().for_each(|field| field.type_name = field.type_name.replace("long []", "int"));
        let visits = Visits { accesses: 2000, in_arrays: 0, most_elements: 1, ..Visits::of(&[(0b1111, 1000)]) };
        let found = candidates(&structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        assert!(found.iter().all(|of| of.change != Change::Indexes), "20 bytes are 24 then, too");
        structure.fields.remove(2);
        structure.fields[2].offset = 16;
        let found = candidates(&structure, &visits, Objects { count: 100, otherwise: 0, apart: 0 }).unwrap();
        let indexes = found.iter().find(|of| of.change == Change::Indexes).unwrap();
        let mut objects = [0x1000, 0x1020, 0x1000, 0x1020].map(|start| object(start, 24));
        objects[2].process = 1;
        objects[3].process = 1;
        let structured =
            Structured { structures: vec![structure], objects: vec![of(Filled::One); 4], ..Structured::default() };
        let relaid = relayout(&objects, &structured, &[Some(indexes)]).unwrap();
        let bases = |object: usize| &relaid.bases[relaid.objects[object].bases as usize..][..2];
        assert_eq!(relaid.bases.len(), 8);
        assert_eq!((bases(1)[0] - bases(0)[0], bases(0)[1], bases(2)[1]), (16, bases(1)[1], bases(3)[1]));
        assert_ne!(bases(0)[1], bases(2)[1]);
    }

    #[test]
    fn what_has_no_room_is_said() {
        let structure = structure(16, &[("a", 8), ("b", 8)]);
        let visits = Visits { accesses: 1000, in_arrays: 1000, most_elements: 1000, ..Visits::of(&[(1, 1000)]) };
        let found = candidates(&structure, &visits, Objects { count: 1, otherwise: 0, apart: 0 }).unwrap();
        let split = found.iter().find(|found| found.change == Change::Split).unwrap();
        let structured =
            Structured { structures: vec![structure], objects: vec![of(Filled::Array)], ..Structured::default() };
        let of_size = |bytes| relayout(&[object(0x1000, bytes)], &structured, &[Some(split)]);
        assert!(of_size(1 << 30).is_ok());
        assert_eq!(of_size(1 << 40), Err(TooLarge));
    }
}
