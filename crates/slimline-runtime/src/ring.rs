//! The process's ring: a file that slimline reads.
#![allow(unsafe_code)] // shared memory

use core::arch::x86_64::{_mm_lfence, _rdtsc};
use core::ffi::CStr;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use slimline_trace::stream::ring::{
    BLOCKS, BLOCKS_OFFSET, CHUNK_BYTES, CLOSED_BY_PROGRAM, FILE_BYTES, FILE_EXTENSION, GATE_BYTES, GATE_OFFSET,
    HEAD_BYTES, MAGIC, MOST_FULL, OBJECTS_BYTES, OBJECTS_OFFSET, OVERFLOW_BYTES, ObjectHead, ROOM_BIT, RingHeader,
    RingState, SEVERAL_OFFSET, SHARED, SHARED_OFFSET, SLOT_BYTES, SLOTS, SLOTS_OFFSET, SharedMapping, Slot, SlotState,
    ThreadBlock, UNKNOWN_BYTES, VERSION, chunk_offset,
};

use crate::gate::Gate;
use crate::kernel::{self, Populated};
use crate::objects::{Mapping, Path};
use crate::shared_mappings::Shared;

/// How long a thread waits for the reader before it looks whether there still is one.
const PATIENCE_MS: u32 = 20;

/// A mapped ring. It stays mapped as long as the process, but for a forked child's parent's. Chunks are mapped when they are
/// first taken: few programs take many.
///
/// ```text
///   start - TABLE_BYTES                 start
///   │ where the chunks are, 0: nowhere  │ the file, up to its first chunk │
/// ```
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    start: usize,
}

/// Names a [`FORKS`](slimline_trace::stream::record::FORKS) record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fork {
    pub(crate) stamp: u64,
    pub(crate) process: u32,
}
/// Size of the table of chunks, which is private: a forked child's parent goes on mapping chunks.
const TABLE_BYTES: usize = SLOTS * size_of::<AtomicUsize>();
const MAPPED_HEAD_BYTES: usize = HEAD_BYTES.next_multiple_of(4096);
const MAPPED_CHUNK_BYTES: usize = CHUNK_BYTES + OVERFLOW_BYTES;
const _: () = assert!(TABLE_BYTES.is_multiple_of(4096) && MAPPED_CHUNK_BYTES.is_multiple_of(4096));

/// A slot that a thread has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) slot: u32,
    /// Address of its chunk.
    pub(crate) chunk: usize,
}

impl Ring {
    /// Makes a file in `directory`, whose path is left in `path`, and maps it, and its gate, closed for these reasons, in the
    /// place of this one. None where that can't be done.
    pub(crate) fn create(directory: &[u8], image: u64, path: &mut Path, gate: &Gate, reasons: u8) -> Option<Self> {
        let pid = kernel::process_id();
        let file = (0..u32::MAX).find_map(|number| {
            path.clear();
            path.push_all(directory);
            path.push(b'/');
            path.push_number(pid);
            path.push(b'-');
            path.push_number(number);
            path.push(b'.');
            path.push_all(FILE_EXTENSION.as_bytes());
            let Some(path) = path.get() else { return Some(None) };
            match kernel::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) {
                Err(libc::EEXIST) => None,
                opened => Some(opened.ok()),
            }
        })??;
        // Left empty: so the reader knows why there is none.
        if kernel::file_size_limit() < FILE_BYTES as u64 {
            kernel::close(file);
            return None;
        }
        let is_whole = kernel::truncate(file, FILE_BYTES) && kernel::allocate(file, 0, HEAD_BYTES);
        let table = if is_whole { kernel::map(TABLE_BYTES + MAPPED_HEAD_BYTES) } else { None };
        let start = table.map(|table| table + TABLE_BYTES).filter(|&start| {
            // SAFETY: just mapped.
            let is_there = unsafe { kernel::replace_by_file(start, MAPPED_HEAD_BYTES, file) } && {
                Self { start }.gate_byte().store(reasons, Relaxed);
                // SAFETY: a gate is a page of its own, and its byte was just written.
                unsafe { kernel::replace_page(gate.address(), GATE_BYTES, Some((file, GATE_OFFSET))) }
            };
            if !is_there {
                // SAFETY: nobody has it yet.
                unsafe { kernel::unmap(start - TABLE_BYTES, TABLE_BYTES + MAPPED_HEAD_BYTES) };
            }
            is_there
        });
        kernel::close(file);
        let Some(start) = start else {
            if let Some(path) = path.get() {
                kernel::unlink(path);
            }
            return None;
        };
        let ring = Self { start };
        let header = ring.header();
        header.magic.store(MAGIC, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.pid.store(pid, Relaxed);
        header.parent_pid.store(kernel::parent_id(), Relaxed);
        header.pid_namespace.store(kernel::pid_namespace(), Relaxed);
        header.image.store(image, Relaxed);
        let now_ns = kernel::now_ns();
        header.started_ns.store(now_ns, Relaxed);
        if reasons & CLOSED_BY_PROGRAM != 0 {
            header.paused_since_ns.store(now_ns, Relaxed);
        }
        Some(ring)
    }

