//! Names that tell functions apart: those of one name, as static functions of several files have, are told with their file.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Place;

/// The files of functions, by name.
#[derive(Debug, Default)]
pub(super) struct FunctionNames {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl FunctionNames {
    pub(super) fn of(places: impl Iterator<Item = Place>) -> Self {
        let mut files = BTreeMap::<String, BTreeSet<String>>::new();
        for Place { function, file, .. } in places.filter(|place| !place.function.is_empty()) {
            files.entry(function).or_default().insert(file);
        }
        Self { files }
    }

    /// What the function at a place is called.
    pub(super) fn name(&self, place: &Place) -> String {
        let is_one = self.files.get(&place.function).is_none_or(|files| files.len() < 2);
        match is_one || place.file.is_empty() {
            true => place.function.clone(),
            false => format!("{} ({})", place.function, place.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_where_names_are_not_enough() {
        let place = |function: &str, file: &str, line| Place {
            function: function.to_owned(),
            file: file.to_owned(),
            line,
            column: 0,
        };
        let all = [
            place("walk", "a.c", 1),
            place("walk", "a.c", 9),
            place("step", "a.c", 2),
            place("step", "b.c", 3),
            place("step", "", 0),
            place("", "a.c", 7),
            place("", "b.c", 7),
        ];
        let names = FunctionNames::of(all.iter().cloned());
        let names: Vec<String> = all.iter().map(|place| names.name(place)).collect();
        assert_eq!(names, ["walk", "walk", "step (a.c)", "step (b.c)", "step", "", ""]);
    }
}
