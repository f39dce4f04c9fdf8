//! A program's sources and syntax trees, as clang reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::thread;

use rustc_hash::FxHashMap;
use slimline_instrument::syntax::{Clang, CompileCommand, SyntaxError};

use crate::edits::Edits;
use crate::source::Source;
use crate::tree::{self, FileId, Node};

/// Stack for trees that are as deep as expressions are: it is touched as far as it is needed.
const STACK_BYTES: usize = 1 << 30;
/// Bytes of a tree that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A program: all of its units.
#[derive(Debug, Default)]
pub struct Program {
    /// By [`FileId`]: its own files, and no headers of the system.
    pub sources: Vec<Source>,
    /// What is compiled by itself.
    pub units: Vec<Unit>,
}

/// A translation unit.
#[derive(Debug)]
pub struct Unit {
    /// Its syntax tree.
    pub tree: Node,
    /// Whether it is C++.
    pub is_cpp: bool,
    /// What compiles it.
    pub command: CompileCommand,
    /// Its own files.
    pub files: BTreeSet<FileId>,
}

/// Why a program is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Clang does not take it, or there is none.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A file can't be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Clang's tree is none that is known.
    #[error("the syntax tree of {} that clang prints is not understood: {error}", path.display())]
    Tree {
        /// The source.
        path: PathBuf,
        /// Why not.
        error: serde_json::Error,
    },
}

/// Runs what looks at trees, on a stack for deep ones.
///
/// # Errors
/// There is no thread for it.
pub fn on_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let running = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run)?;
        running.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Program {
    /// Reads the units that these commands compile, and says so of each; by [`on_deep_stack`].
    ///
    /// # Errors
    /// One can't be read.
    pub fn read(clang: &Clang, commands: Vec<CompileCommand>, done: &mut dyn FnMut()) -> Result<Self, ReadError> {
        let mut program = Self::default();
        let mut numbers: FxHashMap<PathBuf, FileId> = FxHashMap::default();
        for command in commands {
            let mut files = BTreeSet::new();
            for path in clang.own_files(&command)? {
                let io = |error| ReadError::Io { path: path.clone(), error };
                let real = path.canonicalize().map_err(io)?;
                let number = match numbers.get(&real) {
                    Some(number) => *number,
                    None => {
                        let bytes = fs::read(&real).map_err(io)?;
                        program.sources.push(Source::new(real.display().to_string(), bytes));
                        let number = program.sources.len() as FileId - 1;
                        numbers.insert(real, number);
                        number
                    }
                };
                files.insert(number);
            }
            let tree = read_tree(clang, &command, &numbers)?;
            program.units.push(Unit { tree, is_cpp: command.is_cpp(), command, files });
            done();
        }
        Ok(program)
    }

    /// What clang says first against the program with these edits, if it does.
    ///
    /// # Errors
    /// It can't be run.
    pub fn check(&self, clang: &Clang, edits: &Edits) -> Result<Option<String>, SyntaxError> {
        let texts: BTreeMap<PathBuf, String> = edits
            .files()
            .map(|file| {
                let source = &self.sources[file as usize];
                (PathBuf::from(&source.path), edits.apply(file, source))
            })
            .collect();
        for unit in self.units.iter().filter(|unit| edits.files().any(|file| unit.files.contains(&file))) {
            if let Some(said) = clang.check(&unit.command, &texts)? {
                return Ok(Some(said));
            }
        }
        Ok(None)
    }
}

fn read_tree(clang: &Clang, command: &CompileCommand, numbers: &FxHashMap<PathBuf, FileId>) -> Result<Node, ReadError> {
    let mut printed = clang.tree(command)?;
    let mut known: FxHashMap<String, Option<FileId>> = FxHashMap::default();
    let mut number = |name: &str| {
        if let Some(number) = known.get(name) {
            return *number;
        }
        let path = command.directory.join(Path::new(name)).canonicalize().ok();
        let number = path.and_then(|path| numbers.get(&path).copied());
        known.insert(name.to_owned(), number);
        number
    };
    let read = printed.output().map(|output| tree::read(BufReader::with_capacity(BUFFER_BYTES, output), &mut number));
    // What clang says is told first: half a tree is none.
    printed.finish()?;
    match read {
        Some(Ok(tree)) => Ok(tree),
        Some(Err(error)) => Err(ReadError::Tree { path: command.path(), error }),
        None => Ok(Node::default()),
    }
}
