//! Directives of C and C++: `#pragma`, `_Pragma("…")`, and arguments of macros that make one of them (`DO_PRAGMA(omp inst …)`).

use std::ops::Range;

use super::{Asked, Fault};
use slimline_source::tokens::{Kind, Spliced, Token, tokens};

/// Macros that stand in the place of directives: none is longer than the directive's words.
const fn macro_of(asked: Asked) -> &'static str {
    match asked {
        Asked::Data => "__slim_data",
        Asked::Begin => "__slim_begin",
        Asked::End => "__slim_end",
    }
}

/// A macro, as `NAME(PARAMETERS)` and its body.
type Macro = (&'static str, String);

/// What these macros are: calls of the runtime's functions. Those are declared nowhere: within a function that could only be done with
/// the linkage of what is around it, which in C++ may be an unnamed namespace.
pub(crate) fn definitions(is_cpp: bool) -> [Macro; 3] {
    let calls = |function: &str, parameters: &str, arguments: &str| {
        format!(
            "{{ void (*__slim_call)({parameters}); __asm__(\"movq {function}@GOTPCREL(%%rip), %0\" : \"=r\"(__slim_call)); \
             __slim_call({arguments}); }}"
        )
    };
    let bytes = if is_cpp { "static_cast<unsigned long>(bytes)" } else { "(unsigned long)(bytes)" };
    let watched = "const volatile void *, unsigned long, const char *";
    [
        ("__slim_data(start, bytes, name)", calls("__slimline_watch", watched, &format!("(start), {bytes}, (name)"))),
        ("__slim_begin(name)", calls("__slimline_region_begin", "const char *", "#name")),
        ("__slim_end(name)", calls("__slimline_region_end", "void", "")),
    ]
}

/// The source with calls in the place of its directives; none where it has no directive. Lines stay what they are, and columns too
/// unless a directive is wrong: then the compiler is told to complain.
pub(crate) fn rewritten(source: &[u8]) -> Option<Vec<u8>> {
    // Most sources have none.
    let has = |word: &[u8]| source.windows(word.len()).any(|window| window == word);
    if !has(b"inst") || !has(b"omp") {
        return None;
    }
    let spliced = Spliced::of(source);
    let tokens = tokens(&spliced, source);
    let mut rewriter = Rewriter {
        source,
        spliced: &spliced,
        tokens: &tokens,
        changed: source.to_vec(),
        complaints: Vec::new(),
        has: false,
    };
    rewriter.code(0, tokens.len(), false);
    rewriter.has.then(|| rewriter.done())
}

/// The same of what a preprocessor wrote, or of a file of that name that claims to be such; it knows no macros but those that stand in it.
pub(crate) fn rewritten_preprocessed(source: &[u8], is_cpp: bool, name: &str) -> Option<Vec<u8>> {
    let changed = rewritten(source)?;
    let mut text = Vec::with_capacity(changed.len() + 1024);
    // The first line says what the source is called.
    let first = match changed.starts_with(b"# ") {
        true => changed.iter().position(|byte| *byte == b'\n').map_or(changed.len(), |end| end + 1),
        false => 0,
    };
    let named = match first {
        0 => format!("# 1 \"{}\"\n", name.replace('\\', "\\\\").replace('"', "\\\"")).into_bytes(),
        _ => changed[..first].to_vec(),
    };
    text.extend(&changed[..first]);
    // As of a system's header, whose warnings are nobody's.
    text.extend(b"# 1 \"<slimline>\" 3\n");
    for (name, body) in definitions(is_cpp) {
        text.extend(format!("#define {name} {body}\n").bytes());
    }
    text.extend(&named);
    text.extend(&changed[first..]);
    Some(text)
}

struct Rewriter<'a> {
    source: &'a [u8],
    spliced: &'a Spliced,
    tokens: &'a [Token],
    /// As long as the source.
    changed: Vec<u8>,
    /// Bytes of the source, and what stands for them.
    complaints: Vec<(Range<usize>, Vec<u8>)>,
    has: bool,
}

