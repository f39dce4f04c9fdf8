//! Tables of accesses that others wrote, as `--columns` says.

use std::collections::HashMap;

use anyhow::Context;
use slimline_analyze::full_trace::attributed::{address_space, own_address};
use slimline_analyze::origins::{Data, DataKind, Names, Origin};
use slimline_collect::{ColumnMap, TableAccess, TableLosses, TracedAccess, read_access_table};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer};

use super::addresses::access;
use super::keys::Keys;
use super::{Accesses, Ended};
use crate::cli::AccessInput;

/// Accesses handed on together.
const BATCH: usize = 1 << 12;

/// Reads all rows: in the order of time where they tell any, in which case all of them are held in memory, else as they stand.
pub(super) fn read(input: &AccessInput, map: &ColumnMap, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    let file = input.trace().display().to_string();
    let (mut places, mut keyed) = (Places::default(), Keyed { keys: Keys::default(), batch: Vec::new(), consumer });
    let mut rows = Vec::new();
    let mut take = |row: &TableAccess<'_>| {
        let place = places.number(row);
        let row = Row { time: row.time, access: row.access, place, process: row.process, thread: row.thread };
        if map.tells_time() { rows.push(row) } else { keyed.take(&row) }
    };
    let losses = read_access_table(input.trace(), map, &mut take).with_context(|| file.clone())?;
    rows.sort_by_key(|row| row.time);
    rows.iter().for_each(|row| keyed.take(row));
    let keys = keyed.finish();
    let origins = keys.origins(places.data, places.names, |place, _| places.origins[place as usize]);
    let threads = map.tells_threads().then_some(origins.threads().len() as u64);
    let trace = AccessTrace { file, format: "table", threads, missing: missing(&losses), ..AccessTrace::default() };
    Ok(Accesses { trace, origins, overlap: None, pids: Vec::new(), ended: Ended(None) })
}

/// What is missing of such a table, in words.
fn missing(losses: &TableLosses) -> Vec<String> {
    let TableLosses { without_address, without_size, without_kind } = *losses;
    [
        (without_address, "rows without an address: they are passed over"),
        (without_size, "sizes: these accesses are taken to be of one byte"),
        (without_kind, "kinds: these accesses are taken for loads"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect()
}

/// A row that has yet to get its key.
struct Row {
    time: u64,
    access: TracedAccess,
    /// Number of its [`Places`].
    place: u64,
    process: u32,
    thread: u32,
}

/// Gives rows their keys and hands them on.
struct Keyed<'c> {
    keys: Keys,
    batch: Vec<Access>,
    consumer: &'c mut dyn Consumer,
}

impl Keyed<'_> {
    fn take(&mut self, row: &Row) {
        let process = self.keys.process(row.process.into());
        let thread = self.keys.thread(process, row.thread);
        let key = self.keys.of(thread, row.access.kind, row.place);
        let address = own_address(row.access.address) | address_space(process);
        self.batch.push(Access { address, key, thread, ..access(&row.access) });
        if self.batch.len() == BATCH {
            self.consumer.take(&self.batch);
            self.batch.clear();
        }
    }

    fn finish(self) -> Keys {
        self.consumer.take(&self.batch);
        self.keys
    }
}

/// Places in the code, with the variable that is accessed there, as rows name them.
struct Places {
    numbers: HashMap<Origin, u64>,
    origins: Vec<Origin>,
    names: Names,
    data: Vec<Data>,
    /// By their names.
    variables: HashMap<u32, u32>,
}

impl Default for Places {
    fn default() -> Self {
        let (names, data) = (Names::default(), vec![Data::default()]);
        Self { numbers: HashMap::new(), origins: Vec::new(), names, data, variables: HashMap::new() }
    }
}

