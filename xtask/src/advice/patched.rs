//! Programs of others, changed by nothing but what `slimline advise TRACE --patch` writes: those of LLVM's test-suite, of which nothing
//! enters the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Advised, Row};
use crate::compilers::Compilers;
use crate::measure::{Pair, timed};
use crate::slimline::Slimline;

/// A program of one directory of C.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// In `MultiSource/Benchmarks` of the test-suite.
    directory: &'static str,
    options: &'static str,
    arguments: &'static [&'static str],
}

const fn olden(name: &'static str, directory: &'static str, arguments: &'static [&'static str]) -> Program {
    Program { name, directory, options: "-std=gnu89 -w -DTORONTO", arguments }
}

pub(super) const PROGRAMS: &[Program] = &[
    olden("perimeter", "Olden/perimeter", &["10"]),
    olden("treeadd", "Olden/treeadd", &["20"]),
    olden("bisort", "Olden/bisort", &["262144"]),
    olden("em3d", "Olden/em3d", &["40000", "10", "20"]),
    olden("tsp", "Olden/tsp", &["1024000"]),
];

/// In the program's own directory, with `OPTIONS` of the compiler.
const SCRIPT: &str = "$CC -O2 -g $OPTIONS *.c -o \"$OUTPUT\" -lm";

impl Program {
    /// Traces it, has what is advised written into a copy of its sources, and runs both.
    pub(super) fn row(&self, slimline: &Slimline, machine: &str, suite: &Path, runs: usize) -> Result<Row> {
        let scratch = slimline.session(self.name);
        let row = self.tried(slimline, machine, suite, &scratch, runs);
        std::fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        row
    }

    fn tried(&self, slimline: &Slimline, machine: &str, suite: &Path, scratch: &Path, runs: usize) -> Result<Row> {
        let sources = scratch.join("sources");
        std::fs::create_dir_all(&sources)?;
        let original = suite.join("MultiSource/Benchmarks").join(self.directory);
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(original.join(".")).arg(&sources);
        timed(copy).context("no LLVM test-suite with that program")?;
        let traced = self.build(&slimline.compilers()?, &sources, scratch.join("traced"))?;
        let trace = scratch.join("run.trace");
        timed(slimline.trace(&self.command(&traced), &["-o".as_ref(), trace.as_os_str()]))?;
        let before = self.build(&Compilers::clang(), &sources, scratch.join("before"))?;
        let diff = scratch.join("change.diff");
        let path = diff.to_str().context("the path is not UTF-8")?;
        let advised = Advised::of(slimline, &trace, &["--machine", machine, "--patch", path])?;
        let (Some(together), Some(patch)) = (advised.together, advised.patch) else {
            bail!("{}: nothing is advised", self.name);
        };
        if let Some(refused) = patch.structures.iter().find_map(|of| of.refused.as_ref()) {
            bail!("{}: not all that is advised was patched: {refused}", self.name);
        }
        let mut apply = Command::new("patch");
        apply.args(["-s", "-p1", "-i"]).arg(&diff).current_dir(&patch.directory);
        timed(apply)?;
        let after = self.build(&Compilers::clang(), &sources, scratch.join("after"))?;
        let pair = Pair::measure(runs, || Ok(self.command(&before)), || Ok(self.command(&after)))?;
        let changes =
            advised.structures.iter().filter_map(|of| Some(of.advice.as_ref()?.layout.change.replace('_', " ")));
        let change = changes.collect::<Vec<_>>().join(", ");
        Ok(Row {
            name: self.name,
            change: format!("{change} (patch)"),
            predicted: together.time_ratio,
            measured: pair.wall_ratio().median,
            advised: Some((change, together)),
        })
    }

    fn build(&self, compilers: &Compilers, sources: &Path, executable: PathBuf) -> Result<PathBuf> {
        let mut command = Command::new("sh");
        command.args(["-c", &compilers.in_script(&SCRIPT.replace("$OPTIONS", self.options))]);
        command.current_dir(sources).env("OUTPUT", &executable);
        timed(command).with_context(|| format!("building {}", self.name))?;
        Ok(executable)
    }

    fn command(&self, executable: &Path) -> Command {
        let mut command = Command::new(executable);
        command.args(self.arguments);
        command
    }
}
