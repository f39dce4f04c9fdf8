//! `slimline.h`.

use slimline_instrument::driver::HEADER;

use super::Sources;

const SOURCE: &str = r#"
#include "slimline.h"
#include "slimline.h"
double vec[10];
int main(void) {
    volatile double local[4];
    slimline_region_begin("outer");
    slimline_watch(vec, sizeof vec, "vec");
    slimline_region_begin("in it");
    slimline_watch(local, sizeof local, "a local");
    slimline_region_end();
    slimline_region_end();
    slimline_unwatch(local);
    slimline_unwatch(vec);
#ifdef __cplusplus
    {
        slimline::region region("guarded");
        slimline::watch watch(local, 8, "guard");
    }
    slimline_unwatch(local);
#endif
    slimline_unwatch(vec);
    return 0;
}
"#;

fn sources() -> Sources {
    Sources::new(&[("slimline.h", HEADER), ("program.c", SOURCE), ("program.cpp", SOURCE)])
}

const STRICT: [&str; 5] = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"];
/// Ways to make a program: linkers decide on weak symbols of some for good.
const LINKED: [&[&str]; 3] = [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"], &["-flto", "-fno-pie", "-no-pie"]];

#[test]
fn c_programs_say_it_however_they_are_linked() {
    let sources = sources();
    for compiler in ["gcc", "clang-19"] {
        for standard in ["-std=c89", "-std=c17"] {
            for linked in LINKED {
                let words = [&[compiler, standard, "-o", "program", "program.c"], &STRICT[..], linked].concat();
                sources.make(&words);
                let said = sources.said("program");
                let expected = ["watch 80 vec", "watch 32 a%20local", "1 unwatched", "region outer in 0"];
                assert_eq!(said, [&expected[..], &["region in%20it in 1"]].concat(), "{words:?}");
            }
        }
    }
}

#[test]
fn cpp_programs_have_guards() {
    let sources = sources();
    for compiler in ["g++", "clang++-19"] {
        for standard in ["-std=c++98", "-std=c++20"] {
            for linked in LINKED {
                let words =
                    [&[compiler, standard, "-Wold-style-cast", "-o", "program", "program.cpp"], &STRICT[..], linked];
                let words = words.concat();
                sources.make(&words);
                let watched = ["watch 80 vec", "watch 32 a%20local", "watch 8 guard", "2 unwatched"];
                let regions = ["region outer in 0", "region in%20it in 1", "region guarded in 0"];
                assert_eq!(sources.said("program"), [&watched[..], &regions].concat(), "{words:?}");
            }
        }
    }
}

/// There is no dynamic linker that could preload anything.
#[test]
fn static_programs_go_on_as_before() {
    let sources = sources();
    for compiler in ["gcc", "clang-19"] {
        for linked in [&["-static"][..], &["-fPIE", "-static-pie"]] {
            sources.make(&[&[compiler, "-o", "program", "program.c"], &STRICT[..], linked].concat());
            let output = sources.run(&[sources.path("program")]);
            assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        }
    }
}

/// Before glibc 2.34 the C library had no `dlsym`: the linker finds none, but the dynamic one does in what is preloaded.
#[test]
fn the_linker_need_not_know_dlsym() {
    // A C library without it, to link with.
    const OLD: &str = "int __libc_start_main(void) { return 0; }";
    let sources = sources();
    std::fs::write(sources.path("old.c"), OLD).unwrap();
    sources.make(&[
        "gcc",
        "-shared",
        "-fPIC",
        "-fno-builtin",
        "-nostdlib",
        "-Wl,-soname,libc.so.6",
        "-o",
        "old.so",
        "old.c",
    ]);
    for linked in &LINKED[..2] {
        let libraries = ["-fno-stack-protector", "-nodefaultlibs", "./old.so", "-lgcc"];
        sources.make(&[&["gcc", "-o", "program", "program.c"], &STRICT[..], linked, &libraries].concat());
        assert_eq!(sources.said("program").len(), 5);
    }
}

/// Errors of the look-up are not the program's; nor does it make references to `dlsym` weak that the program has.
#[test]
fn the_program_s_own_look_ups_are_as_before() {
    const SOURCE: &str = r#"
#include <dlfcn.h>
#include "slimline.h"
int main(void) {
    slimline_region_begin("name");
    slimline_region_end();
    if (dlerror()) return 1;
    return dlsym(0, "no such function") != 0 || !dlerror();
}
"#;
    let sources = sources();
    std::fs::write(sources.path("program.c"), SOURCE).unwrap();
    for compiler in ["gcc", "clang-19"] {
        sources.make(&[compiler, "-o", "program", "program.c", "-O1"]);
        assert_eq!(sources.said("program"), ["region name in 0"]);
        sources.make(&[compiler, "-c", "program.c", "-O1"]);
        let symbols = sources.run(&["nm", "--undefined-only", "program.o"]);
        let symbols = super::text(&symbols.stdout);
        assert!(symbols.contains(" U dlsym\n") && !symbols.contains(" w dlsym\n"), "{symbols}");
    }
}
