//! Every form of one report, as snapshots. Review with `cargo insta review`.

mod art;

use art::{art, unnamed};
use slimline_report::export::{dot, sarif};
use slimline_report::text::{By, Limits};
use slimline_report::view::*;
use slimline_report::{annotate, json, text};
use slimline_trace::served::MemoryLevel;
use slimline_trace::session::{SampledEvent, WeightUnit};

#[test]
fn long_titles_of_advice_are_folded() {
    let mut report = art();
    report.advice[0].title = format!("Split f1_neuron into {{P}} and {{{}}}", "a_field ".repeat(20).trim_end());
    report.advice[0].fields.clear();
    let mut out = String::new();
    text::advise(&mut out, &report, false).unwrap();
    let out = unstyled(&out);
    assert!(out.lines().all(|line| line.chars().count() <= text::WIDTH), "{out}");
    assert!(out.contains("\n    a_field "), "{out}");
    assert!(out.contains("\n  Lines that walk it: scanner.c:608"), "{out}");
}

fn as_text(by: By) -> String {
    text_of(&art(), by, Limits::default())
}

fn text_of(report: &Report, by: By, limits: Limits) -> String {
    let mut out = String::new();
    text::report(&mut out, report, by, limits).unwrap();
    unstyled(&out)
}

/// The same as Intel's load latency would have shown it: no clock, no bursts.
fn art_of_a_counter() -> Report {
    let by = |level, share, latency_share| ServedBy { level, share, latency_share };
    let served = |samples, share, mean_cycles, median_cycles, p95_cycles| Served {
        samples,
        latency: Some(Latency {
            samples,
            share,
            mean_cycles,
            median_cycles,
            p95_cycles,
            instruction_mean_cycles: Some(mean_cycles + 4.0),
            retire_mean_cycles: None,
        }),
        levels: vec![
            by(MemoryLevel::L1, 0.001, 0.0001),
            by(MemoryLevel::LineFillBuffer, 0.12, 0.08),
            by(MemoryLevel::L3, 0.529, 0.33),
            by(MemoryLevel::LocalDram, 0.25, 0.35),
            by(MemoryLevel::RemoteDram, 0.1, 0.2399),
        ],
        tlb_miss_share: Some(0.31),
        locked_share: Some(0.0),
        remote_share: Some(0.1),
        modified_share: Some(0.006),
    };
    let mut report = art();
    let session = &mut report.session;
    (session.collector, session.trigger) = ("pmu".into(), "hardware counter".into());
    (session.weight, session.weight_total) = (WeightUnit::LatencyCycles, 571_402);
    let event = |name: &str, least_latency_cycles| SampledEvent {
        name: name.into(),
        period: Some(20_011),
        frequency_hz: None,
        least_latency_cycles,
    };
    session.events = vec![event("cpu/mem-loads,ldlat=30/P", Some(30)), event("cpu/mem-stores/P", None)];
    (session.frequency_hz, session.frequency_reason, session.burst_instructions) = (0.0, None, 0);
    (session.accesses, session.paced, session.bursts, session.skid_agreement) = (0, 0.0, Bursts::default(), None);
    session.quality = Quality { exact: 0.99, lost: 0.01, ..Quality::default() };
    session.lost.throttled = 2;
    session.served = Some(served(2384, 1.0, 239.7, Some(132), Some(720)));
    let group = &mut report.groups[0];
    group.served = Some(served(1917, 0.804, 239.6, Some(132), Some(688)));
    (group.loads, group.stores) = (0, 0);
    for field in &mut group.fields {
        let samples = (field.share * 1917.0) as u64;
        field.served = Some(served(samples, field.share, 240.0, (samples > 100).then_some(132), None));
        (field.loads, field.stores, field.access_share) = (0, 0, 0.0);
    }
    // Stores were sampled too, without a latency.
    group.fields[0].served = Some(Served { samples: 99, ..Served::default() });
    report.groups[1].served = Some(served(467, 0.196, 240.2, Some(136), Some(700)));
    report.loops[0].served = Some(served(1348, 0.5657, 240.0, Some(132), Some(700)));
    report
}

