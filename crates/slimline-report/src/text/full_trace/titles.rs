//! What the rows of blocks are called.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use slimline_trace::escape::plain;

use super::super::table::shorten;
use super::{file_name, position};
use crate::full_trace::{HeapGroup, Position};

/// What heap groups of one line are told apart by, one after the other.
enum Apart {
    Columns,
    Variables,
    /// This many callers out.
    Caller(usize),
}

/// What heap groups are called: by their lines, and those of a library by who called it; those that share all that also by their columns, then by what variables hold them where callers do not tell them apart, else by who calls them, and where
/// that is the same, too, by a number. Of longer titles what several have in common is left out.
pub(super) fn titles(groups: &[HeapGroup], columns: usize) -> Vec<String> {
    let caller = |group: &HeapGroup, number: usize| {
        let Position { function: Some(function), line, .. } = group.callers.get(number)? else { return None };
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        Some(format!("{}{line}", plain(function)))
    };
    let of = |group: &HeapGroup| match &group.position {
        Position { file: Some(file), line: Some(line), .. } if group.in_library => {
            [format!("{}:{line}", file_name(file))].into_iter().chain(caller(group, 0)).collect()
        }
        other => vec![position(other, columns)],
    };
    let mut titles: Vec<Vec<String>> = groups.iter().map(of).collect();
    let most = groups.iter().map(|group| group.callers.len()).max().unwrap_or(0);
    let steps = [Apart::Columns, Apart::Variables].into_iter().chain((0..=most).map(Apart::Caller));
    for step in steps {
        let mut alike: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for (number, title) in titles.iter().enumerate() {
            alike.entry(title).or_default().push(number);
        }
        let alike: Vec<Vec<usize>> = alike.into_values().filter(|numbers| numbers.len() > 1).collect();
        for numbers in alike {
            let of = |number: &usize| &groups[*number];
            match step {
                Apart::Columns => {
                    let are_several = different(&numbers, |number| of(number).position.column) > 1;
                    for number in numbers.iter().filter(|_| are_several) {
                        if let Some(column) = of(number).position.column {
                            let _ = write!(titles[*number][0], ":{column}");
                        }
                    }
                }
                // Only where each of them has another one, and callers, which are asked for, would not do.
                Apart::Variables => {
                    let callers = |group: &HeapGroup| {
                        (0..group.callers.len()).map(|number| caller(group, number)).collect::<Vec<_>>()
                    };
                    let are_told = different(&numbers, |number| of(number).variable.as_deref()) == numbers.len()
                        && different(&numbers, |number| callers(of(number))) < numbers.len();
                    for number in numbers.iter().filter(|_| are_told) {
                        if let Some(variable) = of(number).variable.as_deref() {
                            let _ = write!(titles[*number][0], " ({})", plain(variable));
                        }
                    }
                }
                Apart::Caller(out) => {
                    for number in &numbers {
                        let group = of(number);
                        titles[*number].extend(caller(group, out + usize::from(group.in_library)));
                    }
                }
            }
        }
    }
    let mut shown: Vec<String> = titles.iter().map(|title| fitted(title, &titles, columns)).collect();
    let mut seen = BTreeMap::<String, u32>::new();
    for title in &mut shown {
        let times = seen.entry(title.clone()).or_default();
        *times += 1;
        if *times > 1 {
            let _ = write!(title, " #{times}");
        }
    }
    shown
}

/// How many different ones of something these have.
fn different<K: Ord>(numbers: &[usize], of: impl Fn(&usize) -> K) -> usize {
    numbers.iter().map(of).collect::<BTreeSet<_>>().len()
}

