//! `slimline report --format html` of sessions and traces, and `slimline demo --html`, as a browser shows them.

#[path = "../../../slimline-report/tests/browser/mod.rs"]
mod browser;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/scratch.rs"]
mod scratch;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../ends/viewers.rs"]
mod viewers;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use browser::{BROKEN, Browser, HIDDEN_PARTS, LEVELS, PALE, View, WIDE};
use scratch::skip;
use viewers::viewer;

fn slimline(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_demo_is_a_page_that_is_opened_filtered_and_clicked_through() {
    let scratch = tempfile::tempdir().unwrap();
    let told = slimline(scratch.path(), &["demo", "--keep", "kept", "--html"]).stderr;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("Open kept/slimline-demo.html in a browser"), "{told}");
    let file = scratch.path().join("kept/slimline-demo.html");
    let page = fs::read_to_string(&file).unwrap();
    let again = slimline(scratch.path(), &["report", "--format", "html", "kept/slimline.data"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), page, "the same session");
    // The source was there, and is as old as the program.
    assert!(page.contains("fn drift(") || page.contains("drift(struct body"), "{page}");
    assert!(!page.contains("could not be read") && !page.contains("was changed after"));

    let Some(mut browser) = Browser::start() else { return };
    browser.open(&file, WIDE);
    assert_eq!(browser.evaluate("document.querySelector('#data tbody th a').textContent"), "bodies");
    // Sorted by the least share, and back.
    let sort =
        "head = document.querySelectorAll('#data thead th')[1]; head.querySelector('button').click(); head.ariaSort";
    assert_eq!(browser.evaluate(sort), "descending");
    assert_eq!(browser.evaluate(sort), "ascending");
    assert_ne!(browser.evaluate("document.querySelector('#data tbody th').textContent"), "bodies");
    // To the section of the group, though it was closed, and to its advice.
    browser.evaluate("group = document.querySelector('details.group'); group.open = false; 0");
    browser.evaluate("document.querySelector('#data tbody a').focus()");
    browser.press("Enter");
    assert_eq!(browser.evaluate("group.open && group.contains(document.getElementById(location.hash.slice(1)))"), true);
    let blocks = "[...group.querySelector('.map .bytes').children].map(block => block.querySelector('.name').textContent).join()";
    let names = browser.evaluate(blocks);
    assert!(["x,y,z,vx,vy,vz,mass,id"].contains(&names.as_str().unwrap()), "{names}");
    browser.evaluate("group.querySelector('dd a').click()");
    let card = "document.getElementById(location.hash.slice(1))";
    assert_eq!(browser.evaluate(&format!("{card}.matches('article.card')")), true);
    assert_eq!(browser.evaluate(&format!("{card}.querySelector('pre').textContent.includes('struct')")), true);
    let copied = format!(
        "new Promise(done => {{ const told = {card}.querySelector('.copied');
           new MutationObserver(() => done(told.textContent)).observe(told, {{ childList: true }});
           {card}.querySelector('button.copy').click(); }})"
    );
    // Whether a page that nobody looks at may copy is the browser's to say.
    let copied = browser.evaluate(&copied);
    assert!(["Copied", "Selected: copy it by Ctrl+C"].contains(&copied.as_str().unwrap()), "{copied}");
    // Rows are looked for where there are enough of them.
    let filter = "input = document.querySelector('.filter input')";
    if browser.evaluate(&format!("Boolean({filter})")) == true {
        browser.evaluate("input.value = 'no such row'; input.dispatchEvent(new Event('input'))");
        assert_eq!(browser.evaluate("input.form.querySelector('output').textContent.startsWith('0 of ')"), true);
    }
    assert!(browser.screenshot().starts_with("iVBORw0KGgo"), "no PNG");
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);

    // Without scripts nothing is missing but buttons and fields to look for rows.
    let text = |browser: &mut Browser| browser.evaluate("document.querySelector('#structures').textContent");
    let with_scripts = text(&mut browser);
    browser.open(&file, View { has_scripts: false, is_dark: true, width: 420 });
    assert_eq!(text(&mut browser), with_scripts);
    assert_eq!(browser.evaluate("document.querySelectorAll('button, form:not([hidden])').length"), 0);
}

