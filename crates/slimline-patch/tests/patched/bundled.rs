//! The bundled programs, with what `slimline advise` advises for them.

use std::fs;
use std::path::Path;

use slimline_patch::{Change, Wanted};
use tempfile::TempDir;

use super::{check, refusal, wanted};

/// A copy of a program of `programs/`, with the header that some share.
fn copy(source: &str) -> TempDir {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("c");
    fs::create_dir(&folder).unwrap();
    fs::copy(programs.join("c/truth.h"), folder.join("truth.h")).unwrap();
    let to = directory.path().join(source);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(programs.join(source), to).unwrap();
    directory
}

fn check_bundled(source: &str, arguments: &[&str], wanted: &Wanted) -> String {
    let directory = copy(source);
    check(directory.path(), &[source], arguments, wanted)
}

#[test]
fn an_array_that_is_handed_on_is_split() {
    let wanted = wanted("neighbor", Change::Split, &[&["dist"], &["entry"]]);
    let diff = check_bundled("c/neighbor.c", &["3", "4096"], &wanted);
    assert!(
        diff.contains("+        memset(neighbor_entry_items[j].entry, 'a' + (int)(j % 26), REC_LENGTH);\n"),
        "{diff}"
    );
}

#[test]
fn literals_are_stored_in_parts() {
    let parts: [&[&str]; 6] = [&["P"], &["X", "Q"], &["I", "U"], &["V"], &["W"], &["R"]];
    check_bundled("c/art.c", &["1", "256"], &wanted("f1_neuron", Change::Split, &parts));
    let parts: [&[&str]; 2] = [&["a", "c"], &["b", "d"]];
    check_bundled("c/int4_two_loops.c", &["2", "4096"], &wanted("quad", Change::Split, &parts));
}

#[test]
fn nodes_keep_what_is_hot() {
    let parts: [&[&str]; 2] = [&["x", "y", "next"], &["sz", "left", "right", "prev"]];
    for is_pool in [false, true] {
        let diff = check_bundled("c/tsp_tree.c", &["2", "4096"], &wanted("tree", Change::HotCold { is_pool }, &parts));
        assert!(diff.contains("+    t->cold->left = build_tree((n - 1) / 2);\n"), "{diff}");
    }
    let parts: [&[&str]; 2] = [&["cost", "tail", "head", "ident"], &["nextout", "nextin", "org_cost"]];
    let arcs = wanted("arc", Change::HotCold { is_pool: false }, &parts);
    check_bundled("advised/arcs.c", &["2", "4096"], &arcs);
    check_bundled("advised/arcs.c", &["2", "4096"], &Wanted { change: Change::Split, ..arcs });
}

#[test]
fn cold_parts_of_cpp_come_from_a_pool() {
    let parts: [&[&str]; 2] = [&["key", "left", "right"], &["note", "created", "owner"]];
    check_bundled(
        "advised/payloads.cpp",
        &["2000", "4096"],
        &wanted("Record", Change::HotCold { is_pool: true }, &parts),
    );
}

#[test]
fn fields_are_reordered_and_elements_aligned() {
    let parts: [&[&str]; 1] = [&["price", "bid", "volume", "flags", "kind", "side"]];
    check_bundled("advised/holes.c", &["2000", "4096"], &wanted("quote", Change::Reorder, &parts));
    let aligned = check_bundled("advised/holes.c", &["2000", "4096"], &wanted("quote", Change::Align(64), &parts));
    assert!(
        aligned.contains("+    _Alignas(64) double price;\n") && aligned.contains("aligned_alloc(64, (size_t)n"),
        "{aligned}"
    );
    let parts: [&[&str]; 1] = [&["density", "energy", "total", "elastic", "absorbed", "fission"]];
    check_bundled("advised/straddling.c", &["2000", "4096"], &wanted("material", Change::Align(64), &parts));
}

#[test]
fn nodes_come_from_a_pool() {
    let parts: [&[&str]; 1] = [&["next", "to", "weight"]];
    check_bundled("advised/pooled.c", &["2", "4096"], &wanted("edge", Change::Pool, &parts));
}

#[test]
fn members_in_macros_are_found_there() {
    let parts: [&[&str]; 2] = [&["key"], &["value"]];
    let diff = check_bundled("advised/probing.c", &["2000", "10"], &wanted("slot", Change::Split, &parts));
    assert!(diff.contains("+#define VALUE(i) slot_value_items[i].value\n"), "{diff}");
}

/// A vector may grow at any time, and a parent's members are not the structure's own.
#[test]
fn vectors_and_parents_are_left_alone() {
    let parts: [&[&str]; 2] = [&["price", "quantity", "id"], &["customer"]];
    let refused = |source: &str, wanted: &Wanted| refusal(copy(source).path(), &[source], wanted);
    let why = refused("advised/orders.cpp", &wanted("Order", Change::Split, &parts));
    assert_eq!(why, "orders.cpp:29: a template is made for it");
    let parts: [&[&str]; 2] = [&["position", "mass"], &["Body", "velocity", "charge", "spin", "age"]];
    let why = refused("cpp/particles.cpp", &wanted("Particle", Change::Split, &parts));
    assert_eq!(why, "particles.cpp:43: it has a parent");
}
