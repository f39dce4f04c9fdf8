//! The report of a session as a page: what is in it, and what a browser makes of it.

#[path = "../art/mod.rs"]
mod art;
#[path = "../browser/mod.rs"]
mod browser;

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use art::art;
use browser::{BROKEN, Browser, HIDDEN_PARTS, LEVELS, PALE, View, WIDE};
use slimline_report::html::{self, source_files};
use slimline_report::source::Source;
use slimline_report::view::*;
use slimline_trace::served::MemoryLevel;

fn page_with(report: &Report, sources: &HashMap<String, Source>) -> String {
    let mut out = String::new();
    html::report(&mut out, report, sources).unwrap();
    out
}

fn page(report: &Report) -> String {
    page_with(report, &HashMap::new())
}

/// A source of 1300 lines that say which they are.
fn scanner() -> HashMap<String, Source> {
    let text: String = (1..=1300).map(|line| format!("\tline_{line} <&>\n")).collect();
    HashMap::from([("/src/art/scanner.c".to_owned(), Source::Text { text, is_newer: false })])
}

/// The part of a page under a heading of the second level.
fn part<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, part) = page.split_once(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{id}"));
    part.split_once("</section>").unwrap().0
}

#[test]
fn structures_advice_and_source() {
    let page = page_with(&art(), &scanner());
    for id in ["structures", "advice", "source"] {
        insta::assert_snapshot!(id, part(&page, id));
    }
}

#[test]
fn the_same_report_is_the_same_page() {
    assert_eq!(page_with(&art(), &scanner()), page_with(&art(), &scanner()));
}

#[test]
fn a_report_without_samples_says_why() {
    let mut report = art();
    report.session.samples = 0;
    report.session.no_samples_because = Some("it ran for 2 ms".to_owned());
    let page = page(&report);
    assert!(page.contains("<dt>why</dt><dd>it ran for 2 ms</dd>"));
    assert_eq!(page.matches("<h2").count(), 1);
}

#[test]
fn shares_of_the_bar_sum_to_one_with_what_is_unattributed() {
    let mut report = art();
    // Twenty more than the bar has parts for.
    let rest: Vec<Group> = (0..20)
        .map(|number| Group { id: 10 + number, name: format!("part {number}"), share: 0.005, ..Group::default() })
        .collect();
    report.groups[0].share -= 0.1;
    report.groups.extend(rest);
    let page = page(&report);
    let bar = page.split_once("<div class=\"stack large\"").unwrap().1.split_once("</div>").unwrap().0;
    let widths = bar.split("width:").skip(1).map(|part| part.split_once('%').unwrap().0.parse::<f64>().unwrap());
    assert!((widths.sum::<f64>() - 100.0).abs() < 0.01, "{bar}");
    assert!(bar.contains("20 more 10.0 %") && bar.contains("unattributed 19.6 %"), "{bar}");
}

#[test]
fn a_source_that_is_newer_or_missing_is_told() {
    let report = art();
    assert_eq!(source_files(&report), [("/src/art/scanner.c".to_owned(), "/src/art/art".to_owned())]);
    let with = |source| {
        let page = page_with(&report, &HashMap::from([("/src/art/scanner.c".to_owned(), source)]));
        part(&page, "source").to_owned()
    };
    let newer = with(Source::Text { text: "x\n".repeat(1300), is_newer: true });
    assert!(
        newer.contains("It was changed after the program was built") && newer.contains("<code>x</code>"),
        "{newer}"
    );
    let missing = with(Source::Unreadable("No such file or directory".to_owned()));
    assert!(missing.contains("It could not be read: No such file or directory."), "{missing}");
    // Lines that cost something are told all the same; those in between are not known.
    assert!(missing.contains(">616</th>") && !missing.contains(">615</th>"), "{missing}");
}

/// What hardware tells takes the place of what bursts show.
#[test]
fn how_samples_were_served_is_told() {
    let mut report = art();
    let by = |level, share| ServedBy { level, share, latency_share: share };
    let latency = Latency { samples: 90, share: 0.7, mean_cycles: 212.4, ..Latency::default() };
    let levels = vec![by(MemoryLevel::L1, 0.25), by(MemoryLevel::LocalDram, 0.75)];
    let served = Served { samples: 100, latency: Some(latency), levels, ..Served::default() };
    report.session.served = Some(served.clone());
    report.groups[0].served = Some(served.clone());
    report.groups[0].fields[2].served = Some(served);
    let page = page(&report);
    let structures = part(&page, "structures");
    assert!(structures.contains("<dt>served by</dt><dd>DRAM 75 %, L1 25 %</dd>"), "{structures}");
    let row = structures.lines().find(|line| line.starts_with("<tr><th scope=\"row\">P</th>")).unwrap();
    let cells = ["data-exact=\"100\">100</td>", "data-exact=\"212.4\">212</td>", "<td>DRAM 75 %, L1 25 %</td>"];
    assert!(cells.iter().all(|cell| row.contains(cell)), "{row}");
}

