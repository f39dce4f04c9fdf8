//! The report as it is browsed in a terminal: what its screens show, and what keys do.

#[path = "../art/mod.rs"]
mod art;
mod screens;

use std::time::Instant;

use art::art;
use ratatui_core::style::Color;
use screens::{Seen, art_with_more, scanner};
use slimline_report::source::Source;
use slimline_report::text::{self, By, Limits};
use slimline_report::tui::{Flow, Key, Theme};
use slimline_report::view::*;

const WIDE: (u16, u16) = (100, 30);
const NARROW: (u16, u16) = (60, 20);

/// From data to the source: each screen at both sizes.
#[test]
fn data_fields_loops_and_source() {
    for (size, name) in [(WIDE, "wide"), (NARROW, "narrow")] {
        let mut seen = Seen::new(&art_with_more(), size);
        insta::assert_snapshot!(format!("{name}_1_data"), seen.screen());
        seen.press(Key::Enter);
        insta::assert_snapshot!(format!("{name}_2_structure"), seen.screen());
        seen.press(Key::End);
        insta::assert_snapshot!(format!("{name}_3_end_of_structure"), seen.screen());
        seen.press(Key::Home);
        seen.go_down_to(" P ");
        seen.press(Key::Enter);
        insta::assert_snapshot!(format!("{name}_4_loops_of_a_field"), seen.screen());
        seen.press(Key::Right);
        insta::assert_snapshot!(format!("{name}_5_source"), seen.screen());
    }
}

/// Lines above it are folded otherwise.
#[test]
fn the_cursor_stays_on_its_field_on_a_terminal_of_another_size() {
    let mut seen = Seen::new(&art_with_more(), WIDE);
    seen.press(Key::Enter);
    seen.go_down_to(" P ");
    for size in [(60, 15), (200, 50), NARROW, (40, 12), WIDE] {
        seen.resize(size);
        assert!(seen.cursor_line().contains(" P "), "{size:?}: {}", seen.screen());
    }
}

#[test]
fn what_lies_over_the_screen() {
    for (size, name) in [(WIDE, "wide"), (NARROW, "narrow")] {
        let mut seen = Seen::new(&art_with_more(), size);
        seen.press_all("h");
        insta::assert_snapshot!(format!("{name}_keys"), seen.screen());
        // Any key but those that scroll goes back.
        seen.press_all("xi");
        insta::assert_snapshot!(format!("{name}_session"), seen.screen());
        seen.press(Key::Escape);
        seen.press_all("s");
        insta::assert_snapshot!(format!("{name}_columns"), seen.screen());
    }
}

#[test]
fn each_view_has_what_report_by_has() {
    let report = art_with_more();
    let mut seen = Seen::new(&report, (300, 60));
    let views = [By::Group, By::Field, By::Loop, By::Function, By::Line, By::Type, By::Thread];
    for (number, by) in views.into_iter().enumerate() {
        let mut text = String::new();
        let limits = Limits { share: Some(0.0), wide: true, rows: 1000, ..Limits::default() };
        text::report(&mut text, &report, by, limits).unwrap();
        seen.press(Key::Char(char::from(b'1' + number as u8)));
        let screen = seen.screen();
        let shown: Vec<Vec<&str>> = screen.lines().map(|line| line.split_whitespace().collect()).collect();
        // The first table: from its heading to the next blank line.
        let heading = ["DATA", "FIELDS", "LOOPS", "FUNCTIONS", "LINES", "TYPES", "THREADS"][number];
        let table = text.lines().skip_while(|line| !line.contains(heading)).skip(2);
        let table: Vec<&str> = table.take_while(|line| line.contains('%') && !line.contains(" is ")).collect();
        assert!(!table.is_empty(), "{by:?}: {text}");
        for row in &table {
            let cells: Vec<&str> = row.split_whitespace().collect();
            assert!(shown.contains(&cells), "{by:?}: {row}\n{screen}");
        }
    }
}

