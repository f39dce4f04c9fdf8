//! What differs between two runs or builds (`slimline diff`), and what of it is not allowed (`slimline check`).

mod basis;
mod junit;
mod sarif;
mod snapshot;

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Value, json};
use slimline_analyze::comparison::chance::Sampled;
use slimline_analyze::comparison::gate::{Allowed, Regression, Rule, of_layouts, of_misses, of_shares};
use slimline_analyze::comparison::layouts::{self, DeclaredField, Figures, LayoutChanges, MovedField, TypeChange};
use slimline_analyze::comparison::misses::{self, Geometry, MissChanges, Unmatched};
use slimline_analyze::comparison::shares::{self, ShareChanges};
use slimline_analyze::comparison::{DataKey, KnownBy, Renamed};
use slimline_analyze::declared_layout::LINE_BYTES;
use slimline_analyze::full_trace::filter::is_match;

pub use self::junit::junit;
pub use self::sarif::sarif;
pub use self::snapshot::Snapshot;
use crate::annotate::is_called;
use crate::text::number::{count, percent, plural, range};
use crate::view::Interval;

/// Version of the JSON of `diff` and `check`. 1: the first.
pub const COMPARISON_SCHEMA: u32 = 1;

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What the old side is called.
    pub old: String,
    /// What the new side is called.
    pub new: String,
    /// What the old side tells.
    pub(crate) before: Snapshot,
    /// What the new side tells.
    pub(crate) after: Snapshot,
    /// What shares are of.
    pub noun: &'static str,
    /// Whether they are of all accesses, so that nothing of them is by chance.
    pub is_exact: bool,
    /// Types, where both sides tell some.
    pub layouts: Option<LayoutChanges>,
    /// Shares, where both sides tell some.
    pub shares: Option<ShareChanges>,
    /// Misses, where both sides tell some.
    pub misses: Option<MissChanges>,
}

impl Comparison {
    /// Of two sides, each with what it is called.
    ///
    /// # Errors
    /// They have nothing that could be compared; in words.
    pub fn of((old, before): (String, Snapshot), (new, after): (String, Snapshot)) -> Result<Self, String> {
        if !before.noun.is_empty() && !after.noun.is_empty() && before.noun != after.noun {
            return Err(format!("shares of {old} are of {}, those of {new} of {}", before.noun, after.noun));
        }
        // What a trace's site tables tell of types is not called as debug information calls it.
        let are_alike = before.is_exact == after.is_exact;
        let layouts = before.types.as_ref().filter(|_| are_alike).zip(after.types.as_ref()).map(|(old, new)| {
            let changes = layouts::compare(old, new);
            // What one side only was not asked for, or did not meet, is neither new nor gone.
            match before.filter.is_some() && before.filter == after.filter {
                true => changes,
                false => LayoutChanges { added: Vec::new(), gone: Vec::new(), ..changes },
            }
        });
        // Cycles of different machines are different things.
        let is_same_cost = match [&before, &after].map(|side| side.machines.as_ref().and_then(|all| all.first())) {
            [Some(old), Some(new)] => old.costs_as(new),
            [old, new] => old.is_none() && new.is_none(),
        };
        let shares = before
            .data
            .as_ref()
            .filter(|_| is_same_cost)
            .zip(after.data.as_ref())
            .map(|(old, new)| shares::compare(old, new));
        let misses = before.machines.as_ref().zip(after.machines.as_ref()).map(|(old, new)| misses::compare(old, new));
        if layouts.is_none() && shares.is_none() && misses.is_none() {
            return Err(format!(
                "{old} ({}) and {new} ({}) have nothing that could be compared: types of programs, sessions and \
                 `report` go with each other, and so do traces and `simulate`",
                before.kind, after.kind
            ));
        }
        Ok(Self {
            old,
            new,
            is_exact: before.is_exact,
            noun: if before.noun.is_empty() { after.noun } else { before.noun },
            before,
            after,
            layouts,
            shares,
            misses,
        })
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(&self.value())
    }

    /// Machines and caches that were not compared, in words.
    pub(crate) fn unmatched(&self) -> Vec<String> {
        self.misses.iter().flat_map(|changes| &changes.unmatched).map(unmatched_words).collect()
    }

