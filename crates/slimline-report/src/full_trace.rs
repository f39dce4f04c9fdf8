//! What a full trace says, as `slimline trace` shows it.

use std::collections::BTreeMap;

use serde::Serialize;
use slimline_analyze::full_trace::Accesses;
use slimline_analyze::full_trace::checks::Violations;
use slimline_analyze::full_trace::findings::{HeapRow, NameRow, Place, SiteRow, TraceFindings};
use slimline_analyze::full_trace::sampling::LookedUp;
use slimline_analyze::full_trace::splitting::{StructureFindings, Verdict};
use slimline_analyze::full_trace::values::{Range, Values};
use slimline_trace::session::End;
use slimline_trace::stream::sites::ValueKind;

use crate::text::number::{plural, plural_of};

/// What is missing where blocks were freed that nobody knew: of one, of several.
pub const UNKNOWN_FREES: [&str; 2] =
    ["block was freed whose allocation was not traced", "blocks were freed whose allocation was not traced"];

/// What is missing where children were forked of which nobody knows what they inherited: of one, of several.
pub const UNKNOWN_FORKS: [&str; 2] = [
    "forked process does not know the allocations that it inherited: the fork was not recorded in its parent",
    "forked processes do not know the allocations that they inherited: their forks were not recorded in their parents",
];

/// Version of the JSON. 1: the first. 2: `looked_up`, `not_looked_up`; of blocks `variable`.
pub const TRACE_SCHEMA: u32 = 2;

/// Everything `slimline trace` shows, and its JSON. Rows: most accesses first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceReport {
    /// [`TRACE_SCHEMA`].
    pub schema: u32,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Each process, or program that it ran.
    pub processes: Vec<TracedProcess>,
    /// How the program ended, if that is known.
    pub end: Option<ProgramEnd>,
    /// How many windows were traced, if only those were.
    pub windows: Option<u32>,
    /// What is missing, in words; empty where nothing is.
    pub missing: Vec<String>,
    /// Where not all was to be traced: functions in whose loops that takes no effect.
    pub unasked: Vec<UnaskedFunction>,
    /// Accesses that filters leave out; none where there are no filters.
    pub left_out: Option<u64>,
    /// All accesses.
    pub total: Counts,
    /// Those to blocks of the heap.
    pub heap_total: Counts,
    /// How much was looked up, where not all was: then blocks, and fields that follow from them, are estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_up: Option<Sampled>,
    /// Accesses that are in no group's counts, as none of their instructions was looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_looked_up: Option<NotLookedUp>,
    /// By allocation site.
    pub heap: Vec<HeapGroup>,
    /// By variable.
    pub variables: Vec<Variable>,
    /// By type and field; of what is in no structure by the type of what it lies in, as that of an array's elements. What accesses several at once, as a copy does, counts for each.
    pub fields: Vec<Named>,
    /// Structures with the accesses to their fields, and which to split.
    pub structures: Vec<StructureCounts>,
    /// By function.
    pub functions: Vec<Function>,
    /// By line.
    pub lines: Vec<Named>,
    /// By instruction.
    pub sites: Vec<SiteCount>,
    /// What was loaded and stored, where the program tells; most values first.
    pub values: Vec<NamedValues>,
}

/// How much of a run was looked up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sampled {
    /// Accesses of which it was looked up whose they are.
    pub accesses: u64,
    /// Of all of these.
    pub of: u64,
    /// Accesses that filters want of instructions of which none was looked up.
    pub unseen: u64,
    /// Parts of the run that were looked up: a chunk each, or what a thread wrote of it between two waits for others.
    pub parts: u64,
}

impl From<LookedUp> for Sampled {
    fn from(LookedUp { accesses, of, unseen, parts }: LookedUp) -> Self {
        Self { accesses, of, unseen, parts }
    }
}

/// Accesses of instructions of which none was looked up: whose they are nobody knows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NotLookedUp {
    /// How much.
    #[serde(flatten)]
    pub counts: Counts,
    /// By type and field, as the instructions tell them.
    pub fields: Vec<Named>,
}

/// What was loaded and stored under one name, of one size.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NamedValues {
    /// Type and field, else the variable; `None` where neither is known.
    pub name: Option<String>,
    /// `integer`, `float` or `pointer`.
    pub kind: &'static str,
    /// Bytes of each.
    pub bytes: u32,
    /// How many values.
    pub values: u64,
    /// How many of them are zero.
    pub zeros: u64,
    /// The least, as text: JSON's numbers are not exact.
    pub least: Option<String>,
    /// The greatest.
    pub greatest: Option<String>,
    /// About how many different ones; `None` where there are too many to tell.
    pub distinct: Option<u64>,
    /// The narrowest type of C that holds them all.
    pub narrowest: Option<&'static str>,
}

