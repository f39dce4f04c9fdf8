//! A compiler's job whose source has had its directives made calls of.

use std::io::{self, Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use super::exit_status;
use super::jobs::Job;

/// What is run.
pub(crate) struct Prepared {
    pub(crate) job: Job,
    /// Its standard input, where that was read already.
    pub(crate) input: Option<Vec<u8>>,
    /// What is wrong with its source, as compilers say it: then it can't be run.
    pub(crate) mistake: Option<String>,
}

impl Prepared {
    /// The job as it is.
    pub(crate) fn of(job: Job) -> Self {
        Self { job, input: None, mistake: None }
    }

    /// Runs it, and gives its exit status.
    pub(crate) fn start(&self) -> io::Result<u8> {
        if let Some(mistake) = &self.mistake {
            let _ = writeln!(io::stderr(), "{mistake}");
            return Ok(1);
        }
        let mut command = Command::new(&self.job.program);
        command.args(&self.job.arguments);
        run(&mut command, self.input.as_deref()).map(exit_status)
    }
}

/// Runs a command with this input, or that of this process.
pub(crate) fn run(command: &mut Command, input: Option<&[u8]>) -> io::Result<ExitStatus> {
    let Some(input) = input else { return command.status() };
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // Who reads no further has its reasons, and says them.
        let _ = pipe.write_all(input);
    }
    child.wait()
}

/// All of this process's standard input.
pub(crate) fn read_input() -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    Ok(input)
}
