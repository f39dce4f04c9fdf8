//! A bound on how long a record of a table may be. The reader of tables has none: a quote that is not closed would have it
//! read all of the file as one.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use csv::Position;

/// Longest record: some thousand times what samples have.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// What the input and who reads records of it both know.
#[derive(Debug, Default)]
struct Shared {
    /// Bytes that the input may give before the next record begins.
    until_byte: Cell<u64>,
    /// Line in which the record began.
    line: Cell<u64>,
    is_exceeded: Cell<bool>,
}

/// An input that ends in an error where a record is too long.
#[derive(Debug)]
pub(super) struct BoundedInput<R> {
    input: R,
    read_bytes: u64,
    shared: Rc<Shared>,
}

/// Tells the input where records begin.
#[derive(Debug)]
pub(super) struct Bound {
    shared: Rc<Shared>,
}

/// `input` with a bound.
pub(super) fn pair<R: Read>(input: R) -> (BoundedInput<R>, Bound) {
    let shared = Rc::new(Shared::default());
    (BoundedInput { input, read_bytes: 0, shared: Rc::clone(&shared) }, Bound { shared })
}

impl Bound {
    /// A record begins here.
    pub(super) fn begin_record(&self, at: &Position) {
        self.shared.until_byte.set(at.byte().saturating_add(MOST_BYTES));
        self.shared.line.set(at.line());
    }

    /// The line in which a record began that is too long, if one was.
    pub(super) fn exceeded_at(&self) -> Option<u64> {
        self.shared.is_exceeded.get().then(|| self.shared.line.get())
    }
}

impl<R: Read> Read for BoundedInput<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // More is asked for only where what was read is not yet a whole record.
        if self.read_bytes >= self.shared.until_byte.get() {
            self.shared.is_exceeded.set(true);
            return Err(io::Error::other("too long a record"));
        }
        let bytes = self.input.read(into)?;
        self.read_bytes += bytes as u64;
        Ok(bytes)
    }
}
