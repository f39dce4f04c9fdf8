//! `slimline report --tui`: the terminal, its keys and the signals around a [`Browser`].
//!
//! However it ends, the terminal is left as it was: `Screen` does so when it is dropped, a panic before it is told, and signals
//! that end or stop the program are waited for and carried out when that is done.

use slimline_trace::path_text::path_of;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, stdin, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context as _, bail};
use ratatui_core::layout::{Position, Rect};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, getpgrp, getsid, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use slimline_report::text::By;
use slimline_report::tui::{Browser, Flow, Key, Theme};
use slimline_report::view::Report;

use crate::sources;

/// Whether the terminal shows our screen now.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Whether there is a terminal that can be drawn on.
///
/// # Errors
/// Says what is missing.
pub(super) fn check_terminal() -> anyhow::Result<()> {
    for (what, is_terminal) in [("standard input", stdin().is_terminal()), ("standard output", stdout().is_terminal())]
    {
        if !is_terminal {
            bail!("--tui needs a terminal, and {what} is none: without --tui the same report is printed");
        }
    }
    match std::env::var("TERM").unwrap_or_default().as_str() {
        "" | "dumb" => bail!(
            "--tui: this terminal can't be drawn on (TERM is not set, or dumb): without --tui the same report is printed"
        ),
        _ => Ok(()),
    }
}

/// Shows the report until the user has seen enough, or a signal ends it.
pub(super) fn run(report: &Report, by: By) -> anyhow::Result<u8> {
    let read = |file: &str, module: &str| sources::source(&path_of(file), &[module.to_owned()]);
    let mut browser = Browser::new(report, by, theme(), Box::new(read));
    match browse(&mut browser).context("--tui")? {
        Ended::Quit => Ok(0),
        Ended::Signal(signal) => {
            // What waits for us shall see what ended us.
            emulate_default_handler(signal)?;
            bail!("signal {signal} did not end it")
        }
    }
}

/// Colours where what is printed has them, too: unless the user wants none (`NO_COLOR`, `CLICOLOR=0`).
fn theme() -> Theme {
    match AutoStream::choice(&stdout()) {
        ColorChoice::Never => Theme::Plain,
        ColorChoice::Auto | ColorChoice::AlwaysAnsi | ColorChoice::Always => Theme::Coloured,
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Quit,
    Signal(i32),
}

/// What happens to a terminal and its program.
enum Event {
    Key(KeyEvent),
    Resized,
    Signal(i32),
    /// Keys can no longer be read.
    Failed(io::Error),
}

fn browse(browser: &mut Browser) -> io::Result<Ended> {
    let events = events()?;
    leave_before_panics_are_told();
    let mut screen = Screen::new()?;
    screen.enter()?;
    loop {
        screen.draw(browser)?;
        let Ok(first) = events.recv() else { return Ok(Ended::Quit) };
        // All that waits is done before the next picture: a key that is held down may be faster than the terminal.
        for event in std::iter::once(first).chain(events.try_iter()) {
            if let Some(ended) = screen.take(browser, event)? {
                return Ok(ended);
            }
        }
    }
}

/// Keys and signals as they come, each waited for by a thread; these end with the program.
fn events() -> io::Result<Receiver<Event>> {
    let (sender, events) = channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT])?;
    let of_signals = sender.clone();
    thread::spawn(move || signals.forever().try_for_each(|signal| of_signals.send(Event::Signal(signal))));
    thread::spawn(move || read_keys(&sender));
    Ok(events)
}

fn read_keys(sender: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(error) => Event::Failed(error),
        };
        let is_last = matches!(event, Event::Failed(_));
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}

/// What a panic says would be lost with our screen.
fn leave_before_panics_are_told() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        leave();
        tell(info);
    }));
}

