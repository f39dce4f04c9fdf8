//! Variables that a step of a loop leaves for the next one: places that are counted up, hashes, pointers that go on.
//!
//! An element of an array that is changed in place is none, as its address is in the trace, but for one that both loops leave the same, which is in a register as
//! well; nor is a sum, to which nothing is done but that something is added to it: it is the same in any order, but for how it is rounded.

use std::ops::Range;

/// A variable that a loop carries on, which has `body`, of which `inner` is in the innermost loop, where the two innermost loops count these. Both without comments, literals and heads of
/// loops.
pub(super) fn of(body: &str, inner: &str, counts: [&str; 2]) -> Option<String> {
    let mut all = changes(body);
    let counting = counting(&all, counts);
    let mut in_inner = changes(inner);
    [&mut all, &mut in_inner].into_iter().for_each(|of| of.retain(|change| change.stays(&counting)));
    let is_carried = |change: &Change<'_>| match change.how {
        How::Counted => true,
        How::Assigned(value) => words_with_places(value).any(|(_, word)| word == change.variable),
        How::Added(operator) => {
            let is_added = |&(at, word): &(usize, &str)| {
                word != change.variable || in_inner.iter().any(|known| known.at == at && known.is_added_by(operator))
            };
            operator.is_none() || !words_with_places(inner).collect::<Vec<_>>().iter().all(is_added)
        }
    };
    let carried = all.iter().find(|change| is_carried(change)).or_else(|| used_first(body, &all));
    let carried = carried.or_else(|| used_first(inner, &in_inner)).or_else(|| kept(body, &all));
    carried.map(|change| change.variable.to_owned())
}

/// What loops count, and variables that are set by that.
fn counting<'a>(changes: &[Change<'a>], counts: [&'a str; 2]) -> Vec<&'a str> {
    let mut all = counts.to_vec();
    for change in changes.iter().filter(|change| change.index.is_empty()) {
        if let How::Assigned(value) = change.how
            && super::words(value).any(|word| all.contains(&word))
        {
            all.push(change.variable);
        }
    }
    all
}

/// A variable that a loop's head changes beside its own, as in `for (…; j < m; j++, k++)`.
pub(super) fn beside(head: &str, own: &str, counts: [&str; 2]) -> Option<String> {
    let step = head.rsplit(';').next().unwrap_or_default();
    let changed = changes(step).into_iter().filter(|change| change.stays(&counts));
    changed.map(|change| change.variable).find(|variable| *variable != own).map(str::to_owned)
}

/// Variables that are changed and are no elements of something; what a pointer points to has no name.
pub(super) fn changed(code: &str) -> impl Iterator<Item = &str> {
    changes(code).into_iter().filter(|change| change.index.is_empty()).map(|change| change.variable)
}

/// What variables are set to.
pub(super) fn values(code: &str) -> impl Iterator<Item = (&str, &str)> {
    changes(code).into_iter().filter(|change| change.index.is_empty()).filter_map(|change| match change.how {
        How::Assigned(value) => Some((change.variable, value)),
        How::Counted | How::Added(_) => None,
    })
}

/// Variables that are declared with a value: each time around has its own.
pub(super) fn declared(code: &str) -> impl Iterator<Item = &str> {
    let is_own = |change: &Change<'_>| {
        let statement = &code[code[..change.at].rfind([';', '{', '}']).map_or(0, |end| end + 1)..change.at];
        // A reference is another name, and what is static stays.
        let is_kept = statement.contains('&') || super::words(statement).any(|word| word == "static");
        !is_kept && is_declared(code, change) && super::words(statement).next().is_some()
    };
    changes(code)
        .into_iter()
        .filter(move |change| matches!(change.how, How::Assigned(_)) && change.index.is_empty() && is_own(change))
        .map(|change| change.variable)
}

/// Whether a type stands before a variable.
fn is_declared(code: &str, change: &Change<'_>) -> bool {
    let before = code[..change.at].trim_end();
    let is_type = before.ends_with(|at: char| at.is_alphanumeric() || "_*&>".contains(at));
    is_type && !before.ends_with("else") && !before.ends_with("->")
}

/// A variable that is set in a loop, but is used in its body before: it has what the step before left, as in `out = a * before; before = out`.
fn used_first<'a>(body: &str, changes: &'a [Change<'a>]) -> Option<&'a Change<'a>> {
    let is_used_first = |change: &&Change<'_>| {
        let first = words_with_places(body).find(|(_, word)| *word == change.variable);
        first.is_some_and(|(at, _)| changes.iter().filter(is_assigned).all(|set| set.at != at))
    };
    changes.iter().filter(is_assigned).find(is_used_first)
}

