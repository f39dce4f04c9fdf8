//! The two `for` loops around a line of C or C++, and what they are in another order.
//!
//! Only what stands in the file is read: loops that a macro makes, `while` loops and loops around the call of an inlined function are not found.

use std::ops::Range;

use slimline_simulate::locality::exchange::Order;

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
    /// Lines of the outer and of the inner one's `for`, from 1.
    pub lines: [u32; 2],
    /// Their heads, `for (…)`, in that order.
    pub heads: [String; 2],
    /// The inner loop is all that the outer one has.
    pub is_perfect: bool,
}

/// The two innermost loops around a line of a source, from 1. None where there are no two of them, each with its head on one line, or where
/// the line does not tell both variables: then its place is told by something else than these.
pub fn around(source: &str, line: u32) -> Option<LoopPair> {
    let code = blanked(source);
    let start = line_start(&code, line)?;
    let end = code[start..].find('\n').map_or(code.len(), |length| start + length);
    let mut loops: Vec<ForLoop> = for_loops(&code);
    loops.retain(|of| of.head.start < end && start < of.end);
    loops.sort_by_key(|of| std::cmp::Reverse(of.head.start));
    let [inner, outer, ..] = loops.as_slice() else { return None };
    let head = |of: &ForLoop| source[of.head.clone()].to_owned();
    let heads = [head(outer), head(inner)];
    let is_told = |head: &String| {
        let variable = Head::of(head).map(|head| head.variable)?;
        (!head.contains('\n') && words(&code[start..end]).any(|word| word == variable)).then_some(())
    };
    heads.iter().try_for_each(is_told)?;
    let is_empty = |range: Range<usize>| code[range].chars().all(|at| at.is_whitespace() || "{}".contains(at));
    let is_perfect = is_empty(outer.head.end..inner.head.start) && is_empty(inner.end..outer.end);
    let line_of = |of: &ForLoop| 1 + code[..of.head.start].matches('\n').count() as u32;
    Some(LoopPair { lines: [line_of(outer), line_of(inner)], heads, is_perfect })
}

impl LoopPair {
    /// Heads in another order, outermost first. None where the loops are not written so that it is known how: each must count a variable of its own
    /// up from a value to a limit, neither of which is of the other.
    pub fn reordered(&self, order: Order) -> Option<Vec<String>> {
        let [outer, inner] = &self.heads;
        let heads = [Head::of(outer)?, Head::of(inner)?];
        let is_of_other = |own: &Head<'_>, other: &Head<'_>| {
            [own.begin, own.limit].into_iter().flat_map(words).any(|word| word == other.variable)
        };
        if is_of_other(&heads[0], &heads[1]) || is_of_other(&heads[1], &heads[0]) {
            return None;
        }
        match order {
            Order::Now => Some(self.heads.to_vec()),
            Order::Exchanged => Some(vec![inner.clone(), outer.clone()]),
            Order::Tiled(tile) => {
                let tiles = heads.iter().map(|head| head.by_tiles(tile));
                let within = heads.iter().map(|head| head.within_tile(tile));
                tiles.chain(within).collect()
            }
        }
    }
}

/// What `for (int i = 0; i < n; i++)` says.
struct Head<'a> {
    /// `int`, or nothing where the variable is declared before.
    declared: &'a str,
    variable: &'a str,
    begin: &'a str,
    /// `<` or `<=`; nothing where the condition is another.
    compared: Option<&'a str>,
    limit: &'a str,
    /// Whether it goes on by one.
    is_by_one: bool,
}

