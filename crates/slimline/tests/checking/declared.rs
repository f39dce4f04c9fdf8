//! `slimline layouts`, of every form that debug information comes in.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

use super::scratch::{Scratch, check_refused, stderr, stdout};

const HEADER: &str = "
struct node { int id; double pos[6]; char tag; double mass; };
struct text { unsigned long length; char kind; char bytes[]; };
";
/// Has the header's types, and two whose names the other file has, too.
const ONE: &str = "
#include \"node.h\"
struct own { char a; long b; };
struct same { int a; };
struct node n; struct text *t; struct own o; struct same s;
int other(void);
int main(void) { return n.id + (t != 0) + o.a + s.a + other(); }
";
const OTHER: &str = "
#include \"node.h\"
struct own { long b; long c; char a; };
struct same { int a; };
static struct node n; static struct text *t; static struct own o; static struct same s;
int other(void) { return n.id + (t != 0) + o.a + s.a; }
";

fn slimline<S: AsRef<OsStr>>(scratch: &Scratch, arguments: impl IntoIterator<Item = S>) -> Output {
    scratch.slimline(arguments).output().unwrap()
}

fn shown(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = slimline(scratch, arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

fn run(scratch: &Scratch, command: &str) {
    let output = scratch.bash(command).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

fn sources() -> Scratch {
    let scratch = Scratch::new();
    for (name, text) in [("node.h", HEADER), ("one.c", ONE), ("other.c", OTHER)] {
        fs::write(scratch.path(name), text).unwrap();
    }
    scratch
}

/// Rows of the CSV without the place of declaration: name, size, alignment, lines, holes, their bytes, padding, units, same name.
fn rows(scratch: &Scratch, arguments: &[&str]) -> Vec<String> {
    let csv = shown(scratch, &[arguments, &["--format", "csv"]].concat());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        [0, 3, 4, 5, 6, 7, 8, 12, 13].map(|at| cells[at]).join(" ")
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn types_of_several_units_are_merged_and_those_of_one_name_told_apart() {
    let scratch = sources();
    run(&scratch, "gcc -g -O1 one.c other.c -o program");
    let expected = [
        "struct node 72 8 2 2 11 0 2 1",
        "struct own 24 8 1 0 0 7 1 2",
        "struct own 16 8 1 1 7 0 1 2",
        // The flexible array takes what would be padding.
        "struct text 16 8 1 0 0 0 2 1",
        "struct same 4 4 1 0 0 0 1 2",
        "struct same 4 4 1 0 0 0 1 2",
    ];
    assert_eq!(rows(&scratch, &["layouts", "program"]), expected);
    let text = shown(&scratch, &["layouts", "program", "--sort", "holes", "--rows", "2"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "size  align  lines  holes  bytes  padding  crossing  type         declared",
            "  72      8      2      2     11                     struct node  node.h:2",
            "  16      8      1      1      7                     struct own   one.c:3",
            "6 types of program (2 units), 4 of them not shown (--rows)",
            "2 names are of several types: with another layout, or declared elsewhere",
        ]
    );
    assert_eq!(rows(&scratch, &["layouts", "program", "--source", "node.h", "--least-size", "17"]), expected[..1]);
    assert_eq!(rows(&scratch, &["layouts", "program", "--type", "o?n"]), expected[1..3]);
    assert_eq!(rows(&scratch, &["layouts", "program", "--type", "struct s*"]), expected[4..]);
}

/// Debug information in the program, compressed, in a file of its own, in `.dwo` files, of an object file, of DWARF 4 and 5.
#[test]
fn all_forms_of_debug_information_tell_the_same() {
    let scratch = sources();
    let forms = [
        ("five", "gcc -gdwarf-5 one.c other.c -o five"),
        ("four", "gcc -gdwarf-4 one.c other.c -o four"),
        ("packed", "gcc -g -gz one.c other.c -o packed"),
        ("split", "gcc -g -gsplit-dwarf one.c other.c -o split"),
        ("object.o", "gcc -g -c one.c other.c && ld -r one.o other.o -o object.o"),
        (
            "apart",
            "gcc -g one.c other.c -o apart && objcopy --only-keep-debug apart apart.debug && \
             objcopy --strip-debug --add-gnu-debuglink=apart.debug apart",
        ),
        ("library.so", "gcc -g -shared -fPIC one.c other.c -o library.so"),
    ];
    let mut first = None;
    for (name, command) in forms {
        run(&scratch, command);
        let csv = shown(&scratch, &["layouts", name, "--format", "csv"]);
        let expected = first.get_or_insert_with(|| csv.clone());
        assert_eq!(&csv, expected, "{name}");
        let text = shown(&scratch, &["layouts", name]);
        assert!(text.contains(&format!("6 types of {name} (2 units)\n")), "{name}: {text}");
    }
    assert!(first.unwrap().contains(",2,2,11,0,"), "the header's structure is there");
    // A type that has a unit of its own is there once, whoever defines it.
    run(&scratch, "gcc -g -fdebug-types-section one.c other.c -o units");
    let cut = |rows: Vec<String>| {
        let mut rows: Vec<String> = rows.iter().map(|row| row.rsplitn(3, ' ').last().unwrap().to_owned()).collect();
        rows.dedup();
        rows
    };
    assert_eq!(cut(rows(&scratch, &["layouts", "units"])), cut(rows(&scratch, &["layouts", "five"])));
    // What is gone is told.
    run(&scratch, "rm -f *.dwo");
    let told = shown(&scratch, &["layouts", "split"]);
    assert!(
        told.ends_with("Missing: split: 2 units are in .dwo files that are not there, or of another build\n"),
        "{told}"
    );
}

#[test]
fn a_type_is_shown_with_its_members() {
    let scratch = sources();
    run(&scratch, "gcc -g -O1 one.c other.c -o program");
    let text = shown(&scratch, &["layouts", "program", "--show", "node"]);
    let (place, rest) = text.split_once('\n').unwrap();
    assert!(place.starts_with("/* ") && place.ends_with("/node.h:2 */"), "{place}");
    assert_eq!(
        rest,
        "struct node {                            offset  size
    int id;                                   0     4
    /* 4 bytes hole */
    double pos[6];                            8    48
    char tag;                                56     1
    /* 7 bytes hole */
    /* --- cache line 1 (64 bytes) --- */
    double mass;                             64     8
};
/* size 72 bytes, 2 cache lines, 2 holes, 11 bytes in all, alignment 8 */
"
    );
    let json: serde_json::Value =
        serde_json::from_str(&shown(&scratch, &["layouts", "program", "--type", "node", "--format", "json"])).unwrap();
    assert_eq!((&json["schema"], &json["types"][0]["members"][3]["name"]), (&1.into(), &"tag".into()));
    // As a baseline it says what it has, so that other types are not new.
    fs::write(
        scratch.path("node.json"),
        shown(&scratch, &["layouts", "program", "--show", "node", "--format", "json"]),
    )
    .unwrap();
    let text = shown(&scratch, &["diff", "node.json", "program"]);
    assert_eq!(text, "node.json → program\n\nLAYOUTS\n  1 type is the same\n");
    let both = slimline(&scratch, ["layouts", "program", "--show", "node", "--type", "own"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

/// pahole's own figures of structures that it can read: sizes, holes and padding.
#[test]
fn pahole_has_the_same_figures() {
    if Command::new("pahole").arg("--version").output().is_err() {
        return super::scratch::skip("pahole_has_the_same_figures", "pahole (dwarves) is not installed");
    }
    let scratch = sources();
    run(&scratch, "gcc -gdwarf-4 -O1 -c one.c");
    let output = scratch.bash("pahole one.o").output().unwrap();
    let printed = stdout(&output);
    for row in rows(&scratch, &["layouts", "one.o"]) {
        let cells: Vec<&str> = row.rsplitn(9, ' ').collect();
        let (name, bytes, holes, hole_bytes, padding) = (cells[8], cells[7], cells[4], cells[3], cells[2]);
        let begin = printed.find(&format!("\n{name} {{")).or_else(|| printed.find(&format!("{name} {{"))).unwrap();
        let theirs = &printed[begin..begin + printed[begin..].find("\n}").unwrap()];
        assert!(theirs.contains(&format!("size: {bytes},")), "{theirs}");
        if holes != "0" {
            assert!(theirs.contains(&format!("holes: {holes}, sum holes: {hole_bytes}")), "{theirs}");
        }
        // It calls what a flexible array takes padding.
        if padding != "0" {
            assert!(theirs.contains(&format!("padding: {padding} ")), "{theirs}");
        }
    }
}

#[test]
fn members_of_archives_are_read_as_objects() {
    let scratch = sources();
    run(
        &scratch,
        "gcc -g -O1 -c one.c other.c && gcc -c one.c -o bare.o && mkdir sub && ar rc lib.a one.o other.o && ar rcT sub/thin.a one.o other.o",
    );
    let expected = rows(&scratch, &["layouts", "one.o", "other.o"]);
    assert!(!expected.is_empty());
    assert_eq!(rows(&scratch, &["layouts", "lib.a"]), expected);
    assert_eq!(rows(&scratch, &["layouts", "sub/thin.a"]), expected);
    let text = shown(&scratch, &["layouts", "lib.a"]);
    assert!(text.contains("2 units"), "{text}");
    // What is not read of it is told.
    run(&scratch, "ar rc some.a one.o bare.o one.c && rm other.o && ar rc bare.a bare.o");
    let report: serde_json::Value =
        serde_json::from_str(&shown(&scratch, &["layouts", "some.a", "--format", "json"])).unwrap();
    let missing = report["files"][0]["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(
        missing[0].as_str().unwrap().starts_with("1 of 3 members, bare.o: has no debug information"),
        "{missing:?}"
    );
    let thin = shown(&scratch, &["layouts", "sub/thin.a"]);
    assert!(thin.contains("1 of 2 members, ../other.o: a file of a thin archive, which is not there"), "{thin}");
    check_refused(
        &slimline(&scratch, ["layouts", "bare.a"]),
        "bare.a: an archive of which no member can be read: 1 of 1 members",
    );
    let whole = fs::read(scratch.path("lib.a")).unwrap();
    fs::write(scratch.path("cut.a"), &whole[..whole.len() - 100]).unwrap();
    let cut = shown(&scratch, &["layouts", "cut.a"]);
    assert!(cut.contains("the archive is damaged there, or cut off"), "{cut}");
    run(&scratch, "gcc -g -c other.c");
    shown(&scratch, &["diff", "lib.a", "sub/thin.a"]);
}

#[test]
fn what_lies_behind_a_damaged_unit_is_told() {
    let scratch = sources();
    run(&scratch, "gcc -g -gz=none one.c other.c -o whole");
    run(&scratch, "objcopy --dump-section .debug_info=info whole");
    let mut info = fs::read(scratch.path("info")).unwrap();
    let second = 4 + u32::from_le_bytes(info[..4].try_into().unwrap()) as usize;
    // A reserved length.
    info[second..second + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    fs::write(scratch.path("info"), info).unwrap();
    run(&scratch, "objcopy --update-section .debug_info=info whole damaged");
    let told = "a unit's header behind the first 1 is damaged: what follows is not read";
    let text = shown(&scratch, &["layouts", "damaged"]);
    assert!(text.contains(told), "{text}");
    assert!(!shown(&scratch, &["layouts", "whole"]).contains("damaged"));
}

#[test]
fn types_of_a_rust_library_are_read() {
    let scratch = Scratch::new();
    fs::write(
        scratch.path("lib.rs"),
        "pub struct Body { pub tag: u8, pub mass: f64 }\n#[inline(never)]\npub fn mass(of: &Body) -> f64 { of.mass }\n",
    )
    .unwrap();
    run(&scratch, "rustc -g --crate-type rlib --crate-name bodies lib.rs");
    let text = shown(&scratch, &["layouts", "libbodies.rlib"]);
    assert!(text.contains("Body"), "{text}");
}

#[test]
fn what_has_no_types_says_what_it_is() {
    let scratch = sources();
    run(
        &scratch,
        "gcc -g -flto -c one.c -o lto.o && gcc -g -gsplit-dwarf -c one.c -o split.o && gcc -g one.c other.c -o program",
    );
    run(
        &scratch,
        "objcopy --only-keep-debug program program.debug && objcopy --strip-debug --add-gnu-debuglink=program.debug program linked && rm program.debug",
    );
    run(
        &scratch,
        "gcc -m32 -c -x c /dev/null -o small.o 2>/dev/null || printf '\\x7fELF\\x01\\x01\\x01\\0\\0\\0\\0\\0\\0\\0\\0\\0\\x01\\0\\x03\\0' >small.o",
    );
    run(&scratch, "gzip -c program >program.gz; head -c 3000 program >cut; printf 'BC\\xc0\\xde' >code.bc");
    let refused =
        |file: &str, why: &str| check_refused(&slimline(&scratch, ["layouts", file]), &format!("{file}: {why}"));
    refused("lto.o", "compiled with -flto: its debug information is made when it is linked");
    refused("split.dwo", "split debug information (.dwo): give the object file or the program that it is of");
    refused("linked", "has no debug information: that is in program.debug, which is not there or of another build");
    refused("small.o", "no program, library or object file for x86-64 (ELF), but one for x86 (32 bits)");
    refused("program.gz", "packed by gzip, which is not read: unpack it first (gzip -dc program.gz");
    refused("cut", "a damaged ELF file, or one that is cut off");
    refused("code.bc", "LLVM's bitcode, as clang -flto makes it");
    assert!(shown(&scratch, &["layouts", "split.o"]).contains("struct node"));
    check_refused(&slimline(&scratch, ["diff", "program", "code.bc"]), "code.bc: LLVM's bitcode");
}

#[test]
fn what_is_wrong_is_one_line() {
    let scratch = sources();
    run(&scratch, "gcc one.c other.c -o bare && gcc -g one.c other.c -o program");
    check_refused(&slimline(&scratch, ["layouts", "nowhere"]), "nowhere: No such file or directory");
    check_refused(&slimline(&scratch, ["layouts", "one.c"]), "one.c: no program, library or object file for x86-64");
    check_refused(&slimline(&scratch, ["layouts", "."]), ".: not a regular file");
    check_refused(&slimline(&scratch, ["layouts", "bare"]), "bare: has no debug information: compile it with -g");
    check_refused(&slimline(&scratch, ["layouts", "program", "--show", "nodes"]), "no type \"nodes\" in what was read");
}
