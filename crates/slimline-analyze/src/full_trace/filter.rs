//! Which accesses of a full trace are wanted, by names.

use slimline_trace::stream::sites::{Module, Site};

/// Patterns in which `*` stands for any text and `?` for one character. An access is wanted if it has a name that one pattern
/// of each list matches, of lists that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Functions: the one that it was written in, those into which that was inlined, also as linked.
    pub functions: Vec<String>,
    /// Files of those: whole paths, or the last parts of them.
    pub files: Vec<String>,
    /// Types of which it accesses a member, or may.
    pub types: Vec<String>,
    /// Variables.
    pub variables: Vec<String>,
}

impl Filter {
    /// Whether everything is wanted.
    pub fn is_empty(&self) -> bool {
        [&self.functions, &self.files, &self.types, &self.variables].into_iter().all(Vec::is_empty)
    }

    /// Whether what this site accesses is wanted.
    pub fn wants(&self, module: &Module, site: &Site) -> bool {
        let linked = module.name(site.function);
        let frames = || module.frames_of(site);
        let functions = frames().map(|frame| module.name(frame.function)).chain([linked]);
        let files = frames().flat_map(|frame| ends(module.name(frame.file)));
        any(&self.functions, functions)
            && any(&self.files, files)
            && any(&self.types, [site.structure, site.other_structure].map(|name| module.name(name)))
            && any(&self.variables, [module.name(site.variable)])
    }
}

/// A path, and what is left of it behind each `/`.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    std::iter::once(path).chain(path.match_indices('/').map(|(at, _)| &path[at + 1..]))
}

/// Whether a pattern matches a name; where there is none everything is wanted.
fn any<'a>(patterns: &[String], names: impl IntoIterator<Item = &'a str>) -> bool {
    let matches = |name: &str| !name.is_empty() && patterns.iter().any(|pattern| is_match(pattern, name));
    patterns.is_empty() || names.into_iter().any(matches)
}

/// Whether a pattern matches all of a text. Takes time of the product of their lengths at most: where the rest does not match,
/// only the last `*` takes more.
fn is_match(pattern: &str, text: &str) -> bool {
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
    use slimline_trace::stream::sites::{Frame, ModuleBuilder, SiteKind};

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
        // What has no name is wanted by no pattern.
        let unnamed = Filter { types: vec!["*".to_owned()], ..Filter::default() };
        assert!(!unnamed.wants(&module, &Site::new(SiteKind::Load, 8)) && !unnamed.is_empty());
    }

    proptest! {
        #[test]
        fn patterns_match_what_their_twin_does(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(is_match(&pattern, &text), twin(&chars(&pattern), &chars(&text)));
        }
    }
}
