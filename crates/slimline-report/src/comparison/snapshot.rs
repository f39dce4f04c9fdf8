//! One side of a comparison: what a session, a trace, a program's types, or JSON of slimline's, tell that can be compared.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use slimline_analyze::comparison::DataKey;
use slimline_analyze::comparison::chance::Sampled;
use slimline_analyze::comparison::layouts::{DeclaredField, DeclaredType, Figures};
use slimline_analyze::comparison::misses::{CacheMisses, DataMisses, Geometry, MachineMisses};
use slimline_analyze::comparison::shares::DataShare;
use slimline_analyze::declared_layout::lines;

use crate::declared_layouts::{LAYOUTS_SCHEMA, LayoutsReport, TypeFilter};
use crate::simulation::SIMULATION_SCHEMA;
use crate::view::{Group, Interval, LayoutMember, Position, Report, SCHEMA};

/// What can be compared of one run or build.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What it was made of, in words: `session`, `layouts`, `simulation`.
    pub kind: &'static str,
    /// What shares are of (`time`).
    pub noun: &'static str,
    /// Types; of a session those of its data.
    pub types: Option<Vec<DeclaredType>>,
    /// Which types these are, where all of them are there.
    pub filter: Option<TypeFilter>,
    /// Shares of data.
    pub data: Option<Vec<DataShare>>,
    /// Whether shares are of all accesses, so that nothing of them is by chance; else they are sampled.
    pub is_exact: bool,
    /// Misses.
    pub machines: Option<Vec<MachineMisses>>,
    /// What of types that were read, or of a trace, is missing, in words.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// Of a session's report.
    pub fn of_report(report: &Report) -> Self {
        let mut types: Vec<DeclaredType> = Vec::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for group in &report.groups {
            let Some(layout) = &group.layout else { continue };
            let row = *by_name.entry(layout.name.clone()).or_insert_with(|| {
                types.push(declared(&layout.name, None, layout.bytes, &layout.members));
                types.len() - 1
            });
            if types[row].figures.bytes == layout.bytes {
                heat(&mut types[row].fields, group);
            }
        }
        // What is advised of a type says where it is declared.
        for advice in &report.advice {
            let group = report.groups.iter().find(|group| group.id == advice.group);
            let row = group.and_then(|group| by_name.get(&group.layout.as_ref()?.name));
            if let (Some(&row), Some(at)) = (row, &advice.declared_at) {
                types[row].place = Some((at.file.clone(), at.line));
            }
        }
        Self {
            kind: "session",
            noun: report.session.weight.noun(),
            types: Some(types),
            data: Some(report.groups.iter().map(data_share).collect()),
            ..Self::default()
        }
    }

    /// Of types as declared.
    pub fn of_layouts(report: &LayoutsReport) -> Self {
        let types = report
            .types
            .iter()
            .map(|layout| declared(&layout.name, layout.declared_at.as_ref(), layout.bytes, &layout.members));
        let missing =
            report.files.iter().flat_map(|file| file.missing.iter().map(|what| format!("{}: {what}", file.path)));
        Self {
            kind: "layouts",
            types: Some(types.collect()),
            filter: Some(report.filter.clone()),
            missing: missing.collect(),
            ..Self::default()
        }
    }

    /// Of JSON that `report`, `layouts` or `simulate` printed.
    ///
    /// # Errors
    /// It is none of these, or of another version of the format; in words.
    pub fn of_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let schema = value["schema"].as_u64();
        let of_version = |known: u32, what: &str| match schema {
            Some(schema) if schema == u64::from(known) => Ok(()),
            Some(schema) => Err(format!("{what} of format {schema}, this slimline reads format {known}: make it anew")),
            None => Err(format!("{what} without its format's number")),
        };
        let damaged = |error: serde_json::Error| format!("damaged: {error}");
        if value.get("session").is_some() && value.get("groups").is_some() {
            of_version(SCHEMA, "a report")?;
            Ok(Self::of_report(&serde_json::from_value(value).map_err(damaged)?))
        } else if value.get("types").is_some() && value.get("filter").is_some() {
            of_version(LAYOUTS_SCHEMA, "layouts")?;
            Ok(Self::of_layouts(&serde_json::from_value(value).map_err(damaged)?))
        } else if value.get("machines").is_some() {
            of_version(SIMULATION_SCHEMA, "a simulation")?;
            Ok(Self::of_simulation(serde_json::from_value(value).map_err(damaged)?))
        } else {
            Err("no JSON of slimline report, layouts or simulate (--format json)".to_owned())
        }
    }

    /// The same with types that its trace declares: data of these has their size and all of their fields, those that no access used, too.
    #[must_use]
    pub fn with_types(mut self, mut types: Vec<DeclaredType>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (row, type_) in types.iter().enumerate() {
            by_name.entry(element_type(&type_.name).to_owned()).or_default().push(row);
        }
        for data in self.data.iter_mut().flatten() {
            let Some(named) = by_name.get(element_type(&data.key.type_name)) else { continue };
            let Some(row) = type_of_data(named, &types, data) else { continue };
            let type_ = &mut types[row];
            data.key.element_bytes = type_.figures.bytes;
            let used: HashMap<&str, f64> =
                data.fields.iter().map(|(path, share)| (path.as_str(), share.value)).collect();
            let mut unused = Vec::new();
            for field in &mut type_.fields {
                match used.get(field.path.as_str()) {
                    Some(share) => field.heat += data.share.value * share,
                    None => unused.push((field.path.clone(), exact(0.0))),
                }
            }
            data.fields.extend(unused);
        }
        self.types = Some(types);
        self
    }

    fn of_simulation(report: Simulated) -> Self {
        let data = report.machines.first().and_then(|machine| machine.by.as_ref()).map(|by| {
            let mut uses: Vec<Vec<&Use>> = vec![Vec::new(); by.data.len()];
            for of in &by.uses {
                uses.get_mut(of.data).into_iter().for_each(|uses| uses.push(of));
            }
            by.data.iter().zip(uses).map(|(row, uses)| traced_share(row, &uses)).collect::<Vec<_>>()
        });
        let missed = |row: Row| DataMisses {
            key: row.key(),
            caches: row.caches.into_iter().map(|cache| (cache.name, cache.misses)).collect(),
        };
        let machine = |machine: Machine| MachineMisses {
            name: machine.name,
            cores: machine.cores,
            accesses: machine.loads.saturating_add(machine.stores),
            // None of instructions where none was fetched.
            caches: machine
                .caches
                .into_iter()
                .filter(Cache::was_asked)
                .map(|cache| CacheMisses { geometry: cache.geometry(), name: cache.name, misses: cache.misses })
                .collect(),
            data: machine.by.map(|by| by.data.into_iter().map(missed).collect()).unwrap_or_default(),
        };
        Self {
            kind: "simulation",
            noun: if data.is_some() { "cycles" } else { "" },
            data,
            is_exact: true,
            machines: Some(report.machines.into_iter().map(machine).collect()),
            missing: report.trace.missing,
            ..Self::default()
        }
    }
}

