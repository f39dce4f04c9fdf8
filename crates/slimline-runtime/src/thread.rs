//! A thread's chunks: giving one up and taking the next, and which of its streams is written.
//!
//! Code may have its cursor in a register, ahead of the one in memory. A signal handler that went on from there would
//! write over records, and have its own written over. So each handler that [`handlers`](crate::handlers) knows writes a
//! stream of its own while it runs, and the interrupted code finds its cursor where it left it.
#![allow(unsafe_code)] // the thread's own memory

mod forked;

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use slimline_trace::stream::ring::{
    CHUNK_BYTES, CLOSED_WITHOUT_READER, NOTED_AFTER_RECORD, NOTED_BEFORE_RECORD, ROOM_BIT,
};

use crate::entry::{__slimline_gate, cursor, cursor_offset, set_cursor, set_thread_state, state_offset, thread_state};
use crate::kernel::Signals;
use crate::ring::{Fork, Ring};
use crate::stream::Stream;
use crate::{kernel, process, scratch};
use forked::{LENT_BYTES, MOST_LENT};
pub(crate) use forked::{forget_fork, fork, lend, note_fork, take_back};

/// Streams of a thread: its own, and those of handlers that interrupt each other. Deeper ones go untraced.
const STREAMS: usize = 4;
/// Bytes that are written where nobody reads before the gate is asked again: few, as they are lost if it is open by then, and many beside the
/// two system calls that asking takes.
const PAUSED_BYTES: usize = 1 << 15;

/// Calls of allocators within each other that are noted: a program's own calls another one, and that `malloc`.
pub(crate) const NOTES: usize = 4;
/// Words of a note: the caller's stack pointer, and two of what is asked for.
pub(crate) const NOTE_WORDS: usize = 3;

/// What a thread has, in memory of its own: beside its pointer are two words. Zeros at first. Only looked at while signals are blocked, but by [`note`].
#[repr(C)]
pub(crate) struct ThreadState {
    /// How many bytes of notes there are, then those: of [`hooks`](crate::hooks) alone.
    notes: [Cell<usize>; 1 + NOTES * NOTE_WORDS],
    streams: [Stream; STREAMS],
    /// Which one is written; [`STREAMS`]: none.
    current: Cell<usize>,
    /// What handlers have interrupted that run, or were left by a jump: the first `depth`.
    interrupted: [Cell<Interrupted>; STREAMS],
    depth: Cell<usize>,
    /// Address of its own chunk that nobody reads; 0: none.
    scratch: Cell<usize>,
    /// Bytes of notes that were lost since that was counted.
    lost_bytes: Cell<usize>,
    /// Not 0: a child has the thread's memory, of those that the kernel tells the end of.
    lent: [AtomicI32; MOST_LENT],
    is_lent_for_good: Cell<bool>,
    /// The last time that it forked, or was forked. Stamp 0: never.
    fork: Cell<Fork>,
    /// 0: not known yet.
    tid: Cell<u32>,
    /// Whether its end will be told.
    is_watched: Cell<bool>,
}

/// Where a signal handler began.
#[derive(Clone, Copy)]
struct Interrupted {
    /// The stream that was written before.
    stream: usize,
    cursor: usize,
    stack: Stack,
}

/// How far the stack goes at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stack {
    pub(crate) pointer: usize,
    /// It is the one for signals.
    pub(crate) is_alternate: bool,
}

impl Stack {
    /// That of the caller.
    pub(crate) fn now() -> Self {
        let here = 0_u8;
        Self { pointer: (&raw const here).addr(), is_alternate: kernel::is_on_alternate_stack() }
    }

    /// Whether what began here is over where a handler begins with the stack at `now`: then it was left by a jump.
    fn is_left(self, now: Self) -> bool {
        // From the stack for signals handlers do not go back to the other one. The other way round nobody can tell.
        if self.is_alternate == now.is_alternate { self.pointer <= now.pointer } else { self.is_alternate }
    }
}

/// A signal handler that runs, by how many ran below it. In a register, as assembly keeps it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Handler(usize);

impl Handler {
    /// One that writes what it interrupted does.
    const NESTED_TOO_DEEP: Self = Self(usize::MAX);
}

