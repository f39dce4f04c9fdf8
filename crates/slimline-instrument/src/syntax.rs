//! What clang makes of a unit of a program without compiling it: which files are the program's own, its syntax tree, and whether it
//! would take other texts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use crate::driver::{DriverError, Language, usable};

/// A command that compiles one source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompileCommand {
    /// Where it runs.
    pub directory: PathBuf,
    /// The source, as it is named there.
    pub file: PathBuf,
    /// What matters of its arguments to what the source means.
    pub arguments: Vec<String>,
}

/// Why nothing is known of a unit.
#[derive(Debug, thiserror::Error)]
pub enum SyntaxError {
    /// There is no clang.
    #[error(transparent)]
    NoClang(#[from] DriverError),
    /// It can't be run, or a file can't be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It does not take the source.
    #[error("clang does not take {}: {said}", file.display())]
    Refused {
        /// The source.
        file: PathBuf,
        /// The first error.
        said: String,
    },
    /// A file of commands is none.
    #[error("{}: no file of compile commands: {reason}", path.display())]
    Commands {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// One of `compile_commands.json`.
#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    arguments: Option<Vec<String>>,
    command: Option<String>,
}

/// Options whose value is the next argument, and that say what a source means.
const WITH_VALUE: [&str; 16] = [
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-isysroot",
    "--sysroot",
    "-target",
    "-x",
    "-Xclang",
    "-Xpreprocessor",
];
/// Those that say nothing of it.
const WITH_OTHER_VALUE: [&str; 15] = [
    "-o",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-L",
    "-l",
    "-T",
    "-u",
    "-z",
    "-Xlinker",
    "-Xassembler",
    "-mllvm",
    "-arch",
    "-dumpdir",
];
/// How options begin that say what is made of it.
const OUTPUTS: [&str; 14] = [
    "-c",
    "-S",
    "-E",
    "-M",
    "-o",
    "-g",
    "-Wl,",
    "-Wa,",
    "-Wp,-M",
    "-save-temps",
    "-flto",
    "-l",
    "-###",
    crate::driver::VALUES_ARGUMENT,
];

impl CompileCommand {
    /// Of a compiler's arguments, without itself; C++ where it is a compiler of that.
    pub fn new(directory: PathBuf, file: PathBuf, arguments: &[String], is_cpp: bool) -> Self {
        let mut kept = Vec::new();
        if is_cpp && !arguments.iter().any(|argument| argument == "--driver-mode=g++") {
            kept.push("--driver-mode=g++".to_owned());
        }
        let mut given = arguments.iter();
        while let Some(argument) = given.next() {
            let name = argument.as_str();
            if WITH_VALUE.contains(&name) {
                kept.push(argument.clone());
                kept.extend(given.next().cloned());
            } else if WITH_OTHER_VALUE.contains(&name) {
                given.next();
            } else if name.starts_with('-') && !OUTPUTS.iter().any(|output| name.starts_with(output)) {
                kept.push(argument.clone());
            }
        }
        Self { directory, file, arguments: kept }
    }

    /// Of a file as CMake, Meson and Bear write it.
    ///
    /// # Errors
    /// It can't be read, or is another file.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, SyntaxError> {
        let text = fs::read_to_string(path).map_err(|error| SyntaxError::Io { path: path.to_owned(), error })?;
        let refused = |reason: String| SyntaxError::Commands { path: path.to_owned(), reason };
        let entries: Vec<Entry> = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let command = |entry: Entry| {
            let words = entry.arguments.or_else(|| entry.command.as_deref().map(|command| words(command, true)));
            let words = words.ok_or_else(|| refused("an entry has neither arguments nor a command".to_owned()))?;
            let directory = beside.join(&entry.directory);
            Ok(Self::of_words(directory, entry.file, &words))
        };
        let mut commands: Vec<Self> = entries.into_iter().map(command).collect::<Result<_, SyntaxError>>()?;
        // A source that is compiled several times in the same way is looked at once.
        commands.sort();
        commands.dedup();
        Ok(commands)
    }

    /// Of a compiler's words, that itself first.
    fn of_words(directory: PathBuf, file: PathBuf, words: &[String]) -> Self {
        let options = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
        let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
        // `ccache g++`, `clang++-19`.
        let is_cpp = words[..options].iter().map(name).any(|name| name.contains("++"));
        Self::new(directory, file, &words[options..], is_cpp)
    }

    /// Of what debug information says of a unit's compiler, where that had its command line recorded (`-grecord-command-line`).
    pub fn of_producer(directory: PathBuf, file: PathBuf, producer: &str) -> Option<Self> {
        let at = producer.find(" /")?;
        let is_clang = producer[..at].contains("clang version");
        is_clang.then(|| Self::of_words(directory, file, &words(&producer[at..], false)))
    }

    /// The source's path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.file)
    }

