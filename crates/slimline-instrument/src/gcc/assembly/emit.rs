//! What is written in the place of a hook's call:
//!
//! ```text
//!   movq    __slimline_gate@GOTPCREL(%rip), %r11    linkers make a `lea` of it where they can
//!   cmpb    $0, (%r11)                              is anything recorded?
//!   jne     end
//!   nopl    (%rdi)                                  does nothing: its operand is what is accessed, for readers of the code
//!   movq    __slimline_cursor@GOTTPOFF(%rip), %r10
//!   movq    %fs:(%r10), %r11
//!   testl   $0x40000, %r11d                         room left in the chunk?
//!   jne     write
//!   call    slimline_room
//! write:
//!   movabsq $header, %rax
//!   movq    %rax, (%r11)
//!   movq    %rdi, 8(%r11)
//!   addq    $16, %r11
//!   movq    %r11, %fs:(%r10)
//! end:
//! ```
//!
//! Each segment's entry ([`hooks`]) goes into a section that is bound to the code's, and into its group: linkers leave both
//! out together.

use std::collections::HashMap;
use std::fmt::Write as _;

use slimline_trace::stream::hooks;
use slimline_trace::stream::record::{Header, MAX_SEGMENTS, ModuleId, SiteKind};
use slimline_trace::stream::ring::CLOSED_WITHOUT_READER;

use crate::rewrite::ROOM_BIT;

/// A record of one site.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) kind: SiteKind,
    pub(super) bytes: u32,
    pub(super) is_atomic: bool,
    pub(super) is_volatile: bool,
    /// Registers, in the order of the record.
    pub(super) words: &'a [&'a str],
    pub(super) name: &'a str,
}

impl Record<'_> {
    /// Of no place, or of one that words say.
    pub(super) fn of(kind: SiteKind) -> Self {
        Self { kind, bytes: 0, is_atomic: false, is_volatile: false, words: &[], name: "" }
    }

    /// Of the place that the first argument points to.
    pub(super) fn access(kind: SiteKind, bytes: u32) -> Self {
        Self { bytes, words: &["%rdi"], ..Self::of(kind) }
    }
}

/// How many bytes an allocator is asked for: registers, multiplied with each other and a number.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    Product([Option<&'static str>; 2], u32),
}

/// How it gives a block, by registers of its arguments.
#[derive(Clone, Copy)]
pub(super) enum Given {
    Returned,
    /// The same, of so many elements, all zeros.
    Zeroed(&'static str),
    StoredAt(&'static str),
}

/// The entry of a segment.
struct Entry {
    segment: usize,
    kind: SiteKind,
    flags: u8,
    bytes: u32,
    name: String,
    place: Place,
    /// Index of the section that its code is in.
    section: usize,
}

/// A label.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

/// A section with code.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Section {
    name: String,
    group: Option<String>,
}

/// Writes assembly.
pub(super) struct Emitter {
    module: ModuleId,
    out: Vec<u8>,
    segments: usize,
    labels: usize,
    entries: Vec<Entry>,
    /// Those with entries; each has a label.
    sections: HashMap<Section, usize>,
    current: Section,
    /// What `.popsection` goes back to.
    outer: Vec<Section>,
    previous: Section,
}

impl Emitter {
    pub(super) fn new(module: ModuleId, bytes: usize) -> Self {
        let text = Section { name: ".text".to_owned(), group: None };
        Self {
            module,
            out: Vec::with_capacity(2 * bytes),
            segments: 0,
            labels: 0,
            entries: Vec::new(),
            sections: HashMap::new(),
            current: text.clone(),
            outer: Vec::new(),
            previous: text,
        }
    }

    /// As it is.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// An instruction.
    pub(super) fn line(&mut self, line: &str) {
        self.copy(b"\t");
        self.copy(line.as_bytes());
        self.copy(b"\n");
    }

    /// Notes which section what follows goes to, by the name of a directive without its dot.
    pub(super) fn directive(&mut self, name: &str, operands: &str) {
        match name {
            "text" | "data" | "bss" => self.enter(Section { name: format!(".{name}"), group: None }),
            "section" => self.enter(section(operands)),
            "pushsection" => {
                self.outer.push(self.current.clone());
                self.enter(section(operands));
            }
            "popsection" => {
                if let Some(outer) = self.outer.pop() {
                    self.enter(outer);
                }
            }
            "previous" => self.enter(self.previous.clone()),
            _ => {}
        }
    }

    fn enter(&mut self, section: Section) {
        self.previous = std::mem::replace(&mut self.current, section);
    }

