//! What is counted of programs that gcc, g++ and gfortran compile.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Compiled, heap, named, text};

#[test]
fn loop_nests_threads_and_processes_have_their_closed_form() {
    let program = Compiled::new("gcc", include_str!("../loop_nest.c"), &[]);
    let (n, m, k) = (70, 30, 11);
    for (mode, multiplied, processes) in [("once", 1, 1), ("threads", 4, 1), ("fork", 2, 2)] {
        let (_, report) = program.traced(&[mode]);
        assert_eq!(named(&report["functions"], "fill"), (0, n * k + k * m), "{mode}");
        assert_eq!(named(&report["functions"], "multiply"), (multiplied * 2 * n * m * k, multiplied * n * m), "{mode}");
        assert_eq!(named(&report["variables"], "a"), (multiplied * n * m * k, n * k), "{mode}");
        assert_eq!(report["missing"], Value::Array(Vec::new()), "{mode}");
        assert_eq!(report["processes"].as_array().unwrap().len(), processes, "{mode}");
        let calls = report["functions"].as_array().unwrap().iter().find(|row| row["name"] == "multiply");
        assert_eq!(calls.unwrap()["calls"], multiplied, "{mode}");
    }
}

/// Each of 1,000 blocks and a large one are loaded from 1,000 times by who probes them.
#[test]
fn forked_children_have_their_parents_allocations() {
    let program = Compiled::new("gcc", include_str!("../forked.c"), &[]);
    for (how, times) in [("none", 1), ("fork", 1), ("deep", 3), ("thread", 1), ("raw", 1), ("clone", 1)] {
        let (_, report) = program.traced(&[how]);
        let groups = report["heap"].as_array().unwrap().iter();
        let loads: Vec<_> = groups.filter(|group| group["loads"] != 0).map(|group| &group["loads"]).collect();
        assert_eq!(loads, [&Value::from(times * 1000); 2], "{how}: {}", report["heap"]);
        assert_eq!(report["missing"], Value::Array(Vec::new()), "{how}");
    }
}

#[test]
fn accesses_to_the_heap_have_their_allocation_and_field() {
    const SOURCE: &str = r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { long key; struct node *next; long cold[6]; };
struct pair { int one, two; };
__attribute__((noinline)) static struct node *make(int n) {
    struct node *list = NULL;
    for (int i = 0; i < n; i++) {
        struct node *node = malloc(sizeof *node);
        node->key = i;
        node->next = list;
        list = node;
    }
    return list;
}
__attribute__((noinline)) static long sum(struct node *list, long round) {
    long sum = 0;
    for (struct node *at = list; at; at = at->next) sum += at->key ^ round;
    return sum;
}
static jmp_buf back;
__attribute__((noinline)) static void *leaves(void) { longjmp(back, 1); }
int main(int argc, char **argv) {
    struct node *list = make(1000);
    long all = 0;
    for (int i = 0; i < 10; i++) all += sum(list, i);
    while (list) { struct node *next = list->next; free(list); list = next; }
    struct pair *zeros = calloc(25, sizeof *zeros);
    for (int i = 0; i < 25; i++) zeros[i].two = i + zeros[i].one;
    struct pair *more = realloc(zeros, 50 * sizeof *more);
    for (int i = 25; i < 50; i++) more[i].one = i;
    struct pair *copy;
    if (posix_memalign((void **)&copy, 64, 400)) return 1;
    memcpy(copy, more, 25 * argc * sizeof *copy);
    if (setjmp(back) == 0) free(leaves());
    printf("%ld %d %d\n", all, more[7].two, copy[9].two);
    free(more);
    free(copy);
    return 0;
}
"#;
    let program = Compiled::new("gcc", SOURCE, &[]);
    let (said, report) = program.traced(&[]);
    let sum = (0..10).flat_map(|i| (0..1000).map(move |key: i64| key ^ i)).sum::<i64>();
    assert_eq!(said, format!("{sum} 7 9\n"));
    let expected = [
        (11, 1000, 64_000, "node", "malloc"),
        (30, 1, 200, "pair", "calloc"),
        // What is in it is still what it was.
        (32, 1, 400, "pair", "realloc"),
        (35, 1, 400, "", "posix_memalign"),
    ];
    assert_eq!(heap(&report), expected);
    let groups = report["heap"].as_array().unwrap();
    let of_line = |line: u64| &groups.iter().find(|row| row["line"] == line).unwrap()["fields"];
    assert_eq!(named(of_line(11), "node.key"), (10_000, 1000));
    assert_eq!(named(of_line(11), "node.next"), (11_000, 1000));
    // One of the loads is the copy, which begins there.
    assert_eq!([named(of_line(30), "pair.one"), named(of_line(32), "pair.one")], [(25, 0), (1, 25)]);
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    let structure = report["structures"].as_array().unwrap().iter().find(|row| row["name"] == "node").unwrap();
    assert_eq!((&structure["bytes"], &structure["verdict"]), (&64.into(), &"split".into()));
    // Copies are of as many bytes as they are asked for; what they load and what they store are two rows.
    assert_eq!(report["sites"].as_array().unwrap().iter().filter(|row| row["kind"] == "copy").count(), 2);
}

