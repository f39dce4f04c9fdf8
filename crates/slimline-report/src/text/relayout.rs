//! Layouts and orders of loops that were tried on a trace, as text.

pub(crate) mod inlining;
pub(crate) mod loops;
pub(crate) mod memory_nodes;
pub(crate) mod prefetches;

use std::fmt::{self, Write};
use std::path::Path;

use slimline_trace::escape::{plain, shell_word};

use super::advice::gain;
use super::number::{bytes, count, percent, plural, plural_of};
use super::simulation::access_trace;
use super::table::{Column, Rows};
use super::{STRONG, fold, heading};
use crate::relayout::{
    AdvisedCode, AdvisedRow, ENOUGH, LargePagesRow, LastLevel, LoopRow, PatchReport, PredictedRow, PrefetchRow,
    RelayoutReport, StructureRow, TriedRow,
};
use crate::source::seen_from;

/// Lines that are named.
const MOST_LINES: usize = 12;
/// Memory of no structure that is told by itself: so many at most, of this part of the time.
const MOST_UNSTRUCTURED: usize = 5;
const LEAST_UNSTRUCTURED: f64 = 0.03;
/// What takes less is by rounding.
const LEAST_TOLD: f64 = 1e-9;
/// Columns of the parts of a layout.
const PARTS_COLUMNS: usize = 52;

/// Writes the report; files below `here` are told relative to it.
///
/// # Errors
/// As `out`.
pub fn relayout(out: &mut impl Write, report: &RelayoutReport, here: &Path) -> fmt::Result {
    access_trace(out, &report.trace)?;
    let machine = plain(&report.machine);
    fold(out, &format!("{}, replayed through {machine} with each layout", replayed(report)), 0, 2)?;
    if let Some(fits) = fits(report) {
        fold(out, &fits, 0, 2)?;
    }
    let (changes, others): (Vec<&StructureRow>, Vec<&StructureRow>) =
        report.structures.iter().partition(|of| of.advice.is_some());
    let (changed_loops, other_loops): (Vec<&LoopRow>, Vec<&LoopRow>) =
        report.loops.iter().partition(|of| of.advice.is_some());
    let (prefetched, other_loads): (Vec<&PrefetchRow>, Vec<&PrefetchRow>) =
        report.prefetches.loads.iter().partition(|of| of.advice.is_some());
    if changes.is_empty() && changed_loops.is_empty() && prefetched.is_empty() {
        heading(out, "ADVICE")?;
        writeln!(out, "  {NOTHING}")?;
    }
    for (number, of) in changes.iter().enumerate() {
        if let Some(advice) = &of.advice {
            heading(out, format_args!("ADVICE {}", number + 1))?;
            one(out, (of, advice), report.is_whole(), here)?;
        }
    }
    for (number, of) in changed_loops.iter().enumerate() {
        if let Some(advice) = &of.advice {
            heading(out, format_args!("ADVICE {}", changes.len() + number + 1))?;
            loops::one(out, (of, advice), here)?;
        }
    }
    for (number, of) in prefetched.iter().enumerate() {
        if let Some(advice) = &of.advice {
            heading(out, format_args!("ADVICE {}", changes.len() + changed_loops.len() + number + 1))?;
            prefetches::one(out, (of, advice), report.is_whole(), here)?;
        }
    }
    let unnamed = unnamed(report, |at| seen_from(here, at));
    let has_pointers = report.kept_pointers().next().is_some();
    let has_others = has_pointers || !others.is_empty() || !other_loops.is_empty() || !other_loads.is_empty();
    if has_others || report.prefetches.chase.is_some() || !unnamed.is_empty() {
        heading(out, "LEAVE ALONE")?;
    }
    for of in others {
        let reason = of.reason.as_deref().unwrap_or_default();
        let line = format!("{} ({} of the time): {}.", plain(&of.name), percent(of.share), plain(reason));
        fold(out, &line, 2, 4)?;
    }
    for (of, row) in report.kept_pointers() {
        fold(out, &inlining::left_alone(of, row), 2, 4)?;
    }
    for of in other_loops {
        fold(out, &loops::left_alone(of, here), 2, 4)?;
    }
    for of in other_loads {
        fold(out, &prefetches::left_alone(of, here), 2, 4)?;
    }
    if let Some(chase) = &report.prefetches.chase {
        fold(out, &prefetches::chase(chase, here), 2, 4)?;
    }
    for (share, what, why) in unnamed {
        fold(out, &format!("{what} ({} of the time): {why}.", percent(share)), 2, 4)?;
    }
    if let Some(together) = report.together.filter(|_| changes.len() > 1) {
        let is_all = changed_loops.is_empty() && prefetched.is_empty();
        heading(out, if is_all { "ALL OF IT" } else { "ALL LAYOUTS" })?;
        fold(out, &predicted(&together, report.is_whole()), 2, 2)?;
    }
    if let Some(together) = report.prefetches.together {
        heading(out, "ALL PREFETCHES")?;
        fold(out, &predicted(&together, report.is_whole()), 2, 2)?;
    }
    if let Some(pages) = report.large_pages {
        heading(out, "LARGE PAGES")?;
        for line in large_pages(report, &pages) {
            fold(out, &line, 2, 2)?;
        }
    }
    if let Some(nodes) = &report.memory_nodes {
        heading(out, "MEMORY NODES")?;
        for line in memory_nodes::lines(nodes, here) {
            fold(out, &line, 2, 4)?;
        }
    }
    if let Some(made) = &report.patch {
        heading(out, "PATCH")?;
        patch(out, made)?;
    }
    writeln!(out)?;
    fold(out, &method(report), 2, 2)
}

