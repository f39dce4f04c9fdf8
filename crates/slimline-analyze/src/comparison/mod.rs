//! What differs between two runs, or two builds, of one program, and what of that is beyond chance or what is allowed.
//!
//! ```text
//!   types   ─ layouts ─┐
//!   shares  ─ shares  ─┼─► differences ──gate──► what is worse than allowed
//!   misses  ─ misses  ─┘      └ chance: are sampled shares apart?
//! ```
//!
//! Nothing is known again by its address, and nothing by its line alone: sources are edited in between. See [`DataKey`].

pub mod chance;
pub mod gate;
pub mod layouts;
pub mod misses;
pub mod shares;
pub mod traced;

use std::collections::{HashMap, VecDeque};

/// What data is known again by in another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataKey {
    /// Its name in reports.
    pub name: String,
    /// `heap`, `static`, …
    pub kind: String,
    /// Function that allocates it; empty where it is not allocated.
    pub function: String,
    /// Type of its elements; empty where not known.
    pub type_name: String,
    /// Size of an element; 0 where not known.
    pub element_bytes: u64,
    /// Functions that call the one that allocates it, innermost first, where they are told.
    pub callers: Vec<String>,
    /// Line of the allocation or declaration, which tells apart what is the same else; 0 where not known.
    pub line: u32,
}

/// Data of two runs that is the same: numbers of rows, those of both in their order; then those of one run only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// Of the old run and of the new one, and what it was known again by.
    pub both: Vec<(usize, usize, KnownBy)>,
    /// Of the old run only.
    pub old: Vec<usize>,
    /// Of the new one only.
    pub new: Vec<usize>,
}

impl Paired {
    /// Data that has another function or name in the new run.
    fn renamed(&self, old: &[DataKey], new: &[DataKey]) -> Vec<Renamed> {
        let others = self.both.iter().filter(|(.., by)| *by != KnownBy::All);
        others.map(|&(was, is, by)| Renamed { old: old[was].clone(), new: new[is].clone(), by }).collect()
    }
}

/// Data that was known again though its function or its name is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Renamed {
    /// As it was.
    pub old: DataKey,
    /// As it is.
    pub new: DataKey,
    /// What it was known again by.
    pub by: KnownBy,
}

/// What data of another run was known again by, beside its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnownBy {
    /// All but its line.
    All,
    /// The function that allocates it, and its type.
    FunctionAndType,
    /// Its name and type.
    NameAndType,
    /// Its type and size, and who calls the function that allocates it.
    Callers,
    /// Its type and size, which nothing else has that was left in either run.
    OnlyOne,
}

impl KnownBy {
    /// In the order in which they are tried: the less there is alike the later.
    const ALL: [Self; 5] = [Self::All, Self::FunctionAndType, Self::NameAndType, Self::Callers, Self::OnlyOne];

    /// What must be alike; `None` where that is not known of it.
    fn identity(self, key: &DataKey) -> Option<Identity<'_>> {
        let DataKey { name, kind, function, type_name, element_bytes, callers, .. } = key;
        let has_type = !type_name.is_empty();
        let all = Identity { kind, type_name, ..Identity::default() };
        let is_sized = has_type || *element_bytes > 0;
        match self {
            Self::All => Some(Identity { name, function, ..all }),
            Self::FunctionAndType => (has_type && !function.is_empty()).then_some(Identity { function, ..all }),
            Self::NameAndType => (!name.is_empty()).then_some(Identity { name, ..all }),
            Self::Callers => {
                let is_known = is_sized && !callers.is_empty();
                is_known.then_some(Identity { callers, element_bytes: *element_bytes, ..all })
            }
            Self::OnlyOne => has_type.then_some(Identity { element_bytes: *element_bytes, ..all }),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Identity<'a> {
    kind: &'a str,
    name: &'a str,
    function: &'a str,
    type_name: &'a str,
    element_bytes: u64,
    callers: &'a [String],
}

/// Pairs data by all ways in which it can be known again, one after the other. Of several alike those are paired that are the same in the order
/// of their lines; but of those of which nothing but the type is known none is, as any could be any.
pub fn paired(old: &[DataKey], new: &[DataKey]) -> Paired {
    let [mut left_old, mut left_new] = [old, new].map(in_order_of_lines);
    let mut both = Vec::new();
    for by in KnownBy::ALL {
        let was = alike(by, old, &left_old);
        let mut is = alike(by, new, &left_new);
        let mut is_taken = vec![false; new.len()];
        left_old.retain(|&row| {
            let Some(identity) = by.identity(&old[row]) else { return true };
            let Some(others) = is.get_mut(&identity) else { return true };
            if by == KnownBy::OnlyOne && (was[&identity].len(), others.len()) != (1, 1) {
                return true;
            }
            let Some(other) = others.pop_front() else { return true };
            both.push((row, other, by));
            is_taken[other] = true;
            false
        });
        left_new.retain(|&row| !is_taken[row]);
    }
    both.sort_unstable();
    left_old.sort_unstable();
    left_new.sort_unstable();
    Paired { both, old: left_old, new: left_new }
}

/// Their rows.
fn in_order_of_lines(keys: &[DataKey]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..keys.len()).collect();
    rows.sort_by_key(|&row| keys[row].line);
    rows
}

