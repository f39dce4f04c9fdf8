//! What is advised of a trace, as a patch of the program's sources.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use slimline_analyze::full_trace::object_structures::StructureShape;
use slimline_analyze::relayout::candidates::Candidate;
use slimline_analyze::relayout::plain_name;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::module::units::CompiledUnit;
use slimline_instrument::syntax::{Clang, CompileCommand};
use slimline_patch::edits::unified_diff;
use slimline_patch::program::{Program, on_deep_stack};
use slimline_patch::{Change, Edits, Refusal, Wanted, patch};
use slimline_report::relayout::{AdvisedRow, PatchReport, PatchedRow, RelayoutReport, StructureRow};
use slimline_report::source::seen_from;
use slimline_trace::path_text::path_of;
use slimline_trace::stream::recording::Recording;

use crate::disk::Disk;
use crate::progress::Progress;

/// Elements are aligned to a line at most.
const MOST_ALIGN: u32 = 64;

/// What to do where commands are not known.
const HOW: &str = "compile it by slimline cc or slimline c++ once more, or name its commands by --compile-commands FILE (CMake writes them with \
                   -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, for make there is bear)";

/// A patch that was made: its text, and what is to be said of it.
pub(crate) struct Patched {
    /// Empty where nothing is changed.
    pub(crate) diff: String,
    pub(crate) report: PatchReport,
}

/// What is known of how a program is compiled, before anything is advised: a search takes minutes.
pub(crate) struct Compiled {
    clang: Clang,
    commands: Vec<CompileCommand>,
}

impl Compiled {
    /// Of a traced program: told by the file of compile commands, or by debug information.
    pub(crate) fn of(trace: &Path, commands: Option<&Path>) -> anyhow::Result<Self> {
        let clang = Clang::find()?;
        let commands = match commands {
            Some(path) => told_commands(path, trace)?,
            None => recorded_commands(trace)?,
        };
        Ok(Self { clang, commands })
    }
}

/// Makes a patch of what is advised of a trace.
pub(crate) fn patch_of(compiled: Compiled, report: &RelayoutReport) -> anyhow::Result<Patched> {
    let advised: Vec<(&StructureRow, Wanted)> =
        report.structures.iter().filter_map(|of| Some((of, wanted(of, of.advice.as_ref()?)?))).collect();
    if advised.is_empty() {
        let report = PatchReport { file: None, directory: String::new(), files: 0, structures: Vec::new() };
        return Ok(Patched { diff: String::new(), report });
    }
    on_deep_stack(|| made(&advised, compiled)).context("no thread for syntax trees")?
}

fn made(advised: &[(&StructureRow, Wanted)], compiled: Compiled) -> anyhow::Result<Patched> {
    let Compiled { clang, commands } = compiled;
    let progress = Progress::of("reading the program's sources", commands.len() as u64);
    let program = Program::read(&clang, commands, &mut || progress.advance(1))?;
    drop(progress);
    let here = env::current_dir().context("this directory")?;
    let mut edits = Edits::default();
    let mut structures = Vec::new();
    for (of, wanted) in advised {
        let structure = of.name.clone();
        let refused = match tried(&clang, &program, &edits, wanted) {
            Ok(more) => {
                edits = more;
                None
            }
            Err(Refused::Because(Refusal { at: Some((file, line)), why })) => {
                let path = seen_from(&here, &program.sources[file as usize].path);
                Some(format!("{path}:{line}: {why}"))
            }
            Err(Refused::Because(Refusal { at: None, why })) => Some(why),
            Err(Refused::Failed(error)) => return Err(error),
        };
        structures.push(PatchedRow { structure, refused });
    }
    let files: Vec<&str> = edits.files().map(|file| program.sources[file as usize].path.as_str()).collect();
    let directory = root_of(&here, &files);
    let mut diff = String::new();
    for file in edits.files() {
        let source = &program.sources[file as usize];
        let path = Path::new(&source.path).strip_prefix(&directory).unwrap_or(Path::new(&source.path));
        diff += &unified_diff(&path.display().to_string(), &source.text, &edits.apply(file, source));
    }
    let directory = if directory == here { ".".to_owned() } else { directory.display().to_string() };
    let report = PatchReport { file: None, directory, files: files.len() as u64, structures };
    Ok(Patched { diff, report })
}

/// Why a structure is not changed.
enum Refused {
    Because(Refusal),
    /// Clang could not be asked.
    Failed(anyhow::Error),
}

/// These edits with those for one more structure, if clang takes what comes out.
fn tried(clang: &Clang, program: &Program, edits: &Edits, wanted: &Wanted) -> Result<Edits, Refused> {
    let because = |why: String| Refused::Because(Refusal { at: None, why });
    let own = patch(program, wanted).map_err(Refused::Because)?;
    let both = edits.with(&own).map_err(|(file, offset)| {
        let why = "the change of another structure is in the way".to_owned();
        Refused::Because(Refusal { at: Some((file, program.sources[file as usize].line(offset))), why })
    })?;
    match program.check(clang, &both) {
        Ok(None) => Ok(both),
        Ok(Some(said)) => Err(because(format!("clang would not take it: {said}"))),
        Err(error) => Err(Refused::Failed(error.into())),
    }
}

