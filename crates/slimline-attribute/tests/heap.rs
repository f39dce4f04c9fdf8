//! Element types of heap blocks, from the code that allocates them.

mod compiled;

use std::collections::BTreeMap;

use compiled::Compiled;
use iced_x86::{Decoder, DecoderOptions};
use slimline_attribute::typing::heap::{ANY_BYTES, Allocation, AllocationFrame, allocation};
use slimline_attribute::typing::layout::TypeTable;
use slimline_trace::address::Svma;

/// Checks type, element start and holder of the blocks that `function` allocates by `allocator`.
fn check(
    program: &Compiled,
    function: &str,
    allocator: &str,
    bytes: u64,
    expected: (&str, u64, Option<&str>),
    label: &str,
) {
    let info = program.info();
    let mut table = TypeTable::new();
    let path = program.call_path(function, allocator);
    let frames: Vec<_> = path
        .iter()
        .map(|call| AllocationFrame {
            info: Some(&info),
            code: program.code(call.begin, call.begin + call.size),
            begin: Svma(call.begin),
            return_address: Svma(call.return_address),
            characters: None,
        })
        .collect();
    let found = allocation(&frames, bytes, &mut table);
    let element = found.element.unwrap_or_else(|| panic!("{label} {function}: no element in {found:?}"));
    let name = table.get(element.type_id).name.as_str();
    let holder = found.holder.as_ref().map(|holder| holder.name.as_str());
    assert_eq!((name, element.start, holder), expected, "{label} {function}");
    assert_eq!(element.bytes, table.get(element.type_id).bytes);
}

const C_SOURCE: &str = r#"
#include <stddef.h>
static char arena[1 << 20]; static size_t used;
__attribute__((noipa)) void *allocate(size_t n) { void *p = arena + used; used += (n + 15) & ~15ul; return p; }
__attribute__((noipa)) void *xmalloc(size_t n) { void *p = allocate(n); if (!p) __builtin_trap(); return p; }
typedef struct { double P, Q; } neuron;
struct net { int count; neuron *neurons; double **rows; };
struct node { struct node *next; long key; };
struct text { size_t n; char bytes[]; };
struct node *list; struct net *net; double *plain;
__attribute__((noipa)) void member(struct net *net, int n) { net->neurons = xmalloc(n * sizeof(neuron)); }
__attribute__((noipa)) void rows(struct net *net, int n) { net->rows = xmalloc(n * sizeof(double *)); }
__attribute__((noipa)) double local(int n) {
  neuron *here = xmalloc(n * sizeof *here);
  for (int i = 0; i < n; i++) here[i].P = i;
  __asm__ volatile("" : : "r"(here) : "memory");
  return here[n / 2].Q;
}
__attribute__((noipa)) void insert(long key) {
  struct node *fresh = xmalloc(sizeof *fresh); fresh->key = key; fresh->next = list; list = fresh;
}
__attribute__((noipa)) struct node *make(long key) { struct node *n = xmalloc(sizeof *n); n->key = key; return n; }
__attribute__((noipa)) void global(int n) { plain = xmalloc(n * sizeof *plain); }
__attribute__((noipa)) struct text *text(size_t n) { struct text *t = xmalloc(sizeof *t + n); t->n = n; return t; }
struct ends { struct node *first, *last; };
__attribute__((noipa)) void both(struct ends *ends) { struct node *n = xmalloc(sizeof *n); ends->first = n; ends->last = n; }
__attribute__((noipa)) void *untyped(size_t n) { return xmalloc(n); }
int main(int argc, char **argv) {
  struct net here; struct ends ends; both(&ends); net = &here; member(net, argc); rows(net, argc); insert(1); list = make(2); global(argc);
  struct net *second = untyped(sizeof(struct net)); second->count = 1; net = second;
  return (int)local(argc) + (text(3) == 0);
}
"#;

