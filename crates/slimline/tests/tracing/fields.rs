//! Which member of which structure is accessed, where the compiler's names alone would be wrong.

use serde_json::Value;
use slimline_instrument::driver::Language;

use super::compiled::{compiled_as, named};
use super::{report, slimline, text};

/// Traces a program of this source: the lines that it prints, and the report.
fn traced(language: Language, source: &str, options: &[&str]) -> (Vec<u64>, Value) {
    traced_as(language, source, &[], options)
}

fn traced_as(language: Language, source: &str, compile: &[&str], options: &[&str]) -> (Vec<u64>, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled_as(&scratch, language, source, compile);
    let mut command = slimline();
    command.args(["trace", "--live", "--report", "-", "--format", "json"]).args(options).arg("--").arg(program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let at = text(&output.stdout).find('{').unwrap();
    let numbers = text(&output.stdout)[..at].lines().map(|line| line.parse().unwrap()).collect();
    (numbers, report(&std::process::Output { stdout: output.stdout[at..].to_vec(), ..output }))
}

fn structure<'r>(report: &'r Value, name: &str) -> &'r Value {
    let all = report["structures"].as_array().unwrap();
    all.iter().find(|structure| structure["name"] == name).unwrap_or_else(|| panic!("no {name}: {all:?}"))
}

/// Accesses of each field, and whether it is cold.
fn fields(structure: &Value) -> Vec<(&str, u64, bool)> {
    let field = |field: &'_ Value| (field["accesses"].as_u64().unwrap(), field["cold"].as_bool().unwrap());
    let fields = structure["fields"].as_array().unwrap();
    fields.iter().map(|it| (it["name"].as_str().unwrap(), field(it).0, field(it).1)).collect()
}

/// A table of chains: clang makes one load of `table[n]` and `e->next`, as `next` lies at the beginning of an entry. ALLOCATE is
/// what entries come from.
const CHAINS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
enum { BUCKETS = 64, N = 1000, ROUNDS = 20 };
struct entry { struct entry *next; long key; char note[40]; };
static struct entry *table[BUCKETS];
__attribute__((noinline)) static void *get(size_t bytes) {
    void *block = malloc(bytes);
    if (!block) abort();
    return block;
}
__attribute__((noinline)) static void put(long key) {
    struct entry *e = ALLOCATE(sizeof *e);
    e->key = key;
    e->next = table[key % BUCKETS];
    table[key % BUCKETS] = e;
}
__attribute__((noinline)) static struct entry *find(long key) {
    for (struct entry *e = table[key % BUCKETS]; e; e = e->next) if (e->key == key) return e;
    return NULL;
}
int main(void) {
    for (long i = 0; i < N; i++) put(i);
    long found = 0;
    for (int r = 0; r < ROUNDS; r++) for (long i = 0; i < N; i++) found += find(i) != NULL;
    printf("%ld\n", found);
    (void)get;
}
"#;

#[test]
fn one_load_of_a_table_and_of_its_chains_is_told_apart() {
    // Of the 1000 keys the first 40 buckets have 16, the other 24 have 15; finding all keys of n goes to n (n + 1) / 2 entries.
    const ROUNDS: u64 = 20;
    let entries = ROUNDS * (40 * 16 * 17 / 2 + 24 * 15 * 16 / 2);
    let nexts = entries - ROUNDS * 1000;
    for allocate in ["malloc", "get"] {
        let source = CHAINS.replace("ALLOCATE", allocate);
        let (found, report) = traced(Language::C, &source, &[]);
        assert_eq!(found, [ROUNDS * 1000]);
        let [group] = report["heap"].as_array().unwrap().as_slice() else { panic!("{}", report["heap"]) };
        assert_eq!(named(&group["fields"], "entry.key"), (entries, 1000), "{allocate}");
        assert_eq!(named(&group["fields"], "entry.next"), (nexts, 1000), "{allocate}");
        assert_eq!(named(&report["fields"], "entry.next"), (nexts, 1000), "{allocate}");
        let entry = structure(&report, "entry");
        let expected = [("next", nexts + 1000, false), ("key", entries + 1000, false), ("note", 0, true)];
        assert_eq!((fields(entry), &entry["verdict"]), (expected.to_vec(), &"split".into()), "{allocate}");
    }
}

