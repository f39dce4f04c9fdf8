//! The Firefox Profiler's processed profile format, version 55 (github.com/firefox-devtools/profiler, `docs-developer/CHANGELOG-formats.md`;
//! profiler.firefox.com upgrades older versions when it loads them).
//!
//! A sample's cost may divide among fields, and its parts are samples of one time, each with its weight in milliseconds: sums are
//! those of the report, and the timeline is the run's. The crate `fxprof-processed-profile` writes this format with whole numbers as weights and without
//! files and lines, so these tables are our own.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};
use slimline_trace::escape::command_line;

use super::{CodeFrame, CostTable, PROGRAM, ThreadName};
use crate::numbered::Numbered;

/// The format's version.
const VERSION: u32 = 55;

/// Categories, by their places in `categories`: colours of the timeline.
const CODE: u32 = 0;
const DATA: u32 = 1;

/// The profile, as JSON; of a session, whose samples have times.
pub fn json(table: &CostTable) -> String {
    let run = &table.run;
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    let mut threads: Vec<(u64, Thread<'_>)> =
        (0..table.threads.len() as u32).map(|number| (0, Thread::new(table, number))).collect();
    for row in table.timed.iter().filter(|row| row.cost > 0) {
        let (total, thread) = &mut threads[row.thread as usize];
        *total += row.cost;
        thread.add(table, row.stack, row.data, milliseconds(row.time_ns), row.cost);
    }
    threads.retain(|(total, _)| *total > 0);
    threads.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    let category = |name: &str, color: &str| json!({ "name": name, "color": color, "subcategories": ["Other"] });
    let profile = json!({
        "meta": {
            "version": 24,
            "preprocessedProfileVersion": VERSION,
            "categories": [category("code", "yellow"), category("data", "blue")],
            "interval": milliseconds(run.period_ns).max(1e-3),
            "startTime": milliseconds(run.started_unix_ns),
            "processType": 0,
            "product": format!("{} by code and data: {}", run.unit.noun(), command_line(&run.command)),
            "importedFrom": PROGRAM,
            "arguments": command_line(&run.command),
            "extra": [{ "label": "What is measured", "entries": remarks(&run.remarks) }],
            "debug": false,
            "symbolicated": true,
            "stackwalk": 1,
            "pausedRanges": [],
            "usesOnlyOneStackType": true,
            "sourceCodeIsNotOnSearchfox": true,
            "markerSchema": [],
            "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
        },
        "libs": [],
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
        "threads": threads.iter().map(|(_, thread)| thread.json(table)).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string(&profile).expect("a profile holds string keys and finite numbers only");
    slimline_trace::escape::json(&text) + "\n"
}

fn remarks(remarks: &[String]) -> Vec<Value> {
    let entry = |(number, remark): (usize, &String)| json!({ "label": format!("{}", number + 1), "format": "string", "value": remark });
    remarks.iter().enumerate().map(entry).collect()
}

/// A function, by numbers of its texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    name: u32,
    resource: Option<u32>,
    file: Option<u32>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Frame {
    function: u32,
    line: Option<u32>,
    category: u32,
}

/// A frame on the stack of its callers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Stack {
    prefix: Option<u32>,
    frame: u32,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    length: usize,
    weight_type: &'static str,
    stack: Vec<u32>,
    time: Vec<f64>,
    weight: Vec<f64>,
    #[serde(rename = "threadCPUDelta")]
    cpu_delta: Vec<u64>,
}

struct Thread<'a> {
    of: &'a ThreadName,
    is_time: bool,
    strings: Numbered<String>,
    /// Modules, by number of their name.
    resources: Numbered<u32>,
    functions: Numbered<Function>,
    frames: Numbered<Frame>,
    stacks: Numbered<Stack>,
    known: HashMap<(u32, u32), u32>,
    samples: Samples,
}

impl<'a> Thread<'a> {
    fn new(table: &'a CostTable, number: u32) -> Self {
        let is_time = table.run.unit.is_time();
        Self {
            of: &table.threads[number as usize],
            is_time,
            strings: Numbered::default(),
            resources: Numbered::default(),
            functions: Numbered::default(),
            frames: Numbered::default(),
            stacks: Numbered::default(),
            known: HashMap::new(),
            samples: Samples { weight_type: if is_time { "tracing-ms" } else { "samples" }, ..Samples::default() },
        }
    }

    fn add(&mut self, table: &CostTable, stack: u32, data: u32, time: f64, cost: u64) {
        let stack = match self.known.get(&(stack, data)) {
            Some(&known) => known,
            None => {
                let made = self.stack(table, stack, data);
                self.known.insert((stack, data), made);
                made
            }
        };
        let samples = &mut self.samples;
        samples.length += 1;
        samples.stack.push(stack);
        samples.time.push(time);
        samples.weight.push(if self.is_time { cost as f64 / 1e6 } else { cost as f64 });
        samples.cpu_delta.push(if self.is_time { cost } else { 0 });
    }

    fn stack(&mut self, table: &CostTable, stack: u32, data: u32) -> u32 {
        let place = table.group_of(data).place.clone().unwrap_or_default();
        let code = table.stacks[stack as usize].iter().map(|&frame| (table.frames[frame as usize].clone(), CODE));
        let data = table
            .data_labels(data)
            .into_iter()
            .map(|function| (CodeFrame { function, module: "[data]".to_owned(), ..place.clone() }, DATA));
        let mut prefix = None;
        for (frame, category) in code.chain(data) {
            let frame = self.frame(&frame, category);
            prefix = Some(self.stacks.number(Stack { prefix, frame }));
        }
        prefix.expect("a stack has frames")
    }

    fn frame(&mut self, frame: &CodeFrame, category: u32) -> u32 {
        let name = self.strings.number(frame.function.clone());
        let file = frame.file.as_ref().map(|file| self.strings.number(file.clone()));
        let resource = match frame.module.as_str() {
            "" => None,
            module => {
                let name = self.strings.number(module.to_owned());
                Some(self.resources.number(name))
            }
        };
        let function = self.functions.number(Function { name, resource, file });
        let line = Some(frame.line).filter(|&line| line > 0);
        self.frames.number(Frame { function, line, category })
    }

    fn json(&self, table: &CostTable) -> Value {
        let (frames, functions) = (self.frames.rows(), self.functions.rows());
        let none = |length: usize| vec![Value::Null; length];
        let resources = self.resources.rows();
        json!({
            "name": if self.of.name.is_empty() { format!("thread {}", self.of.tid) } else { self.of.name.clone() },
            "isMainThread": self.of.tid == self.of.pid,
            "pid": self.of.pid.to_string(),
            "tid": self.of.tid,
            "processName": table.run.command.first().cloned().unwrap_or_default(),
            "processType": "default",
            "processStartupTime": 0.0,
            "processShutdownTime": null,
            "registerTime": 0.0,
            "unregisterTime": null,
            "pausedRanges": [],
            "showMarkersInTimeline": false,
            "samples": self.samples,
            "stringArray": self.strings.rows(),
            "frameTable": {
                "length": frames.len(),
                "address": vec![-1; frames.len()],
                "inlineDepth": vec![0; frames.len()],
                "category": frames.iter().map(|frame| frame.category).collect::<Vec<_>>(),
                "subcategory": vec![0; frames.len()],
                "func": frames.iter().map(|frame| frame.function).collect::<Vec<_>>(),
                "nativeSymbol": none(frames.len()),
                "innerWindowID": vec![0; frames.len()],
                "line": frames.iter().map(|frame| frame.line).collect::<Vec<_>>(),
                "column": none(frames.len()),
            },
            "funcTable": {
                "length": functions.len(),
                "name": functions.iter().map(|function| function.name).collect::<Vec<_>>(),
                "isJS": vec![false; functions.len()],
                "relevantForJS": vec![false; functions.len()],
                "resource": functions.iter().map(|of| of.resource.map_or(-1, i64::from)).collect::<Vec<_>>(),
                "fileName": functions.iter().map(|function| function.file).collect::<Vec<_>>(),
                "lineNumber": none(functions.len()),
                "columnNumber": none(functions.len()),
            },
            "stackTable": {
                "length": self.stacks.rows().len(),
                "prefix": self.stacks.rows().iter().map(|stack| stack.prefix).collect::<Vec<_>>(),
                "frame": self.stacks.rows().iter().map(|stack| stack.frame).collect::<Vec<_>>(),
            },
            "resourceTable": {
                "length": resources.len(),
                "lib": none(resources.len()),
                "name": resources,
                "host": none(resources.len()),
                // A library.
                "type": vec![1; resources.len()],
            },
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "markers": {
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
            },
        })
    }
}