/// The head says what no data is known for and what was lost, on every screen.
#[test]
fn numbers_stay_honest_on_every_screen() {
    let mut seen = Seen::new(&art_with_more(), NARROW);
    for _ in 0..4 {
        let screen = seen.screen();
        assert!(screen.contains("samples  2,384 by the clock at 250 Hz"), "{screen}");
        assert!(screen.contains("unattributed 19.6 %; lost: 24 samples without"), "{screen}");
        seen.press(Key::Enter);
    }
    // And what that is.
    let mut seen = Seen::new(&art_with_more(), WIDE);
    seen.press(Key::End);
    assert!(seen.cursor_line().contains("unattributed"), "{}", seen.screen());
    seen.press(Key::Enter);
    let screen = seen.screen();
    assert!(screen.contains("What of the time no data is known for: lost 1.0 %."), "{screen}");
    assert!(screen.contains("4.0 %  object: "), "{screen}");
}

#[test]
fn keys_open_and_go_back() {
    let mut seen = Seen::new(&art_with_more(), WIDE);
    for back in [Key::Escape, Key::Left, Key::Backspace] {
        for open in [Key::Enter, Key::Right] {
            let before = seen.screen();
            seen.press(open);
            assert!(seen.path().starts_with("data › f1_layer"), "{}", seen.screen());
            seen.press(back);
            assert_eq!(seen.screen(), before);
        }
    }
    seen.press(Key::Escape);
    assert!(seen.screen().contains("q quits"), "{}", seen.screen());
    for (to, title) in [(Key::Tab, "fields"), (Key::Tab, "loops"), (Key::BackTab, "fields"), (Key::Char('1'), "data")] {
        seen.press(to);
        assert_eq!(seen.tab(), title);
    }
    seen.press(Key::BackTab);
    assert_eq!(seen.tab(), "threads", "around; there are no regions");
    // A digit leads out of what was opened.
    seen.press_all("1");
    seen.press(Key::Enter);
    seen.press_all("3");
    assert_eq!(seen.tab(), "loops");
    assert_eq!(seen.browser.press(Key::Char('q')), Flow::Quit);
}

#[test]
fn other_views_lead_to_loops_source_and_data() {
    let open = |view: char| {
        let mut seen = Seen::new(&art_with_more(), WIDE);
        seen.press(Key::Char(view));
        seen.press(Key::Enter);
        seen
    };
    assert!(open('2').cursor_line().contains(" P "), "the costliest field in its structure");
    assert_eq!(open('3').path(), "loops › scanner.c");
    assert!(open('3').cursor_line().contains("line_616"));
    let functions = open('4');
    assert_eq!(functions.path(), "functions › match: loops");
    assert!(functions.screen().contains("scanner.c:615-616"), "{}", functions.screen());
    assert!(open('5').cursor_line().contains("line_616"), "{}", open('5').screen());
    let types = open('6');
    assert!(types.path() == "types › f1_neuron" && types.cursor_line().contains("f1_layer"), "{}", types.screen());
    let threads = open('7');
    assert!(
        threads.path() == "threads › thread 4711" && threads.cursor_line().contains("75.0 %"),
        "{}",
        threads.screen()
    );
    // The second function has no loop.
    let mut seen = Seen::new(&art_with_more(), WIDE);
    seen.press_all("4j");
    seen.press(Key::Enter);
    assert!(seen.screen().contains("no loop of it is known"), "{}", seen.screen());
}

