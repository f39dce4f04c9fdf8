//! Which of many lines are in sight, and on which of them the cursor is.

/// Where a key takes the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// A cursor among lines, and those of them that are in sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) cursor: usize,
    /// The uppermost line in sight.
    pub(super) first: usize,
    /// Lines that were in sight when it was drawn last.
    height: usize,
}

impl Window {
    pub(super) fn at(cursor: usize) -> Self {
        Self { cursor, ..Self::default() }
    }

    /// Moves among `lines`; a page leaves one line of the one before in sight.
    pub(super) fn go(&mut self, motion: Motion, lines: usize) {
        let page = self.height.saturating_sub(1).max(1);
        let cursor = match motion {
            Motion::Up => self.cursor.saturating_sub(1),
            Motion::Down => self.cursor.saturating_add(1),
            Motion::PageUp => self.cursor.saturating_sub(page),
            Motion::PageDown => self.cursor.saturating_add(page),
            Motion::Home => 0,
            Motion::End => usize::MAX,
        };
        self.cursor = cursor.min(lines.saturating_sub(1));
    }

    /// Scrolls as little as brings the cursor into sight of `height` lines; those in sight, of so many.
    pub(super) fn shown(&mut self, height: usize, lines: usize) -> std::ops::Range<usize> {
        self.height = height;
        self.cursor = self.cursor.min(lines.saturating_sub(1));
        self.first = self.first.min(self.cursor).max((self.cursor + 1).saturating_sub(height.max(1)));
        // No lines are left blank at the end while there are some above.
        self.first = self.first.min(lines.saturating_sub(height));
        self.first..(self.first + height).min(lines)
    }

    /// The same of text without a cursor in sight: that is its uppermost line.
    pub(super) fn scrolled(&mut self, height: usize, lines: usize) -> std::ops::Range<usize> {
        self.height = height;
        self.cursor = self.cursor.min(lines.saturating_sub(height));
        self.first = self.cursor;
        self.first..(self.first + height).min(lines)
    }

    /// The same with the cursor's line in the middle, as far as there are lines around it.
    pub(super) fn centred(&mut self, height: usize, lines: usize) -> std::ops::Range<usize> {
        self.cursor = self.cursor.min(lines.saturating_sub(1));
        self.first = self.cursor.saturating_sub(height / 2);
        self.shown(height, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_stays_in_sight_and_among_the_lines() {
        let mut window = Window::default();
        assert_eq!(window.shown(10, 25), 0..10);
        window.go(Motion::Down, 25);
        window.go(Motion::PageDown, 25);
        assert_eq!((window.cursor, window.shown(10, 25)), (10, 1..11));
        window.go(Motion::End, 25);
        assert_eq!((window.cursor, window.shown(10, 25)), (24, 15..25));
        window.go(Motion::Down, 25);
        window.go(Motion::PageUp, 25);
        assert_eq!((window.cursor, window.shown(10, 25)), (15, 15..25));
        window.go(Motion::Up, 25);
        assert_eq!(window.shown(10, 25), 14..24);
        assert_eq!(window.shown(40, 25), 0..25, "a taller terminal");
        assert_eq!(window.shown(3, 2), 0..2, "fewer lines, as a filter leaves");
        assert_eq!(window.cursor, 1);
        assert_eq!(window.shown(3, 0), 0..0);
        window.go(Motion::End, 0);
        assert_eq!(window.cursor, 0);
        assert_eq!(window.shown(0, 5), 0..0, "no room");
    }

    #[test]
    fn a_centred_cursor_has_lines_around_it() {
        let centred = |cursor| Window::at(cursor).centred(11, 100);
        assert_eq!(Window::at(usize::MAX).scrolled(11, 100), 89..100);
        assert_eq!([centred(0), centred(5), centred(50), centred(99)], [0..11, 0..11, 45..56, 89..100]);
    }
}