    fn value(&self) -> Value {
        json!({
            "schema": COMPARISON_SCHEMA,
            "old": self.old,
            "new": self.new,
            "missing": self.missing(),
            "layouts": self.layouts.as_ref().map(|changes| json!({
                "changed": changes.changed.iter().map(type_change).collect::<Vec<_>>(),
                "added": changes.added.iter().map(|type_| json!({ "type": type_.name, "bytes": type_.figures.bytes }))
                    .collect::<Vec<_>>(),
                "gone": changes.gone.iter().map(|type_| json!({ "type": type_.name, "bytes": type_.figures.bytes }))
                    .collect::<Vec<_>>(),
                "same": changes.same,
            })),
            "shares": self.shares.as_ref().map(|changes| json!({
                "of": self.noun,
                "renamed": changes.renamed.iter().map(renamed).collect::<Vec<_>>(),
                "changed": changes.rows.iter().map(|row| json!({
                    "data": data(&row.key),
                    "field": row.field,
                    "old": interval(row.old),
                    "new": interval(row.new),
                    "difference": { "value": row.difference.value, "low": row.difference.low, "high": row.difference.high },
                    "chance": (!self.is_exact).then_some(row.chance),
                    "is_beyond_chance": row.is_beyond_chance,
                })).collect::<Vec<_>>(),
                "added": changes.added.iter().map(|(key, share)| json!({ "data": data(key), "new": interval(*share) }))
                    .collect::<Vec<_>>(),
                "gone": changes.gone.iter().map(|(key, share)| json!({ "data": data(key), "old": interval(*share) }))
                    .collect::<Vec<_>>(),
            })),
            "misses": self.misses.as_ref().map(|changes| json!({
                "renamed": changes.renamed.iter().map(renamed).collect::<Vec<_>>(),
                "accesses": changes.accesses.iter()
                    .map(|(machine, old, new)| json!({ "machine": machine, "old": old, "new": new })).collect::<Vec<_>>(),
                "changed": changes.rows.iter().map(|row| json!({
                    "machine": row.machine,
                    "cache": row.cache,
                    "data": row.key.as_ref().map(data),
                    "old": row.old,
                    "new": row.new,
                })).collect::<Vec<_>>(),
                "added": changes.added.iter().map(data).collect::<Vec<_>>(),
                "gone": changes.gone.iter().map(data).collect::<Vec<_>>(),
                "unmatched": self.unmatched(),
            })),
        })
    }

    /// What each side lacks, as JSON.
    fn missing(&self) -> Value {
        json!({ "old": self.before.missing, "new": self.after.missing })
    }
}

/// Fields that are hot whatever was measured, as `TYPE.FIELD`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedHot<'c> {
    /// What matches them.
    pub patterns: &'c [String],
    /// They are named for this check, so each must be there; else for all checks, also of programs that have none of them.
    pub is_for_this: bool,
}

/// The verdict of `slimline check`.
pub struct Check<'c> {
    /// What was compared.
    pub comparison: &'c Comparison,
    /// What is worse than allowed, worst rule first.
    pub regressions: Vec<Regression<'c>>,
}

impl<'c> Check<'c> {
    /// What of a comparison is worse than allowed; fields that are named hot are so, whatever was measured.
    ///
    /// # Errors
    /// What was compared is not enough to say that nothing is worse; in words.
    pub fn of(comparison: &'c Comparison, allowed: &Allowed, hot: &NamedHot<'_>) -> Result<Self, String> {
        comparison.judgeable(hot)?;
        let is_hot =
            |type_name: &str, path: &str| hot.patterns.iter().any(|pattern| is_field(pattern, type_name, path));
        let mut regressions = Vec::new();
        regressions.extend(comparison.layouts.iter().flat_map(|changes| of_layouts(changes, allowed, is_hot)));
        regressions.extend(comparison.shares.iter().flat_map(|changes| of_shares(changes, allowed)));
        regressions.extend(comparison.misses.iter().flat_map(|changes| of_misses(changes, allowed)));
        regressions.sort_by_key(Regression::rule);
        Ok(Self { comparison, regressions })
    }

