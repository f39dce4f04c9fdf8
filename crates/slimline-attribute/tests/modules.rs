//! Names and lines of compiled programs: against known lines, against binutils, and from separate debug files.

mod sandbox;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use sandbox::Sandbox;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::SymbolSource;
use slimline_trace::address::Svma;

const SOURCE: &str = "
#include <stdio.h>
#include <stdlib.h>
static int table[100];
static inline int mix(int x) {
    return (x ^ table[x & 63]) * 31;
}
static inline int twice(int x) {
    int y = mix(x);
    return mix(y ^ 5);
}
__attribute__((noinline)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += twice(i);
    return sum;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 100; i++) table[i] = rand();
    printf(\"%d\\n\", work(argc > 1 ? atoi(argv[1]) : 1000));
    return 0;
}
";

const CPP_SOURCE: &str = "
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>
namespace shop {
struct Item { std::string name; double price; };
template <typename T> struct Basket {
    std::vector<T> items;
    void add(T item) { items.push_back(std::move(item)); }
    double total() const { double sum = 0; for (const T &item : items) sum += item.price; return sum; }
};
}
int main(int argc, char **) {
    shop::Basket<shop::Item> basket;
    std::map<int, int> counts;
    for (int i = 0; i < argc * 10; i++) { basket.add({std::to_string(i), i * 1.5}); counts[i % 3]++; }
    std::sort(basket.items.begin(), basket.items.end(), [](auto &a, auto &b) { return a.price > b.price; });
    std::printf(\"%f %d\\n\", basket.total(), counts[1]);
}
";

/// Functions and lines of the inline stack at the first code on `line` of `work`.
fn stack_in_work(module: &Module<'_>, line: u32) -> Vec<(String, u32, bool)> {
    let image = module.image().expect("an ELF file");
    let code = image.segments().iter().filter(|segment| segment.executable);
    let mut addresses = code.flat_map(|segment| segment.svma.0..segment.svma.0 + segment.data.len() as u64);
    let frames = addresses.find_map(|svma| {
        let frames = module.frames(Svma(svma));
        let is_it = frames.last()?.function == "work" && frames[0].position.as_ref()?.line == line;
        is_it.then_some(frames)
    });
    let frames = frames.unwrap_or_default();
    frames.into_iter().map(|frame| (frame.function, frame.position.map_or(0, |at| at.line), frame.inlined)).collect()
}

fn expected_stack() -> Vec<(String, u32, bool)> {
    [("mix", 6, true), ("twice", 9, true), ("work", 15, false)]
        .map(|(name, line, inl)| (name.to_owned(), line, inl))
        .into()
}

#[track_caller]
fn check(sandbox: &Sandbox, program: &str, source: SymbolSource) {
    let store = FileStore::new(sandbox);
    let module = Module::open(&store, program);
    assert_eq!(module.source(), source);
    assert_eq!(stack_in_work(&module, 6), expected_stack());
}

#[test]
fn every_form_of_debug_information_says_the_same() {
    for flags in [
        &["-gdwarf-5"][..],
        &["-gdwarf-4"],
        &["-gdwarf-5", "-no-pie", "-fno-pie"],
        &["-gdwarf-5", "-gz=zlib"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-static"],
        &["-gdwarf-5", "-ffunction-sections", "-flto"],
    ] {
        let sandbox = Sandbox::new();
        let program = sandbox.compile("gcc", &[&["-O2"], flags].concat(), "a.c", SOURCE, "prog");
        check(&sandbox, &program, SymbolSource::DebugInfo);
    }
}

#[test]
fn separate_debug_files_are_found_and_checked() {
    let mut sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g", "-Wl,--build-id"], "a.c", SOURCE, "prog");
    sandbox.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]);
    sandbox.run("objcopy", &["--strip-all", "prog", "bare"]);
    sandbox.run("objcopy", &["--add-gnu-debuglink=prog.debug", "bare", "prog"]);

    // By the link, in each place that debuggers look at.
    check(&sandbox, &program, SymbolSource::SeparateDebugInfo);
    let debug = sandbox.path("prog.debug");
    std::fs::create_dir(sandbox.path(".debug")).unwrap();
    std::fs::rename(&debug, sandbox.path(".debug/prog.debug")).unwrap();
    check(&sandbox, &program, SymbolSource::SeparateDebugInfo);
    let hidden = sandbox.path("elsewhere");
    std::fs::rename(sandbox.path(".debug/prog.debug"), &hidden).unwrap();
    let directory = sandbox.root.path().to_str().unwrap().to_owned();
    sandbox.redirected = vec![(format!("/usr/lib/debug{directory}/prog.debug"), hidden.clone())];
    check(&sandbox, &program, SymbolSource::SeparateDebugInfo);

    // By build-id.
    let bare = sandbox.text_path("bare");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &bare);
    assert_eq!(module.source(), SymbolSource::DynamicSymbols);
    let id = module.row().build_id.expect("linked with a build-id");
    drop(module);
    let by_id = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    drop(store);
    sandbox.redirected = vec![(by_id.clone(), hidden.clone())];
    check(&sandbox, &bare, SymbolSource::SeparateDebugInfo);

    // A debug file of another build is not taken.
    sandbox.compile("gcc", &["-O1", "-g", "-Wl,--build-id"], "a.c", SOURCE, "other");
    sandbox.redirected = vec![(by_id, sandbox.path("other"))];
    std::fs::copy(sandbox.path("other"), sandbox.path("prog.debug")).unwrap();
    let store = FileStore::new(&sandbox);
    assert_eq!(Module::open(&store, &bare).source(), SymbolSource::DynamicSymbols);
    assert_eq!(Module::open(&store, &program).source(), SymbolSource::DynamicSymbols);
}

