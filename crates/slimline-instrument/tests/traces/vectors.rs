//! Accesses of several lanes: the lanes that were on are those of the closed form, whatever the vectors.

use slimline_trace::stream::sites::SiteKind::*;

use crate::harness::{Trace, trace_c};

const SOURCE: &str = r#"
#include <stdio.h>
enum { N = 1003 };
static float a[N], b[N];
static int order[N];
__attribute__((noinline)) static void masked(float *restrict to, const float *restrict from, int n) {
    for (int i = 0; i < n; i++) if (from[i] > 3) to[i] = from[i] * 2;
}
__attribute__((noinline)) static float gather(const float *restrict from, const int *restrict index, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += from[index[i]];
    return sum;
}
__attribute__((noinline)) static void scatter(float *restrict to, const int *restrict index, int n) {
    for (int i = 0; i < n; i++) to[index[i]] = i;
}
int main(void) {
    for (int i = 0; i < N; i++) { a[i] = i % 7; order[i] = i * 5 % N; }
    masked(b, a, N);
    scatter(a, order, N);
    printf("%g %g\n", gather(b, order, N), a[5]);
}
"#;

const N: u64 = 1003;

/// Addresses of floats that a function accesses by these kinds, in the order of the program.
fn addresses(trace: &Trace, function: &str, writes: bool) -> Vec<u64> {
    let mut addresses = Vec::new();
    for execution in &trace.executions {
        let site = trace.site(execution);
        let table = &trace.modules[execution.module].1;
        if table.name(site.function) != function || site.kind.writes() != writes || table.name(site.variable) == "index"
        {
            continue;
        }
        let words = &execution.words;
        let lanes = |mask: u64| (0..64).filter(move |lane| mask >> lane & 1 == 1);
        match site.kind {
            Load | Store => addresses.extend((0..u64::from(site.size_bytes) / 4).map(|lane| words[0] + 4 * lane)),
            MaskedLoad | MaskedStore => {
                assert_eq!(site.size_bytes, 4);
                addresses.extend(lanes(words[1]).map(|lane| words[0] + 4 * lane));
            }
            Gather | Scatter => addresses.extend(lanes(words[0]).map(|lane| words[1 + lane as usize])),
            Enter | EnterFrame | Leave | GoesOn => {}
            kind => panic!("{kind:?}"),
        }
    }
    addresses
}

#[test]
fn lanes_that_are_on() {
    let mut options = vec![vec!["-O1"], vec!["-O3", "-ffast-math"]];
    if is_x86_feature_detected!("avx2") {
        options.push(vec!["-O3", "-ffast-math", "-mavx2"]);
    }
    if is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
    {
        options.push(vec!["-O3", "-ffast-math", "-march=skylake-avx512", "-mprefer-vector-width=512"]);
    }
    for options in options {
        let trace = trace_c(SOURCE, &options);
        let scattered = addresses(&trace, "scatter", true);
        let first = *scattered.iter().min().unwrap();
        let expected: Vec<_> = (0..N).map(|i| first + 4 * (i * 5 % N)).collect();
        assert_eq!(scattered, expected, "{options:?}");
        let gathered = addresses(&trace, "gather", false);
        let first = *gathered.iter().min().unwrap();
        let mut expected: Vec<_> = (0..N).map(|i| first + 4 * (i * 5 % N)).collect();
        // Several vectors a round are loaded in the compiler's order.
        let mut gathered = gathered;
        gathered.sort_unstable();
        expected.sort_unstable();
        assert_eq!(gathered, expected, "{options:?}");
        let mut stored = addresses(&trace, "masked", true);
        stored.sort_unstable();
        let expected: Vec<_> = (0..N).filter(|i| i % 7 > 3).map(|i| first + 4 * i).collect();
        assert_eq!(stored, expected, "{options:?}");
    }
}