#[test]
fn a_page_of_each_process_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = ["report", "--format", "html", "--per-process"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_slimline")).args(arguments).current_dir(scratch.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len(), told.lines().count()), (Some(2), 0, 1), "{told}");
    assert!(told.contains("leave out --per-process"), "{told}");
}

/// Bodies of which a loop uses a quarter, and two threads whose counters are on one line.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
struct body { double x, y, z, vx, vy, vz, mass; long id; };
static struct { volatile long done[2]; } counters __attribute__((aligned(64)));
static struct body *bodies;
static void *work(void *self) {
    long half = (long)self;
    for (int pass = 0; pass < 20; pass++)
        for (int i = half * 1024; i < (half + 1) * 1024; i++) {
            bodies[i].x += bodies[i].vx;
            counters.done[half]++;
        }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    bodies = calloc(2048, sizeof *bodies);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

/// Two cores with small caches, and a fast memory that has no core.
const MACHINE: &str = r#"
name = "small"
cores = 2
cache = [
    { name = "L1", level = 1, holds = "data", size = 4096, line = 64, ways = 8, latency = 4 },
    { name = "L2", level = 2, size = 32768, line = 64, ways = 8, latency = 14, shared_by = "all" },
]
memory = [{ name = "main", cores = "all", latency = 200 }, { name = "pad", size = 16384, latency = 20 }]
"#;

/// A directory with that trace and that machine.
fn traced() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("program.c"), PROGRAM).unwrap();
    fs::write(scratch.path().join("small.toml"), MACHINE).unwrap();
    slimline(scratch.path(), &["cc", "-O2", "-g", "-pthread", "program.c", "-o", "program"]);
    slimline(scratch.path(), &["trace", "-o", "run.trace", "--", "./program"]);
    scratch
}

const PAGE: [&str; 5] = ["run.trace", "--machine", "small.toml", "--format", "html"];

fn page_of(directory: &Path, command: &str) -> String {
    let arguments = [&[command], &PAGE[..]].concat();
    String::from_utf8(slimline(directory, &arguments).stdout).unwrap()
}