#[test]
fn c_results_of_malloc_wrappers() {
    for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"]] {
        let program = Compiled::new("c", C_SOURCE, flags);
        let label = format!("{flags:?}");
        let check = |function, bytes, expected| check(&program, function, "allocate", bytes, expected, &label);
        check("member", 160, ("neuron", 0, Some("net->neurons")));
        check("rows", 80, ("double *", 0, Some("net->rows")));
        check("local", 160, ("neuron", 0, Some("here")));
        check("insert", 16, ("struct node", 0, Some("list")));
        check("make", 16, ("struct node", 0, Some("n")));
        check("global", 80, ("double", 0, Some("plain")));
        // gcc 12 stores both by one vector register from -O2 on.
        check("both", 16, ("struct node", 0, Some("ends->first")));
        check("text", 11, ("struct text", 0, Some("t")));
    }
}

const CPP_SOURCE: &str = r#"
#include <vector>
#include <list>
#include <memory>
#include <cstddef>
alignas(16) static char arena[1 << 20]; static std::size_t used;
__attribute__((noipa)) void *operator new(std::size_t n) { void *p = arena + used; used += (n + 15) & ~15ul; return p; }
void *operator new[](std::size_t n) { return operator new(n); }
void operator delete(void *) noexcept {}
void operator delete(void *, std::size_t) noexcept {}
struct Zone { long id; double value; ~Zone() { id = 0; } };
struct Point { double x, y, z; };
struct Mesh { std::vector<Point> points; int n; };
#define KEEP extern "C" __attribute__((noipa))
KEEP void grow(std::vector<Zone> &zones) { zones.push_back(Zone{1, 2.0}); }
KEEP void reserve(Mesh *mesh) { mesh->points.reserve(100); }
KEEP Zone *array(int n) { Zone *zones = new Zone[n]; return zones; }
KEEP Point *single() { return new Point{1, 2, 3}; }
KEEP double unique() { auto p = std::make_unique<Point>(); __asm__ volatile("" : : "r"(p.get()) : "memory"); return p->x; }
int main(int argc, char **) {
  std::vector<Zone> zones; grow(zones); Mesh mesh; reserve(&mesh); mesh.points.push_back(*single());
  delete[] array(argc); return (int)unique() + (int)mesh.points.size() + (int)zones.size();
}
"#;

#[test]
fn cpp_new_and_containers() {
    for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"]] {
        let program = Compiled::new("cpp", CPP_SOURCE, flags);
        let label = format!("{flags:?}");
        let check = |function, bytes, expected| check(&program, function, "_Znwm", bytes, expected, &label);
        check("grow", 64, ("Zone", 0, Some("zones")));
        check("reserve", 2400, ("Point", 0, Some("mesh->points")));
        // Returned and nothing else: at -O1 no variable is left.
        check("array", 168, ("Zone", 8, Some("zones").filter(|_| flags != ["-O1"])));
    }
}

const RUST_SOURCE: &str = r#"
pub struct Zone { id: u64, value: f64, next: Option<Box<Zone>> }
pub struct Mesh { n: usize, zones: Vec<Zone> }
#[unsafe(no_mangle)] #[inline(never)] pub fn with_capacity(n: usize) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::with_capacity(n);
    zones.push(Zone { id: 1, value: 2.0, next: None });
    zones
}
#[unsafe(no_mangle)] #[inline(never)] pub fn push(mesh: &mut Mesh) { mesh.zones.push(Zone { id: 1, value: 2.0, next: None }); }
#[unsafe(no_mangle)] #[inline(never)] pub fn boxed(next: Option<Box<Zone>>) -> Box<Zone> { Box::new(Zone { id: 3, value: 1.0, next }) }
#[unsafe(no_mangle)] #[inline(never)] pub fn shared() -> std::rc::Rc<Zone> { std::rc::Rc::new(Zone { id: 3, value: 1.0, next: None }) }
fn main() {
    let mut mesh = Mesh { n: 1, zones: with_capacity(std::env::args().count()) };
    push(&mut mesh);
    let b = boxed(Some(boxed(None)));
    std::process::exit((mesh.n + b.id as usize + mesh.zones[0].value as usize + shared().id as usize) as i32);
}
"#;

