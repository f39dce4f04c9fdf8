//! What threads share, as `slimline share` shows it.

use serde::Serialize;
use slimline_analyze::origins::Origins;
use slimline_analyze::sharing::{Cut, FalselyShared, Member, SharedVariable, SharingFindings, Side};
use slimline_simulate::sharing::{SharedLines, Uses};

use crate::full_trace::known;
use crate::simulation::{AccessTrace, DataRow, csv_cell, data_row, file_and_line};

/// Version of the JSON. 1: the first. 2: rows are of threads that take lines from each other time and again; `in_turn`.
pub const SHARING_SCHEMA: u32 = 2;

/// Everything `slimline share` shows, and its JSON. Rows: most accesses first.
#[derive(Clone, Debug, Serialize)]
pub struct SharingReport {
    /// [`SHARING_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// Machine whose first level each thread has for itself.
    pub machine: String,
    /// Bytes of its lines.
    pub line_bytes: u32,
    /// Lines that several threads only loaded: these are in nobody's way.
    pub only_loaded_lines: u64,
    /// Other lines that several threads access and one stores to: they used them one after the other.
    pub in_turn_lines: u64,
    /// What is in these, most accesses first.
    pub in_turn: Vec<NameRow>,
    /// Bytes that one thread stores and another one then accesses, time and again.
    pub shared: Vec<SharedRow>,
    /// Lines that threads take from each other for bytes of their own.
    pub falsely_shared: Vec<FalseRow>,
}

/// What a variable, or a member of one, is.
#[derive(Clone, Debug, Serialize)]
pub struct NameRow {
    /// The variable; none where it is not known.
    pub variable: Option<String>,
    /// Type and member, where they are known.
    pub field: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub data: DataRow,
}

/// A variable, or a member of one, and who accesses it.
#[derive(Clone, Debug, Serialize)]
pub struct MemberRow {
    /// What it is.
    #[serde(flatten)]
    pub name: NameRow,
    /// Accesses by thread, most first.
    pub threads: Vec<ThreadUses>,
    /// Lines of code that access it, most accesses first.
    pub code: Vec<CodeUses>,
}

/// What one thread did.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadUses {
    /// Number of its process in the trace.
    pub process: u32,
    /// The kernel's number.
    pub tid: u32,
    /// How often.
    #[serde(flatten)]
    pub uses: UsesRow,
}

/// What one line of code did.
#[derive(Clone, Debug, Serialize)]
pub struct CodeUses {
    /// File.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
    /// How often.
    #[serde(flatten)]
    pub uses: UsesRow,
}

/// How often.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UsesRow {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Times that the line was gone, as another thread had stored what is accessed.
    pub true_misses: u64,
    /// The same where it had stored other bytes of the line.
    pub false_misses: u64,
}

/// True sharing.
#[derive(Clone, Debug, Serialize)]
pub struct SharedRow {
    /// What is shared.
    #[serde(flatten)]
    pub member: MemberRow,
    /// All accesses.
    pub total: UsesRow,
    /// Of most accesses, the thread that accesses the byte most does so less than twice as often as the next one.
    pub uniform: bool,
    /// Most threads that store to one byte.
    pub writers: u64,
    /// Lines of memory that it is in.
    pub lines: u64,
    /// What to do, in words.
    pub fix: String,
}

/// False sharing.
#[derive(Clone, Debug, Serialize)]
pub struct FalseRow {
    /// What is on the sides; one where threads access elements of the same.
    pub sides: Vec<MemberRow>,
    /// All accesses.
    pub total: UsesRow,
    /// Lines of memory that it happens in.
    pub lines: u64,
    /// Least bytes from what one thread accesses to what another one does.
    pub apart_bytes: u32,
    /// What to do, in words.
    pub fix: String,
}

impl From<Uses> for UsesRow {
    fn from(uses: Uses) -> Self {
        let Uses { loads, stores, true_misses, false_misses } = uses;
        Self { loads, stores, true_misses, false_misses }
    }
}

impl SharingReport {
    /// Of these findings.
    pub fn new(
        trace: AccessTrace,
        machine: &str,
        lines: &SharedLines,
        found: &SharingFindings,
        origins: &Origins,
    ) -> Self {
        let line_bytes = lines.line_bytes();
        Self {
            schema: SHARING_SCHEMA,
            trace,
            machine: machine.to_owned(),
            line_bytes,
            only_loaded_lines: lines.only_loaded(),
            in_turn_lines: found.in_turn_lines,
            in_turn: found.in_turn.iter().map(|member| name_row(*member, origins)).collect(),
            shared: found.shared.iter().map(|shared| shared_row(shared, origins)).collect(),
            falsely_shared: found.falsely.iter().map(|falsely| false_row(falsely, line_bytes, origins)).collect(),
        }
    }