    /// Maps its gate in the place of another one, too. Whether it is there now.
    pub(crate) fn map_gate(self, gate: &Gate) -> bool {
        // SAFETY: a gate is a page of its own, and may be exchanged at any moment.
        unsafe { kernel::map_again(self.start + GATE_OFFSET, GATE_BYTES, gate.address()) }
    }

    /// Notes that the program wants nothing recorded, or that it does again.
    pub(crate) fn note_pause(self, is_paused: bool) {
        let header = self.header();
        let now_ns = kernel::now_ns();
        let since_ns = header.paused_since_ns.swap(if is_paused { now_ns } else { 0 }, AcqRel);
        if since_ns != 0 {
            header.paused_ns.fetch_add(now_ns.saturating_sub(since_ns), Relaxed);
        }
    }

    /// The ring at an address that [`Self::address`] gave; none for 0.
    ///
    /// # Safety
    /// It must still be mapped.
    pub(crate) unsafe fn at(start: usize) -> Option<Self> {
        (start != 0).then_some(Self { start })
    }

    pub(crate) fn address(self) -> usize {
        self.start
    }

    /// Shows it to the reader.
    pub(crate) fn begin(self) {
        self.header().state.store(RingState::Running as u32, Release);
    }

    pub(crate) fn header<'a>(self) -> &'a RingHeader {
        // SAFETY: mapped as long as there is a `Ring`, aligned, and made of atomics, for which every pattern is valid.
        unsafe { &*(self.start as *const RingHeader) }
    }

    /// A slot, whatever the number.
    fn slot<'a>(self, number: usize) -> &'a Slot {
        let offset = SLOTS_OFFSET + (number % SLOTS) * size_of::<Slot>();
        // SAFETY: as in `header`; the number is one of a slot.
        unsafe { &*((self.start + offset) as *const Slot) }
    }

    pub(crate) fn is_stopped(self) -> bool {
        self.header().stop.load(Relaxed) != 0
    }

    /// Whether as many chunks wait to be read as may.
    pub(crate) fn is_backed_up(self) -> bool {
        self.header().full.load(Acquire) >= MOST_FULL
    }

    /// Waits until a chunk may have been read, for a while. Only [`Waiting::wait`] may be called with signals unblocked: a
    /// handler may fork, and return in a child to which this ring is nothing.
    pub(crate) fn begin_waiting(self) -> Waiting {
        let freed = self.header().freed.load(Acquire);
        self.header().waiting.fetch_add(1, AcqRel);
        let began_ns = (self.is_backed_up() && !self.is_stopped()).then(kernel::now_ns);
        Waiting { ring: self, freed, began_ns }
    }

