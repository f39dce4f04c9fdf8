//! The two `for` loops around a line of C or C++, and what they are in another order.
//!
//! Only what stands in the file is read: loops that a macro makes, `while` loops and loops around the call of an inlined function are not found.

mod beside;
mod carried;
mod counted;

use std::ops::Range;

use slimline_simulate::locality::exchange::Order;
use slimline_source::tokens::{Kind, Spliced, tokens};

/// A `for` loop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForLoop {
    /// Where it begins, and where the parenthesis behind its head is.
    head: Range<usize>,
    /// Where its body ends.
    end: usize,
}

/// Two loops, of which the inner one is in the outer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPair {
    /// Lines of the outer and of the inner one's `for`, from 1. None where the line's place is told by a loop around them, too: then the nest may be of that
    /// one, where an inner one goes around a few times; and where it is not told by the variables of both, each of which has its head on one line.
    pub lines: Option<[u32; 2]>,
    /// Their heads, `for (…)`, in that order.
    pub heads: [String; 2],
    /// The inner loop is all that the outer one has.
    pub is_perfect: bool,
    /// Lines of all of the outer one, from 1, or of the outermost one that tells the line's place; none where something else tells it.
    pub reach: Range<u32>,
    /// Lines of the inner loop, from 1, where both count, that one alike for each time around the outer one, and all that it accesses is by what loops count.
    pub counted: Option<Range<u32>>,
    /// Lines of statements beside the inner loop whose values are not those that it goes on with, or leaves in a register.
    pub lines_apart: Vec<u32>,
    /// Variables that the outer loop declares in front of the inner one, so that each time around has its own; and those that
    /// the two loops count.
    pub own_variables: Vec<String>,
    /// What binds steps of these to their order.
    pub bound: Option<Bound>,
    /// Functions or macros are called in them.
    pub has_calls: bool,
    /// The same of the inner loop alone, of which a compiler makes no vectors then.
    pub has_calls_inside: bool,
    /// Variables for tiles of the outer and of the inner loop, of which the file has none.
    tiles: [String; 2],
}

/// What binds the steps of two loops to their order, as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// They end early, or jump, or one of another kind is in them: the word that says so.
    Leaves(&'static str),
    /// A variable that one step leaves for the next.
    Carried(String),
    /// An index that begins again in the midst of a loop, which to addresses looks like the loop's end.
    Wraps(String),
}

