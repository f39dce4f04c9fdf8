//! On which NUMA nodes a traced program's pages and threads are: asked while it runs, where there are several nodes.
//!
//! A page is asked for when a chunk that touches it is read. That is soon after: the program waits for us rather than have more
//! than 32 chunks unread. What is asked for again is bounded: a page that is touched again later
//! than [`FIRST_PAUSE_MS`] after the last time, which doubles each time that nothing has changed; so of a page that stays are
//! as many questions as the run's time has doublings. Chunks are asked for whole, a system call each. Kept are 16 bytes a page.

use std::collections::HashMap;
use std::io;

use rustc_hash::FxHashMap;
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::pages::{ChunkHomes, HomesInfo, PAGE_BYTES};
use slimline_trace::stream::recording::ChunkPages;

use crate::clock::monotonic_ns;
use crate::move_pages::nodes_of_pages;
use crate::topology::{TopologyNode, topology};
use crate::tracing::Process;
use crate::{proc_stat, proc_text};

/// How long a page is taken to be where it was.
const FIRST_PAUSE_MS: u32 = 500;
/// Pages of one question.
const MOST_PAGES: usize = 1 << 14;

/// What is asked of a kernel.
pub trait NumaKernel {
    /// Of each page of a process, by its address, the number of its node, or a negative error number.
    ///
    /// # Errors
    /// The process is gone, or we may not ask.
    fn nodes_of_pages(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>>;

    /// The CPU that a thread ran on last.
    fn cpu_of(&mut self, pid: u32, tid: u32) -> Option<u32>;

    /// Milliseconds since any moment.
    fn now_ms(&mut self) -> u32;
}

/// The kernel that we run on.
struct ThisKernel;

impl NumaKernel for ThisKernel {
    fn nodes_of_pages(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
        nodes_of_pages(pid, addresses)
    }

    fn cpu_of(&mut self, pid: u32, tid: u32) -> Option<u32> {
        cpu_in(&proc_text::read(&format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    fn now_ms(&mut self) -> u32 {
        (monotonic_ns() / 1_000_000) as u32
    }
}

/// The CPU that a thread ran on last.
fn cpu_in(line: &str) -> Option<u32> {
    const CPU: usize = 39;
    proc_stat::number(line, CPU)
}

/// Asks for homes of pages, and keeps what was told.
pub struct PageHomes {
    kernel: Box<dyn NumaKernel>,
    /// By CPU.
    node_of_cpu: HashMap<u32, u32>,
    processes: HashMap<u32, OfProcess>,
    /// By stream.
    thread_nodes: HashMap<(u32, u32), u32>,
    told: HomesInfo,
}

impl std::fmt::Debug for PageHomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageHomes").field("told", &self.told).finish_non_exhaustive()
    }
}

/// Why no home is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untold {
    NotPresent,
    Ended,
    Refused,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug)]
struct Page {
    home: Result<u16, Untold>,
    /// As a power of two, in units of [`FIRST_PAUSE_MS`].
    pause: u8,
    asked_ms: u32,
}

#[derive(Debug, Default)]
struct OfProcess {
    /// Our number for it; none where we have none.
    pid: Option<u32>,
    pages: FxHashMap<u64, Page>,
}

impl PageHomes {
    /// Of the kernel that we run on; none where the machine has one node, or the kernel tells of none.
    pub fn of_this_machine() -> Option<Self> {
        let nodes = topology().nodes;
        (nodes.len() > 1).then(|| Self::of(&nodes, Box::new(ThisKernel)))
    }

    /// Of any kernel, on a machine with these nodes.
    pub fn of(nodes: &[TopologyNode], kernel: Box<dyn NumaKernel>) -> Self {
        let cpus = nodes.iter().flat_map(|node| node.cpus.iter().map(|cpu| (*cpu, node.number)));
        Self {
            kernel,
            node_of_cpu: cpus.collect(),
            processes: HashMap::new(),
            thread_nodes: HashMap::new(),
            told: HomesInfo { nodes: nodes.iter().map(|node| node.number).collect(), ..HomesInfo::default() },
        }
    }

    /// A process begins.
    pub fn begin(&mut self, process: &Process) {
        let pid = process.is_here.then_some(process.pid);
        self.processes.insert(process.number, OfProcess { pid, pages: FxHashMap::default() });
    }

    /// What came of asking so far.
    pub fn told(&self) -> HomesInfo {
        let mut told = self.told.clone();
        for page in self.processes.values().flat_map(|process| process.pages.values()) {
            match page.home {
                Ok(_) => told.pages += 1,
                Err(Untold::NotPresent) => told.not_present += 1,
                Err(Untold::Ended) => told.ended += 1,
                Err(Untold::Refused) => told.refused += 1,
            }
        }
        told
    }

