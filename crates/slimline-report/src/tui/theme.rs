//! How things look. Colours only repeat what numbers and words beside them say; without them there are attributes.

use ratatui_core::style::{Color, Modifier, Style};

use crate::structure_map::heat;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// The terminal's own sixteen, as its user has chosen them.
    Coloured,
    /// None: bold, dim and reversed text.
    Plain,
}

/// Hottest last: colours of text and ground of blocks, coldest first as `structure_map::HEAT`.
const GROUNDS: [Option<(Color, Color)>; 6] = [
    None,
    Some((Color::White, Color::Blue)),
    Some((Color::Black, Color::Cyan)),
    Some((Color::Black, Color::Green)),
    Some((Color::Black, Color::Yellow)),
    Some((Color::White, Color::Red)),
];

pub(super) const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

impl Theme {
    /// Of a share as a number.
    pub(super) fn share(self, share: f64) -> Style {
        match (self, heat(share)) {
            (_, 0) => DIM,
            (Self::Plain, 4..) => HEADING,
            (Self::Plain, _) | (Self::Coloured, 1 | 2) => Style::new(),
            (Self::Coloured, 3) => Style::new().fg(Color::Green),
            (Self::Coloured, 4) => Style::new().fg(Color::Yellow),
            (Self::Coloured, _) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Of a block of a map that is so hot.
    pub(super) fn block(self, share: f64) -> Style {
        let level = heat(share);
        match (self, GROUNDS[level]) {
            (Self::Coloured, Some((text, ground))) => Style::new().fg(text).bg(ground),
            (Self::Coloured, None) => DIM,
            (Self::Plain, _) => match level {
                0 => DIM,
                1..4 => Style::new(),
                4 => HEADING,
                _ => HEADING.add_modifier(Modifier::REVERSED),
            },
        }
    }

    /// Of the title of an advice.
    pub(super) fn advice(self) -> Style {
        match self {
            Self::Coloured => HEADING.fg(Color::Yellow),
            Self::Plain => HEADING,
        }
    }
}
