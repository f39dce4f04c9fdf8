//! How much longer programs take in some ways than by themselves, and goals of that.

/// What one way of running a program takes, by what the program takes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowdown {
    /// Wall time.
    pub(crate) wall: f64,
    /// CPU time, with all that runs beside the program, where that can be told.
    pub(crate) cpu: Option<f64>,
}

/// Cells of a row.
pub(crate) fn cells(ratios: impl Iterator<Item = Option<f64>>) -> String {
    let cell = |ratio: Option<f64>| match ratio {
        None => "–".to_owned(),
        Some(ratio) if ratio < 10.0 => format!("{ratio:.2}"),
        Some(ratio) => format!("{ratio:.0}"),
    };
    ratios.map(cell).collect::<Vec<_>>().join(" | ")
}

/// Prints the head of the table of goals.
pub(crate) fn show_goals_head() {
    println!("| goal | at most | met by | missed by |\n| --- | --- | --- | --- |");
}

/// Prints which of these programs meet a goal and which don't. Whether all do.
pub(crate) fn show_goal(what: &str, at_most: f64, found: &[(&str, f64)]) -> bool {
    let (met, missed): (Vec<_>, Vec<_>) = found.iter().partition(|(_, cost)| *cost <= at_most);
    let names = |some: &[&(&str, f64)]| match some {
        [] => "–".to_owned(),
        _ => some.iter().map(|(name, cost)| format!("{name} {cost:.2}")).collect::<Vec<_>>().join(", "),
    };
    println!("| {what} | {at_most} | {} | {} |", names(&met), names(&missed));
    missed.is_empty()
}
