//! What a report must say about a program whose truth is known.

use std::collections::BTreeSet;

use sample_programs::{Group as TrueGroup, Loop as TrueLoop, Times, Truth};
use slimline_report::view::{Advice, Field, Group, Interval, Loop, Report};

/// How far a share may be from the measured one (issue 2: 5 points); of few samples as far as its interval says.
const SHARE_OFF_AT_MOST: f64 = 0.05;
/// How far an affinity may be from the stated one. The fields of one loop share its time by their accesses, which
/// optimization changes; to two decimals only a synthetic profile can be held.
const AFFINITY_OFF_AT_MOST: f64 = 0.1;
/// Loops below this share have too few samples in a run of a second to be held to anything.
const LOOP_SHARE_AT_LEAST: f64 = 0.03;

/// All that is wrong with `report`, one sentence each.
pub(crate) fn judge(truth: &Truth, times: &Times, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for stated in &truth.groups {
        match find_group(stated, report) {
            Some(group) => {
                judge_share(truth, times, stated, group, &mut wrong);
                judge_element(stated, group, &mut wrong);
                judge_fields(truth, times, stated, group, &mut wrong);
                judge_advice(truth, times, stated, group, report, &mut wrong);
            }
            None => {
                let share = truth.group_share(&stated.name, times).unwrap();
                if *share.start() > SHARE_OFF_AT_MOST {
                    let names: Vec<&str> = report.groups.iter().map(|group| group.name.as_str()).collect();
                    wrong.push(format!("no group {}; there are {}", stated.name, names.join(", ")));
                }
            }
        }
    }
    for stated in truth.loops.iter().filter(|stated| times.loop_share(&stated.name).unwrap() >= LOOP_SHARE_AT_LEAST) {
        judge_loop(times, stated, report, &mut wrong);
    }
    wrong
}

/// By the line that allocates it; a static by its name.
fn find_group<'a>(stated: &TrueGroup, report: &'a Report) -> Option<&'a Group> {
    report.groups.iter().find(|group| match (&stated.allocated_at, &group.allocated_at) {
        (Some(stated), Some(found)) => stated.line == found.line && function_is(&found.function, &stated.function),
        (None, None) => group.kind == stated.kind && group.name == stated.name,
        _ => false,
    })
}

fn judge_share(truth: &Truth, times: &Times, stated: &TrueGroup, group: &Group, wrong: &mut Vec<String>) {
    let share = truth.group_share(&stated.name, times).unwrap();
    if is_off((group.share, group.share_interval), (*share.start(), *share.end())) {
        wrong.push(format!(
            "{}: share {:.3}, truly {:.3} to {:.3}",
            stated.name,
            group.share,
            share.start(),
            share.end()
        ));
    }
}

/// Whether a share is neither near the true ones nor are they in its interval.
fn is_off((share, interval): (f64, Interval), (least, most): (f64, f64)) -> bool {
    let is_near = share >= least - SHARE_OFF_AT_MOST && share <= most + SHARE_OFF_AT_MOST;
    !is_near && (interval.low > most || interval.high < least)
}

fn judge_element(stated: &TrueGroup, group: &Group, wrong: &mut Vec<String>) {
    if group.kind != stated.kind {
        wrong.push(format!("{}: kind {}, truly {}", stated.name, group.kind, stated.kind));
    }
    if group.name != stated.name && !type_is(&group.name, &stated.type_name) {
        wrong.push(format!("{}: is called {}", stated.name, group.name));
    }
    // An array of numbers has nothing to split, and one may call its rows its elements.
    if stated.fields.is_empty() {
        return;
    }
    if !group.type_name.as_deref().is_some_and(|found| type_is(found, &stated.type_name)) {
        wrong.push(format!("{}: type {:?}, truly {}", stated.name, group.type_name, stated.type_name));
    }
    if group.element_bytes != Some(stated.element_bytes) {
        wrong.push(format!(
            "{}: element of {:?} bytes, truly {}",
            stated.name, group.element_bytes, stated.element_bytes
        ));
    }
}

