//! Loops of optimized programs against what their sources state.

mod sandbox;

use std::collections::BTreeSet;
use std::path::Path;

use sample_programs::{Optimization, catalogue};
use sandbox::Sandbox;
use slimline_attribute::code::order::StepOrder;
use slimline_attribute::code::source::Loops;
use slimline_attribute::data::wrappers::WrapperRules;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::{Loop, ModuleId};
use slimline_trace::address::Svma;

/// All loops of the functions whose linked name contains one of `functions`.
fn loops_of(module: &Module<'_>, functions: &[&str]) -> Vec<Loop> {
    let mut loops = Loops::new(WrapperRules::default());
    let image = module.image().expect("an ELF file");
    for segment in image.segments().iter().filter(|segment| segment.executable) {
        for svma in (segment.svma.0..segment.svma.0 + segment.data.len() as u64).map(Svma) {
            if functions.iter().any(|name| module.linked_name(svma).contains(name)) {
                loops.innermost(module, ModuleId(0), svma);
            }
        }
    }
    loops.into_rows()
}

/// (function, first line, last line, depth) of each loop, in order of lines.
fn told(loops: &[Loop]) -> Vec<(&str, u32, u32, u32)> {
    let mut told: Vec<_> =
        loops.iter().map(|found| (found.function.as_str(), found.first_line, found.last_line, found.depth)).collect();
    told.sort_by_key(|&(_, first, last, depth)| (first, last, depth));
    told
}

/// The lines of a source file that any instruction has.
fn lines_with_code(module: &Module<'_>, source: &Path) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    let debug = module.debug().expect("compiled with -g");
    for segment in module.image().expect("an ELF file").segments().iter().filter(|segment| segment.executable) {
        for svma in (segment.svma.0..segment.svma.0 + segment.data.len() as u64).map(Svma) {
            debug.for_each_frame(svma, |level| {
                if level.file.is_some_and(|file| Path::new(file).file_name() == source.file_name()) {
                    lines.extend(level.line);
                }
            });
        }
    }
    lines
}

