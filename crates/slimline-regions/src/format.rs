//! The written profile: lines of words.
//!
//! | line | |
//! | --- | --- |
//! | `slimline-regions VERSION` | the first |
//! | `process ID DURATION_NS LOST_REGIONS LOST_THREADS BEGAN_NS` | the last by `CLOCK_MONOTONIC` |
//! | `run status STATUS WORD…`, `run signal SIGNAL WORD…` | how the command ended, and what it was |
//! | `cost INSIDE_PS OUTSIDE_PS` | of counting an execution; missing where it could not be measured |
//! | `watch START BYTES NAME FROM_NS UNTIL_NS` | range 0, 1, …; the first two hexadecimal, the name escaped as those of paths; by the same clock |
//! | `unwatched COUNT` | ends of watching what was not watched |
//! | `uncounted COUNT` | events that came while their thread was counting another one |
//! | `unwritten COUNT` | changes of a thread's path that could not be written where they were asked for |
//! | `unbegun COUNT` | ends of marked regions that had not begun there |
//! | `map START END OFFSET x PATH`, `map START END OFFSET - PATH` | code of a file, or else; hexadecimal |
//! | `code ADDRESS LINE FUNCTION FILE` | where code is in the source; hexadecimal, decimal, escaped; 0 and nothing where not known |
//! | `thread NUMBER KERNEL_ID` | |
//! | `path PARENT KIND code ADDRESS PART`, `path PARENT KIND name NAME` | path 1, 2, …; bytes of names that are no visible ASCII, and `%`, as `%XX` |
//! | `row PATH THREAD COUNT CREATED INCLUSIVE×4 EXCLUSIVE×4 LIMITED END` | times in nanoseconds |
//! | `end LINES` | the last: how many lines are before it |
//!
//! Several of them, one behind the other, are the profiles of a run's processes. `run` and `code` are added by who started the command: they are known when it has ended.
//!
//! Version 1: the first, without the times of `process` and `watch`, `unbegun`, `unwritten` and `uncounted`.
//! Version 2: this.

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::cost::Cost;
use crate::kind::{Kind, Phase};
use crate::path::{MAX_PATHS, Node, PathId, Place, Region};
use crate::profile::{Code, Ended, Mapping, Profile, Row, Run, Thread, Watched};
use crate::times::Times;

/// The version that is written.
pub const VERSION: u32 = 2;
const MAGIC: &str = "slimline-regions";

/// The environment variable that names the directory where profiles are written.
pub const DIRECTORY_VARIABLE: &str = "SLIMLINE_REGIONS";
/// The environment variable that names the functions that are regions, of those that the compiler instrumented: the path of the
/// program, a colon, and their addresses in that file, hexadecimal, with commas between. Without it all are.
pub const FUNCTIONS_VARIABLE: &str = "SLIMLINE_REGION_FUNCTIONS";
/// What a profile's file name ends in, after the process's number.
pub const SUFFIX: &str = ".regions";
/// The environment variable that, set to anything, has each change of a thread's path written down.
pub const STEPS_VARIABLE: &str = "SLIMLINE_REGION_STEPS";
/// What the names of the files of these end in, after the numbers of the process and of the thread.
pub const STEPS_SUFFIX: &str = ".steps";

