//! Names for structures that have none.

use std::collections::HashMap;

/// Gives structures without a name one by where they are declared, and tells those of one line apart by what they are made of: debug
/// information may lack columns, and macros have one.
#[derive(Debug)]
pub struct Nameless<T>(HashMap<String, Vec<T>>);

impl<T> Default for Nameless<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: PartialEq> Nameless<T> {
    /// As compilers call it: `(anonymous struct at file.c:12)`, where `what` is `anonymous struct`; another one of that line, made of
    /// something else, `(anonymous struct at file.c:12 #2)`.
    pub fn name(&mut self, what: &str, path: &str, line: u32, content: T) -> String {
        let file = path.rsplit('/').next().unwrap_or_default();
        let in_line = format!("({what} at {file}:{line}");
        let known = self.0.entry(in_line.clone()).or_default();
        let number = known.iter().position(|known| *known == content).unwrap_or_else(|| {
            known.push(content);
            known.len() - 1
        });
        if number == 0 { format!("{in_line})") } else { format!("{in_line} #{})", number + 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_line_have_numbers() {
        let mut nameless = Nameless::default();
        let mut name = |line, content| nameless.name("anonymous union", "/w/a.c", line, content);
        assert_eq!(name(3, 'a'), "(anonymous union at a.c:3)");
        assert_eq!([name(3, 'b'), name(3, 'a')], ["(anonymous union at a.c:3 #2)", "(anonymous union at a.c:3)"]);
        assert_eq!(name(4, 'b'), "(anonymous union at a.c:4)");
    }
}