/// All that gcc makes calls of, beside what it does by itself.
#[test]
fn atomic_operations_do_what_they_do_natively() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#define ALL(X) X(unsigned char, a) X(unsigned short, b) X(unsigned, c) X(unsigned long, d) X(unsigned __int128, e)
#define DECLARE(type, name) static type name[9]; static type name##_shared;
ALL(DECLARE)
#define CHECK(type, name) do { \
    type expected = 200, seen = 0; \
    __atomic_store_n(&name[0], (type)((type)77 << (sizeof(type) * 4)), __ATOMIC_RELEASE); \
    seen ^= __atomic_fetch_add(&name[0], (type)-9, __ATOMIC_RELAXED); \
    seen ^= __atomic_fetch_sub(&name[0], 3, __ATOMIC_ACQ_REL); \
    seen ^= __atomic_fetch_or(&name[0], 0x41, __ATOMIC_SEQ_CST); \
    seen ^= __atomic_fetch_and(&name[0], (type)~(type)0x11, __ATOMIC_SEQ_CST); \
    seen ^= __atomic_fetch_xor(&name[0], 0x5a, __ATOMIC_SEQ_CST); \
    seen ^= __atomic_fetch_nand(&name[0], 0x3c, __ATOMIC_SEQ_CST); \
    seen ^= __atomic_add_fetch(&name[0], 5, __ATOMIC_SEQ_CST); \
    seen ^= __atomic_exchange_n(&name[0], 200, __ATOMIC_SEQ_CST); \
    int done = __atomic_compare_exchange_n(&name[0], &expected, 201, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED); \
    int failed = __atomic_compare_exchange_n(&name[0], &expected, 9, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED); \
    type old = __sync_val_compare_and_swap(&name[0], 201, 202); \
    int same = __sync_bool_compare_and_swap(&name[0], 202, 203); \
    seen ^= __atomic_load_n(&name[0], __ATOMIC_ACQUIRE); \
    __atomic_thread_fence(__ATOMIC_SEQ_CST); __atomic_signal_fence(__ATOMIC_SEQ_CST); \
    printf("%zu: %lx %lx %lx %d %d %d\n", sizeof(type), (long)(seen >> (sizeof(type) * 4)), (long)seen, \
        (long)expected ^ (long)old, done, failed, same); \
} while (0);
#define COUNT(type, name) \
    __atomic_fetch_add(&name##_shared, 1, __ATOMIC_RELAXED); \
    for (type old = __atomic_load_n(&name##_shared, __ATOMIC_RELAXED); \
         !__atomic_compare_exchange_n(&name##_shared, &old, old + 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);) {}
#define PRINT(type, name) printf("%lu\n", (unsigned long)name##_shared);
static void *count(void *nothing) { for (int i = 0; i < 5000; i++) { ALL(COUNT) } return nothing; }
int main(void) {
    ALL(CHECK)
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    ALL(PRINT)
    return 0;
}
"#;
    let options = ["-mcx16", "-Wno-overflow", "-latomic"];
    let program = Compiled::new("gcc", SOURCE, &options);
    let native = program.native("gcc", &options);
    let alone = std::process::Command::new(program.program()).output().unwrap();
    assert_eq!(text(&alone.stdout), text(&native.stdout));
    let (said, report) = program.traced(&[]);
    assert_eq!(said, text(&native.stdout));
    assert!(said.ends_with(&format!("\n{0}\n{0}\n{0}\n", 40_000)), "{said}");
    // Each round of each thread has one that adds, and a comparison or more.
    let (loads, stores) = named(&report["variables"], "c_shared");
    assert!(loads >= 60_000 && stores >= 40_000 && loads - stores >= 20_000, "{loads} {stores}");
}

#[test]
fn classes_templates_and_exceptions_of_cpp() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>
struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Disc : Shape { double radius, weight; explicit Disc(double r) : radius(r), weight(1) {} double area() const override { return radius * 3; } };
template <class T> struct Grid { T cells[40]; __attribute__((noinline)) T sum() const { T s = 0; for (T c : cells) s += c; return s; } };
static Grid<int> grid;
static long caught;
__attribute__((noinline)) static void thrower(int i) { if (i % 2) throw std::runtime_error("odd"); }
__attribute__((noinline)) static double areas(const std::vector<std::unique_ptr<Shape>> &all) {
    double sum = 0;
    for (auto &one : all) sum += one->area();
    return sum;
}
int main() {
    std::vector<std::unique_ptr<Shape>> all;
    all.reserve(30);
    for (int i = 0; i < 30; i++) all.emplace_back(new Disc(i));
    for (int i = 0; i < 20; i++) try { thrower(i); } catch (const std::exception &) { caught++; }
    for (int i = 0; i < 40; i++) grid.cells[i] = i;
    std::printf("%.0f %ld %d\n", areas(all), caught, grid.sum());
}
"#;
    let program = Compiled::new("g++", SOURCE, &[]);
    let (said, report) = program.traced(&[]);
    assert_eq!(said, "1305 10 780\n");
    assert_eq!(named(&report["fields"], "Disc.radius"), (30, 30));
    assert_eq!(named(&report["fields"], "Disc.weight"), (0, 30));
    assert_eq!(named(&report["fields"], "Grid<int>.cells[]"), (40, 40));
    assert_eq!(named(&report["variables"], "caught").1, 10);
    let groups = heap(&report);
    // By what holds it.
    assert!(groups.contains(&(20, 30, 30 * 24, "Shape", "_Znwm")), "{groups:?}");
    assert_eq!(report["missing"], Value::Array(Vec::new()));
}

#[test]
fn module_arrays_and_derived_types_of_fortran() {
    let program = Compiled::new("gfortran", include_str!("../shapes.f90"), &[]);
    let (said, report) = program.traced(&[]);
    assert_eq!(said, "9.0 97650.0 50\n");
    assert_eq!(named(&report["fields"], "particle.x"), (100, 200));
    assert_eq!(named(&report["fields"], "particle.v"), (100, 100));
    assert_eq!(named(&report["variables"], "counts"), (0, 50));
    let groups = heap(&report);
    let [(15, 1, 4800, _, "malloc")] = groups[..] else { panic!("{groups:?}") };
    let group = &report["heap"][0];
    assert_eq!((&group["loads"], &group["stores"]), (&600.into(), &600.into()));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
}

/// What is linked has a `_` more at its end, and one of them has one of its own.
#[test]
fn external_procedures_have_the_names_of_the_source() {
    for level in ["-O2", "-O0"] {
        let program = Compiled::new("gfortran", include_str!("../external.f90"), &["-fno-inline", level]);
        let (said, report) = program.traced(&[]);
        assert_eq!(said, "101.0 2.0\n");
        let rows = report["functions"].as_array().unwrap();
        let names: BTreeSet<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names, BTreeSet::from(["MAIN__", "main", "phys_", "phys_step"]), "{level}");
        assert_eq!(named(&report["variables"], "temp"), (40, 80), "{level}: {}", report["variables"]);
        assert_eq!(named(&report["fields"], "common /physics/.dt").1, 1, "{level}: {}", report["fields"]);
        // By the name of the source they are asked for, too.
        let asked = program.traced_with(&["--function", "phys_step"], &[]).1;
        assert_eq!(named(&asked["variables"], "temp"), (40, 40), "{level}: {}", asked["variables"]);
    }
}

/// What one statement allocates is told apart by the variables that hold it, as what lines of C allocate is named in other reports.
#[test]
fn blocks_of_one_statement_have_the_names_of_their_variables() {
    const SOURCE: &str = "module m
  type cell
    real(8) :: x, y
  end type
end module
program main
  use m
  implicit none
  type(cell), allocatable :: cells(:)
  real(8), allocatable :: a(:,:)
  integer :: i, n
  n = 30
  allocate(cells(n), a(n, n))
  a = 1
  do i = 1, n
    cells(i)%x = a(i, i)
  end do
  print *, cells(n)%x
end program
";
    let compiled = Compiled::new("gfortran", SOURCE, &["-O1"]);
    let (_, report) = compiled.traced(&[]);
    let variables: Vec<_> =
        report["heap"].as_array().unwrap().iter().filter_map(|row| row["variable"].as_str()).collect();
    assert!(variables.contains(&"a") && variables.contains(&"cells"), "{}", report["heap"]);
}

/// Registers walk several arrays at a time, words of the frame hold others, and gcc tells of registers behind calls that change them.
#[test]
fn arrays_of_one_statement_keep_their_own_names() {
    const LINE: &str = "program main
  implicit none
  real(8), allocatable :: x(:), g(:), a(:), e(:), p(:), h(:)
  integer :: n
  n = 24
  allocate(x(0:n+1)); x = 1d-3
  allocate(g(0:n+2)); g = 2d-3
  allocate(a(0:n+3)); a = 3d-3
  allocate(e(0:n+4)); e = 4d-3
  allocate(p(0:n+5)); p = 5d-3
  allocate(h(0:n+6)); h = 6d-3
  call work(x, g, a, e, p, h, n)
  print *, sum(x), sum(g), sum(a), sum(e), sum(p), sum(h)
contains
  subroutine work(x, g, a, e, p, h, n)
    integer, intent(in) :: n
    real(8), intent(inout) :: x(0:*), g(0:n+2), a(0:n+3), e(0:n+4), p(0:n+5), h(0:n+6)
    integer :: i, k
    do k = 1, 3
      do i = 1, n
        p(i) = p(i) + p(i)*a(i) - x(n+1-i)
        a(i) = (h(n+1-i) + g(i-1) + x(i) + h(i-1))*0.25d0
      end do
    end do
    do k = 1, 3
      do i = 1, n
        if (a(n+1-i) > h(i)) a(i) = p(i+1) + 1.0d0
      end do
    end do
  end subroutine
end program
";
    const PLANE: &str = "program main
  implicit none
  real(8), allocatable :: q(:,:), y(:,:), x(:,:), b(:,:)
  integer :: n
  real(8) :: s
  n = 24
  s = 0
  allocate(q(0:n+1,0:n+1)); q = 1d-3
  allocate(y(0:n+1,0:n+2)); y = 2d-3
  allocate(x(0:n+1,0:n+3)); x = 3d-3
  allocate(b(0:n+1,0:n+4)); b = 4d-3
  call work(q, y, x, b, n, s)
  print *, sum(q), sum(y), sum(x), sum(b), s
contains
  subroutine work(q, y, x, b, n, s)
    integer, intent(in) :: n
    real(8), intent(inout) :: q(0:n+1,0:n+1), y(0:n+1,0:*), x(0:n+1,0:n+3), b(0:n+1,0:n+4), s
    integer :: i, j
    do i = 1, n
      do j = 1, n
        b(i,j) = b(i,j) + q(i+1,j)*b(i+1,j) - b(i-1,j)
        s = s + q(i,j)*q(i+1,j)
      end do
    end do
    do i = 1, n
      do j = 1, n
        q(i,j) = (y(i+1,j+1) + y(i-1,j) + y(i+1,j-1) + q(i+1,j))*0.25d0
        s = s + q(i-1,j+1)*y(i-1,j-1)
        b(i,j) = (b(i,j+1) + y(i+1,j+1) + y(i-1,j-1) + q(i+1,j))*0.25d0
      end do
    end do
  end subroutine
end program
";
    let arrays = [(LINE, &[("x", 6), ("g", 7), ("a", 8), ("e", 9), ("p", 10), ("h", 11)][..])];
    let arrays = arrays.into_iter().chain([(PLANE, &[("q", 8), ("y", 9), ("x", 10), ("b", 11)][..])]);
    for ((source, arrays), level) in arrays.flat_map(|program| ["-O1", "-O2", "-O3"].map(|level| (program, level))) {
        let program = Compiled::new("gfortran", source, &[level]);
        let all = program.traced(&[]).1;
        let told = arrays.iter().filter(|(name, _)| named(&all["variables"], name) != (0, 0));
        for (name, line) in told.clone() {
            let (_, report) = program.traced_with(&["--variable", name], &[]);
            let groups = heap(&report);
            assert!(matches!(groups[..], [(at, ..)] if at == *line), "{level} {name}: {groups:?}");
        }
        assert!(told.count() > 0, "{level}: {}", all["variables"]);
    }
}

/// Of text whose length is known only when the program runs debug information has no size.
#[test]
fn text_of_any_length_has_its_name() {
    const SOURCE: &str = "module words
contains
  subroutine fill(buffer)
    character(len=*), intent(inout) :: buffer
    integer :: i
    do i = 1, len(buffer)
      buffer(i:i) = char(97 + mod(i, 7))
    end do
  end subroutine
  integer function found(line)
    character(len=*), intent(in) :: line
    integer :: i
    found = 0
    do i = 1, len(line)
      if (line(i:i) == 'a') found = found + 1
    end do
  end function
end module
program main
  use words
  implicit none
  character(len=:), allocatable :: text
  integer :: total, i
  allocate(character(len=1000) :: text)
  call fill(text)
  total = found(text)
  do i = 1, len(text)
    if (text(i:i) == 'b') total = total + 1
  end do
  print '(i0)', total
end program
";
    let (said, report) = Compiled::new("gfortran", SOURCE, &["-O0"]).traced(&[]);
    assert_eq!(said, "285\n");
    let rows = &report["variables"];
    assert_eq!(
        (named(rows, "buffer"), named(rows, "line"), named(rows, "text").0),
        ((0, 1000), (1000, 0), 1000),
        "{rows}"
    );
    let (_, report) = Compiled::new("gfortran", SOURCE, &["-O2"]).traced(&[]);
    assert_eq!(named(&report["variables"], "text"), (2000, 1000), "{}", report["variables"]);
}

/// An array whose length is not known lies below all that has a place in the frame.
#[test]
fn arrays_of_any_length_are_no_other_variables() {
    const SOURCE: &str = r#"
#include <string.h>
struct cell { long a, b; };
__attribute__((noinline)) static void use(volatile long *p, long n) { for (long i = 0; i < n; i++) p[i] += i; }
__attribute__((noinline)) static long work(int n) {
    long open[n];
    memset(open, 0, n * sizeof(long));
    long fixed[33] __attribute__((aligned(128)));
    memset(fixed, 0, sizeof fixed);
    struct cell cells[n];
    memset(cells, 0, n * sizeof(struct cell));
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 20; i++) fixed[(i + n) % 20] += fixed[i] * 3 + open[(i * 7) % 20];
        use((long *)cells, 8), use(fixed, 8), use(open, 8);
        for (int i = 0; i < 20; i++) {
            fixed[19 - i] += open[(i + n) % 20] * 3 + fixed[i];
            open[i] += cells[i].a * 3 + cells[19 - i].b;
        }
    }
    return open[3] + fixed[3] + cells[3].a;
}
int main(void) { return work(40) == 7; }
"#;
    for options in [&["-O0"][..], &["-O1"], &["-O2"], &["-Og", "-mstackrealign"]] {
        let program = Compiled::new("gcc", SOURCE, options);
        let (_, report) = program.traced_with(&["--rows", "1000"], &[]);
        let sites = report["sites"].as_array().unwrap().iter().filter(|site| site["line"] == 17);
        let told: BTreeSet<&str> = sites.filter_map(|site| site["variable"].as_str()).collect();
        assert!(told.iter().all(|name| ["open", "cells", "i"].contains(name)), "{options:?}: {told:?}");
        // What is in the frame keeps its place.
        let fixed = named(&report["variables"], "fixed");
        assert!(options != ["-O0"] || fixed == (321, 161), "{}", report["variables"]);
    }
}