#[test]
fn rows_are_sorted_as_top_does() {
    let mut report = art();
    let named = |id, name: &str, share, bytes| Group {
        id,
        name: name.into(),
        kind: "heap".into(),
        share,
        bytes,
        blocks: 1,
        ..Group::default()
    };
    report.groups = vec![named(1, "b", 0.5, 10), named(2, "a", 0.3, 2000), named(3, "c", 0.2, 300)];
    let mut seen = Seen::new(&report, WIDE);
    let order = |seen: &Seen| {
        let names = seen.rows().into_iter().map(|row| row.split_whitespace().nth(3).unwrap().to_owned());
        names.collect::<String>()
    };
    assert_eq!(order(&seen), "bac");
    assert!(seen.screen().contains("time▾"));
    seen.press_all("r");
    assert_eq!(order(&seen), "cab");
    assert!(seen.screen().contains("time▴"));
    seen.press_all(">>");
    assert_eq!(order(&seen), "abc", "names from a on");
    seen.press_all(">>");
    assert_eq!(order(&seen), "acb", "bytes from the most on");
    seen.press_all("<");
    assert!(seen.screen().contains("kind▴"), "{}", seen.screen());
    assert_eq!(order(&seen), "bac", "alike: as the report has them");
    seen.press_all("<<<<");
    assert!(seen.screen().contains("allocated, declared▴"), "around: {}", seen.screen());
    // The menu begins where it is sorted by.
    seen.press_all("s");
    seen.press(Key::Home);
    seen.press_all("jj");
    seen.press(Key::Enter);
    assert_eq!(order(&seen), "abc");
    seen.press_all("s");
    seen.press(Key::Escape);
    assert_eq!(order(&seen), "abc", "not chosen");
}

/// A key of each column, at both sorts of evidence.
#[test]
fn every_table_is_sorted_by_every_column() {
    let mut served = art_with_more();
    let latency = Latency { samples: 90, share: 0.7, mean_cycles: 212.4, ..Latency::default() };
    let of_hardware = Some(Served { samples: 100, latency: Some(latency), ..Served::default() });
    served.session.served = of_hardware.clone();
    served.groups[0].fields[1].served = of_hardware.clone();
    served.loops[1].served = of_hardware;
    for report in [art_with_more(), served] {
        for view in "1234567".chars() {
            for opened in [false, true] {
                let mut seen = Seen::new(&report, (300, 60));
                seen.press(Key::Char(view));
                if opened {
                    seen.press(Key::Enter);
                }
                if seen.path().ends_with("scanner.c") {
                    continue;
                }
                let sorted = |seen: &Seen| {
                    let mut rows = seen.rows();
                    rows.sort_unstable();
                    rows
                };
                let first = sorted(&seen);
                assert!(!first.is_empty(), "view {view}: {}", seen.screen());
                for column in 0..12 {
                    for key in ["r", ">"] {
                        seen.press_all(key);
                        assert_eq!(sorted(&seen), first, "view {view}, column {column}: {}", seen.screen());
                    }
                }
            }
        }
    }
}

#[test]
fn a_filter_keeps_rows_that_have_all_its_words() {
    let mut report = art();
    let named = |id: u32| Group {
        id,
        name: format!("table_{id}"),
        kind: if id.is_multiple_of(2) { "heap" } else { "static" }.into(),
        share: 1.0 / f64::from(id),
        ..Group::default()
    };
    report.groups = (1..=100).map(named).collect();
    let mut seen = Seen::new(&report, WIDE);
    seen.press_all("/Table_1 HEAP");
    assert_eq!(seen.rows().len(), 6, "10, 12, … 18, 100: {}", seen.screen());
    assert!(seen.screen().contains("1/6 of 100"), "{}", seen.screen());
    // The table is gone through while it is typed, and a shorter filter has more.
    seen.press(Key::Down);
    assert!(seen.cursor_line().contains("table_12"));
    (0..5).for_each(|_| seen.press(Key::Backspace));
    assert_eq!(seen.rows().len(), 12);
    seen.press(Key::Escape);
    assert!(seen.screen().contains("1/100"), "as before it was typed: {}", seen.screen());
    seen.press_all("/static");
    seen.press(Key::Enter);
    seen.press_all("r");
    assert!(seen.cursor_line().contains("table_99"), "{}", seen.screen());
    // Escape takes the filter away before it leads back.
    seen.press(Key::Escape);
    assert!(seen.screen().contains("1/100"), "{}", seen.screen());
    assert!(seen.cursor_line().contains("table_100"), "in the order that was chosen: {}", seen.screen());
    seen.press_all("/no such row");
    assert!(seen.screen().contains("no row has all these words"), "{}", seen.screen());
    seen.press(Key::Enter);
    seen.press(Key::Enter);
    assert!(seen.screen().contains("no row has all these words"), "nothing is opened: {}", seen.screen());
}

