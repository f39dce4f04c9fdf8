//! Layouts read from debug information against the compiler's own `offsetof` and `sizeof`.

mod compiled;

use compiled::Compiled;
use slimline_attribute::tables::{MemberRole, Type, TypeKind};
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;
use slimline_trace::address::Svma;

const C_SOURCE: &str = r##"
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
typedef struct { double I, W, X, V, U, P, Q, R; } f1_neuron;
struct node { struct node *next; char tag; double weight[3]; int (*visit)(struct node *, int); };
struct outer { struct { float x, y; } pos; short m[2][3]; union { int i; float f; }; struct node inner;
               const char *name; unsigned int last[40]; };
struct flags { unsigned a : 3, b : 5, c : 20; unsigned long long d : 40; unsigned char e : 2; };
struct __attribute__((packed)) packed { char c; unsigned a : 7; unsigned b : 17; int i; };
struct text { size_t length; uint32_t hash; char bytes[]; };
struct bounds { char a[128]; short b[256]; int none[0]; char c[65536]; char d[32769]; double e; };
union either { long whole; struct { int low, high; } half; };
enum colour { RED, GREEN };
struct mixed { enum colour colour; union either either; _Bool ok; volatile int *const counter; f1_neuron *neurons; };
static f1_neuron neurons[10][2]; struct outer an_outer; struct flags a_flags; struct packed a_packed;
struct text *a_text; struct bounds a_bounds; struct mixed a_mixed;
int counters(void) { static struct node pool[7]; pool[1].tag++; return pool[1].tag; }
#define O(t, f) printf("%s %s %zu %zu\n", #t, #f, offsetof(t, f), sizeof(((t *)0)->f));
#define S(t) printf("%s - 0 %zu\n", #t, sizeof(t));
int main(void) {
  S(f1_neuron) O(f1_neuron, I) O(f1_neuron, P) O(f1_neuron, R)
  S(struct node) O(struct node, next) O(struct node, tag) O(struct node, weight[2]) O(struct node, visit)
  S(struct outer) O(struct outer, pos.y) O(struct outer, m[1][2]) O(struct outer, inner.weight[1])
  O(struct outer, name) O(struct outer, last)
  S(struct packed) O(struct packed, c) O(struct packed, i)
  S(struct flags)
  S(struct text) O(struct text, hash)
  S(struct bounds) O(struct bounds, a) O(struct bounds, b) O(struct bounds, c) O(struct bounds, d) O(struct bounds, e)
  S(struct mixed) O(struct mixed, colour) O(struct mixed, either) O(struct mixed, ok) O(struct mixed, counter)
  O(struct mixed, neurons)
  return (int)neurons[0][0].P + an_outer.m[0][0] + a_flags.a + a_packed.i + (a_text != 0) + a_mixed.ok + a_bounds.c[7] + counters() - 1;
}
"##;

/// Leaves of `name` agree with each line of the program's own table.
fn check_against_offsetof(program: &Compiled) -> usize {
    let info = program.info();
    let mut table = TypeTable::new();
    let mut checked = 0;
    for line in program.run().lines() {
        let words: Vec<_> = line.rsplitn(4, ' ').collect();
        let [size, offset, field, name] = words[..] else { panic!("bad line {line}") };
        let (offset, size): (u64, u64) = (offset.parse().unwrap(), size.parse().unwrap());
        let id = info.type_named(name, &mut table).unwrap_or_else(|| panic!("no type {name}"));
        if field == "-" {
            assert_eq!(table.get(id).bytes, size, "{name}");
            assert_eq!(table.get(id).name, name);
        } else {
            let leaf = leaves::field_at(table.rows(), id, offset).unwrap_or_else(|| panic!("no leaf at {line}"));
            assert_eq!((leaf.path.as_str(), leaf.offset, leaf.bytes), (field, offset, size), "{name}");
        }
        checked += 1;
    }
    checked
}