/// None where the thread has none yet.
fn known_state<'a>() -> Option<&'a ThreadState> {
    // SAFETY: null, or what `state` has made for this thread.
    if state_offset() == 0 { None } else { unsafe { thread_state().as_ref() } }
}

/// None where there is no memory for it, or no word that leads there. Of a thread whose end nobody tells us it stays behind.
fn state<'a>() -> Option<&'a ThreadState> {
    known_state().or_else(|| {
        if state_offset() == 0 {
            return None;
        }
        let _signals = Signals::block();
        if thread_state().is_null() {
            set_thread_state(kernel::map(size_of::<ThreadState>())? as *mut ThreadState);
        }
        known_state().inspect(|state| state.watch())
    })
}

/// The same for assembly.
pub(crate) extern "C" fn state_or_null() -> *const ThreadState {
    state().map_or(core::ptr::null(), core::ptr::from_ref)
}

/// The cursor to go on with. `cursor` is where the thread's next word would go: at the end of its chunk, or 0.
pub(crate) extern "C" fn next_chunk(cursor: usize) -> usize {
    let signals = Signals::block();
    let next = state().map_or_else(scratch::shared, |state| state.next(cursor, &signals));
    // Handlers that nobody told us of go on from here. Where the word is not known, what would be overwritten is the thread's pointer.
    if cursor_offset() != 0 {
        set_cursor(next);
    }
    next
}

/// Writes a record whether the gate is open or not, unless the calling code writes it by itself where it is read, as `recorded` says.
/// Where nobody reads it is left out. So it is where no room is left or a handler runs that is too deep, which is counted.
///
/// # Safety
/// There are `count` words, a whole record, and called by instrumented code, so that the calling thread's cursor is in its place.
pub(crate) unsafe extern "C" fn note(words: *const u64, count: usize, recorded: u32) {
    let Some(state) = state() else { return };
    let bytes = count * size_of::<u64>();
    // Signals are not blocked: that would cost more than the allocation. Handlers that told of themselves write streams of their own, and
    // leave this one as it is. One that nobody told of may write at the same place, or exchange the chunk: then `noted` finds another
    // place, and all is done once more. What was written by then stands where no record goes on, or over one: as with all code that such a
    // handler interrupts between its record and its cursor, the reader finds words that it does not understand.
    loop {
        if state.is_recorded(recorded) {
            return;
        }
        let Some(at) = state.place_of_note() else {
            if state.make_place_of_note(bytes) {
                continue;
            }
            return;
        };
        for word in 0..count {
            // SAFETY: promised by the caller; a record fits behind a place with room. Whoever has that chunk now, it stays mapped, nothing
            // but records is in it, and who reads them trusts nothing. Volatile, so that it becomes no call of `memcpy`.
            unsafe { (at as *mut u64).add(word).write_volatile(words.add(word).read()) };
        }
        if state.noted(at, at + bytes) {
            break;
        }
    }
    if recorded == NOTED_BEFORE_RECORD {
        state.record_elsewhere();
    }
}

/// The program wants nothing recorded, or that it is again; called by instrumented code, so that the calling thread's cursor
/// is in its place: it changes at once.
pub(crate) extern "C" fn pause(is_paused: bool) {
    let _signals = Signals::block();
    process::pause(is_paused);
    // Who has none has no chunk to give up.
    if let Some(state) = known_state() {
        state.pause(is_paused);
    }
}

/// A signal handler begins.
pub(crate) fn enter_handler(stack: Stack) -> Handler {
    let _signals = Signals::block();
    // Untraced programs need no memory for it.
    let state = if __slimline_gate.is_closed_by(CLOSED_WITHOUT_READER) { known_state() } else { state() };
    state.map_or(Handler::NESTED_TOO_DEEP, |state| state.enter(stack, cursor()))
}

/// It returns.
pub(crate) extern "C" fn leave_handler(handler: Handler) {
    let _signals = Signals::block();
    if let Some(state) = known_state() {
        state.leave(handler);
    }
}

