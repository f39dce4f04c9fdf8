//! The Fortran module of `slimline header --fortran`.

use slimline_instrument::driver::FORTRAN_MODULE;

use super::Sources;

const PROGRAM: &str = r#"
program main
  use slimline
  implicit none
  integer, parameter :: n = 10
  type :: pair
    integer :: x, y
  end type
  double precision :: matrix(n, n)
  real, allocatable :: vector(:)
  type(pair) :: one
  integer :: scalar
  character(len=20) :: name
  allocate(vector(100))
  matrix = 1
  vector = 2
  scalar = 3
  one = pair(4, 5)
  name = "padded with blanks"
  call slimline_region_begin(name)
  call slimline_watch(matrix, n * n * 8, "matrix")
  call slimline_watch(vector, size(vector) * 4_8, "vector")
  call slimline_watch(vector(51:), 200, "half")
  call slimline_region_begin("inner")
  call slimline_watch(one, 8, "one")
  call slimline_watch(scalar, 4, "scalar")
  call slimline_region_end()
  call slimline_region_end()
  call slimline_unwatch(matrix)
  call slimline_unwatch(vector(51:))
  call slimline_unwatch(vector)
  call slimline_unwatch(one)
  call slimline_unwatch(scalar)
  call slimline_unwatch(scalar)
  if (abs(sum(matrix) + sum(vector) + scalar + one%x + one%y - 312) > 0.1) stop 1
end program
"#;

const FREE: &str = "\
program main
  implicit none
  integer, parameter :: n = 10
  double precision :: a(n, n)
  integer :: b(5)
  a = 1
  b = 2
!$POMP INST DATA( a , n*n*8 , \"a\" )
  !$pomp inst data(b, &
  !$pomp           20, &
  !$pomp           'a name')
#ifdef NEVER
!$POMP INST BEGIN(never)
#endif
!$POMP INST BEGIN(summing)
  include 'part.inc'
!$POMP INST END(summing)
  if (abs(sum(a) + sum(b) - 110) > 0.1) stop 1
  if (__LINE__ /= 19) stop 2
end program
";

const FIXED: &str = "      program main
      implicit none
      double precision a(10)
      a = 1
C$POMP INST DATA(a(2), 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 0 * 12345678, 'a')
*$pomp inst data(a,
*$pomp& 80, 'all')
!$POMP INST BEGIN(summing)
      if (abs(sum(a)
     &    - 10) .gt. 0.1) stop 1
!$POMP INST END(summing)
      end
";

const OURS: &str = env!("CARGO_BIN_EXE_slimline");

#[test]
fn directives_become_calls() {
    let part = "  print *, 'part'\n";
    let sources = Sources::new(&[("free/a.F90", FREE), ("free/part.inc", part), ("fixed.f", FIXED)]);
    for compiler in ["flang", "gfortran"] {
        for options in [&["-O2", "-g"][..], &["-O0", "-no-pie"]] {
            sources.make(&[&[OURS, compiler, "-o", "program", "free/a.F90"], options].concat());
            assert_eq!(sources.said("program"), ["watch 800 a", "watch 20 a%20name", "region summing in 0"]);
            sources.make(&[&[OURS, compiler, "-o", "program", "fixed.f"], options].concat());
            assert_eq!(sources.said("program"), ["watch 72 a", "watch 80 all", "region summing in 0"]);
        }
    }
}

/// Messages and debug information have the source's lines.
#[test]
fn places_stay_those_of_the_source() {
    let long = ["x"; 90].join("+");
    let unknown = format!(
        "program main\n  implicit none\n  integer :: x = 1\n!$POMP INST DATA(x, {long}, 'x')\n  y = 2\n  x = 3\nend program\n"
    );
    let right = unknown.replace("y = 2", "x = 2");
    let wrong = "program main\n!$POMP INST DATA(x)\nend program\n";
    let sources = Sources::new(&[("unknown.f90", &unknown), ("right.f90", &right), ("wrong.f90", wrong)]);
    for compiler in ["flang", "gfortran"] {
        let output = sources.run(&[OURS, compiler, "-c", "unknown.f90"]);
        let said = super::text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("unknown.f90:5:"), "{said}");
        let output = sources.run(&[OURS, compiler, "-c", "wrong.f90"]);
        assert!(!said.contains("/slimline-"), "{said}");
        let takes = "inst data takes three arguments: an address, a number of bytes, and a name in quotes";
        let expected = format!("wrong.f90:2: error: {takes}\n");
        assert_eq!((super::text(&output.stderr), output.status.code()), (&*expected, Some(1)));
        sources.make(&[OURS, compiler, "-g", "-O0", "-c", "right.f90"]);
        let lines = sources.run(&["readelf", "--debug-dump=decodedline", "right.o"]);
        let lines = super::text(&lines.stdout);
        let is_line = |number: &str| {
            lines.lines().any(|line| line.starts_with("right.f90 ") && line.split_whitespace().nth(1) == Some(number))
        };
        assert!(is_line("4") && is_line("5") && is_line("6") && !is_line("8"), "{compiler}: {lines}");
    }
}

