//! All types of a program against what its own compiler says of their size and alignment.

mod compiled;

use std::collections::HashMap;

use compiled::Compiled;
use slimline_attribute::tables::{Language, MemberRole, Type};
use slimline_attribute::typing::definitions::{Definition, Definitions};
use slimline_attribute::typing::layout::TypeTable;

fn definitions(program: &Compiled) -> (Vec<Definition>, Vec<Type>) {
    let info = program.info();
    let (mut table, mut found) = (TypeTable::new(), Definitions::new());
    for unit in 0..info.unit_count() {
        assert!(info.define(unit, &mut table, &mut found));
    }
    (found.into_rows(), table.into_rows())
}

/// Lines `name size alignment` that the program prints are what is found; how many there are.
fn check_against_the_compiler(program: &Compiled) -> usize {
    let (definitions, types) = definitions(program);
    let mut found: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for definition in &definitions {
        let type_ = &types[definition.type_id.index()];
        found.entry(&type_.name).or_default().push((type_.bytes, definition.alignment));
    }
    let printed = program.run();
    for line in printed.lines() {
        let words: Vec<&str> = line.rsplitn(3, ' ').collect();
        let [alignment, bytes, name] = words[..] else { panic!("bad line {line}") };
        let told = (bytes.parse().unwrap(), alignment.parse().unwrap());
        assert_eq!(found.get(name).map(Vec::as_slice), Some([told].as_slice()), "{name}");
    }
    printed.lines().count()
}

const C_SOURCE: &str = r#"
#include <complex.h>
#include <stdio.h>
struct plain { char c; long l; int i; };
typedef struct { char c; float f; } with_typedef;
struct bits { unsigned a : 3; unsigned long long d : 40; unsigned char e : 2; };
struct __attribute__((packed)) packed { char c; int i; double d[3]; };
struct __attribute__((packed, aligned(2))) packed_to_two { char c; int i; };
struct aligned { int x; _Alignas(64) int y; };
struct wide { long double l; double complex z; __int128 i; };
struct pairs { float complex a; double complex b; };
struct vector { char c; float v __attribute__((vector_size(16))); };
struct flexible { long n; char c; short rest[]; };
union either { int i; char s[13]; };
struct nested { char c; struct packed p; union { short s; char t[6]; }; with_typedef w[2]; };
enum small { ONE } __attribute__((packed));
struct pointers { enum small e; void (*call)(int); struct nowhere *n; char name[5]; };
struct plain a; with_typedef b; struct bits c; struct packed d; struct packed_to_two e; struct aligned f;
struct wide g; struct pairs h; struct vector i; struct flexible *j; union either k; struct nested l; struct pointers m;
#define S(t) printf("%s %zu %zu\n", #t, sizeof(t), _Alignof(t));
int main(void) {
  struct local { short s[3]; } n = {{1, 2, 3}};
  S(struct plain) S(with_typedef) S(struct bits) S(struct packed) S(struct packed_to_two) S(struct aligned) S(struct wide)
  S(struct pairs) S(struct vector) S(struct flexible) S(union either) S(struct nested) S(struct pointers) S(struct local)
  return n.s[0] - 1;
}
"#;

#[test]
fn c_types_are_as_the_compiler_has_them() {
    for flags in [["-gdwarf-5", "-O0"], ["-gdwarf-4", "-O2"], ["-gdwarf-5", "-fdebug-types-section"]] {
        let program = Compiled::new("c", C_SOURCE, &flags);
        assert_eq!(check_against_the_compiler(&program), 14, "{flags:?}");
    }
    // What has no name is no type of its own.
    let (definitions, types) = definitions(&Compiled::new("c", C_SOURCE, &["-O0"]));
    let names = definitions.iter().map(|definition| types[definition.type_id.index()].name.as_str());
    assert!(names.clone().all(|name| !name.contains('{')), "{:?}", names.collect::<Vec<_>>());
    let line = |wanted: &str| {
        let is_it = |definition: &&Definition| types[definition.type_id.index()].name == wanted;
        definitions.iter().find(is_it).and_then(|found| found.declared_at.as_ref()).map(|at| at.line)
    };
    assert_eq!((line("struct plain"), line("union either")), (Some(4), Some(14)));
}

