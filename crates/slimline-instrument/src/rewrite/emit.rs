//! What a plan inserts.

use std::cell::RefCell;
use std::collections::HashMap;

use slimline_trace::stream::record::{Header, RESUMES};
use slimline_trace::stream::ring::CLOSED_WITHOUT_READER;
use slimline_trace::stream::sites::ModuleId;

use super::NOTE;
use super::plan::{Access, Note, Place, Plan, Step};
use super::touch::Word;
use crate::llvm::{self, Builder, Gate, Module, Noted, Room, Segment, Stamp, Value};

/// What all functions of a module share.
pub(super) struct Emitter<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) id: ModuleId,
    /// The place of the thread's cursor.
    pub(super) cursor: Value<'m>,
    pub(super) room: Room<'m>,
    pub(super) gate: Gate<'m>,
    pub(super) stamp: Stamp<'m>,
    /// The same that does not wait for what is before it.
    pub(super) early_stamp: Stamp<'m>,
    /// What writes a record if the gate is open, by its number of words.
    pub(super) segments: RefCell<HashMap<usize, Segment<'m>>>,
    /// What writes one while the gate is closed, by its number of words, when, and whether it has a time stamp.
    pub(super) notes: RefCell<HashMap<(usize, Noted, bool), llvm::Note<'m>>>,
}

impl<'m> Emitter<'m> {
    /// Carries out a plan. The cursor is a local variable, which a pass then makes a register.
    pub(super) fn carry_out(&self, plan: &Plan<'m>) {
        let Some(first) = plan.function.blocks().first().and_then(|entry| entry.first_insertion()) else { return };
        let Some(builder) = Builder::new(self.module, first) else { return };
        let place = if plan.is_in_memory {
            self.cursor
        } else {
            let local = builder.pointer_variable(c"slimline.cursor");
            builder.before(plan.entry);
            builder.store(builder.load_pointer(self.cursor), local);
            local
        };
        // Where records begin, by their numbers.
        let mut records = Vec::new();
        for step in &plan.steps {
            match step {
                Step::Segment { number, accesses, .. } if plan.asks_gate => {
                    self.segment_if_open(&builder, place, *number, accesses);
                }
                Step::Segment { number, at: Place::New, accesses } => {
                    records.push(self.record(&builder, place, *number, accesses));
                }
                Step::Segment { number, at: Place::Behind { record, words }, accesses } => {
                    let (start, words): (_, usize) = (records[*record], *words);
                    if let Some(first) = accesses.first() {
                        builder.before(first.at);
                        // All that differs between the headers of a module.
                        builder.store(builder.half_constant(Header::new(self.id, *number).word() as u32), start);
                    }
                    self.words(&builder, place, start, words, accesses);
                }
                Step::Keep(_) | Step::Fetch(_) if plan.is_in_memory => {}
                Step::Keep(before) => {
                    builder.before(*before);
                    builder.store(builder.load_pointer(place), self.cursor);
                }
                Step::Fetch(before) => {
                    builder.before(*before);
                    builder.store(builder.load_pointer(self.cursor), place);
                }
                Step::Resume { before, number, words } => {
                    builder.before(*before);
                    // What the thread wrote before may be where nobody reads.
                    builder.store(builder.call_next(self.room, builder.load_pointer(self.cursor)), place);
                    self.record(&builder, place, *number, &[Access { at: *before, words: words.clone() }]);
                }
                Step::Pause { before } => {
                    builder.before(*before);
                    let cursor = builder.call_room(self.room, builder.load_pointer(place));
                    builder.store(builder.constant(RESUMES.word()), cursor);
                    builder.store(builder.offset(cursor, 8), self.cursor);
                }
            }
        }
    }