/// Rows by what is to be alike, in their order.
fn alike<'k>(by: KnownBy, keys: &'k [DataKey], rows: &[usize]) -> HashMap<Identity<'k>, VecDeque<usize>> {
    let mut alike: HashMap<Identity<'_>, VecDeque<usize>> = HashMap::new();
    for &row in rows {
        if let Some(identity) = by.identity(&keys[row]) {
            alike.entry(identity).or_default().push_back(row);
        }
    }
    alike
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The twin of [`paired`], which looks through all that is left for each.
    fn paired_one_by_one(old: &[DataKey], new: &[DataKey]) -> Paired {
        let [mut left_old, mut left_new] = [old, new].map(in_order_of_lines);
        let mut both = Vec::new();
        for by in KnownBy::ALL {
            let alike = |keys: &[DataKey], rows: &[usize], identity: Identity<'_>| {
                rows.iter().filter(|&&row| by.identity(&keys[row]) == Some(identity)).count()
            };
            let before = left_old.clone();
            left_old.retain(|&row| {
                let Some(identity) = by.identity(&old[row]) else { return true };
                if by == KnownBy::OnlyOne && (alike(old, &before, identity), alike(new, &left_new, identity)) != (1, 1)
                {
                    return true;
                }
                let is_it = |&other: &usize| by.identity(&new[other]) == Some(identity);
                let Some(at) = left_new.iter().position(is_it) else { return true };
                both.push((row, left_new.remove(at), by));
                false
            });
        }
        both.sort_unstable();
        left_old.sort_unstable();
        left_new.sort_unstable();
        Paired { both, old: left_old, new: left_new }
    }

    /// Few names, so that much is alike.
    fn any_key() -> impl Strategy<Value = DataKey> {
        let name = || prop_oneof![Just(""), Just("a"), Just("b")].prop_map(str::to_owned);
        let callers = prop::collection::vec(name(), 0..2);
        let names = (name(), name(), name(), name());
        (names, callers, 0..2_u64, 0..4_u32).prop_map(
            |((name, kind, function, type_name), callers, element_bytes, line)| DataKey {
                name,
                kind,
                function,
                type_name,
                element_bytes,
                callers,
                line,
            },
        )
    }

    proptest! {
        #[test]
        fn pairs_are_those_of_looking_through_all(
            old in prop::collection::vec(any_key(), 0..12),
            new in prop::collection::vec(any_key(), 0..12),
        ) {
            prop_assert_eq!(paired(&old, &new), paired_one_by_one(&old, &new));
        }
    }

    fn key(name: &str, function: &str, type_name: &str, line: u32) -> DataKey {
        let [name, function, type_name] = [name, function, type_name].map(str::to_owned);
        DataKey { name, kind: "heap".to_owned(), function, type_name, line, ..DataKey::default() }
    }

    #[test]
    fn data_is_known_again_though_lines_and_names_change() {
        let old = [
            key("bodies", "main", "struct body", 36),
            key("names", "main", "char", 40),
            key("gone", "load", "struct gone", 7),
            key("table", "init", "struct cell", 9),
        ];
        let new = [
            key("cells", "init", "struct cell", 12), // the variable has another name
            key("bodies", "main", "struct body", 38),
            key("names", "setup", "char", 3), // allocated elsewhere
            key("fresh", "load", "struct fresh", 8),
        ];
        let found = paired(&old, &new);
        let both = vec![(0, 1, KnownBy::All), (1, 2, KnownBy::NameAndType), (3, 0, KnownBy::FunctionAndType)];
        assert_eq!(found, Paired { both, old: vec![2], new: vec![3] });
        let renamed = found.renamed(&old, &new);
        assert_eq!(renamed.iter().map(|of| of.new.name.as_str()).collect::<Vec<_>>(), ["names", "cells"]);
    }

    /// Two allocations that differ by their line only are paired in the order of lines, and the third is new.
    #[test]
    fn what_is_alike_is_paired_in_the_order_of_lines() {
        let at = |line| key("nodes", "build", "struct node", line);
        let found = paired(&[at(20), at(10)], &[at(13), at(30), at(23)]);
        assert_eq!(found, Paired { both: vec![(0, 2, KnownBy::All), (1, 0, KnownBy::All)], old: vec![], new: vec![1] });
    }

    /// Function, variable and line are others: what it is and who calls says which it is, where that is one only.
    #[test]
    fn what_was_renamed_is_known_by_what_it_is() {
        let of = |name, function, type_name, element_bytes, callers: &[&str]| DataKey {
            element_bytes,
            callers: callers.iter().map(|caller| (*caller).to_owned()).collect(),
            ..key(name, function, type_name, 7)
        };
        let old = [
            of("a", "make_a", "struct node", 64, &["load", "main"]),
            of("b", "make_b", "struct node", 64, &["parse", "main"]),
            of("c", "make_c", "struct cell", 24, &[]),
            of("d", "make_d", "struct edge", 16, &[]),
            of("e", "make_e", "struct edge", 16, &[]),
            of("f", "make_f", "struct row", 32, &[]),
        ];
        let new = [
            of("b2", "new_b", "struct node", 64, &["parse", "main"]),
            of("a2", "new_a", "struct node", 64, &["load", "main"]),
            of("c2", "new_c", "struct cell", 24, &[]),
            // Either could be either.
            of("d2", "new_d", "struct edge", 16, &[]),
            of("e2", "new_e", "struct edge", 16, &[]),
            // It grew and nothing else is alike: another one.
            of("f2", "new_f", "struct row", 40, &[]),
        ];
        let found = paired(&old, &new);
        let both = vec![(0, 1, KnownBy::Callers), (1, 0, KnownBy::Callers), (2, 2, KnownBy::OnlyOne)];
        assert_eq!(found, Paired { both, old: vec![3, 4, 5], new: vec![3, 4, 5] });
    }
}
