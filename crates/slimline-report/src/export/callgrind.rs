//! Callgrind's profile format (Valgrind's manual, "Callgrind Format Specification"), which `callgrind_annotate` and KCachegrind read.
//!
//! Code is as callgrind writes it: objects, files, functions, lines, and calls with what they cost. The format knows no data, so a
//! data structure is a function that code calls, and a field one that the structure calls, in the "object" of its kind:
//!
//! ```text
//!   ob=bodies   fl=bodies.c  fn=drift      line 30 ──calls──► ob=heap  fn=bodies ──calls──► fn=bodies::x
//!                 cost of code, `time`                          cost of data, `data_time`, with loads and stores
//! ```
//!
//! Were both counted as one event, everything would be there twice. So each is an event of its own with the same sum, and tools
//! show one at a time or side by side. Structures stand at the line that declares or allocates them; fields are grouped by
//! structure where a tool groups by class. A call's number is that of its samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};

use slimline_trace::escape::command_line;

use super::{CodeFrame, CostTable, Counts, PROGRAM, one_line};

/// Cost of code and of data, loads and stores of data.
type Events = [u64; 4];

/// Object, file and function.
type Function = (String, String, String);

/// Where a call is, and what it calls.
type Call = (u32, Function);

#[derive(Default)]
struct Profile {
    /// Costs by function and line.
    own: BTreeMap<Function, BTreeMap<u32, Events>>,
    /// Calls by caller, with the number of samples, of a trace of accesses.
    calls: BTreeMap<Function, BTreeMap<Call, (u64, Events)>>,
    /// The first line known of a function.
    first_line: HashMap<Function, u32>,
}

/// Writes the profile.
///
/// # Errors
/// As `out`.
pub fn write(out: &mut impl Write, table: &CostTable) -> fmt::Result {
    let mut profile = Profile::default();
    table.rows.iter().for_each(|row| profile.add(table, row.stack, row.data, &row.cost));
    head(out, table)?;
    let mut names = Names::default();
    let functions: BTreeSet<&Function> = profile.own.keys().chain(profile.calls.keys()).collect();
    for function in functions {
        writeln!(out)?;
        names.write(out, ["ob", "fl", "fn"], function)?;
        for (line, events) in profile.own.get(function).into_iter().flatten() {
            writeln!(out, "{line}{}", Costs(events))?;
        }
        for ((line, called), (calls, events)) in profile.calls.get(function).into_iter().flatten() {
            names.write(out, ["cob", "cfi", "cfn"], called)?;
            // Of what only bursts showed there is no sample, but 0 calls are one that still runs to KCachegrind.
            writeln!(out, "calls={} {}", (*calls).max(1), profile.first_line.get(called).copied().unwrap_or(0))?;
            writeln!(out, "{line}{}", Costs(events))?;
        }
    }
    Ok(())
}

fn head(out: &mut impl Write, table: &CostTable) -> fmt::Result {
    let (run, total) = (&table.run, table.total());
    writeln!(out, "# callgrind format\nversion: 1\ncreator: {PROGRAM}\ncmd: {}", command_line(&run.command))?;
    for remark in &run.remarks {
        writeln!(out, "desc: Remark: {}", one_line(remark))?;
    }
    let noun = run.unit.noun();
    let (cost, counted) = (cost_event(table), if run.is_exact { "" } else { ", sampled" });
    writeln!(out, "positions: line")?;
    writeln!(out, "event: {cost} : {noun} by code ({}{counted})", run.unit.unit())?;
    writeln!(out, "event: data_{cost} : {noun} by data ({}{counted})", run.unit.unit())?;
    let seen = if run.is_exact { "" } else { " seen in bursts" };
    writeln!(out, "event: loads : loads by data{seen}\nevent: stores : stores by data{seen}")?;
    writeln!(out, "events: {cost} data_{cost} loads stores")?;
    writeln!(out, "summary: {0} {0} {1} {2}", total.cost, total.loads, total.stores)
}