impl<'a> Head<'a> {
    /// None where it does not begin with a variable's value.
    fn of(head: &'a str) -> Option<Self> {
        let within = head.strip_prefix("for")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
        let mut parts = within.split(';');
        let (Some(first), Some(condition), Some(step), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let (declared, begin) = first.split_once('=')?;
        let declared = declared.trim();
        let variable = words(declared).last()?;
        let declared = declared.strip_suffix(variable)?;
        let compared = condition.trim().strip_prefix(variable).and_then(|rest| {
            let rest = rest.trim_start();
            let operator = ["<=", "<"].into_iter().find(|operator| rest.starts_with(operator))?;
            let limit = rest[operator.len()..].trim();
            // `i < n && found` is no count.
            (!limit.is_empty() && !limit.contains(['&', '|', '=', '<', '?', ','])).then_some((operator, limit))
        });
        let step: String = step.split_whitespace().collect();
        let is_by_one = [format!("{variable}++"), format!("++{variable}"), format!("{variable}+=1")].contains(&step);
        let (compared, limit) = compared.map_or((None, condition), |(operator, limit)| (Some(operator), limit));
        Some(Self { declared, variable, begin: begin.trim(), compared, limit, is_by_one })
    }

    /// The variable of the tile.
    fn doubled(&self) -> String {
        match self.variable.len() {
            1 => self.variable.repeat(2),
            _ => format!("{}_tile", self.variable),
        }
    }

    /// The loop over tiles.
    fn by_tiles(&self, tile: u64) -> Option<String> {
        let Self { declared, begin, limit, is_by_one, .. } = self;
        let (compared, tiles) = (self.compared.filter(|_| *is_by_one)?, self.doubled());
        Some(format!("for ({declared}{tiles} = {begin}; {tiles} {compared} {limit}; {tiles} += {tile})"))
    }

    /// The loop within one.
    fn within_tile(&self, tile: u64) -> Option<String> {
        let Self { declared, variable, limit, is_by_one, .. } = self;
        let (compared, tiles) = (self.compared.filter(|_| *is_by_one)?, self.doubled());
        Some(format!(
            "for ({declared}{variable} = {tiles}; {variable} {compared} {limit} && {variable} < {tiles} + {tile}; {variable}++)"
        ))
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

/// The text, as long as it is, with blanks in the place of comments, literals and what is for the preprocessor.
fn blanked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut blanked = bytes.to_vec();
    let mut blank =
        |range: Range<usize>| blanked[range].iter_mut().filter(|at| **at != b'\n').for_each(|at| *at = b' ');
    let (mut at, mut begins_line) = (0, true);
    let end_of = |from: usize, end: &str| {
        source.as_bytes()[from..]
            .windows(end.len())
            .position(|at| at == end.as_bytes())
            .map_or(bytes.len(), |length| from + length)
    };
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'/')) => end_of(at, "\n"),
            (b'/', Some(b'*')) => (end_of(at + 2, "*/") + 2).min(bytes.len()),
            (b'#', _) if begins_line => {
                let mut end = end_of(at, "\n");
                while end < bytes.len() && bytes[end - 1] == b'\\' {
                    end = end_of(end + 1, "\n");
                }
                end
            }
            (quote @ (b'"' | b'\''), _) => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != quote && bytes[end] != b'\n' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                (end + 1).min(bytes.len())
            }
            (other, _) => {
                begins_line = other == b'\n' || begins_line && other.is_ascii_whitespace();
                at += 1;
                continue;
            }
        };
        blank(at..end);
        at = end;
    }
    // What is not ASCII is in literals and comments mostly; the rest of it is not looked at.
    blanked.iter().map(|&at| if at.is_ascii() { char::from(at) } else { ' ' }).collect()
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
        assert_eq!((found.lines, found.is_perfect), ([6, 7], true));
        assert_eq!(found.heads, ["for (int i = 0; i < n; i++)", "for (int j = 0; j < n; j++)"]);
        let sums = pair(16);
        assert_eq!((sums.lines, sums.is_perfect), ([14, 16], false));
        // Of the line of the sum alone there is one loop.
        assert_eq!(around(TRANSPOSE, 17), None);
        assert_eq!([2, 10, 999, 0].map(|line| around(TRANSPOSE, line)), [const { None }; 4]);
        // The line tells nothing of one loop's variable.
        assert_eq!(around(TRANSPOSE, 24), None);
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
        // A triangle has other limits then.
        assert_eq!(pair(21).reordered(Order::Exchanged), None);
    }

    #[test]
    fn what_is_not_counted_up_is_not_tiled() {
        let source = "for (int i = 0; i < n; i += 2) for (int j = n; j-- > 0; ) a[i][j] = 0;\n";
        let found = around(source, 1).unwrap();
        assert!(found.reordered(Order::Exchanged).is_some());
        assert_eq!(found.reordered(Order::Tiled(8)), None);
        assert_eq!(around("for (int i = 0; i < n; i++\n", 1), None);
        assert_eq!(around("for (;;) { a[i][j] = '\\''; \"é\";", 1), None);
    }
}
