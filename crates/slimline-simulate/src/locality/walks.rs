//! How an instruction goes through memory: by which stride in the innermost loop, and by which from one time around that
//! loop to the next.
//!
//! Both are seen in its addresses alone. Accesses at equal distances, at least [`LEAST`] of them, are a *run*: once through
//! the innermost loop. Runs of one stride whose beginnings are at equal distances are a *pass*: once through the loop around
//! it. Runs may be of any lengths, as in a triangle.

/// Accesses of the shortest run: three may be at equal distances by chance.
const LEAST: u64 = 4;
/// Ways of walking that are told apart; an instruction has one, or a few.
const MOST: usize = 8;
/// What the distances of passes are mixed by, an odd number of many bits: 2⁶⁴ by the golden ratio.
const MIXING: u64 = 0x9e37_79b9_7f4a_7c15;

/// A way of walking, and how often it was gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// From one access to the next.
    pub inner_bytes: i64,
    /// From the beginning of a run to that of the next.
    pub outer_bytes: i64,
    /// First address of the first run.
    pub start: u64,
    /// Number of the first run's first access among all accesses of the stream.
    pub begins: u64,
    /// The same of its last one.
    pub ends: u64,
    /// Accesses.
    pub accesses: u64,
    /// Runs.
    pub runs: u64,
    /// Passes.
    pub passes: u64,
    /// Accesses of each pass' longest run, together.
    pub longest: u64,
    /// Runs that are shorter than the one before in their pass.
    pub shorter: u64,
    /// Runs that are longer than the one before by another number than that one was, or longer where that was not.
    pub uneven: u64,
    /// Accesses of the longest run of all.
    pub longest_run: u64,
    /// Runs of the pass that has most.
    pub most_runs: u64,
    /// Where the passes begin, as seen from the first: the same number for two instructions whose passes begin equally far from their first
    /// ones, and 0 where all begin at the same place.
    pub moved: u64,
}

impl Walk {
    /// Mean accesses of a run.
    pub fn inner(&self) -> f64 {
        self.accesses as f64 / self.runs as f64
    }

    /// Mean runs of a pass.
    pub fn outer(&self) -> f64 {
        self.runs as f64 / self.passes as f64
    }

    fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.runs += other.runs;
        self.passes += other.passes;
        self.longest += other.longest;
        self.shorter += other.shorter;
        self.uneven += other.uneven;
        self.longest_run = self.longest_run.max(other.longest_run);
        self.most_runs = self.most_runs.max(other.most_runs);
        self.moved = self.moved.wrapping_mul(MIXING).wrapping_add(other.start.wrapping_sub(self.start));
    }
}

/// Accesses at equal distances.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    last: u64,
    /// Nothing yet where there is one access.
    stride: i64,
    count: u64,
    begins: u64,
    ends: u64,
}

/// A pass that goes on.
#[derive(Clone, Copy, Debug)]
struct Pass {
    walk: Walk,
    last_start: u64,
    last_count: u64,
    last_growth: u64,
}

/// Walks of one instruction.
#[derive(Clone, Debug, Default)]
pub struct Walks {
    run: Option<Run>,
    pass: Option<Pass>,
    known: Vec<Walk>,
}