#[test]
fn a_link_without_build_id_is_checked_by_its_checksum() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g", "-Wl,--build-id=none"], "a.c", SOURCE, "prog");
    sandbox.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]);
    sandbox.run("objcopy", &["--strip-all", "--add-gnu-debuglink=prog.debug", "prog"]);
    check(&sandbox, &program, SymbolSource::SeparateDebugInfo);
    let mut debug = std::fs::read(sandbox.path("prog.debug")).unwrap();
    debug.push(0);
    std::fs::write(sandbox.path("prog.debug"), debug).unwrap();
    let store = FileStore::new(&sandbox);
    assert_eq!(Module::open(&store, &program).source(), SymbolSource::DynamicSymbols);
}

#[test]
fn stripped_code_is_named_by_what_is_left() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g", "-rdynamic"], "a.c", SOURCE, "prog");
    let store = FileStore::new(&sandbox);
    let work = Module::open(&store, &program);
    let start = (0x1000..0x4000).map(Svma).find(|&svma| work.linked_name(svma) == "work").expect("work");
    let inside = Svma(start.0 + 8);
    let name = |flag: Option<&str>| {
        if let Some(flag) = flag {
            sandbox.run("strip", &[flag, "prog"]);
        }
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &program);
        let frames = module.frames(inside);
        assert_eq!(frames.len(), if flag.is_none() { frames.len() } else { 1 });
        (module.source(), frames.last().unwrap().function.clone(), module.function_bounds(inside))
    };
    let (_, named, bounds) = name(None);
    assert_eq!((named.as_str(), bounds.map(|bounds| bounds.0)), ("work", Some(start)));
    assert_eq!(name(Some("--strip-debug")), (SymbolSource::SymbolTable, "work".to_owned(), bounds));
    assert_eq!(name(Some("--strip-all")), (SymbolSource::DynamicSymbols, "work".to_owned(), bounds));

    // Not even exported: unwind information still tells where the function is.
    let program = sandbox.compile("gcc", &["-O2", "-s"], "a.c", SOURCE, "bare");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let starts: BTreeSet<Svma> =
        (0x1000..0x4000).filter_map(|svma| module.function_bounds(Svma(svma))).map(|bounds| bounds.0).collect();
    assert!(starts.len() >= 2, "{starts:?}");
    let start = *starts.last().unwrap();
    assert_eq!(module.frames(Svma(start.0 + 4))[0].function, format!("bare+{start}"));
}

#[test]
fn split_debug_information_that_is_gone_is_said() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g", "-gsplit-dwarf"], "a.c", SOURCE, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let work = (0x1000..0x4000).map(Svma).find(|&svma| module.linked_name(svma) == "work").expect("work");
    assert_eq!(module.frames(work).last().unwrap().function, "work");
    assert!(!module.debug().expect("skeleton units").lacks_split_files());
    assert_eq!(stack_in_work(&module, 6), expected_stack());
    std::fs::remove_file(sandbox.path("prog-a.dwo")).expect("what gcc calls it");
    let module = Module::open(&store, &program);
    assert_eq!(module.frames(work).last().unwrap().function, "work");
    assert!(module.debug().expect("skeleton units").lacks_split_files());
}