/// Whether a layout can be made by a patch. Others are made by hand: what is stored to fields of other types, and who has the address of an element
/// of an array, is not understood.
pub(crate) fn can_be_patched(shape: &StructureShape, candidate: &Candidate) -> bool {
    let bytes = candidate.layout.parts().first().map(|part| part.bytes);
    let change = bytes.and_then(|bytes| change_of(candidate.change.name(), bytes, candidate.is_pool));
    !shape.is_columns && candidate.types.is_none() && change.is_some()
}

/// A change as it is asked for, with the size of the first part; none where it is made by hand.
fn change_of(name: &str, bytes: u32, is_pool: bool) -> Option<Change> {
    Some(match name {
        "reorder" => Change::Reorder,
        "align" => Change::Align(1 << bytes.trailing_zeros().min(MOST_ALIGN.trailing_zeros())),
        "pool" => Change::Pool,
        "hot_cold_split" => Change::HotCold { is_pool },
        "split" | "array_of_each" => Change::Split,
        _ => return None,
    })
}

/// What is advised, as it is asked for; none where a search was not among what can be patched.
fn wanted(of: &StructureRow, advice: &AdvisedRow) -> Option<Wanted> {
    let layout = &advice.layout;
    let change = change_of(layout.change, layout.part_bytes.first().copied()?, layout.is_pool)?;
    Some(Wanted { structure: plain_name(&of.name).to_owned(), change, parts: layout.parts.clone() })
}

/// The commands of a file, which must have one for each unit of the traced program whose source is here.
fn told_commands(file: &Path, trace: &Path) -> anyhow::Result<Vec<CompileCommand>> {
    let commands = CompileCommand::read_all(file)?;
    let told: BTreeSet<PathBuf> = commands.iter().filter_map(|command| command.path().canonicalize().ok()).collect();
    let own = compiled_units(trace)?.into_iter();
    let mut paths = own.filter_map(|unit| path_of(&unit.directory).join(path_of(&unit.file)).canonicalize().ok());
    if let Some(missing) = paths.find(|path| !told.contains(path)) {
        bail!("{}: does not tell how {} is compiled, which the traced program has", file.display(), missing.display());
    }
    Ok(commands)
}

/// Units of C and C++ of the traced program and its libraries, as debug information tells them.
fn compiled_units(trace: &Path) -> anyhow::Result<Vec<CompiledUnit>> {
    let recording = Recording::open(trace)?;
    let store = FileStore::new(&Disk);
    let paths: BTreeSet<&String> = recording.objects().iter().map(|object| &object.path).collect();
    let units = |path: &String| Module::open(&store, path).debug().map(|debug| debug.compiled_units());
    Ok(paths.into_iter().filter_map(units).flatten().filter(is_c).collect())
}

/// The commands that compiled them, as clang recorded them.
fn recorded_commands(trace: &Path) -> anyhow::Result<Vec<CompileCommand>> {
    let mut commands = Vec::new();
    let mut unknown: Option<CompiledUnit> = None;
    for unit in compiled_units(trace)? {
        let (directory, file) = (path_of(&unit.directory), path_of(&unit.file));
        match CompileCommand::of_producer(directory, file, &unit.producer) {
            Some(command) => commands.push(command),
            None => unknown = Some(unit),
        }
    }
    commands.sort();
    commands.dedup();
    match unknown {
        Some(unit) => bail!("--patch: debug information of {} does not tell its command line: {HOW}", unit.file),
        None if commands.is_empty() => {
            bail!("--patch: no debug information tells sources of C or C++ and their command lines: {HOW}")
        }
        None => Ok(commands),
    }
}

/// Whether a unit is of a language that is patched.
fn is_c(unit: &CompiledUnit) -> bool {
    let language = unit.language;
    matches!(language, "C" | "C89" | "C99" | "C11" | "C17" | "C23") || language.starts_with("C_plus_plus")
}

/// The directory that a patch of these files is for: this one, or the deepest that all are in.
fn root_of(here: &Path, files: &[&str]) -> PathBuf {
    let mut root = here.to_owned();
    if files.iter().all(|file| Path::new(file).starts_with(here)) {
        return root;
    }
    if let Some(first) = files.first().and_then(|file| Path::new(file).parent()) {
        first.clone_into(&mut root);
    }
    while !files.iter().all(|file| Path::new(file).starts_with(&root)) && root.pop() {}
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_for_the_directory_that_all_its_files_are_in() {
        let root = |files: &[&str]| root_of(Path::new("/here"), files).display().to_string();
        assert_eq!(root(&["/here/a.c", "/here/b/c.h"]), "/here");
        assert_eq!(root(&["/src/one/a.c", "/src/two/b.h", "/src/one/c.c"]), "/src");
        assert_eq!(root(&["/hereafter/a.c"]), "/hereafter");
    }
}
