use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use slimline_trace::session::SessionWriter;
use slimline_trace::wire;
use tempfile::TempDir;

use super::*;
use crate::allocators::Allocators;
use crate::loaded_agent::tests::some_library;
use crate::perf_rings::Sampled;
use crate::proc_text::tests::Sleeper;
use crate::record::tests::empty_info;
use crate::synthetic::SyntheticProcess;

fn tree(scratch: &TempDir) -> Tree {
    tree_that_samples(scratch, RingOptions::of_clock(1_000_000))
}

fn tree_that_samples(scratch: &TempDir, options: RingOptions) -> Tree {
    let drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
    let agent = LoadedAgent::new(scratch.path().join("libagent.so"));
    Tree::new(drain, agent, options, None)
}

fn writer(scratch: &TempDir) -> WriterThread {
    let session = SessionWriter::create(&scratch.path().join("session"), &empty_info()).unwrap();
    WriterThread::start(session).unwrap()
}

/// As if it had gone on between the look and the moment when its events were open.
#[test]
fn what_a_process_goes_on_to_is_not_sampled_as_what_it_was() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut tree, writer) = (tree(&scratch), writer(&scratch));
    let sleeper = Sleeper::start();
    let pid = sleeper.child.id();
    let before = Program::of(std::process::id()).unwrap();
    if let Err(refused) = tree.sample_from_outside(pid, before, None, &writer) {
        return eprintln!("skipped: the kernel refuses to sample from outside{refused}");
    }
    assert!(tree.outside.ids().next().is_none() && tree.went_on.contains(&pid));
    tree.sample_from_outside(pid, Program::of(pid).unwrap(), None, &writer).unwrap();
    assert!(tree.outside.program_of(pid).is_some());
}

#[test]
fn a_thread_is_no_longer_sampled_alone_once_its_process_is() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut tree, writer) = (tree(&scratch), writer(&scratch));
    // A test runs in a thread of its own.
    let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let own = std::process::id();
    let program = Program::of(own).unwrap();
    if let Err(refused) = tree.sample_thread_from_outside((own, thread), program) {
        return eprintln!("skipped: the kernel refuses to sample from outside{refused}");
    }
    assert_eq!(tree.outside.ids().collect::<Vec<_>>(), [thread]);
    tree.sample_from_outside(own, program, None, &writer).unwrap();
    assert_eq!(tree.outside.ids().collect::<Vec<_>>(), [own]);
}

#[test]
fn a_refusal_is_part_of_the_failure_of_the_program_that_gave_up() {
    let scratch = tempfile::tempdir().unwrap();
    // No event is ever granted.
    let options = RingOptions { sampled: Sampled::Hardware(Vec::new()), ..RingOptions::of_clock(1_000_000) };
    let (mut tree, writer) = (tree_that_samples(&scratch, options), writer(&scratch));
    let own = std::process::id();
    let process = SyntheticProcess::create(&scratch.path().join(format!("{own}-0.ring")), own);
    process.set_state(wire::ProcessState::Failed);
    tree.drain.pass(&writer);
    tree.look_at(own, 7, &writer);
    tree.look_at(own, 8, &writer);
    let summaries = tree.summaries();
    let [summary] = &summaries[..] else { panic!("{summaries:?}") };
    let failure = summary.failure.as_deref().unwrap();
    assert_eq!(failure, "; the kernel refuses to sample from outside: no event takes samples", "once");
    assert!(summary.user_ns.is_some() && summary.system_ns.is_some());
}

/// Shells that each wait for a line, then go on to the next: a copy of the shell, and what it is started by.
fn shells(scratch: &TempDir, programs: &[(&str, &str)], preloaded: &Path) -> Child {
    let mut script = "read go".to_owned();
    for (name, through) in programs[1..].iter().rev() {
        let quoted = script.replace('\'', "'\\''");
        script = format!("read go; exec {through} {} -c '{quoted}'", scratch.path().join(name).display());
    }
    for (name, _) in programs {
        let path = scratch.path().join(name);
        if !path.exists() {
            fs::copy("/bin/sh", path).unwrap();
        }
    }
    let mut shell = Command::new(scratch.path().join(programs[0].0));
    shell.args(["-c", &script]).env("LD_PRELOAD", preloaded).stdin(Stdio::piped()).spawn().unwrap()
}

