//! Fields: their types, their addresses, and that all units have the same.

use std::fs;

use slimline_patch::Change;

use super::{check, diff, directory_of, refusal, wanted};

const HEAD: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
                    struct vec { double x, y; long mark; char kind; struct vec *left, *right; };\n";
const PARTS: [&[&str]; 2] = [&["x", "mark", "left"], &["y", "kind", "right"]];

fn vec(inside: &str, before: &str) -> String {
    format!(
        "{HEAD}{before}\nint main(void) {{\nstruct vec *v = calloc(1, sizeof *v);\nif (!v)\nreturn 1;\nv->x = 1, v->y = 2;\n{inside}\nreturn 0;\n}}\n"
    )
}

#[test]
fn a_field_s_address_reaches_no_other() {
    let all = [
        ("", "printf(\"%g\", (&v->x)[1]);", "x"),
        ("", "double *p = &v->x + 1; printf(\"%g\", *p);", "x"),
        ("", "double *p = &v->x; printf(\"%g\", p[v->mark]);", "x"),
        ("", "double *p = &v->x, *q = p; q++; printf(\"%g\", *q);", "x"),
        (
            "static double sum(const double *of, int n) { double s = 0; while (n--) s += *of++; return s; }",
            "printf(\"%g\", sum(&v->x, 2));",
            "x",
        ),
        (
            "static double at(double *of) { return of[1]; }\nstatic double second(double *of) { return at(of); }",
            "printf(\"%g\", second(&v->x));",
            "x",
        ),
        ("double *kept;", "kept = &v->x; printf(\"%g\", kept[1]);", "x"),
        ("struct keeper { double *of; };", "struct keeper k; k.of = &v->x; printf(\"%g\", k.of[1]);", "x"),
        (
            "typedef struct vec *tree;\nstatic tree other(tree *of) { return of[1]; }",
            "printf(\"%d\", other(&v->left) == v);",
            "left",
        ),
        ("", "memset(&v->x, 0, 2 * sizeof v->x);", "x"),
        ("", "memset(&v->mark, 0, sizeof v->mark + 8);", "mark"),
        ("", "fwrite(&v->x, sizeof v->x, 2, stdout);", "x"),
        ("", "char *bytes = (char *)&v->mark; bytes[9] = 1;", "mark"),
    ];
    for (before, inside, field) in all {
        for change in [Change::HotCold { is_pool: false }, Change::Reorder] {
            let directory = directory_of(&[("a.c", &vec(inside, before))]);
            let moved: &[&[&str]] = &[&["x", "mark", "left", "y", "kind", "right"]];
            let parts = if change == Change::Reorder { moved } else { &PARTS };
            let why = diff(directory.path(), &["a.c"], &wanted("vec", change, parts)).expect_err(inside);
            let line = 11 + before.lines().count().max(1) - 1;
            let said = format!("a.c:{line}: the address of {field} may be used to reach what lies next to it");
            assert_eq!(why, said, "{before} {inside}");
        }
    }
}

/// What leads to one object may be handed on.
#[test]
fn addresses_of_one_field_are_followed() {
    let before = "static void insert(struct vec **to, struct vec *v) {\n    while (*to && *to != v)\n        to = &(*to)->left;\n    *to = v;\n}\n\
                  static void twice(double *of) { *of *= 2; of[0] += 1; }\nstatic void swap(double *a, double *b) { double t = *a; *a = *b; *b = t; }\n";
    let inside = "struct vec *other = calloc(1, sizeof *other), **link = &v->right;\nif (!other)\n    return 1;\n*link = other;\n\
                  insert(&v->left, other);\ntwice(&v->y);\nswap(&v->x, &v->y);\nsscanf(\"3 5\", \"%lf %lf\", &other->x, &other->y);\n\
                  memset(&v->mark, 0, sizeof v->mark);\nmemcpy(&other->kind, \"k\", sizeof(char));\n\
                  printf(\"%g %g %g %g %d %c\\n\", v->x, v->y, other->x, other->y, v->left == v->right, other->kind);";
    for change in [Change::HotCold { is_pool: true }, Change::Reorder] {
        let directory = directory_of(&[("a.c", &vec(inside, before))]);
        let moved: &[&[&str]] = &[&["x", "mark", "left", "y", "kind", "right"]];
        let parts = if change == Change::Reorder { moved } else { &PARTS };
        check(directory.path(), &["a.c"], &[], &wanted("vec", change, parts));
    }
}