/// A structure of 4 KiB with one hot field in its middle, a hole and a field across two lines.
#[test]
fn lines_of_large_structures_that_tell_the_same_are_one_row() {
    let mut report = art();
    let field =
        |offset, bytes, name: &str, share| Field { offset, bytes, name: name.to_owned(), share, ..Field::default() };
    let group = &mut report.groups[0];
    group.element_bytes = Some(4096);
    group.fields = vec![field(0, 2044, "before", 0.0), field(2044, 8, "across", 1.0), field(2056, 2040, "after", 0.0)];
    group.layout.as_mut().unwrap().members = vec![LayoutMember { offset: 2052, bytes: 4, ..LayoutMember::default() }];
    group.affinity.clear();
    report.advice.clear();
    let page = page(&report);
    let map = page.split_once("<figure class=\"map\">").unwrap().1.split_once("</figure>").unwrap().0;
    let cold: Vec<&str> = map.lines().filter(|line| line.contains("class=\"alike")).collect();
    assert!(cold.len() == 2 && cold[0].contains("lines 0–30") && cold[1].contains("lines 33–63"), "{map}");
    assert_eq!(map.matches("<div class=\"line\">").count(), 2, "{map}");
    assert_eq!(map.matches("class=\"heat-5 crossing\"").count(), 2, "{map}");
    assert!(map.contains("title=\"hole: offset 2052, 4 bytes\""), "{map}");
    // So are those that a hot field covers.
    report.groups[0].fields = vec![field(0, 8, "before", 0.1), field(8, 4088, "long", 0.9)];
    let page = page_with(&report, &HashMap::new());
    let map = page.split_once("<figure class=\"map\">").unwrap().1.split_once("</figure>").unwrap().0;
    let long = "<p class=\"alike heat-5\">lines 1–63: <span class=\"name\">long</span> 90.0 %</p>";
    assert!(map.contains(long) && map.matches("<div class=\"line\">").count() == 1, "{map}");
}

#[test]
fn a_page_is_for_all_who_read_it() {
    let Some(mut browser) = Browser::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("page.html");
    fs::write(&file, page_with(&art(), &scanner())).unwrap();
    for is_dark in [false, true] {
        for width in [1400, 420] {
            browser.open(&file, View { width, is_dark, has_scripts: true });
            assert_eq!(browser.evaluate(PALE), serde_json::json!([]), "dark: {is_dark}");
            // Tables are moved within themselves, the page as a whole is not.
            assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, "{width}");
            assert_eq!(browser.evaluate(HIDDEN_PARTS), serde_json::json!([]), "{width}");
        }
    }
    assert_eq!(browser.evaluate(BROKEN), serde_json::json!([]));
    assert_eq!(browser.evaluate(LEVELS), true);
    assert_eq!(browser.evaluate("['header', 'nav', 'main'].every(name => document.querySelector(name))"), true);
    // The first that a keyboard reaches leads past what is on top, and is seen.
    browser.press("Tab");
    let focused = "document.activeElement.textContent + document.activeElement.getBoundingClientRect().left";
    assert_eq!(browser.evaluate(focused), "To the report0");
    browser.press("Enter");
    assert_eq!(browser.evaluate("location.hash"), "#main");
    assert!(browser.screenshot().starts_with("iVBORw0KGgo"), "no PNG");
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);
}

const HOSTILE: &str = "</td></style></script><script>alert('1')</script>\" onmouseover=\"x\0\u{1b}[2J\u{202e}";

fn hostile() -> (Report, HashMap<String, Source>) {
    let name = || HOSTILE.to_owned();
    let mut report = art();
    report.session.command.push(name());
    report.session.notes.push(name());
    report.session.trigger = name();
    report.session.unnamed[0].module = name();
    report.session.collector = name();
    for group in &mut report.groups {
        (group.name, group.kind, group.type_name) = (name(), name(), Some(name()));
        group.fields.iter_mut().for_each(|field| field.name = name());
        if let Some(place) = &mut group.allocated_at {
            *place = Place { function: name(), file: Some(name()), line: 1, stack: vec![name()] };
        }
    }
    for found in &mut report.loops {
        (found.function, found.file, found.module_path) = (name(), Some(name()), name());
    }
    report.lines.iter_mut().for_each(|line| line.file = name());
    for row in &mut report.breakdowns.functions {
        (row.name, row.detail) = (name(), name());
    }
    for row in &mut report.coverage.missing {
        (row.reason, row.examples) =
            (name(), vec![MissingUse { function: name(), place: name(), group: name(), ..MissingUse::default() }]);
    }
    for advice in &mut report.advice {
        (advice.title, advice.why, advice.code) = (name(), name(), name());
        advice.touched_lines = vec![name()];
        advice.declared_at = Some(Position { file: name(), line: 1 });
    }
    (report, HashMap::from([(name(), Source::Text { text: format!("{HOSTILE}\n").repeat(700), is_newer: false })]))
}

