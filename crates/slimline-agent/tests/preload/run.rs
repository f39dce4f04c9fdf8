//! Builds the agent and the targets, and runs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use slimline_trace::wire::{
    ALLOCATORS_FILE, AllocatorFunction, CONFIG_FILE, MAGIC, RUN_DIRECTORY_VARIABLE, RunConfig, TriggerKind, VERSION,
};
use tempfile::TempDir;

use crate::reader::{Process, Reader};

/// A target that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(120);

fn build_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The library, built as the collector builds it.
pub(crate) fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        let directory = build_directory().join("agent");
        let status = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["rustc", "--quiet", "--package", "slimline-agent", "--lib", "--crate-type", "cdylib"])
            .args(["--features", "preload", "--profile", "agent", "--target-dir"])
            .arg(&directory)
            .args(["--", "-C", "force-unwind-tables=yes"])
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_MAKEFLAGS")
            .status()
            .expect("cargo starts");
        assert!(status.success());
        directory.join("agent/libslimline_agent.so")
    })
}

/// A compiled program.
pub(crate) struct Target(PathBuf);

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(directory) = self.0.parent() {
            let _ = std::fs::remove_dir_all(directory); // a left-over is harmless
        }
    }
}

impl Target {
    /// Compiles `targets/<name>.c`.
    pub(crate) fn compile(name: &str) -> Self {
        Self::compile_with(&format!("{name}.c"), "cc", &["-O1", "-pthread"])
    }

    /// Compiles a file of `targets/`.
    pub(crate) fn compile_with(file: &str, compiler: &str, flags: &[&str]) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/targets").join(file);
        let name = file.split('.').next().unwrap();
        // Tests run at the same time: each has its own copy.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = build_directory().join(format!("{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join(name);
        let status = Command::new(compiler).args(flags).arg("-o").arg(&program).arg(source).status().unwrap();
        assert!(status.success());
        Self(program)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments);
        command
    }
}

/// What each sample of the first clock weighs.
pub(crate) const PERIOD_NS: u64 = 1_000_000;
/// Of the second clock.
pub(crate) const BETWEEN_NS: u64 = 9 * PERIOD_NS;

/// What the collector would ask for by default.
pub(crate) fn config(trigger: TriggerKind) -> RunConfig {
    RunConfig {
        magic: MAGIC,
        version: VERSION,
        trigger: trigger as u32,
        period_ns: PERIOD_NS,
        between_ns: BETWEEN_NS,
        burst_instructions: 256,
        skid: 1,
        track_allocations: 1,
        follow_children: 1,
        root_pid: 0,
        budget_ppm: 1_000_000,
        reserved: [0; 2],
    }
}

/// Runs a command without the agent.
pub(crate) fn alone(mut command: Command) -> Output {
    let (child, output) = start(&mut command);
    output(child)
}

/// What came of a recorded run.
pub(crate) struct Recorded {
    pub(crate) output: Output,
    pub(crate) processes: Vec<Process>,
}

/// Runs a command with the agent, draining its rings meanwhile. What the command preloads itself comes behind it.
pub(crate) fn recorded(command: Command, config: RunConfig) -> Recorded {
    recorded_with(command, config, &[])
}

/// The same, with functions of allocators to be followed.
pub(crate) fn recorded_with(mut command: Command, config: RunConfig, functions: &[AllocatorFunction]) -> Recorded {
    let directory = prepare(&mut command, &config);
    let functions: Vec<u8> = functions.iter().flat_map(AllocatorFunction::bytes).collect();
    std::fs::write(directory.path().join(ALLOCATORS_FILE), functions).unwrap();
    let (child, output) = start(&mut command);
    let mut reader = Reader::new(directory.path());
    let waiter = std::thread::spawn(move || output(child));
    while !waiter.is_finished() {
        reader.drain();
        std::thread::sleep(Duration::from_millis(20));
    }
    reader.drain();
    Recorded { output: waiter.join().unwrap(), processes: reader.finish() }
}

/// Runs a command with the agent and kills it once it has been sampled so many times.
pub(crate) fn killed_after_samples(command: &mut Command, config: RunConfig, samples: usize) -> Recorded {
    let directory = prepare(command, &config);
    let (mut child, output) = start(command);
    let mut reader = Reader::new(directory.path());
    let started = Instant::now();
    while reader.samples() < samples && started.elapsed() < LIMIT {
        reader.drain();
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    let output = output(child);
    reader.drain();
    Recorded { output, processes: reader.finish() }
}

fn prepare(command: &mut Command, config: &RunConfig) -> TempDir {
    // In memory, as the collector's.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    write_config(directory.path(), config);
    let own = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD").and_then(|(_, value)| value);
    let mut preload = agent().as_os_str().to_owned();
    if let Some(own) = own {
        preload.push(":");
        preload.push(own);
    }
    command.env("LD_PRELOAD", preload).env(RUN_DIRECTORY_VARIABLE, directory.path());
    directory
}

/// Writes a configuration as the collector does.
pub(crate) fn write_config(directory: &Path, config: &RunConfig) {
    std::fs::write(directory.join(CONFIG_FILE), bytes(config)).unwrap();
}

fn bytes(config: &RunConfig) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(config.magic.to_ne_bytes());
    bytes.extend(config.version.to_ne_bytes());
    bytes.extend(config.trigger.to_ne_bytes());
    bytes.extend([config.period_ns, config.between_ns].iter().flat_map(|field| field.to_ne_bytes()));
    for word in [
        config.burst_instructions,
        config.skid,
        config.track_allocations,
        config.follow_children,
        config.root_pid,
        config.budget_ppm,
        0,
        0,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    assert_eq!(bytes.len(), size_of::<RunConfig>());
    bytes
}

fn start(command: &mut Command) -> (Child, impl FnOnce(Child) -> Output + Send + 'static) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    (child, move |child: Child| {
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if waiting.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(done);
        watchdog.join().unwrap();
        output
    })
}
