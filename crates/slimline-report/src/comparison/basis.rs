//! Whether what was compared is enough for a verdict: a gate that compared nothing must not pass.

use slimline_analyze::comparison::layouts::DeclaredType;

use super::{Comparison, NamedHot, Snapshot, is_field, is_type_of};
use crate::declared_layouts::TypeFilter;

impl Comparison {
    /// Whether it is enough to tell that nothing is worse.
    ///
    /// # Errors
    /// It is not: why, and what to do.
    pub(super) fn judgeable(&self, hot: &NamedHot<'_>) -> Result<(), String> {
        let lacks_field = || hot.patterns.iter().find_map(|pattern| self.lacks_field(pattern, hot.is_for_this));
        let lacks = self.lacks_types().or_else(|| self.lacks_machine()).or_else(|| self.lacks_rows());
        lacks.or_else(lacks_field).map_or(Ok(()), Err)
    }

    /// What is not there of a program's types would be neither worse nor gone.
    fn lacks_types(&self) -> Option<String> {
        let missing = self.after.missing.join(", ");
        (self.after.filter.is_some() && !missing.is_empty()).then(|| {
            format!(
                "{missing}: not all types of {} can be compared; build it anew, with all of its debug information",
                self.new
            )
        })
    }

    fn lacks_machine(&self) -> Option<String> {
        let is_empty = self.misses.as_ref().is_some_and(|changes| changes.rows.is_empty());
        let unmatched = self.unmatched();
        (is_empty && !unmatched.is_empty()).then(|| {
            format!(
                "{} and {} have no machine in common: {}; choose the old side's (--machine), or make the old side anew",
                self.old,
                self.new,
                unmatched.join("; ")
            )
        })
    }

    fn lacks_rows(&self) -> Option<String> {
        let Self { old, new, layouts, shares, misses, .. } = self;
        let is_empty = layouts.as_ref().is_none_or(|changes| changes.same == 0 && changes.changed.is_empty())
            && shares.as_ref().is_none_or(|changes| changes.rows.is_empty())
            && misses.as_ref().is_none_or(|changes| changes.rows.is_empty());
        let tells_none = |side: &Snapshot| side.types.as_ref().is_some_and(Vec::is_empty);
        let bare = [(old, &self.before), (new, &self.after)].into_iter().find(|(_, side)| tells_none(side));
        is_empty.then(|| match bare {
            Some((name, side)) if side.filter.as_ref().is_some_and(TypeFilter::chooses) => {
                format!(
                    "{name} has no types of those that were chosen (--type, --source, --least-size) when the old side was made, so nothing was \
                     compared: make it anew"
                )
            }
            Some((name, side)) if side.data.as_ref().is_some_and(Vec::is_empty) => {
                format!("{name} has no samples, so nothing was compared: give the program more work, and record it anew")
            }
            Some((name, _)) => {
                format!("{name} tells no types, so nothing was compared: compile the program with -g, and make it anew")
            }
            None => {
                format!("{old} and {new} have nothing of one name, so nothing was compared: are both of one program?")
            }
        })
    }

    /// A field that is named as hot is there, unless the new side tells nothing of its type, as sessions do of what they did not meet.
    fn lacks_field(&self, pattern: &str, is_for_this: bool) -> Option<String> {
        let Self { old, new, .. } = self;
        if self.layouts.is_none() {
            return is_for_this.then(|| format!("--hot {pattern}: no types of {old} and {new} can be compared"));
        }
        if has_field(&self.after, pattern) {
            return None;
        }
        if !has_field(&self.before, pattern) {
            return is_for_this.then(|| {
                format!(
                    "hot field {pattern}: no field of {old} or {new} is called so; slimline layouts FILE --show TYPE lists them"
                )
            });
        }
        let is_of_it = |type_: &DeclaredType| is_type_of(pattern, &type_.name);
        let is_told = self.after.filter.is_some() || types(&self.after).iter().any(is_of_it);
        is_told.then(|| {
            format!(
                "hot field {pattern}: {old} has it, and no field of {new} is called so: name it as it is called now"
            )
        })
    }
}

fn types(side: &Snapshot) -> &[DeclaredType] {
    side.types.as_deref().unwrap_or_default()
}

fn has_field(side: &Snapshot, pattern: &str) -> bool {
    types(side).iter().any(|type_| type_.fields.iter().any(|field| is_field(pattern, &type_.name, &field.path)))
}
