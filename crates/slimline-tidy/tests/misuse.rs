//! What is freed twice ends the program, with a line, and so does what takes membarrier away.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::process::Command;
use std::thread;

use slimline_tidy::Context;

mod refused;

/// Where a program of this test's is told what to do.
const WAY: &str = "TIDY_TEST_MISUSE";

/// Runs one test of this program, which is told to misuse a context.
fn ends(test: &str, line: &str) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", "--nocapture", test]).env(WAY, test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(line), "{said}");
}

fn misused(test: &str, misuse: impl FnOnce(&Context)) {
    if std::env::var_os(WAY).is_some_and(|way| way == test) {
        misuse(&Context::new(&[4]).unwrap());
    } else {
        ends(test, "tidy: free of what is no object");
    }
}

const LAYOUT: Layout = Layout::new::<[u64; 3]>();

#[test]
#[cfg_attr(miri, ignore = "it starts programs")]
fn twice() {
    misused("twice", |context| {
        let _other = context.alloc(LAYOUT, &[1]).unwrap();
        let object = context.alloc(LAYOUT, &[1]).unwrap();
        // SAFETY: that it is not is what is tried.
        unsafe {
            context.free(object);
            context.free(object);
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "it starts programs")]
fn within_an_object() {
    misused("within_an_object", |context| {
        let object = context.alloc(LAYOUT, &[1]).unwrap();
        // SAFETY: as above.
        unsafe { context.free(object.add(8)) };
    });
}

#[test]
#[cfg_attr(miri, ignore = "it starts programs")]
fn by_two_threads() {
    misused("by_two_threads", |context| {
        let _other = context.alloc(LAYOUT, &[1]).unwrap();
        let address = context.alloc(LAYOUT, &[1]).unwrap().expose_provenance();
        let free = || {
            let object = std::ptr::NonNull::with_exposed_provenance(address);
            // SAFETY: as above.
            unsafe { context.free(object) };
        };
        thread::scope(|scope| scope.spawn(free).join().unwrap());
        free();
    });
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "it starts programs")]
fn membarrier_refused_later() {
    const NAME: &str = "membarrier_refused_later";
    if std::env::var_os(WAY).is_none() {
        return ends(NAME, "a seccomp filter that came later?");
    }
    let context = Context::new(&[4]).unwrap();
    context.alloc(LAYOUT, &[1]).unwrap();
    refused::refuse_membarrier().unwrap();
    // What is only read takes none.
    thread::scope(|scope| assert_eq!(scope.spawn(|| context.statistics().objects).join().unwrap(), 1));
    thread::scope(|scope| scope.spawn(|| context.alloc(LAYOUT, &[1]).is_ok()).join().unwrap());
}

/// Then arenas are all threads'.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "it starts programs")]
fn membarrier_refused_before() {
    const NAME: &str = "membarrier_refused_before";
    if std::env::var_os(WAY).is_none() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let output = program.args(["--exact", "--nocapture", NAME]).env(WAY, NAME).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    refused::refuse_membarrier().unwrap();
    let context = Context::new(&[4]).unwrap();
    context.alloc(LAYOUT, &[1]).unwrap();
    thread::scope(|scope| scope.spawn(|| context.alloc(LAYOUT, &[1]).is_ok()).join().unwrap());
    assert_eq!(context.statistics().objects, 2);
}
