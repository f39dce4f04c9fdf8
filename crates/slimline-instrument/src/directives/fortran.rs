//! Directives of Fortran: `!$POMP INST DATA(a, n*n*8, "a")`, comments to compilers; in fixed form `C$POMP` and `*$POMP`, too. They go
//! on behind `&`, in fixed form on lines that have one right behind their `!$POMP`. Opari's `!POMP$` means the same.
//!
//! A call stands in the place of a directive, on its first line where it has room: the functions need no declaration, and as all
//! arguments are addresses and numbers, memory of whatever type is. Where it takes more lines a line says which one comes next.

use std::fmt;
use std::path::Path;

use super::{Asked, Fault};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Statements in columns 7 to 72.
    Fixed,
    Free,
}

impl Form {
    /// By the options that a compiler is given, or the file's name.
    pub(crate) fn of<'a>(options: impl DoubleEndedIterator<Item = &'a str>, file: &Path) -> Self {
        let mut said = options.rev().filter_map(|option| match option {
            "-ffixed-form" => Some(Self::Fixed),
            "-ffree-form" => Some(Self::Free),
            _ => None,
        });
        let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_fixed = ["f", "for", "ftn", "f77", "fpp"].contains(&&*extension);
        said.next().unwrap_or(if is_fixed { Self::Fixed } else { Self::Free })
    }
}

/// How a statement on several lines is to say which line of the source it is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lines {
    /// It is of its first, as flang has it, which takes nothing but lines of it for its lines.
    Once,
    /// Each says it: gfortran takes the first part of a call to be of the last one.
    Each,
}

/// A directive that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// Its line, from 1.
    line: usize,
    complaint: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: error: {}", self.line, self.complaint)
    }
}

/// A source with calls in the place of its directives, its lines numbered as those of the file of that name; none where it has no
/// directive. Sources are of any encoding that has ASCII: each byte is a character here. Where directives are wrong all of them are told.
pub(crate) fn rewritten(
    source: &[u8],
    (form, lines): (Form, Lines),
    name: &[u8],
) -> Result<Option<Vec<u8>>, Vec<Mistake>> {
    if !source.windows(5).any(|word| word.eq_ignore_ascii_case(b"$pomp") || word.eq_ignore_ascii_case(b"pomp$")) {
        return Ok(None);
    }
    let characters = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let text = with_calls(&characters(source), (form, lines), &characters(name))?;
    Ok(text.map(|text| text.chars().filter_map(|character| u8::try_from(character).ok()).collect()))
}

fn with_calls(source: &str, (form, marks): (Form, Lines), name: &str) -> Result<Option<String>, Vec<Mistake>> {
    let lines: Vec<&str> = source.split('\n').collect();
    let file = name.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = format!("# 1 \"{file}\"\n");
    let mut has_any = false;
    let mut mistakes = Vec::new();
    let is_external = wants_external(source);
    let mut statement = Statement::default();
    let mut at = 0;
    while at < lines.len() {
        let found = directive(&lines[at..], form);
        let Some((length, directive)) = found else {
            statement.pass(lines[at], form);
            text.push_str(lines[at]);
            if at + 1 < lines.len() {
                text.push('\n');
            }
            at += 1;
            continue;
        };
        let next = at + length;
        let is_within = statement.goes_on || (form == Form::Fixed && continues(&lines[next..]));
        let called = directive.and_then(|(asked, arguments)| {
            let call = if is_within { Err(Fault::Within) } else { call(asked, &arguments) };
            call.map(|call| (asked, call)).map_err(|fault| asked.complaint(fault))
        });
        let (asked, mut call) = match called {
            Ok(called) => called,
            Err(complaint) => {
                mistakes.push(Mistake { line: at + 1, complaint });
                at = next;
                continue;
            }
        };
        if is_external {
            call = format!("block; external {}; {call}; end block", asked.function());
        }
        let calls = broken(&call, form);
        let count = calls.matches('\n').count();
        let mark = match marks {
            Lines::Each => format!("# {} \"{file}\"\n", at + 1),
            Lines::Once => String::new(),
        };
        text.push_str(&calls.split_inclusive('\n').collect::<Vec<_>>().join(&mark));
        if count > length || (count > 1 && marks == Lines::Each) {
            text.push_str(&format!("# {} \"{file}\"\n", next + 1));
        } else {
            text.push_str(&"\n".repeat(length - count));
        }
        has_any = true;
        at = next;
    }
    if mistakes.is_empty() { Ok(has_any.then_some(text)) } else { Err(mistakes) }
}