/// Arguments in parentheses.
struct Arguments {
    /// The token that closes them.
    close: usize,
    /// How many tokens each has.
    lengths: Vec<usize>,
    /// Whether the first is a string.
    is_text: bool,
}

impl Rewriter<'_> {
    /// Looks through tokens up to `end`; of a macro's definition, where a line's end is the end.
    fn code(&mut self, begin: usize, end: usize, is_definition: bool) {
        let mut place = Place::default();
        let mut at = begin;
        while at < end {
            let token = &self.tokens[at];
            if token.kind == Kind::Directive && !is_definition {
                at = self.directive(at, place.is_body());
                continue;
            }
            if let Some(next) =
                self.operator(at, end, place.is_body()).or_else(|| self.in_macro(at, end, place.is_body()))
            {
                place = Place::default();
                at = next;
                continue;
            }
            place.pass(token.kind, self.text(at));
            at += 1;
        }
    }

    fn text(&self, at: usize) -> &[u8] {
        self.tokens.get(at).map_or(&[], |token| &self.spliced.bytes[token.at.clone()])
    }

    fn is_mark(&self, at: usize, mark: u8) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Mark(mark))
    }

    /// The first token from here on that is no line's end.
    fn significant(&self, mut at: usize) -> usize {
        while self.tokens.get(at).is_some_and(|token| token.kind == Kind::LineEnd) {
            at += 1;
        }
        at
    }

    /// A directive of the preprocessor. The token behind it.
    fn directive(&mut self, hash: usize, is_body: bool) -> usize {
        let line = self.tokens[hash..].iter().position(|token| token.kind == Kind::LineEnd);
        let end = line.map_or(self.tokens.len(), |length| hash + length);
        match self.text(hash + 1) {
            b"pragma" => self.pragma(hash, end, is_body),
            b"define" => self.code(hash + 2, end, true),
            _ => {}
        }
        end
    }

    fn pragma(&mut self, hash: usize, end: usize, is_body: bool) {
        let Some((asked, open)) = self.words(hash + 2, end) else { return };
        let fault = match self.arguments(open, end) {
            _ if is_body => Some(Fault::Body),
            None => Some(Fault::Open),
            Some(arguments) if arguments.close + 1 < end => Some(Fault::Trailing),
            Some(arguments) => arguments.fault(asked),
        };
        let start = self.tokens[hash].at.start;
        let fault = fault.or_else(|| self.put(start..self.tokens[open].at.start, macro_of(asked)).err());
        if let Some(fault) = fault {
            let line = self.tokens.get(end).map_or(self.spliced.bytes.len(), |token| token.at.start);
            self.complain(start..line, "\\\n", &format!("#pragma GCC error \"{}\"", asked.complaint(fault)));
        }
        self.has = true;
    }

    /// `omp inst WORD (` from here on: what it asks for, and the parenthesis.
    fn words(&self, at: usize, end: usize) -> Option<(Asked, usize)> {
        let inst = self.significant(at + 1);
        let word = self.significant(inst + 1);
        let open = self.significant(word + 1);
        let is_ours = matches!(self.text(at), b"omp" | b"pomp") && self.text(inst) == b"inst" && open < end;
        if !is_ours || !self.is_mark(open, b'(') {
            return None;
        }
        Some((Asked::named(self.text(word))?, open))
    }

    /// What is in the parentheses that begin here, as a macro takes it; none where they do not end.
    fn arguments(&self, open: usize, end: usize) -> Option<Arguments> {
        let mut arguments = Arguments { close: open, lengths: vec![0], is_text: false };
        let mut depth = 0;
        for at in open..end {
            match self.tokens[at].kind {
                Kind::LineEnd => continue,
                Kind::Mark(b'(') => depth += 1,
                Kind::Mark(b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                arguments.close = at;
                return Some(arguments);
            }
            let count = arguments.lengths.last_mut()?;
            if at == open {
                let first = self.significant(open + 1);
                arguments.is_text = self.tokens.get(first).is_some_and(|token| token.kind == Kind::Text);
            } else if depth == 1 && self.is_mark(at, b',') {
                arguments.lengths.push(0);
            } else {
                *count += 1;
            }
        }
        None
    }

    /// `_Pragma("omp inst …")`. The token behind it.
    fn operator(&mut self, at: usize, end: usize, is_body: bool) -> Option<usize> {
        if self.text(at) != b"_Pragma" {
            return None;
        }
        let open = self.significant(at + 1);
        let string = self.significant(open + 1);
        let close = self.significant(string + 1);
        let is_whole = self.is_mark(open, b'(') && self.is_mark(close, b')') && close < end;
        if !is_whole || self.tokens[string].kind != Kind::Text {
            return None;
        }
        let said = unquoted(self.text(string))?;
        let spliced = Spliced::of(&said);
        let words = tokens(&spliced, &said);
        let inner = Rewriter {
            source: &said,
            spliced: &spliced,
            tokens: &words,
            changed: Vec::new(),
            complaints: Vec::new(),
            has: false,
        };
        let (asked, inner_open) = inner.words(0, words.len())?;
        let whole = self.tokens[at].at.start..self.tokens[close].at.end;
        let fault = match inner.arguments(inner_open, words.len()) {
            _ if is_body => Some(Fault::Body),
            None => Some(Fault::Open),
            Some(arguments) if arguments.close + 1 < words.len() => Some(Fault::Trailing),
            Some(arguments) => arguments.fault(asked),
        };
        match fault {
            None => {
                let mut call = macro_of(asked).as_bytes().to_vec();
                call.extend(&spliced.bytes[words[inner_open].at.start..]);
                self.blank(whole);
                // What stood between the quotes is longer, and on one line.
                self.write(self.tokens[string].at.start, &call);
            }
            Some(fault) => self.complain_within(whole, asked, fault),
        }
        self.has = true;
        Some(close + 1)
    }

    /// `NAME(omp inst …)`: whatever the macro does, it can only make a directive of these words. The token behind it.
    fn in_macro(&mut self, at: usize, end: usize, is_body: bool) -> Option<usize> {
        let outer = self.significant(at + 1);
        if self.tokens[at].kind != Kind::Name || !self.is_mark(outer, b'(') {
            return None;
        }
        let (asked, open) = self.words(self.significant(outer + 1), end)?;
        let arguments = self.arguments(open, end)?;
        let close = self.significant(arguments.close + 1);
        if close >= end || !self.is_mark(close, b')') {
            return None;
        }
        let start = self.tokens[at].at.start;
        let fault = if is_body { Some(Fault::Body) } else { arguments.fault(asked) };
        let fault = fault.or_else(|| self.put(start..self.tokens[open].at.start, macro_of(asked)).err());
        match fault {
            None => self.blank(self.tokens[close].at.clone()),
            Some(fault) => self.complain_within(start..self.tokens[close].at.end, asked, fault),
        }
        self.has = true;
        Some(close + 1)
    }

    /// Puts a name in front of what follows these bytes, which become blanks; that they are on several lines stays so.
    fn put(&mut self, head: Range<usize>, name: &str) -> Result<(), Fault> {
        let is_room = |from: &usize| !self.spliced.bytes[*from..*from + name.len()].contains(&b'\n');
        let last = head.end.checked_sub(name.len()).ok_or(Fault::Open)?;
        let is_on_one_line =
            |from: &usize| self.spliced.source(*from + name.len() - 1) - self.spliced.source(*from) == name.len() - 1;
        let mut places = (head.start..=last).rev().filter(is_room);
        let place = places.clone().find(is_on_one_line).or_else(|| places.next()).ok_or(Fault::Open)?;
        self.blank(head);
        self.write(place, name.as_bytes());
        Ok(())
    }

    fn blank(&mut self, range: Range<usize>) {
        for at in range {
            if !matches!(self.spliced.bytes[at], b'\n' | b'\r') {
                self.changed[self.spliced.source(at)] = b' ';
            }
        }
    }

    fn write(&mut self, from: usize, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            self.changed[self.spliced.source(from + at)] = *byte;
        }
    }

    fn complain_within(&mut self, range: Range<usize>, asked: Asked, fault: Fault) {
        self.complain(range, "\n", &format!("_Pragma(\"GCC error \\\"{}\\\"\")", asked.complaint(fault)));
    }

    /// These bytes become what the compiler complains about; `line` stands for each line that they end.
    fn complain(&mut self, range: Range<usize>, line: &str, complaint: &str) {
        let range = self.spliced.source(range.start)..self.spliced.source(range.end);
        let lines = self.source[range.clone()].iter().filter(|byte| **byte == b'\n').count();
        self.complaints.push((range, format!("{complaint} {}", line.repeat(lines)).into_bytes()));
    }

    fn done(self) -> Vec<u8> {
        let mut text = self.changed;
        for (range, complaint) in self.complaints.into_iter().rev() {
            text.splice(range, complaint);
        }
        text
    }
}

