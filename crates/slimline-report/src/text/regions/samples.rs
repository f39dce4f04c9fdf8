//! What samples tell of chosen data by region and thread.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use slimline_trace::escape::plain;
use slimline_trace::session::WeightUnit;

use super::{NAME_COLUMNS, PLACE_COLUMNS, chosen_rows, place, title};
use crate::regions::{DataSamples, Estimated, RegionRow, RegionsProcess, SampledCounts, SampledData};
use crate::text::number::{RANGE, count, duration, percent, plural, plural_of, range};
use crate::text::table::{Column, Rows};
use crate::text::{DIM, HEADING, fold};

/// How much was sampled, and what was chosen.
pub(super) fn head(out: &mut impl Write, data: &SampledData) -> fmt::Result {
    fold(out, &sampled_words(data), 0, 2)?;
    chosen_rows(out, &data.chosen)
}

/// How much was sampled, and what is told of that.
pub(crate) fn sampled_words(data: &SampledData) -> String {
    let SampledData { samples, noun, seen_accesses, bursts, .. } = data;
    let whole = if data.unit == WeightUnit::TimeNs.name() { "user time" } else { noun };
    format!(
        "Sampled: {} for {} of {whole}, {} seen in {}. From–to: 95 times out of 100 it is there. Loads and stores (~) are \
         estimates by the pace of the code, and not given where that is not known.",
        plural(*samples, "sample"),
        weight(data, data.weight as f64),
        plural_of(*seen_accesses, "access", "accesses"),
        plural(*bursts, "burst")
    )
}

/// Where the time of each data chosen goes: over all threads, without the regions within.
pub(super) fn places(out: &mut impl Write, process: &RegionsProcess, data: &SampledData, most: usize) -> fmt::Result {
    let of_regions = process.regions.iter().map(|row| (Some(row), &row.exclusive_samples));
    let all = of_regions.chain([(None, &process.outside_samples)]);
    let mut places: Vec<(Option<&RegionRow>, &DataSamples)> =
        all.flat_map(|(row, all)| all.iter().map(move |of| (row, of))).collect();
    places.sort_by_key(|(_, of)| (of.chosen.is_none(), of.chosen, Reverse(of.sum.weight.value as u64)));
    writeln!(out, "\n{HEADING}Where {} goes, by data{HEADING:#}", data.noun)?;
    let columns = [
        Column::Shortened("data", NAME_COLUMNS),
        Column::Shortened("region", PLACE_COLUMNS - 6),
        Column::Number("samples"),
        Column::Number(data.noun),
        Column::Number("share"),
        Column::Number("accesses"),
        Column::Number(RANGE),
    ];
    let mut rows = Rows::new(&columns, false);
    let mut hidden = 0;
    for (at, (row, of)) in places.iter().enumerate() {
        // Of each data so many.
        let first = places[..at].iter().filter(|(_, before)| before.chosen == of.chosen).count();
        if first >= most {
            hidden += 1;
            continue;
        }
        let SampledCounts { samples, weight: own, access_share, access_share_interval, .. } = &of.sum;
        rows.push(vec![
            if first == 0 { plain(data.name(of.chosen)) } else { String::new() },
            row.map_or_else(|| "outside".to_owned(), |row| format!("{} {}", title(row), place(&row.at))),
            count(*samples),
            weight(data, own.value),
            percent(own.value / data.weight.max(1) as f64),
            percent(*access_share),
            range(*access_share_interval),
        ]);
    }
    rows.write(out, 2)?;
    if hidden > 0 {
        writeln!(out, "  {DIM}{} more{DIM:#}", count(hidden))?;
    }
    Ok(())
}

/// By data and thread.
pub(super) fn samples(out: &mut impl Write, all: &[DataSamples], data: &SampledData) -> fmt::Result {
    let columns = [
        Column::Shortened("data", NAME_COLUMNS),
        Column::Number("TID"),
        Column::Number("samples"),
        Column::Number(data.noun),
        Column::Number(RANGE),
        Column::Number("~loads"),
        Column::Number(RANGE),
        Column::Number("~stores"),
        Column::Number(RANGE),
    ];
    let mut rows = Rows::new(&columns, false);
    for of in all {
        let name = plain(data.name(of.chosen));
        let mut push = |name: &str, thread: String, counts: &SampledCounts| {
            let SampledCounts { samples, weight: own, loads, stores, .. } = counts;
            let mut cells = vec![name.to_owned(), thread, count(*samples), weight(data, own.value)];
            cells.push(format!("{}–{}", weight(data, own.low), weight(data, own.high)));
            for estimate in [loads, stores] {
                cells.extend(estimate.as_ref().map_or_else(|| ["–".to_owned(), String::new()], estimated));
            }
            rows.push(cells);
        };
        for (at, (thread, counts)) in of.threads.iter().enumerate() {
            let thread = thread.map_or_else(|| "–".to_owned(), |thread| thread.to_string());
            push(if at == 0 { &name } else { "" }, thread, counts);
        }
        push("", "SUM".to_owned(), &of.sum);
    }
    rows.write(out, 2)
}

/// A weight of samples: a duration, where it is time.
pub(crate) fn weight(data: &SampledData, weight: f64) -> String {
    if data.unit == WeightUnit::TimeNs.name() { duration(weight as u64) } else { count(weight as u64) }
}

/// `36.1 M`, and `34.9–37.3`: in the unit of the number.
pub(crate) fn estimated(of: &Estimated) -> [String; 2] {
    let Estimated { value, low, high } = *of;
    let (unit, scale) = match high {
        0.0..1e4 => ("", 1.0),
        1e4..1e7 => (" k", 1e3),
        1e7..1e10 => (" M", 1e6),
        _ => (" G", 1e9),
    };
    let digits = if scale == 1.0 || high / scale >= 100.0 { 0 } else { 1 };
    // The interval is never told narrower than it is.
    let power = 10_f64.powi(digits);
    let outwards = |value: f64, round: fn(f64) -> f64| round(value / scale * power) / power;
    let digits = digits as usize;
    [
        format!("{:.digits$}{unit}", value / scale),
        format!("{:.digits$}–{:.digits$}", outwards(low, f64::floor), outwards(high, f64::ceil)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_told_in_one_unit() {
        let told = |value, low, high| estimated(&Estimated { value, low, high }).join(" ");
        assert_eq!(told(36.04e6, 35.01e6, 37.0e6), "36.0 M 35.0–37.0");
        assert_eq!(told(144.4e6, 140.9e6, 147.2e6), "144 M 140–148");
        assert_eq!(told(0.0, 0.0, 12.2), "0 0–13");
        assert_eq!(told(9_000.0, 8_000.0, 12_345.0), "9.0 k 8.0–12.4");
    }
}
