//! `slimline cargo`: cargo, told to use our tools and a target directory of its own.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::compiling::RUSTDOC_VARIABLE;
use super::configuration::Configuration;
use super::toolchain::{Version, asked, libllvm_in};
use super::{ALLOCATORS_VARIABLE, CargoError, TARGET, Tool, io_error, make_tool};
use crate::driver::{VALUES_ARGUMENT, exit_status};
use crate::llvm::Llvm;
use crate::rewrite::OwnAllocators;

/// By which cargo is told what to build for.
const TARGET_VARIABLE: &str = "CARGO_BUILD_TARGET";
/// Below the directory in which cargo would build.
const DIRECTORY: &str = "slimline";
/// Where in it our tools are.
const TOOLS: &str = "tools";
/// cargo's commands that make programs or tests, which say so.
const BUILDING: &[&str] = &["build", "b", "run", "r", "test", "t", "bench", "rustc", "install", "nextest"];

/// Runs cargo with these arguments, so that what it builds is traced. Ends with cargo's status, 128 + n where signal n
/// ended it. `allocators` are those of the program's own.
pub fn build(arguments: &[OsString], allocators: &OwnAllocators) -> Result<u8, CargoError> {
    // What comes behind `--` is the program's.
    let own = arguments.iter().position(|it| it == "--").unwrap_or(arguments.len());
    let (own, programs) = arguments.split_at(own);
    let (ours, mut arguments): (Vec<_>, Vec<_>) = own.iter().cloned().partition(|it| it == VALUES_ARGUMENT);
    arguments.extend_from_slice(programs);
    let asked = Asked::parse(&arguments);
    let mut cargo = Command::new(tool("CARGO", "cargo"));
    cargo.args(&arguments);
    if let Some(command) = asked.command.as_deref() {
        let version = check_compiler(&asked)?;
        let here = env::current_dir().map_err(|error| io_error(".", error))?;
        let here = asked.directory.as_ref().map_or_else(|| here.clone(), |directory| here.join(directory));
        let configuration = Configuration::read(&here, &asked.configuration());
        match asked.targets(&configuration, env::var(TARGET_VARIABLE).ok()) {
            Some((targets, place)) => {
                if let Some(target) = targets.iter().find(|target| !is_ours(target, &version.host)) {
                    return Err(CargoError::Target { asked: format!("{place} {target}") });
                }
            }
            None if version.host == TARGET => drop(cargo.env(TARGET_VARIABLE, TARGET)),
            None => return Err(CargoError::Target { asked: format!("--target {}", version.host) }),
        }
        if let Some(directory) = place_of(&asked, command, &here)? {
            // cargo asks a tool only once what it is: another place makes it another one.
            let tools = directory.join(TOOLS).join(allocators.mark().unwrap_or_default());
            cargo.envs(allocators.file.as_ref().map(|file| (ALLOCATORS_VARIABLE, file)));
            let rustc = tools.join(if ours.is_empty() { Tool::RUSTC } else { Tool::RUSTC_VALUES });
            let rustdoc = tools.join(Tool::RUSTDOC);
            make_tool(&rustc)?;
            make_tool(&rustdoc)?;
            cargo.env(RUSTDOC_VARIABLE, tool("RUSTDOC", "rustdoc"));
            cargo.env("RUSTC_WRAPPER", rustc).env("RUSTDOC", rustdoc).env("CARGO_TARGET_DIR", &directory);
            if BUILDING.contains(&command) && !asked.is_quiet {
                say(directory.strip_prefix(&here).unwrap_or(&directory), &configuration);
            }
        }
    }
    let status = cargo.status().map_err(|error| io_error(cargo.get_program(), error))?;
    Ok(exit_status(status))
}

/// Lines on standard error, where cargo's own are.
fn say(directory: &Path, configuration: &Configuration) {
    let mut error = io::stderr();
    // Of these the first one that is set counts, also where it names none.
    let wrapper =
        ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"].into_iter().find_map(|name| Some((name, env::var_os(name)?)));
    let wrapper = match wrapper {
        Some((name, wrapper)) => Some(name).filter(|_| !wrapper.is_empty()),
        None => configuration.has_wrapper().then_some("build.rustc-wrapper"),
    };
    if let Some(name) = wrapper {
        let _ = writeln!(error, "slimline: {name} is not used while what rustc makes is rewritten");
    }
    let _ = writeln!(error, "slimline: building in {}", directory.join(TARGET).display());
    let _ =
        writeln!(error, "slimline: the standard library is prebuilt: of it only what is generic or inlined is traced");
}

