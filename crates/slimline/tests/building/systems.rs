//! Build systems.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{SLIMLINE, Scratch, run, says, text};

const WORK_C: &str = "#include <stdlib.h>\nstruct pair { long first, second; };\nlong work(int n) {\n  struct pair *p = malloc(n * sizeof *p);\n  \
     long s = 0;\n  for (int i = 0; i < n; i++) p[i].first = i;\n  for (int i = 0; i < n; i++) s += p[i].first;\n  free(p);\n  return s;\n}\n";
const MAIN_CPP: &str =
    "#include <cstdio>\nextern \"C\" long work(int);\nint main() { std::printf(\"%ld\\n\", work(10000)); }\n";
const WORK_F90: &str = "subroutine add(x, n) bind(c)\n  use iso_c_binding\n  integer(c_int), value :: n\n  real(c_double) :: x(n)\n  \
     integer :: i\n  do i = 1, n\n    x(i) = x(i) + i\n  end do\nend subroutine\n";

fn project(scratch: &Scratch, languages: &str) {
    scratch.write("work.c", WORK_C);
    scratch.write("work.f90", WORK_F90);
    scratch.write("main.cpp", MAIN_CPP);
    let has_fortran = languages.contains("Fortran");
    let main = if languages.contains("CXX") { "main.cpp" } else { "main.c" };
    scratch.write(
        "main.c",
        "#include <stdio.h>\nlong work(int);\nint main(void) { printf(\"%ld\\n\", work(10000)); return 0; }\n",
    );
    let fortran = if has_fortran { "add_library(more SHARED work.f90)\ntarget_link_libraries(app more)\n" } else { "" };
    let sources = if has_fortran { "work.c work.f90" } else { "work.c" };
    scratch.write(
        "CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.16)\nproject(demo {languages})\nset(CMAKE_BUILD_TYPE RelWithDebInfo)\n\
             add_library(work STATIC {sources})\nadd_executable(app {main})\ntarget_link_libraries(app work)\n{fortran}"
        ),
    );
}

/// Configures, builds twice (the second time there is nothing to do), and traces.
fn build_with_cmake(scratch: &Scratch, generator: &str, compilers: &[(&str, &str)]) {
    let _ = fs::remove_dir_all(scratch.file("b"));
    let mut configure = scratch.command("cmake");
    for (variable, compiler) in compilers {
        configure.env(variable, format!("{SLIMLINE} {compiler}"));
    }
    run(configure.args(["-G", generator, "-B", "b", "."]));
    let shown =
        run(Command::new("sh").current_dir(scratch.path()).args(["-c", "cat b/CMakeFiles/*/CMake*Compiler.cmake"]));
    let implicit = text(&shown.stdout).lines().filter(|line| line.contains("IMPLICIT_LINK_LIBRARIES"));
    implicit.for_each(|line| assert!(!line.contains("slimline"), "{line}"));
    run(scratch.command("cmake").args(["--build", "b", "-j", "4"]));
    let again = run(scratch.command("cmake").args(["--build", "b", "-v"]));
    assert!(!text(&again.stdout).contains(" -o app"), "{}", text(&again.stdout));
    assert_eq!(text(&run(&mut scratch.command("b/app")).stdout), "49995000\n");
    let trace = scratch.traced("b/app");
    assert!(says(&trace, "first"), "{compilers:?}: {trace:#}");
}

#[test]
fn cmake_builds_projects_of_several_languages() {
    let scratch = Scratch::new();
    for (languages, compilers) in [
        ("C CXX", &[("CC", "gcc"), ("CXX", "g++")][..]),
        ("C CXX Fortran", &[("CC", "gcc"), ("CXX", "g++"), ("FC", "gfortran")]),
        ("C CXX Fortran", &[("CC", "cc"), ("CXX", "c++"), ("FC", "gfortran")]),
        ("C Fortran", &[("CC", "gcc"), ("FC", "gfortran")]),
    ] {
        project(&scratch, languages);
        build_with_cmake(&scratch, "Unix Makefiles", compilers);
    }
}

#[test]
fn ninja_builds_them() {
    let scratch = Scratch::new();
    project(&scratch, "C CXX");
    build_with_cmake(&scratch, "Ninja", &[("CC", "cc"), ("CXX", "g++")]);
    project(&scratch, "C CXX Fortran");
    build_with_cmake(&scratch, "Ninja", &[("CC", "gcc"), ("CXX", "c++"), ("FC", "gfortran")]);
}

