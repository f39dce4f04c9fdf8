//! The type that compiled instructions access, against what their source line says.
//!
//! In the sources, `//= a.x, b.y` lists all structure fields that the line accesses. Each must be found in some
//! instruction of the line's function, at any optimization; without optimization in an instruction of that very line.
//! And no instruction of the function may be said to access a field that none of its lines lists.

mod compiled;

use std::collections::{BTreeMap, BTreeSet};

use compiled::{Compiled, Inferred, spelled};
use slimline_attribute::tables::TypeKind;
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;

/// Fields listed on each line, by line number.
fn listed(source: &str, from: &str) -> BTreeMap<u64, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut inside = false;
    for (number, line) in source.lines().enumerate() {
        if line.contains(from) && (line.contains('{') || line.contains("fn ")) {
            inside = true;
        } else if inside && line.starts_with('}') {
            break;
        }
        if let Some((_, list)) = line.split_once("//= ").filter(|_| inside) {
            let list = list.split(", ").map(|field| field.trim().to_owned()).collect();
            found.insert(number as u64 + 1, list);
        }
    }
    assert!(!found.is_empty(), "no line of {from} lists fields");
    found
}

fn listing(rows: &[Inferred], table: &TypeTable) -> String {
    let mut text = String::new();
    for row in rows {
        let answer = match &row.answer {
            Ok(answer) => format!("{} {:?}", spelled(table, answer), answer.variable),
            Err(reason) => format!("{reason:?}"),
        };
        text += &format!("{:x} line {:3} {:45} {answer}\n", row.address, row.line, row.text);
    }
    text
}

/// A field's name without array indices: compilers unroll.
fn any_element(name: &str) -> String {
    let mut inside = false;
    let keep = move |c: &char| match c {
        '[' => {
            inside = true;
            true
        }
        ']' => {
            inside = false;
            true
        }
        c => !(inside && c.is_ascii_digit()),
    };
    name.chars().filter(keep).collect()
}

/// Checks one function; `by_line` where each field must be found on its own line.
fn check(program: &Compiled, source: &str, symbol: &str, from: &str, by_line: bool, label: &str) {
    let mut table = TypeTable::new();
    let rows = program.infer(symbol, &mut table);
    let wanted = listed(source, from);
    let all: BTreeSet<&String> = wanted.values().flatten().collect();
    let mut found: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for row in &rows {
        let Ok(answer) = &row.answer else { continue };
        let kind = table.get(answer.accessed.type_id).kind;
        let name = any_element(&spelled(&table, answer));
        let structure = matches!(kind, TypeKind::Structure | TypeKind::Union) && !name.starts_with("core::");
        assert!(
            // Line 0: in a library's source file.
            !structure || row.line == 0 || all.contains(&name),
            "{label} {symbol}: {name} at {:x} is in no line\n{}",
            row.address,
            listing(&rows, &table)
        );
        found.entry(row.line).or_default().insert(name);
    }
    for (line, fields) in &wanted {
        for field in fields {
            let here = if by_line {
                found.get(line).is_some_and(|found| found.contains(field))
            } else {
                found.values().any(|found| found.contains(field))
            };
            assert!(here, "{label} {symbol} line {line}: {field} not found\n{}", listing(&rows, &table));
        }
    }
}

const C_SOURCE: &str = r#"
#include <stdlib.h>
#include <stddef.h>
typedef struct { double I, W, X, V, U, P, Q, R; } f1_neuron;
struct node { struct node *next; int key; double value; };
struct grid { long id; double cell[12]; struct { float x, y; } pos; union { int i; float f; } u; unsigned low : 4, high : 12; };
struct zone { long zone_id; long part_id; struct zone *next; double value; };
struct part { long count; struct zone *first; struct zone *zones; };
struct tree { double x, y; struct tree *left, *right; long sz; };
struct text { size_t length; int hash; short words[]; };
struct point4 { int a, b, c, d; };
typedef volatile long vlong;
struct shared {
  volatile long hits; const volatile int mode; _Atomic long count; vlong typed; long plain; volatile unsigned char flags[4];
  struct node *volatile next; const volatile struct shared *_Atomic last; volatile struct { int a, b; } inner;
};
f1_neuron *f1; int numf1s;
static struct point4 points[1000];
struct grid the_grid;
int global_sum;

