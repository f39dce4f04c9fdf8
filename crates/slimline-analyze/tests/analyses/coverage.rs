//! How much of the weight is told, and why the rest is not.

use slimline_analyze::coverage::What;
use slimline_attribute::resolver::Reason;
use slimline_attribute::tables::{NoType, Tables, TypeRef};

use crate::synthetic::{Program, computing, load};

#[test]
fn each_weight_is_told_or_has_a_reason() {
    let mut program = Program::new();
    // A hole at 8 to 16.
    let holed = program.structure("holed", 24, &[("a", 0, 8, "long"), ("b", 16, 8, "long")]);
    let typed = program.array("typed", Some(holed), 240);
    let pool = program.array("pool", None, 4096);
    let nameless = program.array("heap, call path unknown", None, 4096);
    program.tables.groups[nameless.index()].nameless = Some(Reason::NoCallPath);
    let in_loop = program.a_loop("f", 1, 2);
    let (first, second, third) = (program.site(in_loop), program.site(in_loop), program.site(in_loop));
    program.tables.sites[second.index()].untyped = Some(NoType::FromCaller);
    program.tables.sites[third.index()].accessed = Some(TypeRef { type_id: holed, offset: 16 });

    program.sample(0, computing(first), 1000); // no access
    program.sample(0, load(first, typed, 48, 0), 100); // holed.a
    program.sample(0, load(first, typed, 32, 0), 10); // the hole
    program.sample(0, load(second, pool, 0, 0), 20); // of no known type
    program.sample(0, load(third, pool, 8, 0), 40); // the instruction says holed.b
    program.sample(0, load(third, nameless, 8, 0), 5); // a field, of no object
    program.sample(0, load(second, Tables::UNATTRIBUTED, 0x1234, 0), 2); // an address in no mapping

    let found = program.findings().coverage;
    assert_eq!([found.accesses, found.objects, found.structures, found.fields], [177.0, 170.0, 177.0, 145.0]);
    let missing: Vec<(What, f64)> = found.missing.iter().map(|row| (row.what, row.weight)).collect();
    assert_eq!(
        missing,
        [
            (What::Type(Some(NoType::FromCaller)), 22.0),
            (What::Field, 10.0),
            (What::Object(Reason::NoCallPath), 5.0),
            (What::Object(Reason::NoMapping), 2.0),
        ]
    );
    assert_eq!(found.missing[0].examples, [(second, pool, 20.0), (second, Tables::UNATTRIBUTED, 2.0)]);
}
