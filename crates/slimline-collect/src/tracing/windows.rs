//! Windows: parts of a run that are traced, and the gaps between them.

use std::str::FromStr;
use std::time::Duration;

/// How long each window is, and how long the gaps between them are in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    on: Length,
    off_ns: f64,
}

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Ns(f64),
    /// Words of trace, about as many as accesses.
    Words(u64),
}

/// Why a text is no [`Windows`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowsError {
    /// It is made otherwise.
    #[error("not on=LENGTH,off=TIME, as on=10ms,off=90ms or on=5000000,off=1s")]
    Form,
    /// A number without a unit where only a time can stand.
    #[error(
        "off={0}: of what? Wanted is a time, as off={0}us, off={0}ms or off={0}s: between windows nothing is counted"
    )]
    Unit(String),
    /// A length is none, or none of those that mean something.
    #[error("{0}={1}: wanted is a time from 1us to a day (100us, 10ms, 1.5s){2}")]
    Length(&'static str, String, &'static str),
}

impl FromStr for Windows {
    type Err = WindowsError;

    fn from_str(text: &str) -> Result<Self, WindowsError> {
        let (on, off) = text.split_once(',').ok_or(WindowsError::Form)?;
        let on = on.strip_prefix("on=").ok_or(WindowsError::Form)?;
        let off = off.strip_prefix("off=").ok_or(WindowsError::Form)?;
        let words = on.parse().ok().filter(|words| *words > 0).map(Length::Words);
        let length = words.or_else(|| nanoseconds(on).map(Length::Ns));
        let length = length.ok_or_else(|| WindowsError::Length("on", on.to_owned(), " or a number of accesses"))?;
        let off_ns = nanoseconds(off).ok_or_else(|| match off.parse::<f64>() {
            Ok(number) if number > 0.0 => WindowsError::Unit(off.to_owned()),
            _ => WindowsError::Length("off", off.to_owned(), ""),
        })?;
        Ok(Self { on: length, off_ns })
    }
}

/// A time with its unit, from a microsecond to a day.
fn nanoseconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor).filter(|ns| (1e3..86_400e9).contains(ns))
}

/// Says when windows begin and end.
#[derive(Debug)]
pub(super) struct WindowClock {
    windows: Windows,
    is_open: bool,
    since_ns: u64,
    /// Words when it opened.
    words: u64,
    gaps: u32,
}

impl WindowClock {
    /// The first window begins.
    pub(super) fn new(windows: Windows, now_ns: u64) -> Self {
        Self { windows, is_open: true, since_ns: now_ns, words: 0, gaps: 0 }
    }

    /// How long this part lasts; none where that is not a matter of time.
    fn lasts_ns(&self) -> Option<u64> {
        /// Its multiples, without whole parts, fill the interval from 0 to 1 evenly and never recur.
        const GOLDEN: f64 = 0.618_033_988_749_895;
        match (self.is_open, self.windows.on) {
            // Half to one and a half of what was asked: no period of the program keeps step with them.
            (false, _) => Some((self.windows.off_ns * (0.5 + (f64::from(self.gaps) * GOLDEN).fract())) as u64),
            (true, Length::Ns(ns)) => Some(ns as u64),
            (true, Length::Words(_)) => None,
        }
    }

    /// Windows so far.
    pub(super) fn windows(&self) -> u32 {
        self.gaps + u32::from(self.is_open)
    }

    /// Whether it opens or closes now, that so many words were traced.
    pub(super) fn turn(&mut self, now_ns: u64, words: u64) -> Option<bool> {
        let is_over = match (self.lasts_ns(), self.windows.on) {
            (Some(ns), _) => now_ns.saturating_sub(self.since_ns) >= ns,
            (None, Length::Words(wanted)) => words.saturating_sub(self.words) >= wanted,
            (None, Length::Ns(_)) => false,
        };
        if !is_over {
            return None;
        }
        self.is_open = !self.is_open;
        self.gaps += u32::from(!self.is_open);
        (self.since_ns, self.words) = (now_ns, words);
        Some(self.is_open)
    }

    /// How long nothing happens.
    pub(super) fn rest(&self, now_ns: u64) -> Duration {
        let Some(ns) = self.lasts_ns() else { return Duration::MAX };
        Duration::from_nanos(ns.saturating_sub(now_ns.saturating_sub(self.since_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read() {
        let read = |text: &str| text.parse::<Windows>().map_err(|error| error.to_string());
        assert_eq!(read("on=10ms,off=1.5s"), Ok(Windows { on: Length::Ns(1e7), off_ns: 1.5e9 }));
        assert_eq!(read("on=5000,off=100us"), Ok(Windows { on: Length::Words(5000), off_ns: 1e5 }));
        assert_eq!(read("10ms"), Err("not on=LENGTH,off=TIME, as on=10ms,off=90ms or on=5000000,off=1s".to_owned()));
        for text in [
            "on=0,off=1s",
            "on=1h,off=1s",
            "on=1ns,off=1s",
            "on=-1s,off=1s",
            "on=nans,off=1s",
            "on=1s,off=-5",
            "on=1s,off=",
        ] {
            assert!(read(text).unwrap_err().contains("wanted is a time"), "{text}");
        }
        let without_unit =
            "off=3: of what? Wanted is a time, as off=3us, off=3ms or off=3s: between windows nothing is counted";
        assert_eq!(read("on=5,off=3"), Err(without_unit.to_owned()));
    }

    #[test]
    fn windows_are_even_and_gaps_are_not() {
        let mut clock = WindowClock::new("on=10ms,off=100ms".parse().unwrap(), 0);
        let mut turns = Vec::new();
        let mut now_ns = 0;
        while turns.len() < 2000 {
            now_ns += clock.rest(now_ns).as_nanos() as u64;
            turns.extend(clock.turn(now_ns, 0).map(|is_open| (is_open, now_ns)));
        }
        let lasted = |at: usize| turns[at].1 - turns[at - 1].1;
        assert!((2..2000).step_by(2).all(|at| lasted(at) == 10_000_000 && !turns[at].0));
        let gaps: Vec<u64> = (1..2000).step_by(2).map(lasted).collect();
        assert!(gaps.iter().all(|gap| (50_000_000..150_000_000).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean / 1e8 - 1.0).abs() < 0.01, "{mean}");
        assert!(gaps.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 10_000_000));
    }

    #[test]
    fn a_window_of_accesses_ends_with_them() {
        let mut clock = WindowClock::new("on=1000,off=1ms".parse().unwrap(), 0);
        assert_eq!((clock.turn(u64::MAX / 2, 999), clock.rest(0)), (None, Duration::MAX));
        assert_eq!(clock.turn(5, 1000), Some(false));
        assert_eq!(clock.turn(5, 1000), None);
        assert_eq!(clock.turn(5 + 1_500_000, 1200), Some(true));
        assert_eq!(clock.windows(), 2);
        assert_eq!((clock.turn(7, 2199), clock.turn(7, 2200), clock.windows()), (None, Some(false), 2));
    }
}
