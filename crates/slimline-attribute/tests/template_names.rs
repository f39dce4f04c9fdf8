//! Names of template instances whose arguments the compiler leaves out, against those of the same program with them.

mod compiled;

use std::collections::BTreeSet;

use compiled::Compiled;
use slimline_attribute::typing::definitions::Definitions;
use slimline_attribute::typing::layout::TypeTable;

const SOURCE: &str = r#"
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
namespace ns { struct Key { int k; }; enum Kind { LOW = -3, HIGH = 7 }; enum class Scoped : unsigned char { A, B = 200 };
  template <class T> struct Box { T t; struct Inner { T *t; int n; } inner; }; inline namespace v1 { struct Versioned { char c; }; } }
namespace { struct Hidden { int h; }; template <class T> struct HiddenBox { T t; }; }
typedef int integer;
using Callback = void (*)(int, const char *);
template <class T> struct Type { T *t; long n; };
template <class K, int N> struct Slot { K key; long value[N > 0 ? N : 1]; };
template <bool B> struct Bool { char c[2]; };
template <char C> struct Char { char c[3]; };
template <signed char C> struct Signed { char c[4]; };
template <unsigned char C> struct Unsigned { char c[5]; };
template <wchar_t C> struct Wide { char c[6]; };
template <char16_t C> struct Sixteen { char c[7]; };
template <char32_t C> struct ThirtyTwo { char c[8]; };
template <short N> struct Short { char c[9]; };
template <unsigned short N> struct UShort { char c[10]; };
template <unsigned N> struct UInt { char c[11]; };
template <long N> struct Long { char c[12]; };
template <unsigned long N> struct ULong { char c[13]; };
template <long long N> struct LongLong { char c[14]; };
template <unsigned long long N> struct ULongLong { char c[15]; };
template <ns::Kind K> struct Enum { char c[16]; };
template <ns::Scoped K> struct ScopedEnum { char c[17]; };
int global; int array[4]; void function(int) {}
template <int *P> struct Pointer { char c[18]; };
template <int &R> struct Reference { char c[19]; };
template <void (*F)(int)> struct Function { char c[20]; };
template <std::nullptr_t N> struct Null { char c[21]; };
template <class... T> struct Pack { char c[22]; };
template <int... N> struct Numbers { char c[23]; };
template <template <class> class T, class U> struct Template { T<U> t; };
template <class T, class A = std::allocator<T>, int N = 3> struct Defaulted { T t; char c[24]; };
template <auto V> struct Auto { char c[25]; };
template <class T> int called(T t) { static T kept; kept = t; return sizeof kept; }
union Both { int i; float f; };
template <class T> union Either { T t; char c[26]; };
struct Has { template <class T> struct Within { T t; }; int member; int method(int) const { return member; } };
template <class T> struct Of { T t; };
auto lambda = [](int x) { return x + 1; };
template <class T> int kept(const T &) { static Type<T> type; return (int)type.n; }
#define USE(...) { static __VA_ARGS__ it; sink((void *)&it); }
void *sunk; __attribute__((noinline)) void sink(void *p) { sunk = p; }
int main() {
  USE(Slot<int, 1>) USE(Slot<double, 6>) USE(Slot<ns::Key, -2>) USE(Bool<true>) USE(Bool<false>)
  USE(Char<'a'>) USE(Char<'\''>) USE(Char<'\\'>) USE(Char<'\n'>) USE(Char<'\xe9'>) USE(Char<'\0'>) USE(Signed<-5>) USE(Unsigned<200>)
  USE(Wide<L'w'>) USE(Wide<L'\u20ac'>) USE(Sixteen<u'x'>) USE(ThirtyTwo<U'\U0001F600'>)
  USE(Short<-2>) USE(UShort<65535>) USE(UInt<4000000000u>) USE(Long<-9>) USE(ULong<18446744073709551615ul>) USE(LongLong<-1>) USE(ULongLong<3>)
  USE(Enum<ns::LOW>) USE(Enum<ns::HIGH>) USE(ScopedEnum<ns::Scoped::B>)
  USE(Pointer<&global>) USE(Pointer<nullptr>) USE(Reference<global>) USE(Function<function>) USE(Null<nullptr>)
  USE(Pack<>) USE(Pack<int, char *, ns::Key>) USE(Numbers<>) USE(Numbers<1, -2, 3>) USE(Template<ns::Box, int>) USE(Template<Type, ns::Key>)
  USE(Defaulted<int>) USE(Defaulted<ns::Key, int, 4>) USE(Auto<5>) USE(Auto<'c'>) USE(Auto<ns::HIGH>)
  USE(Type<const int>) USE(Type<volatile int>) USE(Type<const volatile long>) USE(Type<int *>) USE(Type<const int *>) USE(Type<int *const>)
  USE(Type<const char *const *>) USE(Of<int[3]>) USE(Type<int[3][4]>) USE(Type<const int[2]>) USE(Type<int (*)[3]>) USE(Type<void()>)
  USE(Type<void(int, ...)>) USE(Type<Callback>) USE(Type<int (*(*)(int))(char)>) USE(Type<int *(*)[2]>) USE(Type<void>) USE(Type<std::nullptr_t>)
  USE(Type<int Has::*>) USE(Type<int (Has::*)(int) const>) USE(Type<integer>) USE(Type<unsigned char>) USE(Type<bool>)
  USE(Type<std::function<int(int &, ns::Key &&)>>)
  USE(ns::Box<int>) USE(ns::Box<ns::Box<ns::Key>>) USE(Type<ns::Box<int>::Inner>) USE(Type<ns::Versioned>) USE(Type<Hidden>) USE(HiddenBox<int>)
  USE(Of<Hidden *>) USE(Of<ns::Kind>) USE(Of<ns::Scoped>) USE(Of<Both>) USE(Either<int>) USE(Has::Within<short>) USE(Type<Has::Within<long>>)
  USE(std::vector<ns::Key>) USE(std::map<int, std::string>) USE(std::unordered_map<std::string, ns::Box<int>>) USE(std::unique_ptr<ns::Key>)
  kept(lambda); { struct Local { int l; }; USE(Of<Local>) }
  return called(3) + called(2.5) + called(ns::Key{});
}
"#;

