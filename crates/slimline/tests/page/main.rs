//! `slimline report --format html` and `slimline demo --html`, as a browser shows them.

#[path = "../../../slimline-report/tests/browser/mod.rs"]
mod browser;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use browser::{Browser, View, WIDE};

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
