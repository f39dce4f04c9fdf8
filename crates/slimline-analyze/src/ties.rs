//! What relies on the layout of a structure: a program's sources, and other programs.
//!
//! Lines of sources are looked at one by one, as text: what a macro makes, or what is written over several lines, is not found.

use std::collections::BTreeSet;

/// How a line relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reliance {
    /// It asks for offsets of members.
    Offsets,
    /// It reads or writes it as bytes: a file's or a protocol's.
    Bytes,
    /// It says how large it is.
    Size,
    /// It is declared to be laid out so.
    Declared,
    /// It hands the address of an array to code that is not traced.
    HandedOn,
    /// It declares a function or variable that a library exports.
    Exported,
}

/// A line that relies on a structure's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tie {
    /// How.
    pub reliance: Reliance,
    /// From 1.
    pub line: u32,
}

/// What relies on a layout, as far as it was looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// Lines, with their files.
    pub found: Vec<(String, Tie)>,
    /// Whether any source was there to look in.
    pub has_sources: bool,
}

/// What asks for offsets.
const OFFSETS: [&str; 3] = ["offsetof", "container_of", "offset_of"];
/// What takes bytes.
const BYTES: [&str; 14] = [
    "fwrite",
    "fread",
    "write",
    "read",
    "pwrite",
    "pread",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "mmap",
    "memcmp",
    "hash",
    "from_raw_parts",
];
/// What says how large it is.
const SIZES: [&str; 3] = ["static_assert", "_Static_assert", "assert_eq_size"];
/// What declares a layout.
const DECLARED: [&str; 3] = ["packed", "__packed", "__packed__"];
/// Lines from an attribute to the structure that it is of.
const MOST_ATTRIBUTES: usize = 4;

/// The lines of a source file that rely on the layout of the structure of this name.
pub fn ties(name: &str, source: &str) -> Vec<Tie> {
    let lines: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let pointers: BTreeSet<&str> = lines.iter().flat_map(|line| pointers_to(name, line)).collect();
    let mut ties = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let has = |names: &[&str]| words(line).any(|word| names.contains(&word));
        // `sizeof *it` is of what `it` points to.
        let is_of_one =
            words(line).zip(words(line).skip(1)).any(|(first, of)| first == "sizeof" && pointers.contains(of));
        if !has(&[name]) && !is_of_one {
            continue;
        }
        let is_sized = has(&["sizeof", "size_of"]);
        let attributes = lines[number.saturating_sub(MOST_ATTRIBUTES)..number].iter().rev();
        let is_c_s = |line: &&str| {
            line.trim_start().starts_with("#[repr(") && words(line).any(|word| word == "C" || word == "packed")
        };
        let reliance = if has(&OFFSETS) {
            Reliance::Offsets
        } else if is_sized && has(&SIZES) {
            Reliance::Size
        } else if is_sized && has(&BYTES) {
            Reliance::Bytes
        } else if has(&DECLARED)
            || has(&["struct"]) && attributes.take_while(|line| line.trim_start().starts_with("#[")).any(is_c_s)
        {
            Reliance::Declared
        } else {
            continue;
        };
        ties.push(Tie { reliance, line: number as u32 + 1 });
    }
    ties
}

/// Variables, parameters and members that a line declares as pointers to a structure, or as arrays or values of it: `struct node *it`.
fn pointers_to<'l>(name: &'l str, line: &'l str) -> impl Iterator<Item = &'l str> {
    line.match_indices(name).filter_map(move |(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole = !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part);
        let behind = line[at + name.len()..].trim_start_matches([' ', '*', '&', '\t']);
        behind.split(|c| !is_part(c)).next().filter(|word| is_whole && !word.is_empty() && *word != "const")
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, source: &str) -> Vec<(Reliance, u32)> {
        ties(name, source).into_iter().map(|tie| (tie.reliance, tie.line)).collect()
    }

    #[test]
    fn lines_that_rely_on_a_layout() {
        use Reliance::{Bytes, Declared, Offsets, Size};
        let c = "struct node { int a; };\n\
                 #define of(p) container_of(p, struct node, a) // not node\n\
                 size_t at = offsetof(struct node, a);\n\
                 fwrite(&it, sizeof(struct node), 1, file);\n\
                 write(1, &other, sizeof(struct nodes));\n\
                 _Static_assert(sizeof(struct node) == 4, \"\");\n\
                 struct node *make = malloc(sizeof(struct node)); // offsetof(struct node, a)\n\
                 struct __attribute__((packed)) node;\n";
        assert_eq!(found("node", c), [(Offsets, 2), (Offsets, 3), (Bytes, 4), (Size, 6), (Declared, 8)]);
        let idiom = "int save(const struct node *all, int n, FILE *to) {\n\
                     fwrite(all, sizeof *all, n, to); // sizeof *others\n\
                     fwrite(n, sizeof(*other), 1, to);\n\
                     struct node *one = malloc(sizeof *one);\n\
                     return fread(one, sizeof(*one), 1, to);\n}";
        assert_eq!(found("node", idiom), [(Bytes, 2), (Bytes, 5)]);
        let rust = "#[derive(Clone)]\n#[repr(C)]\n#[derive(Copy)]\npub struct Node {\n}\n#[repr(C)]\nstruct Other;\nstruct Node2;";
        assert_eq!(found("Node", rust), [(Declared, 4)]);
        assert_eq!(found("Node2", rust), []);
    }
}
