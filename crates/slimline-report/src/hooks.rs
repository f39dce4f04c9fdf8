//! What is told of hooked functions of allocators.

use std::collections::{BTreeMap, BTreeSet};

use slimline_trace::session::FoundAllocator;

/// Names kept of a list.
const MOST: usize = 3;

/// `` `a`, `b` and 2 more ``
fn list<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(MOST);
    let mut named: Vec<String> = names.take(MOST).map(|name| format!("`{name}`")).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// The functions that are followed, as a list; `None` where there are none.
pub fn followed_calls(found: &[FoundAllocator]) -> Option<String> {
    let followed = found.iter().filter(|one| one.outcome.why_not().is_none());
    let names: BTreeSet<&str> = followed.map(|one| one.function.as_str()).collect();
    (!names.is_empty()).then(|| list(names.into_iter()))
}

/// For each reason why functions are not followed, which these are.
pub fn unseen_calls<'f>(found: impl Iterator<Item = &'f FoundAllocator>) -> Vec<(String, &'static str)> {
    let mut by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in found {
        if let Some(why) = one.outcome.why_not() {
            by_reason.entry(why).or_default().insert(&one.function);
        }
    }
    by_reason.into_iter().map(|(why, names)| (list(names.into_iter()), why)).collect()
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::HookOutcome;

    use super::*;

    fn found(rows: &[(&str, HookOutcome)]) -> Vec<FoundAllocator> {
        rows.iter().map(|&(function, outcome)| FoundAllocator { function: function.to_owned(), outcome }).collect()
    }

    #[test]
    fn functions_are_told_by_reason() {
        use HookOutcome::{Calls, Followed, Short};
        let rows = found(&[("take", Followed), ("a", Short), ("b", Calls), ("c", Short), ("a", Short)]);
        assert_eq!(followed_calls(&rows).unwrap(), "`take`");
        let told = unseen_calls(rows.iter());
        let why = |outcome: HookOutcome| outcome.why_not().unwrap();
        assert_eq!(told, [("`a` and `c`".to_owned(), why(Short)), ("`b`".to_owned(), why(Calls))]);
        let many = found(&["a", "b", "c", "d", "e"].map(|name| (name, Followed)));
        assert_eq!(followed_calls(&many).unwrap(), "`a`, `b`, `c` and 2 more");
        assert_eq!(followed_calls(&[]), None);
    }
}