    /// Takes the first free slot, so that few are ever touched. None where there is none, or no memory for it.
    pub(crate) fn take(self, stream: u32, tid: u32, sequence: u64, path: Option<&CStr>) -> Option<Taken> {
        let (free, owned) = (SlotState::Free as u32, SlotState::Owned as u32);
        let number = (0..SLOTS).find(|&number| {
            let state = &self.slot(number).state;
            state.load(Relaxed) == free && state.compare_exchange(free, owned, Acquire, Relaxed).is_ok()
        })?;
        let slot = self.slot(number);
        let Some(chunk) = self.map_chunk(number) else {
            slot.state.store(free, Release);
            return None;
        };
        if slot.is_backed.load(Relaxed) == 0 {
            if !back(chunk, chunk_offset(number), path) {
                slot.state.store(free, Release);
                return None;
            }
            slot.is_backed.store(1, Relaxed);
        }
        slot.stream.store(stream, Relaxed);
        slot.tid.store(tid, Relaxed);
        slot.thread_pointer.store(kernel::thread_pointer() as u64, Relaxed);
        slot.sequence.store(sequence, Relaxed);
        slot.bytes.store(UNKNOWN_BYTES, Relaxed);
        slot.ended.store(0, Relaxed);
        slot.began.store(stamp(), Release);
        Some(Taken { slot: number as u32, chunk })
    }

    /// Where the process has a chunk; 0: nowhere yet.
    fn chunk_place<'a>(self, number: usize) -> &'a AtomicUsize {
        let at = self.start - TABLE_BYTES + (number % SLOTS) * size_of::<AtomicUsize>();
        // SAFETY: `create` maps the table before the file.
        unsafe { &*(at as *const AtomicUsize) }
    }

    /// Address of a slot's chunk, which the calling thread has taken; none where it can't be mapped.
    fn map_chunk(self, number: usize) -> Option<usize> {
        let place = self.chunk_place(number);
        let mapped = place.load(Relaxed);
        if mapped != 0 {
            return Some(mapped);
        }
        // As near as possible: what lies between is mapped for a moment.
        let nearest = (0..number).rev().find_map(|below| {
            let chunk = self.chunk_place(below).load(Acquire);
            (chunk != 0).then_some((chunk, chunk_offset(below)))
        });
        let (from, offset) = nearest.unwrap_or((self.start, 0));
        let distance = chunk_offset(number) - offset;
        // SAFETY: the ring's head and its chunks are shared mappings of the file.
        let chunk = unsafe { kernel::map_behind(from, distance, MAPPED_CHUNK_BYTES, [SLOT_BYTES, ROOM_BIT]) }?;
        place.store(chunk, Release);
        Some(chunk)
    }

    /// Hands a slot to the reader. The number of bytes is none where nobody knows it.
    pub(crate) fn publish(self, slot: u32, bytes: Option<u32>) {
        let slot = self.slot(slot as usize);
        slot.bytes.store(bytes.unwrap_or(UNKNOWN_BYTES), Relaxed);
        slot.ended.store(stamp(), Relaxed);
        // Before the slot is full: the reader takes it off again.
        self.header().full.fetch_add(1, AcqRel);
        slot.state.store(SlotState::Full as u32, Release);
    }

    /// Tells the reader of an object. Only one thread may do so at a time, as the dynamic linker sees to.
    pub(crate) fn add_object(self, mapping: Option<Mapping>, block_below: usize, path: &[u8]) {
        let header = self.header();
        let used = header.objects_bytes.load(Relaxed) as usize;
        let bytes = ObjectHead::BYTES + path.len() + 1;
        let Some(mapping) = mapping.filter(|_| !path.is_empty() && used + bytes <= OBJECTS_BYTES) else {
            header.untold_objects.fetch_add(1, Relaxed);
            return;
        };
        let head =
            ObjectHead { start: mapping.start as u64, offset: mapping.offset as u64, block_below: block_below as u64 };
        let head = head.words().into_iter().flat_map(u64::to_ne_bytes);
        for (at, byte) in (used..).zip(head.chain(path.iter().copied()).chain([0])) {
            self.object_byte(at).store(byte, Relaxed);
        }
        header.objects_bytes.store((used + bytes) as u32, Release);
    }