/// The least and the greatest as text: integers need more digits than a JSON number keeps.
pub(crate) fn bounds(range: Range) -> (String, String) {
    match range {
        Range::Unsigned(least, greatest) => (least.to_string(), greatest.to_string()),
        Range::Signed(least, greatest) => (least.to_string(), greatest.to_string()),
        Range::Float(least, greatest) => (least.to_string(), greatest.to_string()),
    }
}

impl From<&(String, Values)> for NamedValues {
    fn from((name, values): &(String, Values)) -> Self {
        let told = |range| match range {
            Range::Unsigned(least, greatest) if values.kind == ValueKind::Pointer => {
                (format!("{least:#x}"), format!("{greatest:#x}"))
            }
            range => bounds(range),
        };
        let (least, greatest) = values.range().map(told).unzip();
        let kind = match values.kind {
            ValueKind::Integer | ValueKind::Signed | ValueKind::Unsigned => "integer",
            ValueKind::Float => "float",
            ValueKind::Pointer => "pointer",
        };
        Self {
            name: (!name.is_empty()).then(|| name.clone()),
            kind,
            bytes: values.bytes,
            values: values.count,
            zeros: values.zeros,
            least,
            greatest,
            distinct: values.distinct(),
            narrowest: values.narrowest(),
        }
    }
}

/// A structure and the accesses to its fields.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StructureCounts {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u32,
    /// Accesses, counted for each field that they touch.
    pub accesses: u64,
    /// Those of them of which no field is known.
    pub elsewhere: u64,
    /// `split`, or why not: `nothing_cold`, `little_cold`, `one_object`, `not_plain`, `unclear`, `foreign`,
    /// `one_field`, `small`, `not_live`.
    pub verdict: &'static str,
    /// In their order.
    pub fields: Vec<FieldAccesses>,
    /// The definitions after the split; empty where there is none.
    pub code: String,
}

/// A field of a structure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FieldAccesses {
    /// Its name; of those that share bytes all of them.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// From the structure's beginning.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Loads and stores that touch it.
    pub accesses: u64,
    /// It is accessed far less than the others.
    pub cold: bool,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgramEnd {
    /// Its exit status; none where a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it: its number.
    pub signal: Option<i32>,
    /// That signal's name.
    pub signal_name: Option<&'static str>,
}

impl ProgramEnd {
    /// None of a program that runs on, or of which nobody knows.
    pub fn of(end: End) -> Option<Self> {
        match end {
            End::Exited { status } => Some(Self { status: Some(status), ..Self::default() }),
            End::Signaled { signal } => {
                Some(Self { status: None, signal: Some(signal), signal_name: signal_name(signal) })
            }
            End::Detached | End::Gone => None,
        }
    }
}

/// The name of a signal that may end a program, on Linux.
fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    NAMES.get(usize::try_from(signal).ok()?.checked_sub(1)?).copied()
}

/// A function that asks whether it is to be traced when it begins, but not in all of its loops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnaskedFunction {
    /// As in the source.
    pub function: String,
    /// Its file, where it is known.
    pub file: Option<String>,
    /// Why.
    pub reason: String,
}

/// What ran, and how.
#[derive(Clone, Debug, Default)]
pub struct TracedRun {
    /// Program and arguments.
    pub command: Vec<String>,
    /// How it ended, if it did.
    pub end: Option<End>,
    /// Windows that were traced, if only those were.
    pub windows: Option<u32>,
    /// Not all was to be traced.
    pub is_gated: bool,
    /// Some accesses were asked for only.
    pub is_filtered: bool,
    /// What it lacks.
    pub missing: Vec<String>,
}

/// A process that was traced.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TracedProcess {
    /// Its number.
    pub pid: u32,
    /// Path of its program.
    pub program: String,
    /// Threads that wrote anything.
    pub threads: u64,
    /// Words of its trace.
    pub words: u64,
    /// How long its threads waited for the analysis, together.
    pub waited_ns: u64,
}

/// Loads, stores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Loads and stores.
    pub accesses: u64,
    /// Loads; an atomic update is a load and a store.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Bytes loaded.
    pub loaded_bytes: u64,
    /// Bytes stored.
    pub stored_bytes: u64,
}

/// What all that has one name accessed.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// The name; `None` for all that has none.
    pub name: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A variable.
