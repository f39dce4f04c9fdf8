//! Archives of objects (`.rlib`, `.a`), in the format of GNU's `ar`.
//!
//! ```text
//!   !<arch>
//!   /     which symbol is in which member: numbers in big-endian order
//!   //    names of more than 15 bytes
//!   member, member, …
//! ```

use std::borrow::Cow;

use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _};

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;
/// Longest name that fits into a header, with the `/` behind it.
const SHORT_NAME_BYTES: usize = 15;

/// A file in an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, [u8]>,
    pub(super) data: Cow<'a, [u8]>,
}

/// The members of an archive, in their order.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Member<'_>>, object::read::Error> {
    let mut members = Vec::new();
    for member in ArchiveFile::parse(bytes)?.members() {
        let member = member?;
        members.push(Member { name: member.name().to_vec().into(), data: member.data(bytes)?.into() });
    }
    Ok(members)
}

/// The archive of these members; none where it would be larger than its index can tell (4 GiB).
pub(super) fn write(members: &[Member<'_>]) -> Option<Vec<u8>> {
    let symbols: Vec<Vec<Vec<u8>>> = members.iter().map(|member| symbols(&member.data)).collect();
    let mut names = Vec::new();
    let mut headers = Vec::with_capacity(members.len());
    for member in members {
        headers.push(if member.name.len() <= SHORT_NAME_BYTES && !member.name.contains(&b'/') {
            [&*member.name, b"/"].concat()
        } else {
            let at = names.len();
            names.extend([&*member.name, b"/\n"].concat());
            format!("/{at}").into_bytes()
        });
    }
    let texts: Vec<u8> = symbols.iter().flatten().flat_map(|name| [&**name, b"\0"].concat()).collect();
    let count: usize = symbols.iter().map(Vec::len).sum();
    let index_bytes = 4 + 4 * count + texts.len();
    let mut at = MAGIC.len() + padded(index_bytes) + if names.is_empty() { 0 } else { padded(names.len()) };
    let mut index = u32::try_from(count).ok()?.to_be_bytes().to_vec();
    for (member, symbols) in members.iter().zip(&symbols) {
        let place = u32::try_from(at).ok()?.to_be_bytes();
        index.extend(symbols.iter().flat_map(|_| place));
        at += padded(member.data.len());
    }
    index.extend(texts);
    let mut archive = Vec::with_capacity(at);
    archive.extend(MAGIC);
    push(&mut archive, b"/", &index);
    if !names.is_empty() {
        push(&mut archive, b"//", &names);
    }
    for (member, name) in members.iter().zip(&headers) {
        push(&mut archive, name, &member.data);
    }
    Some(archive)
}

/// Bytes of so much with its header; members begin at even offsets.
fn padded(bytes: usize) -> usize {
    HEADER_BYTES + bytes.next_multiple_of(2)
}

fn push(archive: &mut Vec<u8>, name: &[u8], data: &[u8]) {
    // Of bytes, not of characters.
    archive.extend(name);
    archive.resize(archive.len() + 16_usize.saturating_sub(name.len()), b' ');
    // Date, owner and group are nobody's, so that what is made of the same is the same.
    archive.extend(format!("{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes());
    archive.extend(data);
    if !data.len().is_multiple_of(2) {
        archive.push(b'\n');
    }
}

/// What an object defines for others; nothing where it is none.
fn symbols(data: &[u8]) -> Vec<Vec<u8>> {
    let Ok(object) = object::File::parse(data) else { return Vec::new() };
    let defined = object.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
    defined.filter_map(|symbol| symbol.name_bytes().ok().map(<[u8]>::to_vec)).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member<'a>(name: &'a str, data: &'a [u8]) -> Member<'a> {
        Member { name: name.as_bytes().into(), data: data.into() }
    }

    #[test]
    fn what_is_written_is_read() {
        let members = [
            member("lib.rmeta", b"odd"),
            member("exactly15bytes.", b""),
            member("größe.o", b"bytes, not characters"),
            member("a_name_of_more.rcgu.o", b"even"),
            member("another_long_name.rcgu.o", &[7; 1000]),
        ];
        let archive = write(&members).unwrap();
        assert_eq!(read(&archive).unwrap(), members);
        // No objects, so an index of no symbols: 8 + 60 + 4 is where the names' header is.
        assert_eq!(&archive[8..10], b"/ ");
        assert_eq!(&archive[68..72], [0; 4]);
        assert_eq!(&archive[72..74], b"//");
        assert_eq!(read(&write(&[]).unwrap()).unwrap(), []);
        assert!(read(b"no archive").is_err());
    }

    #[test]
    fn the_index_is_as_gnu_s() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        std::fs::write(place("a.c"), "int one, two(void); int three(void) { return two(); } static int four;").unwrap();
        std::fs::write(place("b.c"), "int two(void) { return 2; }").unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let output = std::process::Command::new(program).current_dir(directory.path()).args(arguments).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        for name in ["a", "b"] {
            let long = format!("{name}_of_a_long_name.o");
            run("cc", &["-c", "-o", &long, &format!("{name}.c")]);
        }
        run("ar", &["rcs", "theirs.a", "a_of_a_long_name.o", "b_of_a_long_name.o"]);
        let theirs = std::fs::read(place("theirs.a")).unwrap();
        std::fs::write(place("ours.a"), write(&read(&theirs).unwrap()).unwrap()).unwrap();
        let index = |archive: &str| run("nm", &["--print-armap", archive]);
        assert_eq!(index("ours.a"), index("theirs.a"));
    }
}