/// The two innermost loops around a line of a source, from 1. None where there are no two of them.
pub fn around(source: &str, line: u32) -> Option<LoopPair> {
    let code = blanked(source, line);
    let start = line_start(&code, line)?;
    let end = code[start..].find('\n').map_or(code.len(), |length| start + length);
    let all = for_loops(&code);
    let mut loops: Vec<&ForLoop> = all.iter().filter(|of| of.head.start < end && start < of.end).collect();
    loops.sort_by_key(|of| std::cmp::Reverse(of.head.start));
    let [inner, outer, farther @ ..] = loops.as_slice() else { return None };
    let head = |of: &ForLoop| source[of.head.clone()].to_owned();
    let heads = [head(outer), head(inner)];
    let is_on_line = |variable: &str| words(&code[start..end]).any(|word| word == variable);
    let is_told =
        |head: &String| !head.contains('\n') && beginning(head).is_some_and(|(_, variable, _)| is_on_line(variable));
    // Else the place is told by something else than these: what binds steps is read, and their heads are all that is told.
    let is_told = heads.iter().all(is_told);
    let names_farther = |of: &&ForLoop| match beginning(&code[of.head.clone()]) {
        Some((_, variable, _)) => is_on_line(variable),
        // `for (auto &row : rows)`
        None => words(code[of.head.clone()].split([';', ':']).next().unwrap_or_default()).any(is_on_line),
    };
    let outermost = farther.iter().copied().rfind(names_farther);
    // All that may be of the nest is read.
    let all_of = outermost.unwrap_or(outer);
    let body = all_of.head.end..all_of.end;
    let is_empty = |range: Range<usize>| code[range].chars().all(|at| at.is_whitespace() || "{}".contains(at));
    let is_perfect = is_empty(outer.head.end..inner.head.start) && is_empty(inner.end..outer.end);
    let line_at = |at: usize| 1 + code[..at].matches('\n').count() as u32;
    // Heads count what they count.
    let mut steps = code.clone().into_bytes();
    for of in all.iter().filter(|of| body.contains(&of.head.start)) {
        steps[of.head.clone()].iter_mut().filter(|at| **at != b'\n').for_each(|at| *at = b' ');
    }
    let steps = String::from_utf8(steps).ok()?;
    let outside = || [body.start..inner.head.start, inner.end..body.end];
    let has_word = |range: Range<usize>, word: &str| words(&steps[range]).any(|at| at == word);
    let leaves =
        ["break", "return", "goto", "throw", "while", "do"].into_iter().find(|word| has_word(body.clone(), word));
    let goes_on = || outside().into_iter().any(|range| has_word(range, "continue")).then_some("continue");
    let variables = [&heads[0], &heads[1]].map(|head| beginning(head).map_or("", |(_, variable, _)| variable));
    // `i < n && !found`
    let ends = || {
        let mut read = all.iter().filter(|of| all_of.head.start <= of.head.start && of.end <= all_of.end);
        read.any(|of| code[of.head.clone()].contains("&&") || code[of.head.clone()].contains("||")).then_some("&&")
    };
    let read_loops: Vec<&ForLoop> = loops.iter().copied().filter(|of| all_of.head.start <= of.head.start).collect();
    // Each loop around the line carries on what its own steps leave, and what heads change beside what they count.
    let carried = || {
        let by_head = |head: &str| carried::beside(head, beginning(head)?.1, variables);
        let by_body =
            |of: &ForLoop| carried::of(&steps[of.head.end..of.end], &steps[inner.head.end..inner.end], variables);
        read_loops.iter().find_map(|of| by_head(&code[of.head.clone()]).or_else(|| by_body(of)))
    };
    Some(LoopPair {
        lines: (outermost.is_none() && is_told).then(|| [line_at(outer.head.start), line_at(inner.head.start)]),
        is_perfect: is_perfect || !is_told,
        reach: if is_told { line_at(all_of.head.start)..line_at(all_of.end.saturating_sub(1)) + 1 } else { 0..0 },
        counted: (is_told && counted::is_counted((&code, &steps), &read_loops, body.clone()))
            .then(|| line_at(inner.head.start)..line_at(inner.end.saturating_sub(1)) + 1),
        lines_apart: match is_told {
            true => beside::lines(&steps, outer.head.end..outer.end, inner.head.start..inner.end),
            false => Vec::new(),
        },
        own_variables: match is_told {
            true => {
                let declared = carried::declared(&steps[outer.head.end..inner.head.start]);
                declared.chain(variables).map(str::to_owned).collect()
            }
            false => Vec::new(),
        },
        bound: leaves
            .or_else(goes_on)
            .or_else(ends)
            .map(Bound::Leaves)
            .or_else(|| carried().map(Bound::Carried))
            .or_else(|| wrapped(&steps[body.clone()]).map(Bound::Wraps)),
        has_calls: is_told && has_calls(&steps[body.clone()]),
        has_calls_inside: is_told && has_calls(&steps[inner.head.end..inner.end]),
        tiles: variables.map(|variable| tile_variable(variable, &code)),
        heads,
    })
}

/// An index that does not only go on by what loops count: `[j % 16]`, `[i >> 1]`, or `[c]` where `c = j % 16;`.
fn wrapped(code: &str) -> Option<String> {
    let mut indexes = code.match_indices('[').filter_map(|(at, _)| Some(code[at + 1..].split_once(']')?.0.trim()));
    let is_wrapping = |text: &str| text.replace("->", ".").contains(|at: char| "%&/>|^~?".contains(at));
    let wrapping: Vec<&str> =
        carried::values(code).filter(|(_, value)| is_wrapping(value)).map(|(variable, _)| variable).collect();
    let wraps = |index: &&str| is_wrapping(index) || words(index).any(|word| wrapping.contains(&word));
    indexes.find(wraps).map(str::to_owned)
}

