//! Sessions of hardware samples: no bursts, no clock, but latency, memory level and more of each sample.

use slimline_analyze::advise::{Advice, Confidence, Floors, Kind, advise};
use slimline_analyze::findings::{DataProfile, Findings};
use slimline_analyze::service::Sum;
use slimline_analyze::structure::ElementFrom;
use slimline_trace::served::{MemoryLevel, Served, Snoop, Translation};
use slimline_trace::session::WeightUnit;

use crate::synthetic::{Program, cluster_names, group, load, store};

fn findings(program: &Program) -> Findings {
    program.findings_of(DataProfile { unit: WeightUnit::LatencyCycles, ..DataProfile::default() })
}

fn advice(program: &Program) -> Vec<Advice> {
    advise(&findings(program), &program.tables, &Floors::default())
}

/// A load that took so many cycles, from there.
fn took(cycles: u32, level: MemoryLevel) -> Served {
    Served { latency_cycles: Some(cycles), level: Some(level), ..Served::UNKNOWN }
}

/// A pseudo-random element of 100,000.
fn element(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000
}

#[test]
fn latency_and_levels_are_told_by_group_field_and_loop() {
    let mut program = Program::new();
    let cell = program.doubles("cell", &["a", "b", "c"]);
    let (array, other) = (program.array("cells", Some(cell), 24 << 20), program.array("other", None, 8));
    let loops = [program.a_loop("f", 1, 2), program.a_loop("g", 3, 4)];
    // One instruction for a in f, one that reaches a and b in g, and another array in g.
    let (first, both, third) = (program.site(loops[0]), program.site(loops[1]), program.site(loops[1]));
    let walk = Served { translation: Some(Translation::Walk), ..took(400, MemoryLevel::LocalDram) };
    let hit = Served { translation: Some(Translation::L1), ..took(10, MemoryLevel::L2) };
    for number in 0..3 {
        program.sample_served(0, load(first, array, element(number) * 24, 0), 400, walk);
        program.sample_served(0, load(both, array, element(number) * 24, 0), 10, hit);
    }
    program.sample_served(0, load(both, array, element(9) * 24 + 8, 0), 10, hit);
    program.sample_served(0, load(third, other, 0, 0), 160, took(160, MemoryLevel::L3));

    let found = findings(&program);
    assert_eq!((found.unit, found.service.samples), (WeightUnit::LatencyCycles, 8));
    assert_eq!(found.service.latency, Sum { count: 8, cycles: 1400 });
    let cells = group(&found, &program, "cells");
    assert!((cells.share.value - 1240.0 / 1400.0).abs() < 1e-12);
    assert_eq!(cells.service.latency, Sum { count: 7, cycles: 1240 });
    assert_eq!(cells.service.tlb_misses.share(), Some(3.0 / 7.0));
    assert_eq!(group(&found, &program, "other").service.tlb_misses.share(), None, "not told");
    // The instruction in g reached a three times and b once: of its 40 cycles 30 are a's.
    let latency: Vec<Sum> = cells.fields.iter().map(|field| field.service.latency).collect();
    assert_eq!(latency, [Sum { count: 6, cycles: 1230 }, Sum { count: 1, cycles: 10 }, Sum::default()]);
    let levels: Vec<_> = cells.fields[0].service.levels().collect();
    let expected =
        [(MemoryLevel::L2, Sum { count: 3, cycles: 30 }), (MemoryLevel::LocalDram, Sum { count: 3, cycles: 1200 })];
    assert_eq!(levels, expected);
    // By loop: f 1200 cycles, g 40 and the other array's 160.
    let by_loop: Vec<(f64, Sum)> = found.loops.iter().map(|of| (of.share.value, of.service.latency)).collect();
    assert_eq!(by_loop[0], (1200.0 / 1400.0, Sum { count: 3, cycles: 1200 }));
    assert_eq!(by_loop[1], (200.0 / 1400.0, Sum { count: 5, cycles: 200 }));
}

/// StructSlim's ART without debug information: what addresses of samples alone tell, one in ten of them wrong.
fn art_by_addresses(samples: u64) -> Program {
    let mut program = Program::new();
    let array = program.array("f1_layer", None, 100_000 * 64);
    // Loop, offset of the field, cycles.
    let loops = [(615, 40, 60), (607, 40, 15), (545, 0, 6), (545, 32, 6), (559, 16, 4), (559, 48, 5), (575, 24, 4)];
    for (place, (line, offset, cycles)) in (0_u64..).zip(loops) {
        let known = program.tables.loops.iter().position(|found| found.first_line == line);
        let in_loop = known.map_or_else(
            || program.a_loop("match", line, line + 1),
            |row| slimline_attribute::tables::LoopId(row as u32),
        );
        let site = program.site(in_loop);
        for number in 0..samples {
            let right = element(place * 1000 + number) * 64 + offset;
            let address = if number % 10 == 9 { (right + 4 * (number % 13)) % (100_000 * 64) } else { right };
            program.sample_served(0, load(site, array, address, 0), cycles, took(cycles as u32, MemoryLevel::L3));
        }
    }
    program
}

