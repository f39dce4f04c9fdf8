//! Names from targets never reach a terminal, a shell or dot unescaped.

/// The text with control characters shown as escapes.
pub fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control();
            let kept = (!escaped).then_some(c);
            kept.into_iter().chain(escaped.then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

/// A command as one could paste it into a shell.
pub fn command_line(command: &[String]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        return format!("$'{}'", plain(word).replace('\'', "\\'"));
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The text as the inside of a quoted dot string.
pub fn dot(text: &str) -> String {
    plain(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_harmless() {
        assert_eq!(plain("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(
            command_line(&["./a b".into(), "it's".into(), String::new(), "-n=3".into()]),
            r"'./a b' 'it'\''s' '' -n=3"
        );
        assert_eq!(dot("say \"x\"\\"), "say \\\"x\\\"\\\\");
    }
}
