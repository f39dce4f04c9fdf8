//! What a program's file tells before it is run, and what a report of it will lack.

use slimline_trace::path_text::text_of_existing;
use std::collections::BTreeMap;
use std::path::Path;

use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::module::units::Units;
use slimline_attribute::tables::SymbolSource;
use slimline_report::doctor::Fact;

use crate::disk::Disk;

/// Names kept of a list.
const MOST: usize = 3;
/// Interpreters whose own code is what gets sampled, by the beginning of their file's name.
const INTERPRETERS: [&str; 9] = ["python", "perl", "ruby", "node", "php", "lua", "bash", "dash", "java"];

/// Facts about the file `runs`, which `program` is or (a script) names as its interpreter, and what reports will lack.
/// `without_agent` says why it is sampled from outside, if so.
pub(crate) fn inspect(program: &Path, runs: &Path, without_agent: Option<&str>) -> (Vec<Fact>, Vec<String>) {
    // As the kernel will show it among the mappings: links followed.
    let path = runs.canonicalize().unwrap_or_else(|_| runs.to_owned());
    let store = FileStore::new(&Disk);
    let module = Module::open(&store, &text_of_existing(path.as_os_str()));
    let units = module.debug().map(slimline_attribute::module::debug::Debug::units).unwrap_or_default();

    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push(Fact { name: name.to_owned(), value });
    if program != runs {
        if path.file_name().is_some_and(|name| name == "env") {
            let value = format!("{}, which looks the real one up in PATH: ask doctor for that", runs.display());
            add("interpreter", value);
            return (facts, Vec::new());
        }
        add("interpreter", runs.display().to_string());
    }
    if path != runs {
        add(if runs.is_symlink() { "is a link to" } else { "full path" }, path.display().to_string());
    }
    if module.source() != SymbolSource::Unreadable {
        match without_agent {
            None => add("linked", "dynamically, for glibc".to_owned()),
            Some(why) => add("sampled", format!("from outside, by ring buffers: {why}")),
        }
        add("build-id", module.row().build_id.unwrap_or_else(|| "none".to_owned()));
    }
    add("debug information", debug_information(&module));
    if !units.languages.is_empty() {
        add("language", most(&units.languages));
    }
    if !units.producers.is_empty() {
        add("compiled by", most(&units.producers));
    }
    let mut lacks = lacks(&module, &units);
    if without_agent.is_some() {
        lacks.push(
            "blocks of the heap, which are told by mapping alone, and what pointers lead to in bursts".to_owned(),
        );
    }
    (facts, lacks)
}

fn debug_information(module: &Module<'_>) -> String {
    match module.source() {
        SymbolSource::DebugInfo => "in the file".to_owned(),
        SymbolSource::SeparateDebugInfo => format!("in {}", module.debug_path().unwrap_or("a separate file")),
        SymbolSource::SymbolTable => "none; functions and variables by the symbol table".to_owned(),
        SymbolSource::DynamicSymbols => "none; stripped but for dynamic symbols".to_owned(),
        SymbolSource::Stripped => "none; stripped".to_owned(),
        SymbolSource::Unreadable => "not known: the file can't be read".to_owned(),
    }
}

fn lacks(module: &Module<'_>, units: &Units) -> Vec<String> {
    let mut lacks = Vec::new();
    let mut add = |text: String| lacks.push(text);
    let get = match module.row().build_id {
        Some(id) if id.len() > 2 => format!(
            "compile with -g, or install its debug symbols (Debian: the package's -dbgsym) as \
             /usr/lib/debug/.build-id/{}/{}.debug",
            &id[..2],
            &id[2..]
        ),
        _ => "compile with -g".to_owned(),
    };
    match module.source() {
        SymbolSource::DebugInfo | SymbolSource::SeparateDebugInfo => {}
        SymbolSource::SymbolTable => add(format!("lines, loops by line, types and field names; {get}")),
        SymbolSource::DynamicSymbols | SymbolSource::Stripped => {
            add(format!("names of most functions and variables, lines, types and field names; {get}"));
        }
        SymbolSource::Unreadable => add("all names: the file can be run but not read".to_owned()),
    }
    let all = units.languages.values().sum::<u64>() + units.lacking;
    if units.lacking > 0 {
        add(format!(
            "lines and types of {} of {all} compilation units: theirs are in .dwo files that are not there; \
             keep them, or compile without -gsplit-dwarf",
            units.lacking
        ));
    }
    let known = |name: &str| name.starts_with('C') && !name.starts_with("Cobol") || name == "Rust";
    let strange: Vec<&str> = units.languages.keys().map(String::as_str).filter(|name| !known(name)).collect();
    // Hand-written assembly has no types anywhere.
    let strange: Vec<&str> = strange.into_iter().filter(|name| !name.contains("ssembler")).collect();
    if !strange.is_empty() {
        add(format!("new definitions in {}: types are told, advice is spelled as C", strange.join(", ")));
    }
    let unoptimized: u64 = units.producers.iter().filter(|(name, _)| is_unoptimized(name)).map(|(_, n)| n).sum();
    if unoptimized > 0 && unoptimized * 2 > all {
        add("a likeness to the program you ship: it is compiled without optimization; use -O2 -g".to_owned());
    }
    if INTERPRETERS.iter().any(|name| module.file_name().starts_with(name)) {
        add("the script's own lines and variables: what is sampled is the interpreter's code".to_owned());
    }
    lacks
}

/// GCC writes its flags down and needs one to optimize; of other compilers nothing is claimed.
fn is_unoptimized(producer: &str) -> bool {
    let lists_flags = producer.starts_with("GNU ") && producer.contains(" -m");
    let mut levels = producer.split(' ').filter_map(|word| word.strip_prefix("-O"));
    lists_flags && levels.next_back().is_none_or(|level| level == "0")
}

/// The most frequent names with their counts.
fn most(counts: &BTreeMap<String, u64>) -> String {
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let units = |n: u64| if n == 1 { "1 unit".to_owned() } else { format!("{n} units") };
    let mut named: Vec<String> = sorted.iter().take(MOST).map(|(name, n)| format!("{name} ({})", units(**n))).collect();
    if sorted.len() > MOST {
        named.push(format!("{} more", sorted.len() - MOST));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gcc_tells_that_it_did_not_optimize() {
        assert!(is_unoptimized("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g"));
        assert!(is_unoptimized("GNU C17 12.2.0 -mtune=generic -g -O2 -O0"));
        assert!(!is_unoptimized("GNU C17 12.2.0 -mtune=generic -g -O2"));
        assert!(!is_unoptimized("GNU AS 2.40"));
        assert!(!is_unoptimized("clang version 19.1.0"));
        assert!(!is_unoptimized("rustc version 1.95.0"));
    }

    #[test]
    fn the_most_frequent_come_first() {
        let counts = [("C11", 3), ("Rust", 7), ("Go", 1), ("D", 1)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(most(&counts.into()), "Rust (7 units), C11 (3 units), D (1 unit), 1 more");
    }
}