/// Without terminal styles, and no line wider than the page.
fn unstyled(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('m').unwrap() + 1..];
    }
    plain.push_str(rest);
    for line in plain.lines() {
        assert!(line.chars().count() <= text::WIDTH, "wider than {}: {line}", text::WIDTH);
    }
    plain
}

#[test]
fn what_is_resolved_and_what_is_not() {
    let mut out = String::new();
    let limits = Limits { full_head: true, ..Limits::default() };
    text::report(&mut out, &art(), By::Quality, limits).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

/// Shares of latencies are no shares of time.
#[test]
fn what_is_resolved_of_hardware_samples() {
    let text = text_of(&art_of_a_counter(), By::Quality, Limits::default());
    let quality = &text[text.find("QUALITY").unwrap()..];
    assert!(quality.contains("of the latency is spent on memory accesses"), "{quality}");
    assert!(quality.contains("latency  lacks"), "{quality}");
    assert!(!quality.contains("time"), "{quality}");
}

/// What a session.json says of itself is foreign.
#[test]
fn a_terminal_gets_no_control_characters() {
    let mut report = art();
    let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}";
    report.session.collector = hostile.to_owned();
    report.session.ended = hostile.to_owned();
    report.session.command = vec![hostile.to_owned()];
    let shown = text_of(&report, By::Group, Limits { full_head: true, ..Limits::default() }) + &json(&report);
    assert!(shown.contains("\\u{1b}]0;x"), "{shown}");
    let acted_on = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
    assert_eq!(shown.chars().find(acted_on), None, "{shown}");
}

#[test]
fn report_by_group() {
    insta::assert_snapshot!(as_text(By::Group));
}

