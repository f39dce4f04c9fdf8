//! Which accesses of a full trace are wanted, by names.

use std::collections::BTreeSet;

use slimline_trace::stream::sites::{Frame, Module, Name, Site};

/// Names that are told where a filter matches none.
const MOST_NEAR: usize = 6;

/// Patterns in which `*` stands for any text and `?` for one character. An access is wanted if it has a name that one pattern
/// of each list matches, of lists that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Functions: the one that it was written in, those into which that was inlined, also as linked; whole paths, or the
    /// last parts of them.
    pub functions: Vec<String>,
    /// Files of those: whole paths, or the last parts of them.
    pub files: Vec<String>,
    /// Types of which it accesses a member, or may.
    pub types: Vec<String>,
    /// Variables: static ones that are accessed, whole paths or the last parts of them, else as instructions name what they access.
    pub variables: Vec<String>,
}

impl Filter {
    /// Whether everything is wanted.
    pub fn is_empty(&self) -> bool {
        [&self.functions, &self.files, &self.types, &self.variables].into_iter().all(Vec::is_empty)
    }

    /// Whether what this site accesses is wanted.
    pub fn wants(&self, module: &Module, site: &Site) -> bool {
        Sort::ALL.into_iter().all(|sort| self.matches(sort, module, site))
    }

    /// Whether what this site accesses in a known block is wanted: one of these structures, and a static variable where there is a title.
    pub(super) fn wants_in_block<'e>(
        &self,
        module: &Module,
        site: &Site,
        title: Option<&str>,
        structures: impl Fn() -> Vec<&'e str>,
    ) -> bool {
        Sort::ALL.into_iter().all(|sort| match (sort, title) {
            (Sort::Variable, Some(title)) => self.is_static_wanted(title),
            (Sort::Type, _) => self.matches(sort, module, site) || any(&self.types, structures()),
            _ => self.matches(sort, module, site),
        })
    }

    fn is_static_wanted(&self, title: &str) -> bool {
        any(&self.variables, names_of(title))
    }

    /// Lists that match nothing of these sites and static variables, with names that would.
    pub(super) fn unmatched<'m, I>(&self, sites: impl Fn() -> I, statics: &[&'m str]) -> Vec<Unmatched>
    where
        I: Iterator<Item = (&'m Module, &'m Site)>,
    {
        let unmatched = Sort::ALL.into_iter().filter(|sort| {
            let is_of_static = *sort == Sort::Variable && statics.iter().any(|name| self.is_static_wanted(name));
            !self.patterns(*sort).is_empty()
                && !is_of_static
                && !sites().any(|(module, site)| self.matches(*sort, module, site))
        });
        let told = unmatched.map(|sort| {
            let mut names: BTreeSet<&str> = sites().flat_map(|(module, site)| sort.names(module, site)).collect();
            names.extend(statics.iter().filter(|_| sort == Sort::Variable));
            let patterns = self.patterns(sort);
            Unmatched { what: sort.name(), patterns: patterns.to_vec(), near: near(patterns, names) }
        });
        told.collect()
    }

    fn patterns(&self, sort: Sort) -> &[String] {
        match sort {
            Sort::Function => &self.functions,
            Sort::File => &self.files,
            Sort::Type => &self.types,
            Sort::Variable => &self.variables,
        }
    }

    fn matches(&self, sort: Sort, module: &Module, site: &Site) -> bool {
        let names = sort.names(module, site);
        match sort {
            Sort::File => any(self.patterns(sort), names.into_iter().flat_map(ends)),
            Sort::Function => {
                let patterns = self.patterns(sort);
                // As functions of one name are told apart.
                let with_files = || module.frames_of(site).flat_map(|frame| in_files(module, frame));
                let of_one_file = patterns.iter().filter(|pattern| pattern.ends_with(')'));
                any(patterns, names.into_iter().flat_map(|name| [name, last_of(name)]))
                    || of_one_file.into_iter().any(|pattern| with_files().any(|name| is_match(pattern, &name)))
            }
            Sort::Type | Sort::Variable => any(self.patterns(sort), names),
        }
    }
}

/// A list of patterns that matches no access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// What they are patterns of: `function`, `file`, `type` or `variable`.
    pub what: &'static str,
    /// The patterns.
    pub patterns: Vec<String>,
    /// Names of that sort, those first that are most like the patterns; not all.
    pub near: Vec<String>,
}

/// What names are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Function,
    File,
    Type,
    Variable,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Function, Self::File, Self::Type, Self::Variable];

    fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::File => "file",
            Self::Type => "type",
            Self::Variable => "variable",
        }
    }

    /// The names of this sort that a site has.
    fn names<'m>(self, module: &'m Module, site: &Site) -> Vec<&'m str> {
        let frames = || module.frames_of(site);
        let names: Vec<Name> = match self {
            Self::Function => frames().map(|frame| frame.function).chain([site.function]).collect(),
            Self::File => frames().map(|frame| frame.file).collect(),
            Self::Type => vec![site.structure, site.other_structure],
            Self::Variable => vec![site.variable],
        };
        names.into_iter().map(|name| module.name(name)).filter(|name| !name.is_empty()).collect()
    }
}

