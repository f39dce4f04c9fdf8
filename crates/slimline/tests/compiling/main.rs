//! `slimline cc`, `slimline c++` and `slimline flang` as build systems call them: what they answer, and how they end badly.

use std::path::Path;
use std::process::{Command, Output};

fn slimline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_slimline"))
}

/// Runs the compiler in a directory, with another clang if one is named.
fn compile(directory: &Path, clang: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = slimline();
    command.current_dir(directory).args(arguments);
    match clang {
        Some(clang) => command.env("SLIMLINE_CLANG", clang),
        None => command.env_remove("SLIMLINE_CLANG"),
    };
    command.output().unwrap()
}

fn line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_traced_program_runs_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("half.c"), "int half(const int *x) { return *x / 2; }\n").unwrap();
    let main = "#include <cstdio>\n#include <vector>\nextern \"C\" int half(const int *);\n\
                int main(int n, char **) { std::vector<int> v(n + 20, 8); std::printf(\"%d\\n\", half(&v[n])); return 3; }\n";
    std::fs::write(place("main.cpp"), main).unwrap();
    for arguments in [
        &["cc", "-O2", "-c", "half.c"][..],
        &["c++", "-O2", "-c", "main.cpp", "-o", "main.o"],
        &["c++", "main.o", "half.o", "-o", "program"],
    ] {
        let output = compile(directory.path(), None, arguments);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    let output = Command::new(place("program")).output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"4\n"[..]));
}

#[test]
fn questions_are_answered_by_clang() {
    let directory = tempfile::tempdir().unwrap();
    for question in ["--version", "--help", "-dumpversion", "-print-resource-dir"] {
        let output = compile(directory.path(), None, &["cc", question]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{question}: {output:?}");
    }
    // As configure scripts ask whether an option is known.
    std::fs::write(directory.path().join("empty.c"), "").unwrap();
    let unknown = compile(directory.path(), None, &["cc", "-Wno-such", "-Werror", "-c", "empty.c"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(compile(directory.path(), None, &["cc", "-c", "empty.c"]).status.success());
}

#[test]
fn other_compilers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.c"), "int x;\n").unwrap();
    let with = |clang: &str| line(&compile(directory.path(), Some(clang), &["cc", "-c", "a.c"]));
    assert_eq!(with("/nowhere/clang"), "slimline: /nowhere/clang: No such file or directory (os error 2)");
    let gcc = with("gcc");
    // By the file that the name is in PATH.
    assert!(
        gcc.starts_with("slimline: /") && gcc.contains("/gcc is gcc") && gcc.ends_with("SLIMLINE_CLANG names another"),
        "{gcc}"
    );
    // A clang whose LLVM is linked in: the same answers, from a file that needs no libLLVM.
    let script = directory.path().join("clang");
    let jobs = "#!/bin/sh\ncat >&2 <<END\nclang version 19.1.7\n \"$0\" \"-cc1\" \"-emit-obj\" \"-o\" \"a.o\" \"-x\" \"c\" \"a.c\"\nEND\n";
    std::fs::write(&script, jobs).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let alone = with(script.to_str().unwrap());
    assert!(
        alone.ends_with("needs no libLLVM.so and none lies beside it: is LLVM linked into it statically?"),
        "{alone}"
    );
    let nothing =
        slimline().args(["cc", "-c", "a.c"]).env_remove("SLIMLINE_CLANG").env("PATH", "/nowhere").output().unwrap();
    assert_eq!(line(&nothing), "slimline: no clang of version 19 to 22 in PATH; SLIMLINE_CLANG names one");
}

/// As libtool links, and what brings an entry of its own; without the C library there is no runtime.
#[test]
fn what_is_linked_is_named_in_full() {
    const WHOLE: [&str; 7] = [
        "-nostdlib",
        "/usr/lib/x86_64-linux-gnu/Scrt1.o",
        "/usr/lib/x86_64-linux-gnu/crti.o",
        "a.c",
        "-lc",
        "-lgcc",
        "/usr/lib/x86_64-linux-gnu/crtn.o",
    ];
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nint table[10];\nint main(int argc, char **argv) {\n\
                  for (int i = 0; i < 10; i++) table[i] = argc;\nreturn table[argc] != 1; }\n";
    std::fs::write(directory.path().join("a.c"), source).unwrap();
    for compiler in ["cc", "gcc"] {
        let output = compile(directory.path(), None, &[&[compiler][..], &WHOLE].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let trace = slimline()
            .current_dir(directory.path())
            .args(["trace", "--live", "--format", "json", "--report", "-", "--", "./a.out"])
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&trace.stdout).unwrap();
        assert!(report["total"]["stores"].as_u64().is_some_and(|stores| stores > 0), "{report}");
        let free = line(&compile(directory.path(), None, &[compiler, "-nostdlib", "a.c"]));
        assert_eq!(
            free,
            "slimline: -nostdlib or -nodefaultlibs can't be combined with tracing: the runtime needs the C library; link it too (-lc)"
        );
    }
}

const ARENA: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <new>
namespace app {
struct Node { Node *next; long key; };
struct Arena {
    char *at;
    [[gnu::noinline]] void *make(std::size_t bytes) { char *block = at; at += bytes; return block; }
};
}
int main() {
    app::Arena arena{static_cast<char *>(std::malloc(1 << 20)) + 64};
    app::Node *list = nullptr;
    for (long i = 0; i < 100; i++) list = new (arena.make(sizeof(app::Node))) app::Node{list, i};
    long sum = 0;
    for (app::Node *node = list; node; node = node->next) sum += node->key;
    std::printf("%ld\n", sum);
}
"#;

/// As a build in a directory of its own does it, with the file in the project's.
#[test]
fn allocators_of_the_project_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let (place, build) = (|name: &str| directory.path().join(name), directory.path().join("out/debug"));
    std::fs::create_dir_all(&build).unwrap();
    std::fs::write(place("arena.cpp"), ARENA).unwrap();
    let told = "[[allocator]]\nallocate = [{ function = \"app::Arena::make\", size = 2 }]\n";
    let compile = || compile(&build, None, &["c++", "-O2", "-fno-vectorize", "../../arena.cpp", "-o", "arena"]);
    // How many blocks there are of each place, and how often they are loaded from.
    let blocks = || {
        assert!(compile().status.success());
        let mut trace = slimline();
        let output = trace
            .args(["trace", "--live", "--report", "-", "--format", "json", "--", "./arena"])
            .current_dir(&build)
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let report: serde_json::Value = serde_json::from_str(text.strip_prefix("4950\n").unwrap()).unwrap();
        let groups = report["heap"].as_array().unwrap().iter();
        groups.map(|group| [&group["blocks"], &group["loads"]].map(|it| it.as_u64().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(blocks(), [[1, 200]]);
    std::fs::write(place("slimline.toml"), told).unwrap();
    assert!(blocks().contains(&[100, 200]));
    std::fs::write(place("slimline.toml"), told.replace("size = 2", "size = 3")).unwrap();
    let unlike = compile();
    let said = String::from_utf8(unlike.stderr).unwrap();
    assert!(unlike.status.success() && said.starts_with("slimline: a call of `app::Arena::make` has not"), "{said}");
    // A mistake is told where it is.
    std::fs::write(place("slimline.toml"), told.replace("size", "sise")).unwrap();
    let file = place("slimline.toml");
    let wrong = line(&compile());
    assert!(wrong.starts_with(&format!("slimline: {}:2: unknown field `sise`", file.display())), "{wrong}");
    let mut elsewhere = slimline();
    elsewhere.args(["c++", "-c", "../../arena.cpp"]).current_dir(&build).env("SLIMLINE_CONFIGURATION", "other.toml");
    assert_eq!(line(&elsewhere.output().unwrap()), "slimline: other.toml: No such file or directory (os error 2)");
    std::fs::write(build.join("slimline.toml"), told.replace("size = 2", "size = 7")).unwrap();
    assert_eq!(
        line(&compile()),
        "slimline: slimline.toml: allocator 1: allocate: `app::Arena::make`: size = 7: arguments are counted from 1 to 6"
    );
}

#[test]
fn flang_s_programs_are_traced() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shapes.f90"), include_str!("../shapes.f90")).unwrap();
    for arguments in [&["flang", "-O1", "-c", "shapes.f90"][..], &["flang", "shapes.o", "-o", "shapes"]] {
        let output = compile(directory.path(), None, arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let program = directory.path().join("shapes");
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout).trim(), "9.0 97650.0 50");
    let trace = directory.path().join("trace");
    let traced = slimline().args(["trace", "-o"]).arg(&trace).arg("--").arg(&program).output().unwrap();
    assert_eq!(traced.stdout, alone.stdout);
    let replay = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&replay.stdout).unwrap();
    let loads_of = |rows: &str, name: &str| {
        let row = report[rows].as_array().unwrap().iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("{name}: {report}"))["loads"].clone()
    };
    assert_eq!((loads_of("functions", "total"), loads_of("variables", "a")), (600.into(), 600.into()));
    assert_eq!(loads_of("functions", "move"), 200);
    let [block] = &report["heap"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&block["line"], &block["peak_bytes"], &block["loads"]), (&15.into(), &4800.into(), &600.into()));
}

