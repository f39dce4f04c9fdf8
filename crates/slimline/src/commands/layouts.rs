//! `slimline layouts`

use anyhow::ensure;
use slimline_report::annotate;
use slimline_report::declared_layouts::{LayoutOrder, TypeFilter};
use slimline_report::text::{self, Limits};

use super::print;
use crate::cli::{self, LayoutSort, TableFormat};
use crate::declared_layouts;

pub(crate) fn run(options: &cli::Layouts) -> anyhow::Result<u8> {
    let order = match options.sort {
        LayoutSort::Size => LayoutOrder::Size,
        LayoutSort::Holes => LayoutOrder::Holes,
        LayoutSort::Crossings => LayoutOrder::Crossings,
        LayoutSort::Name => LayoutOrder::Name,
    };
    let mut wanted = TypeFilter::from(&options.wanted);
    if let Some(name) = &options.show {
        // Who names a type wants it whoseever it is.
        wanted = TypeFilter { types: vec![name.clone()], all: true, ..wanted };
    }
    let report = declared_layouts::read(&options.files, &wanted, order)?;
    if let Some(name) = &options.show {
        ensure!(!report.types.is_empty(), "no type {name:?} in what was read: slimline layouts FILE lists types");
    }
    match options.format {
        TableFormat::Json => print(&report.json())?,
        TableFormat::Csv => print(&report.csv())?,
        TableFormat::Text => {
            let mut out = String::new();
            if options.show.is_some() {
                for (number, layout) in report.types.iter().enumerate() {
                    if number > 0 {
                        out.push('\n');
                    }
                    annotate::declared_type(&mut out, layout)?;
                }
            } else {
                let limits = Limits { rows: options.rows, wide: options.wide, ..Limits::default() };
                text::declared_layouts(&mut out, &report, limits)?;
            }
            print(&out)?;
        }
    }
    Ok(0)
}
