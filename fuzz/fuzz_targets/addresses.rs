//! Any file as a trace of lackey's, in Dinero's format or of drmemtrace, or as a table of accesses with a map of its columns in the first line: its
//! accesses, with whatever addresses and sizes, go through everything that takes accesses; or it is told in one line why not.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use slimline_collect::{
    AddressFormat, AddressInput, ColumnMap, TracedAccess, TracedKind, open_addresses, read_access_table, read_addresses,
    read_drmemtrace,
};
use slimline_simulate::access::{Access, AccessKind, Consumer};
use slimline_simulate::locality::Locality;
use slimline_simulate::machine::Machine;
use slimline_simulate::reuse::SampledKeys;
use slimline_simulate::sharing::{LineFinder, SharedLines};
use slimline_simulate::simulation::{Options, Simulation};

fuzz_target!(|input: &[u8]| {
    let Some((&how, text)) = input.split_first() else { return };
    let mut accesses = Vec::new();
    let mut take = |traced: &[TracedAccess]| {
        let access = |(number, traced): (usize, &TracedAccess)| Access {
            address: traced.address,
            key: number as u32 % 5,
            bytes: traced.bytes,
            thread: number as u32 % 3,
            kind: match traced.kind {
                TracedKind::Load => AccessKind::Load,
                TracedKind::Store => AccessKind::Store,
                TracedKind::Modify => AccessKind::Modify,
                TracedKind::Fetch => AccessKind::Fetch,
            },
        };
        accesses.extend(traced.iter().enumerate().map(access));
    };
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let written = |name: &str, content: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, content).unwrap();
        file
    };
    let done = match how % 8 {
        how @ 0..7 => {
            let format = [None, Some(AddressFormat::Lackey), Some(AddressFormat::Din)][usize::from(how % 3)];
            let file = written("a.trace", text);
            let opened = open_addresses(if how < 3 { &file } else { directory.path() });
            let traced = |accesses: &[(TracedAccess, u64)]| accesses.iter().map(|(access, _)| *access).collect::<Vec<_>>();
            opened.map_err(|error| error.to_string()).and_then(|input| match input {
                AddressInput::Text(text) => {
                    read_addresses(text, format, &mut take).map(|_| ()).map_err(|error| error.to_string())
                }
                AddressInput::Drmemtrace(trace) => read_drmemtrace(trace, &mut |part| take(&traced(part.accesses)))
                    .map(|_| ())
                    .map_err(|error| error.to_string()),
            })
        }
        _ => {
            let Some(end) = text.iter().position(|&byte| byte == b'\n') else { return };
            let Ok(columns) = String::from_utf8_lossy(&text[..end]).parse::<ColumnMap>() else { return };
            let table = written("table", &text[end + 1..]);
            let done = read_access_table(&table, &columns, &mut |row| take(&[row.access]));
            done.map(|_| ()).map_err(|error| error.to_string())
        }
    };
    if let Err(error) = done {
        return assert!(!error.contains('\n'), "{error}");
    }
    let machine = Machine::named("dinero-i5").unwrap();
    let mut simulation = Simulation::new(&machine, &Options { classes: true, ..Options::default() }).unwrap();
    simulation.take(&accesses);
    assert!(
        simulation.finish().total().accesses() > 0 || accesses.iter().all(|access| access.kind == AccessKind::Fetch)
    );
    let mut locality = Locality::new(&machine).unwrap();
    locality.take(&accesses);
    let _ = locality.finish();
    let mut sampled = SampledKeys::new(&machine, 64, 1.0).unwrap();
    sampled.take(&accesses);
    let mut finder = LineFinder::new(64);
    finder.take(&accesses);
    let mut two = finder.finish(&machine, 3).unwrap();
    two.take(&accesses);
    let mut one = SharedLines::in_one_pass(&machine).unwrap();
    one.take(&accesses);
    assert_eq!((one.lines().len(), one.only_loaded()), (two.lines().len(), two.only_loaded()));
});
