//! Processes that run already: their threads, and what else must be known when sampling them begins.

use slimline_trace::path_text::text_of_bytes;
use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::event::{self, Whom};
use super::records::{Begin, Event, What};
use super::{RING_EVENT, RingOptions, Rings};
use crate::clock::monotonic_ns;
use crate::perf_event::TaskId;
use crate::{RecordError, machine, proc_text};

/// Looks at the threads of a process before those that it goes on making are left to the kernel's inheritance.
const MOST_LOOKS: u32 = 64;

/// Refuses what is no process, or one that has ended.
pub(crate) fn check_process(pid: u32) -> Result<(), RecordError> {
    let Ok(status) = proc_text::read(&format!("/proc/{pid}/status")) else {
        return Err(RecordError::NoSuchProcess(pid));
    };
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let process = field("Tgid:").and_then(|text| text.parse().ok()).unwrap_or(pid);
    if process != pid {
        return Err(RecordError::NotAProcess { thread: pid, process });
    }
    match field("State:").and_then(|state| state.chars().next()) {
        Some('Z' | 'X') => Err(RecordError::ProcessEnded(pid)),
        _ => Ok(()),
    }
}

/// The command of a process, as far as it can be read.
pub(crate) fn command_of(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|&byte| byte == 0);
    words.map(|word| text_of_bytes(word).into_owned()).filter(|word| !word.is_empty()).collect()
}

impl Rings {
    /// Samples these processes from now on, all their threads; with `children` those that they fork, too.
    ///
    /// # Errors
    /// The kernel refuses it, or one of them is gone.
    pub(crate) fn attach(options: &RingOptions, pids: &[u32], children: bool) -> Result<Self, RecordError> {
        allow_all_descriptors();
        let first = *pids.first().ok_or(RecordError::NoCommand)?;
        let refused = |pid| move |error: io::Error| RecordError::refused_process(pid, error);
        // The main thread may have ended while others go on; the kernel lets it have an event all the same.
        let begin = if children { Begin::Enabled } else { Begin::EnabledWithoutChildren };
        let mut attached = Self::open(options, Whom::Thread(first), begin).map_err(refused(first))?;
        if !children {
            attached.tracks.only = Some(pids.iter().copied().collect());
        }
        for &pid in pids {
            attached.note_process(pid);
            attached.attach_threads(pid, first).map_err(refused(pid))?;
        }
        Ok(attached)
    }

    /// Samples what a process runs now, up to its next `exec`, which may bring an agent. It is told as program `number` of
    /// its process.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub(crate) fn attach_until_exec(options: &RingOptions, pid: u32, number: u32) -> Result<Self, RecordError> {
        let mut attached = Self::attach(options, &[pid], false)?;
        attached.tracks.number_programs_from(pid, number);
        attached.tracks.is_over_at_exec = true;
        Ok(attached)
    }

    /// The same of one of its threads alone.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub(crate) fn attach_thread_until_exec(
        options: &RingOptions,
        (pid, tid): (u32, u32),
        number: u32,
    ) -> Result<Self, RecordError> {
        allow_all_descriptors();
        let refused = |error: io::Error| RecordError::refused_process(tid, error);
        let mut attached = Self::open(options, Whom::Thread(tid), Begin::EnabledWithoutChildren).map_err(refused)?;
        attached.tracks.only = Some([pid].into());
        attached.note_process(pid);
        attached.attach_thread(tid, true, &machine::online_cpus()).map_err(refused)?;
        attached.note_thread(pid, tid);
        attached.tracks.own.insert(tid);
        attached.tracks.number_programs_from(pid, number);
        attached.tracks.is_over_at_exec = true;
        Ok(attached)
    }

    /// Opens events for all threads of a process. Threads that begin meanwhile are either found by the next look or have
    /// inherited their maker's events, or both; see [`Tracks::is_seen_twice`]. The rings' own events are thread `first`'s.
    fn attach_threads(&mut self, pid: u32, first: u32) -> io::Result<()> {
        let cpus = machine::online_cpus();
        for _ in 0..MOST_LOOKS {
            let new: Vec<u32> = threads_of(pid)?.into_iter().filter(|tid| !self.tracks.own.contains(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match self.attach_thread(tid, tid == first, &cpus) {
                    Ok(()) => self.note_thread(pid, tid),
                    // It has ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(error),
                }
                self.tracks.own.insert(tid);
            }
        }
        Ok(())
    }

    fn attach_thread(&mut self, tid: u32, has_rings: bool, cpus: &[u32]) -> io::Result<()> {
        for (place, &cpu) in cpus.iter().enumerate().take(self.rings.len()) {
            let ring = &self.rings[place];
            let other = if has_rings {
                None
            } else {
                let event = event::open(&self.of_rings, Whom::Thread(tid), cpu, None)?;
                event::redirect(&event, ring)?;
                self.writers.name(RING_EVENT, event::id_of(&event)?);
                Some(event)
            };
            let event = other.as_ref().unwrap_or(ring.event());
            self.tracks.opened_for.insert(event::id_of(event)?, tid);
            event::enable(event)?;
            self.others.extend(other);
            let ids = self.add_hardware(Whom::Thread(tid), place, cpu)?;
            self.tracks.opened_for.extend(ids.into_iter().map(|id| (id, tid)));
        }
        Ok(())
    }

    /// What records would have told, had they been asked for when the process began.
    fn note_process(&mut self, pid: u32) {
        self.tracks.attached.insert(pid);
        if let Ok(text) = fs::read(format!("/proc/{pid}/maps")) {
            self.note(pid, pid, What::Maps(text));
        }
    }

    fn note_thread(&mut self, pid: u32, tid: u32) {
        self.note(pid, tid, What::Began { parent: TaskId { pid, tid: pid } });
        if let Ok(name) = proc_text::read(&format!("/proc/{pid}/task/{tid}/comm")) {
            self.note(pid, tid, What::Named { name: name.trim_end().to_owned(), by_exec: false });
        }
    }

    fn note(&mut self, pid: u32, tid: u32, what: What) {
        self.tracks.pending.push(Event { time_ns: monotonic_ns(), task: TaskId { pid, tid }, what });
    }
}