    /// As CSV, a line for each thread and what it shares. `number` is of what is shared together.
    pub fn csv(&self) -> String {
        let mut out =
            "sharing,number,variable,field,process,thread,loads,stores,true_misses,false_misses,lines,writers,\
                       uniform,apart_bytes,fix\n"
                .to_owned();
        let mut row =
            |kind: &str, number: usize, member: &MemberRow, [lines, writers, uniform, apart]: [&str; 4], fix: &str| {
                let name = |name: &Option<String>| csv_cell(name.as_deref().unwrap_or_default());
                let (variable, field) = (name(&member.name.variable), name(&member.name.field));
                for ThreadUses { process, tid, uses } in &member.threads {
                    let UsesRow { loads, stores, true_misses, false_misses } = uses;
                    out +=
                        &format!("{kind},{number},{variable},{field},{process},{tid},{loads},{stores},{true_misses},");
                    out += &format!("{false_misses},{lines},{writers},{uniform},{apart},{}\n", csv_cell(fix));
                }
            };
        for (number, of) in (1..).zip(&self.falsely_shared) {
            let told = [&of.lines.to_string(), "", "", &of.apart_bytes.to_string()];
            of.sides.iter().for_each(|side| row("false", number, side, told, &of.fix));
        }
        for (number, of) in (1..).zip(&self.shared) {
            let told = [&of.lines.to_string(), &of.writers.to_string(), &of.uniform.to_string(), ""];
            row("true", number, &of.member, told, &of.fix);
        }
        out
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

fn name_row(member: Member, origins: &Origins) -> NameRow {
    let data = &origins.data()[member.0 as usize];
    NameRow { variable: known(&data.name), field: known(origins.name(member.1)), data: data_row(data) }
}

fn member_row(member: Member, threads: &[(u32, Uses)], code: &[(u32, Uses)], origins: &Origins) -> MemberRow {
    let thread = |&(thread, uses): &(u32, Uses)| {
        let thread = origins.threads()[thread as usize];
        ThreadUses { process: thread.process, tid: thread.tid, uses: uses.into() }
    };
    let code_uses = |&(name, uses): &(u32, Uses)| {
        let (file, line) = file_and_line(origins.name(name));
        CodeUses { file, line, uses: uses.into() }
    };
    MemberRow {
        name: name_row(member, origins),
        threads: threads.iter().map(thread).collect(),
        code: code.iter().map(code_uses).collect(),
    }
}

fn shared_row(shared: &SharedVariable, origins: &Origins) -> SharedRow {
    let fix = match (shared.writers, shared.is_uniform) {
        (1, _) => {
            "one thread stores and the others load: store it less often, or keep it apart from what is loaded often"
        }
        (_, true) => "a part for each thread, on a line of its own; add them up when all of it is wanted",
        _ => "one thread has most of the accesses: let the others hand it what they have, in larger pieces",
    };
    SharedRow {
        member: member_row(shared.member, &shared.threads, &shared.code, origins),
        total: shared.uses().into(),
        uniform: shared.is_uniform,
        writers: shared.writers,
        lines: shared.lines,
        fix: fix.to_owned(),
    }
}

fn false_row(falsely: &FalselyShared, line_bytes: u32, origins: &Origins) -> FalseRow {
    let side = |side: &Side| member_row(side.member, &side.threads, &side.code, origins);
    let sides: Vec<MemberRow> = falsely.sides.iter().map(side).collect();
    let apart = falsely.apart_bytes;
    let is_one =
        |of: fn(&Member) -> u32| falsely.sides.windows(2).all(|pair| of(&pair[0].member) == of(&pair[1].member));
    let name = |row: &MemberRow| match (&row.name.field, &row.name.variable) {
        (Some(field), _) => field.clone(),
        (None, Some(variable)) => variable.clone(),
        (None, None) => "what is at the other side".to_owned(),
    };
    let before = |member: Member| sides.iter().zip(&falsely.sides).find(|(_, side)| side.member == member);
    let fix = match falsely.cut {
        Cut::Before(member) => {
            let behind = before(member).map(|(row, _)| name(row)).unwrap_or_default();
            match is_one(|member| member.0) {
                true => format!(
                    "alignas({line_bytes}) before {behind}: what one thread stores and others use on lines of their own"
                ),
                false => format!("alignas({line_bytes}) on {behind}, and nothing behind it in its line"),
            }
        }
        Cut::Nowhere if sides.len() > 1 => {
            let names = sides.iter().map(name).collect::<Vec<_>>().join(", ");
            format!("what one thread stores and others use on lines of their own: of {names}")
        }
        Cut::Elements | Cut::Nowhere => format!(
            "threads' elements are {apart} bytes apart: pad each to {line_bytes} bytes (alignas({line_bytes}) on its type)"
        ),
    };
    FalseRow { sides, total: falsely.uses().into(), lines: falsely.lines, apart_bytes: apart, fix }
}
