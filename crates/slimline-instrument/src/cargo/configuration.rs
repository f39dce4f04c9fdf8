//! How cargo is configured, as far as it matters here: cargo has no stable command that says so.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Where what the command line says is.
const GIVEN: &str = "--config";

/// Of cargo's configuration the table `build`, what takes precedence first.
#[derive(Debug, Default)]
pub(super) struct Configuration(Vec<Source>);

#[derive(Debug)]
struct Source {
    /// The command line, or the file.
    place: String,
    build: Table,
}

impl Configuration {
    /// What cargo reads in this directory: what follows `--config`, then files, from the directory outwards, then at home.
    pub(super) fn read(directory: &Path, given: &[OsString]) -> Self {
        let given = given.iter().rev().filter_map(|given| {
            let file = directory.join(given);
            // A file, or what would be in one.
            let text = fs::read_to_string(&file).ok().or_else(|| given.to_str().map(str::to_owned))?;
            Source::parse(GIVEN, &text)
        });
        let home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        let directories = directory.ancestors().map(|directory| directory.join(".cargo")).chain(home);
        let files = directories.filter_map(|directory| {
            // The older name is the one that cargo takes where both are.
            let mut files = ["config", "config.toml"].map(|name| directory.join(name)).into_iter();
            let file = files.find(|file| file.is_file())?;
            Source::parse(&file.display().to_string(), &fs::read_to_string(&file).ok()?)
        });
        Self(given.chain(files).collect())
    }

    /// The targets that are built for by `build.target`, and where it says so. `from_command_line` are those alone that take
    /// precedence over the environment.
    pub(super) fn targets(&self, from_command_line: bool) -> Option<(Vec<String>, &str)> {
        let sources = self.0.iter().filter(|source| !from_command_line || source.place == GIVEN);
        let named = sources.filter_map(|source| Some((texts(source.build.get("target")?), &*source.place))).next();
        // An empty list is what cargo takes for none.
        named.filter(|(targets, _)| !targets.is_empty())
    }

    /// Whether programs are named to run in the place of rustc.
    pub(super) fn has_wrapper(&self) -> bool {
        let named = self.0.iter().find_map(|source| source.build.get("rustc-wrapper"));
        named.is_some_and(|wrapper| wrapper.as_str() != Some(""))
    }
}

impl Source {
    /// None where there is no such table; what can't be read cargo refuses.
    fn parse(place: &str, text: &str) -> Option<Self> {
        let Value::Table(build) = text.parse::<Table>().ok()?.remove("build")? else { return None };
        Some(Self { place: place.to_owned(), build })
    }
}

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        value => text(value).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearer_takes_precedence() {
        let scratch = tempfile::tempdir().unwrap();
        let inner = scratch.path().join("a/b");
        let write = |name: &str, text: &str| {
            let file = scratch.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        fs::create_dir_all(&inner).unwrap();
        write(".cargo/config.toml", "build.target = 'outer'\nbuild.rustc-wrapper = 'sccache'");
        let read = |given: &[&str]| Configuration::read(&inner, &given.iter().map(OsString::from).collect::<Vec<_>>());
        let outer = read(&[]);
        let file = scratch.path().join(".cargo/config.toml").display().to_string();
        assert_eq!(outer.targets(false), Some((vec!["outer".to_owned()], &*file)));
        assert_eq!(outer.targets(true), None);
        assert!(outer.has_wrapper());
        write("a/b/.cargo/config.toml", "[build]\ntarget = ['one', 'two']\nrustc-wrapper = ''");
        let nearer = read(&[]);
        assert_eq!(nearer.targets(false).unwrap().0, ["one", "two"]);
        assert!(!nearer.has_wrapper());
        // The last one given, which may be a file.
        let given = read(&["build.target='first'", "build.target='last'"]);
        assert_eq!(given.targets(true), Some((vec!["last".to_owned()], "--config")));
        write("a/b/more", "build.target = 'in a file'");
        assert_eq!(read(&["more"]).targets(true), Some((vec!["in a file".to_owned()], "--config")));
        write("a/b/.cargo/config.toml", "build = [not toml");
        assert_eq!(read(&[]).targets(false).unwrap().0, ["outer"]);
    }
}