__attribute__((noipa)) double match(void) {
  double sum = 0;
  for (int i = 0; i < numf1s; i++) {
    sum += f1[i].P; //= f1_neuron.P
    f1[i].U = sum; //= f1_neuron.U
  }
  return sum;
}
__attribute__((noipa)) double chase(struct node *head) {
  double sum = 0;
  for (struct node *n = head; n; n = n->next) //= struct node.next
    if (n->key > 3) //= struct node.key
      sum += n->value; //= struct node.value
  return sum;
}
__attribute__((noipa)) double nested(struct grid *g, int n) {
  double sum = g->pos.y; //= struct grid.pos.y
  for (int i = 0; i < n; i++) {
    sum += g[i].u.f; //= struct grid.u
    sum += g[i].high; //= struct grid.low|high
    sum += g[i].pos.x; //= struct grid.pos.x
  }
  return sum;
}
__attribute__((noipa)) double cells(struct grid *g, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += g->cell[i]; //= struct grid.cell[]
  return sum;
}
__attribute__((noipa)) long zones(struct part *part, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    for (struct zone *z = part[i].first; z; z = z->next) //= struct part.first, struct zone.next
      sum += z->value; //= struct zone.value
  for (int i = 0; i < n; i++)
    part[0].zones[i].part_id = i; //= struct part.zones, struct zone.part_id
  return (long)sum;
}
__attribute__((noipa)) double walk(struct tree *t) {
  if (!t) return 0;
  double below = walk(t->left) + walk(t->right); //= struct tree.left, struct tree.right
  return below + t->x; //= struct tree.x
}
__attribute__((noipa)) int statics(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++)
    sum += points[i].c; //= struct point4.c
  points[7].b = sum; //= struct point4.b
  the_grid.id = sum; //= struct grid.id
  return sum;
}
__attribute__((noipa)) int locals(int n) {
  static struct node pool[64];
  struct point4 here[40];
  for (int i = 0; i < n; i++) {
    here[i].d = pool[i].key++; //= struct point4.d, struct node.key
  }
  __asm__ volatile("" : : "r"(here) : "memory");
  return here[n / 2].d; //= struct point4.d
}
__attribute__((noipa)) int flexible(struct text *t) {
  int sum = t->hash; //= struct text.hash
  for (size_t i = 0; i < t->length; i++) //= struct text.length
    sum += t->words[i]; //= struct text.words
  return sum;
}
__attribute__((noipa)) void fill(struct point4 *p, int n) {
  for (int i = 0; i < n; i++) {
    p[i].a = i; //= struct point4.a
    p[i].c = 1; //= struct point4.c
  }
}
__attribute__((noipa)) void shift(f1_neuron *from, f1_neuron *to, long n) {
  f1_neuron *end = from + n;
  while (from < end) {
    to->Q = from->X; //= f1_neuron.X, f1_neuron.Q
    from++;
    to += 2;
  }
}
__attribute__((noipa)) long qualified(struct shared *s, volatile struct shared *v, int n) {
  long sum = 0;
  for (int i = 0; i < n; i++) {
    sum += s[i].hits + s[i].mode; //= struct shared.hits, struct shared.mode
    sum += s[i].count + v[i].plain; //= struct shared.count, struct shared.plain
    s[i].typed = sum; //= struct shared.typed
    sum += s[i].next->key + s[i].last->hits; //= struct shared.next, struct shared.last, struct node.key, struct shared.hits
    sum += v[i].inner.b + s[i].flags[i & 3]; //= struct shared.inner.b, struct shared.flags
  }
  return sum;
}
__attribute__((noipa)) struct node *push(struct node *head, int key) {
  struct node *fresh = malloc(sizeof *fresh);
  fresh->next = head; //= struct node.next
  fresh->key = key; //= struct node.key
  fresh->value = 0.5; //= struct node.value
  return fresh;
}
__attribute__((noipa)) double passed_on(int n) {
  struct node *list = NULL;
  for (int i = 0; i < n; i++) list = push(list, i);
  return push(list, 1)->value; //= struct node.value
}
int main(int argc, char **argv) {
  f1 = calloc(argc + 9, sizeof *f1); numf1s = argc + 3;
  struct grid *g = calloc(9, sizeof *g); struct part *p = calloc(4, sizeof *p);
  p->zones = calloc(9, sizeof *p->zones); p->first = p->zones;
  struct text *t = calloc(1, 100); struct point4 *q = calloc(9, sizeof *q); struct tree *tree = calloc(1, sizeof *tree);
  fill(q, argc); shift(f1, f1 + 1, argc);
  return match() + chase(push(NULL, argc)) + nested(g, argc) + cells(g, argc) + zones(p, argc) + walk(tree)
    + statics(argc) + locals(argc) + flexible(t) + passed_on(argc) > 5;
}
"#;