fn check_catalogue(optimization: Optimization) {
    let sandbox = Sandbox::new();
    let (mut checked, mut wrong) = (0, Vec::new());
    for program in catalogue().expect("catalogue") {
        let path = program.build(optimization, sandbox.root.path()).expect("builds");
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, path.to_str().expect("UTF-8"));
        // Programs for benches state nothing.
        let Ok(truth) = program.truth() else { continue };
        // Functions may be inlined into others: `main` and thread bodies hold them all.
        let loops = loops_of(&module, &[""]);
        let lines = lines_with_code(&module, &program.source);
        for stated in truth.loops.iter().filter(|stated| stated.lines.is_some()) {
            let function = stated.function.as_deref().expect("a loop with lines has a function");
            let [first, last] = stated.lines.expect("filtered");
            let is_it = |found: &&Loop| {
                // A body that became a conditional move may have lost its last lines: nothing in the file knows them.
                let lost = |line| !lines.contains(&line);
                found.first_line == first
                    && found.last_line <= last
                    && (found.last_line + 1..=last).all(lost)
                    && found.function.rsplit("::").next().is_some_and(|name| name == function)
                    && found
                        .file
                        .as_deref()
                        .is_some_and(|file| file.ends_with(program.source.file_name().unwrap().to_str().unwrap()))
            };
            let near: Vec<_> = told(&loops).into_iter().filter(|row| row.1 <= last + 3 && first <= row.2 + 3).collect();
            if !loops.iter().any(|found| is_it(&found)) {
                wrong.push(format!("{}: {function} {first}-{last} is not among {near:?}", program.name));
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{optimization:?}, {} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked >= 20, "only {checked} loops are stated");
}

/// Without lines, loops are told by the addresses of their code, which hold the inner loops'.
#[test]
fn stripped_loops_have_their_addresses() {
    let source = "long f(long *p, long n) {\n    long sum = 0;\n    for (long i = 0; i < n; i++)\n        \
                  for (long j = 0; j < i; j++) sum += p[j] ^ sum;\n    return sum;\n}\n\
                  int main(int c, char **v) { long a[9] = {c}; return (int)f(a, c); }\n";
    let sandbox = Sandbox::new();
    let path = sandbox.compile("gcc", &["-O1", "-fno-inline"], "a.c", source, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &path);
    let loops = loops_of(&module, &["f"]);
    let loops: Vec<&Loop> = loops.iter().filter(|found| found.function == "f").collect();
    assert_eq!(loops.iter().map(|found| found.depth).collect::<Vec<_>>(), [1, 2]);
    let function = module.function_bounds(loops[0].header).expect("has a symbol");
    for found in &loops {
        assert!(found.start <= found.header && found.header < found.end, "{found:?}");
        assert!(function.0 <= found.start && found.end <= function.1, "{found:?}");
    }
    assert!(loops[0].start <= loops[1].start && loops[1].end <= loops[0].end);
    assert!(loops[1].end.0 - loops[1].start.0 < loops[0].end.0 - loops[0].start.0);
}

#[test]
fn stated_loops_are_found_at_o2() {
    check_catalogue(Optimization::O2);
}

#[test]
fn stated_loops_are_found_at_o3() {
    check_catalogue(Optimization::O3);
}

/// The loops of a source must be told as `expected`, whatever the compiler made of them: `made` loops at least.
#[track_caller]
fn check_loops(flags: &[&str], source_name: &str, source: &str, expected: &[(&str, u32, u32, u32)], made: usize) {
    let sandbox = Sandbox::new();
    let compiler = if source_name.ends_with("cpp") { "g++" } else { "gcc" };
    let path = sandbox.compile(compiler, &[&["-g", "-c"], flags].concat(), source_name, source, "code.o");
    // Linked at its own place, so that there are segments.
    sandbox.run("gcc", &["-nostdlib", "-shared", "-o", "code.so", "code.o"]);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &path.replace("code.o", "code.so"));
    let loops = loops_of(&module, &[""]);
    assert_eq!(told(&loops), expected);
    // Without lines nothing is joined: that shows how many loops the compiler made.
    sandbox.run("strip", &["--strip-debug", "-o", "bare.so", "code.so"]);
    let bare = loops_of(&Module::open(&store, &sandbox.text_path("bare.so")), &[""]);
    assert!(bare.len() >= made, "the compiler made {} loops only", bare.len());
}

#[test]
fn vectorized_loop_and_its_remainder_are_one() {
    let source = "
void scale(unsigned char *restrict to, const unsigned char *restrict from, long n) {
    for (long i = 0; i < n; i++)
        to[i] = from[i] ^ 5;
}
";
    // One more vector loop for the remainder, or a scalar one.
    check_loops(&["-O3", "-mavx2", "--param=vect-epilogues-nomask=0"], "a.c", source, &[("scale", 3, 4, 1)], 2);
    check_loops(&["-O3", "-mavx2", "-funroll-all-loops"], "a.c", source, &[("scale", 3, 4, 1)], 1);
}

#[test]
fn unswitched_copies_of_a_nest_are_one_nest() {
    let source = "
void add(long *to, long n, long m, int negative) {
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < m; j++) {
            if (negative)
                to[i * m + j] -= j ^ i;
            else
                to[i * m + j] += j / (i + 1);
        }
    }
}
";
    check_loops(&["-O3", "-fno-tree-vectorize"], "a.c", source, &[("add", 3, 8, 1), ("add", 4, 8, 2)], 3);
}

#[test]
fn loops_of_inlined_functions_have_their_names_and_calls_their_lines() {
    let source = "
static inline long sum(const long *v, long n) {
    long s = 0;
    for (long i = 0; i < n; i++)
        s += v[i];
    return s;
}
static inline long twice(long x) {
    return x * 2 + 1;
}
long all(const long *v, long n, long rows) {
    long s = 0;
    for (long r = 0; r < rows; r++)
        s ^= sum(v + r * n, n);
    for (long i = 0; i < n; i++)
        s ^= twice(v[i] ^ s);
    return s;
}
";
    let expected = [("sum", 4, 5, 2), ("all", 13, 14, 1), ("all", 15, 16, 1)];
    check_loops(&["-O2"], "a.c", source, &expected, 3);
}

