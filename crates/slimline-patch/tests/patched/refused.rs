//! Small programs, each with something in it for which no edit is known to keep it right.

use slimline_patch::Change;

use super::{check, directory_of, refusal, wanted};

const HEAD: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <stddef.h>\n\
                    struct node { long a; char text[48]; struct node *next; };\n";

/// What is said of a program with this in its `main`, and that before it.
fn refused(before: &str, inside: &str, change: Change) -> String {
    let source = format!(
        "{HEAD}{before}\nint main(void) {{\nstruct node *n = calloc(1, sizeof *n);\n{inside}\nreturn !n;\n}}\n"
    );
    let directory = directory_of(&[("a.c", &source)]);
    let parts: &[&[&str]] = match change {
        Change::HotCold { .. } | Change::Split => &[&["a", "next"], &["text"]],
        _ => &[&["a", "next", "text"]],
    };
    refusal(directory.path(), &["a.c"], &wanted("node", change, parts))
}

const HOT_COLD: Change = Change::HotCold { is_pool: false };

#[test]
fn what_needs_the_layout_is_told_with_its_line() {
    let all = [
        (Change::Reorder, "", "fwrite(n, sizeof *n, 1, stdout);", "a.c:9: fwrite reads or writes it as bytes"),
        (
            Change::Reorder,
            "",
            "long *l = (long *)n; l[0]++;",
            "a.c:9: a pointer to it is taken for another type here (long *)",
        ),
        (
            Change::Reorder,
            "void take(struct node *);",
            "take(n);",
            "a.c:9: take is defined in no source that is compiled",
        ),
        (Change::Reorder, "union any { struct node n; long l; };", "", "a.c:6: it is a member of a union"),
        (
            Change::Reorder,
            "extern struct node first;",
            "first.a++;",
            "a.c:6: first is defined in no source that is compiled",
        ),
        (
            Change::Reorder,
            "",
            "char bytes[99]; memcpy(bytes, n, sizeof *n);",
            "a.c:9: memcpy reads or writes it as bytes",
        ),
        (
            Change::Reorder,
            "",
            "n = malloc(sizeof *n + 9);",
            "a.c:9: how much is allocated is not understood: something may be behind it",
        ),
        (Change::Align(64), "", "n = realloc(n, 2 * sizeof *n);", "a.c:9: realloc can't align it"),
        (
            HOT_COLD,
            "",
            "printf(\"%zu\", sizeof(struct node));",
            "a.c:9: its size is asked for, and not for a block of it",
        ),
        (
            HOT_COLD,
            "",
            "struct node m = *n; n->a = m.a;",
            "a.c:9: this variable is declared with others, or holds more than zeros",
        ),
        (HOT_COLD, "", "memset(n, 0, sizeof *n);", "a.c:9: memset takes it as a whole"),
        (HOT_COLD, "", "printf(\"%zu\", offsetof(struct node, text));", "a.c:9: the offset of a member is asked for"),
        (
            HOT_COLD,
            "",
            "char *c = ((struct node *)0)->text; printf(\"%p\", c);",
            "a.c:9: the offset of a member is asked for",
        ),
        (HOT_COLD, "struct two { struct node one, other; };", "", "a.c:6: it is a member of another structure"),
        (
            HOT_COLD,
            "static long of(struct node m) { return m.a; }",
            "return of(*n);",
            "a.c:6: a function takes or gives all of it",
        ),
        (Change::Reorder, "", "memset(n, 0, sizeof *n - 8);", "a.c:9: memset reads or writes it as bytes"),
        (
            Change::Reorder,
            "static int at = offsetof(struct node, next);",
            "n->a = at;",
            "a.c:6: the offset of a member is asked for",
        ),
        (
            Change::Reorder,
            "static struct node table[8];",
            "fread(&table, sizeof table, 1, stdin);",
            "a.c:9: a pointer to it is taken for another type here (void *)",
        ),
        (Change::Reorder, "", "n->a = (long)n >> 4;", "a.c:9: a pointer to it is taken for another type here (long)"),
        (
            Change::Pool,
            "static void gone(void *of) { void **p = of; free(*p); *p = 0; }",
            "gone(&n);",
            "a.c:9: a pointer to it is taken for another type here (void *)",
        ),
        (
            Change::Pool,
            "typedef void give(struct node *);",
            "give *f = (give *)free; f(n);",
            "a.c:9: this use of it is not understood (give *)",
        ),
        (
            Change::Pool,
            "#include <pthread.h>\nstatic void *go(void *p) { return p; }",
            "pthread_t t; pthread_create(&t, 0, go, 0); free(n);",
            "it is freed, and there are threads, each of which would have a pool of its own",
        ),
        (HOT_COLD, "static __thread struct node own;", "own.a++;", "a.c:6: each thread has a variable of its own"),
        (Change::Split, "", "n = malloc(9 * sizeof *n);", "a.c:9: there is more than one array of it"),
        (Change::Pool, "", "n = malloc(9 * sizeof *n);", "a.c:9: several are allocated at once"),
    ];
    for (change, before, inside, why) in all {
        assert_eq!(refused(before, inside, change), why, "{before} {inside}");
    }
}

#[test]
fn arrays_that_may_be_several_are_left_alone() {
    let source = format!(
        "{HEAD}static struct node *make(int n) {{ return malloc(n * sizeof(struct node)); }}\n\
         int main(int c, char **v) {{\nstruct node *one = make(c), *two = make(c);\n(void)v;\nreturn one == two;\n}}\n"
    );
    let directory = directory_of(&[("a.c", &source)]);
    let why = refusal(directory.path(), &["a.c"], &wanted("node", Change::Split, &[&["a", "next"], &["text"]]));
    assert_eq!(why, "a.c:6: this allocation may run several times, and parts of several arrays are not told apart");
}

