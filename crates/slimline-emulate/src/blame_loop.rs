//! The loops around a sampled instruction.

use crate::blame_code::{Bytes, Flow, get, set};

/// The instructions of a loop.
#[derive(PartialEq, Eq)]
pub(crate) struct Loop {
    /// Where the code begins that `body` has a bit for each byte of.
    start: u64,
    body: Bytes,
}

impl Loop {
    /// Whether the instruction at `ip` belongs to it.
    pub(crate) fn has(&self, ip: u64) -> bool {
        ip.checked_sub(self.start).is_some_and(|at| get(&self.body, at as usize))
    }

    /// The innermost loop of the instruction at offset `at` of code that begins at `start`.
    ///
    /// A loop is what lies between the target of a branch backwards and the last such branch to it, as far as it can
    /// be reached from the one and leads to the other without leaving. So entries in the middle do no harm, as of
    /// loops that begin with a jump to their condition. Blocks elsewhere that can be entered only from there and lead
    /// back to there belong to it: compilers put the unlikely ones behind the function.
    pub(crate) fn innermost(flow: &Flow<'_>, start: u64, at: usize) -> Option<Loop> {
        let mut head = at + 1;
        loop {
            // Loops lie within each other, so the last head is the innermost one's.
            let backwards = flow.branches.iter().map(|&(from, to)| (usize::from(from), usize::from(to)));
            let (from, to) = backwards
                .filter(|&(from, to)| to < head && to <= from && at <= from)
                .max_by_key(|&(from, to)| (to, from))?;
            let mut body = cycle(flow, to, from);
            if get(&body, at) {
                add_outlying(flow, &mut body);
                return Some(Loop { start, body });
            }
            head = to;
        }
    }
}

/// What is between `first` and `last`, can be reached from `first`, and leads to `last` without leaving.
fn cycle(flow: &Flow<'_>, first: usize, last: usize) -> Bytes {
    let within = |offset: usize| (first..=last).contains(&offset);
    let mut reached = [0; _];
    set(&mut reached, first);
    let mut is_new = true;
    while is_new {
        is_new = false;
        let mut at = Some(first);
        while let Some(offset) = at.filter(|&offset| within(offset)) {
            if get(&reached, offset) {
                for next in flow.falls_to(offset).into_iter().chain(flow.branches_to(offset)) {
                    // What lies ahead is come to in this turn.
                    is_new |= within(next) && set(&mut reached, next) && next <= offset;
                }
            }
            at = flow.next(offset);
        }
    }
    let mut body = [0; _];
    if get(&reached, last) {
        go_back(flow, last, &mut body, |offset| if get(&reached, offset) { Follow::On } else { Follow::Closed });
    }
    body
}

/// What to do with an instruction on the way back.
enum Follow {
    On,
    /// It does not belong there.
    Closed,
    /// Nothing that leads there does.
    Nowhere,
}

/// Adds to `body` what leads to `from`. False where a way leads nowhere, or its beginning is not known.
fn go_back(flow: &Flow<'_>, from: usize, body: &mut Bytes, follow: impl Fn(usize) -> Follow) -> bool {
    /// Branches whose sources are yet to be looked at; more are not followed.
    const MOST: usize = 64;
    let (mut open, mut count) = ([0_u16; MOST], 1);
    open[0] = from as u16;
    set(body, from);
    let mut is_closed = true;
    while count > 0 {
        count -= 1;
        let offset = usize::from(open[count]);
        let mut has_source = false;
        for before in flow.fallen_from(offset).into_iter().chain(flow.branched_from(offset)) {
            has_source = true;
            match follow(before) {
                Follow::Closed => {}
                Follow::Nowhere => is_closed = false,
                Follow::On if !set(body, before) => {}
                Follow::On => match open.get_mut(count) {
                    Some(room) => {
                        *room = before as u16;
                        count += 1;
                    }
                    None => is_closed = false,
                },
            }
        }
        is_closed &= has_source;
    }
    is_closed
}

