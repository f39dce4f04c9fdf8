//! What to change, from findings alone: no access is looked at here.
//!
//! Every group that costs enough gets one piece of advice for its layout: the change with the greatest predicted gain,
//! or to leave it alone and why. Loops that walk against the layout get one each.
//!
//! A gain is predicted by counting cache lines: how many a loop touches per element it visits, before and after,
//! weighted by the loop's share of time. That much time is saved at most. [`REACHED`] of it is what splitting by hand
//! reached in the sample programs of this repository (array of structures 0.76 to 1, nodes 0.5), and StructSlim's
//! table 3 has programs with much less, whose data was in a cache or came ahead of its use: hence the width of the
//! interval. Where a loop also computes, a processor waits for memory meanwhile as far as it can: at worst only the
//! time is saved by which the loop waits for longer than it computes, at best all; half-way is expected.

mod advice;
mod caches;
pub(crate) mod definition;
mod lines;
mod order;
mod placing;
mod sharing;
mod split;
mod unused;
mod walk;

use slimline_attribute::tables::{Amount, GroupKind, Language, Leaf, Loop, SourcePosition, Tables, Type, TypeKind};
use slimline_attribute::typing::leaves::foreign_at;
use slimline_trace::access::{GroupId, SiteId};
use slimline_trace::session::WeightUnit;

use crate::fields::LINE_BYTES;
use crate::findings::{Findings, GroupFindings, LoopFindings, LoopGroup};
use crate::number::{bytes, percent};
use crate::structure::{ElementFrom, LEAST_NODES};
use crate::ties::Ties;

pub use advice::{Advice, Confidence, Kind, Predicted};
use caches::Small;
pub use lines::{Packing, Saved};
pub use placing::{NewLayout, PlacedField};
use walk::Against;

/// Part of the lines saved that is expected to become time saved; the low and the high end of it.
pub const REACHED: (f64, f64, f64) = (0.35, 0.7, 1.0);
/// The same for nodes that are allocated one by one, where they lie being the allocator's affair, and for elements
/// visited in no order, where it depends on how much of the data the caches hold.
pub const REACHED_IN_DISORDER: (f64, f64, f64) = (0.0, 0.45, 1.0);

/// From when on something is worth a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floors {
    /// Share of the session's weight from which a group is looked at.
    pub group_share: f64,
    /// Part of the session's weight that a change must be expected to save.
    pub gain: f64,
    /// Data that is smaller than this altogether stays in a core's own caches: nothing to win by lines.
    pub cached_bytes: u64,
    /// Data that is no larger than this may come from a last-level cache: lines are saved then, but perhaps hardly any time.
    pub last_level_bytes: u64,
}

impl Default for Floors {
    fn default() -> Self {
        Self { group_share: 0.03, gain: 0.02, cached_bytes: 256 << 10, last_level_bytes: 32 << 20 }
    }
}

/// All advice, that with the greatest gain first; groups to leave alone come last, costliest first.
pub fn advise(findings: &Findings, tables: &Tables, floors: &Floors) -> Vec<Advice> {
    let mut found: Vec<Advice> = Vec::new();
    let small = Small::of(findings, tables, floors);
    let in_use_bytes = caches::in_use_bytes(findings, tables);
    let subject = |group, members, loops| Subject { findings, tables, floors, group, members, loops, small };
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for of_type in &findings.types {
        let loops = of_type.loops.iter().map(|(row, of_group)| (*row, of_group)).collect();
        subjects.push(subject(&of_type.together, of_type.groups.clone(), loops));
    }
    // Groups with a walk against their layout.
    let (mut walked, mut against) = (Vec::new(), Vec::new());
    for group in &findings.groups {
        let single = subject(group, vec![group.group], loops_of(findings, group.group));
        let is_worth_it = single.is_worth_it() && caches::fits(&single).is_none();
        let walks = if is_worth_it { walk::interchanges(&single) } else { Vec::new() };
        if !walks.is_empty() {
            walked.push(group.group);
        }
        let judged = |walk: Against| walk.with(|advice| caches::with_last_level(&single, in_use_bytes, advice));
        against.extend(walks.into_iter().map(judged));
        if !findings.types.iter().any(|of_type| of_type.groups.contains(&group.group)) {
            subjects.push(single);
        }
    }
    found.extend(walk::by_loop(against, findings, floors));
    subjects.retain(Subject::is_worth_it);
    subjects.sort_by(|a, b| b.group.share.value.total_cmp(&a.group.share.value));
    for subject in &subjects {
        let layout = unused::told(subject, subject.layout());
        let layout = caches::with_last_level(subject, in_use_bytes, caches::with_company(subject, layout));
        let layout = sharing::with_caution(subject, layout);
        // Where only the walk is wrong, there is no need to say that the layout is right.
        if layout.predicted.is_some() || !subject.members.iter().any(|group| walked.contains(group)) {
            found.push(layout);
        }
    }
    let gain = |advice: &Advice| advice.predicted.as_ref().map_or(0.0, |predicted| predicted.cycles);
    found.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
    found
}