    /// Whether it is C++.
    pub fn is_cpp(&self) -> bool {
        let named =
            self.arguments.iter().position(|argument| argument == "-x").and_then(|at| self.arguments.get(at + 1));
        match named {
            Some(language) => language.contains("c++"),
            None => {
                let is_c = self.file.extension().is_some_and(|extension| extension == "c");
                !is_c || self.arguments.iter().any(|argument| argument == "--driver-mode=g++")
            }
        }
    }
}

/// Words of a command: as a shell reads them, or with nothing but backslashes before blanks.
fn words(command: &str, has_quotes: bool) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            ('"' | '\'', None) if has_quotes => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (' ' | '\t' | '\n', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The clang that looks at sources.
#[derive(Clone, Debug)]
pub struct Clang {
    program: PathBuf,
}

impl Clang {
    /// The one that compiles programs for `slimline trace`.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Self, SyntaxError> {
        let (program, _) = usable(Language::C)?;
        Ok(Self { program })
    }

    fn command(&self, of: &CompileCommand) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&of.directory).args(&of.arguments).arg("-Qunused-arguments").arg(&of.file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The files that a unit is made of, but for headers of the system.
    ///
    /// # Errors
    /// Clang can't be run, or does not take it.
    pub fn own_files(&self, of: &CompileCommand) -> Result<Vec<PathBuf>, SyntaxError> {
        let output = self.command(of).args(["-w", "-MM"]).output().map_err(|error| self.io(error))?;
        if !output.status.success() {
            return Err(refused(of, &output.stderr));
        }
        let rule = String::from_utf8_lossy(&output.stdout).into_owned();
        // `a.o: a.c a.h \`, in which blanks of names have a backslash.
        let prerequisites = rule.split_once(": ").map_or("", |(_, prerequisites)| prerequisites);
        let names = words(&prerequisites.replace("\\\n", " ").replace("$$", "$"), false);
        Ok(names.into_iter().map(|name| of.directory.join(name)).collect())
    }

    /// Has the unit's syntax tree printed as JSON.
    ///
    /// # Errors
    /// Clang can't be run.
    pub fn tree(&self, of: &CompileCommand) -> Result<PrintedTree, SyntaxError> {
        let mut command = self.command(of);
        command.args(["-w", "-fsyntax-only", "-Xclang", "-ast-dump=json"]);
        let errors = tempfile::tempfile().map_err(|error| self.io(error))?;
        let to = errors.try_clone().map_err(|error| self.io(error))?;
        let child = command.stderr(to).spawn().map_err(|error| self.io(error))?;
        Ok(PrintedTree { child, errors, of: of.clone() })
    }

    /// Whether it takes the unit with other texts in the place of these files, and warns of no mistake ([`MISTAKES`]) of which it does not warn
    /// in the unit as it is; what it says first where that is not so.
    ///
    /// # Errors
    /// Clang can't be run, or files can't be written.
    pub fn check(&self, of: &CompileCommand, texts: &BTreeMap<PathBuf, String>) -> Result<Option<String>, SyntaxError> {
        let scratch = TempDir::with_prefix("slimline-").map_err(|error| self.io(error))?;
        let mut roots = Vec::new();
        for (number, (path, text)) in texts.iter().enumerate() {
            let other = scratch.path().join(number.to_string());
            fs::write(&other, text).map_err(|error| SyntaxError::Io { path: other.clone(), error })?;
            roots.push(serde_json::json!({ "name": path, "type": "file", "external-contents": other }));
        }
        // A name for a file that is not told would be that of the temporary one.
        let overlay = serde_json::json!({ "version": 0, "use-external-names": false, "roots": roots });
        let file = scratch.path().join("overlay.yaml");
        fs::write(&file, overlay.to_string()).map_err(|error| SyntaxError::Io { path: file.clone(), error })?;
        let mut changed = self.command(of);
        let changed = self.mistakes(changed.arg("-ivfsoverlay").arg(&file))?;
        if !changed.status.success() {
            return Ok(Some(first_error(&changed.stderr)));
        }
        let told = mistakes(&changed.stderr);
        if told.is_empty() {
            return Ok(None);
        }
        let mut before = mistakes(&self.mistakes(&mut self.command(of))?.stderr);
        // Lines have other numbers, so what is said is compared.
        let is_new = |mistake: &&(String, String)| match before.iter().position(|(_, said)| *said == mistake.1) {
            Some(at) => {
                before.swap_remove(at);
                false
            }
            None => true,
        };
        Ok(told.iter().find(is_new).map(|(place, said)| format!("{place}{WARNING}{said}")))
    }

    fn mistakes(&self, command: &mut Command) -> Result<Output, SyntaxError> {
        command.args(MISTAKES.map(|mistake| format!("-W{mistake}")));
        command.args(["-Wno-error", "-fsyntax-only", "-fno-caret-diagnostics"]).output().map_err(|error| self.io(error))
    }

    fn io(&self, error: io::Error) -> SyntaxError {
        SyntaxError::Io { path: self.program.clone(), error }
    }
}