/// Whether code for this target can be traced.
fn is_ours(target: &str, host: &str) -> bool {
    target == TARGET || (target == "host-tuple" && host == TARGET)
}

/// The directory to build in; none for commands that don't build.
fn place_of(asked: &Asked, command: &str, here: &Path) -> Result<Option<PathBuf>, CargoError> {
    if let Some(directory) = &asked.target_directory {
        return Ok(Some(here.join(directory)));
    }
    let said = match usual_directory(asked, here)? {
        Ok(usual) => return Ok(Some(usual.join(DIRECTORY))),
        Err(said) => said,
    };
    // Some build what is elsewhere.
    if command == "install" && asked.path.is_none() {
        let directory = env::var_os("CARGO_TARGET_DIR").filter(|directory| !directory.is_empty());
        let directory = directory.ok_or_else(|| CargoError::NoPlace { command: command.to_owned() })?;
        return Ok(Some(here.join(directory).join(DIRECTORY)));
    }
    if BUILDING.contains(&command) {
        let _ = io::stderr().write_all(&said);
        return Err(CargoError::Metadata);
    }
    let said = String::from_utf8_lossy(&said);
    let why = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
    if !asked.is_quiet {
        let _ = writeln!(io::stderr(), "slimline: nothing is traced: {why}");
    }
    Ok(None)
}

/// What cargo is asked for, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// `+nightly`, where a toolchain is named.
    toolchain: Option<OsString>,
    command: Option<String>,
    targets: Vec<String>,
    target_directory: Option<PathBuf>,
    /// Where cargo is to run, from here.
    directory: Option<PathBuf>,
    /// Where the package is that is to be installed.
    path: Option<PathBuf>,
    /// Arguments that say which package is meant and how cargo is configured.
    about_package: Vec<OsString>,
    is_quiet: bool,
}

impl Asked {
    fn parse(arguments: &[OsString]) -> Self {
        let mut asked = Self::default();
        // What comes behind is the program's.
        let mut rest = arguments.iter().take_while(|argument| *argument != "--");
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let (name, own) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(OsString::from(value))),
                _ => (&*text, None),
            };
            match name {
                "--target" => asked.targets.extend(value(own, &mut rest).map(|it| it.to_string_lossy().into_owned())),
                "--path" => asked.path = value(own, &mut rest).map(PathBuf::from),
                "--target-dir" => asked.target_directory = value(own, &mut rest).map(PathBuf::from),
                "-C" => asked.directory = value(own, &mut rest).map(PathBuf::from),
                "--manifest-path" | "--config" | "-Z" => {
                    let value = value(own, &mut rest);
                    asked.about_package.extend([OsString::from(name)].into_iter().chain(value));
                }
                "--color" | "--features" | "-F" | "-p" | "--package" | "--bin" | "--example" | "--test" | "--bench"
                | "--profile" | "-j" | "--jobs" | "--exclude" | "--message-format" | "--root" | "--git" | "--index"
                | "--registry" | "--version" | "--branch" | "--tag" | "--rev" => {
                    value(own, &mut rest);
                }
                "-q" | "--quiet" => asked.is_quiet = true,
                _ if text.starts_with('+') && asked.command.is_none() => asked.toolchain = Some(argument.clone()),
                _ if !text.starts_with('-') && asked.command.is_none() => asked.command = Some(text.into_owned()),
                _ => {}
            }
        }
        asked
    }

    /// What follows `--config`.
    fn configuration(&self) -> Vec<OsString> {
        let given = self.about_package.windows(2).filter(|pair| pair[0] == "--config");
        given.map(|pair| pair[1].clone()).collect()
    }

    /// The targets that are asked for, and where, `variable` being what the environment says; none where cargo is to choose.
    fn targets(&self, configuration: &Configuration, variable: Option<String>) -> Option<(Vec<String>, String)> {
        if !self.targets.is_empty() {
            return Some((self.targets.clone(), "--target".to_owned()));
        }
        if let Some((targets, place)) = configuration.targets(true) {
            return Some((targets, format!("{place} build.target")));
        }
        if let Some(target) = variable.filter(|target| !target.is_empty()) {
            return Some((vec![target], TARGET_VARIABLE.to_owned()));
        }
        let (targets, place) = configuration.targets(false)?;
        Some((targets, format!("{place}: build.target")))
    }
}

