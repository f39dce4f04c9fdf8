//! `cargo xtask soak`: programs that run long, recorded and not, side by side: what the agent's memory and price come to.
//!
//! Both run at the same time, so that what else the machine does meets both; the price is CPU time for each operation.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sample_programs::{Optimization, Program};

use crate::measure::{median, read};
use crate::selection::select;
use crate::slimline::Slimline;
use crate::{redis, setup, target_dir};

/// Rows of each table.
const SPANS: u32 = 10;
/// Of the first and the last spans' median prices: more apart is a drift.
const MOST_DRIFT: f64 = 0.03;
/// What the agent's memory may grow by from the middle to the end.
const MOST_GROWTH_KIB: f64 = 4096.0;

/// How far a program has come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    operations: f64,
    cpu_seconds: f64,
}

/// A program that runs until it is told to end.
trait Soaked {
    /// Kernel's number of the program itself.
    fn pid(&self) -> u32;
    fn progress(&self) -> Result<Progress>;
    /// Ends it in good order.
    fn end(self: Box<Self>) -> Result<()>;
}

/// Runs each program for so many minutes, or only these; prints a Markdown table of each. Whether none drifted.
pub(crate) fn run(minutes: u32, only: &[String]) -> Result<bool> {
    setup::install(setup::TESTS)?;
    let slimline = Slimline::build()?;
    let seconds = u64::from(minutes) * 60;
    let mut is_steady = true;
    for name in select(vec!["churn_threads", "redis-server"], |name| name, only)? {
        let session = slimline.session("soak");
        let begin = |recorder: Option<&Slimline>| -> Result<Box<dyn Soaked>> {
            let recorder = recorder.map(|slimline| (slimline, session.as_path()));
            if name == "redis-server" {
                Ok(Box::new(Redis::begin(recorder)?))
            } else {
                Ok(Box::new(Churn::begin(seconds, recorder)?))
            }
        };
        let twins = [begin(None)?, begin(Some(&slimline))?];
        is_steady &= watch(name, seconds, &twins)?;
        for twin in twins {
            twin.end()?;
        }
        println!("{}", account(&session)?);
        let _ = std::fs::remove_dir_all(&session);
    }
    Ok(is_steady)
}