/// Whether something is called, or is a macro with arguments.
fn has_calls(code: &str) -> bool {
    let is_call = |(open, _): (usize, &str)| {
        let before = code[..open].trim_end();
        let word = before.rsplit(|at: char| !at.is_alphanumeric() && at != '_').next().unwrap_or_default();
        !word.is_empty() && !["if", "switch", "for", "sizeof", "return"].contains(&word)
    };
    code.match_indices('(').any(is_call)
}

/// A name for the variable of a tile that the code does not have yet.
fn tile_variable(variable: &str, code: &str) -> String {
    let short = (variable.len() == 1).then(|| variable.repeat(2));
    let numbered = (2..).map(|number| format!("{variable}_tile{number}"));
    let mut names = short.into_iter().chain([format!("{variable}_tile")]).chain(numbered);
    names.find(|name| words(code).all(|word| word != name)).unwrap_or_default()
}

impl LoopPair {
    /// Heads in another order, outermost first. None where it is not known which loops these are, or how they are written: each must count a variable of its own
    /// up from a value to a limit, neither of which is of the other; for tiles by one.
    pub fn reordered(&self, order: Order) -> Option<Vec<String>> {
        self.lines?;
        let [outer, inner] = &self.heads;
        let heads = [Head::of(outer)?, Head::of(inner)?];
        let is_of_other = |own: &Head<'_>, other: &Head<'_>| {
            [own.begin, own.limit, own.by].into_iter().flat_map(words).any(|word| word == other.variable)
        };
        if is_of_other(&heads[0], &heads[1]) || is_of_other(&heads[1], &heads[0]) {
            return None;
        }
        if let Order::Tiled(tile) = order {
            let with_tiles = || heads.iter().zip(&self.tiles);
            let tiles = with_tiles().map(|(head, variable)| head.by_tiles(variable, tile));
            return tiles.chain(with_tiles().map(|(head, variable)| head.within_tile(variable, tile))).collect();
        }
        Some(vec![inner.clone(), outer.clone()])
    }
}

/// What `for (int i = 0; i < n; i++)` says.
struct Head<'a> {
    /// `int`, or nothing where the variable is declared before.
    declared: &'a str,
    variable: &'a str,
    begin: &'a str,
    /// `<` or `<=`.
    compared: &'a str,
    limit: &'a str,
    /// What it goes on by.
    by: &'a str,
}

/// What stands in its parentheses.
fn parts(head: &str) -> Option<[&str; 3]> {
    let within = head.strip_prefix("for")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    within.split(';').collect::<Vec<_>>().try_into().ok()
}

/// How it is declared, the variable, and its first value. None where it does not begin with a variable's value.
fn beginning(head: &str) -> Option<(&str, &str, &str)> {
    let [first, ..] = parts(head)?;
    let (declared, begin) = first.split_once('=')?;
    let declared = declared.trim();
    let variable = words(declared).last()?;
    Some((declared.strip_suffix(variable)?, variable, begin))
}

