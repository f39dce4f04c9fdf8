//! The gate: the same program, traced and not, whatever way its functions take arguments.

use slimline_trace::stream::sites::SiteKind::*;

use crate::harness::{Named, trace_c, trace_cpp, trace_files};

/// What opens and closes the gate; nothing where it was not open at first.
const GATE: &str = r#"
#include <stdio.h>
extern char __slimline_gate __attribute__((weak));
__attribute__((noinline)) static void gate(int open) {
    static int is_traced = -1;
    if (is_traced < 0) is_traced = &__slimline_gate && !__slimline_gate;
    if (is_traced) __atomic_store_n(&__slimline_gate, !open, __ATOMIC_RELAXED);
}
"#;

pub(crate) fn with_gate(source: &str) -> String {
    format!("{GATE}{source}")
}

#[test]
fn every_call_asks_whether_it_is_traced() {
    const SOURCE: &str = r#"
static volatile int touched;
__attribute__((noinline)) static int step(int by) { static int state; state += by; touched++; return state; }
__attribute__((noinline)) static int deep(int n) { touched++; if (n == 5) gate(0); if (n == 3) gate(1); return n ? deep(n - 1) * 3 ^ n : 0; }
int main(int count, char **arguments) {
    (void)arguments;
    int sum = 0;
    for (int i = 0; i < 10; i++) { gate(i % 2); sum = step(i); }
    gate(1);
    printf("%d %d\n", sum, deep(9 * count));
    return 0;
}
"#;
    for level in ["-O2", "-O0"] {
        let trace = trace_c(&with_gate(SOURCE), &[level]);
        // Calls 1, 3, 5, 7 and 9.
        assert_eq!(trace.count(|site| site.is(Store, "step") && site.variable == "touched"), 5, "{level}");
        // Of 9, 8, 7, 6, 5, which closes it; 4 and 3 are not traced, but 2, 1, 0 are.
        assert_eq!(trace.count(|site| site.is(Store, "deep") && site.variable == "touched"), 8, "{level}");
        assert!(trace.modules.iter().all(|(_, module)| !module.names.iter().any(|name| name.ends_with(".traced"))));
    }
}

/// An interpreter that translates a program into addresses of labels, and runs it in either version.
#[test]
fn labels_are_the_same_in_both_versions() {
    const SOURCE: &str = r#"
#include <stddef.h>
static volatile int steps;
typedef const void *label;
/* Without a program it tells its labels. */
__attribute__((noinline)) static long interpret(const label *program, const label **told) {
    static const label labels[] = { &&add, &&twice, &&end };
    static const int offsets[] = { &&add - &&add, &&end - &&add };
    if (program == NULL) { *told = labels; return offsets[0]; }
    long value = 1;
    goto **program++;
add: value += 3; steps++; goto **program++;
twice: value *= 2; steps++; if (value > 100) goto *((char *)&&add + offsets[1]); goto **program++;
end: steps++; return value;
}
int main(void) {
    const label *labels;
    for (int i = 0; i < 4; i++) {
        gate(i % 2);
        interpret(NULL, &labels);
        label program[] = { labels[0], labels[1], labels[1], labels[2] };
        gate(i / 2);
        printf("%ld ", interpret(program, NULL));
        printf("%ld ", interpret((label[]){ labels[1], labels[1], labels[1], labels[1], labels[1], labels[1], labels[1] }, NULL));
    }
    printf("%d\n", steps);
    return 0;
}
"#;
    for level in ["-O2", "-O0"] {
        let trace = trace_c(&with_gate(SOURCE), &[level]);
        // Four and eight steps in each of two rounds.
        let steps = |site: Named<'_>| site.is(Store, "interpret") && site.variable == "steps";
        assert_eq!(trace.count(steps), 24, "{level}");
        // What has one version only tells no frame.
        assert_eq!(trace.count(|site| site.is(EnterFrame, "interpret")), 6, "{level}");
    }
}

#[test]
fn labels_that_assembly_jumps_to_stay_addresses() {
    const SOURCE: &str = r#"
#include <stdio.h>
static volatile int steps;
__attribute__((noinline)) static int jump(int n) {
    static const void *const labels[] = { &&once, &&twice };
    const void *there = &&there;
    int distance;
    __asm__("leaq 0f(%%rip), %%rax\n0: subq %%rax, %1\n movl %k1, %0" : "=r"(distance), "+r"(there) : "r"(&&there) : "rax", "cc");
    if (distance == 0) return -1;
    goto *labels[n & 1];
twice: steps++;
once: steps++;
there: return steps + (distance > -4096 && distance < 4096);
}
int main(void) { printf("%d %d %d\n", jump(0), jump(1), jump(0)); return 0; }
"#;
    let trace = trace_c(SOURCE, &["-O2"]);
    assert_eq!(trace.count(|site| site.is(Store, "jump") && site.variable == "steps"), 4);
}