/// Our screen in place of what the terminal showed, which is there again when this is dropped.
struct Screen {
    // Not locked: a panic of another thread is to be told, too.
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Nothing is shown yet.
    fn new() -> io::Result<Self> {
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(BufWriter::new(stdout())))? })
    }

    fn enter(&mut self) -> io::Result<()> {
        IS_ENTERED.store(true, SeqCst);
        // First: it waits until a program in the background is brought to the foreground.
        enable_raw_mode()?;
        execute!(self.terminal.backend_mut(), EnterAlternateScreen, Hide)?;
        self.clear()
    }

    /// Has all of it drawn anew. `Terminal::clear` would ask the terminal where its cursor is, and wait for an answer which whoever reads keys
    /// may get.
    fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Draws, unless it is in the background.
    fn draw(&mut self, browser: &mut Browser) -> io::Result<()> {
        if IS_ENTERED.load(SeqCst) {
            self.terminal.draw(|frame| browser.draw(frame.area(), frame.buffer_mut()))?;
        }
        Ok(())
    }

    /// Does what an event is for; why it ends, where it does.
    fn take(&mut self, browser: &mut Browser, event: Event) -> io::Result<Option<Ended>> {
        match event {
            Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. })
                if modifiers.contains(KeyModifiers::CONTROL) =>
            {
                match letter {
                    'c' => return Ok(Some(Ended::Quit)),
                    // What the terminal would do if keys were not read one by one. A session's first group has nobody who
                    // would have it go on.
                    'z' if getpgrp() != getsid(None)? => kill_current_process_group(Signal::TSTP)?,
                    'l' => self.clear()?,
                    _ => {}
                }
            }
            Event::Key(pressed) => {
                if key(pressed).is_some_and(|key| browser.press(key) == Flow::Quit) {
                    return Ok(Some(Ended::Quit));
                }
            }
            Event::Resized => {}
            Event::Signal(SIGTSTP) => {
                leave();
                emulate_default_handler(SIGTSTP)?;
            }
            // Who stopped it, or went on meanwhile, may have changed the terminal.
            Event::Signal(SIGCONT) => {
                leave();
                if rustix::termios::tcgetpgrp(stdin())? == getpgrp() {
                    self.enter()?;
                }
            }
            Event::Signal(signal) => return Ok(Some(Ended::Signal(signal))),
            Event::Failed(error) => return Err(error),
        }
        Ok(None)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Has the terminal as it was, where that is to be done.
fn leave() {
    if IS_ENTERED.swap(false, SeqCst) {
        // Where the terminal is gone there is nothing to be left as it was.
        _ = disable_raw_mode();
        _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

/// The browser's name of a key, if it has one.
fn key(pressed: KeyEvent) -> Option<Key> {
    Some(match pressed.code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::F(1) => Key::Char('?'),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "the next test has it run in a terminal"]
    fn panics_in_a_terminal() {
        leave_before_panics_are_told();
        let mut screen = Screen::new().unwrap();
        screen.enter().unwrap();
        panic!("told at last");
    }

    #[test]
    fn a_panic_is_told_where_the_terminal_is_as_it_was() {
        let own = env::current_exe().unwrap();
        let name = "commands::browse::tests::panics_in_a_terminal";
        let script = format!(
            "stty rows 30 cols 100; echo modes $(stty -g); '{}' --exact {name} --ignored --nocapture; echo modes $(stty -g)",
            own.display()
        );
        let mut command = Command::new("script");
        let output =
            command.args(["--quiet", "--command", &script, "/dev/null"]).env("SHELL", "/bin/sh").output().unwrap();
        let written = String::from_utf8_lossy(&output.stdout);
        let place = |text: &str| written.find(text).unwrap_or_else(|| panic!("no {text:?}: {written:?}"));
        assert!(
            place("\x1b[?1049h") < place("\x1b[?1049l") && place("\x1b[?1049l") < place("told at last"),
            "{written:?}"
        );
        assert_eq!(written.matches("\x1b[?1049l").count(), 1, "left twice: {written:?}");
        let modes: Vec<&str> =
            written.lines().filter_map(|line| line.split_once("modes ")).map(|(_, modes)| modes).collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?}: {written:?}");
    }
}