const C_FUNCTIONS: [&str; 15] = [
    "qualified",
    "match",
    "chase",
    "nested",
    "cells",
    "zones",
    "walk",
    "statics",
    "locals",
    "flexible",
    "fill",
    "shift",
    "push",
    "passed_on",
    "match",
];

#[test]
fn c_fields_by_source_line() {
    for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"], &["-O3", "-mavx2"], &["-O2", "-gdwarf-4"], &["-Os"]] {
        let program = Compiled::new("c", C_SOURCE, &[flags, &["-fcf-protection=none"]].concat());
        for function in C_FUNCTIONS {
            let from = format!(" {function}(");
            let from = if function == "push" { " *push(".to_owned() } else { from };
            check(&program, C_SOURCE, function, &from, flags == ["-O0"], &format!("{flags:?}"));
        }
    }
}

#[test]
fn variables_that_hold_the_base() {
    let program = Compiled::new("c", C_SOURCE, &["-O2"]);
    let mut table = TypeTable::new();
    let mut variable = |function: &str, field: &str| {
        let rows = program.infer(function, &mut table);
        let found =
            rows.iter().filter_map(|row| row.answer.as_ref().ok()).find(|answer| spelled(&table, answer) == field);
        found.unwrap_or_else(|| panic!("{field}")).variable.clone()
    };
    assert_eq!(variable("match", "f1_neuron.P").as_deref(), Some("f1"));
    assert_eq!(variable("chase", "struct node.value").as_deref(), Some("n"));
    assert_eq!(variable("zones", "struct zone.part_id").as_deref(), Some("part->zones"));
    assert_eq!(variable("statics", "struct point4.c").as_deref(), Some("points"));
    assert_eq!(variable("statics", "struct grid.id").as_deref(), Some("the_grid"));
}

/// A pointer to an element of bytes that the compiler has no register for.
const SUM_SOURCE: &str = r#"
struct wide { long key; double value; long pad[5]; int flag; int pad2; };
struct ring { char *bytes; const int *pick; long n; };
__attribute__((noinline)) double picked(struct ring *ring) {
  double sum = 0;
  for (long i = 0; i < ring->n; i++) { //= struct ring.n
    struct wide *p = (struct wide *)ring->bytes + ring->pick[i]; //= struct ring.bytes, struct ring.pick
    if (p->flag) //= struct wide.flag
      sum += p->value; //= struct wide.value
    else
      p->key++; //= struct wide.key
  }
  return sum;
}
int main(int argc, char **argv) {
  static struct wide all[8];
  int pick[] = {1, 2, 3};
  struct ring ring = {(char *)all, pick, argc};
  return picked(&ring);
}
"#;

