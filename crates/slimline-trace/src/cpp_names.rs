//! Names of C++ as a person writes them.

/// Template arguments that are defaults where they come last. Of a pair or a tuple no argument has one.
const DEFAULTS: [&str; 6] =
    ["std::allocator", "std::less", "std::char_traits", "std::hash", "std::equal_to", "std::default_delete"];
const WITHOUT_DEFAULTS: [&str; 3] = ["pair", "tuple", "variant"];
/// Templates within templates that are looked into.
const MOST_DEEP: u32 = 64;

/// A name as a person writes it, of one as compilers write it in debug information: `std::map<int, std::string>`. What is no name of
/// a template stays as it is, as does one whose brackets don't match.
pub fn written(name: &str) -> String {
    if !name.contains('<') {
        return name.to_owned();
    }
    without_defaults(name, MOST_DEEP).unwrap_or_else(|| name.to_owned())
}

fn without_defaults(name: &str, deeper: u32) -> Option<String> {
    let Some(begin) = name.find('<') else { return Some(name.replace("__cxx11::", "")) };
    let deeper = deeper.checked_sub(1)?;
    let template = name[..begin].replace("__cxx11::", "");
    let (arguments, rest) = arguments(&name[begin + 1..])?;
    let mut arguments =
        arguments.into_iter().map(|of| without_defaults(of, deeper)).collect::<Option<Vec<String>>>()?;
    let has_defaults = !WITHOUT_DEFAULTS.iter().any(|own| template.rsplit(':').next() == Some(own));
    let is_default = |argument: &String| argument.split_once('<').is_some_and(|(of, _)| DEFAULTS.contains(&of));
    while has_defaults && arguments.len() > 1 && arguments.last().is_some_and(is_default) {
        arguments.pop();
    }
    let own = match (template.as_str(), arguments.as_slice()) {
        ("std::basic_string" | "const std::basic_string", [of]) if of == "char" => template.replace("basic_", ""),
        _ => format!("{template}<{}>", arguments.join(", ")),
    };
    Some(own + &without_defaults(rest, deeper)?)
}

/// The arguments of a template, and what follows its bracket; `None` where that is missing.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut found, mut begin, mut brackets, mut parentheses) = (Vec::new(), 0, 0_u32, 0_u32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => parentheses += 1,
            b')' => parentheses = parentheses.checked_sub(1)?,
            _ if parentheses > 0 => {}
            b'<' => brackets += 1,
            b'>' if brackets > 0 => brackets -= 1,
            b'>' => {
                found.push(text[begin..at].trim());
                return Some((found, &text[at + 1..]));
            }
            b',' if brackets == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_arguments_are_dropped() {
        for (name, expected) in [
            ("std::vector<Node, std::allocator<Node> >", "std::vector<Node>"),
            (
                "std::map<int, std::vector<Node, std::allocator<Node> >, std::less<int>, std::allocator<std::pair<int const, std::vector<Node, std::allocator<Node> > > > >",
                "std::map<int, std::vector<Node>>",
            ),
            ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
            (
                "Pool<void (*)(int, std::less<int>), std::allocator<A> >::Block",
                "Pool<void (*)(int, std::less<int>)>::Block",
            ),
            // Not the last one, and none of any use.
            ("std::map<int, A, std::less<int>, Own<A> >", "std::map<int, A, std::less<int>, Own<A>>"),
            ("std::pair<int, std::hash<int> >", "std::pair<int, std::hash<int>>"),
            ("std::allocator<char>", "std::allocator<char>"),
        ] {
            assert_eq!(written(name), expected);
        }
    }

    #[test]
    fn what_is_no_template_stays() {
        for name in ["struct node", "operator<", "f<a", "a > b", "f<(>", ""] {
            assert_eq!(written(name), name);
        }
    }
}
