//! What a program states about itself, and what a run of it measured.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// What a program's first comment states.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Data structures, the hottest first.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// Loops that take the time.
    #[serde(rename = "loop")]
    pub loops: Vec<Loop>,
}

/// A data structure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name of the variable that holds it.
    pub name: String,
    /// Name of its elements' type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Size of an element.
    pub element_bytes: u64,
    /// Where the first element starts in its block.
    #[serde(default)]
    pub start: u64,
    /// `heap` (default) or `static`.
    #[serde(default = "heap")]
    pub kind: String,
    /// Byte offset of each field, by name (leaf path of nested structures).
    #[serde(default)]
    pub fields: BTreeMap<String, u64>,
    /// The program's own line that allocates it.
    pub allocated_at: Option<AllocatedAt>,
    /// The intended split: parts of field names. Parts of fields that no loop uses may be advised otherwise.
    #[serde(default)]
    pub split: Vec<Vec<String>>,
    /// Known affinities: two fields and the value.
    #[serde(default)]
    pub affinity: Vec<(String, String, f64)>,
}

fn heap() -> String {
    "heap".to_owned()
}

/// Where a group is allocated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatedAt {
    /// Function, as the source has it.
    pub function: String,
    /// 1-based line.
    pub line: u32,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Its name in the `TRUTH` file.
    pub name: String,
    /// Function that holds it.
    pub function: Option<String>,
    /// First and last line of its code, 1-based.
    pub lines: Option<[u32; 2]>,
    /// The group that its time goes to.
    pub group: Option<String>,
    /// Fields of that group that it uses.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Distance between its consecutive accesses to one field, where it is constant.
    pub stride_bytes: Option<u64>,
    /// It mostly allocates: recorded, it spends its time on the tracking of that, which no sample counts.
    #[serde(default)]
    pub allocates: bool,
    /// Other groups that it reads at negligible cost.
    #[serde(default)]
    pub also: Vec<String>,
    /// Instead of `group`: groups that share its time in proportion to these other loops' times.
    #[serde(default)]
    pub divide: BTreeMap<String, String>,
}

impl Truth {
    /// Reads the TOML that follows a comment line `truth:` in a source text.
    pub(crate) fn from_comment(text: &str) -> Result<Self> {
        let mut comments = text.lines().map_while(|line| {
            let comment = line.strip_prefix("//")?;
            let comment = comment.strip_prefix('!').unwrap_or(comment);
            Some(comment.strip_prefix(' ').unwrap_or(comment))
        });
        if !comments.any(|line| line == "truth:") {
            bail!("its first comment has no line `truth:`");
        }
        let stated: Vec<&str> = comments.collect();
        Ok(toml::from_str(&stated.join("\n"))?)
    }

    /// The group's share of the process's time, 0 to 1: the least and the most that the loop times allow. What no loop
    /// of the truth accounts for (start-up, filling the arrays) may or may not touch the group.
    pub fn group_share(&self, group: &str, times: &Times) -> Result<RangeInclusive<f64>> {
        let (mut in_group_ns, mut elsewhere_ns) = (0.0, 0.0);
        for stated in &self.loops {
            let loop_ns = times.loop_ns(&stated.name)?;
            let of_group = if stated.group.as_deref() == Some(group) { 1.0 } else { stated.part_of(group, times)? };
            in_group_ns += loop_ns * of_group;
            elsewhere_ns += loop_ns * (1.0 - of_group);
        }
        let process_ns = times.process_ns as f64;
        Ok(in_group_ns / process_ns..=1.0 - elsewhere_ns / process_ns)
    }
}

impl Loop {
    /// Part of its time that goes to `group` by `divide`.
    fn part_of(&self, group: &str, times: &Times) -> Result<f64> {
        let Some(alone) = self.divide.get(group) else { return Ok(0.0) };
        let mut all_ns = 0.0;
        for alone in self.divide.values() {
            all_ns += times.loop_ns(alone)?;
        }
        Ok(times.loop_ns(alone)? / all_ns)
    }
}

