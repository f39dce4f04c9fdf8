//! Costs by path of code and data, for exports.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use slimline_analyze::cost_paths::{Cost, CostPlace, PathCosts};
use slimline_analyze::fields::Divided;
use slimline_analyze::findings::{Findings, GroupFindings};
use slimline_analyze::origins::{Data, DataKind, Origins};
use slimline_attribute::tables::{Frame, Tables};
use slimline_trace::access::{CallPathId, GroupId, SiteId};
use slimline_trace::session::SessionInfo;

use crate::export::{
    CodeFrame, CostRow, CostTable, CostUnit, Counts, DataField, DataGroup, DataPath, Run, ThreadName, TimedRow,
    UNKNOWN_CODE,
};
use crate::numbered::Numbered;
use crate::simulation::AccessTrace;
use crate::text::{how_sampled, number_alike, told_apart, what_is_missing};
use crate::view::Report;

/// What is left of 1 where parts make up all of it but for rounding.
const ROUNDING: f64 = 1e-9;

/// Of what no memory instruction could be blamed for.
const COMPUTING: &str = "no memory instruction (computing)";

/// The costs of a session, of which `report` is the view.
pub fn session_costs(
    info: &SessionInfo,
    report: &Report,
    tables: &Tables,
    findings: &Findings,
    costs: &PathCosts,
) -> CostTable {
    let groups = findings.groups.iter().map(|group| (group.group, group)).collect();
    let report = &told_apart(report);
    let mut made = FromSession::new(report, tables, groups);
    for (place, cost) in &costs.costs {
        let stack = made.stack(place.path, place.site);
        let &Cost { samples, weight, .. } = cost;
        let spent = (by_weight as Division, Cost { samples, weight, ..Cost::default() });
        let executed = (by_executions as Division, Cost { samples: 0, weight: 0, ..*cost });
        for (division, cost) in [spent, executed] {
            for (data, part) in made.divided(place, division) {
                let part = cost.part(&part);
                if part != Cost::default() {
                    made.rows.entry((stack, data, place.thread.0)).or_default().add(&counts(&part));
                }
            }
        }
    }
    for timed in &costs.timed {
        let stack = made.stack(timed.place.path, timed.place.site);
        let one = Cost { weight: timed.weight, ..Cost::default() };
        for (owner, whole) in tables.owners(timed.place.group, timed.place.site) {
            let whole = whole.unwrap_or(0.0..1.0);
            for (data, part) in made.divided(&CostPlace { group: owner, ..timed.place }, by_weight) {
                let length = whole.end - whole.start;
                let part = whole.start + part.start * length..whole.start + part.end * length;
                let part = if part.end > 1.0 - ROUNDING { part.start..1.0 } else { part };
                let cost = one.part(&part).weight;
                if cost > 0 {
                    let (time_ns, thread) = (timed.time_ns.saturating_sub(info.started_ns), timed.place.thread.0);
                    made.timed.push(TimedRow { time_ns, stack, data, thread, cost });
                }
            }
        }
    }
    let thread =
        |row: &slimline_attribute::tables::Thread| ThreadName { pid: row.pid, tid: row.tid, name: row.name.clone() };
    CostTable {
        run: run_of(info, report),
        frames: made.frames.into_rows(),
        stacks: made.stacks.into_rows(),
        groups: made.data_groups,
        data: made.data.into_rows().into_iter().map(|(group, field)| DataPath { group, field }).collect(),
        threads: tables.threads.iter().map(thread).collect(),
        rows: ranked(made.rows),
        timed: made.timed,
    }
}

/// Which of the ways in which an instruction's cost divides among fields.
type Division = fn(&Divided) -> &[(usize, f64)];

fn by_weight(divided: &Divided) -> &[(usize, f64)] {
    &divided.weight
}

fn by_executions(divided: &Divided) -> &[(usize, f64)] {
    &divided.executions
}

fn counts(cost: &Cost) -> Counts {
    let &Cost { samples, weight, loads, stores, loaded_bytes, stored_bytes } = cost;
    Counts { samples, cost: weight, loads, stores, loaded_bytes, stored_bytes }
}

/// Costliest first.
fn ranked(rows: BTreeMap<(u32, u32, u32), Counts>) -> Vec<CostRow> {
    let mut rows: Vec<CostRow> =
        rows.into_iter().map(|((stack, data, thread), cost)| CostRow { stack, data, thread, cost }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.cost.cost, row.cost.loads + row.cost.stores)));
    rows
}

fn run_of(info: &SessionInfo, report: &Report) -> Run {
    let session = &report.session;
    let mut remarks = vec![format!("{} samples: {}", session.collector, how_sampled(session))];
    remarks.push("loads and stores are those that bursts showed, not all that there were".to_owned());
    remarks.push(
        "a field's cost is its part of what its cache lines cost, by how often each field of a line was accessed"
            .to_owned(),
    );
    remarks.extend(what_is_missing(session));
    remarks.extend(session.notes.iter().cloned());
    Run {
        command: info.command.clone(),
        unit: CostUnit::Sampled(session.weight),
        is_exact: false,
        period_ns: info.collector.period_ns,
        started_unix_ns: info.started_unix_ns,
        duration_ns: info.duration_ns(),
        remarks,
    }
}