#[test]
fn report_of_hardware_samples() {
    let report = art_of_a_counter();
    let text = text_of(&report, By::Group, Limits::default());
    assert!(!["the time", "Hz", "burst"].iter().any(|word| text.contains(word)), "{text}");
    insta::assert_snapshot!(text);
    for by in [By::Type, By::Field, By::Loop, By::Line, By::Function, By::Thread] {
        let limits = Limits { full_head: true, ..Limits::default() };
        let text = text_of(&report, by, limits);
        assert!(!["the time", "Hz", "burst"].iter().any(|word| text.contains(word)), "{by:?}: {text}");
    }
    let units = [(WeightUnit::Period, "of the 571,402 events"), (WeightUnit::Samples, "of samples, not of time")];
    for (unit, expected) in units {
        let mut report = art_of_a_counter();
        report.session.weight = unit;
        let text = text_of(&report, By::Group, Limits::default());
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn annotated_with_hardware_samples() {
    let report = art_of_a_counter();
    let mut out = String::new();
    annotate::structure(&mut out, &report, &report.groups[0]).unwrap();
    unstyled(&out);
    insta::assert_snapshot!(out);
}

#[test]
fn advice_on_hardware_samples() {
    let mut out = String::new();
    text::advise(&mut out, &art_of_a_counter(), false).unwrap();
    let text = unstyled(&out);
    assert!(text.contains("−21.0 % latency of accesses") && !text.contains("run time"), "{text}");
}

#[test]
fn hardware_samples_round_trip_as_json() {
    let report = art_of_a_counter();
    let text = json(&report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["session"]["weight"], "latency_cycles");
    assert_eq!(value["session"]["events"][0]["least_latency_cycles"], 30);
    let served = &value["groups"][0]["served"];
    assert_eq!(served["levels"][1]["level"], "line_fill_buffer");
    assert_eq!(served["latency"]["p95_cycles"], 688);
    assert_eq!(served["tlb_miss_share"], 0.31);
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(back, report);
    assert!(serde_json::from_str::<Report>(&text.replace("\"local_dram\"", "\"moon\"")).is_err());
}

#[test]
fn report_by_field() {
    insta::assert_snapshot!(as_text(By::Field));
}

/// `-v`: all that is known of how it was recorded.
#[test]
fn full_head() {
    let mut report = art();
    report.session.allocations_followed = 1_000;
    report.session.follow_shift = 4;
    let mut out = String::new();
    text::report(&mut out, &report, By::Thread, Limits { full_head: true, ..Limits::default() }).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

/// What makes the numbers weaker is told in the short head, too.
#[test]
fn warnings_in_the_head() {
    let mut report = art();
    let session = &mut report.session;
    (session.allocations_followed, session.follow_shift, session.paced) = (1_000, 4, 0.0);
    (session.system_ns, session.complete) = (session.user_ns, false);
    session.notes = vec!["the skid was assumed, not measured: no perf".into()];
    session.unnamed.push(unnamed("no_function", "/opt/vendor.so", 0.2));
    session.unnamed.push(unnamed("no_variable", "/opt/vendor.so", 0.1));
    let mut out = String::new();
    text::report(&mut out, &report, By::Thread, Limits::default()).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

/// Rows that rest on a sample or two are summed up, unless they were asked for; shares still sum to 1.
#[test]
fn rows_of_few_samples_are_one() {
    let mut report = art();
    report.session.samples = 200;
    let part = |number: u32, share: f64, samples| Group {
        id: 10 + number,
        name: format!("part {number}"),
        share,
        samples,
        fields: (0..2).map(|n| Field { offset: n, share: 0.5, access_share: 0.5, ..Field::default() }).collect(),
        ..Group::default()
    };
    report.groups[0].share = 0.62;
    report.groups[1].share = 0.20;
    report.groups.extend((0..3).map(|number| part(number, 0.04, 8)));
    report.groups.extend((3..7).map(|number| part(number, 0.015, 3)));
    report.loops[2].groups[0].samples = 1;
    report.loops[2].groups.push(LoopGroup { id: 10, fields: vec![0], field_shares: vec![0.0], ..LoopGroup::default() });
    let shown = |limits| {
        let mut out = String::new();
        text::report(&mut out, &report, By::Group, limits).unwrap();
        let out = unstyled(&out);
        out[out.find("\nDATA").unwrap()..out.find("\nADVICE").unwrap()].to_owned()
    };
    insta::assert_snapshot!(shown(Limits::default()));
    let all = shown(Limits { share: Some(0.0), ..Limits::default() });
    assert!(all.contains("part 6") && all.matches("size  field").count() == 8, "{all}");
}

/// Of two structures with one name each has a number, wherever it is named; what no burst has counted is no share of nothing;
/// an array of numbers has its stride; a page that is wider has more of the names.
#[test]
fn rows_are_told_apart_and_tell_no_more_than_is_known() {
    let mut report = art();
    let twin = |id, share| Group { id, share, ..report.groups[0].clone() };
    let mut uncounted = twin(2, 0.1);
    for field in &mut uncounted.fields {
        (field.loads, field.stores, field.access_share) = (0, 0, 0.0);
    }
    let only = Field { share: 1.0, access_share: 1.0, stride_bytes: Some(64), bytes: 4, ..Field::default() };
    let numbers = Group {
        id: 3,
        name: "numbers_that_have_a_long_name".into(),
        share: 0.08,
        share_interval: report.groups[0].share_interval,
        samples: 50,
        fields: vec![only],
        ..Group::default()
    };
    report.groups.insert(1, uncounted);
    report.groups.insert(2, numbers);
    report.loops[0].column = Some(31);
    let text = text_of(&report, By::Group, Limits::default());
    let rows = |start: &str| text.lines().filter(|line| line.trim_start().starts_with(start)).count();
    let name = &report.groups[0].name;
    assert!(text.contains(&format!("{name} #1")) && text.contains(&format!("{name} #2")), "{text}");
    assert!(!text.contains("0–0"), "{text}");
    assert!(text.contains("strides: numbers_that_have_a_long_name 64 B"), "{text}");
    assert_eq!(rows("lines of loops: 7:31 begins in column 31"), 1, "{text}");
    assert!(text.contains("numbers_that…a_long_name"), "{text}");
    let mut wide = String::new();
    text::report(&mut wide, &report, By::Group, Limits { width: 130, ..Limits::default() }).unwrap();
    assert_eq!(wide.matches("numbers_that_have_a_long_name").count(), 2, "{wide}");
}

/// Structures of one type say what they have together.
#[test]
fn one_type_in_two_structures() {
    let mut report = art();
    let other = Group { id: 2, share: 0.1, name: "f2_layer".into(), ..report.groups[0].clone() };
    report.groups[0].share = 0.704;
    report.groups.insert(1, other);
    report.breakdowns.types = vec![Row { name: "f1_neuron".into(), share: 0.804, ..Row::default() }];
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    let told = unstyled(&out).lines().find(|line| line.contains("by type")).map(str::to_owned);
    assert_eq!(told.as_deref(), Some("  by type: f1_neuron 80.4 % in 2 structures"));
}

/// What the row of stacks is of is not to be guessed.
#[test]
fn the_row_of_stacks_is_explained() {
    let told = |kind: &str, name: &str| {
        let mut report = art();
        (report.groups[0].kind, report.groups[0].name) = (kind.into(), name.into());
        text_of(&report, By::Group, Limits::default())
            .contains("  stack: numbers, saved registers and return addresses")
    };
    assert!(told("stack", "stack") && !told("stack", "grid"));
    assert!(!told("heap", "stack"), "a variable may be called so");
}

/// A name that is longer than the page is cut, in the list of affinities as everywhere.
#[test]
fn no_name_is_wider_than_the_page() {
    let mut report = art();
    let long = |letter: &str| format!("global_objects.singletons.{}", letter.repeat(150));
    report.groups[0].fields[0].name = long("a");
    report.groups[0].fields[1].name = long("b");
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    let out = unstyled(&out);
    assert!(out.contains("global_objects.singl…aaaaaaaaaaaaaaaaaaa–global_objects.singl…bbb"), "{out}");
    // Where names are listed they are whole, over several lines.
    assert!(out.replace("\n    ", "").contains(&long("b")), "{out}");
}

/// `--wide --callers`: long names are whole, and every allocation shows its call path.
#[test]
fn nothing_is_cut_where_that_is_asked_for() {
    let mut report = art();
    report.groups[0].name = "lzma_stream_encoder › +0x1587ac of the block encoder".into();
    report.groups[0].allocated_at = Some(Place {
        function: "liblzma.so.5.4.1+0x156d0".into(),
        file: None,
        line: 0,
        stack: [
            "lzma_alloc liblzma.so.5.4.1",
            "liblzma.so.5.4.1+0x156d0 liblzma.so.5.4.1",
            "lzma_stream_encoder liblzma.so.5.4.1",
            "std::vector<int, std::allocator<int> >::reserve /usr/include/c++/12/bits/vector.tcc:70",
            "main xz.c:12",
            "__libc_start_call_main libc.so.6",
        ]
        .map(str::to_owned)
        .to_vec(),
    });
    let mut out = String::new();
    let limits = Limits { wide: true, callers: true, ..Limits::default() };
    text::report(&mut out, &report, By::Group, limits).unwrap();
    let found: Vec<&str> = out.lines().filter(|line| line.contains("block encoder")).collect();
    let path = "+0x156d0 < lzma_stream_encoder < std::vector<int, std::allocator<int> >::reserve < main";
    assert!(found[0].ends_with(path) && found[0].chars().count() > text::WIDTH, "{}", found[0]);
    for frame in &report.groups[0].allocated_at.as_ref().unwrap().stack {
        assert!(out.contains(&format!("\n      {frame}\n")), "{frame}");
    }
    let mut narrow = String::new();
    text::report(&mut narrow, &report, By::Group, Limits::default()).unwrap();
    assert!(!unstyled(&narrow).contains("ALLOCATED BY"));
}

/// Structures that several threads use at once are not called well.
#[test]
fn shared_by_threads() {
    let mut report = art();
    let thread = |tid, stores| GroupThread { tid, pid: 7, name: "worker".into(), share: 0.2, loads: 900, stores };
    report.groups[0].threads = (0..6).map(|number| thread(70 + number, u64::from(number < 3))).collect();
    let sharing =
        |evidence: &str| Sharing { evidence: evidence.into(), lines: 256, lines_met_again: 80, lines_shared: 9 };
    report.advice = vec![Advice {
        kind: "not_judged".into(),
        group: 1,
        title: "What threads share of f1_neuron is not judged".into(),
        why: "6 threads use it at once, and 3 of them store to it.".into(),
        confidence: "low".into(),
        ..Advice::default()
    }];
    let mut told = String::new();
    for evidence in ["shared", "apart", "unknown"] {
        report.groups[0].sharing = Some(sharing(evidence));
        let mut out = String::new();
        text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
        let out = unstyled(&out);
        let threads = out.find("  threads:").unwrap();
        told += out[threads..].split("\n\n").next().unwrap();
        told += &out[out.find("\n\nADVICE").unwrap()..];
    }
    let mut out = String::new();
    text::advise(&mut out, &report, false).unwrap();
    let out = unstyled(&out);
    told += &out[out.find("\nADVICE").unwrap()..];
    insta::assert_snapshot!(told);
}

/// Of stripped code, addresses tell the loops of one function apart.
#[test]
fn loops_of_stripped_code() {
    let mut report = art();
    for (number, found) in report.loops.iter_mut().enumerate() {
        let start_address = 0x15b40 + 0x100 * number as u64;
        *found = Loop {
            function: "liblzma.so.5.4.1+0x15ae0".into(),
            file: None,
            first_line: 0,
            last_line: 0,
            start_address,
            end_address: start_address + 0x3c,
            ..found.clone()
        };
    }
    let mut out = String::new();
    text::report(&mut out, &report, By::Loop, Limits::default()).unwrap();
    text::report(&mut out, &report, By::Field, Limits::default()).unwrap();
    let unstyled = unstyled(&out);
    let tables = unstyled.lines().skip_while(|line| *line != "LOOPS");
    insta::assert_snapshot!(tables.collect::<Vec<_>>().join("\n"));
}

/// What a loop computes is told with what it touches, and is no data.
#[test]
fn loops_that_compute() {
    let mut report = art();
    let [first, second, third] = &mut report.loops[..] else { panic!("three loops") };
    let nothing = |share| LoopGroup { share, samples: 99, ..LoopGroup::default() };
    first.no_memory_share = 0.4;
    first.groups.insert(0, nothing(0.41));
    second.no_memory_share = 0.001;
    second.groups.push(nothing(0.1));
    third.no_memory_share = third.share;
    third.groups = vec![nothing(third.share)];
    report.session.quality.no_memory = 0.18;
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    let out = unstyled(&out);
    insta::assert_snapshot!(&out[out.find("DATA").unwrap()..out.find("\nADVICE").unwrap()]);
}

/// Loops of a nest on the same lines are told apart.
#[test]
fn loops_inside_of_others_on_their_lines() {
    let mut report = art();
    for (inner, found) in (0..).zip(&mut report.loops) {
        (found.first_line, found.last_line, found.inner) = (615, 616, inner);
    }
    let mut out = String::new();
    text::report(&mut out, &report, By::Loop, Limits::default()).unwrap();
    for lines in ["scanner.c:615-616  ", "scanner.c:615-616(inner)  ", "scanner.c:615-616(2 inside)"] {
        assert_eq!(out.matches(lines).count(), 1, "{out}");
    }
}

#[test]
fn report_by_function() {
    insta::assert_snapshot!(as_text(By::Function));
}

#[test]
fn advice() {
    let mut out = String::new();
    text::advise(&mut out, &art(), false).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

#[test]
fn empty_session_says_why() {
    let mut report = art();
    report.session.samples = 0;
    report.session.duration_ns = 3_000_000;
    let why = "the program used 620.0 µs of CPU time in user mode, and a thread's first sample comes after 4.0 ms; give it \
               more work, or raise the rate with -F";
    report.session.no_samples_because = Some(why.to_owned());
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

#[test]
fn annotated_structure() {
    let report = art();
    let mut out = String::new();
    for group in annotate::matching(&report, "f1_neuron") {
        annotate::structure(&mut out, &report, group).unwrap();
    }
    insta::assert_snapshot!(out);
}

fn member(offset: u64, bytes: u64, name: &str, type_name: &str, depth: u32) -> LayoutMember {
    LayoutMember { offset, bytes, name: name.into(), type_name: type_name.into(), depth, ..LayoutMember::default() }
}

/// `struct { std::allocator a; char *text; long tail[]; }`: what has no bytes costs nothing, but an array without a length.
#[test]
fn members_without_bytes_cost_nothing() {
    let mut report = art();
    let field = |offset, share| Field { offset, bytes: 8, share, loads: 5, ..Field::default() };
    report.groups[0].type_name = Some("ns::note<char>".into());
    report.groups[0].fields = vec![field(0, 0.75), field(8, 0.25)];
    let members = vec![
        member(0, 0, "a", "std::allocator", 0),
        member(0, 8, "text", "char *", 0),
        member(8, 0, "tail", "long[]", 0),
    ];
    report.groups[0].layout = Some(Layout { name: "note".into(), language: "c++".into(), bytes: 8, members });
    let found = annotate::matching(&report, "note");
    assert_eq!(
        (found.len(), annotate::matching(&report, "ns::note").len()),
        (1, 1),
        "without the template's arguments"
    );
    let mut out = String::new();
    annotate::structure(&mut out, &report, found[0]).unwrap();
    let line = |name: &str| out.lines().find(|line| line.contains(name)).expect(name);
    assert!(line(" a;").ends_with('–'), "{out}");
    assert!(line("text;").contains("75.0 %") && line("tail").contains("25.0 %"), "{out}");
}

/// A nested structure with a hole, bit-fields that share a unit, and a field that only vector code reaches.
#[test]
fn annotated_nested_structure_and_bit_fields() {
    let bit_field =
        |first, bits, name: &str| LayoutMember { bits: Some((first, bits)), ..member(40, 4, name, "unsigned int", 0) };
    let mut members = vec![
        member(0, 8, "id", "long", 0),
        LayoutMember { nested: true, ..member(8, 32, "at", "struct point", 0) },
        member(8, 4, "kind", "int", 1),
        LayoutMember { offset: 12, bytes: 4, depth: 1, ..LayoutMember::default() },
        LayoutMember { nested: true, ..member(16, 24, "where", "struct {…}", 1) },
        member(16, 8, "x", "double", 2),
        member(24, 8, "y", "double", 2),
        member(32, 8, "z", "double", 2),
        bit_field(0, 3, "red"),
        bit_field(3, 3, "green"),
        bit_field(8, 3, "blue"),
        member(44, 36, "rest", "char[36]", 0),
    ];
    let field = |offset, bytes, name: &str, share, loops: &[usize]| Field {
        offset,
        bytes,
        name: name.into(),
        share,
        access_share: share,
        access_share_interval: Interval { low: share - 0.03, high: share + 0.03 },
        loops: loops.to_vec(),
        ..Field::default()
    };
    let mut report = art();
    report.groups[0].fields = vec![
        field(0, 8, "id", 0.0, &[]),
        field(8, 4, "at.kind", 0.1, &[1]),
        field(16, 8, "at.where.x", 0.5, &[0]),
        field(24, 8, "at.where.y", 0.0, &[0]),
        field(32, 8, "at.where.z", 0.2, &[0]),
        field(40, 1, "red, green", 0.2, &[1]),
        field(41, 1, "blue", 0.0, &[]),
        field(44, 36, "rest", 0.0, &[]),
    ];
    let layout = |language: &str, members: &[LayoutMember]| Layout {
        name: "struct thing".into(),
        language: language.into(),
        bytes: 80,
        members: members.to_vec(),
    };
    report.groups[0].layout = Some(layout("c", &members));
    let mut out = String::new();
    annotate::structure(&mut out, &report, &report.groups[0]).unwrap();
    members.retain(|member| member.bits.is_none());
    report.groups[0].layout = Some(layout("rust", &members));
    annotate::structure(&mut out, &report, &report.groups[0]).unwrap();
    insta::assert_snapshot!(out);
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    let text = unstyled(&out);
    assert!(text.contains("3 not seen used") && text.contains("wide: reached only by"), "{text}");
}

/// The members of a union without a name share their bytes: each is shown, their cost once.
#[test]
fn annotated_union_without_a_name() {
    let nested = |member| LayoutMember { nested: true, ..member };
    let mut report = art();
    report.groups[0].layout = Some(Layout {
        name: "struct event".into(),
        language: "c".into(),
        bytes: 40,
        members: vec![
            member(0, 4, "kind", "int", 0),
            member(4, 4, "", "", 0),
            nested(member(8, 32, "", "union {…}", 0)),
            nested(member(8, 16, "p", "struct {…}", 1)),
            member(8, 8, "x", "double", 2),
            member(16, 8, "y", "double", 2),
            nested(member(8, 32, "q", "struct {…}", 1)),
            member(8, 8, "k", "long", 2),
            member(16, 24, "c", "char[24]", 2),
        ],
    });
    let field = |offset, bytes, share| Field { offset, bytes, share, access_share: share, ..Field::default() };
    report.groups[0].fields = vec![field(0, 4, 0.25), field(8, 8, 0.5), field(16, 24, 0.25)];
    let mut out = String::new();
    annotate::structure(&mut out, &report, &report.groups[0]).unwrap();
    insta::assert_snapshot!(out);
}

#[test]
fn annotated_without_debug_information() {
    let mut report = art();
    report.groups[0].layout = None;
    let mut out = String::new();
    annotate::structure(&mut out, &report, &report.groups[0]).unwrap();
    insta::assert_snapshot!(out);
}

#[test]
fn affinity_graph() {
    let mut out = String::new();
    dot::graph(&mut out, &art()).unwrap();
    insta::assert_snapshot!(out);
}

#[test]
fn advice_as_sarif() {
    let log = sarif::json(&art(), "/src", "/src/art");
    insta::assert_snapshot!(log.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

/// A directory that only begins alike is another one; what a URI can't hold is encoded.
#[test]
fn files_of_sarif_are_relative_to_where_the_program_began() {
    let uri = |file: &str| {
        let mut report = art();
        report.advice[0].declared_at = Some(Position { file: file.into(), line: 0 });
        let log: serde_json::Value = serde_json::from_str(&sarif::json(&report, "/src/art", "/src/art/art")).unwrap();
        let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["region"], serde_json::Value::Null, "no line is known");
        let artifact = &place["artifactLocation"];
        (artifact["uri"].as_str().unwrap().to_owned(), artifact["uriBaseId"].as_str().map(str::to_owned))
    };
    assert_eq!(uri("/src/art/a b.c"), ("a%20b.c".to_owned(), Some("SRCROOT".to_owned())));
    assert_eq!(uri("/src/artful/ü.c"), ("file:///src/artful/%C3%BC.c".to_owned(), None));
    assert_eq!(uri("scanner.c"), ("scanner.c".to_owned(), Some("SRCROOT".to_owned())));
}

/// The names of the JSON are a contract: other programs read them.
#[test]
fn json_round_trips_and_keeps_its_names() {
    let text = json(&art());
    insta::assert_snapshot!(text);
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(back, art());
}

/// A structure with more fields than a table has rows, and with long names: everything stays on the page.
#[test]
fn wide_and_long_structures_are_shortened() {
    let mut report = art();
    let group = &mut report.groups[0];
    group.fields = (0..50)
        .map(|n| Field {
            offset: n * 8,
            bytes: 8,
            name: format!("outer.inner_structure.field_number_{n}"),
            share: 0.02,
            access_share: 0.02,
            access_share_interval: Interval { low: 0.01, high: 0.03 },
            loads: 100 + n,
            loops: vec![0, 1, 2],
            ..Field::default()
        })
        .collect();
    group.affinity = (1..9).map(|n| Affinity { a: 0, b: n * 8, value: 0.9 }).collect();
    group.clusters = vec![vec![0, 8], (2..50).map(|n| n * 8).collect()];
    let mut out = String::new();
    text::report(&mut out, &report, By::Group, Limits::default()).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

#[test]
fn what_this_machine_and_a_program_allow() {
    use slimline_report::doctor::{Collector, Command, Diagnosis, Fact, write};
    let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
    let command = Command {
        program: Some("/usr/bin/tool".into()),
        obstacle: None,
        facts: vec![fact("build-id", "deadbeef"), fact("debug information", "none; stripped")],
        lacks: vec![
            "names of most functions and variables, lines, types and field names; compile with -g, or install its \
             debug symbols"
                .into(),
            "the script's own lines".into(),
        ],
    };
    let collector = Collector {
        name: "clock/perf-sigtrap".into(),
        available: "no".into(),
        reason: "the kernel refused it: Permission denied".into(),
        remedy: Some("sysctl kernel.perf_event_paranoid=2".into()),
    };
    let mut out = String::new();
    let diagnosis = Diagnosis::new(vec![fact("kernel", "Linux 6.1")], vec![collector], Some(command));
    write(&mut out, &diagnosis).unwrap();
    insta::assert_snapshot!(unstyled(&out));
}

/// Graphs of many shapes through graphviz itself, which gives up over circles between clusters.
#[test]
fn graphviz_renders_any_affinities() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let field = |n: u64| Field { offset: n * 8, bytes: 8, name: format!("\"{n}\\"), loads: 1, ..Field::default() };
    let mut report = art();
    // Every pair of twelve fields, dealt to clusters in as many ways; weights in no order.
    report.groups = (1..=6)
        .map(|ways| Group {
            id: ways as u32,
            name: format!("dealt to {ways}"),
            share: 0.1,
            fields: (0..12).map(field).collect(),
            affinity: (0..12)
                .flat_map(|a| (a + 1..12).map(move |b| (a, b)))
                .map(|(a, b)| Affinity { a: a * 8, b: b * 8, value: ((a * 7 + b * 5 + ways) % 10) as f64 / 10.0 })
                .collect(),
            clusters: (0..ways)
                .map(|way| (0..12).filter(|n| n * 5 % 7 % ways == way).map(|n| n * 8).collect())
                .collect(),
            ..Group::default()
        })
        .collect();
    let mut graph = String::new();
    dot::graph(&mut graph, &report).unwrap();
    let mut dot = Command::new("dot")
        .args(["-Tsvg"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("graphviz is installed (cargo xtask test installs it)");
    dot.stdin.take().unwrap().write_all(graph.as_bytes()).unwrap();
    let output = dot.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && complaint.is_empty(), "{complaint}\n{graph}");
    let picture = String::from_utf8_lossy(&output.stdout).into_owned();
    for group in &report.groups {
        assert!(picture.contains(&group.name), "{} is not in the picture", group.name);
    }
}
