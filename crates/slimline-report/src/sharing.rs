//! What threads share, as `slimline share` shows it.

use serde::Serialize;
use slimline_analyze::origins::Origins;
use slimline_analyze::sampled_sharing::{ENOUGH_LOOKS, Sampled, SampledFindings};
use slimline_analyze::sharing::{
    Cut, FalselyShared, LEAST_COST, LEAST_OVERLAP, Member, SharedVariable, SharingFindings, Side, Way,
};
use slimline_simulate::sharing::Uses;

use crate::full_trace::known;
use crate::simulation::{AccessTrace, DataRow, csv_cell, data_row, file_and_line};
use crate::view::Interval;

/// Version of the JSON. 1: the first. 2: rows are of threads that take lines from each other time and again; `in_turn`.
/// 3: `cost_share`, `way`; of sessions `sampled`. 4: `beside`, `overlap`. 5: `alone_accesses`. 6: `pid` of threads, which may be of several
/// processes.
pub const SHARING_SCHEMA: u32 = 6;

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
    /// Of what all threads but the busiest accessed, the part that they accessed while another thread of their process was at it, too. Where it is
    /// small what was used in turn may be in the way of threads that run at the same time. None where there is one thread.
    pub overlap: Option<f64>,
    /// Of a run that was seen once (`--live`): accesses to lines that are shared, from before a second thread came to them. Nobody knows of what
    /// they are; they took a line from no thread.
    pub alone_accesses: u64,
    /// Lines that several threads only loaded: these are in nobody's way.
    pub only_loaded_lines: u64,
    /// Other lines that several threads access and one stores to: they used them one after the other.
    pub in_turn_lines: u64,
    /// What is in these, most accesses first; of samples without what is also in undecided lines.
    pub in_turn: Vec<NameRow>,
    /// Where samples were read: how much they saw. Counts are of that, and times that a line was gone are the least.
    pub sampled: Option<SampledRun>,
    /// Bytes that one thread stores and another one then accesses, time and again.
    pub shared: Vec<SharedRow>,
    /// Lines that threads take from each other for bytes of their own.
    pub falsely_shared: Vec<FalseRow>,
}

/// How much samples saw.
#[derive(Clone, Debug, Serialize)]
pub struct SampledRun {
    /// What saw: `bursts` of consecutive accesses of a thread, or single `samples`.
    pub looks_are: &'static str,
    /// How many.
    pub looks: u64,
    /// Loads and stores that they saw.
    pub accesses: u64,
    /// What shares of samples are shares of: `time`, `latency`, ….
    pub weight: &'static str,
    /// What two threads share alike is told, but for 1 time in 20, where so many looks or more are expected to see it.
    pub enough_looks: u64,
    /// Lines where a thread was seen before and after another one, and one of them to store, too rarely to tell.
    pub undecided_lines: u64,
    /// What is in these, most looks first.
    pub undecided: Vec<NameRow>,
    /// Looks at such a run with which these would be told.
    pub needed_looks: u64,
}

/// Shares that samples tell, with 95 % intervals.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SampledShares {
    /// Of the loads and stores that were seen.
    pub access_share: f64,
    /// From, to.
    pub access_interval: Interval,
    /// Of the weight of samples.
    pub weight_share: f64,
    /// From, to.
    pub weight_interval: Interval,
    /// Samples in it.
    pub samples: u64,
}

impl From<&Sampled> for SampledShares {
    fn from(sampled: &Sampled) -> Self {
        let Sampled { accesses, weight } = sampled;
        Self {
            access_share: accesses.value,
            access_interval: (accesses.low, accesses.high).into(),
            weight_share: weight.value,
            weight_interval: (weight.low, weight.high).into(),
            samples: weight.samples,
        }
    }
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
    /// Accesses by thread, most first; of as many by process and thread.
    pub threads: Vec<ThreadUses>,
    /// Lines of code that access it, most accesses first.
    pub code: Vec<CodeUses>,
}

/// What one thread did.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadUses {
    /// Number of its process in the trace.
    pub process: u32,
    /// The kernel's number of the process; 0 where it is not known.
    pub pid: u32,
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
    /// Times that the line was gone, and came for what is accessed here: another thread had stored it.
    pub true_misses: u64,
    /// Times that the line was gone for these accesses, and was gone again before anything was accessed that others had stored.
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
    /// `updated`: each adds to what is there. `told`: one thread stores and the others load. `exchanged`: several store, and
    /// others only load or only store.
    pub way: &'static str,
    /// Part of what all accesses of the trace cost that the line was gone for; none of samples.
    pub cost_share: Option<f64>,
    /// Of samples.
    pub sampled: Option<SampledShares>,
    /// Most threads that store to one byte.
    pub writers: u64,
    /// Lines of memory that it is in.
    pub lines: u64,
    /// What else is truly shared on the same lines: whoever takes a line for one takes the others along.
    pub beside: Vec<BesideRow>,
    /// What to do, in words.
    pub fix: String,
}