#[test]
fn arguments_and_results_of_every_kind_pass() {
    const SOURCE: &str = r#"
#include <complex.h>
#include <stdarg.h>
#include <string.h>
struct large { long words[9]; };
struct pair { double x; int y; };
typedef float vector __attribute__((vector_size(32)));
static volatile int calls;
__attribute__((noinline)) static struct large large(struct large one, int n, struct large other) { calls++; one.words[n] += other.words[8 - n]; return one; }
__attribute__((noinline)) static struct pair pair(struct pair p, float f) { calls++; p.x += f; p.y--; return p; }
__attribute__((noinline)) static long many(int a, long b, char c, short d, int e, int f, int g, long h, signed char i, double j, long double k) { calls++; return a + b + c + d + e + f + g + h + i + (long)j + (long)k; }
__attribute__((noinline)) static double _Complex turn(double _Complex z) { calls++; return z * I; }
__attribute__((noinline, target("avx"))) static float lanes(vector v, vector *to) { calls++; *to = v + v; return (*to)[7]; }
__attribute__((noinline, target("avx"))) static float vectors(void) { vector v = {1, 2, 3, 4, 5, 6, 7, 8}, to; return lanes(v, &to); }
__attribute__((noinline)) static int sum(int count, ...) { va_list list; va_start(list, count); int all = 0; while (count--) { calls++; all += va_arg(list, int); } va_end(list); return all; }
__attribute__((noinline)) static signed char small(signed char c) { calls++; return (signed char)(c * 3); }
__attribute__((noinline)) static _Bool flag(_Bool b) { calls++; return !b; }
__attribute__((noinline)) static __int128 wide(__int128 x) { calls++; return x * x; }
__attribute__((noinline)) static long copies(struct large one) { calls++; one.words[0]++; return one.words[0]; }
int main(void) {
    struct large one, other;
    for (int i = 0; i < 9; i++) { one.words[i] = i; other.words[i] = 100 * i; }
    struct large made = large(one, 3, other);
    long all = 0;
    for (int i = 0; i < 9; i++) all += made.words[i] * i + one.words[i];
    struct pair p = pair((struct pair){1.5, 7}, 2.25f);
    double _Complex z = turn(3 + 4 * I);
    float lane = 0;
    if (__builtin_cpu_supports("avx")) lane = vectors(); else { lane = 16; calls++; }
    printf("%ld %g %d %ld %g %g %g %d %d %d %lld ", all, p.x, p.y, many(1, 2, 3, 4, 5, 6, 7, 8, -9, 10.5, 11.5L), creal(z), cimag(z), lane, sum(4, 1, 2, 3, 4), small(-50), flag(0), (long long)wide(1ll << 20));
    long before = one.words[0];
    printf("%ld %ld %d\n", copies(one), one.words[0] - before, calls);
    return 0;
}
"#;
    for level in ["-O2", "-O0", "-O1"] {
        let trace = trace_c(&with_gate(SOURCE), &[level, "-Wno-psabi"]);
        assert_eq!(trace.count(|site| site.kind == Store && site.variable == "calls"), 13, "{level}");
    }
}

#[test]
fn a_functions_address_is_one() {
    const HEADER: &str = "#include <cstdio>\ntemplate <class T> [[gnu::noinline]] T &counter() { static T count; count++; return count; }\ntypedef int &(*function)();\nfunction theirs();\n";
    let main = format!(
        "{HEADER}extern \"C\" int twice(int *p) {{ return *p * 2; }}\nextern \"C\" int alias(int *) __attribute__((alias(\"twice\")));\nint main() {{ int two = 2; counter<int>(); theirs()(); std::printf(\"%d %d %d %d\\n\", counter<int>(), theirs() == &counter<int>, alias(&two), &alias == &twice); }}\n"
    );
    let other = format!("{HEADER}function theirs() {{ counter<int>(); return &counter<int>; }}\n");
    for options in [
        &["-O2"][..],
        &["-O0"],
        &["-O2", "-fPIE", "-pie"],
        &["-O2", "-fno-pie", "-no-pie"],
        &["-O2", "-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        let trace = trace_files(&[("main.cpp", &main), ("other.cpp", &other)], options);
        assert_eq!(trace.output.stdout, b"4 1 4 1\n", "{options:?}");
        assert!(trace.count(|site| site.kind == Store && site.variable == "count") >= 4, "{options:?}");
    }
}

#[test]
fn exceptions_pass_through_both_versions() {
    const SOURCE: &str = r#"
struct guard { int *place; ~guard() { ++*place; } };
static int ended;
[[gnu::noinline]] static int thrower(int i) { guard g{&ended}; if (i == 0) { gate(0); throw 7; } if (i == 1) { gate(1); throw 8; } return i; }
[[gnu::noinline]] static int outer(int i) { guard g{&ended}; try { return thrower(i); } catch (int n) { return n; } }
int main() {
    int sum = 0;
    for (int i = 0; i < 3; i++) sum += outer(i);
    for (int i = 0; i < 3; i++) sum += outer(1);
    std::printf("%d %d\n", sum, ended);
}
"#;
    let source = format!("#include <cstdio>\n{}", with_gate(SOURCE));
    for level in ["-O0", "-O2"] {
        let trace = trace_cpp(&source.replace("extern char", "extern \"C\" char"), &[level]);
        assert_eq!(trace.output.stdout, b"41 12\n", "{level}");
    }
}
