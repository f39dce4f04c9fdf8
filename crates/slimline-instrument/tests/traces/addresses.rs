//! What addresses of loads are computed of.

use std::collections::BTreeSet;

use slimline_trace::stream::sites::Body;
use slimline_trace::stream::sites::SiteKind::Load;

use crate::SCALAR;
use crate::harness::{trace_c, trace_files};

const INDIRECT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next, *other; long key; };
static int b[64], c[64], picked[64];
static unsigned long keys[64];
static long table[64], slots[64];
static struct node nodes[64], *heads[64];
__attribute__((noinline)) static long gather(const long *a, const int *index, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[index[i]];
    return sum;
}
__attribute__((noinline)) static long two_levels(const long *a, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[b[c[i]]];
    return sum;
}
__attribute__((noinline)) static long rounds(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        unsigned long mixed = keys[i];
        for (int k = 40; k > 0; k -= 2) mixed = mixed * mixed ^ mixed >> 29;
        sum += slots[mixed & 63];
    }
    return sum;
}
static inline unsigned long hash(unsigned long key) { key *= 0x9e3779b97f4a7c15; return key ^ key >> 29; }
__attribute__((noinline)) static long lookup(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += slots[hash(keys[i]) & 63];
    return sum;
}
__attribute__((noinline)) static long chase(const struct node *node) {
    long sum = 0;
    for (; node; node = node->next) sum += node->key;
    return sum;
}
__attribute__((noinline)) static long descend(const struct node *node, long key) {
    while (node && node->key != key) node = node->key < key ? node->next : node->other;
    return node ? node->key : -1;
}
__attribute__((noinline)) static double products(const double *a, const double *b, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
__attribute__((noinline)) static void counted(long *a, long n) {
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < 1000; k++) __atomic_fetch_add(&slots[k & 63], 1, __ATOMIC_RELAXED);
        a[i] = i;
    }
}
__attribute__((noinline)) static int chosen(int at) { return at ^ 1; }
__attribute__((noinline)) static long called(const long *a, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[chosen(b[i])];
    return sum;
}
__attribute__((noinline)) static long plain(const long *a, long n, long stride) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[i * stride];
    return sum;
}
__attribute__((noinline)) static long heads_of(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += chase(heads[b[i]]);
    return sum;
}
int main(void) {
    for (int i = 0; i < 64; i++) {
        b[i] = picked[i] = i * 7 % 64, c[i] = i * 5 % 64, keys[i] = i, table[i] = slots[i] = i;
        nodes[i] = (struct node){ i > 3 ? &nodes[i - 3] : NULL, i > 5 ? &nodes[i / 2] : NULL, i };
        heads[i] = &nodes[i];
    }
    printf("%ld %ld %ld ", gather(table, picked, 63), two_levels(table, 63), lookup(63));
    counted(table, picked[1]);
    printf("%g ", products((double[3]){1, 2, 3}, (double[3]){4, 5, 6}, 3));
    printf("%ld %ld %ld %ld %ld\n", chase(&nodes[63]) + rounds(7), descend(&nodes[63], 7), called(table, 63), plain(table, 13, 3), heads_of(9));
}
"#;

/// Of a function's loads: what each accesses, what its address is computed of, whether in a step before, and whether it leads on.
fn addresses(source: &str, function: &str) -> Vec<(String, Vec<String>, bool, bool)> {
    let trace = trace_c(source, SCALAR);
    let table = &trace.modules[0].1;
    let name = |site: u32| {
        let site = &table.sites[site as usize];
        [site.field, site.variable].map(|name| table.name(name).to_owned()).into_iter().find(|name| !name.is_empty())
    };
    let of_function = table.addresses.iter().filter(|address| {
        let site = &table.sites[address.site as usize];
        assert_eq!(site.kind, Load);
        table.name(site.function) == function
    });
    let mut all: Vec<_> = of_function
        .map(|address| {
            let mut loads: Vec<String> = address.loads.iter().filter_map(|load| name(*load)).collect();
            assert_eq!(loads.len(), address.loads.len());
            loads.sort();
            (name(address.site).unwrap_or_default(), loads, address.is_carried, address.leads_on)
        })
        .collect();
    all.sort();
    // Copies of one loop.
    all.dedup();
    all
}

#[test]
fn an_address_is_told_by_the_loads_that_it_is_computed_of() {
    let of = |function: &str| addresses(INDIRECT, function);
    let one =
        |of: &str, loads: &[&str]| (of.to_owned(), loads.iter().map(|load| (*load).to_owned()).collect(), false, false);
    assert_eq!(of("gather"), [one("a", &["index"])]);
    assert_eq!(of("two_levels"), [one("a", &["b"]), one("b", &["c"])]);
    assert_eq!(of("lookup"), [one("slots", &["keys"])]);
    // Nobody knows what the function makes of it.
    assert_eq!(of("called"), []);
    assert_eq!(of("plain"), []);
}