/// `rows` leads to arrays that are others' memory.
#[test]
fn pointers_to_arrays_are_stored_as_pointers() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\nstruct grid { long id; int (*rows)[4]; int own[2]; int (*of)(int); };\n\
                  static int both[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};\nstatic int other[2][4] = {{9, 9, 9, 9}, {9, 9, 9, 9}};\n\
                  static int twice(int a) { return 2 * a; }\n\
                  int main(void)\n{\n    struct grid *all = malloc(3 * sizeof *all);\n    for (int i = 0; i < 3; i++)\n        \
                  all[i] = (struct grid){.id = i, .rows = i ? both : other, .own = {i, 2}, .of = twice};\n    \
                  for (int i = 0; i < 3; i++)\n        printf(\"%ld %d %d %d\\n\", all[i].id, all[i].rows[1][2], all[i].own[1], all[i].of(all[i].own[0]));\n    \
                  printf(\"%d %d\\n\", both[0][0], other[0][0]);\n    free(all);\n    return 0;\n}\n";
    let parts: [&[&str]; 2] = [&["id"], &["rows", "own", "of"]];
    for change in [Change::Split, Change::HotCold { is_pool: false }] {
        let directory = directory_of(&[("a.c", source)]);
        check(directory.path(), &["a.c"], &[], &wanted("grid", change, &parts));
    }
}

#[test]
fn units_that_have_other_members_are_told() {
    let header = "struct item {\n#ifdef CHECKED\n    long tag;\n#endif\n    long a, b;\n};\nlong sum(struct item *);\n";
    let one = "#include \"a.h\"\nint main(void) { struct item i = {0}; i.b = 1; return (int)sum(&i); }\n";
    let two = "#define CHECKED\n#include \"a.h\"\nlong sum(struct item *i) { return i->tag + i->b; }\n";
    let directory = directory_of(&[("a.h", header), ("one.c", one), ("two.c", two)]);
    let wanted = wanted("item", Change::Reorder, &[&["b", "a"]]);
    let why = refusal(directory.path(), &["one.c", "two.c"], &wanted);
    assert!(
        why.starts_with("a.h:1: its members in ") && why.ends_with("two.c are others than in another unit"),
        "{why}"
    );
}

#[test]
fn files_in_other_encodings_are_read_and_not_changed() {
    let latin = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let header = "struct item {\n    char a; /* Größe */\n    long b;\n    char c;\n};\n";
    let main = "#include <stdio.h>\n#include \"a.h\"\nconst char *name(void);\nint main(void)\n{\n    struct item i = {1, 2, 3};\n    \
                printf(\"%d %s\\n\", i.a + (int)i.b + i.c, name());\n    return 0;\n}\n";
    let other = latin("#include \"a.h\"\n/* Käse */\nconst char *name(void) { return \"ma\u{e7}on\"; }\n");
    let directory = directory_of(&[("a.h", header), ("main.c", main)]);
    fs::write(directory.path().join("other.c"), other).unwrap();
    let wanted = wanted("item", Change::Reorder, &[&["b", "a", "c"]]);
    let changed = diff(directory.path(), &["main.c", "other.c"], &wanted).unwrap();
    assert!(changed.contains("a/a.h") && changed.contains(".a = 1"), "{changed}");
    fs::write(directory.path().join("a.h"), latin(header)).unwrap();
    let why = refusal(directory.path(), &["main.c", "other.c"], &wanted);
    assert!(
        why.starts_with("a.h:2: a change is needed in this file, which is not UTF-8 (iconv -f latin1 -t utf-8 "),
        "{why}"
    );
}
