//! Blobs of site tables, written and read.

use twox_hash::XxHash64;

use super::{
    Body, CopySource, Frame, LoadedAddress, Member, Module, ModuleId, Name, Relative, Segment, Site, SiteKind, Skipped,
    Structure, Unasked, ValueKind,
};
use crate::stream::record::{MAX_LANES, MAX_RECORD_SITES, MAX_SEGMENT_WORDS, MAX_SEGMENTS};

/// Name of the section that holds the blobs.
pub const SECTION: &str = "slimline_sites";
/// First bytes of a blob.
const MAGIC: [u8; 8] = *b"slimsite";
/// Version of the blob and of the records that it describes. Version 1: the first. 2: structures. 3: time
/// stamps, and `realloc` in two records. 4: what values are. 5: what members are made of, whether integers have a sign, and
/// other structures that a site may access. 6: frames of functions that go on, and gaps. 7: records that go on in
/// other blocks, and addresses that follow from others. 8: functions with loops in which nobody asks the gate, and allocations while
/// it is closed, and what copies load. 9: tables that come in parts. 10: what addresses of loads are computed of, and how many
/// instructions loops have. 11: how many compute an address, and which loop is around which.
pub const VERSION: u32 = 11;
/// Bytes of the head.
const HEAD_BYTES: usize = 32;
/// Blobs begin and end at multiples of it.
const ALIGNMENT: usize = 8;

const ATOMIC: u8 = 1 << 0;
const VOLATILE: u8 = 1 << 1;
const LANES: u8 = 1 << 2;
const VALUE: u8 = 1 << 3;
const FRAME: u8 = 1 << 4;
const OFFSET: u8 = 1 << 5;
const OTHER: u8 = 1 << 6;
const RELATIVE: u8 = 1 << 7;

/// Why a section holds no site tables that can be read. Positions are bytes from the section's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SitesError {
    /// Something else is in the section.
    #[error("no site table at byte {0} of section {SECTION}")]
    Magic(usize),
    /// Instrumented by another version of slimline.
    #[error("site table of version {found}, this is for version {VERSION}: compile the program anew")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The section ends before the blob does.
    #[error("site table at byte {0} is cut off")]
    CutOff(usize),
    /// The hash is another, or a number names what does not exist.
    #[error("site table at byte {0} is damaged")]
    Damaged(usize),
}

impl Module {
    /// The blob of this table, and the module's identity, which follows from it. What names what does not exist, has
    /// more segments than [`MAX_SEGMENTS`] or more words than [`MAX_SEGMENT_WORDS`] in one can't be read again.
    pub fn encode(&self) -> (ModuleId, Vec<u8>) {
        let mut blob = self.blob();
        let module = identity(&blob[HEAD_BYTES..]);
        blob[24..32].copy_from_slice(&module.number().to_le_bytes());
        (module, blob)
    }

    /// The blob of the table of a module that had its number before.
    pub fn encode_as(&self, module: ModuleId) -> Vec<u8> {
        let mut blob = self.blob();
        let check = check(&blob[HEAD_BYTES..]);
        blob[12..16].copy_from_slice(&check.to_le_bytes());
        blob[24..32].copy_from_slice(&module.number().to_le_bytes());
        blob
    }