    /// Asks where a chunk's thread is, and those of its pages that are not known or may have moved. None where nothing new was
    /// told.
    pub fn ask(&mut self, chunk: &ChunkPages) -> Option<ChunkHomes> {
        let &ChunkPages { process, stream, tid, sequence, .. } = chunk;
        // No thread wrote it, and nothing is accessed in it.
        if !is_a_thread_s(stream) {
            return None;
        }
        let of_process = self.processes.entry(process).or_default();
        let cpu = of_process.pid.and_then(|pid| self.kernel.cpu_of(pid, tid));
        let thread_node = cpu.and_then(|cpu| self.node_of_cpu.get(&cpu).copied());
        let before = match thread_node {
            Some(node) => self.thread_nodes.insert((process, stream), node),
            // It ended with its process, or before this was read: then it is taken to have stayed where it was.
            None => self.thread_nodes.get(&(process, stream)).copied(),
        };
        self.told.unknown_threads += u64::from(thread_node.is_none() && before.is_none());
        let now_ms = self.kernel.now_ms();
        let is_due = |page: &&u64| {
            of_process.pages.get(page).is_none_or(|known| {
                let pause = FIRST_PAUSE_MS.checked_shl(known.pause.into()).unwrap_or(u32::MAX);
                now_ms.wrapping_sub(known.asked_ms) >= pause
            })
        };
        let due: Vec<u64> = chunk.pages.iter().filter(is_due).copied().collect();
        let mut pages = Vec::new();
        for due in due.chunks(MOST_PAGES) {
            let homes = homes_of(self.kernel.as_mut(), of_process.pid, due);
            for (&page, home) in due.iter().zip(homes) {
                let known = of_process.pages.insert(page, Page { home, pause: 0, asked_ms: now_ms });
                let before = known.and_then(|known| known.home.ok());
                let Some(known) = known else {
                    pages.extend(home.ok().map(|node| (page, u32::from(node))));
                    continue;
                };
                match home {
                    Ok(node) if before != Some(node) => {
                        self.told.moves += u64::from(before.is_some());
                        pages.push((page, node.into()));
                    }
                    _ => {
                        // What was told once is not forgotten because its process has ended.
                        let home = known.home.or(home);
                        let pause = known.pause.saturating_add(1);
                        of_process.pages.insert(page, Page { home, pause, asked_ms: now_ms });
                    }
                }
            }
        }
        let is_new = !pages.is_empty() || thread_node.is_some_and(|node| before != Some(node));
        is_new.then_some(ChunkHomes { process, stream, sequence, thread_node, pages })
    }
}