impl<'a> Head<'a> {
    /// None where it does not count one variable up to a limit.
    fn of(head: &'a str) -> Option<Self> {
        let [_, condition, step] = parts(head)?;
        let (declared, variable, begin) = beginning(head)?;
        // `int i = 0, k = 1` counts two, `i = j = 0` sets two.
        let is_one = |text: &str| !text.is_empty() && !text.contains([',', '=', '?']);
        let has_own = |text: &str| words(text).any(|word| word == variable);
        let begin = Some(begin.trim()).filter(|begin| is_one(begin) && !declared.contains(','))?;
        let compared = condition.trim().strip_prefix(variable)?.trim_start();
        let operator = ["<=", "<"].into_iter().find(|operator| compared.starts_with(operator))?;
        let limit = compared[operator.len()..].trim();
        // `i < n && found` is no count, nor is `i < n--`.
        let is_count = is_one(limit) && !limit.contains(['&', '|', '<', '>']) && !has_own(limit);
        if !is_count || ["++", "--"].iter().any(|changed| limit.contains(changed) || begin.contains(changed)) {
            return None;
        }
        let step = step.trim();
        let is_own = |text: &str| text.trim() == variable;
        let by = match step.split_once("+=") {
            Some((own, by)) if is_own(own) && is_one(by) && !has_own(by) && !by.contains('-') => by.trim(),
            Some(_) => return None,
            None => {
                let own = step.strip_suffix("++").or_else(|| step.strip_prefix("++"))?;
                is_own(own).then_some("1")?
            }
        };
        Some(Self { declared, variable, begin, compared: operator, limit, by })
    }

    /// The loop over tiles.
    fn by_tiles(&self, tiles: &str, tile: u64) -> Option<String> {
        let Self { declared, begin, compared, limit, by, .. } = self;
        // Of what is declared before, the type is not known.
        let declared = if declared.is_empty() { "long " } else { declared };
        (*by == "1")
            .then(|| format!("for ({declared}{tiles} = {begin}; {tiles} {compared} {limit}; {tiles} += {tile})"))
    }

    /// The loop within one.
    fn within_tile(&self, tiles: &str, tile: u64) -> Option<String> {
        let Self { declared, variable, compared, limit, by, .. } = self;
        (*by == "1").then(|| {
            format!(
                "for ({declared}{variable} = {tiles}; {variable} {compared} {limit} && {variable} < {tiles} + {tile}; {variable}++)"
            )
        })
    }
}

/// Identifiers and numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|at: char| !at.is_alphanumeric() && at != '_').filter(|word| !word.is_empty())
}

/// Where a line begins, from 1.
fn line_start(text: &str, line: u32) -> Option<usize> {
    let before = (line as usize).checked_sub(1)?;
    match before {
        0 => Some(0),
        _ => text.match_indices('\n').nth(before - 1).map(|(at, _)| at + 1),
    }
}

/// The text, as long as it is, with blanks in the place of comments, literals and what is for the preprocessor. Of `#if` and `#else` around a line that was executed, the other
/// one was not compiled.
fn blanked(source: &str, line: u32) -> String {
    let spliced = Spliced::of(source.as_bytes());
    let mut blanked: Vec<u8> = source.bytes().map(|at| if at == b'\n' { at } else { b' ' }).collect();
    let mut branches = Branches::around(line_start(source, line).unwrap_or_default());
    let mut all = tokens(&spliced, source.as_bytes()).into_iter().peekable();
    while let Some(token) = all.next() {
        let text = &spliced.bytes[token.at.clone()];
        let is_code = match token.kind {
            Kind::Directive => {
                let mut end = token.at.end;
                while let Some(more) = all.next_if(|more| more.kind != Kind::LineEnd) {
                    end = more.at.end;
                }
                let words = String::from_utf8_lossy(&spliced.bytes[token.at.end..end]);
                branches.directive(words.trim_start(), spliced.source(token.at.start));
                false
            }
            Kind::Name | Kind::Mark(_) => true,
            // A character is none.
            Kind::Constant => text.first().is_some_and(|first| first.is_ascii_digit() || *first == b'.'),
            Kind::Text | Kind::LineEnd => false,
        };
        if !is_code {
            continue;
        }
        // What is not ASCII is in literals and comments mostly; the rest of it is not looked at. A number is one word, and
        // so is a name that goes on in the next line.
        let span = spliced.source(token.at.start)..spliced.source(token.at.end - 1) + 1;
        let breaks = blanked[span.clone()].iter().filter(|at| **at == b'\n').count();
        let code = text.iter().map(|byte| match byte {
            b'\'' => b'_',
            byte if byte.is_ascii() => *byte,
            _ => b' ',
        });
        let rest = std::iter::repeat_n(b'\n', breaks).chain(std::iter::repeat(b' '));
        blanked[span].iter_mut().zip(code.chain(rest)).for_each(|(at, byte)| *at = byte);
    }
    for range in branches.left_out {
        blanked[range].iter_mut().filter(|at| **at != b'\n').for_each(|at| *at = b' ');
    }
    blanked.into_iter().map(char::from).collect()
}