    /// The blob, but for who it is.
    fn blob(&self) -> Vec<u8> {
        let mut out = Writer(vec![0; HEAD_BYTES]);
        for name in [self.source, self.object, self.directory, self.producer] {
            out.number(name.0);
        }
        out.count(self.names.len());
        for name in &self.names {
            out.count(name.len());
            out.0.extend_from_slice(name.as_bytes());
        }
        out.count(self.frames.len());
        for frame in &self.frames {
            for number in [frame.function.0, frame.file.0, frame.line, frame.column] {
                out.number(number);
            }
            out.number(frame.caller.map_or(0, |caller| caller + 1));
        }
        out.count(self.structures.len());
        for structure in &self.structures {
            out.number(structure.name.0);
            out.number(u32::from(structure.is_alias) | u32::from(structure.is_foreign) << 1);
            out.number(structure.size_bytes);
            out.count(structure.members.len());
            for member in &structure.members {
                for number in [member.name.0, member.type_name.0, member.offset_bytes, member.size_bytes] {
                    out.number(number);
                }
                out.number(member.structure.map_or(0, |structure| structure + 1));
            }
        }
        out.count(self.sites.len());
        for site in &self.sites {
            out.site(site);
        }
        out.number(self.first_segment);
        out.count(self.segments.len());
        for segment in &self.segments {
            out.number(segment.sites);
            out.number(segment.continues.map_or(0, |segment| segment + 1));
        }
        out.count(self.skipped.len());
        for skipped in &self.skipped {
            out.number(skipped.function.0);
            out.number(skipped.reason.0);
        }
        out.count(self.unasked.len());
        for unasked in &self.unasked {
            out.number(unasked.function.0);
            out.number(unasked.frame.map_or(0, |frame| frame + 1));
            out.number(unasked.reason.0);
        }
        out.count(self.addresses.len());
        for address in &self.addresses {
            out.number(address.site);
            out.number(u32::from(address.is_carried) | u32::from(address.leads_on) << 1);
            out.number(address.instructions);
            out.count(address.loads.len());
            address.loads.iter().for_each(|load| out.number(*load));
        }
        out.count(self.bodies.len());
        for body in &self.bodies {
            out.number(body.instructions);
            out.number(body.around.map_or(0, |around| around + 1));
            out.number(u32::from(body.is_loop));
            out.count(body.sites.len());
            body.sites.iter().for_each(|site| out.number(*site));
        }
        let mut blob = out.0;
        blob.resize(blob.len().next_multiple_of(ALIGNMENT), 0);
        let length = blob.len() as u64;
        blob[..8].copy_from_slice(&MAGIC);
        blob[8..12].copy_from_slice(&VERSION.to_le_bytes());
        blob[16..24].copy_from_slice(&length.to_le_bytes());
        blob
    }

    /// The tables in a section [`SECTION`] of a linked file or an object, each, or each part of one, once.
    pub fn read_section(section: &[u8]) -> Result<Vec<(ModuleId, Self)>, SitesError> {
        let mut modules: Vec<(ModuleId, Self)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut at = 0;
        while let Some(rest) = section.get(at..).filter(|rest| !rest.is_empty()) {
            // Linkers fill with zeros between what objects bring.
            if rest[0] == 0 {
                at += 1;
                continue;
            }
            let (module, blob) = blob(rest, at)?;
            let table = Reader(&blob[HEAD_BYTES..]).module().ok_or(SitesError::Damaged(at))?;
            if seen.insert((module, table.first_segment)) {
                modules.push((module, table));
            }
            at += blob.len();
        }
        Ok(modules)
    }
}

/// The blob that `rest` begins with, once its head and its hash are right.
fn blob(rest: &[u8], at: usize) -> Result<(ModuleId, &[u8]), SitesError> {
    if !MAGIC.starts_with(&rest[..rest.len().min(MAGIC.len())]) {
        return Err(SitesError::Magic(at));
    }
    let head = rest.first_chunk::<HEAD_BYTES>().ok_or(SitesError::CutOff(at))?;
    let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[from + byte]));
    let found = number(8) as u32;
    if found != VERSION {
        return Err(SitesError::Version { found });
    }
    let length = usize::try_from(number(16)).map_err(|_| SitesError::CutOff(at))?;
    if length < HEAD_BYTES || !length.is_multiple_of(ALIGNMENT) {
        return Err(SitesError::Damaged(at));
    }
    let blob = rest.get(..length).ok_or(SitesError::CutOff(at))?;
    let body = &blob[HEAD_BYTES..];
    let module = match (number(8) >> 32) as u32 {
        0 => Some(identity(body)).filter(|module| module.number() == number(24)),
        told => ModuleId::from_number(number(24)).filter(|_| told == check(body)),
    };
    Ok((module.ok_or(SitesError::Damaged(at))?, blob))
}

