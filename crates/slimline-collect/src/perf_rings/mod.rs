//! Samples from outside: the clock interrupts threads and the kernel leaves their registers in ring buffers, or hardware
//! samples accesses and the kernel leaves what it tells.
//!
//! ```text
//!   hardware (what is granted) ─► event (system calls, rings)
//!                                   └─► records ─► tracks (in order of time) ─► image (one a program) ─► parts
//!                                                                   └─ blamer ◄─ code (files)
//! ```
//!
//! For programs that the agent can't be preloaded into, and for those that run already. Nothing of the target is changed,
//! stopped or read but its code, from the files that it maps. So blocks of its heap are not known, nor call paths: a walk up
//! the stack would need memory that has changed meanwhile, or a copy of it at 3 µs a sample, and no report shows where
//! samples were called from.

mod attach;
mod blamer;
mod code;
mod event;
mod hardware;
mod image;
mod records;
#[cfg(test)]
mod tests;
mod tracks;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::time::Duration;

use slimline_trace::session::{ProcessSummary, SampledEvent, WeightUnit};

use self::event::{Ring, Whom};
use self::records::{Begin, Writers};
use self::tracks::{Tracks, send_part};
use crate::clock::monotonic_ns;
use crate::machine;
use crate::perf_event::EventAttr;
use crate::pmu::PmuEvent;
use crate::source::{PartSchedule, Source};
use crate::writer_thread::WriterThread;

pub(crate) use self::attach::{check_process, command_of};
pub(crate) use self::event::{disable as disable_event, enable as enable_event};
pub(crate) use self::hardware::{Granted, Negotiated};

/// Pauses between passes: 50 records of a CPU at 1 kHz, and what a ring that fills quickly may need.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// What is sampled.
#[derive(Clone, Debug)]
pub(crate) enum Sampled {
    /// A thread's time, so often.
    Clock { period_ns: u64 },
    /// Accesses, by these events: as they are planned.
    Hardware(Vec<PmuEvent>),
}

/// How to sample from outside.
#[derive(Clone, Debug)]
pub(crate) struct RingOptions {
    pub(crate) sampled: Sampled,
    /// Instructions of a burst, at most.
    pub(crate) burst_instructions: u32,
    /// Part of the time, in millionths, that bursts may take of ours.
    pub(crate) budget_ppm: u32,
    /// Instructions between the stalled and the sampled one.
    pub(crate) skid: u32,
}

/// The processes that are sampled from outside.
pub(crate) struct Rings {
    of_rings: EventAttr,
    hardware: Vec<Granted>,
    writers: Writers,
    rings: Vec<Ring>,
    /// Events that write into the ring of another.
    others: Vec<File>,
    pause: Duration,
    tracks: Tracks,
    schedule: PartSchedule,
}

impl RingOptions {
    /// The clock, and nothing else.
    pub(crate) fn of_clock(period_ns: u64) -> Self {
        Self { sampled: Sampled::Clock { period_ns }, burst_instructions: 0, budget_ppm: 0, skid: 0 }
    }
}

/// What the kernel grants of these hardware events to who samples a command; each is opened once, and closed again.
pub(crate) fn try_hardware(events: &[PmuEvent]) -> Negotiated {
    negotiate(events, Whom::Children, Begin::AtExec)
}

fn negotiate(events: &[PmuEvent], whom: Whom, begin: Begin) -> Negotiated {
    // A command is sampled by what it inherits, and by nothing else.
    let may_not_inherit = whom != Whom::Children;
    hardware::negotiate(events, &machine::online_cpus(), begin, may_not_inherit, |attr, cpu, leader: Option<&File>| {
        event::open(attr, whom, cpu, leader)
    })
}

