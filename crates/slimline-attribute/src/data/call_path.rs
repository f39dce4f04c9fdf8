//! What of an allocation's call path tells one data structure from another.
//!
//! Two paths that differ only inside code that passes memory on, or only in how deep a recursion was, make the same
//! data structure:
//!
//! ```text
//!   malloc ◄ xmalloc ◄ build:12 ◄ build:15 ◄ build:16 ◄ main:30     ──►    build:12, main:30
//! ```

use crate::tables::Frame;

/// The frames that identify a path, innermost first, as indices of `frames`: the program's own, and of each function
/// that calls itself (directly or not) only the innermost call and what called the outermost one.
pub fn own_frames(frames: &[&Frame], is_own: impl Fn(usize) -> bool) -> Vec<usize> {
    let own: Vec<usize> = (0..frames.len()).filter(|&index| is_own(index)).collect();
    let mut kept = Vec::new();
    let mut next = 0;
    while let Some(&index) = own.get(next) {
        kept.push(index);
        let is_same = |&other: &usize| {
            frames[other].function == frames[index].function && frames[other].module == frames[index].module
        };
        next = own.iter().rposition(is_same).map_or(next, |last| last.max(next)) + 1;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::SourcePosition;

    #[track_caller]
    fn check(path: &[(&str, u32)], expected: &[(&str, u32)]) {
        let frames: Vec<Frame> = path
            .iter()
            .map(|&(function, line)| Frame {
                function: function.to_owned(),
                module: "prog".to_owned(),
                position: Some(SourcePosition { file: "a.c".to_owned(), line, column: 0 }),
                inlined: false,
            })
            .collect();
        let kept = own_frames(&frames.iter().collect::<Vec<_>>(), |index| !frames[index].function.starts_with('x'));
        let kept: Vec<_> =
            kept.iter().map(|&index| (path[index].0, frames[index].position.as_ref().unwrap().line)).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn recursion_of_any_depth_is_one_path() {
        check(&[("xmalloc", 3), ("build", 12), ("main", 30)], &[("build", 12), ("main", 30)]);
        check(
            &[("xmalloc", 3), ("build", 12), ("build", 15), ("build", 16), ("main", 30)],
            &[("build", 12), ("main", 30)],
        );
        // Mutual recursion entered through `even`.
        check(
            &[("odd", 5), ("even", 9), ("odd", 6), ("even", 9), ("main", 1)],
            &[("odd", 5), ("even", 9), ("main", 1)],
        );
        check(&[("odd", 5), ("even", 9), ("main", 1)], &[("odd", 5), ("even", 9), ("main", 1)]);
    }

    #[test]
    fn what_only_passes_memory_on_is_left_out_everywhere() {
        check(&[("xrealloc", 1), ("push", 7), ("xapply", 2), ("main", 1)], &[("push", 7), ("main", 1)]);
        check(&[("xmalloc", 1)], &[]);
        check(&[], &[]);
    }
}