/// The event that code costs: its unit, where that has a name.
fn cost_event(table: &CostTable) -> String {
    match (table.run.unit.noun(), table.run.unit.unit()) {
        (noun, "nanoseconds") => format!("{noun}_ns"),
        (noun, "cycles") => format!("{noun}_cycles"),
        (noun, _) => noun.to_owned(),
    }
}

impl Profile {
    fn add(&mut self, table: &CostTable, stack: u32, data: u32, cost: &Counts) {
        let code: Vec<(Function, u32)> = table.stacks[stack as usize]
            .iter()
            .map(|&frame| &table.frames[frame as usize])
            .map(|frame| (function(frame), frame.line))
            .collect();
        let data = data_functions(table, data);
        for (function, line) in code.iter().chain(&data) {
            let first = self.first_line.entry(function.clone()).or_insert(*line);
            *first = if *first == 0 { *line } else { (*first).min((*line).max(1)) };
        }
        let on_code = [cost.cost, 0, 0, 0];
        let on_data = [0, cost.cost, cost.loads, cost.stores];
        let both = [cost.cost, cost.cost, cost.loads, cost.stores];
        if let Some((function, line)) = code.last() {
            self.spend(function, *line, on_code);
        }
        if let Some((function, line)) = data.last() {
            self.spend(function, *line, on_data);
        }
        // A recursion's calls cost once what is below them.
        let mut seen: BTreeSet<(&Function, u32, &Function)> = BTreeSet::new();
        let path: Vec<&(Function, u32)> = code.iter().chain(&data).collect();
        for (depth, pair) in path.windows(2).enumerate() {
            let [(caller, line), (called, _)] = [pair[0], pair[1]];
            if seen.insert((caller, *line, called)) {
                let events = if depth + 1 < code.len() { both } else { on_data };
                let calls = self.calls.entry(caller.clone()).or_default();
                let known = calls.entry((*line, called.clone())).or_default();
                known.0 += if table.run.is_exact { cost.cost } else { cost.samples };
                add(&mut known.1, events);
            }
        }
    }

    fn spend(&mut self, function: &Function, line: u32, events: Events) {
        if events != [0; 4] {
            add(self.own.entry(function.clone()).or_default().entry(line).or_default(), events);
        }
    }
}

fn add(into: &mut Events, events: Events) {
    into.iter_mut().zip(events).for_each(|(sum, more)| *sum += more);
}

fn function(frame: &CodeFrame) -> Function {
    let known = |text: &str| if text.is_empty() { "???".to_owned() } else { one_line(text) };
    (known(&frame.module), known(frame.file.as_deref().unwrap_or_default()), known(&frame.function))
}

/// The structure, and its field where there is one, with the line that declares or allocates it.
fn data_functions(table: &CostTable, data: u32) -> Vec<(Function, u32)> {
    let group = table.group_of(data);
    let place = group.place.clone().unwrap_or_default();
    let of = |name: &str| {
        let (_, file, name) = function(&CodeFrame { function: name.to_owned(), ..place.clone() });
        ((one_line(&group.kind), file, name), place.line)
    };
    let field = table.data[data as usize].field.as_ref();
    let field = field.map(|field| of(&format!("{}::{}", group.name, field.name)));
    [of(&group.name)].into_iter().chain(field).collect()
}

/// Costs without the zeros at their end, as callgrind leaves them out.
struct Costs<'a>(&'a Events);

impl fmt::Display for Costs<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.iter().rposition(|&cost| cost > 0).map_or(1, |last| last + 1);
        self.0[..told].iter().try_for_each(|cost| write!(out, " {cost}"))
    }
}

/// Names get a number when they are first written, and are the number from then on.
#[derive(Default)]
struct Names([HashMap<String, usize>; 3]);

impl Names {
    fn write(&mut self, out: &mut impl Write, keys: [&str; 3], function: &Function) -> fmt::Result {
        let (object, file, name) = function;
        for ((key, name), known) in keys.into_iter().zip([object, file, name]).zip(&mut self.0) {
            let next = known.len() + 1;
            match known.get(name) {
                Some(number) => writeln!(out, "{key}=({number})")?,
                None => {
                    known.insert(name.clone(), next);
                    writeln!(out, "{key}=({next}) {name}")?;
                }
            }
        }
        Ok(())
    }
}
