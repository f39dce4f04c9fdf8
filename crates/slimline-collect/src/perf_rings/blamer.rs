//! What a sample from outside tells: the blamed access, and those that follow from its registers alone.
//!
//! The program runs on while its sample is looked at, so nothing but its code is read of it. What a burst loads is unknown,
//! and it ends where an address or a branch depends on that. Until then every access is one that the program made: walks
//! over arrays are seen for the whole length of a burst, chains of pointers not at all.

use std::collections::HashMap;

use slimline_emulate as emulate;
use slimline_emulate::{Budget, CodeAround, Emulator, Plan, State, code_window, plan};
use slimline_trace::access::AccessKind;
use slimline_trace::address::Avma;
use slimline_trace::tables::Access;
use slimline_trace::wire::{BurstEnd, MAX_BURST_ACCESSES, Quality};

use super::code::CodeMemory;
use crate::clock::thread_cpu_ns;

/// Without a burst, the instructions that are looked at for the next instance of a blamed one whose address is lost.
const NEXT_INSTANCE_WITHIN: u32 = 64;
/// Plans kept for each process; 650 bytes each. Beyond, all are forgotten.
const MOST_PLANS: usize = 8 << 10;
/// What bursts may cost in advance.
const ADVANCE_NS: i64 = 1_000_000;

/// Which instructions the samples of one process are blamed on, by sampled instruction and skid; `None` where there is no
/// code.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_ip: HashMap<(u64, u32), Option<Plan>>,
    /// That of the mappings they were made under.
    generation: u64,
}

impl Plans {
    fn of(&mut self, ip: u64, skid: u32, generation: u64, code: &mut CodeMemory<'_>) -> Option<Plan> {
        if self.generation != generation || self.by_ip.len() >= MOST_PLANS {
            self.by_ip.clear();
            self.generation = generation;
        }
        *self.by_ip.entry((ip, skid)).or_insert_with(|| {
            let (start, end, is_whole) = code_window(ip, None);
            let (start, bytes) = code.around(ip, start, end);
            (!bytes.is_empty()).then(|| plan(CodeAround { bytes: &bytes, start, is_whole }, ip, skid.min(1) as u8))
        })
    }
}

/// What was found out about one sample. Its accesses are in [`Blamer::accesses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blamed {
    pub(crate) ip: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u16,
    pub(crate) kind: AccessKind,
    pub(crate) quality: Quality,
    pub(crate) instructions: u32,
    pub(crate) burst_end: BurstEnd,
}

impl Blamed {
    const fn nothing(quality: Quality) -> Self {
        let (kind, burst_end) = (AccessKind::NONE, BurstEnd::NotStarted);
        Self { ip: 0, address: 0, bytes: 0, kind, quality, instructions: 0, burst_end }
    }
}

/// A memory instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) ip: u64,
    pub(crate) bytes: u16,
    pub(crate) kind: AccessKind,
}

/// Blames samples and runs their bursts.
pub(crate) struct Blamer {
    skid: u32,
    burst_instructions: u32,
    budget: Budget<ADVANCE_NS>,
    budget_ppm: u32,
    emulator: Box<Emulator>,
    accesses: Vec<emulate::Access>,
}

impl Blamer {
    /// With this skid, and bursts of so many instructions within a budget in millionths of the time.
    pub(crate) fn new(skid: u32, burst_instructions: u32, budget_ppm: u32) -> Self {
        emulate::prepare();
        let (emulator, accesses) = (Box::new(Emulator::new()), Vec::new());
        Self { skid, burst_instructions, budget: Budget::default(), budget_ppm, emulator, accesses }
    }

    /// What a sample with these registers, which stands for `weight_ns`, is blamed on.
    pub(crate) fn blame(
        &mut self,
        mut state: State,
        weight_ns: u64,
        plans: &mut Plans,
        generation: u64,
        code: &mut CodeMemory<'_>,
    ) -> Blamed {
        self.accesses.clear();
        let mut blamed = match plans.of(state.rip, self.skid, generation, code) {
            None => return Blamed::nothing(Quality::NoCode),
            Some(plan) => located(&plan, &state, &mut self.emulator, code),
        };
        let is_lost = blamed.quality == Quality::Lost;
        let has_burst = self.budget.earn(weight_ns, self.budget_ppm) && self.burst_instructions > 0;
        let limit = match (has_burst, is_lost) {
            (true, _) => self.burst_instructions,
            (false, true) => self.burst_instructions.min(NEXT_INSTANCE_WITHIN),
            (false, false) => return blamed,
        };
        let began_ns = thread_cpu_ns();
        let (instructions, end) = self.burst(&mut state, limit, code);
        if is_lost && let Some(next) = self.accesses.iter().find(|access| access.ip == blamed.ip) {
            (blamed.address, blamed.quality) = (next.address, Quality::NextInstance);
        }
        self.budget.spend(thread_cpu_ns().saturating_sub(began_ns));
        if has_burst {
            (blamed.instructions, blamed.burst_end) = (instructions, end);
        } else {
            self.accesses.clear();
        }
        blamed
    }

