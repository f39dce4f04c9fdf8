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
