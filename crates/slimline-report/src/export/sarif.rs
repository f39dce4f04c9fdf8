//! SARIF 2.1.0 (OASIS): advice as results for code review and editors, of a session or [of a trace](of_trace).
//!
//! A result is at the definition of its structure, or else where the data is allocated; lines that touch what moves are related
//! locations. Files below the directory in which the program was started are relative to it (`SRCROOT`), others are absolute.

pub mod of_trace;

use serde_json::{Map, Value, json};

use super::PROGRAM;
use crate::text::how_sampled;
use crate::view::{Advice, Group, Position, Report};

/// The rules: id, as in [`Advice::kind`] and [`TriedRow::change`](crate::relayout::TriedRow::change), name, what it is about.
const RULES: [(&str, &str, &str); 19] = [
    ("split", "SplitStructure", "Fields that are used apart are better in structures of their own."),
    ("hot_cold_split", "SplitColdFields", "Fields that are hardly used are better out of the way of the others."),
    ("reorder", "ReorderFields", "Fields in another order touch fewer cache lines."),
    ("align", "AlignElements", "Elements that lie across cache lines need more of them."),
    ("pool", "PoolNodes", "Nodes that lie side by side need fewer cache lines."),
    ("merge", "MergeArrays", "Arrays that are used together are better one array of structures."),
    ("inline", "HoldByValue", "What a single pointer leads to is better in the pointer's place."),
    ("shrink", "NarrowFields", "Values fit into narrower types."),
    ("bit_fields", "PackFields", "Truths and small numbers fit into bits."),
    ("indexes", "IndexNodes", "Indexes need less room than pointers."),
    ("array_of_each", "ArrayOfEachField", "Fields are better in an array each."),
    ("blocks", "BlocksOfElements", "Fields of several elements are better side by side."),
    ("interchange", "InterchangeLoops", "Loops in another order walk through memory in its own."),
    ("tile", "TileLoops", "Loops in tiles use lines again while a cache has them."),
    ("prefetch", "PrefetchLoads", "Loads by an index can be asked for ahead of time."),
    ("large_pages", "UseLargePages", "Large pages are looked up less often, and need the kernel less."),
    (
        "memory_nodes",
        "PlacePages",
        "Pages near to the threads that use them, or spread over all memories, are waited for less.",
    ),
    ("leave_alone", "LeaveAlone", "What is tried or known of it saves too little."),
    ("not_judged", "NotJudged", "Several threads use the data at once: what another layout costs is not known."),
];

/// Where relative files are.
const ROOT: &str = "SRCROOT";

/// The log, as JSON; the program was started in `directory`. What no source is known of is told of the file `of`.
pub fn json(report: &Report, directory: &str, of: &str) -> String {
    let session = &report.session;
    let results: Vec<Value> = report.advice.iter().map(|advice| told(advice, report).result(of, directory)).collect();
    let properties = json!({
        "command": session.command,
        "samples": format!("{} samples: {}", session.collector, how_sampled(session)),
        "notes": session.notes,
    });
    log(&rules(), &results, directory, &properties)
}

/// Where to read on.
const HELP: &str =
    "`slimline advise` of the session or trace shows the fields, the new definitions, and how the gain was predicted.";

fn rules() -> Vec<Value> {
    RULES.iter().map(|&(id, name, text)| rule(id, name, text, HELP)).collect()
}

/// A rule of a log. GitHub takes none without a full description and help, neither of which needs to be long.
pub(crate) fn rule(id: &str, name: &str, text: &str, help: &str) -> Value {
    json!({
        "id": id,
        "name": name,
        "shortDescription": message(text),
        "fullDescription": message(text),
        "help": message(help),
    })
}

/// A message. Braces are doubled, as single ones stand for arguments (§3.11.5).
pub(crate) fn message(text: &str) -> Value {
    json!({ "text": literal(text) })
}

fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// What a result is about, and what that is.
pub(crate) struct Subject {
    pub(crate) name: String,
    /// `type`, `function`, … of SARIF (§3.33.7).
    pub(crate) kind: &'static str,
}

/// Where a result is: at a place in the sources, else in the file `of`, as code review (GitHub's above all) takes no log with a result that
/// has no file.
pub(crate) fn location(at: Option<&Position>, of: &str, subject: &Subject, directory: &str) -> Value {
    // What is of no line is shown at the first.
    let file = || Position { file: of.trim_start_matches("./").to_owned(), line: 1 };
    json!({
        "physicalLocation": physical(&at.cloned().unwrap_or_else(file), directory),
        "logicalLocations": [{ "name": subject.name, "kind": subject.kind }],
    })
}

/// A log of one run with these rules and results, as JSON; relative files are below `directory`.
pub(crate) fn log(rules: &[Value], results: &[Value], directory: &str, properties: &Value) -> String {
    let mut bases = Map::new();
    if !directory.is_empty() {
        bases
            .insert(ROOT.to_owned(), json!({ "uri": format!("file://{}/", encoded(directory.trim_end_matches('/'))) }));
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "slimline",
                "fullName": PROGRAM,
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "originalUriBaseIds": bases,
            "columnKind": "unicodeCodePoints",
            "results": results,
            "properties": properties,
        }],
    });
    let text = serde_json::to_string_pretty(&log).expect("a log holds string keys and finite numbers only");
    slimline_trace::escape::json(&text) + "\n"
}

