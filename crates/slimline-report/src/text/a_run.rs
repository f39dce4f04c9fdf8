//! A small run of three threads, for the tests of the reports that consume accesses.

use slimline_analyze::full_trace::findings::Place;
use slimline_analyze::origins::{Data, DataKind, Names, Origin, Origins, Part, Thread, Whose};
use slimline_simulate::access::{Access, AccessKind, Work};
use slimline_simulate::machine::Machine;

use crate::simulation::AccessTrace;

/// Two cores with 256 bytes each, and a node each.
pub(crate) fn machine() -> Machine {
    let text = r#"
        name = "two nodes"
        cores = 2
        cache = [
            { name = "L1", level = 1, holds = "data", size = 256, line = 64, ways = 2, latency = 2 },
            { name = "L2", level = 2, size = 4096, line = 64, ways = 4, latency = 10, shared_by = "all" },
        ]
        memory = [
            { name = "node0", cores = "0", latency = [100, 300] },
            { name = "node1", cores = "1", latency = [300, 100] },
        ]
    "#;
    Machine::parse(text).unwrap()
}

pub(crate) fn trace() -> AccessTrace {
    AccessTrace {
        file: "run.trace".to_owned(),
        format: "trace",
        command: vec!["./filter".to_owned(), "9".to_owned()],
        threads: Some(3),
        missing: vec!["3 blocks were freed whose allocation was not traced".to_owned()],
        ..AccessTrace::default()
    }
}

/// Keys: thread × 4 + what: the heap's cdf, written and read; counts; something that nobody knows.
pub(crate) fn origins() -> Origins {
    origins_of((0..12).map(|key| (key, Part::default())))
}

/// Of keys that are these, each of a part.
fn origins_of(keys: impl Iterator<Item = (usize, Part)>) -> Origins {
    let mut names = Names::default();
    let [cdf, count, field] = ["CDF", "counts", "worker.done"].map(|name| names.number(name));
    let lines = ["src/filter.c:280", "src/filter.c:290", "src/filter.c:301", ""].map(|line| names.number(line));
    let functions = ["fill", "find", "work", ""].map(|name| names.number(name));
    let place = Place { function: "main".to_owned(), file: "src/filter.c".to_owned(), line: 12, column: 3 };
    let data = vec![
        Data {
            kind: DataKind::Heap,
            name: "CDF".to_owned(),
            type_name: "double".to_owned(),
            allocated_at: place,
            callers: Vec::new(),
            blocks: 1,
            peak_bytes: 1024,
            largest_block_bytes: 1024,
        },
        Data { kind: DataKind::Variable, name: "counts".to_owned(), ..Data::default() },
        Data::default(),
    ];
    let key = |(key, part): (usize, Part)| Origin {
        part,
        data: [0, 0, 1, 2][key % 4],
        variable: [cdf, cdf, count, 0][key % 4],
        field: if key % 4 == 2 { field } else { 0 },
        function: functions[key % 4],
        line: lines[key % 4],
        column: 0,
        called_at: 0,
        called_at_column: 0,
        thread: key as u32 / 4,
        accesses: 1,
        ..Origin::default()
    };
    let threads = (0..3).map(|thread| Thread { process: 0, tid: 4711 + thread }).collect();
    Origins::new(keys.map(key).collect(), data, names, threads)
}

/// The same of [`in_parts`].
pub(crate) fn origins_in_parts() -> Origins {
    let part = |what, number: usize| match what % 4 {
        0 | 1 => Part { whose: Whose::Block, start: number as u64 * 64, bytes: 64 },
        2 => Part { whose: Whose::Variable { process: 0 }, start: 0x20_0000 + number as u64 * 64, bytes: 64 },
        _ => Part::default(),
    };
    origins_of((0..12).flat_map(|key| (0..PARTS).map(move |number| (key, part(key, number)))))
}

/// Parts of each key's data.
const PARTS: usize = 16;

/// These accesses with keys that tell parts of 64 bytes, too.
pub(crate) fn in_parts(mut accesses: Vec<Access>) -> Vec<Access> {
    for access in &mut accesses {
        access.key = access.key * PARTS as u32 + (access.address / 64) as u32 % PARTS as u32;
    }
    accesses
}

/// The first thread fills the table; the others search it, and count in eight bytes each of one line.
pub(crate) fn accesses() -> Vec<Access> {
    let access = |thread, what, kind, address| Access {
        address,
        key: thread * 4 + what,
        bytes: 8,
        thread,
        kind,
        work: Work::USUAL,
    };
    let mut accesses: Vec<Access> = (0..128).map(|n| access(0, 0, AccessKind::Store, 0x10_0000 + n * 8)).collect();
    for round in 0..20 {
        for thread in [1, 2] {
            accesses.extend((0..40 + round).map(|n| access(thread, 1, AccessKind::Load, 0x10_0000 + n * 8)));
            accesses.push(access(thread, 2, AccessKind::Modify, 0x20_0000 + u64::from(thread) * 8));
        }
    }
    accesses.push(access(0, 3, AccessKind::Load, 0x30_0000));
    accesses
}

/// Without styles.
pub(crate) fn unstyled(text: &str) -> String {
    let mut plain = String::new();
    let mut is_inside = false;
    for character in text.chars() {
        match character {
            '\x1b' => is_inside = true,
            'm' if is_inside => is_inside = false,
            _ if is_inside => {}
            _ => plain.push(character),
        }
    }
    assert!(plain.lines().all(|line| line.chars().count() <= super::WIDTH), "{plain}");
    plain
}