/// `base + index * 64`, as LLVM tells of it.
#[test]
fn pointers_that_are_told_as_a_sum() {
    let program = Compiled::with("clang", "c", SUM_SOURCE, &["-O2"]);
    check(&program, SUM_SOURCE, "picked", " picked(", false, "clang -O2");
}

/// A function of the file leaves registers alone, as gcc knows of it: what it says of them holds behind the call.
const CALL_SOURCE: &str = r#"
struct rec { long x, y, pad[6]; };
__attribute__((noinline)) static long leaf(long v) { return v * 3 + 1; }
__attribute__((noinline)) long walk(const struct rec *r, long n) {
  long s = 0;
  for (long i = 0; i < n; i++) {
    s += leaf(s + i);
    s += r[i & 1].y; //= struct rec.y
  }
  return s;
}
int main(int argc, char **argv) {
  struct rec all[2] = {{argc}};
  return walk(all, argc);
}
"#;

#[test]
fn registers_that_calls_leave_alone_keep_their_variables() {
    let program = Compiled::with("gcc", "c", CALL_SOURCE, &["-O2"]);
    check(&program, CALL_SOURCE, "walk", " walk(", false, "gcc -O2");
    let mut table = TypeTable::new();
    let rows = program.infer("walk", &mut table);
    let names: Vec<_> = rows.iter().filter_map(|row| row.answer.as_ref().ok()?.variable.clone()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name == "r"), "{}", listing(&rows, &table));
}

/// An index that is a distance in another array.
const DISTANCE_SOURCE: &str = r#"
__attribute__((noinline)) double walked(const double *a, const double *b, long n) {
  double s = 0;
  for (const double *q = b; q < b + n; q++) s += *q * a[q - b];
  return s;
}
__attribute__((noinline)) double fixed(const double *a, const double *p, const double *q) { return a[p - q]; }
__attribute__((noinline)) double down(const double *a, const double *p, const double *q) {
  double s = 0;
  for (; q < p; q++) s += a[p - q];
  return s;
}
int main(int argc, char **argv) {
  double a[8] = {argc}, b[8] = {argc};
  return walked(a, b, argc) + fixed(a, b + argc, b) + down(a, b + argc, b);
}
"#;

#[test]
fn an_index_by_a_distance_leaves_the_array_its_name() {
    for level in ["-O1", "-O2"] {
        let program = Compiled::with("gcc", "c", DISTANCE_SOURCE, &[level]);
        let mut table = TypeTable::new();
        for (function, names) in [("walked", &["a", "q"][..]), ("fixed", &["a"]), ("down", &["a"])] {
            let rows = program.infer(function, &mut table);
            let found: BTreeSet<_> = rows.iter().filter_map(|row| row.answer.as_ref().ok()?.variable.clone()).collect();
            assert!(found.iter().eq(names), "{level} {function}: {}", listing(&rows, &table));
        }
    }
}

const CPP_SOURCE: &str = r#"
#include <vector>
#include <cstddef>
#define KEEP extern "C" __attribute__((noipa))
struct Zone { long zone_id, part_id; Zone *next; double value; };
struct Shape { virtual ~Shape() {} int id; };
struct Circle : Shape { double radius; char c; };
struct Mesh { std::vector<Zone> zones; std::vector<int> order; int n; double total() const; };
KEEP double sum(const std::vector<Zone> &zones) {
  double all = 0;
  for (const Zone &zone : zones)
    all += zone.value; //= Zone.value
  return all;
}
KEEP double indexed(const Mesh &mesh) {
  double all = 0;
  for (std::size_t i = 0; i < mesh.order.size(); i++)
    all += mesh.zones[mesh.order[i]].value; //= Zone.value
  return all;
}
KEEP double radii(Circle **circles, int n) {
  double all = 0;
  for (int i = 0; i < n; i++)
    all += circles[i]->radius; //= Circle.radius
  return all;
}
KEEP int base(Circle *circle) {
  return circle->id; //= Circle.id
}
struct List { Zone *head; double walk() const; };
KEEP double walk(const List &list) {
  double all = 0;
  for (Zone *z = list.head; z; z = z->next) //= List.head, Zone.next
    all += z->value; //= Zone.value
  return all;
}
int main(int argc, char **) {
  Mesh mesh; mesh.zones.resize(argc); mesh.order.resize(argc); Circle circle; Circle *circles[] = {&circle};
  List list{&mesh.zones[0]};
  return (int)(sum(mesh.zones) + indexed(mesh) + radii(circles, 1) + base(&circle) + walk(list));
}
"#;

