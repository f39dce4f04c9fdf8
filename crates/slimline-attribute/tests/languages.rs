//! Languages and forms of debug information (docs/languages.md): fields that the code accesses are told by name.

mod sandbox;

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use sandbox::Sandbox;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;
use slimline_trace::address::Svma;

/// The fields (`type.path`) and variables that the instructions of all functions whose name contains `function` access.
fn accessed(sandbox: &Sandbox, program: &str, function: &str) -> BTreeSet<String> {
    let store = FileStore::new(sandbox);
    let module = Module::open(&store, program);
    let info = module.debug_info().expect("debug information");
    let mut table = TypeTable::new();
    let mut found = BTreeSet::new();
    let image = module.image().expect("an ELF file");
    let mut next = image.segments().iter().filter(|segment| segment.executable).map(|segment| segment.svma.0).min();
    let end = image.segments().iter().filter(|segment| segment.executable);
    let end = end.map(|segment| segment.svma.0 + segment.data.len() as u64).max().expect("code");
    while let Some(at) = next.filter(|&at| at < end) {
        let Some((begin, after)) = module.function_bounds(Svma(at)) else {
            next = Some(at + 1);
            continue;
        };
        next = Some(after.0.max(at + 1));
        if !module.linked_name(begin).contains(function) {
            continue;
        }
        let code = &image.bytes_from(begin)[..(after.0 - begin.0) as usize];
        let sites: Vec<Svma> = Decoder::with_ip(64, code, begin.0, DecoderOptions::NONE)
            .into_iter()
            .filter(|instruction| {
                let has_operand =
                    (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
                has_operand && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
            })
            .map(|instruction| Svma(instruction.ip()))
            .collect();
        for answer in info.infer(code, begin, &sites, &mut table) {
            let answer = match answer {
                Ok(answer) => answer,
                Err(reason) => {
                    found.insert(format!("lost: {reason:?}"));
                    continue;
                }
            };
            let (id, offset) = (answer.accessed.type_id, answer.accessed.offset);
            let path = leaves::field_at(table.rows(), id, offset).map_or("?".to_owned(), |leaf| leaf.path);
            found.insert(format!("{}.{path}", table.get(id).name).trim_end_matches('.').to_owned());
        }
    }
    found
}

/// Compiles, then checks that the function's accesses include these.
#[track_caller]
fn check(label: &str, sandbox: &Sandbox, program: &str, function: &str, wanted: &[&str]) {
    let found = accessed(sandbox, program, function);
    for field in wanted {
        assert!(found.contains(*field), "{label}: {function} has no {field}, but {found:#?}");
    }
}

const C_SOURCE: &str = "
#include <stdlib.h>
#include <stdio.h>
struct node { struct node *next; int key; double value; };
struct particle { double x, y, mass; long id; };
__attribute__((noinline)) double chase(struct node *head) {
  double sum = 0;
  for (struct node *n = head; n; n = n->next)
    if (n->key > 3) sum += n->value;
  return sum;
}
__attribute__((noinline)) double walk(struct particle *p, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += p[i].x * p[i].mass;
  return sum;
}
int main(int argc, char **argv) {
  struct particle *p = calloc(argc * 64, sizeof *p);
  struct node *head = 0;
  for (int i = 0; i < argc * 64; i++) {
    struct node *n = malloc(sizeof *n);
    n->next = head; n->key = i; n->value = i; head = n;
    p[i].x = i; p[i].mass = 1;
  }
  printf(\"%g %g\", chase(head), walk(p, argc * 64));
}
";

const C_FIELDS: [(&str, &[&str]); 2] = [
    ("chase", &["struct node.next", "struct node.key", "struct node.value"]),
    ("walk", &["struct particle.x", "struct particle.mass"]),
];

fn check_c(label: &str, sandbox: &Sandbox, program: &str) {
    for (function, fields) in C_FIELDS {
        check(label, sandbox, program, function, fields);
    }
}

#[test]
fn c_in_every_form() {
    for (compiler, flags) in [
        ("gcc", &["-O2", "-gdwarf-4"][..]),
        ("gcc", &["-O2", "-gdwarf-5"]),
        ("gcc", &["-O2", "-gdwarf-4", "-fdebug-types-section"]),
        ("gcc", &["-O2", "-gz=zlib"]),
        ("gcc", &["-O3", "-funroll-loops", "-fomit-frame-pointer"]),
        ("gcc", &["-O3", "-march=x86-64-v3"]),
        ("gcc", &["-O2", "-flto"]),
        ("gcc", &["-O2", "-static"]),
        ("gcc", &["-O2", "-gsplit-dwarf"]),
        ("gcc", &["-O2", "-gsplit-dwarf", "-gdwarf-4"]),
        ("clang", &["-O2", "-gdwarf-4"]),
        ("clang", &["-O2", "-gdwarf-5"]),
        ("clang", &["-O3", "-funroll-loops"]),
        ("clang", &["-O2", "-gsplit-dwarf", "-gdwarf-5"]),
    ] {
        let sandbox = Sandbox::new();
        let program = sandbox.compile(compiler, &[&["-g"], flags].concat(), "a.c", C_SOURCE, "prog");
        check_c(&format!("{compiler} {flags:?}"), &sandbox, &program);
    }
}

/// With a part of each function that never runs, which compilers that know it move elsewhere.
const PROFILED_SOURCE: &str = "
#include <stdlib.h>
#include <stdio.h>
struct node { struct node *next; int key; double value; };
struct particle { double x, y, mass; long id; };
__attribute__((noinline)) double chase(struct node *head) {
  double sum = 0;
  for (struct node *n = head; n; n = n->next) {
    if (n->key > 3) sum += n->value;
    else if (n->key < 0) { n->value = -n->value; puts(\"negative\"); }
  }
  return sum;
}
__attribute__((noinline)) double walk(struct particle *p, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    sum += p[i].x * p[i].mass;
    if (p[i].id) { printf(\"%ld\", p[i].id); p[i].y = 0; }
  }
  return sum;
}
int main(int argc, char **argv) {
  struct particle *p = calloc(argc * 640, sizeof *p);
  struct node *head = 0;
  for (int i = 0; i < argc * 640; i++) {
    struct node *n = malloc(sizeof *n);
    n->next = head; n->key = i; n->value = i; head = n;
    p[i].x = i; p[i].mass = 1;
  }
  double sum = 0;
  for (int i = 0; i < 100; i++) sum += chase(head) + walk(p, argc * 640);
  printf(\"%g\", sum);
}
";

/// What runs often; what was moved away from it is told where variables are said to be in registers, and never by a frame
/// that is not there.
fn check_profiled(label: &str, sandbox: &Sandbox, program: &str) {
    check_c(label, sandbox, program);
    let found = accessed(sandbox, program, ".cold");
    let is_right = |what: &String| what.starts_with("struct ") || what.starts_with("lost: ");
    assert!(!found.is_empty() && found.iter().all(is_right), "{label}: {found:#?}");
}

#[test]
fn functions_that_gcc_splits_by_a_profile() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g", "-fprofile-generate"], "a.c", PROFILED_SOURCE, "prog");
    sandbox.run(&program, &[]);
    let program = sandbox.compile("gcc", &["-O2", "-g", "-fprofile-use"], "a.c", PROFILED_SOURCE, "prog");
    check_profiled("profile", &sandbox, &program);
}

/// BOLT 16 drops the second entry of gcc's file table of DWARF 5 and keeps the numbers, so lines would be of other files.
#[test]
fn functions_that_bolt_moves_by_a_profile() {
    let sandbox = Sandbox::new();
    let flags = ["-O2", "-g", "-gdwarf-4", "-Wl,--emit-relocs"];
    sandbox.compile("gcc", &flags, "a.c", PROFILED_SOURCE, "prog");
    let profile = sandbox.text_path("profile");
    let profile_to = format!("-instrumentation-file={profile}");
    // It looks below /usr/lib.
    let runtime = "-runtime-instrumentation-lib=llvm-16/lib/libbolt_rt_instr.a";
    sandbox.run("llvm-bolt-16", &["prog", "-instrument", &profile_to, runtime, "-o", "counting"]);
    sandbox.run(&sandbox.text_path("counting"), &[]);
    let profile = format!("-data={profile}");
    let moves = ["-reorder-blocks=ext-tsp", "-reorder-functions=hfsort", "-split-functions", "-split-all-cold"];
    let arguments = [&["prog", "-o", "moved", &profile, "-update-debug-sections"][..], &moves].concat();
    sandbox.run("llvm-bolt-16", &arguments);
    let moved = sandbox.text_path("moved");
    check_profiled("BOLT", &sandbox, &moved);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &moved);
    let symbols = sandbox.run("nm", &["moved"]);
    let walk = symbols.lines().find_map(|line| line.strip_suffix(" T walk")).expect("its symbol");
    let frames = module.frames(Svma(u64::from_str_radix(walk, 16).expect("an address")));
    let at = frames.last().and_then(|frame| frame.position.as_ref()).expect("a line");
    assert!(at.file.ends_with("a.c") && (14..=22).contains(&at.line), "{at:?}");
}

#[test]
fn sections_compressed_by_zstd() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-g"], "a.c", C_SOURCE, "prog");
    sandbox.run("objcopy", &["--compress-debug-sections=zstd", "prog", "packed"]);
    assert!(sandbox.run("readelf", &["-t", "packed"]).contains("ZSTD"), "objcopy compressed nothing");
    drop(program);
    check_c("zstd", &sandbox, &sandbox.text_path("packed"));
}

#[test]
fn split_units_in_a_package() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-O2", "-gdwarf-4", "-gsplit-dwarf"], "a.c", C_SOURCE, "prog");
    sandbox.run("dwp", &["-e", "prog", "-o", "prog.dwp"]);
    std::fs::remove_file(sandbox.path("prog-a.dwo")).expect("what gcc calls it");
    check_c("dwp", &sandbox, &program);
}

/// Two files, each with units for types behind its others.
#[test]
fn split_units_for_types() {
    let sandbox = Sandbox::new();
    let other = "struct grain { double mass; long kind; };
double weigh(struct grain *g, long n) { double sum = 0; for (long i = 0; i < n; i++) sum += g[i].mass; return sum; }";
    std::fs::write(sandbox.path("b.c"), other).expect("write source");
    let flags = ["-O2", "-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section", "b.c"];
    let program = sandbox.compile("gcc", &flags, "a.c", C_SOURCE, "prog");
    for file in ["prog-a.dwo", "prog-b.dwo"] {
        assert!(sandbox.run("readelf", &["-SW", file]).contains(".debug_types.dwo"), "{file}");
    }
    check_c("split types", &sandbox, &program);
    check("split types", &sandbox, &program, "weigh", &["struct grain.mass"]);
}

#[test]
fn types_that_dwz_moved_to_a_shared_file() {
    let sandbox = Sandbox::new();
    let flags = ["-O2", "-g", "-Wl,--build-id"];
    let program = sandbox.compile("gcc", &flags, "a.c", C_SOURCE, "prog");
    sandbox.compile("gcc", &[&flags[..], &["-DTWICE"]].concat(), "b.c", C_SOURCE, "twin");
    sandbox.run("dwz", &["-m", "shared.debug", "prog", "twin"]);
    assert!(sandbox.path("shared.debug").exists(), "dwz moved nothing");
    check_c("dwz", &sandbox, &program);
}

const CPP_SOURCE: &str = "
#include <cstdio>
#include <deque>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>
struct Body { double mass; int id; double at[3]; };
struct Named { long name; };
struct Shape : virtual Named { double area; };
template <class T> struct Pair { T first, second; };
__attribute__((noinline)) double in_vector(const std::vector<Body> &v) { double s = 0; for (auto &b : v) s += b.mass; return s; }
__attribute__((noinline)) double in_map(const std::map<int, Body> &m) { double s = 0; for (auto &e : m) s += e.second.mass; return s; }
__attribute__((noinline)) double in_hash(const std::unordered_map<int, Body> &m) { double s = 0; for (auto &e : m) s += e.second.mass; return s; }
__attribute__((noinline)) double in_list(const std::list<Body> &l) { double s = 0; for (auto &b : l) s += b.mass; return s; }
__attribute__((noinline)) double in_deque(const std::deque<Body> &d) { double s = 0; for (auto &b : d) s += b.mass; return s; }
__attribute__((noinline)) double in_template(Pair<Body> *p, int n) { double s = 0; for (int i = 0; i < n; i++) s += p[i].second.mass; return s; }
__attribute__((noinline)) double of_virtual_base(Shape *s) { return s->area; }
int main(int argc, char **) {
  std::vector<Body> v; std::map<int, Body> m; std::unordered_map<int, Body> h; std::list<Body> l; std::deque<Body> d;
  for (int i = 0; i < argc * 9; i++) { Body b{1.5, i, {}}; v.push_back(b); m[i] = b; h[i] = b; l.push_back(b); d.push_back(b); }
  std::vector<Pair<Body>> p(argc + 3);
  Shape s; s.area = argc;
  std::printf(\"%g\", in_vector(v) + in_map(m) + in_hash(h) + in_list(l) + in_deque(d) + in_template(p.data(), argc) + of_virtual_base(&s));
}
";

#[test]
fn cpp_containers_and_bases() {
    for (compiler, flags) in [
        ("g++", &["-O1"][..]),
        ("g++", &["-O2"]),
        ("g++", &["-O2", "-gdwarf-4"]),
        ("g++", &["-O3"]),
        ("clang++", &["-O2"]),
    ] {
        let sandbox = Sandbox::new();
        let program = sandbox.compile(compiler, &[&["-g"], flags].concat(), "a.cpp", CPP_SOURCE, "prog");
        let label = format!("{compiler} {flags:?}");
        for (function, fields) in [
            ("in_vector", &["Body.mass"][..]),
            ("in_deque", &["Body.mass"]),
            ("in_template", &["Pair<Body>.second.mass"]),
            ("of_virtual_base", &["Shape.area"]),
        ] {
            check(&label, &sandbox, &program, function, fields);
        }
    }
}

/// A node's content lies in bytes that the template's argument types.
#[test]
fn nodes_of_cpp_containers_have_the_fields_of_what_they_hold() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("g++", &["-g", "-O2"], "a.cpp", CPP_SOURCE, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let info = module.debug_info().expect("debug information");
    let mut table = TypeTable::new();
    for (name, readable, field) in [
        (
            "std::_Rb_tree_node<std::pair<int const, Body> >",
            "std::_Rb_tree_node<std::pair<int const, Body>>",
            "second.mass",
        ),
        ("std::_List_node<Body>", "std::_List_node<Body>", "mass"),
        (
            "std::__detail::_Hash_node<std::pair<int const, Body>, false>",
            "std::__detail::_Hash_node<std::pair<int const, Body>, false>",
            "second.mass",
        ),
    ] {
        let id = info.type_named(name, &mut table).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(table.get(id).name, readable);
        let leaves: Vec<String> = leaves::leaves(table.rows(), id).into_iter().map(|leaf| leaf.path).collect();
        assert!(leaves.iter().any(|path| path.ends_with(field)), "{readable}: {leaves:?}");
    }
}

const RUST_SOURCE: &str = "
use std::collections::HashMap;
use std::hint::black_box;
pub struct Body { mass: f64, id: u32, next: Option<Box<Body>> }
pub enum Shape { Circle { radius: f64 }, Square { side: f64, turned: bool }, Empty }
pub struct Cell { pair: (u64, f64), name: &'static str }
#[unsafe(no_mangle)] #[inline(never)] pub fn in_vec(v: &Vec<Body>) -> f64 { v.iter().map(|b| b.mass).sum() }
#[unsafe(no_mangle)] #[inline(never)] pub fn in_slice(v: &[Body]) -> u32 { v.iter().map(|b| b.id).sum() }
#[unsafe(no_mangle)] #[inline(never)] pub fn in_chain(b: &Body) -> f64 {
    let mut sum = 0.0; let mut at = Some(b);
    while let Some(b) = at { sum += b.mass; at = b.next.as_deref(); }
    sum
}
#[unsafe(no_mangle)] #[inline(never)] pub fn in_enum(s: &Shape) -> f64 {
    match s { Shape::Circle { radius } => *radius, Shape::Square { side, turned } => if *turned { 0.0 } else { *side }, Shape::Empty => 1.0 }
}
#[unsafe(no_mangle)] #[inline(never)] pub fn in_enums(s: &[Shape]) -> f64 { s.iter().map(|s| if let Shape::Circle { radius } = s { *radius } else { 0.0 }).sum() }
#[unsafe(no_mangle)] #[inline(never)] pub fn among_enums(s: &[Shape], at: &[usize]) -> f64 {
    let mut sum = 0.0;
    for &at in at { if let Shape::Square { side, .. } = &s[at] { sum += *side; } }
    sum
}
#[unsafe(no_mangle)] #[inline(never)] pub fn in_tuple(c: &[Cell]) -> f64 { c.iter().map(|c| c.pair.1 + c.name.len() as f64).sum() }
#[unsafe(no_mangle)] #[inline(never)] pub fn in_arc(b: &std::sync::Arc<Body>) -> f64 { b.mass }
#[unsafe(no_mangle)] #[inline(never)] pub fn in_map(m: &HashMap<u32, Body>) -> f64 { m.values().map(|b| b.mass).sum() }
fn main() {
    let body = |id| Body { mass: f64::from(id), id, next: (id % 2 == 0).then(|| Box::new(Body { mass: 1.0, id, next: None })) };
    let v: Vec<Body> = (0..black_box(9)).map(body).collect();
    let shapes = [Shape::Circle { radius: black_box(1.0) }, Shape::Square { side: 2.0, turned: black_box(false) }, Shape::Empty];
    let cells = [Cell { pair: (black_box(1), 2.0), name: black_box(\"a\") }];
    let map: HashMap<u32, Body> = (0..9).map(|id| (id, body(id))).collect();
    println!(\"{} {}\", in_enums(&shapes), among_enums(&shapes, &[black_box(1)]));
    println!(\"{} {} {} {} {} {} {}\", in_vec(&v), in_slice(&v), in_chain(&v[0]), shapes.iter().map(in_enum).sum::<f64>(),
        in_tuple(&cells), in_arc(&std::sync::Arc::new(body(3))), in_map(&map));
}
";

#[test]
fn rust_contents() {
    for flags in [&["-C", "opt-level=2"][..], &["-C", "opt-level=3"]] {
        let sandbox = Sandbox::new();
        let flags = [&["-g", "--edition", "2024"], flags].concat();
        let program = sandbox.compile("rustc", &flags, "a.rs", RUST_SOURCE, "prog");
        let label = format!("rustc {flags:?}");
        for (function, fields) in [
            ("in_vec", &["a::Body.mass"][..]),
            ("in_slice", &["a::Body.id"]),
            ("in_chain", &["a::Body.mass", "a::Body.next"]),
            ("in_tuple", &["a::Cell.pair.1"]),
        ] {
            check(&label, &sandbox, &program, function, fields);
        }
        // Alternatives of an enum share bytes; which one is told by name.
        let shapes = accessed(&sandbox, &program, "in_enum");
        assert!(shapes.iter().any(|field| field.starts_with("a::Shape.")), "{label}: {shapes:?}");
        // So are those of a slice: elements of 24 bytes, of which the first byte says which alternative it is.
        for (function, field) in [("in_enums", "a::Shape.Circle.radius"), ("among_enums", "a::Shape.Square.side")] {
            let found = accessed(&sandbox, &program, function);
            assert!(found.iter().any(|name| name.contains(field.rsplit('.').next().unwrap())), "{label}: {found:?}");
        }
        for (function, field) in [("in_arc", "mass"), ("in_map", "mass")] {
            let found = accessed(&sandbox, &program, function);
            assert!(found.iter().any(|name| name.ends_with(field)), "{label}: {function} {found:?}");
        }
    }
}

const FORTRAN_SOURCE: &str = "
module parts
  implicit none
  type :: part
    double precision :: x, y, mass
    integer :: kind
  end type part
contains
  subroutine assumed(p, total)
    type(part), intent(in) :: p(:)
    double precision, intent(out) :: total
    integer :: i
    total = 0d0
    do i = 1, size(p)
      total = total + p(i)%mass * p(i)%x
    end do
  end subroutine assumed
  subroutine explicit(n, p, total)
    integer, intent(in) :: n
    type(part), intent(in) :: p(n)
    double precision, intent(out) :: total
    integer :: i
    total = 0d0
    do i = 1, n
      total = total + p(i)%y
    end do
  end subroutine explicit
  subroutine in_common(total)
    double precision, intent(out) :: total
    double precision :: dt, loss(8)
    integer :: steps
    common /physics/ dt, loss, steps
    total = dt * steps + loss(3)
    steps = steps + 1
  end subroutine in_common
end module parts
program main
  use parts
  implicit none
  type(part), allocatable :: p(:)
  double precision :: a, b, c
  integer :: i
  allocate(p(100))
  do i = 1, 100
    p(i)%x = i; p(i)%y = 2 * i; p(i)%mass = 0.5d0; p(i)%kind = 1
  end do
  call assumed(p, a)
  call explicit(100, p, b)
  call in_common(c)
  print *, a, b, c
end program main
";

#[test]
fn fortran_types_arrays_and_common_blocks() {
    for flags in [&["-O1"][..], &["-O2"], &["-O2", "-gdwarf-4"], &["-O3"]] {
        let sandbox = Sandbox::new();
        let flags = [&["-g", "-fno-inline"], flags].concat();
        let program = sandbox.compile("gfortran", &flags, "a.f90", FORTRAN_SOURCE, "prog");
        let label = format!("gfortran {flags:?}");
        for (function, fields) in [
            ("assumed", &["type(part).mass", "type(part).x"][..]),
            ("explicit", &["type(part).y"]),
            ("in_common", &["common /physics/.dt", "common /physics/.steps"]),
        ] {
            check(&label, &sandbox, &program, function, fields);
        }
    }
}
