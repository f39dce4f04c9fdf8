//! Readers that take nothing but what each format allows, for tests of what is written.

/// What no format may take for markup, a separator, a quote, or the end of anything.
pub(crate) const HOSTILE: &str = "<b a='1'>&amp; \"]]></script></style></title><!-- --> ;,\t|\r\n\u{b}\0\u{1b}[2J\u{202e}\u{200f}\\ {}%s\u{fffe}\u{fffd}";

/// The same text as markup shows it.
pub(crate) fn shown(text: &str) -> String {
    slimline_trace::escape::plain(text).replace('\u{fffe}', "\\u{fffe}")
}

/// Checks that it is well-formed XML, and gives all text in it.
pub(crate) fn xml(text: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    document.descendants().filter(|node| node.is_text()).filter_map(|node| Some(node.text()?.to_owned())).collect()
}

/// Checks that a page is HTML that needs no forgiveness: all elements are closed in their order, attributes are quoted, and no `<` or `&`
/// stands for itself outside of script and style.
pub(crate) fn html(page: &str) {
    const VOID: [&str; 5] = ["meta", "br", "hr", "img", "input"];
    let at = |rest: &str| page[..page.len() - rest.len()].chars().rev().take(300).collect::<Vec<_>>();
    let fail = |rest: &str, why: &str| -> ! {
        let before: String = at(rest).into_iter().rev().collect();
        let behind: String = rest.chars().take(100).collect();
        panic!("{why}: {before}⟦here⟧{behind}")
    };
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap_or_else(|| fail(page, "no document type"));
    while let Some(begin) = rest.find('<') {
        check_text(&rest[..begin]).unwrap_or_else(|why| fail(rest, why));
        let behind = &rest[begin + 1..];
        if let Some(end) = behind.strip_prefix('/') {
            let (name, after) = end.split_once('>').unwrap_or_else(|| fail(rest, "an end without an end"));
            if open.pop() != Some(name) {
                fail(rest, "the end of an element that is not open");
            }
            rest = after;
            continue;
        }
        let name_bytes = behind.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(behind.len());
        let (name, mut tag) = behind.split_at(name_bytes);
        if name.is_empty() {
            fail(rest, "a < that begins no element");
        }
        let is_closed = loop {
            tag = tag.trim_start();
            if let Some(after) = tag.strip_prefix("/>") {
                tag = after;
                break true;
            }
            if let Some(after) = tag.strip_prefix('>') {
                tag = after;
                break false;
            }
            let key_bytes = tag.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(tag.len());
            if key_bytes == 0 {
                fail(tag, "no attribute");
            }
            tag = &tag[key_bytes..];
            if let Some(value) = tag.strip_prefix('=') {
                let value = value.strip_prefix('"').unwrap_or_else(|| fail(tag, "a value without quotes"));
                let (value, after) = value.split_once('"').unwrap_or_else(|| fail(tag, "a quote without an end"));
                check_text(value).unwrap_or_else(|why| fail(tag, why));
                tag = after;
            }
        };
        rest = tag;
        if name == "script" || name == "style" {
            let end = format!("</{name}>");
            let (_, after) = rest.split_once(&end).unwrap_or_else(|| fail(rest, "a script without an end"));
            rest = after;
        } else if !is_closed && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} not closed, then {rest:?}");
}

fn check_text(text: &str) -> Result<(), &'static str> {
    const ENTITIES: [&str; 5] = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    if text.contains(['<', '>']) {
        return Err("a < or > in text");
    }
    if text.chars().any(|c| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c)) {
        return Err("a control character");
    }
    match text.split('&').skip(1).all(|behind| ENTITIES.iter().any(|entity| behind.starts_with(entity))) {
        true => Ok(()),
        false => Err("an & that begins no entity"),
    }
}

/// Checks that all rows of a table have a cell for each column; gives the cells behind the first line.
pub(crate) fn csv(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text.as_bytes());
    assert!(!reader.headers().unwrap().is_empty());
    let rows = reader.records().map(|row| row.unwrap_or_else(|error| panic!("{error}:\n{text}")));
    let rows: Vec<Vec<String>> = rows.map(|row| row.iter().map(str::to_owned).collect()).collect();
    assert!(rows.iter().flatten().all(|cell| !cell.contains(char::is_control)), "{text}");
    rows
}
