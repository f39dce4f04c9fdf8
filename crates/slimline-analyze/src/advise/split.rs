//! Splitting: an array of structures into several arrays; a node into its hot part and a cold one behind a pointer.

use super::definition::{self, Part};
use super::lines::{Layout, Packing};
use super::placing::{NewLayout, laid_out};
use super::{Advice, Kind, SourceLoop, Subject, percent};
use crate::clusters::Rules;
use crate::object_layout::block_spacing;
use crate::structure::Structure;
use crate::ties::Ties;

/// Size of the pointer from the hot part to the cold one.
const POINTER_BYTES: u64 = 8;

/// The split by the group's clusters; `None` where there is but one.
pub(super) fn split(subject: &Subject<'_>) -> Option<Advice> {
    let structure = subject.group.structure?;
    let clusters: Vec<&[usize]> = subject
        .group
        .clusters
        .iter()
        .map(|cluster| cluster.fields.as_slice())
        .filter(|fields| !fields.is_empty())
        .collect();
    if clusters.len() < 2 {
        return None;
    }
    // In one array a pointer to an element is as good as its index.
    let linked = points_to_itself(subject);
    if structure.one_per_object || linked && subject.amount().objects > 1 {
        hot_cold(subject, &structure, &clusters)
    } else {
        arrays(subject, &structure, &clusters, linked)
    }
}

/// The layout as it is, for a loop that uses these fields.
pub(super) fn as_it_is(subject: &Subject<'_>, structure: &Structure, fields: &[usize]) -> Vec<Layout> {
    let (spacing, start) = match structure.one_per_object {
        true => (block_spacing(structure.start + structure.element_bytes), structure.start),
        false => (structure.element_bytes, 0),
    };
    let used = fields.iter().map(|&field| &subject.group.fields[field]);
    vec![Layout { spacing, used: used.map(|field| (start + field.offset, field.bytes)).collect() }]
}

fn used_of(placed: &[(usize, u64, u64)], fields: &[usize]) -> Vec<(u64, u64)> {
    placed.iter().filter(|(field, ..)| fields.contains(field)).map(|&(_, offset, bytes)| (offset, bytes)).collect()
}

fn arrays(subject: &Subject<'_>, structure: &Structure, clusters: &[&[usize]], linked: bool) -> Option<Advice> {
    let layouts: Vec<_> = clusters.iter().map(|fields| laid_out(subject, fields)).collect();
    let after = |fields: &[usize]| -> Vec<Layout> {
        layouts
            .iter()
            .map(|(placed, bytes)| Layout { spacing: *bytes, used: used_of(placed, fields) })
            .filter(|layout| !layout.used.is_empty())
            .collect()
    };
    let packing = Packing::of(subject, |fields| as_it_is(subject, structure, fields), after);
    let predicted = subject.predict(&packing);
    let all: Vec<usize> = clusters.concat();
    let parts: Vec<Part<'_>> = clusters.iter().map(|fields| Part { fields, pointer: false }).collect();
    let words: Vec<String> = clusters.iter().map(|fields| subject.braces(fields)).collect();
    Some(Advice {
        kind: Kind::Split,
        group: subject.group.group,
        others: subject.others(),
        title: format!("Split {} into {}", subject.name(), words.join(" ")),
        fields: clusters.iter().map(|fields| subject.offsets(fields)).collect(),
        layouts: layouts.iter().map(|(placed, bytes)| NewLayout::of(subject, placed, *bytes)).collect(),
        confidence: subject.confidence(&predicted),
        why: why(subject, structure, clusters),
        code: definition::arrays(subject, &parts, linked),
        declared_at: subject.declared_at(),
        touched_lines: subject.lines_that_touch(&all),
        ties: Ties::default(),
        predicted: Some(predicted),
    })
}

/// Hot are the first clusters, as many as make the gain greatest.
fn hot_cold(subject: &Subject<'_>, structure: &Structure, clusters: &[&[usize]]) -> Option<Advice> {
    let candidates = (1..clusters.len()).filter_map(|count| {
        let mut hot = clusters[..count].concat();
        let mut cold = clusters[count..].concat();
        hot.sort_unstable();
        cold.sort_unstable();
        let cold_bytes: u64 = cold.iter().map(|&field| subject.group.fields[field].bytes).sum();
        // Smaller than the pointer that would replace it: nothing is won.
        (cold_bytes > POINTER_BYTES).then(|| {
            let packing = hot_cold_packing(subject, structure, &hot, &cold);
            (subject.predict(&packing), hot, cold)
        })
    });
    let (predicted, hot, cold) = candidates.min_by(|a, b| a.0.cycles.total_cmp(&b.0.cycles))?;
    let parts = [Part { fields: &hot, pointer: true }, Part { fields: &cold, pointer: false }];
    let (cold_placed, cold_bytes) = laid_out(subject, &cold);
    let cold_layout = NewLayout::of(subject, &cold_placed, cold_bytes);
    Some(Advice {
        kind: Kind::HotColdSplit,
        group: subject.group.group,
        others: subject.others(),
        title: format!(
            "Keep {} in {} and move {} behind a pointer",
            subject.braces(&hot),
            subject.name(),
            subject.braces(&cold)
        ),
        fields: vec![subject.offsets(&hot), subject.offsets(&cold)],
        layouts: vec![hot_layout(subject, &hot), cold_layout],
        confidence: subject.confidence(&predicted),
        why: why(subject, structure, &[&hot, &cold]),
        code: definition::hot_cold(subject, &parts),
        declared_at: subject.declared_at(),
        touched_lines: subject.lines_that_touch(&cold),
        ties: Ties::default(),
        predicted: Some(predicted),
    })
}

