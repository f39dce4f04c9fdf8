//! speedscope's file format (<https://www.speedscope.app/file-format-schema.json>): a profile for each thread, of its samples in the
//! order of time; of a trace, whose accesses have none, of its rows. Frames of data have `[data]` for their file.

use serde::Serialize;
use slimline_trace::escape::command_line;

use super::{CodeFrame, CostTable, CostUnit, PROGRAM};
use crate::numbered::Numbered;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    exporter: &'a str,
    name: String,
    active_profile_index: u32,
    shared: Shared,
    profiles: Vec<Profile>,
    /// Nothing of the format: for people, and other programs.
    remarks: &'a [String],
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Clone, Serialize, PartialEq, Eq, Hash)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// The file, as JSON.
pub fn json(table: &CostTable) -> String {
    let mut frames: Numbered<Frame> = Numbered::default();
    let mut profiles: Vec<Profile> = table
        .threads
        .iter()
        .map(|thread| Profile {
            r#type: "sampled",
            name: match thread.name.as_str() {
                "" => format!("thread {}", thread.tid),
                name => format!("{name} (thread {} of process {})", thread.tid, thread.pid),
            },
            unit: unit(table.run.unit),
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
        })
        .collect();
    let timed = table.timed.iter().map(|row| (row.stack, row.data, row.thread, row.cost));
    let whole = table.rows.iter().map(|row| (row.stack, row.data, row.thread, row.cost.cost));
    let rows: Vec<_> = if table.timed.is_empty() { whole.collect() } else { timed.collect() };
    for (stack, data, thread, cost) in rows.into_iter().filter(|row| row.3 > 0) {
        let sample = stack_of(&mut frames, table, stack, data);
        let profile = &mut profiles[thread as usize];
        profile.end_value += cost;
        // What follows itself is one box in the order of time anyway.
        match (profile.samples.last(), profile.weights.last_mut()) {
            (Some(last), Some(weight)) if *last == sample => *weight += cost,
            _ => {
                profile.samples.push(sample);
                profile.weights.push(cost);
            }
        }
    }
    profiles.retain(|profile| profile.end_value > 0);
    // The busiest thread first: it is the one that is shown.
    profiles.sort_by_key(|profile| std::cmp::Reverse(profile.end_value));
    let file = File {
        schema: SCHEMA,
        exporter: PROGRAM,
        name: format!("{} by code and data: {}", table.run.unit.noun(), command_line(&table.run.command)),
        active_profile_index: 0,
        shared: Shared { frames: frames.into_rows() },
        profiles,
        remarks: &table.run.remarks,
    };
    let text = serde_json::to_string(&file).expect("a file holds string keys and finite numbers only");
    slimline_trace::escape::json(&text) + "\n"
}

/// One of the units that the format has.
fn unit(unit: CostUnit) -> &'static str {
    if unit.is_time() { "nanoseconds" } else { "none" }
}

fn stack_of(frames: &mut Numbered<Frame>, table: &CostTable, stack: u32, data: u32) -> Vec<u32> {
    let code = table.stacks[stack as usize].iter().map(|&frame| code_frame(&table.frames[frame as usize]));
    let place = table.group_of(data).place.as_ref();
    let data = table.data_labels(data).into_iter().map(|name| Frame {
        name,
        file: Some(match place.and_then(|at| at.file.as_deref()) {
            Some(file) => format!("[data] {file}"),
            None => "[data]".to_owned(),
        }),
        line: place.map(|at| at.line).filter(|&line| line > 0),
    });
    code.chain(data).map(|frame| frames.number(frame)).collect()
}

/// Without the line: boxes of one function are to be one, wherever in it a sample was.
fn code_frame(frame: &CodeFrame) -> Frame {
    Frame { name: frame.function.clone(), file: frame.file.clone(), line: None }
}