/// A data structure's number, and a field of it.
type Path = (u32, Option<DataField>);

struct FromSession<'a> {
    report: &'a Report,
    tables: &'a Tables,
    groups: HashMap<GroupId, &'a GroupFindings>,
    frames: Numbered<CodeFrame>,
    stacks: Numbered<Vec<u32>>,
    known_stacks: HashMap<(Option<CallPathId>, SiteId), u32>,
    data_groups: Vec<DataGroup>,
    known_groups: HashMap<GroupId, u32>,
    data: Numbered<Path>,
    rows: BTreeMap<(u32, u32, u32), Counts>,
    timed: Vec<TimedRow>,
}

impl<'a> FromSession<'a> {
    fn new(report: &'a Report, tables: &'a Tables, groups: HashMap<GroupId, &'a GroupFindings>) -> Self {
        Self {
            report,
            tables,
            groups,
            frames: Numbered::default(),
            stacks: Numbered::default(),
            known_stacks: HashMap::new(),
            data_groups: Vec::new(),
            known_groups: HashMap::new(),
            data: Numbered::default(),
            rows: BTreeMap::new(),
            timed: Vec::new(),
        }
    }

    /// Callers, then the instruction's own inline stack.
    fn stack(&mut self, path: Option<CallPathId>, site: SiteId) -> u32 {
        if let Some(&known) = self.known_stacks.get(&(path, site)) {
            return known;
        }
        let mut stack: Vec<u32> = Vec::new();
        if let Some(path) = path.map(|path| self.tables.call_path(path)) {
            if path.is_cut {
                stack.push(self.frames.number(CodeFrame::unknown_callers()));
            }
            let callers = path.frames.iter().rev().map(|caller| code_frame(&self.tables.callers[caller.index()]));
            stack.extend(callers.map(|frame| self.frames.number(frame)));
        }
        let own = self.tables.site(site).frames.iter().rev().map(code_frame);
        stack.extend(own.map(|frame| self.frames.number(frame)));
        if stack.is_empty() {
            stack.push(self.frames.number(CodeFrame { function: UNKNOWN_CODE.to_owned(), ..CodeFrame::default() }));
        }
        let number = self.stacks.number(stack);
        self.known_stacks.insert((path, site), number);
        number
    }

    /// The fields that a place's cost divides among, with their parts of 1; together they are 1.
    fn divided(&mut self, place: &CostPlace, division: Division) -> Vec<(u32, Range<f64>)> {
        let group = self.group(place.group);
        if place.is_computing {
            let field = DataField { name: COMPUTING.to_owned(), type_name: None };
            return vec![(self.data.number((group, Some(field))), 0.0..1.0)];
        }
        let found = self.groups.get(&place.group).copied();
        let parts = found.and_then(|found| Some((found, division(found.divided.get(&place.site)?))));
        let mut divided: Vec<(u32, Range<f64>)> = Vec::new();
        let mut from = 0.0;
        for (row, part) in
            parts.into_iter().flat_map(|(found, parts)| parts.iter().map(|part| (&found.fields[part.0], part.1)))
        {
            let field = DataField { name: row.name.clone(), type_name: row.type_name.clone() };
            let field = (!row.name.is_empty()).then_some(field);
            let until = (from + part).min(1.0);
            divided.push((self.data.number((group, field)), from..until));
            from = until;
        }
        match divided.last_mut() {
            Some((_, last)) if from > 1.0 - ROUNDING => last.end = 1.0,
            _ => divided.push((self.data.number((group, None)), from..1.0)),
        }
        divided
    }

    fn group(&mut self, id: GroupId) -> u32 {
        if let Some(&known) = self.known_groups.get(&id) {
            return known;
        }
        let row = self.tables.group(id);
        let number = self.data_groups.len() as u32;
        let shown = self.report.groups.iter().find(|group| group.id == id.0);
        let declared = row.declared_at.as_ref().map(|at| CodeFrame {
            file: Some(at.file.clone()),
            line: at.line,
            ..CodeFrame::default()
        });
        self.data_groups.push(DataGroup {
            name: shown.map_or_else(|| row.name.clone(), |group| group.name.clone()),
            kind: shown.map_or_else(|| "unattributed".to_owned(), |group| group.kind.clone()),
            type_name: shown.and_then(|group| group.type_name.clone()),
            place: row.allocated_at.as_ref().map(code_frame).or(declared),
            allocated_by: row.stack.iter().map(code_frame).collect(),
            blocks: row.objects,
            bytes: row.bytes,
        });
        self.known_groups.insert(id, number);
        number
    }
}

fn code_frame(frame: &Frame) -> CodeFrame {
    CodeFrame {
        function: frame.function.clone(),
        module: frame.module.clone(),
        file: frame.position.as_ref().map(|at| at.file.clone()),
        line: frame.position.as_ref().map_or(0, |at| at.line),
    }
}