#[derive(Clone, Debug, Serialize)]
pub struct Variable {
    /// Name and accesses.
    #[serde(flatten)]
    pub named: Named,
    /// Half the width of the interval (95 %) of its share of all accesses, where it is an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_error: Option<f64>,
}

/// A function as in the source, what was inlined into it not counted.
#[derive(Clone, Debug, Serialize)]
pub struct Function {
    /// Name and accesses.
    #[serde(flatten)]
    pub named: Named,
    /// Times that it was called; `None` of one that was inlined wherever it ran.
    pub calls: Option<u64>,
}

/// One instruction.
#[derive(Clone, Debug, Serialize)]
pub struct SiteCount {
    /// Where.
    #[serde(flatten)]
    pub position: Position,
    /// Where in a library that is, if it was inlined from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inlined: Option<Position>,
    /// `load`, `store`, `copy` …
    pub kind: &'static str,
    /// Of code that was translated, the instruction's address in its file, as linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What it accesses, where that is known.
    pub variable: Option<String>,
    /// Type and field, where they are known.
    pub field: Option<String>,
    /// Times that it ran.
    pub executions: u64,
    /// How much.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A position in the source.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Position {
    /// The function, where it is known.
    pub function: Option<String>,
    /// The file, where it is known.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
}

/// What was allocated at one place.
#[derive(Clone, Debug, Serialize)]
pub struct HeapGroup {
    /// Where.
    #[serde(flatten)]
    pub position: Position,
    /// The functions that this was inlined into, innermost first, each with where it calls; behind them the function that called, without a
    /// line, where that is in a library, or all that did, where that was asked for.
    pub callers: Vec<Position>,
    /// Whether that is in the source of a language's own library.
    pub in_library: bool,
    /// The function that was called.
    pub allocator: Option<String>,
    /// The variable that holds the blocks, or that most accesses to them went by, where it is known.
    pub variable: Option<String>,
    /// The type, where it is known.
    pub type_name: Option<String>,
    /// Blocks allocated.
    pub blocks: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// The most that lived at a time.
    pub peak_bytes: u64,
    /// Accesses to them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Half the width of the interval (95 %) of their share of all accesses, where it is an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_error: Option<f64>,
    /// Of what was looked up nothing was an access to them, and not all was: how many there are is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_not_looked_up: bool,
    /// By type and field.
    pub fields: Vec<Named>,
}