/// The calling thread ends, which has what its key leads to; it may come back, as its other destructors may be instrumented.
pub(crate) fn end(state: *mut c_void) {
    let _signals = Signals::block();
    // Where the key's value is its word (`words`), that is null by now.
    set_thread_state(state.cast());
    let Some(state) = known_state() else { return };
    if process::is_ours()
        && let Some(ring) = process::ring()
    {
        state.keep_current();
        // A handler may end the thread.
        state.give_up_down_to(0);
        state.streams.iter().for_each(|stream| stream.give_up(ring, stream.kept()));
    }
    set_cursor(0);
    let scratch = state.scratch.replace(0);
    if scratch != 0 {
        // SAFETY: its own, and the cursor does not lead there any more.
        unsafe { scratch::free(scratch) };
    }
    set_thread_state(core::ptr::null_mut());
    // The kernel may still write there.
    if !state.is_lent() {
        // SAFETY: what `state` has mapped; the reference to it is not used again.
        unsafe { kernel::unmap(core::ptr::from_ref(state).addr(), size_of::<ThreadState>()) };
    }
}

/// When the calling thread took the first of the chunks that it writes; none where it has none.
pub(crate) fn writes_since(ring: Ring) -> Option<u64> {
    known_state()?.streams.iter().filter_map(|stream| stream.began(ring)).min()
}

/// In a forked child: what was the thread's is its parent's.
pub(crate) fn forget() {
    let Some(state) = known_state() else { return };
    set_cursor(0);
    state.streams.iter().for_each(Stream::forget);
    state.tid.set(0);
    state.lost_bytes.set(0);
    state.lent.iter().for_each(|word| word.store(0, Relaxed));
    state.is_lent_for_good.set(false);
    for place in &state.interrupted {
        place.set(Interrupted { cursor: 0, ..place.get() });
    }
}

/// Whether the calling thread is in a signal handler: then what that interrupted may have its cursor in a register.
pub(crate) fn is_in_handler() -> bool {
    known_state().is_some_and(|state| state.depth.get() > 0)
}

/// Waits for the reader, while signals are let through. False in a child that a handler has forked meanwhile: then the
/// ring is its parent's.
fn wait_for_reader(ring: Ring, signals: &Signals) -> bool {
    let process = kernel::process_id();
    let waiting = ring.begin_waiting();
    let mut is_time_over = false;
    signals.let_through(|| is_time_over = waiting.wait());
    if kernel::process_id() != process {
        return false;
    }
    waiting.end(is_time_over, process::paths().0);
    true
}

impl ThreadState {
    fn next(&self, at: usize, signals: &Signals) -> usize {
        let Some(ring) = process::ring() else { return self.scratch(None) };
        if self.is_lent() {
            ring.header().lent_bytes.fetch_add(LENT_BYTES as u64, Relaxed);
            return self.scratch(None) + (CHUNK_BYTES - LENT_BYTES);
        }
        if !process::is_ours() {
            if process::is_unseen_fork() {
                // Its first records went over its parent's.
                ring.header().unseen_forks.fetch_add(1, Relaxed);
                process::adopt();
                return self.next(0, signals);
            }
            // It has its parent's memory, as by `vfork`.
            ring.header().untraced_chunks.fetch_add(1, Relaxed);
            return scratch::shared();
        }
        loop {
            let Some(stream) = self.stream() else { return self.scratch(Some(ring)) };
            if stream.is_aside() && process::is_paused() {
                return self.paused();
            }
            if stream.is_aside() {
                stream.give_up(ring, 0);
            } else if stream.has_chunk() {
                // What is kept in memory is behind while the cursor is in a register. It counts only where `at` is of
                // another chunk: then a handler that nobody told us of has exchanged that one meanwhile, and went on up
                // to here.
                let is_here = stream.bytes_up_to(at).is_some();
                let goes_on = if is_here { at } else { cursor() };
                if stream.has_room(goes_on) {
                    return goes_on;
                }
                stream.give_up(ring, at);
            }
            if ring.is_stopped() {
                process::close_gate();
                return self.scratch(Some(ring));
            }
            if process::is_paused() {
                // A loop that began before goes on, and nobody reads what it writes.
                return self.paused();
            }
            if !ring.is_backed_up() {
                return self.take(stream, ring).unwrap_or_else(|| self.scratch(Some(ring)));
            }
            // Handlers that run meanwhile find no chunk, and take one.
            set_cursor(0);
            if !wait_for_reader(ring, signals) {
                return self.next(0, signals);
            }
        }
    }