/// Writes a profile line by line, and allocates nothing.
pub(crate) struct Writer<W> {
    to: W,
    lines: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut to: W) -> Result<Self, fmt::Error> {
        writeln!(to, "{MAGIC} {VERSION}")?;
        Ok(Self { to, lines: 1 })
    }

    pub(crate) fn process(&mut self, id: u32, (began_ns, duration_ns): (u64, u64), lost: [u64; 2]) -> fmt::Result {
        self.line(format_args!("process {id} {duration_ns} {} {} {began_ns}", lost[0], lost[1]))
    }

    pub(crate) fn run(&mut self, run: &Run) -> fmt::Result {
        let (how, number) = match run.ended {
            Ended::Status(status) => ("status", status),
            Ended::Signal(signal) => ("signal", signal),
        };
        let words: String = run.command.iter().map(|word| format!(" {}", Escaped(word))).collect();
        self.line(format_args!("run {how} {number}{words}"))
    }

    pub(crate) fn code(&mut self, code: &Code) -> fmt::Result {
        let Code { address, function, file, line } = code;
        self.line(format_args!("code {address:x} {line} {} {}", Escaped(function), Escaped(file)))
    }

    pub(crate) fn cost(&mut self, cost: Cost) -> fmt::Result {
        self.line(format_args!("cost {} {}", cost.inside_ps, cost.outside_ps))
    }

    pub(crate) fn watched(&mut self, watched: &Watched) -> fmt::Result {
        let Watched { start, bytes, name, from_ns, until_ns } = watched;
        self.line(format_args!("watch {start:x} {bytes:x} {} {from_ns} {until_ns}", Escaped(name)))
    }

    pub(crate) fn unwatched(&mut self, unknown_ends: u64) -> fmt::Result {
        self.line(format_args!("unwatched {unknown_ends}"))
    }

    pub(crate) fn unbegun(&mut self, unknown_ends: u64) -> fmt::Result {
        self.line(format_args!("unbegun {unknown_ends}"))
    }

    pub(crate) fn unwritten(&mut self, steps: u64) -> fmt::Result {
        self.line(format_args!("unwritten {steps}"))
    }

    pub(crate) fn uncounted(&mut self, events: u64) -> fmt::Result {
        self.line(format_args!("uncounted {events}"))
    }

    pub(crate) fn mapping(
        &mut self,
        [start, end, offset]: [u64; 3],
        is_code: bool,
        path: impl fmt::Display,
    ) -> fmt::Result {
        let code = if is_code { 'x' } else { '-' };
        self.line(format_args!("map {start:x} {end:x} {offset:x} {code} {path}"))
    }

    pub(crate) fn thread(&mut self, thread: Thread) -> fmt::Result {
        self.line(format_args!("thread {} {}", thread.number, thread.kernel_id))
    }

    pub(crate) fn path(&mut self, node: &Node) -> fmt::Result {
        let (PathId(parent), kind) = (node.parent, node.region.kind.name());
        match &node.region.place {
            Place::Code { address, part } => self.line(format_args!("path {parent} {kind} code {address:x} {part}")),
            Place::Name(name) => self.line(format_args!("path {parent} {kind} name {}", Escaped(name))),
        }
    }

    pub(crate) fn row(&mut self, path: PathId, thread: u32, times: &Times) -> fmt::Result {
        let ([a, b, c, d], [e, f, g, h]) = (times.inclusive_ns, times.exclusive_ns);
        let Times { count, created, limited_ns: limited, end_address: end, .. } = *times;
        self.line(format_args!(
            "row {} {thread} {count} {created} {a} {b} {c} {d} {e} {f} {g} {h} {limited} {end:x}",
            path.0
        ))
    }

    pub(crate) fn end(mut self) -> Result<W, fmt::Error> {
        writeln!(self.to, "end {}", self.lines)?;
        Ok(self.to)
    }

    fn line(&mut self, line: fmt::Arguments) -> fmt::Result {
        self.lines += 1;
        writeln!(self.to, "{line}")
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'!'..=b'~' if byte != b'%' => to.write_char(byte.into()),
            _ => write!(to, "%{byte:02x}"),
        })
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why a file is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It begins in another way.
    NoProfile,
    /// It is of that version, which is newer than this reader.
    Newer(u32),
    /// It ends before its end.
    CutOff,
    /// The line of that number, counted from 1, says nothing that may stand there.
    Line(usize),
}

