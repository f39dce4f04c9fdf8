//! What keys do, as the browser tells it.

use super::screen::Screen;

/// All keys, for the overlay.
pub(super) const KEYS: [(&str, &str); 22] = [
    ("Enter →", "open: data, then its fields, their loops, the source"),
    ("Esc ← Backspace", "back"),
    ("↑ ↓ j k", "one row"),
    ("PgUp PgDn b Space", "one page"),
    ("Home End g G", "to the first row, to the last"),
    ("Tab Shift-Tab 1–8", "other views: by data, field, loop, function, line, …"),
    ("", ""),
    ("/", "filter: rows with all these words; Esc takes it away"),
    ("< > , .", "sort by the column to the left, to the right (top)"),
    ("s", "choose the column to sort by"),
    ("r R", "reverse the order"),
    ("", ""),
    ("", "In source:"),
    ("H", "to the costliest line (perf annotate)"),
    ("Tab Shift-Tab", "to the next costly line, to the one before"),
    ("/ n N", "look for text; again, backwards"),
    ("", ""),
    ("i", "the session: how it was sampled, what was lost"),
    ("h ? F1", "this page"),
    ("Ctrl-L", "draw anew"),
    ("Ctrl-Z", "suspend; fg goes on"),
    ("q Ctrl-C", "quit"),
];

/// What the lowest line says of keys, the last two wherever there is room for them.
pub(super) fn hints(screen: Option<&Screen>) -> Vec<(&'static str, &'static str)> {
    let mut hints = match screen {
        None => vec![("Enter", "open"), ("Tab", "view"), ("/", "filter"), ("<>", "sort"), ("r", "reverse")],
        Some(Screen::List { .. }) => {
            vec![("Enter", "open"), ("Esc", "back"), ("/", "filter"), ("<>", "sort"), ("r", "reverse")]
        }
        Some(Screen::Structure(_)) => {
            vec![("Enter", "loops"), ("Esc", "back"), ("/", "filter"), ("<>", "sort"), ("r", "reverse")]
        }
        Some(Screen::Code(_)) => {
            vec![("Esc", "back"), ("H", "hottest"), ("Tab", "next hot"), ("/", "search"), ("n", "next")]
        }
    };
    hints.extend([("i", "session"), ("h", "help"), ("q", "quit")]);
    hints
}