/// What is truly shared beside something else.
#[derive(Clone, Debug, Serialize)]
pub struct BesideRow {
    /// What it is.
    #[serde(flatten)]
    pub name: NameRow,
    /// Lines that both are in.
    pub lines: u64,
}

/// False sharing.
#[derive(Clone, Debug, Serialize)]
pub struct FalseRow {
    /// What is on the sides; one where threads access elements of the same.
    pub sides: Vec<MemberRow>,
    /// All accesses.
    pub total: UsesRow,
    /// Part of what all accesses of the trace cost that the line was gone for; none of samples.
    pub cost_share: Option<f64>,
    /// Of samples.
    pub sampled: Option<SampledShares>,
    /// Lines of memory that it happens in.
    pub lines: u64,
    /// Least bytes from what one thread accesses to what another one does; of elements that are alike, from one to the next.
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
    /// Of what a trace told, with lines of so many bytes, of which several threads only loaded some, and threads that overlapped so far.
    pub fn new(
        trace: AccessTrace,
        machine: &str,
        (line_bytes, only_loaded_lines, overlap): (u32, u64, Option<f64>),
        found: &SharingFindings,
        origins: &Origins,
    ) -> Self {
        let hardly = hardly_overlapped(overlap);
        let shared = |row: &SharedVariable| shared_row(row, Costs::of_trace(row.cost_share, hardly), origins);
        let falsely = |row: &FalselyShared| {
            let costs = Costs::of_trace(row.cost_share, hardly);
            false_row(row, costs, is_handed_over(row, found), line_bytes, origins)
        };
        Self {
            schema: SHARING_SCHEMA,
            trace,
            machine: machine.to_owned(),
            line_bytes,
            overlap,
            alone_accesses: 0,
            only_loaded_lines,
            in_turn_lines: found.in_turn_lines,
            in_turn: found.in_turn.iter().map(|member| name_row(*member, origins)).collect(),
            sampled: None,
            shared: found.shared.iter().map(shared).collect(),
            falsely_shared: found.falsely.iter().map(falsely).collect(),
        }
    }

    /// Of what samples told, whose weight is called so.
    pub fn of_samples(trace: AccessTrace, machine: &str, sampled: &SampledFindings, weight: &'static str) -> Self {
        let SampledFindings { found, origins, line_bytes, evidence, undecided, .. } = sampled;
        let rows = found.shared.iter().zip(&sampled.of_shared);
        let shared = rows.map(|(row, shares)| shared_row(row, Costs::of_samples(shares), origins)).collect();
        let rows = found.falsely.iter().zip(&sampled.of_falsely);
        let falsely = rows.map(|(row, shares)| {
            let costs = Costs::of_samples(shares);
            false_row(row, costs, is_handed_over(row, found), *line_bytes, origins)
        });
        let run = SampledRun {
            looks_are: if evidence.is_bursts { "bursts" } else { "samples" },
            looks: evidence.looks,
            accesses: evidence.accesses,
            weight,
            enough_looks: ENOUGH_LOOKS,
            undecided_lines: undecided.lines,
            undecided: undecided.members.iter().map(|member| name_row(*member, origins)).collect(),
            needed_looks: undecided.needed_looks,
        };
        // Of what is undecided nothing is said to do no harm, though other lines of it may have been used in turn.
        let in_turn = found.in_turn.iter().filter(|member| !undecided.members.contains(member));
        Self {
            in_turn_lines: found.in_turn_lines.saturating_sub(undecided.lines),
            in_turn: in_turn.map(|member| name_row(*member, origins)).collect(),
            sampled: Some(run),
            shared,
            falsely_shared: falsely.collect(),
            ..Self::new(
                trace,
                machine,
                (*line_bytes, sampled.only_loaded, evidence.overlap),
                &SharingFindings::default(),
                origins,
            )
        }
    }

    /// The same with the kernel's numbers of processes, by those that they have here.
    #[must_use]
    pub fn with_pids(mut self, pid_of: impl Fn(u32) -> Option<u32>) -> Self {
        let sides = self.falsely_shared.iter_mut().flat_map(|row| &mut row.sides);
        let members = self.shared.iter_mut().map(|row| &mut row.member).chain(sides);
        members.flat_map(|member| &mut member.threads).for_each(|of| of.pid = pid_of(of.process).unwrap_or(0));
        self
    }

    /// How far threads ran at the same time, where they rather ran one after the other, so that what they did in turn tells little.
    pub fn hardly_overlapped(&self) -> Option<f64> {
        hardly_overlapped(self.overlap)
    }

