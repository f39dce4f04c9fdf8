//! Programs whose heap glibc's library for debugging checks (`libc_malloc_debug.so.0`).

use std::process::Command;

use crate::scratch::{Scratch, skip, stderr, stdout};

/// Uses its heap rightly, or in the wrong way that its argument names.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **arguments) {
    char *block = calloc(3, 8), *other = reallocarray(NULL, 10, 10);
    if (!strcmp(arguments[1], "twice")) free(block);
    if (!strcmp(arguments[1], "beyond")) block[24] ^= 1;
    if (!strcmp(arguments[1], "inside")) block += 8;
    if (!strcmp(arguments[1], "right")) free(aligned_alloc(64, 64)), other = realloc(other, 10000);
    free(block);
    free(other);
    return puts("at its end") == EOF;
}
"#;

/// It has hidden versions of its functions only, which the dynamic linker takes where it comes first.
#[test]
fn a_checked_heap_is_checked_when_it_is_recorded() {
    let scratch = Scratch::new();
    let flags = ["-O0", "-w", "-fno-builtin"];
    let program = scratch.compile("checked", PROGRAM, &flags);
    let library = "libc_malloc_debug.so.0";
    let preload = |mut command: Command| {
        command.env("LD_PRELOAD", library).env("MALLOC_CHECK_", "3").env("LC_ALL", "C").current_dir(scratch.path(""));
        command.output().unwrap()
    };
    for way in ["right", "twice", "beyond", "inside"] {
        let mut alone = Command::new(&program);
        alone.arg(way);
        let alone = preload(alone);
        if stderr(&alone).contains("cannot be preloaded") {
            return skip("a_checked_heap_is_checked_when_it_is_recorded", "no libc_malloc_debug.so.0");
        }
        assert_eq!(alone.status.success(), way == "right", "{way}: {alone:?}");
        let mut recorded = scratch.slimline(["record", "--"]);
        recorded.arg(&program).arg(way);
        let recorded = preload(recorded);
        assert_eq!((recorded.status, stdout(&recorded)), (alone.status, stdout(&alone)), "{way}: {recorded:?}");
        // Slimline's own line follows, on the same one: the message has no end of line.
        assert!(stderr(&recorded).starts_with(&stderr(&alone)), "{way}: {recorded:?}");
    }
}
