//! Changes of sources' texts, and the unified diff of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::Source;
use crate::tree::FileId;

/// A place where other text stands then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: String,
    /// What it is for: several insertions at one byte are told apart by it. Those that come of one header in several units, or of
    /// several uses of one macro, have the same.
    pub(crate) purpose: usize,
}

/// Changes of several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Of each file, in the order in which they were made: of insertions at one byte the first is the outermost.
    of: BTreeMap<FileId, Vec<Edit>>,
}

/// Two changes want the same text to be different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) file: FileId,
    pub(crate) offset: usize,
}

impl Edits {
    /// Adds one, if it is not there yet.
    pub(crate) fn add(&mut self, file: FileId, edit: Edit) {
        let of = self.of.entry(file).or_default();
        if !of.contains(&edit) {
            of.push(edit);
        }
    }

    pub(crate) fn insert(&mut self, file: FileId, at: usize, text: impl Into<String>, purpose: usize) {
        self.add(file, Edit { start: at, end: at, text: text.into(), purpose });
    }

    pub(crate) fn replace(&mut self, file: FileId, (start, end): (usize, usize), text: impl Into<String>) {
        self.add(file, Edit { start, end, text: text.into(), purpose: start });
    }

    /// These and others, of another structure.
    ///
    /// # Errors
    /// They overlap: in which file, at which byte.
    pub fn with(&self, others: &Self) -> Result<Self, (FileId, usize)> {
        let mut both = self.clone();
        for (&file, edits) in &others.of {
            edits.iter().for_each(|edit| both.add(file, edit.clone()));
        }
        both.conflict().map_or(Ok(both), |conflict| Err((conflict.file, conflict.offset)))
    }

    /// The files that change.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        self.of.keys().copied()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Those of a file by place; of insertions at one place in the order in which they were made.
    fn sorted(&self, file: FileId) -> Vec<&Edit> {
        let mut edits: Vec<&Edit> = self.of.get(&file).into_iter().flatten().collect();
        edits.sort_by_key(|edit| (edit.start, edit.end));
        edits
    }

    /// The first two that overlap.
    pub(crate) fn conflict(&self) -> Option<Conflict> {
        self.of.keys().find_map(|&file| {
            let edits = self.sorted(file);
            let overlapping = edits.windows(2).find(|pair| pair[0].end > pair[1].start);
            overlapping.map(|pair| Conflict { file, offset: pair[1].start })
        })
    }

    /// A file's new text.
    pub fn apply(&self, file: FileId, source: &Source) -> String {
        let mut text = String::with_capacity(source.text.len());
        let mut at = 0;
        for edit in self.sorted(file) {
            text += &source.text[at..edit.start.max(at)];
            text += &edit.text;
            at = edit.end.max(at);
        }
        text + &source.text[at..]
    }
}

/// Lines around a change that a diff shows.
const CONTEXT: usize = 3;

/// The unified diff of a file, as `patch -p1` takes it; `path` as it stands there.
pub fn unified_diff(path: &str, old: &str, new: &str) -> String {
    let (old_lines, new_lines) = (lines(old), lines(new));
    let changes = changes(&old_lines, &new_lines);
    let mut diff = format!("--- a/{path}\n+++ b/{path}\n");
    let mut at = 0;
    while at < changes.len() {
        // Changes whose context touches are in one hunk.
        let mut last = at;
        while last + 1 < changes.len() && changes[last + 1].old.0 - changes[last].old.1 <= 2 * CONTEXT {
            last += 1;
        }
        hunk(&mut diff, &changes[at..=last], &old_lines, &new_lines);
        at = last + 1;
    }
    diff
}

/// Lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Lines from and to which differ in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed {
    old: (usize, usize),
    new: (usize, usize),
}

/// Longest stretch of lines for which a shortest diff is looked for: it takes the square of their number.
const MOST_LINES: usize = 4000;

