//! Accesses to heap blocks that were not followed count for the groups whose followed blocks the same code accesses.

use slimline_analyze::advise::{Floors, advise};
use slimline_attribute::tables::{Inferred, TypeRef};

use crate::synthetic::{Program, load};

#[test]
fn their_weight_and_executions_go_to_their_owners() {
    let mut program = Program::new();
    let pair = program.doubles("pair", &["a", "b"]);
    let other = program.doubles("other", &["c"]);
    let pairs = program.nodes("pairs", Some(pair), 64, 16);
    let others = program.nodes("others", Some(other), 64, 8);
    let hidden = program.nodes("heap, not followed", None, 64, 16);
    let in_loop = program.a_loop("f", 1, 2);
    let (mixed, plain, unknown) = (program.site(in_loop), program.site(in_loop), program.site(in_loop));
    // Three of four accesses of `mixed` to followed blocks are to pairs, of field b.
    for (group, offset, windows) in [(pairs, 8, 3), (others, 0, 1), (hidden, 0, 40)] {
        for _ in 0..windows {
            program.node_window(0, &[load(mixed, group, offset, 0)], |turn| turn % 64, 10, 100);
        }
    }
    program.node_window(0, &[load(plain, pairs, 0, 0)], |turn| turn % 64, 10, 100);
    program.sample(0, load(unknown, hidden, 0, 0), 100);
    let seen: Vec<_> = [(mixed, pairs, 30), (mixed, others, 10), (plain, pairs, 10)].into();
    program.tables.inferred = Inferred::default().with(hidden, seen);

    let findings = program.findings();
    let of = |group| findings.groups.iter().find(|found| found.group == group).expect("the group has accesses");
    // 46 windows of weight 100: pairs 3 + 1 and 30 of the 40, others 1 and 10, and one that nothing is known of.
    let share = |group| (of(group).share.value * 46.0).round();
    assert_eq!([share(pairs), share(others), share(hidden)], [34.0, 11.0, 1.0]);
    let sum: f64 = findings.groups.iter().map(|found| found.share.value).sum();
    assert!((sum - 1.0).abs() < 1e-12);
    assert_eq!([of(pairs).loads, of(others).loads], [340, 110]);
    // All of what was inferred is in field b, as all that was seen at that instruction.
    let fields: Vec<f64> = of(pairs).fields.iter().map(|field| (field.blamed_share * 34.0).round()).collect();
    assert_eq!(fields, [1.0, 33.0]);
    // An eighth of the weight was seen: the interval is as wide as that of so many samples.
    assert!(of(pairs).share.high - of(pairs).share.low > 0.5, "{:?}", of(pairs).share);
    assert!(of(hidden).share.high - of(hidden).share.low < 0.2, "{:?}", of(hidden).share);
}

/// An instruction that met none of the followed blocks: its field is what debug information says, or nobody's.
#[test]
fn debug_information_says_the_field_where_no_followed_block_was_met() {
    for is_typed in [true, false] {
        let mut program = Program::new();
        let triple = program.doubles("triple", &["a", "b", "c"]);
        let triples = program.nodes("triples", Some(triple), 4096, 4096);
        let hidden = program.nodes("heap, not followed", None, 64, 16);
        let in_loop = program.a_loop("f", 1, 2);
        let (met, missed) = (program.site(in_loop), program.site(in_loop));
        program.node_window(0, &[load(met, triples, 0, 0)], |turn| turn % 64, 10, 100);
        for _ in 0..3 {
            program.node_window(0, &[load(missed, hidden, 0, 0)], |turn| turn % 64, 10, 100);
        }
        program.tables.inferred = Inferred::default().with(hidden, vec![(missed, triples, 10)]);
        if is_typed {
            program.tables.sites[missed.index()].accessed = Some(TypeRef { type_id: triple, offset: 8 });
        }
        let findings = program.findings();
        let found = findings.groups.iter().find(|found| found.group == triples).unwrap();
        let fields: Vec<f64> = found.fields.iter().map(|field| (field.blamed_share * 4.0).round()).collect();
        assert_eq!(fields, if is_typed { [1.0, 3.0, 0.0] } else { [1.0, 0.0, 0.0] });
        assert_eq!((found.elsewhere * 4.0).round(), if is_typed { 0.0 } else { 3.0 });
        let advice = advise(&findings, &program.tables, &Floors::default());
        let of_group = advice.iter().find(|advice| advice.group == triples).unwrap();
        assert_eq!(of_group.why.contains("not known which fields"), !is_typed, "{}", of_group.why);
    }
}
