//! What the fields are called that samples are in.

use rustc_hash::FxHashMap;
use slimline_attribute::tables::{Tables, TypeId};
use slimline_attribute::typing::leaves::leaves;
use slimline_trace::access::GroupId;

/// Names of fields.
pub(super) struct Fields<'t> {
    tables: &'t Tables,
    /// Where each begins and ends, with its name.
    leaves: FxHashMap<TypeId, Vec<(u64, u64, String)>>,
}

impl<'t> Fields<'t> {
    pub(super) fn new(tables: &'t Tables) -> Self {
        Self { tables, leaves: FxHashMap::default() }
    }

    /// The field that a byte of an object is in; empty where it is none. Elements of an array in it are one: `count[]`.
    pub(super) fn name(&mut self, group: GroupId, object_offset: u64) -> String {
        let Some(element) = self.tables.group(group).element else { return String::new() };
        let Some(offset) = object_offset.checked_sub(element.start) else { return String::new() };
        let offset = offset % element.bytes.max(1);
        let tables = self.tables;
        let leaves = self.leaves.entry(element.type_id).or_insert_with(|| {
            let all = leaves(&tables.types, element.type_id).into_iter();
            all.map(|leaf| (leaf.offset, leaf.offset.saturating_add(leaf.bytes), of_all_elements(&leaf.path))).collect()
        });
        let of_type = tables.type_(element.type_id).name.trim_start_matches("struct ");
        let field = leaves.iter().find(|(start, end, name)| (*start..*end).contains(&offset) && !name.is_empty());
        match field {
            Some((.., name)) if of_type.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                format!("{of_type}.{name}")
            }
            Some((.., name)) => name.clone(),
            None => String::new(),
        }
    }
}

/// `edge[2].at` as `edge[].at`.
fn of_all_elements(path: &str) -> String {
    let mut name = String::new();
    let mut is_inside = false;
    for character in path.chars() {
        is_inside &= character != ']';
        if !is_inside {
            name.push(character);
        }
        is_inside |= character == '[';
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_an_array_have_one_name() {
        assert_eq!(of_all_elements("edge[2].at[1]"), "edge[].at[]");
        assert_eq!(of_all_elements("a.b"), "a.b");
    }
}