    /// The rules that what was compared was held against.
    pub fn rules(&self) -> Vec<Rule> {
        let Comparison { layouts, shares, misses, .. } = self.comparison;
        let mut rules = Vec::new();
        if layouts.is_some() {
            rules.extend([Rule::HotField, Rule::Crossing, Rule::Lines, Rule::Size, Rule::Holes]);
        }
        rules.extend(shares.is_some().then_some(Rule::Share));
        rules.extend(misses.is_some().then_some(Rule::Misses));
        rules
    }

    /// As JSON, indented, with a line end: the comparison, with `regressions`.
    pub fn json(&self) -> String {
        let mut value = self.comparison.value();
        let regression = |regression: &Regression<'_>| {
            let mut told = json!({
                "rule": rule_id(regression.rule()),
                "message": self.message(regression),
                "type": type_of(regression).map(|change| &change.name),
            });
            if let Regression::Field(_, moved, _) = regression {
                told["field"] = json!(moved.field.path);
                told["old_offset"] = json!(moved.old_offset);
                told["offset"] = json!(moved.field.offset);
            }
            told
        };
        value["regressions"] = self.regressions.iter().map(regression).collect();
        crate::pretty(&value)
    }

    /// What each regression is of; of those of a rule that are called alike the later ones are numbered.
    pub(crate) fn subjects(&self) -> Vec<String> {
        numbered(self.regressions.iter().map(|regression| (regression.rule(), subject(regression))))
    }

    /// What is worse, in a sentence.
    pub fn message(&self, regression: &Regression<'_>) -> String {
        match regression {
            Regression::Field(change, moved, rule) => field_message(change, moved, *rule, self.comparison.noun),
            Regression::Type(change, rule) => type_message(change, *rule),
            Regression::Share(row) => {
                let title = title(&row.key, row.field.as_deref());
                let (noun, points) = (self.comparison.noun, row.difference.value * 100.0);
                if self.comparison.is_exact {
                    let (was, is) = (percent(row.old.value), percent(row.new.value));
                    return format!("{title}: {is} of the {noun}, was {was}: {points:+.1} points");
                }
                let (was, is) = (told(row.old), told(row.new));
                format!("{title}: {is} of the {noun}, was {was}: {points:+.1} points, beyond chance")
            }
            Regression::Misses(row) => {
                let title = data_title(row.key.as_ref());
                let growth = row.growth().map_or_else(String::new, |growth| format!(" ({:+.1} %)", growth * 100.0));
                let [is, was] = [row.new, row.old].map(count);
                format!("{title}: {is} misses of {} on {}, was {was}{growth}", row.cache, row.machine)
            }
        }
    }
}

/// Names, of which the later ones that are called alike under one heading are numbered: readers of findings take what is called alike for one.
pub(crate) fn numbered<H: Eq + Hash + Clone>(named: impl Iterator<Item = (H, String)>) -> Vec<String> {
    let mut seen: HashMap<(H, String), u32> = HashMap::new();
    let own = |(heading, name): (H, String)| {
        let number = seen.entry((heading, name.clone())).or_default();
        *number += 1;
        if *number == 1 { name } else { format!("{name} ({number})") }
    };
    named.map(own).collect()
}

/// What a regression is of.
fn subject(regression: &Regression<'_>) -> String {
    match regression {
        Regression::Field(change, moved, _) => format!("{}.{}", change.name, moved.field.path),
        Regression::Type(change, _) => change.name.clone(),
        Regression::Share(row) => title(&row.key, row.field.as_deref()),
        Regression::Misses(row) => format!("{}: {} of {}", data_title(row.key.as_ref()), row.cache, row.machine),
    }
}

/// How a rule is called in files.
pub(crate) fn rule_id(rule: Rule) -> &'static str {
    match rule {
        Rule::HotField => "hot_field",
        Rule::Crossing => "crossing",
        Rule::Lines => "lines",
        Rule::Size => "size",
        Rule::Holes => "holes",
        Rule::Share => "share",
        Rule::Misses => "misses",
    }
}