#[test]
fn library_loops_are_told_by_the_line_that_calls_for_them() {
    let source = "
#include <numeric>
#include <vector>
long total(const std::vector<long> &v, long rounds) {
    long sum = 0;
    for (long i = 0; i < rounds; i++)
        sum ^= std::accumulate(v.begin(), v.end(), i);
    return sum;
}
";
    check_loops(&["-O2"], "a.cpp", source, &[("total", 6, 7, 1), ("total", 7, 7, 2)], 2);
}

#[test]
fn switches_and_computed_gotos_stay_inside_their_loop() {
    let switch = "
long run(const unsigned char *code, long n) {
    long a = 1, b = 2;
    for (long i = 0; i < n; i++) {
        switch (code[i]) {
        case 0: a += b; break;
        case 1: b ^= a; break;
        case 2: a *= 3; break;
        case 3: b -= i; break;
        case 4: a ^= i; break;
        case 5: b *= a; break;
        case 6: a -= 7; break;
        case 7: b += 9; break;
        }
    }
    return a ^ b;
}
";
    for flags in [&["-O2", "-fPIC"][..], &["-O2", "-fno-pic", "-mcmodel=large"], &["-O3", "-fPIC"]] {
        check_loops(flags, "a.c", switch, &[("run", 4, 13, 1)], 1);
    }
    let computed = "
long run(const unsigned char *code) {
    static void *const to[] = {&&add, &&flip, &&stop};
    long a = 1;
    goto *to[*code++];
add: a += 3;
    goto *to[*code++];
flip: a ^= a << 1;
    goto *to[*code++];
stop: return a;
}
";
    check_loops(&["-O2", "-fPIC"], "a.c", computed, &[("run", 6, 9, 1)], 1);
}

#[test]
fn two_loops_on_one_line_are_two_and_their_copies_are_not() {
    let source = "\
#include <stddef.h>
#define CLEAR(p, n) for (size_t i = 0; i < n; i++) { p[i].a = 0; __asm__ volatile(\"\" ::: \"memory\"); }
struct item { long a, b, c, d; };
long run(struct item *v, size_t n) {
    long sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i].a; for (size_t i = 0; i < n; i++) { v[i].c += v[i].d; }
    CLEAR(v, n)
    return sum;
}
";
    // Vectorized with remainders, and unrolled: several loops in the code of each in the source.
    for flags in [&["-O1"][..], &["-O2"], &["-O3"], &["-O3", "-funroll-loops", "-mavx2"]] {
        let sandbox = Sandbox::new();
        let options = [flags, &["-g", "-shared", "-fPIC"]].concat();
        let path = sandbox.compile("gcc", &options, "a.c", source, "code.so");
        let store = FileStore::new(&sandbox);
        let loops = loops_of(&Module::open(&store, &path), &["run"]);
        assert_eq!(told(&loops), [("run", 6, 6, 1), ("run", 6, 6, 1), ("run", 7, 7, 1)], "{flags:?}");
        let columns: BTreeSet<bool> =
            loops.iter().filter(|found| found.first_line == 6).map(|found| found.columns.unwrap().0 < 50).collect();
        assert_eq!(columns.len(), 2, "{flags:?}: one before and one behind the middle of the line");
    }
}

#[test]
fn without_debug_information_loops_have_no_lines() {
    let sandbox = Sandbox::new();
    let source = "void fill(long *v, long n) { for (long i = 0; i < n; i++) v[i] = i; }";
    let path = sandbox.compile("gcc", &["-O2", "-fno-tree-vectorize", "-shared", "-fPIC"], "a.c", source, "code.so");
    for strip in [None, Some("--strip-debug"), Some("--strip-all")] {
        if let Some(option) = strip {
            sandbox.run("strip", &[option, "code.so"]);
        }
        let store = FileStore::new(&sandbox);
        let loops = loops_of(&Module::open(&store, &path), &["fill"]);
        assert_eq!(told(&loops), [("fill", 0, 0, 1)], "{strip:?}");
    }
}