/// Adds blocks elsewhere that are entered from the loop only and lead back to it.
fn add_outlying(flow: &Flow<'_>, body: &mut Bytes) {
    let core = *body;
    for &(from, to) in flow.branches {
        let (from, to) = (usize::from(from), usize::from(to));
        if !get(&core, to) || get(body, from) {
            continue;
        }
        let mut block = [0; _];
        // A block that is as long as that is no unlikely one.
        const FARTHEST: usize = 512;
        let is_closed = go_back(flow, from, &mut block, |offset| match () {
            () if get(&core, offset) => Follow::Closed,
            () if offset + FARTHEST < from => Follow::Nowhere,
            () => Follow::On,
        });
        if is_closed {
            body.iter_mut().zip(block).for_each(|(body, block)| *body |= block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use crate::blame_code::Code;

    const START: u64 = 0x1000;

    /// Offsets of the instructions of the innermost loop around `at`.
    fn innermost(code: &[u8], at: u64) -> Option<Vec<u64>> {
        let around = Code::new(code, START, START).innermost_loop(START + at)?;
        Some((0..code.len() as u64).filter(|offset| around.has(START + offset)).collect())
    }

    #[test]
    fn the_innermost_of_nested_loops() {
        // 0: nop; 1: (outer) nop; 2: (inner) nop; 3: jne 2; 5: nop; 6: jne 1; 8: ret
        let code = [0x90, 0x90, 0x90, 0x75, 0xfd, 0x90, 0x75, 0xf9, 0xc3];
        assert_eq!(innermost(&code, 0), None);
        assert_eq!(innermost(&code, 2), Some([2, 3].into()));
        assert_eq!(innermost(&code, 5), Some([1, 2, 3, 5, 6].into()));
        assert_eq!(innermost(&code, 8), None);
    }

    #[test]
    fn a_loop_that_is_entered_at_its_condition() {
        // 0: jmp 3; 2: (body) nop; 3: nop; 4: jne 2; 6: ret
        assert_eq!(innermost(&[0xeb, 0x01, 0x90, 0x90, 0x75, 0xfc, 0xc3], 3), Some([2, 3, 4].into()));
    }

    #[test]
    fn an_unlikely_block_behind_the_function_belongs_to_its_loop() {
        // 0: nop; 1: (head) je 7; 3: nop; 4: jne 1; 6: ret; 7: nop; 8: jmp 3
        let code = [0x90, 0x74, 0x04, 0x90, 0x75, 0xfb, 0xc3, 0x90, 0xeb, 0xf9];
        assert_eq!(innermost(&code, 3), Some([1, 3, 4, 7, 8].into()));
        // A jump backwards alone makes no loop: 0: je 4; 2: nop; 3: ret; 4: jmp 2
        assert_eq!(innermost(&[0x74, 0x02, 0x90, 0xc3, 0xeb, 0xfc], 2), None);
    }

    #[test]
    fn two_ways_back_to_one_head_are_one_loop() {
        // 0: (head) nop; 1: je 0; 3: nop; 4: jne 0; 6: ret
        assert_eq!(innermost(&[0x90, 0x74, 0xfd, 0x90, 0x75, 0xfa, 0xc3], 0), Some([0, 1, 3, 4].into()));
    }

    /// An instruction: its offset, and those that can follow it.
    type Node = (usize, Vec<usize>);

    /// Instructions that can be come to from `from` over `nodes`, and it.
    fn reachable(nodes: &[Node], from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([from]);
        loop {
            let more: Vec<usize> =
                nodes.iter().filter(|(at, _)| reached.contains(at)).flat_map(|(_, next)| next.clone()).collect();
            let before = reached.len();
            reached.extend(more);
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// The same by the definition, slowly.
    fn by_definition(nodes: &[Node], branches: &[(usize, usize)], at: usize) -> Option<Vec<u64>> {
        let mut heads: Vec<usize> = branches.iter().filter(|(from, to)| to <= from).map(|&(_, to)| to).collect();
        heads.sort_unstable();
        for head in heads.into_iter().rev().filter(|&head| head <= at) {
            let last =
                branches.iter().filter(|&&(from, to)| to == head && from >= at && from >= to).map(|&(from, _)| from);
            let Some(last) = last.max() else { continue };
            let inside = |offset: &usize| (head..=last).contains(offset);
            let within: Vec<Node> = nodes
                .iter()
                .filter(|(offset, _)| inside(offset))
                .map(|(offset, next)| (*offset, next.iter().copied().filter(inside).collect()))
                .collect();
            let from_head = reachable(&within, head);
            let mut body: BTreeSet<usize> =
                from_head.iter().copied().filter(|&offset| reachable(&within, offset).contains(&last)).collect();
            if !body.contains(&at) {
                continue;
            }
            let core = body.clone();
            for &(from, to) in branches {
                if !core.contains(&to) || core.contains(&from) {
                    continue;
                }
                // All that leads to it without passing through the loop.
                let outside: Vec<Node> = nodes.iter().filter(|(offset, _)| !core.contains(offset)).cloned().collect();
                let leading: BTreeSet<usize> = outside
                    .iter()
                    .map(|&(offset, _)| offset)
                    .filter(|&offset| reachable(&outside, offset).contains(&from))
                    .collect();
                let has_source = |offset: &usize| nodes.iter().any(|(_, next)| next.contains(offset));
                if leading.iter().all(has_source) {
                    body.extend(leading);
                }
            }
            return Some(body.into_iter().map(|offset| offset as u64).collect());
        }
        None
    }

    #[test]
    fn loops_are_those_of_the_definition() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 20) % limit
        };
        let mut found = 0;
        for _ in 0..3000 {
            // nop, je, jmp and ret, by their lengths; then where the jumps lead: to an instruction.
            let kinds: Vec<u64> = (0..4 + below(16)).map(|_| below(8)).collect();
            let offsets: Vec<usize> = kinds
                .iter()
                .scan(0, |at, kind| {
                    let here = *at;
                    *at += if (3..7).contains(kind) { 2 } else { 1 };
                    Some(here)
                })
                .collect();
            let (mut code, mut nodes, mut branches) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (&kind, &at)) in kinds.iter().zip(&offsets).enumerate() {
                let behind = offsets.get(number + 1).copied();
                let to = offsets[below(offsets.len() as u64) as usize];
                let distance = (to as i64 - at as i64 - 2) as i8 as u8;
                let mut next = Vec::new();
                match kind {
                    0..3 => code.push(0x90),
                    3..6 => code.extend([0x74, distance]),
                    6 => code.extend([0xeb, distance]),
                    _ => code.push(0xc3),
                }
                if kind < 6 {
                    next.extend(behind);
                }
                if (3..7).contains(&kind) {
                    next.push(to);
                    branches.push((at, to));
                }
                nodes.push((at, next));
            }
            for &at in &offsets {
                let expected = by_definition(&nodes, &branches, at);
                assert_eq!(innermost(&code, at as u64), expected, "around {at:#x} of {code:02x?}");
                found += usize::from(expected.is_some());
            }
        }
        assert!(found > 5000, "{found}");
    }
}
