//! The oracle: exact counts per allocation site and field, from a Valgrind tool that shares no code with slimline.
//!
//! Its source lies outside the repository, in the directory that `$SLIMLINE_ORACLE` names, else in `shared/oracle`
//! beside the repository. It is built into `<target>/oracle`, where its results are cached too: a run takes fifty to
//! a hundred times the native time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sample_programs::{Optimization, Program};
use serde::{Deserialize, Serialize};

use crate::measure::{read, timed};
use crate::{root, setup, target_dir};

/// Exact counts of one run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Counts {
    /// All loads of the process.
    pub(crate) reads: u64,
    /// All stores of the process.
    pub(crate) writes: u64,
    /// Allocation sites, most accessed first; accesses outside the heap are the site with id 0.
    pub(crate) sites: Vec<Site>,
}

/// An allocation site.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub(crate) struct Site {
    pub(crate) id: u32,
    /// `function file:line` of the innermost frame above the allocator.
    pub(crate) name: String,
    /// Element size that `fields` is by; 0 where none was asked for.
    pub(crate) element_bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) loaded_bytes: u64,
    pub(crate) stored_bytes: u64,
    /// By the offset where the access starts.
    pub(crate) fields: Vec<Field>,
    /// By the line that accesses, most accessed first.
    pub(crate) lines: Vec<Line>,
}

/// Accesses that start at one offset of the element (of the block, without element size).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Field {
    pub(crate) offset: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// By how many bytes are accessed at once: bytes, reads, writes.
    pub(crate) sizes: Vec<(u64, u64, u64)>,
}

/// Accesses of one line to the blocks of a site.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Line {
    /// `function file:line`.
    pub(crate) name: String,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Lines that are asked for: more than programs have that access the heap.
const LINES: u32 = 100_000;

/// What to ask of one run.
pub(crate) struct Question<'a> {
    /// Executable.
    pub(crate) program: &'a Path,
    /// Its arguments.
    pub(crate) arguments: &'a [String],
    /// Part of a site's name, and the size of its elements.
    pub(crate) elements: &'a [(String, u64)],
    /// Allocator wrappers to look through.
    pub(crate) skip: &'a [&'a str],
}

/// The built tool.
pub(crate) struct Oracle {
    directory: PathBuf,
}

impl Oracle {
    /// Builds the tool unless it is there.
    pub(crate) fn build() -> Result<Self> {
        let directory = target_dir()?.join("oracle");
        if !directory.join("mf").exists() {
            setup::install(setup::ORACLE)?;
            let mut build = Command::new("bash");
            build.arg(source()?.join("build.sh")).arg(&directory);
            timed(build).context("building the oracle")?;
        }
        Ok(Self { directory })
    }

    /// Runs the program under the tool, or reads what an earlier run of the same question said.
    pub(crate) fn ask(&self, question: &Question<'_>) -> Result<Counts> {
        let mut options = vec![format!("--nlines={LINES}")];
        options.extend(question.elements.iter().map(|(site, bytes)| format!("--elem={site}:{bytes}")));
        options.extend(question.skip.iter().map(|function| format!("--skip={function}")));
        let answer = self.directory.join(format!("{:016x}.txt", fingerprint(question, &options)?));
        if !answer.exists() {
            let unfinished = answer.with_extension(std::process::id().to_string());
            let mut command = Command::new(self.directory.join("mf"));
            command.args(&options).arg(format!("--out={}", unfinished.display())).arg("--");
            command.arg(question.program).args(question.arguments);
            timed(command)?;
            std::fs::rename(&unfinished, &answer)?;
        }
        Counts::parse(&read(&answer)?).with_context(|| answer.display().to_string())
    }
}

/// Where the tool's source is.
fn source() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("SLIMLINE_ORACLE") {
        return Ok(named.into());
    }
    match root().ancestors().map(|above| above.join("shared/oracle")).find(|found| found.join("build.sh").exists()) {
        Some(found) => Ok(found),
        None => bail!("no oracle: set SLIMLINE_ORACLE to the directory of its build.sh"),
    }
}

/// Changes with the executable and whatever else the answer depends on.
fn fingerprint(question: &Question<'_>, options: &[String]) -> Result<u64> {
    let executable = std::fs::read(question.program).with_context(|| question.program.display().to_string())?;
    let mut hasher = DefaultHasher::new();
    (executable, question.arguments, options).hash(&mut hasher);
    Ok(hasher.finish())
}

