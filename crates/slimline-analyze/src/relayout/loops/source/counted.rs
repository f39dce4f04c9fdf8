//! Whether two loops count, the inner one alike for each time around the outer one, and access all by what loops count: then addresses tell where each time
//! through both ends.

use std::ops::Range;

use super::carried::changed;
use super::{ForLoop, Head, has_calls, words};

/// Whether that is so of the two innermost of these loops, which are told from the inside; `read` is the body of the outermost one. `code` is without comments and literals, and
/// `steps` without heads of loops, too.
pub(super) fn is_counted((code, steps): (&str, &str), loops: &[&ForLoop], read: Range<usize>) -> bool {
    let heads: Option<Vec<Head<'_>>> = loops.iter().map(|of| Head::of(&code[of.head.clone()])).collect();
    let (Some(heads), [inner, outer, ..]) = (heads, loops) else { return false };
    let is_plain =
        |text: &str| text.chars().all(|at| at.is_alphanumeric() || at.is_whitespace() || "_+-*".contains(at));
    let has = |text: &str, variable: &str| words(text).any(|word| word == variable);
    let bounds = |of: &Head<'_>| [of.begin, of.limit, of.by].map(str::to_owned);
    // Begin and end move together: which step is which, addresses do not tell.
    let moves_with = |of: &Head<'_>, variable: &str| has(of.begin, variable) && has(of.limit, variable);
    let is_left: Vec<&str> = changed(&steps[read]).collect();
    let is_set = |text: &str| words(text).any(|word| is_left.contains(&word));
    let is_alike = |of: &Head<'_>| {
        let [begin, limit, by] = bounds(of);
        let is_free = |text: &String| is_plain(text) && !is_set(text);
        [&begin, &limit, &by].into_iter().all(is_free)
            && !is_set(of.variable)
            && !heads.iter().any(|other| moves_with(of, other.variable))
    };
    let is_of_outer = bounds(&heads[0]).iter().any(|text| has(text, heads[1].variable));
    let (body, of_inner) = (&steps[outer.head.end..outer.end], &steps[inner.head.end..inner.end]);
    let is_conditional = ["if", "switch", "continue"].iter().any(|word| has(body, word))
        || ["?", "&&", "||"].iter().any(|operator| body.contains(operator));
    let variables: Vec<&str> = heads.iter().map(|of| of.variable).collect();
    heads.iter().all(is_alike)
        && !is_of_outer
        && !is_conditional
        && !has_calls(of_inner)
        && is_by_counts(of_inner, &variables, &is_left)
}

/// Whether all that is accessed there is an element of an array, by what loops count, the innermost one first.
fn is_by_counts(code: &str, variables: &[&str], is_left: &[&str]) -> bool {
    let is_name = |at: char| at.is_alphanumeric() || at == '_';
    let is_number = |word: &str| word.trim().starts_with(|at: char| at.is_ascii_digit());
    // How far a step of one loop goes is not the other one's to count: `i * j`.
    let is_scaled = |factors: &str| {
        let factors: Vec<&str> = factors.split('*').collect();
        factors.iter().filter(|factor| !is_number(factor)).count() <= 1
    };
    let is_index = |text: &str| {
        text.split(['+', '-']).all(is_scaled)
            && text.chars().all(|at| is_name(at) || at.is_whitespace() || "+-*".contains(at))
            && words(text).all(|word| variables.contains(&word) || is_number(word))
    };
    let is_array = |before: &str| {
        let before = before.trim_end();
        let name = before.rsplit(|at: char| !is_name(at)).next().unwrap_or_default();
        before.ends_with(']') || !name.is_empty() && !is_left.contains(&name)
    };
    let is_indexed = |(at, _): (usize, &str)| {
        let index = code[at + 1..].split_once(']').map(|(index, _)| index);
        is_array(&code[..at]) && index.is_some_and(is_index)
    };
    // `*p`, where it is no product.
    let is_product =
        |(at, _): (usize, &str)| code[..at].trim_end().ends_with(|at: char| is_name(at) || "])".contains(at));
    // What a step before has accessed, as `b[k - 1]` beside `b[k]`, is in a register then, and no access.
    let by_inner = || {
        let indexes = code.split('[').skip(1).filter_map(|behind| Some(behind.split_once(']')?.0.trim()));
        indexes.filter(|index| words(index).any(|word| word == variables[0]))
    };
    let is_alike = by_inner().all(|index| by_inner().next() == Some(index));
    is_alike
        && code.match_indices('[').all(is_indexed)
        && code.match_indices('*').all(is_product)
        && !code.contains("->")
}

#[cfg(test)]
mod tests {
    use super::super::around;

    /// Of three loops, of which these are the heads, with this in the middle one.
    fn counted(heads: [&str; 3], body: &str) -> bool {
        let [i, j, k] = heads.map(|head| format!("for ({head})"));
        let source = format!("{i}\n{j} {{\nx[j] = NOUGHT(0);\n{k}\n{body}\nx[j] /= n;\n}}\n");
        around(&source, 5).unwrap().counted.is_some()
    }

    const PLAIN: [&str; 3] = ["int i = 0; i < n; i++", "int j = i; j < n; j++", "int k = i + 1; k < m - 1; k++"];

    #[test]
    fn loops_that_count_are_told() {
        let found = around(
            "for (int i = 0; i < n; i++)\nfor (int j = 0; j < n; j++) {\nc[i][j] = 0;\nfor (int k = 0; k < n; k++)\nc[i][j] += 2 * a[k][i] * b[k][j + 1];\n}\n",
            5,
        );
        assert_eq!(found.unwrap().counted, Some(4..6));
        assert!(counted(PLAIN, "c[i][j] += a[k][i] * b[k][j];"));
    }

    #[test]
    fn other_loops_are_not() {
        let product = "c[i][j] += a[k][i] * b[k][j];";
        for (at, head) in [
            // The inner one begins, or ends, elsewhere each time around.
            (2, "int k = j; k < n; k++"),
            (2, "int k = 0; k < j; k++"),
            (2, "int k = i; k < i + n; k++"),
            (2, "int k = 0; k < m[i]; k++"),
            (1, "int j = 0; j < f(i); j++"),
            (2, "int k = 0; k != n; k++"),
            (2, "int k = 0; k < left; k++"),
        ] {
            let mut heads = PLAIN;
            heads[at] = head;
            let set = if head.contains("left") { "left = 3;" } else { "" };
            assert!(!counted(heads, &format!("{{ {product} {set} }}")), "{head}");
        }
        for body in [
            "c[i][j] += a[k][j % 16] * b[k][j];",
            "c[i][j] += a[k][at[j]] * b[k][j];",
            "c[i][j] += a[k][n] * b[k][j];",
            "c[i][j] += a[k][i * j] * b[k][j];",
            "c[i][j] += *p * b[k][j + 2 * i];",
            "c[i][j] += p->x * b[k][j + 2 * i];",
            "c[i][j] += f(i) * b[k][j];",
            "c[i][j] += b[k - 1][j] * b[k][j];",
            "if (j != 3) c[i][j] += b[k][i];",
            "{ row = a; c[i][j] += b[k][i] * row[j]; }",
            "{ c[i][j] += b[k][i]; i++; }",
        ] {
            assert!(!counted(PLAIN, body), "{body}");
        }
    }
}
