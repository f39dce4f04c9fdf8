//! What sites are called: variables, structures, members, and functions that were inlined.

use slimline_trace::stream::sites::SiteKind::*;

use crate::harness::{Trace, trace_c, trace_cpp};

/// How often a member was accessed, by `structure.field`.
fn members(trace: &Trace, is_load: bool, name: &str) -> usize {
    trace.count(|site| {
        (site.kind == if is_load { Load } else { Store }) && format!("{}.{}", site.structure, site.field) == name
    })
}

#[test]
fn members_of_c_structures() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
typedef struct { short x, y; } point;
struct shape { int id; point corner[3]; struct { double width, height; } size; union { long number; float ratio; } extra; };
static struct shape shapes[50];
static struct shape *chosen[50];
__attribute__((noinline)) static void set(struct shape *s, int n) {
    for (int i = 0; i < n; i++) { s[i].id = i; s[i].corner[1].y = 2; s[i].size.height = 3; s[i].extra.ratio = 4; }
}
__attribute__((noinline)) static double ask(int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += chosen[i]->size.height + shapes[i].id;
    return sum;
}
__attribute__((noinline)) static short read_point(const point *p) { return p->y; }
int main(int count, char **arguments) {
    (void)arguments;
    set(shapes, 50);
    for (int i = 0; i < 50; i++) chosen[i] = &shapes[49 - i];
    printf("%g %d\n", ask(50), read_point(&chosen[count]->corner[1]));
}
"#;
    for level in ["-O0", "-O1", "-O2"] {
        let trace = trace_c(SOURCE, &[level, "-fno-vectorize"]);
        let [loads, stores] = [true, false].map(|is_load| move |trace: &Trace, name| members(trace, is_load, name));
        assert_eq!(stores(&trace, "shape.id"), 50, "{level}");
        assert_eq!(stores(&trace, "shape.corner[].y"), 50, "{level}");
        assert_eq!(stores(&trace, "shape.size.height"), 50, "{level}");
        assert_eq!(stores(&trace, "shape.extra.ratio"), 50, "{level}");
        assert_eq!(loads(&trace, "shape.size.height"), 50, "{level}");
        assert_eq!(loads(&trace, "shape.id"), 50, "{level}");
        assert_eq!(loads(&trace, "point.y"), 1, "{level}");
        let through =
            trace.count(|site| site.is(Load, "ask") && site.variable == "*chosen" && site.field == "size.height");
        assert_eq!(through, 50, "{level}");
    }
}

#[test]
fn members_and_inlined_functions_of_cpp() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <memory>
#include <vector>
namespace geometry {
struct base { long tag = 1; virtual ~base() = default; };
template <typename T> struct vec : base { T x, y; T dot(const vec &o) const { return x * o.x + y * o.y; } };
}
using point = geometry::vec<double>;
[[gnu::noinline]] static double sum(const std::vector<std::unique_ptr<point>> &points) {
    double total = 0;
    for (const auto &p : points) total += p->dot(*p) + p->tag;
    return total;
}
int main() {
    std::vector<std::unique_ptr<point>> points;
    for (int i = 0; i < 100; i++) { auto p = std::make_unique<point>(); p->x = i; p->y = 1; points.push_back(std::move(p)); }
    std::printf("%g\n", sum(points));
}
"#;
    let trace = trace_cpp(SOURCE, &["-O2", "-fno-vectorize", "-fno-slp-vectorize"]);
    assert_eq!(
        trace.count(|site| site.is(Load, "geometry::vec<double>::dot")
            && site.field == "x"
            && site.structure == "vec<double>"),
        100
    );
    assert_eq!(
        trace.count(|site| site.is(Load, "geometry::vec<double>::dot")
            && site.field == "y"
            && site.inlined_into == "sum"),
        100
    );
    assert_eq!(trace.count(|site| site.kind == Load && site.field == "tag" && site.linked.contains("sum")), 100);
    assert_eq!(trace.count(|site| site.kind == Allocate && site.structure == "vec<double>"), 100);
    let line = trace.words(|site| site.is(Load, "geometry::vec<double>::dot") && site.line == 7);
    assert_eq!(line.len(), 200);
}

#[test]
fn classes_with_virtual_bases() {
    const SOURCE: &str = r#"
#include <cstdio>
struct named { long id = 1; virtual ~named() = default; };
struct left : virtual named { long l = 2; };
struct right : virtual named { long r = 3; };
struct both : left, right { long own = 4; };
[[gnu::noinline]] static long sum(both *all, int n) { long s = 0; for (int i = 0; i < n; i++) s += all[i].own + all[i].l + all[i].r; return s; }
int main() { both all[10]; std::printf("%ld\n", sum(all, 10)); }
"#;
    for level in ["-O0", "-O2"] {
        let trace = trace_cpp(SOURCE, &[level, "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops"]);
        for field in ["own", "l", "r"] {
            let loads = trace.count(|site| site.is(Load, "sum") && site.field == field);
            assert_eq!(loads, 10, "{level} {field}");
        }
    }
}