/// Text of no length takes no byte of its structure.
#[test]
fn text_without_a_length_is_nowhere() {
    const SOURCE: &str = "module words
  type entry
    character(len=8) :: tag
    character(len=0) :: nothing
    integer(8) :: hits, spare(6)
  end type
  type(entry) :: table(20)
end module
program main
  use words
  implicit none
  integer :: i
  do i = 1, 20
    table(i)%tag(3:3) = 'x'
    table(i)%hits = i
  end do
  print '(i0,1x,a)', table(7)%hits, table(7)%tag(3:3) // table(7)%nothing
end program
";
    let (said, report) = Compiled::new("gfortran", SOURCE, &[]).traced(&[]);
    assert_eq!(said, "7 x\n");
    let structures = report["structures"].as_array().unwrap();
    let entry = structures.iter().find(|structure| structure["name"] == "entry").unwrap();
    let fields = entry["fields"].as_array().unwrap().iter();
    let fields: Vec<_> =
        fields.map(|field| (field["name"].as_str().unwrap(), field["bytes"].as_u64().unwrap())).collect();
    assert_eq!(fields, [("tag", 8), ("hits", 8), ("spare", 48)]);
}

/// A block with more elements than its structure declares.
#[test]
fn arrays_at_the_end_of_structures_go_on() {
    const SOURCE: &str = r#"
#include <stdlib.h>
struct list { long count, used; long items[]; };
__attribute__((noinline)) static long total(volatile long *of, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += of[i];
    return sum;
}
int main(int argc, char **argv) {
    struct list *list = malloc(sizeof *list + 30 * sizeof(long));
    list->count = 30, list->used = argc;
    for (int i = 0; i < 30; i++) list->items[i] = i;
    long all = total(list->items, list->count);
    free(list);
    return all == 7;
}
"#;
    let (_, report) = Compiled::new("gcc", SOURCE, &[]).traced(&[]);
    let fields = &report["fields"];
    assert_eq!(named(fields, "list.items[]"), (30, 30), "{fields}");
    assert_eq!((named(fields, "list.count").1, named(fields, "list.used").1), (1, 1), "{fields}");
}