impl Counts {
    /// Reads what the tool wrote.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let total = lines.next().and_then(|line| line.strip_prefix("TOTAL ")).context("no line TOTAL")?;
        let mut counts = Self { reads: count(total, "reads")?, writes: count(total, "writes")?, sites: Vec::new() };
        for line in lines {
            if let Some(site) = line.strip_prefix("SITE ") {
                let (id, rest) = site.split_once(" [").context("a site without name")?;
                let (name, rest) = rest.rsplit_once("] ").context("a site without name")?;
                counts.sites.push(Site {
                    id: id.parse()?,
                    name: name.to_owned(),
                    element_bytes: count(rest, "elem")?,
                    blocks: count(rest, "blocks")?,
                    bytes: count(rest, "bytes")?,
                    reads: count(rest, "reads")?,
                    writes: count(rest, "writes")?,
                    loaded_bytes: count(rest, "rbytes")?,
                    stored_bytes: count(rest, "wbytes")?,
                    fields: Vec::new(),
                    lines: Vec::new(),
                });
            } else if let Some(field) = line.strip_prefix("   +") {
                let (offset, rest) = field.split_once(' ').context("a field without offset")?;
                let field = Field {
                    offset: offset.parse()?,
                    reads: count(rest, "r")?,
                    writes: count(rest, "w")?,
                    sizes: rest.split_once(" sizes ").map_or(Ok(Vec::new()), |(_, sizes)| parse_sizes(sizes))?,
                };
                counts.sites.last_mut().context("a field before any site")?.fields.push(field);
            } else if let Some((accesses, rest)) = line.split_once(" w [") {
                let (name, site) = rest.split_once("] -> site ").context("a line without site")?;
                let id: u32 = site.split(' ').next().unwrap_or_default().parse()?;
                let (reads, writes) = accesses.trim().split_once(" r ").context("a line without counts")?;
                let line = Line { name: name.to_owned(), reads: reads.parse()?, writes: writes.parse()? };
                // The tool leaves out sites that are hardly accessed.
                if let Some(site) = counts.sites.iter_mut().find(|site| site.id == id) {
                    site.lines.push(line);
                }
            }
        }
        Ok(counts)
    }

    /// The most accessed site whose name contains `part`.
    pub(crate) fn site(&self, part: &str) -> Result<&Site> {
        self.sites.iter().find(|site| site.name.contains(part)).with_context(|| {
            let names: Vec<&str> = self.sites.iter().map(|site| site.name.as_str()).collect();
            format!("the oracle saw no site {part}, but: {}", names.join(", "))
        })
    }
}

/// `8:99/1 16:0/1`: bytes, reads, writes.
fn parse_sizes(words: &str) -> Result<Vec<(u64, u64, u64)>> {
    let one = |word: &str| {
        let (bytes, accesses) = word.split_once(':')?;
        let (reads, writes) = accesses.split_once('/')?;
        Some((bytes.parse().ok()?, reads.parse().ok()?, writes.parse().ok()?))
    };
    words.split_whitespace().map(|word| one(word).with_context(|| format!("no size: {word}"))).collect()
}

/// The number after the word `name` in a line of words.
fn count(words: &str, name: &str) -> Result<u64> {
    let mut words = words.split_whitespace();
    words.find(|word| *word == name).with_context(|| format!("no {name}"))?;
    Ok(words.next().with_context(|| format!("no number after {name}"))?.parse()?)
}

/// `cargo xtask oracle`: the counts of sample programs as one JSON object, by name.
pub(crate) fn print(programs: &[String], arguments: &[String]) -> Result<()> {
    let oracle = Oracle::build()?;
    let mut answers = serde_json::Map::new();
    for name in programs {
        let program = Program::named(name)?;
        let executable = program.build(Optimization::O2, &target_dir()?.join("programs"))?;
        let elements: Vec<(String, u64)> = match program.truth() {
            Ok(truth) => truth
                .groups
                .iter()
                .filter_map(|group| Some((site_name(&program, group.allocated_at.as_ref()?), group.element_bytes)))
                .collect(),
            // Programs for the overhead bench state nothing: their counts come without element sizes.
            Err(_) => Vec::new(),
        };
        let counts = oracle.ask(&Question { program: &executable, arguments, elements: &elements, skip: &[] })?;
        answers.insert(name.clone(), serde_json::to_value(counts)?);
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&answers)?)?;
    Ok(())
}

/// How the oracle names a site of a program of ours: by the function that really holds the call. Where the standard
/// library allocates, inlined or not, its line is the library's.
pub(crate) fn site_name(program: &Program, at: &sample_programs::AllocatedAt) -> String {
    let file = program.source.file_name().unwrap_or_default().to_string_lossy();
    match (program.name.as_str(), program.language) {
        ("particles", _) => "std::vector<sky::Particle".to_owned(),
        ("threads", _) => "Truth::time library/alloc".to_owned(),
        (name, sample_programs::Language::Rust) => format!("{name}::{} library/alloc", at.function),
        _ => format!("{} {file}:{}", at.function, at.line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\
TOTAL reads 3863354 writes 3642400 rbytes 29520794 wbytes 30338237 heap_reads 1000003 heap_writes 700017
SITE 0 [(not heap)] elem 0 blocks 0 bytes 0 maxblk 0 reads 2863351 writes 2942383 rbytes 1 wbytes 2 straddle 0
SITE 1 [V<a, B[2]>::f(int) tsp.c:40] elem 56 blocks 9 bytes 504 maxblk 56 reads 100 writes 7 rbytes 8 wbytes 6 straddle 0
   +0    r 1 w 5  (5.88%) sizes 4:1/5
   +8    r 99 w 2  (17.64%) sizes 8:99/1 16:0/1
LINES (by access)
  800008 r 900009 w [malloc ?:0] -> site 0 [(not heap)]
  100 r 7 w [g(long) tsp.c:52] -> site 1 [V<a, B[2]>::f(int) tsp.c:40]
";

    #[test]
    fn sites_and_fields_are_read() {
        let counts = Counts::parse(ANSWER).unwrap();
        assert_eq!((counts.reads, counts.writes, counts.sites.len()), (3_863_354, 3_642_400, 2));
        let site = counts.site("tsp.c:40").unwrap();
        assert_eq!((site.name.as_str(), site.element_bytes, site.blocks), ("V<a, B[2]>::f(int) tsp.c:40", 56, 9));
        assert_eq!(site.fields[1], Field { offset: 8, reads: 99, writes: 2, sizes: vec![(8, 99, 1), (16, 0, 1)] });
        assert_eq!(site.lines, [Line { name: "g(long) tsp.c:52".to_owned(), reads: 100, writes: 7 }]);
        assert!(counts.site("other.c").is_err());
    }

    #[test]
    fn a_cut_off_answer_is_an_error() {
        assert!(Counts::parse("").is_err());
        assert!(Counts::parse(&ANSWER.replace(" blocks 9", "")).is_err());
    }
}
