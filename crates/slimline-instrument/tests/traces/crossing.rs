//! Loops in which the gate is opened and closed: they go on in the other version, with all that they know.

use slimline_trace::stream::sites::SiteKind::*;

use crate::gate::with_gate;
use crate::harness::{trace_c, trace_cpp};

const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];

#[test]
fn one_long_loop_is_left_and_entered() {
    const SOURCE: &str = r#"
static volatile long touched;
int main(void) {
    long sum = 0;
    for (long i = 0; i < 1000; i++) {
        if (i == 100) gate(0);
        if (i == 300) gate(1);
        touched = i;
        sum += i * i;
    }
    printf("%ld %ld\n", sum, touched);
    return 0;
}
"#;
    for level in LEVELS {
        let trace = trace_c(&with_gate(SOURCE), &[level, "-fno-unroll-loops"]);
        // The round that closes it is the last one that is traced, and the one behind that which opens it the first.
        assert_eq!(trace.count(|site| site.is(Store, "main") && site.variable == "touched"), 101 + 699, "{level}");
        // It began once, and went on once in the same call.
        let frames = |kind| trace.words(|site| site.is(kind, "main"));
        assert_eq!((frames(EnterFrame).len(), frames(EnterFrame)), (1, frames(GoesOn)), "{level}");
        assert_eq!(trace.count(|site| site.kind == Resumes), 1, "{level}");
        assert_eq!(trace.count(|site| site.is(Leave, "main")), 1, "{level}");
    }
}

/// Values from before all loops, between them, of each loop and behind them; headers that are entered by a `switch`.
#[test]
fn all_that_lives_goes_along() {
    const SOURCE: &str = r#"
#include <stdlib.h>
static volatile long touched;
static unsigned seed = 1;
static unsigned draw(void) { seed = seed * 1103515245 + 12345; return seed >> 16; }
struct node { struct node *next; long value; };
__attribute__((noinline)) static double walk(const long *data, int n, int mode, struct node *list) {
    long before = data[0] * 3, last = -1, best = 0;
    double weight = 1.5;
    int turns = 0;
    for (int i = 0; i < n; i++) {
        long between = data[i] ^ before;
        gate((i >> 1) & 1);
        for (int j = i; j < n; j += 1 + (j & 3)) {
            switch (mode++ % 4) {
            case 0: last = data[j]; continue;
            case 1: between += last; break;
            case 2: weight *= 1.0001; turns++; continue;
            default: if (data[j] > best) { best = data[j]; goto found; }
            }
            touched = between;
            gate(j & 1);
            for (struct node *at = list; at; at = at->next) { between += at->value * j; last ^= between; }
            weight += (double)(between & 15);
        }
        continue;
    found:
        do { turns += (int)(best & 7); gate(turns % 3 == 0); best >>= 1; } while (best > 3);
    }
    return weight + (double)(last % 1000) + (double)before + turns + (double)best;
}
int main(void) {
    enum { N = 300 };
    long data[N];
    struct node *list = NULL;
    for (int i = 0; i < N; i++) data[i] = draw();
    for (int i = 0; i < 5; i++) { struct node *made = malloc(sizeof *made); made->next = list; made->value = draw(); list = made; }
    for (int i = 0; i < 6; i++) printf("%.10g ", walk(data, N - i * 20, i, list));
    printf("%ld\n", touched);
    return 0;
}
"#;
    for level in LEVELS {
        let trace = trace_c(&with_gate(SOURCE), &[level]);
        let touched = trace.count(|site| site.is(Store, "walk") && site.variable == "touched");
        assert!(touched > 100, "{level}: {touched}");
        assert!(trace.count(|site| site.is(GoesOn, "walk")) > 100, "{level}");
    }
}

/// Loops that call nothing ask now and then only: who flips the gate is another thread.
#[test]
fn short_loops_are_left_and_entered() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static unsigned long mix(unsigned long *table, size_t n, unsigned long rounds) {
    unsigned long a = 1, b = 2, c = 3;
    for (unsigned long i = 0; i < rounds; i++) {
        a += table[i % n] ^ b; b = (b << 7 | b >> 57) + c; c ^= a * 31;
        table[(a ^ i) % n] = c;
    }
    return a ^ b ^ c;
}
__attribute__((noinline)) static double sums(const double *from, double *to, int n) {
    double all = 0;
    for (int i = 0; i < n; i++) { to[i] = from[i] * 2 + to[i]; all += to[i]; }
    return all;
}
__attribute__((noinline)) static size_t length(const char *text) { size_t n = 0; while (text[n]) n++; return n; }
int main(void) {
    enum { N = 1000, LONG = 30000 };
    unsigned long *table = calloc(N, sizeof *table);
    double *from = malloc(LONG * sizeof *from), *to = calloc(LONG, sizeof *to);
    char *text = malloc(LONG);
    memset(text, 'a', LONG - 1);
    text[LONG - 1] = 0;
    for (int i = 0; i < LONG; i++) from[i] = i % 17;
    double all = 0;
    for (int i = 0; i < 5; i++) all += sums(from, to, LONG);
    printf("%lu %g %zu\n", mix(table, N, 300000), all, length(text));
    return 0;
}
"#;
    for level in LEVELS {
        let trace = trace_c(SOURCE, &[level, "-fno-vectorize", "-fno-unroll-loops"]);
        // Nothing is left out where the gate stays open.
        let stores = trace.count(|site| site.is(Store, "mix") && site.variable == "table");
        // Without optimization the parameter is stored, too.
        assert_eq!(stores - usize::from(level == "-O0"), 300_000, "{level}");
        assert_eq!(trace.count(|site| site.kind == Resumes), 0, "{level}");
    }
}

#[test]
fn exceptions_leave_loops_of_both_versions() {
    const SOURCE: &str = r#"
#include <vector>
#include <string>
struct guard { int *place; ~guard() { ++*place; } };
static volatile int touched;
static int ended;
[[gnu::noinline]] static int thrower(int i) { guard g{&ended}; if (i % 5 == 0) throw i; if (i % 7 == 0) throw std::string("seven"); return i; }
[[gnu::noinline]] static long loops(int n) {
    std::vector<long> kept;
    long sum = 0;
    for (int i = 0; i < n; i++) {
        guard g{&ended};
        gate(i % 3 == 0);
        try {
            for (int j = 0; j < 4; j++) { touched = j; sum += thrower(i + j); gate(j % 2); }
            kept.push_back(sum);
        } catch (int caught) {
            sum -= caught;
            for (int j = 0; j < caught % 4; j++) { gate(j % 2); sum ^= kept.size() + j; }
            if (caught > n - 4) throw;
        } catch (const std::string &text) {
            sum += (long)text.size();
        }
    }
    for (long one : kept) sum += one;
    return sum;
}
int main() {
    long sum = 0;
    for (int i = 0; i < 40; i++) try { sum += loops(i); } catch (int caught) { sum ^= caught; }
    gate(1);
    std::printf("%ld %d %d\n", sum, ended, touched);
}
"#;
    let source = format!("#include <cstdio>\n{}", with_gate(SOURCE)).replace("extern char", "extern \"C\" char");
    for level in LEVELS {
        let trace = trace_cpp(&source, &[level]);
        assert!(trace.count(|site| site.kind == GoesOn && site.linked.contains("loops")) > 100, "{level}");
    }
}