fn judge_fields(truth: &Truth, times: &Times, stated: &TrueGroup, group: &Group, wrong: &mut Vec<String>) {
    let loops: Vec<&TrueLoop> = truth
        .loops
        .iter()
        .filter(|l| l.group.as_ref() == Some(&stated.name) && times.loop_share(&l.name).unwrap() >= LOOP_SHARE_AT_LEAST)
        .collect();
    for stated_loop in &loops {
        for name in &stated_loop.fields {
            let offset = stated.fields[name];
            let Some(field) = group.fields.iter().find(|field| field_is(field, name)) else {
                wrong.push(format!("{}: no field {name}", stated.name));
                continue;
            };
            if field.offset != offset {
                wrong.push(format!("{}.{name}: at {}, truly {offset}", stated.name, field.offset));
            }
        }
        let Some(stride_bytes) = stated_loop.stride_bytes else { continue };
        let strided = |field: &&Field| {
            stated_loop.fields.is_empty() || stated_loop.fields.iter().any(|name| field_is(field, name))
        };
        for field in group.fields.iter().filter(strided) {
            if field.stride_bytes.map(i64::unsigned_abs) != Some(stride_bytes) {
                let (name, found) = (&field.name, field.stride_bytes);
                wrong.push(format!("{}.{name}: stride {found:?}, truly {stride_bytes}", stated.name));
            }
        }
    }

    let hot: BTreeSet<&str> = loops.iter().flat_map(|l| l.fields.iter().map(String::as_str)).collect();
    let stated_parts = parts(stated.split.iter().map(|part| part.iter().map(String::as_str)), &hot);
    let named = |offset: &u64| {
        let field = group.fields.iter().find(|field| field.offset == *offset)?;
        hot.iter().copied().find(|name| field_is(field, name))
    };
    let found_parts = parts(group.clusters.iter().map(|cluster| cluster.iter().filter_map(named)), &hot);
    if !stated.split.is_empty() && stated_parts != found_parts {
        wrong.push(format!("{}: clusters {found_parts:?}, truly {stated_parts:?}", stated.name));
    }

    for (a, b, value) in &stated.affinity {
        let (a, b) = (stated.fields[a], stated.fields[b]);
        let found = group.affinity.iter().find(|pair| (pair.a, pair.b) == (a, b) || (pair.a, pair.b) == (b, a));
        let found = found.map_or(0.0, |pair| pair.value);
        if (found - value).abs() > AFFINITY_OFF_AT_MOST {
            wrong.push(format!("{}: affinity of +{a} and +{b} {found:.2}, truly {value:.2}", stated.name));
        }
    }
}

/// The one split advised of the group is the stated one, and its definitions declare a hot field of each part. Where nothing is to be split, none is advised.
fn judge_advice(
    truth: &Truth,
    times: &Times,
    stated: &TrueGroup,
    group: &Group,
    report: &Report,
    wrong: &mut Vec<String>,
) {
    let splits: Vec<&Advice> = report
        .advice
        .iter()
        .filter(|advice| advice.group == group.id && ["split", "hot_cold_split"].contains(&advice.kind.as_str()))
        .collect();
    if stated.split.len() < 2 {
        wrong.extend(splits.iter().map(|advice| format!("{}: nothing to split, but: {}", stated.name, advice.title)));
        return;
    }
    let [advice] = splits[..] else {
        wrong.push(format!("{}: {} splits advised, not one", stated.name, splits.len()));
        return;
    };
    let hot: BTreeSet<&str> = truth
        .loops
        .iter()
        .filter(|l| l.group.as_ref() == Some(&stated.name) && times.loop_share(&l.name).unwrap() >= LOOP_SHARE_AT_LEAST)
        .flat_map(|l| l.fields.iter().map(String::as_str))
        .collect();
    let named = |offset: &u64| {
        let field = group.fields.iter().find(|field| field.offset == *offset)?;
        hot.iter().copied().find(|name| field_is(field, name))
    };
    let stated_parts = parts(stated.split.iter().map(|part| part.iter().map(String::as_str)), &hot);
    let found_parts = parts(advice.fields.iter().map(|part| part.iter().filter_map(named)), &hot);
    if stated_parts != found_parts {
        wrong.push(format!("{}: advised {found_parts:?}, truly {stated_parts:?}", stated.name));
    }
    // The outermost member is what a definition declares: `position` of `position.x`. What a base class holds is not named.
    let defined = |name: &&str| {
        let name = name.split('.').next().unwrap_or(name);
        advice.code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    for part in stated_parts.iter().filter(|part| !part.iter().any(defined)) {
        wrong.push(format!("{}: none of {part:?} in the definitions {:?}", stated.name, advice.code));
    }
}

/// The hot fields of each part; what is said about fields that no loop uses is left open.
fn parts<'a>(
    parts: impl Iterator<Item = impl Iterator<Item = &'a str>>,
    hot: &BTreeSet<&str>,
) -> BTreeSet<BTreeSet<&'a str>> {
    parts
        .map(|part| part.filter(|field| hot.contains(field)).collect())
        .filter(|part: &BTreeSet<&str>| !part.is_empty())
        .collect()
}