    fn new_label(&mut self) -> Place {
        self.labels += 1;
        Place(self.labels)
    }

    fn put(&mut self, label: Place) {
        self.copy(format!("{label}:\n").as_bytes());
    }

    /// The header of a new segment with one site.
    fn segment(&mut self, record: Record<'_>, place: Place) -> u64 {
        let section = match self.sections.get(&self.current) {
            Some(section) => *section,
            None => {
                let section = self.sections.len();
                self.sections.insert(self.current.clone(), section);
                self.copy(format!("{}:\n", anchor(section)).as_bytes());
                section
            }
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        self.entries.push(Entry {
            segment: self.segments,
            kind: record.kind,
            flags: flag(record.is_atomic, hooks::ATOMIC) | flag(record.is_volatile, hooks::VOLATILE),
            bytes: record.bytes,
            name: record.name.to_owned(),
            place,
            section,
        });
        self.segments += 1;
        Header::new(self.module, (self.segments - 1) as u32).word()
    }

    /// Goes to `end` where nothing is recorded.
    fn gate(&mut self, end: Place) {
        self.line("movq\t__slimline_gate@GOTPCREL(%rip), %r11");
        self.line("cmpb\t$0, (%r11)");
        self.line(&format!("jne\t{end}"));
    }

    /// Goes to `end` where nobody reads.
    fn reader(&mut self, end: Place) {
        self.line("movq\t__slimline_gate@GOTPCREL(%rip), %r11");
        self.line(&format!("testb\t${CLOSED_WITHOUT_READER}, (%r11)"));
        self.line(&format!("jne\t{end}"));
    }

    /// Writes a record; of a block that is taken back also while nothing else is recorded. Changes rax, r10 and r11.
    pub(super) fn record(&mut self, record: Record<'_>) {
        let [place, closed, end] = [(); 3].map(|()| self.new_label());
        let header = self.segment(record, place);
        let block = match (record.kind, record.words) {
            (SiteKind::Free | SiteKind::ResizeBegins, &[block]) => Some(block),
            _ => None,
        };
        self.gate(if block.is_some() { closed } else { end });
        self.put(place);
        if record.words.first() == Some(&"%rdi") {
            self.line("nopl\t(%rdi)");
        }
        self.write(header, "%rax", record.words);
        if let Some(block) = block {
            self.line(&format!("jmp\t{end}"));
            self.put(closed);
            self.reader(end);
            self.line(&format!("movabsq\t${header:#x}, %r11"));
            self.line(&format!("movq\t{block}, %r10"));
            self.line("call\tslimline_note_block");
        }
        self.put(end);
    }

    /// A call has returned, and the function that goes on here has its return address there. Changes registers in which nothing is returned.
    pub(super) fn goes_on(&mut self, return_address: &str) {
        let [place, end] = [(); 2].map(|()| self.new_label());
        let header = self.segment(Record::of(SiteKind::GoesOn), place);
        self.gate(end);
        self.put(place);
        self.line(&format!("leaq\t{return_address}, %rsi"));
        self.write(header, "%rcx", &["%rsi"]);
        self.put(end);
    }

    /// Writes words behind a header, which this register is for. Changes r10 and r11.
    fn write(&mut self, header: u64, register: &str, words: &[&str]) {
        let write = self.new_label();
        // Shared objects are linked where nobody has it.
        self.line(".weak\t__slimline_cursor");
        self.line("movq\t__slimline_cursor@GOTTPOFF(%rip), %r10");
        self.line("movq\t%fs:(%r10), %r11");
        self.line(&format!("testl\t${ROOM_BIT}, %r11d"));
        self.line(&format!("jne\t{write}"));
        self.line("call\tslimline_room");
        self.put(write);
        self.line(&format!("movabsq\t${header:#x}, {register}"));
        self.line(&format!("movq\t{register}, (%r11)"));
        for (offset, word) in (8..).step_by(8).zip(words) {
            self.line(&format!("movq\t{word}, {offset}(%r11)"));
        }
        self.line(&format!("addq\t${}, %r11", 8 * (1 + words.len())));
        self.line("movq\t%r11, %fs:(%r10)");
    }

    /// What others did may be seen from here on. Changes r10 and r11.
    pub(super) fn acquire(&mut self, name: &str) {
        self.acquired(name, Self::gate, "slimline_acquired");
    }

    /// The same where an allocation is told next: also while nothing else is recorded, as another thread may have freed the block.
    pub(super) fn acquire_block(&mut self, name: &str) {
        self.acquired(name, Self::reader, "slimline_acquired_block");
    }

    fn acquired(&mut self, name: &str, ask: fn(&mut Self, Place), hook: &str) {
        let [place, end] = [(); 2].map(|()| self.new_label());
        let header = self.segment(Record { name, ..Record::of(SiteKind::Acquire) }, place);
        ask(self, end);
        self.put(place);
        self.line(&format!("movabsq\t${header:#x}, %r11"));
        self.line(&format!("call\t{hook}"));
        self.put(end);
    }

    /// An allocator is called next. Changes r10 and r11.
    pub(super) fn allocating(&mut self, asked: Asked, given: Given) {
        let end = self.new_label();
        self.reader(end);
        let Asked::Product(factors, unit) = asked;
        let mut factors = factors.into_iter().flatten();
        match factors.next() {
            Some(first) => {
                self.line(&format!("movq\t{first}, %r11"));
                factors.for_each(|factor| self.line(&format!("imulq\t{factor}, %r11")));
                if unit != 1 {
                    self.line(&format!("movl\t${unit}, %r10d"));
                    self.line("imulq\t%r10, %r11");
                }
            }
            None => self.line(&format!("movl\t${unit}, %r11d")),
        }
        if let Given::Zeroed(other) | Given::StoredAt(other) = given {
            self.line(&format!("movq\t{other}, %r10"));
        }
        self.line("call\tslimline_allocating");
        self.put(end);
    }

    /// It has returned. Changes r10 and r11. There is one way through here only: so readers of the code see that the register
    /// which the block is returned in holds it from the entry's place on.
    pub(super) fn allocated(&mut self, kind: SiteKind, given: Given, name: &str) {
        let place = self.new_label();
        let header = self.segment(Record { name, ..Record::of(kind) }, place);
        self.line(&format!("movabsq\t${header:#x}, %r11"));
        self.line(match given {
            Given::Returned => "call\tslimline_allocated",
            Given::Zeroed(_) => "call\tslimline_allocated_zeroed",
            Given::StoredAt(_) => "call\tslimline_allocated_into",
        });
        self.put(place);
    }

    /// All of it, with the entries; none where there are more than can be numbered.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        if self.segments > MAX_SEGMENTS {
            return None;
        }
        let mut groups = vec![None; self.sections.len()];
        for (section, index) in &self.sections {
            groups[*index].clone_from(&section.group);
        }
        let mut text = String::new();
        let mut current = None;
        for entry in &self.entries {
            if current.replace(entry.section) != Some(entry.section) {
                let anchor = anchor(entry.section);
                let _ = match &groups[entry.section] {
                    Some(group) => {
                        writeln!(text, "\t.section\t{},\"aGo\",@progbits,{anchor},{group},comdat", hooks::SECTION)
                    }
                    None => writeln!(text, "\t.section\t{},\"ao\",@progbits,{anchor}", hooks::SECTION),
                };
                text.push_str("\t.p2align\t3\n");
            }
            let header = Header::new(self.module, entry.segment as u32).word();
            let name = entry.name.get(..usize::from(u16::MAX).min(entry.name.len())).unwrap_or_default();
            let _ = writeln!(text, "\t.quad\t{header:#x}\n\t.quad\t{}-.", entry.place);
            let _ = writeln!(text, "\t.byte\t{}, {}", entry.kind as u8, entry.flags);
            let _ = writeln!(text, "\t.value\t{}\n\t.long\t{}", name.len(), entry.bytes);
            if !name.is_empty() {
                let _ = writeln!(text, "\t.ascii\t\"{}\"\n\t.p2align\t3, 0", name.escape_default());
            }
        }
        self.copy(b"\n");
        self.copy(text.as_bytes());
        Some(self.out)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ".Lslimline_{}", self.0)
    }
}

/// The label that stands in a section.
fn anchor(section: usize) -> String {
    format!(".Lslimline_section_{section}")
}

/// The section of a directive's operands: `.text._Z1fv,"axG",@progbits,_Z1fv,comdat`.
fn section(operands: &str) -> Section {
    let mut fields = operands.split(',');
    let name = fields.next().unwrap_or_default().trim().to_owned();
    let flags = fields.next().unwrap_or_default();
    // Behind the type, and the size of entries that may be merged.
    let group = flags.contains('G').then(|| fields.nth(if flags.contains('M') { 2 } else { 1 })).flatten();
    Section { name, group: group.map(|group| group.trim().to_owned()) }
}
