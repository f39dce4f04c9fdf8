//! The paper's example, matrix × vector, whose source says by directives what is watched: in Fortran and C, by each compiler.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::accesses::{MACHINE, N, THREADS, loads, of, region};
use super::{regions, text};

/// The paper's Fig. 2, which goes through columns, as Fortran has them; with an argument through rows.
const FORTRAN: &str = r#"program matrix
  use, intrinsic :: iso_fortran_env, only: int64
  use sizes
  implicit none
  double precision, save :: a(n, n), b(n), c(n)
  double precision :: s
  integer :: i, j
  do i = 1, n
    b(i) = mod(i, 7)
    do j = 1, n
      a(j, i) = mod(ieor(i, j), 5)
    end do
  end do
!$POMP INST DATA(a, n*n*8, "a")
!$POMP INST DATA(c, &
!$POMP           n * 8_int64 + 0 * (n + n + n + n + n + n + n + n + n + n + n + n + n + n + n + n), &
!$POMP           "the product")
  if (command_argument_count() == 0) then
    !$omp parallel do num_threads(4) private(j, s)
    do i = 1, n
      s = 0
      do j = 1, n
        s = s + a(j, i) * b(j)
      end do
      c(i) = s
    end do
    !$omp end parallel do
  else
    !$omp parallel do num_threads(4) private(j, s)
    do i = 1, n
      s = 0
      do j = 1, n
        s = s + a(i, j) * b(j)
      end do
      c(i) = s
    end do
    !$omp end parallel do
  end if
  include 'shown.inc'
end program
"#;

/// What the source uses and includes, beside it.
const BESIDE: [(&str, &str); 2] = [
    ("sizes.f90", "module sizes\n  integer, parameter :: n = 480\nend module\n"),
    ("shown.inc", "  print '(f6.0)', c(8)\n"),
];

/// The same in C, by rows; each directive in a way of its own.
const C: &str = r#"#include <stdio.h>
#define N 480
#define DO_PRAGMA(x) _Pragma(#x)
static double a[N][N], b[N], c[N];
int main(int argc, char **argv) {
    for (int i = 0; i < N; i++) {
        b[i] = (i + 1) % 7;
        for (int j = 0; j < N; j++)
            a[i][j] = ((i + 1) ^ (j + 1)) % 5;
    }
#pragma omp inst data(a, N * N * sizeof(double), "a")
    DO_PRAGMA(pomp inst data(c, sizeof(c), "the product"))
    if (argc == 1) {
#pragma pomp inst begin(rows)
#pragma omp parallel for num_threads(4)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += a[i][j] * b[j];
            c[i] = sum;
        }
#pragma pomp inst end(rows)
    } else {
#pragma omp parallel for num_threads(4)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += a[j][i] * b[j];
            c[i] = sum;
        }
    }
    printf("%6.0f.\n", c[7]);
    return 0;
}
"#;

fn compiled(compiler: &str, sources: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let files = [("matrix.f90", FORTRAN), ("matrix.c", C), ("madison.toml", MACHINE)];
    for (name, text) in files.iter().chain(&BESIDE) {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.args([compiler, "-g", "-O2", "-fopenmp", "-o", "matrix"]).args(sources);
    let output = command.current_dir(directory.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{compiler}: {}", text(&output.stderr));
    directory
}

/// What a run of the program tells; `b` is told beside what the source names.
fn run(directory: &TempDir, program: &[&str]) -> Value {
    let options = ["--data", "b", "--machine", "madison.toml", "--format", "json", "--report", "-", "--"];
    let output = regions(directory.path(), &[&options, program].concat());
    let said = text(&output.stdout).split_once('\n').unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    assert!(output.status.success() && said.0.trim() == "2860.", "{said:?} {}", text(&output.stderr));
    serde_json::from_str(said.1).unwrap()
}

/// Threads load their parts of the matrix, and nothing else is among that; by the other order it is missed more than ten times as often.
fn check(compiler: &str, sources: &[&str]) {
    let directory = compiled(compiler, sources);
    let source = sources.last().unwrap();
    let (program, line) = match source.ends_with(".c") {
        true => (C, "static double a"),
        false => (FORTRAN, "double precision, save :: a"),
    };
    let line = program.lines().position(|it| it.contains(line)).unwrap() + 1;
    let file = directory.path().join(source).canonicalize().unwrap();
    let [few, many] = [run(&directory, &["./matrix"]), run(&directory, &["./matrix", "swapped"])].map(|report| {
        let parallel = region(&report, "parallel");
        for name in ["a", "b"] {
            let accesses = of(&report, parallel, name).unwrap();
            assert_eq!(loads(accesses), vec![N * N / THREADS; THREADS as usize], "{compiler}: {name}");
            assert_eq!((&accesses["sum"]["loads"], &accesses["sum"]["stores"]), (&(N * N).into(), &0.into()));
            assert_eq!(accesses["sum"]["bytes"], N * N * 8);
        }
        let product = of(&report, parallel, "the product").unwrap();
        assert_eq!((&product["sum"]["loads"], &product["sum"]["stores"]), (&0.into(), &N.into()), "{compiler}");
        let chosen = |name: &str| report["data"]["chosen"].as_array().unwrap().iter().find(|row| row["name"] == name);
        for (name, variable, bytes, by) in
            [("a", "a", N * N * 8, "program"), ("b", "b", N * 8, "name"), ("the product", "c", N * 8, "program")]
        {
            let row = chosen(name).unwrap();
            assert_eq!((&row["bytes"], &row["by"]), (&bytes.into(), &by.into()), "{compiler}: {name}");
            let declared = format!("{variable} ({}:{line})", file.display());
            assert_eq!(row["of"], serde_json::json!([declared]), "{compiler}");
        }
        // Nor does a directive cost what is known of the rest.
        assert_eq!(report["missing"], serde_json::json!([]), "{compiler}");
        // Misses of the last level.
        of(&report, parallel, "a").unwrap()["sum"]["misses"][1].as_u64().unwrap()
    });
    assert!(few.abs_diff(N * N * 8 / 128) < N && many > 10 * few, "{compiler}: {few} {many}");
}

#[test]
fn fortran_s_directives_are_counted_by_thread() {
    for compiler in ["gfortran", "flang"] {
        check(compiler, &["sizes.f90", "matrix.f90"]);
    }
}

#[test]
fn c_s_directives_are_counted_by_thread() {
    for compiler in ["cc", "gcc"] {
        check(compiler, &["matrix.c"]);
    }
}
