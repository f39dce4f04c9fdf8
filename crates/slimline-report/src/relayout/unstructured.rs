//! Memory of no structure, of which no layout is tried.

use serde::Serialize;
use slimline_analyze::relayout::unstructured::Unstructured;

use super::Facts;
use crate::full_trace::known;

/// Objects of no structure that are told alike: that one line allocates, or a static variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnstructuredRow {
    /// `array` and its name, a variable's name, or the type; none where none of them is known.
    pub data: Option<String>,
    /// Where it is allocated, as `file:line`; none where that is not known, and of variables.
    pub allocated_at: Option<String>,
    /// The function that allocates it; none where that is not known, and of variables.
    pub allocated_in: Option<String>,
    /// Part of the program's time, as predicted.
    pub share: f64,
    /// How many objects there were, at a time or not.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
}

impl UnstructuredRow {
    /// Rows, most of the time first. A line may allocate by several instructions, which nobody can tell apart.
    pub(super) fn all(facts: &Facts<'_>) -> Vec<Self> {
        merged(facts.unstructured.iter().map(|found| Self::of(found, facts)))
    }

    /// Of variables, and of what has no line, being called alike says nothing.
    fn is_told_as(&self, other: &Self) -> bool {
        self.allocated_at.is_some()
            && (&self.data, &self.allocated_at, &self.allocated_in)
                == (&other.data, &other.allocated_at, &other.allocated_in)
    }

    fn of(found: &Unstructured, facts: &Facts<'_>) -> Self {
        let origin = &facts.origins[found.origin as usize];
        let place = Some(&origin.allocated_at).filter(|_| origin.variable.is_none());
        let array = found.array.map(|array| facts.structured.structures[array as usize].name.clone());
        let variable = origin.variable.as_deref().and_then(known);
        Self {
            data: array.or(variable).or_else(|| known(&origin.type_name)),
            allocated_at: place.filter(|of| of.line > 0).map(|of| format!("{}:{}", of.file, of.line)),
            allocated_in: place.and_then(|of| known(&of.function)),
            share: found.share,
            objects: found.objects,
            object_bytes: found.bytes,
        }
    }
}

fn merged(told: impl Iterator<Item = UnstructuredRow>) -> Vec<UnstructuredRow> {
    let mut rows: Vec<UnstructuredRow> = Vec::new();
    for row in told {
        match rows.iter_mut().find(|known| known.is_told_as(&row)) {
            Some(known) => {
                known.share += row.share;
                known.objects += row.objects;
                known.object_bytes = known.object_bytes.saturating_add(row.object_bytes);
            }
            None => rows.push(row),
        }
    }
    rows.sort_by(|one, other| other.share.total_cmp(&one.share));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_alike_is_one_row() {
        let row = |at: &str, share, objects| UnstructuredRow {
            data: Some("char".to_owned()),
            allocated_at: Some(at.to_owned()),
            allocated_in: Some("grow".to_owned()),
            share,
            objects,
            object_bytes: 8 * objects,
        };
        let rows = [row("a.c:7", 0.25, 1), row("a.c:9", 0.375, 2), row("a.c:7", 0.25, 3)];
        assert_eq!(merged(rows.into_iter()), [row("a.c:7", 0.5, 4), row("a.c:9", 0.375, 2)]);
        // Two files may have such a variable each.
        let variable = || UnstructuredRow { allocated_at: None, allocated_in: None, ..row("", 0.5, 1) };
        assert_eq!(merged([variable(), variable()].into_iter()).len(), 2);
    }
}