/// What is behind the mark of a directive.
fn marked(line: &str, form: Form) -> Option<&str> {
    let line = if form == Form::Free { line.trim_start() } else { line };
    let first = line.chars().next()?;
    if first != '!' && (form == Form::Free || !matches!(first, 'c' | 'C' | '*')) {
        return None;
    }
    let word = line.get(1..6)?;
    (word.eq_ignore_ascii_case("$pomp") || word.eq_ignore_ascii_case("pomp$")).then(|| &line[6..])
}

/// Opari's directives that ask for nothing here: what they switch on and off is always on.
const OTHERS: [&str; 4] = ["init", "finalize", "on", "off"];

/// What a directive asks for, with the text behind that word; or what is wrong.
type Read = Result<(Asked, String), String>;

/// The directive that begins on the first of these lines: and how many it has.
fn directive(lines: &[&str], form: Form) -> Option<(usize, Read)> {
    let mut text = marked(lines[0], form)?.trim_end().to_owned();
    if !text.starts_with([' ', '\t']) {
        return None;
    }
    let mut length = 1;
    for line in &lines[1..] {
        let Some(more) = marked(line, form) else { break };
        match form {
            Form::Free if text.ends_with('&') => {
                text.pop();
                let more = more.trim();
                text.push_str(more.strip_prefix('&').unwrap_or(more));
            }
            Form::Fixed if more.starts_with('&') => text.push_str(more[1..].trim_end()),
            _ => break,
        }
        length += 1;
    }
    let rest = word(&text, "inst")?;
    let name: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let name = name.to_ascii_lowercase();
    if OTHERS.contains(&&*name) {
        return None;
    }
    let arguments = rest[name.len()..].trim_start().to_owned();
    let asked = Asked::named(name.as_bytes()).map(|asked| (asked, arguments));
    Some((length, asked.ok_or_else(|| format!("inst {name} is no directive: data, begin, altend and end are"))))
}

/// What follows a word.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let is_it = text.get(..word.len())?.eq_ignore_ascii_case(word);
    let rest = &text[word.len()..];
    (is_it && rest.starts_with([' ', '\t'])).then(|| rest.trim_start())
}

/// Whether procedures have to be declared here or there: `implicit none (type, external)`, of Fortran 2018.
fn wants_external(source: &str) -> bool {
    source.lines().any(|line| {
        let line: String = line.chars().filter(|character| !character.is_whitespace()).collect();
        let line = line.to_ascii_lowercase();
        line.split_once("implicitnone(").is_some_and(|(_, what)| what.contains("external"))
    })
}

/// The call that does what a directive asks for.
fn call(asked: Asked, text: &str) -> Result<String, Fault> {
    if !text.starts_with('(') {
        return Err(Fault::Arguments);
    }
    let arguments = arguments(text)?;
    let is_text = arguments[0].starts_with(['"', '\'']);
    if arguments.len() != asked.arguments() || arguments.contains(&"") || (asked != Asked::Data && is_text) {
        return Err(Fault::Arguments);
    }
    Ok(match asked {
        Asked::Data => {
            let [start, bytes, name] = [arguments[0], arguments[1], arguments[2]];
            format!("call {}(loc({start}), int({bytes}, 8), {name}//char(0))", asked.function())
        }
        Asked::Begin => format!("call {}('{}'//char(0))", asked.function(), arguments[0]),
        Asked::End => format!("call {}()", asked.function()),
    })
}