#[test]
fn rust_boxes_and_vectors() {
    for flags in [&["-Copt-level=0"][..], &["-Copt-level=2"], &["-Copt-level=3"]] {
        let program = Compiled::new("rs", RUST_SOURCE, flags);
        let label = format!("{flags:?}");
        let optimized = flags != ["-Copt-level=0"];
        // The vector is built where the caller wants its result.
        let zones = Some("zones").filter(|_| optimized);
        check(&program, "with_capacity", "__rust_alloc", 240, ("program::Zone", 0, zones), &label);
        check(&program, "push", "__rust_", 96, ("program::Zone", 0, Some("mesh.zones").filter(|_| optimized)), &label);
        check(&program, "boxed", "__rust_alloc", 24, ("program::Zone", 0, None), &label);
        check(&program, "shared", "__rust_alloc", 40, ("alloc::rc::RcInner<program::Zone>", 0, None), &label);
    }
}

const RUST_SLICES_SOURCE: &str = r#"
#[derive(Clone)] pub struct Zone { id: u64, value: f64, weight: f64 }
pub struct Mesh { n: usize, zones: Box<[Zone]> }
#[unsafe(no_mangle)] #[inline(never)] pub fn filled(n: usize) -> Vec<Zone> {
    let zones = vec![Zone { id: 1, value: 2.0, weight: 3.0 }; n];
    zones
}
#[unsafe(no_mangle)] #[inline(never)] pub fn zeroed(n: usize) -> Vec<f64> { let values = vec![0.0; n]; values }
#[unsafe(no_mangle)] #[inline(never)] pub fn boxed_slice(mesh: &mut Mesh, n: usize) {
    mesh.zones = (0..n).map(|id| Zone { id: id as u64, value: 2.0, weight: 1.0 }).collect();
}
#[unsafe(no_mangle)] #[inline(never)] pub fn in_closure(n: usize) -> usize {
    let make = |extra: usize| {
        let mut zones: Vec<Zone> = Vec::with_capacity(n + extra);
        zones.push(Zone { id: 1, value: 2.0, weight: 1.0 });
        std::hint::black_box(&mut zones);
        zones.len()
    };
    make(1)
}
fn main() {
    let n = std::env::args().count();
    let mut mesh = Mesh { n, zones: Box::new([]) };
    boxed_slice(&mut mesh, n);
    let all = filled(n)[0].id as usize + zeroed(n)[0] as usize + mesh.n + in_closure(n);
    std::process::exit((all + mesh.zones[0].id as usize + mesh.zones[0].weight as usize) as i32);
}
"#;

#[test]
fn rust_slices_and_closures() {
    for flags in [&["-Copt-level=0"][..], &["-Copt-level=2"], &["-Copt-level=3"]] {
        let program = Compiled::new("rs", RUST_SLICES_SOURCE, flags);
        let label = format!("{flags:?}");
        let optimized = flags != ["-Copt-level=0"];
        let zones = Some("zones").filter(|_| optimized);
        // Built where the caller wants its result: no variable is left.
        check(&program, "filled", "__rust_alloc", 240, ("program::Zone", 0, None), &label);
        check(&program, "zeroed", "__rust_alloc_zeroed", 80, ("f64", 0, None), &label);
        let member = Some("mesh.zones").filter(|_| optimized);
        check(&program, "boxed_slice", "__rust_alloc", 240, ("program::Zone", 0, member), &label);
        check(&program, "in_closure", "__rust_alloc", 240, ("program::Zone", 0, zones), &label);
    }
}

#[test]
fn cpp_by_clang() {
    // clang does not know that attribute.
    let source = CPP_SOURCE.replace("noipa", "noinline");
    for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"]] {
        let program = Compiled::with("clang++", "cpp", &source, flags);
        let label = format!("clang++ {flags:?}");
        let check = |function, bytes, expected| check(&program, function, "_Znwm", bytes, expected, &label);
        // At -O1 the type is found but not yet what holds it.
        check("grow", 64, ("Zone", 0, Some("zones").filter(|_| flags != ["-O1"])));
        check("reserve", 2400, ("Point", 0, Some("mesh->points")));
        check("array", 168, ("Zone", 8, Some("zones")));
    }
}