/// Of [`SimulationReport`](crate::simulation::SimulationReport)'s JSON what is compared.
#[derive(Deserialize)]
struct Simulated {
    #[serde(default)]
    trace: Trace,
    machines: Vec<Machine>,
}

#[derive(Default, Deserialize)]
struct Trace {
    #[serde(default)]
    missing: Vec<String>,
}

#[derive(Deserialize)]
struct Machine {
    name: String,
    cores: Option<u32>,
    loads: u64,
    stores: u64,
    caches: Vec<Cache>,
    by: Option<By>,
}

#[derive(Deserialize)]
struct Cache {
    name: String,
    misses: u64,
    lookups: Option<u64>,
    bytes: Option<u64>,
    ways: Option<u32>,
    line_bytes: Option<u32>,
}

impl Cache {
    fn was_asked(&self) -> bool {
        self.lookups != Some(0)
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { bytes: self.bytes?, ways: self.ways?, line_bytes: self.line_bytes? })
    }
}

#[derive(Deserialize)]
struct By {
    data: Vec<Row>,
    /// What earlier versions printed has none.
    #[serde(default)]
    uses: Vec<Use>,
}

#[derive(Deserialize)]
struct Use {
    data: usize,
    field: Option<String>,
    share: f64,
}

#[derive(Deserialize)]
struct Row {
    name: Option<String>,
    #[serde(default)]
    kind: String,
    #[serde(rename = "type")]
    type_name: Option<String>,
    allocated_at: Option<Place>,
    declared_at: Option<Place>,
    #[serde(default)]
    callers: Vec<Place>,
    share: f64,
    caches: Vec<Cache>,
}

impl Row {
    fn key(&self) -> DataKey {
        let line = |place: &Option<Place>| place.as_ref().and_then(|place| place.line);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        DataKey {
            name: text(&self.name),
            kind: self.kind.clone(),
            function: self.allocated_at.as_ref().map(|place| text(&place.function)).unwrap_or_default(),
            type_name: text(&self.type_name),
            element_bytes: 0,
            callers: self.callers.iter().map(|caller| text(&caller.function)).collect(),
            line: line(&self.allocated_at).or(line(&self.declared_at)).unwrap_or(0),
        }
    }
}

fn exact(value: f64) -> Sampled {
    Sampled { value, low: value, high: value }
}

/// `body` of `struct body[64]`, as declared types are called in whatever language.
fn element_type(name: &str) -> &str {
    let kinds = ["struct ", "union ", "class "];
    let name = kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    match name.strip_suffix(']').and_then(|array| array.split_once('[')) {
        Some((element, _)) if !element.is_empty() => element.trim_end(),
        _ => name,
    }
}