/// The value of an argument: behind its `=`, or the next one.
fn value<'a>(own: Option<OsString>, rest: &mut impl Iterator<Item = &'a OsString>) -> Option<OsString> {
    own.or_else(|| rest.next().cloned())
}

/// The program that a variable names, else the usual one.
fn tool(variable: &str, usual: &str) -> OsString {
    env::var_os(variable).filter(|named| !named.is_empty()).unwrap_or_else(|| usual.into())
}

/// Whether what this rustc makes can be rewritten: asked before anything is built, so that one line tells it.
fn check_compiler(cargo: &Asked) -> Result<Version, CargoError> {
    let rustc = || {
        let mut rustc = Command::new(tool("RUSTC", "rustc"));
        rustc.args(&cargo.toolchain);
        rustc
    };
    let version = asked(&mut rustc(), &["-vV"])?.stdout;
    let version = Version::parse(&String::from_utf8_lossy(&version));
    version.check()?;
    let sysroot = asked(&mut rustc(), &["--print", "sysroot"])?.stdout;
    Llvm::load(&libllvm_in(Path::new(String::from_utf8_lossy(&sysroot).trim()))?)?;
    Ok(version)
}

/// The directory in which cargo would build, or what it says where that can't be known.
fn usual_directory(asked: &Asked, here: &Path) -> Result<Result<PathBuf, Vec<u8>>, CargoError> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let mut metadata = Command::new(tool("CARGO", "cargo"));
    metadata.args(&asked.toolchain).args(["metadata", "--no-deps", "--format-version=1"]).args(&asked.about_package);
    // Of other commands it is a dependency's (`cargo add --path`).
    if let Some(path) = asked.path.as_ref().filter(|_| asked.command.as_deref() == Some("install")) {
        metadata.arg("--manifest-path").arg(path.join("Cargo.toml"));
    }
    let output = metadata
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io_error(metadata.get_program(), error))?;
    let said = serde_json::from_slice::<Metadata>(&output.stdout).ok().filter(|_| output.status.success());
    Ok(said.map(|said| said.target_directory).ok_or(output.stderr))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parse(line: &str) -> Asked {
        Asked::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_cargo_is_asked_for() {
        let asked = parse("+nightly -q --config a=b test --target=t --manifest-path m/Cargo.toml -p x y -- --target u");
        assert_eq!(asked.toolchain.as_deref(), Some(OsStr::new("+nightly")));
        assert_eq!((asked.command.as_deref(), &*asked.targets), (Some("test"), &["t".to_owned()][..]));
        assert_eq!(asked.about_package, ["--config", "a=b", "--manifest-path", "m/Cargo.toml"]);
        assert_eq!(asked.configuration(), ["a=b"]);
        assert!(asked.is_quiet);
        let other = parse("build --target-dir here --release");
        assert_eq!(other.target_directory.as_deref(), Some(Path::new("here")));
        assert!(other.targets.is_empty() && !other.is_quiet);
        assert_eq!(parse("--version").command, None);
        assert_eq!(parse("install --root r --path p").path.as_deref(), Some(Path::new("p")));
    }

    #[test]
    fn targets_are_taken_in_cargo_s_order() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".cargo")).unwrap();
        let file = directory.path().join(".cargo/config.toml");
        std::fs::write(&file, "build.target = 'f'").unwrap();
        let targets = |line: &str, variable: Option<&str>| {
            let asked = parse(line);
            let configuration = Configuration::read(directory.path(), &asked.configuration());
            let (targets, place) = asked.targets(&configuration, variable.map(str::to_owned)).unwrap();
            format!("{place} {}", targets.join(","))
        };
        let given = "build --config build.target='g'";
        assert_eq!(targets(&format!("{given} --target a --target=b"), Some("v")), "--target a,b");
        assert_eq!(targets(given, Some("v")), "--config build.target g");
        assert_eq!(targets("build", Some("v")), "CARGO_BUILD_TARGET v");
        assert_eq!(targets("build", Some("")), format!("{}: build.target f", file.display()));
    }
}
