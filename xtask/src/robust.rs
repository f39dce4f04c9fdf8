//! `cargo xtask robust`: Debian's programs under `slimline record` end as they do without it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::slimline::Slimline;
use crate::{setup, workload};

/// How a run ended and what it printed.
#[derive(PartialEq, Eq)]
struct Outcome {
    stdout: Vec<u8>,
    code: Option<i32>,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self { stdout: output.stdout, code: output.status.code() }
    }
}

const REDIS: &str = "redis-server";

/// Compares `times` recorded runs of each program with a native one; prints a Markdown table. Whether all were equal.
pub(crate) fn run(times: u32, only: &[String]) -> Result<bool> {
    setup::install(setup::TESTS)?;
    let slimline = Slimline::build()?;
    let redis = only.is_empty() || only.iter().any(|name| name == REDIS);
    let others: Vec<String> = only.iter().filter(|name| *name != REDIS).cloned().collect();
    println!("| program | recorded runs | same output and status |\n| --- | --- | --- |");
    let mut all_equal = true;
    if only.is_empty() || !others.is_empty() {
        for workload in workload::select(workload::debian(1)?, &others)? {
            let session = slimline.session("robust");
            all_equal &= compare(&workload.name, times, |recorded| {
                let command = workload.command();
                let command = if recorded { slimline.record(&command, &session, &[]) } else { command };
                Ok(workload.with_input(command)?.output()?.into())
            })?;
        }
    }
    if redis {
        let session = slimline.session("robust");
        all_equal &= compare(REDIS, times, |recorded| redis_under_load(recorded.then_some((&slimline, &session))))?;
    }
    Ok(all_equal)
}

fn compare(name: &str, times: u32, run: impl Fn(bool) -> Result<Outcome>) -> Result<bool> {
    let expected = run(false).with_context(|| name.to_owned())?;
    if expected.code != Some(0) || expected.stdout.is_empty() {
        bail!("{name} fails without slimline too: status {:?}", expected.code);
    }
    let mut equal = 0;
    for _ in 0..times {
        equal += u32::from(run(true).with_context(|| name.to_owned())? == expected);
    }
    println!("| {name} | {times} | {equal} |");
    std::io::stdout().flush()?;
    Ok(equal == times)
}

/// Starts a server, loads it from four connections at once, asks for a digest of its data and shuts it down.
fn redis_under_load(recorder: Option<(&Slimline, &Path)>) -> Result<Outcome> {
    let directory = crate::target_dir()?.join("workloads");
    std::fs::create_dir_all(&directory)?;
    // A socket's path has at most 107 bytes, so name it relative to the directory.
    let socket = format!("redis.{}.sock", std::process::id());
    let mut server = Command::new(REDIS);
    server.args(["--port", "0", "--unixsocket", &socket, "--save", "", "--appendonly", "no"]);
    server.args(["--enable-debug-command", "local", "--daemonize", "no", "--loglevel", "warning"]);
    server.current_dir(&directory);
    let mut server = match recorder {
        Some((slimline, session)) => slimline.record(&server, session, &[]),
        None => server,
    };
    let mut server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let said = load_redis(&directory, &socket, &mut server);
    if said.is_err() {
        // Ended already, or not listening: nothing to shut down in good order.
        let _ = server.kill();
    }
    let code = server.wait()?.code();
    Ok(Outcome { stdout: said?, code })
}

/// What the server answers after a load that ends in the same data, however the connections interleave.
fn load_redis(directory: &Path, socket: &str, server: &mut Child) -> Result<Vec<u8>> {
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
