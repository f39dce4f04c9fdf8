//! What all pages have: their head with style and script, and names that can't leave the text.

use std::fmt::{self, Write};

/// Text of a page, or the value of an attribute in double quotes: names of programs are anything.
pub(super) use slimline_trace::escape::Xml as Escaped;

const STYLE: &str = include_str!("page.css");
/// Of pages of [parts](Part).
const PARTS_STYLE: &str = include_str!("parts.css");
const SCRIPT: &str = include_str!("page.js");

/// What a browser may load: nothing but what is in the page, whatever a name might make of it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// Begins a page of this title, with a style of its own beside that of all; [`end`] ends it.
pub(super) fn begin(out: &mut impl Write, title: &str, style: &str) -> fmt::Result {
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>",
        Escaped(title)
    )
}

pub(super) fn end(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>")
}

/// A part of a page: its identifier, which is of our own making, and its heading.
pub(super) type Part = (&'static str, &'static str);

/// Begins a page of parts: below its name and what is looked for first, links lead to each. [`end_parts`] ends it.
pub(super) fn begin_parts<W: Write>(
    out: &mut W,
    name: &str,
    parts: &[Part],
    figures: impl FnOnce(&mut W) -> fmt::Result,
) -> fmt::Result {
    begin(out, &format!("slimline: {name}"), PARTS_STYLE)?;
    writeln!(out, "<a class=\"skip\" href=\"#main\">To the report</a>")?;
    writeln!(out, "<header class=\"top\">\n<p class=\"tool\">slimline</p>\n<h1><code>{}</code></h1>", Escaped(name))?;
    figures(out)?;
    writeln!(out, "</header>\n<nav aria-label=\"Parts of the report\"><ul>")?;
    for (id, heading) in parts {
        writeln!(out, "<li><a href=\"#{id}\">{heading}</a></li>")?;
    }
    writeln!(out, "</ul></nav>\n<main id=\"main\">")
}

/// A part, with what is in it.
pub(super) fn part<W: Write>(
    out: &mut W,
    (id, heading): Part,
    inside: impl FnOnce(&mut W) -> fmt::Result,
) -> fmt::Result {
    writeln!(out, "<section id=\"{id}\" aria-labelledby=\"{id}-heading\">\n<h2 id=\"{id}-heading\">{heading}</h2>")?;
    inside(out)?;
    writeln!(out, "</section>")
}

pub(super) fn end_parts(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "</main>")?;
    end(out)
}

/// What a reader looks for first: names and values.
pub(super) fn figures(out: &mut impl Write, figures: &[(&str, String)]) -> fmt::Result {
    writeln!(out, "<dl class=\"figures\">")?;
    for (term, shown) in figures {
        writeln!(out, "<div><dt>{term}</dt><dd>{}</dd></div>", Escaped(shown))?;
    }
    writeln!(out, "</dl>")
}

/// Code, behind a button of the script's that copies it; `what` it is.
pub(super) fn code(out: &mut impl Write, what: &str, code: &str) -> fmt::Result {
    let lines: String = code.lines().map(|line| Escaped(line).to_string() + "\n").collect();
    writeln!(
        out,
        "<pre class=\"code\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><code>{lines}</code></pre>",
        Escaped(what)
    )
}

/// A page without its style and script, which are the same in all.
#[cfg(test)]
pub(super) fn without_style_and_script(page: &str) -> String {
    page.replace(STYLE, "").replace(SCRIPT, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_leave_text_or_attributes() {
        let escaped = |text: &str| Escaped(text).to_string();
        assert_eq!(escaped("</td><script>alert(1)</script>"), "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(escaped(r#"" onclick='x' &amp;"#), "&quot; onclick=&#39;x&#39; &amp;amp;");
        let controls = escaped("a\0b\u{1b}[0m\n\u{202e}c");
        assert!(controls.chars().all(|c| c.is_ascii_graphic()), "{controls}");
    }

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let mut page = String::new();
        begin(&mut page, "</title><script>", "").unwrap();
        end(&mut page).unwrap();
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"));
        for outside in ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(outside), "{outside}");
        }
        // Its own text must not end the elements that style and script are in.
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</") && !SCRIPT.contains("<!--"));
    }
}
