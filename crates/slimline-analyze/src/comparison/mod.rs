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
    /// Line of the allocation or declaration, which tells apart what is the same else; 0 where not known.
    pub line: u32,
}

/// Data of two runs that is the same: numbers of rows, those of both in their order; then those of one run only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// Of the old run and of the new one.
    pub both: Vec<(usize, usize)>,
    /// Of the old run only.
    pub old: Vec<usize>,
    /// Of the new one only.
    pub new: Vec<usize>,
}

/// What of data must be alike; `None` where that is not known of it.
type Way = fn(&DataKey) -> Option<[&str; 4]>;

/// Pairs data: first what is alike in all but the line, then by function and type, then by name and type. Of several alike those are
/// paired that are the same in the order of their lines.
pub fn paired(old: &[DataKey], new: &[DataKey]) -> Paired {
    let ways: [Way; 3] = [
        |key| Some([&key.kind, &key.function, &key.type_name, &key.name]),
        |key| {
            let is_known = !key.function.is_empty() && !key.type_name.is_empty();
            is_known.then_some([&key.kind, &key.function, &key.type_name, ""])
        },
        |key| (!key.name.is_empty()).then_some([&key.kind, "", &key.type_name, &key.name]),
    ];
    let mut left_old: Vec<usize> = (0..old.len()).collect();
    let mut left_new: Vec<usize> = (0..new.len()).collect();
    left_old.sort_by_key(|&row| old[row].line);
    left_new.sort_by_key(|&row| new[row].line);
    let mut both = Vec::new();
    for way in ways {
        left_old.retain(|&row| {
            let Some(key) = way(&old[row]) else { return true };
            let Some(at) = left_new.iter().position(|&other| way(&new[other]) == Some(key)) else { return true };
            both.push((row, left_new.remove(at)));
            false
        });
    }
    both.sort_unstable();
    left_old.sort_unstable();
    left_new.sort_unstable();
    Paired { both, old: left_old, new: left_new }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, function: &str, type_name: &str, line: u32) -> DataKey {
        let [name, function, type_name] = [name, function, type_name].map(str::to_owned);
        DataKey { name, kind: "heap".to_owned(), function, type_name, line }
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
        assert_eq!(found, Paired { both: vec![(0, 1), (1, 2), (3, 0)], old: vec![2], new: vec![3] });
    }

    /// Two allocations that differ by their line only are paired in the order of lines, and the third is new.
    #[test]
    fn what_is_alike_is_paired_in_the_order_of_lines() {
        let at = |line| key("nodes", "build", "struct node", line);
        let found = paired(&[at(20), at(10)], &[at(13), at(30), at(23)]);
        assert_eq!(found, Paired { both: vec![(0, 2), (1, 0)], old: vec![], new: vec![1] });
    }
}
