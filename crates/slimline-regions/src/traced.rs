//! What is told of a program that is traced or sampled: where its threads are, and to traces what it watches.
//!
//! Instrumented code has a runtime that writes records (`__slimline_note`), which the dynamic linker knows. A translator sees the mark
//! in front of an instruction that loads what is to be told. The agent that samples has a word of each thread (`__slimline_sampled_region`), as its
//! signal may find the thread anywhere: also where it counts, or looks for its thread-local storage.
#![allow(unsafe_code)] // a function that is looked for by its name, and an instruction

use std::arch::asm;
use std::sync::Once;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use slimline_trace::stream::record::{REGION, UNWATCH, WATCH};
use slimline_trace::stream::ring::NOTED_ALWAYS;
use slimline_trace::stream::translated::NOTE;

use crate::live::{live, place_of_this_thread};
use crate::path::{PathId, ROOT};
use crate::process::run_in_forked_children;
use crate::watched;

/// The runtime's function, and the agent's; 0 where there is none, or nobody has looked.
static RUNTIME: AtomicUsize = AtomicUsize::new(0);
static AGENT: AtomicUsize = AtomicUsize::new(0);

/// Looks for the runtime, which may have come with a library, and for the agent.
#[cold]
pub(crate) fn look_for_listeners() {
    for (function, name) in [(&RUNTIME, c"__slimline_note"), (&AGENT, c"__slimline_sampled_region")] {
        if function.load(Relaxed) == 0 {
            // SAFETY: the name ends in NUL.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if found.is_null() {
                // SAFETY: takes what the program would find otherwise, who asked for nothing.
                unsafe { libc::dlerror() };
            }
            function.store(found as usize, Relaxed);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| run_in_forked_children(in_forked_child));
}

/// A forked child's stream is a new one. The runtime's own handler, which begins it, was there before: handlers run in the order in which they came.
unsafe extern "C" fn in_forked_child() {
    if live().is_some() {
        let place = place_of_this_thread();
        if place != ROOT {
            region(place);
        }
        watched::tell_again();
    }
}

/// The calling thread goes on along this path.
pub(crate) fn region(PathId(path): PathId) {
    note(&[2, REGION.word(), path.into()]);
    type Agent = extern "C" fn(u32);
    let agent = AGENT.load(Relaxed);
    if agent != 0 {
        // SAFETY: a function of that name has that type.
        let agent = unsafe { std::mem::transmute::<usize, Agent>(agent) };
        agent(path);
    }
}

/// Memory is watched from here on, as the range of that number.
pub(crate) fn watch(address: u64, bytes: u64, number: u32) {
    note(&[4, WATCH.word(), address, bytes, number.into()]);
}

/// It is no longer.
pub(crate) fn unwatch(number: u32) {
    note(&[2, UNWATCH.word(), number.into()]);
}

/// Tells a record's words, behind how many they are.
fn note(words: &[u64]) {
    // SAFETY: an instruction that does nothing, and one that loads a word that is there.
    unsafe {
        asm!(
            ".byte {}, {}, {}, {}, {}, {}, {}",
            "mov {word}, qword ptr [{words}]",
            const NOTE[0], const NOTE[1], const NOTE[2], const NOTE[3], const NOTE[4], const NOTE[5], const NOTE[6],
            words = in(reg) words.as_ptr(),
            word = out(reg) _,
            options(nostack, preserves_flags, readonly),
        );
    }
    type Runtime = unsafe extern "C" fn(*const u64, usize, u32);
    let runtime = RUNTIME.load(Relaxed);
    if runtime != 0 {
        // SAFETY: a function of that name has that type; these are whole records. Called as by the program's code, whose cursor is in its
        // place at calls.
        unsafe {
            let runtime = std::mem::transmute::<usize, Runtime>(runtime);
            runtime(words[1..].as_ptr(), words.len() - 1, NOTED_ALWAYS);
        }
    }
}