    /// The one that is written; none where handlers are too deep.
    fn stream(&self) -> Option<&Stream> {
        if self.current.get() == STREAMS {
            // Perhaps those have been left.
            self.forget_left(Stack::now());
            self.current.set(self.free_stream());
        }
        self.streams.get(self.current.get())
    }

    fn take(&self, stream: &Stream, ring: Ring) -> Option<usize> {
        if self.tid.get() == 0 {
            self.tid.set(kernel::thread_id());
        }
        let chunk = stream.take(ring, self.tid.get(), process::paths().1)?;
        self.watch();
        Some(chunk)
    }

    /// Has the cursor lead where nobody reads, or to a chunk again.
    fn pause(&self, is_paused: bool) {
        // A child by `vfork` has its parent's memory: the chunk is not its own to give up.
        if !process::is_ours() {
            return;
        }
        let (Some(ring), Some(stream)) = (process::ring(), self.streams.get(self.current.get())) else { return };
        if is_paused && stream.has_chunk() && !stream.is_aside() {
            stream.give_up(ring, cursor());
            set_cursor(self.paused());
        } else if !is_paused && (!stream.has_chunk() || stream.is_aside()) {
            set_cursor(0);
        }
    }

    /// Whether the calling code writes what is noted by itself, where it is read.
    fn is_recorded(&self, recorded: u32) -> bool {
        let stream = self.streams.get(self.current.get()).filter(|stream| stream.has_chunk() && !stream.is_aside());
        stream.is_some_and(|stream| match recorded {
            NOTED_AFTER_RECORD => stream.bytes_up_to(cursor()).is_some(),
            // Without room it may come to be where nobody reads.
            NOTED_BEFORE_RECORD => stream.has_room(cursor()),
            _ => false,
        })
    }

    /// Where a note goes: where the thread writes if that is read; else, as long as the gate is closed, into a chunk of its own.
    fn place_of_note(&self) -> Option<usize> {
        let stream = self.streams.get(self.current.get())?;
        if stream.is_aside() && !process::is_paused() {
            return None;
        }
        stream.place_of_note(cursor())
    }

    /// Takes a chunk for notes, or for all that the thread writes if the gate is open; whether there is one. If not, the note's bytes are lost.
    fn make_place_of_note(&self, bytes: usize) -> bool {
        let signals = Signals::block();
        let Some(ring) = process::ring() else { return false };
        let Some(stream) = self.stream().filter(|_| process::is_ours() && !self.is_lent()) else {
            self.lose_note(ring, bytes);
            return false;
        };
        loop {
            self.publish(ring);
            if !ring.is_backed_up() || ring.is_stopped() {
                break;
            }
            // Handlers that run meanwhile find no chunk, and take one.
            if !wait_for_reader(ring, &signals) {
                drop(signals);
                return self.make_place_of_note(bytes);
            }
        }
        if ring.is_stopped() {
            process::close_gate();
            return false;
        }
        let is_paused = process::is_paused();
        if is_paused {
            stream.lose();
        }
        let Some(at) = self.take(stream, ring) else {
            self.lose_note(ring, bytes);
            return false;
        };
        if is_paused {
            stream.put_aside(at);
        } else {
            set_cursor(at);
        }
        true
    }

    /// Counts what is noted nowhere by chunks, as that is counted which goes where nobody reads: the first byte of each.
    fn lose_note(&self, ring: Ring, bytes: usize) {
        let lost = self.lost_bytes.get();
        if lost == 0 {
            ring.header().untraced_chunks.fetch_add(1, Relaxed);
        }
        self.lost_bytes.set(if lost + bytes < CHUNK_BYTES { lost + bytes } else { 0 });
    }

    /// Notes end at `end`, and the last one begins at `at`; whether it is still there that one goes.
    fn noted(&self, at: usize, end: usize) -> bool {
        let is_there = self.place_of_note() == Some(at);
        match self.streams.get(self.current.get()).filter(|_| is_there) {
            Some(stream) if stream.is_aside() => stream.put_aside(end),
            Some(_) => set_cursor(end),
            None => {}
        }
        is_there
    }

    /// What was noted is recorded next: that is to be where nobody reads, also if the gate is opened just now.
    fn record_elsewhere(&self) {
        let is_aside = self.streams.get(self.current.get()).is_some_and(Stream::is_aside);
        if is_aside && cursor() & ROOM_BIT == 0 {
            let _signals = Signals::block();
            set_cursor(self.paused());
        }
    }