/// Homes of pages of a process, or why they are not told.
fn homes_of(kernel: &mut dyn NumaKernel, pid: Option<u32>, pages: &[u64]) -> Vec<Result<u16, Untold>> {
    let addresses: Vec<u64> = pages.iter().map(|page| page.wrapping_mul(PAGE_BYTES)).collect();
    let Some(pid) = pid else { return vec![Err(Untold::Refused); pages.len()] };
    match kernel.nodes_of_pages(pid, &addresses) {
        Ok(nodes) => nodes.into_iter().map(|node| u16::try_from(node).map_err(|_| Untold::NotPresent)).collect(),
        Err(error) => {
            // EINVAL: it has no memory any more, but is not waited for yet.
            let has_ended = matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL));
            vec![Err(if has_ended { Untold::Ended } else { Untold::Refused }); pages.len()]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What a kernel answers, and what it was asked.
    #[derive(Default)]
    struct Answers {
        nodes: HashMap<u64, i32>,
        error: Option<i32>,
        cpu: Option<u32>,
        now_ms: u32,
        asked: Vec<(u32, Vec<u64>)>,
    }

    struct Recorded(Rc<RefCell<Answers>>);

    impl NumaKernel for Recorded {
        fn nodes_of_pages(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
            let mut answers = self.0.borrow_mut();
            answers.asked.push((pid, addresses.to_vec()));
            match answers.error {
                Some(error) => Err(io::Error::from_raw_os_error(error)),
                None => {
                    Ok(addresses.iter().map(|at| answers.nodes.get(at).copied().unwrap_or(-libc::ENOENT)).collect())
                }
            }
        }

        fn cpu_of(&mut self, pid: u32, tid: u32) -> Option<u32> {
            assert_eq!((pid, tid), (77, 78));
            self.0.borrow().cpu
        }

        fn now_ms(&mut self) -> u32 {
            self.0.borrow().now_ms
        }
    }

    /// Nodes 0 and 2, with two CPUs each.
    fn two_nodes(is_here: bool) -> (PageHomes, Rc<RefCell<Answers>>) {
        let node = |number, cpus: [u32; 2]| TopologyNode {
            number,
            cpus: cpus.to_vec(),
            bytes: 1 << 30,
            distances: vec![10, 20],
        };
        let answers = Rc::new(RefCell::new(Answers { cpu: Some(0), ..Answers::default() }));
        let kernel = Box::new(Recorded(Rc::clone(&answers)));
        let mut homes = PageHomes::of(&[node(0, [0, 2]), node(2, [1, 3])], kernel);
        let process =
            Process { number: 5, pid: 77, parent_pid: 1, program: String::new(), started_ns: 0, is_here, fork: None };
        homes.begin(&process);
        (homes, answers)
    }

    fn chunk(sequence: u64, pages: &[u64]) -> ChunkPages {
        ChunkPages { process: 5, stream: 9, tid: 78, sequence, pages: pages.to_vec() }
    }

    fn told(sequence: u64, thread_node: Option<u32>, pages: &[(u64, u32)]) -> Option<ChunkHomes> {
        Some(ChunkHomes { process: 5, stream: 9, sequence, thread_node, pages: pages.to_vec() })
    }

    #[test]
    fn pages_are_asked_for_once_and_again_when_they_may_have_moved() {
        let (mut homes, answers) = two_nodes(true);
        answers.borrow_mut().nodes = HashMap::from([(0x3000, 0), (0x4000, 2)]);
        assert_eq!(homes.ask(&chunk(0, &[3, 4, 6])), told(0, Some(0), &[(3, 0), (4, 2)]));
        assert_eq!(answers.borrow_mut().asked.pop(), Some((77, vec![0x3000, 0x4000, 0x6000])));
        // Right after only what is new.
        answers.borrow_mut().nodes.insert(0x5000, 2);
        assert_eq!(homes.ask(&chunk(1, &[3, 4, 5])), told(1, Some(0), &[(5, 2)]));
        assert_eq!(answers.borrow_mut().asked.pop(), Some((77, vec![0x5000])));
        assert_eq!(homes.ask(&chunk(2, &[3, 4, 5])), None);
        assert!(answers.borrow().asked.is_empty());
        // Half a second later one has moved, and one has come.
        answers.borrow_mut().now_ms = 500;
        answers.borrow_mut().nodes.extend([(0x4000, 0), (0x6000, 2)]);
        assert_eq!(homes.ask(&chunk(3, &[3, 4, 6])), told(3, Some(0), &[(4, 0), (6, 2)]));
        // What stayed is asked for after twice that.
        answers.borrow_mut().asked.clear();
        answers.borrow_mut().now_ms = 1400;
        assert_eq!(homes.ask(&chunk(4, &[3, 4])), None);
        assert_eq!(answers.borrow_mut().asked.pop(), Some((77, vec![0x4000])));
        let all = HomesInfo { nodes: vec![0, 2], pages: 4, moves: 1, ..HomesInfo::default() };
        assert_eq!(homes.told(), all);
    }

    #[test]
    fn threads_are_where_they_ran_last() {
        let (mut homes, answers) = two_nodes(true);
        assert_eq!(homes.ask(&chunk(0, &[])), told(0, Some(0), &[]));
        answers.borrow_mut().cpu = Some(3);
        assert_eq!(homes.ask(&chunk(1, &[])), told(1, Some(2), &[]));
        assert_eq!(homes.ask(&chunk(2, &[])), None);
        // It has ended: it was there before. A CPU that came later is of no node that is known.
        for cpu in [None, Some(9)] {
            answers.borrow_mut().cpu = cpu;
            assert_eq!(homes.ask(&chunk(3, &[])), None);
            assert_eq!(homes.told().unknown_threads, 0);
        }
        let other = ChunkPages { stream: 10, ..chunk(0, &[]) };
        assert_eq!((homes.ask(&other), homes.told().unknown_threads), (None, 1));
    }

    #[test]
    fn what_is_not_told_is_counted_by_why() {
        let (mut homes, answers) = two_nodes(true);
        answers.borrow_mut().nodes.insert(0x1000, 2);
        homes.ask(&chunk(0, &[1, 2]));
        answers.borrow_mut().error = Some(libc::EPERM);
        homes.ask(&chunk(1, &[3]));
        answers.borrow_mut().error = Some(libc::ESRCH);
        answers.borrow_mut().now_ms = 5000;
        // What was known stays known.
        assert_eq!(homes.ask(&chunk(2, &[1, 4, 5])), None);
        let all = homes.told();
        assert_eq!((all.pages, all.not_present, all.refused, all.ended, all.untold()), (1, 1, 1, 2, 4));
        // A process of which we have no number is not asked for by that of another one.
        let (mut homes, answers) = two_nodes(false);
        assert_eq!(homes.ask(&chunk(0, &[1])), None);
        assert_eq!((homes.told().refused, homes.told().unknown_threads), (1, 1));
        assert!(answers.borrow().asked.is_empty());
    }

    #[test]
    fn the_cpu_is_the_39th_field() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(cpu_in(&format!("7 (a) b) {}", fields.join(" "))), Some(39));
        assert_eq!(cpu_in("7 (a) S 1"), None);
        let (pid, tid) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let cpu = ThisKernel.cpu_of(pid, tid).unwrap();
        assert!(crate::machine::online_cpus().contains(&cpu), "{cpu}");
    }
}