#[test]
fn cpp_vectors_bases_and_references() {
    for flags in [&["-O1"][..], &["-O2"], &["-O3"], &["-O2", "-gdwarf-5", "-fdebug-types-section"]] {
        let program = Compiled::new("cpp", CPP_SOURCE, flags);
        for function in ["indexed", "radii", "base", "walk"] {
            check(&program, CPP_SOURCE, function, &format!(" {function}("), false, &format!("{flags:?}"));
        }
        let mut table = TypeTable::new();
        let rows = program.infer("sum", &mut table);
        let hot: Vec<_> =
            rows.iter().filter_map(|row| row.answer.as_ref().ok()).map(|answer| spelled(&table, answer)).collect();
        assert!(hot.iter().any(|field| field == "Zone.value"), "{flags:?}\n{}", listing(&rows, &table));
    }
}

const RUST_SOURCE: &str = r#"
pub struct Zone { id: u64, part: u32, value: f64, next: Option<Box<Zone>> }
pub struct Mesh { n: usize, zones: Vec<Zone>, order: Vec<u32> }
pub struct Tree { key: u64, left: Option<Box<Tree>>, right: Option<Box<Tree>> }
static mut TABLE: [Small; 64] = [const { Small { a: 1, b: 2, c: 3 } }; 64];
pub struct Small { a: u32, b: u32, c: u64 }
#[unsafe(no_mangle)] #[inline(never)] pub fn slice(zones: &[Zone]) -> f64 {
    let mut all = 0.0;
    for zone in zones {
        all += zone.value; //= program::Zone.value
    }
    all
}
#[unsafe(no_mangle)] #[inline(never)] pub fn indexed(mesh: &mut Mesh) -> f64 {
    let mut all = 0.0;
    for i in 0..mesh.n { //= program::Mesh.n
        let zone = &mut mesh.zones[mesh.order[i] as usize];
        all += zone.value; //= program::Zone.value
        zone.part = i as u32; //= program::Zone.part
    }
    all
}
#[unsafe(no_mangle)] #[inline(never)] pub fn chase(head: &Zone) -> f64 {
    let mut all = head.value; //= program::Zone.value
    let mut at = head;
    while let Some(next) = &at.next { //= program::Zone.next
        all += next.value; //= program::Zone.value
        at = next;
    }
    all
}
#[unsafe(no_mangle)] #[inline(never)] pub fn find(tree: &Option<Box<Tree>>, key: u64) -> bool {
    let mut at = tree;
    while let Some(node) = at {
        if node.key == key { //= program::Tree.key
            return true;
        }
        at = if key < node.key { &node.left } else { &node.right };
    }
    false
}
#[unsafe(no_mangle)] #[inline(never)] pub fn table(i: usize) -> u64 {
    let table = &raw mut TABLE;
    unsafe {
        (*table)[i].a += 1; //= program::Small.a
        (*table)[i].c //= program::Small.c
    }
}
fn main() {
    let n = std::env::args().count();
    let zone = |next| Zone { id: 1, part: 2, value: 3.0, next };
    let mut mesh = Mesh { n, zones: (0..n).map(|_| zone(None)).collect(), order: vec![0; n] };
    let tree = Some(Box::new(Tree { key: 4, left: None, right: None }));
    let all = slice(&mesh.zones) + indexed(&mut mesh) + chase(&zone(Some(Box::new(zone(None)))));
    println!("{all} {} {} {}", find(&tree, n as u64), table(n), mesh.zones[0].id + tree.unwrap().key);
}
"#;