/// A timer interrupts a loop that writes records: both are counted to the last access.
#[test]
fn signal_handlers_are_counted_beside_what_they_interrupt() {
    const SOURCE: &str = r#"
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static struct pair { long ticked, walked; } pairs[1000];
static volatile sig_atomic_t ticks;
__attribute__((noinline)) static void tick(int signal) {
    for (int i = 0; i < 1000; i++) pairs[i].ticked += signal;
    ticks++;
}
__attribute__((noinline)) static long walk(long sum) {
    for (int i = 0; i < 1000; i++) sum += pairs[i].walked ^ i;
    return sum;
}
int main(void) {
    signal(SIGALRM, tick);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    long rounds = 0, sum = 0;
    for (; ticks < 200; rounds++) sum = walk(sum);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld %d %d\n", rounds, (int)ticks, sum > 0);
    return 0;
}
"#;
    let (said, report) = Compiled::new("gcc", SOURCE, &[]).traced(&[]);
    let said: Vec<u64> = said.trim().split(' ').map(|number| number.parse().unwrap()).collect();
    assert_eq!(named(&report["fields"], "pair.walked"), (said[0] * 1000, 0));
    assert_eq!(named(&report["fields"], "pair.ticked"), (said[1] * 1000, said[1] * 1000));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
}

