//! What is being done, on the terminal, where it takes more than two seconds.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::order::{Piece, StreamKey, in_order};
use slimline_trace::stream::recording::{Recording, RecordingError};

/// Nothing is said of what takes less.
const SAID_AFTER: Duration = Duration::from_secs(2);
const SAID_EVERY: Duration = Duration::from_millis(500);
/// Back to the line's beginning, and nothing behind it.
const CLEARED: &str = "\r\x1b[K";

/// Something that is done until this is dropped. A line says so on standard error where that is a terminal; nothing of it stays.
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    /// None where nobody would see it.
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Of what has so many parts of about the same size; 0 where that is not known.
    pub(crate) fn of(what: &str, parts: u64) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let ticker = stderr().is_terminal().then(|| {
            let (end, is_ended) = channel();
            let (what, done, began) = (what.to_owned(), done.clone(), Instant::now());
            let tick = move || {
                let (mut wait, mut is_said) = (SAID_AFTER, false);
                // Sent is nothing ever.
                while is_ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    let line = line(&what, (done.load(Relaxed), parts), began.elapsed());
                    _ = write!(stderr(), "{CLEARED}{line}");
                    (wait, is_said) = (SAID_EVERY, true);
                }
                if is_said {
                    _ = write!(stderr(), "{CLEARED}");
                }
            };
            (end, thread::spawn(tick))
        });
        Self { done, ticker }
    }

    /// So many more parts are done.
    pub(crate) fn advance(&self, parts: u64) {
        self.done.fetch_add(parts, Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, ticker)) = self.ticker.take() {
            drop(end);
            _ = ticker.join();
        }
    }
}

fn line(what: &str, (done, parts): (u64, u64), elapsed: Duration) -> String {
    let share = match parts {
        0 => String::new(),
        _ => format!(" {} %", done.min(parts) * 100 / parts),
    };
    let seconds = elapsed.as_secs();
    format!("slimline: {what}:{share} {}:{:02}", seconds / 60, seconds % 60)
}

/// Hands on what a recording's threads did, in one order; how many stamps of it go back. Nothing was decoded before.
pub(crate) fn read_in_order(
    recording: &Recording,
    (program, decoder): (&Program, &mut Decoder),
    mut take: impl FnMut(StreamKey, &Piece, Range<usize>),
) -> Result<u64, RecordingError> {
    let progress = Progress::of("reading the trace", recording.chunks());
    let mut pieces = recording.pieces(program, decoder)?;
    in_order(&mut pieces, recording.streams(), |stream, piece, range| {
        progress.advance(u64::from(range.start == 0));
        take(stream, piece, range);
    })?;
    Ok(pieces.stamps_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_and_how_far() {
        let after = Duration::from_secs(75);
        assert_eq!(line("reading the trace", (37, 200), after), "slimline: reading the trace: 18 % 1:15");
        assert_eq!(line("grouping", (0, 0), after), "slimline: grouping: 1:15");
    }
}
