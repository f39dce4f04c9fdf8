//! `slimline export --to parquet`: each access of a program whose accesses are known.

use std::collections::BTreeMap;
use std::fs;

use slimline_trace::tables::{Table, TracedAccesses, TracedKeys};

use super::traced::{failed, slimline, traced};

/// 300 nodes are stored and then read 4000 times: more accesses than one file of tables has.
const NODES: &str = r#"
#include <stdlib.h>
struct node { long key; long value; };
__attribute__((noinline)) static long sum(struct node *nodes) {
    long sum = 0;
    for (int i = 0; i < 300; i++) sum += nodes[i].key;
    return sum;
}
int main(void) {
    struct node *nodes = malloc(300 * sizeof *nodes);
    for (int i = 0; i < 300; i++) nodes[i].key = i, nodes[i].value = 0;
    long all = 0;
    for (int round = 0; round < 4000; round++) { all += sum(nodes); nodes[round % 300].value++; }
    return all == 0;
}
"#;

#[test]
fn accesses_are_tables() {
    let directory = traced(NODES);
    slimline(directory.path(), &["export", "run.trace", "--to", "parquet", "-o", "tables"]);
    let read = |name: &str| fs::read(directory.path().join("tables").join(name)).unwrap().into();
    let all = 300 * 2 + 4000 * (300 + 2);
    let accesses = [("accesses-00000.parquet", 1 << 20), ("accesses-00001.parquet", all - (1 << 20))]
        .map(|(name, rows)| TracedAccesses::from_parquet(read(name), rows).unwrap());
    assert_eq!(fs::read_dir(directory.path().join("tables")).unwrap().count(), 3);
    let keys = (1..).find_map(|rows| TracedKeys::from_parquet(read("keys.parquet"), rows).ok()).unwrap();
    let mut fields: BTreeMap<(&str, bool), u64> = BTreeMap::new();
    let mut first = None;
    for access in accesses.iter().flat_map(TracedAccesses::iter) {
        let key = access.key as usize;
        let field = keys.field[key].as_deref().unwrap_or_default();
        let offset = access.address.0 - *first.get_or_insert(access.address.0);
        assert_eq!((access.bytes, access.loads != access.stores), (8, true));
        assert_eq!((offset % 16, field), (if field == "node.key" { 0 } else { 8 }, field));
        *fields.entry((field, access.stores)).or_default() += 1;
    }
    let expected = [
        (("node.key", false), 1_200_000),
        (("node.key", true), 300),
        (("node.value", false), 4000),
        (("node.value", true), 4300),
    ];
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(keys.accesses.iter().sum::<u64>(), all as u64);
    let of_sum: Vec<_> = keys.iter().filter(|key| key.function.as_deref() == Some("sum")).collect();
    assert_eq!((of_sum.len(), of_sum[0].data.as_deref(), &*of_sum[0].kind), (1, Some("nodes"), "heap"));
    // What is there is not touched, and what has no accesses leaves nothing.
    let said = failed(directory.path(), &["export", "run.trace", "--to", "parquet", "-o", "tables"]);
    assert!(said.contains("tables: File exists"), "{said}");
    let said = failed(directory.path(), &["export", "tables", "--to", "parquet", "-o", "others"]);
    assert!(said.contains("holds no recorded trace") && !directory.path().join("others").exists(), "{said}");
}