    /// Begins a record before its first access, and writes all that is known of it; where it begins.
    fn record(&self, builder: &Builder<'m>, place: Value<'m>, number: u32, accesses: &[Access<'m>]) -> Value<'m> {
        if let Some(first) = accesses.first() {
            builder.before(first.at);
        }
        let start = builder.call_room(self.room, builder.load_pointer(place));
        builder.store(builder.constant(Header::new(self.id, number).word()), start);
        self.words(builder, place, start, 0, accesses);
        start
    }

    /// Writes the words of accesses behind so many of a record, and keeps where they end.
    fn words(&self, builder: &Builder<'m>, place: Value<'m>, start: Value<'m>, before: usize, accesses: &[Access<'m>]) {
        let mut bytes = 8 * (1 + before as u64);
        for access in accesses {
            builder.before(access.at);
            for word in &access.words {
                // A word that can't be made would shift all that follow: zero keeps the record readable.
                let value = self.word(builder, *word).unwrap_or_else(|| builder.constant(0));
                builder.store(value, builder.offset(start, bytes));
                bytes += 8;
            }
        }
        builder.store(builder.offset(start, bytes), place);
    }

    /// Writes all words at once, at the last access.
    fn segment_if_open(&self, builder: &Builder<'m>, place: Value<'m>, number: u32, accesses: &[Access<'m>]) {
        let Some(last) = accesses.last() else { return };
        builder.before(last.at);
        let mut words = vec![builder.constant(Header::new(self.id, number).word())];
        for word in accesses.iter().flat_map(|access| &access.words) {
            words.push(self.word(builder, *word).unwrap_or_else(|| builder.constant(0)));
        }
        let mut segments = self.segments.borrow_mut();
        let segment = *segments.entry(words.len()).or_insert_with(|| self.gate.add_segment(self.room, words.len()));
        builder.store(builder.call_segment(segment, builder.load_pointer(place), &words), place);
    }

    /// Puts in what is told of an allocator's call, once all plans were carried out: then the thread's cursor is in its place around it.
    pub(super) fn note(&self, note: &Note<'m>) {
        let at = match (note.is_after, note.call.invoke_ends()) {
            (true, Some([returned, _])) => returned.first_insertion(),
            (true, None) => note.call.next(),
            (false, _) => Some(note.call),
        };
        let Some((at, builder)) = at.and_then(|at| Some((at, Builder::new(self.module, at)?))) else { return };
        builder.before_as(at, note.call);
        let mut words = vec![builder.constant(Header::new(self.id, note.number).word())];
        let stamp = matches!(note.words.first(), Some(Word::Stamp)).then_some(self.stamp);
        for word in &note.words[usize::from(stamp.is_some())..] {
            words.push(self.word(&builder, *word).unwrap_or_else(|| builder.constant(0)));
        }
        let count = 1 + note.words.len();
        let mut notes = self.notes.borrow_mut();
        let function = *notes
            .entry((count, note.noted, stamp.is_some()))
            .or_insert_with(|| self.gate.add_note(NOTE, CLOSED_WITHOUT_READER, count, note.noted, stamp));
        builder.call_note(function, &words);
    }

    fn word(&self, builder: &Builder<'m>, word: Word<'m>) -> Option<Value<'m>> {
        match word {
            Word::Value(value) => builder.word(value),
            Word::Bits(value) => builder.bits_word(value),
            Word::Mask(mask) => builder.mask_word(mask),
            Word::Lane(vector, lane) => builder.lane(vector, lane),
            Word::Product(one, other) => builder.product(one, other),
            Word::Bytes { factors, unit } => {
                let unit = builder.constant(u64::from(unit));
                factors.into_iter().flatten().try_fold(unit, |product, factor| builder.product(product, factor))
            }
            Word::Stamp => Some(builder.call_stamp(self.stamp)),
            Word::EarlyStamp => Some(builder.call_stamp(self.early_stamp)),
            Word::Frame => Some(builder.return_address_place()),
            Word::IfZero { status, place } => builder.pointer_if_zero(status, place),
            Word::At(place) => Some(builder.load_pointer(place)),
            Word::DescribedBytes(descriptor) => Some(builder.described_bytes(descriptor)),
        }
    }
}