#[test]
fn a_trace_is_a_page_that_is_opened_filtered_and_clicked_through() {
    let directory = traced();
    let page = page_of(directory.path(), "report");
    assert_eq!(page_of(directory.path(), "report"), page, "the same trace");
    // Each analysis by itself is the same part.
    let part = |page: &str, id: &str| {
        let (_, part) = page.split_once(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{id}"));
        part.split_once("</section>").unwrap().0.to_owned()
    };
    for (command, id) in [
        ("advise", "advice"),
        ("reuse", "reuse"),
        ("share", "sharing"),
        ("histogram", "extents"),
        ("place", "placement"),
    ] {
        assert_eq!(part(&page_of(directory.path(), command), id), part(&page, id), "{command}");
    }
    let asked = [&["simulate", "--classes", "--used-bytes"], &PAGE[..]].concat();
    let caches = String::from_utf8(slimline(directory.path(), &asked).stdout).unwrap();
    for id in ["caches", "fields", "source"] {
        assert_eq!(part(&caches, id), part(&page, id), "{id}");
    }
    let source = part(&page, "source");
    let (_, row) = source.split_once("<code>            bodies[i].x += bodies[i].vx;</code>").unwrap();
    let touches = row.split_once("</tr>").unwrap().0;
    assert!(touches.contains("<td>bodies, program.c:18 {vx x}</td>"), "{touches}");
    assert!(!source.contains("could not be read") && !source.contains("was changed after"), "{source}");
    let fields = part(&page, "fields");
    let caption = "<caption>Lines and what they use of bodies, program.c:18: shares of its cycles</caption>";
    assert!(fields.contains(caption), "{fields}");
    assert!(part(&page, "advice").contains("<li>x–vx 1.00</li>"));

    let file = directory.path().join("page.html");
    fs::write(&file, &page).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    for is_dark in [false, true] {
        for width in [1400, 420] {
            browser.open(&file, View { width, is_dark, has_scripts: true });
            assert_eq!(browser.evaluate(PALE), serde_json::json!([]), "dark: {is_dark}");
            assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, "{width}");
            assert_eq!(browser.evaluate(HIDDEN_PARTS), serde_json::json!([]), "{width}");
        }
    }
    assert_eq!(browser.evaluate(BROKEN), serde_json::json!([]));
    assert_eq!(browser.evaluate(LEVELS), true);
    // From the overview to the card of what is advised, with the structure before and after.
    browser.open(&file, WIDE);
    browser.evaluate("document.querySelector('#overview a[href^=\"#advice\"]').focus()");
    browser.press("Enter");
    browser.evaluate("card = document.getElementById(location.hash.slice(1)); 0");
    assert_eq!(browser.evaluate("card.matches('article.card')"), true);
    let first =
        "[...card.querySelectorAll('.map')].map(map => [...map.querySelectorAll('.bytes')[0].querySelectorAll('.name')]
                 .map(name => name.textContent).join())";
    let maps = browser.evaluate(first);
    assert_eq!(maps[0], "x,y,z,vx,vy,vz,mass,id");
    assert_eq!(maps[1], "x,vx", "{maps}");
    assert_eq!(browser.evaluate("card.querySelector('pre').textContent.includes('struct body')"), true);
    assert_eq!(browser.evaluate("Boolean(card.querySelector('button.copy'))"), true);
    // Rows are sorted, and looked for where there are enough of them.
    let sort = "head = document.querySelectorAll('#caches .searched thead th.number')[0]; head.querySelector('button').click(); head.ariaSort";
    assert_eq!(browser.evaluate(sort), "descending");
    assert_eq!(browser.evaluate(sort), "ascending");
    browser
        .evaluate("input = document.querySelector('#extents .filter input'); input.closest('details').open = true; 0");
    browser.evaluate("input.value = 'no such row'; input.dispatchEvent(new Event('input'))");
    assert_eq!(browser.evaluate("input.form.querySelector('output').textContent.startsWith('0 of ')"), true);
    // Pictures have numbers beside them, of which each can be pointed at.
    let pictures = "[...document.querySelectorAll('svg[role=img]')].every(chart => chart.ariaLabel && chart.querySelector('title'))";
    assert_eq!(browser.evaluate(pictures), true);
    assert_eq!(browser.evaluate("document.querySelectorAll('#reuse svg[role=img]').length > 1"), true);
    assert!(browser.screenshot().starts_with("iVBORw0KGgo"), "no PNG");
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);

    // Without scripts nothing is missing but buttons and fields to look for rows.
    let text = |browser: &mut Browser| browser.evaluate("document.querySelector('#advice').textContent");
    browser.open(&file, View { has_scripts: false, ..WIDE });
    let without = text(&mut browser);
    assert!(without.as_str().unwrap().contains("Split body into"), "{without}");
    assert_eq!(browser.evaluate("document.querySelectorAll('button, form:not([hidden])').length"), 0);
}