impl Arguments {
    fn fault(&self, asked: Asked) -> Option<Fault> {
        let is_wrong = self.lengths.len() != asked.arguments() || self.lengths.contains(&0);
        // A name that is a string would be quoted again.
        (is_wrong || (asked != Asked::Data && self.is_text)).then_some(Fault::Arguments)
    }
}

/// What a string says to the preprocessor.
fn unquoted(literal: &[u8]) -> Option<Vec<u8>> {
    let quote = literal.iter().position(|byte| *byte == b'"')?;
    let inside = literal.get(quote + 1..literal.len().checked_sub(1)?)?;
    if literal[..quote].ends_with(b"R") {
        let open = inside.iter().position(|byte| *byte == b'(')?;
        return inside.get(open + 1..inside.len().checked_sub(open + 1)?).map(<[u8]>::to_vec);
    }
    let mut said = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter().peekable();
    while let Some(&byte) = bytes.next() {
        let is_escape = byte == b'\\' && matches!(bytes.peek(), Some(b'\\' | b'"'));
        said.push(if is_escape { *bytes.next()? } else { byte });
    }
    Some(said)
}

/// Where the next statement would stand.
#[derive(Default)]
struct Place {
    /// Of the parentheses that are open, whether they are those of `if` or a loop.
    open: Vec<bool>,
    last: Last,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    /// `if`, `for`, `while` or `switch`: a condition follows.
    Control,
    /// What makes the next statement a part of another.
    Head,
    #[default]
    Other,
}