#[test]
fn structure_and_split_follow_from_addresses_alone() {
    let program = art_by_addresses(60);
    let found = findings(&program);
    let array = group(&found, &program, "f1_layer");
    let structure = array.structure.expect("strides tell");
    assert_eq!((structure.element_bytes, structure.from), (64, ElementFrom::Stride));
    assert!(structure.confidence > 0.99, "{structure:?}");
    let share = |offset: u64| array.fields.iter().find(|field| field.offset == offset).map_or(0.0, |field| field.share);
    // 75 of 100 cycles, less the tenth that went astray.
    assert!((share(40) - 0.75).abs() < 0.08, "{}", share(40));
    assert!(cluster_names(array)[0] == ["+40"], "{:?}", cluster_names(array));

    let found = advice(&program);
    let split = found.iter().find(|advice| advice.kind == Kind::Split).expect("a split");
    assert_eq!(split.fields[0], [40]);
    assert!(split.fields.iter().any(|fields| fields.contains(&0) && fields.contains(&32)), "{:?}", split.fields);
    // Neither the type nor the order of the visits is known, and latency is no time.
    assert!(split.confidence < Confidence::High, "{:?}", split.confidence);
    assert!(split.why.contains("of the latency") && split.why.contains("was not seen"), "{}", split.why);
    let predicted = split.predicted.as_ref().expect("a gain");
    assert!(predicted.method.contains("how much of it is run time is not known"), "{}", predicted.method);
    assert_eq!(predicted.cycles_high, 0.0, "in disorder nothing may be won");
}

#[test]
fn few_addresses_give_no_structure() {
    let program = art_by_addresses(3);
    let found = findings(&program);
    assert_eq!(group(&found, &program, "f1_layer").structure, None);
    assert!(advice(&program).iter().all(|advice| advice.kind == Kind::LeaveAlone));
}

/// Hardware measures no latency of a store: it is an access all the same, and its field is not cold.
#[test]
fn what_weighs_nothing_was_sampled() {
    let mut program = Program::new();
    let cell = program.doubles("cell", &["a", "b", "c", "d"]);
    let array = program.array("cells", Some(cell), 32 << 20);
    let in_loop = program.a_loop("f", 1, 2);
    let (reads, writes) = (program.site(in_loop), program.site(in_loop));
    for number in 0..50 {
        program.sample_served(0, load(reads, array, element(number) * 32, 0), 90, took(90, MemoryLevel::L3));
        let stored = Served { level: Some(MemoryLevel::L1), ..Served::UNKNOWN };
        program.sample_served(0, store(writes, array, element(number) * 32 + 16, 0), 0, stored);
    }
    let found = findings(&program);
    let cells = group(&found, &program, "cells");
    assert_eq!((cells.share.samples, cells.service.samples), (50, 100));
    let stored = &cells.fields[2];
    assert_eq!((stored.share, stored.service.samples, stored.loops.len()), (0.0, 50, 1));
    let cold = cells.clusters.iter().find(|cluster| cluster.cold).expect("b and d");
    assert_eq!(cold.fields, [1, 3]);
}

#[test]
fn lines_that_other_cores_wrote_are_told() {
    let program = |modified: u64| {
        let mut program = Program::new();
        let array = program.array("counters", None, 64);
        let in_loop = program.a_loop("f", 1, 2);
        let site = program.site(in_loop);
        for number in 0..100 {
            let snoop = Some(if number < modified { Snoop::HitModified } else { Snoop::None });
            program.sample_served(0, load(site, array, 8, 0), 80, Served { snoop, ..took(80, MemoryLevel::L3) });
        }
        program
    };
    let alone = advice(&program(2));
    assert_eq!(alone[0].kind, Kind::LeaveAlone);
    let shared = advice(&program(30));
    assert_eq!((shared[0].kind, shared[0].confidence), (Kind::NotJudged, Confidence::Low));
    let told = "In 30.0 % of its samples (30) another core had written the line (HitM): threads share lines of it.";
    assert!(shared[0].why.starts_with(told), "{}", shared[0].why);
}
