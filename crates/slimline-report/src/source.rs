//! Source files as they were when a report was shown.

use std::path::Path;

/// A path, or a `path:line`, as it is seen from a directory: relative where it is below that.
pub fn seen_from(here: &Path, path: &str) -> String {
    Path::new(path).strip_prefix(here).map_or_else(|_| path.to_owned(), |below| below.display().to_string())
}

/// A source file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Its text.
    Text {
        /// As it is now.
        text: String,
        /// Whether it was changed after the program was built, so that lines may not be those that were compiled.
        is_newer: bool,
    },
    /// It could not be read, for this reason.
    Unreadable(String),
}

impl Source {
    /// Its text, where it could be read.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Unreadable(_) => None,
        }
    }

    /// What a reader must know of it.
    pub(crate) fn notice(&self) -> Option<String> {
        match self {
            Self::Text { is_newer: false, .. } => None,
            Self::Text { is_newer: true, .. } => {
                let told = "It was changed after the program was built: what is shown may not be what was compiled.";
                Some(told.to_owned())
            }
            Self::Unreadable(why) => Some(format!("It could not be read: {why}.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_here_is_relative() {
        let seen = |path| seen_from(Path::new("/src/sky"), path);
        assert_eq!(seen("/src/sky/lib/star.c:12"), "lib/star.c:12");
        assert_eq!(seen("/src/skylight.c"), "/src/skylight.c");
        assert_eq!(seen("lib/star.c"), "lib/star.c");
    }
}
