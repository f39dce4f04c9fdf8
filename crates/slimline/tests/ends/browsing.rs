//! `slimline report --tui`, in a terminal: from the data of the demo to its source, and how the terminal is left.

use std::fs;

use crate::scratch::{Scratch, check_refused, stderr};
use crate::signals::signal;
use crate::terminal::Terminal;

/// What a terminal is told when it is left: the screen that was there before, and a cursor.
const LEFT: &str = "\x1b[?1049l\x1b[?25h";

/// Browses in a terminal, and says before and behind how that is set; the process has its number in a file.
fn browsing(directory: &str) -> String {
    format!(
        "tty; echo MODES:$(stty -g); sh -c 'echo $$ > number; exec \"$SLIMLINE\" report --tui {directory}'; \
         echo STATUS:$?; echo MODES:$(stty -g)"
    )
}

/// The settings that were told, and the status.
#[track_caller]
fn check_left_as_it_was(written: &str, status: &str) {
    let told = |label: &str| -> Vec<&str> {
        written.lines().filter_map(|line| line.trim_end().split_once(label)?.1.split_whitespace().next()).collect()
    };
    let modes = told("MODES:");
    assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?}: {written}");
    assert_eq!(told("STATUS:"), [status], "{written}");
    let is_shown = |sequence: &str| written.rfind(sequence);
    assert!(is_shown("\x1b[?1049l") > is_shown("\x1b[?1049h"), "its screen stayed: {written:?}");
    assert!(is_shown("\x1b[?25h") > is_shown("\x1b[?25l"), "the cursor is hidden: {written:?}");
}

fn number(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path("number")).unwrap().trim().to_owned()
}

#[test]
fn the_demo_is_walked_from_its_data_to_its_source() {
    let scratch = Scratch::new();
    let output = scratch.slimline(["demo", "--keep", "kept"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut terminal = Terminal::start(&scratch, &browsing("kept/slimline.data"));
    let data = terminal.wait_for("q quit");
    assert!(data.contains("unattributed") && data.contains("1 data") && data.contains("bodies"), "{data}");
    terminal.press("\r");
    let structure = terminal.wait_for("data › bodies");
    for word in ["64 bytes an element", "│x", "│mass", "FIELDS", "stride"] {
        assert!(structure.contains(word), "{word}: {structure}");
    }
    // The advice is below.
    terminal.press("G");
    terminal.wait_for("ALLOCATED BY");
    terminal.press("g/mass\r");
    terminal.wait_for("1/1 of 8");
    terminal.press("\r");
    let loops = terminal.wait_for("mass: loops");
    assert!(loops.contains("kick") && loops.contains("on it"), "{loops}");
    terminal.press("\x1b[C");
    let source = terminal.wait_for("next hot");
    assert!(source.contains("mass") && source.contains("source"), "{source}");
    // A session's first group can't be stopped, as nobody would have it go on.
    terminal.press("\x1a");
    // Back by each of three keys, to the table that was opened first.
    terminal.press("\x7f\x1b[D");
    terminal.wait_for("1/1 of 8");
    // Alone, as letters behind an escape are another key.
    terminal.press("\x1b");
    terminal.wait_without("1/1 of 8");
    terminal.press("1");
    terminal.wait_for("1 data");
    terminal.press("q");
    let (status, written) = terminal.end();
    assert!(status.success());
    check_left_as_it_was(&written, "0");
}

#[test]
fn the_terminal_is_left_as_it_was_by_signals_too() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    for (name, status) in [("-TERM", "143"), ("-INT", "130"), ("-HUP", "129")] {
        let mut terminal = Terminal::start(&scratch, &browsing(""));
        terminal.wait_for("q quit");
        signal(name, &number(&scratch));
        let (_, written) = terminal.end();
        check_left_as_it_was(&written, status);
    }
    let mut terminal = Terminal::start(&scratch, &browsing(""));
    terminal.wait_for("q quit");
    // Typed, it is a key.
    terminal.press("\x03");
    let (_, written) = terminal.end();
    check_left_as_it_was(&written, "0");
}

#[test]
fn stopped_it_leaves_the_terminal_and_comes_back() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let mut terminal = Terminal::start(&scratch, &browsing(""));
    terminal.wait_for("q quit");
    let number = number(&scratch);
    signal("-TSTP", &number);
    terminal.wait_for_bytes(LEFT);
    // It stops itself behind that: a signal to go on that came before would be lost.
    let state = || fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    while !state().contains(") T ") {
        std::thread::yield_now();
    }
    let written = terminal.written();
    let device = written.lines().next().unwrap().trim_end();
    let modes = scratch.bash(&format!("stty -g -F {device}")).output().unwrap();
    let modes = String::from_utf8(modes.stdout).unwrap();
    assert!(written.contains(&format!("MODES:{}", modes.trim_end())), "now {modes}: {written}");
    signal("-CONT", &number);
    terminal.wait_for_bytes(&format!("{LEFT}\x1b[?1049h"));
    terminal.press("i");
    terminal.wait_for("The session");
    terminal.press("q");
    let (_, written) = terminal.end();
    check_left_as_it_was(&written, "0");
}

/// Fields have colours by their heat.
#[test]
fn colours_are_as_in_other_reports() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    for (setting, has_colours) in [("CLICOLOR=1", true), ("CLICOLOR=0", false), ("NO_COLOR=1", false)] {
        let mut terminal = Terminal::start(&scratch, &format!("env {setting} \"$SLIMLINE\" report --tui"));
        terminal.wait_for("q quit");
        terminal.press("\r");
        terminal.wait_for("FIELDS");
        terminal.press("q");
        let (_, written) = terminal.end();
        assert_eq!(written.contains("\x1b[38;5;"), has_colours, "{setting}: {written:?}");
    }
}

#[test]
fn what_is_no_terminal_to_draw_on_is_refused() {
    let scratch = Scratch::new();
    scratch.record_walk(&["-O1", "-g"]);
    let output = scratch.slimline(["report", "--tui"]).output().unwrap();
    check_refused(&output, "--tui needs a terminal, and standard input is none");
    let in_terminal = |command: &str| {
        let (_, written) = Terminal::start(&scratch, &format!("{command}; echo STATUS:$?")).end();
        assert!(!written.contains("\x1b[?1049h"), "drawn on: {written:?}");
        written
    };
    let written = in_terminal("\"$SLIMLINE\" report --tui > out");
    assert!(written.contains("and standard output is none") && written.contains("STATUS:2"), "{written}");
    for term in ["TERM=dumb", "-u TERM"] {
        let written = in_terminal(&format!("env {term} \"$SLIMLINE\" report --tui"));
        assert!(written.contains("can't be drawn on") && written.contains("STATUS:2"), "{term}: {written}");
    }
    // What is no session is told before anything is drawn.
    let written = in_terminal("\"$SLIMLINE\" report --tui missing");
    assert!(written.contains("slimline: missing: no such session") && written.contains("STATUS:2"), "{written}");
    for other in [&["--format", "csv"][..], &["--rows", "9"], &["--quality"], &["--per-process"], &["-v"]] {
        let output = scratch.slimline(["report", "--tui"].iter().chain(other)).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{other:?}");
        assert!(stderr(&output).contains("'--tui' cannot be used with"), "{other:?}: {}", stderr(&output));
    }
}
