//! `slimline cargo`: cargo, told to use our tools and a target directory of its own.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::compiling::RUSTDOC_VARIABLE;
use super::toolchain::{Version, asked, libllvm_in};
use super::{CargoError, Tool, io_error, make_tool};
use crate::driver::{VALUES_ARGUMENT, exit_status};
use crate::llvm::Llvm;

/// Below the directory in which cargo would build.
const DIRECTORY: &str = "slimline";
/// Where in it our tools are.
const TOOLS: &str = "tools";
/// The machine that code can be traced on.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// cargo's commands that make programs or tests, which say so.
const BUILDING: &[&str] = &["build", "b", "run", "r", "test", "t", "bench", "rustc", "install", "nextest"];

/// Runs cargo with these arguments, so that what it builds is traced. Ends with cargo's status, 128 + n where signal n
/// ended it.
pub fn build(arguments: &[OsString]) -> Result<u8, CargoError> {
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
        match &asked.target {
            Some(target) if target != TARGET => return Err(CargoError::Target { target: target.clone() }),
            Some(_) => {}
            None if version.host == TARGET => drop(cargo.env("CARGO_BUILD_TARGET", TARGET)),
            None => return Err(CargoError::Target { target: version.host }),
        }
        let directory = match &asked.target_directory {
            Some(directory) => Some(std::path::absolute(directory).map_err(|error| io_error(directory, error))?),
            None => usual_directory(&asked).map(|usual| usual.join(DIRECTORY)),
        };
        // Without a package cargo says so itself, or does not need one.
        if let Some(directory) = directory {
            let tools = directory.join(TOOLS);
            let rustc = tools.join(if ours.is_empty() { Tool::RUSTC } else { Tool::RUSTC_VALUES });
            let rustdoc = tools.join(Tool::RUSTDOC);
            make_tool(&rustc)?;
            make_tool(&rustdoc)?;
            cargo.env(RUSTDOC_VARIABLE, tool("RUSTDOC", "rustdoc"));
            cargo.env("RUSTC_WRAPPER", rustc).env("RUSTDOC", rustdoc).env("CARGO_TARGET_DIR", &directory);
            if BUILDING.contains(&command) && !asked.is_quiet {
                say(&directory);
            }
        }
    }
    let status = cargo.status().map_err(|error| io_error(cargo.get_program(), error))?;
    Ok(exit_status(status))
}

/// One line on standard error, as cargo's own are.
fn say(directory: &Path) {
    if env::var_os("RUSTC_WRAPPER").is_some_and(|wrapper| !wrapper.is_empty()) {
        let _ = writeln!(io::stderr(), "slimline: RUSTC_WRAPPER is not used while what rustc makes is rewritten");
    }
    let _ = writeln!(
        io::stderr(),
        "slimline: building in {}; the standard library is prebuilt: of it only what is generic or inlined is traced",
        directory.join(TARGET).display()
    );
}

/// What cargo is asked for, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// `+nightly`, where a toolchain is named.
    toolchain: Option<OsString>,
    command: Option<String>,
    target: Option<String>,
    target_directory: Option<PathBuf>,
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
                "--target" => asked.target = value(own, &mut rest).map(|it| it.to_string_lossy().into_owned()),
                "--target-dir" => asked.target_directory = value(own, &mut rest).map(PathBuf::from),
                "--manifest-path" | "--config" | "-C" | "-Z" => {
                    let value = value(own, &mut rest);
                    asked.about_package.extend([OsString::from(name)].into_iter().chain(value));
                }
                "--color" | "--features" | "-F" | "-p" | "--package" | "--bin" | "--example" | "--test" | "--bench"
                | "--profile" | "-j" | "--jobs" | "--exclude" | "--message-format" => {
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

/// The directory in which cargo would build; none where there is no package.
fn usual_directory(asked: &Asked) -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let mut metadata = Command::new(tool("CARGO", "cargo"));
    metadata.args(&asked.toolchain).args(["metadata", "--no-deps", "--format-version=1"]).args(&asked.about_package);
    let output = metadata.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(serde_json::from_slice::<Metadata>(&output.stdout).ok()?.target_directory)
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
        assert_eq!((asked.command.as_deref(), asked.target.as_deref()), (Some("test"), Some("t")));
        assert_eq!(asked.about_package, ["--config", "a=b", "--manifest-path", "m/Cargo.toml"]);
        assert!(asked.is_quiet);
        let other = parse("build --target-dir here --release");
        assert_eq!(other.target_directory.as_deref(), Some(Path::new("here")));
        assert_eq!((other.target, other.is_quiet), (None, false));
        assert_eq!(parse("--version").command, None);
    }
}