fn distance(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

impl Walks {
    /// Adds an access; `number` counts those of the whole stream.
    pub(super) fn add(&mut self, address: u64, number: u64) {
        let one = Run { start: address, last: address, stride: 0, count: 1, begins: number, ends: number };
        let Some(run) = &mut self.run else {
            self.run = Some(one);
            return;
        };
        let stride = distance(run.last, address);
        if run.count == 1 || run.stride == stride {
            (run.stride, run.last, run.count, run.ends) = (stride, address, run.count + 1, number);
            return;
        }
        let ended = *run;
        if ended.count >= LEAST {
            self.run = Some(one);
            self.end_run(&ended);
        } else {
            // The last one may be the first of another.
            *run = Run { start: ended.last, stride, count: 2, begins: ended.ends, ..one };
        }
    }

    fn end_run(&mut self, run: &Run) {
        if let Some(pass) = &mut self.pass {
            let Walk { inner_bytes, outer_bytes, runs, .. } = pass.walk;
            let outer = distance(pass.last_start, run.start);
            if inner_bytes == run.stride && (runs == 1 || outer_bytes == outer) {
                let growth = run.count.saturating_sub(pass.last_count);
                pass.walk.outer_bytes = outer;
                pass.walk.accesses += run.count;
                pass.walk.runs += 1;
                pass.walk.longest = pass.walk.longest.max(run.count);
                pass.walk.longest_run = pass.walk.longest;
                pass.walk.most_runs = pass.walk.runs;
                pass.walk.shorter += u64::from(run.count < pass.last_count);
                pass.walk.uneven += u64::from(growth != pass.last_growth);
                (pass.last_start, pass.last_count, pass.last_growth) = (run.start, run.count, growth);
                return;
            }
        }
        let walk = Walk {
            inner_bytes: run.stride,
            outer_bytes: 0,
            start: run.start,
            begins: run.begins,
            ends: run.ends,
            accesses: run.count,
            runs: 1,
            passes: 1,
            longest: run.count,
            shorter: 0,
            uneven: 0,
            longest_run: run.count,
            most_runs: 1,
            moved: 0,
        };
        let next = Pass { walk, last_start: run.start, last_count: run.count, last_growth: 0 };
        if let Some(ended) = self.pass.replace(next) {
            note(&mut self.known, &ended.walk);
        }
    }

    /// The walk that most accesses are of; none where nothing is regular.
    pub fn main(&self) -> Option<Walk> {
        let mut all = self.clone();
        if let Some(run) = all.run.take().filter(|run| run.count >= LEAST) {
            all.end_run(&run);
        }
        if let Some(pass) = all.pass.take() {
            note(&mut all.known, &pass.walk);
        }
        all.known.into_iter().max_by_key(|walk| (walk.accesses, std::cmp::Reverse(walk.begins)))
    }
}

/// Adds a pass. One of a single run is of no walk, as nobody knows where the next would have begun.
fn note(known: &mut Vec<Walk>, pass: &Walk) {
    if pass.runs == 1 {
        return;
    }
    let same = |walk: &Walk| (walk.inner_bytes, walk.outer_bytes) == (pass.inner_bytes, pass.outer_bytes);
    match known.iter().position(same) {
        Some(place) => known[place].add(pass),
        None if known.len() < MOST => known.push(*pass),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(addresses: impl IntoIterator<Item = u64>) -> Option<Walk> {
        let mut walks = Walks::default();
        (100..).zip(addresses).for_each(|(number, address)| walks.add(address, number));
        walks.main()
    }

    #[test]
    fn a_matrix_down_its_columns() {
        // Five rows of 800 bytes, six columns, twice.
        let pass = || (0..6).flat_map(|column| (0..5).map(move |row| 4096 + row * 800 + column * 8));
        let found = walk(pass().chain(pass())).unwrap();
        let expected = Walk {
            inner_bytes: 800,
            outer_bytes: 8,
            start: 4096,
            begins: 100,
            ends: 104,
            accesses: 60,
            runs: 12,
            passes: 2,
            longest: 10,
            shorter: 0,
            uneven: 0,
            longest_run: 5,
            most_runs: 6,
            moved: 0,
        };
        assert_eq!(found, expected);
        assert_eq!((found.inner(), found.outer()), (5.0, 6.0));
    }

    #[test]
    fn where_passes_begin_is_told_by_a_number() {
        let passes = |starts: &[u64], rows: u64| {
            let pass = move |start: u64| {
                (0..6).flat_map(move |column| (0..rows).map(move |row| start + row * 800 + column * 8))
            };
            walk(starts.iter().flat_map(|&start| pass(start).collect::<Vec<_>>())).unwrap()
        };
        let moved = |starts: &[u64]| passes(starts, 5).moved;
        assert_eq!(moved(&[4096, 4096, 4096]), 0);
        assert_eq!(moved(&[4096, 90_000, 5000]), moved(&[104_096, 190_000, 105_000]));
        assert_ne!(moved(&[4096, 90_000, 5000]), moved(&[4096, 5000, 90_000]));
        assert_ne!(moved(&[4096, 90_000]), 0);
        // The longest one counts, not the mean.
        let uneven = walk(
            [9, 4, 4]
                .into_iter()
                .enumerate()
                .flat_map(|(at, rows)| (0..rows).map(move |row| at as u64 * 8 + row * 800)),
        );
        assert_eq!(uneven.map(|walk| (walk.longest_run, walk.most_runs)), Some((9, 3)));
    }

    #[test]
    fn rows_that_lie_one_behind_the_other_are_one_run() {
        assert_eq!(walk((0..100).map(|at| at * 8)), None);
        // The last column of rows of eleven is left out.
        let found = walk((0..7).flat_map(|row| (0..10).map(move |column| row * 88 + column * 8))).unwrap();
        assert_eq!((found.inner_bytes, found.outer_bytes, found.runs, found.passes), (8, 88, 7, 1));
        assert_eq!(walk([1, 5, 2, 9, 33, 7, 8, 1000, 3]), None);
        assert_eq!(walk([]), None);
    }

    #[test]
    fn diagonals_are_runs_of_any_length() {
        // Of a matrix of ten by ten bytes the upper half's, from the top right to the bottom left: 1, 2, … 10 long.
        let found = walk((0..10).flat_map(|diagonal| (0..=diagonal).map(move |step| diagonal + step * 9))).unwrap();
        // Three are too short; that of one and the two of the next make none of four either.
        assert_eq!((found.inner_bytes, found.outer_bytes), (9, 1));
        assert_eq!((found.runs, found.accesses, found.longest), (7, 49, 10));
        assert_eq!((found.shorter, found.uneven), (0, 1));
    }

    #[test]
    fn a_first_element_twice_is_no_run_of_its_own() {
        // The row above the first one is the first one.
        let column = |column: u64| [0].into_iter().chain(0..9).map(move |row| row * 640 + column * 8);
        let found = walk((0..4).flat_map(column)).unwrap();
        assert_eq!((found.inner_bytes, found.outer_bytes, found.runs, found.accesses), (640, 8, 4, 36));
    }

    #[test]
    fn searches_begin_again_and_end_later() {
        let ends = [5, 5, 9, 10, 17, 30];
        let found = walk(ends.into_iter().flat_map(|end| (0..end).map(|at| 64 + at * 8))).unwrap();
        assert_eq!((found.inner_bytes, found.outer_bytes, found.start, found.longest), (8, 0, 64, 30));
        // By 0, 4, 1, 7, 13.
        assert_eq!((found.accesses, found.runs, found.shorter, found.uneven), (76, 6, 0, 4));
        let found = walk([5, 9, 7].into_iter().flat_map(|end| (0..end).map(|at| at * 8))).unwrap();
        assert_eq!((found.shorter, found.longest), (1, 9));
    }

    #[test]
    fn other_walks_begin_other_passes() {
        let rows = (0..6).flat_map(|row| (0..6).map(move |column| row * 64 + column * 8));
        let columns = (0..7).flat_map(|column| (0..6).map(move |row| row * 64 + column * 8));
        let found = walk(rows.chain(columns)).unwrap();
        assert_eq!((found.inner_bytes, found.outer_bytes, found.accesses, found.passes), (64, 8, 42, 1));
    }
}
