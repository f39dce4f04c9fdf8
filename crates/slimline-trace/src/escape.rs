//! Names from targets and files never reach a terminal, a shell, dot or markup unescaped.

use std::fmt::{self, Display, Write};

use crate::path_text::{bytes_of, is_escaped};

/// Whether a terminal acts on `c` instead of showing it: control characters, and those that change the direction or break
/// the line of what follows.
fn is_acted_on(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with characters that a terminal would act on shown as escapes.
pub fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = is_acted_on(c);
            let kept = (!escaped).then_some(c);
            kept.into_iter().chain(escaped.then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

/// JSON as a terminal can show it: its lines are kept, such characters within its strings are `\uXXXX`.
pub fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_acted_on(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// A command as one could paste it into a shell (bash, or another that knows `$'…'`).
pub fn command_line(command: &[String]) -> String {
    let mut words = command.iter().map(|word| shell_word(word)).collect::<Vec<_>>();
    // Ahead of a command it would be an assignment.
    if let Some(first) = words.first_mut().filter(|first| first.contains('=') && !first.contains('\'')) {
        *first = format!("'{first}'");
    }
    words.join(" ")
}

/// One word of such a command, which is text as paths have it ([`path_text`](crate::path_text)).
pub fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(safe) {
        return word.to_owned();
    }
    let is_text = !is_escaped(word);
    if is_text && !word.chars().any(is_acted_on) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    let octal = |quoted: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(quoted, "\\{byte:03o}");
        }
    };
    for chunk in bytes_of(word).utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' => quoted.extend(['\\', c]),
                c if is_acted_on(c) => octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => quoted.push(c),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted.push('\'');
    quoted
}

/// What is displayed, as XML and HTML have it in elements and in quoted attributes. All text that enters markup goes through this once,
/// names and numbers alike: a small share is `<0.1 %`.
#[derive(Clone, Copy, Debug)]
pub struct Xml<T>(pub T);

impl<T: Display> Display for Xml<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(XmlText(out), "{}", self.0)
    }
}

struct XmlText<'o, 'f>(&'o mut fmt::Formatter<'f>);

impl fmt::Write for XmlText<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        plain(text).chars().try_for_each(|c| match c {
            '&' => self.0.write_str("&amp;"),
            '<' => self.0.write_str("&lt;"),
            '>' => self.0.write_str("&gt;"),
            '"' => self.0.write_str("&quot;"),
            '\'' => self.0.write_str("&#39;"),
            // No characters of XML 1.0.
            '\u{fffe}' | '\u{ffff}' => write!(self.0, "{}", c.escape_default()),
            c => self.0.write_char(c),
        })
    }
}

/// The text as the inside of a quoted dot string.
pub fn dot(text: &str) -> String {
    plain(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::path_text::text_of_bytes;

    #[test]
    fn a_path_of_any_bytes_is_a_word() {
        assert_eq!(shell_word(r"caf\xE9/it's"), r"$'caf\351/it\'s'");
        assert_eq!(shell_word(r"a\x5CxE9"), r"$'a\\xE9'");
        assert_eq!(shell_word(r"a\b"), r"'a\b'");
    }

    #[test]
    fn hostile_names_are_harmless() {
        assert_eq!(plain("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(plain("\u{9b}2J"), "\\u{9b}2J");
        assert_eq!(
            command_line(&["./a b".into(), "it's".into(), String::new(), "-n=3".into()]),
            r"'./a b' 'it'\''s' '' -n=3"
        );
        assert_eq!(dot("say \"x\"\\"), "say \\\"x\\\"\\\\");
    }

    #[test]
    fn xml_has_characters_of_its_own_only() {
        let xml = |text: &dyn Display| Xml(text).to_string();
        assert_eq!(xml(&"a<b>&\u{1b}[0m \"c\" 'd'"), "a&lt;b&gt;&amp;\\u{1b}[0m &quot;c&quot; &#39;d&#39;");
        assert_eq!(xml(&"\u{fffe}\u{ffff}\u{fffd}"), "\\u{fffe}\\u{ffff}\u{fffd}");
        assert_eq!(xml(&format_args!("{}: {}", "]]>", 1)), "]]&gt;: 1");
    }

    #[test]
    fn what_turns_text_around_is_shown() {
        for c in "\u{61c}\u{200e}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            assert_eq!(plain(&format!("a{c}b")), format!("a\\u{{{:x}}}b", u32::from(c)));
        }
        assert_eq!(plain("größe ∑ \u{200d}"), "größe ∑ \u{200d}");
    }

    #[test]
    fn json_says_the_same_without_control_characters() {
        let value = serde_json::json!({ "name": "a\u{7f}\u{9b}\u{202e}\x1b\n\"ü" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = json(&text);
        assert_eq!(escaped, "{\n  \"name\": \"a\\u007f\\u009b\\u202e\\u001b\\n\\\"ü\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    /// The words that bash makes of a line, as text.
    fn words_of(line: &str) -> Vec<String> {
        let script = format!("printf '%s\\0' {line}");
        let output = Command::new("bash").args(["--norc", "--noprofile", "-c", &script]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line:?}: {output:?}");
        let words = output.stdout.strip_suffix(b"\0").unwrap().split(|&byte| byte == 0);
        words.map(|word| text_of_bytes(word).into_owned()).collect()
    }

    #[test]
    fn a_backslash_does_not_end_the_quotes() {
        let hostile = ["echo".to_owned(), "\n".to_owned() + r"\';echo INJECTED;#"];
        assert_eq!(words_of(&command_line(&hostile)), hostile);
    }

    #[test]
    fn the_first_word_is_no_assignment() {
        assert_eq!(command_line(&["A=1".into(), "B=1".into(), "=c".into()]), "'A=1' B=1 '=c'");
        assert_eq!(command_line(&["A= b".into()]), "'A= b'");
    }

    proptest! {
        /// Whatever the words are, bash takes them as they are.
        #[test]
        fn bash_reads_the_same_words(
            words in proptest::collection::vec(proptest::collection::vec(1_u8.., 0..24), 1..8),
            shelly in r"[\\'\n\x1b$`!*~{}0-9 ]{0,12}",
        ) {
            let texts = words.iter().map(|bytes| text_of_bytes(bytes).into_owned());
            let words: Vec<String> = texts.chain([text_of_bytes(shelly.as_bytes()).into_owned()]).collect();
            prop_assert_eq!(words_of(&command_line(&words)), words);
        }
    }
}