#[test]
fn rust_slices_vectors_and_boxes() {
    for flags in
        [&["-Copt-level=1"][..], &["-Copt-level=2"], &["-Copt-level=3"], &["-Copt-level=3", "-Ctarget-cpu=x86-64-v3"]]
    {
        let program = Compiled::new("rs", RUST_SOURCE, flags);
        for function in ["slice", "indexed", "chase", "find", "table"] {
            check(&program, RUST_SOURCE, function, &format!("fn {function}("), false, &format!("{flags:?}"));
        }
    }
}

const RUST_ITER_SOURCE: &str = r#"
pub struct Zone { id: u64, value: f64 }
#[unsafe(no_mangle)] #[inline(never)] pub fn named(iter: &Zone) -> f64 { iter.value + iter.id as f64 }
#[unsafe(no_mangle)] #[inline(never)] pub fn walked(zones: &[Zone]) -> f64 {
    let mut all = 0.0;
    for zone in zones { all += zone.value; }
    all
}
fn main() {
    let zones = [Zone { id: 1, value: std::env::args().count() as f64 }];
    println!("{} {}", named(&zones[0]), walked(&zones));
}
"#;

/// `for` loops walk by a variable that the compiler calls `iter`; a program's own of that name is no less its own.
#[test]
fn a_rust_variable_called_iter_is_the_programs_unless_a_loop_made_it() {
    for flags in [&["-Copt-level=0"][..], &["-Copt-level=1"], &["-Copt-level=3"]] {
        let program = Compiled::new("rs", RUST_ITER_SOURCE, flags);
        let mut table = TypeTable::new();
        let mut variables = |symbol| -> BTreeSet<String> {
            let rows = program.infer(symbol, &mut table);
            rows.into_iter().filter_map(|row| row.answer.ok()?.variable).collect()
        };
        assert!(variables("named").contains("iter"), "{flags:?}");
        assert!(!variables("walked").iter().any(|name| name.starts_with("iter")), "{flags:?}");
    }
}

#[test]
fn damaged_debug_information_is_no_panic() {
    let program = Compiled::new("c", C_SOURCE, &["-O2"]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut resolved = 0;
    for round in 0..300 {
        let info = program.damaged(|id, data| {
            let sections =
                [gimli::SectionId::DebugInfo, gimli::SectionId::DebugLocLists, gimli::SectionId::DebugAbbrev];
            let wanted = sections[round % 3] == id;
            if round % 10 == 9 {
                data.truncate(next() as usize % (data.len() + 1));
            }
            for _ in 0..if wanted && !data.is_empty() { 1 + round / 30 } else { 0 } {
                let at = next() as usize % data.len();
                data[at] = next() as u8;
            }
        });
        let mut table = TypeTable::new();
        for name in ["struct grid", "struct node", "f1_neuron", "struct tree"] {
            if let Some(id) = info.type_named(name, &mut table) {
                leaves::leaves(table.rows(), id);
                leaves::holes(table.rows(), id);
            }
        }
        for function in C_FUNCTIONS {
            let (begin, size) = program.symbol(function);
            let rows = program.infer_at(&info, begin, size, &mut table);
            resolved += rows.iter().filter(|row| row.answer.is_ok()).count();
            rows.iter().filter_map(|row| row.answer.as_ref().ok()).for_each(|answer| drop(spelled(&table, answer)));
        }
    }
    assert!(resolved > 1000, "damage of a few bytes should leave most of it readable, {resolved}");
}
