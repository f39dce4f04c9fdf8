//! The session's weight by type, function, line, thread and region.

use std::collections::BTreeMap;

use slimline_analyze::hot::{HotFindings, HotRow};
use slimline_analyze::share::{Share, Tally};
use slimline_attribute::tables::{CodePlace, Tables};

use crate::regions::SessionRegions;
use crate::view;

pub(super) fn view(hot: &HotFindings, tables: &Tables, regions: &SessionRegions) -> view::Breakdowns {
    view::Breakdowns {
        types: rows(&hot.types, |name| (name.clone().unwrap_or_else(|| "type not known".to_owned()), String::new())),
        functions: rows(&hot.functions, |(function, module)| (function.clone(), module.clone())),
        lines: rows(&hot.lines, |place| match place {
            Some(CodePlace::Line { file, line }) => (format!("{file}:{line}"), String::new()),
            Some(CodePlace::Loop { module, start, end }) => (format!("{module}+{start}-{end}"), "loop".to_owned()),
            Some(CodePlace::Function { module, function }) => (function.clone(), module.clone()),
            None => ("line not known".to_owned(), String::new()),
        }),
        threads: rows(&hot.threads, |&thread| {
            let thread = tables.thread(thread);
            (format!("{}", thread.tid), format!("{} (process {})", thread.name, thread.pid))
        }),
        regions: self::regions(hot, regions),
    }
}

/// By the innermost region; nothing where the session was recorded without.
fn regions(hot: &HotFindings, regions: &SessionRegions) -> Vec<view::Row> {
    if regions.is_empty() {
        return Vec::new();
    }
    let mut by_name: BTreeMap<(String, String), Tally> = BTreeMap::new();
    for (&(thread, path), tally) in &hot.regions {
        by_name.entry(regions.name(thread, path)).or_default().merge(*tally);
    }
    let mut rows: Vec<view::Row> = by_name
        .into_iter()
        .map(|((name, detail), tally)| {
            let share = tally.share_of(&hot.whole);
            let share_interval = interval(&share);
            view::Row { name, detail, share: share.value, share_interval, samples: share.samples }
        })
        .collect();
    rows.sort_by(|a, b| b.share.total_cmp(&a.share));
    rows
}

fn rows<K>(rows: &[HotRow<K>], name: impl Fn(&K) -> (String, String)) -> Vec<view::Row> {
    rows.iter()
        .map(|row| {
            let (name, detail) = name(&row.key);
            let Share { value, samples, .. } = row.share;
            view::Row { name, detail, share: value, share_interval: interval(&row.share), samples }
        })
        .collect()
}

pub(super) fn interval(share: &Share) -> view::Interval {
    view::Interval { low: share.low, high: share.high }
}
