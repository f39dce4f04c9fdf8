//! Whether the steps of a nest may be gone through in another order.
//!
//! Where one step stores what another one loads or stores, these two must stay in their order. Exchanging two loops, and tiling them, keeps
//! the order of two steps unless the one is later in the outer loop and earlier in the inner one (J. Allen and K. Kennedy, *Automatic Loop
//! Interchange*, SIGPLAN 1984). Which steps these are, strides tell, where both instructions have the same; of all others nothing is known but
//! from where to where they reach.

use std::ops::Range;

use slimline_simulate::locality::exchange::{Stream, Times};

use super::{Nest, NestStream, OtherKey, Steps};

/// Times around the outer loop that are looked at, one by one: steps of more are taken to cross.
const MOST_OUTER: u64 = 1 << 20;
/// Steps that a register has something for, at most.
const MOST_KEPT: i128 = 8;
/// Steps that may be left behind an unrolled loop of vectors.
const UNROLLED: u64 = 64;

/// Two instructions whose steps must stay in their order, or may have to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// Key of the one that stores.
    pub store: u32,
    /// Key of the other.
    pub other: u32,
    /// That they must is known.
    pub is_certain: bool,
}

/// Whether some of these keys reach into the same addresses, where each key's accesses reach from here to there.
pub(super) fn overlap(extents: &[Range<u64>], a: &[u32], b: &[u32]) -> bool {
    let reach = |keys: &[u32]| {
        let all = keys.iter().filter_map(|&key| extents.get(key as usize)).filter(|reach| !reach.is_empty());
        let joined = |sum: Range<u64>, reach: Range<u64>| sum.start.min(reach.start)..sum.end.max(reach.end);
        all.cloned().reduce(joined).unwrap_or_default()
    };
    let (a, b) = (reach(a), reach(b));
    a.start < b.end && b.start < a.end
}

/// What an instruction accesses, or a register has instead.
struct Accessing {
    stream: Stream,
    keys: Vec<u32>,
    steps: Steps,
    is_known: bool,
    /// A register may have it: it is no access.
    is_guess: bool,
}

/// Instructions once around the inner loop that load what those begin with which the other instruction goes on with from there: a compiler keeps in registers what a step
/// accessed for the next ones that load it, as `a[k - 1][j]` beside `a[k][j]`, so that only the first load of them is to be seen. It may be of something else, too.
fn kept_in_registers(nest: &Nest) -> impl Iterator<Item = (&NestStream, &NestStream)> {
    let firsts = nest.streams.iter().filter(|of| of.stream.turn.is_once_around() && !of.stream.kind.stores());
    let goes_on = |first: &NestStream, rest: &NestStream| {
        let (from, to, stride) = (first.stream.start, rest.stream.start, i128::from(rest.stream.inner_bytes));
        let ahead = i128::from(to) - i128::from(from);
        rest.stream.outer_bytes == first.stream.outer_bytes
            && !rest.stream.turn.is_once_around()
            && stride != 0
            && ahead % stride == 0
            && (1..=MOST_KEPT).contains(&(ahead / stride))
    };
    firsts.flat_map(move |first| {
        nest.streams.iter().filter(move |rest| goes_on(first, rest)).map(move |rest| (first, rest))
    })
}

/// What of a nest's own instructions keeps it from another order, as far as strides tell. `is_own`: of a variable that each
/// time around the outer loop has for itself, by its key.
pub(super) fn across(nest: &Nest, extents: &[Range<u64>], is_own: impl Fn(u32) -> bool) -> Option<Dependence> {
    let is_known = |of: &NestStream| is_known(of, nest.most, extents);
    let own = nest.streams.iter().map(|of| Accessing {
        stream: of.stream,
        keys: of.keys.clone(),
        steps: of.steps,
        is_known: is_known(of),
        is_guess: false,
    });
    let kept = kept_in_registers(nest).map(|(first, rest)| Accessing {
        stream: Stream { start: first.stream.start, kind: first.stream.kind, ..rest.stream },
        keys: [&first.keys[..], &rest.keys].concat(),
        steps: rest.steps,
        is_known: false,
        is_guess: true,
    });
    let all: Vec<Accessing> = own.chain(kept).filter(|of| !of.keys.iter().all(|&key| is_own(key))).collect();
    for store in all.iter().filter(|of| of.stream.kind.stores()) {
        for other in all.iter().filter(|other| overlap(extents, &store.keys, &other.keys)) {
            let is_uniform = strides(&store.stream) == strides(&other.stream) && store.steps == other.steps;
            let is_certain = is_uniform && store.is_known && other.is_known;
            // What may be there is no reason but where it would be crossed.
            let is_doubt = !is_certain && !(is_uniform && (store.is_guess || other.is_guess));
            if is_doubt || is_crossed(&store.stream, &other.stream, nest.most) {
                return Some(Dependence { store: store.keys[0], other: other.keys[0], is_certain });
            }
        }
    }
    None
}

