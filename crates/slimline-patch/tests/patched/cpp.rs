//! C++: classes with methods, inheritance, templates, `new`, references, loops over ranges.

use slimline_patch::{Change, Wanted};

use super::{check, directory_of, refusal, wanted};

const HOT_COLD: Change = Change::HotCold { is_pool: false };
const HEAD: &str = "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <vector>\n";
const NODE: &str = "struct Node {\n    char tag;\n    long key;\n    char note[40];\n    Node *next;\n    \
                    long half() const { return key / 2; }\n    long twice() const;\n    void rename(char with);\n    static long count;\n};\n\
                    long Node::count = 0;\nlong Node::twice() const { return 4 * half() + note[0]; }\nvoid Node::rename(char with) { note[0] = with; this->note[1] = tag; ++count; }\n";

fn order() -> Wanted {
    wanted("Node", Change::Reorder, &[&["key", "next", "tag", "note"]])
}

fn parts(change: Change) -> Wanted {
    wanted("Node", change, &[&["key", "next"], &["tag", "note"]])
}

/// Checks that a program prints the same with the change.
fn same(text: &str, wanted: &Wanted) -> String {
    let directory = directory_of(&[("a.cpp", &format!("{HEAD}{text}"))]);
    check(directory.path(), &["a.cpp"], &[], wanted)
}

/// What is said of it, without its line.
fn refused(text: &str, wanted: &Wanted) -> String {
    let directory = directory_of(&[("a.cpp", &format!("{HEAD}{text}"))]);
    refusal(directory.path(), &["a.cpp"], wanted)
}

#[test]
fn methods_name_fields_without_an_object() {
    let main = "int main()\n{\n    Node *first = nullptr;\n    for (int i = 0; i < 9; i++) {\n        Node *n = (Node *)std::malloc(sizeof(Node));\n        \
                n->key = i, n->tag = 't', n->next = first, n->rename((char)('a' + i)), first = n;\n    }\n    long sum = 0;\n    \
                for (const Node *n = first; n; n = n->next)\n        sum += n->twice() + n->note[1];\n    std::printf(\"%ld %ld\\n\", sum, Node::count);\n    \
                while (first) {\n        Node *next = first->next;\n        std::free(first);\n        first = next;\n    }\n    return 0;\n}\n";
    let text = format!("{NODE}{main}");
    same(&text, &order());
    same(&text, &parts(HOT_COLD));
    same(&text, &parts(Change::HotCold { is_pool: true }));
    let text = text.replace("return key / 2", "return note[0]");
    assert_eq!(
        refused(&text, &parts(HOT_COLD)),
        "a.cpp:10: a method's body in the class uses what would be apart; behind the class it could"
    );
}

#[test]
fn references_are_followed() {
    let main = "static Node all[20];\nstatic long sum(const Node &of) { return of.key + of.note[0]; }\n\
                int main()\n{\n    for (int i = 0; i < 20; i++)\n        all[i].key = i, all[i].note[0] = (char)i;\n    long s = 0;\n    \
                for (const Node *n = all; n < all + 20; ++n)\n        s += sum(*n);\n    auto add = [&s](Node &n) { s += n.note[0]; n.tag = 1; };\n    add(all[3]);\n    \
                Node &last = all[19];\n    last.note[0]++;\n    std::printf(\"%ld %d %d\\n\", s, all[19].note[0], all[3].tag);\n    return 0;\n}\n";
    let fields = "struct Node {\n    char tag;\n    long key;\n    char note[40];\n    Node *next;\n};\n";
    let text = format!("{fields}{main}");
    same(&text, &order());
    // Its elements have a constructor, which the compiler makes.
    assert_eq!(
        refused(&text, &parts(Change::Split)),
        "a.cpp:11: only arrays outside of functions, of all threads, and that hold nothing at first, are parted"
    );
    let range = text
        .replace("for (const Node *n = all; n < all + 20; ++n)", "for (const Node &of : all)")
        .replace("sum(*n)", "sum(of)");
    assert_eq!(refused(&range, &order()), "a.cpp:18: this use of it is not understood (Node (&)[20])");
}

#[test]
fn what_new_and_templates_make_is_laid_out_anew() {
    let main = "template <class T> static long keys(const T *of) { long s = 0; for (; of; of = of->next) s += of->key; return s; }\n\
                int main()\n{\n    std::vector<Node *> all;\n    std::vector<Node> copies(3);\n    for (int i = 0; i < 5; i++) {\n        \
                Node *n = new Node();\n        n->key = i, n->next = all.empty() ? nullptr : all.back();\n        all.push_back(n);\n    }\n    \
                copies.at(1) = *all[4];\n    std::printf(\"%ld %ld\\n\", keys(all.back()), copies[1].key);\n    for (std::size_t i = 0; i < all.size(); i++)\n        delete all[i];\n    return 0;\n}\n";
    let text = format!("{NODE}{main}");
    same(&text, &order());
    assert_eq!(refused(&text, &parts(HOT_COLD)), "a.cpp:18: a template is made for it");
    assert!(refused("struct Node { long key; char tag; char note[40]; Node *next; };\nint main() {\nNode *n = new Node();\ndelete n;\n}\n", &parts(HOT_COLD))
        .ends_with("it is allocated or freed by new or delete"));
}

#[test]
fn parents_and_children_are_told() {
    let child = format!(
        "{NODE}struct Leaf : Node {{ long more; }};\nint main()\n{{\n    Leaf *l = (Leaf *)std::calloc(1, sizeof(Leaf));\n    Node *n = l;\n    \
                 n->key = 2, l->tag = 'x';\n    std::printf(\"%ld\\n\", n->key + l->tag);\n    return 0;\n}}\n"
    );
    let why = refused(&child, &parts(HOT_COLD));
    assert_eq!(why, "a.cpp:22: this use of it is not understood (a cast: DerivedToBase)");
    let parent = "struct Base { long id; };\nstruct Node : Base { char tag; long key; char note[40]; Node *next; };\nint main() { Node n{}; return (int)n.key; }\n";
    assert_eq!(refused(parent, &order()), "a.cpp:6: it has a parent");
}

#[test]
fn private_copies_that_no_source_defines_are_forbidden_ones() {
    let text = "class Node {\n    Node(const Node &);\n    Node &operator=(const Node &);\n\npublic:\n    char tag;\n    long key;\n    char note[40];\n    \
                Node *next;\n    Node() { tag = 'a', key = 1; }\n};\nint main()\n{\n    Node n;\n    std::printf(\"%ld\\n\", n.key + n.tag);\n    return 0;\n}\n";
    same(text, &order());
    let why = refused(
        &text.replace("    Node() {", "    void show();\n    Node() {").replace("return 0", "n.show(); return 0"),
        &order(),
    );
    assert_eq!(why, "a.cpp:14: show is defined in no source that is compiled");
}