/// The arguments in the parentheses that this text begins with, behind which only a comment may stand.
fn arguments(text: &str) -> Result<Vec<&str>, Fault> {
    let mut arguments = Vec::new();
    let (mut depth, mut from, mut quote) = (0, 1, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[') => depth += 1,
            (None, b')' | b']') => depth -= 1,
            (None, b',') if depth == 1 => {
                arguments.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            arguments.push(text[from..at].trim());
            let rest = text[at + 1..].trim_start();
            let is_end = rest.is_empty() || rest.starts_with('!');
            return if is_end { Ok(arguments) } else { Err(Fault::Trailing) };
        }
    }
    Err(Fault::Open)
}

/// A statement on as many lines as it takes.
fn broken(mut statement: &str, form: Form) -> String {
    let (begin, more, end, room) = match form {
        Form::Fixed => ("      ", "     &", "\n", 66),
        Form::Free => ("", "&", "&\n", 120),
    };
    let mut text = begin.to_owned();
    while statement.len() > room {
        let (line, rest) = statement.split_at(place_to_break(statement, room));
        text.push_str(&format!("{line}{end}{more}"));
        statement = rest;
    }
    text.push_str(statement);
    text.push('\n');
    text
}

/// Within so many bytes, and not within a string if it can be helped: what is there to the end of a line may count.
fn place_to_break(statement: &str, room: usize) -> usize {
    let mut quote = None;
    let mut best = None;
    for (at, byte) in statement.bytes().enumerate().take(room) {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b',' | b'(' | b')' | b'+' | b'-' | b' ') => best = Some(at + 1),
            _ => {}
        }
    }
    best.unwrap_or_else(|| (1..=room).rev().find(|at| statement.is_char_boundary(*at)).unwrap_or(statement.len()))
}

/// Whether the next line that is no comment continues a statement of fixed form.
fn continues(lines: &[&str]) -> bool {
    let is_comment = |line: &&&str| {
        line.trim().is_empty()
            || line.starts_with(['!', 'c', 'C', '*', '#', 'd', 'D'])
            || line.trim_start().starts_with('!')
    };
    lines.iter().find(|line| !is_comment(line)).is_some_and(|line| {
        let bytes = line.as_bytes();
        let is_marked = bytes.get(5).is_some_and(|mark| !matches!(mark, b' ' | b'0'));
        let is_tabbed =
            bytes.first() == Some(&b'\t') && bytes.get(1).is_some_and(|digit| (b'1'..=b'9').contains(digit));
        is_tabbed || (is_marked && bytes.iter().take(5).all(|byte| *byte == b' '))
    })
}

/// Whether a statement of free form goes on with the next line.
#[derive(Default)]
struct Statement {
    goes_on: bool,
    quote: Option<u8>,
}

