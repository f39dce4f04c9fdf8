//! Which structures of a library its users know.

mod sandbox;

use sandbox::Sandbox;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::Type;
use slimline_attribute::typing::layout::TypeTable;

/// Names and sizes, with the lines of what is exported.
fn exported(compiler: &str, source: (&str, &str), flags: &[&str]) -> Vec<(String, u64, Vec<u32>)> {
    let sandbox = Sandbox::new();
    let path = sandbox.compile(compiler, &[&["-g"], flags].concat(), source.0, source.1, "library");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &path);
    let exports = module.exports();
    let mut table = TypeTable::new();
    let info = module.debug_info().unwrap();
    let found = info.exported_types(&exports, &|_| true, &mut table);
    let told = |(type_, lines): (&Type, Vec<u32>)| (type_.name.clone(), type_.bytes, lines);
    let mut rows: Vec<_> = found
        .iter()
        .map(|found| told((table.get(found.type_id), found.by.iter().map(|at| at.line).collect())))
        .collect();
    rows.iter_mut().for_each(|(.., lines)| lines.sort_unstable());
    rows.sort();
    rows
}

fn row(name: &str, bytes: u64, lines: &[u32]) -> (String, u64, Vec<u32>) {
    (name.to_owned(), bytes, lines.to_vec())
}

/// As a preprocessor leaves it: lines of a header, and then the source's.
const LIBRARY: &str = r#"# 1 "api.h" 1
struct inner { int a, b; };
struct sky { struct inner in[2]; struct other *next; double mass; };
typedef struct { long id; } handle;
struct other { long a; };
struct unused { long a; };
struct configuration { int depth; };
struct hidden { short s; };
struct aliased { char c[3]; };
# 1 "library.c" 2
struct secret { long key; };
struct secret *opened(const char *name) { (void)name; return 0; }
double weigh(const struct sky *of, handle which) { return of->mass + which.id; }
static long own(struct unused *of) { return of->a; }
__attribute__((visibility("hidden"))) long inside(struct hidden *of) { return of->s; }
struct configuration defaults = { 3 };
static long named(struct aliased *of) { return of->c[0]; }
long called(struct aliased *of) __attribute__((alias("named")));
long own_name(void) __asm__("own");
long own_name(void) { return 1; }
long first(struct sky (*skies)[4], struct unused *(*make)(void)) { return (*skies)[0].in[0].a + own(make()); }
"#;

#[test]
fn what_exported_functions_and_variables_are_of_is_known() {
    for compiler in ["gcc", "clang"] {
        let expected = [
            row("handle", 8, &[3]),
            row("struct aliased", 3, &[7]),
            row("struct configuration", 4, &[6]),
            row("struct inner", 8, &[3, 11]),
            row("struct sky", 32, &[3, 11]),
        ];
        let library = exported(compiler, ("library.c", LIBRARY), &["-shared", "-fPIC", "-O1"]);
        assert_eq!(library, expected, "{compiler}");
    }
    // A program's functions are its own, until it says that libraries may call them.
    let with_main = format!("{LIBRARY}int main(void) {{ return 0; }}\n");
    let program = ("library.c", with_main.as_str());
    assert_eq!(exported("gcc", program, &["-O1"]), []);
    let told = exported("gcc", program, &["-O1", "-rdynamic"]);
    assert_eq!(told.len(), 5, "{told:?}");
}

const CLASSES: &str = r#"# 1 "table.h" 1
namespace data {
struct Row { long key; long value; };
class Table {
public:
  long find(long key) const;
private:
  Row rows[8];
  static long hash(long key);
};
struct Local { long a; };
}
# 1 "table.cpp" 2
namespace data {
long Table::find(long key) const { return rows[hash(key) & 7].value; }
__attribute__((visibility("hidden"))) long Table::hash(long key) { return key * 31; }
namespace { long own(Local &of) { return of.a; } }
}
long other(const data::Row &&row) { return row.key; }
long last() { data::Local of{1}; return data::own(of); }
"#;

#[test]
fn methods_export_their_classes() {
    for compiler in ["g++", "clang++"] {
        let expected = [row("data::Row", 16, &[2, 6]), row("data::Table", 128, &[2])];
        let library = exported(compiler, ("table.cpp", CLASSES), &["-shared", "-fPIC", "-O0"]);
        assert_eq!(library, expected, "{compiler}");
    }
}

const MODULE: &str = "module sky
  type body
    real(8) :: x, y
    integer :: id
  end type
  type own
    integer :: i
  end type
contains
  real(8) function weigh(all)
    type(body), intent(in) :: all(:)
    weigh = sum(all%x)
  end function
end module
";

#[test]
fn procedures_of_modules_export_their_types() {
    let library = exported("gfortran", ("sky.f90", MODULE), &["-shared", "-fPIC", "-O1"]);
    let names: Vec<&str> = library.iter().map(|(name, ..)| name.as_str()).collect();
    // Who uses a module has all of its types, and the compiler exports a variable for each.
    assert_eq!(names, ["type(body)", "type(own)"]);
}
