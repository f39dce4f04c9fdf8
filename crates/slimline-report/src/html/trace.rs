//! What a trace tells as a page: an overview, and a part for each analysis of it, of one as well as of all. Each part has a module.

mod advice;
mod caches;
mod extents;
mod lines;
mod overview;
mod placement;
mod reuse;
mod sharing;

use std::collections::HashMap;
use std::fmt::{self, Write};

use slimline_trace::escape::command_line;

use super::page::{self, Escaped};
use crate::full_trace::TraceReport;
use crate::histogram::HistogramReport;
use crate::placement::PlacementReport;
use crate::relayout::RelayoutReport;
use crate::reuse::ReuseReport;
use crate::sharing::SharingReport;
use crate::simulation::{AccessTrace, SimulationReport};
use crate::source::Source;

/// What an analysis found.
#[derive(Clone, Copy, Debug)]
pub enum Finding<'a> {
    /// Which layouts structures should have.
    Advice(&'a RelayoutReport),
    /// What caches, TLBs and memories did.
    Caches(&'a SimulationReport),
    /// How far apart accesses to the same lines are.
    Reuse(&'a ReuseReport),
    /// What threads share.
    Sharing(&'a SharingReport),
    /// Where in data it is accessed.
    Extents(&'a HistogramReport),
    /// What to place in a faster memory.
    Placement(&'a PlacementReport),
    /// Nothing, for this reason.
    Untold(Analysis, &'a str),
}

/// Analyses of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analysis {
    /// Layouts of structures.
    Advice,
    /// Simulated machines.
    Caches,
    /// Reuse.
    Reuse,
    /// Sharing by threads.
    Sharing,
    /// Histograms over data.
    Extents,
    /// Placement in memories.
    Placement,
}

impl Analysis {
    fn part(self) -> page::Part {
        match self {
            Self::Advice => ("advice", "Advice"),
            Self::Caches => ("caches", "Caches"),
            Self::Reuse => ("reuse", "Reuse"),
            Self::Sharing => ("sharing", "Sharing"),
            Self::Extents => ("extents", "Within data"),
            Self::Placement => ("placement", "Placement"),
        }
    }
}

impl<'a> Finding<'a> {
    fn analysis(&self) -> Analysis {
        match self {
            Self::Advice(_) => Analysis::Advice,
            Self::Caches(_) => Analysis::Caches,
            Self::Reuse(_) => Analysis::Reuse,
            Self::Sharing(_) => Analysis::Sharing,
            Self::Extents(_) => Analysis::Extents,
            Self::Placement(_) => Analysis::Placement,
            Self::Untold(analysis, _) => *analysis,
        }
    }

    /// Parts of the page that tell of it.
    fn parts(&self) -> Vec<page::Part> {
        match self {
            Self::Caches(_) => vec![self.analysis().part(), FIELDS, SOURCE],
            _ => vec![self.analysis().part()],
        }
    }

    /// What it was made of.
    fn trace(&self) -> Option<&'a AccessTrace> {
        match self {
            Self::Advice(report) => Some(&report.trace),
            Self::Caches(report) => Some(&report.trace),
            Self::Reuse(report) => Some(&report.trace),
            Self::Sharing(report) => Some(&report.trace),
            Self::Extents(report) => Some(&report.trace),
            Self::Placement(report) => Some(&report.trace),
            Self::Untold(..) => None,
        }
    }

    /// Machines that it is about.
    fn machines(&self) -> Vec<&'a str> {
        match self {
            Self::Advice(report) => vec![&report.machine],
            Self::Caches(report) => report.machines.iter().map(|machine| machine.name.as_str()).collect(),
            Self::Reuse(report) => vec![&report.machine],
            Self::Sharing(report) => vec![&report.machine],
            Self::Extents(report) => vec![&report.machine],
            Self::Placement(report) => vec![&report.machine],
            Self::Untold(..) => Vec::new(),
        }
    }
}

const OVERVIEW: page::Part = ("overview", "Overview");
/// Of what caches did, by lines of the source.
const FIELDS: page::Part = ("fields", "Lines and fields");
const SOURCE: page::Part = ("source", "Source");

/// What the page is made of.
struct Page<'a> {
    trace: &'a AccessTrace,
    counts: Option<&'a TraceReport>,
    findings: &'a [Finding<'a>],
}

/// The source files that [`trace`] shows lines of, costliest first, as the compilers of that trace's code were told them.
pub fn traced_source_files<'a>(findings: &[Finding<'a>]) -> Vec<(&'a str, &'a AccessTrace)> {
    let of = |finding: &Finding<'a>| match *finding {
        Finding::Caches(report) => lines::files(report).into_iter().map(|file| (file, &report.trace)).collect(),
        _ => Vec::new(),
    };
    findings.iter().flat_map(of).collect()
}