/// The names most like a pattern, of which what stands for anything is left out: first those that contain it.
fn near(patterns: &[String], names: BTreeSet<&str>) -> Vec<String> {
    let plain = |text: &str| text.replace(['*', '?'], "").to_lowercase();
    let patterns: Vec<String> = patterns.iter().map(|pattern| plain(pattern)).collect();
    let distance = |name: &str| {
        let name = plain(name.rsplit('/').next().unwrap_or(name));
        let of = |pattern: &String| if name.contains(&**pattern) { 0 } else { edits(pattern, &name) };
        patterns.iter().map(of).min().unwrap_or(0)
    };
    let mut near: Vec<(usize, &str)> = names.into_iter().map(|name| (distance(name), name)).collect();
    near.sort_unstable();
    near.truncate(MOST_NEAR);
    near.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Characters to insert, remove or replace to make one text the other (Levenshtein 1966).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, of_one) in one.chars().enumerate() {
        let mut before = index;
        row[0] = index + 1;
        for (at, of_other) in other.iter().enumerate() {
            let replaced = before + usize::from(of_one != *of_other);
            before = row[at + 1];
            row[at + 1] = replaced.min(before + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// What a function of a path is called without it: `sum` of `app::sum::<i32>`, `next` of `<app::List as Iterator>::next`.
fn last_of(path: &str) -> &str {
    let (mut start, mut end, mut depth) = (0, path.len(), 0_u32);
    let bytes = path.as_bytes();
    for (at, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => {
                if depth == 0 && byte == b'<' && path[..at].ends_with("::") {
                    end = at - 2;
                }
                depth += 1;
            }
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes[at..].starts_with(b"::") && bytes.get(at + 2) != Some(&b'<') => {
                (start, end) = (at + 2, path.len());
            }
            _ => {}
        }
    }
    path.get(start..end).unwrap_or(path)
}

/// A function with its file: `step (a.c)`, and so with all ends of the path.
fn in_files<'m>(module: &'m Module, frame: &Frame) -> impl Iterator<Item = String> + use<'m> {
    let function = module.name(frame.function);
    ends(module.name(frame.file)).map(move |file| format!("{function} ({file})"))
}

/// A path, and what is left of it behind each `/`.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::once(path).chain(path.match_indices('/').map(|(at, _)| &path[at + 1..]))
}

/// What data of that title goes by: the whole of it, without where it is declared (`calls (step.c:7)`), and the last part of its path.
fn names_of(title: &str) -> [&str; 3] {
    let name = title.strip_suffix(')').and_then(|title| title.rsplit_once(" (")).map_or(title, |(name, _)| name);
    [title, name, last_of(name)]
}

/// Whether data of that title is what a pattern asks for, as in the lists of a [`Filter`].
pub fn is_called(pattern: &str, title: &str) -> bool {
    names_of(title).into_iter().any(|name| !name.is_empty() && is_match(pattern, name))
}

/// Whether a pattern matches a name; where there is none everything is wanted.
fn any<'a>(patterns: &[String], names: impl IntoIterator<Item = &'a str>) -> bool {
    let matches = |name: &str| !name.is_empty() && patterns.iter().any(|pattern| is_match(pattern, name));
    patterns.is_empty() || names.into_iter().any(matches)
}

