//! Sessions made by hand over programs compiled here.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use slimline_attribute::module::Module;
use slimline_attribute::resolver::{PartTables, ProcessTables};
use slimline_trace::access::AccessKind;
use slimline_trace::address::{Avma, FileOffset, Svma};
use slimline_trace::served::Served;
use slimline_trace::tables::{
    Access, Accesses, BlockRow, Blocks, Mapping, Mappings, Names, Paths, Ranges, Sample, Samples, Stacks, Thread,
    ThreadRow, Threads, Within,
};
use slimline_trace::wire::{BurstEnd, Quality};

/// Where the test says that the program was loaded.
pub(crate) const BIAS: u64 = 0x5555_5555_4000;

/// A process's tables, filled by hand.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) stacks: Stacks,
    pub(crate) ranges: Ranges,
    pub(crate) mappings: Mappings,
    pub(crate) threads: Threads,
    pub(crate) paths: Paths,
    pub(crate) names: Names,
    pub(crate) samples: Samples,
    pub(crate) accesses: Accesses,
    pub(crate) blocks: Blocks,
}

#[allow(dead_code, reason = "each test file uses its own part")]
impl Recorded {
    pub(crate) fn new(program: &str) -> Self {
        let mut recorded = Self::default();
        recorded.threads.push(Thread {
            tid: 7,
            name: "main".to_owned(),
            began_ns: 0,
            ended_ns: None,
            cpu_ns: 0,
            samples: 0,
        });
        recorded.map(0x7ffd_0000_0000, 0x7ffd_0010_0000, 0, "rw-p", "[stack]");
        // As the kernel maps the segments of a position-independent executable of GNU ld.
        let bytes = std::fs::read(program).unwrap();
        let image = slimline_attribute::module::image::Image::parse(&bytes).unwrap();
        for segment in image.segments() {
            let page = |address: u64| address & !0xfff;
            let permissions = match (segment.executable, segment.writable) {
                (true, _) => "r-xp",
                (_, true) => "rw-p",
                _ => "r--p",
            };
            let start = page(segment.svma.0 + BIAS);
            let end = page(segment.svma.0 + BIAS + segment.data.len() as u64 + 0xfff);
            recorded.map(start, end, page(segment.file_offset), permissions, program);
        }
        recorded
    }

    pub(crate) fn map(&mut self, start: u64, end: u64, offset: u64, permissions: &str, path: &str) {
        self.mappings.push(Mapping {
            start: Avma(start),
            end: Avma(end),
            file_offset: FileOffset(offset),
            permissions: permissions.to_owned(),
            device: "08:01".to_owned(),
            inode: 1,
            path: path.to_owned(),
            first_seen_ns: 0,
            last_seen_ns: 0,
        });
    }

    pub(crate) fn sample(&mut self, time_ns: u64, ip: u64, address: u64, block: Option<BlockRow>, accesses: u32) {
        self.samples.push(Sample {
            time_ns,
            thread: ThreadRow::new(0),
            cpu_ns: time_ns / 2,
            weight: 1000,
            sampled_ip: Avma(ip + 4),
            ip: Avma(ip),
            address: Avma(address),
            stack_pointer: Avma(0x7ffd_000f_0000),
            access_bytes: 8,
            kind: AccessKind::LOAD,
            quality: Quality::Exact,
            block,
            stack: None,
            accesses,
            burst_instructions: 0,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: Within::default(),
        });
    }

    pub(crate) fn access(&mut self, ip: u64, address: u64, block: Option<BlockRow>) {
        self.accesses.push(Access {
            window: 0,
            ip: Avma(ip),
            address: Avma(address),
            bytes: 8,
            kind: AccessKind::STORE,
            block,
        });
    }

    pub(crate) fn accesses_of(&mut self, ip: u64, address: u64, count: u32) {
        for access in 0..count {
            self.access(ip, address + 8 * u64::from(access), None);
        }
    }

    pub(crate) fn process(&self, pid: u32) -> ProcessTables<'_> {
        let Self { stacks, ranges, mappings, threads, paths, names, .. } = self;
        let (follows_all, followed_bytes, forked_ns) = (false, 1024, 0);
        ProcessTables { pid, stacks, ranges, mappings, threads, paths, names, follows_all, followed_bytes, forked_ns }
    }

    pub(crate) fn part(&self) -> PartTables<'_> {
        PartTables { samples: &self.samples, accesses: &self.accesses, blocks: &self.blocks }
    }
}

/// Run-time address of the first instruction of `function` whose innermost position is on `line`.
pub(crate) fn code_at(module: &Module<'_>, function: &str, line: u32) -> u64 {
    let start = (0..1 << 20).map(Svma).find(|&svma| {
        module.symbols().function_at(svma).is_some_and(|found| found.name == function && found.start == svma)
    });
    let start = start.unwrap_or_else(|| panic!("no function {function}")).0;
    (start..start + 0x400)
        .find(|&svma| module.frames(Svma(svma))[0].position.as_ref().is_some_and(|position| position.line == line))
        .unwrap_or_else(|| panic!("{function} has no line {line}"))
        + BIAS
}

/// Run-time return address of the first call of `function` whose innermost position is on `line`.
pub(crate) fn after_call(module: &Module<'_>, function: &str, line: u32) -> Avma {
    let first = after_calls(module, function, line).first().copied();
    first.unwrap_or_else(|| panic!("{function} makes no call on line {line}"))
}

/// The same of all its calls there.
pub(crate) fn after_calls(module: &Module<'_>, function: &str, line: u32) -> Vec<Avma> {
    let start = Svma(code_at(module, function, line) - BIAS);
    let (begin, end) = module.function_bounds(start).expect("has a symbol");
    let code = &module.image().expect("an ELF file").bytes_from(begin)[..(end.0 - begin.0) as usize];
    let decoder = Decoder::with_ip(64, code, begin.0, DecoderOptions::NONE);
    let is_it = |instruction: &Instruction| {
        let frames = module.frames(Svma(instruction.ip()));
        instruction.flow_control() == FlowControl::Call && frames[0].position.as_ref().is_some_and(|at| at.line == line)
    };
    decoder.into_iter().filter(is_it).map(|call| Avma(call.next_ip() + BIAS)).collect()
}
