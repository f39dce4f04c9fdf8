//! What a type has to do with the structure, by the names that its text is made of.

use rustc_hash::{FxHashMap, FxHashSet};

/// How a type is made of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Not at all.
    None,
    /// It is the structure.
    Value,
    /// A pointer to it.
    Pointer,
    /// A pointer to such a pointer, or an array of them.
    Deeper,
    /// An array of it.
    Array,
    /// A reference to it.
    Reference,
    /// A function that takes or gives such, or a pointer to one.
    Function,
    /// A class made for it.
    Template,
    /// Something else.
    Other,
}

/// Names by which a unit knows the structure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The structure's own: its tag, and other names of it.
    own: FxHashSet<String>,
    /// Those of pointers to it, and how many there are from one to the next.
    pointers: FxHashMap<String, usize>,
    /// Those of other types that are made of it.
    others: FxHashMap<String, Relation>,
    /// Whether it has no tag.
    is_tagless: bool,
}

/// What says nothing of which type it is.
const QUALIFIERS: [&str; 7] = ["const", "volatile", "restrict", "__restrict", "__restrict__", "typename", "_Atomic"];
/// What stands before a tag.
const KEYWORDS: [&str; 4] = ["struct", "class", "union", "enum"];

impl Names {
    /// Of a structure of that tag, which may be empty. In C a tag is one behind its keyword only: other types may have the same name.
    pub(crate) fn of(tag: &str, is_cpp: bool) -> Self {
        let mut names = Self { is_tagless: tag.is_empty(), ..Self::default() };
        if !tag.is_empty() {
            names.own.extend([format!("struct {tag}"), format!("class {tag}")]);
            names.own.extend(is_cpp.then(|| tag.to_owned()));
        }
        names
    }

    /// Whether a name is one of the structure itself.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// A name for the structure, so many pointers away.
    pub(crate) fn alias(&mut self, name: &str, pointers: usize) {
        match pointers {
            0 => {
                self.own.insert(name.to_owned());
                // So clang calls one that has no tag where it gets a name.
                self.own.extend(self.is_tagless.then(|| format!("struct {name}")));
            }
            _ => drop(self.pointers.insert(name.to_owned(), pointers)),
        }
    }

    /// A name for a type.
    pub(crate) fn declare(&mut self, name: &str, text: &str) {
        if self.is_own(name) {
            return;
        }
        match (self.relation(text), self.simple(&words(text))) {
            (Relation::None, _) => {}
            (_, Some((pointers, 0, false))) => self.alias(name, pointers),
            (relation, _) => drop(self.others.insert(name.to_owned(), relation)),
        }
    }

    /// Of a type's text.
    pub(crate) fn relation(&self, text: &str) -> Relation {
        let words = words(text);
        let is_known = |word: &&str| {
            self.own.contains(*word) || self.pointers.contains_key(*word) || self.others.contains_key(*word)
        };
        let Some(known) = words.iter().find(|word| is_known(word)) else { return Relation::None };
        if let Some(open) = words.iter().position(|word| *word == "(") {
            // A pointer to an array: to bytes of it.
            let is_to_array = words[open..].windows(2).any(|pair| pair == [")", "["])
                && words[open + 1..].iter().all(|word| *word != "(");
            return if is_to_array { Relation::Other } else { Relation::Function };
        }
        if words.contains(&"<") {
            return Relation::Template;
        }
        match self.simple(&words) {
            Some((0, 0, false)) => Relation::Value,
            Some((1, 0, false)) => Relation::Pointer,
            Some((0, _, false)) => Relation::Array,
            Some((_, _, false)) => Relation::Deeper,
            Some((0, 0, true)) => Relation::Reference,
            Some(_) => Relation::Other,
            None => match self.others.get(*known) {
                Some(relation) if words.len() == 1 => *relation,
                _ => Relation::Other,
            },
        }
    }

    /// Pointers and arrays around the structure, and whether it is a reference, where there is nothing else.
    fn simple(&self, words: &[&str]) -> Option<(usize, usize, bool)> {
        let (base, rest) = words.split_first()?;
        let mut pointers = match self.own.contains(*base) {
            true => 0,
            false => *self.pointers.get(*base)?,
        };
        let (mut arrays, mut is_reference) = (0, false);
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match *word {
                "*" if arrays == 0 => pointers += 1,
                "&" => is_reference = true,
                "[" => {
                    rest.find(|word| **word == "]")?;
                    arrays += 1;
                }
                _ => return None,
            }
        }
        Some((pointers, arrays, is_reference))
    }
}

/// Names and marks of a type's text, without qualifiers and scopes, tags with their keyword; `(unnamed struct at a.c:3:1)` is nothing.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = match is_of_name(first) {
            true => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
            false if rest.starts_with("(unnamed ") || rest.starts_with("(anonymous ") => {
                rest = rest.split_once(')').map_or("", |(_, rest)| rest);
                continue;
            }
            false => first.len_utf8(),
        };
        let (mut word, behind) = rest.split_at(length);
        if let Some(tag) = behind.strip_prefix(' ').filter(|_| KEYWORDS.contains(&word)) {
            let tag_length = tag.find(|c| !is_of_name(c)).unwrap_or(tag.len());
            // A tag in a scope has no keyword that matters: that is C++.
            if tag_length > 0 && !tag[tag_length..].starts_with("::") {
                word = &rest[..length + 1 + tag_length];
            } else {
                rest = tag;
                continue;
            }
        }
        rest = &rest[word.len()..];
        if rest.starts_with("::") {
            rest = &rest[2..];
        } else if !word.trim().is_empty() && !QUALIFIERS.contains(&word) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_related_to_the_structure() {
        let mut names = Names::of("node", true);
        names.declare("node_t", "struct node");
        names.declare("np", "node_t *");
        names.declare("table", "np[10]");
        names.declare("compare", "int (*)(const np, const np)");
        let all = [
            ("struct node", Relation::Value),
            ("const node_t", Relation::Value),
            ("sky::node *const", Relation::Pointer),
            ("np", Relation::Pointer),
            ("const np *", Relation::Deeper),
            ("struct node *[10]", Relation::Deeper),
            ("struct node[10][2]", Relation::Array),
            ("const node &", Relation::Reference),
            ("struct node *(int)", Relation::Function),
            ("std::vector<node>", Relation::Template),
            ("table", Relation::Deeper),
            ("compare", Relation::Function),
            ("struct nodes *", Relation::None),
            ("struct (unnamed struct at node.c:3:1)", Relation::None),
            ("node (*)[3]", Relation::Other),
            ("node *(*)(int)", Relation::Function),
            ("np &", Relation::Other),
        ];
        for (text, relation) in all {
            assert_eq!(names.relation(text), relation, "{text}");
        }
    }

    /// As in `typedef struct tree { … } *tree;`.
    #[test]
    fn a_pointer_may_be_called_as_the_tag_is() {
        let mut names = Names::of("tree", false);
        names.alias("tree", 1);
        let relation = |text| names.relation(text);
        assert_eq!(
            (relation("struct tree"), relation("tree"), relation("tree *")),
            (Relation::Value, Relation::Pointer, Relation::Deeper)
        );
        assert_eq!((relation("enum tree"), relation("struct tree *")), (Relation::None, Relation::Pointer));
        let mut names = Names::of("", false);
        names.alias("neuron", 0);
        assert_eq!((names.relation("struct neuron *"), names.relation("neuron")), (Relation::Pointer, Relation::Value));
    }
}
