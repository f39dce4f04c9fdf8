//! One thread's profile: the regions that it is in, and what was counted of those that it left.
//!
//! No clock: each call says what time it is. Times that go backwards count as 0.

use std::sync::Arc;

use crate::kind::{Kind, Phase};
use crate::path::{PathId, ROOT};
use crate::team::Team;
use crate::times::Times;

/// What an entry into a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An execution of its body, which counts.
    Execution,
    /// More of one: its barrier, which is told apart from it, or that of a thread that had no part in the body.
    Remainder,
    /// The creation of a task. A task that is executed at once is executed within, and is no recursion.
    Creation,
}

#[derive(Debug)]
struct Frame {
    /// None where there were too many paths: its time is its parent's then.
    path: Option<PathId>,
    kind: Kind,
    entry: Entry,
    phase: Phase,
    since_ns: u64,
    spent_ns: [u64; Phase::COUNT],
    /// What of it was spent in regions within.
    within_ns: [u64; Phase::COUNT],
    is_limited: bool,
    end_address: u64,
    /// Of a parallel region.
    team: Option<Arc<Team>>,
    /// The thread did not meet the construct: when the team is over it hears of it with the next one only.
    is_worker: bool,
    /// Which task it is, as the runtime names it; 0 for what is none.
    task: usize,
}

impl Frame {
    fn new(path: Option<PathId>, kind: Kind, entry: Entry, phase: Phase, now_ns: u64) -> Self {
        Self {
            path,
            kind,
            entry,
            phase,
            since_ns: now_ns,
            spent_ns: [0; Phase::COUNT],
            within_ns: [0; Phase::COUNT],
            is_limited: false,
            end_address: 0,
            team: None,
            is_worker: false,
            task: 0,
        }
    }

    fn go_on(&mut self, phase: Phase, now_ns: u64) {
        self.spent_ns[self.phase as usize] += now_ns.saturating_sub(self.since_ns);
        self.phase = phase;
        self.since_ns = self.since_ns.max(now_ns);
    }
}

/// The profile of one thread.
#[derive(Debug, Default)]
pub struct Stack {
    frames: Vec<Frame>,
    /// Which of them are parallel regions.
    teams: Vec<usize>,
    /// By path.
    rows: Vec<Times>,
    /// By path, how often the thread is in it, other than creating a task: tasks that wait for tasks lie within each other by thousands.
    depths: Vec<u32>,
    /// The construct whose implied barrier would be next, and whether waiting there is for want of work.
    left: Option<(PathId, Kind, bool)>,
}

impl Stack {
    /// In no region.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The path that the thread is on. Of a region that has none, its parent's.
    #[must_use]
    pub fn path(&self) -> PathId {
        self.frames.iter().rev().find_map(|frame| frame.path).unwrap_or(ROOT)
    }

    /// Where what the thread does now belongs. That is its path; but a worker that is through with a parallel region waits for the others, and then for
    /// the next one, of which nobody tells: that is outside.
    #[must_use]
    pub fn place(&self) -> PathId {
        match self.frames.last() {
            Some(frame) if frame.is_worker && frame.phase == Phase::ExitBarrier => {
                self.frames.iter().rev().skip(1).find_map(|frame| frame.path).unwrap_or(ROOT)
            }
            _ => self.path(),
        }
    }

    /// The kind of the innermost region.
    #[must_use]
    pub fn innermost(&self) -> Option<Kind> {
        self.frames.last().map(|frame| frame.kind)
    }

    /// The team that the thread is in.
    #[must_use]
    pub fn team(&self) -> Option<&Arc<Team>> {
        self.frames[*self.teams.last()?].team.as_ref()
    }

    /// Enters a region; `path` is that of the region itself.
    pub fn enter(&mut self, path: Option<PathId>, kind: Kind, entry: Entry, phase: Phase, now_ns: u64) {
        self.push(Frame::new(path, kind, entry, phase, now_ns));
    }

    /// Enters a parallel region as the thread that met the construct. It is getting in until [`phase`](Self::phase).
    pub fn fork(&mut self, team: Arc<Team>) {
        self.left = None;
        let mut frame = Frame::new(team.path(), Kind::Parallel, Entry::Execution, Phase::Enter, team.forked_ns());
        frame.team = Some(team);
        self.push(frame);
    }

