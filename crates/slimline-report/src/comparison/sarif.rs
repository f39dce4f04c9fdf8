//! What is worse than allowed as SARIF, for code review: at the type's declaration.

use serde_json::{Value, json};
use slimline_analyze::comparison::gate::Regression;

use super::{Check, rule_id, rule_words, type_of};
use crate::export::sarif::{Subject, location, log, message, rule};
use crate::view::Position;

/// Where to read on.
const HELP: &str = "`slimline diff` of the same two shows all that changed; limits are those of `slimline check --help`, or of [check] in slimline.toml.";

/// The log; `directory` is what relative files are below.
pub fn sarif(check: &Check<'_>, directory: &str) -> String {
    let rules = check.rules();
    let told: Vec<Value> = rules
        .iter()
        .map(|&kind| {
            let (name, text) = rule_words(kind);
            rule(rule_id(kind), name, text, HELP)
        })
        .collect();
    let result = |(regression, name): (&Regression<'_>, String)| {
        let kind = match regression {
            Regression::Field(..) => "member",
            Regression::Type(..) => "type",
            Regression::Share(_) | Regression::Misses(_) => "variable",
        };
        let change = type_of(regression);
        let subject = Subject { name, kind };
        let place = change.and_then(|change| change.place.clone()).map(|(file, line)| Position { file, line });
        let location = location(place.as_ref(), &check.comparison.new, &subject, directory);
        let id = rule_id(regression.rule());
        json!({
            "ruleId": id,
            "ruleIndex": rules.iter().position(|rule| *rule == regression.rule()),
            "kind": "fail",
            "level": "error",
            "message": message(&check.message(regression)),
            "locations": [location],
            "partialFingerprints": { "slimlineCheck/v1": format!("{id} {}", subject.name) },
        })
    };
    let results: Vec<Value> = check.regressions.iter().zip(check.subjects()).map(result).collect();
    let compared = check.comparison;
    let properties = json!({
        "old": compared.old,
        "new": compared.new,
        "missing": compared.missing(),
        "unmatched": compared.unmatched(),
    });
    log(&told, &results, directory, &properties)
}