/// Says that a module's number does not follow from its table, and that this is the table.
fn check(body: &[u8]) -> u32 {
    XxHash64::oneshot(0, body) as u32 | 1
}

fn identity(body: &[u8]) -> ModuleId {
    ModuleId::from_hash(XxHash64::oneshot(0, body))
}

/// Writes numbers as LEB128.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn count(&mut self, count: usize) {
        // A table of 4 GiB would fit into no object.
        self.number(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn site(&mut self, site: &Site) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(site.is_atomic, ATOMIC)
            | flag(site.is_volatile, VOLATILE)
            | flag(site.lanes != 1, LANES)
            | flag(site.value.is_some(), VALUE)
            | flag(site.frame.is_some(), FRAME)
            | flag(site.offset_bytes.is_some(), OFFSET)
            | flag(!site.other_structure.is_none(), OTHER)
            | flag(site.relative.is_some(), RELATIVE);
        self.0.extend_from_slice(&[site.kind as u8, flags]);
        self.number(site.size_bytes);
        for name in [site.function, site.variable, site.structure, site.field, site.detail] {
            self.number(name.0);
        }
        if site.lanes != 1 {
            self.number(u32::from(site.lanes));
        }
        if let Some(value) = site.value {
            self.number(value as u32);
        }
        for number in [site.frame, site.offset_bytes].into_iter().flatten() {
            self.number(number);
        }
        if !site.other_structure.is_none() {
            self.number(site.other_structure.0);
        }
        if site.kind == SiteKind::Copy {
            self.number(site.source.is_some().into());
            if let Some(CopySource { variable, structure, field, offset_bytes }) = site.source {
                for name in [variable, structure, field] {
                    self.number(name.0);
                }
                self.number(offset_bytes.map_or(0, |offset| offset.saturating_add(1)));
            }
        }
        if let Some(Relative { word, bytes }) = site.relative {
            self.number(word);
            self.number((bytes << 1 ^ bytes >> 31).cast_unsigned());
        }
    }
}