    /// Changes to a stream that nobody else writes. It begins with a new chunk, whose time stamp says that what the handler
    /// does is later than all that it can know of.
    fn enter(&self, stack: Stack, cursor: usize) -> Handler {
        self.forget_left(stack);
        let depth = self.depth.get();
        let Some(place) = self.interrupted.get(depth) else { return Handler::NESTED_TOO_DEEP };
        place.set(Interrupted { stream: self.current.get(), cursor, stack });
        self.depth.set(depth + 1);
        let free = self.free_stream();
        self.current.set(free);
        let stream = self.streams.get(free);
        if let (Some(stream), Some(ring), true) = (stream, process::ring(), process::is_ours()) {
            stream.give_up(ring, stream.kept());
        }
        set_cursor(stream.map_or(0, Stream::kept));
        Handler(depth)
    }

    /// A stream that nothing interrupted goes on with; [`STREAMS`] if there is none.
    fn free_stream(&self) -> usize {
        let interrupted = &self.interrupted[..self.depth.get()];
        (0..STREAMS).find(|stream| interrupted.iter().all(|place| place.get().stream != *stream)).unwrap_or(STREAMS)
    }

    /// Changes back.
    fn leave(&self, handler: Handler) {
        // A handler of this depth that was left by a jump may have been taken for over, where it was not: then its place
        // is another's, or nobody's.
        let Handler(depth) = handler;
        if depth >= self.depth.get() {
            return;
        }
        // Those above were left by a jump to this one.
        self.give_up_down_to(depth + 1);
        self.keep_current();
        let Interrupted { stream, cursor, .. } = self.interrupted[depth].get();
        self.depth.set(depth);
        self.current.set(stream);
        set_cursor(cursor);
    }

    /// Notes where the current stream goes on.
    fn keep_current(&self) {
        if let Some(stream) = self.streams.get(self.current.get()) {
            stream.keep(cursor());
        }
    }

    /// Handlers that were left by a jump are over, and nobody returns to what they interrupted.
    fn forget_left(&self, now: Stack) {
        let depth = self.depth.get();
        let live = self.interrupted[..depth].iter().rposition(|place| !place.get().stack.is_left(now));
        self.give_up_down_to(live.map_or(0, |last| last + 1));
    }

    /// Gives up the streams of what was interrupted from this depth on, to which nobody returns. How far those were
    /// written nobody knows: the cursor may have been in a register.
    fn give_up_down_to(&self, depth: usize) {
        let left = &self.interrupted[depth..self.depth.get()];
        // A child by `vfork` has its parent's memory, and the parent goes on with its streams.
        if let (false, Some(ring), true) = (left.is_empty(), process::ring(), process::is_ours()) {
            for place in left {
                if let Some(stream) = self.streams.get(place.get().stream) {
                    stream.give_up(ring, 0);
                    stream.lose();
                }
            }
        }
        self.depth.set(depth);
    }

    /// Has us told when the thread ends.
    fn watch(&self) {
        if let Some(key) = process::key()
            && !self.is_watched.get()
        {
            // SAFETY: the key is ours, and what it leads to is there until the thread ends.
            let result = unsafe { libc::pthread_setspecific(key, core::ptr::from_ref(self).cast()) };
            self.is_watched.set(result == 0);
        }
    }

    /// Room that nobody reads, as long as the gate is closed: the end of a chunk, since what is written there once the gate is open again is
    /// lost, until there is no room left.
    fn paused(&self) -> usize {
        self.scratch(None) + (CHUNK_BYTES - PAUSED_BYTES)
    }

    /// A chunk that nobody reads.
    fn scratch(&self, ring: Option<Ring>) -> usize {
        if let Some(ring) = ring {
            ring.header().untraced_chunks.fetch_add(1, Relaxed);
        }
        if let Some(stream) = self.streams.get(self.current.get()) {
            stream.lose();
        }
        self.watch();
        // Where nobody would give it back there is one for all.
        if self.scratch.get() == 0 && self.is_watched.get() {
            self.scratch.set(scratch::private().unwrap_or(0));
        }
        match self.scratch.get() {
            0 => scratch::shared(),
            scratch => scratch,
        }
    }
}