const STEPS: &str = r#"
#include <math.h>
#include <stdio.h>
struct node { long value; struct node *next; };
long list(struct node *p) { long sum = 0; for (; p; p = p->next) sum += p->value; return sum; }
long indexed(const long *a, const int *b, long n) { long sum = 0; for (long i = 0; i < n; i++) sum += a[b[i]]; return sum; }
double rows(double **a, long n, long j) { double sum = 0; for (long i = 0; i < n; i++) sum += a[i][j]; return sum; }
long search(const long *a, long n) { long i; for (i = 0; i < n; i++) if (a[i] == 7) break; return i; }
double roots(const double *a, long n) { double sum = 0; for (long i = 0; i < n; i++) sum += cos(a[i]); return sum; }
void prints(const long *a, long n) { for (long i = 0; i < n; i++) printf("%ld\n", a[i]); }
static __attribute__((noinline)) long twice(long x) { return 2 * x + 1; }
long computes(const long *a, long n) { long sum = 0; for (long i = 0; i < n; i++) sum += twice(a[i]); return sum; }
long seen;
static __attribute__((noinline)) long notes(long x) { seen = x; return x / 3; }
long remembers(const long *a, long n) { long sum = 0; for (long i = 0; i < n; i++) sum += notes(a[i]); return sum; }
int main(int c, char **v) { return (int)(long)v; }
"#;

/// For the loop in each function: whether it follows pointers, what it calls, whether it may end early.
#[test]
fn what_steps_of_loops_depend_on() {
    for flags in
        [&["-g", "-O1"][..], &["-g", "-O2", "-fno-ipa-icf", "-fno-ipa-modref", "-fno-ipa-pure-const"], &["-g", "-O0"]]
    {
        let sandbox = Sandbox::new();
        let path = sandbox.compile(
            "gcc",
            &[flags, &["-fno-tree-vectorize", "-Wl,--no-as-needed", "-lm"]].concat(),
            "a.c",
            STEPS,
            "prog",
        );
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &path);
        let of = |name: &str| {
            let mut loops = Loops::new(WrapperRules::default());
            let image = module.image().expect("an ELF file");
            let code = image.segments().iter().find(|segment| segment.executable).expect("code");
            let mut chased = 0;
            for svma in (code.svma.0..code.svma.0 + code.data.len() as u64).map(Svma) {
                if module.linked_name(svma) == name {
                    loops.innermost(&module, ModuleId(0), svma);
                    chased += usize::from(loops.is_chased(&module, ModuleId(0), svma));
                }
            }
            let rows = loops.into_rows();
            let [found] = &rows[..] else { panic!("{name} {flags:?}: {rows:?}") };
            (chased > 0, found.call.clone(), found.leaves_early)
        };
        let call = |name: &str| Some(name.to_owned());
        for (name, expected) in [
            ("list", (true, None, false)),
            ("indexed", (false, None, false)),
            ("rows", (false, None, false)),
            ("search", (false, None, true)),
            ("roots", (false, None, false)),
            ("prints", (false, call("printf"), false)),
            ("computes", (false, None, false)),
            ("remembers", (false, call("notes"), false)),
        ] {
            assert_eq!(of(name), expected, "{name} {flags:?}");
        }
    }
}

