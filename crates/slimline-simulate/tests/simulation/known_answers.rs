//! The table of the csapp cache lab: hits, misses and evictions of published traces.

use std::path::Path;

use slimline_simulate::access::{Access, AccessKind};
use slimline_simulate::machine::{Cache, Counting, Holds, Inclusion, Machine, Memory, Prefetch, Replacement, Sharing};
use slimline_simulate::simulation::Options;

use crate::{access, outcome};

/// A cache of 2^s sets of E lines of 2^b bytes.
fn machine(s: u32, ways: u32, b: u32) -> Machine {
    Machine {
        name: format!("{s},{ways},{b}"),
        cores: 1,
        caches: vec![Cache {
            name: "cache".to_owned(),
            level: 1,
            holds: Holds::Data,
            bytes: u64::from(ways) << (s + b),
            line_bytes: 1 << b,
            ways,
            latency_cycles: 1,
            sharing: Sharing::groups(1, 1),
            inclusion: Inclusion::Neither,
            replacement: Replacement::Lru,
            prefetch: Prefetch::None,
        }],
        tlbs: Vec::new(),
        page_walk_cycles: 0,
        memories: vec![Memory { name: "memory".to_owned(), bytes: None, cores: vec![0], latency_cycles: vec![100] }],
        transfer_cycles: None,
        counting: Counting::Lines,
    }
}

/// ` L 10,1` and the like. There an access touches the line of its first byte only.
fn trace(text: &str) -> Vec<Access> {
    let parse = |line: &str| {
        let (kind, place) = line.trim().split_once(' ')?;
        let kind = match kind {
            "L" => AccessKind::Load,
            "S" => AccessKind::Store,
            "M" => AccessKind::Modify,
            _ => AccessKind::Fetch,
        };
        let address = u64::from_str_radix(place.trim().split_once(',')?.0, 16).ok()?;
        Some(access(0, kind, address, 1))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| parse(line).unwrap()).collect()
}

fn check(text: &str, (s, ways, b): (u32, u32, u32), expected: (u64, u64, u64)) {
    let outcome = outcome(&machine(s, ways, b), &Options::default(), &trace(text));
    let total = outcome.total();
    let misses = total.misses[0].total();
    let found = (total.loads + total.stores - misses, misses, outcome.events()[0].evictions);
    assert_eq!(found, expected, "{s},{ways},{b}");
}

const YI2: &str = " L 0,1\n L 1,1\n L 2,1\n L 3,1\n S 4,1\n L 5,1\n S 6,1\n L 7,1\n S 8,1\n L 9,1\n S a,1\n L b,1\n S c,1\n L d,1\n S e,1\n M f,1\n";
const YI: &str = " L 10,1\n M 20,1\n L 22,1\n S 18,1\n L 110,1\n L 210,1\n M 12,1\n";
const DAVE: &str = " L 10,4\n S 18,4\n L 20,4\n S 28,4\n S 50,4\n";

#[test]
fn the_short_traces() {
    check(YI2, (1, 1, 1), (9, 8, 6));
    check(YI, (4, 2, 4), (4, 5, 2));
    check(DAVE, (2, 1, 4), (2, 3, 1));
}

/// The traces are of the cache lab's handout, which is not ours to pass on: `SLIMLINE_CSAPP` names a directory with
/// `trans.trace` and `long.trace`. Without it, only the short ones above are checked, and the log says so.
#[test]
fn the_long_traces() {
    let Some(directory) = std::env::var_os("SLIMLINE_CSAPP") else {
        return skipped("the_long_traces: SLIMLINE_CSAPP names no directory with the cache lab's traces");
    };
    let read = |name| std::fs::read_to_string(Path::new(&directory).join(name)).unwrap();
    let trans = read("trans.trace");
    check(&trans, (2, 1, 3), (167, 71, 67));
    check(&trans, (2, 2, 3), (201, 37, 29));
    check(&trans, (2, 4, 3), (212, 26, 10));
    check(&trans, (5, 1, 5), (231, 7, 0));
    check(&read("long.trace"), (5, 1, 5), (265_189, 21_775, 21_743));
}

/// Says that there was nothing to test: see `cargo xtask test`.
fn skipped(why: &str) {
    use std::io::Write;
    eprintln!("skipped: {why}");
    if let Some(list) = std::env::var_os("SLIMLINE_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).create(true).open(list).unwrap();
        writeln!(list, "{why}").unwrap();
    }
}
