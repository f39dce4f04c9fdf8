//! Memory of no structure, of which no layout is tried.

use serde::Serialize;
use slimline_analyze::relayout::unstructured::Unstructured;

use super::Facts;
use crate::full_trace::known;

/// Objects of no structure that one line allocates, or a static variable.
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
    pub(super) fn of(found: &Unstructured, facts: &Facts<'_>) -> Self {
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
