//! `slimline annotate`

use std::path::{Path, PathBuf};

use anyhow::bail;
use slimline_report::annotate;
use slimline_report::view::{Advice, Report};
use slimline_trace::session::{DEFAULT_DIRECTORY, HEADER_FILE};

use super::print;
use crate::cli::{self, Format};
use crate::pipeline;

/// Names listed where the one asked for is not there.
const SUGGESTIONS: usize = 8;

pub(crate) fn run(options: &cli::Annotate) -> anyhow::Result<u8> {
    let (session, name) = match options.words.as_slice() {
        [session] if Path::new(session).join(HEADER_FILE).exists() => {
            bail!("{session} is a session: name a type of its data, too (slimline annotate {session} TYPE)")
        }
        [name] => (PathBuf::from(DEFAULT_DIRECTORY), name),
        [session, name] => (PathBuf::from(session), name),
        _ => unreachable!("clap takes one or two words"),
    };
    let mut report = pipeline::report(&session)?;
    let found = annotate::matching(&report, name);
    if found.is_empty() {
        bail!("no data of type {name:?} in {}; {}", session.display(), instead(&report, name));
    }
    match options.format {
        Format::Text => {
            let mut out = String::new();
            for (number, group) in found.into_iter().enumerate() {
                if number > 0 {
                    out.push('\n');
                }
                annotate::structure(&mut out, &report, group)?;
            }
            print(&out)?;
        }
        Format::Json => {
            let wanted: Vec<u32> = found.iter().map(|group| group.id).collect();
            report.groups.retain(|group| wanted.contains(&group.id));
            let is_about = |advice: &Advice| {
                wanted.contains(&advice.group) || advice.other_groups.iter().any(|group| wanted.contains(group))
            };
            report.advice.retain(is_about);
            print(&slimline_report::json(&report))?;
        }
    }
    Ok(0)
}

/// What could have been asked for: what it is a base or a member of, which has its fields, else what there is.
fn instead(report: &Report, name: &str) -> String {
    let mut holding = annotate::holding(report, name);
    if holding.is_empty() {
        return known(report);
    }
    holding.truncate(SUGGESTIONS);
    format!("its fields are told with what it is part of: {}", holding.join(", "))
}

/// What there is.
fn known(report: &Report) -> String {
    let mut types: Vec<&str> = Vec::new();
    for name in report.groups.iter().filter_map(|group| group.type_name.as_deref()) {
        if !types.contains(&name) {
            types.push(name);
        }
    }
    if !types.is_empty() {
        types.truncate(SUGGESTIONS);
        return format!("the hottest types are: {}", types.join(", "));
    }
    let groups = report.groups.iter().filter(|group| group.share > 0.0 && !group.fields.is_empty());
    match groups.map(|group| group.name.as_str()).next() {
        None if report.session.samples == 0 => "it has no samples".to_owned(),
        None => "no type is known of any of its data: was the program compiled with -g?".to_owned(),
        Some(name) => format!(
            "no type is known of any of its data: was the program compiled with -g? \
             Data can be asked for by its name in the report, as {name:?}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use slimline_report::view::{Breakdowns, Coverage, Field, Group, Layout, LayoutMember, SCHEMA, Session};

    use super::*;

    fn report(samples: u64, groups: Vec<Group>) -> Report {
        Report {
            schema: SCHEMA,
            session: Session { samples, ..Session::default() },
            groups,
            loops: Vec::new(),
            breakdowns: Breakdowns::default(),
            lines: Vec::new(),
            coverage: Coverage::default(),
            advice: Vec::new(),
        }
    }

    /// A base's accesses are at offsets of the derived class.
    #[test]
    fn what_a_base_is_part_of_is_told() {
        let member =
            |type_name: &str, nested| LayoutMember { type_name: type_name.to_owned(), nested, ..Default::default() };
        let derived = |name: &str, members| Group {
            type_name: Some(name.to_owned()),
            layout: Some(Layout { name: name.to_owned(), members, ..Layout::default() }),
            ..Group::default()
        };
        let groups = vec![
            derived("sky::Ship", vec![member("sky::Body", true), member("long", false)]),
            derived("sky::Pointer", vec![member("sky::Body *", false)]),
            derived("sky::Ship", vec![member("sky::Body", true)]),
            derived("sky::Crate<int>", vec![member("double", false), member("sky::Body", true)]),
        ];
        let report = report(9, groups);
        assert_eq!(instead(&report, "Body"), "its fields are told with what it is part of: sky::Ship, sky::Crate<int>");
        assert_eq!(instead(&report, "sky::Body"), instead(&report, "Body"));
        assert!(instead(&report, "Bod").starts_with("the hottest types are: sky::Ship"));
    }

    #[test]
    fn what_could_be_asked_for_is_told() {
        assert_eq!(known(&report(0, Vec::new())), "it has no samples");
        let typed = |name: &str| Group { share: 0.1, type_name: Some(name.to_owned()), ..Group::default() };
        let told = known(&report(9, vec![typed("int"), typed("struct a"), typed("int")]));
        assert_eq!(told, "the hottest types are: int, struct a");
        let group = Group { name: "heap:7".to_owned(), share: 0.1, ..Group::default() };
        assert!(known(&report(9, vec![group.clone()])).ends_with("compiled with -g?"));
        let with_fields = Group { fields: vec![Field::default()], ..group };
        assert!(known(&report(9, vec![with_fields])).ends_with("as \"heap:7\""));
    }
}