/// A place and who calls for it, in so many columns: `list.c:7 < … < load`. Callers are left out that others of the same place have
/// in common with it, then those before the outermost, which is what they were told apart by.
fn fitted(title: &[String], all: &[Vec<String>], columns: usize) -> String {
    const LEFT_OUT: &str = "…";
    let whole = title.join(" < ");
    let fits = |text: &str| text.chars().count() <= columns;
    let [place, callers @ ..] = title else { return whole };
    let Some(last) = callers.last().filter(|_| !fits(&whole)) else { return whole };
    let others = || all.iter().filter(|other| other[0] == *place && other.as_slice() != title);
    let in_common = |other: &Vec<String>| other[1..].iter().zip(callers).take_while(|(one, two)| one == two).count();
    let common = others().map(in_common).min().unwrap_or(0).min(callers.len() - 1);
    for left_out in common..callers.len() {
        let kept = [place.as_str(), LEFT_OUT].into_iter().chain(callers[left_out..].iter().map(String::as_str));
        let text = kept.collect::<Vec<_>>().join(" < ");
        if left_out > 0 && fits(&text) {
            return text;
        }
    }
    let room = columns.saturating_sub(format!("{place} < {LEFT_OUT} < ").chars().count());
    format!("{place} < {LEFT_OUT} < {}", shorten(last, room.max(columns / 2)))
}

#[cfg(test)]
mod tests {
    use super::super::POSITION_COLUMNS;
    use super::super::tests::counts;
    use super::*;

    #[test]
    fn no_two_groups_share_a_title() {
        let group = |line: u32, column, callers: &[u32]| HeapGroup {
            in_library: false,
            position: Position {
                function: Some("make".to_owned()),
                file: Some("list.c".to_owned()),
                line: Some(line),
                column: Some(column),
            },
            callers: callers
                .iter()
                .map(|line| Position { function: Some("main".to_owned()), line: Some(*line), ..Position::default() })
                .collect(),
            allocator: None,
            variable: None,
            type_name: None,
            blocks: 1,
            allocated_bytes: 8,
            peak_bytes: 8,
            counts: counts(1, 0),
            share_error: None,
            is_not_looked_up: false,
            fields: Vec::new(),
        };
        // What variables hold.
        let held = |variable: &str| HeapGroup { variable: Some(variable.to_owned()), ..group(4, 1, &[9]) };
        assert_eq!(self::titles(&[held("cells"), held("a")], POSITION_COLUMNS), ["list.c:4 (cells)", "list.c:4 (a)"]);
        let one_name = [held("a"), held("a")];
        assert_eq!(self::titles(&one_name, POSITION_COLUMNS), ["list.c:4 < main:9", "list.c:4 < main:9 #2"]);
        let groups = [
            group(1, 1, &[]),
            group(2, 1, &[]),
            group(2, 9, &[7]),
            group(2, 9, &[8]),
            group(3, 1, &[5]),
            group(3, 1, &[5]),
        ];
        let expected = ["list.c:1", "list.c:2:1", "list.c:2:9 < main:7", "list.c:2:9 < main:8", "list.c:3 < main:5"];
        let titles = titles(&groups, POSITION_COLUMNS);
        assert_eq!(titles[..5], expected);
        assert_eq!(titles[5], "list.c:3 < main:5 #2");
    }

    #[test]
    fn what_tells_titles_apart_is_kept() {
        let title =
            |callers: &[&str]| ["list.c:7"].iter().chain(callers).map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let shown = |all: &[Vec<String>], columns| all.iter().map(|it| fitted(it, all, columns)).collect::<Vec<_>>();
        let two = [title(&["grow", "push_back", "load"]), title(&["grow", "push_back", "store"])];
        let whole = ["list.c:7 < grow < push_back < load", "list.c:7 < grow < push_back < store"];
        assert_eq!(shown(&two, 36), whole);
        assert_eq!(shown(&two, 24), ["list.c:7 < … < load", "list.c:7 < … < store"]);
        // All that differs, where there is room.
        let three = [title(&["grow", "a", "load"]), title(&["grow", "b", "load"]), title(&["grow", "b", "read"])];
        assert_eq!(
            shown(&three, 23),
            ["list.c:7 < … < a < load", "list.c:7 < … < b < load", "list.c:7 < … < b < read"]
        );
        let long = [title(&["grow", "a_function_of_thirty_columns_or"]), title(&["grow", "another"])];
        assert_eq!(shown(&long, 24), ["list.c:7 < … < a_func…ns_or", "list.c:7 < … < another"]);
    }
}