/// Valgrind's own viewer, as Debian's package has it, opens what `export --to dhat` writes, and shows its sums.
#[test]
fn dh_view_opens_a_trace() {
    let viewer = Path::new("/usr/libexec/valgrind/dh_view.html");
    if !viewer.exists() {
        return skip("dh_view_opens_a_trace", &format!("no {} (Debian: valgrind)", viewer.display()));
    }
    let directory = traced();
    slimline(directory.path(), &["export", "run.trace", "--to", "dhat", "-o", "dhat.json"]);
    let file = fs::read_to_string(directory.path().join("dhat.json")).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    browser.open(viewer, WIDE);
    // As if the file were chosen, and until the viewer has made its tree or said why not.
    let load = format!(
        "new Promise(done => {{
           const chosen = new DataTransfer();
           chosen.items.add(new File([{}], 'dhat.json'));
           gInput.files = chosen.files;
           loadFile();
           const look = () => gMainDiv.innerText.startsWith('Loading') ? setTimeout(look, 10) : done(gMainDiv.innerText);
           look();
         }})",
        serde_json::to_string(&file).unwrap()
    );
    let shown = browser.evaluate(&load);
    let shown = shown.as_str().unwrap().to_owned();
    let dhat: serde_json::Value = serde_json::from_str(&file).unwrap();
    let sum = |of: &str| dhat["pps"].as_array().unwrap().iter().map(|point| point[of].as_u64().unwrap()).sum::<u64>();
    let grouped = |number: u64| {
        let digits = number.to_string();
        let from_end = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
        from_end.collect::<Vec<_>>().join(",")
    };
    for (what, of) in [("Total:", "tb"), ("Reads:", "rb"), ("Writes:", "wb")] {
        let line = shown.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}\n{shown}"));
        assert!(line.contains(&format!("{} bytes", grouped(sum(of)))), "{line}\n{shown}");
    }
    assert_eq!(browser.complaints(), [&serde_json::Value::Null; 0]);
}

/// speedscope's own page opens what is written for it, and is called as the profile is then.
#[test]
fn speedscope_opens_a_trace() {
    let Some(viewer) = viewer("speedscope_opens_a_trace", "speedscope/dist/release/index.html") else { return };
    let directory = traced();
    slimline(directory.path(), &["export", "run.trace", "--to", "speedscope", "-o", "speedscope.json"]);
    let file = fs::read_to_string(directory.path().join("speedscope.json")).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&file).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    // As its command line does it: by a script that hands the file over.
    let script = directory.path().join("load.js");
    let base64 = "btoa(String.fromCharCode(...new TextEncoder().encode(file)))";
    let handed = serde_json::to_string(&file).unwrap();
    fs::write(&script, format!("const file = {handed}; speedscope.loadFileFromBase64('speedscope.json', {base64});"))
        .unwrap();
    let address = format!("{}#localProfilePath={}", viewer.display(), script.display());
    browser.open(Path::new(&address), WIDE);
    let load = "new Promise(done => {
      const begun = performance.now();
      const look = () => document.title !== 'speedscope' || performance.now() > begun + 30000
        ? done(document.title) : setTimeout(look, 10);
      look();
    })";
    let title = browser.evaluate(load);
    assert_eq!(title, format!("{} - speedscope", profile["name"].as_str().unwrap()), "{:?}", browser.complaints());
}

/// What a page of a trace can't be asked for, and whose page it is not.
#[test]
fn what_is_no_page_of_a_trace_is_one_line() {
    let directory = traced();
    fs::create_dir(directory.path().join("session")).unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["report", "run.trace"],
            "run.trace is a full trace, not a session of samples: slimline trace --replay run.trace, or for a page",
        ),
        (&["report", "run.trace", "--format", "html", "--by", "loop"], "--by goes with a session"),
        (&["report", "run.trace", "--machine", "host"], "--machine goes with --format html of a trace"),
        (
            &["report", "run.trace", "--format", "html", "--machine", "cray"],
            "--machine cray: neither host, measured, valgrind",
        ),
        (&["advise", "session", "--format", "html"], "slimline report --format html session"),
    ];
    for (arguments, line) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
        let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), told.lines().count()), (Some(2), 0, 1), "{told}");
        assert!(told.contains(line), "{told}");
    }
}
