//! The advice of a trace.

use std::path::Path;

use serde_json::{Value, json};

use super::super::UNKNOWN_CODE;
use super::{Subject, Told, log, position, rules};
use crate::comparison::numbered;
use crate::relayout::{AdvisedCode, LoopRow, NodesAdvice, PredictedRow, PrefetchRow, RelayoutReport, StructureRow};
use crate::text::relayout::{large_pages, memory_nodes, run_time};

/// The log, as JSON; files below `directory` are relative to it. What no source is known of is told of the trace.
pub fn json(report: &RelayoutReport, directory: &str) -> String {
    let structures = report.structures.iter().map(|of| structure(of, report, directory));
    let loops = report.loops.iter().map(|of| loops(of, report));
    let prefetches = report.prefetches.loads.iter().map(|of| prefetch(of, report));
    let mut told: Vec<Told> =
        structures.chain(loops).chain(prefetches).chain(of_all_memory(report, directory)).collect();
    // A function may have several nests of loops, and an array several loads.
    let names = numbered(told.iter().map(|told| (told.rule.clone(), told.subject.name.clone())));
    told.iter_mut().zip(names).for_each(|(told, name)| told.subject.name = name);
    let results: Vec<Value> = told.iter().map(|told| told.result(&report.trace.file, directory)).collect();
    let properties = json!({
        "command": report.trace.command,
        "machine": report.machine,
        "accesses": report.accesses,
        "replayed": report.replayed,
        "missing": report.trace.missing,
        // What layouts gain together is not the sum of what each does.
        "layoutsTogether": report.together,
        "prefetchesTogether": report.prefetches.together,
    });
    log(&rules(), &results, directory, &properties)
}

fn structure(of: &StructureRow, report: &RelayoutReport, directory: &str) -> Told {
    let mut told = left_alone((&of.name, "type"), of.allocated_at.as_deref(), of.share, of.reason.as_deref());
    if let Some(advice) = &of.advice {
        let cautions = advice.cautions.iter().map(|caution| caution.seen_from(Path::new(directory)));
        told.change(advice.layout.change, &advice.title, (&advice.predicted, replayed(report)), cautions, report);
        told.code.clone_from(&advice.code);
        told.touched = advice.touched_lines.iter().filter_map(|line| position(line)).collect();
        told.place = told.place.or_else(|| told.touched.first().cloned());
    }
    told
}

fn loops(of: &LoopRow, report: &RelayoutReport) -> Told {
    let name = of.function.as_deref().unwrap_or(UNKNOWN_CODE);
    let mut told = left_alone((name, "function"), of.at.as_deref(), of.share, of.reason.as_deref());
    if let Some(advice) = &of.advice {
        told.change_code(advice.order.change, &advice.change, "replay of the nest by its strides", report);
    }
    told
}

fn prefetch(of: &PrefetchRow, report: &RelayoutReport) -> Told {
    let mut told = left_alone((&of.data, "variable"), of.at.as_deref(), of.share, of.reason.as_deref());
    if let Some(advice) = &of.advice {
        told.change_code("prefetch", &advice.change, replayed(report), report);
    }
    told
}

/// What is advised of the pages of all memory: it is of no line.
fn of_all_memory(report: &RelayoutReport, directory: &str) -> Vec<Told> {
    let told = |rule: &str, name: &str, said: Vec<String>, advised: Option<&PredictedRow>| {
        // It has no part of the time of its own.
        let mut told =
            Told { text: said.join(" "), properties: json!({}), ..left_alone((name, "resource"), None, 1.0, None) };
        if let Some(predicted) = advised {
            told.found(rule, predicted);
        }
        told
    };
    let pages = report.large_pages.as_ref().map(|pages| {
        let advised = pages.is_advised.then_some(&pages.alone);
        let mut told = told("large_pages", "pages", large_pages(report, pages), advised);
        told.properties["withAdvised"] = json!(pages.with_advised);
        told
    });
    let nodes = report.memory_nodes.as_ref().map(|nodes| {
        let advised = nodes.advice.map(|advice| match advice {
            NodesAdvice::Interleave => &nodes.interleaved,
            NodesAdvice::TouchWhereUsed => &nodes.touched_where_used,
        });
        told("memory_nodes", "memory nodes", memory_nodes::lines(nodes, Path::new(directory)), advised)
    });
    pages.into_iter().chain(nodes).collect()
}