impl Places {
    fn number(&mut self, row: &TableAccess<'_>) -> u64 {
        let names = &mut self.names;
        let (variable, function) = (names.number(row.variable), names.number(row.function));
        // Code without a line is told by its address.
        let line = match (row.file, row.line, row.instruction) {
            ("", _, None) => 0,
            ("", _, Some(instruction)) => names.number(&format!("{instruction:#x}")),
            (file, 0, _) => names.number(file),
            (file, line, _) => names.number(&format!("{file}:{line}")),
        };
        let data = match variable {
            0 => 0,
            _ => *self.variables.entry(variable).or_insert_with(|| {
                let name = row.variable.to_owned();
                self.data.push(Data { kind: DataKind::Variable, name, ..Data::default() });
                self.data.len() as u32 - 1
            }),
        };
        let origin = Origin { data, variable, function, line, ..Origin::default() };
        let next = self.origins.len() as u64;
        let number = *self.numbers.entry(origin).or_insert(next);
        if number == next {
            self.origins.push(origin);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use slimline_simulate::access::AccessKind;

    #[derive(Default)]
    struct Taken(Vec<Access>);

    impl Consumer for Taken {
        fn take(&mut self, accesses: &[Access]) {
            self.0.extend_from_slice(accesses);
        }
    }

    fn read_text(text: &str, columns: &str) -> (Vec<Access>, Accesses) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("accesses.csv");
        fs::write(&file, text).unwrap();
        let mut taken = Taken::default();
        let read = read(&AccessInput::written(&file, false), &columns.parse().unwrap(), &mut taken).unwrap();
        (taken.0, read)
    }

    const TABLE: &str = "\
when,pid,tid,what,at,wide,data,where,line
30,7,2,W,0x1000,8,grid,b.c,9
10,7,1,R,0x1000,8,grid,a.c,3
20,8,1,M,0x1000,4,,a.c,3
40,7,2,W,0x1008,8,grid,b.c,9
";

    #[test]
    fn rows_come_in_the_order_of_time() {
        let columns =
            "time=when,process=pid,thread=tid,kind=what,address=at,size=wide,variable=data,file=where,line=line";
        let (accesses, read) = read_text(TABLE, columns);
        let told: Vec<_> = accesses.iter().map(|it| (it.address, it.bytes, it.kind, it.thread)).collect();
        let expected = [
            (0x1000, 8, AccessKind::Load, 0),
            (0x1000 | 1 << 48, 4, AccessKind::Modify, 1),
            (0x1000, 8, AccessKind::Store, 2),
            (0x1008, 8, AccessKind::Store, 2),
        ];
        assert_eq!(told, expected);
        let threads: Vec<_> = read.origins.threads().iter().map(|thread| (thread.process, thread.tid)).collect();
        assert_eq!((threads, read.trace.threads), (vec![(0, 1), (1, 1), (0, 2)], Some(3)));
        let of = |access: usize| {
            let origin = read.origins.of(accesses[access].key);
            let data = &read.origins.data()[origin.data as usize];
            (data.name.as_str(), read.origins.name(origin.line), origin.accesses)
        };
        assert_eq!([of(0), of(1), of(2)], [("grid", "a.c:3", 1), ("", "a.c:3", 1), ("grid", "b.c:9", 2)]);
        assert!(read.trace.missing.is_empty());
    }

    #[test]
    fn what_no_column_tells_is_missing() {
        let (accesses, read) = read_text("a,pc\n16,0x40\n?,0x41\n17,\n", "address=a,ip=pc");
        let told: Vec<_> = accesses.iter().map(|it| (it.address, it.bytes, it.kind, it.thread)).collect();
        assert_eq!(told, [(16, 1, AccessKind::Load, 0), (17, 1, AccessKind::Load, 0)]);
        let lines = [0, 1].map(|access| read.origins.name(read.origins.of(accesses[access].key).line));
        assert_eq!((lines, read.trace.threads), (["0x40", ""], None));
        let missing = [
            "1 rows without an address: they are passed over",
            "2 sizes: these accesses are taken to be of one byte",
            "2 kinds: these accesses are taken for loads",
        ];
        assert_eq!(read.trace.missing, missing);
    }
}
