//! A Redis server, and a load that always leaves the same data.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::slimline::Slimline;

/// A server that keeps its data in memory. Killed where it is dropped and was not shut down.
pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
    socket: String,
}

impl Server {
    /// Starts one, recorded or not, and waits until it answers.
    pub(crate) fn start(program: &OsStr, recorder: Option<(&Slimline, &Path)>) -> Result<Self> {
        let directory = crate::target_dir()?.join("workloads");
        std::fs::create_dir_all(&directory)?;
        // A socket's path has at most 107 bytes, so name it relative to the directory. Two may run at once.
        let kind = if recorder.is_some() { "recorded" } else { "native" };
        let socket = format!("redis.{}.{kind}.sock", std::process::id());
        let mut command = Command::new(program);
        command.args(["--port", "0", "--unixsocket", &socket, "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "local", "--daemonize", "no", "--loglevel", "warning"]);
        command.current_dir(&directory);
        let mut command = match recorder {
            Some((slimline, session)) => slimline.record(&command, session, &[]),
            None => command,
        };
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Self { process, directory, socket };
        server.wait_for_answer()?;
        Ok(server)
    }

    fn wait_for_answer(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.ask(&["ping"])?.starts_with("PONG") {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended before it answered: {status}");
            }
            if started.elapsed() > Duration::from_secs(30) {
                bail!("no answer from the server for 30 s");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A command of Redis's that talks to it.
    pub(crate) fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-s", &self.socket]).current_dir(&self.directory);
        command
    }

    /// What it answers; nothing where it does not listen.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String> {
        let output = self.client("redis-cli").args(words).output().context("redis-cli")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ends it in good order.
    pub(crate) fn shut_down(mut self) -> Result<ExitStatus> {
        self.ask(&["shutdown", "nosave"])?;
        Ok(self.process.wait()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Neither does anything to one that was waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server, loads it from four connections at once, asks for a digest of its data and shuts it down.
/// The digest, and the server's exit code.
pub(crate) fn under_load(program: &OsStr, recorder: Option<(&Slimline, &Path)>) -> Result<(String, Option<i32>)> {
    let server = Server::start(program, recorder)?;
    load(&server)?;
    let digest = server.ask(&["debug", "digest"])?;
    Ok((digest, server.shut_down()?.code()))
}

/// A load that ends in the same data, however its connections interleave.
fn load(server: &Server) -> Result<()> {
    let mut connections = Vec::new();
    for connection in 0..4 {
        let mut client = server.client("redis-cli");
        client.arg("--pipe").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = client.spawn().context("redis-cli --pipe")?;
        let mut commands = String::new();
        for i in 0..50_000 {
            commands += &format!("SET key:{connection}:{} value-{i}\r\n", i % 7000);
            commands += &format!("ZADD board:{connection} {} member-{}\r\n", i * 31 % 1009, i % 3000);
            commands += &format!("HSET hash:{connection}:{} field-{i} {i}\r\n", i % 50);
        }
        let mut input = child.stdin.take().context("no pipe to redis-cli")?;
        connections.push((child, std::thread::spawn(move || input.write_all(commands.as_bytes()))));
    }
    for (mut child, writer) in connections {
        if let Err(panic) = writer.join() {
            std::panic::resume_unwind(panic);
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("redis-cli --pipe: {status}");
        }
    }
    Ok(())
}