/// The runtime stays where linkers have read it from; where there is no place that stays, programs are linked all the same.
#[test]
fn the_runtime_stays_or_comes_along() {
    let scratch = Scratch::new();
    scratch.write("a.c", "int main(void) { return 0; }\n");
    let link = |cache: &Path| {
        let mut command = scratch.command(SLIMLINE);
        command.env("XDG_CACHE_HOME", cache).args(["gcc", "a.c", "-o", "a.out", "-Wl,-v"]);
        let said = run(&mut command);
        let said = text(&said.stderr);
        let words = said.split_whitespace().filter(|word| word.ends_with("/slimline-runtime"));
        words.map(str::to_owned).next_back().unwrap_or_else(|| panic!("{said}"))
    };
    let kept = link(&scratch.file("cache"));
    assert!(Path::new(&kept).is_file() && Path::new(&kept).starts_with(scratch.file("cache")), "{kept}");
    assert_eq!(link(&scratch.file("cache")), kept);
    scratch.write("file", "");
    assert!(!Path::new(&link(&scratch.file("file/cache"))).exists());
}

#[test]
fn meson_takes_commands_of_one_word() {
    let scratch = Scratch::new();
    let links = scratch.links();
    scratch.write("work.c", WORK_C);
    scratch.write("main.cpp", MAIN_CPP);
    scratch.write(
        "meson.build",
        "project('demo', 'c', 'cpp')\nwork = static_library('work', 'work.c')\nexecutable('app', 'main.cpp', link_with : work)\n",
    );
    for (c, cpp) in [("slimline-cc", "slimline-c++"), ("slimline-gcc", "slimline-g++")] {
        let _ = fs::remove_dir_all(scratch.file("b"));
        run(scratch.command("meson").env("CC", links.join(c)).env("CXX", links.join(cpp)).args(["setup", "b"]));
        run(scratch.command("meson").args(["compile", "-C", "b"]));
        let trace = scratch.traced("b/app");
        assert!(says(&trace, "first"), "{c}: {trace:#}");
    }
}

#[test]
fn autoconf_and_libtool_take_commands_of_one_word() {
    let scratch = Scratch::new();
    let links = scratch.links();
    scratch.write("work.c", WORK_C);
    scratch.write("main.cpp", MAIN_CPP);
    scratch.write(
        "configure.ac",
        "AC_INIT([demo], [1])\nAM_INIT_AUTOMAKE([foreign])\nAC_CONFIG_MACRO_DIRS([m4])\nAC_PROG_CC\nAC_PROG_CXX\nAM_PROG_AR\nLT_INIT\n\
         AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    scratch.write(
        "Makefile.am",
        "ACLOCAL_AMFLAGS = -I m4\nlib_LTLIBRARIES = libwork.la\nlibwork_la_SOURCES = work.c\nbin_PROGRAMS = app\napp_SOURCES = main.cpp\n\
         app_LDADD = libwork.la\n",
    );
    fs::create_dir(scratch.file("m4")).unwrap();
    run(scratch.command("autoreconf").arg("-i"));
    for (c, cpp) in [("slimline-cc", "slimline-c++"), ("slimline-gcc", "slimline-g++")] {
        let build = format!("b-{c}");
        fs::create_dir(scratch.file(&build)).unwrap();
        let within = scratch.file(&build);
        let path = format!("{}:{}", links.display(), std::env::var("PATH").unwrap());
        let mut configure = scratch.command("../configure");
        run(configure.current_dir(&within).env("PATH", &path).args([format!("CC={c}"), format!("CXX={cpp}")]));
        run(scratch.command("make").current_dir(&within).env("PATH", &path).arg("-j4"));
        let trace = scratch.traced(&format!("{build}/app"));
        assert!(says(&trace, "first"), "{c}: {trace:#}");
    }
}

#[test]
fn compiler_caches_go_in_front() {
    let scratch = Scratch::new();
    let links = scratch.links();
    scratch.write("work.c", WORK_C);
    scratch.write(
        "main.c",
        "#include <stdio.h>\nlong work(int);\nint main(void) { printf(\"%ld\\n\", work(10000)); return 0; }\n",
    );
    let ccache = |arguments: &[&str]| {
        let mut command = scratch.command("ccache");
        run(command.env("CCACHE_DIR", scratch.file("ccache")).env_remove("CCACHE_DISABLE").args(arguments))
    };
    for compiler in ["slimline-cc", "slimline-gcc"] {
        let compiler = links.join(compiler);
        let compiler = compiler.to_str().unwrap();
        for round in 0..2 {
            ccache(&["--zero-stats"]);
            for source in ["work", "main"] {
                let object = format!("{source}.o");
                ccache(&[compiler, "-O1", "-g", "-c", &format!("{source}.c"), "-o", &object]);
            }
            let hits = text(&ccache(&["--print-stats"]).stdout).to_owned();
            let count = |name: &str| {
                let line = hits.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|count| count.trim().parse::<u32>().ok()).unwrap_or(0)
            };
            assert_eq!(count("preprocessed_cache_hit") + count("direct_cache_hit"), round * 2, "{hits}");
        }
        ccache(&[compiler, "work.o", "main.o", "-o", "app"]);
        let trace = scratch.traced("./app");
        assert!(says(&trace, "first"), "{compiler}: {trace:#}");
    }
}
