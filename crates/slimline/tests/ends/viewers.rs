//! Other tools that read what is exported, as `cargo xtask setup` gets them of npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::scratch::skip;

/// A file of a package; for the test of this name there is nothing to do without.
pub(crate) fn viewer(test: &str, file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/viewers/node_modules").join(file);
    let found = path.canonicalize().ok();
    if found.is_none() {
        skip(test, &format!("no {} (of npm, by cargo xtask setup)", path.display()));
    }
    found
}

/// Microsoft's validator, which has SARIF's schema and the rules of what GitHub takes, finds nothing wrong with a log but that slimline has no
/// address on the web.
#[track_caller]
pub(crate) fn check_sarif(test: &str, log: &Path) {
    let Some(validator) = viewer(test, "@microsoft/sarif-multitool-linux/Sarif.Multitool") else { return };
    let told = log.with_extension("complaints");
    let output = Command::new(validator)
        .args([
            "validate",
            "--rule-kind",
            "Sarif;Ghas",
            "--level",
            "Error;Warning",
            "--log",
            "ForceOverwrite",
            "--output",
        ])
        .args([&told, log])
        // Else it needs a library for other languages' rules.
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Analysis completed successfully."), "{said}");
    let told: Value = serde_json::from_slice(&std::fs::read(&told).unwrap()).unwrap();
    let results = told["runs"][0]["results"].as_array().cloned().unwrap_or_default();
    let rules: Vec<&Value> = results.iter().map(|result| &result["ruleId"]).collect();
    // Of a log that it can't read it says nothing at all, so that the one complaint is what shows that it did.
    assert_eq!(rules, ["SARIF2005"], "{}: {results:#?}", log.display());
}
