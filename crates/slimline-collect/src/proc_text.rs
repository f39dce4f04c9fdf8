//! Files of `/proc` that hold names which processes gave themselves: any bytes, and cut in the middle of a character.

use std::fs;
use std::io;

/// The text of a file below `/proc`. Bytes that are not UTF-8 are replaced.
pub(crate) fn read(path: &str) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A program that sleeps, named in Cyrillic: the kernel cuts its name after 15 bytes, within a letter.
    pub(crate) struct Sleeper {
        pub(crate) child: Child,
        _scratch: tempfile::TempDir,
    }

    impl Sleeper {
        pub(crate) fn start() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let program = scratch.path().join("долгийсон");
            fs::copy("/bin/sleep", &program).unwrap();
            let child = Command::new(&program).arg("1000").spawn().unwrap();
            // It has its name a little after it left our memory, which is when it counts as started.
            while fs::read_to_string(format!("/proc/{}/comm", child.id())).is_ok() {
                std::thread::yield_now();
            }
            Self { child, _scratch: scratch }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn names_in_any_script_are_read() {
        let sleeper = Sleeper::start();
        let path = format!("/proc/{}/comm", sleeper.child.id());
        assert!(fs::read_to_string(&path).is_err(), "cut within a letter");
        assert_eq!(read(&path).unwrap(), "долгийс\u{fffd}\n");
    }
}