impl Statement {
    fn pass(&mut self, line: &str, form: Form) {
        let text = line.trim();
        if form == Form::Fixed || text.is_empty() || text.starts_with(['!', '#']) {
            return;
        }
        let mut last = None;
        for byte in text.bytes() {
            match (self.quote, byte) {
                (Some(open), _) if byte == open => self.quote = None,
                (None, b'"' | b'\'') => self.quote = Some(byte),
                (None, b'!') => break,
                _ => {}
            }
            last = if byte.is_ascii_whitespace() { last } else { Some(byte) };
        }
        self.goes_on = last == Some(b'&');
        if !self.goes_on {
            self.quote = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, form: Form, expected: &str) {
        let text = with_calls(source, (form, Lines::Once), "a.f90").unwrap().unwrap();
        assert_eq!(text.strip_prefix("# 1 \"a.f90\"\n").unwrap(), expected);
    }

    #[track_caller]
    fn check_wrong(source: &str, form: Form, expected: &str) {
        assert_eq!(told(source, form), expected);
    }

    /// What is wrong, a line each.
    fn told(source: &str, form: Form) -> String {
        let mistakes = with_calls(source, (form, Lines::Once), "a.f90").unwrap_err();
        mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn free_form() {
        let call = "call slimline_inst_data(loc(a), int(n*n*8, 8), \"a\"//char(0))\n";
        check("a = 1\n !$POMP INST DATA( a , n*n*8 , \"a\" ) ! why\nb\n", Form::Free, &format!("a = 1\n{call}b\n"));
        check("!pomp$ inst data(a, &\n!$Pomp & n*n*8, &\n!$pomp \"a\")\nb", Form::Free, &format!("{call}\n\nb"));
        check("!$pomp inst begin(it)\r\n", Form::Free, "call slimline_inst_begin('it'//char(0))\n");
        check("!$POMP INST END(x)\n!$POMP INST ALTEND(x)", Form::Free, &"call slimline_inst_end()\n".repeat(2));
        let data = "!$POMP INST DATA(a(f(1, 2), [1, 2]), 8, 'a,)')\n";
        check(data, Form::Free, "call slimline_inst_data(loc(a(f(1, 2), [1, 2])), int(8, 8), 'a,)'//char(0))\n");
    }

    #[test]
    fn any_encoding() {
        let text = rewritten(b"! \xe9\xff\n!$POMP INST DATA(a, 8, '\xe9')\n", (Form::Free, Lines::Once), b"\xe9.f90");
        let expected = b"# 1 \"\xe9.f90\"\n! \xe9\xff\ncall slimline_inst_data(loc(a), int(8, 8), '\xe9'//char(0))\n";
        assert_eq!(text, Ok(Some(expected.to_vec())));
        assert_eq!(rewritten(b"! \xe9", (Form::Free, Lines::Each), b""), Ok(None));
    }

    #[test]
    fn fixed_form() {
        let call = "      call slimline_inst_data(loc(a), int(8, 8), 'a'//char(0))\n";
        for mark in ["!$POMP", "c$pomp", "C$POMP", "*$POMP", "CPOMP$"] {
            check(&format!("{mark} INST DATA(a,8,'a')\n"), Form::Fixed, call);
        }
        check("C$POMP INST DATA(a,\nC$POMP& 8,\nC$POMP&'a')\n      b\n", Form::Fixed, &format!("{call}\n\n      b\n"));
        assert_eq!(with_calls("c$pomp inst end(x)\n", (Form::Free, Lines::Once), "").unwrap(), None);
        assert_eq!(with_calls(" !$pomp inst end(x)\n", (Form::Fixed, Lines::Once), "").unwrap(), None);
    }

    #[test]
    fn long_calls_go_on_and_lines_keep_their_numbers() {
        let source = format!("!$POMP INST DATA({}, 8, \"a name\")\nb\n", ["element"; 20].join("+"));
        let fixed = with_calls(&source, (Form::Fixed, Lines::Once), "a.f").unwrap().unwrap();
        assert!(fixed.ends_with("# 2 \"a.f\"\nb\n") && fixed.lines().all(|line| line.len() <= 72), "{fixed}");
        let free = with_calls(&source, (Form::Free, Lines::Once), "a.f90").unwrap().unwrap();
        assert!(free.ends_with("# 2 \"a.f90\"\nb\n") && free.lines().all(|line| line.len() <= 132), "{free}");
        let parts: Vec<_> = free.lines().filter(|line| line.contains('&')).map(|line| line.trim_matches('&')).collect();
        let expected =
            format!("call slimline_inst_data(loc({}), int(8, 8), \"a name\"//char(0))", ["element"; 20].join("+"));
        assert_eq!(parts.concat(), expected);
    }

    #[test]
    fn each_line_of_a_call_can_say_its_number() {
        let element = "element+".repeat(20);
        for (source, next) in [
            (format!("x\n!$POMP INST DATA({element}1, 8, 'a')\nb"), 3),
            (format!("x\n!$POMP INST DATA({element}&\n!$POMP 1, 8, 'a')\nb"), 4),
        ] {
            let text = with_calls(&source, (Form::Free, Lines::Each), "a").unwrap().unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let [_, _, first, mark, second, back, "b"] = lines[..] else { panic!("{text}") };
            assert!(first.ends_with('&') && second.starts_with('&'), "{text}");
            assert_eq!((mark, back), ("# 2 \"a\"", &*format!("# {next} \"a\"")));
        }
        // One line is where it was.
        let text = with_calls("x\n!$pomp inst end(a)\nb", (Form::Free, Lines::Each), "a");
        assert_eq!(text, Ok(Some("# 1 \"a\"\nx\ncall slimline_inst_end()\nb".to_owned())));
    }

    #[test]
    fn functions_are_declared_where_they_have_to_be() {
        let source = "IMPLICIT None ( type, External )\n!$pomp inst end(a)\n";
        let block = "block; external slimline_inst_end; call slimline_inst_end(); end block\n";
        check(source, Form::Free, &format!("IMPLICIT None ( type, External )\n{block}"));
        assert!(!wants_external("implicit none (type)\nexternal f\nimplicit none\n"));
    }

    #[test]
    fn what_only_looks_like_it_is_left() {
        for source in [
            "!$POMP PARALLEL\n",
            "!$POMP INST INIT\n",
            "!$pomp inst off\n",
            "!$POMPINST DATA(a)\n",
            "! $POMP INST END(x)\n",
            "!$OMP DO\n",
            "x ! !$POMP INST END(x)\n",
        ] {
            assert_eq!(with_calls(source, (Form::Free, Lines::Once), "a.f90"), Ok(None), "{source}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_lines() {
        let takes = "error: inst data takes three arguments: an address, a number of bytes, and a name in quotes";
        check_wrong("\n!$POMP INST DATA(a, &\n!$POMP 8)\n", Form::Free, &format!("2: {takes}"));
        check_wrong("!$POMP INST DATA(a, , 'a')\n", Form::Fixed, &format!("1: {takes}"));
        check_wrong("!$POMP INST DATA a\n", Form::Free, &format!("1: {takes}"));
        // All of them.
        let begin = "3: error: inst begin takes one argument: a name without quotes";
        let start = "4: error: inst start is no directive: data, begin, altend and end are";
        let source = "!$POMP INST DATA\n!$POMP INST END(a)\nC$POMP INST BEGIN\n*$POMP INST START(a)\n";
        check_wrong(source, Form::Fixed, &format!("1: {takes}\n{begin}\n{start}"));
        check_wrong("!$POMP INST DATA(a, (8, 'a')\n", Form::Free, "1: error: inst data lacks a closing parenthesis");
        let trailing = "1: error: inst end ends with its parenthesis, but there is more on the line";
        check_wrong("!$POMP INST END(a) b\n", Form::Free, trailing);
        check_wrong(
            "!$POMP INST BEGIN('a')\n",
            Form::Free,
            "1: error: inst begin takes one argument: a name without quotes",
        );
    }

    #[test]
    fn no_statement_is_taken_apart() {
        let within = |line: usize| format!("{line}: error: inst end stands within a statement that goes on behind it");
        check_wrong("call f(a, & ! why\n!$POMP INST END(a)\n b)\n", Form::Free, &within(2));
        check_wrong("s = 'a! &\n\n!$POMP INST END(a)\n &b'\n", Form::Free, &within(3));
        check("s = 'a &'\n!$POMP INST END(a)\n", Form::Free, "s = 'a &'\ncall slimline_inst_end()\n");
        check_wrong("      x = 1\nC$POMP INST END(a)\nC\n     1 + 2\n", Form::Fixed, &within(2));
        check_wrong("\tx = 1\nC$POMP INST END(a)\n\t1 + 2\n", Form::Fixed, &within(2));
        check("C$POMP INST END(a)\n   10 x\n", Form::Fixed, "      call slimline_inst_end()\n   10 x\n");
    }

    #[test]
    fn forms_are_known_by_options_and_names() {
        let of = |options: &[&str], file: &str| Form::of(options.iter().copied(), Path::new(file));
        assert_eq!(
            [of(&[], "a.f90"), of(&[], "a.F"), of(&[], "a.for"), of(&[], "a")],
            [Form::Free, Form::Fixed, Form::Fixed, Form::Free]
        );
        assert_eq!(of(&["-ffixed-form", "-O2", "-ffree-form"], "a.f"), Form::Free);
        assert_eq!(of(&["-ffixed-form"], "a.f90"), Form::Fixed);
    }

    const PIECES: [&str; 22] = [
        "!$POMP INST DATA(",
        "C$POMP INST END(x)",
        "!$POMP&",
        "!$POMP ",
        "&",
        "\n",
        " ",
        "a, 1, 'a')",
        "'",
        "\"",
        "!",
        "(",
        ")",
        ",",
        "#",
        "     &",
        "\t1",
        "x = 1",
        "begin(x)",
        "\r\n",
        "\u{e9}",
        "long_name_of_a_variable_that_takes_all_of_a_line_and_more_than_that_is",
    ];

    proptest::proptest! {
        /// Whatever stands there: what is behind a directive has the line that it had.
        #[test]
        fn no_source_is_too_odd(chosen in proptest::collection::vec(0..PIECES.len(), 0..30), is_fixed: bool, says_each: bool) {
            let form = if is_fixed { Form::Fixed } else { Form::Free };
            let marks = if says_each { Lines::Each } else { Lines::Once };
            let source: String = chosen.into_iter().map(|piece| PIECES[piece]).collect::<String>() + "\nthe end";
            if let Ok(Some(text)) = with_calls(&source, (form, marks), "a") {
                let mut number = 0;
                for line in text.lines() {
                    number = match line.strip_prefix("# ").and_then(|line| line.strip_suffix(" \"a\"")) {
                        Some(said) => said.parse().unwrap(),
                        None if line == "the end" => break,
                        None => number + 1,
                    };
                }
                proptest::prop_assert_eq!(number, source.matches('\n').count() + 1);
            }
        }
    }
}