/// Whether a pattern matches all of a text. Takes time of the product of their lengths at most: where the rest does not match,
/// only the last `*` takes more.
pub fn is_match(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut in_text) = (0, 0);
    // Behind the last `*`, and where in the text what follows it was tried.
    let mut star = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, in_text));
            }
            Some(&wanted) if wanted == '?' || wanted == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => {
                let Some((behind, tried)) = star else { return false };
                star = Some((behind, tried + 1));
                (at, in_text) = (behind, tried + 1);
            }
        }
    }
    pattern[at..].iter().all(|wanted| *wanted == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slimline_trace::stream::sites::{ModuleBuilder, SiteKind};

    use super::*;

    /// By trying everything.
    fn twin(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|taken| twin(rest, &text[taken..])),
            Some((wanted, rest)) => {
                text.split_first().is_some_and(|(c, text)| (wanted == c || *wanted == '?') && twin(rest, text))
            }
        }
    }

    #[test]
    fn data_goes_by_its_title_and_its_name() {
        for pattern in ["app::calls (step.c:7)", "app::calls", "calls", "c*s", "*step.c*"] {
            assert!(is_called(pattern, "app::calls (step.c:7)"), "{pattern}");
        }
        for pattern in ["", "call", "app", "step.c:7"] {
            assert!(!is_called(pattern, "app::calls (step.c:7)"), "{pattern}");
        }
        assert!(is_called("(anonymous struct at a.c:1)", "(anonymous struct at a.c:1)"));
    }

    #[test]
    fn functions_are_known_by_the_last_of_their_path() {
        let cases = [
            ("sum", "sum"),
            ("app::sum", "sum"),
            ("app::sum::<i32>", "sum"),
            ("app::sum::<i32>::{closure#0}", "{closure#0}"),
            ("<app::List as core::iter::Iterator>::next", "next"),
            ("app::apply::<fn(a::B) -> c::D>", "apply"),
            ("operator<", "operator<"),
            ("a::", ""),
            ("", ""),
        ];
        for (path, expected) in cases {
            assert_eq!(last_of(path), expected, "{path}");
        }
    }

    #[test]
    fn each_list_must_have_a_match() {
        let mut builder = ModuleBuilder::new();
        let [walk, main, file, list, node] =
            ["walk", "main", "/src/lib/list.c", "list->next", "node"].map(|text| builder.name(text));
        let caller = builder.frame(Frame { function: main, file, line: 9, column: 0, caller: None });
        let frame = builder.frame(Frame { function: walk, file, line: 3, column: 0, caller: Some(caller) });
        let site = Site {
            frame: Some(frame),
            function: main,
            structure: node,
            variable: list,
            ..Site::new(SiteKind::Load, 8)
        };
        let module = builder.finish("list.c", "list.o", "/", "test");
        let wants = |[functions, files, types, variables]: [&str; 4]| {
            let list = |text: &str| text.split(' ').filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let [functions, files, types, variables] = [functions, files, types, variables].map(list);
            Filter { functions, files, types, variables }.wants(&module, &site)
        };
        for wanted in [
            ["", "", "", ""],
            ["walk", "", "", ""],
            ["ma?n", "list.c", "no*", "list*"],
            ["other w*k", "lib/*.c", "", ""],
            ["", "/src/lib/list.c", "", ""],
        ] {
            assert!(wants(wanted), "{wanted:?}");
        }
        for left in [["wal", "", "", ""], ["walk", "ist.c", "", ""], ["walk", "", "nodes", ""], ["", "", "", "list"]] {
            assert!(!wants(left), "{left:?}");
        }
        // As functions of one name are told.
        let of = |function: &str| Filter { functions: vec![function.to_owned()], ..Filter::default() };
        for (function, is_wanted) in
            [("walk (/src/lib/list.c)", true), ("walk (list.c)", true), ("walk (tree.c)", false)]
        {
            assert_eq!(of(function).wants(&module, &site), is_wanted, "{function}");
        }
        // What has no name is wanted by no pattern.
        let unnamed = Filter { types: vec!["*".to_owned()], ..Filter::default() };
        assert!(!unnamed.wants(&module, &Site::new(SiteKind::Load, 8)) && !unnamed.is_empty());
    }

    #[test]
    fn names_that_are_like_what_was_asked_for() {
        assert_eq!([edits("kitten", "sitting"), edits("", "abc"), edits("abc", "abc")], [3, 3, 0]);
        let near = |pattern: &str, names: &[&str]| near(&[pattern.to_owned()], names.iter().copied().collect());
        assert_eq!(near("lokup", &["main", "lookup", "hash"]), ["lookup", "hash", "main"]);
        assert_eq!(near("Look*", &["lock", "table_lookup"]), ["table_lookup", "lock"]);
        assert_eq!(near("list.c", &["/src/tree.c", "/src/lists.c"]), ["/src/lists.c", "/src/tree.c"]);
        assert_eq!(near("x", &["a", "b", "c", "d", "e", "f", "g", "h"]).len(), MOST_NEAR);
    }

    #[test]
    fn lists_that_match_nothing_are_told() {
        let mut builder = ModuleBuilder::new();
        let [walk, node] = ["walk", "node"].map(|text| builder.name(text));
        let site = Site { function: walk, structure: node, ..Site::new(SiteKind::Load, 8) };
        let module = builder.finish("list.c", "list.o", "/", "test");
        let filter = |function: &str, r#type: &str| {
            let list = |text: &str| vec![text.to_owned()];
            Filter { functions: list(function), types: list(r#type), ..Filter::default() }
        };
        let unmatched = |filter: Filter| filter.unmatched(|| [(&module, &site)].into_iter(), &[]);
        assert_eq!(unmatched(filter("walk", "*")), []);
        let told = Unmatched { what: "type", patterns: vec!["nodes".to_owned()], near: vec!["node".to_owned()] };
        assert_eq!(unmatched(filter("walk", "nodes")), [told]);
    }

    proptest! {
        #[test]
        fn patterns_match_what_their_twin_does(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(is_match(&pattern, &text), twin(&chars(&pattern), &chars(&text)));
        }
    }
}
