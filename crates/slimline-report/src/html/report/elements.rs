//! A group's element on cache lines: as it is, and as advised.

use std::fmt::{self, Write};

use super::Page;
use crate::structure_map;
use crate::view::{Advice, Group};

/// The group's element as it is; nothing where it has none, or only one field that is all of it.
pub(super) fn as_it_is(out: &mut impl Write, page: &Page<'_>, group: &Group) -> fmt::Result {
    match structure_map::as_it_is(group) {
        Some(map) => map.write(out, &structure_map::title(group, page.cost)),
        None => Ok(()),
    }
}

/// Its new structures, where fields are to move.
pub(super) fn as_advised(out: &mut impl Write, page: &Page<'_>, group: &Group, advice: &Advice) -> fmt::Result {
    let maps = structure_map::as_advised(group, advice, page.cost);
    maps.iter().try_for_each(|(title, map)| map.write(out, title))
}