    /// Tells the reader of a block that was made for one thread, as [`ThreadBlock`] has it.
    pub(crate) fn add_block(self, bias: usize, start: usize, since: u64) {
        let number = self.header().blocks.fetch_add(1, Relaxed) as usize;
        if let Some(block) = self.block(number) {
            block.bias.store(bias as u64, Relaxed);
            block.start.store(start as u64, Relaxed);
            block.since.store(since, Release);
        }
    }

    fn block<'a>(self, number: usize) -> Option<&'a ThreadBlock> {
        let offset = BLOCKS_OFFSET + number * size_of::<ThreadBlock>();
        // SAFETY: as in `header`; inside the area of blocks.
        (number < BLOCKS).then(|| unsafe { &*((self.start + offset) as *const ThreadBlock) })
    }

    /// Tells the reader of a mapping that other processes may share, or that one is over.
    pub(crate) fn add_shared(self, mapping: Shared, since: u64) {
        let number = self.header().shared.fetch_add(1, Relaxed) as usize;
        if let Some(entry) = self.shared(number) {
            entry.start.store(mapping.start as u64, Relaxed);
            entry.bytes.store((mapping.end - mapping.start) as u64, Relaxed);
            entry.object.store(mapping.object, Relaxed);
            entry.offset.store(mapping.offset, Relaxed);
            entry.since.store(since, Release);
        }
    }

    /// An entry for a shared mapping; none beyond the room for them.
    pub(crate) fn shared<'a>(self, number: usize) -> Option<&'a SharedMapping> {
        let offset = SHARED_OFFSET + number * size_of::<SharedMapping>();
        // SAFETY: as in `header`; inside the area of shared mappings.
        (number < SHARED).then(|| unsafe { &*((self.start + offset) as *const SharedMapping) })
    }

    /// Whether an address lies in it.
    pub(crate) fn contains(self, address: usize) -> bool {
        let of_chunk = |number: usize| {
            let start = self.chunk_place(number).load(Relaxed);
            start != 0 && (start..start + MAPPED_CHUNK_BYTES).contains(&address)
        };
        (self.start..self.start + MAPPED_HEAD_BYTES).contains(&address) || (0..SLOTS).any(of_chunk)
    }

    /// When a slot's chunk was taken.
    pub(crate) fn began(self, slot: u32) -> u64 {
        self.slot(slot as usize).began.load(Relaxed)
    }

    /// Tells of all that another ring tells of.
    pub(crate) fn inherit_objects(self, from: Self) {
        let used = (from.header().objects_bytes.load(Acquire) as usize).min(OBJECTS_BYTES);
        for at in 0..used {
            self.object_byte(at).store(from.object_byte(at).load(Relaxed), Relaxed);
        }
        self.header().objects_bytes.store(used as u32, Release);
        for block in (0..from.header().blocks.load(Acquire) as usize).map_while(|number| from.block(number)) {
            let word = |word: &AtomicU64| word.load(Acquire);
            // Of a block that a thread was just telling of, which is not in this process.
            if word(&block.since) != 0 {
                self.add_block(word(&block.bias) as usize, word(&block.start) as usize, word(&block.since));
            }
        }
    }

    /// Says which state of its parent the process begins with.
    pub(crate) fn inherit_allocations(self, Fork { stamp, process }: Fork) {
        self.header().forked_from.store(process.into(), Relaxed);
        self.header().forked_at.store(stamp, Relaxed);
    }

    fn gate_byte<'a>(self) -> &'a AtomicU8 {
        // SAFETY: as in `header`; inside the gate's page.
        unsafe { &*((self.start + GATE_OFFSET) as *const AtomicU8) }
    }

    /// Whether records have time stamps.
    fn several_byte<'a>(self) -> &'a AtomicU8 {
        // SAFETY: as in `header`; inside the gate's page.
        unsafe { &*((self.start + GATE_OFFSET + SEVERAL_OFFSET) as *const AtomicU8) }
    }

    fn object_byte<'a>(self, at: usize) -> &'a AtomicU8 {
        // SAFETY: as in `header`; inside the area of paths.
        unsafe { &*((self.start + OBJECTS_OFFSET + at.min(OBJECTS_BYTES - 1)) as *const AtomicU8) }
    }