#[test]
fn a_chase_is_carried_from_step_to_step() {
    let of = |function: &str| addresses(INDIRECT, function);
    let carried = |of: &str, loads: &[&str], leads_on| {
        (of.to_owned(), loads.iter().map(|load| (*load).to_owned()).collect(), true, leads_on)
    };
    assert_eq!(of("chase"), [carried("key", &["next"], false), carried("next", &["next"], true)]);
    let descend = of("descend");
    assert!(descend.iter().all(|(_, loads, is_carried, _)| *is_carried && !loads.is_empty()), "{descend:?}");
    assert!(!descend.is_empty());
    // The list's first element is another function's to find.
    assert_eq!(of("heads_of"), [("heads".to_owned(), vec!["b".to_owned()], false, true)]);
}

#[test]
fn a_vector_is_an_index_for_each_of_its_elements() {
    let trace = trace_files(&[("program.c", INDIRECT)], &["-O2", "-g"]);
    let table = &trace.modules[0].1;
    let of_gather = table.addresses.iter().filter(|of| table.name(table.sites[of.site as usize].function) == "gather");
    assert!(of_gather.clone().count() > 0);
    for address in of_gather {
        assert_eq!(table.name(table.sites[address.loads[0] as usize].variable), "index");
    }
}

#[test]
fn loops_tell_how_many_instructions_there_are_for_each_access() {
    let trace = trace_c(INDIRECT, SCALAR);
    let table = &trace.modules[0].1;
    let of = |function: &str| {
        let is_it = |site: &u32| table.name(table.sites[*site as usize].function) == function;
        let bodies: Vec<_> = table.bodies.iter().filter(|body| body.sites.iter().all(is_it)).collect();
        bodies.iter().map(|body| (body.instructions, body.sites.len())).collect::<Vec<_>>()
    };
    // Two loads, the sum, the counter, and the jump.
    assert_eq!(of("gather"), [(5, 2)]);
    // The sum is a product before.
    assert_eq!(of("products"), [(6, 2)]);
    // What counts has atomic accesses of its own: the store, the counter, and the jumps to that loop and around are left.
    assert_eq!(of("counted"), [(4, 1)]);
    // Beside these the hash: a product, a shift, an exclusive or and a mask.
    assert_eq!(of("lookup"), [(9, 2)]);
    // A product, a shift, an exclusive or, the counter and the jump, 20 times, whether it is unrolled or not, beside a mask, two loads, the sum, the counter and the jump.
    let [(instructions, 2)] = of("rounds")[..] else { panic!("{:?}", of("rounds")) };
    assert!((62..=115).contains(&instructions), "{instructions}");
    let of_hash = table.addresses.iter().find(|of| table.name(table.sites[of.site as usize].function) == "lookup");
    assert_eq!(of_hash.unwrap().instructions, 4);
}

#[test]
fn loops_tell_which_one_is_around_them() {
    let source = r#"
#include <stdio.h>
static int rows[65], col[512], twice[64];
static double x[512], y[64];
__attribute__((noinline)) static void product(int n) {
    y[n - 1] = x[n];
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = rows[i]; j < rows[i + 1]; j++) sum += x[col[j]];
        y[i] = sum;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++) twice[i] += col[i];
}
int main(void) {
    for (int i = 0; i < 65; i++) rows[i] = 8 * i;
    for (int i = 0; i < 512; i++) col[i] = i * 7 % 512, x[i] = i;
    product(64);
    printf("%f %d\n", y[3], twice[3]);
}
"#;
    let trace = trace_c(source, SCALAR);
    let table = &trace.modules[0].1;
    let name = |site: &u32| table.name(table.sites[*site as usize].variable).to_owned();
    let names = |body: &Body| body.sites.iter().map(name).collect::<BTreeSet<_>>();
    let is_of_product = |site: &u32| table.name(table.sites[*site as usize].function) == "product";
    // What is around the loop that accesses just that, nearest first.
    let around = |of: [&str; 2]| {
        let mut bodies = table.bodies.iter().filter(|body| body.sites.iter().all(is_of_product));
        let body = bodies.find(|body| names(body) == of.map(str::to_owned).into()).unwrap();
        let next = |body: &&Body| Some(&table.bodies[body.around? as usize]);
        std::iter::successors(next(&body), next).map(names).collect::<Vec<_>>()
    };
    let [rows, function] = &around(["col", "x"])[..] else { panic!("{:?}", around(["col", "x"])) };
    assert!(rows.contains("y") && !rows.contains("x"), "{rows:?}");
    assert!(function.contains("x"), "{function:?}");
    // What accesses nothing itself is around nothing.
    assert_eq!(around(["col", "twice"]), std::slice::from_ref(function));
}