/// A syntax tree that is being printed.
#[derive(Debug)]
pub struct PrintedTree {
    child: Child,
    errors: fs::File,
    of: CompileCommand,
}

impl PrintedTree {
    /// What is printed.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// When all of it was read.
    ///
    /// # Errors
    /// Clang does not take the source.
    pub fn finish(mut self) -> Result<(), SyntaxError> {
        let io = |error| SyntaxError::Io { path: self.of.path(), error };
        let status = self.child.wait().map_err(io)?;
        if status.success() {
            return Ok(());
        }
        let mut said = Vec::new();
        io::Seek::rewind(&mut self.errors).map_err(io)?;
        self.errors.read_to_end(&mut said).map_err(io)?;
        Err(refused(&self.of, &said))
    }
}

fn refused(of: &CompileCommand, said: &[u8]) -> SyntaxError {
    SyntaxError::Refused { file: of.path(), said: first_error(said) }
}

/// Warnings that tell of mistakes: what is not of the type that is wanted, sizes and bounds that are those of something else, values that
/// nothing set, lists in another order than fields. Others are of style, and also the change's own code may be warned of by them.
const MISTAKES: [&str; 14] = [
    "incompatible-pointer-types",
    "incompatible-function-pointer-types",
    "int-conversion",
    "implicit-function-declaration",
    "return-type",
    "uninitialized",
    "sometimes-uninitialized",
    "array-bounds",
    "sizeof-pointer-memaccess",
    "sizeof-pointer-div",
    "sizeof-array-argument",
    "excess-initializers",
    "initializer-overrides",
    "reorder",
];
const WARNING: &str = ": warning: ";

/// The place and text of each mistake that is warned of.
fn mistakes(said: &[u8]) -> Vec<(String, String)> {
    let said = String::from_utf8_lossy(said);
    let is_mistake = |text: &str| MISTAKES.iter().any(|mistake| text.contains(&format!("-W{mistake}")));
    let of_line = |line: &str| {
        let (place, text) = line.split_once(WARNING)?;
        is_mistake(text).then(|| (place.to_owned(), text.to_owned()))
    };
    said.lines().filter_map(of_line).collect()
}

/// The first line that tells an error, or the first line.
fn first_error(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let error = said.lines().find(|line| line.contains("error: ")).or_else(|| said.lines().next());
    error.unwrap_or("it says nothing").to_owned()
}