/// What a rule says.
pub(crate) fn rule_words(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::HotField => ("HotFieldOnLaterLine", "Hot fields stay on their cache line."),
        Rule::Crossing => ("FieldOnTwoLines", "Fields that fit in a cache line do not lie on two."),
        Rule::Lines => ("MoreCacheLines", "Types take no more cache lines than they did."),
        Rule::Size => ("TypeGrew", "Types do not grow by more than is allowed."),
        Rule::Holes => ("MoreHoles", "Types have no more bytes of holes than they had."),
        Rule::Share => ("ShareRose", "Data and fields do not cost more than they did."),
        Rule::Misses => ("MoreMisses", "Caches do not miss more than they did."),
    }
}

/// The type that a regression is of.
pub(crate) fn type_of<'c>(regression: &Regression<'c>) -> Option<&'c TypeChange> {
    match regression {
        Regression::Field(change, ..) | Regression::Type(change, _) => Some(change),
        Regression::Share(_) | Regression::Misses(_) => None,
    }
}

/// `bodies.x`, with what allocates the data.
pub(crate) fn title(key: &DataKey, field: Option<&str>) -> String {
    let name = if key.name.is_empty() { &key.kind } else { &key.name };
    let field = field.map(|field| format!(".{field}")).unwrap_or_default();
    match key.function.as_str() {
        "" => format!("{name}{field}"),
        function => format!("{name}{field} ({function})"),
    }
}

/// The same of data, or of all.
fn data_title(key: Option<&DataKey>) -> String {
    key.map_or_else(|| "all data".to_owned(), |key| title(key, None))
}

/// Why a machine or a cache was not compared.
fn unmatched_words(unmatched: &Unmatched) -> String {
    let cache = |Geometry { bytes, ways, line_bytes }: Geometry| {
        format!("{} bytes, {ways} ways, lines of {line_bytes} bytes", count(bytes))
    };
    match unmatched {
        Unmatched::OneRun { name, is_new: false } => format!("{name} is on the old side only"),
        Unmatched::OneRun { name, is_new: true } => format!("{name} is on the new side only"),
        Unmatched::Cores { machine, old, new } => {
            format!("{machine} is another machine: {}, had {old}", plural(u64::from(*new), "core"))
        }
        Unmatched::Cache { machine, cache: name, old, new } => {
            format!("{machine} is another machine: its {name} has {}; had {}", cache(*new), cache(*old))
        }
    }
}

fn field_message(change: &TypeChange, moved: &MovedField, rule: Rule, noun: &str) -> String {
    let MovedField { field, old_offset, .. } = moved;
    let hot = match (rule, field.heat > 0.0) {
        (Rule::HotField, true) => format!("hot field {} ({} of the {noun})", field.path, percent(field.heat)),
        (Rule::HotField, false) => format!("hot field {}", field.path),
        _ => format!("field {}", field.path),
    };
    let line = |offset: u64| offset / LINE_BYTES;
    let lines = match moved.crosses_newly() {
        true => format!("on lines {} and {}", line(field.offset), line(field.offset.saturating_add(field.bytes - 1))),
        false => format!("on line {}", line(field.offset)),
    };
    let (offset, old_line) = (field.offset, line(*old_offset));
    let name = &change.name;
    format!("{name}: {hot} is at offset {offset}, {lines}; it was at {old_offset}, on line {old_line}{}", added(change))
}

fn type_message(change: &TypeChange, rule: Rule) -> String {
    let TypeChange { name, old, new, .. } = change;
    let what = match rule {
        Rule::Lines => format!("{} cache lines, was {}; {} bytes, was {}", new.lines, old.lines, new.bytes, old.bytes),
        Rule::Holes => format!("{} bytes of holes, was {}", new.hole_bytes, old.hole_bytes),
        _ => format!("{} bytes, was {}", new.bytes, old.bytes),
    };
    format!("{name}: {what}{}", added(change))
}