/// The type that data is of, of those of its name: of several the one that has most of the fields that were used; none where more than one has.
fn type_of_data(named: &[usize], types: &[DeclaredType], data: &DataShare) -> Option<usize> {
    let used = |row: usize| {
        let paths: HashSet<&str> = types[row].fields.iter().map(|field| field.path.as_str()).collect();
        data.fields.iter().filter(|(path, _)| paths.contains(path.as_str())).count()
    };
    let [first, others @ ..] = named else { return None };
    let mut best = (used(*first), Some(*first));
    for &row in others {
        let used = used(row);
        match used.cmp(&best.0) {
            Ordering::Greater => best = (used, Some(row)),
            Ordering::Equal => best.1 = None,
            Ordering::Less => {}
        }
    }
    best.1
}

/// Of all accesses, with the shares of its fields: of those of its own type by their paths.
fn traced_share(row: &Row, uses: &[&Use]) -> DataShare {
    let key = row.key();
    let own = format!("{}.", element_type(&key.type_name));
    let mut fields: Vec<(String, f64)> = Vec::new();
    let mut by_path: HashMap<String, usize> = HashMap::new();
    for of in uses {
        let Some(field) = &of.field else { continue };
        let path = element_type(field);
        let path = path.strip_prefix(&own).unwrap_or(path).replace("[]", "");
        let part = if row.share > 0.0 { of.share / row.share } else { 0.0 };
        let at = *by_path.entry(path).or_insert_with_key(|path| {
            fields.push((path.clone(), 0.0));
            fields.len() - 1
        });
        fields[at].1 += part;
    }
    let fields = fields.into_iter().map(|(name, share)| (name, exact(share))).collect();
    DataShare { key, share: exact(row.share), fields }
}

#[derive(Default, Deserialize)]
struct Place {
    function: Option<String>,
    line: Option<u32>,
}

fn data_share(group: &Group) -> DataShare {
    let place = group.allocated_at.as_ref();
    let declared_line = group.declared_at.as_ref().map_or(0, |at| at.line);
    let key = DataKey {
        name: group.name.clone(),
        kind: group.kind.clone(),
        function: place.map_or_else(String::new, |place| place.function.clone()),
        type_name: group.type_name.clone().unwrap_or_default(),
        element_bytes: group.element_bytes.unwrap_or_default(),
        callers: place
            .map_or_else(Vec::new, |place| place.stack.iter().skip(1).map(|frame| function_of(frame)).collect()),
        line: place.map_or(declared_line, |place| place.line),
    };
    let fields = group.fields.iter();
    DataShare {
        key,
        share: sampled(group.share, group.share_interval),
        fields: fields.map(|field| (field.name.clone(), sampled(field.share, field.share_interval))).collect(),
    }
}

/// The function of `function file:line`.
fn function_of(frame: &str) -> String {
    let is_place = |place: &str| place.rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok());
    match frame.rsplit_once(' ') {
        Some((function, place)) if is_place(place) => function.to_owned(),
        _ => frame.to_owned(),
    }
}

fn sampled(value: f64, interval: Interval) -> Sampled {
    Sampled { value, low: interval.low, high: interval.high }
}

/// Gives fields of a type the shares that those of a group have.
fn heat(fields: &mut [DeclaredField], group: &Group) {
    for measured in &group.fields {
        let holds = |field: &&mut DeclaredField| {
            (field.offset..field.offset.saturating_add(field.bytes)).contains(&measured.offset)
        };
        if let Some(field) = fields.iter_mut().find(holds) {
            field.heat += group.share * measured.share;
        }
    }
}

/// A type by its members: its own holes (those of structures with a name are of these), and its fields by their paths. A session's
/// report has nothing else, and both sides are to be counted alike.
fn declared(name: &str, place: Option<&Position>, bytes: u64, members: &[LayoutMember]) -> DeclaredType {
    let mut figures = Figures { bytes, lines: lines(bytes), ..Figures::default() };
    let mut fields = Vec::new();
    let mut open: Vec<&LayoutMember> = Vec::new();
    let variants = format!("{name}::");
    for member in members {
        open.truncate(open.iter().position(|outer| outer.depth >= member.depth).unwrap_or(open.len()));
        if member.is_hole() {
            let is_own = |outer: &&LayoutMember| outer.name.is_empty() || outer.type_name.starts_with(&variants);
            if open.iter().all(is_own) {
                let sum = if member.padding { &mut figures.padding_bytes } else { &mut figures.hole_bytes };
                *sum = sum.saturating_add(member.bytes);
            }
        } else if member.nested {
            open.push(member);
        } else {
            // A base's fields are written as the class's own.
            let outer = open.iter().filter(|outer| !outer.name.is_empty() && outer.name != outer.type_name);
            let parts: Vec<&str> = outer.map(|outer| outer.name.as_str()).chain([member.name.as_str()]).collect();
            let (offset, bytes) = match member.bits {
                Some((first, bits)) => {
                    let (first, end) = (u64::from(first), u64::from(first) + u64::from(bits));
                    (member.offset.saturating_add(first / 8), end.div_ceil(8) - first / 8)
                }
                None => (member.offset, member.bytes),
            };
            fields.push(DeclaredField { path: parts.join("."), offset, bytes, heat: 0.0 });
        }
    }
    let place = place.map(|at| (at.file.clone(), at.line));
    DeclaredType { name: name.to_owned(), place, figures, fields }
}
