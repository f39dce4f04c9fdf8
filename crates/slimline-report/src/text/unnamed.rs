//! What has no name, and why: code without lines, and data without a name. The one may use data that is known, and the
//! other be used by code that is.

use super::file_name;
use super::number::percent;
use crate::view::Unnamed;

/// Shares below this are told in JSON only.
const LEAST: f64 = 0.005;
/// Modules named with each reason.
const MODULES: usize = 3;

/// Code: the rows of `report --by line` that are no lines, by reason. Shares are of this `cost`.
pub(super) fn without_line(rows: &[Unnamed], cost: &str) -> Option<String> {
    let reasons = [
        ("no_line", "without debug information"),
        ("line_zero", "that compilers say is of no line"),
        ("linkage_stub", "in stubs through which libraries are called"),
        ("no_function", "stripped"),
        ("code_in_no_file", "generated at run time"),
        ("unreadable_module", "of files that can no longer be read"),
        ("split_debug_info", "with lines in .dwo files that are not there"),
        ("damaged_debug_info", "with damaged or partly missing debug information"),
    ];
    let (share, parts) = sum(rows, &reasons)?;
    Some(format!("{share} of the {cost} is in code of which no line is known, whatever data it uses: {parts}"))
}

/// Data that lies somewhere, but is called by its module or by nothing. Samples without an address are told as such.
pub(super) fn without_name(rows: &[Unnamed], cost: &str) -> Option<String> {
    let reasons = [
        ("no_variable", "without a symbol"),
        ("no_call_path", "in heap blocks without a call path"),
        ("no_mapping", "at addresses in no mapping that was seen"),
    ];
    let (share, parts) = sum(rows, &reasons)?;
    Some(format!("{share} of the {cost} is spent on data that nothing names: {parts}"))
}

/// What the reasons have together, and each of them, costliest first; `None` where that is next to nothing.
fn sum(rows: &[Unnamed], reasons: &[(&str, &str)]) -> Option<(String, String)> {
    let mut parts: Vec<(f64, String)> = Vec::new();
    let mut total = 0.0;
    for (reason, words) in reasons {
        let of_reason = || rows.iter().filter(|row| row.reason == *reason);
        let share: f64 = of_reason().map(|row| row.share).sum();
        total += share;
        if share >= LEAST {
            let modules: Vec<&str> =
                of_reason().map(|row| row.module.as_str()).filter(|path| !path.is_empty()).collect();
            parts.push((share, format!("{} {words}{}", percent(share), listed(&modules))));
        }
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> = parts.into_iter().map(|(_, words)| words).collect();
    (total >= LEAST && !parts.is_empty()).then(|| (percent(total), parts.join(", ")))
}

/// ` (libc.so.6, libm.so.6)`
fn listed(modules: &[&str]) -> String {
    let mut names: Vec<String> = Vec::new();
    for path in modules {
        let name = file_name(path);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut list = names[..names.len().min(MODULES)].join(", ");
    if names.len() > MODULES {
        list += &format!(" and {} more", names.len() - MODULES);
    }
    if list.is_empty() { list } else { format!(" ({list})") }
}