/// Where nothing is advised.
pub(crate) const NOTHING: &str = "No change of layout or of loops, and no prefetch, is worth advising here.";

/// What was replayed.
pub(crate) fn replayed(report: &RelayoutReport) -> String {
    let all = plural_of(report.accesses, "access", "accesses");
    match report.is_whole() {
        true => all,
        false => format!("{all}, {} of them in windows over the whole run", count(report.replayed)),
    }
}

/// How the program gets large pages without a change.
const LARGE_PAGES_BY: &str = "Of glibc 2.35 and newer malloc takes them by itself: GLIBC_TUNABLES=glibc.malloc.hugetlb=1 before the command. Else \
     madvise(…, MADV_HUGEPAGE) on what is large, at multiples of 2 MiB. /sys/kernel/mm/transparent_hugepage/enabled must be madvise or always; where it \
     is always, they may be there already.";

/// What large pages gain, in sentences.
pub(crate) fn large_pages(report: &RelayoutReport, pages: &LargePagesRow) -> Vec<String> {
    if !pages.is_advised {
        let beside = if pages.with_advised.is_some() { ", beside the advice," } else { "" };
        return vec![format!("Pages of 2 MiB do not gain{beside} {ENOUGH}.")];
    }
    let mut said = format!("Put memory on pages of 2 MiB. Predicted: {}", run_time(&pages.alone));
    if let Some(with) = pages.with_advised {
        let is_one = report.structures.iter().filter(|of| of.advice.is_some()).count() == 1;
        let what = if is_one { "the advice" } else { "all of the advice" };
        said += &format!("; together with {what} {}, of the program as it is, too", gain(with.time_ratio - 1.0));
    }
    vec![said + ".", LARGE_PAGES_BY.to_owned()]
}

/// What is to be said where no layout could save lines from memory, as the data fits the caches.
pub(crate) fn fits(report: &RelayoutReport) -> Option<String> {
    let LastLevel { name, bytes: of_cache, accessed_bytes } = report.last_level.as_ref()?;
    let or_measure = match report.machine.as_str() {
        "measured" => "",
        _ => ", or see by --machine measured how much of it is to be had here",
    };
    Some(format!(
        "All data that was accessed ({}) fits {} ({}), so memory is waited for at first accesses mostly: trace a larger input{or_measure}.",
        bytes((*accessed_bytes)?),
        plain(name),
        bytes(*of_cache)
    ))
}

/// How it is predicted.
const METHOD: &str = "Time is that of a core which waits for a miss unless another one is under way or it is a stream's, one cycle \
     for each instruction (of what is in no loop, or does not tell, 2.5 go with each access), 4000 for the first access to a page, and 60 for a \
     block of the heap, 10 from a pool. The interval is from a program that computes much and \
     whose misses all overlap to one that computes little and waits for each. Layouts were made of the run that they are judged by.";
