//! Opens what is to be read: a file or standard input, unpacked where it is packed.
//!
//! The first bytes say how an input is packed, never its name. Gzip, zstd, lz4 and snappy are unpacked while they are read. Of
//! another packing one line says what it is and which command unpacks it.

mod foreign;
mod lz4;
mod text;
mod unpack;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek as _};
use std::path::Path;

use self::foreign::Foreign;
pub(super) use self::text::decode_text;
use self::unpack::Packing;
pub(super) use self::unpack::unpack;

/// Read in one go.
pub(super) const BUFFER_BYTES: usize = 1 << 20;
/// Bytes that the kind of an input is seen by: the mark of a tar archive is the last one, at 257.
const BEGIN_BYTES: usize = 512;
/// Packings around each other: more are none that anybody makes.
const MOST_LAYERS: usize = 4;

/// Why an input can't be read. Each displays as one line without the file's name.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system refused, or what is packed is damaged.
    #[error("{0}")]
    Read(io::Error),
    /// It is a container that is not read here: what it is, and what to do.
    #[error("{0}")]
    Foreign(String),
}

/// An input that was opened.
pub struct Input {
    begin: Vec<u8>,
    content: Content,
}

enum Content {
    /// A regular file that is not packed, at its begin.
    File(File),
    /// What comes behind `begin`.
    Stream(Box<dyn Read>),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl Input {
    /// Opens a file, `-` for standard input.
    ///
    /// # Errors
    /// It can't be read, or is packed in a way that is not read.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        if path == Path::new("-") {
            return Self::of_stream(Box::new(io::stdin()), path);
        }
        let mut file = File::open(path).map_err(InputError::Read)?;
        if !file.metadata().map_err(InputError::Read)?.is_file() {
            return Self::of_stream(Box::new(file), path);
        }
        let begin = read_begin(&mut file).map_err(InputError::Read)?;
        file.rewind().map_err(InputError::Read)?;
        match Packing::of(&begin) {
            None => Self { begin, content: Content::File(file) }.checked(path),
            Some(_) => Self::of_stream(Box::new(file), path),
        }
    }

    fn of_stream(stream: Box<dyn Read>, path: &Path) -> Result<Self, InputError> {
        let (begin, stream) = unpack(stream, BUFFER_BYTES).map_err(InputError::Read)?;
        Self { begin, content: Content::Stream(stream) }.checked(path)
    }

    /// Itself, unless it is of a kind that nothing here reads.
    fn checked(self, path: &Path) -> Result<Self, InputError> {
        check_kind(&self.begin, path).map(|()| self)
    }

    /// Its first bytes: [`BEGIN_BYTES`], or all where it has fewer.
    pub(super) fn begin(&self) -> &[u8] {
        &self.begin
    }

    /// All of it, from its begin to its end.
    pub(super) fn into_stream(self) -> Box<dyn BufRead> {
        match self.content {
            Content::File(file) => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
            Content::Stream(rest) => {
                Box::new(BufReader::with_capacity(BUFFER_BYTES, Cursor::new(self.begin).chain(rest)))
            }
        }
    }

    /// All of it as text.
    ///
    /// # Errors
    /// Reading fails, there are more than so many bytes, or it is no text ([`io::ErrorKind::InvalidData`]).
    pub fn into_text(self, most_bytes: u64) -> io::Result<String> {
        let mut content = Vec::new();
        decode_text(self.into_stream())?.take(most_bytes.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 > most_bytes {
            let message = format!("larger than {} MiB", most_bytes >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        String::from_utf8(content).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no text in UTF-8 or UTF-16"))
    }

    /// A file in which can be sought: a temporary one, where the input is packed or a pipe. And whether what was packed is cut off.
    ///
    /// # Errors
    /// The input can't be read, or the temporary file not be written.
    pub(super) fn into_file(self) -> io::Result<(File, bool)> {
        let rest = match self.content {
            Content::File(file) => return Ok((file, false)),
            Content::Stream(rest) => rest,
        };
        let mut file = tempfile::tempfile()?;
        let mut stream = Cursor::new(self.begin).chain(rest);
        let is_cut = match io::copy(&mut stream, &mut file) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let unpacked = format!("no room for what is unpacked: set TMPDIR to a directory with more ({error})");
                return Err(io::Error::new(error.kind(), unpacked));
            }
            Err(error) => return Err(error),
        };
        file.rewind()?;
        Ok((file, is_cut))
    }
}

/// How a file that begins so is packed, and what unpacks it; none where it is not.
pub fn packing_advice(begin: &[u8], path: &Path) -> Option<String> {
    let foreign = Packing::of(begin).map(Packing::foreign).or_else(|| Foreign::of(begin));
    foreign.map(|foreign| foreign.advice(path))
}

/// Whether what begins so is of a kind that may be read.
///
/// # Errors
/// It is a container that nothing here reads.
pub(super) fn check_kind(begin: &[u8], path: &Path) -> Result<(), InputError> {
    Foreign::of(begin).map_or(Ok(()), |foreign| Err(InputError::Foreign(foreign.advice(path))))
}

/// The first bytes of what is read, at most [`BEGIN_BYTES`].
fn read_begin(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begin = Vec::with_capacity(BEGIN_BYTES);
    match input.take(BEGIN_BYTES as u64).read_to_end(&mut begin) {
        // Whoever reads on finds the cut again.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !begin.is_empty() => Ok(begin),
        read => read.map(|_| begin),
    }
}

#[cfg(test)]
mod tests;
