//! The element of a data structure on cache lines, as it is and as advised.

use std::fmt::{self, Write};

use super::Page;
use crate::html::structure_map::{Block, Map, What};
use crate::view::{Advice, Field, Group, NewLayout};

/// What a field is, as samples saw it.
fn what(field: &Field) -> What {
    let name = field.name.clone();
    match (field.is_only_spanned(), field.is_used()) {
        (true, _) => What::Wide(name),
        (false, true) => What::Used(name, field.share),
        (false, false) => What::Unused(name),
    }
}

/// The group's element as it is; nothing where it has none, or only one field that is all of it.
pub(super) fn as_it_is(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    let Some(map) = map_of(group) else { return Ok(()) };
    let name = group.type_name.as_deref().unwrap_or("element");
    map.write(out, &format!("{name} as it is, by {}", page.cost))
}

fn map_of(group: &Group) -> Option<Map> {
    let bytes = group.element_bytes.filter(|&bytes| bytes > 0)?;
    if group.fields.len() < 2 {
        return None;
    }
    let field = |field: &Field| Block { offset: field.offset, bytes: field.bytes, what: what(field) };
    let holes = group.layout.iter().flat_map(|layout| &layout.members).filter(|member| member.is_hole());
    let hole = holes.map(|member| Block {
        offset: member.offset,
        bytes: member.bytes,
        what: if member.padding { What::Padding } else { What::Hole },
    });
    let blocks = group.fields.iter().filter(|field| field.bytes > 0).map(field).chain(hole).collect();
    Some(Map::of(bytes, blocks, is_array(group, bytes)))
}

/// Whether its objects hold several elements.
fn is_array(group: &Group, element_bytes: u64) -> bool {
    group.blocks > 0 && group.bytes / group.blocks >= element_bytes.saturating_mul(2)
}

/// Its new structures, where fields are to move.
pub(super) fn as_advised(out: &mut impl Write, page: &Page<'_>, group: &Group, advice: &Advice) -> fmt::Result {
    let Some(bytes) = group.element_bytes else { return Ok(()) };
    for (number, layout) in advice.layouts.iter().enumerate() {
        let part = match advice.layouts.len() {
            1 => String::new(),
            parts => format!(", part {} of {parts}", number + 1),
        };
        // What is moved behind a pointer is to be allocated from an array.
        let is_array = is_array(group, bytes) || layout.pointer_at.is_none() && advice.kind == "hot_cold_split";
        new_map(group, layout, is_array).write(out, &format!("As advised{part}, by {}", page.cost))?;
    }
    Ok(())
}

fn new_map(group: &Group, layout: &NewLayout, is_array: bool) -> Map {
    let of = |from: u64| {
        let field = group.fields.iter().find(|field| field.offset == from);
        // Of another group of its type, whose fields are as many.
        field.map_or(What::Unknown, what)
    };
    Map::of_new(layout, of, is_array)
}
