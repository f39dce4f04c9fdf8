//! A terminal as a test sees it: typed into, and read as what is on its screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};

use crate::scratch::Scratch;

const LINES: usize = 30;
const COLUMNS: usize = 100;

/// A shell's script in a terminal of its own, of 100 columns and 30 lines.
pub(crate) struct Terminal {
    child: Child,
    output: ChildStdout,
    /// All that was written to it.
    written: Vec<u8>,
    screen: Screen,
}

impl Terminal {
    /// Util-linux's `script` makes it.
    pub(crate) fn start(scratch: &Scratch, script: &str) -> Self {
        let script = format!("stty rows {LINES} cols {COLUMNS}; {script}");
        let mut command = scratch.bash("exec script --quiet --return --command \"$COMMAND\" /dev/null");
        command.env("COMMAND", script).env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        Self { child, output, written: Vec::new(), screen: Screen::default() }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Reads on; whether it has not ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = self.output.read(&mut bytes).unwrap();
        self.written.extend(&bytes[..read]);
        bytes[..read].iter().for_each(|&byte| self.screen.take(byte));
        read > 0
    }

    /// Waits until the screen has a text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until no text on the screen is this.
    #[track_caller]
    pub(crate) fn wait_without(&mut self, text: &str) -> String {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text))
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        while !is_so(&self.screen.text()) {
            assert!(self.read(), "it has ended before {what:?}:\n{}", self.written());
        }
        self.screen.text()
    }

    /// Waits until that was written, as an escape sequence is.
    #[track_caller]
    pub(crate) fn wait_for_bytes(&mut self, bytes: &str) {
        while !self.written().contains(bytes) {
            assert!(self.read(), "it has ended without {bytes:?}:\n{}", self.written());
        }
    }

    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    /// Waits for the end of the script; all that was written.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        while self.read() {}
        (self.child.wait().unwrap(), self.written())
    }
}

/// What the sequences that are written make of a screen: where the cursor goes, and what is cleared; colours are passed over.
struct Screen {
    cells: Vec<Vec<char>>,
    line: usize,
    column: usize,
    /// Of a sequence or a letter that is not whole.
    pending: Vec<u8>,
}

impl Default for Screen {
    fn default() -> Self {
        Self { cells: vec![vec![' '; COLUMNS]; LINES], line: 0, column: 0, pending: Vec::new() }
    }
}

impl Screen {
    fn text(&self) -> String {
        let lines = self.cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn take(&mut self, byte: u8) {
        self.pending.push(byte);
        let is_whole = match self.pending.as_slice() {
            [0x1b] | [0x1b, b'['] => false,
            [0x1b, b'[', .., last] => (b'@'..=b'~').contains(last),
            [0x1b, ..] => true,
            bytes => std::str::from_utf8(bytes).is_ok() || bytes.len() > 3,
        };
        if !is_whole {
            return;
        }
        let whole = std::mem::take(&mut self.pending);
        match whole.as_slice() {
            [0x1b, b'[', numbers @ .., b'H'] => {
                let mut numbers = std::str::from_utf8(numbers).unwrap().split(';').map(|n| n.parse().unwrap_or(1) - 1);
                self.line = numbers.next().unwrap_or(0);
                self.column = numbers.next().unwrap_or(0);
            }
            [0x1b, b'[', b'2', b'J'] => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            [0x1b, ..] => {}
            b"\r" => self.column = 0,
            b"\n" => self.line = (self.line + 1).min(LINES - 1),
            letter => {
                let letter = String::from_utf8_lossy(letter).chars().next().unwrap();
                if let Some(cell) = self.cells.get_mut(self.line).and_then(|line| line.get_mut(self.column)) {
                    *cell = letter;
                }
                self.column += 1;
            }
        }
    }
}
