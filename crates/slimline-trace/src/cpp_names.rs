//! Names of C++ as a person writes them.

/// Template arguments that stand for defaults.
const DEFAULTS: [&str; 6] = [
    ", std::allocator<",
    ", std::less<",
    ", std::char_traits<",
    ", std::hash<",
    ", std::equal_to<",
    ", std::default_delete<",
];

/// A name as a person writes it, of one as compilers write it in debug information: default template arguments dropped, `> >` closed
/// up, `std::string`. Any other name unchanged.
pub fn written(name: &str) -> String {
    let mut name = name.replace("__cxx11::", "").replace("__gnu_cxx::__normal_iterator", "__normal_iterator");
    for default in DEFAULTS {
        while let Some(start) = name.find(default) {
            let end = start + default.len() + closing(&name[start + default.len()..]);
            name.replace_range(start..end, "");
        }
    }
    name.replace(" >", ">").replace("std::basic_string<char>", "std::string")
}

/// Length of `text` up to and with the `>` that closes the bracket opened just before it.
fn closing(text: &str) -> usize {
    let mut open = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => open += 1,
            b'>' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_arguments_are_dropped() {
        assert_eq!(written("std::vector<Node, std::allocator<Node> >"), "std::vector<Node>");
        assert_eq!(
            written(
                "std::map<int, std::vector<Node, std::allocator<Node> >, std::less<int>, std::allocator<std::pair<int const, std::vector<Node, std::allocator<Node> > > > >"
            ),
            "std::map<int, std::vector<Node>>"
        );
        assert_eq!(
            written("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"),
            "std::string"
        );
        assert_eq!(written("struct node"), "struct node");
    }
}