/// The same outside the heap: an array of them says what is accessed; bytes do not, and there is no advice on guesses.
#[test]
fn what_may_be_a_field_s_keeps_it_from_being_cold() {
    let declared = "static struct entry pool[N];\n";
    let bytes = "static _Alignas(16) char memory[N * sizeof(struct entry)];\n#define pool ((struct entry *)memory)\n";
    for (pool, expected, verdict) in [(declared, vec![("note", 0, true)], "split"), (bytes, vec![], "unclear")] {
        let source = CHAINS.replace("ALLOCATE", "pooled").replace(
            "__attribute__((noinline)) static void *get",
            &format!(
                "{pool}static int used;\n\
                 static struct entry *pooled(size_t bytes) {{ (void)bytes; return &pool[used++]; }}\n\
                 __attribute__((noinline)) static void *get"
            ),
        );
        let (_, report) = traced(Language::C, &source, &[]);
        let entry = structure(&report, "entry");
        let cold: Vec<_> = fields(entry).into_iter().filter(|(.., is_cold)| *is_cold).collect();
        assert_eq!((cold, &entry["verdict"]), (expected, &verdict.into()), "{pool}");
    }
}

#[test]
fn nodes_of_a_map_have_the_members_of_their_parent() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <map>
static long compared;
struct less { bool operator()(int a, int b) const { compared++; return a < b; } };
using map = std::map<int, long, less>;
[[gnu::noinline]] static long find_all(const map &m, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) sum += m.find(i)->second;
    return sum;
}
int main() {
    map m;
    for (int i = 0; i < 1000; i++) m[i] = 2 * i;
    compared = 0;
    long sum = find_all(m, 1000);
    std::printf("%ld\n%ld\n", compared, sum);
}
"#;
    let (printed, report) = traced(Language::CPlusPlus, SOURCE, &["--function", "find_all"]);
    let [compared, sum] = printed[..] else { panic!("{printed:?}") };
    assert_eq!(sum, 999 * 1000);
    let [group] = report["heap"].as_array().unwrap().as_slice() else { panic!("{}", report["heap"]) };
    let rows = &group["fields"];
    let [left, right] = ["left", "right"].map(|name| named(rows, &format!("_Rb_tree_node_base._M_{name}")).0);
    // Each step down compares once, and what was found once more.
    assert_eq!(left + right, compared - 1000);
    assert_eq!(named(rows, "pair<const int, long>.second"), (1000, 0));
    let all = group["loads"].as_u64().unwrap();
    assert_eq!(all, left + right + compared + 1000, "{rows}");
    let node = &report["structures"].as_array().unwrap().iter().find(|it| it["name"] == "_Rb_tree_node_base").unwrap();
    assert_eq!(node["verdict"], "foreign");
}

