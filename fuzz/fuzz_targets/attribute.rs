//! Any file where a program was mapped from: its symbols, lines, loops, variables and the types of what its code accesses,
//! for samples all over it.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use slimline_attribute::files::{FileBytes, Files};
use slimline_attribute::module::image::Image;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::{PartTables, ProcessTables, Resolver};
use slimline_trace::access::AccessKind;
use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::served::Served;
use slimline_trace::tables::{
    Access, Accesses, Blocks, Mapping, Mappings, Names, Paths, Ranges, Sample, Samples, Stacks, Thread, ThreadRow,
    Threads,
};
use slimline_trace::wire::{BurstEnd, Quality};

const BIAS: u64 = 0x5555_5555_4000;
const PAGE: u64 = 4096;
/// Samples in each executable segment, and accesses to each writable one.
const PLACES: u64 = 24;

struct OneFile(Arc<Vec<u8>>);

impl Files for OneFile {
    fn open(&self, path: &str) -> Option<FileBytes> {
        let file: FileBytes = self.0.clone();
        (path == "/program").then_some(file)
    }
}

#[derive(Default)]
struct Recorded {
    mappings: Mappings,
    samples: Samples,
    accesses: Accesses,
}

impl Recorded {
    /// As the kernel would map the file, were it one.
    fn of(image: &Image<'_>) -> Self {
        let mut recorded = Self::default();
        let segments = image.segments().iter().take(8);
        let mut data = vec![0x7ffd_0000_1000];
        for segment in segments.clone().filter(|segment| segment.writable) {
            let bytes = segment.data.len() as u64;
            data.extend(
                (0..PLACES).map(|place| BIAS.wrapping_add(segment.svma.0).wrapping_add(place * bytes / PLACES)),
            );
        }
        for segment in segments {
            let start = BIAS.wrapping_add(segment.svma.0) & !(PAGE - 1);
            let end = start.wrapping_add(segment.data.len() as u64 + 2 * PAGE) & !(PAGE - 1);
            if start >= end {
                continue;
            }
            let permissions = match (segment.executable, segment.writable) {
                (true, _) => "r-xp",
                (_, true) => "rw-p",
                _ => "r--p",
            };
            recorded.mappings.push(Mapping {
                start: Avma(start),
                end: Avma(end),
                file_offset: FileOffset(segment.file_offset & !(PAGE - 1)),
                permissions: permissions.to_owned(),
                device: "08:01".to_owned(),
                inode: 1,
                path: "/program".to_owned(),
                first_seen_ns: 0,
                last_seen_ns: 1,
            });
            if segment.executable {
                let bytes = segment.data.len() as u64;
                for place in 0..PLACES {
                    let ip = BIAS.wrapping_add(segment.svma.0).wrapping_add(place * bytes / PLACES);
                    recorded.sample(ip, data[place as usize % data.len()]);
                }
            }
        }
        recorded
    }

    fn sample(&mut self, ip: u64, address: u64) {
        let number = self.samples.len() as u64;
        self.samples.push(Sample {
            time_ns: number,
            thread: ThreadRow::new(0),
            cpu_ns: number,
            weight: 1000,
            sampled_ip: Avma(ip),
            ip: Avma(ip),
            address: Avma(address),
            stack_pointer: Avma(0x7ffd_0000_0800),
            access_bytes: 8,
            kind: AccessKind::LOAD,
            quality: Quality::Exact,
            block: None,
            stack: None,
            accesses: 1,
            burst_instructions: 1,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
        });
        self.accesses.push(Access {
            window: number as u32,
            ip: Avma(ip),
            address: Avma(address),
            bytes: 8,
            kind: AccessKind::STORE,
            block: None,
        });
    }
}

fuzz_target!(|input: &[u8]| {
    let Some(image) = Image::parse(input) else { return };
    let recorded = Recorded::of(&image);
    let mut threads = Threads::default();
    threads.push(Thread { tid: 7, name: "main".to_owned(), began_ns: 0, ended_ns: None, cpu_ns: 0, samples: 0 });
    let file = OneFile(Arc::new(input.to_vec()));
    let store = FileStore::new(&file);
    let (stacks, ranges, paths, names) = (Stacks::default(), Ranges::default(), Paths::default(), Names::default());
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(ProcessTables {
        pid: 7,
        stacks: &stacks,
        ranges: &ranges,
        mappings: &recorded.mappings,
        threads: &threads,
        paths: &paths,
        names: &names,
        follows_all: true,
        followed_bytes: 1024,
    });
    let blocks = Blocks::default();
    let part = PartTables { samples: &recorded.samples, accesses: &recorded.accesses, blocks: &blocks };
    resolver.resolve(process, part, |_| ());
    resolver.finish();
});
