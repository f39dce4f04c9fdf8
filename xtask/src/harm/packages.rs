//! Debian packages drawn at random (`draw`): what their programs are given to do.

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Case;
use crate::setup;

const LIST: &str = include_str!("packages.toml");

/// Shell functions that scripts of [`LIST`] make inputs with.
const INPUTS: &str = include_str!("inputs.sh");

/// What became of the drawn packages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drawn {
    /// Those that are run, in the order of the draw.
    package: Vec<Package>,
    passed_over: Vec<PassedOver>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    /// Version that the command was last run with, alone and recorded.
    version: String,
    /// Other packages that make its input.
    #[serde(default)]
    needs: Vec<String>,
    /// Shell script that makes input, not recorded.
    #[serde(default)]
    prepare: String,
    /// Shell script: the package's main work.
    command: String,
    /// CPU seconds that it took then.
    cpu_seconds: f64,
    /// What the package's own programs start, beside the shell of the command.
    #[serde(default)]
    starts: Option<Starts>,
    /// Whether `cargo xtask test` runs it, too: `cargo xtask setup` installs it.
    #[serde(default)]
    in_ci: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Starts {
    Threads,
    Children,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassedOver {
    name: String,
    reason: String,
}

impl Drawn {
    pub(super) fn read() -> Result<Self> {
        toml::from_str(LIST).context("packages.toml")
    }

    /// How a package is run, or why not; `None` if it is in neither list.
    pub(super) fn fate_of(&self, name: &str) -> Option<String> {
        let run = self.package.iter().find(|package| package.name == name);
        let passed_over = || self.passed_over.iter().find(|passed| passed.name == name);
        run.map(Package::summary).or_else(|| passed_over().map(|passed| passed.reason.clone()))
    }
}

impl Package {
    fn summary(&self) -> String {
        format!("run: version {}, {:.1} CPU seconds{}", self.version, self.cpu_seconds, self.started())
    }

    fn started(&self) -> &'static str {
        match self.starts {
            Some(Starts::Threads) => ", threads",
            Some(Starts::Children) => ", children",
            None => "",
        }
    }
}

/// The cases, whose packages are installed then; only those of `only`, if that names any package.
pub(super) fn cases(in_ci: bool, only: &[String]) -> Result<Vec<Case>> {
    let wanted = |package: &Package| only.is_empty() || only.contains(&package.name);
    let packages: Vec<Package> =
        Drawn::read()?.package.into_iter().filter(|package| wanted(package) && (!in_ci || package.in_ci)).collect();
    let names = packages.iter().flat_map(|package| package.needs.iter().chain([&package.name]));
    setup::install_debian(&names.map(String::as_str).collect::<Vec<_>>())?;
    Ok(packages.into_iter().map(case).collect())
}

fn case(package: Package) -> Case {
    let prepare = format!("{INPUTS}\n{}", package.prepare);
    let Package { name, command, .. } = package;
    Case { name, prepare, command, is_isolated: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measure, root};

    /// The table of docs/harm.md.
    fn table(drawn: &Drawn) -> String {
        let rows = drawn.package.iter().map(|package| {
            let started = package.started().trim_start_matches(", ");
            format!("| {} | {} | {:.1} | {started} |\n", package.name, package.version, package.cpu_seconds)
        });
        format!("| package | version | CPU seconds | starts |\n| --- | --- | --- | --- |\n{}", rows.collect::<String>())
    }

    #[test]
    fn the_page_lists_what_is_run() {
        let (page, table) = (measure::read(&root().join("docs/harm.md")).unwrap(), table(&Drawn::read().unwrap()));
        assert!(page.contains(&table), "docs/harm.md must hold this table:\n{table}");
    }

    #[test]
    fn each_drawn_package_has_one_fate() {
        let drawn = Drawn::read().unwrap();
        let run = drawn.package.iter().map(|package| &package.name);
        let mut names: Vec<&String> = run.chain(drawn.passed_over.iter().map(|passed| &passed.name)).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(drawn.passed_over.iter().all(|passed| passed.reason.len() > 10));
        assert!(drawn.fate_of("gawk").unwrap().starts_with("run: version "));
        assert_eq!(drawn.fate_of("no such package"), None);
    }

    #[test]
    fn commands_do_the_work_that_is_promised() {
        let drawn = Drawn::read().unwrap();
        for package in &drawn.package {
            assert!(package.cpu_seconds >= 1.0 && !package.version.is_empty(), "{}", package.name);
        }
        let starting = drawn.package.iter().filter(|package| package.starts.is_some()).count();
        assert!(starting >= 32, "only {starting} start threads or children");
    }
}