fn threads_of(pid: u32) -> io::Result<HashSet<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// An event for each thread and CPU: as many descriptors as we may have.
fn allow_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused the kernel will say that there are too many.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use slimline_trace::session::{Session, SessionInfo, SessionWriter};

    use super::*;
    use crate::clock::thread_cpu_ns;
    use crate::proc_text::tests::Sleeper;
    use crate::record::tests::empty_info;
    use crate::source::Source;
    use crate::writer_thread::WriterThread;

    #[test]
    fn only_living_processes_are_taken() {
        let own = std::process::id();
        assert!(check_process(own).is_ok());
        assert!(matches!(check_process(u32::MAX), Err(RecordError::NoSuchProcess(_))));
        // A test runs in a thread of its own.
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert!(matches!(check_process(thread), Err(RecordError::NotAProcess { process, .. }) if process == own));
        assert!(threads_of(own).unwrap().contains(&thread));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while check_process(child.id()).is_ok() {
            std::thread::yield_now();
        }
        assert!(matches!(check_process(child.id()), Err(RecordError::ProcessEnded(_))), "nobody has waited for it");
        child.wait().unwrap();
        assert!(!command_of(own).is_empty());
        check_process(Sleeper::start().child.id()).unwrap();
    }

    /// Threads of this process, each until it used so much CPU time.
    #[test]
    fn all_threads_of_a_process_are_sampled() {
        const THREADS: usize = 16;
        const USED_NS: u64 = 30_000_000;
        let options = RingOptions::of_clock(1_000_000);
        let (begin, begun) = (Barrier::new(THREADS + 1), Mutex::new(Vec::new()));
        let spin = || {
            begun.lock().unwrap().push(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
            begin.wait();
            // Attached to by now.
            begin.wait();
            let until_ns = thread_cpu_ns() + USED_NS;
            // Asking for the time is the kernel's work, of which no sample is taken.
            while thread_cpu_ns() < until_ns {
                (0..10_000).for_each(|number| _ = std::hint::black_box(number));
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("session");
        let writer = WriterThread::start(SessionWriter::create(&path, &empty_info()).unwrap()).unwrap();
        let attached = std::thread::scope(|scope| {
            (0..THREADS).for_each(|_| drop(scope.spawn(spin)));
            begin.wait();
            let attached = Rings::attach(&options, &[std::process::id()], false);
            begin.wait();
            attached
        });
        let rings = match attached {
            Ok(rings) => rings,
            Err(RecordError::Refused { error, .. }) => {
                eprintln!("skipped: the kernel refuses to sample from outside: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let (processes, _) = rings.finish(&writer);
        let (session, written) = writer.finish();
        written.unwrap();
        session.update(&SessionInfo { processes, complete: true, ..empty_info() }).unwrap();
        let session = Session::open(&path).unwrap();
        let threads = session.load(&session.processes()[0]).unwrap().threads;
        for tid in begun.into_inner().unwrap() {
            let row = threads.tid.iter().position(|&other| other == tid).unwrap();
            assert!(threads.samples[row] > 0, "thread {tid}: {threads:?}");
        }
    }
}