#[test]
fn a_copy_counts_for_all_that_it_covers() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { N = 200 };
typedef struct { double x, y, z; } vec;
struct body { vec position; long id; vec speed; };
static struct body saved[N];
__attribute__((noinline)) static void save(const struct body *from) {
    for (int i = 0; i < N; i++) memcpy(&saved[i * 7 % N], &from[i], sizeof *from);
}
__attribute__((noinline)) static void move(struct body *bodies) {
    for (int i = 0; i < N; i++) bodies[i].position.y += bodies[i].speed.y;
}
int main(void) {
    struct body *bodies = calloc(N, sizeof *bodies);
    save(bodies);
    move(bodies);
    printf("%d\n", (int)saved[N - 1].id);
}
"#;
    let (_, report) = traced(Language::C, SOURCE, &["--function", "save", "--function", "move"]);
    let [group] = report["heap"].as_array().unwrap().as_slice() else { panic!("{}", report["heap"]) };
    for name in ["body.position.x", "body.id", "body.speed.z"] {
        assert_eq!(named(&group["fields"], name), (200, 0), "{name}");
        assert_eq!(named(&report["fields"], name), (200, 200), "{name}");
    }
    assert_eq!(named(&group["fields"], "body.position.y"), (400, 200));
    assert_eq!(named(&group["fields"], "body.speed.y"), (400, 0));
    let counts = fields(structure(&report, "body"));
    // Read and written by the copy; then `position.y` is read and written and `speed.y` read.
    assert_eq!(counts, [("position", 800, false), ("id", 400, false), ("speed", 600, false)]);
    let counts = fields(structure(&report, "vec"));
    assert_eq!(counts.iter().map(|(_, count, _)| *count).collect::<Vec<_>>(), [800, 1400, 800]);
}

#[test]
fn members_by_typedef_are_the_structures_that_they_are() {
    const SOURCE: &str = r#"
#include <stdio.h>
struct pair { long a, b; };
typedef struct pair pair_t;
struct node { long hot[4]; pair_t pairs[4]; };
static struct node nodes[8];
__attribute__((noinline)) static void bump(pair_t *pair) { pair->a++; pair->b++; }
__attribute__((noinline)) static void heat(struct node *node) { for (int i = 0; i < 100; i++) node->hot[i & 3] += i; }
int main(void) {
    for (int i = 0; i < 100; i++) { bump(&nodes[i & 7].pairs[i & 3]); heat(&nodes[i & 7]); }
    printf("%ld\n", nodes[0].hot[0]);
}
"#;
    let (_, report) = traced(Language::C, SOURCE, &[]);
    let node = structure(&report, "node");
    assert_eq!(node["verdict"], "nothing_cold", "{node}");
}

#[test]
fn values_have_the_sign_of_their_type() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdint.h>
typedef int32_t number;
enum flags { LOW = 1u << 20, ALL = ~0u };
static volatile struct { number balance; uint32_t mask; enum flags flags; } item;
int main(void) {
    item.balance = -1; item.balance = 1 << 20;
    item.mask = ~0u; item.mask = 1u << 20;
    item.flags = ALL; item.flags = LOW;
    printf("0\n");
}
"#;
    let (_, report) = traced_as(Language::C, SOURCE, &["--slimline-values"], &[]);
    let values = report["values"].as_array().unwrap();
    for (name, least, greatest, narrowest) in [
        ("balance", "-1", "1048576", "int32_t"),
        ("mask", "1048576", "4294967295", "uint32_t"),
        ("flags", "1048576", "4294967295", "uint32_t"),
    ] {
        let is_it = |row: &&Value| row["name"].as_str().is_some_and(|it| it.ends_with(name));
        let row = values.iter().find(is_it).unwrap_or_else(|| panic!("no {name}: {values:?}"));
        assert_eq!([&row["least"], &row["greatest"], &row["narrowest"]], [least, greatest, narrowest], "{name}");
    }
}

/// A list's node has bytes for what is in it: the sites say what that is.
#[test]
fn what_is_put_into_a_node_has_its_own_members() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <list>
struct order { long id; double price; char note[48]; };
[[gnu::noinline]] static void add(std::list<order> &all, const order &one) { all.push_back(one); }
[[gnu::noinline]] static double total(const std::list<order> &all) {
    double sum = 0;
    for (const order &one : all) sum += one.price;
    return sum;
}
int main() {
    std::list<order> all;
    order one = {1, 2.0, "three"};
    for (int i = 0; i < 100; i++) add(all, one);
    std::printf("%d\n", (int)total(all));
}
"#;
    let (printed, report) = traced(Language::CPlusPlus, SOURCE, &["--function", "add", "--function", "total"]);
    assert_eq!(printed, [200]);
    let [group] = report["heap"].as_array().unwrap().as_slice() else { panic!("{}", report["heap"]) };
    let rows = &group["fields"];
    assert_eq!(
        ["order.id", "order.price", "order.note[]"].map(|name| named(rows, name)),
        [(0, 100), (100, 100), (0, 100)]
    );
    // Where the list is grown, not where its allocator is.
    assert_eq!(group["function"], "add");
}

