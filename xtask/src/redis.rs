//! A Redis server under a load that always leaves the same data.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::slimline::Slimline;

/// Starts a server, loads it from four connections at once, asks for a digest of its data and shuts it down.
/// The digest, and the server's exit code.
pub(crate) fn under_load(server: &OsStr, recorder: Option<(&Slimline, &Path)>) -> Result<(Vec<u8>, Option<i32>)> {
    let directory = crate::target_dir()?.join("workloads");
    std::fs::create_dir_all(&directory)?;
    // A socket's path has at most 107 bytes, so name it relative to the directory.
    let socket = format!("redis.{}.sock", std::process::id());
    let mut server = Command::new(server);
    server.args(["--port", "0", "--unixsocket", &socket, "--save", "", "--appendonly", "no"]);
    server.args(["--enable-debug-command", "local", "--daemonize", "no", "--loglevel", "warning"]);
    server.current_dir(&directory);
    let mut server = match recorder {
        Some((slimline, session)) => slimline.record(&server, session, &[]),
        None => server,
    };
    let mut server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let said = load(&directory, &socket, &mut server);
    if said.is_err() {
        // Ended already, or not listening: nothing to shut down in good order.
        let _ = server.kill();
    }
    let code = server.wait()?.code();
    Ok((said?, code))
}

/// What the server answers after a load that ends in the same data, however the connections interleave.
fn load(directory: &Path, socket: &str, server: &mut Child) -> Result<Vec<u8>> {
    let client = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-s", socket]).args(words).current_dir(directory);
        command
    };
    let started = Instant::now();
    while !client(&["ping"]).output()?.stdout.starts_with(b"PONG") {
        if let Some(status) = server.try_wait()? {
            bail!("the server ended before it answered: {status}");
        }
        if started.elapsed() > Duration::from_secs(30) {
            bail!("no answer from the server for 30 s");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut connections = Vec::new();
    for connection in 0..4 {
        let mut child =
            client(&["--pipe"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("redis-cli --pipe")?;
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
    let digest = client(&["debug", "digest"]).output()?.stdout;
    client(&["shutdown", "nosave"]).output()?;
    Ok(digest)
}