/// What keeps it so of others that are in it, too.
pub(super) fn with_others(nest: &Nest, others: &[OtherKey], extents: &[Range<u64>]) -> Option<Dependence> {
    for other in others {
        let with = |key: u32, stores: bool, keys: &[u32]| {
            let store = if other.stores { Some((other.key, key)) } else { stores.then_some((key, other.key)) };
            store.filter(|_| overlap(extents, keys, &[other.key])).map(|(store, other)| Dependence {
                store,
                other,
                is_certain: false,
            })
        };
        let of_nest = || nest.streams.iter().find_map(|of| with(of.keys[0], of.stream.kind.stores(), &of.keys));
        let of_others =
            || others.iter().filter(|of| of.key != other.key).find_map(|of| with(of.key, of.stores, &[of.key]));
        // What is stored last remains, and where it is stored may be counted.
        let itself = || other.stores.then_some(Dependence { store: other.key, other: other.key, is_certain: false });
        if let Some(found) = of_nest().or_else(of_others).or_else(itself) {
            return Some(found);
        }
    }
    None
}

/// Whether all of an instruction's accesses are known to be where its strides have them, each time through the loops.
fn is_known(of: &NestStream, most: Times, extents: &[Range<u64>]) -> bool {
    let within = |key: u32, more: u64| {
        let along = |stride: i64, times: u64| i128::from(stride) * i128::from(times.saturating_sub(1));
        let Stream { start, inner_bytes, outer_bytes, bytes, .. } = of.stream;
        let far = [along(inner_bytes, most.inner.saturating_add(more)), along(outer_bytes, most.outer)];
        let low: i128 = far.iter().map(|far| (*far).min(0)).sum();
        let high: i128 = far.iter().map(|far| (*far).max(0)).sum();
        let start = i128::from(start);
        extents.get(key as usize).is_none_or(|reach| {
            reach.is_empty()
                || start + low <= i128::from(reach.start) && i128::from(reach.end) <= start + high + i128::from(bytes)
        })
    };
    match of.steps {
        Steps::Mostly => false,
        Steps::Passes(0) => {
            let (walking, left_over) = of.keys.split_at(of.walking);
            walking.iter().all(|&key| within(key, 0)) && left_over.iter().all(|&key| within(key, UNROLLED))
        }
        // How far each of several places reaches nobody knows.
        Steps::Passes(_) | Steps::Line => of.keys.len() == of.walking,
    }
}

fn strides(stream: &Stream) -> (i64, i64) {
    (stream.inner_bytes, stream.outer_bytes)
}

