//! The session's weight by type, function, line and thread.

use slimline_analyze::hot::{HotFindings, HotRow};
use slimline_analyze::share::Share;
use slimline_attribute::tables::{CodePlace, Tables};

use crate::view;

pub(super) fn view(hot: &HotFindings, tables: &Tables) -> view::Breakdowns {
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
    }
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