/// More arrays than registers, so that gcc calls one register by several names in turn.
const FORTRAN_SOURCE: &str = r#"
module m
  type particle
    real(8) :: x, y, z
    integer :: id
    real(8) :: mass
  end type
  type box
    type(particle), allocatable :: p(:)
    real(8) :: w(3)
    integer :: n
  end type
contains
  subroutine step(ps, n)
    integer, intent(in) :: n
    type(particle), intent(inout) :: ps(n)
    integer :: i
    do i = 1, n
      ps(i)%x = ps(i)%x + ps(i)%mass
    end do
  end subroutine
end module
program main
  use m
  implicit none
  real(8), allocatable :: a(:), b(:), c(:,:)
  integer, allocatable :: idx(:)
  type(particle), allocatable :: ps(:), qs(:)
  type(box), allocatable :: boxes(:)
  integer :: i, k, n
  real(8) :: s
  n = 200000
  allocate(a(n), b(2*n), c(300,400), idx(n))
  allocate(ps(n), qs(n/2))
  allocate(boxes(10))
  do i = 1, 10
    allocate(boxes(i)%p(1000))
    boxes(i)%n = 1000; boxes(i)%w = 1d0
    do k = 1, 1000
      boxes(i)%p(k)%x = k; boxes(i)%p(k)%mass = 1
    end do
  end do
  do i = 1, n
    a(i) = i; b(i) = 2*i; idx(i) = mod(i*7919, n)+1
    ps(i)%x = i; ps(i)%y = 0; ps(i)%z = 0; ps(i)%id = i; ps(i)%mass = 1
  end do
  do i = 1, n/2
    qs(i)%mass = 2; qs(i)%x = 0
  end do
  c = 1
  s = 0
  do k = 1, 3000
    do i = 1, n
      s = s + a(idx(i)) * b(i)
    end do
    call step(ps, n)
    call step(qs, n/2)
    do i = 1, 10
      s = s + sum(boxes(i)%p(:)%x) + boxes(i)%w(2)
    end do
    s = s + sum(c(5,:))
    a(1) = s
  end do
  print *, s, ps(5)%x, qs(7)%x
end program
"#;

/// What else a register is called says nothing of the block where nothing is cast.
#[test]
fn fortran_arrays_beside_those_of_derived_types() {
    // Where the module's file goes.
    let scratch = tempfile::tempdir().unwrap();
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let flags = [level, "-J", scratch.path().to_str().unwrap()];
        let program = Compiled::with("gfortran", "f90", FORTRAN_SOURCE, &flags);
        let (begin, size) = program.symbol("MAIN__");
        let (info, code) = (program.info(), program.code(begin, begin + size));
        let mut table = TypeTable::new();
        let mut found = BTreeMap::new();
        let calls = Decoder::with_ip(64, code, begin, DecoderOptions::NONE).into_iter();
        for call in calls.filter(|instruction| instruction.is_call_near()) {
            let return_address = Svma(call.next_ip());
            let frame =
                AllocationFrame { info: Some(&info), code, begin: Svma(begin), return_address, characters: None };
            let Allocation { element: Some(element), holder: Some(holder), .. } =
                allocation(&[frame], ANY_BYTES, &mut table)
            else {
                continue;
            };
            found.entry(holder.name).or_insert_with(|| table.get(element.type_id).name.clone());
        }
        for (name, type_name) in [
            ("a", "real(kind=8)"),
            ("b", "real(kind=8)"),
            ("idx", "integer(kind=4)"),
            ("ps", "type(particle)"),
            ("qs", "type(particle)"),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(type_name), "{level} {name}: {found:?}");
        }
    }
}
