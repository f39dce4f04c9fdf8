//! Whose pointers objects are found by, so that these may be in the place of the pointers: a pass of its own over a trace.

use std::ops::Range;
use std::sync::Arc;

use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::object_structures::{Filled, Structured};
use slimline_analyze::full_trace::objects::{Object, ObjectAccesses};
use slimline_analyze::full_trace::owners::{Owners, OwningField};
use slimline_analyze::relayout::candidates::Objects;
use slimline_analyze::relayout::inlining::{inlined, pointer_fields};
use slimline_analyze::relayout::search::Searched;
use slimline_simulate::access::Access;
use slimline_trace::stream::decode::Program;
use slimline_trace::stream::order::{Piece, StreamKey};

use crate::recorded::{Reader, RecordedTrace};

/// Takes in all accesses, none of which is wanted but by who follows owners.
struct OwnersReader {
    found: ObjectAccesses,
    accesses: Vec<Access>,
}

impl Reader for OwnersReader {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>) {
        let Self { found, accesses } = self;
        found.update(program, &TraceBatch::of(stream, piece, visits), accesses, &mut Vec::clear);
        accesses.clear();
    }
}

/// Others than those that are `searched` whose pointers may lead to one of these, what takes most of the time first: they take little themselves.
pub(crate) fn owners_of(structured: &Structured, searched: &[Searched], all: &[Searched]) -> Vec<Searched> {
    let others = all.iter().filter(|of| find(searched, of.structure).is_none());
    let led_to = |of: &Searched| {
        let fields = pointer_fields(structured, of.structure, |structure| objects_of(all, structure));
        let pointees = fields.into_iter().flatten().filter_map(|field| find(searched, field.pointee));
        pointees.map(|pointee| pointee.share).max_by(f64::total_cmp)
    };
    let mut owners: Vec<(f64, &Searched)> = others.filter_map(|of| Some((led_to(of)?, of))).collect();
    owners.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.share.total_cmp(&a.1.share)));
    owners.into_iter().map(|(_, of)| of.clone()).collect()
}

fn find(all: &[Searched], structure: u32) -> Option<&Searched> {
    all.iter().find(|of| of.structure == structure)
}

fn objects_of(all: &[Searched], structure: u32) -> Objects {
    find(all, structure).map_or(Objects { count: 0, otherwise: 0, apart: 0 }, |of| of.objects)
}

/// Tells of these which pointers could be what they lead to, of all structures' `all`; in a pass over the trace, where any could.
///
/// # Errors
/// It can't be read.
pub(crate) fn find_inlined(
    trace: &RecordedTrace,
    (objects, structured): (&[Object], &Structured),
    searched: &mut [Searched],
    all: &[Searched],
) -> anyhow::Result<()> {
    let mut fields: Vec<OwningField> = Vec::new();
    for of in &mut *searched {
        for found in pointer_fields(structured, of.structure, |structure| objects_of(all, structure)) {
            match found {
                Ok(field) => fields.push(field),
                Err(refused) => of.not_inlined.push(refused),
            }
        }
    }
    if fields.is_empty() {
        return Ok(());
    }
    let owners = Owners::new(trace.program(), (objects, structured), &fields);
    let mut reader = OwnersReader { found: ObjectAccesses::with_owners(owners), accesses: Vec::new() };
    trace.read(&mut [&mut reader])?;
    for (field, owned) in fields.into_iter().zip(reader.found.into_owned()) {
        let count = objects_of(all, field.pointee).count;
        let Some(of) = searched.iter_mut().find(|of| of.structure == field.owner) else { continue };
        match inlined(structured, (field, owned), (elements((objects, structured), field.owner), count)) {
            Ok(inlined) => of.inlined.push(Arc::new(inlined)),
            Err(refused) => of.not_inlined.push(refused),
        }
    }
    Ok(())
}

/// Elements of a structure, in all of its objects.
fn elements((objects, structured): (&[Object], &Structured), structure: u32) -> u64 {
    let bytes = u64::from(structured.structures[structure as usize].bytes.max(1));
    let of_it = objects.iter().zip(&structured.objects).filter_map(|(object, of)| {
        let of = of.filter(|of| of.structure == structure)?;
        Some(if of.filled == Filled::Array { object.bytes.saturating_sub(of.skipped.into()) / bytes } else { 1 })
    });
    of_it.sum()
}