/// What differs: the lines that no longest common sequence of lines has.
fn changes(old: &[&str], new: &[&str]) -> Vec<Changed> {
    let same_at_start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same_at_start;
    let same_at_end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) =
        (&old[same_at_start..old.len() - same_at_end], &new[same_at_start..new.len() - same_at_end]);
    let mut found: Vec<Changed> = Vec::new();
    let mut change = |old: (usize, usize), new: (usize, usize)| match found.last_mut() {
        Some(last) if last.old.1 == old.0 && last.new.1 == new.0 => (last.old.1, last.new.1) = (old.1, new.1),
        _ => found.push(Changed { old, new }),
    };
    if old_mid.len().max(new_mid.len()) > MOST_LINES {
        change((same_at_start, old.len() - same_at_end), (same_at_start, new.len() - same_at_end));
        return found;
    }
    // Lengths of the longest common sequences of what is left from each pair on.
    let width = new_mid.len() + 1;
    let mut lengths = vec![0_u16; (old_mid.len() + 1) * width];
    for a in (0..old_mid.len()).rev() {
        for b in (0..new_mid.len()).rev() {
            lengths[a * width + b] = match old_mid[a] == new_mid[b] {
                true => lengths[(a + 1) * width + b + 1] + 1,
                false => lengths[(a + 1) * width + b].max(lengths[a * width + b + 1]),
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    while a < old_mid.len() || b < new_mid.len() {
        let (at_old, at_new) = (same_at_start + a, same_at_start + b);
        if a < old_mid.len() && b < new_mid.len() && old_mid[a] == new_mid[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == new_mid.len() || a < old_mid.len() && lengths[(a + 1) * width + b] >= lengths[a * width + b + 1]
        {
            change((at_old, at_old + 1), (at_new, at_new));
            a += 1;
        } else {
            change((at_old, at_old), (at_new, at_new + 1));
            b += 1;
        }
    }
    found
}

fn hunk(diff: &mut String, changes: &[Changed], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
    let before = first.old.0.min(CONTEXT);
    let after = (old.len() - last.old.1).min(CONTEXT);
    let old_range = (first.old.0 - before, last.old.1 + after);
    let new_range = (first.new.0 - before, last.new.1 + after);
    let side = |(from, to): (usize, usize)| match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        count => format!("{},{count}", from + 1),
    };
    let _ = writeln!(diff, "@@ -{} +{} @@", side(old_range), side(new_range));
    let mut write = |mark: char, lines: &[&str]| {
        for line in lines {
            diff.push(mark);
            diff.push_str(line);
            if !line.ends_with('\n') {
                diff.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    let mut at = old_range.0;
    for change in changes {
        write(' ', &old[at..change.old.0]);
        write('-', &old[change.old.0..change.old.1]);
        write('+', &new[change.new.0..change.new.1]);
        at = change.old.1;
    }
    write(' ', &old[at..old_range.1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("a.c".to_owned(), text.into())
    }

    #[test]
    fn the_first_of_insertions_at_one_place_is_the_outermost() {
        let mut edits = Edits::default();
        edits.insert(0, 0, "f(", 9);
        edits.insert(0, 0, "f(", 5);
        edits.insert(0, 0, "f(", 9);
        edits.replace(0, (1, 3), ".");
        assert_eq!(edits.apply(0, &source("a->b")), "f(f(a.b");
        assert_eq!(edits.conflict(), None);
        edits.replace(0, (2, 4), "");
        assert_eq!(edits.conflict(), Some(Conflict { file: 0, offset: 2 }));
    }

    #[test]
    fn diffs_have_three_lines_around() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n5\n").replace("18\n19\n", "").replace("\n9\n", "\nnine\n");
        assert_eq!(
            unified_diff("x/a.c", &old, &new),
            "--- a/x/a.c\n+++ b/x/a.c\n@@ -2,11 +2,12 @@\n 2\n 3\n 4\n+five\n 5\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n\
             @@ -15,6 +16,4 @@\n 15\n 16\n 17\n-18\n-19\n 20\n"
        );
        assert_eq!(
            unified_diff("a", "x", "y\n"),
            "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n"
        );
    }
}