#[test]
fn a_copy_has_two_variables() {
    const SOURCE: &str = r#"
#include <string.h>
struct from { long a, b; };
struct to { long c, d; };
struct from source[100];
struct to target[100];
static volatile unsigned long bytes = sizeof source;
int main(void) {
    struct to *block = __builtin_malloc(sizeof target);
    for (int i = 0; i < 10; i++) memcpy(target, source, bytes);
    for (int i = 0; i < 7; i++) { memmove(block, source, bytes); memcpy(target, block, 32); __asm__("" ::: "memory"); }
    return 0;
}
"#;
    for options in [&["-O0"][..], &["-O2"]] {
        let (_, report) = traced_as(Language::C, SOURCE, options, &[]);
        assert_eq!(named(&report["variables"], "source"), (17, 0), "{options:?}");
        assert_eq!(named(&report["variables"], "target"), (0, 17), "{options:?}");
        let of = |site: &&Value| site["kind"] == "copy" && site["variable"] == "source";
        let loads: u64 =
            report["sites"].as_array().unwrap().iter().filter(of).map(|it| it["loads"].as_u64().unwrap()).sum();
        assert_eq!(loads, 17);
        // A filter takes the half that it asks for.
        let (_, filtered) = traced_as(Language::C, SOURCE, options, &["--variable", "source"]);
        let total = &filtered["total"];
        assert_eq!((&total["loads"], &total["stores"]), (&17.into(), &0.into()), "{options:?}");
        let [block] = &report["heap"].as_array().unwrap()[..] else { panic!("{}", report["heap"]) };
        let at_least = |kind: &str| block[kind].as_u64().unwrap();
        assert!(at_least("stores") == 7 && at_least("loads") >= 7, "{block}");
    }
}

#[test]
fn bit_fields_and_alternatives_are_named_as_far_as_they_are_known() {
    const SOURCE: &str = r#"
struct flags { unsigned bits1 : 3, bits2 : 5; unsigned char other; unsigned alone : 8; };
union value { int number; float ratio; unsigned code; double wide; };
struct holder { long kind; union value is; union { short low; struct { unsigned char first, second; } both; }; };
__attribute__((noinline)) static void set(struct flags *f, int to) { f->bits2 = to; }
__attribute__((noinline)) static void other(struct flags *f, int to) { f->other = to; f->alone = to; }
__attribute__((noinline)) static float ratio(struct holder *h) { return h->is.ratio; }
__attribute__((noinline)) static int number(struct holder *h) { return h->is.number; }
__attribute__((noinline)) static double wide(struct holder *h) { return h->is.wide; }
__attribute__((noinline)) static int low(struct holder *h) { return h->low; }
__attribute__((noinline)) static int second(struct holder *h) { return h->both.second; }
static struct flags flags[4];
static struct holder holders[4];
int main(void) {
    double all = 0;
    for (volatile int i = 0; i < 9; i++) { set(&flags[i & 3], i); other(&flags[i & 3], i); }
    for (volatile int i = 0; i < 5; i++) {
        struct holder *h = &holders[i & 3];
        all += ratio(h) + number(h) + wide(h) + low(h) + second(h);
    }
    return all != 0;
}
"#;
    let (_, report) = traced_as(Language::C, SOURCE, &["-O1"], &[]);
    for (name, numbers) in [
        ("flags.bits1, bits2", (9, 9)),
        ("flags.other", (0, 9)),
        ("flags.alone", (0, 9)),
        ("holder.is.ratio", (5, 0)),
        ("holder.is.number | code", (5, 0)),
        ("holder.is.wide", (5, 0)),
        ("holder.low", (5, 0)),
        ("holder.both.second", (5, 0)),
    ] {
        assert_eq!(named(&report["fields"], name), numbers, "{name}: {}", report["fields"]);
    }
}