/// Reads them back. Nothing where the bytes end too early or are not what a [`Writer`] writes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn module(&mut self) -> Option<Module> {
        let [source, object, directory, producer] = self.numbers()?.map(Name);
        let mut module = Module { source, object, directory, producer, ..Module::default() };
        let names = self.count(1)?;
        module.names = (0..names).map(|_| self.text()).collect::<Option<_>>()?;
        if module.names.first().is_none_or(|none| !none.is_empty()) {
            return None;
        }
        let is_name = |name: Name| (name.0 as usize) < module.names.len();
        let frames = self.count(5)?;
        module.frames.reserve_exact(frames);
        for index in 0..frames as u32 {
            let [function, file, line, column, caller] = self.numbers()?;
            let frame =
                Frame { function: Name(function), file: Name(file), line, column, caller: caller.checked_sub(1) };
            let is_before = frame.caller.is_none_or(|caller| caller < index);
            if !is_before || !is_name(frame.function) || !is_name(frame.file) {
                return None;
            }
            module.frames.push(frame);
        }
        let structures = self.count(4)?;
        module.structures.reserve_exact(structures);
        for index in 0..structures as u32 {
            let structure = self.structure()?;
            let made_of = structure.members.iter().filter_map(|member| member.structure);
            if made_of.max().is_some_and(|last| last >= index) {
                return None;
            }
            let names = structure.members.iter().flat_map(|member| [member.name, member.type_name]);
            if !names.chain([structure.name]).all(is_name) {
                return None;
            }
            module.structures.push(structure);
        }
        let sites = self.count(8)?;
        module.sites.reserve_exact(sites);
        for _ in 0..sites {
            let site = self.site()?;
            let names = [site.function, site.variable, site.structure, site.field, site.detail, site.other_structure];
            let has_frame = site.frame.is_none_or(|frame| (frame as usize) < frames);
            let source = site.source.unwrap_or_default();
            let of_source = [source.variable, source.structure, source.field];
            if !has_frame || !names.into_iter().chain(of_source).all(is_name) {
                return None;
            }
            module.sites.push(site);
        }
        [module.first_segment] = self.numbers()?;
        module.segments = self.segments(&module.sites)?;
        if module.first_segment as usize + module.segments.len() > MAX_SEGMENTS {
            return None;
        }
        let skipped = self.count(2)?;
        for _ in 0..skipped {
            let [function, reason] = self.numbers()?.map(Name);
            module.skipped.push(Skipped { function, reason });
        }
        let unasked = self.count(3)?;
        for _ in 0..unasked {
            let [function, frame, reason] = self.numbers()?;
            let frame = frame.checked_sub(1);
            if frame.is_some_and(|frame| frame as usize >= frames) {
                return None;
            }
            module.unasked.push(Unasked { function: Name(function), frame, reason: Name(reason) });
        }
        module.addresses = self.addresses(sites)?;
        module.bodies = self.bodies(sites)?;
        let named = [module.source, module.object, module.directory, module.producer];
        let skipped = module.skipped.iter().flat_map(|skipped| [skipped.function, skipped.reason]);
        let unasked = module.unasked.iter().flat_map(|unasked| [unasked.function, unasked.reason]);
        let is_whole = named.into_iter().chain(skipped).chain(unasked).all(is_name) && self.is_padding();
        is_whole.then_some(module)
    }

    fn segments(&mut self, sites: &[Site]) -> Option<Vec<Segment>> {
        let count = self.count(2)?;
        if count > MAX_SEGMENTS {
            return None;
        }
        let mut segments: Vec<Segment> = Vec::with_capacity(count);
        // Sites of the whole record, by segment.
        let mut of_records: Vec<usize> = Vec::with_capacity(count);
        let mut first = 0_usize;
        for _ in 0..count {
            let [number, continues] = self.numbers()?;
            let own = sites.get(first..first.checked_add(number as usize)?)?;
            let continues = continues.checked_sub(1);
            let (mut words, mut all) = (0, own.len());
            if let Some(before) = continues {
                words = segments.get(before as usize)?.words as usize;
                all += of_records[before as usize];
                if own.is_empty() || all > MAX_RECORD_SITES {
                    return None;
                }
            }
            for site in own {
                if site.relative.is_some_and(|relative| relative.word as usize >= words) {
                    return None;
                }
                words += site.words();
            }
            if words > MAX_SEGMENT_WORDS {
                return None;
            }
            segments.push(Segment { continues, first_site: first as u32, sites: number, words: words as u32 });
            of_records.push(all);
            first += number as usize;
        }
        (first == sites.len()).then_some(segments)
    }

    fn bodies(&mut self, sites: usize) -> Option<Vec<Body>> {
        let count = self.count(4)?;
        let body = |number: usize| {
            let [instructions, around, is_loop] = self.numbers()?;
            let (sites, around) = (self.sites(sites)?, around.checked_sub(1));
            // Each is one of its instructions.
            let is_whole =
                instructions as usize >= sites.len() && is_loop < 2 && around.is_none_or(|it| (it as usize) < number);
            is_whole.then_some(Body { instructions, sites, around, is_loop: is_loop == 1 })
        };
        (0..count).map(body).collect()
    }

    /// Indexes of sites, of so many.
    fn sites(&mut self, sites: usize) -> Option<Vec<u32>> {
        let count = self.count(1)?;
        (0..count).map(|_| self.number().filter(|site| (*site as usize) < sites)).collect()
    }

    fn addresses(&mut self, sites: usize) -> Option<Vec<LoadedAddress>> {
        let count = self.count(4)?;
        let address = |_| {
            let [site, flags, instructions] = self.numbers()?;
            let loads = self.sites(sites)?;
            let is_whole = flags < 4 && (site as usize) < sites;
            let (is_carried, leads_on) = (flags & 1 != 0, flags & 2 != 0);
            is_whole.then_some(LoadedAddress { site, loads, is_carried, leads_on, instructions })
        };
        (0..count).map(address).collect()
    }

    fn structure(&mut self) -> Option<Structure> {
        let [name, flags, size_bytes] = self.numbers()?;
        let members = self.count(5)?;
        let member = |_| {
            let [name, type_name, offset_bytes, size_bytes, structure] = self.numbers()?;
            let (name, type_name) = (Name(name), Name(type_name));
            Some(Member { name, type_name, offset_bytes, size_bytes, structure: structure.checked_sub(1) })
        };
        let members = (0..members).map(member).collect::<Option<_>>()?;
        let (is_alias, is_foreign) = (flags & 1 != 0, flags & 2 != 0);
        (flags < 4).then_some(Structure { name: Name(name), is_alias, is_foreign, size_bytes, members })
    }

    fn site(&mut self) -> Option<Site> {
        let &[kind, flags, ref rest @ ..] = self.0 else { return None };
        self.0 = rest;
        let mut site = Site::new(SiteKind::from_number(kind)?, self.number()?);
        site.is_atomic = flags & ATOMIC != 0;
        site.is_volatile = flags & VOLATILE != 0;
        [site.function, site.variable, site.structure, site.field, site.detail] = self.numbers()?.map(Name);
        let mut number_if = |flag: u8| if flags & flag != 0 { self.number().map(Some) } else { Some(None) };
        if let Some(lanes) = number_if(LANES)? {
            site.lanes = u16::try_from(lanes).ok().filter(|lanes| *lanes <= MAX_LANES)?;
        }
        if let Some(value) = number_if(VALUE)? {
            site.value = Some(ValueKind::from_number(value)?);
        }
        site.frame = number_if(FRAME)?;
        site.offset_bytes = number_if(OFFSET)?;
        // None, if it is there, would not be written.
        site.other_structure = number_if(OTHER)?.map_or(Some(Name::NONE), |name| (name != 0).then_some(Name(name)))?;
        if site.kind == SiteKind::Copy {
            site.source = match self.number()? {
                0 => None,
                1 => {
                    let [variable, structure, field, offset] = self.numbers()?;
                    let [variable, structure, field] = [variable, structure, field].map(Name);
                    Some(CopySource { variable, structure, field, offset_bytes: offset.checked_sub(1) })
                }
                _ => return None,
            };
        }
        if flags & RELATIVE != 0 {
            let [word, bytes] = self.numbers()?;
            site.relative = Some(Relative { word, bytes: (bytes >> 1).cast_signed() ^ -(bytes & 1).cast_signed() });
            if !site.kind.may_be_relative() || site.value.is_some() {
                return None;
            }
        }
        Some(site)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn numbers<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Some(numbers)
    }

    /// A count of things that take at least this many bytes each, so that no count makes a reader ask for memory that
    /// the file does not have.
    fn count(&mut self, least_bytes: usize) -> Option<usize> {
        let count = self.number()? as usize;
        (count.checked_mul(least_bytes)? <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.count(1)?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    }

    /// Whether only zeros are left, and no more than alignment takes.
    fn is_padding(&self) -> bool {
        self.0.len() < ALIGNMENT && self.0.iter().all(|byte| *byte == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `next->price` of line 7, inlined into line 20 of main, behind an `asm` that is counted only.
    fn example() -> Module {
        let names =
            ["", "walk.c", "walk.o", "/home", "clang", "sum", "main", "next", "item", "price", "inline assembly"];
        let load = Site {
            function: Name(6),
            frame: Some(1),
            variable: Name(7),
            structure: Name(8),
            field: Name(9),
            offset_bytes: Some(8),
            is_volatile: true,
            ..Site::new(SiteKind::Load, 4)
        };
        let untraced = Site { function: Name(6), detail: Name(10), ..Site::new(SiteKind::Untraced, 0) };
        let relative = Some(Relative { word: 0, bytes: -24 });
        let store = Site { relative, ..Site::new(SiteKind::Store, 8) };
        let gather = Site { lanes: 4, value: Some(ValueKind::Float), ..Site::new(SiteKind::Gather, 4) };
        Module {
            names: names.map(str::to_owned).to_vec(),
            source: Name(1),
            object: Name(2),
            directory: Name(3),
            producer: Name(4),
            frames: vec![
                Frame { function: Name(6), file: Name(1), line: 20, column: 3, caller: None },
                Frame { function: Name(5), file: Name(1), line: 7, column: 300, caller: Some(0) },
            ],
            structures: vec![Structure {
                name: Name(8),
                is_alias: true,
                is_foreign: true,
                size_bytes: 16,
                members: vec![
                    Member { name: Name(7), type_name: Name(8), offset_bytes: 0, size_bytes: 8, structure: None },
                    Member { name: Name(9), type_name: Name(5), offset_bytes: 8, size_bytes: 4, structure: None },
                ],
            }],
            segments: vec![
                Segment { continues: None, first_site: 0, sites: 2, words: 1 },
                Segment { continues: None, first_site: 2, sites: 1, words: 6 },
                Segment { continues: Some(0), first_site: 3, sites: 1, words: 1 },
            ],
            sites: vec![untraced, load, gather, store],
            skipped: vec![Skipped { function: Name(5), reason: Name(10) }],
            first_segment: 3,
            unasked: vec![Unasked { function: Name(6), frame: Some(0), reason: Name(10) }],
            addresses: vec![LoadedAddress {
                site: 2,
                loads: vec![1, 2],
                is_carried: true,
                leads_on: false,
                instructions: 3,
            }],
            bodies: vec![
                Body { instructions: 300, sites: vec![1, 2], around: None, is_loop: false },
                Body { instructions: 1, sites: vec![3], around: Some(0), is_loop: true },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (id, blob) = example().encode();
        assert_eq!(blob.len() % 8, 0);
        let modules = Module::read_section(&blob).unwrap();
        assert_eq!(modules, [(id, example())]);
        let module = &modules[0].1;
        let lines: Vec<_> = module.frames_of(&module.sites_of(0)[1]).map(|frame| frame.line).collect();
        assert_eq!(lines, [7, 20]);
        assert_eq!(module.name(module.sites[1].field), "price");
        assert_eq!(module.sites_of(2)[0].relative, Some(Relative { word: 0, bytes: -24 }));
        assert!(module.sites_of(3).is_empty());
    }

    #[test]
    fn a_linked_section_has_the_blobs_of_all_units_with_gaps_between() {
        let (first, one) = example().encode();
        let other = Module { object: Name(1), ..example() };
        let (second, two) = other.encode();
        assert_ne!(first, second);
        let section = [&one[..], &[0; 24], &two, &one, &[0; 8]].concat();
        assert_eq!(Module::read_section(&section).unwrap(), [(first, example()), (second, other)]);
        assert_eq!(Module::read_section(&[]).unwrap(), []);
    }

    #[test]
    fn a_module_may_have_had_its_number_before() {
        let module = ModuleId::from_number(0x12_3456_789a).unwrap();
        let blob = example().encode_as(module);
        let section = [&blob[..], &example().encode().1].concat();
        assert_eq!(Module::read_section(&section).unwrap(), [(module, example()), (example().encode().0, example())]);
        for at in [12, 31, 40] {
            let mut scribbled = blob.clone();
            scribbled[at] ^= 0x81;
            assert_eq!(Module::read_section(&scribbled), Err(SitesError::Damaged(0)), "{at}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (_, blob) = example().encode();
        let section = [&blob[..], b"stranger"].concat();
        assert_eq!(Module::read_section(&section), Err(SitesError::Magic(blob.len())));
        assert_eq!(Module::read_section(&blob[..20]), Err(SitesError::CutOff(0)));
        assert_eq!(Module::read_section(&blob[..blob.len() - 8]), Err(SitesError::CutOff(0)));
        let mut newer = blob.clone();
        newer[8] = VERSION as u8 + 1;
        assert_eq!(Module::read_section(&newer), Err(SitesError::Version { found: VERSION + 1 }));
        let mut scribbled = blob.clone();
        scribbled[40] ^= 1;
        assert_eq!(Module::read_section(&scribbled), Err(SitesError::Damaged(0)));
        let mut huge = blob;
        huge[16..24].fill(0xff);
        huge[16] = 0xf8;
        assert_eq!(Module::read_section(&huge), Err(SitesError::CutOff(0)));
    }

    /// Puts a right head before a wrong body.
    fn forged(body: &[u8]) -> Vec<u8> {
        let mut blob = vec![0; HEAD_BYTES];
        blob.extend_from_slice(body);
        blob.resize(blob.len().next_multiple_of(ALIGNMENT), 0);
        let length = blob.len() as u64;
        let id = identity(&blob[HEAD_BYTES..]).number();
        blob[..8].copy_from_slice(&MAGIC);
        blob[8..12].copy_from_slice(&VERSION.to_le_bytes());
        blob[16..24].copy_from_slice(&length.to_le_bytes());
        blob[24..32].copy_from_slice(&id.to_le_bytes());
        blob
    }

    #[test]
    fn forged_references_are_refused() {
        let damaged = |change: &dyn Fn(&mut Module)| {
            let mut module = example();
            change(&mut module);
            assert_eq!(Module::read_section(&module.encode().1), Err(SitesError::Damaged(0)));
        };
        damaged(&|module| module.source = Name(11));
        damaged(&|module| module.names[0] = "not empty".to_owned());
        damaged(&|module| module.names.clear());
        damaged(&|module| module.frames[0].caller = Some(0));
        damaged(&|module| module.frames[1].file = Name(99));
        damaged(&|module| module.structures[0].name = Name(11));
        damaged(&|module| module.structures[0].members[1].type_name = Name(11));
        damaged(&|module| module.sites[1].frame = Some(2));
        damaged(&|module| module.sites[1].structure = Name(11));
        damaged(&|module| module.unasked[0].frame = Some(2));
        damaged(&|module| module.unasked[0].reason = Name(11));
        damaged(&|module| module.sites[2].lanes = MAX_LANES + 1);
        damaged(&|module| module.sites[2].lanes = 60);
        damaged(&|module| module.segments[1].sites = 2);
        damaged(&|module| module.segments.truncate(1));
        damaged(&|module| module.segments[2].continues = Some(2));
        damaged(&|module| module.sites[3].relative = Some(Relative { word: 1, bytes: 0 }));
        damaged(&|module| module.sites[3].kind = SiteKind::Fill);
        damaged(&|module| module.sites[3].value = Some(ValueKind::Integer));
        damaged(&|module| (module.segments[1].sites, module.segments[2].sites) = (2, 0));
        damaged(&|module| module.skipped[0].reason = Name(11));
        damaged(&|module| module.addresses[0].site = 4);
        damaged(&|module| module.addresses[0].loads[1] = 4);
        damaged(&|module| module.bodies[0].sites[1] = 4);
        damaged(&|module| module.bodies[1].around = Some(1));
        damaged(&|module| module.bodies[1].instructions = 0);
        // Names: a count that no file could hold.
        assert_eq!(
            Module::read_section(&forged(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f])),
            Err(SitesError::Damaged(0))
        );
    }

    fn arbitrary_module() -> impl Strategy<Value = Module> {
        let names = prop::collection::vec(".{0,9}", 1..6);
        let frames = prop::collection::vec(any::<(u32, u32, u32, u32, u32)>(), 0..6);
        let site = (0..SiteKind::ALL.len() as u8, any::<[u32; 9]>(), any::<[bool; 4]>(), 1..=20_u16, 0..6_u32);
        let segment = (any::<u32>(), prop::collection::vec(site, 0..3), any::<(u32, i32)>());
        let segments = prop::collection::vec(segment, 0..6);
        let structure = (any::<(u32, bool, u32)>(), prop::collection::vec(any::<(u32, u32, u32, u32, u32)>(), 0..4));
        let structures = prop::collection::vec(structure, 0..4);
        let address = (any::<(u32, bool, bool)>(), prop::collection::vec(any::<u32>(), 0..3));
        let addresses = prop::collection::vec(address, 0..4);
        let all = (names, frames, segments, structures, addresses);
        all.prop_map(|(mut names, frames, segments, structures, addresses)| {
            names[0].clear();
            let name = |number: u32| Name(number % names.len() as u32);
            let mut module = Module { source: name(1), object: name(2), ..Module::default() };
            for (index, (function, file, line, column, caller)) in (0..).zip(frames) {
                let caller = caller.checked_rem(index);
                module.frames.push(Frame { function: name(function), file: name(file), line, column, caller });
            }
            for (index, ((of, is_alias, size_bytes), members)) in (0..).zip(structures) {
                let member = |(of, r#type, offset_bytes, size_bytes, made_of): (_, _, _, _, u32)| Member {
                    name: name(of),
                    type_name: name(r#type),
                    offset_bytes,
                    size_bytes,
                    structure: made_of.checked_rem(index).filter(|_| made_of % 3 > 0),
                };
                let members = members.into_iter().map(member).collect();
                module.structures.push(Structure {
                    name: name(of),
                    is_alias,
                    is_foreign: of % 2 == 0,
                    size_bytes,
                    members,
                });
            }
            let frames = module.frames.len() as u32;
            for (index, (continues, of_segment, (word, bytes))) in (0..).zip(segments) {
                let first_site = module.sites.len() as u32;
                for (kind, n, [is_atomic, is_volatile, has_frame, has_offset], lanes, value) in of_segment {
                    let mut site = Site::new(SiteKind::from_number(kind).unwrap(), n[0]);
                    (site.is_atomic, site.is_volatile, site.lanes) = (is_atomic, is_volatile, lanes);
                    site.value = ValueKind::from_number(value);
                    (site.function, site.variable, site.structure) = (name(n[1]), name(n[2]), name(n[3]));
                    (site.field, site.detail) = (name(n[4]), name(n[5]));
                    site.frame = n[6].checked_rem(frames).filter(|_| has_frame);
                    site.offset_bytes = has_offset.then_some(n[7]);
                    site.other_structure = name(n[8]);
                    module.sites.push(site);
                }
                let own = &mut module.sites[first_site as usize..];
                let before = |segment: u32| module.segments[segment as usize].words;
                let most = own.iter().map(Site::words).sum::<usize>();
                let is_possible = |segment: &u32| before(*segment) as usize + most <= MAX_SEGMENT_WORDS;
                let continues = continues.checked_rem(index).filter(|_| most > 0).filter(is_possible);
                let mut words = continues.map_or(0, before);
                for site in &mut *own {
                    if site.kind.is_plain() && site.value.is_none() {
                        site.relative = word.checked_rem(words).map(|word| Relative { word, bytes });
                    }
                    words += site.words() as u32;
                }
                module.segments.push(Segment { continues, first_site, sites: own.len() as u32, words });
            }
            let sites = module.sites.len() as u32;
            for ((site, is_carried, leads_on), loads) in addresses {
                let Some(site) = site.checked_rem(sites) else { continue };
                let loads: Vec<u32> = loads.into_iter().map(|load| load % sites).collect();
                let instructions = site * 100 + loads.len() as u32;
                let around = site.checked_rem(module.bodies.len() as u32);
                module.bodies.push(Body { instructions, sites: loads.clone(), around, is_loop: is_carried });
                module.addresses.push(LoadedAddress { site, loads, is_carried, leads_on, instructions });
            }
            module.names = names;
            module
        })
    }

    proptest! {
        #[test]
        fn round_trip(module in arbitrary_module()) {
            let (id, blob) = module.encode();
            prop_assert_eq!(Module::read_section(&blob).unwrap(), [(id, module)]);
        }

        #[test]
        fn no_body_breaks_the_reader(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Module::read_section(&forged(&body));
            let _ = Module::read_section(&body);
        }

        #[test]
        fn no_change_breaks_the_reader(module in arbitrary_module(), at: prop::sample::Index, byte: u8) {
            let mut body = module.encode().1[HEAD_BYTES..].to_vec();
            let at = at.index(body.len());
            body[at] = byte;
            let _ = Module::read_section(&forged(&body));
        }
    }
}
