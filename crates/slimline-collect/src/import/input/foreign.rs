//! Containers that are not read: what they are, and what to do.

use std::path::Path;

use slimline_trace::escape::shell_word;

/// A kind of input that nothing here reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// Packed by this; a command that unpacks it to its standard output.
    Packed { by: &'static str, command: &'static str },
    /// An archive of files; a command that unpacks them.
    Archive { what: &'static str, command: &'static str },
    /// It has to be saved as a table.
    Document(&'static str),
}

const fn packed(by: &'static str, command: &'static str) -> Foreign {
    Foreign::Packed { by, command }
}

const fn archive(what: &'static str, command: &'static str) -> Foreign {
    Foreign::Archive { what, command }
}

/// By what they begin with.
const KINDS: [(&[u8], Foreign); 20] = [
    (b"\xfd7zXZ\0", packed("xz", "xz -dc")),
    (b"BZh", packed("bzip2", "bzip2 -dc")),
    (b"LZIP", packed("lzip", "lzip -dc")),
    (b"\x89LZO\0\r\n\x1a\n", packed("lzop", "lzop -dc")),
    (b"\x1f\x9d", packed("compress", "gzip -dc")),
    (b"\x1f\xa0", packed("compress -H", "gzip -dc")),
    (b"\x1f\x1e", packed("pack", "gzip -dc")),
    (b"\x5d\0\0", packed("lzma", "xz --format=lzma -dc")),
    (b"\x78\x01", packed("zlib", "pigz -dc")),
    (b"\x78\x9c", packed("zlib", "pigz -dc")),
    (b"\x78\xda", packed("zlib", "pigz -dc")),
    (b"PK\x03\x04", packed("zip", "unzip -p")),
    (b"PK\x05\x06", archive("an empty zip archive", "unzip -l")),
    (b"7z\xbc\xaf\x27\x1c", packed("7-Zip", "7z x -so")),
    (b"Rar!\x1a\x07", packed("rar", "unrar p -inul")),
    (b"!<arch>\n", archive("a static library (ar)", "ar x")),
    (b"SQLite format 3\0", Foreign::Document("an SQLite database")),
    (b"ARROW1", Foreign::Document("an Arrow file")),
    (b"\x89HDF\r\n\x1a\n", Foreign::Document("an HDF5 file")),
    (b"Obj\x01", Foreign::Document("an Avro file")),
];
/// Where a tar archive has its mark.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// Names within a zip file that spreadsheets have.
const SPREADSHEETS: [&[u8]; 3] =
    [b"[Content_Types].xml", b"_rels/.rels", b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"];
/// Where a zip file has the name of its first member.
const ZIP_NAME: usize = 30;

impl Foreign {
    /// The kind of what begins so, if it is one of these.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        if begin.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1)) {
            return Some(archive("a tar archive", "tar xf"));
        }
        let (_, found) = KINDS.iter().find(|(magic, _)| begin.starts_with(magic))?;
        let is_it = match found {
            Self::Packed { by: "bzip2", .. } => {
                begin.get(4..10) == Some(b"1AY&SY") || begin.get(4..10) == Some(b"\x17rE8P\x90")
            }
            // The size of what is packed: not told, or none that a file has.
            Self::Packed { by: "lzma", .. } => {
                begin.get(5..13).is_some_and(|size| size == [0xff; 8] || size[6..] == [0; 2])
            }
            _ => true,
        };
        let name = begin.get(ZIP_NAME..).unwrap_or_default();
        let is_spreadsheet = begin.starts_with(b"PK") && SPREADSHEETS.iter().any(|first| name.starts_with(first));
        is_it.then_some(if is_spreadsheet { Self::Document("a spreadsheet") } else { *found })
    }

    /// What it is and what to do, in one line without the file's name in front.
    pub(super) fn advice(self, path: &Path) -> String {
        let is_pipe = path == Path::new("-");
        let name = if is_pipe { String::new() } else { format!(" {}", shell_word(&path.to_string_lossy())) };
        match self {
            Self::Packed { by, command } => {
                format!("packed by {by}, which is not read: unpack it first ({command}{name} >FILE), then give FILE")
            }
            Self::Archive { what, command } => {
                format!("{what}, which is not read: unpack it first ({command}{name}), then give what was in it")
            }
            Self::Document(what) => format!("{what}, which is not read: save its table as CSV or Parquet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_their_begin_alone() {
        let told = |begin: &[u8]| Foreign::of(begin).map(|kind| kind.advice(Path::new("a file")));
        let expected = "packed by xz, which is not read: unpack it first (xz -dc 'a file' >FILE), then give FILE";
        assert_eq!(told(b"\xfd7zXZ\0 more").as_deref(), Some(expected));
        assert!(told(b"BZh91AY&SY").unwrap().contains("bzip2 -dc"));
        let mut tar = vec![0; 300];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(told(&tar).unwrap().contains("a tar archive, which is not read: unpack it first (tar xf 'a file')"));
        let mut sheet = vec![0; 30];
        sheet[..4].copy_from_slice(b"PK\x03\x04");
        assert!(told(&sheet).unwrap().contains("unzip -p"));
        sheet.extend(b"[Content_Types].xml");
        assert!(told(&sheet).unwrap().starts_with("a spreadsheet, which is not read: save its table as CSV"));
        for text in
            [&b"BZhour,address\n"[..], b"x,y\n", b" L 10,4\n", b"PKs,a\n", b"7z,1\n", b"", b"PERFILE2", b"\x5d\0\0"]
        {
            assert_eq!(told(text), None, "{text:?}");
        }
        assert_eq!(Foreign::of(b"\x1f\x9d").unwrap().advice(Path::new("-")).matches("gzip -dc >FILE").count(), 1);
    }
}