const CPP_SOURCE: &str = r#"
#include <cstdio>
namespace net {
struct Plain { char c; long l; };
struct Left : virtual Plain { int left; };
struct Right : virtual Plain { char right; };
struct Both : Left, Right { short both; virtual ~Both() {} };
struct Empty {};
struct Derived : Plain { char d; [[no_unique_address]] Empty e; };
class Poly { public: virtual int f() { return 1; } char c; int (Poly::*call)(); };
struct Tail : Poly { char t; };
template <class T> struct Box { T value; bool ok; };
struct alignas(128) Wide { int k; alignas(32) char z; };
struct Ref { int &r; static int shared; unsigned f : 1; };
}
#define S(t) std::printf("%s %zu %zu\n", #t, sizeof(t), alignof(t));
int main() {
  int one = 0;
  net::Both b; net::Derived d; net::Tail t; net::Box<double> x{}; net::Box<char> y{}; net::Wide w; net::Ref r{one, 1};
  std::fprintf(stderr, "%p%p%p%p%p%p%p", (void *)&b, (void *)&d, (void *)&t, (void *)&x, (void *)&y, (void *)&w, (void *)&r);
  S(net::Plain) S(net::Left) S(net::Both) S(net::Empty) S(net::Derived) S(net::Poly) S(net::Tail) S(net::Box<double>)
  S(net::Box<char>) S(net::Wide) S(net::Ref)
}
"#;

#[test]
fn cpp_types_are_as_the_compiler_has_them() {
    assert_eq!(check_against_the_compiler(&Compiled::new("cpp", CPP_SOURCE, &["-std=c++20", "-O0"])), 11);
}

const RUST_SOURCE: &str = r#"
#![allow(dead_code)]
use std::mem::{align_of, size_of};
struct Plain { a: u8, b: u64, c: u8 }
#[repr(C)] struct Ordered { a: u8, b: u64, c: u8 }
enum Shape { Dot(u8), Line { from: u64, to: u8 }, Nothing }
#[repr(C, align(64))] struct Apart { k: u32, inner: Ordered }
#[repr(C, packed)] struct Packed { a: u8, b: u32 }
union Either { a: u32, b: [u8; 7] }
struct Wide { a: u128, b: u8 }
struct Holder<T> { value: T, many: Vec<T> }
#[inline(never)] fn keep<T>(value: &T) -> usize { std::hint::black_box(value as *const T as usize) }
fn main() {
    let shapes = [Shape::Dot(1), Shape::Line { from: 1, to: 2 }, Shape::Nothing];
    let ordered = || Ordered { a: 1, b: 2, c: 3 };
    let kept = keep(&Plain { a: 1, b: 2, c: 3 }) ^ keep(&ordered()) ^ keep(&shapes) ^ keep(&Apart { k: 1, inner: ordered() })
        ^ keep(&Packed { a: 1, b: 2 }) ^ keep(&Either { a: 1 }) ^ keep(&Wide { a: 1, b: 2 })
        ^ keep(&Holder { value: 1_u16, many: vec![1] });
    assert!(kept != 1);
    macro_rules! tell { ($($t:ty),*) => { $(println!("program::{} {} {}", stringify!($t), size_of::<$t>(), align_of::<$t>());)* } }
    tell!(Plain, Ordered, Shape, Apart, Packed, Either, Wide, Holder<u16>);
}
"#;