impl TraceReport {
    /// The report of these findings. To what the run lacks that is added which the trace itself tells.
    pub fn new(
        run: TracedRun,
        processes: Vec<TracedProcess>,
        findings: &TraceFindings,
        violations: &Violations,
    ) -> Self {
        let TracedRun { command, end, windows, is_gated, is_filtered, mut missing } = run;
        let unasked = |(place, reason): &(Place, String)| UnaskedFunction {
            function: place.function.clone(),
            file: known(&place.file),
            reason: reason.clone(),
        };
        // Where everything is traced nobody needs to ask.
        let is_told = is_gated || findings.total.count() == 0;
        let mut add = |count: u64, one: &str, several: &str| {
            if count > 0 {
                missing.push(plural_of(count, one, several));
            }
        };
        add(
            findings.skipped_functions,
            "function was left as it was by the compiler",
            "functions were left as they were by the compiler",
        );
        let [one, several] = UNKNOWN_FREES;
        add(findings.unknown_blocks.frees, one, several);
        let [one, several] = UNKNOWN_FORKS;
        add(findings.unknown_blocks.forks, one, several);
        add(
            findings.mixed_values,
            "value is left out, of an instruction that accesses what was not asked for, too",
            "values are left out of instructions that access what was not asked for, too",
        );
        add(
            violations.bad_addresses,
            "address that no program has: the trace is damaged",
            "addresses that no program has: the trace is damaged",
        );
        add(
            violations.sequence_gaps,
            "gap in the order of chunks: the trace is damaged",
            "gaps in the order of chunks: the trace is damaged",
        );
        add(
            violations.short_records,
            "record without all of its words: the trace is damaged",
            "records without all of their words: the trace is damaged",
        );
        missing.extend(untraced(&findings.untraced));
        Self {
            schema: TRACE_SCHEMA,
            command,
            processes,
            end: end.and_then(ProgramEnd::of),
            windows,
            missing,
            unasked: findings.unasked.iter().filter(|_| is_told).map(unasked).collect(),
            left_out: is_filtered.then(|| findings.unwanted.count()),
            total: findings.total.into(),
            heap_total: findings.heap_total.into(),
            looked_up: findings.looked_up.map(Sampled::from),
            not_looked_up: (findings.not_looked_up.count() > 0).then(|| NotLookedUp {
                counts: findings.not_looked_up.into(),
                fields: named(&findings.fields_not_looked_up),
            }),
            heap: findings.heap.iter().map(|row| HeapGroup::of(row, findings.not_looked_up.count() > 0)).collect(),
            variables: named(&findings.variables)
                .into_iter()
                .map(|named| {
                    let share_error = findings.variable_errors.get(named.name.as_deref().unwrap_or_default()).copied();
                    Variable { named, share_error }
                })
                .collect(),
            fields: named(&findings.fields),
            structures: findings.structures.iter().map(StructureCounts::from).collect(),
            functions: named(&findings.functions)
                .into_iter()
                .map(|named| {
                    let calls = named.name.as_ref().and_then(|name| findings.calls.get(name)).copied();
                    Function { named, calls }
                })
                .collect(),
            lines: named(&findings.lines),
            sites: findings.sites.iter().map(SiteCount::from).collect(),
            values: findings.values.iter().map(NamedValues::from).collect(),
        }
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

/// What ran that may access memory, nobody knows where, each with how often: in words, if there is any.
pub fn untraced(times: &BTreeMap<String, u64>) -> Option<String> {
    let each = times.iter().map(|(what, times)| {
        let what = if what.is_empty() { "something" } else { what };
        format!("{what} ran {}", plural(*times, "time"))
    });
    let each: Vec<_> = each.collect();
    (!each.is_empty()).then(|| format!("{}: what that accessed is not known", each.join(", ")))
}

fn named(rows: &[NameRow]) -> Vec<Named> {
    rows.iter().map(|row| Named { name: known(&row.name), counts: row.accesses.into() }).collect()
}

pub(crate) fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl From<Accesses> for Counts {
    fn from(accesses: Accesses) -> Self {
        let Accesses { loads, stores, loaded_bytes, stored_bytes } = accesses;
        Self { accesses: accesses.count(), loads, stores, loaded_bytes, stored_bytes }
    }
}

impl From<&StructureFindings> for StructureCounts {
    fn from(found: &StructureFindings) -> Self {
        let verdict = match found.verdict {
            Verdict::Split => "split",
            Verdict::NotLive => "not_live",
            Verdict::Small => "small",
            Verdict::OneField => "one_field",
            Verdict::NothingCold => "nothing_cold",
            Verdict::Unclear => "unclear",
            Verdict::Foreign => "foreign",
            Verdict::LittleCold => "little_cold",
            Verdict::OneObject => "one_object",
            Verdict::NotPlain => "not_plain",
        };
        let fields = found.fields.iter().map(|field| FieldAccesses {
            name: field.name.clone(),
            type_name: field.type_name.clone(),
            offset: field.offset_bytes,
            bytes: field.bytes,
            accesses: field.accesses,
            cold: field.is_cold,
        });
        Self {
            name: found.name.clone(),
            bytes: found.bytes,
            accesses: found.accesses,
            elsewhere: found.elsewhere,
            verdict,
            fields: fields.collect(),
            code: found.code.clone(),
        }
    }
}

impl From<&Place> for Position {
    fn from(place: &Place) -> Self {
        let number = |number: u32| (number != 0).then_some(number);
        let Place { function, file, line, column } = place;
        Self { function: known(function), file: known(file), line: number(*line), column: number(*column) }
    }
}

impl From<&SiteRow> for SiteCount {
    fn from(row: &SiteRow) -> Self {
        Self {
            position: (&row.place).into(),
            inlined: row.inlined.as_ref().map(Position::from),
            kind: row.kind.name(),
            address: known(&row.address),
            variable: known(&row.variable),
            field: known(&row.field),
            executions: row.visits,
            counts: row.accesses.into(),
        }
    }
}

impl HeapGroup {
    /// Of a run in which there are instructions of which nothing was looked up, or none.
    fn of(row: &HeapRow, is_some_not_looked_up: bool) -> Self {
        Self {
            position: (&row.place).into(),
            callers: row.callers.iter().map(Position::from).collect(),
            in_library: row.is_librarys,
            allocator: known(&row.allocator),
            variable: known(&row.variable),
            type_name: known(&row.type_name),
            blocks: row.blocks,
            allocated_bytes: row.bytes,
            peak_bytes: row.peak_bytes,
            counts: row.accesses.into(),
            share_error: row.share_error,
            is_not_looked_up: is_some_not_looked_up && row.accesses.count() == 0,
            fields: named(&row.fields),
        }
    }
}