/// Lines at the end of a loop's body that may be gone from the line table.
const LINES_WITHOUT_CODE: u32 = 2;

fn judge_loop(times: &Times, stated: &TrueLoop, report: &Report, wrong: &mut Vec<String>) {
    let (Some(function), Some([first, last])) = (&stated.function, stated.lines) else { return };
    // The last lines of a body may leave no statement of their own: a conditional assignment becomes a move.
    let last_fits = |found: u32| found <= last && last - found <= LINES_WITHOUT_CODE;
    let here = |found: &&Loop| {
        function_is(&found.function, function) && found.first_line == first && last_fits(found.last_line)
    };
    // Inlined twice or cloned, one loop of the source is several of the binary.
    let found: Vec<&Loop> = report.loops.iter().filter(here).collect();
    if found.is_empty() {
        let there: Vec<String> =
            report.loops.iter().map(|l| format!("{} {}-{}", l.function, l.first_line, l.last_line)).collect();
        wrong.push(format!("no loop {function} {first}-{last}; there are {}", there.join(", ")));
        return;
    }
    let sum = |of: fn(&Loop) -> f64| found.iter().map(|found| of(found)).sum::<f64>();
    let share = sum(|of| of.share);
    let interval = Interval { low: sum(|of| of.share_interval.low), high: sum(|of| of.share_interval.high) };
    let true_share = times.loop_share(&stated.name).unwrap();
    if is_off((share, interval), (true_share, true_share)) {
        wrong.push(format!("loop {function} {first}-{last}: share {share:.3}, truly {true_share:.3}"));
    }
}

/// `name` as its language spells it, with namespaces and the keyword in C.
fn type_is(found: &str, name: &str) -> bool {
    let found = found.strip_prefix("struct ").unwrap_or(found);
    found.rsplit("::").next() == Some(name) || found == name
}

fn function_is(found: &str, name: &str) -> bool {
    // Without parameters and whatever the compiler appended to a clone.
    let found = found.split(['(', '.']).next().unwrap_or(found);
    // What a closure does, the function does that it stands in.
    found.rsplit("::").find(|part| !part.starts_with('{')) == Some(name)
}