    /// The memory instruction that a sample of the hardware's is of, and the width of its access: the sampled one where that
    /// is exact, else the one before. `None` where the code is not known, or is another's.
    pub(crate) fn instruction(
        &mut self,
        ip: u64,
        is_exact: bool,
        plans: &mut Plans,
        generation: u64,
        code: &mut CodeMemory<'_>,
    ) -> Option<Instruction> {
        self.accesses.clear();
        let plan = plans.of(ip, u32::from(!is_exact), generation, code)?;
        let (ip, bytes, kind) = plan.instruction().filter(|&(blamed, ..)| !is_exact || blamed == ip)?;
        Some(Instruction { ip, bytes, kind: kind_of(kind) })
    }

    /// Of a sample that nothing can be said of, and why.
    pub(crate) fn nothing(&mut self, quality: Quality) -> Blamed {
        self.accesses.clear();
        Blamed::nothing(quality)
    }

    fn burst(&mut self, state: &mut State, limit: u32, code: &mut CodeMemory<'_>) -> (u32, BurstEnd) {
        let Self { emulator, accesses, .. } = self;
        emulator.begin();
        for instructions in 0..limit {
            let (before, from) = (accesses.len(), state.rip);
            if let Err(end) = emulator.step(state, code, &mut |access| accesses.push(access)) {
                return (instructions, burst_end(end));
            }
            if accesses.len() > MAX_BURST_ACCESSES {
                // Half an instruction's accesses are none.
                accesses.truncate(before);
                return (instructions, BurstEnd::Full);
            }
            if !CodeMemory::are_neighbours(from, state.rip) && code.is_agent(state.rip) {
                return (instructions + 1, BurstEnd::Agent);
            }
        }
        (limit, BurstEnd::Limit)
    }

    /// The accesses of the last sample's burst, as rows of this window.
    pub(crate) fn accesses(&self, window: u32) -> impl Iterator<Item = Access> + '_ {
        self.accesses.iter().map(move |access| {
            let kind = kind_of(access.kind);
            Access {
                window,
                ip: Avma(access.ip),
                address: Avma(access.address),
                bytes: access.bytes.min(256),
                kind: if access.atomic { kind.atomic() } else { kind },
                block: None,
            }
        })
    }
}

fn located(plan: &Plan, state: &State, emulator: &mut Emulator, code: &mut CodeMemory<'_>) -> Blamed {
    let found = plan.locate(state, emulator, code);
    let quality = match found.quality {
        emulate::Quality::Exact => Quality::Exact,
        emulate::Quality::Inverted => Quality::Inverted,
        emulate::Quality::Lost => Quality::Lost,
        emulate::Quality::NoMemoryInstruction => Quality::NoMemory,
        emulate::Quality::Ambiguous => Quality::Ambiguous,
    };
    let Some(ip) = found.ip else { return Blamed::nothing(quality) };
    let (address, bytes, kind) = (found.address.unwrap_or(0), found.bytes, kind_of(found.kind));
    Blamed { ip, address, bytes, kind, ..Blamed::nothing(quality) }
}

fn kind_of(kind: emulate::AccessKind) -> AccessKind {
    match kind {
        emulate::AccessKind::Load => AccessKind::LOAD,
        emulate::AccessKind::Store => AccessKind::STORE,
        emulate::AccessKind::Update => AccessKind::LOAD_STORE,
    }
}

