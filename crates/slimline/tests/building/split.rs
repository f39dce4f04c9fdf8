//! `-gsplit-dwarf`: debug information beside the objects, in `.dwo` files and `.dwp` packages.

use super::{Scratch, run, says};

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct item { long key; long spare[7]; };
__attribute__((noinline)) long walk(struct item *items, int n) {
  long sum = 0;
  for (int i = 0; i < n; i++) sum += items[i].key;
  return sum;
}
int main(void) {
  struct item *items = calloc(5000, sizeof *items);
  for (int i = 0; i < 5000; i++) items[i].key = i;
  printf("%ld\n", walk(items, 5000));
  free(items);
  return 0;
}
"#;

const FORTRAN: &str = "program walk
  type item
    integer(8) :: key
    integer(8) :: spare(7)
  end type
  type(item), allocatable :: items(:)
  integer(8) :: total
  integer :: i
  allocate(items(5000))
  do i = 1, 5000
    items(i)%key = i
  end do
  total = 0
  do i = 1, 5000
    total = total + items(i)%key
  end do
  print *, total
end program
";

fn sources(scratch: &Scratch) {
    scratch.write("walk.c", C);
    scratch.write("walk.cpp", &C.replace("calloc(", "(struct item *)calloc("));
    scratch.write("walk.f90", FORTRAN);
}

#[test]
fn it_links_and_names_are_those_without_it() {
    let scratch = Scratch::new();
    sources(&scratch);
    for (compiler, source) in
        [("gcc", "walk.c"), ("g++", "walk.cpp"), ("gfortran", "walk.f90"), ("cc", "walk.c"), ("c++", "walk.cpp")]
    {
        let build = |name: &str, options: &[&str]| {
            let all = [&[compiler, "-g", "-O1", source, "-o", name][..], options].concat();
            scratch.slimline(&all);
            let mut trace = scratch.traced(&format!("./{name}"));
            for own in ["command", "program", "modules", "processes"] {
                trace.as_object_mut().unwrap().remove(own);
            }
            trace
        };
        let whole = build("whole", &[]);
        assert!(says(&whole, "key"), "{compiler}: {whole:#}");
        for dwarf in ["-gdwarf-4", "-gdwarf-5"] {
            let split = build("split", &["-gsplit-dwarf", dwarf]);
            assert!(says(&split, "key"), "{compiler} {dwarf}: {split:#}");
            let names = |trace: &serde_json::Value| trace["structures"].clone();
            assert_eq!(names(&split), names(&whole), "{compiler} {dwarf}");
        }
    }
}

#[test]
fn separate_objects_and_shared_libraries_have_names() {
    let scratch = Scratch::new();
    sources(&scratch);
    for compiler in ["gcc", "cc"] {
        let main = C.split("int main").nth(1).unwrap();
        let head = "#include <stdio.h>\n#include <stdlib.h>\nstruct item { long key; long spare[7]; };\nlong walk(struct item *, int);\n";
        scratch.write("main.c", &format!("{head}int main{main}"));
        scratch.write("part.c", C.split("int main").next().unwrap());
        scratch.slimline(&[compiler, "-O1", "-gsplit-dwarf", "-fPIC", "-c", "part.c"]);
        scratch.slimline(&[compiler, "-O1", "-gsplit-dwarf", "-shared", "part.o", "-o", "libpart.so"]);
        let symbols = run(scratch.command("nm").args(["-D", "--undefined-only", "libpart.so"]));
        assert!(!super::text(&symbols.stdout).contains("tsan"), "{symbols:?}");
        scratch.slimline(&[compiler, "-O1", "-gsplit-dwarf", "main.c", "./libpart.so", "-o", "program"]);
        let trace = scratch.traced("./program");
        assert!(says(&trace, "key") && trace.to_string().contains("walk"), "{trace:#}");
    }
}
