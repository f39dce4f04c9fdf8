//! Blocks that were not followed: where the C library allocates, their sizes and types tell whose they are.

use slimline_report::view::Group;

use crate::report_of;
use crate::scratch::Scratch;

const CHAINS: &str = include_str!("chains.c");

#[test]
fn chains_are_told_from_the_buckets_that_head_them() {
    let scratch = Scratch::new();
    let program = scratch.compile("chains", CHAINS, &["-O2", "-g"]);
    let report = report_of(&scratch, &program, &[]);
    let session = &report.session;
    assert!(session.allocations_followed * 4 < session.allocations, "{} followed", session.allocations_followed);
    // A fast machine's bursts meet twice as many blocks as are looked for.
    assert!(session.owner_known_share > 0.4, "{}", session.owner_known_share);
    let of_type = |name: &str| -> &Group {
        let is_named = |group: &&Group| group.type_name.as_deref() == Some(name);
        report.groups.iter().find(is_named).unwrap_or_else(|| panic!("no {name}"))
    };
    let (entries, buckets) = (of_type("struct entry"), of_type("struct bucket"));
    assert!(entries.share > 0.7 && buckets.share < 0.25, "{} {}", entries.share, buckets.share);
    // They are as sure as if each entry were followed.
    let interval = entries.share_interval;
    assert!(interval.high - interval.low < 0.15, "{interval:?}");
    let of_field = |name: &str| entries.fields.iter().find(|field| field.name == name).unwrap().access_share;
    assert!((of_field("next") - 0.5).abs() < 0.1 && (of_field("key") - 0.5).abs() < 0.1, "{:?}", entries.fields);
    let advised: Vec<&str> = report.advice.iter().map(|advice| advice.title.as_str()).collect();
    assert!(report.advice.iter().all(|advice| advice.kind == "leave_alone"), "{advised:?}");
}