/// A loop as the source has it: all copies that the compiler made of it.
struct SourceLoop {
    /// Function and lines.
    name: String,
    /// Share of the session's weight, whatever data it is spent on.
    share: f64,
    /// The part of it that no memory instruction could be blamed for.
    computing: f64,
    /// Fields of the group that it uses.
    fields: Vec<usize>,
}

/// A group that is looked at.
struct Subject<'a> {
    findings: &'a Findings,
    tables: &'a Tables,
    floors: &'a Floors,
    group: &'a GroupFindings,
    /// The group, or all that `group` stands for, costliest first.
    members: Vec<GroupId>,
    /// Loops that use it, by row of the findings.
    loops: Vec<(usize, &'a LoopGroup)>,
    /// All groups that are small.
    small: Small,
}

/// Loops that use a group, by row of the findings.
fn loops_of(findings: &Findings, group: GroupId) -> Vec<(usize, &LoopGroup)> {
    let of_loop = |(row, found): (usize, &'_ LoopFindings)| (row, found.groups.iter().position(|of| of.group == group));
    let places = findings.loops.iter().enumerate().map(of_loop);
    places.filter_map(|(row, at)| Some((row, &findings.loops[row].groups[at?]))).collect()
}

impl Subject<'_> {
    /// Whether it costs enough. What belongs to no known object is nobody's to change or to leave alone.
    fn is_worth_it(&self) -> bool {
        let is_known = self.tables.group(self.group.group).kind != GroupKind::Unattributed;
        self.group.share.value >= self.floors.group_share && is_known
    }

    /// The groups that advice for it is about, but for the first.
    fn others(&self) -> Vec<GroupId> {
        self.members[1..].to_vec()
    }

    /// How much there is of all groups that it stands for, each as it was at its most.
    fn amount(&self) -> Amount {
        self.members.iter().map(|group| self.tables.group(*group).at_one_time()).sum()
    }

    /// `left takes`, `left and right take`
    fn takes(&self) -> String {
        let name = |id: &GroupId| self.tables.group(*id).name.as_str();
        match &self.members[..] {
            [one] => format!("{} takes", name(one)),
            [one, other] => format!("{} and {} take", name(one), name(other)),
            [first, rest @ ..] => format!("{} and {} others of this type take", name(first), rest.len()),
            [] => String::new(),
        }
    }

    /// The best change of layout.
    fn layout(&self) -> Advice {
        if let Some(reason) = self.untouchable() {
            return self.leave_alone(reason);
        }
        let mut best: Option<Advice> = None;
        let mut seen = 0.0_f64;
        for advice in [split::split(self), order::reorder(self)].into_iter().flatten() {
            let gain = -advice.predicted.as_ref().map_or(0.0, |predicted| predicted.cycles);
            seen = seen.max(gain);
            let better = best.as_ref().and_then(|best| best.predicted.as_ref()).is_none_or(|than| gain > -than.cycles);
            if gain >= self.floors.gain && better {
                best = Some(advice);
            }
        }
        best.unwrap_or_else(|| self.leave_alone(self.no_gain(seen)))
    }

    /// Why no layout is thought about.
    fn untouchable(&self) -> Option<String> {
        let row = self.tables.group(self.group.group);
        match row.kind {
            GroupKind::Stack => return Some("Stacks hold unlike things; their layout is the compiler's.".into()),
            kind if kind.is_mapped() && row.allocated_at.is_none() => {
                return Some(
                    "It is not known who mapped it: a file's or an allocator's memory may hold unlike things.".into(),
                );
            }
            _ => {}
        }
        let Some(structure) = self.group.structure else {
            return Some("Its accesses show no regular structure, and debug information names none.".into());
        };
        // Many blocks of one size with something regular inside: arenas, of which an allocator hands out pieces.
        if structure.from == ElementFrom::Stride && row.object_bytes > 0 && row.objects >= LEAST_NODES {
            return Some(format!(
                "Its blocks of {} look like an allocator's: what lies in them, {} apart, no debug information tells.",
                bytes(row.object_bytes),
                bytes(structure.element_bytes)
            ));
        }
        if structure.element_bytes <= 8 {
            return Some(format!("Its elements are of {}: there is nothing to split.", bytes(structure.element_bytes)));
        }
        if structure.is_open {
            return Some("It ends in an array of any length, which has to stay behind its other fields.".into());
        }
        if self.group.fields.len() < 2 {
            return Some("Its elements have a single field.".into());
        }
        if self.group.elsewhere > MOST_ELSEWHERE {
            return Some(format!(
                "Of {} of its time it is not known which fields it goes to: more samples may tell (record longer).",
                percent(self.group.elsewhere)
            ));
        }
        let element = self.element_type().filter(|found| found.is_built_in());
        if let Some(element) = element {
            let but = self
                .own_type_in(element, MOST_NESTED)
                .map(|own| format!(", but that of {} in it ({} of its {} bytes)", own.name, own.bytes, element.bytes));
            let but = but.unwrap_or_default();
            return Some(format!("Its elements are of {}: no program can change its definition{but}.", element.name));
        }
        caches::fits(self).or_else(|| {
            let Amount { objects, bytes: size } = self.amount();
            let size = bytes(size);
            let what = if objects == 1 { "one object".to_owned() } else { format!("{objects} objects") };
            self.is_one_or_small()
                .then(|| format!("It is {what} of {size}: there is no array whose lines another layout could save."))
        })
    }

    /// The largest of the program's own structures that a type holds by value.
    fn own_type_in(&self, type_: &Type, deeper: u32) -> Option<&Type> {
        let deeper = deeper.checked_sub(1)?;
        let members = type_.members.iter().filter_map(|member| Some(self.tables.type_(member.type_id?)));
        let own = members.filter_map(|member| {
            let held = match member.kind {
                TypeKind::Array { element, .. } => self.tables.type_(element),
                _ => member,
            };
            let is_own = held.kind == TypeKind::Structure && !held.is_built_in();
            if is_own { Some(held) } else { self.own_type_in(held, deeper) }
        });
        own.max_by_key(|own| own.bytes)
    }

    /// Whether there is but one element, or so little that all of it lies in a few cache lines: lines that a loop passes
    /// over, which is what gains are predicted from, there are none.
    fn is_one_or_small(&self) -> bool {
        /// As few as are all in use at any time.
        const FEW_LINES: u64 = 4;
        let element_bytes = self.group.structure.map_or(0, |structure| structure.element_bytes);
        // With more objects than samples there are others that none met.
        let Amount { objects, bytes } = self.amount();
        objects <= self.group.share.samples.max(1)
            && (bytes <= FEW_LINES * LINE_BYTES || bytes < element_bytes.saturating_mul(2))
    }

    fn no_gain(&self, gain: f64) -> String {
        let used = self.group.fields.iter().filter(|field| field.is_used()).count();
        if self.group.clusters.len() == 1 && used == self.group.fields.len() {
            return match used {
                2 => "Both fields are used together.".to_owned(),
                _ => format!("All {used} fields are used together."),
            };
        }
        format!(
            "No other layout is expected to save {} of the {} (the best {}).",
            percent(self.floors.gain),
            self.cost(),
            percent(gain)
        )
    }

    fn leave_alone(&self, why: String) -> Advice {
        Advice {
            kind: Kind::LeaveAlone,
            group: self.group.group,
            others: self.others(),
            title: format!("Leave {} as it is", self.name()),
            fields: Vec::new(),
            layouts: Vec::new(),
            predicted: None,
            confidence: if self.group.share.samples >= MANY_SAMPLES { Confidence::High } else { Confidence::Medium },
            why,
            code: String::new(),
            declared_at: self.declared_at(),
            touched_lines: Vec::new(),
            ties: Ties::default(),
        }
    }

    fn element_type(&self) -> Option<&Type> {
        let element = self.tables.group(self.group.group).element?;
        Some(self.tables.type_(element.type_id))
    }

    /// The element type's name where it is the program's to change, else the group's.
    fn name(&self) -> String {
        let row = self.tables.group(self.group.group);
        let declared = self.element_type();
        let declared = declared.filter(|found| matches!(found.kind, TypeKind::Structure | TypeKind::Union));
        declared.map_or_else(|| row.name.clone(), |found| found.name.clone())
    }

    fn declared_at(&self) -> Option<SourcePosition> {
        self.element_type()?.declared_at.clone()
    }

    fn language(&self) -> Language {
        self.element_type().map_or(Language::C, |found| found.language)
    }

    /// What a change of lines means for the session, where the group's loops save these parts of their lines.
    fn predict(&self, packing: &Packing) -> Predicted {
        let nodes = self.group.structure.is_some_and(|structure| structure.one_per_object);
        let reached = if nodes || packing.is_disordered() { REACHED_IN_DISORDER } else { REACHED };
        let what = format!("cache lines touched per element in each loop, weighted by the loop's {}", self.cost());
        self.gain(packing.saved, reached, packing.change(), &what)
    }

    /// What it means to save so much of the session's time, of which `reached` is expected: the low end, the middle and the
    /// high end. `what` was counted.
    fn gain(&self, saved: Saved, reached: (f64, f64, f64), lines: f64, what: &str) -> Predicted {
        // How well the group's own share is known widens the interval.
        let (low, high) = match self.group.share.value {
            0.0 => (0.0, 0.0),
            share => (self.group.share.low / share, self.group.share.high / share),
        };
        Predicted {
            cycles: fewer((saved.share + saved.unhidden) / 2.0 * reached.1),
            cycles_low: fewer((saved.most * reached.2 * high).min(1.0)),
            cycles_high: fewer(saved.unhidden * reached.0 * low),
            lines,
            method: format!(
                "{what}; {} to {} of that is expected to be reached{}{}{}",
                percent(reached.0),
                percent(reached.2),
                hidden_words(saved),
                self.held_words(saved),
                self.untimed_words()
            ),
        }
    }

    /// What is to be said where more may be saved than is expected.
    fn held_words(&self, saved: Saved) -> String {
        match saved.most - saved.share {
            ..0.005 => String::new(),
            _ => format!(
                ", more where caches hold what is used then: {} of the {} at most",
                percent(saved.most),
                self.cost()
            ),
        }
    }

    /// What shares are of, in a word.
    fn cost(&self) -> &'static str {
        self.findings.unit.noun()
    }

    /// What is to be said where shares are of something else than time.
    fn untimed_words(&self) -> String {
        match self.findings.unit {
            WeightUnit::TimeNs => String::new(),
            unit => format!("; of the {}, that is: how much of it is run time is not known", unit.noun()),
        }
    }

    /// Whether windows show in which order loops visit the elements: samples alone don't.
    fn order_is_seen(&self) -> bool {
        self.findings.accesses > 0
    }

    fn confidence(&self, predicted: &Predicted) -> Confidence {
        let Some(structure) = self.group.structure else { return Confidence::Low };
        let known = structure.from == ElementFrom::DebugInfo && structure.confidence >= 0.9;
        let unsure = structure.is_contradicted()
            || structure.confidence < 0.8
            || structure.one_per_object
            || self.group.share.samples < FEW_SAMPLES
            || self.spanned_share() > 0.75;
        let visible = self.spanned_share() < 0.1;
        if unsure {
            Confidence::Low
        } else if known
            && visible
            && self.order_is_seen()
            && self.findings.unit.is_time()
            && self.group.share.samples >= MANY_SAMPLES
            && -predicted.cycles_high >= self.floors.gain
        {
            Confidence::High
        } else {
            Confidence::Medium
        }
    }

    /// Part of the group's time in loops where vector accesses reach from one cluster into another: whether those
    /// fields are used is not visible.
    fn spanned_share(&self) -> f64 {
        let spanned: f64 = self
            .loops()
            .filter(|(_, of_group)| self.spans_clusters(of_group))
            .map(|(_, of_group)| of_group.share)
            .sum();
        if self.group.share.value > 0.0 { spanned / self.group.share.value } else { 0.0 }
    }

    fn spans_clusters(&self, of_group: &LoopGroup) -> bool {
        let cluster = |field: usize| self.group.clusters.iter().position(|cluster| cluster.fields.contains(&field));
        let begun: Vec<_> =
            of_group.fields.iter().filter(|field| !field.only_spanned).map(|f| cluster(f.field)).collect();
        of_group.fields.iter().any(|field| field.only_spanned && !begun.contains(&cluster(field.field)))
    }

    /// The group's loops, by row of the findings.
    fn loops(&self) -> impl Iterator<Item = (usize, &LoopGroup)> {
        self.loops.iter().copied()
    }

    /// The loop, with all of its copies, that spends most on the group.
    fn hottest_loop(&self) -> Option<SourceLoop> {
        let id_of = |row: usize| self.findings.loops[row].loop_id;
        let mut merged: Vec<(f64, Vec<usize>)> = Vec::new();
        for (row, of_group) in self.loops() {
            match merged.iter_mut().find(|(_, rows)| self.tables.are_copies(id_of(rows[0]), id_of(row))) {
                Some((share, rows)) => {
                    *share += of_group.share;
                    rows.push(row);
                }
                None => merged.push((of_group.share, vec![row])),
            }
        }
        let (_, rows) = merged.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut fields: Vec<usize> = Vec::new();
        for (_, of_group) in self.loops().filter(|(row, _)| rows.contains(row)) {
            let used = of_group.fields.iter().filter(|field| !field.only_spanned).map(|field| field.field);
            used.for_each(|field| {
                if !fields.contains(&field) {
                    fields.push(field)
                }
            });
        }
        Some(SourceLoop {
            name: place_of(&self.tables.loops[id_of(rows[0]).index()]),
            share: rows.iter().map(|&row| self.findings.loops[row].share.value).sum(),
            computing: rows.iter().map(|&row| self.findings.loops[row].computing).sum(),
            fields,
        })
    }

    /// Source lines of the sites that touch any of these fields, costliest loop first.
    fn lines_that_touch(&self, fields: &[usize]) -> Vec<(String, u32)> {
        let sites = self
            .loops()
            .flat_map(|(_, of_group)| &of_group.fields)
            .filter(|field| fields.contains(&field.field))
            .flat_map(|field| field.sites.iter().copied());
        self.lines_of(sites)
    }

    /// Lines of the program: nobody changes the library that was inlined there.
    fn lines_of(&self, sites: impl IntoIterator<Item = SiteId>) -> Vec<(String, u32)> {
        let mut lines: Vec<(String, u32)> = Vec::new();
        for site in sites {
            let Some(at) = self.tables.site(site).own_position().filter(|at| at.line > 0) else { continue };
            if !lines.iter().any(|(file, line)| (file, *line) == (&at.file, at.line)) {
                lines.push((at.file.clone(), at.line));
            }
        }
        lines
    }

    /// Names of fields in braces.
    fn braces(&self, fields: &[usize]) -> String {
        let mut names: Vec<String> = Vec::new();
        for &field in fields {
            let shape = &self.group.fields[field];
            // What moves as a whole is one word, and so are elements of one array.
            let name = match self.foreign_at(shape.offset) {
                Some(member) => member.path,
                None => shape.name.split('[').next().unwrap_or_default().to_owned(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("{{{}}}", names.join(" "))
    }

    /// The member at `offset` of the element that the program can only move as a whole.
    fn foreign_at(&self, offset: u64) -> Option<Leaf> {
        let element = self.tables.group(self.group.group).element?;
        foreign_at(&self.tables.types, element.type_id, offset)
    }

    fn offsets(&self, fields: &[usize]) -> Vec<u64> {
        fields.iter().map(|&field| self.group.fields[field].offset).collect()
    }
}

/// Function and lines of a loop; addresses where no line is known.
fn place_of(found: &Loop) -> String {
    let lines = match (found.first_line, found.last_line) {
        (0, _) => format!("at {:#x}-{:#x}", found.start.0, found.end.0),
        (first, last) if first == last => format!("line {first}"),
        (first, last) => format!("lines {first}-{last}"),
    };
    format!("{} {lines}", found.function)
}

/// So much less, as a change: what is nothing has no sign.
fn fewer(part: f64) -> f64 {
    0.0 - part
}

/// What is to be said where computing may hide a part of what would be saved.
fn hidden_words(saved: Saved) -> String {
    let hidden = if saved.share > 0.0 { (1.0 - saved.unhidden / saved.share).max(0.0) } else { 0.0 };
    match hidden {
        // Less changes no figure.
        ..0.005 => String::new(),
        _ => format!(", and up to {} of it is hidden behind computing in the same loops", percent(hidden)),
    }
}

/// Part of a group's weight of which the field is not known from which no layout is thought about: what seems unused may
/// have it.
const MOST_ELSEWHERE: f64 = 0.5;
/// Structures within structures that are looked into.
const MOST_NESTED: u32 = 16;
const MANY_SAMPLES: u64 = 100;
const FEW_SAMPLES: u64 = 20;
