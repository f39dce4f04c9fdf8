//! Bars of shares. What they say is in numbers beside them, and in words for those who do not see them.

use std::fmt::{self, Write};

use super::page::Escaped;
use crate::text::gain;
use crate::text::number::{count, percent};
use crate::view::Interval;

/// Widths below are not seen, and would be a line of nothing.
const LEAST_SHARE: f64 = 0.0005;
/// What a letter takes of a large bar on a wide screen, and the room around them.
const LETTER_SHARE: f64 = 0.0068;
const AROUND_SHARE: f64 = 0.012;

/// Colours of parts, one after the other, as the style sheet has them.
pub(super) const TONES: [&str; 8] = ["tone-0", "tone-1", "tone-2", "tone-3", "tone-4", "tone-5", "tone-6", "tone-7"];

/// A part of a bar.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// How it is drawn: of the style sheet.
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) share: f64,
}

/// A large bar whose parts say what they are, where there is room.
pub(super) fn large(what: &str, parts: &[Part]) -> String {
    stacked("large", what, parts, |part| {
        let needed = AROUND_SHARE + LETTER_SHARE * part.name.chars().count() as f64;
        if part.share < needed { String::new() } else { Escaped(&part.name).to_string() }
    })
}

/// A small bar, beside numbers.
pub(super) fn small(what: &str, parts: &[Part]) -> String {
    stacked("small", what, parts, |_| String::new())
}

fn stacked(class: &str, what: &str, parts: &[Part], inside: impl Fn(&Part) -> String) -> String {
    let told: Vec<String> = parts.iter().map(said).collect();
    let mut bar = format!(
        "<div class=\"stack {class}\" role=\"img\" aria-label=\"{}\">",
        Escaped(&format!("{what}: {}", told.join(", ")))
    );
    for part in parts.iter().filter(|part| part.share >= LEAST_SHARE) {
        bar += &format!(
            "<span class=\"{}\" style=\"width:{:.3}%\" title=\"{}\">{}</span>",
            part.class,
            part.share * 100.0,
            Escaped(&said(part)),
            inside(part)
        );
    }
    bar + "</div>"
}

fn said(part: &Part) -> String {
    format!("{} {}", part.name, percent(part.share))
}

/// How much of the most something is, where anything is; the number is beside it.
pub(super) fn of_most(n: u64, most: u64) -> String {
    if most == 0 { String::new() } else { filled(n as f64 / most as f64) }
}

/// A part of a whole, 0 to 1; the number is beside it.
pub(super) fn filled(part: f64) -> String {
    let width = part * 100.0;
    format!("<span class=\"of-most\" aria-hidden=\"true\"><span style=\"width:{width:.1}%\"></span></span>")
}

/// A share with its interval; both are in numbers beside it.
pub(super) fn interval(share: f64, Interval { low, high }: Interval) -> String {
    let [share, low, high] = [share, low, high].map(|end| end.clamp(0.0, 1.0) * 100.0);
    format!(
        "<span class=\"interval\" aria-hidden=\"true\" style=\"--value:{share:.1};--low:{low:.1};--high:{high:.1}\"></span>"
    )
}

/// Most data that are parts of the bar, and the share of the smallest.
const MOST_DATA: usize = 8;
const LEAST_DATA: f64 = 0.01;

/// Where all of something goes, by data, most first, and what goes to none that is known; with what the parts are.
pub(super) fn of_data(
    out: &mut impl Write,
    what: &str,
    known: &[(String, f64)],
    (other, of_other): (&str, f64),
) -> fmt::Result {
    let told = known.iter().take(MOST_DATA).take_while(|(_, share)| *share >= LEAST_DATA).count();
    let part = |class, name: String, share| Part { class, name, share };
    let of_known = known[..told].iter().zip(TONES);
    let mut parts: Vec<Part> = of_known.map(|((name, share), class)| part(class, name.clone(), *share)).collect();
    let rest = &known[told..];
    let rest_share: f64 = rest.iter().map(|(_, share)| share).sum();
    if rest_share > 0.0 {
        parts.push(part("more", format!("{} more", count(rest.len() as u64)), rest_share));
    }
    parts.push(part("outside", other.to_owned(), of_other));
    writeln!(out, "{}", large(what, &parts))?;
    let shown: Vec<(&str, String)> = parts.iter().map(|part| (part.class, said(part))).collect();
    let named: Vec<(&str, &str)> = shown.iter().map(|(class, name)| (*class, name.as_str())).collect();
    out.write_str(&legend(&named))
}

/// By how much it would change, between which ends, with a bar of what is left of it; `beside` is markup behind the numbers.
pub(super) fn prediction(
    out: &mut impl Write,
    what: &str,
    (change, ends): (f64, Interval),
    beside: &str,
) -> fmt::Result {
    writeln!(
        out,
        "<p class=\"gain\"><strong>{} {what}</strong> <span>predicted, {} to {}</span>{beside}</p>",
        Escaped(gain(change)),
        Escaped(gain(ends.low)),
        Escaped(gain(ends.high))
    )?;
    // To the left what is left of the time, whose end lies within the interval.
    let left = |change: f64| ((1.0 + change) * 100.0).clamp(0.0, 100.0);
    writeln!(
        out,
        "<div class=\"interval left\" role=\"img\" aria-label=\"{} of the {what} is left, between {} and {}\" \
         style=\"--value:{:.1};--low:{:.1};--high:{:.1}\"></div>",
        Escaped(percent(1.0 + change)),
        Escaped(percent(1.0 + ends.low)),
        Escaped(percent(1.0 + ends.high)),
        left(change),
        left(ends.low),
        left(ends.high)
    )
}

/// What the parts of small bars are.
pub(super) fn legend(parts: &[(&str, &str)]) -> String {
    let each = |(class, name): &(&str, &str)| {
        format!("<li><span class=\"swatch {class}\" aria-hidden=\"true\"></span>{}</li>", Escaped(name))
    };
    format!("<ul class=\"legend\">{}</ul>\n", parts.iter().map(each).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_said_in_words() {
        let part = |name: &str, share| Part { class: "outside", name: name.to_owned(), share };
        let bar = large("time", &[part("a\"b", 0.96), part("c", 0.0395), part("d", 0.0001)]);
        assert!(bar.contains("aria-label=\"time: a&quot;b 96.0 %, c 4.0 %, d &lt;0.1 %\""), "{bar}");
        assert!(bar.contains("style=\"width:96.000%\"") && bar.contains(">c</span>"), "{bar}");
        assert_eq!(bar.matches("<span").count(), 2, "{bar}");
    }
}