/// The hot part with its pointer behind it.
fn hot_layout(subject: &Subject<'_>, hot: &[usize]) -> NewLayout {
    let (placed, bytes) = laid_out(subject, hot);
    let pointer_at = bytes.next_multiple_of(POINTER_BYTES);
    NewLayout { pointer_at: Some(pointer_at), ..NewLayout::of(subject, &placed, pointer_at + POINTER_BYTES) }
}

fn hot_cold_packing(subject: &Subject<'_>, structure: &Structure, hot: &[usize], cold: &[usize]) -> Packing {
    let (placed, bytes) = laid_out(subject, hot);
    let pointer_at = bytes.next_multiple_of(POINTER_BYTES);
    let hot_bytes = pointer_at + POINTER_BYTES;
    let spacing = if structure.one_per_object { block_spacing(hot_bytes) } else { hot_bytes };
    let (cold_placed, cold_bytes) = laid_out(subject, cold);
    let after = |fields: &[usize]| -> Vec<Layout> {
        let mut used = used_of(&placed, fields);
        let cold_used = used_of(&cold_placed, fields);
        let mut layouts = Vec::new();
        if !cold_used.is_empty() {
            used.push((pointer_at, POINTER_BYTES));
            layouts.push(Layout { spacing: cold_bytes, used: cold_used });
        }
        layouts.push(Layout { spacing, used });
        layouts
    };
    Packing::of(subject, |fields| as_it_is(subject, structure, fields), after)
}

/// Whether the element has a pointer to its own type: a list or a tree, even if its nodes lie in one array.
fn points_to_itself(subject: &Subject<'_>) -> bool {
    let name = subject.name();
    let name = name.strip_prefix("struct ").unwrap_or(&name);
    let is_link = |type_name: &str| {
        let mut words = type_name.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        (type_name.contains('*') || type_name.contains("Box<") || type_name.contains("NonNull<"))
            && words.any(|word| word == name)
    };
    subject.group.fields.iter().filter_map(|field| field.type_name.as_deref()).any(is_link)
}

/// `, 30.0 % of it computing`
fn computing_words(of: &SourceLoop) -> String {
    match of.computing / of.share {
        part if part >= 0.005 => format!(", {} of it computing", percent(part)),
        _ => String::new(),
    }
}

fn why(subject: &Subject<'_>, structure: &Structure, clusters: &[&[usize]]) -> String {
    let group = subject.group;
    let share = |fields: &[usize]| fields.iter().map(|&field| group.fields[field].share).sum::<f64>();
    let bytes = |fields: &[usize]| fields.iter().map(|&field| group.fields[field].bytes).sum::<u64>();
    let first = clusters[0];
    let mut why = format!(
        "{} {} of the {}; {} of that goes to {}, {} of its {} bytes.",
        subject.takes(),
        percent(group.share.value),
        subject.cost(),
        percent(share(first)),
        subject.braces(first),
        bytes(first),
        structure.element_bytes
    );
    if let Some(hottest) = subject.hottest_loop() {
        why += &format!(
            " Its hottest loop, {} ({} of the {}{}), uses {}: {} of the {} bytes it passes over.",
            hottest.name,
            percent(hottest.share),
            subject.cost(),
            computing_words(&hottest),
            subject.braces(&hottest.fields),
            bytes(&hottest.fields),
            structure.element_bytes
        );
    }
    // Ties of what is hardly used are 0 or 1, by the few accesses that there are.
    let is_used =
        |field: usize| group.fields[field].share.max(group.fields[field].access_share) >= Rules::default().cold;
    let strongest = |a: &[usize], b: &[usize]| {
        let between = |tie: &&crate::affinity::Affinity| {
            is_used(tie.a)
                && is_used(tie.b)
                && (a.contains(&tie.a) && b.contains(&tie.b) || a.contains(&tie.b) && b.contains(&tie.a))
        };
        group.affinity.iter().find(between).map_or(0.0, |tie| tie.value)
    };
    let across = clusters[1..].iter().map(|other| strongest(first, other)).fold(0.0, f64::max);
    why += &format!(" No field of the others is used with it at more than affinity {across:.2}.");
    if subject.spanned_share() >= 0.01 {
        why += &format!(
            " In {} of its {} vector loads span several fields: which of them are used is not visible.",
            percent(subject.spanned_share()),
            subject.cost()
        );
    }
    if !subject.order_is_seen() {
        why += " In which order its elements are visited was not seen: there are no bursts.";
    }
    why
}