#[test]
fn source_is_gone_through_by_cost_and_by_text() {
    let mut seen = Seen::new(&art_with_more(), WIDE);
    seen.press_all("3");
    seen.press(Key::Enter);
    let at =
        |seen: &Seen, line: u32| assert!(seen.cursor_line().contains(&format!("line_{line} ")), "{}", seen.screen());
    at(&seen, 616);
    for (key, line) in [(Key::Tab, 608), (Key::Tab, 547), (Key::Tab, 1200), (Key::Tab, 616), (Key::BackTab, 1200)] {
        seen.press(key);
        at(&seen, line);
    }
    seen.press_all("H");
    at(&seen, 616);
    seen.press_all("/LINE_7");
    at(&seen, 700);
    seen.press(Key::Enter);
    seen.press_all("n");
    at(&seen, 701);
    seen.press_all("NN");
    at(&seen, 79);
    seen.press_all("/nowhere");
    assert!(seen.screen().contains("not found"), "{}", seen.screen());
    seen.press(Key::Escape);
    seen.press(Key::End);
    at(&seen, 1300);
}

#[test]
fn source_that_is_newer_or_missing_is_told() {
    let report = art_with_more();
    let with = |source: Source| {
        let mut seen = Seen::with_sources(&report, WIDE, Theme::Plain, move |_, _| source.clone());
        seen.press_all("3");
        seen.press(Key::Enter);
        seen
    };
    let newer = with(Source::Text { text: scanner(), is_newer: true });
    assert!(newer.screen().contains("It was changed after the program was built"), "{}", newer.screen());
    let missing = with(Source::Unreadable("No such file or directory".to_owned()));
    let screen = missing.screen();
    assert!(screen.contains("It could not be read: No such file or directory."), "{screen}");
    // Lines that cost something are told all the same.
    assert!(missing.cursor_line().contains("616") && missing.cursor_line().contains("56.6 %"), "{screen}");
    // A file that was cut since.
    let short = with(Source::Text { text: "one\ntwo\n".to_owned(), is_newer: true });
    assert!(short.cursor_line().contains("two"), "{}", short.screen());
    let empty = with(Source::Text { text: String::new(), is_newer: true });
    assert!(empty.screen().contains("0/0"), "{}", empty.screen());
}

#[test]
fn a_session_without_samples_says_why() {
    let mut report = art();
    report.session.samples = 0;
    report.session.no_samples_because = Some("it ran for 2 ms".to_owned());
    report.groups.clear();
    let mut seen = Seen::new(&report, NARROW);
    assert!(seen.screen().contains("why  it ran for 2 ms"), "{}", seen.screen());
    seen.press(Key::Enter);
    assert!(seen.screen().contains("q quit"), "{}", seen.screen());
}

#[test]
fn a_terminal_gets_no_control_characters() {
    let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}";
    let mut report = art_with_more();
    report.session.command = vec![hostile.to_owned()];
    report.groups[0].name = hostile.to_owned();
    report.groups[0].fields[0].name = hostile.to_owned();
    report.advice[0].code = hostile.to_owned();
    report.loops[0].function = hostile.to_owned();
    let source = Source::Text { text: format!("{hostile}\n").repeat(700), is_newer: false };
    let mut seen = Seen::with_sources(&report, WIDE, Theme::Plain, move |_, _| source.clone());
    let acted_on = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
    for keys in ["", "i", "x/\u{202e}"] {
        seen.press_all(keys);
        assert_eq!(seen.screen().chars().find(acted_on), None, "{}", seen.screen());
    }
    seen.press(Key::Escape);
    for _ in 0..4 {
        assert!(seen.screen().contains("\\u{1b}]0;x"), "{}", seen.screen());
        assert_eq!(seen.screen().chars().find(acted_on), None, "{}", seen.screen());
        seen.press(Key::Enter);
    }
}