/// What a result says.
struct Told {
    /// Which of [`RULES`].
    rule: String,
    kind: &'static str,
    level: &'static str,
    text: String,
    /// What to write; empty where nothing is.
    code: String,
    place: Option<Position>,
    subject: Subject,
    /// Lines that touch what moves.
    touched: Vec<Position>,
    properties: Value,
}

fn told(advice: &Advice, report: &Report) -> Told {
    let group = report.groups.iter().find(|group| group.id == advice.group);
    let (kind, level) = match (advice.kind.as_str(), advice.confidence.as_str()) {
        ("leave_alone", _) => ("pass", "none"),
        ("not_judged", _) => ("open", "none"),
        (_, "low") => ("fail", "note"),
        _ => ("fail", "warning"),
    };
    let mut text = advice.title.clone();
    let sentences = [gain(advice, report), (!advice.why.is_empty()).then(|| advice.why.clone())];
    let cautions = advice.cautions.iter().map(|caution| format!("Mind that {caution}"));
    for sentence in sentences.into_iter().flatten().chain(cautions) {
        text = format!("{}. {sentence}", text.trim_end_matches('.'));
    }
    Told {
        rule: advice.kind.clone(),
        kind,
        level,
        text,
        code: advice.code.clone(),
        place: advice.declared_at.clone().or_else(|| group.and_then(allocated_at)),
        subject: Subject { name: group.map(name).unwrap_or_default(), kind: "type" },
        touched: advice.touched_lines.iter().filter_map(|line| position(line)).collect(),
        properties: json!({
            "group": group.map(|group| &group.name),
            "share": group.map(|group| group.share),
            "shareOf": report.session.weight.noun(),
            "shareInterval": group.map(|group| group.share_interval),
            "confidence": advice.confidence,
            "predicted": advice.predicted,
            "code": advice.code,
        }),
    }
}

impl Told {
    fn result(&self, of: &str, directory: &str) -> Value {
        let Self { rule, text, subject, .. } = self;
        let mut message = message(text);
        if !self.code.is_empty() {
            message["markdown"] = json!(literal(&format!("{text}\n\n```\n{}\n```", self.code.trim_end())));
        }
        let touches = |(at, id): (&Position, i32)| {
            json!({
                "id": id,
                "message": self::message("touches what moves"),
                "physicalLocation": physical(at, directory),
            })
        };
        json!({
            "ruleId": rule,
            "ruleIndex": RULES.iter().position(|(id, ..)| id == rule).map_or(-1, |at| at as i64),
            "kind": self.kind,
            "level": self.level,
            "message": message,
            "locations": [location(self.place.as_ref(), of, subject, directory)],
            "relatedLocations": self.touched.iter().zip(1..).map(touches).collect::<Vec<Value>>(),
            // The same advice of another run, wherever its lines went.
            "partialFingerprints": { "slimlineAdvice/v1": format!("{rule} {}", subject.name) },
            "properties": self.properties,
        })
    }
}

/// What it would gain, in a sentence.
fn gain(advice: &Advice, report: &Report) -> Option<String> {
    let predicted = advice.predicted.as_ref()?;
    let percent = |part: f64| format!("{:+.0} %", part * 100.0);
    let interval = predicted.cycles_interval;
    Some(format!(
        "Predicted: {} of the {} ({} to {}), {}",
        percent(predicted.cycles),
        report.session.weight.noun(),
        percent(interval.low),
        percent(interval.high),
        predicted.method
    ))
}

fn name(group: &Group) -> String {
    group.type_name.clone().unwrap_or_else(|| group.name.clone())
}

fn allocated_at(group: &Group) -> Option<Position> {
    let at = group.allocated_at.as_ref()?;
    Some(Position { file: at.file.clone()?, line: at.line })
}

/// `file:line`
fn position(text: &str) -> Option<Position> {
    let (file, line) = text.rsplit_once(':')?;
    Some(Position { file: file.to_owned(), line: line.parse().ok()? })
}

/// A place in the source, relative to `directory` where it is below that.
fn physical(at: &Position, directory: &str) -> Value {
    let below =
        at.file.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')).filter(|_| !directory.is_empty());
    let artifact = match below {
        Some(relative) => json!({ "uri": encoded(relative), "uriBaseId": ROOT }),
        None if at.file.starts_with('/') => json!({ "uri": format!("file://{}", encoded(&at.file)) }),
        None => json!({ "uri": encoded(&at.file), "uriBaseId": ROOT }),
    };
    let mut place = json!({ "artifactLocation": artifact });
    if at.line > 0 {
        place["region"] = json!({ "startLine": at.line });
    }
    place
}

/// A path as a URI has it (RFC 3986).
fn encoded(path: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use slimline_analyze::relayout::candidates::Change;

    use super::*;

    #[test]
    fn each_change_is_a_rule() {
        let is_rule = |name: &str| RULES.iter().any(|(id, ..)| *id == name);
        assert!(Change::ALL.into_iter().all(|change| is_rule(change.name())));
    }
}
