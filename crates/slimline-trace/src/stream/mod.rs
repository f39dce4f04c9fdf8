//! The trace of an instrumented program: every access, as the program itself wrote it.
//!
//! - [`record`]: the words that instrumented code writes. `no_std`.
//! - [`ring`]: the memory that it writes them into. `no_std`.
//! - [`translated`]: what code of a translated program means. `no_std`, but for reading it.
//! - `sites` (with the feature `session`): what those words mean, a table that the compiler left in the object.
//! - `chunk` (likewise): a part of it that one thread wrote.
//! - `decode` (likewise): from words to the segments that ran.
//! - `growing` (likewise): the tables that decoding needs, while they grow.
//! - `columns` (likewise): what one place of their records holds, brought together.
//! - `order` (likewise): what several streams did, put in one order.
//! - `pages` (likewise): which pages a chunk's accesses touch, and where a kernel said that they are.
//! - `recording` (likewise): a trace on disk.
//! - `hooks` (likewise): where code without such a table writes records.

#[cfg(feature = "session")]
pub mod chunk;
#[cfg(feature = "session")]
pub mod columns;
#[cfg(feature = "session")]
pub mod decode;
#[cfg(feature = "session")]
pub mod growing;
#[cfg(feature = "session")]
pub mod hooks;
#[cfg(feature = "session")]
pub mod order;
#[cfg(feature = "session")]
pub mod pages;
pub mod record;
#[cfg(feature = "session")]
pub mod recording;
pub mod ring;
#[cfg(feature = "session")]
pub mod sites;
pub mod translated;

/// The stream of a process in which stands where its objects' static variables are: of no thread, and made by who reads its ring. Further
/// ones have the numbers below.
pub const STATICS_STREAM: u32 = u32::MAX;
/// Most of these. No process has as many streams of threads.
pub const MOST_STATICS_STREAMS: u32 = 1 << 16;

/// Whether a stream is a thread's: the program wrote what is in it.
pub const fn is_a_thread_s(stream: u32) -> bool {
    stream <= STATICS_STREAM - MOST_STATICS_STREAMS
}