/// Has the shell go on, and waits until the next one has begun.
fn go_on(child: &mut Child, tree: &Tree, name: &str) {
    let before = environment_address(child.id());
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let is_there = || {
        // Asked before and after: what runs it is something else for a moment.
        let begun = environment_address(child.id());
        let runs = Running::of(child.id()).is_some_and(|running| running.name().ends_with(name));
        let is_known = tree.agent.presence_in(child.id()) != Presence::Unknown;
        runs && is_known && begun != before && begun == environment_address(child.id())
    };
    while !is_there() {
        std::thread::yield_now();
    }
}

fn agent_file(scratch: &TempDir) -> PathBuf {
    let path = scratch.path().join("libagent.so");
    fs::copy(some_library(), &path).unwrap();
    path
}

fn wait_for_agent(child: &Child, tree: &Tree) {
    while !matches!(tree.agent.presence_in(child.id()), Presence::Loaded { .. }) {
        std::thread::yield_now();
    }
}

/// `sudo` again, after something else in the same process.
#[test]
fn a_program_that_comes_back_is_told_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut tree, writer) = (tree(&scratch), writer(&scratch));
    let agent = agent_file(&scratch);
    let mut child = shells(&scratch, &[("refused", ""), ("other", "env"), ("refused", "env")], &agent);
    let pid = child.id();
    wait_for_agent(&child, &tree);
    tree.verdicts.plant(&Running::of(pid).unwrap(), Verdict::Unrecordable("it is refused".to_owned()));
    let mut told = Vec::new();
    let mut look_twice = |tree: &mut Tree| {
        tree.look_at(pid, 7, &writer);
        tree.look_at(pid, 8, &writer);
        told.push((tree.unrecorded.len(), tree.told.contains_key(&pid), tree.with_agent.contains_key(&pid)));
    };
    look_twice(&mut tree);
    go_on(&mut child, &tree, "other");
    look_twice(&mut tree);
    go_on(&mut child, &tree, "refused");
    look_twice(&mut tree);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(told, [(1, true, false), (1, false, true), (2, true, false)]);
}

/// The same file, by `env -i`.
#[test]
fn a_program_that_runs_itself_again_without_the_agent_is_seen() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut tree, writer) = (tree(&scratch), writer(&scratch));
    let agent = agent_file(&scratch);
    let mut child = shells(&scratch, &[("one", ""), ("one", "env"), ("one", "env -i")], &agent);
    let pid = child.id();
    wait_for_agent(&child, &tree);
    let mut seen = Vec::new();
    let mut look = |tree: &mut Tree| {
        tree.look_at(pid, 7, &writer);
        // Where the kernel refuses to sample it from outside, that is told.
        let is_without = tree.outside.program_of(pid).is_some() || tree.unrecorded.len() == 1;
        seen.push((tree.with_agent.contains_key(&pid), is_without));
    };
    look(&mut tree);
    go_on(&mut child, &tree, "one");
    look(&mut tree);
    go_on(&mut child, &tree, "one");
    look(&mut tree);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, [(true, false), (true, false), (false, true)]);
}

#[test]
fn children_are_those_that_run() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let found = children_of(std::process::id());
    child.kill().unwrap();
    child.wait().unwrap();
    // Kernels without CONFIG_PROC_CHILDREN tell nothing.
    assert!(found.is_empty() || found.contains(&child.id()), "{found:?}");
    assert!(!children_of(std::process::id()).contains(&child.id()));
}

#[test]
fn those_that_are_not_recorded_are_all_counted_and_the_first_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let mut tree = tree(&scratch);
    for pid in 1..=MOST_UNRECORDED as u32 + 5 {
        tree.tell_unrecorded(pid, "/opt/old".to_owned(), "a program for a 32-bit CPU".to_owned(), 7);
    }
    let summaries = tree.summaries();
    let counted: u64 = summaries.iter().map(|summary| summary.losses.children_unrecorded).sum();
    assert_eq!((summaries.len(), counted), (MOST_UNRECORDED, 5));
    let mut directories: Vec<_> = summaries.iter().map(|summary| &summary.directory).collect();
    directories.dedup();
    assert_eq!(directories.len(), MOST_UNRECORDED);
}