    /// Begins the body of a parallel region: of the thread that met the construct and is in it, or of a worker, which was
    /// getting in since the construct was met.
    pub fn begin_implicit_task(&mut self, team: &Arc<Team>, now_ns: u64) {
        let of_team = |frame: &Frame| frame.team.as_ref().is_some_and(|its| Arc::ptr_eq(its, team));
        if !self.frames.last().is_some_and(of_team) {
            self.settle(now_ns);
            self.fork(Arc::clone(team));
            self.frames.iter_mut().last().into_iter().for_each(|frame| frame.is_worker = true);
        }
        self.phase(Kind::Parallel, Phase::Body, now_ns);
    }

    /// Enters an explicit task, which the runtime knows as `task`, not 0; as a remainder where it was suspended.
    pub fn begin_task(&mut self, path: Option<PathId>, entry: Entry, task: usize, now_ns: u64) {
        self.enter(path, Kind::Task, entry, Phase::Body, now_ns);
        if let Some(frame) = self.frames.last_mut() {
            frame.task = task;
        }
    }

    /// Whether the thread is in that task, or in one within it.
    #[must_use]
    pub fn is_in_task(&self, task: usize) -> bool {
        // It is the innermost one, mostly.
        task != 0 && self.frames.iter().rev().any(|frame| frame.task == task)
    }

    /// Leaves the task, which has ended or is suspended, and what the thread is in within it.
    pub fn end_task(&mut self, task: usize, now_ns: u64) {
        if self.is_in_task(task) {
            while self.frames.last().is_some_and(|frame| frame.task != task) {
                self.pop(now_ns);
            }
            self.pop(now_ns);
        }
    }

    /// Goes on to another phase of the innermost region of that kind; what the thread is in within it is left. Nothing
    /// where there is none in this task.
    pub fn phase(&mut self, kind: Kind, phase: Phase, now_ns: u64) {
        if self.unwind(kind, now_ns)
            && let Some(frame) = self.frames.last_mut()
        {
            frame.go_on(phase, now_ns);
        }
    }