/// Writes the page of what was found of a trace, each in a part of its own, with counts of all accesses where these were taken, and the files of
/// `sources` as annotated source; [`traced_source_files`] says which it asks for.
///
/// # Errors
/// As `out`.
pub fn trace(
    out: &mut impl Write,
    trace: &AccessTrace,
    counts: Option<&TraceReport>,
    findings: &[Finding<'_>],
    sources: &HashMap<String, Source>,
) -> fmt::Result {
    let page = Page { trace, counts, findings };
    let command = command_line(&trace.command);
    let parts: Vec<page::Part> =
        [OVERVIEW].into_iter().chain(findings.iter().flat_map(|finding| finding.parts())).collect();
    let title = if command.is_empty() { &trace.file } else { &command };
    page::begin_parts(out, title, &parts, |out| overview::figures(out, &page))?;
    page::part(out, OVERVIEW, |out| overview::overview(out, &page))?;
    for finding in findings {
        page::part(out, finding.analysis().part(), |out| match finding {
            Finding::Advice(report) => advice::cards(out, report),
            Finding::Caches(report) => caches::machines(out, report),
            Finding::Reuse(report) => reuse::reuse(out, report),
            Finding::Sharing(report) => sharing::sharing(out, report),
            Finding::Extents(report) => extents::extents(out, report),
            Finding::Placement(report) => placement::placement(out, report),
            Finding::Untold(_, why) => writeln!(out, "<p>{}</p>", Escaped(why)),
        })?;
        if let Finding::Caches(report) = finding {
            page::part(out, FIELDS, |out| lines::by_fields(out, report))?;
            page::part(out, SOURCE, |out| lines::annotated(out, report, sources))?;
        }
    }
    page::end_parts(out)
}

/// Paragraphs of words.
fn paragraphs(out: &mut impl Write, remarks: &[String]) -> fmt::Result {
    remarks.iter().try_for_each(|remark| writeln!(out, "<p class=\"faint\">{}</p>", Escaped(remark)))
}

#[cfg(test)]
mod tests {
    use slimline_analyze::reuse::findings;
    use slimline_analyze::sharing;
    use slimline_simulate::access::Consumer as _;
    use slimline_simulate::extents::Extents;
    use slimline_simulate::locality::Locality;
    use slimline_simulate::sharing::LineFinder;
    use slimline_simulate::simulation::{Options, Outcome, Simulation};

    use super::*;
    use crate::relayout::Caution;
    use crate::simulation::UseRow;
    use crate::strict;
    use crate::text::a_run;
    use crate::text::relayout::inlining::tests::two_with_pointers;
    use crate::text::relayout::loops::tests::two_loops;
    use crate::text::relayout::prefetches::tests::two_loads;
    use crate::text::relayout::tests::two_structures;

    fn simulated(asked: &Options) -> Outcome {
        let mut simulation = Simulation::new(&a_run::machine(), asked).unwrap();
        simulation.take(&a_run::accesses());
        simulation.finish()
    }

    fn caches(trace: AccessTrace) -> SimulationReport {
        let asked = Options { classes: true, used_bytes: true, ..Options::default() };
        SimulationReport::new(trace, &[simulated(&asked)], &a_run::origins(), &asked)
    }

    fn reuse() -> ReuseReport {
        let mut locality = Locality::new(&a_run::machine()).unwrap();
        locality.take(&a_run::accesses());
        let (found, origins) = (locality.finish().unwrap(), a_run::origins());
        ReuseReport::exact(a_run::trace(), &found, &findings(&found, &origins), &origins)
    }

    fn sharing() -> SharingReport {
        let (machine, origins) = (a_run::machine(), a_run::origins());
        let mut finder = LineFinder::new(machine.line_bytes());
        finder.take(&a_run::accesses());
        let mut lines = finder.finish(&machine, 3).unwrap();
        lines.take(&a_run::accesses());
        let found = sharing::findings(&lines.lines(), lines.line_bytes(), &origins);
        SharingReport::new(a_run::trace(), &machine.name, (64, 0, None), &found, &origins)
    }

    fn extents() -> HistogramReport {
        let origins = a_run::origins_in_parts();
        let mut simulation = Simulation::new(&a_run::machine(), &Options::default()).unwrap();
        let mut extents = Extents::handing_on(&mut simulation);
        extents.take(&a_run::in_parts(a_run::accesses()));
        let extents = extents.finish();
        HistogramReport::new(a_run::trace(), &simulation.finish(), (&origins, &extents), &[])
    }

    fn page(of: &AccessTrace, findings: &[Finding<'_>]) -> String {
        let mut out = String::new();
        trace(&mut out, of, None, findings, &HashMap::new()).unwrap();
        out
    }

    fn part<'a>(page: &'a str, id: &str) -> &'a str {
        let (_, part) = page.split_once(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{id}: {page}"));
        part.split_once("</section>").unwrap().0
    }

    #[test]
    fn one_analysis_is_a_page() {
        let page = page(&a_run::trace(), &[Finding::Advice(&two_structures())]);
        assert_eq!(page.matches("<h2").count(), 2);
        assert!(page.contains("<li>x–y 0.25</li>") && page.contains("<li><code>{y}</code></li>"), "{page}");
        let title = "<a href=\"#advice-1\">Split struct body into {x} {y}</a>: −40.0 % run time predicted";
        assert!(part(&page, "overview").contains(title), "{page}");
        let advice = part(&page, "advice");
        let gain = "<strong>−40.0 % run time</strong> <span>predicted, −70.0 % to 0</span>";
        let lines = "<dt>misses of the first level</dt><dd>−75.0 %</dd><dt>lines from memory</dt><dd>–</dd>";
        assert!(advice.contains(gain) && advice.contains(lines), "{advice}");
        // As it is and each part of what is advised, then what is left alone as it is.
        let maps: Vec<&str> =
            advice.split("<figcaption>").skip(1).map(|map| map.split(" <span").next().unwrap()).collect();
        let body = [
            "struct body as it is, by visits",
            "As advised, part 1 of 2, by visits",
            "As advised, part 2 of 2, by visits",
        ];
        assert_eq!(maps, [&body[..], &["struct one as it is, by visits"]].concat());
        let row = "<th scope=\"row\">split (advised)</th><td class=\"number\" data-exact=\"0.625\">−37.5 %</td>";
        assert!(advice.contains(row), "{advice}");
        assert!(advice.contains("<h4>struct one</h4> <span class=\"share\">12.5 %</span>"), "{advice}");
    }

    #[test]
    fn owners_of_what_is_held_by_value_are_told() {
        let page = page(&a_run::trace(), &[Finding::Advice(&two_with_pointers())]);
        let advice = part(&page, "advice");
        assert!(advice.contains("990 are found by the x of one struct body each"), "{advice}");
        assert!(advice.contains("<h4>Lines that load or store the pointer</h4>"), "{advice}");
        assert!(
            advice.contains("<p>struct one.x: struct part stays behind it: 7 of 1000 objects are shared.</p>"),
            "{advice}"
        );
    }

    #[test]
    fn orders_of_loops_are_cards_too() {
        let page = page(&a_run::trace(), &[Finding::Advice(&two_loops())]);
        let title =
            "<a href=\"#advice-2\">Tile the loops of turn at sky.c:29 and 30 by 16</a>: −50.0 % run time predicted";
        assert!(part(&page, "overview").contains(title), "{page}");
        let advice = part(&page, "advice");
        assert!(
            advice.contains("<article class=\"card\" id=\"advice-2\"") && advice.contains("tile 16 (advised)"),
            "{advice}"
        );
        assert!(advice.contains("<li>sums is changed by 8 bytes a time around, once</li>"), "{advice}");
        assert!(advice.contains("<h4>The loops around /src/moon/sky.c:31</h4>"), "{advice}");
    }

    #[test]
    fn prefetches_are_cards_too() {
        let page = page(&a_run::trace(), &[Finding::Advice(&two_loads())]);
        let title =
            "<a href=\"#advice-2\">Prefetch stars[near[i]] 8 steps ahead at sky.c:31</a>: −50.0 % run time predicted";
        assert!(part(&page, "overview").contains(title), "{page}");
        let advice = part(&page, "advice");
        assert!(
            advice.contains("<article class=\"card\" id=\"advice-2\"") && advice.contains("8 steps (advised)"),
            "{advice}"
        );
        assert!(advice.contains("<h4>Loads of moons</h4>") && advice.contains("<p>Chase through node at"), "{advice}");
    }

    /// What all say of the trace is said once, and what one could not tell in its part.
    #[test]
    fn all_analyses_are_a_page() {
        let (caches, reuse, sharing, extents) = (caches(a_run::trace()), reuse(), sharing(), extents());
        let findings = [
            Finding::Caches(&caches),
            Finding::Reuse(&reuse),
            Finding::Sharing(&sharing),
            Finding::Extents(&extents),
            Finding::Untold(Analysis::Placement, "no memory is <fast>"),
        ];
        let page = page(&a_run::trace(), &findings);
        assert_eq!(page.matches("<li>3 blocks were freed whose allocation was not traced</li>").count(), 1);
        assert!(part(&page, "placement").contains("<p>no memory is &lt;fast&gt;</p>"));
        for id in ["overview", "caches", "reuse", "sharing", "extents", "placement"] {
            assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id}");
        }
        // The bar of data, with what is of none that is known.
        let cycles = "aria-label=\"Shares of the cycles: CDF, filter.c:12 92.2 %, counts 6.7 %, not known 1.2 %\"";
        assert!(part(&page, "overview").contains(cycles), "{page}");
        let misses = "<th scope=\"row\">L1</th><td class=\"number\" data-exact=\"319\">319</td>\
                      <td class=\"bar\"><div class=\"stack small\" role=\"img\" aria-label=\"why: first use 8.5 %, capacity 79.6 %, conflict 0, \
                      shared 0, falsely shared 11.9 %\">";
        assert!(part(&page, "caches").contains(misses), "{}", part(&page, "caches"));
        let curves = part(&page, "reuse");
        // The machine's caches are marked; what is told in the picture is in the table.
        assert!(curves.contains(">L1 256 B</text>") && curves.contains(">15.0 %</td>"), "{curves}");
        let fix = "<p class=\"fix\">threads&#39; elements are 8 bytes apart: pad each to 64 bytes (alignas(64) on its type)</p>";
        assert!(part(&page, "sharing").contains(fix), "{}", part(&page, "sharing"));
        let row = "<th scope=\"row\" class=\"number\" data-exact=\"64\">64</th><td class=\"number\" data-exact=\"320\">320</td>";
        assert!(part(&page, "extents").contains(row), "{}", part(&page, "extents"));
    }

    /// Lines with what they cost and touch, their source where there is some, and the fields of data that has several.
    #[test]
    fn lines_have_numbers_source_and_fields() {
        let mut caches = caches(a_run::trace());
        let by = caches.machines[0].by.as_mut().unwrap();
        assert!((by.uses.iter().map(|of| of.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(
            by.uses.iter().map(|of| of.accesses).sum::<u64>(),
            by.data.iter().map(|row| row.counts.accesses).sum::<u64>()
        );
        let of = by.uses[0].clone();
        let (file, line) = (of.file.clone().unwrap(), of.line.unwrap());
        by.uses[0].field = Some("body.x".to_owned());
        let half =
            UseRow { field: Some("body.y".to_owned()), share: of.share / 2.0, line: Some(line + 1), ..of.clone() };
        by.uses.push(half);
        let findings = [Finding::Caches(&caches)];
        assert!(traced_source_files(&findings).iter().any(|(of, _)| *of == file));
        let text: String = (1..=line + 9).map(|line| format!("line <{line}>\n")).collect();
        let sources = HashMap::from([(file, Source::Text { text, is_newer: true })]);
        let mut page = String::new();
        trace(&mut page, &a_run::trace(), None, &findings, &sources).unwrap();
        let source = part(&page, "source");
        assert!(source.contains(&format!("<code>line &lt;{line}&gt;</code>")) && source.contains(" {x}"), "{source}");
        assert!(source.contains("It was changed after the program was built"), "{source}");
        let heads = ["line", "accesses", "L1 misses", "L2 misses", "cycles", "source", "touches"];
        let told: Vec<&str> = source.split("<th scope=\"col\"").skip(1).take(heads.len()).collect();
        for (told, head) in told.iter().zip(heads) {
            assert!(told.contains(&format!(">{head}</th>")), "{head}: {told}");
        }
        let fields = part(&page, "fields");
        for column in ["title=\"body.x\">x</th>", "title=\"body.y\">y</th>"] {
            assert!(fields.contains(column), "{column}: {fields}");
        }
        assert!(fields.contains("A trace tells which line makes an access, not which loop that is in."));
        // Nothing is known of a file that is not there but its lines.
        let mut page = String::new();
        trace(&mut page, &a_run::trace(), None, &findings, &HashMap::new()).unwrap();
        assert!(part(&page, "source").contains("It was not read."));
    }

    #[test]
    fn names_of_programs_do_nothing() {
        const HOSTILE: &str = "</td></style></script><script>alert('1')</script>\" onmouseover=\"x\0\u{1b}[2J\u{202e}";
        let name = || HOSTILE.to_owned();
        let of = AccessTrace { file: name(), command: vec![name()], missing: vec![name()], ..a_run::trace() };
        let (mut advice, mut caches, mut reuse, mut sharing, mut extents) =
            (two_structures(), caches(of.clone()), reuse(), sharing(), extents());
        for structure in &mut advice.structures {
            (structure.name, structure.reason, structure.allocated_at) = (name(), Some(name()), Some(name()));
            structure.fields.iter_mut().for_each(|field| field.name = name());
            structure.patterns.iter_mut().for_each(|pattern| pattern.fields = vec![name()]);
            structure.tried.iter_mut().for_each(|tried| tried.parts = vec![vec![name()]]);
            if let Some(advice) = &mut structure.advice {
                (advice.title, advice.code) = (name(), name());
                advice.cautions = vec![Caution { what: name(), at: vec![name()] }];
                advice.touched_lines = vec![name()];
            }
        }
        (advice.machine, reuse.machine, sharing.machine, extents.machine) = (name(), name(), name(), name());
        for machine in &mut caches.machines {
            machine.name = name();
            machine.caches.iter_mut().for_each(|cache| cache.name = name());
            let Some(by) = &mut machine.by else { panic!() };
            for rows in [&mut by.data, &mut by.fields, &mut by.functions, &mut by.lines, &mut by.threads] {
                for row in rows {
                    row.name = Some(name());
                    row.counts.caches.iter_mut().for_each(|cache| cache.name = name());
                }
            }
            by.offenders.iter_mut().for_each(|of| (of.variable, of.file) = (Some(name()), Some(name())));
            for of in &mut by.uses {
                (of.file, of.function, of.field) = (Some(name()), Some(name()), Some(name()));
            }
        }
        reuse.caches.iter_mut().for_each(|cache| cache.name = name());
        for data in &mut reuse.data {
            data.name = Some(name());
            data.pairs.iter_mut().for_each(|pair| (pair.file, pair.use_file) = (Some(name()), Some(name())));
        }
        for side in sharing.falsely_shared.iter_mut().flat_map(|row| &mut row.sides) {
            (side.name.variable, side.name.field) = (Some(name()), Some(name()));
            side.code.iter_mut().for_each(|code| code.file = Some(name()));
        }
        extents.caches.iter_mut().for_each(|cache| *cache = name());
        extents.data.iter_mut().for_each(|data| data.name = Some(name()));
        let findings = [
            Finding::Advice(&advice),
            Finding::Caches(&caches),
            Finding::Reuse(&reuse),
            Finding::Sharing(&sharing),
            Finding::Extents(&extents),
            Finding::Untold(Analysis::Placement, HOSTILE),
        ];
        let page = page(&of, &findings);
        strict::html(&page);
        assert!(page.matches("alert(").count() > 100);
        assert_eq!((page.matches("<script>").count(), page.matches("</script>").count()), (1, 1));
        assert!(!page.contains("onmouseover=\"") && !page.contains("alert('1')"));
        assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    }
}