#[test]
fn what_is_no_program_is_unreadable() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g"], "a.c", SOURCE, "prog");
    let whole = std::fs::read(&program).unwrap();
    std::fs::write(sandbox.path("empty"), b"").unwrap();
    std::fs::write(sandbox.path("text"), b"#!/bin/sh\n").unwrap();
    std::fs::write(sandbox.path("head"), &whole[..80]).unwrap();
    for name in ["missing", "empty", "text", "prog (deleted)"] {
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &sandbox.text_path(name));
        assert_eq!(module.source(), SymbolSource::Unreadable, "{name}");
        assert_eq!(module.frames(Svma(0x1234))[0].function, format!("{}+0x1234", name.replace(" (deleted)", "")));
    }
    // Cut anywhere, or with bytes turned: an answer or none, never a panic.
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged.truncate(cut);
        probe(&sandbox, damaged);
        let mut damaged = whole.clone();
        damaged[cut..].iter_mut().step_by(97).for_each(|byte| *byte ^= 0x5a);
        probe(&sandbox, damaged);
    }
}

fn probe(sandbox: &Sandbox, bytes: Vec<u8>) {
    std::fs::write(sandbox.path("damaged"), bytes).unwrap();
    let store = FileStore::new(sandbox);
    let module = Module::open(&store, &sandbox.text_path("damaged"));
    for svma in (0x1000..0x1400).step_by(3).map(Svma) {
        assert!(!module.frames(svma).is_empty());
        module.function_bounds(svma);
        module.symbols().variable_at(svma);
    }
}

/// Whether two inline stacks are the same. Where debug information gives the innermost function no linkage name
/// (templates over a local type), binutils names it by the symbol that covers the code, which is the outermost's; and
/// the outermost likewise.
fn same(ours: &[(String, u32)], theirs: &[(String, u32)]) -> bool {
    let outermost = theirs.last().map(|level| &level.0);
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).enumerate().all(|(depth, (ours, theirs))| {
            let is_replaced = depth == 0 && Some(&theirs.0) == outermost;
            let is_symbol = Some(&theirs.0) == outermost && theirs.0.starts_with("_Z") && !ours.0.starts_with("_Z");
            ours.1 == theirs.1 && (ours.0 == theirs.0 || is_replaced || is_symbol)
        })
}

/// `addr2line -if` of binutils: (linked name, line) of each level, innermost first; line 0 where not known.
fn binutils(program: &str, addresses: &[u64]) -> Vec<Vec<(String, u32)>> {
    let mut child = Command::new("addr2line")
        .args(["-aif", "-e", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("binutils are needed by this test");
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut stacks: Vec<Vec<(String, u32)>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            stacks.push(Vec::new());
            continue;
        }
        let place = lines.next().expect("a name is followed by a place");
        let number = place.split(" (discriminator").next().unwrap().rsplit(':').next().unwrap();
        stacks.last_mut().unwrap().push((line.to_owned(), number.parse().unwrap_or(0)));
    }
    stacks
}

#[test]
fn agrees_with_binutils() {
    let sandbox = Sandbox::new();
    let rust = "fn main() {
    let mut words: Vec<String> = std::env::args().chain((0..50).map(|i| format!(\"{}\", i * 7 % 11))).collect();
    words.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    println!(\"{}\", words.iter().map(|word| word.len()).sum::<usize>());
}
";
    let programs = [
        sandbox.compile("gcc", &["-O2", "-g"], "a.c", SOURCE, "c"),
        sandbox.compile("g++", &["-O2", "-g", "-std=c++17"], "a.cpp", CPP_SOURCE, "cpp"),
        sandbox.compile("rustc", &["-O", "-g", "--edition=2021"], "a.rs", rust, "rs"),
    ];
    for program in programs {
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &program);
        let image = module.image().expect("an ELF file");
        let debug = module.debug().expect("compiled with -g");
        let code = image.segments().iter().find(|segment| segment.executable).unwrap();
        // Evenly spread over the code that has debug information, some of it in the middle of instructions.
        let known: Vec<u64> = (code.svma.0..code.svma.0 + code.data.len() as u64)
            .filter(|&svma| module.frames(Svma(svma))[0].position.is_some())
            .collect();
        let addresses: Vec<u64> = known.iter().copied().step_by((known.len() / 300).max(1)).collect();
        let theirs = binutils(&program, &addresses);
        assert_eq!(theirs.len(), addresses.len());
        let (mut equal, mut different) = (0, Vec::new());
        for (&address, theirs) in addresses.iter().zip(&theirs) {
            let mut ours: Vec<(String, u32)> = Vec::new();
            debug.for_each_frame(Svma(address), |level| {
                ours.push((level.name.unwrap_or("??").to_owned(), level.line.unwrap_or(0)));
            });
            if same(&ours, theirs) { equal += 1 } else { different.push((address, ours, theirs.clone())) }
        }
        let share = f64::from(equal) / addresses.len() as f64;
        assert!(addresses.len() >= 100, "{program}: {} addresses", addresses.len());
        let few = &different[..different.len().min(8)];
        assert!(share >= 0.97, "{program}: {equal} of {} agree; {few:x?}", addresses.len());
    }
}