/// From outside it is not known what memory there is, so what can't be read is unknown.
fn burst_end(end: emulate::End) -> BurstEnd {
    use emulate::End;
    match end {
        End::Limit => BurstEnd::Limit,
        End::Syscall => BurstEnd::Syscall,
        End::UnknownAddress | End::UnknownCondition | End::UnknownTarget | End::Fault => BurstEnd::Unknown,
        End::Exception => BurstEnd::Fault,
        End::OverlayFull => BurstEnd::Full,
        End::Undecodable | End::FarBranch | End::Unsupported(_) => BurstEnd::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use slimline_emulate::{RAX, RDI};
    use slimline_trace::address::FileOffset;
    use slimline_trace::tables::Mapping;

    use super::super::code::{CodeFiles, KnownFiles, Owner};
    use super::*;
    use crate::live_mappings::LiveMappings;

    const BASE: u64 = 0x40_0000;
    /// The agent's code follows.
    const AGENT: u64 = BASE + 0x1000;

    /// What a sample at `BASE + ip` of this code is blamed on, and the accesses of its burst.
    fn blame(blamer: &mut Blamer, code: &[u8], ip: u64, registers: &[(usize, u64)]) -> (Blamed, Vec<(u64, u64)>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), code).unwrap();
        let mut mappings = LiveMappings::default();
        let code_file = Mapping {
            start: Avma(BASE),
            end: Avma(AGENT),
            file_offset: FileOffset(0),
            permissions: "r-xp".to_owned(),
            device: String::new(),
            inode: fs::metadata(file.path()).unwrap().ino(),
            path: file.path().to_str().unwrap().to_owned(),
            first_seen_ns: 1,
            last_seen_ns: 1,
        };
        let path = "/run/libslimline_agent.so (deleted)".to_owned();
        mappings.map(Mapping { start: Avma(AGENT), end: Avma(AGENT + 0x1000), path, ..code_file.clone() });
        mappings.map(code_file);
        let (mut files, mut known, mut plans) = (CodeFiles::default(), KnownFiles::new(), Plans::default());
        let mut memory = files.of(Owner { pid: u32::MAX, mapped_by_s: 0 }, &mappings, &mut known);
        let mut state = State::unknown(BASE + ip);
        state.set_flags(0);
        for &(register, value) in registers {
            state.set_gpr(register, Some(value));
        }
        let blamed = blamer.blame(state, 1_000_000, &mut plans, mappings.generation(), &mut memory);
        let accesses = blamer.accesses(0).map(|access| (access.ip.0 - BASE, access.address.0)).collect();
        (blamed, accesses)
    }

    // 0: mov rax, [rdi]; 3: add rdi, 8; 7: jmp 0
    const WALK: [u8; 9] = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0xeb, 0xf7];
    // 0: mov rdi, [rdi]; 3: test rdi, rdi; 6: jne 0; 8: ret
    const CHASE: [u8; 9] = [0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8, 0xc3];

    #[test]
    fn a_walk_is_seen_for_the_whole_burst() {
        let mut blamer = Blamer::new(1, 9, 1_000_000);
        let (blamed, accesses) = blame(&mut blamer, &WALK, 3, &[(RDI, 0x8000)]);
        assert_eq!((blamed.ip, blamed.address, blamed.quality), (BASE, 0x8000, Quality::Exact));
        assert_eq!((blamed.instructions, blamed.burst_end), (9, BurstEnd::Limit));
        assert_eq!(accesses, [(0, 0x8008), (0, 0x8010), (0, 0x8018)], "of add jmp, mov add jmp twice, mov");
    }

    #[test]
    fn a_burst_ends_where_the_agent_begins() {
        // 0: mov rax, [rdi]; 3: jmp AGENT
        let code = [0x48, 0x8b, 0x07, 0xe9, 0xf8, 0x0f, 0x00, 0x00];
        let mut blamer = Blamer::new(1, 9, 1_000_000);
        let (blamed, accesses) = blame(&mut blamer, &code, 3, &[(RDI, 0x8000)]);
        assert_eq!((blamed.instructions, blamed.burst_end, accesses), (1, BurstEnd::Agent, vec![]));
    }

    #[test]
    fn a_chain_is_not_guessed() {
        let mut blamer = Blamer::new(1, 300, 1_000_000);
        let (blamed, accesses) = blame(&mut blamer, &CHASE, 3, &[(RDI, 0x8000)]);
        assert_eq!((blamed.ip, blamed.quality), (BASE, Quality::NextInstance), "its next execution is at [rdi]");
        assert_eq!(blamed.address, 0x8000);
        // test, jne (taken), mov; then it depends on what was loaded.
        assert_eq!((accesses, blamed.instructions, blamed.burst_end), (vec![(0, 0x8000)], 4, BurstEnd::Unknown));
    }

    #[test]
    fn code_in_no_file_is_told() {
        let mut blamer = Blamer::new(1, 9, 1_000_000);
        let (blamed, accesses) = blame(&mut blamer, &WALK, 0x5000, &[(RAX, 1)]);
        assert_eq!((blamed, accesses), (Blamed::nothing(Quality::NoCode), vec![]));
    }

    #[test]
    fn without_a_budget_one_sample_in_sixteen_has_a_burst() {
        let mut blamer = Blamer::new(1, 9, 1);
        blamer.budget.spend(ADVANCE_NS as u64);
        let bursts: Vec<usize> = (0..64)
            .filter(|_| {
                let (blamed, accesses) = blame(&mut blamer, &WALK, 3, &[(RDI, 0x8000)]);
                assert_eq!(blamed.address, 0x8000, "blamed all the same");
                assert_eq!(accesses.is_empty(), blamed.burst_end == BurstEnd::NotStarted);
                blamer.budget.spend(ADVANCE_NS as u64);
                blamed.instructions > 0
            })
            .collect();
        assert_eq!(bursts.len(), 4, "{bursts:?}");
    }
}
