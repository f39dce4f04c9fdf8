//! How a load that is to be prefetched is written, and what to write for it.
//!
//! ```text
//!   for (long i = 0; i < n; i++) {
//!       unsigned at = hash(keys[i]) & mask;
//!       found += slots[at].count;              slots[at].count is loaded here, of slots[hash(keys[i]) & mask]
//! ```

/// Lines above a load that its loop and what is computed before it are looked for in.
const MOST_LINES: usize = 60;
/// Variables that are replaced by what is computed for them.
const MOST_VARIABLES: usize = 3;

/// A load of an element that a counter leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// What is loaded, by the loop's counter: `a[b[i]]`.
    text: String,
    counter: Counter,
    is_rust: bool,
}

/// What a loop counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counter {
    name: String,
    step: u64,
    /// Its comparison, and what with: `<`, `n`.
    bound: Option<(&'static str, String)>,
}

/// What is loaded at a place in a source, numbered from 1; none where that is written otherwise.
pub fn indexed(source: &str, (line, column): (u32, u32), is_rust: bool) -> Option<Indexed> {
    let lines: Vec<&str> = source.lines().collect();
    let number = (line as usize).checked_sub(1)?;
    let mut text = element(lines.get(number)?, (column as usize).checked_sub(1)?)?;
    let above: Vec<&str> = lines[number.saturating_sub(MOST_LINES)..=number].iter().rev().copied().collect();
    // Nearest first; of those that are closed again before it none has it.
    let heads: Vec<(usize, Counter)> = (0..)
        .zip(&above)
        .filter_map(|(at, line)| {
            let (counter, body) = counter(line, is_rust)?;
            let between = above[..at].iter().rev().map(|line| &line[..]);
            let until = if at == 0 { column as usize - 1 } else { 0 };
            let body = if at == 0 { body.get(..until.saturating_sub(line.len() - body.len()))? } else { body };
            is_open(body, between.take(at.saturating_sub(1))).then_some((at, counter))
        })
        .collect();
    // What is set in a step is set behind the head of its loop.
    let (head, _) = heads.first()?;
    let in_step = above.get(1..*head).unwrap_or_default();
    let counters: Vec<&Counter> = heads.iter().map(|(_, counter)| counter).collect();
    for _ in 0..=MOST_VARIABLES {
        if let Some(counter) = counters.iter().find(|counter| has_word(&text, &counter.name)) {
            return Some(Indexed { text, counter: (*counter).clone(), is_rust });
        }
        let (variable, value) = words(&text).into_iter().find_map(|word| Some((word, value_of(in_step, word)?)))?;
        text = with_word(&text, variable, &value);
    }
    None
}

impl Indexed {
    /// What is loaded, as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What asks for it so many steps ahead; where an index has one itself, for that twice as many. If `crosses_ends`, behind the end of its loop, too:
    /// without a limit, but in Rust, where it must be inside it, up to that of its one index.
    pub fn prefetch(&self, distance: u32, has_through: bool, crosses_ends: bool) -> Option<String> {
        let Counter { name, step, .. } = &self.counter;
        let (of, index) = last_index(&self.text)?;
        // `a[b[i]].x` is of `b[i]`; `a[i]->x` is of `a[i]`.
        let member = self.text[of.len() + index.len() + 2..].trim();
        let is_pointed = !self.is_rust && member.starts_with("->");
        // As many loads must be written there as were replayed.
        if depth(index) + usize::from(is_pointed) != 1 + usize::from(has_through) {
            return None;
        }
        let member = if is_pointed { member } else { "" };
        let steps = u64::from(distance).checked_mul(*step).filter(|steps| steps.checked_mul(2).is_some())?;
        let later = |times: u64| format!("{name} + {}", steps * times);
        let with = |text: &str, times: u64| {
            let counter = if text.trim() == name { later(times) } else { format!("({})", later(times)) };
            // Alone in its brackets it needs none of its own.
            with_word(text, name, &counter).replace(&format!("[({})]", later(times)), &format!("[{}]", later(times)))
        };
        let ask = |(of, index, member): (&str, &str, &str), times: u64| -> Option<String> {
            let asked = match self.is_rust {
                true => format!(
                    "unsafe {{ _mm_prefetch::<_MM_HINT_T0>({of}.as_ptr().wrapping_add({}).cast()) }};",
                    with(index, times),
                    of = with(of, times)
                ),
                false => format!("__builtin_prefetch(&{}[{}]{member});", with(of, times), with(index, times)),
            };
            let limit = match &self.counter.bound {
                _ if crosses_ends && self.is_rust => {
                    let (of, at) = innermost(index)?;
                    Some(format!("{} < {of}.len()", with(at, times)))
                }
                Some((than, bound)) if !crosses_ends => Some(format!("{} {than} {bound}", later(times))),
                _ => None,
            };
            Some(match limit {
                Some(condition) if self.is_rust => format!("if {condition} {{ {asked} }}\n"),
                Some(condition) => format!("if ({condition}) {asked}\n"),
                None => format!("{asked}\n"),
            })
        };
        let mut code = String::new();
        if self.is_rust {
            code += "// use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};\n";
        }
        if has_through {
            let (between, of_it) = if is_pointed { (of, index) } else { last_index(index)? };
            code += &ask((between, of_it, ""), 2)?;
        }
        Some(code + &ask((of, index, member), 1)?)
    }
}