/// Names and sizes of all types that are defined, and what fields of them are called and are of.
fn names(program: &Compiled) -> BTreeSet<String> {
    let info = program.info();
    let (mut table, mut found) = (TypeTable::new(), Definitions::new());
    for unit in 0..info.unit_count() {
        assert!(info.define(unit, &mut table, &mut found));
    }
    let rows = table.into_rows();
    let directory = program.path.parent().unwrap().display().to_string();
    let of = |definition: &slimline_attribute::typing::definitions::Definition| {
        let type_ = &rows[definition.type_id.index()];
        let members: Vec<String> =
            type_.members.iter().map(|member| format!("{}: {}", member.name, member.type_name)).collect();
        // Lambdas are called by where they are.
        let name = type_.name.replace(&directory, "");
        format!("{name} of {} {{{}}}", type_.bytes, members.join(", "))
    };
    found.into_rows().iter().map(of).collect()
}

fn compiled(option: &[&str]) -> Compiled {
    let flags = [&["--driver-mode=g++", "-std=c++17", "-O0"][..], option].concat();
    Compiled::with("clang-19", "cpp", SOURCE, &flags)
}

#[test]
fn names_are_those_that_the_compiler_writes_otherwise() {
    let mangled = ["-Xclang", "-gsimple-template-names=mangled", "-Xclang", "-debug-forward-template-params"];
    for (format, option) in [
        (&[][..], &["-gsimple-template-names"][..]),
        (&[], &mangled),
        (&["-gdwarf-4"], &["-gsimple-template-names"]),
        (&["-gdwarf-4", "-fdebug-types-section"], &["-gsimple-template-names"]),
    ] {
        let expected = names(&compiled(format));
        assert!(expected.len() > 150, "{}", expected.len());
        let found = names(&compiled(&[format, option].concat()));
        let lacking: Vec<_> = expected.difference(&found).collect();
        // The option has some of the library's declared that otherwise are not.
        let other: Vec<_> = found.difference(&expected).filter(|name| !name.starts_with("std::")).collect();
        assert!(
            lacking.is_empty() && other.is_empty(),
            "{format:?} {option:?}: lacking {lacking:#?}, instead {other:#?}"
        );
    }
}

#[test]
fn templates_are_found_by_their_names() {
    let program = compiled(&["-gsimple-template-names"]);
    let info = program.info();
    let mut table = TypeTable::new();
    for (name, bytes) in [("Slot<int, 1>", 16), ("Slot<double, 6>", 56), ("ns::Box<ns::Box<ns::Key> >::Inner", 16)] {
        let id = info.type_named(name, &mut table).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(table.get(id).bytes, bytes, "{name}");
    }
}