const METHOD_OF_LOOPS: &str = " Shares of structures are of work and waiting, added up; those of loops are of the run time, in which both overlap, \
     and allocators are, too. What loops take of a structure is in both.";

/// What time is, and what shares are of.
pub(crate) fn method(report: &RelayoutReport) -> String {
    format!("{METHOD}{}", if report.loops.is_empty() { "" } else { METHOD_OF_LOOPS })
}

/// What has no row of its own: its share of the time, what it is, why; places as they are to be shown.
pub(crate) fn unnamed(report: &RelayoutReport, shown: impl Fn(&str) -> String) -> Vec<(f64, String, String)> {
    let other = "each takes little, or there are four that take more";
    let mut all = vec![(report.other_share, "Other structures".to_owned(), other.to_owned())];
    let told = report.unstructured.iter().take(MOST_UNSTRUCTURED).filter(|of| of.share >= LEAST_UNSTRUCTURED);
    for of in told.clone() {
        let place = of.allocated_at.as_deref().map(|at| plain(&shown(at)));
        let place = place.or_else(|| of.allocated_in.as_deref().map(plain));
        let (what, why) = match (&of.data, &place) {
            (Some(data), Some(place)) => (format!("{} allocated at {place}", plain(data)), "of no structure"),
            (Some(data), None) => (plain(data), "of no structure"),
            (None, Some(place)) => {
                // What allocates it has no line either.
                let without = "no debug information tells what it is";
                let why = if of.allocated_at.is_none() { without } else { "of which structure is not known" };
                (format!("Memory allocated at {place}"), why)
            }
            (None, None) => ("Memory without a name".to_owned(), "of which structure is not known"),
        };
        let size = format!("{}, {} in all; {why}", plural(of.objects, "object"), bytes(of.object_bytes));
        all.push((of.share, what, size));
    }
    let rest = report.unknown_share - told.map(|of| of.share).sum::<f64>();
    let rest_is = "stacks, what nobody saw allocated, and what takes less";
    all.push((rest, "Other memory".to_owned(), rest_is.to_owned()));
    all.retain(|(share, ..)| *share > LEAST_TOLD);
    all
}

/// What of it the program's sources are patched for, and how the patch is applied.
fn patch(out: &mut impl Write, made: &PatchReport) -> fmt::Result {
    writeln!(out, "  Of layouts those were tried that can be patched; there may be better ones without --patch.")?;
    for of in &made.structures {
        let line = match &of.refused {
            Some(why) => format!("{}: not patched. {}.", plain(&of.structure), plain(why)),
            None => format!("{}: patched.", plain(&of.structure)),
        };
        fold(out, &line, 2, 4)?;
    }
    if made.structures.is_empty() {
        writeln!(out, "  Nothing is advised that could be patched.")?;
    }
    if let Some(file) = &made.file {
        let files = plural(made.files, "source");
        writeln!(out, "  {files} changed, which clang takes; nothing was run. To apply it:")?;
        writeln!(out, "      patch -p1 -d {} < {}", shell_word(&made.directory), shell_word(file))?;
    }
    Ok(())
}

/// What a change is called.
fn title(out: &mut impl Write, of: &str) -> fmt::Result {
    let mut title = String::new();
    fold(&mut title, &plain(of), 2, 4)?;
    writeln!(out, "{STRONG}{}{STRONG:#}", title.trim_end())
}

/// What to mind of a change of code, and what to write.
fn changed_code(out: &mut impl Write, change: &AdvisedCode) -> fmt::Result {
    for caution in &change.cautions {
        fold(out, &format!("Mind that {}.", plain(caution)), 2, 2)?;
    }
    writeln!(out)?;
    match &change.code {
        Some(code) => code.lines().try_for_each(|line| writeln!(out, "      {}", plain(line)))?,
        None => fold(out, &plain(&change.how), 2, 2)?,
    }
    writeln!(out)
}

