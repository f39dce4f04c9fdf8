//! Statements beside an inner loop, of which it is known that they need no register that the loop has, nor it one of theirs.

use std::ops::Range;

use super::carried::changed;
use super::words;

/// Lines, from 1, of such statements alone: each sets an element of an array, which the inner loop does not name. None where a variable goes from one to the
/// other. All of it without comments, literals and heads of loops.
pub(super) fn lines(code: &str, body: Range<usize>, inner: Range<usize>) -> Vec<u32> {
    let beside = [body.start..inner.start, inner.end..body.end];
    let of_inner = &code[inner];
    let names = |within: &str, variable: &str| words(within).any(|word| word == variable);
    // What a pointer points to may be anything.
    let is_any = |variable: &str| words(variable).next().is_none();
    let goes_in =
        |of: &Range<usize>| changed(&code[of.clone()]).any(|variable| is_any(variable) || names(of_inner, variable));
    let comes_out = |variable: &str| is_any(variable) || beside.iter().any(|of| names(&code[of.clone()], variable));
    if beside.iter().any(goes_in) || changed(of_inner).any(comes_out) {
        return Vec::new();
    }
    let dense = |text: &str| text.chars().filter(|at| !at.is_whitespace()).collect::<String>();
    let of_inner = dense(of_inner);
    let is_apart = |statement: &str| element_set(&dense(statement)).is_some_and(|element| !of_inner.contains(element));
    let mut at = 0;
    let found = (1..).zip(code.split_inclusive('\n')).filter_map(|(number, line)| {
        let start = at;
        at += line.len();
        let is_beside = beside.iter().any(|of| of.start <= start && at <= of.end);
        let mut statements = line.split([';', '{', '}']).filter(|of| !of.trim().is_empty()).peekable();
        (is_beside && statements.peek().is_some() && statements.all(is_apart)).then_some(number)
    });
    found.collect()
}

/// `a[i][j]`, where the statement is `a[i][j]=…` or `a[i][j]+=…` and sets nothing else.
fn element_set(statement: &str) -> Option<&str> {
    let (target, value) = statement.split_once('=')?;
    let target = target.trim_end_matches(|at: char| "+-*/%&|^".contains(at));
    let is_value = !["=", "++", "--"].iter().any(|set| value.contains(set));
    let indexes = target.trim_start_matches(|at: char| at.is_alphanumeric() || at == '_');
    let mut depth = 0_usize;
    let is_indexed = indexes.chars().all(|at| {
        let is_within = depth > 0;
        match at {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_within || at == '['
    });
    let is_element = indexes.len() < target.len() && !indexes.is_empty() && is_indexed && depth == 0;
    (is_value && is_element && !["++", "--"].iter().any(|counted| indexes.contains(counted))).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::super::around;

    /// Lines apart of a loop whose inner one is on line 3.
    fn apart(before: &str, inner: &str, behind: &str) -> Vec<u32> {
        let source =
            format!("for (int j = 0; j < n; j++) {{\n{before}\nfor (int i = 0; i < n; i++) {inner}\n{behind}\n}}\n");
        around(&source, 3).unwrap().lines_apart
    }

    #[test]
    fn elements_that_the_inner_loop_does_not_need_are_set_apart() {
        // What is at the sum's place is told by that.
        assert_eq!(apart("x[j] = 0;", "x[j] += a[i][j];", "y[j] = x[j] / n; z [ j ][k] += x[j];"), [4]);
        assert_eq!(apart("z[k[j]] = 1;", "x[j] += a[i][j];", ""), [2]);
        // One of the line is not known to be, or is none.
        for behind in
            ["y[j] = 1; f(j);", "y[j] = z[j] = x[j];", "if (j) y[j] = x[j];", "*y = x[j];", "y[k++] = x[j];", ""]
        {
            assert_eq!(apart("x[j] = 0;", "x[j] += a[i][j];", behind), [0; 0], "{behind}");
        }
    }

    #[test]
    fn what_registers_take_from_one_to_the_other_is_not() {
        let own = "y[j] = 1;";
        assert_eq!(apart("", "x[j] += a[i][j];", own), [4]);
        assert_eq!(apart("double sum = 0;", "{ x[j] += a[i][j]; sum += b[i][j]; }", "y[j] = sum;"), [0; 0]);
        assert_eq!(apart("double t = v[j];", "x[j] += t * a[i][j];", own), [0; 0]);
        assert_eq!(apart("y[j] = v[j];", "x[j] += y[j] * a[i][j];", ""), [0; 0]);
        for added in ["*p", "(*p)"] {
            assert_eq!(apart("", &format!("{{ x[j] += a[i][j]; {added} += b[i][j]; }}"), "y[j] = *p;"), [0; 0]);
        }
    }
}