fn is_word(at: char) -> bool {
    at.is_alphanumeric() || at == '_'
}

/// Words of a text that begin with no digit, and do not come behind a dot or an arrow.
fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let before = text[..text.len() - rest.len() + start].trim_end();
        let word = &rest[start..];
        let word = &word[..word.find(|at| !is_word(at)).unwrap_or(word.len())];
        let is_member = before.ends_with("->") || before.ends_with('.') && !before.ends_with("..");
        if !word.starts_with(|at: char| at.is_ascii_digit()) && !is_member {
            found.push(word);
        }
        rest = &rest[start + word.len()..];
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    words(text).contains(&word)
}

/// The text with another one in the place of each such word.
fn with_word(text: &str, word: &str, other: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, behind) = rest.split_at(start);
        let found = &behind[..behind.find(|at| !is_word(at)).unwrap_or(behind.len())];
        out += before;
        let is_member = out.ends_with("->") || out.ends_with('.') && !out.ends_with("..");
        out += if found == word && !is_member { other } else { found };
        rest = &behind[found.len()..];
    }
    out + rest
}

/// Where the bracket that a text begins with is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, of) in text.char_indices() {
        depth += i32::from(matches!(of, '(' | '[')) - i32::from(matches!(of, ')' | ']'));
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Where the bracket that a text ends with is opened.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, of) in text.char_indices().rev() {
        depth += i32::from(matches!(of, ')' | ']')) - i32::from(matches!(of, '(' | '['));
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The element that is loaded in a line at a place: `nodes[next[i]].key`.
fn element(line: &str, at: usize) -> Option<String> {
    let (before, behind) = line.split_at_checked(at)?;
    let mut start = before.len();
    loop {
        let rest = &line[..start];
        if rest.ends_with(is_word) {
            start = rest.rfind(|at| !is_word(at)).map_or(0, |at| at + 1);
        } else if let Some(rest) = rest.strip_suffix("->").or_else(|| rest.strip_suffix('.')) {
            start = rest.len();
        } else if rest.ends_with(']') && start < before.len() {
            start = opening(rest)?;
        } else {
            break;
        }
    }
    let mut end = at + behind.find(|at| !is_word(at)).unwrap_or(behind.len());
    loop {
        let rest = &line[end..];
        let member = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.'));
        if rest.starts_with('[') {
            end += closing(rest)? + 1;
        } else if let Some(member) = member.filter(|member| member.starts_with(is_word)) {
            end = line.len() - member.len() + member.find(|at| !is_word(at)).unwrap_or(member.len());
        } else {
            break;
        }
    }
    let text = line[start..end].trim();
    text.contains('[').then(|| text.to_owned())
}

/// How deep brackets of indexes are within each other.
fn depth(text: &str) -> usize {
    let (mut depth, mut most) = (0_usize, 0);
    for at in text.chars() {
        match at {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// What an element is of, and its index, of the last brackets: what is behind them is of the element.
fn last_index(text: &str) -> Option<(&str, &str)> {
    let end = text.rfind(']')?;
    let start = opening(&text[..=end])?;
    Some((&text[..start], &text[start + 1..end]))
}

/// The same of what is within all other brackets, `b` and `i` of `a[b[i]]`, where that is one array alone, by its name.
fn innermost(text: &str) -> Option<(&str, &str)> {
    let (of, index) = last_index(text)?;
    let path = &of[of.rfind(|at| !is_word(at) && at != '.').map_or(0, |at| at + 1)..];
    let is_alone = !of.contains('[') && !path.is_empty();
    if index.contains('[') { innermost(index).filter(|_| is_alone) } else { is_alone.then_some((path, index)) }
}

/// Whether a loop's body that begins so, and goes on in these lines, is not closed in them.
fn is_open<'a>(begins: &'a str, lines: impl Iterator<Item = &'a str>) -> bool {
    let (mut depth, mut has_block) = (0_usize, false);
    for at in [begins].into_iter().chain(lines).flat_map(str::chars) {
        match at {
            '{' => (depth, has_block) = (depth + 1, true),
            '}' if depth <= 1 => return false,
            '}' => depth -= 1,
            // Without a block it has one statement.
            ';' if !has_block => return false,
            _ => {}
        }
    }
    true
}

/// What a `for` loop counts that begins in this line, and what stands behind its head there.
fn counter(line: &str, is_rust: bool) -> Option<(Counter, &str)> {
    let rest = &line[line.find("for ").or_else(|| line.find("for("))?..][3..];
    if is_rust {
        let (name, range) = rest.split_once(" in ")?;
        let (_, end) = range.split_once("..")?;
        let (than, end) = end.strip_prefix('=').map_or(("<", end), |end| ("<=", end));
        let (end, body) = end.split_at(end.find('{').unwrap_or(end.len()));
        let end = end.trim();
        // `(0..n).rev()` counts otherwise.
        if end.matches('(').count() != end.matches(')').count() {
            return None;
        }
        let bound = end.chars().all(|at| is_word(at) || "().".contains(at)).then(|| (than, end.to_owned()));
        return Some((Counter { name: name.trim().to_owned(), step: 1, bound }, body));
    }
    let rest = rest.trim_start();
    let end = closing(rest).filter(|_| rest.starts_with('('))?;
    let (head, body) = (&rest[1..end], &rest[end + 1..]);
    let [_, condition, step] = head.split(';').collect::<Vec<_>>()[..] else { return None };
    let step = step.trim();
    let (name, step) = match step.split_once("+=") {
        Some((name, step)) => (name.trim(), step.trim().parse().ok()?),
        None => (step.strip_suffix("++").or_else(|| step.strip_prefix("++"))?.trim(), 1),
    };
    let compared = ["<=", "<", "!="].into_iter().find_map(|than| {
        let (of, bound) = condition.split_once(than)?;
        (of.trim() == name).then_some((than, bound))
    });
    let bound = compared.map(|(than, bound)| {
        // Behind the last step nothing is equal.
        (if than == "!=" { "<" } else { than }, bound.trim().to_owned())
    });
    (!name.is_empty() && name.chars().all(is_word)).then(|| (Counter { name: name.to_owned(), step, bound }, body))
}

/// What is computed for a variable in the nearest of these lines that sets it.
fn value_of(above: &[&str], variable: &str) -> Option<String> {
    let sets = |line: &&str| {
        let (to, value) = line.split_once('=')?;
        let value = value.trim().split("//").next()?.trim_end().strip_suffix(';')?;
        let is_it = to.trim_end().split(|at| !is_word(at)).next_back() == Some(variable);
        let is_plain = !value.starts_with('=') && !value.is_empty() && !to.contains("for") && !value.contains(';');
        (is_it && is_plain).then(|| value.trim().to_owned())
    };
    let value = above.iter().find_map(sets)?;
    // In brackets of its own where that may matter.
    Some(if value.chars().all(is_word) || closing_is_last(&value) { value } else { format!("({value})") })
}

/// Whether it is one name with brackets behind it.
fn closing_is_last(value: &str) -> bool {
    let name = value.find(|at| !is_word(at)).unwrap_or(value.len());
    let rest = &value[name..];
    name > 0 && rest.starts_with(['[', '(']) && closing(rest) == Some(rest.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_place(source: &str, at: &str, is_rust: bool) -> Option<Indexed> {
        let (line, text) = (1..).zip(source.lines()).find(|(_, text)| text.contains(at))?;
        let column = text.find(at)? as u32 + 1;
        indexed(source, (line, column), is_rust)
    }

    fn prefetch(source: &str, at: &str, (distance, has_through): (u32, bool), is_rust: bool) -> Option<String> {
        at_place(source, at, is_rust)?.prefetch(distance, has_through, false)
    }

    #[test]
    fn a_gather_is_asked_for_by_its_counter() {
        let source = "for (long i = 0; i < n; i++) {\n    sum += a[index[i]];\n}\n";
        assert_eq!(
            prefetch(source, "a[index", (16, false), false).unwrap(),
            "if (i + 16 < n) __builtin_prefetch(&a[index[i + 16]]);\n"
        );
        let source = "for (k = first; k <= last; k += 2)\n    sum += nodes[next[k - 1]].weight * 3;\n";
        assert_eq!(
            prefetch(source, "weight", (8, false), false).unwrap(),
            "if (k + 16 <= last) __builtin_prefetch(&nodes[next[(k + 16) - 1]]);\n"
        );
    }

    #[test]
    fn rows_have_no_end() {
        let source = "for (j = rows[i]; j < rows[i + 1]; j++)\n    sum += x[col[j]];\n";
        let across = at_place(source, "x[col", false).unwrap();
        assert_eq!(across.prefetch(8, false, true).unwrap(), "__builtin_prefetch(&x[col[j + 8]]);\n");
        assert!(across.prefetch(8, false, false).unwrap().starts_with("if (j + 8 < rows[i + 1]) "));
        let source = "for j in rows[i]..rows[i + 1] {\n    sum += x[self.col[first + j] as usize];\n}\n";
        let across = at_place(source, "x[self", true).unwrap().prefetch(8, false, true).unwrap();
        assert!(across.contains("\nif first + (j + 8) < self.col.len() { unsafe { _mm_prefetch"), "{across}");
        // Which length to ask for is not known.
        for index in ["col[i][j]", "rows[i].col[j]", "(col[j] ^ of[j])"] {
            let source = source.replace("self.col[first + j]", index);
            assert_eq!(at_place(&source, "x[", true).unwrap().prefetch(8, false, true), None, "{index}");
        }
    }

    #[test]
    fn what_is_computed_before_is_put_in() {
        let source = "slots = calloc(count, 16);\nfor (size_t i = 0; i != count; ++i) {\n    uint64_t h = mixed(keys[i]);\n    size_t at = h & mask; // slot\n    \
                      if (slots[at].key == keys[i]) found++;\n}\n";
        assert_eq!(
            prefetch(source, "key ==", (32, false), false).unwrap(),
            "if (i + 32 < count) __builtin_prefetch(&slots[(mixed(keys[i + 32]) & mask)]);\n"
        );
    }

    #[test]
    fn an_index_between_is_asked_for_first() {
        let source = "for (int i = 0; i < n; i++) sum += a[b[c[i]]];\n";
        assert_eq!(
            prefetch(source, "a[b", (8, true), false).unwrap(),
            "if (i + 16 < n) __builtin_prefetch(&b[c[i + 16]]);\nif (i + 8 < n) __builtin_prefetch(&a[b[c[i + 8]]]);\n"
        );
    }

    #[test]
    fn what_pointers_lead_to_is_asked_for_behind_them() {
        let source = "for (int i = 0; i < n && j <= m; i++)\n    sum += objects[i]->key + heads[b[i]]->key;\n";
        let asked = |at, has_through| prefetch(source, at, (8, has_through), false);
        assert_eq!(
            asked("objects", false).unwrap(),
            "if (i + 8 < n && j <= m) __builtin_prefetch(&objects[i + 8]->key);\n"
        );
        assert_eq!(
            asked("heads", true).unwrap(),
            "if (i + 16 < n && j <= m) __builtin_prefetch(&heads[b[i + 16]]);\n\
             if (i + 8 < n && j <= m) __builtin_prefetch(&heads[b[i + 8]]->key);\n"
        );
        // More or fewer loads than are written there.
        assert_eq!([asked("objects", true), asked("heads", false)], [None, None]);
        let source = "for (int i = 0; i < n; i++)\n    sum += a[b[i]].table[3];\n";
        assert_eq!(prefetch(source, "table", (8, false), false), None);
    }

    #[test]
    fn loops_that_are_closed_before_are_not_its() {
        let asked = |source| prefetch(source, "a[b", (8, false), false);
        assert_eq!(asked("for (i = 0; i < m; i++) init(i);\ni = 0;\nwhile (i < n) {\n    s += a[b[i]];\n"), None);
        assert_eq!(asked("for (i = 0; i < m; i++) {\n    init(i);\n}\ns += a[b[i]];\n"), None);
        let outer = "for (i = 0; i < m; i++)\n{\n    for (k = 0; k < 3; k++) { x[k] = 0; }\n    s += a[b[i]];\n";
        assert_eq!(asked(outer).unwrap(), "if (i + 8 < m) __builtin_prefetch(&a[b[i + 8]]);\n");
    }

    #[test]
    fn rust_has_a_function_for_it() {
        let source = "    for i in 0..index.len() {\n        sum += values[index[i] as usize];\n    }\n";
        let expected = "// use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};\nif i + 16 < index.len() { unsafe { \
                        _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(index[i + 16] as usize).cast()) }; }\n";
        assert_eq!(prefetch(source, "values[", (16, false), true).unwrap(), expected);
        // In another order, or by other steps.
        for range in ["(0..index.len()).rev()", "(0..n).step_by(2)"] {
            assert_eq!(prefetch(&source.replace("0..index.len()", range), "values[", (16, false), true), None);
        }
    }

    #[test]
    fn what_is_written_otherwise_is_left() {
        for source in [
            "while (p) sum += a[*p++];\n",
            "for (node = list; node; node = node->next) sum += a[node->at];\n",
            "for (i = 0; i < n; i++) {\n    k = next(k);\n    sum += a[j];\n}\n",
            "sum += a[i];\n",
            "",
        ] {
            assert_eq!(prefetch(source, "a[", (8, false), false), None, "{source}");
        }
        assert_eq!(indexed("a[i]\n", (9, 9), false), None);
        assert_eq!(indexed("a[i]\n", (1, 90), false), None);
    }
}