#[test]
fn elements_of_what_cpp_s_containers_allocate() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <list>
#include <vector>
struct body { double x, y; };
int main(int count, char **) {
    std::vector<body> bodies(count + 9);
    for (int i = 0; i < count + 30; i++) bodies.push_back({1.0 * i, 2});
    std::vector<int> numbers(count * 100);
    std::list<body> listed;
    for (int i = 0; i < 3; i++) listed.push_back(bodies[i]);
    body *own = static_cast<body *>(::operator new(sizeof(body)));
    own->x = listed.back().x;
    std::printf("%g %d\n", own->x + bodies.back().x, numbers[count]);
    ::operator delete(own);
}
"#;
    for level in ["-O0", "-O2"] {
        let trace = trace_cpp(SOURCE, &[level]);
        let allocated = |structure: &str| trace.count(|site| site.kind == Allocate && site.structure == structure);
        assert!(allocated("body") >= 3, "{level}: {}", allocated("body"));
        assert_eq!((allocated("int"), allocated("_List_node<body>")), (1, 3), "{level}");
    }
}

#[test]
fn what_walks_a_list_is_not_called_what_it_begins_with() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; long key; };
struct table { struct node *buckets[8]; };
static struct table made;
__attribute__((noinline)) static long walk(struct table *t) {
    long sum = 0;
    for (int i = 0; i < 8; i++)
        for (struct node *n = t->buckets[i]; n; n = n->next) sum += n->key;
    return sum;
}
int main(void) {
    for (int i = 0; i < 80; i++) { struct node *n = malloc(sizeof *n); n->key = i; n->next = made.buckets[i % 8]; made.buckets[i % 8] = n; }
    printf("%ld\n", walk(&made));
    return 0;
}
"#;
    for level in ["-O0", "-O1", "-O2"] {
        let trace = trace_c(SOURCE, &[level]);
        let of_key = |variable: &str| {
            trace.count(|site| site.is(Load, "walk") && site.field == "key" && site.variable == variable)
        };
        let of_next = |variable: &str| {
            trace.count(|site| site.is(Load, "walk") && site.field == "next" && site.variable == variable)
        };
        assert_eq!((of_key("n") + of_key(""), of_next("n") + of_next("")), (80, 80), "{level}");
    }
}

/// What nobody else sees of a structure becomes variables of its members.
#[test]
fn members_that_became_variables_keep_their_names() {
    const SOURCE: &str = r#"
#include <stdio.h>
struct ring { unsigned head; unsigned unused; unsigned tail; };
static struct ring ring;
__attribute__((noinline)) static void push(unsigned n) { for (unsigned i = 0; i < n; i++) __atomic_store_n(&ring.head, i, __ATOMIC_RELAXED); }
__attribute__((noinline)) static unsigned pop(unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        sum += __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
        __atomic_store_n(&ring.tail, i, __ATOMIC_RELAXED);
    }
    return sum;
}
int main(void) { push(7); printf("%u %u\n", pop(5), __atomic_load_n(&ring.tail, __ATOMIC_RELAXED)); return 0; }
"#;
    for level in ["-O0", "-O2"] {
        let trace = trace_c(SOURCE, &[level]);
        assert_eq!((members(&trace, false, "ring.head"), members(&trace, false, "ring.tail")), (7, 5), "{level}");
        assert_eq!((members(&trace, true, "ring.head"), members(&trace, true, "ring.tail")), (5, 1), "{level}");
    }
}

/// Of unions in unions there are more ways to a member than anybody could go.
#[test]
fn unions_in_unions_are_named_in_time() {
    let unions: String =
        (1..24).map(|depth| format!("union u{depth} {{ union u{0} a, b, c, d; }};\n", depth - 1)).collect();
    let source = format!(
        "union u0 {{ int number; float ratio; }};\n{unions}
        struct outer {{ long id; union u23 deep; int last; }} it;
        int main(int argc, char **argv) {{ it.deep.a.b.c.d.a.b.c.d.a.b.c.d.a.b.c.d.a.b.c.d.a.b.c.number = argc; it.last = argc; return 0; }}"
    );
    let trace = trace_c(&source, &["-O1"]);
    assert_eq!(members(&trace, false, "outer.last"), 1);
    assert_eq!(
        trace.count(|site| site.kind == Store && site.structure == "outer" && site.field.starts_with("deep")),
        1
    );
}