fn row<'t>(table: &'t TypeTable, name: &str) -> &'t Type {
    table.rows().iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn c_layouts_equal_offsetof_in_every_debug_format() {
    for flags in [
        &["-gdwarf-5"][..],
        &["-gdwarf-4"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-fdebug-types-section"],
        &["-gdwarf-3"],
        &["-gz", "-O2"],
    ] {
        let program = Compiled::new("c", C_SOURCE, flags);
        assert_eq!(check_against_offsetof(&program), 33, "{flags:?}");
        let info = program.info();
        let mut table = TypeTable::new();
        info.type_named("struct mixed", &mut table).unwrap();
        info.type_named("struct outer", &mut table).unwrap();
        let spelled: Vec<_> = row(&table, "struct mixed").members.iter().map(|m| m.type_name.as_str()).collect();
        assert_eq!(spelled, ["enum colour", "union either", "_Bool", "volatile int *const", "f1_neuron *"]);
        let spelled: Vec<_> = row(&table, "struct node").members.iter().map(|m| m.type_name.as_str()).collect();
        assert_eq!(spelled, ["struct node *", "char", "double[3]", "int (*)(struct node *, int)"]);
        assert_eq!(row(&table, "union either").kind, TypeKind::Union);

        let flags = info.type_named("struct flags", &mut table).unwrap();
        let bits: Vec<_> =
            table.get(flags).members.iter().map(|m| (m.name.as_str(), m.offset, m.bytes, m.bits)).collect();
        assert_eq!(
            bits,
            [
                ("a", 0, 4, Some((0, 3))),
                ("b", 0, 4, Some((3, 5))),
                ("c", 0, 4, Some((8, 20))),
                ("d", 8, 8, Some((0, 40))),
                ("e", 13, 1, Some((0, 2))),
            ]
        );
        let merged: Vec<_> =
            leaves::leaves(table.rows(), flags).into_iter().map(|l| (l.path, l.offset, l.bytes)).collect();
        assert_eq!(merged, [("a|b|c".to_owned(), 0, 4), ("d|e".to_owned(), 8, 6)]);

        let text = info.type_named("struct text", &mut table).unwrap();
        assert_eq!(table.get(text).members[2].role, MemberRole::FlexibleArray);
        assert_eq!(leaves::field_at(table.rows(), text, 99).unwrap().path, "bytes");
        assert_eq!(leaves::holes(table.rows(), text), []);
        let node = info.type_named("node", &mut table).unwrap();
        assert_eq!(leaves::holes(table.rows(), node), [leaves::Hole { offset: 9, bytes: 7 }]);
        let outer = info.type_named("struct outer", &mut table).unwrap();
        assert_eq!(leaves::field_at(table.rows(), outer, 20).unwrap().path, "i|f");
    }
}

/// Compilers say it of the array and of its elements.
#[test]
fn an_array_of_constants_is_constant_once() {
    let source = "struct word { const char text[8]; const char *const names[2]; volatile int hits[3]; } word;
        int main(void) { return word.hits[0]; }";
    let (program, mut table) = (Compiled::new("c", source, &["-O0"]), TypeTable::new());
    program.info().type_named("struct word", &mut table).unwrap();
    let spelled: Vec<_> = row(&table, "struct word").members.iter().map(|m| m.type_name.as_str()).collect();
    assert_eq!(spelled, ["const char[8]", "const char *const[2]", "volatile int[3]"]);
}

#[test]
fn statics_of_file_and_function_have_element_and_place() {
    let program = Compiled::new("c", C_SOURCE, &["-O0"]);
    let (info, mut table) = (program.info(), TypeTable::new());
    let (address, size) = program.symbol("neurons");
    let found = info.static_at(Svma(address + 100), &mut table).expect("neurons");
    assert_eq!((found.name.as_str(), found.address, found.bytes), ("neurons", Svma(address), size));
    assert_eq!((table.get(found.element.type_id).name.as_str(), found.element.bytes), ("f1_neuron", 64));
    assert_eq!(found.declared_at.unwrap().line, 16);
    assert!(matches!(table.get(found.type_id).kind, TypeKind::Array { count: 10, .. }));
    let pool = program.file_symbol_prefix("pool");
    let found = info.static_at(Svma(pool), &mut table).expect("pool");
    assert_eq!((found.name.as_str(), table.get(found.element.type_id).name.as_str()), ("pool", "struct node"));
    assert_eq!(info.static_at(Svma(8), &mut table), None);
}

#[test]
fn one_row_for_a_type_that_two_units_define() {
    let source = "struct node { struct node *next; int n; }; struct node head; struct opaque; struct opaque *door;
        int main(void) { return head.n; }";
    let first = Compiled::new("c", source, &["-O0"]);
    let second = Compiled::new("c", &format!("\n\n{source}"), &["-O2"]);
    let mut table = TypeTable::new();
    let a = first.info().type_named("struct node", &mut table);
    let b = second.info().type_named("struct node", &mut table);
    assert!(a.is_some());
    assert_eq!(a, b);
    assert_eq!(first.info().type_named("struct opaque", &mut table), None);
}

const CPP_SOURCE: &str = r##"
#include <cstdio>
#include <vector>
#include <string>
#include <memory>
#include <map>
namespace geo {
template <class T> struct Point { T x, y; };
struct Shape { virtual ~Shape() {} int id; };
struct Circle : Shape { double radius; static int count; char c; };
struct Both : Point<float>, Circle { long extra; };
struct VirtualBase { long v; };
struct Diamond : virtual VirtualBase { int d; };
class Holder { public: std::vector<Point<int>> points; std::string name; std::unique_ptr<Circle> circle;
  std::map<int, Both> table; const Circle &ref; Point<double> fixed[2]; int Circle::*member; Holder(Circle &c) : ref(c) {} };
int Circle::count = 3;
}
static geo::Both both; static geo::Diamond diamond;
#define S(t) printf("%s - 0 %zu\n", #t, sizeof(t));
#define O(t, o, f) printf("%s %s %zu %zu\n", #t, #f, (size_t)((char *)&o.f - (char *)&o), sizeof(o.f));
int main() {
  geo::Circle c; static geo::Holder holder(c); holder.points.push_back({1, 2});
  S(geo::Circle) O(geo::Circle, c, id) O(geo::Circle, c, radius) O(geo::Circle, c, c)
  S(geo::Both) O(geo::Both, both, x) O(geo::Both, both, y) O(geo::Both, both, id) O(geo::Both, both, extra)
  S(geo::Holder) O(geo::Holder, holder, circle) O(geo::Holder, holder, fixed[1].y)
  S(geo::Diamond) O(geo::Diamond, diamond, d)
  return 0;
}
"##;

#[test]
fn cpp_bases_templates_and_library_types() {
    for flags in [&["-O0"][..], &["-O2", "-gdwarf-4"], &["-gdwarf-5", "-fdebug-types-section"]] {
        let program = Compiled::new("cpp", CPP_SOURCE, flags);
        assert_eq!(check_against_offsetof(&program), 14, "{flags:?}");
        let (info, mut table) = (program.info(), TypeTable::new());
        info.type_named("geo::Holder", &mut table).unwrap();
        let members: Vec<_> = row(&table, "geo::Holder").members.iter().map(|m| m.type_name.as_str()).collect();
        assert_eq!(
            members,
            [
                "std::vector<geo::Point<int>>",
                "std::string",
                "std::unique_ptr<geo::Circle>",
                "std::map<int, geo::Both>",
                "const geo::Circle &",
                "geo::Point<double>[2]",
                "int geo::Circle::*",
            ]
        );
        // A short text lies in the string itself.
        let holder = info.type_named("geo::Holder", &mut table).unwrap();
        let leaves = leaves::leaves(table.rows(), holder);
        let text: Vec<u64> =
            leaves.iter().filter(|leaf| leaf.path.contains("_M_local_buf")).map(|leaf| leaf.bytes).collect();
        assert_eq!(text, [16]);
        info.type_named("geo::Both", &mut table).unwrap();
        let both: Vec<_> =
            row(&table, "geo::Both").members.iter().map(|m| (m.name.as_str(), m.offset, m.role)).collect();
        assert_eq!(
            both,
            [
                ("geo::Circle", 0, MemberRole::Base),
                ("geo::Point<float>", 28, MemberRole::Base),
                ("extra", 40, MemberRole::Field),
            ]
        );
        let shape = row(&table, "geo::Shape");
        assert_eq!((shape.members[0].role, shape.members[0].offset), (MemberRole::VirtualTable, 0));
        let (address, _) = program.symbol("_ZN3geo6Circle5countE");
        assert_eq!(info.static_at(Svma(address), &mut table).unwrap().name, "geo::Circle::count");
    }
}

const RUST_SOURCE: &str = r##"
use std::mem::offset_of;
pub struct Node { tag: u8, weight: f64, next: Option<Box<Node>>, flags: (u32, u8), grid: [[u16; 3]; 2], kids: Vec<Node> }
pub enum Shape { Circle { radius: f64 }, Square(u32), Empty }
pub struct Wrap(u32, Shape);
static NODES: [Wrap; 3] = [Wrap(1, Shape::Empty), Wrap(2, Shape::Square(4)), Wrap(3, Shape::Circle { radius: 1.0 })];
macro_rules! o { ($t:ident, $f:tt, $ty:ty) => {
    println!(concat!("program::", stringify!($t), " ", stringify!($f), " {} {}"), offset_of!($t, $f), size_of::<$ty>()) } }
fn main() {
    let node = Node { tag: 1, weight: 2.0, next: None, flags: (1, 2), grid: [[1; 3]; 2], kids: vec![] };
    std::hint::black_box(&node);
    println!("program::Node - 0 {}", size_of::<Node>());
    o!(Node, tag, u8); o!(Node, weight, f64); o!(Node, next, usize);
    println!("program::Node flags.1 {} 1", offset_of!(Node, flags.1));
    println!("program::Node grid[1][2] {} 2", offset_of!(Node, grid) + 10);
    println!("program::Node kids.len {} 8", offset_of!(Node, kids) + 16);
    println!("program::Wrap - 0 {}", size_of::<Wrap>());
    o!(Wrap, 0, u32); o!(Wrap, 1, Shape);
    println!("program::Shape - 0 {}", size_of::<Shape>());
    std::hint::black_box(&NODES);
}
"##;

#[test]
fn rust_reordered_structs_enums_and_tuples() {
    for flags in [&["-Copt-level=0"][..], &["-Copt-level=3", "-Cdebuginfo=2"]] {
        let program = Compiled::new("rs", RUST_SOURCE, flags);
        assert_eq!(check_against_offsetof(&program), 11);
        let (info, mut table) = (program.info(), TypeTable::new());
        let node = info.type_named("program::Node", &mut table).unwrap();
        let mut spelled: Vec<_> =
            table.get(node).members.iter().map(|m| (m.name.as_str(), m.type_name.as_str())).collect();
        spelled.sort();
        assert_eq!(
            spelled,
            [
                ("flags", "(u32, u8)"),
                ("grid", "[[u16; 3]; 2]"),
                ("kids", "alloc::vec::Vec<program::Node>"),
                ("next", "core::option::Option<alloc::boxed::Box<program::Node>>"),
                ("tag", "u8"),
                ("weight", "f64"),
            ]
        );
        info.type_named("program::Shape", &mut table).unwrap();
        let shape = row(&table, "program::Shape");
        assert_eq!(shape.kind, TypeKind::Union);
        let variants: Vec<_> = shape.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(variants, ["discriminant", "Circle", "Square", "Empty"]);
        // `Empty` has no bytes, and the two others share none.
        let id = info.type_named("program::Shape", &mut table).unwrap();
        let leaves = leaves::leaves(table.rows(), id);
        let fields: Vec<_> = leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.offset, leaf.bytes)).collect();
        assert_eq!(fields, [("discriminant", 0, 4), ("Square.0", 4, 4), ("Circle.radius", 8, 8)]);
    }
}