/// An empty base, as `std::pair` has, lies where the first member does, and is not it.
#[test]
fn empty_bases_take_no_members_place() {
    const SOURCE: &str = r#"
#include <utility>
static std::pair<const int, long> pairs[8];
[[gnu::noinline]] static int first(const std::pair<const int, long> *pair) { return pair->first; }
[[gnu::noinline]] static long second(const std::pair<const int, long> *pair) { return pair->second; }
int main() {
    long sum = 0;
    for (volatile int i = 0; i < 6; i++) sum += first(&pairs[i & 7]) + second(&pairs[i & 7]);
    return sum != 0;
}
"#;
    let (_, report) = traced_as(Language::CPlusPlus, SOURCE, &["-O1"], &[]);
    assert_eq!(named(&report["fields"], "pair<const int, long>.first"), (6, 0), "{}", report["fields"]);
    assert_eq!(named(&report["fields"], "pair<const int, long>.second"), (6, 0), "{}", report["fields"]);
}

/// What the compiler joins to one store may begin in one member and end in the next, or in the next element.
#[test]
fn joined_stores_count_for_each_member_that_they_reach() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct body { double position[3], mass; float charge[2]; int number, mark; };
struct pair { long first, second; };
__attribute__((noinline)) static void spin(struct pair *pairs, long n) {
    for (long i = 0; i + 1 < n; i++) { pairs[i].second = i; pairs[i + 1].first = i; }
}
int main(void) {
    struct body *bodies = malloc(1000 * sizeof *bodies);
    for (int i = 0; i < 1000; i++) {
        struct body *b = &bodies[i];
        b->position[0] = b->position[1] = b->position[2] = b->mass = 1;
        b->charge[0] = b->charge[1] = 0;
        b->number = b->mark = 0;
    }
    double sum = 0;
    for (int i = 0; i < 1000; i++) sum += bodies[i].mass;
    struct pair *pairs = malloc(101 * sizeof *pairs);
    spin(pairs, 101);
    printf("%d\n", (int)(sum + pairs[7].first + pairs[7].second));
}
"#;
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let (sum, report) = traced_as(Language::C, SOURCE, &[level, "-fslp-vectorize"], &[]);
        assert_eq!(sum, [1000 + 6 + 7]);
        let stores = |name| named(&report["fields"], name).1;
        assert_eq!([stores("body.mass"), stores("body.number"), stores("body.mark")], [1000; 3], "{level}");
        assert_eq!([stores("pair.first"), stores("pair.second")], [100; 2], "{level}");
        assert!((1000..=3000).contains(&stores("body.position[]")), "{level}: {}", report["fields"]);
        let pairs = fields(structure(&report, "pair"));
        assert_eq!(pairs.iter().map(|field| field.1).collect::<Vec<_>>(), [101, 101], "{level}");
        // All bytes are of members, as there are no paddings.
        let heap = report["heap"].as_array().unwrap();
        for group in heap {
            let bytes = |of: &Value| of["stored_bytes"].as_u64().unwrap();
            let of_fields: u64 = group["fields"].as_array().unwrap().iter().map(bytes).sum();
            assert_eq!(of_fields, bytes(group), "{level}: {group}");
        }
    }
}

