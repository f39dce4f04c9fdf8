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
}

/// What says nothing of which type it is.
const QUALIFIERS: [&str; 10] =
    ["const", "volatile", "restrict", "__restrict", "__restrict__", "struct", "class", "typename", "enum", "_Atomic"];

impl Names {
    /// Of a structure of that tag, which may be empty.
    pub(crate) fn of(tag: &str) -> Self {
        let mut names = Self::default();
        if !tag.is_empty() {
            names.own.insert(tag.to_owned());
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
            0 => drop(self.own.insert(name.to_owned())),
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
        if words.contains(&"(") {
            return Relation::Function;
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

/// Names and marks of a type's text, without qualifiers and scopes; `(unnamed struct at a.c:3:1)` is nothing.
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
        let (word, behind) = rest.split_at(length);
        rest = behind;
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
        let mut names = Names::of("node");
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
            ("node (*)[3]", Relation::Function),
            ("np &", Relation::Other),
        ];
        for (text, relation) in all {
            assert_eq!(names.relation(text), relation, "{text}");
        }
    }
}
