//! The book: `docs/SUMMARY.md` lists each page once, links lead somewhere, and each command has its page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::measure::read;
use crate::root;

const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Declares what `slimline --help` lists.
const COMMANDS: &str = "crates/slimline/src/cli.rs";

/// Each broken rule as one line; `files` are the Markdown files of the repository.
pub(crate) fn broken_rules(files: &[String]) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for file in files {
        // A file that git knows and the working tree has just lost.
        if let Ok(text) = read(&root().join(file)) {
            texts.insert(PathBuf::from(file), text);
        }
    }
    let commands = commands(&read(&root().join(COMMANDS))?).with_context(|| format!("{COMMANDS}: no commands"))?;
    let summary = texts.get(Path::new(SUMMARY)).with_context(|| format!("{SUMMARY} is missing"))?;
    let mut broken = unlisted(summary, texts.keys());
    broken.extend(commands_without_page(summary, &commands));
    for (path, text) in &texts {
        broken.extend(dead_links(path, text, &texts, |file| root().join(file).exists()));
    }
    Ok(broken)
}

/// Names of the subcommands that are not hidden, as clap makes them of the enum.
fn commands(source: &str) -> Option<BTreeSet<String>> {
    let (_, declared) = source.split_once("enum Command {\n")?;
    let (declared, _) = declared.split_once("\n}")?;
    let mut names = BTreeSet::new();
    let mut attribute = String::new();
    // Deeper lines are fields of variants.
    for line in declared.lines().filter_map(|line| line.strip_prefix("    ")) {
        if let Some(text) = line.strip_prefix("#[command(") {
            text.clone_into(&mut attribute);
        } else if line.starts_with(|c: char| c.is_ascii_uppercase()) {
            let variant: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
            let named = attribute.split_once("name = \"").and_then(|(_, rest)| rest.split('"').next());
            if !attribute.contains("hide = true") {
                names.insert(named.map_or_else(|| variant.to_lowercase(), str::to_owned));
            }
            attribute.clear();
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Pages that the summary lists not once.
fn unlisted<'a>(summary: &str, files: impl Iterator<Item = &'a PathBuf>) -> Vec<String> {
    let listed: Vec<PathBuf> = links(summary).into_iter().map(|(_, _, to)| Path::new(BOOK).join(to)).collect();
    let pages = files.filter(|file| file.starts_with(BOOK) && *file != Path::new(SUMMARY));
    let mut broken = Vec::new();
    for page in pages {
        match listed.iter().filter(|listed| *listed == page).count() {
            1 => {}
            times => broken.push(format!("{SUMMARY}: lists {} {times} times", page.display())),
        }
    }
    broken
}

/// Commands that are in no title of the summary as `code`, and code in titles that is no command.
fn commands_without_page(summary: &str, commands: &BTreeSet<String>) -> Vec<String> {
    let titles: Vec<String> = links(summary).into_iter().map(|(_, title, _)| title).collect();
    let told: BTreeSet<&str> = titles.iter().flat_map(|title| title.split('`').skip(1).step_by(2)).collect();
    let missing = commands.iter().filter(|name| !told.contains(name.as_str()));
    let unknown = told.iter().filter(|name| !commands.contains(**name));
    let missing = missing.map(|name| format!("{SUMMARY}: no page of `slimline {name}`"));
    missing.chain(unknown.map(|name| format!("{SUMMARY}: `{name}` is no command"))).collect()
}

/// Relative links that lead nowhere, or from a page out of the book.
fn dead_links(
    path: &Path,
    text: &str,
    texts: &BTreeMap<PathBuf, String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let mut broken = Vec::new();
    for (line, _, to) in links(text).into_iter().filter(|(_, _, to)| !to.contains("://")) {
        let (file, heading) = to.split_once('#').unwrap_or((to.as_str(), ""));
        let file = if file.is_empty() { path.to_owned() } else { normal(&path.with_file_name("").join(file)) };
        let wrong = if path.starts_with(BOOK) && !file.starts_with(BOOK) {
            "is outside of the book"
        } else if !exists(&file) {
            "does not exist"
        } else if !heading.is_empty() && !texts.get(&file).is_some_and(|text| headings(text).contains(heading)) {
            "has no such heading"
        } else {
            continue;
        };
        broken.push(format!("{}:{line}: {to} {wrong}", path.display()));
    }
    broken
}

/// `a/../b` as `b`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

/// Lines, numbered, that are in no fenced block.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Inline links: line, title, target.
fn links(text: &str) -> Vec<(usize, String, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("](") {
            let Some((to, behind)) = behind.split_once(')') else { break };
            // Within `code` nothing is a link; a title may have code of its own.
            let title = before.rsplit_once('[').map_or("", |(_, title)| title);
            let ahead = before.len() - title.len();
            if before[..ahead].matches('`').count() % 2 == 0 {
                links.push((number, title.to_owned(), to.to_owned()));
            }
            rest = behind;
        }
    }
    links
}

/// What headings are called in links, as GitHub and mdBook have it.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|times| format!("{name}-{times}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLI: &str = "pub(crate) enum Command {\n    Record(Record),\n    /// C++\n    #[command(name = \"c++\", disable_help_flag = true)]\n    \
        CompileCPlusPlus(Compile),\n    Header {\n        #[arg(long)]\n        fortran: bool,\n    },\n    \
        #[command(name = CALIBRATE, hide = true)]\n    Calibrate {\n        microseconds: u64,\n    },\n}\n";

    #[test]
    fn commands_are_those_of_the_help() {
        let names: Vec<String> = commands(CLI).unwrap().into_iter().collect();
        assert_eq!(names, ["c++", "header", "record"]);
        assert!(commands("enum Other {\n}\n").is_none());
    }

    #[test]
    fn each_page_is_listed_once() {
        let pages = [PathBuf::from("docs/a.md"), PathBuf::from("docs/b.md"), PathBuf::from("README.md")];
        assert!(unlisted("- [A](a.md)\n- [B](b.md)\n", pages.iter()).is_empty());
        assert_eq!(unlisted("- [A](a.md)\n- [A](a.md)\n", pages.iter()).len(), 2);
    }

    #[test]
    fn each_command_has_a_page() {
        let commands = commands(CLI).unwrap();
        assert!(commands_without_page("- [`c++`](a.md)\n- [`record`, `header`](b.md)\n", &commands).is_empty());
        let wrong = commands_without_page("- [`c++`](a.md)\n- [`records`, `header`](b.md)\n", &commands);
        assert_eq!(
            wrong,
            ["docs/SUMMARY.md: no page of `slimline record`", "docs/SUMMARY.md: `records` is no command"]
        );
    }

    #[test]
    fn links_lead_somewhere() {
        let texts = BTreeMap::from([(PathBuf::from("docs/a.md"), "# One two\n## `x`: y\n## One two\n".to_owned())]);
        let dead = |path: &str, text: &str| {
            dead_links(Path::new(path), text, &texts, |file| file == "docs/a.md" || file == "README.md").len()
        };
        assert_eq!(dead("README.md", "[a](docs/a.md#one-two) [b](docs/a.md#x-y) [c](docs/a.md#one-two-1)"), 0);
        assert_eq!(dead("README.md", "[a](docs/a.md#two) and [b](docs/b.md)"), 2);
        assert_eq!(dead("docs/b.md", "[a](a.md) [out](../README.md)"), 1);
        assert_eq!(dead("docs/commands/b.md", "[a](../a.md) [`a`](https://a/b)\n```\n[x](y)\n```\n`[x](y)`"), 0);
    }
}