    /// Marks what the innermost region's threads wait for at its end as limited parallelism.
    pub fn limit(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.is_limited = true;
        }
    }

    /// Leaves the innermost region of that kind, and what the thread is in within it. False where there is none in this
    /// task. `end_address` is that of the construct's end, or 0.
    pub fn exit(&mut self, kind: Kind, end_address: u64, now_ns: u64) -> bool {
        let is_in = self.unwind(kind, now_ns);
        if let Some(frame) = self.frames.last_mut().filter(|_| is_in) {
            frame.end_address = end_address;
            if matches!(kind, Kind::Loop | Kind::Sections | Kind::Single) && frame.entry == Entry::Execution {
                self.left = frame.path.map(|path| (path, kind, frame.is_limited));
            }
            self.pop(now_ns);
        }
        is_in
    }

    /// The thread has no part in a `single`, and may wait for who has: what follows as in [`enter_barrier`](Self::enter_barrier).
    pub fn pass_over(&mut self, path: Option<PathId>, kind: Kind) {
        self.left = path.map(|path| (path, kind, true));
    }

    /// The construct whose implied barrier would be next: the work-sharing one that the thread left or passed over last.
    #[must_use]
    pub fn left(&self) -> Option<Kind> {
        self.left.map(|(_, kind, _)| kind)
    }

    /// Enters the barrier that the construct implies which the thread just left or passed over, as a phase of that. None
    /// where there is no such construct. Left by [`exit`](Self::exit) with the kind that is returned.
    pub fn enter_barrier(&mut self, now_ns: u64) -> Option<Kind> {
        let (path, kind, is_limited) = self.left.take()?;
        self.enter(Some(path), kind, Entry::Remainder, Phase::ExitBarrier, now_ns);
        if is_limited {
            self.limit();
        }
        Some(kind)
    }

    /// Leaves a parallel region whose team is over; its barrier and its end were when the team says. What comes next on this
    /// thread, or the end of the profile, calls this.
    pub fn settle(&mut self, now_ns: u64) {
        if self.frames.last().is_some_and(|frame| frame.team.is_some() && frame.phase == Phase::ExitBarrier) {
            self.pop(now_ns);
        }
    }

    /// Leaves a parallel region as the thread that met the construct, and what it is in within.
    pub fn end_parallel(&mut self, now_ns: u64) {
        if self.unwind(Kind::Parallel, now_ns) {
            self.pop(now_ns);
        }
    }

    /// Leaves all regions: the process ends.
    pub fn finish(&mut self, now_ns: u64) {
        while !self.frames.is_empty() {
            self.pop(now_ns);
        }
    }

    /// Forgets what was counted, also of regions that the thread is in: a forked child has a profile of its own.
    pub fn forget(&mut self, now_ns: u64) {
        self.rows.fill(Times::default());
        for frame in &mut self.frames {
            (frame.since_ns, frame.spent_ns, frame.within_ns) = (now_ns, [0; Phase::COUNT], [0; Phase::COUNT]);
        }
    }

    /// What was counted by path.
    pub fn rows(&self) -> impl Iterator<Item = (PathId, &Times)> {
        (0..).map(PathId).zip(&self.rows).filter(|(_, times)| !times.is_empty())
    }

    /// Makes room for the row at once, so that leaving allocates nothing: it may happen in a signal's handler.
    fn push(&mut self, frame: Frame) {
        if let Some(PathId(path)) = frame.path {
            let path = path as usize;
            if self.rows.len() <= path {
                self.rows.resize(path + 1, Times::default());
                self.depths.resize(path + 1, 0);
            }
            self.depths[path] += u32::from(frame.entry != Entry::Creation);
        }
        if frame.team.is_some() {
            self.teams.push(self.frames.len());
        }
        self.frames.push(frame);
    }

    /// Leaves what is within the innermost region of that kind. False where there is none in this task: a construct ends
    /// in the task that it began in.
    fn unwind(&mut self, kind: Kind, now_ns: u64) -> bool {
        let is_bound = |frame: &Frame| frame.kind == Kind::Parallel || frame.task != 0;
        let bound = self.frames.iter().rposition(is_bound).unwrap_or(0);
        let Some(found) = self.frames[bound..].iter().rposition(|frame| frame.kind == kind) else { return false };
        while self.frames.len() > bound + found + 1 {
            self.pop(now_ns);
        }
        true
    }

    fn pop(&mut self, now_ns: u64) {
        let Some(mut frame) = self.frames.pop() else { return };
        if frame.team.is_some() {
            self.teams.pop();
            self.left = None;
        }
        match frame.team.clone() {
            Some(team) if frame.phase != Phase::Body => {
                let (joined_ns, ended_ns) = team.over(now_ns);
                if frame.phase == Phase::ExitBarrier {
                    frame.go_on(Phase::Exit, joined_ns);
                }
                frame.go_on(Phase::Exit, ended_ns);
            }
            _ => frame.go_on(frame.phase, now_ns),
        }
        let spent_ns: u64 = frame.spent_ns.iter().sum();
        if let Some(parent) = self.frames.last_mut() {
            parent.within_ns[parent.phase as usize] += spent_ns;
        }
        let Some(path) = frame.path else {
            // Nobody's: as if the parent had not been interrupted, but for the regions that were within.
            if let Some(parent) = self.frames.last_mut() {
                parent.within_ns[parent.phase as usize] -= spent_ns - frame.within_ns.iter().sum::<u64>().min(spent_ns);
            }
            return;
        };
        let path = path.0 as usize;
        let (Some(row), Some(depth)) = (self.rows.get_mut(path), self.depths.get_mut(path)) else { return };
        *depth -= u32::from(frame.entry != Entry::Creation);
        let is_within_itself = *depth > 0;
        row.count += u64::from(frame.entry == Entry::Execution);
        row.created += u64::from(frame.entry == Entry::Creation);
        row.end_at(frame.end_address);
        for phase in 0..Phase::COUNT {
            let exclusive_ns = frame.spent_ns[phase].saturating_sub(frame.within_ns[phase]);
            row.exclusive_ns[phase] += exclusive_ns;
            row.inclusive_ns[phase] += match frame.entry {
                Entry::Creation => exclusive_ns,
                _ if is_within_itself => 0,
                _ => frame.spent_ns[phase],
            };
            if frame.is_limited && phase == Phase::ExitBarrier as usize {
                row.limited_ns += exclusive_ns;
            }
        }
    }
}