    /// A number for a stream. Whoever learns of anything that the second one records gives its own records time stamps
    /// from then on.
    pub(crate) fn new_stream(self) -> u32 {
        let number = self.header().streams.fetch_add(1, Relaxed);
        if number > 0 {
            self.several_byte().store(1, Release);
        }
        number
    }

    /// Unmaps it; or, where cursors in registers may still lead there, has what they write go nowhere.
    ///
    /// # Safety
    /// No thread may use it any more, but by such cursors.
    pub(crate) unsafe fn leave(self, is_written: bool) {
        let chunks = (0..SLOTS).map(|number| self.chunk_place(number).load(Relaxed)).filter(|&chunk| chunk != 0);
        for chunk in chunks {
            // SAFETY: promised by the caller.
            unsafe {
                if is_written {
                    kernel::bury(chunk, MAPPED_CHUNK_BYTES);
                } else {
                    kernel::unmap(chunk, MAPPED_CHUNK_BYTES);
                }
            }
        }
        // SAFETY: promised by the caller; cursors lead to chunks only.
        unsafe { kernel::unmap(self.start - TABLE_BYTES, TABLE_BYTES + MAPPED_HEAD_BYTES) };
    }
}

/// A thread that waits until a chunk may have been read.
pub(crate) struct Waiting {
    ring: Ring,
    /// What the count of read chunks was.
    freed: u32,
    /// None where there is nothing to wait for.
    began_ns: Option<u64>,
}

impl Waiting {
    /// Waits; whether the time was over before the reader woke us, or a signal came.
    pub(crate) fn wait(&self) -> bool {
        self.began_ns.is_some() && !kernel::wait(&self.ring.header().freed, self.freed, PATIENCE_MS)
    }

    /// It is over. Where the time was, and there is no reader any more, which `directory` tells, that is noted.
    pub(crate) fn end(self, is_time_over: bool, directory: Option<&CStr>) {
        let header = self.ring.header();
        if let Some(began_ns) = self.began_ns {
            header.waits.fetch_add(1, Relaxed);
            header.waited_ns.fetch_add(kernel::now_ns().saturating_sub(began_ns), Relaxed);
        }
        header.waiting.fetch_sub(1, AcqRel);
        if is_time_over && !directory.is_some_and(kernel::is_locked) {
            header.stop.store(1, Relaxed);
        }
    }
}