/// A variable that some steps set and others leave as it was, as in `if (a[i][j] == 0) last = i`: which one set it last depends on their order.
fn kept<'a>(body: &str, changes: &'a [Change<'a>]) -> Option<&'a Change<'a>> {
    let conditions = ["if", "switch"].into_iter().flat_map(|word| body.match_indices(word));
    let on_condition: Vec<Range<usize>> = conditions
        .filter_map(|(at, word)| {
            super::keyword(body, at, word).map(|_| at..super::statement_end(body, at).unwrap_or(body.len()))
        })
        .collect();
    let leaves_out = super::words(body).any(|word| word == "continue");
    // `a[i][j] == 0 && (last = i);`
    let is_in_expression = |at: usize| {
        let statement = body[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        ["&&", "||", "?"].iter().any(|operator| body[statement..at].contains(operator))
    };
    let is_kept = |change: &&Change<'_>| {
        leaves_out || on_condition.iter().any(|of| of.contains(&change.at)) || is_in_expression(change.at)
    };
    changes.iter().filter(is_assigned).find(|change| is_kept(change) && !is_declared(body, change))
}

/// A change of a variable.
struct Change<'a> {
    /// Where the variable stands.
    at: usize,
    variable: &'a str,
    /// Of an element of it: `[i][j]`.
    index: &'a str,
    how: How<'a>,
}

impl Change<'_> {
    /// Whether it is of the same place in all steps of loops that count so.
    fn stays(&self, counting: &[&str]) -> bool {
        super::words(self.index).all(|word| !counting.contains(&word))
    }
}

impl Change<'_> {
    fn is_added_by(&self, operator: Option<u8>) -> bool {
        matches!(self.how, How::Added(own) if own == operator)
    }
}

fn is_assigned(change: &&Change<'_>) -> bool {
    matches!(change.how, How::Assigned(_))
}

enum How<'a> {
    /// `k++`, `--k`.
    Counted,
    /// `k += …`, by an operator whose order does not matter: `+` (and `-`), `*`, `&`, `|`, `^`. None by others.
    Added(Option<u8>),
    /// `k = …`.
    Assigned(&'a str),
}

/// All changes of variables and of elements.
fn changes(code: &str) -> Vec<Change<'_>> {
    let bytes = code.as_bytes();
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &code[at..];
        let (how, length) = if rest.starts_with("++") || rest.starts_with("--") {
            (How::Counted, 2)
        } else if ["==", "<=", ">=", "!="].iter().any(|compared| rest.starts_with(compared)) {
            at += 2;
            continue;
        } else if rest.starts_with("<<=") || rest.starts_with(">>=") {
            (How::Added(None), 3)
        } else if rest[1..].starts_with('=') && b"+-*/%&|^".contains(&bytes[at]) {
            let operator = match bytes[at] {
                b'/' | b'%' => None,
                b'-' => Some(b'+'),
                other => Some(other),
            };
            (How::Added(operator), 2)
        } else if bytes[at] == b'=' {
            let value = &rest[1..];
            (How::Assigned(&value[..value.find([';', '}']).unwrap_or(value.len())]), 1)
        } else {
            at += 1;
            continue;
        };
        let before = target_before(code, at);
        let target = match how {
            // In front of it.
            How::Counted if before.is_none() => target_behind(code, at + length),
            _ => before,
        };
        if let Some(Target { at, variable, index }) = target {
            all.push(Change { at, variable, index, how });
        }
        at += length;
    }
    all
}

fn is_of_word(at: u8) -> bool {
    at.is_ascii_alphanumeric() || at == b'_'
}

/// What is changed.
struct Target<'a> {
    at: usize,
    variable: &'a str,
    index: &'a str,
}

/// The element whose last index ends here.
fn element_before(code: &str, end: usize) -> Option<Target<'_>> {
    let mut start = end;
    while code[..start].trim_end().ends_with(']') {
        let mut depth = 0;
        start = code[..start].rfind(|at: char| {
            depth += i32::from(at == ']') - i32::from(at == '[');
            at == '[' && depth == 0
        })?;
    }
    let Target { at, variable, .. } = target_before(code, start)?;
    Some(Target { at, variable, index: &code[at + variable.len()..end] })
}

/// The variable or element that ends here; None where nothing ends here.
fn target_before(code: &str, end: usize) -> Option<Target<'_>> {
    let end = code[..end].trim_end().len();
    let bytes = code.as_bytes();
    match *bytes[..end].last()? {
        b']' => element_before(code, end),
        // Whatever is within.
        b')' => Some(Target { at: end - 1, variable: ")", index: "" }),
        last if is_of_word(last) => {
            let start = end - bytes[..end].iter().rev().take_while(|at| is_of_word(**at)).count();
            let before = code[..start].trim_end();
            let owner = before.strip_suffix("->").or_else(|| before.strip_suffix('.'));
            match &code[start..end] {
                // `else ++k;`
                "else" => None,
                // `a[i].x`
                variable => match owner.map(str::trim_end).filter(|owner| owner.ends_with(']')) {
                    Some(owner) => element_before(code, owner.len()),
                    None => Some(Target { at: start, variable, index: "" }),
                },
            }
        }
        _ => None,
    }
}