    /// As CSV, a line for each thread and what it shares. `number` is of what is shared together.
    pub fn csv(&self) -> String {
        let mut out =
            "sharing,number,variable,field,process,thread,loads,stores,true_misses,false_misses,lines,writers,\
                       uniform,apart_bytes,fix,way,cost_share,weight_share,weight_from,weight_to\n"
                .to_owned();
        let mut row = |kind: &str,
                       number: usize,
                       member: &MemberRow,
                       [lines, writers, uniform, apart, way, costs]: [&str; 6],
                       fix: &str| {
            let name = |name: &Option<String>| csv_cell(name.as_deref().unwrap_or_default());
            let (variable, field) = (name(&member.name.variable), name(&member.name.field));
            for ThreadUses { process, tid, uses, .. } in &member.threads {
                let UsesRow { loads, stores, true_misses, false_misses } = uses;
                out += &format!("{kind},{number},{variable},{field},{process},{tid},{loads},{stores},{true_misses},");
                out += &format!("{false_misses},{lines},{writers},{uniform},{apart},{},{way},{costs}\n", csv_cell(fix));
            }
        };
        let costs = |cost: Option<f64>, sampled: Option<&SampledShares>| {
            let cost = cost.map_or_else(String::new, |cost| format!("{cost:.6}"));
            let sampled = sampled.map_or_else(
                || ",,".to_owned(),
                |of| format!("{:.6},{:.6},{:.6}", of.weight_share, of.weight_interval.low, of.weight_interval.high),
            );
            format!("{cost},{sampled}")
        };
        for (number, of) in (1..).zip(&self.falsely_shared) {
            let costs = costs(of.cost_share, of.sampled.as_ref());
            let told = [&of.lines.to_string(), "", "", &of.apart_bytes.to_string(), "", &costs];
            of.sides.iter().for_each(|side| row("false", number, side, told, &of.fix));
        }
        for (number, of) in (1..).zip(&self.shared) {
            let costs = costs(of.cost_share, of.sampled.as_ref());
            let told = [&of.lines.to_string(), &of.writers.to_string(), &of.uniform.to_string(), "", of.way, &costs];
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
        ThreadUses { process: thread.process, pid: 0, tid: thread.tid, uses: uses.into() }
    };
    let code_uses = |&(name, uses): &(u32, Uses)| {
        let (file, line) = file_and_line(origins.name(name));
        CodeUses { file, line, uses: uses.into() }
    };
    let mut threads: Vec<ThreadUses> = threads.iter().map(thread).collect();
    threads.sort_by_key(|of| (std::cmp::Reverse(of.uses.loads + of.uses.stores), of.process, of.tid));
    MemberRow { name: name_row(member, origins), threads, code: code.iter().map(code_uses).collect() }
}

/// Who shares: threads of one process, or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharers {
    /// What one of them is.
    pub one: &'static str,
    /// And several.
    pub several: &'static str,
}

impl Sharers {
    /// Threads of one process.
    pub const THREADS: Self = Self { one: "thread", several: "threads" };
    /// Several processes, whatever threads they have.
    pub const PROCESSES: Self = Self { one: "process", several: "processes" };

    fn of<'r>(mut threads: impl Iterator<Item = &'r ThreadUses>) -> Self {
        let first = threads.next().map(|of| of.process);
        if threads.all(|of| Some(of.process) == first) { Self::THREADS } else { Self::PROCESSES }
    }
}

impl SharedRow {
    /// Who shares it.
    pub fn sharers(&self) -> Sharers {
        Sharers::of(self.member.threads.iter())
    }
}

impl FalseRow {
    /// Who takes lines from each other.
    pub fn sharers(&self) -> Sharers {
        Sharers::of(self.sides.iter().flat_map(|side| &side.threads))
    }
}

/// How far threads overlapped, where that is too little.
fn hardly_overlapped(overlap: Option<f64>) -> Option<f64> {
    overlap.filter(|overlap| *overlap < LEAST_OVERLAP)
}

/// What something costs.
struct Costs {
    share: Option<f64>,
    sampled: Option<SampledShares>,
    is_rare: bool,
    /// How far threads ran at the same time, where that was too little to tell what it would cost if they did.
    hardly_overlapped: Option<f64>,
}

impl Costs {
    fn of_trace(share: f64, hardly_overlapped: Option<f64>) -> Self {
        Self { share: Some(share), sampled: None, is_rare: share < LEAST_COST, hardly_overlapped }
    }

    fn of_samples(sampled: &Sampled) -> Self {
        Self { share: None, sampled: Some(sampled.into()), is_rare: sampled.is_rare(), hardly_overlapped: None }
    }