impl Rings {
    /// Samples what the calling thread starts from now on, each process from its first `exec`.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn for_children(options: &RingOptions) -> io::Result<Self> {
        let mut rings = Self::open(options, Whom::Children, Begin::AtExec)?;
        for (place, cpu) in machine::online_cpus().into_iter().enumerate() {
            rings.add_hardware(Whom::Children, place, cpu)?;
        }
        Ok(rings)
    }

    /// Makes a ring for every CPU, of an event that tells of threads and mappings; what is sampled by hardware is not open
    /// yet.
    fn open(options: &RingOptions, whom: Whom, begin: Begin) -> io::Result<Self> {
        let (of_rings, hardware) = match &options.sampled {
            Sampled::Clock { period_ns } => (records::attributes(*period_ns, begin), Vec::new()),
            Sampled::Hardware(events) => {
                let negotiated = negotiate(events, whom, begin);
                if !negotiated.has_any() {
                    return Err(negotiated.error.unwrap_or_else(|| io::Error::other("no event takes samples")));
                }
                (records::side_attributes(begin), negotiated.granted)
            }
        };
        let rings = map_rings(|cpu| event::open(&of_rings, whom, cpu, None))?;
        let mut writers = Writers::new(of_rings.clone(), &hardware);
        for ring in &rings {
            writers.name(RING_EVENT, event::id_of(ring.event())?);
        }
        let made = Self::of_rings(rings, writers, Tracks::new(options));
        Ok(Self { of_rings, hardware, ..made })
    }

    /// Rings that somebody writes into.
    fn of_rings(rings: Vec<Ring>, writers: Writers, tracks: Tracks) -> Self {
        Self {
            of_rings: EventAttr::default(),
            hardware: Vec::new(),
            writers,
            rings,
            others: Vec::new(),
            pause: SHORTEST_PAUSE,
            tracks,
            schedule: PartSchedule::starting(monotonic_ns()),
        }
    }

    /// Opens the hardware's events on a CPU, which write into the ring at `place`. Returns those that have to be enabled,
    /// with their numbers.
    fn add_hardware(&mut self, whom: Whom, place: usize, cpu: u32) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        let first = self.others.len();
        for (number, granted) in (RING_EVENT + 1..).zip(&self.hardware) {
            if !granted.is_on(cpu) {
                continue;
            }
            let leader = if granted.is_in_group { self.others[first..].last() } else { None };
            let event = event::open(&granted.attr, whom, cpu, leader)?;
            event::redirect(&event, &self.rings[place])?;
            let id = event::id_of(&event)?;
            self.writers.name(number, id);
            ids.push(id);
            self.others.push(event);
        }
        if matches!(whom, Whom::Thread(_)) {
            // Those of a group count when their leader does; it does no harm to say so of each.
            self.others[first..].iter().try_for_each(event::enable)?;
        }
        Ok(ids)
    }

    /// The hardware's events that take samples; none of the clock.
    pub(crate) fn sampled_events(&self) -> Vec<SampledEvent> {
        let takes_samples = |event: &&Granted| event.attr.period_or_frequency > 0;
        self.hardware.iter().filter(takes_samples).map(Granted::sampled_event).collect()
    }

    /// What samples weigh.
    pub(crate) fn weight(&self) -> WeightUnit {
        self.writers.weighing().unit()
    }

    /// Whether there is nothing left to sample: each process went on to another program, at which its recording was to end.
    pub(crate) fn is_over(&self) -> bool {
        self.tracks.only.as_ref().is_some_and(HashSet::is_empty)
    }

    /// Leaves all processes but this one unrecorded.
    pub(crate) fn record_only(&mut self, pid: u32) {
        self.tracks.only.get_or_insert_default().insert(pid);
    }
}

/// Number of the event that a ring is made of, among those that write into it.
const RING_EVENT: usize = 0;

/// A ring for every CPU, of the event that `open` gives.
fn map_rings(open: impl Fn(u32) -> io::Result<File>) -> io::Result<Vec<Ring>> {
    let rings: Vec<Ring> =
        machine::online_cpus().into_iter().map(|cpu| Ring::map(open(cpu)?)).collect::<io::Result<_>>()?;
    if rings.is_empty() {
        return Err(io::Error::other("no CPU is online"));
    }
    Ok(rings)
}

impl Source for Rings {
    fn pass(&mut self, writer: &WriterThread) -> bool {
        let began_ns = monotonic_ns();
        let ended_before = self.tracks.ended.len();
        let mut bytes = Vec::new();
        let mut is_busy = false;
        for ring in &self.rings {
            bytes.clear();
            ring.take(&mut bytes);
            is_busy |= bytes.len() > ring.bytes() / 4;
            self.tracks.damaged += records::decode(&bytes, &self.writers, &mut self.tracks.pending);
        }
        self.pause = if is_busy { self.pause / 2 } else { self.pause * 5 / 4 }.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let until_ns = std::mem::replace(&mut self.tracks.last_pass_ns, began_ns);
        self.tracks.apply(until_ns, writer);
        self.tracks.read_maps();
        let is_first_over = ended_before == 0 && !self.tracks.ended.is_empty();
        self.schedule.is_due(began_ns) && writer.has_room() || is_first_over
    }

    fn write_parts(&mut self, writer: &WriterThread) {
        if self.schedule.take(monotonic_ns()) {
            for image in self.tracks.running.values_mut().filter(|image| image.run.has_news()) {
                send_part(image, writer);
            }
        }
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn summaries(&self) -> Vec<ProcessSummary> {
        self.tracks.summaries()
    }

    fn stop(&mut self) {
        // Without rings the kernel has nowhere to write, and nobody to interrupt threads for.
        self.rings.clear();
        self.others.clear();
    }

    fn finish(mut self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        self.pass(writer);
        self.tracks.apply(u64::MAX, writer);
        let mut running: Vec<u32> = self.tracks.running.keys().copied().collect();
        running.sort_unstable();
        for pid in running {
            if let Some(image) = self.tracks.running.get_mut(&pid).filter(|image| image.run.has_news()) {
                send_part(image, writer);
            }
        }
        (self.tracks.summaries(), false)
    }
}