/// Nothing of a program names the file that was compiled in the source's place, wherever it lies and however it is named.
#[test]
fn no_program_names_a_copy() {
    let part = "  print *, 'part'\n";
    let module = "module free\n  integer :: shared(5) = 1\nend module\n";
    let user = FREE.replace("  implicit none\n", "  use free\n  implicit none\n");
    let sources = Sources::new(&[("free/m.f90", module), ("free/a.F90", &user), ("free/part.inc", part)]);
    let absolute = sources.path("free/a.F90");
    for compiler in ["flang", "gfortran"] {
        for (directory, source) in [("", "free/a.F90"), ("free", "a.F90"), ("", absolute.to_str().unwrap())] {
            for options in [&["-g", "-O0"][..], &["-g", "-O2"]] {
                let run = |arguments: &[&str]| {
                    let mut command = std::process::Command::new(OURS);
                    command.arg(compiler).args(options).args(arguments).current_dir(sources.path(directory));
                    let output = command.output().unwrap();
                    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
                };
                let object = sources.path("a.o");
                run(&["-c", "-o", sources.path("m.o").to_str().unwrap(), sources.path("free/m.f90").to_str().unwrap()]);
                run(&["-c", "-o", object.to_str().unwrap(), source]);
                let bytes = std::fs::read(&object).unwrap();
                let copy = std::env::temp_dir().join("slimline-");
                let copy = copy.to_str().unwrap().as_bytes();
                assert!(!bytes.windows(copy.len()).any(|part| part == copy), "{compiler} {source} {options:?}");
                let said = sources.run(&["readelf", "--debug-dump=info", "a.o"]);
                let said = super::text(&said.stdout);
                let unit = said.lines().find(|line| line.contains("DW_AT_name")).unwrap();
                assert!(unit.ends_with(&format!(" {source}")), "{compiler}: {unit}");
            }
        }
    }
}

/// What `make` is told to look for is there.
#[test]
fn dependencies_are_those_of_the_source() {
    let sources = Sources::new(&[("free/a.F90", FREE), ("free/part.inc", "  print *, 'part'\n")]);
    sources.make(&[OURS, "gfortran", "-MMD", "-MF", "list", "-c", "free/a.F90"]);
    let list = std::fs::read_to_string(sources.path("list")).unwrap();
    assert!(list.starts_with("a.o: free/a.F90") && !list.contains("/slimline-"), "{list}");
}

#[test]
fn fortran_programs_say_it_by_a_module() {
    let sources = Sources::new(&[("slimline.f90", FORTRAN_MODULE), ("program.f90", PROGRAM)]);
    let compilers: [&[&str]; 4] = [
        &["gfortran", "-Wall", "-Werror", "-std=f2018", "-pie", "-fPIE"],
        &["gfortran", "-O2", "-no-pie", "-fno-pie"],
        &["flang-new-19", "-O2", "-no-pie"],
        &["flang-new-19"],
    ];
    for compiler in compilers {
        sources.make(&[compiler, &["-o", "program", "slimline.f90", "program.f90"]].concat());
        let expected = [
            "watch 800 matrix",
            "watch 400 vector",
            "watch 200 half",
            "watch 8 one",
            "watch 4 scalar",
            "1 unwatched",
            "region padded%20with%20blanks in 0",
            "region inner in 1",
        ];
        assert_eq!(sources.said("program"), expected, "{compiler:?}");
    }
    let output = sources.run(&[env!("CARGO_BIN_EXE_slimline"), "header", "--fortran"]);
    assert_eq!((super::text(&output.stdout), output.status.code()), (FORTRAN_MODULE, Some(0)));
}