    /// What to do, where that is worth it.
    fn fix(&self, fix: impl FnOnce() -> String) -> String {
        let least = LEAST_COST * 100.0;
        match (self.is_rare, self.hardly_overlapped) {
            (true, None) => format!("leave it: it costs less than {least} % of the whole"),
            (true, Some(overlap)) => format!(
                "{} (here it costs less than {least} % of the whole, but threads hardly ran at the same time: {:.1} % of what all but the \
                 busiest accessed)",
                fix(),
                overlap * 100.0
            ),
            (false, _) => fix(),
        }
    }
}

fn shared_row(shared: &SharedVariable, costs: Costs, origins: &Origins) -> SharedRow {
    let member = member_row(shared.member, &shared.threads, &shared.code, origins);
    let Sharers { one, several } = Sharers::of(member.threads.iter());
    let (way, fix) = match (shared.way, shared.is_uniform) {
        (Way::Told, _) => (
            "told",
            format!(
                "one {one} tells the others by it, which no part for each {one} replaces: store it less often, more at a \
                 time, and keep it apart from what is loaded often"
            ),
        ),
        (Way::Exchanged, _) => (
            "exchanged",
            format!(
                "{several} tell each other by it, as by a flag, a lock or the index of a queue, which no part for each \
                 {one} replaces: hand over more at a time, less often, and keep it on a line apart from other data"
            ),
        ),
        (Way::Updated, true) => {
            // By addresses a lock that is exchanged is no other than a counter.
            (
                "updated",
                format!(
                    "a part for each {one}, on a line of its own, where each only adds to it; add them up when all of it \
                     is wanted"
                ),
            )
        }
        (Way::Updated, false) => (
            "updated",
            format!("one {one} has most of the accesses: let the others hand it what they have, in larger pieces"),
        ),
    };
    SharedRow {
        member,
        total: shared.uses().into(),
        uniform: shared.is_uniform,
        way,
        fix: costs.fix(|| match shared.beside.is_empty() {
            true => fix.clone(),
            false => format!("{fix}; and put what is shared on the same line on a line apart"),
        }),
        cost_share: costs.share,
        sampled: costs.sampled,
        writers: shared.writers,
        lines: shared.lines,
        beside: shared
            .beside
            .iter()
            .map(|&(member, lines)| BesideRow { name: name_row(member, origins), lines })
            .collect(),
    }
}

/// Whether it is elements of one array that threads also hand to each other: there are no threads' own.
fn is_handed_over(falsely: &FalselyShared, found: &SharingFindings) -> bool {
    let [side] = &falsely.sides[..] else { return false };
    found.shared.iter().any(|shared| shared.member == side.member && shared.way != Way::Updated)
}

fn false_row(
    falsely: &FalselyShared,
    costs: Costs,
    is_handed_over: bool,
    line_bytes: u32,
    origins: &Origins,
) -> FalseRow {
    let side = |side: &Side| member_row(side.member, &side.threads, &side.code, origins);
    let sides: Vec<MemberRow> = falsely.sides.iter().map(side).collect();
    let apart = falsely.apart_bytes;
    let Sharers { one, several } = Sharers::of(sides.iter().flat_map(|side| &side.threads));
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
                    "alignas({line_bytes}) before {behind}: what one {one} stores and others use on lines of their own"
                ),
                false => format!("alignas({line_bytes}) on {behind}, and nothing behind it in its line"),
            }
        }
        Cut::Nowhere if sides.len() > 1 => {
            let names = sides.iter().map(name).collect::<Vec<_>>().join(", ");
            format!("what one {one} stores and others use on lines of their own: of {names}")
        }
        Cut::Elements | Cut::Nowhere if is_handed_over => format!(
            "{several} hand these elements to each other while they are at others in the same line: hand over {line_bytes} \
             bytes or more at a time"
        ),
        Cut::Elements | Cut::Nowhere => format!(
            "{several}' elements are {apart} bytes apart: pad each to {line_bytes} bytes (alignas({line_bytes}) on its type)"
        ),
    };
    FalseRow {
        sides,
        total: falsely.uses().into(),
        fix: costs.fix(|| fix),
        cost_share: costs.share,
        sampled: costs.sampled,
        lines: falsely.lines,
        apart_bytes: apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What threads that ran one after the other cost each other says nothing of others.
    #[test]
    fn what_costs_little_is_left_alone_where_threads_overlapped() {
        let fix = |share, overlap| Costs::of_trace(share, overlap).fix(|| "pad it".to_owned());
        assert_eq!(fix(0.001, None), "leave it: it costs less than 0.5 % of the whole");
        assert_eq!(
            fix(0.001, Some(0.02)),
            "pad it (here it costs less than 0.5 % of the whole, but threads hardly ran at the same time: 2.0 % of what all but the \
             busiest accessed)"
        );
        assert_eq!([fix(0.1, None), fix(0.1, Some(0.02))], ["pad it", "pad it"]);
    }
}
