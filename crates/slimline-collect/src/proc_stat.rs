//! `/proc/<pid>/stat`, whose fields proc_pid_stat(5) numbers from 1.

use std::str::FromStr;

use crate::proc_text;

/// The line of a process; `None` where it has ended, or the kernel does not tell.
pub(crate) fn line_of(pid: u32) -> Option<String> {
    proc_text::read(&format!("/proc/{pid}/stat")).ok()
}

/// A field of a process that holds a number.
pub(crate) fn number_of<T: FromStr>(pid: u32, field: usize) -> Option<T> {
    number(&line_of(pid)?, field)
}

/// A field that holds a number; of the third one or a later one.
pub(crate) fn number<T: FromStr>(line: &str, field: usize) -> Option<T> {
    text(line, field)?.parse().ok()
}

/// A field, of the third one or a later one.
pub(crate) fn text(line: &str, field: usize) -> Option<&str> {
    // The second one is a name in parentheses, which may hold any byte.
    let (_, rest) = line.rsplit_once(") ")?;
    rest.split_ascii_whitespace().nth(field.checked_sub(3)?)
}

/// Whether a signal has stopped the process. A tracer's stop is another state, which `SIGCONT` does not end.
pub(crate) fn is_stopped(pid: u32) -> bool {
    const STATE: usize = 3;
    line_of(pid).is_some_and(|line| text(&line, STATE) == Some("T"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_any_name() {
        let line = "7 (a) b) S 1 -2 3\n";
        assert_eq!([3, 4, 5, 6, 7].map(|field| text(line, field)), [Some("S"), Some("1"), Some("-2"), Some("3"), None]);
        assert_eq!((number(line, 5), number::<u32>(line, 5), number::<u32>(line, 3)), (Some(-2), None, None));
        assert_eq!((text(line, 2), text("7 (cut", 3)), (None, None));
    }

    #[test]
    fn a_process_tells_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let parent = number_of(child.id(), 4);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(std::process::id()));
        assert_eq!(number_of::<u32>(u32::MAX, 4), None);
    }
}