/// Whether a file is a source that clang compiles as C or C++.
pub fn is_source(path: &Path) -> bool {
    const ENDINGS: [&str; 7] = ["c", "cc", "cpp", "cxx", "c++", "C", "CPP"];
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_a_source_means_is_kept() {
        let words = strings(&[
            "g++-12",
            "-O2",
            "-Iinclude",
            "-D",
            "A=1",
            "-MD",
            "-MF",
            "a.d",
            "-Wno-error",
            "-Wl,-z,now",
            "-c",
            "a.cc",
            "-o",
            "a.o",
        ]);
        let command = CompileCommand::of_words("/src".into(), "a.cc".into(), &words);
        assert_eq!(command.arguments, ["--driver-mode=g++", "-O2", "-Iinclude", "-D", "A=1", "-Wno-error"]);
        assert!(command.is_cpp());
    }

    #[test]
    fn recorded_command_lines_are_read() {
        let producer = "Debian clang version 19.1.7 (3~deb12u1) /usr/lib/llvm-19/bin/clang -### -g -D NAME=a\\ b one.c two.c -o all -dumpdir all-";
        let command = CompileCommand::of_producer("/src".into(), "one.c".into(), producer).unwrap();
        assert_eq!(
            (command.arguments.clone(), command.path()),
            (strings(&["-D", "NAME=a b"]), PathBuf::from("/src/one.c"))
        );
        assert_eq!(
            CompileCommand::of_producer("/".into(), "a.c".into(), "Debian clang version 19.1.7 (3~deb12u1)"),
            None
        );
        assert_eq!(CompileCommand::of_producer("/".into(), "a.c".into(), "GNU C17 12.2.0 -O2 -g"), None);
    }

    #[test]
    fn commands_are_read_as_a_shell_reads_them() {
        assert_eq!(words(r#"cc -DA="b c" '-D D' \"x "" y"#, true), strings(&["cc", "-DA=b c", "-D D", "\"x", "", "y"]));
    }

    #[test]
    fn other_texts_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let header = directory.path().join("a.h");
        fs::write(&header, "struct a { int b; };\n").unwrap();
        fs::write(
            directory.path().join("a.c"),
            "#include \"a.h\"\n#include <stddef.h>\nint main(void) { return sizeof(struct a); }\n",
        )
        .unwrap();
        let clang = Clang::find().unwrap();
        let command = CompileCommand::new(directory.path().to_owned(), "a.c".into(), &[], false);
        let files = clang.own_files(&command).unwrap();
        assert_eq!(files, [directory.path().join("a.c"), header.clone()]);
        let check = |text: &str| clang.check(&command, &BTreeMap::from([(header.clone(), text.to_owned())])).unwrap();
        assert_eq!(check("struct a { long b; };\n"), None);
        // What is warned of is another type, and the unit as it is has none of it.
        fs::write(
            directory.path().join("b.c"),
            "#include \"a.h\"\nint *one(struct a *a) { return &a->b; }\nint *two(long *p) { return p; }\n",
        )
        .unwrap();
        let warned = CompileCommand::new(directory.path().to_owned(), "b.c".into(), &[], false);
        let check_warned =
            |text: &str| clang.check(&warned, &BTreeMap::from([(header.clone(), text.to_owned())])).unwrap();
        assert_eq!(check_warned("struct a { int c, b; };\n"), None);
        let said = check_warned("\nstruct a { char b; };\n").unwrap();
        assert!(said.contains("b.c:2:") && said.contains("-Wincompatible-pointer-types"), "{said}");
        let said = check("struct b { long b; };\n").unwrap();
        assert!(said.contains("error: ") && said.contains("a.c:3:"), "{said}");
        fs::write(&header, "struct a {").unwrap();
        let refused = clang.tree(&command).unwrap();
        let mut refused = refused;
        io::copy(&mut refused.output().unwrap(), &mut io::sink()).unwrap();
        assert!(refused.finish().unwrap_err().to_string().contains("error: "));
    }
}