/// The same of what begins here.
fn target_behind(code: &str, start: usize) -> Option<Target<'_>> {
    let start = start + (code[start..].len() - code[start..].trim_start().len());
    let length = code.as_bytes()[start..].iter().take_while(|at| is_of_word(**at) || b".->".contains(at)).count();
    let variable = &code[start..start + length];
    let behind = &code[start + length..];
    // `++a[i][j]`
    let mut end = 0;
    while behind[end..].trim_start().starts_with('[') {
        let mut depth = 0;
        let close = behind[end..].find(|at: char| {
            depth += i32::from(at == '[') - i32::from(at == ']');
            at == ']' && depth == 0
        });
        end += close? + 1;
    }
    // `++*p`, `++(*p)`
    Some(Target { at: start, variable: if variable.is_empty() { "*" } else { variable }, index: &behind[..end] })
}

/// Identifiers and numbers, and where they stand.
fn words_with_places(code: &str) -> impl Iterator<Item = (usize, &str)> {
    super::words(code).map(|word| (word.as_ptr().addr() - code.as_ptr().addr(), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: [&str; 2] = ["i", "j"];

    fn carried(inner: &str) -> Option<String> {
        of(inner, inner, COUNTS)
    }

    #[test]
    fn what_is_declared_with_a_value_is_of_its_time_around() {
        let own = |code| declared(code).collect::<Vec<_>>();
        assert_eq!(own("{ double t = x[j]; const struct p *p = &q[j]; t = 2 * t; "), ["t", "p"]);
        assert_eq!(own("{ static int t = 0; double &r = x[j]; s = x[j]; *p = 1; a[j] = 2; int k; k += 1; "), [""; 0]);
    }

    #[test]
    fn what_goes_on_from_step_to_step_is_carried() {
        for (code, variable) in [
            ("out[k++] = a[i][j];", "k"),
            ("*p++ = a[i][j];", "p"),
            ("*--p = a[i][j];", "p"),
            ("out[k] = a[i][j]; k += 1;", "k"),
            ("out[k] = a[i][j]; k = k + 1;", "k"),
            ("h ^= a[i][j]; h *= 31;", "h"),
            ("h = h * 31 + a[i][j];", "h"),
            ("h <<= a[i][j];", "h"),
            ("if (a[i][j]) { } else ++k;", "k"),
            ("s->fill++;", "fill"),
            ("(*n)++;", ")"),
            ("sum += a[i][j] * sum;", "sum"),
            ("s[0] = s[0] * 0.5 + a[i][j]; b[i][j] = s[0];", "s"),
            ("sums[k] += a[i][j]; b[i][j] = sums[k];", "sums"),
            ("state[k].x ^= a[i][j]; state[k].x *= 31;", "state"),
            ("b[i][j] = ++at[k];", "at"),
            ("b[i][j] = ++at[0] * c[i];", "at"),
            ("int c = m[k]; if (a[i][j] > t) last[c] = 255;", "last"),
            ("if (a[i][j] == 3) last[0] = i;", "last"),
        ] {
            assert_eq!(carried(code).as_deref(), Some(variable), "{code}");
        }
        // What one step stores another one gets in a register.
        let filter = "b[i][j] = c * a[i][j] + d * before; before = b[i][j];";
        assert_eq!(of(&format!("before = 0; {filter}"), filter, COUNTS).as_deref(), Some("before"));
        assert_eq!(
            of(&format!("b[i] = before; {} before = a[i][0];", "x[i] = 0;"), "x[i] = 0;", COUNTS).as_deref(),
            Some("before")
        );
        // What the last of some steps stores.
        for set in [
            "if (a[i][j] == 3) at = i;",
            "if (a[i][j]) { } else at = i;",
            "if (a[i][j] == 3) continue; at = i;",
            "a[i][j] == 0 && (at = i);",
        ] {
            assert_eq!(carried(set).as_deref(), Some("at"), "{set}");
        }
        // A pointer that goes on with the outer loop.
        assert_eq!(of("b[i] = p[i]; p += n;", "b[i] = p[i];", COUNTS).as_deref(), Some("p"));
    }

    #[test]
    fn elements_and_sums_are_not() {
        for code in [
            "b[i][j] = a[j][i];",
            "sum += a[i][j];",
            "if (a[i][j] >= 0 && a[i][j] != 3 && i <= j && i == j) sum += a[i][j]; else sum -= 2;",
            "b[i][j] += a[j][i]; b[i][j]++; ++b[i][j]; b[i][j].x += 1; b[i][j].n++;",
            "double t = a[i][j]; b[j][i] = t * t;",
            "if (a[i][j] > 0) { double t = a[i][j]; b[j][i] = t * t; }",
            "at = a[i][j]; b[j][i] = at;",
            "b[i][j] = c << 3 | c >> 2;",
            "sums[k] += a[i][j];",
            "c[k][b[j]] += a[i][j]; ++at[k][i];",
            "int c = i * n + j; if (a[j][i] > t) b[c] = 255;",
            "p[i][j].rgb[0] = p[i][j].rgb[0] / 2;",
        ] {
            assert_eq!(carried(code), None, "{code}");
        }
        assert_eq!(of("double sum = 0; sum += a[i][j]; sums[j] = sum;", "sum += a[i][j];", COUNTS), None);
    }
}