/// The processor's time stamp counter, read once all that came before was.
pub(crate) fn stamp() -> u64 {
    // SAFETY: every x86-64 processor has both.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Reserves a chunk's memory: without that the first write to a full file system would end the process.
fn back(chunk: usize, offset: usize, path: Option<&CStr>) -> bool {
    match kernel::populate(chunk, CHUNK_BYTES + OVERFLOW_BYTES) {
        Populated::Yes => true,
        Populated::No => false,
        Populated::Unknown => {
            let Some(Ok(file)) = path.map(|path| kernel::open(path, libc::O_RDWR)) else { return false };
            let is_backed = kernel::allocate(file, offset, CHUNK_BYTES + OVERFLOW_BYTES);
            kernel::close(file);
            is_backed
        }
    }
}

// The words that the kernel waits on.
const _: () = assert!(offset_of!(RingHeader, freed) % align_of::<AtomicU32>() == 0);

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::ffi::CString;
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::string::String;
    use std::thread;

    use super::*;

    struct Place {
        directory: std::path::PathBuf,
    }

    impl Place {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(std::format!("slimline-runtime-{}-{name}", std::process::id()));
            std::fs::create_dir(&directory).unwrap();
            Self { directory }
        }

        fn ring(&self) -> Ring {
            self.ring_with(Box::leak(Box::new(Gate::new())), 0)
        }

        fn ring_with(&self, gate: &Gate, reasons: u8) -> Ring {
            Ring::create(self.directory.as_os_str().as_bytes(), 7, &mut Path::new(), gate, reasons).unwrap()
        }

        fn path(&self) -> CString {
            CString::new(self.directory.as_os_str().as_bytes()).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn files_have_numbers_of_their_own() {
        let place = Place::new("files");
        let (mut first, mut second) = (Path::new(), Path::new());
        let directory = place.directory.as_os_str().as_bytes();
        let gate = Box::leak(Box::new(Gate::new()));
        let rings = [&mut first, &mut second].map(|path| Ring::create(directory, 7, path, gate, 0).unwrap());
        let name = |path: &Path| String::from_utf8(path.bytes().rsplit(|&b| b == b'/').next().unwrap().into()).unwrap();
        let pid = std::process::id();
        assert_eq!([name(&first), name(&second)], [std::format!("{pid}-0.trace"), std::format!("{pid}-1.trace")]);
        for ring in rings {
            assert_eq!(ring.header().magic.load(Relaxed), MAGIC);
            let chunk = ring.take(1, 2, 0, None).unwrap().chunk;
            assert_eq!(chunk % SLOT_BYTES, ROOM_BIT);
            // SAFETY: not used again.
            unsafe { ring.leave(false) };
        }
        assert!(Ring::create(b"/nowhere", 7, &mut Path::new(), gate, 0).is_none());
    }

    /// A gate whose page is exchanged is never given back to the heap.
    #[test]
    fn the_gate_is_the_files() {
        let place = Place::new("gate");
        let gate = Box::leak(Box::new(Gate::new()));
        let ring = place.ring_with(gate, CLOSED_BY_PROGRAM);
        assert!(gate.is_closed() && ring.header().paused_since_ns.load(Relaxed) != 0);
        ring.gate_byte().store(0, Relaxed);
        ring.note_pause(false);
        assert!(!gate.is_closed());
        let paused_ns = ring.header().paused_ns.load(Relaxed);
        ring.note_pause(false);
        assert_eq!(ring.header().paused_ns.load(Relaxed), paused_ns);
        gate.close(CLOSED_BY_PROGRAM);
        assert_eq!(ring.gate_byte().load(Relaxed), CLOSED_BY_PROGRAM);
        // SAFETY: not used again.
        unsafe { ring.leave(false) };
    }

    #[test]
    fn slots_are_taken_filled_and_published() {
        let place = Place::new("slots");
        let ring = place.ring();
        let [first, second] = [0, 1].map(|sequence| ring.take(3, 33, sequence, None).unwrap());
        assert_eq!([first.slot, second.slot], [0, 1]);
        // SAFETY: the last word that may be written of the chunk.
        unsafe { ((first.chunk + CHUNK_BYTES + OVERFLOW_BYTES - 8) as *mut u64).write(1) };
        ring.publish(first.slot, Some(64));
        ring.publish(second.slot, None);
        let slots = [0, 1].map(|slot| (ring.slot(slot).state.load(Relaxed), ring.slot(slot).bytes.load(Relaxed)));
        assert_eq!(slots, [(SlotState::Full as u32, 64), (SlotState::Full as u32, UNKNOWN_BYTES)]);
        assert_eq!(ring.header().full.load(Relaxed), 2);
        ring.slot(0).state.store(SlotState::Free as u32, Relaxed);
        assert_eq!(ring.take(3, 33, 2, None).unwrap().slot, 0);
        let others = (2..SLOTS).filter(|_| ring.take(4, 34, 0, None).is_some()).count();
        assert_eq!((others, ring.take(4, 34, 0, None)), (SLOTS - 2, None));
        // SAFETY: not used again.
        unsafe { ring.leave(false) };
    }

    #[test]
    fn the_second_stream_has_all_records_stamped() {
        let place = Place::new("streams");
        let gate = Box::leak(Box::new(Gate::new()));
        let ring = place.ring_with(gate, 0);
        let is_stamped = || {
            // SAFETY: inside the gate's page.
            unsafe { ((gate.address() + SEVERAL_OFFSET) as *const u8).read_volatile() }
        };
        assert_eq!((ring.new_stream(), is_stamped(), ring.new_stream(), is_stamped()), (0, 0, 1, 1));
        let [first, second] = [0, 1].map(|stream| ring.take(stream, 33, 0, None).unwrap().slot as usize);
        ring.publish(first as u32, Some(0));
        let [began, ended] = [ring.slot(second).began.load(Relaxed), ring.slot(first).ended.load(Relaxed)];
        assert!(ring.slot(first).began.load(Relaxed) <= began && began <= ended);
        // SAFETY: not used again.
        unsafe { ring.leave(false) };
    }

    #[test]
    fn who_waits_goes_on_when_a_chunk_was_read_and_when_nobody_reads() {
        let place = Place::new("waiting");
        let ring = place.ring();
        let reader = File::open(&place.directory).unwrap();
        reader.lock().unwrap();
        let wait = || {
            let waiting = ring.begin_waiting();
            let is_time_over = waiting.wait();
            waiting.end(is_time_over, Some(&place.path()));
        };
        ring.header().full.store(MOST_FULL, Relaxed);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while ring.is_backed_up() {
                    wait();
                }
            });
            ring.header().full.store(MOST_FULL - 1, Release);
            ring.header().freed.fetch_add(1, Release);
            waiting.join().unwrap();
        });
        assert!(!ring.is_stopped());
        ring.header().full.store(MOST_FULL, Relaxed);
        drop(reader);
        while !ring.is_stopped() {
            wait();
        }
        // SAFETY: not used again.
        unsafe { ring.leave(false) };
    }

    #[test]
    fn blocks_are_told_until_there_is_no_room_and_children_have_them() {
        let place = Place::new("blocks");
        let [ring, child] = [place.ring(), place.ring()];
        let taken = ring.take(3, 33, 0, None).unwrap();
        ring.add_block(0x7000, 0x5010, ring.began(taken.slot));
        // One that a thread has not told yet.
        ring.header().blocks.fetch_add(1, Relaxed);
        ring.add_block(0x9000, 0x5050, 7);
        child.inherit_objects(ring);
        let told = |ring: Ring, number| {
            let block = ring.block(number).unwrap();
            (block.bias.load(Relaxed), block.start.load(Relaxed), block.since.load(Relaxed))
        };
        let began = ring.slot(taken.slot as usize).began.load(Relaxed);
        assert_eq!((told(child, 0), told(child, 1)), ((0x7000, 0x5010, began), (0x9000, 0x5050, 7)));
        assert_eq!(child.header().blocks.load(Relaxed), 2);
        (0..BLOCKS).for_each(|_| ring.add_block(1, 2, 3));
        assert_eq!((told(ring, BLOCKS - 1), ring.header().blocks.load(Relaxed)), ((1, 2, 3), BLOCKS as u32 + 3));
        assert!(ring.block(BLOCKS).is_none());
        // SAFETY: not used again.
        unsafe {
            ring.leave(false);
            child.leave(false);
        }
    }

    #[test]
    fn objects_are_told_until_there_is_no_room() {
        let place = Place::new("objects");
        let [ring, child] = [place.ring(), place.ring()];
        let mapping = Some(Mapping { start: 0x7000, offset: 0x2000 });
        ring.add_object(mapping, 0, b"/a");
        ring.add_object(mapping, 0x40, b"/bc");
        child.inherit_objects(ring);
        let told: std::vec::Vec<u8> = (0..55).map(|at| child.object_byte(at).load(Relaxed)).collect();
        assert_eq!((&told[24..27], &told[51..]), (&b"/a\0"[..], &b"/bc\0"[..]));
        let heads = [&told, &told[27..]].map(|told| ObjectHead::read(told).unwrap());
        assert_eq!(heads.map(|head| (head.start, head.offset)), [(0x7000, 0x2000); 2]);
        assert_eq!(heads.map(|head| head.block_below), [0, 0x40]);
        assert_eq!(child.header().objects_bytes.load(Relaxed), 55);
        ring.add_object(mapping, 0, &[b'x'; OBJECTS_BYTES]);
        ring.add_object(None, 0, b"");
        assert_eq!(ring.header().untold_objects.load(Relaxed), 2);
        // SAFETY: not used again.
        unsafe {
            ring.leave(false);
            child.leave(false);
        }
    }
}