/// What flang's own library allocates, and takes back.
const DESCRIBED: &str = "module parts
  type part
    real(8) :: mass, place(3)
  end type
end module
program main
  use parts
  implicit none
  type(part), allocatable :: cells(:,:)
  type(part), pointer :: chain(:)
  integer :: i, n, times
  n = command_argument_count() + 5
  do times = 1, 3
    allocate(cells(n, 4))
    do i = 1, n
      cells(i, 2)%mass = i
    end do
    deallocate(cells)
  end do
  allocate(chain(n))
  do i = 1, n
    chain(i)%place(3) = i
  end do
  print '(f0.1)', sum(chain%place(3))
  deallocate(chain)
end program
";

#[test]
fn arrays_of_derived_types_are_blocks() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("parts.f90"), DESCRIBED).unwrap();
    let output = compile(directory.path(), None, &["flang", "-O2", "parts.f90", "-o", "parts"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let traced = slimline()
        .current_dir(directory.path())
        .args(["trace", "--live", "--format", "json", "--report", "report", "--", "./parts"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&traced.stdout), "15.0\n", "{traced:?}");
    let report = std::fs::read(directory.path().join("report")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let rows = report["heap"].as_array().unwrap().iter();
    let rows = rows.map(|row| ["line", "blocks", "peak_bytes", "stores"].map(|key| row[key].as_u64().unwrap()));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    assert_eq!(rows, [[14, 3, 5 * 4 * 32, 3 * 5], [20, 1, 5 * 32, 5]], "{}", report["heap"]);
}

#[test]
fn no_flang_is_told() {
    let output = slimline().args(["flang", "-c", "a.f90"]).env("SLIMLINE_FLANG", "gfortran").output().unwrap();
    let gfortran = line(&output);
    assert!(
        gfortran.starts_with("slimline: /")
            && gfortran.contains("/gfortran is ")
            && gfortran.ends_with("not flang of version 19 to 22; SLIMLINE_FLANG names another"),
        "{gfortran}"
    );
    let output = slimline()
        .args(["flang", "-c", "a.f90"])
        .env_remove("SLIMLINE_FLANG")
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(line(&output), "slimline: no flang of version 19 to 22 in PATH; SLIMLINE_FLANG names one");
}
