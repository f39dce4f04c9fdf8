//! What is worse than allowed as JUnit's XML, which CI systems show as tests: each regression a test that failed, each rule that
//! nothing breaks one that passed.

use std::fmt::Write;

use slimline_trace::escape::Xml;

use super::{Check, rule_id, rule_words};

/// The file.
pub fn junit(check: &Check<'_>) -> String {
    let failed = check.regressions.len();
    let kept: Vec<_> = check
        .rules()
        .into_iter()
        .filter(|rule| check.regressions.iter().all(|regression| regression.rule() != *rule))
        .collect();
    let tests = failed + kept.len();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{tests}\" failures=\"{failed}\">\n  \
         <testsuite name=\"slimline check\" tests=\"{tests}\" failures=\"{failed}\">\n"
    );
    let mut add = |rule, name: &str, failure: Option<&str>| {
        let (class, name) = (rule_id(rule), Xml(name));
        let _ = match failure {
            None => writeln!(text, "    <testcase classname=\"slimline.{class}\" name=\"{name}\"/>"),
            Some(message) => writeln!(
                text,
                "    <testcase classname=\"slimline.{class}\" name=\"{name}\">\n      <failure type=\"{class}\" \
                 message=\"{0}\">{0}</failure>\n    </testcase>",
                Xml(message)
            ),
        };
    };
    for (regression, subject) in check.regressions.iter().zip(check.subjects()) {
        add(regression.rule(), &subject, Some(&check.message(regression)));
    }
    for rule in kept {
        add(rule, rule_words(rule).1, None);
    }
    text + "  </testsuite>\n</testsuites>\n"
}