/// What was tried of something that has no parts, whether it is advised, and the run time by that of the program as it is.
fn tried_table(out: &mut impl Write, all: impl Iterator<Item = (String, bool, f64)>) -> fmt::Result {
    let mut rows = Rows::new(&[Column::Text("tried"), Column::Number("time")], false);
    for (what, is_advised, ratio) in all {
        let mark = if is_advised { " *" } else { "" };
        rows.push(vec![format!("{what}{mark}"), gain(ratio - 1.0)]);
    }
    rows.write(out, 2)
}

/// Bytes of a stride.
fn signed(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "−" } else { "" }, count(bytes.unsigned_abs()))
}

fn one(out: &mut impl Write, (of, advice): (&StructureRow, &AdvisedRow), is_all: bool, here: &Path) -> fmt::Result {
    title(out, &advice.title)?;
    let allocated_at = of.allocated_at.as_deref().map(|at| seen_from(here, at));
    fold(out, &what_it_is(of, allocated_at.as_deref()), 2, 4)?;
    let patterns: Vec<String> = of
        .patterns
        .iter()
        .map(|pattern| format!("{{{}}} {}", plain(&pattern.fields.join(" ")), percent(pattern.share)))
        .collect();
    let why = format!(
        "{} of the time. {} use: {}.",
        percent(of.share),
        format_args!("{} of its elements", plural(of.visits, "visit")),
        patterns.join(", ")
    );
    fold(out, &why, 2, 2)?;
    if let Some(inlined) = &advice.inlined {
        fold(out, &inlining::owned(of, inlined, here), 2, 4)?;
    }
    fold(out, &predicted(&advice.predicted, is_all), 2, 2)?;
    for caution in &advice.cautions {
        fold(out, &format!("Mind that {}.", plain(&caution.seen_from(here))), 2, 2)?;
    }
    writeln!(out)?;
    for line in advice.code.lines() {
        writeln!(out, "      {}", plain(line))?;
    }
    writeln!(out)?;
    tried(out, of, &advice.layout)?;
    if !advice.touched_lines.is_empty() {
        let more = advice.touched_lines.len().saturating_sub(MOST_LINES);
        let shown = advice.touched_lines.iter().take(MOST_LINES).map(|line| seen_from(here, line));
        let mut lines = plain(&shown.collect::<Vec<_>>().join(", "));
        if more > 0 {
            lines += &format!(" and {} more", count(more as u64));
        }
        fold(out, &format!("{}: {lines}", touched(advice)), 2, 2)?;
    }
    Ok(())
}

/// What the lines are that [`AdvisedRow::touched_lines`] names.
pub(crate) const fn touched(advice: &AdvisedRow) -> &'static str {
    if advice.inlined.is_some() { "Lines that load or store the pointer" } else { "Lines that touch fields that move" }
}

/// Its name, and objects of it.
pub(crate) fn what_it_is(of: &StructureRow, allocated_at: Option<&str>) -> String {
    let place = allocated_at.map_or_else(String::new, |at| format!(", allocated at {}", plain(at)));
    if of.is_columns && of.fields.len() == 1 {
        let elements = plural(of.object_bytes / u64::from(of.bytes.max(1)), "element");
        return format!("{}: {elements} of {} bytes{place}", plain(&of.name), of.bytes);
    }
    if of.is_columns {
        let elements = of.object_bytes / u64::from(of.bytes.max(1));
        return format!(
            "{}: {} elements each, {} bytes together, {} in all",
            plain(&of.name),
            count(elements),
            of.bytes,
            bytes(of.object_bytes)
        );
    }
    format!(
        "{}: elements of {} bytes in {}, {} in all{place}",
        plain(&of.name),
        of.bytes,
        plural(of.objects, "object"),
        bytes(of.object_bytes)
    )
}

/// What a ratio changes by; a dash where there was nothing to change.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| gain(ratio - 1.0))
}

fn predicted(row: &PredictedRow, is_all: bool) -> String {
    predicted_by(row, if is_all { "replay of all accesses" } else { "replay of these accesses" })
}

/// What is gained, with both ends.
pub(crate) fn run_time(of: &PredictedRow) -> String {
    let [expected, low, high] = [of.time_ratio, of.time_ratio_low, of.time_ratio_high].map(|ratio| gain(ratio - 1.0));
    format!("{expected} run time ({low} to {high})")
}