/// What instrumented code has beside the program's own: calls of the runtime, directly and through a register, and
/// accesses that are written down.
const INSTRUMENTED: &str = r#"
extern int printf(const char *, ...);
long words[99], *cursor = words;
__attribute__((noinline)) void __slimline_next_chunk(void) { cursor = words; }
#define NOTED __asm__ volatile("call __slimline_next_chunk" ::: "memory")
__attribute__((noinline)) double noted(double *p) { NOTED; *cursor++ = 1; return *p; }
__attribute__((noinline)) double kept(double *p) { *cursor++ = 1; return *p; }
double sums(double *p, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) { NOTED; sum += p[i]; }
    return sum;
}
double through(double *p, long n) {
    double sum = 0;
    void (*chunk)(void) = __slimline_next_chunk;
    __asm__("lea __slimline_next_chunk(%%rip), %0" : "=r"(chunk));
    for (long i = 0; i < n; i++) { __asm__ volatile("call *%0" :: "r"(chunk) : "memory"); sum += p[i]; }
    return sum;
}
double copied(double *p, long n) {
    double sum = 0;
    void (*chunk)(void);
    __asm__("lea __slimline_next_chunk(%%rip), %0" : "=r"(chunk));
    for (long i = 0; i < n; i++) {
        __asm__ volatile("mov %0, %%rsi\n\tcall *%0\n\tmov %%rsi, %0" : "+r"(chunk) :: "rsi", "memory");
        sum += p[i];
    }
    return sum;
}
double other(double *p, long n, void (*function)(void)) {
    double sum = 0;
    for (long i = 0; i < n; i++) { NOTED; function(); sum += p[i]; }
    return sum;
}
double calls(double *p, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) { NOTED; sum += noted(p + i); }
    return sum;
}
double stores(double *p, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) { NOTED; sum += kept(p + i); }
    return sum;
}
void prints(double *p, long n) {
    for (long i = 0; i < n; i++) { NOTED; printf("%g", p[i]); }
}
long search(double *p, long n) {
    for (long i = 0; i < n; i++) {
        NOTED;
        if (p[i] > 3) return i;
    }
    return -1;
}
int main(int c, char **v) {
    double a[9] = {c};
    prints(a, c);
    return (int)(sums(a, c) + through(a, c) + copied(a, c) + calls(a, c) + stores(a, c) + other(a, c, __slimline_next_chunk)) + search(a, c);
}
"#;

#[test]
fn calls_of_the_tracing_runtime_bind_no_steps() {
    let sandbox = Sandbox::new();
    let path =
        sandbox.compile("gcc", &["-g", "-O1", "-fno-inline", "-fno-ipa-pure-const"], "a.c", INSTRUMENTED, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &path);
    let of = |name: &str| {
        let rows = loops_of(&module, &[name]);
        let found = rows.into_iter().find(|found| found.function == name).expect(name);
        (found.call, found.leaves_early)
    };
    let call = |name: &str| Some(name.to_owned());
    for (name, expected) in [
        ("sums", (None, false)),
        ("through", (None, false)),
        ("copied", (None, false)),
        ("other", (call("an indirect call"), false)),
        // What it stores is written down, as it calls the runtime; that of the next one is not.
        ("calls", (None, false)),
        ("stores", (call("kept"), false)),
        ("prints", (call("printf"), false)),
        ("search", (None, true)),
    ] {
        assert_eq!(of(name), expected, "{name}");
    }
}

/// The loops around a line, by its number.
#[test]
fn steps_of_the_loops_around_a_line() {
    let source = "extern int puts(const char *);\nstruct node { struct node *next; long v; };\n\
                  long f(long *p, long n) {\n    long sum = 0;\n    for (long i = 0; i < n; i++) {\n        \
                  for (long j = 0; j < n; j++)\n            sum += p[j * n + i];\n        puts(\"\");\n    }\n    return sum;\n}\n\
                  long g(struct node *p, long n) {\n    long sum = 0;\n    for (long i = 0; i < n; i++)\n        \
                  for (struct node *at = p; at; at = at->next)\n            sum += at->v;\n    return sum;\n}\n\
                  int main(int c, char **v) { long a[9] = {c}; struct node b = {0, 1}; return (int)(f(a, 1) + g(&b, c)); }\n";
    let sandbox = Sandbox::new();
    let path = sandbox.compile("gcc", &["-g", "-O1", "-fno-inline"], "a.c", source, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &path);
    let around = |line| StepOrder::around(&module, &|file| file.ends_with("a.c"), line);
    // The outer loop calls what the inner one does not.
    assert_eq!(around(7), Some(StepOrder { call: Some("puts".to_owned()), ..StepOrder::default() }));
    assert_eq!(around(16), Some(StepOrder { is_chase: true, ..StepOrder::default() }));
    assert_eq!([around(4), around(99)], [None, None]);
    assert_eq!(StepOrder::around(&module, &|file| file.ends_with("b.c"), 7), None);
}