/// Prints a row for each span. Whether price and memory came to rest.
fn watch(name: &str, seconds: u64, [native, recorded]: &[Box<dyn Soaked>; 2]) -> Result<bool> {
    println!("\n{name}, {} minutes:\n", seconds / 60);
    println!("| minute | ns of CPU an operation | recorded | ratio | memory, MiB | recorded, MiB | recorder, MiB |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let started = Instant::now();
    let mut before = [native.progress()?, recorded.progress()?];
    let (mut ratios, mut extra_kib) = (Vec::new(), Vec::new());
    for span in 1..=SPANS {
        // The last span ends a little early: the programs must still be there.
        let until =
            Duration::from_secs(seconds * u64::from(span) / u64::from(SPANS)).saturating_sub(Duration::from_secs(3));
        std::thread::sleep(until.saturating_sub(started.elapsed()));
        let now = [native.progress()?, recorded.progress()?];
        let price = |twin: usize| {
            let operations = now[twin].operations - before[twin].operations;
            (now[twin].cpu_seconds - before[twin].cpu_seconds) / operations * 1e9
        };
        let ratio = price(1) / price(0);
        let memory = [resident_kib(native.pid())?, resident_kib(recorded.pid())?];
        let recorder = resident_kib(parent_of(recorded.pid())?)?;
        ratios.push(ratio);
        extra_kib.push(memory[1] - memory[0]);
        println!(
            "| {:.1} | {:.1} | {:.1} | {ratio:.3} | {:.1} | {:.1} | {:.1} |",
            started.elapsed().as_secs_f64() / 60.0,
            price(0),
            price(1),
            memory[0] / 1024.0,
            memory[1] / 1024.0,
            recorder / 1024.0
        );
        before = now;
    }
    let third = ratios.len() / 3;
    let drift = median(ratios[ratios.len() - third..].to_vec()) / median(ratios[1..=third].to_vec()) - 1.0;
    let growth_kib = extra_kib[extra_kib.len() - 1] - extra_kib[extra_kib.len() / 2];
    let mut said = String::new();
    write!(said, "\nThe price drifted by {:+.1} %; ", 100.0 * drift)?;
    write!(
        said,
        "recording took {:.1} MiB of the program's memory at the end, ",
        extra_kib[extra_kib.len() - 1] / 1024.0
    )?;
    write!(said, "{:+.1} MiB more than in the middle.", growth_kib / 1024.0)?;
    println!("{said}");
    Ok(drift.abs() <= MOST_DRIFT && growth_kib <= MOST_GROWTH_KIB)
}

/// What a session says of samples and losses, in one line.
fn account(session: &Path) -> Result<String> {
    let info: serde_json::Value = serde_json::from_str(&read(&session.join("session.json"))?)?;
    let process = &info["processes"][0];
    let number = |name: &str| process[name].as_f64().with_context(|| format!("no {name} in session.json"));
    let (weight, user_ns) = (number("weight")?, number("user_ns")?);
    let losses = process["losses"].as_object().context("no losses in session.json")?;
    let losses: Vec<String> = losses
        .iter()
        .filter(|(_, count)| count.as_f64().is_some_and(|count| count > 0.0))
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    Ok(format!(
        "{} samples stand for {:.1} % of {:.0} s of user time; counted as lost: {}.",
        number("samples")?,
        100.0 * weight / user_ns,
        user_ns / 1e9,
        if losses.is_empty() { "nothing".to_owned() } else { losses.join(", ") }
    ))
}

/// Resident memory of a process, pages that it shares included.
fn resident_kib(pid: u32) -> Result<f64> {
    let status = read(&PathBuf::from(format!("/proc/{pid}/status")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

fn parent_of(pid: u32) -> Result<u32> {
    let status = read(&PathBuf::from(format!("/proc/{pid}/status")))?;
    Ok(status.lines().find_map(|line| line.strip_prefix("PPid:")).context("no PPid")?.trim().parse()?)
}

fn recorded(command: Command, recorder: Option<(&Slimline, &Path)>) -> Command {
    match recorder {
        Some((slimline, session)) => slimline.record(&command, session, &[]),
        None => command,
    }
}

/// `churn_threads`, which tells its progress each second.
struct Churn {
    child: Child,
    pid: u32,
    progress: Arc<Mutex<Progress>>,
}

impl Churn {
    fn begin(seconds: u64, recorder: Option<(&Slimline, &Path)>) -> Result<Self> {
        let program = Program::named("churn_threads")?.build(Optimization::O2, &target_dir()?.join("programs"))?;
        let mut command = Command::new(program);
        command.arg((seconds + 10).to_string());
        let mut child = recorded(command, recorder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let pid = lines.next().context("churn_threads says nothing")??.parse()?;
        let progress = Arc::new(Mutex::new(Progress::default()));
        let told = Arc::clone(&progress);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((operations, cpu_seconds)) = line.split_once(' ') else { continue };
                if let (Ok(operations), Ok(cpu_seconds)) = (operations.parse(), cpu_seconds.parse())
                    && let Ok(mut told) = told.lock()
                {
                    *told = Progress { operations, cpu_seconds };
                }
            }
        });
        Ok(Self { child, pid, progress })
    }
}

impl Soaked for Churn {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn progress(&self) -> Result<Progress> {
        self.progress.lock().map(|progress| *progress).map_err(|_| anyhow::anyhow!("the reading thread failed"))
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("churn_threads: {status}");
        }
        Ok(())
    }
}

/// A server under a load without end.
struct Redis {
    server: redis::Server,
    load: Child,
    pid: u32,
}

impl Redis {
    fn begin(recorder: Option<(&Slimline, &Path)>) -> Result<Self> {
        let server = redis::Server::start("redis-server".as_ref(), recorder)?;
        let mut load = server.client("redis-benchmark");
        load.args(["-l", "-q", "-r", "100000", "-n", "400000", "-P", "8", "-c", "20"]);
        load.args(["-t", "set,get,incr,lpush,lpop,sadd,hset,zadd"]);
        let load = load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let pid = told(&info(&server)?, "process_id")? as u32;
        Ok(Self { server, load, pid })
    }
}

fn info(server: &redis::Server) -> Result<String> {
    server.ask(&["info", "everything"])
}

/// A number of Redis's account of itself.
fn told(info: &str, name: &str) -> Result<f64> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.with_context(|| format!("redis does not tell {name}"))?.trim().parse()?)
}

impl Soaked for Redis {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn progress(&self) -> Result<Progress> {
        let info = info(&self.server)?;
        Ok(Progress {
            operations: told(&info, "total_commands_processed")?,
            cpu_seconds: told(&info, "used_cpu_user")? + told(&info, "used_cpu_sys")?,
        })
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.load.kill()?;
        self.load.wait()?;
        let status = self.server.shut_down()?;
        if !status.success() {
            bail!("redis-server: {status}");
        }
        Ok(())
    }
}
