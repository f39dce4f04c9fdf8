//! What is to be done to a function, before anything is done.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use slimline_trace::stream::record::{MAX_RECORD_SITES, MAX_SEGMENT_WORDS};
use slimline_trace::stream::ring::{NOTED_AFTER_RECORD, NOTED_BEFORE_RECORD};
use slimline_trace::stream::sites::{ModuleBuilder, Relative, Site, SiteKind};

use super::Told;
use super::addresses::Addresses;
use super::distances::Sum;
use super::paths::Paths;
use super::rules::Rules;
use super::synchronization::called_by_threads;
use super::touch::{Deed, Touch, Word};
use crate::llvm::{Block, Function, Module, Noted, Opcode, Traced, Value, Versions};
use crate::naming::{Names, written};

/// Words to be written before an instruction.
pub(super) struct Access<'m> {
    pub(super) at: Value<'m>,
    pub(super) words: Vec<Word<'m>>,
}

/// Where a segment's words go.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Into a record of its own: room is asked for before its first access.
    New,
    /// Behind so many words of a record, by its number: how many new ones the function's steps have before it.
    Behind { record: usize, words: usize },
}

/// What is inserted. A record's beginning stands before what is put behind it.
pub(super) enum Step<'m> {
    /// A record, or more of one.
    Segment { number: u32, at: Place, accesses: Vec<Access<'m>> },
    /// The cursor goes to its place before this instruction.
    Keep(Value<'m>),
    /// The cursor comes from its place before this instruction.
    Fetch(Value<'m>),
    /// The untraced version goes on in the traced one before this instruction, which is told.
    Resume { before: Value<'m>, number: u32, words: Vec<Word<'m>> },
    /// And the other way round.
    Pause { before: Value<'m> },
}

/// What is told of a call of an allocator while the gate is closed: accesses that are traced later are of its blocks.
pub(super) struct Note<'m> {
    pub(super) call: Value<'m>,
    /// It is told once the call has returned.
    pub(super) is_after: bool,
    pub(super) noted: Noted,
    pub(super) number: u32,
    pub(super) words: Vec<Word<'m>>,
}

/// A function and what is done to it.
pub(super) struct Plan<'m> {
    pub(super) function: Function<'m>,
    /// The first instruction of what is traced.
    pub(super) entry: Value<'m>,
    /// Where this is one version of two in the function.
    pub(super) versions: Option<Versions>,
    pub(super) steps: Vec<Step<'m>>,
    /// It is the function's only version: each segment asks the gate.
    pub(super) asks_gate: bool,
    /// The cursor stays in its place in memory: a register would come back from `setjmp` as it was before.
    pub(super) is_in_memory: bool,
}

/// Plans functions one after the other, and fills the site table.
pub(super) struct Planner<'m, 't> {
    module: &'m Module<'m>,
    table: &'t mut ModuleBuilder,
    /// What is loaded and stored is told, too.
    has_values: bool,
    names: Names<'m>,
    rules: Rules<'m>,
    /// Functions that have a version of their own for being traced, by the name of that version.
    traced: HashMap<&'t str, &'t Traced>,
    /// Their other versions.
    untraced: HashSet<&'t str>,
    /// Functions that a library calls in threads of its own, by name.
    begun: HashSet<String>,
    unlike: BTreeSet<String>,
    notes: Vec<Note<'m>>,
    /// Loads and stores of the function that is planned, and their sites.
    accesses: Vec<(Value<'m>, u32)>,
    /// What else of it is told.
    others: Vec<Value<'m>>,
}

impl<'m, 't> Planner<'m, 't> {
    pub(super) fn new(module: &'m Module<'_>, traced: &'t [Traced], told: &Told, table: &'t mut ModuleBuilder) -> Self {
        Self {
            module,
            table,
            has_values: told.values,
            names: Names::new(module),
            rules: Rules::new(module, &told.allocators),
            traced: traced.iter().map(|traced| (&*traced.name, traced)).collect(),
            untraced: traced.iter().filter(|traced| !traced.is_within).map(|traced| &*traced.function).collect(),
            begun: called_by_threads(module),
            unlike: BTreeSet::new(),
            notes: Vec::new(),
            accesses: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The directory that the unit was compiled in.
    pub(super) fn directory(&self) -> &str {
        self.names.directory()
    }

    /// Functions of the program's own allocators with calls that are not as they are told.
    pub(super) fn unlike(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.unlike)
    }

    /// What is told while the gate is closed.
    pub(super) fn notes(&mut self) -> Vec<Note<'m>> {
        std::mem::take(&mut self.notes)
    }

    /// What to do to this function; nothing if it accesses no memory or must stay as it is.
    #[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
    pub(super) fn plan(&mut self, function: Function<'m>) -> Option<Plan<'m>> {
        let name = function.value().name();
        if self.untraced.contains(&*name) {
            let blocks = function.blocks();
            self.names.is_version(function, &blocks);
            self.note(&name, &blocks, [Noted::Always; 2]);
            return None;
        }
        let traced = self.traced.get(&*name).copied();
        let name = traced.map_or(name, |traced| Cow::Borrowed(&traced.function));
        if let Some(reason) = self.rules.reason_to_skip(function, &name) {
            self.table.skip(&written(&name), reason);
            return None;
        }
        let is_within = traced.is_some_and(|traced| traced.is_within);
        let versions = if is_within { self.module.versions(function) } else { None };
        let blocks = match &versions {
            Some(versions) => versions.traced_blocks(self.module),
            None => function.blocks(),
        };
        if is_within {
            self.names.is_version(function, &blocks);
        }
        let asks_gate = traced.is_none_or(|traced| traced.is_alone);
        if let Some(versions) = &versions {
            self.note(&name, &versions.plain_blocks(self.module), [Noted::Always; 2]);
        }
        // Around a call, the record is before what is noted before, and behind what is noted behind.
        let noted = [Noted::AsFound(NOTED_AFTER_RECORD), Noted::AsFound(NOTED_BEFORE_RECORD)];
        self.note(&name, &blocks, if asks_gate { [Noted::IfClosed; 2] } else { noted });
        let ways = versions.as_ref().map(|versions| versions.ways(self.module)).unwrap_or_default();
        // What `-fno-optimize-sibling-calls` asks for.
        let keeps_frames = function.text_attribute("disable-tail-calls").is_some_and(|value| value == "true");
        let mut gathered = Gathered { keeps_frames, goes_on: !ways.is_empty(), ..Gathered::default() };
        for block in &blocks {
            self.gather(*block, &mut gathered);
        }
        if gathered.accesses == 0 && !gathered.calls {
            return None;
        }
        let mut steps = Steps::default();
        let entry = blocks.first().and_then(|entry| entry.first_insertion())?;
        let first = blocks.first().and_then(|entry| entry.first_behind_variables());
        let unasked = match &versions {
            Some(versions) => versions.unasked(),
            None => Some(function).filter(|_| !asks_gate).and_then(Function::unasked_loops),
        };
        if let Some(unasked) = unasked {
            let frame = self.site(&name, entry, &Touch::enter(false)).frame;
            self.table.unasked(&written(&name), frame, &unasked.reason());
        }
        if let Some(first) = first
            && self.begun.contains(&*name)
        {
            self.told_after(&name, first, vec![Touch::acquire("a thread of a library's")], first, &mut steps);
        }
        let paths = Paths::of(&blocks);
        let mut beginning = first;
        // How records ended, by blocks that others follow.
        let mut ends = HashMap::new();
        for &block in &paths.order {
            let before = paths.before(block).and_then(|before| ends.get(&before)).cloned();
            let end = self.block(&name, block, beginning.take(), (before, &mut gathered), &mut steps);
            // What asks the gate writes all of a record at once.
            if let Some(end) = end.filter(|_| !asks_gate && paths.leads(block)) {
                ends.insert(block, end);
            }
        }
        let told = (std::mem::take(&mut self.accesses), std::mem::take(&mut self.others));
        let addresses = Addresses::of(&blocks, &self.rules.attributes, told);
        addresses.loaded().into_iter().for_each(|address| self.table.address(address));
        self.table.bodies(addresses.bodies());
        for way in ways {
            let touch = Touch::goes_on();
            let site = self.site(&name, way.header, &touch);
            let number = self.table.segment([site]);
            steps.all.push(Step::Resume { before: way.to_traced, number, words: touch.words });
            steps.all.push(Step::Pause { before: way.from_traced });
        }
        let is_in_memory = gathered.returns_twice;
        Some(Plan { function, entry, versions, steps: steps.all, asks_gate, is_in_memory })
    }

    /// Notes what calls of allocators in these blocks do, before and after them.
    fn note(&mut self, function: &str, blocks: &[Block<'m>], [noted_before, noted_after]: [Noted; 2]) {
        const KINDS: [SiteKind; 5] =
            [SiteKind::Allocate, SiteKind::AllocateZeroed, SiteKind::Resize, SiteKind::ResizeBegins, SiteKind::Free];
        for call in blocks.iter().flat_map(|block| block.instructions()).filter(|it| it.is_call()) {
            let Deed { mut before, after, .. } = Deed::of(call, &self.rules.attributes);
            before.retain(|touch| KINDS.contains(&touch.kind));
            let after = if after.iter().any(|touch| KINDS.contains(&touch.kind)) { after } else { Vec::new() };
            for (touches, is_after, noted) in [(before, false, noted_before), (after, true, noted_after)] {
                if !touches.is_empty() {
                    let sites: Vec<_> = touches.iter().map(|touch| self.site(function, call, touch)).collect();
                    let number = self.table.segment(sites);
                    let words = touches.into_iter().flat_map(|touch| touch.words).collect();
                    self.notes.push(Note { call, is_after, noted, number, words });
                }
            }
        }
    }

    /// Looks at every instruction of a block once.
    fn gather(&self, block: Block<'m>, gathered: &mut Gathered<'m>) {
        for instruction in block.instructions() {
            let deed = self.deed(instruction);
            gathered.accesses += deed.before.len() + deed.after.len() + usize::from(deed.releases.is_some());
            gathered.calls |= deed.is_boundary;
            if instruction.is_call() {
                gathered.returns_twice |= self.rules.returns_twice(instruction);
            }
            if deed.is_boundary
                && let Some(ends) = instruction.invoke_ends()
            {
                for end in ends {
                    gathered.heads.entry(end).or_default().fetch = true;
                }
                gathered.heads.entry(ends[0]).or_default().told = Some((instruction, deed.after));
                // What was called was left by an exception, and so was what that called.
                gathered.heads.entry(ends[1]).or_default().told = Some((instruction, vec![Touch::goes_on()]));
                gathered.goes_on = true;
            }
            gathered.goes_on |= self.rules.may_have_left(instruction);
        }
    }

    /// What is done about an instruction.
    fn deed(&self, instruction: Value<'m>) -> Deed<'m> {
        let mut deed = Deed::of(instruction, &self.rules.attributes);
        if self.rules.may_have_left(instruction) && !instruction.is_must_tail() {
            deed.after.push(Touch::goes_on());
        }
        deed
    }

    /// Plans a block, and gives how its last record ended. The first one is given the instruction that the function begins with, others
    /// the end of the record that may go on.
    fn block(
        &mut self,
        function: &str,
        block: Block<'m>,
        entry: Option<Value<'m>>,
        (before, gathered): (Option<End<'m>>, &mut Gathered<'m>),
        steps: &mut Steps<'m>,
    ) -> Option<End<'m>> {
        let instructions = block.instructions();
        if let Some(head) = gathered.heads.remove(&block)
            && let Some(first) = block.first_insertion()
        {
            if head.fetch {
                steps.all.push(Step::Fetch(first));
            }
            if let Some((call, touches)) = head.told {
                self.told_after(function, call, touches, first, steps);
            }
        }
        let mut segment = Open::behind(before);
        // Whether the cursor's place holds what the register does.
        let mut is_kept = false;
        // Whether the function's end was told.
        let mut is_left = false;
        for (index, &instruction) in instructions.iter().enumerate() {
            if entry == Some(instruction) {
                self.add(function, instruction, Touch::enter(gathered.goes_on), &mut segment, steps);
            }
            let deed = self.deed(instruction);
            self.unlike.extend(deed.unlike.map(|name| written(&name).into_owned()));
            if let Some(what) = &deed.releases {
                // Time stamps are the first of their segments.
                self.close(&mut segment, steps);
                self.add(function, instruction, Touch::release(what), &mut segment, steps);
                is_kept = false;
            }
            for touch in deed.before {
                self.add(function, instruction, touch, &mut segment, steps);
                is_kept = false;
            }
            let is_return = matches!(instruction.opcode(), Some(Opcode::Return | Opcode::Resume));
            if !deed.is_boundary && !is_return {
                if let (false, Some(&next)) = (deed.after.is_empty(), instructions.get(index + 1)) {
                    self.close(&mut segment, steps);
                    self.told_after(function, instruction, deed.after, next, steps);
                    is_kept = false;
                }
                continue;
            }
            let rest = &instructions[index + 1..];
            // Where nothing is left to do in this block but to return, the call may become a jump, and one that must has nothing
            // else but the return behind it. So the function's end is told before it, and the cursor is in its place.
            let end = rest.iter().find(|next| !is_remark(**next));
            let ends_here = end.and_then(|next| next.opcode());
            // What returns a number of its own, as `main` does, is not done where the call is.
            let returns_own = end.and_then(|end| end.operand(0)).is_some_and(|value| value.constant().is_some());
            let may_jump = instruction.is_must_tail()
                || instruction.may_tail()
                    && deed.after.is_empty()
                    && !gathered.keeps_frames
                    && !returns_own
                    && ends_here == Some(Opcode::Return);
            let is_last = deed.is_boundary
                && (may_jump || deed.after.is_empty() && ends_here == Some(Opcode::Unreachable))
                && instruction.invoke_ends().is_none();
            let returns = is_return || is_last && ends_here != Some(Opcode::Unreachable);
            if returns && !is_left {
                self.add(function, instruction, Touch::leave(), &mut segment, steps);
                (is_left, is_kept) = (true, false);
            }
            self.close(&mut segment, steps);
            if !is_kept {
                steps.all.push(Step::Keep(instruction));
            }
            is_kept = deed.is_boundary;
            if !deed.is_boundary || is_last || instruction.invoke_ends().is_some() {
                continue;
            }
            let Some(&next) = rest.first() else { continue };
            steps.all.push(Step::Fetch(next));
            is_kept &= deed.after.is_empty();
            self.told_after(function, instruction, deed.after, next, steps);
        }
        self.close(&mut segment, steps)
    }

    /// Adds an access to the open segment, or to the next where that is full.
    fn add(
        &mut self,
        function: &str,
        instruction: Value<'m>,
        touch: Touch<'m>,
        segment: &mut Open<'m>,
        steps: &mut Steps<'m>,
    ) {
        let mut site = self.site(function, instruction, &touch);
        let value = touch.value.filter(|_| self.has_values);
        if segment.before.as_ref().is_some_and(|before| before.sites + segment.sites.len() >= MAX_RECORD_SITES) {
            self.close(segment, steps);
        }
        let sum = match touch.words[..] {
            [Word::Value(pointer)] if site.kind.is_plain() && value.is_none() => Some(Sum::of(pointer)),
            _ => None,
        };
        site.relative = sum.as_ref().and_then(|sum| segment.relative(sum));
        if segment.words + site.words() > MAX_SEGMENT_WORDS {
            self.close(segment, steps);
        }
        let words = if site.relative.is_some() { Vec::new() } else { touch.words };
        segment.addresses.extend(sum.filter(|_| site.relative.is_none()).map(|sum| (sum, segment.words as u32)));
        segment.words += site.words();
        if matches!(instruction.opcode(), Some(Opcode::Load | Opcode::Store)) && site.kind.is_plain() {
            segment.plain.push((segment.sites.len(), instruction));
        } else {
            self.others.push(instruction);
        }
        segment.sites.push(site);
        segment.accesses.push(Access { at: instruction, words });
        // What is loaded is known behind the load only, which is never the last of its block.
        let at = if touch.kind == SiteKind::Load { instruction.next().unwrap_or(instruction) } else { instruction };
        segment.accesses.extend(value.map(|(_, value)| Access { at, words: vec![Word::Bits(value)] }));
    }

    /// Tells what an instruction did, in a segment of its own before `at`; nothing where there is nothing to tell.
    fn told_after(
        &mut self,
        function: &str,
        instruction: Value<'m>,
        touches: Vec<Touch<'m>>,
        at: Value<'m>,
        steps: &mut Steps<'m>,
    ) {
        if touches.is_empty() {
            return;
        }
        self.others.push(instruction);
        let sites: Vec<_> = touches.iter().map(|touch| self.site(function, instruction, touch)).collect();
        let number = self.table.segment(sites);
        let has_values = self.has_values;
        let words = |touch: Touch<'m>| {
            let value = touch.value.filter(|_| has_values).map(|(_, value)| Word::Bits(value));
            touch.words.into_iter().chain(value).collect()
        };
        let accesses = touches.into_iter().map(|touch| Access { at, words: words(touch) }).collect();
        steps.record(number, accesses);
    }

    /// Ends a segment, and gives how its record ended.
    fn close(&mut self, segment: &mut Open<'m>, steps: &mut Steps<'m>) -> Option<End<'m>> {
        let Open { before, sites, plain, accesses, words, addresses } = std::mem::take(segment);
        if accesses.is_empty() {
            return before.map(|before| End { addresses, ..before });
        }
        let first = self.table.sites();
        self.accesses.extend(plain.into_iter().map(|(at, access)| (access, (first + at) as u32)));
        let own = sites.len();
        let number = self.table.segment_behind(before.as_ref().map(|before| before.segment), sites);
        let (record, before) = match before {
            None => (steps.record(number, accesses), 0),
            Some(End { record, words, sites, .. }) => {
                steps.all.push(Step::Segment { number, at: Place::Behind { record, words }, accesses });
                (record, sites)
            }
        };
        Some(End { record, segment: number, words, sites: before + own, addresses })
    }

    fn site(&mut self, function: &str, instruction: Value<'m>, touch: &Touch<'m>) -> Site {
        let mut site = Site::new(touch.kind, u32::try_from(touch.bytes).unwrap_or(u32::MAX));
        site.lanes = touch.lanes;
        site.value = touch.value.filter(|_| self.has_values).map(|(kind, _)| kind);
        site.is_volatile = instruction.is_volatile();
        site.is_atomic = instruction.is_atomic() || touch.kind == SiteKind::Update;
        site.function = self.table.name(&written(function));
        site.detail = self.table.name(&written(&touch.detail));
        match touch.kind {
            SiteKind::Allocate | SiteKind::AllocateZeroed | SiteKind::Resize => {
                self.names.describe_allocation(self.table, &mut site, instruction);
            }
            _ => self.names.describe(self.table, &mut site, instruction, touch.pointer),
        }
        site
    }
}

/// Whether an instruction only tells debuggers something.
fn is_remark(instruction: Value<'_>) -> bool {
    instruction.called().is_some_and(|called| called.name().starts_with("llvm.dbg."))
}

/// What is inserted, so far.
#[derive(Default)]
struct Steps<'m> {
    all: Vec<Step<'m>>,
    records: usize,
}

impl<'m> Steps<'m> {
    /// Adds a record, and gives its number.
    fn record(&mut self, number: u32, accesses: Vec<Access<'m>>) -> usize {
        self.all.push(Step::Segment { number, at: Place::New, accesses });
        self.records += 1;
        self.records - 1
    }
}

/// A segment that goes on.
#[derive(Default)]
struct Open<'m> {
    /// The end of the record that it makes longer.
    before: Option<End<'m>>,
    sites: Vec<Site>,
    /// Which of the sites are of loads and stores that are instructions.
    plain: Vec<(usize, Value<'m>)>,
    accesses: Vec<Access<'m>>,
    /// Of the whole record.
    words: usize,
    /// Those that words of the record are, by their indexes.
    addresses: Vec<(Sum<'m>, u32)>,
}

/// How a record ended: other blocks may make it longer.
#[derive(Clone)]
struct End<'m> {
    record: usize,
    segment: u32,
    words: usize,
    sites: usize,
    addresses: Vec<(Sum<'m>, u32)>,
}

impl<'m> Open<'m> {
    fn behind(mut before: Option<End<'m>>) -> Self {
        let (words, addresses) =
            before.as_mut().map(|end| (end.words, std::mem::take(&mut end.addresses))).unwrap_or_default();
        Self { before, words, addresses, ..Self::default() }
    }

    /// A word that also tells this address.
    fn relative(&self, sum: &Sum<'m>) -> Option<Relative> {
        let told = |(known, word): &(Sum<'m>, u32)| Some(Relative { word: *word, bytes: sum.distance_from(known)? });
        self.addresses.iter().find_map(told)
    }
}

/// What a block begins with.
#[derive(Default)]
struct Head<'m> {
    /// Something else ran before.
    fetch: bool,
    /// The `invoke` that returns here, or leads here by an exception, and what is told of it.
    told: Option<(Value<'m>, Vec<Touch<'m>>)>,
}

/// What is known of a function once all of it was seen.
#[derive(Default)]
struct Gathered<'m> {
    accesses: usize,
    /// Other code of the program's may run within it.
    calls: bool,
    /// It may go on after calls without an end.
    goes_on: bool,
    /// None of its calls takes its place on the stack.
    keeps_frames: bool,
    returns_twice: bool,
    heads: HashMap<Block<'m>, Head<'m>>,
}