/// What is better left as it is, at `file:line`.
fn left_alone((name, kind): (&str, &'static str), at: Option<&str>, share: f64, reason: Option<&str>) -> Told {
    Told {
        rule: "leave_alone".to_owned(),
        kind: "pass",
        level: "none",
        text: reason.map_or_else(|| format!("Leave {name} alone"), |why| format!("Leave {name} alone: {why}")),
        code: String::new(),
        place: at.and_then(position),
        subject: Subject { name: name.to_owned(), kind },
        touched: Vec::new(),
        properties: json!({ "share": share, "shareOf": "time" }),
    }
}

impl Told {
    fn change(
        &mut self,
        rule: &str,
        title: &str,
        (predicted, how): (&PredictedRow, &str),
        cautions: impl Iterator<Item = String>,
        report: &RelayoutReport,
    ) {
        self.text = format!("{title}. Predicted: {}, by {how} ({})", run_time(predicted), report.machine);
        cautions.for_each(|caution| self.text += &format!(". Mind that {caution}"));
        self.found(rule, predicted);
    }

    /// It is advised by this rule.
    fn found(&mut self, rule: &str, predicted: &PredictedRow) {
        self.rule = rule.to_owned();
        self.kind = "fail";
        // Who computes much, or waits for each miss, may lose.
        self.level = if predicted.time_ratio_high < 1.0 { "warning" } else { "note" };
        self.properties["predicted"] = json!(predicted);
    }

    fn change_code(&mut self, rule: &str, change: &AdvisedCode, how: &str, report: &RelayoutReport) {
        self.change(rule, &change.title, (&change.predicted, how), change.cautions.iter().cloned(), report);
        self.code = change.code.clone().unwrap_or_else(|| change.how.clone());
    }
}

fn replayed(report: &RelayoutReport) -> &'static str {
    if report.is_whole() { "replay of all accesses" } else { "replay of windows of the accesses" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::relayout::LargePagesRow;
    use crate::relayout::memory_nodes::tests::nodes;
    use crate::text::relayout::loops::tests::two_loops;
    use crate::text::relayout::prefetches::tests::two_loads;
    use crate::text::relayout::tests::two_structures;

    #[test]
    fn a_change_is_a_finding_and_the_rest_passes() {
        let log: Value = serde_json::from_str(&json(&two_structures(), "/src")).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let told: Vec<_> =
            results.iter().map(|result| [&result["ruleId"], &result["kind"], &result["level"]]).collect();
        assert_eq!(told, [["split", "fail", "note"], ["leave_alone", "pass", "none"]]);
        let change = &results[0];
        let text = change["message"]["text"].as_str().unwrap();
        assert!(
            text.contains(". Predicted: −40.0 % run time") && text.contains("Mind that its size is relied on"),
            "{text}"
        );
        assert!(change["message"]["markdown"].as_str().unwrap().contains("```\nstruct"), "{change}");
        // Braces of a message are doubled.
        assert!(text.contains("{{") && !text.replace("{{", "").contains('{'), "{text}");
        assert_eq!(change["properties"]["predicted"]["time_ratio"], 0.6);
        assert_eq!(change["locations"][0]["physicalLocation"]["region"]["startLine"], 12);
    }

    #[test]
    fn pages_and_memories_are_findings_of_no_line() {
        let report = two_structures();
        let predicted = report.structures[0].advice.as_ref().unwrap().predicted;
        let with_advised = Some(PredictedRow { time_ratio: 0.5, ..predicted });
        let large_pages = Some(LargePagesRow { is_advised: true, alone: predicted, with_advised });
        let memory_nodes = Some(nodes(110.0, 110.0));
        let all = RelayoutReport { large_pages, memory_nodes, together: Some(predicted), ..report };
        let log: Value = serde_json::from_str(&json(&all, "/src")).unwrap();
        let run = &log["runs"][0];
        let told = |place: usize| {
            let result = &run["results"][place];
            let name = &result["locations"][0]["logicalLocations"][0]["name"];
            ([&result["ruleId"], &result["kind"], name], result["message"]["text"].as_str().unwrap())
        };
        let (words, text) = told(2);
        assert_eq!(words, ["large_pages", "fail", "pages"]);
        assert!(text.starts_with("Put memory on pages of 2 MiB. Predicted: −40.0 % run time"), "{text}");
        let properties = &run["results"][2]["properties"];
        let ratio = |of: &str| properties[of]["time_ratio"].as_f64().unwrap();
        assert_eq!((ratio("predicted"), ratio("withAdvised"), &properties["share"]), (0.6, 0.5, &Value::Null));
        let (words, text) = told(3);
        assert_eq!(words, ["leave_alone", "pass", "memory nodes"]);
        assert!(text.contains("Neither pages spread over all nodes"), "{text}");
        assert_eq!(run["properties"]["layoutsTogether"]["time_ratio"], 0.6);
    }

    #[test]
    fn loops_and_loads_are_findings_of_their_own() {
        let mut all = RelayoutReport { prefetches: two_loads().prefetches, ..two_loops() };
        all.loops.push(all.loops[1].clone());
        let log: Value = serde_json::from_str(&json(&all, "/src")).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let subject = |result: &Value| {
            let of = &result["locations"][0]["logicalLocations"][0];
            let words = [&result["ruleId"], &of["kind"], &of["name"]];
            words.map(|word| word.as_str().unwrap().to_owned()).join(" ")
        };
        let told: Vec<String> = results.iter().map(subject).collect();
        for expected in [
            "tile function turn",
            "leave_alone function turn",
            "leave_alone function turn (2)",
            "prefetch variable stars",
        ] {
            assert!(told.iter().any(|told| told == expected), "{told:?}");
        }
        let prints: BTreeSet<String> = results.iter().map(|result| result["partialFingerprints"].to_string()).collect();
        assert_eq!(prints.len(), results.len());
        assert!(results.iter().all(|result| result["ruleIndex"].as_i64() >= Some(0)));
    }
}
