//! DHAT's data file, version 2, which `dh_view.html` of Valgrind shows: what is allocated where, and how much it is read and
//! written.
//!
//! A program point is a data structure of the heap, with its call path. Of a trace blocks are all that were allocated, bytes the most that
//! lived at a time, and reads and writes are all there were. Of a session blocks and bytes are those that samples and bursts saw, and
//! reads and writes those of bursts: so `dh_view` is told to call them `blocks (seen)` and `bytes (seen)`. Lifetimes are not known
//! (`bklt` is false). DHAT is about the heap: what else is accessed has a program point without blocks.

use std::collections::HashMap;

use serde::Serialize;
use slimline_trace::escape::command_line;

use super::{CodeFrame, CostTable, Counts};
use crate::numbered::Numbered;

/// The format's version.
const VERSION: u32 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    dhat_file_version: u32,
    mode: &'static str,
    verb: &'static str,
    /// Whether lifetimes are told, and accesses.
    bklt: bool,
    bkacc: bool,
    /// What bytes and blocks are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    bu: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bsu: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bksu: Option<&'static str>,
    /// Unit of time, and a million of it: accesses, so that rates are of what was seen.
    tu: &'static str,
    #[serde(rename = "Mtu")]
    million: &'static str,
    cmd: String,
    pid: u32,
    /// Time at the end.
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
    /// Nothing of the format: for people, and other programs.
    remarks: &'a [String],
}

/// A program point.
#[derive(Serialize)]
struct Point {
    /// Bytes and blocks.
    tb: u64,
    tbk: u64,
    /// Bytes read and written.
    rb: u64,
    wb: u64,
    /// Frames, innermost first.
    fs: Vec<u32>,
}

/// The file, as JSON.
pub fn json(table: &CostTable) -> String {
    let (run, total) = (&table.run, table.total());
    let mut costs: Vec<Counts> = vec![Counts::default(); table.groups.len()];
    for row in &table.rows {
        costs[table.data[row.data as usize].group as usize].add(&row.cost);
    }
    let mut frames: Numbered<String> = Numbered::default();
    // The first one is the root, which no point names.
    frames.number("[root]".to_owned());
    let mut points: HashMap<Vec<u32>, Point> = HashMap::new();
    for (group, cost) in table.groups.iter().zip(&costs) {
        let data = match &group.type_name {
            Some(type_name) => format!("{} ({type_name})", group.label()),
            None => group.label(),
        };
        let path = group.allocated_by.iter().map(frame_name);
        // A stack of its own for each structure: the tool takes a repeated one for a mistake.
        let fs: Vec<u32> = [data].into_iter().chain(path).map(|name| frames.number(name)).collect();
        // Only what is allocated has blocks; a static variable is there anyway.
        let is_heap = group.kind == "heap";
        let point = points.entry(fs.clone()).or_insert(Point { tb: 0, tbk: 0, rb: 0, wb: 0, fs });
        point.tb += if is_heap { group.bytes } else { 0 };
        point.tbk += if is_heap { group.blocks } else { 0 };
        point.rb += cost.loaded_bytes;
        point.wb += cost.stored_bytes;
    }
    let mut points: Vec<Point> = points.into_values().filter(|point| point.tb + point.rb + point.wb > 0).collect();
    points.sort_by(|a, b| (b.rb + b.wb).cmp(&(a.rb + a.wb)).then_with(|| a.fs.cmp(&b.fs)));
    let seen = (!run.is_exact).then_some("bytes (seen)");
    let file = File {
        dhat_file_version: VERSION,
        mode: "slimline",
        verb: "Allocated",
        bklt: false,
        bkacc: true,
        bu: seen.map(|_| "byte (seen)"),
        bsu: seen,
        bksu: (!run.is_exact).then_some("blocks (seen)"),
        tu: if run.is_exact { "accesses" } else { "accesses (seen)" },
        million: "M accesses",
        cmd: command_line(&run.command),
        pid: table.threads.first().map_or(0, |thread| thread.pid),
        te: (total.loads + total.stores).max(1),
        pps: points,
        ftbl: frames.into_rows(),
        remarks: &run.remarks,
    };
    let text = serde_json::to_string(&file).expect("a file holds string keys and numbers only");
    slimline_trace::escape::json(&text) + "\n"
}

/// `main (bodies.c:36)`
fn frame_name(frame: &CodeFrame) -> String {
    match &frame.file {
        Some(file) => format!("{} ({file}:{})", frame.function, frame.line),
        None if frame.module.is_empty() => frame.function.clone(),
        None => format!("{} (in {})", frame.function, frame.module),
    }
}