impl Place {
    fn is_body(&self) -> bool {
        self.last == Last::Head
    }

    fn pass(&mut self, kind: Kind, text: &[u8]) {
        self.last = match (kind, text) {
            (Kind::LineEnd, _) => self.last,
            (Kind::Name, b"if" | b"for" | b"while" | b"switch") => Last::Control,
            (Kind::Name, b"constexpr") => self.last,
            (Kind::Name, b"else" | b"do") => Last::Head,
            (Kind::Mark(b'('), _) => {
                self.open.push(self.last == Last::Control);
                Last::Other
            }
            (Kind::Mark(b')'), _) if self.open.pop() == Some(true) => Last::Head,
            _ => Last::Other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its text with one blank for several, where nothing of it may be elsewhere than it was.
    #[track_caller]
    fn check(source: &str, expected: &str) {
        let text = String::from_utf8(rewritten(source.as_bytes()).expect("directives")).unwrap();
        let ends = |text: &str| text.match_indices('\n').map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!((text.len(), ends(&text)), (source.len(), ends(source)), "{text}");
        let words: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(words.join("\n"), expected);
    }

    /// The complaint that stands there, and how many lines the text has.
    #[track_caller]
    fn check_wrong(source: &str, expected: &str) {
        let text = String::from_utf8(rewritten(source.as_bytes()).expect("directives")).unwrap();
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.matches('\n').count(), source.matches('\n').count(), "{text}");
    }

    #[track_caller]
    fn unchanged(source: &str) {
        assert_eq!(rewritten(source.as_bytes()).map(|text| String::from_utf8(text).unwrap()), None);
    }

    #[test]
    fn a_call_stands_where_the_directive_did() {
        let source = "f();\n#pragma omp inst data(vec, sizeof(vec), \"vec\")\ng();\n";
        check(source, "f();\n__slim_data(vec, sizeof(vec), \"vec\")\ng();");
        let text = rewritten(source.as_bytes()).unwrap();
        let column = |text: &[u8]| text.windows(5).position(|window| window == b"(vec,").unwrap();
        assert_eq!(column(&text), column(source.as_bytes()));
        check("  # pragma pomp inst begin ( sort ) // why\n", "__slim_begin( sort ) // why");
        check("%:pragma pomp inst altend(x)", "__slim_end(x)");
        check("#pragma omp inst end(x)\r\ny\r\n", "__slim_end(x)\ny");
    }

    #[test]
    fn lines_that_go_on_go_on() {
        check("#pragma omp \\\n inst data(a, \\\n  f(1, 2), \"a,)\")\n", "__slim_data\\\n(a, \\\nf(1, 2), \"a,)\")");
        check("#pragma omp inst da\\\nta \\\n(a, 1, \"a\")\n", "__slim_data\\\n\\\n(a, 1, \"a\")");
        check("#pragma omp/*\n*/inst/*\n*/data(a, 1 /*\n*/, \"a\")\n", "__slim_data\n\n(a, 1 /*\n*/, \"a\")");
    }

    #[test]
    fn what_only_looks_like_it_is_left() {
        unchanged("// #pragma omp inst data(a, 1, \"a\")\n/*\n#pragma omp inst data(a, 1, \"a\")\n*/");
        unchanged("char *s = \"\\\n#pragma omp inst data(a, 1, \\\"a\\\")\";");
        unchanged("auto s = R\"(\n#pragma omp inst data(a, 1, \"a\")\n)\";");
        unchanged("x #pragma omp inst data(a, 1, \"a\")");
        unchanged("// \\\n#pragma omp inst data(a, 1, \"a\")");
        unchanged("#pragma omp inst init\n#pragma omp inst on\n#pragma omp inst data\n#pragma omp parallel\n");
        unchanged("#error omp inst data(a)\n#include <omp inst data(a)>\n");
        unchanged("omp inst data(a, 1, \"a\"); omp(inst); f(omp, inst, data(1));");
    }

    #[test]
    fn operators_and_macros_are_rewritten() {
        check(
            "#define W(x) _Pragma(\"omp inst data(x, 8, \\\"a \\\\\\\"b\\\")\") f(x)\n",
            "#define W(x) __slim_data(x, 8, \"a \\\"b\") f(x)",
        );
        check("{ _Pragma ( L\"pomp inst begin(a)\" ) }", "{ __slim_begin(a) }");
        check("_Pragma(\n\"pomp inst end(a)\"\n)", "\n__slim_end(a)\n");
        check("_Pragma(R\"x(omp inst data(a, 1, \"a\"))x\")", "__slim_data(a, 1, \"a\")");
        check("{ D(omp inst data(a, f(1), \"a\")) }", "{ __slim_data(a, f(1), \"a\") }");
        check("D(\n omp inst\tdata(a,\n 1, \"a\")\n);", "\n__slim_data(a,\n1, \"a\")\n;");
        check(
            "#define B(n) D(pomp inst begin(n)) f(); \\\n D(pomp inst end(n))\n",
            "#define B(n) __slim_begin(n) f(); \\\n__slim_end(n)",
        );
    }

    #[test]
    fn mistakes_are_for_the_compiler_to_say() {
        let data = "#pragma GCC error \"inst data takes three arguments: an address, a number of bytes, and a name in quotes\"";
        for arguments in ["", "a", "a, 1", "a, , \"a\"", "a, 1, \"a\", 2"] {
            check_wrong(&format!("#if X\n#pragma omp inst \\\n data({arguments})\n#endif\n"), data);
        }
        check_wrong("#pragma omp inst data(a, (1, \"a\")\nf();\n", "error \"inst data lacks a closing parenthesis\"");
        check_wrong("#pragma omp inst data(a, 1, \"a\");\n", "error \"inst data ends with its parenthesis, but");
        check_wrong(
            "#pragma pomp inst begin(\"a\")\n",
            "error \"inst begin takes one argument: a name without quotes\"",
        );
        check_wrong("_Pragma(\"omp inst data(a)\") f();\n", "_Pragma(\"GCC error \\\"inst data takes three");
        check_wrong("D(omp inst\n end())\nf();\n", "_Pragma(\"GCC error \\\"inst end takes one");
    }

    #[test]
    fn what_is_preprocessed_has_its_macros() {
        let of = |source: &str, is_cpp| {
            let text = rewritten_preprocessed(source.as_bytes(), is_cpp, "a\"b.i").unwrap();
            String::from_utf8(text).unwrap().replace("    ", "")
        };
        let (before, after) =
            ("# 0 \"a.c\"\n# 1 \"<slimline>\" 3\n#define __slim_data(", "# 0 \"a.c\"\nf();\n  __slim_end(x)\n");
        let text = of("# 0 \"a.c\"\nf();\n#pragma omp inst end(x)\n", false);
        assert!(
            text.starts_with(before) && text.contains("#define __slim_end(name) {") && text.contains(after),
            "{text}"
        );
        let text = of("\n#pragma omp inst end(x)\n", true);
        let (before, after) = ("# 1 \"<slimline>\" 3\n#define __slim_data(", "# 1 \"a\\\"b.i\"\n\n  __slim_end(x)\n");
        assert!(text.starts_with(before) && text.ends_with(after), "{text}");
        assert_eq!(rewritten_preprocessed(b"f();", false, ""), None);
    }

    /// Whoever passes over it takes the next statement.
    #[test]
    fn it_is_no_body() {
        const DIRECTIVE: &str = "\n#pragma omp inst data(a, 1, \"a\")\n";
        for head in ["if (x(1))", "else", "do", "for (;;)", "while (x)", "if constexpr (x)", "switch (x)"] {
            check_wrong(&format!("{head}{DIRECTIVE}"), "error \"inst data can not be all that if, else or a loop has");
        }
        for before in ["if (x) {", "if (x) y();", "f(x)", "case 1:", "do {} while (x);", "#define A if (x)\n"] {
            check(&format!("{before}{DIRECTIVE}"), &format!("{before}\n__slim_data(a, 1, \"a\")"));
        }
        check_wrong("if (x) D(omp inst end(a)) f();", "_Pragma(\"GCC error");
        check_wrong("else _Pragma(\"omp inst end(a)\") f();", "_Pragma(\"GCC error");
    }

    #[test]
    fn macros_are_defined_for_both_languages() {
        for asked in [Asked::Data, Asked::Begin, Asked::End] {
            for is_cpp in [false, true] {
                let of = |definition: &&Macro| definition.0.split('(').next() == Some(macro_of(asked));
                assert_eq!(definitions(is_cpp).iter().filter(of).count(), 1);
            }
        }
    }

    const PIECES: [&str; 30] = [
        "#pragma omp inst data(",
        "a, 1, \"a\")",
        "\n",
        "\\\n",
        "\\ \r\n",
        "_Pragma(",
        "\"omp inst end(x)\"",
        ")",
        "(",
        "D(omp inst data(",
        "omp ",
        "inst ",
        "data",
        "begin(x)",
        "\"",
        "'",
        "\\",
        "//",
        "/*",
        "*/",
        "R\"x(",
        ")x\"",
        "#define M ",
        "if (",
        "else ",
        "%:",
        "#",
        ",",
        "1'0",
        "\u{e9}",
    ];

    proptest::proptest! {
        /// Whatever stands there: lines stay what they are, and sizes where no mistake is told.
        #[test]
        fn no_source_is_too_odd(chosen in proptest::collection::vec(0..PIECES.len(), 0..40)) {
            let source: String = chosen.into_iter().map(|piece| PIECES[piece]).collect();
            if let Some(text) = rewritten(source.as_bytes()) {
                let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
                proptest::prop_assert_eq!(lines(&text), lines(source.as_bytes()));
                let complains = text.windows(9).any(|words| words == b"GCC error");
                proptest::prop_assert!(complains || text.len() == source.len());
            }
        }
    }
}