#[test]
fn colours_are_left_out_where_none_are_wanted() {
    let colours = |theme| {
        let mut seen = Seen::with_sources(&art_with_more(), WIDE, theme, |_, _| Source::Unreadable(String::new()));
        seen.press(Key::Enter);
        seen.screen();
        seen.buffer().content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(colours(Theme::Coloured) > 0);
    assert_eq!(colours(Theme::Plain), 0);
}

/// Whatever is pressed, at whatever size: nothing panics, and something is drawn.
#[test]
fn no_key_and_no_size_is_too_odd() {
    const KEYS: [Key; 14] = [
        Key::Enter,
        Key::Escape,
        Key::Backspace,
        Key::Left,
        Key::Right,
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Tab,
        Key::BackTab,
        Key::Enter,
    ];
    const LETTERS: &[u8] = b"hi/nNsrR<>,.?H123456789jkbgG xP\0";
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut seen = Seen::new(&art_with_more(), WIDE);
    for _ in 0..3_000 {
        let key = match random(2) {
            0 => KEYS[random(KEYS.len() as u64) as usize],
            _ => Key::Char(LETTERS[random(LETTERS.len() as u64) as usize].into()),
        };
        // What quits in a session of a user's goes on here.
        _ = seen.browser.press(key);
        seen.resize((random(130) as u16, random(45) as u16));
    }
    // Each size, on each screen.
    for opened in 0..4 {
        let mut seen = Seen::new(&art_with_more(), WIDE);
        (0..opened).for_each(|_| seen.press(Key::Enter));
        for width in 0..70 {
            (0..20).for_each(|height| seen.resize((width, height)));
        }
    }
}

/// Its durations, which it prints, are in docs/report-tui.md; what is checked is that the rows are right.
#[test]
fn rows_stay_fluid() {
    const ROWS: u32 = 100_000;
    let mut report = art_with_more();
    let named = |id: u32| Group {
        id,
        name: format!("structure_{id:06}"),
        kind: "heap".into(),
        share: 0.8 / f64::from(ROWS),
        bytes: u64::from(id.wrapping_mul(2_654_435_761)),
        blocks: 1,
        ..Group::default()
    };
    report.groups.extend((10..10 + ROWS).map(named));
    let begun = Instant::now();
    let mut seen = Seen::new(&report, WIDE);
    println!("opened in {:?}", begun.elapsed());
    let mut timed = |what: &str, act: &mut dyn FnMut(&mut Seen)| {
        let begun = Instant::now();
        act(&mut seen);
        seen.resize(WIDE);
        println!("{what} in {:?}", begun.elapsed());
        seen.cursor_line()
    };
    timed("down", &mut |seen| seen.press(Key::Down));
    let last = timed("to the end", &mut |seen| seen.press(Key::End));
    assert!(last.contains("structure_100009"), "{last}");
    timed("filtered", &mut |seen| seen.press_all("/_09"));
    let found = timed("filtered on", &mut |seen| seen.press_all("9999"));
    assert!(found.contains("structure_099999"), "{found}");
    timed("unfiltered", &mut |seen| seen.press(Key::Escape));
    let by_name = timed("sorted by name", &mut |seen| seen.press_all(">>"));
    assert!(by_name.contains("f1_layer"), "{by_name}");
    timed("sorted by bytes", &mut |seen| seen.press_all(">>"));
}