#[test]
fn names_of_programs_do_nothing() {
    let (mut report, sources) = hostile();
    // So many that most are data.
    let group = Group { id: 9, name: HOSTILE.to_owned(), share: 1e-6, ..Group::default() };
    report.groups.extend(vec![group; 400]);
    let page = page_with(&report, &sources);
    assert!(page.matches("alert(").count() > 500);
    // The script, and the rows as data.
    assert_eq!((page.matches("<script>").count(), page.matches("<script type=\"application/json\">").count()), (1, 1));
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("onmouseover=\"") && !page.contains("alert('1')"));
    assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    let Some(mut browser) = Browser::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("page.html");
    fs::write(&file, page).unwrap();
    browser.open(&file, WIDE);
    browser.evaluate("document.querySelector('.windowed').scrollTop = 1e7, new Promise(requestAnimationFrame)");
    assert_eq!(browser.evaluate("document.querySelectorAll('[onmouseover]').length + document.scripts.length"), 1);
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);
}

/// 100,000 rows: `cargo nextest run -p slimline-report --no-capture -E 'test(rows_stay_fluid)'` says how long it takes.
#[test]
fn a_hundred_thousand_rows_stay_fluid() {
    let mut report = art();
    let group = |id: u32| Group {
        id,
        name: format!("data_of_{id}"),
        kind: "heap".to_owned(),
        share: 1e-9,
        blocks: u64::from(id),
        bytes: 64 * u64::from(id),
        ..Group::default()
    };
    report.groups.extend((10..100_008).map(group));
    let page = page(&report);
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("page.html");
    fs::write(&file, &page).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let timed = |what: &str, browser: &mut Browser, expression: &str| {
        let begun = Instant::now();
        let value = browser.evaluate(expression);
        eprintln!("{what}: {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
        value
    };
    let begun = Instant::now();
    browser.open(&file, WIDE);
    eprintln!("{} MB opened: {:.0} ms", page.len() / 1_000_000, begun.elapsed().as_secs_f64() * 1e3);
    browser.evaluate(
        "frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
         box = document.querySelector('#data .windowed');
         table = box.querySelector('table');
         rows = () => [...table.tBodies[0].rows].filter(row => !row.matches('.space'));
         look = text => { const input = document.querySelector('#data input'); input.value = text;
           input.dispatchEvent(new Event('input')); return frame(); }",
    );
    assert_eq!(browser.evaluate("table.getAttribute('aria-rowcount')"), "100001");
    let few = |browser: &mut Browser| browser.evaluate("rows().length").as_u64().unwrap() < 200;
    assert!(few(&mut browser));
    timed("scrolled to the end", &mut browser, "box.scrollTop = box.scrollHeight; frame()");
    assert_eq!(browser.evaluate("rows().at(-1).cells[0].textContent"), "data_of_100007");
    assert_eq!(browser.evaluate("rows().at(-1).getAttribute('aria-rowindex')"), "100001");
    assert!(few(&mut browser));
    timed("filtered for the first time", &mut browser, "look('of_9999')");
    assert_eq!(browser.evaluate("rows().length"), 1 + 10);
    assert_eq!(browser.evaluate("document.querySelector('#data output').textContent"), "11 of 100,000 rows");
    timed("filtered", &mut browser, "look('of_99')");
    timed("unfiltered", &mut browser, "look('')");
    let head = |column: usize| format!("table.tHead.rows[0].cells[{column}].querySelector('button').click(); frame()");
    timed("sorted by bytes", &mut browser, &head(5));
    assert_eq!(browser.evaluate("rows()[1].cells[0].textContent"), "data_of_100007");
    assert_eq!(browser.evaluate("table.tHead.rows[0].cells[5].getAttribute('aria-sort')"), "descending");
    timed("sorted by name", &mut browser, &head(0));
    assert_eq!(browser.evaluate("rows()[0].cells[0].textContent"), "data_of_10");
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);
    // Without scripts there are rows, and how many more is said.
    browser.open(&file, View { has_scripts: false, ..WIDE });
    let text = "document.querySelector('#data').textContent.includes('99,700 more rows are drawn by JavaScript')";
    assert_eq!(browser.evaluate(text), true);
    assert_eq!(browser.evaluate("document.querySelectorAll('#data tbody tr').length"), 300);
    assert_eq!(browser.evaluate("document.querySelector('#data form').hidden"), true);
}