#[test]
fn rust_types_are_as_the_compiler_has_them() {
    let program = Compiled::new("rs", RUST_SOURCE, &["--crate-name", "program"]);
    assert_eq!(check_against_the_compiler(&program), 8);
    // Variants are the enum's.
    let (definitions, types) = definitions(&program);
    let is_variant = |type_: &Type| type_.name.starts_with("program::Shape::");
    assert!(!definitions.iter().any(|definition| is_variant(&types[definition.type_id.index()])));
    assert!(types.iter().any(is_variant));
}

const FORTRAN_SOURCE: &str = "
program t
  type point
    real(8) :: x
    integer(4) :: k
    complex(8) :: z
    real(8), allocatable :: a(:, :)
    character(len=5) :: s
  end type
  type(point) :: p
  p%x = 1
  print '(A, I0, A)', 'type(point) ', storage_size(p) / 8, ' 8'
end program
";

/// gfortran's descriptor of an array of two dimensions: address, offset, kind (two words), span, and three words for each.
#[test]
fn fortran_types_have_their_descriptors_and_text() {
    let program = Compiled::with("gfortran", "f90", FORTRAN_SOURCE, &[]);
    assert_eq!(check_against_the_compiler(&program), 1);
    let (_, types) = definitions(&program);
    let point = types.iter().find(|type_| type_.name == "type(point)").unwrap();
    assert_eq!(point.language, Language::Fortran);
    let members: Vec<_> =
        point.members.iter().map(|member| (member.name.as_str(), member.offset, member.bytes)).collect();
    assert_eq!(members, [("x", 0, 8), ("k", 8, 4), ("z", 16, 16), ("a", 32, 88), ("s", 120, 5)]);
    assert_eq!((point.members[4].type_name.as_str(), point.members[4].role), ("character(len=5)", MemberRole::Field));
}

#[test]
fn a_member_of_the_type_of_nullptr_is_a_pointer() {
    const CPP: &str = "#include <cstddef>\n#include <cstdio>\n\
        struct Handle { long id; std::nullptr_t none; };\n\
        struct Several { char c; std::nullptr_t all[3]; const std::nullptr_t last; std::nullptr_t &by; };\n\
        template <class T> struct Of { T t; };\n\
        static Handle handle; auto made() { return handle; } static Of<std::nullptr_t> of;\n\
        int main() { static Several *several;\n  std::printf(\"Handle %zu %zu\\nSeveral %zu %zu\\n\", sizeof(Handle), alignof(Handle), \
        sizeof(Several), alignof(Several));\n  return (int)made().id + (several != nullptr) + (of.t != nullptr); }\n";
    const C: &str = "#include <stddef.h>\n#include <stdio.h>\n\
        struct Handle { long id; nullptr_t none; };\nstruct Several { char c; nullptr_t all[3]; };\nstruct Handle handle; struct Several several;\n\
        int main(void) { printf(\"struct Handle %zu %zu\\nstruct Several %zu %zu\\n\", sizeof handle, _Alignof(struct Handle), sizeof several, \
        _Alignof(struct Several)); return (int)handle.id + several.c; }\n";
    for (compiler, extension, source, flags) in [
        ("g++", "cpp", CPP, &[][..]),
        ("clang-19", "cpp", CPP, &["--driver-mode=g++"]),
        ("clang-19", "c", C, &["-std=c2x"]),
    ] {
        let program = Compiled::with(compiler, extension, source, flags);
        assert_eq!(check_against_the_compiler(&program), 2, "{compiler} {extension}");
        let (_, types) = definitions(&program);
        for (name, bytes) in [("Handle", 16), ("Several", if extension == "c" { 32 } else { 48 })] {
            let type_ = types.iter().find(|type_| type_.name.ends_with(name)).unwrap();
            let covered: u64 = type_.members.iter().map(|member| member.bytes).sum();
            let padding = if name == "Several" { 7 } else { 0 };
            assert_eq!((type_.bytes, covered), (bytes, bytes - padding), "{compiler} {extension}: {type_:?}");
        }
    }
}