/// CPU times that one run wrote to its `TRUTH` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    loops_ns: BTreeMap<String, u64>,
    /// The whole process.
    pub process_ns: u64,
}

impl Times {
    /// Reads a `TRUTH` file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        text.parse().with_context(|| path.display().to_string())
    }

    /// Time of one loop in nanoseconds.
    pub fn loop_ns(&self, name: &str) -> Result<f64> {
        self.loops_ns.get(name).map(|ns| *ns as f64).with_context(|| format!("no time of loop {name}"))
    }

    /// Takes over the time of one loop from another run, and the process's time accordingly.
    pub fn replace(&mut self, name: &str, other: &Self) -> Result<()> {
        let (own_ns, other_ns) = (self.loop_ns(name)? as u64, other.loop_ns(name)? as u64);
        self.process_ns = self.process_ns.saturating_sub(own_ns) + other_ns;
        self.loops_ns.insert(name.to_owned(), other_ns);
        Ok(())
    }

    /// A loop's share of the process's time, 0 to 1.
    pub fn loop_share(&self, name: &str) -> Result<f64> {
        Ok(self.loop_ns(name)? / self.process_ns as f64)
    }
}

impl FromStr for Times {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut times = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["loop", name, ns] => {
                    times.loops_ns.insert(name.to_owned(), ns.parse()?);
                }
                ["process", ns] => times.process_ns = ns.parse()?,
                _ => bail!("neither a loop nor the process: {line}"),
            }
        }
        if times.process_ns == 0 {
            bail!("ends before the process's time");
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"// Two loops.
//
// truth:
// [[group]]
// name = "a"
// type = "t"
// element_bytes = 8
//
// [[group]]
// name = "b"
// type = "t"
// element_bytes = 8
//
// [[loop]]
// name = "one"
// lines = [20, 21]
// group = "a"
//
// [[loop]]
// name = "two"
// divide = { a = "one", b = "three" }
//
// [[loop]]
// name = "three"
// group = "b"

int main(void) { return 0; }
"#;

    #[test]
    fn the_comment_ends_where_the_code_begins() {
        let truth = Truth::from_comment(SOURCE).unwrap();
        assert_eq!(truth.groups.len(), 2);
        assert_eq!(truth.groups[0].kind, "heap");
        assert_eq!(truth.loops[0].lines, Some([20, 21]));
    }

    #[test]
    fn a_typing_error_is_no_silent_default() {
        assert!(Truth::from_comment(&SOURCE.replace("// lines", "// line")).is_err());
        assert!(Truth::from_comment("// no truth\n").is_err());
    }

    #[test]
    fn time_of_no_stated_loop_widens_the_share() {
        let truth = Truth::from_comment(SOURCE).unwrap();
        let times = "loop one 100\nloop two 400\nloop three 300\nprocess 1000\n".parse::<Times>().unwrap();
        // a: 100 + 400 · 100/400 = 200; b: 300 + 300 = 600; 200 of no loop.
        let (a, b) = (truth.group_share("a", &times).unwrap(), truth.group_share("b", &times).unwrap());
        for (found, expected) in [(*a.start(), 0.2), (*a.end(), 0.4), (*b.start(), 0.6), (*b.end(), 0.8)] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn a_loop_of_another_run_changes_the_whole() {
        let mut recorded = "loop build 700\nloop tour 250\nprocess 1000\n".parse::<Times>().unwrap();
        let alone = "loop build 40\nloop tour 220\nprocess 270\n".parse::<Times>().unwrap();
        recorded.replace("build", &alone).unwrap();
        assert_eq!(recorded, "loop build 40\nloop tour 250\nprocess 340\n".parse::<Times>().unwrap());
        assert!(recorded.replace("link", &alone).is_err());
    }

    #[test]
    fn a_cut_off_file_is_an_error() {
        assert!("loop one 100\n".parse::<Times>().is_err());
        assert!("loop one\nprocess 3\n".parse::<Times>().is_err());
    }
}