fn refused_file(name: &str, text: &str, change: Change) -> String {
    let directory = directory_of(&[(name, &format!("{HEAD}{text}"))]);
    let parts: [&[&str]; 2] = [&["a", "next"], &["text"]];
    refusal(directory.path(), &[name], &wanted("node", change, &parts))
}

#[test]
fn what_is_gone_back_to_runs_several_times() {
    let text = "int main(int c, char **v) {\nstruct node *one;\nagain: one = malloc(c * sizeof *one);\none[0].a = c;\n\
                if (c-- > 0)\ngoto again;\n(void)v;\nreturn !one[0].a;\n}\n";
    let why = refused_file("a.c", text, Change::Split);
    assert_eq!(why, "a.c:8: this allocation may run several times, and parts of several arrays are not told apart");
}

#[test]
fn assignments_of_classes_are_copies() {
    let text = "void both(node *a, node *b) {\n*a = *b;\n}\nint main() { node a{}, b{};\nboth(&a, &b);\nreturn 0;\n}\n";
    assert_eq!(refused_file("a.cpp", text, HOT_COLD), "a.cpp:7: all of it is copied");
}

/// What is right for the one type would be wrong for the other.
#[test]
fn files_that_are_read_for_several_types_are_left_alone() {
    let included = "T *NEW(void) {\n    T *t = (T *)malloc(sizeof(T));\n    return t;\n}\n";
    let source = format!(
        "{HEAD}struct big {{ long all[99]; }};\n#define T struct node\n#define NEW new_node\n#include \"new.inc\"\n#undef T\n#undef NEW\n\
         #define T struct big\n#define NEW new_big\n#include \"new.inc\"\nint main(void) {{ return !new_node()->a + !new_big(); }}\n"
    );
    let directory = directory_of(&[("new.inc", included), ("a.c", &source)]);
    let why = refusal(directory.path(), &["a.c"], &wanted("node", Change::Pool, &[&["a", "next", "text"]]));
    assert_eq!(why, "new.inc:2: this is used for other types, too");
}

/// One definition for several units; some members are named through pointers to elements, some by index.
#[test]
fn headers_are_changed_once() {
    let header = "#ifndef A_H\n#define A_H\n#include <stddef.h>\n/* What is known of one. */\ntypedef struct item {\n    int id; /* its number */\n    \
                  char name[40], kind;\n    struct item *best; // of all\n} item, *item_ptr;\nextern item_ptr items;\n\
                  long sum(const item *all, long n);\nconst char *name_of(item_ptr it);\n#endif\n";
    let one = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"a.h\"\nitem_ptr items;\n\
               int main(void) {\n    long n = 100, i;\n    items = (item_ptr)malloc(n * sizeof(item));\n    for (i = 0; i < n; i++) {\n        \
               items[i].id = (int)i;\n        items[i].kind = 'a' + (char)(i % 26);\n        strcpy(items[i].name, \"name\");\n        \
               items[i].best = i ? &items[i / 2] : NULL;\n    }\n    for (item_ptr it = items; it < items + n; it++)\n        \
               it->kind++, it->best ? it->best->name[0]++ : 0;\n    printf(\"%ld %s %s\\n\", sum(items, n), name_of(&items[3]), name_of(items));\n    \
               free(items);\n    return 0;\n}\n";
    let two = "#include \"a.h\"\nlong sum(const item *all, long n) {\n    long s = 0;\n    for (long i = 0; i < n; i++)\n        s += all[i].id * all[i].kind;\n    \
               return s;\n}\nconst char *name_of(item_ptr it) { return it->name; }\n";
    let parts: [&[&str]; 3] = [&["id", "best"], &["kind"], &["name"]];
    for change in [Change::Split, HOT_COLD, Change::Reorder, Change::Align(64)] {
        let directory = directory_of(&[("a.h", header), ("one.c", one), ("two.c", two)]);
        let parts: Vec<&[&str]> = match change {
            Change::Split => parts.to_vec(),
            Change::HotCold { .. } => vec![&["id", "best"], &["kind", "name"]],
            _ => vec![&["id", "kind", "best", "name"]],
        };
        let diff = check(directory.path(), &["one.c", "two.c"], &[], &wanted("item", change, &parts));
        assert!(diff.contains("a/a.h"), "{diff}");
    }
}

/// Programs of former times declare `malloc` themselves, and have it in macros.
#[test]
fn a_program_s_own_declarations_stay() {
    let source = "int printf(const char *, ...);\nextern void *malloc(unsigned long);\n#define NIL ((tree) 0)\n\
                  #define NEW(t) { t = (tree) malloc(sizeof(*t)); t->left = t->right = NIL; }\n#define NOTE(t) ((*(t)).note)\n\
                  typedef struct tree { long key; char note[40]; struct tree *left, *right; } *tree;\n\
                  int main(void) {\n    tree a, b;\n    NEW(a)\n    NEW(b)\n    a->key = b->key = 7, a->left = b;\n    \
                  NOTE(a->left)[0] = 'x', NOTE(b)[1] = 0;\n    printf(\"%s %ld\\n\", NOTE(b), a->left->key);\n    return a->right != NIL;\n}\n";
    for change in [HOT_COLD, Change::HotCold { is_pool: true }, Change::Pool] {
        let directory = directory_of(&[("a.c", source)]);
        let parts: &[&[&str]] = match change {
            Change::Pool => &[&["key", "note", "left", "right"]],
            _ => &[&["key", "left", "right"], &["note"]],
        };
        let diff = check(directory.path(), &["a.c"], &[], &wanted("tree", change, parts));
        assert!(diff.contains("__builtin_malloc") && !diff.contains("+#include"), "{diff}");
    }
}