/// Whether one of two that walk alike is, later in the outer loop and earlier in the inner one, at a byte that the other was at.
fn is_crossed(one: &Stream, other: &Stream, times: Times) -> bool {
    let (inner, outer) = (i128::from(times.inner), times.outer);
    if outer > MOST_OUTER {
        return true;
    }
    let between = |from: &Stream, to: &Stream| {
        let ahead = i128::from(to.start) - i128::from(from.start);
        (1..i128::from(outer)).any(|later| {
            let ahead = ahead + i128::from(to.outer_bytes) * later;
            // Steps back whose distance keeps within the bytes of both accesses.
            let (low, high) = (ahead - i128::from(from.bytes) + 1, ahead + i128::from(to.bytes) - 1);
            let (stride, low, high) = match i128::from(to.inner_bytes) {
                stride if stride < 0 => (-stride, -high, -low),
                stride => (stride, low, high),
            };
            match stride {
                0 => inner > 1 && low <= 0 && 0 <= high,
                stride => (-(-low).div_euclid(stride)).max(1) <= high.div_euclid(stride).min(inner - 1),
            }
        })
    };
    between(one, other) || between(other, one)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use proptest::prelude::*;
    use slimline_simulate::access::{AccessKind, Work};
    use slimline_simulate::locality::exchange::Turn;

    use super::*;

    fn stream(start: u64, inner_bytes: i64, outer_bytes: i64) -> Stream {
        Stream {
            start,
            inner_bytes,
            outer_bytes,
            bytes: 8,
            kind: AccessKind::Store,
            turn: Turn::Inner,
            work: Work::USUAL,
        }
    }

    #[test]
    fn which_steps_cross_by_hand() {
        let times = Times { inner: 10, outer: 10 };
        // Rows of 800 bytes by columns: `a[i][j]` is made of what is one row above, and so many columns to the right.
        let made_of = |columns: i64| {
            let above = 10_000_u64.wrapping_add_signed(columns * 8 - 800);
            is_crossed(&stream(10_000, 800, 8), &stream(above, 800, 8), times)
        };
        assert_eq!([-1, 0, 1, 9, 10].map(made_of), [false, false, true, true, false]);
        // One sum for all of it; one for each time around the outer loop, and one for each step of the inner one.
        let alone = |inner, outer| is_crossed(&stream(0, inner, outer), &stream(0, inner, outer), times);
        assert_eq!([alone(0, 0), alone(0, 8), alone(8, 0), alone(0, 4)], [true, false, false, true]);
        // What is not looked at may cross.
        let far = |outer| is_crossed(&stream(0, 0, 8), &stream(0, 0, 8), Times { inner: 10, outer });
        assert_eq!([far(10), far(MOST_OUTER + 1)], [false, true]);
    }

    #[test]
    fn all_accesses_must_be_where_strides_have_them() {
        let most = Times { inner: 4, outer: 10 };
        let known = |keys: &[u32], steps, extents: &[Range<u64>]| {
            let of =
                NestStream { keys: keys.to_vec(), walking: 1, stream: stream(8000, -800, 8), steps, is_line: false };
            is_known(&of, most, extents)
        };
        // From three rows above the first one's to ten columns behind.
        let box_of = 8000 - 2400..8000 + 80;
        let [before, behind] = [5592..8080, 5600..8088];
        let passes = Steps::Passes(0);
        assert!(known(&[0], passes, from_ref(&box_of)));
        assert!(!known(&[0], passes, &[before]) && !known(&[0], passes, from_ref(&behind)));
        assert!(!known(&[0], Steps::Mostly, from_ref(&box_of)));
        // What is left over is behind, in the way of the loop.
        assert!(known(&[0, 1], passes, &[box_of.clone(), 5600 - 1600..8080]));
        assert!(!known(&[0, 1], passes, &[box_of.clone(), behind]));
        assert_eq!(
            [Steps::Line, Steps::Passes(7)].map(|steps| known(&[0, 1], steps, &[box_of.clone(), 0..1])),
            [false; 2]
        );
        assert_eq!([Steps::Line, Steps::Passes(7)].map(|steps| known(&[0], steps, from_ref(&(0..1)))), [true; 2]);
    }

    proptest! {
        /// By looking at each two steps.
        #[test]
        fn all_pairs_of_steps_say_so(
            (ahead, inner_bytes, outer_bytes) in (-60_i64..60, -20_i64..20, -20_i64..20),
            (inner, outer) in (0_u64..6, 0_u64..6),
        ) {
            let start = 10_000_u64;
            let (one, other) = (stream(start, inner_bytes, outer_bytes), stream(start.wrapping_add_signed(ahead), inner_bytes, outer_bytes));
            let at = |of: &Stream, (outer, inner): (u64, u64)| {
                of.start.cast_signed() + of.inner_bytes * inner.cast_signed() + of.outer_bytes * outer.cast_signed()
            };
            let steps: Vec<(u64, u64)> = (0..outer).flat_map(|outer| (0..inner).map(move |inner| (outer, inner))).collect();
            let touch = |a: i64, b: i64| (a - b).abs() < 8;
            let expected = steps.iter().any(|&first| steps.iter().any(|&then| {
                let is_crossed = then.0 > first.0 && then.1 < first.1;
                is_crossed && (touch(at(&one, first), at(&other, then)) || touch(at(&other, first), at(&one, then)))
            }));
            prop_assert_eq!(is_crossed(&one, &other, Times { inner, outer }), expected);
        }
    }
}