fn predicted_by(predicted: &PredictedRow, how: &str) -> String {
    format!(
        "Predicted: {}; misses of the first level {}, lines from memory {}; by {how}.",
        run_time(predicted),
        ratio(predicted.first_misses_ratio),
        ratio(predicted.memory_lines_ratio),
    )
}

fn tried(out: &mut impl Write, of: &StructureRow, advised: &TriedRow) -> fmt::Result {
    let columns = [
        Column::Text("tried"),
        Column::Text("bytes"),
        Column::Number("time"),
        Column::Shortened("parts", PARTS_COLUMNS),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in &of.tried {
        let mark = if row.is(advised) { " *" } else { "" };
        let [change, sizes, parts] = layout_words(row);
        rows.push(vec![format!("{change}{mark}"), sizes, gain(row.time_ratio - 1.0), parts]);
    }
    rows.write(out, 2)
}

/// What a layout is, how many bytes each of its parts has, and which fields these have.
pub(crate) fn layout_words(row: &TriedRow) -> [String; 3] {
    let pool = if row.is_pool && row.change != "pool" { ", pool" } else { "" };
    let types = [(&row.indexed, "indexes"), (&row.bit_fields, "bit fields"), (&row.narrowed, "shrink")];
    let besides = types.into_iter().filter(|(fields, of)| !fields.is_empty() && row.change.replace('_', " ") != *of);
    let besides: String = besides.map(|(_, of)| format!(", {of}")).collect();
    let sizes: Vec<String> = row.part_bytes.iter().map(u32::to_string).collect();
    let parts: Vec<String> = row.parts.iter().map(|part| format!("{{{}}}", plain(&part.join(" ")))).collect();
    [format!("{}{pool}{besides}", row.change.replace('_', " ")), sizes.join("+"), parts.join(" ")]
}

#[cfg(test)]
pub(crate) mod tests {
    use slimline_analyze::relayout::{WORTH_A_RISK, WORTH_IT};

    use super::super::a_run;
    use super::*;
    use crate::relayout::{
        Caution, FieldRow, PatchedRow, PatternRow, PrefetchesReport, RELAYOUT_SCHEMA, UnstructuredRow,
    };
    use crate::view::{Affinity, NewLayout, PlacedField};

    pub(crate) fn predicted_row(time_ratio: f64) -> PredictedRow {
        PredictedRow {
            time_ratio,
            time_ratio_low: time_ratio / 2.0,
            time_ratio_high: 1.0,
            first_misses_ratio: Some(0.25),
            memory_lines_ratio: None,
        }
    }

    fn structure(name: &str, share: f64) -> StructureRow {
        let field = |(name, offset): (&str, u32)| FieldRow {
            name: name.to_owned(),
            type_name: "double".to_owned(),
            offset,
            bytes: 8,
            used: 0.5,
            bits: None,
            narrower: None,
        };
        StructureRow {
            name: name.to_owned(),
            is_columns: false,
            bytes: 16,
            share,
            accesses: 1000,
            objects: 1,
            object_bytes: 1 << 20,
            allocated_at: Some("/src/sky.c:12".to_owned()),
            fields: [("x", 0), ("y", 8)].map(field).to_vec(),
            visits: 1000,
            patterns: vec![
                PatternRow { fields: vec!["x".to_owned()], share: 0.75 },
                PatternRow { fields: vec!["x".to_owned(), "y".to_owned()], share: 0.25 },
            ],
            affinity: vec![Affinity { a: 0, b: 8, value: 0.25 }],
            advice: None,
            not_inlined: Vec::new(),
            reason: Some("it has a single field".to_owned()),
            tried: Vec::new(),
        }
    }

    fn advised(name: &str, share: f64) -> StructureRow {
        let tried = |change, parts: [&[&str]; 2], time_ratio| TriedRow {
            change,
            parts: parts.map(|part| part.iter().map(|field| (*field).to_owned()).collect()).to_vec(),
            narrowed: Vec::new(),
            indexed: Vec::new(),
            bit_fields: Vec::new(),
            part_bytes: vec![8, 8],
            is_pool: false,
            time_ratio,
        };
        let alone =
            |from| NewLayout { bytes: 8, fields: vec![PlacedField { from, offset: 0, bytes: 8 }], pointer_at: None };
        let split = tried("split", [&["x"], &["y"]], 0.625);
        let advice = AdvisedRow {
            layout: split.clone(),
            title: format!("Split {name} into {{x}} {{y}}"),
            predicted: predicted_row(0.6),
            cautions: vec![Caution { what: "its size is relied on".to_owned(), at: vec!["/src/sky.c:7".to_owned()] }],
            layouts: [0, 8].map(alone).to_vec(),
            code: "struct body_x {\n    double x;\n};\n".to_owned(),
            inlined: None,
            touched_lines: (1..15).map(|line| format!("/src/sky.c:{line}")).collect(),
        };
        let hot_cold = tried("hot_cold_split", [&["x"], &["y"]], 1.25);
        StructureRow { advice: Some(advice), reason: None, tried: vec![hot_cold, split], ..structure(name, share) }
    }

    fn unstructured(data: Option<&str>, allocated_at: Option<&str>, share: f64) -> UnstructuredRow {
        UnstructuredRow {
            data: data.map(str::to_owned),
            allocated_at: allocated_at.map(str::to_owned),
            allocated_in: allocated_at.map(|_| "grow".to_owned()),
            share,
            objects: 3,
            object_bytes: 3072,
        }
    }

    fn report(structures: Vec<StructureRow>, together: Option<PredictedRow>) -> RelayoutReport {
        RelayoutReport {
            schema: RELAYOUT_SCHEMA,
            trace: a_run::trace(),
            machine: "host".to_owned(),
            accesses: 4000,
            replayed: 4000,
            last_level: Some(LastLevel { name: "L3".to_owned(), bytes: 32 << 20, accessed_bytes: None }),
            other_share: 0.0,
            unknown_share: 1.0 - structures.iter().map(|of| of.share).sum::<f64>().min(1.0),
            unstructured: vec![
                unstructured(Some("array scores"), None, 0.0625),
                unstructured(None, Some("/src/sky.c:90"), 0.03125),
                unstructured(None, None, 0.0078125),
            ],
            structures,
            loops: Vec::new(),
            prefetches: PrefetchesReport::default(),
            together,
            large_pages: None,
            memory_nodes: None,
            patch: None,
        }
    }

    /// One that is advised, and one that is left alone.
    pub(crate) fn two_structures() -> RelayoutReport {
        report(vec![advised("struct body", 0.5), structure("struct one", 0.125)], Some(predicted_row(0.6)))
    }

    pub(super) fn text(report: &RelayoutReport) -> String {
        let mut out = String::new();
        relayout(&mut out, report, Path::new("/src/moon")).unwrap();
        a_run::unstyled(&out)
    }

    #[test]
    fn what_is_advised_is_told_with_what_was_tried() {
        let all = vec![advised("struct body", 0.5), advised("struct star", 0.25), structure("struct one", 0.125)];
        insta::assert_snapshot!(text(&report(all, Some(predicted_row(0.3)))));
    }

    /// Of use beside the advice, and of none.
    #[test]
    fn large_pages_are_advised_where_they_gain() {
        let body = vec![advised("struct body", 0.5)];
        let of = |is_advised, with_advised| {
            let pages = LargePagesRow { is_advised, alone: predicted_row(0.8), with_advised };
            text(&RelayoutReport { large_pages: Some(pages), ..report(body.clone(), None) })
        };
        let gained = of(true, Some(predicted_row(0.5)));
        let said = gained.split("LARGE PAGES\n").nth(1).unwrap();
        assert!(said.starts_with("  Put memory on pages of 2 MiB. Predicted: −20.0 % run time"), "{said}");
        assert!(
            said.contains("−50.0 %, of the program as it is, too.") && said.contains("glibc.malloc.hugetlb=1"),
            "{said}"
        );
        let none = of(false, None);
        assert!(
            none.contains("Pages of 2 MiB do not gain 5 % of the time, or 2 % for sure.") && !none.contains("madvise"),
            "{none}"
        );
    }

    #[test]
    fn memory_nodes_are_told_with_the_data() {
        let of = |interleaved, used| {
            let memory_nodes = Some(crate::relayout::memory_nodes::tests::nodes(interleaved, used));
            let all = text(&RelayoutReport { memory_nodes, ..report(vec![structure("struct one", 0.125)], None) });
            let (_, said) = all.split_once("MEMORY NODES\n").unwrap();
            said.split_once("\n\n").unwrap().0.to_owned()
        };
        insta::assert_snapshot!([of(90.0, 60.0), of(62.0, 60.0), of(120.0, 99.0)].join("\n---\n"));
    }

    #[test]
    fn windows_are_told() {
        let text = text(&RelayoutReport { replayed: 1000, ..report(vec![advised("struct body", 0.5)], None) });
        assert!(
            text.contains("4,000 accesses, 1,000 of them in windows over the whole run, replayed through host"),
            "{text}"
        );
        assert!(text.contains("by replay of these accesses."), "{text}");
    }

    #[test]
    fn data_that_fits_the_caches_is_told() {
        let last_level = |accessed_bytes| Some(LastLevel { name: "L3".to_owned(), bytes: 32 << 20, accessed_bytes });
        let all = vec![structure("struct one", 0.875)];
        let small = text(&RelayoutReport { last_level: last_level(Some(24 << 20)), ..report(all.clone(), None) });
        let told = "layout\nAll data that was accessed (24.0 MiB) fits L3 (32.0 MiB), so memory is waited for at first accesses\n  \
                    mostly: trace a larger input, or see by --machine measured how much of it is to be had here.\n";
        assert!(small.contains(told), "{small}");
        for larger in [last_level(None), None] {
            let larger = text(&RelayoutReport { last_level: larger, ..report(all.clone(), None) });
            assert!(!larger.contains("All data that was accessed"), "{larger}");
        }
    }

    #[test]
    fn what_is_enough_is_what_is_asked_for() {
        let [surely, else_] = [WORTH_IT, WORTH_A_RISK].map(|part| format!("{:.0} %", 100.0 * part));
        assert_eq!(ENOUGH, format!("{else_} of the time, or {surely} for sure"));
    }

    #[test]
    fn where_nothing_is_advised_it_is_said_why() {
        let text = text(&report(vec![structure("struct one", 0.875)], None));
        assert!(text.contains(&format!("\nADVICE\n  {NOTHING}\n")), "{text}");
        assert!(text.contains("\nLEAVE ALONE\n  struct one (87.5 % of the time): it has a single field.\n"), "{text}");
    }

    #[test]
    fn files_are_told_as_they_are_seen_from_here() {
        let mut out = String::new();
        relayout(&mut out, &report(vec![advised("struct body", 0.5)], None), Path::new("/src")).unwrap();
        assert!(out.contains("Lines that touch fields that move: sky.c:1, sky.c:2,"), "{out}");
        assert!(
            out.contains("allocated at sky.c:12") && out.contains("Mind that its size is relied on at sky.c:7."),
            "{out}"
        );
        assert!(report(vec![advised("struct body", 0.5)], None).json().contains("is relied on at /src/sky.c:7\""));
    }

    #[test]
    fn it_is_said_how_a_patch_is_applied() {
        let row = |structure: &str, refused: Option<&str>| PatchedRow {
            structure: structure.to_owned(),
            refused: refused.map(str::to_owned),
        };
        let rows = vec![row("struct body", None), row("struct star", Some("sky.c:12: all of it is copied"))];
        let patch = PatchReport {
            file: Some("sky change.diff".to_owned()),
            directory: "/src/sky".to_owned(),
            files: 2,
            structures: rows,
        };
        let both = vec![advised("struct body", 0.5), advised("struct star", 0.25)];
        let text = text(&RelayoutReport { patch: Some(patch), ..report(both, None) });
        let expected = "\nPATCH\n  Of layouts those were tried that can be patched; there may be better ones without --patch.\n  \
                        struct body: patched.\n  struct star: not patched. sky.c:12: all of it is copied.\n  \
                        2 sources changed, which clang takes; nothing was run. To apply it:\n      \
                        patch -p1 -d /src/sky < 'sky change.diff'\n";
        assert!(text.contains(expected), "{text}");
    }
}