/// What gcc copies by calls of its own is counted once, by the ranges that it tells before; and what a program pauses not at all.
#[test]
fn copies_are_counted_once_and_pauses_are_heeded() {
    const SOURCE: &str = r#"
#include <string.h>
extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));
struct large { char bytes[3000]; };
static struct large one, other;
static long counted[10];
__attribute__((noinline)) static void assign(struct large *to, const struct large *from) { *to = *from; }
__attribute__((noinline)) static void copy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
__attribute__((noinline)) static void clear(struct large *what) { memset(what, 0, sizeof *what); }
int main(int argc, char **argv) {
    for (int i = 0; i < 7; i++) assign(&one, &other);
    for (int i = 0; i < 5; i++) copy(&one, &other, 100 * argc);
    for (int i = 0; i < 3; i++) clear(&one);
    __slimline_stop();
    for (int i = 0; i < 10; i++) counted[i]++;
    __slimline_start();
    for (int i = 0; i < 4; i++) counted[i]--;
    return 0;
}
"#;
    let (_, report) = Compiled::new("gcc", SOURCE, &[]).traced(&[]);
    assert_eq!(named(&report["functions"], "assign"), (7, 7));
    assert_eq!(named(&report["functions"], "copy"), (5, 5));
    assert_eq!(named(&report["functions"], "clear"), (0, 3));
    assert_eq!(named(&report["variables"], "counted"), (4, 4));
    let row = |name: &str| report["functions"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row("assign")["loaded_bytes"], 21_000);
    assert_eq!(row("copy")["loaded_bytes"], 500);
    assert_eq!(row("clear")["stored_bytes"], 9000);
}