/// The fields that may be the reason: those that are new, else one that grew.
fn added(change: &TypeChange) -> String {
    const MOST: usize = 3;
    let new: Vec<String> = change.added.iter().map(|field| format!("{} at {}", field.path, field.offset)).collect();
    let grew = change.moved.iter().find(|moved| moved.field.bytes > moved.old_bytes);
    match (new.as_slice(), grew) {
        ([], Some(grew)) => format!("; {} has {} bytes, had {}", grew.field.path, grew.field.bytes, grew.old_bytes),
        ([], None) => String::new(),
        (new, _) if new.len() > MOST => format!("; new: {} and {} more", new[..MOST].join(", "), new.len() - MOST),
        (new, _) => format!("; new: {}", new.join(", ")),
    }
}

/// Whether `TYPE.FIELD` is that of a field; the type's name may be its last part.
fn is_field(pattern: &str, type_name: &str, path: &str) -> bool {
    is_type_of(pattern, type_name) && pattern.split_once('.').is_some_and(|(_, field)| is_match(field, path))
}

/// Whether that is a field of this type.
fn is_type_of(pattern: &str, type_name: &str) -> bool {
    pattern.split_once('.').is_some_and(|(type_, _)| is_called(type_name, type_))
}

fn told(share: Sampled) -> String {
    format!("{} ({})", percent(share.value), range(Interval { low: share.low, high: share.high }))
}

fn type_change(change: &TypeChange) -> Value {
    let TypeChange { name, place, old, new, added, gone, moved } = change;
    json!({
        "type": name,
        "declared_at": place.as_ref().map(|(file, line)| json!({ "file": file, "line": line })),
        "old": figures(*old),
        "new": figures(*new),
        "added": added.iter().map(field).collect::<Vec<_>>(),
        "gone": gone.iter().map(field).collect::<Vec<_>>(),
        "moved": moved.iter().map(|moved| {
            let mut told = field(&moved.field);
            told["old_offset"] = json!(moved.old_offset);
            told["old_bytes"] = json!(moved.old_bytes);
            told["share"] = json!(moved.field.heat);
            told["is_on_later_line"] = json!(moved.is_on_later_line());
            told["crosses_newly"] = json!(moved.crosses_newly());
            told
        }).collect::<Vec<_>>(),
    })
}

fn field(field: &DeclaredField) -> Value {
    json!({ "field": field.path, "offset": field.offset, "bytes": field.bytes })
}

fn figures(figures: Figures) -> Value {
    let Figures { bytes, lines, hole_bytes, padding_bytes } = figures;
    json!({ "bytes": bytes, "lines": lines, "hole_bytes": hole_bytes, "padding_bytes": padding_bytes })
}

fn data(key: &DataKey) -> Value {
    let DataKey { name, kind, function, type_name, line, .. } = key;
    json!({ "name": name, "kind": kind, "function": function, "type": type_name, "line": line })
}

/// What data was known again by.
fn known_by(by: KnownBy) -> (&'static str, &'static str) {
    match by {
        KnownBy::All => ("all", "all that is known of it"),
        KnownBy::FunctionAndType => ("function_and_type", "its function and type"),
        KnownBy::NameAndType => ("name_and_type", "its name and type"),
        KnownBy::Callers => ("callers", "its type, its size and who calls its function"),
        KnownBy::OnlyOne => ("only_one", "its type and size, which nothing else has that is new or gone"),
    }
}

/// What data is called now, what it was, and what it was known again by.
pub(crate) fn renamed_words(renamed: &Renamed) -> String {
    let Renamed { old, new, by } = renamed;
    format!("{} was {}: known again by {}", title(new, None), title(old, None), known_by(*by).1)
}

fn renamed(renamed: &Renamed) -> Value {
    let Renamed { old, new, by } = renamed;
    json!({ "old": data(old), "new": data(new), "known_by": known_by(*by).0 })
}

fn interval(share: Sampled) -> Value {
    json!({ "share": share.value, "low": share.low, "high": share.high })
}

#[cfg(test)]
mod tests {
    use super::is_field;

    #[test]
    fn hot_fields_are_named_by_type_and_path() {
        assert!(is_field("body.mass", "struct body", "mass") && is_field("net::Node.pos.*", "net::Node", "pos.x"));
        assert!(is_field("*.x", "anything", "x") && !is_field("body.mass", "struct body", "mass2"));
        assert!(!is_field("body", "struct body", "body"));
    }
}
