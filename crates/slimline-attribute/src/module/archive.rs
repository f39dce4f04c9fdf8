//! Archives of object files: static libraries (`ar`), thin ones, and Rust's `.rlib`.

use object::read::archive::ArchiveFile;
use rustc_hash::FxHashMap;

/// What Rust puts beside the objects: what its compiler knows of the crate.
const METADATA: &str = "lib.rmeta";

/// A member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, with a number behind it where there are several of that name.
    pub name: String,
    /// Where it is.
    pub content: MemberContent<'a>,
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberContent<'a> {
    /// In the archive.
    Here(&'a [u8]),
    /// In a file of its own, as it is in thin archives: its path, relative to the archive's directory.
    File(String),
    /// The archive ends before it does, or is damaged there.
    Damaged,
}

/// Whether a file that begins so is an archive.
pub fn is_archive(begin: &[u8]) -> bool {
    begin.starts_with(b"!<arch>\n") || begin.starts_with(b"!<thin>\n")
}

/// The members of an archive, but for tables of symbols and Rust's metadata; up to the first one that is damaged.
pub fn members(bytes: &[u8]) -> Vec<Member<'_>> {
    let damaged = || Member { name: "what comes next".to_owned(), content: MemberContent::Damaged };
    let Ok(archive) = ArchiveFile::parse(bytes) else { return vec![damaged()] };
    let mut members = Vec::new();
    let mut seen = FxHashMap::<String, u32>::default();
    for member in archive.members() {
        let Ok(member) = member else {
            members.push(damaged());
            break;
        };
        let name = String::from_utf8_lossy(member.name()).into_owned();
        if name == METADATA {
            continue;
        }
        let content = match member.is_thin() {
            true => MemberContent::File(name.clone()),
            false => member.data(bytes).map_or(MemberContent::Damaged, MemberContent::Here),
        };
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count > 1 { format!("{name}, number {count}") } else { name };
        members.push(Member { name, content });
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ar rc` writes it, with long names in a table.
    fn archive(magic: &str, members: &[(&str, &[u8])], is_thin: bool) -> Vec<u8> {
        let mut bytes = magic.as_bytes().to_vec();
        for (name, content) in members {
            let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, content.len());
            bytes.extend(header.as_bytes());
            if !is_thin || *name == "//" {
                bytes.extend(*content);
                bytes.extend((content.len() % 2 != 0).then_some(b'\n'));
            }
        }
        bytes
    }

    #[test]
    fn members_are_found_in_all_sorts_of_archives() {
        let names: (&str, &[u8]) = ("//", b"a name that is too long.o/\n");
        let all = [names, ("a.o/", b"abc"), ("/0", b"defg"), ("a.o/", b"h"), ("lib.rmeta/", b"rust")];
        let bytes = archive("!<arch>\n", &all, false);
        assert!(is_archive(&bytes) && !is_archive(b"\x7fELF"));
        let here = |name: &str, content| Member { name: name.to_owned(), content: MemberContent::Here(content) };
        let expected = [here("a.o", b"abc"), here("a name that is too long.o", b"defg"), here("a.o, number 2", b"h")];
        assert_eq!(members(&bytes), expected);
        let thin = archive("!<thin>\n", &[("//", b"dir/a.o/\n"), ("/0", b"abc")], true);
        assert!(is_archive(&thin));
        let file = MemberContent::File("dir/a.o".to_owned());
        assert_eq!(members(&thin), [Member { name: "dir/a.o".to_owned(), content: file }]);
        assert_eq!(members(b"!<arch>\n"), []);
    }

    #[test]
    fn a_cut_archive_tells_so() {
        let bytes = archive("!<arch>\n", &[("a.o/", b"abcd"), ("b.o/", b"efgh")], false);
        for cut in 9..bytes.len() {
            let members = members(&bytes[..cut]);
            let is_between = cut == 8 + 60 + 4;
            let is_told = members.iter().any(|member| member.content == MemberContent::Damaged);
            assert!(is_told != is_between, "{cut}: {members:?}");
        }
    }
}