/// Loops over one array that gcc counts from the end of it, which is where another one begins; and structures without names.
#[test]
fn arrays_beside_each_other_and_what_has_no_name_are_told_apart() {
    const SOURCE: &str = r#"
#include <stdio.h>
#define N 64
static double one[N][N], other[N][N];
struct row { union { double d; struct { int lo, hi; } w; } n; struct { int x, y; } at; unsigned p : 3, q : 5, s : 8, u : 16; };
static struct row rows[10];
int main(void) {
    double sum = 0; long all = 0;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) one[i][j] = i;
    for (int j = 0; j < N; j++) for (int i = 0; i < N; i++) other[i][j] = 2;
    for (int j = 0; j < N; j++) for (int i = 0; i < N; i++) sum += one[i][j];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) sum += other[j][i];
    for (int i = 0; i < 10; i++) { rows[i].at.x = i; rows[i].at.y = 2; rows[i].n.w.hi = 3; rows[i].s = i; rows[i].u = i; }
    for (int i = 0; i < 10; i++) { all += rows[i].at.y; all += rows[i].n.w.hi; all += rows[i].s; }
    struct { int x, y; } *last = (void *)&rows[3].at;
    rows[4].at = rows[5].at;
    printf("%g %ld %d\n", sum, all, last->x);
    return 0;
}
"#;
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let (_, report) = Compiled::new("gcc", SOURCE, &[level, "-fno-tree-vectorize"]).traced(&[]);
        for name in ["one", "other"] {
            assert_eq!(named(&report["variables"], name), (4096, 4096), "{level}: {}", report["variables"]);
        }
        let fields = &report["fields"];
        let stored = ["row.at.x", "row.at.y", "row.s", "row.u"].map(|name| named(fields, name).1);
        // Of what is stored into bit fields gcc tells the whole unit.
        assert_eq!(stored, [11, 11, 20, 20], "{level}: {fields}");
        assert_eq!(named(fields, "row.p, q"), (0, 20), "{level}: {fields}");
        assert_eq!([named(fields, "row.at.y").0, named(fields, "row.s").0], [11, 10], "{level}: {fields}");
        assert_eq!(named(fields, "row.n.w.hi"), (10, 10), "{level}: {fields}");
        assert_eq!(named(fields, "(anonymous struct at program.c:15).x"), (1, 0), "{level}: {fields}");
    }
}