/// The costs of a trace: its accesses, of which `by_key` tells loads and stores.
/// `pids` are the system's numbers of the trace's processes.
pub fn traced_costs(trace: &AccessTrace, origins: &Origins, by_key: &[Counts], pids: &[(u32, u32)]) -> CostTable {
    let mut frames: Numbered<CodeFrame> = Numbered::default();
    let mut stacks: Numbered<Vec<u32>> = Numbered::default();
    let mut data: Numbered<Path> = Numbered::default();
    let mut groups: Numbered<(u32, u32)> = Numbered::default();
    let mut rows: BTreeMap<(u32, u32, u32), Counts> = BTreeMap::new();
    let place = |line: u32| origins.name(line).rsplit_once(':');
    // What has no line, as a compiler's own code, is of the file that the function is of otherwise.
    let mut files: HashMap<u32, &str> = HashMap::new();
    for of in origins.keys() {
        if let Some((file, _)) = place(of.line) {
            files.entry(of.function).or_insert(file);
        }
    }
    for (key, of) in origins.keys().iter().enumerate() {
        let (file, line) = match place(of.line) {
            Some((file, line)) => (Some(file), line.parse().unwrap_or(0)),
            None => (files.get(&of.function).copied(), 0),
        };
        let file = file.map(str::to_owned);
        let function = match origins.name(of.function) {
            "" => UNKNOWN_CODE,
            function => function,
        };
        let frame = frames.number(CodeFrame { function: function.to_owned(), module: String::new(), file, line });
        let stack = stacks.number(vec![frame]);
        let row = &origins.data()[of.data as usize];
        // What has a name, or was allocated, is one, whichever variable it is accessed by.
        let is_one = !row.name.is_empty() || row.kind == DataKind::Heap;
        let group = groups.number((of.data, if is_one { 0 } else { of.variable }));
        let field = (of.field != 0)
            .then(|| DataField { name: member(origins.name(of.field), row).to_owned(), type_name: None });
        let data = data.number((group, field));
        let counts = by_key.get(key).copied().unwrap_or_default();
        rows.entry((stack, data, of.thread)).or_default().add(&counts);
    }
    let group =
        |&(number, variable): &(u32, u32)| traced_group(&origins.data()[number as usize], origins.name(variable));
    let mut data_groups: Vec<DataGroup> = groups.rows().iter().map(group).collect();
    number_alike(data_groups.iter_mut().map(|group| &mut group.name).collect());
    let thread = |row: &slimline_analyze::origins::Thread| ThreadName {
        pid: pids.iter().find(|(number, _)| *number == row.process).map_or(row.process, |&(_, pid)| pid),
        tid: row.tid,
        name: String::new(),
    };
    CostTable {
        run: Run {
            command: trace.command.clone(),
            unit: CostUnit::Accesses,
            is_exact: true,
            remarks: [format!("each access of the trace {}", trace.file)]
                .into_iter()
                .chain(trace.missing.clone())
                .collect(),
            ..Run::default()
        },
        frames: frames.into_rows(),
        stacks: stacks.into_rows(),
        groups: data_groups,
        data: data.into_rows().into_iter().map(|(group, field)| DataPath { group, field }).collect(),
        threads: origins.threads().iter().map(thread).collect(),
        rows: ranked(rows),
        timed: Vec::new(),
    }
}

/// A member without the type that the data is of: `key` of `node.key`.
fn member<'a>(field: &'a str, data: &Data) -> &'a str {
    let of_type = field.strip_prefix(data.type_name.as_str()).and_then(|rest| rest.strip_prefix('.'));
    of_type.filter(|_| !data.type_name.is_empty()).unwrap_or(field)
}

fn traced_group(data: &Data, variable: &str) -> DataGroup {
    let place = |at: &slimline_analyze::full_trace::findings::Place| CodeFrame {
        function: at.function.clone(),
        module: String::new(),
        file: (!at.file.is_empty()).then(|| at.file.clone()),
        line: at.line,
    };
    let at = &data.allocated_at;
    let name = match (data.name.as_str(), variable, data.type_name.as_str()) {
        ("", "", "") if at.function.is_empty() => data.kind.name().to_owned(),
        ("", "", "") => format!("{}:{}", at.function, at.line),
        ("", "", name) | ("", name, _) | (name, ..) => name.to_owned(),
    };
    let is_placed = !at.file.is_empty() || !at.function.is_empty();
    let is_heap = data.kind == DataKind::Heap;
    DataGroup {
        name,
        kind: data.kind.name().to_owned(),
        type_name: (!data.type_name.is_empty()).then(|| data.type_name.clone()),
        place: is_placed.then(|| place(at)),
        allocated_by: if is_heap { [at].into_iter().chain(&data.callers).map(place).collect() } else { Vec::new() },
        blocks: data.blocks,
        bytes: data.peak_bytes,
    }
}