/// Members of a base class may be named below it; elements of an array are its name with an index.
fn field_is(field: &Field, name: &str) -> bool {
    let found = field.name.split('[').next().unwrap_or(&field.name);
    found == name || found.strip_suffix(name).is_some_and(|above| above.ends_with('.') || above.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use sample_programs::Program;
    use slimline_report::view::{LoopGroup, Place, SCHEMA};

    use super::*;

    fn times() -> Times {
        "loop find_ac 480\nloop prefix_bd 500\nloop fill 10\nprocess 1000\n".parse().unwrap()
    }

    fn truth() -> Truth {
        Program::named("int4_two_loops").unwrap().truth().unwrap()
    }

    /// What a perfect report says of `int4_two_loops`.
    fn right() -> Report {
        let truth = truth();
        let fields = [(0, "a"), (4, "b"), (8, "c"), (12, "d")];
        Report {
            schema: SCHEMA,
            session: Default::default(),
            groups: vec![Group {
                name: "quads".to_owned(),
                kind: "heap".to_owned(),
                share: 0.98,
                allocated_at: Some(Place {
                    function: "main".to_owned(),
                    line: truth.groups[0].allocated_at.as_ref().unwrap().line,
                    ..Place::default()
                }),
                type_name: Some("struct quad".to_owned()),
                element_bytes: Some(16),
                fields: fields
                    .map(|(offset, name)| Field {
                        offset,
                        bytes: 4,
                        name: name.to_owned(),
                        stride_bytes: Some(16),
                        ..Field::default()
                    })
                    .to_vec(),
                clusters: vec![vec![4, 12], vec![0, 8]],
                ..Group::default()
            }],
            loops: truth
                .loops
                .iter()
                .map(|stated| Loop {
                    function: stated.function.clone().unwrap(),
                    first_line: stated.lines.unwrap()[0],
                    last_line: stated.lines.unwrap()[1],
                    share: 0.49,
                    groups: vec![LoopGroup::default()],
                    ..Loop::default()
                })
                .collect(),
            breakdowns: Default::default(),
            lines: Vec::new(),
            coverage: Default::default(),
            advice: vec![Advice {
                kind: "split".to_owned(),
                group: 0,
                fields: vec![vec![4, 12], vec![0, 8]],
                code: "struct quad_1 { int b; int d; };\nstruct quad_2 { int a; int c; };".to_owned(),
                ..Advice::default()
            }],
        }
    }

    #[test]
    fn the_truth_passes() {
        assert_eq!(judge(&truth(), &times(), &right()), Vec::<String>::new());
    }

    /// 0.98 to 0.98 of what is said to be 0.9, of few samples and of many.
    #[test]
    fn what_is_within_its_interval_is_not_off() {
        let off = |low, high| is_off((0.9, Interval { low, high }), (0.98, 0.98));
        assert_eq!((off(0.85, 0.97), off(0.82, 0.99)), (true, false));
        assert!(!is_off((0.9, Interval { low: 0.9, high: 0.9 }), (0.94, 0.98)));
    }

    /// Each change of a right report must be found.
    #[test]
    fn no_error_passes() {
        type Spoil = fn(&mut Report);
        let spoil: [(&str, Spoil); 14] = [
            ("share 0.900", |report| report.groups[0].share = 0.9),
            ("no group quads", |report| report.groups[0].allocated_at.as_mut().unwrap().line += 1),
            ("is called malloc", |report| report.groups[0].name = "malloc".to_owned()),
            ("type None", |report| report.groups[0].type_name = None),
            ("element of Some(64)", |report| report.groups[0].element_bytes = Some(64)),
            ("no field c", |report| {
                report.groups[0].fields.remove(2);
            }),
            ("quads.d: at 13", |report| report.groups[0].fields[3].offset = 13),
            ("stride Some(4)", |report| report.groups[0].fields[0].stride_bytes = Some(4)),
            ("clusters", |report| report.groups[0].clusters = vec![vec![0, 4, 8, 12]]),
            ("0 splits advised", |report| report.advice[0].kind = "leave_alone".to_owned()),
            ("advised {{\"a\", \"b\"}", |report| report.advice[0].fields = vec![vec![0, 4], vec![8, 12]]),
            ("none of {\"b\", \"d\"} in the definitions", |report| {
                report.advice[0].code = "struct q { int a, c; }".to_owned();
            }),
            ("no loop find_ac", |report| report.loops[0].last_line += 1),
            ("loop prefix_bd", |report| report.loops[1].share = 0.4),
        ];
        for (expected, spoil) in spoil {
            let mut report = right();
            spoil(&mut report);
            let wrong = judge(&truth(), &times(), &report);
            assert!(wrong.iter().any(|sentence| sentence.contains(expected)), "{expected}: {wrong:?}");
        }
    }

    #[test]
    fn a_split_of_what_is_whole_is_wrong() {
        let (mut truth, report) = (truth(), right());
        truth.groups[0].split.truncate(1);
        let wrong = judge(&truth, &times(), &report);
        assert!(wrong.iter().any(|sentence| sentence.contains("nothing to split")), "{wrong:?}");
    }

    #[test]
    fn names_match_as_languages_spell_them() {
        assert!(type_is("sky::Particle", "Particle") && type_is("struct quad", "quad") && type_is("vec::Body", "Body"));
        assert!(!type_is("NotQuad", "Quad"));
        assert!(function_is("sky::weigh(std::vector<int> const&)", "weigh") && function_is("find.constprop.0", "find"));
        assert!(function_is("threads::main::{{closure}}", "main") && !function_is("main::inner", "main"));
        let field = |name: &str| Field { name: name.to_owned(), ..Field::default() };
        assert!(field_is(&field("Body.cell"), "cell") && field_is(&field("position[2]"), "position"));
        assert!(!field_is(&field("subcell"), "cell"));
    }
}