/// Allocations are told while nothing else is.
#[test]
fn blocks_from_before_tracing_began_are_known() {
    const SOURCE: &str = r#"#include <stdlib.h>
extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));
__attribute__((noinline)) static long *made(long n) { return malloc(n * sizeof(long)); }
__attribute__((noinline)) static long *zeroed(long n) { return calloc(n, sizeof(long)); }
__attribute__((noinline)) static long *grown(long *old, long n) { return realloc(old, n * sizeof(long)); }
__attribute__((noinline)) static long sum(const volatile long *of, long n) { long all = 0; for (long i = 0; i < n; i++) all += of[i]; return all; }
int main(void) {
    void *into = 0;
    __slimline_stop();
    long *one = made(10), *two = zeroed(20), *three = grown(made(5), 30);
    for (int i = 0; i < 100; i++) free(made(50));
    if (posix_memalign(&into, 64, 320)) return 1;
    __slimline_start();
    long all = sum(one, 10) + sum(two, 20) + sum(three, 30) + sum(into, 40);
    __slimline_stop();
    free(one);
    one = made(7);
    __slimline_start();
    return all + sum(one, 7) == 1;
}
"#;
    let (_, report) = Compiled::new("gcc", SOURCE, &[]).traced(&[]);
    let mut rows: Vec<_> = report["heap"].as_array().unwrap().iter().collect();
    rows.sort_by_key(|row| row["line"].as_u64());
    let numbers = rows.iter().map(|row| ["line", "blocks", "loads"].map(|key| row[key].as_u64().unwrap()));
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers, [[4, 103, 10 + 7], [5, 1, 20], [6, 1, 30], [13, 1, 40]], "{report}");
    assert!(!report["missing"].to_string().contains("freed"), "{}", report["missing"]);
}