/// Which branches of `#if` are left out where one of them has a place that is not.
struct Branches {
    place: usize,
    /// Where those that are open begin, each with the branches that it has had.
    open: Vec<Vec<usize>>,
    left_out: Vec<Range<usize>>,
}

impl Branches {
    fn around(place: usize) -> Self {
        Self { place, open: Vec::new(), left_out: Vec::new() }
    }

    /// What stands behind a `#`, and where that is.
    fn directive(&mut self, text: &str, at: usize) {
        let is = |names: &[&str]| words(text).next().is_some_and(|word| names.contains(&word));
        if is(&["if", "ifdef", "ifndef"]) {
            self.open.push(vec![at]);
        } else if is(&["else", "elif", "elifdef", "elifndef"]) {
            self.open.last_mut().into_iter().for_each(|branches| branches.push(at));
        } else if is(&["endif"]) {
            let mut ends = self.open.pop().unwrap_or_default();
            ends.push(at);
            let all = ends.windows(2).map(|ends| ends[0]..ends[1]);
            if all.clone().any(|branch| branch.contains(&self.place)) {
                self.left_out.extend(all.filter(|branch| !branch.contains(&self.place)));
            }
        }
    }
}

/// All `for` loops with parentheses, in their order.
fn for_loops(code: &str) -> Vec<ForLoop> {
    let found = code.match_indices("for").filter_map(|(at, word)| {
        let open = keyword(code, at, word)?;
        let close = matching(code, open)?;
        Some(ForLoop { head: at..close + 1, end: statement_end(code, close + 1)? })
    });
    found.collect()
}

/// Where the parenthesis behind a keyword is that stands here as a word of its own.
fn keyword(code: &str, at: usize, word: &str) -> Option<usize> {
    let is_of_word = |at: char| at.is_alphanumeric() || at == '_';
    let behind = code[at..].strip_prefix(word)?;
    let is_alone = !code[..at].ends_with(is_of_word) && !behind.starts_with(is_of_word);
    let open = at + word.len() + (behind.len() - behind.trim_start().len());
    (is_alone && code[open..].starts_with('(')).then_some(open)
}

