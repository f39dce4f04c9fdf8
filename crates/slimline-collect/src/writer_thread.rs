//! The thread that encodes and writes parts, so that a slow disk does not let rings overflow.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::process::setpriority_process;
use rustix::thread::gettid;
use slimline_trace::session::{NewRows, ProcessWriter, SessionError, SessionInfo, SessionWriter};

use crate::recorder::PartRows;

/// Jobs handed over and not yet done. More rows wait in the recorders, up to their own bound.
const QUEUE: usize = 2;
/// Writing yields to the target: where both cores are busy it may be late, which costs memory and no samples.
const NICENESS: i32 = 10;

/// What the thread is asked to write.
#[derive(Debug)]
enum Job {
    Install,
    Part { directory: String, rows: Box<PartRows> },
    Header(Box<SessionInfo>),
}

/// Handle of the thread.
#[derive(Debug)]
pub(crate) struct WriterThread {
    jobs: Sender<Job>,
    thread: JoinHandle<(SessionWriter, Result<(), SessionError>)>,
    /// Jobs not yet done; [`FAILED`] where writing failed.
    pending: Arc<AtomicUsize>,
}

/// What [`WriterThread::pending`] holds after a failure.
const FAILED: usize = usize::MAX / 2;

impl WriterThread {
    /// Starts writing into `session`.
    pub(crate) fn start(session: SessionWriter) -> std::io::Result<Self> {
        let (jobs, queue) = channel();
        let pending = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&pending);
        let thread = thread::Builder::new().name("slimline-writer".into()).spawn(move || {
            // Being nice is a courtesy: where it is refused, writing goes on all the same.
            let _ = setpriority_process(Some(gettid()), NICENESS);
            let mut session = session;
            let written = write_all(&mut session, &queue, &done);
            if written.is_err() {
                done.store(FAILED, Ordering::Release);
            }
            (session, written)
        })?;
        Ok(Self { jobs, thread, pending })
    }

    /// Whether writing failed: nothing more will be written.
    pub(crate) fn has_failed(&self) -> bool {
        self.pending.load(Ordering::Acquire) >= FAILED
    }

    /// Whether the writer keeps up, so that the next part may be handed over.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.load(Ordering::Acquire) < QUEUE
    }

    /// Has the session take its place.
    pub(crate) fn install(&self) {
        self.send(Job::Install);
    }

    /// Hands a part over.
    pub(crate) fn send_part(&self, directory: &str, rows: PartRows) {
        self.send(Job::Part { directory: directory.to_owned(), rows: Box::new(rows) });
    }

    /// Replaces `session.json`.
    pub(crate) fn send_header(&self, info: SessionInfo) {
        self.send(Job::Header(Box::new(info)));
    }

    fn send(&self, job: Job) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        // Fails only where the writer has failed; `has_failed` and `finish` tell.
        let _ = self.jobs.send(job);
    }

    /// Waits until everything is written. Gives the session back for its last `session.json`, and the error that ended
    /// writing before.
    pub(crate) fn finish(self) -> (SessionWriter, Result<(), SessionError>) {
        drop(self.jobs);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn write_all(session: &mut SessionWriter, queue: &Receiver<Job>, pending: &AtomicUsize) -> Result<(), SessionError> {
    let mut processes: HashMap<String, ProcessWriter> = HashMap::new();
    for job in queue {
        match job {
            Job::Install => session.install()?,
            Job::Header(info) => session.update(&info)?,
            Job::Part { directory, rows } => {
                let process = match processes.get_mut(&directory) {
                    Some(process) => process,
                    None => processes.entry(directory.clone()).or_insert(session.process(&directory)?),
                };
                write_part(process, &rows)?;
            }
        }
        pending.fetch_sub(1, Ordering::AcqRel);
    }
    Ok(())
}

/// Writes one part.
pub(crate) fn write_part(process: &mut ProcessWriter, rows: &PartRows) -> Result<(), SessionError> {
    process.write_part(NewRows {
        stacks: &rows.stacks,
        blocks: &rows.blocks,
        samples: &rows.samples,
        accesses: &rows.accesses,
        dead_ranges: &rows.dead_ranges,
        live_ranges: &rows.live_ranges,
        ended_mappings: &rows.ended_mappings,
        mappings: &rows.mappings,
        threads: &rows.threads,
        paths: &rows.paths,
        names: &rows.names,
    })
}
