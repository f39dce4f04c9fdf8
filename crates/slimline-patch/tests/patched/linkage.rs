//! What other code may do with a structure that it gets: it is in the program's sources, or nothing changes.

use std::fs;

use slimline_patch::Change;

use super::{check, directory_of, refusal, wanted};

const HEAD: &str = "#include <stdlib.h>\nstruct node { long a; char text[48]; struct node *next; };\n";

/// What is said of a program of these sources, each with the structure in its first lines.
fn refused(sources: &[(&str, &str)]) -> String {
    let directory = directory_of(&[("node.h", HEAD)]);
    for (name, text) in sources {
        fs::write(directory.path().join(name), format!("#include \"node.h\"\n{text}")).unwrap();
    }
    let names: Vec<&str> = sources.iter().map(|(name, _)| *name).collect();
    refusal(directory.path(), &names, &wanted("node", Change::Reorder, &[&["a", "next", "text"]]))
}

#[test]
fn methods_and_what_is_called_by_a_pointer_must_be_in_the_sources() {
    let main =
        |before: &str, inside: &str| format!("{before}\nint main() {{\nnode n{{}};\n{inside}\nreturn n.a;\n}}\n");
    let all = [
        ("struct lib { void take(node *); };", "lib l; l.take(&n);", "a.cpp:2: take"),
        ("struct lib { static void take(node &); };", "lib::take(n);", "a.cpp:2: take"),
        ("struct lib { lib(node *); };", "lib l(&n);", "a.cpp:2: lib"),
        ("struct lib { lib &operator<<(node *); };", "lib l; l << &n;", "a.cpp:2: operator<<"),
        ("struct lib { void say(const char *, ...); };", "lib l; l.say(\"%p\", &n);", "a.cpp:5: say"),
        ("struct lib { void take(node *); };", "void (lib::*f)(node *) = &lib::take; (void)f;", "a.cpp:2: take"),
        (
            "struct lib { virtual void take(node *) = 0; };\nstruct own : lib { void take(node *) override; };",
            "",
            "a.cpp:3: take",
        ),
        ("void all(node *);", "void (*f)(node *) = all; f(&n);", "a.cpp:5: all"),
    ];
    for (before, inside, why) in all {
        let said = refused(&[("a.cpp", &main(before, inside))]);
        assert_eq!(said, format!("{why} is defined in no source that is compiled"), "{before} {inside}");
    }
    let why = "a function gets it that is called by a pointer, whose type does not tell so";
    let operations = "struct operations { void (*f)(); };\nint main(void) {\nstruct operations *o = malloc(sizeof *o);\n\
                      struct node n = {0};\no->f(&n);\nreturn 0;\n}\n";
    assert_eq!(refused(&[("a.c", operations)]), format!("a.c:6: {why}"));
    let parameter = "static void all(void f(), struct node *n) {\nf(n);\n}\nint main(void) {\nstruct node n = {0};\nall(0, &n);\nreturn 0;\n}\n";
    assert_eq!(refused(&[("a.c", parameter)]), format!("a.c:3: {why}"));
}

/// What has the same name and is another unit's, a function's, or a template's.
#[test]
fn names_are_told_apart_as_the_linker_does() {
    let uses = "void take(struct node *);\nint main(void) {\nstruct node n = {0};\ntake(&n);\nreturn 0;\n}\n";
    let refused_with = |other: (&str, &str)| refused(&[("a.c", uses), other]);
    let why = "a.c:5: take is defined in no source that is compiled";
    assert_eq!(
        refused_with(("b.c", "static void take(struct node *n) { n->a++; }\nvoid (*used)(struct node *) = take;\n")),
        why
    );
    assert_eq!(refused_with(("b.c", "int f(void) { static int take = 1; int other = take; return other; }\n")), why);
    assert_eq!(refused_with(("b.cpp", "namespace own { void take(node *n) { n->a++; } }\n")), why);
    assert_eq!(refused_with(("b.cpp", "template <class T> void take(T *t) { (void)t; }\n")), why);
    assert_eq!(refused_with(("b.cpp", "struct own { void take(long *n) { ++*n; } };\n")), why);
    let variable = "extern struct node *take;\nint main(void) { return take->a; }\n";
    let why = "a.c:2: take is defined in no source that is compiled";
    assert_eq!(
        refused(&[
            ("a.c", variable),
            (
                "b.c",
                "int f(int take) { int first = take; return first; }\nstatic struct node *take;\nlong g(void) { return take->a; }\n"
            )
        ]),
        why
    );
}

#[test]
fn what_is_declared_in_a_function_is_that_of_the_program() {
    let variable = "int main(void) {\nextern struct node *first;\nreturn first->a;\n}\n";
    assert_eq!(refused(&[("a.c", variable)]), "a.c:3: first is defined in no source that is compiled");
    // Of a file's own, too.
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nstruct node { long a; char text[48]; };\nstatic struct node *first;\nstatic long sum(long count)\n{\n    extern struct node *first;\n    \
                  long sum = 0;\n    for (long i = 0; i < count; i++)\n        sum += first[i].a + first[i].text[0];\n    return sum;\n}\n\
                  static long all(void)\n{\n    long sum(long);\n    return sum(5);\n}\nint main(void)\n{\n    first = calloc(10, sizeof *first);\n    \
                  for (long i = 0; i < 10; i++)\n        first[i].a = i, first[i].text[0] = (char)(i * 2);\n    {\n        extern struct node *first;\n        first += 3;\n    }\n    printf(\"%ld %d\\n\", all(), first[2].text[0]);\n    return 0;\n}\n";
    let directory = directory_of(&[("a.c", source)]);
    check(directory.path(), &["a.c"], &[], &wanted("node", Change::Split, &[&["a"], &["text"]]));
}

/// What a method gets may be any element.
#[test]
fn elements_that_methods_get_are_told_by_their_addresses() {
    let source = "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\nstruct node { long a; char text[48]; };\n\
                  struct reader {\n    long total = 0;\n    void read(node *n) { total += n[0].text[0] + n[1].a; }\n};\n\
                  int main()\n{\n    node *all = (node *)calloc(10, sizeof(node));\n    for (int i = 0; i < 10; i++)\n        \
                  all[i].a = i, all[i].text[0] = (char)(i * 3);\n    reader r;\n    for (int i = 0; i < 9; i++)\n        r.read(&all[i]);\n    \
                  std::printf(\"%ld\\n\", r.total);\n    return 0;\n}\n";
    let directory = directory_of(&[("a.cpp", source)]);
    check(directory.path(), &["a.cpp"], &[], &wanted("node", Change::Split, &[&["a"], &["text"]]));
}