/// Where the bracket is that closes the one here.
fn matching(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Where the statement ends that begins here.
fn statement_end(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        if code[at..].starts_with('{') {
            return matching(code, at).map(|close| close + 1);
        }
        if let Some(open) = ["for", "while", "switch"].iter().find_map(|word| keyword(code, at, word)) {
            at = matching(code, open)? + 1;
            continue;
        }
        if let Some(open) = keyword(code, at, "if") {
            let end = statement_end(code, matching(code, open)? + 1)?;
            let behind = end + (code[end..].len() - code[end..].trim_start().len());
            match code[behind..].strip_prefix("else") {
                Some(rest) if !rest.starts_with(|at: char| at.is_alphanumeric() || at == '_') => at = behind + 4,
                _ => return Some(end),
            }
            continue;
        }
        break;
    }
    while at < code.len() {
        match code.as_bytes()[at] {
            b';' => return Some(at + 1),
            b'(' | b'{' | b'[' => at = matching(code, at)? + 1,
            b')' | b'}' | b']' => return None,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSPOSE: &str = r#"// for (all of it)
#define EACH for (int i = 0; i < 3; i++)
void transpose(int n, double *a, double *b)
{
    /* for (;;) */
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            b[i * n + j] = a[j * n + i]; // "for"
    }
    puts("for (int i = 0;");
}
double sums(int n, double *a, double *out)
{
    for (int column = 0; column < n; ++column) {
        double sum = 0;
        for (int k = 0; k <= n - 1; k += 1) if (k > 2) sum += a[k * n + column]; else sum -= a[k * n + column];
        out[column] = sum;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            a[i * n + j] = 0;
    for (int i = 0; i < n; i++)
        for (double *p = a; p < a + n; p++)
            *p = 0;
}
"#;

    fn pair(line: u32) -> LoopPair {
        around(TRANSPOSE, line).unwrap()
    }

    #[test]
    fn two_loops_are_found_around_a_line() {
        let found = pair(8);
        assert_eq!((found.lines, found.is_perfect), (Some([6, 7]), true));
        assert_eq!(found.heads, ["for (int i = 0; i < n; i++)", "for (int j = 0; j < n; j++)"]);
        let sums = pair(16);
        assert_eq!((sums.lines, sums.is_perfect), (Some([14, 16]), false));
        // Of the line of the sum alone there is one loop.
        assert_eq!(around(TRANSPOSE, 17), None);
        assert_eq!([2, 10, 999, 0].map(|line| around(TRANSPOSE, line)), [const { None }; 4]);
        // The line tells nothing of one loop's variable.
        let untold = pair(24);
        assert_eq!((untold.lines, untold.reach, untold.counted), (None, 0..0, None));
    }

    /// Two loops around a statement, or more.
    fn within(statement: &str) -> Option<LoopPair> {
        around(&format!("for (int i = 0; i < n; i++)\nfor (int j = 0; j < n; j++) {{\n{statement}\n}}\n"), 3)
    }

    #[test]
    fn branches_that_were_not_compiled_are_not_read() {
        // Braces of both branches together would not match.
        let source = "for (int i = 0; i < n; i++)\n for (int j = 0; j < n; j++) {\n#ifdef FIRST\n }\n for (int i = 0; i < n; i++)\n  for (int j = 0; j < n; j++) {\n   a[i][j] = k++;\n#else\n  b[i][j] = a[j][i];\n#endif\n }\n";
        let found = around(source, 9).unwrap();
        assert_eq!((found.lines, found.bound), (Some([1, 2]), None));
        let found = around(source, 7).unwrap();
        assert_eq!((found.lines, found.bound), (Some([5, 6]), Some(Bound::Carried("k".to_owned()))));
        // Of others nobody knows which was.
        let other = "#if A\n{\n#elif B\n{ {\n#endif\nfor (int i = 0; i < n; i++)\n#if 1\n#ifdef C\n for (int j = 0; j < n; j++)\n#else\n#endif\n  b[i][j] = a[j][i];\n#endif\n";
        assert_eq!(around(other, 12).unwrap().lines, Some([6, 9]));
    }

    #[test]
    fn literals_hide_no_code() {
        let bound = |statement: &str| within(statement).and_then(|found| found.bound);
        let leaves = Some(Bound::Leaves("break"));
        for statement in [
            "s += a[j][i]; if (s > 1'000'000'0.0) break; puts(\"it's\");",
            "puts(R\"x(\" { for )x\"); if (a[j][i] < 0) break;",
            "puts(\"a \\\n b'\"); if (a[j][i] < 0) bre\\\nak;",
            "if (a[j][i] == '\\'') break; c = 'x';",
            "// it goes on \\\n break;\n if (a[j][i] < 0) break;",
        ] {
            assert_eq!(bound(statement), leaves, "{statement}");
        }
        assert_eq!(bound("puts(R\"(break; )\"); b[j][i] = a[i][j] + 1'000; // \\\n break;"), None);
    }

    #[test]
    fn loops_that_are_left_early_are_bound_to_their_order() {
        let bound = |statement: &str| within(statement).unwrap().bound;
        for (statement, word) in [
            ("if (a[i][j] < 0) break;", "break"),
            ("if (a[i][j] < 0) return 1;", "return"),
            ("if (a[i][j] < 0) goto end;", "goto"),
        ] {
            assert_eq!(bound(statement), Some(Bound::Leaves(word)), "{statement}");
        }
        assert_eq!(bound("if (a[i][j] < 0) continue; b[j][i] = a[i][j]; /* return */"), None);
        let outside = "for (int i = 0; i < n; i++) {\nif (i == 3) continue;\nfor (int j = 0; j < n; j++)\nb[j][i] = a[i][j];\n}\n";
        assert_eq!(around(outside, 4).unwrap().bound, Some(Bound::Leaves("continue")));
        let found = "for (int i = 0; i < n && !found; i++)\nfor (int j = 0; j < n; j++)\nfound = a[j][i] == 3;\n";
        assert_eq!(around(found, 3).unwrap().bound, Some(Bound::Leaves("&&")));
        for index in ["j % 16", "j & 15", "j / 2", "j >> 1", "j > 3 ? 0 : j"] {
            let wraps = Some(Bound::Wraps(index.to_owned()));
            assert_eq!(bound(&format!("out[i][{index}] += a[i][j] / 2;")), wraps);
        }
        assert_eq!(bound("out[k++] = a[i][j];"), Some(Bound::Carried("k".to_owned())));
        let carried = |source: &str, line| around(source, line).unwrap().bound;
        let counts = ["", "for (int h = 0; h < n; h++)\n"].map(|farther| {
            format!("{farther}for (int i = 0; i < n; i++)\nfor (int j = 0; j < n; j++, k++)\nout[k] = a[j][i][h];\n")
        });
        let [two, three] = [carried(&counts[0].replace("[h]", ""), 3), carried(&counts[1], 4)];
        assert_eq!([two, three], [const { "k" }; 2].map(|name| Some(Bound::Carried(name.to_owned()))));
        let middle = "for (int i = 0; i < n; i++) {\nt = 0;\nfor (int j = 0; j < n; j++) {\nfor (int k = 0; k < n; k++)\nc[i][j] += t * a[k][j];\nt = b[i][j];\n}\n}\n";
        assert_eq!(carried(middle, 5), Some(Bound::Carried("t".to_owned())));
        let calls = |statement: &str| within(statement).unwrap().has_calls_inside;
        assert_eq!([calls("b[j][i] = f(a[i][j]);"), calls("if ((a[i][j]) > 0) b[j][i] = (a[i][j]);")], [true, false]);
        let beside =
            "for (int i = 0; i < n; i++) {\nx[i] = ZERO(0);\nfor (int j = 0; j < n; j++)\nx[i] += a[j][i];\n}\n";
        assert_eq!(around(beside, 4).map(|pair| (pair.has_calls, pair.has_calls_inside)), Some((true, false)));
        assert_eq!(within("b[j][i] = a[i][j];").unwrap().reach, 1..5);
    }

    #[test]
    fn of_three_loops_all_is_read_and_none_is_named() {
        let product = |line: &str| {
            let source = format!(
                "for (int i = 0; i < n; i++) {{\n for (int j = 0; j < n; j++)\n  for (int k = 0; k < n; k++)\n   {line}\n p += n;\n}}\n"
            );
            around(&source, 4).unwrap()
        };
        let found = product("c[i][j] += p[k] * b[k][j];");
        assert_eq!((found.lines, found.reordered(Order::Exchanged), found.reach), (None, None, 1..7));
        assert_eq!(found.bound, Some(Bound::Carried("p".to_owned())));
        // Of the two innermost ones alone.
        let found = product("d[j][k] = b[k][j];");
        assert_eq!((found.lines, found.bound, found.reach), (Some([2, 3]), None, 2..5));
        let rows =
            "for (auto &row : rows)\nfor (int j = 0; j < n; j++)\nfor (int k = 0; k < n; k++)\nrow[j] += b[k][j];\n";
        let found = around(rows, 4).unwrap();
        assert_eq!((found.lines, found.bound), (None, None));
        let ends = rows.replace("auto &row : rows", "int row = 0; row < n && !found; row++");
        assert_eq!(around(&ends, 4).unwrap().bound, Some(Bound::Leaves("&&")));
        // What is read there binds, also where the line does not name both variables.
        let bound = |statement: &str| within(statement).unwrap().bound;
        assert_eq!(bound("while (k < n) s += a[k][j][i];"), Some(Bound::Leaves("while")));
        assert_eq!(bound("h = h * 31 + row[j];"), Some(Bound::Carried("h".to_owned())));
        assert_eq!(bound("int c = j % 16; b[i][c] = b[i + 1][c] / 2;"), Some(Bound::Wraps("c".to_owned())));
        assert_eq!(bound("int c = m->cols * i + j; b[c] = a[j][i] / 2;"), None);
    }

    #[test]
    fn heads_in_another_order() {
        let [outer, inner] = pair(8).heads;
        assert_eq!(pair(8).reordered(Order::Exchanged), Some(vec![inner, outer]));
        let tiled = [
            "for (int ii = 0; ii < n; ii += 32)",
            "for (int jj = 0; jj < n; jj += 32)",
            "for (int i = ii; i < n && i < ii + 32; i++)",
            "for (int j = jj; j < n && j < jj + 32; j++)",
        ];
        assert_eq!(pair(8).reordered(Order::Tiled(32)).unwrap(), tiled);
        let sums = pair(16).reordered(Order::Tiled(8)).unwrap();
        assert_eq!(sums[0], "for (int column_tile = 0; column_tile < n; column_tile += 8)");
        assert_eq!(sums[3], "for (int k = kk; k <= n - 1 && k < kk + 8; k++)");
        // What it is declared as before, and which names there are already.
        let known =
            "long i, j, ii, j_tile; for (i = 0; i < n; i++)\nfor (j = 0; j < n; j++)\nb[i][j] = a[j][i] + jj;\n";
        let known = around(known, 3).unwrap().reordered(Order::Tiled(8)).unwrap();
        let expected =
            ["for (long i_tile = 0; i_tile < n; i_tile += 8)", "for (long j_tile2 = 0; j_tile2 < n; j_tile2 += 8)"];
        assert_eq!(known[..2], expected);
        assert_eq!(known[2], "for (i = i_tile; i < n && i < i_tile + 8; i++)");
        // A triangle has other limits then.
        assert_eq!(pair(21).reordered(Order::Exchanged), None);
    }

    #[test]
    fn what_is_not_counted_up_is_in_no_other_order() {
        let both = |outer: &str, inner: &str| {
            let source = format!("for ({outer})\nfor ({inner})\na[i][j] = 0;\n");
            let pair = around(&source, 3);
            [Order::Exchanged, Order::Tiled(8)]
                .map(|order| pair.as_ref().is_some_and(|pair| pair.reordered(order).is_some()))
        };
        let plain = "int j = 0; j < n; j++";
        assert_eq!(both("int i = 0; i < n; i++", plain), [true, true]);
        assert_eq!(both("int i = 0; i < n; i += 2", plain), [true, false]);
        for outer in [
            "int i = n; i-- > 0; ",
            "int i = 0; i < n && !found; i++",
            "int i = 0; i != n; i++",
            "int i = 0; i < n; k++",
            "int i = 0; i < n; i += j",
            "int i = 0; i < n; i += i + 1",
            "int i = 0; i < n; i++, k++",
            "int i = 0, k = 0; i < n; i++",
            "int i = 0; i < n--; i++",
            "int i = 0; i < a[i]; i++",
        ] {
            assert_eq!(both(outer, plain), [false, false], "{outer}");
        }
        assert_eq!(around("for (int i = 0; i < n; i++\n", 1), None);
        assert_eq!(around("for (;;) { a[i][j] = '\\''; \"é\";", 1), None);
    }
}
