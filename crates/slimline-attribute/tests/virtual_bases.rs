//! Fields of virtual bases are where the program itself says that they are, in objects of each class of a diamond.

mod sandbox;

use std::collections::BTreeSet;

use sandbox::Sandbox;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::tables::MemberRole;
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;

/// Prints of each object, which the compiler can't see through: class, field, offset, size.
const SOURCE: &str = r##"
#include <cstdio>
namespace geo {
struct Named { long id; virtual ~Named() {} };
struct Plain { long v; int w; };
struct Left : virtual Named, virtual Plain { int l; };
struct Right : virtual Plain { double r; virtual void f() {} };
template <class T> struct Both : Left, Right { T b; };
struct Last : Both<int> { long last; };
struct Holder { long before; Left left; long after; };
struct Deeper : virtual Last { char d; };
struct Face { virtual void face() {} };
struct Faced : virtual Face, virtual Plain { long h; };
}
namespace { struct Unnamed : virtual geo::Plain { int u; }; }
template <class T> T *made() { T *volatile object = new T; return object; }
#define O(o, f) std::printf("%s %s %zu %zu\n", name, #f, (size_t)((char *)&o->f - (char *)o), sizeof(o->f));
int main() {
  const char *name = "geo::Left"; auto *left = made<geo::Left>();
  O(left, id) O(left, v) O(left, w) O(left, l)
  name = "geo::Right"; auto *right = made<geo::Right>();
  O(right, r) O(right, v) O(right, w)
  name = "geo::Both<int>"; auto *both = made<geo::Both<int>>();
  O(both, id) O(both, v) O(both, w) O(both, l) O(both, r) O(both, b)
  name = "geo::Last"; auto *last = made<geo::Last>();
  O(last, id) O(last, v) O(last, w) O(last, l) O(last, r) O(last, b) O(last, last)
  name = "geo::Deeper"; auto *deeper = made<geo::Deeper>();
  O(deeper, id) O(deeper, v) O(deeper, w) O(deeper, l) O(deeper, r) O(deeper, b) O(deeper, last) O(deeper, d)
  name = "Unnamed"; auto *unnamed = made<Unnamed>();
  O(unnamed, v) O(unnamed, w) O(unnamed, u)
  name = "geo::Faced"; auto *faced = made<geo::Faced>();
  O(faced, h) O(faced, v) O(faced, w)
  name = "geo::Holder"; auto *holder = made<geo::Holder>();
  O(holder, before) O(holder, left.l) O(holder, left.id) O(holder, left.v) O(holder, left.w) O(holder, after)
}
"##;

#[test]
fn fields_of_virtual_bases_are_where_the_program_says() {
    // A library's are where its program's are.
    let said = {
        let sandbox = Sandbox::new();
        sandbox.run(&sandbox.compile("g++", &[], "a.cpp", SOURCE, "prog"), &[])
    };
    for (compiler, flags) in [
        ("g++", &["-O2", "-shared", "-fPIC"][..]),
        ("clang++", &["-O2", "-shared", "-fPIC"]),
        ("g++", &["-O2"]),
        ("g++", &["-O0", "-no-pie", "-gdwarf-4"]),
        ("g++", &["-O2", "-static"]),
        ("g++", &["-O2", "-gdwarf-5", "-fdebug-types-section"]),
        ("clang++", &["-O2"]),
    ] {
        let sandbox = Sandbox::new();
        let program = sandbox.compile(compiler, &[&["-g"], flags].concat(), "a.cpp", SOURCE, "prog");
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &program);
        let info = module.debug_info().unwrap();
        let mut table = TypeTable::new();
        if !flags.contains(&"-shared") {
            assert_eq!(sandbox.run(&program, &[]), said, "{compiler} {flags:?}");
        }
        for line in said.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let &[name, field, offset, bytes] = &words[..] else { panic!("{line}") };
            let id = info.type_named(name, &mut table).unwrap_or_else(|| panic!("no type {name}"));
            let leaf = leaves::field_at(table.rows(), id, offset.parse().unwrap());
            let leaf = leaf.unwrap_or_else(|| panic!("{compiler} {flags:?}: {line}: {:#?}", table.get(id)));
            let found = (leaf.path.as_str(), leaf.offset.to_string(), leaf.bytes.to_string());
            assert_eq!(found, (field, offset.to_owned(), bytes.to_owned()), "{compiler} {flags:?}: {name}");
        }
        assert_eq!(said.lines().count(), 40);
        // What moves together stays together: a base, virtual or not, is a member.
        let [last, left] = ["geo::Last", "geo::Left"].map(|name| info.type_named(name, &mut table).unwrap());
        let members: Vec<_> =
            table.get(last).members.iter().map(|member| (member.name.as_str(), member.role)).collect();
        let bases = [("geo::Both<int>", MemberRole::Base), ("last", MemberRole::Field)];
        assert_eq!(members[..2], bases, "{compiler} {flags:?}");
        assert!(members[2..].iter().all(|(_, role)| *role == MemberRole::InheritedVirtualBase));
        // `Left`, which has them itself, and no other base that would bring them.
        let own = table.get(left).members.iter().filter(|member| member.role == MemberRole::VirtualBase);
        assert_eq!(own.count(), 2);
        let virtual_bases: BTreeSet<_> = members[2..].iter().map(|(name, _)| *name).collect();
        assert_eq!(virtual_bases, BTreeSet::from(["geo::Named", "geo::Plain"]));
    }
}

/// Without typeinfo nobody says which words are of which table.
#[test]
fn virtual_bases_that_no_table_tells_of_are_left_out() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("g++", &["-g", "-O2", "-fno-rtti"], "a.cpp", SOURCE, "prog");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let info = module.debug_info().unwrap();
    let mut table = TypeTable::new();
    let left = info.type_named("geo::Left", &mut table).unwrap();
    let names: Vec<String> = leaves::leaves(table.rows(), left).into_iter().map(|leaf| leaf.path).collect();
    assert_eq!(names, ["_vptr.Left", "l"]);
}