#[test]
fn paddings_are_no_members_bytes() {
    const SOURCE: &str = r#"
#include <stdlib.h>
struct mixed { char tag; double value; short end; };
__attribute__((noinline)) static void copy(struct mixed *to, const struct mixed *from) { *to = *from; }
int main(void) {
    struct mixed *all = calloc(10, sizeof *all);
    for (volatile int i = 0; i < 9; i++) copy(&all[i], &all[i + 1]);
}
"#;
    let (_, report) = traced_as(Language::C, SOURCE, &["-O1"], &[]);
    let bytes = |name: &str| {
        let rows = report["fields"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{rows:?}"));
        (row["loaded_bytes"].as_u64().unwrap(), row["stored_bytes"].as_u64().unwrap())
    };
    assert_eq!([bytes("mixed.tag"), bytes("mixed.value"), bytes("mixed.end")], [(9, 9), (72, 72), (18, 18)]);
}

#[test]
fn atomics_and_what_has_no_name_are_called_by_what_the_program_calls_them() {
    const SOURCE: &str = r#"
#include <atomic>
#include <cstdio>
struct queue { std::atomic<unsigned> head{0}, tail{0}; long pushed = 0; };
struct { long first, second; } both;
int main() {
    queue *q = new queue;
    long sum = 0;
    auto add = [&](long more) { sum += more; };
    for (volatile int i = 0; i < 50; i = i + 1) {
        q->head.store(i, std::memory_order_release);
        q->tail.fetch_add(1);
        both.second += q->tail.load(std::memory_order_acquire);
        add(i);
    }
    printf("%ld\n", sum + both.second);
    delete q;
}
"#;
    for level in ["-O0", "-O2"] {
        let (_, report) = traced_as(Language::CPlusPlus, SOURCE, &[level], &[]);
        let fields = &report["fields"];
        assert_eq!(named(fields, "queue.head").1, 51, "{level}: {fields}");
        assert_eq!(named(fields, "queue.tail"), (100, 51), "{level}: {fields}");
        assert_eq!(named(fields, "(anonymous struct at program.cpp:5).second").1, 50, "{level}: {fields}");
        if level == "-O0" {
            assert!(named(fields, "(lambda at program.cpp:9).sum").0 >= 50, "{level}: {fields}");
        }
    }
}

/// A block is told where it was last resized, as its own function is written there.
#[test]
fn resized_blocks_have_a_line_of_their_own() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct entry { long key, value; };
int main(void) {
    struct entry *all = malloc(10 * sizeof *all);
    for (volatile int i = 0; i < 10; i++) all[i].key = i;
    all = realloc(all, 30 * sizeof *all);
    for (volatile int i = 10; i < 30; i++) all[i].value = i;
    printf("%ld\n", all[7].key);
}
"#;
    let (_, report) = traced_as(Language::C, SOURCE, &["-O1"], &[]);
    let groups = report["heap"].as_array().unwrap();
    let group = |line: u64| groups.iter().find(|group| group["line"] == line).unwrap_or_else(|| panic!("{groups:?}"));
    assert_eq!(named(&group(6)["fields"], "entry.key"), (0, 10));
    let resized = &group(8)["fields"];
    assert_eq!((named(resized, "entry.value"), named(resized, "entry.key")), ((0, 20), (1, 0)));
}

/// What is left out by a filter was called nevertheless.
#[test]
fn functions_are_inlined_only_where_none_calls_them() {
    const SOURCE: &str = "
        #include <vector>
        int main() { std::vector<long> all(100); for (long &of : all) of = 7; return all[3] == 1; }";
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled_as(&scratch, Language::CPlusPlus, SOURCE, &[]);
    let output = slimline()
        .args(["trace", "--live", "--report", "-", "--format", "json", "--function", "std::*", "--"])
        .arg(&program)
        .output();
    let report = report(&output.unwrap());
    let main = report["functions"].as_array().unwrap().iter().find(|row| row["name"] == "main");
    assert_eq!(main.unwrap()["calls"], 1, "{}", report["functions"]);
}

/// There is no trace to be shown.
#[test]
fn a_program_without_accesses_is_told_as_such() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled_as(&scratch, Language::C, "int main(void) { return 0; }", &[]);
    let trace = scratch.path().join("trace");
    let output = slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap();
    let said = "slimline: nothing was traced: the program's instrumented code made no access\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), said));
}