impl fmt::Display for ReadError {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NoProfile => write!(to, "no profile of regions"),
            Self::Newer(version) => {
                write!(to, "a profile of regions of version {version}, and this reads up to version {VERSION}")
            }
            Self::CutOff => write!(to, "a profile of regions that is cut off"),
            Self::Line(line) => write!(to, "a damaged profile of regions: line {line}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a written profile.
///
/// # Errors
/// The bytes are no profile, are cut off or damaged, or are of a newer version.
pub fn read(bytes: &[u8]) -> Result<Profile, ReadError> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_terminator('\n');
    let version = lines.next().and_then(|line| line.strip_prefix(MAGIC)?.strip_prefix(' ')?.parse().ok());
    let version = match version.ok_or(ReadError::NoProfile)? {
        version @ 1..=VERSION => version,
        0 => return Err(ReadError::NoProfile),
        version => return Err(ReadError::Newer(version)),
    };
    let mut profile = Profile::default();
    for (before, line) in (1..).zip(lines) {
        if let Some(count) = line.strip_prefix("end ") {
            let is_last = text.ends_with('\n') && text.split_terminator('\n').count() == before + 1;
            return if is_last && count.parse() == Ok(before) { Ok(profile) } else { Err(ReadError::Line(before + 1)) };
        }
        take(line, version, &mut profile).ok_or(ReadError::Line(before + 1))?;
    }
    Err(ReadError::CutOff)
}

/// Reads profiles that were written one behind the other.
///
/// # Errors
/// As [`read`] of the first that can't be read; of a damaged one the line is its own.
pub fn read_all(bytes: &[u8]) -> Result<Vec<Profile>, ReadError> {
    let mut profiles = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() || profiles.is_empty() {
        let mut length = 0;
        let is_last = |line: &&[u8]| {
            length += line.len();
            line.starts_with(b"end ")
        };
        // Without an end it is cut off, as reading tells.
        let _ = rest.split_inclusive(|byte| *byte == b'\n').find(is_last);
        let (profile, behind) = rest.split_at(length);
        profiles.push(read(profile)?);
        rest = behind;
    }
    Ok(profiles)
}

fn take(line: &str, version: u32, profile: &mut Profile) -> Option<()> {
    let (what, rest) = line.split_once(' ')?;
    if what == "map" {
        let mut words = rest.splitn(5, ' ');
        let (start, end, offset) = (hexadecimal(&mut words)?, hexadecimal(&mut words)?, hexadecimal(&mut words)?);
        let is_code = match words.next()? {
            "x" => true,
            "-" => false,
            _ => return None,
        };
        profile.mappings.push(Mapping { start, end, offset, is_code, path: words.next()?.to_owned() });
        return Some(());
    }
    let words = &mut rest.split(' ');
    match what {
        "process" => {
            profile.process = u32::try_from(number(words)?).ok()?;
            profile.duration_ns = number(words)?;
            profile.lost_regions = number(words)?;
            profile.lost_threads = number(words)?;
            profile.began_ns = if version > 1 { number(words)? } else { 0 };
        }
        "cost" => profile.cost = Some(Cost { inside_ps: number(words)?, outside_ps: number(words)? }),
        "watch" => {
            let (start, bytes) = (hexadecimal(words)?, hexadecimal(words)?);
            let name = unescaped(words.next()?)?;
            let (from_ns, until_ns) = if version > 1 { (number(words)?, number(words)?) } else { (0, u64::MAX) };
            profile.watched.push(Watched { start, bytes, name, from_ns, until_ns });
        }
        "run" => {
            let (how, status) = (words.next()?, words.next()?.parse().ok()?);
            let ended = match how {
                "status" => Ended::Status(status),
                "signal" => Ended::Signal(status),
                _ => return None,
            };
            profile.run = Some(Run { ended, command: words.map(unescaped).collect::<Option<_>>()? });
        }
        "code" => {
            let (address, line) = (hexadecimal(words)?, u32::try_from(number(words)?).ok()?);
            profile.code.push(Code {
                address,
                line,
                function: unescaped(words.next()?)?,
                file: unescaped(words.next()?)?,
            });
        }
        "unwatched" => profile.unknown_unwatches = number(words)?,
        "uncounted" => profile.lost_events = number(words)?,
        "unwritten" => profile.lost_steps = number(words)?,
        "unbegun" => profile.unknown_ends = number(words)?,
        "thread" => {
            let number_of = u32::try_from(number(words)?).ok()?;
            profile.threads.push(Thread { number: number_of, kernel_id: u32::try_from(number(words)?).ok()? });
        }
        "path" => {
            let parent = u32::try_from(number(words)?).ok()?;
            if parent as usize > profile.nodes.len() || profile.nodes.len() >= MAX_PATHS {
                return None;
            }
            let kind = Kind::from_name(words.next()?)?;
            let place = match words.next()? {
                "code" => Place::Code { address: hexadecimal(words)?, part: u32::try_from(number(words)?).ok()? },
                "name" => Place::Name(Arc::from(unescaped(words.next()?)?)),
                _ => return None,
            };
            profile.nodes.push(Node { parent: PathId(parent), region: Region { kind, place } });
        }
        "row" => {
            let path = PathId(u32::try_from(number(words)?).ok()?);
            let thread = u32::try_from(number(words)?).ok()?;
            profile.node(path)?;
            profile.threads.iter().find(|known| known.number == thread)?;
            let mut times = Times { count: number(words)?, created: number(words)?, ..Times::default() };
            for ns in times.inclusive_ns.iter_mut().chain(&mut times.exclusive_ns) {
                *ns = number(words)?;
            }
            times.limited_ns = number(words)?;
            times.end_address = hexadecimal(words)?;
            profile.rows.push(Row { path, thread, times });
        }
        _ => return None,
    }
    words.next().is_none().then_some(())
}

const _: () = assert!(Phase::COUNT == 4, "a row has four times and four");

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn hexadecimal<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    u64::from_str_radix(words.next()?, 16).ok()
}

impl Profile {
    /// The file that [`read`] makes this of.
    #[must_use]
    pub fn written(&self) -> String {
        let write = || {
            let mut writer = Writer::new(String::new())?;
            writer.process(self.process, (self.began_ns, self.duration_ns), [self.lost_regions, self.lost_threads])?;
            self.run.as_ref().map_or(Ok(()), |run| writer.run(run))?;
            self.cost.map_or(Ok(()), |cost| writer.cost(cost))?;
            self.watched.iter().try_for_each(|watched| writer.watched(watched))?;
            writer.unwatched(self.unknown_unwatches)?;
            writer.unbegun(self.unknown_ends)?;
            writer.unwritten(self.lost_steps)?;
            writer.uncounted(self.lost_events)?;
            for mapping in &self.mappings {
                let Mapping { start, end, offset, is_code, ref path } = *mapping;
                writer.mapping([start, end, offset], is_code, path)?;
            }
            self.code.iter().try_for_each(|code| writer.code(code))?;
            self.threads.iter().try_for_each(|thread| writer.thread(*thread))?;
            self.nodes.iter().try_for_each(|node| writer.path(node))?;
            self.rows.iter().try_for_each(|row| writer.row(row.path, row.thread, &row.times))?;
            writer.end()
        };
        write().unwrap_or_default() // strings take all
    }
}
