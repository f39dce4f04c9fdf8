//! Names and sums for what a full trace was counted into.

use std::collections::{BTreeMap, BTreeSet};

use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Frame, Module, Name, Site, SiteKind};
use slimline_trace::toolchain_source;

use super::block_names::BlockNames;
use super::elements::{Behind, ElementId, Elements, LeafId, Members, NO_ELEMENT, NO_LEAF, Span};
use super::function_names::FunctionNames;
use super::heap::blocks::Blocks;
use super::heap::live_blocks::Group;
use super::heap::{GroupBlocks, UnknownBlocks};
use super::instructions::{Instructions, address};
use super::sampling::{BySpot, LookedUp, by_spot, groups_of, looked_up, share_errors, visits_looked_up};
use super::splitting::{Known, SplitRules, StructureFindings, Structures};
use super::statics::Statics;
use super::values::{NamedValues, Values};
use super::{Accesses, TraceAnalysis};

/// In the place of a function's name: who called is not known.
const UNKNOWN_CALLERS: &str = "(unknown)";

/// Where a site stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// As in the source; empty where it is not known.
    pub function: String,
    /// As the compiler was given it; empty where it is not known.
    pub file: String,
    /// From 1; 0 where it is not known.
    pub line: u32,
    /// From 1; 0 where it is not known.
    pub column: u32,
}

/// One site that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRow {
    /// Where: what a library has inlined there is its user's.
    pub place: Place,
    /// Where in the library that is, if it is.
    pub inlined: Option<Place>,
    /// What it does.
    pub kind: SiteKind,
    /// Of code that was translated, the instruction's address in its file, as linked (`0x10e8`); empty where it is not known.
    pub address: String,
    /// The variable; empty where it is not known.
    pub variable: String,
    /// Type and field that it accesses most, as `node.next`; empty where they are not known.
    pub field: String,
    /// Times that it ran; of one that accesses other things, too, than what is wanted, about as often as it accessed that.
    pub visits: u64,
    /// What it accessed.
    pub accesses: Accesses,
}

/// What all sites of one name accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRow {
    /// The name; empty for those without one.
    pub name: String,
    /// What they accessed.
    pub accesses: Accesses,
}

/// What was allocated at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapRow {
    /// Where: of what was inlined from headers of the system the function that it was inlined into.
    pub place: Place,
    /// The functions that this was inlined into, innermost first, each with where it calls; behind them those that called,
    /// without lines, where groups are told apart by them.
    pub callers: Vec<Place>,
    /// Whether that place is in the source of a library that is in every program.
    pub is_librarys: bool,
    /// The allocating function, as `malloc`.
    pub allocator: String,
    /// The variable that holds the blocks, or that most accesses to them went by; empty where that is not known.
    pub variable: String,
    /// The type that is allocated; empty where it is not known.
    pub type_name: String,
    /// Blocks allocated.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes that lived at a time.
    pub peak_bytes: u64,
    /// Accesses to the blocks.
    pub accesses: Accesses,
    /// Half the width of the interval (95 %) of their share of all accesses; none where it is no estimate, or of too little.
    pub share_error: Option<f64>,
    /// The same by type and field, most first.
    pub fields: Vec<NameRow>,
}

/// What a full trace says. All rows: most accesses first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceFindings {
    /// Values by type and field, else by variable; most first.
    pub values: Vec<(String, Values)>,
    /// Values that are not among these, as only some of the accesses are wanted of the sites that loaded or stored them.
    pub mixed_values: u64,
    /// All accesses that are wanted.
    pub total: Accesses,
    /// All others; nothing else here counts them.
    pub unwanted: Accesses,
    /// Those of them that fell into blocks of the heap.
    pub heap_total: Accesses,
    /// How much was looked up, where not all was: blocks and what lies in them are estimates then.
    pub looked_up: Option<LookedUp>,
    /// Accesses that are wanted of instructions of which none was looked up: of which blocks, and whether of any, nobody knows.
    pub not_looked_up: Accesses,
    /// The same by type and field, as the instructions tell them.
    pub fields_not_looked_up: Vec<NameRow>,
    /// By site; of code that was translated, by instruction.
    pub sites: Vec<SiteRow>,
    /// By variable.
    pub variables: Vec<NameRow>,
    /// Half the width of the interval (95 %) of a variable's share of all accesses, where that is an estimate and not of too little.
    pub variable_errors: BTreeMap<String, f64>,
    /// By type and field; of what is in no structure by the type of what it lies in. What accesses several at once counts for each.
    pub fields: Vec<NameRow>,
    /// Structures with the accesses to their fields.
    pub structures: Vec<StructureFindings>,
    /// By function as in the source, what was inlined into it not counted; with its file where several files have one of that name.
    pub functions: Vec<NameRow>,
    /// Calls by function as in the source; one that was only inlined has none.
    pub calls: BTreeMap<String, u64>,
    /// By line, `file:line`.
    pub lines: Vec<NameRow>,
    /// By allocation site.
    pub heap: Vec<HeapRow>,
    /// What ran that may access memory, nobody knows where: what it is, and how often.
    pub untraced: BTreeMap<String, u64>,
    /// Functions that are not instrumented in any way.
    pub skipped_functions: u64,
    /// Where blocks are not known.
    pub unknown_blocks: UnknownBlocks,
    /// Functions with loops in which they don't ask whether they are to be traced, each with why.
    pub unasked: Vec<(Place, String)>,
}

/// Puts names to what was counted, and tells which structures to split by these rules.
pub fn findings(program: &Program, analysis: &TraceAnalysis, rules: &SplitRules) -> TraceFindings {
    let mut findings = TraceFindings::default();
    let [mut variables, mut fields, mut functions, mut lines, mut not_looked_up] = [const { Sums::new() }; 5];
    let elements = analysis.heap().elements();
    let by_spot = by_spot(program, analysis, None);
    let looked_up_visits = visits_looked_up(program, analysis);
    let (mut structures, mut instructions) = (Structures::new(elements), Instructions::default());
    let names = function_names(program, analysis);
    let statics = Statics::of(program, analysis.heap().blocks(), groups_of(&by_spot));
    for (id, visits, accesses) in analysis.counts().sites(program) {
        let (module, site) = program.site(id);
        if site.kind == SiteKind::Untraced {
            *findings.untraced.entry(module.name(site.detail).to_owned()).or_default() += visits;
        }
        if is_beginning(site) {
            let function = names.name(&function_of(program, id));
            if analysis.filter().wants(module, site) {
                functions.add(&function, Accesses::default());
            }
            // Where only what others do in it is wanted, it was called nevertheless.
            *findings.calls.entry(function).or_default() += visits;
        }
        if accesses.count() == 0 {
            continue;
        }
        let spots = by_spot.get(&id).map(Vec::as_slice).unwrap_or_default();
        let all = accesses;
        let (accesses, spots) = statics.wanted(analysis.filter(), (module, site), all, spots);
        let visits = part(visits, accesses.count(), all.count());
        findings.unwanted.add(all.without(accesses));
        if accesses.count() == 0 {
            continue;
        }
        let (place, inlined) = written_at(module, site);
        let (variable, own) = (module.name(site.variable).to_owned(), field(module, site));
        findings.total.add(accesses);
        functions.add(&names.name(&place), accesses);
        lines.add(&line(&place), accesses);
        let ties = matches!(site.kind, SiteKind::Load | SiteKind::Store);
        let mut of_site = Sums::new();
        let mut rest = accesses;
        for (spot, sum) in &spots {
            if spot.leaf != NO_LEAF {
                rest.subtract(*sum);
                let width = width(*sum);
                let span = elements.bytes_of(spot.element, spot.leaf, width);
                let ranges = span.map(|span| elements.ranges(spot.element, span)).unwrap_or_default();
                structures.add(spot.element, &ranges, Known::ByBlock, sum.count());
                structures.meet(spot.element, Some(spot.group));
                for range in ranges.iter().filter(|_| ties) {
                    structures.tie(spot.element, range, sum.count());
                }
                let named = elements.named(id);
                if elements.is_put_into(named, spot.element, spot.leaf) {
                    let range = named.offset_bytes.map(|from| from..from.saturating_add(width));
                    structures.add(named.element, range.as_slice(), Known::BySite, sum.count());
                    structures.meet(named.element, Some(spot.group));
                }
                of_site.add_parts(&of_leaf(elements, id, site, (spot.element, spot.leaf), width, &own), *sum);
            }
        }
        if rest.count() > 0 {
            let named = elements.named(id);
            let unknown = spots.iter().filter(|(spot, _)| spot.leaf == NO_LEAF);
            let in_blocks = unknown.fold(0_u64, |sum, (spot, accesses)| {
                structures.meet(named.element, Some(spot.group));
                sum.saturating_add(accesses.count())
            });
            if in_blocks < rest.count() {
                structures.meet(named.element, None);
            }
            let bytes = width(rest);
            let range = named.offset_bytes.map(|from| from..from.saturating_add(bytes));
            structures.add(named.element, range.as_slice(), Known::BySite, rest.count());
            if let Some(range) = range.filter(|_| ties) {
                structures.tie(named.element, &range, rest.count());
            }
            of_site.add_parts(&of_own(elements, id, bytes, &own), rest);
        }
        let of_site = of_site.rows();
        for row in &of_site {
            let mut rest = row.accesses;
            // What lies in no structure is told by its type.
            for (spot, sum) in spots.iter().filter(|(spot, _)| row.name.is_empty() && spot.leaf == NO_LEAF) {
                let type_name = statics.type_of(program, analysis.heap().blocks(), spot.group);
                if !type_name.is_empty() {
                    fields.add(type_name, *sum);
                    rest.subtract(*sum);
                }
            }
            if rest.count() > 0 {
                fields.add(&row.name, rest);
            }
        }
        if looked_up_visits.as_ref().is_some_and(|visits| visits[id.0 as usize] == 0) {
            findings.not_looked_up.add(accesses);
            of_site.iter().for_each(|row| not_looked_up.add(&row.name, row.accesses));
        }
        let field = of_site.into_iter().next().map(|row| row.name).unwrap_or_default();
        let (kind, address) = (site.kind, address(module, site).to_owned());
        instructions.add(module, SiteRow { place, inlined, kind, address, variable, field, visits, accesses });
    }
    add_unsure(&mut structures, program, analysis, &by_spot);
    let blocks: BTreeMap<Group, GroupBlocks> = analysis.heap().blocks().groups().collect();
    findings.sites = instructions.rows();
    for (name, sum) in variables_of(program, analysis, (&by_spot, &statics)) {
        variables.add(&name, sum);
    }
    findings.variables = variables.rows();
    findings.fields = fields.rows();
    findings.fields_not_looked_up = not_looked_up.rows();
    findings.structures = structures.judged(rules, |group| {
        let is_static = statics.title(group).is_some();
        blocks.get(&group).map(|of| if is_static { of.bytes / of.blocks.max(1) } else { of.bytes })
    });
    findings.functions = functions.rows();
    findings.lines = lines.rows();
    let all = findings.total.count();
    findings.looked_up = looked_up(program, analysis);
    let sampled = (findings.looked_up, all);
    findings.variable_errors = share_errors(program, analysis, sampled, |by_spot| {
        variables_of(program, analysis, (by_spot, &statics))
            .into_iter()
            .map(|(name, sum)| (name, sum.count()))
            .collect()
    });
    let errors =
        share_errors(program, analysis, sampled, |by_spot| groups_wanted(program, analysis, (by_spot, &statics)));
    findings.heap = heap(program, analysis, (&by_spot, &statics), &errors);
    (findings.values, findings.mixed_values) = values(program, analysis, (&by_spot, &statics));
    findings.heap.iter().for_each(|row| findings.heap_total.add(row.accesses));
    findings.skipped_functions = program.modules().iter().map(|(_, module)| module.skipped.len() as u64).sum();
    findings.unknown_blocks = analysis.heap().unknown_blocks();
    findings.unasked = unasked(program);
    findings
}

/// By variable: those that static ones are known by their addresses, else as instructions name what they access.
fn variables_of(
    program: &Program,
    analysis: &TraceAnalysis,
    (by_spot, statics): (&BySpot, &Statics<'_>),
) -> BTreeMap<String, Accesses> {
    let mut found: BTreeMap<String, Accesses> = BTreeMap::new();
    for (id, _, accesses) in analysis.counts().sites(program).filter(|(.., accesses)| accesses.count() > 0) {
        let (module, site) = program.site(id);
        let spots = by_spot.get(&id).map(Vec::as_slice).unwrap_or_default();
        let (mut unplaced, spots) = statics.wanted(analysis.filter(), (module, site), accesses, spots);
        for (spot, sum) in spots {
            if let Some(title) = statics.title(spot.group) {
                unplaced.subtract(sum);
                found.entry(title.to_owned()).or_default().add(sum);
            }
        }
        if unplaced.count() > 0 {
            found.entry(module.name(site.variable).to_owned()).or_default().add(unplaced);
        }
    }
    found
}

/// Accesses that are wanted by group.
fn groups_wanted(
    program: &Program,
    analysis: &TraceAnalysis,
    (by_spot, statics): (&BySpot, &Statics<'_>),
) -> BTreeMap<Group, u64> {
    let mut found = BTreeMap::new();
    for (&site, spots) in by_spot {
        let wanted = spots.iter().filter(|(spot, _)| statics.is_wanted(analysis.filter(), program.site(site), spot));
        wanted.for_each(|(spot, sum)| *found.entry(spot.group).or_default() += sum.count());
    }
    found
}

fn unasked(program: &Program) -> Vec<(Place, String)> {
    let unasked = program.modules().iter().flat_map(|(_, module)| {
        module.unasked.iter().map(|unasked| {
            let frame = unasked.frame.and_then(|frame| module.frames.get(frame as usize));
            let function = if let Some(frame) = frame { frame.function } else { unasked.function };
            let file = frame.map_or_else(String::new, |frame| module.name(frame.file).to_owned());
            let function = module.name(function).to_owned();
            (Place { function, file, ..Place::default() }, module.name(unasked.reason).to_owned())
        })
    });
    // Those of headers are in several units.
    unasked.collect::<BTreeSet<_>>().into_iter().collect()
}

/// What functions are called that ran.
fn function_names(program: &Program, analysis: &TraceAnalysis) -> FunctionNames {
    let ran = analysis.counts().sites(program).filter_map(|(id, _, accesses)| {
        let (module, site) = program.site(id);
        match is_beginning(site) {
            true => Some(function_of(program, id)),
            false => (accesses.count() > 0).then(|| written_at(module, site).0),
        }
    });
    FunctionNames::of(ran)
}

/// Whether a function begins there.
fn is_beginning(site: &Site) -> bool {
    matches!(site.kind, SiteKind::Enter | SiteKind::EnterFrame)
}

/// Values of sites all of whose accesses are wanted, and how many there are of others of which only some are.
fn values(
    program: &Program,
    analysis: &TraceAnalysis,
    (by_spot, statics): (&BySpot, &Statics<'_>),
) -> (Vec<(String, Values)>, u64) {
    let all: BTreeMap<SiteId, Accesses> =
        analysis.counts().sites(program).map(|(id, _, accesses)| (id, accesses)).collect();
    let (mut named, mut mixed) = (NamedValues::default(), 0);
    for (id, values) in analysis.values().sites() {
        let (module, site) = program.site(id);
        let accesses = all.get(&id).copied().unwrap_or_default();
        let spots = by_spot.get(&id).map(Vec::as_slice).unwrap_or_default();
        let (wanted, _) = statics.wanted(analysis.filter(), (module, site), accesses, spots);
        if wanted.count() == accesses.count() {
            let field = field(module, site);
            named.add(if field.is_empty() { module.name(site.variable) } else { &field }, values);
        } else if wanted.count() > 0 {
            mixed += values.count;
        }
    }
    (named.rows(), mixed)
}

/// Of so many times those that fall to a part of all.
fn part(times: u64, part: u64, all: u64) -> u64 {
    (u128::from(times) * u128::from(part) / u128::from(all.max(1))) as u64
}

/// Bytes of each of these accesses, which are of one site.
fn width(accesses: Accesses) -> u32 {
    u32::try_from(accesses.bytes() / accesses.count().max(1)).unwrap_or(u32::MAX)
}

/// What a site accesses in a leaf of an element, so many bytes each time. `own` is what the site is called, which stays where it is
/// right: of unions it says which.
pub(super) fn of_leaf(
    elements: &Elements,
    id: SiteId,
    site: &Site,
    (element, leaf): (ElementId, LeafId),
    bytes: u32,
    own: &str,
) -> Members {
    let named = elements.named(id);
    if elements.is_put_into(named, element, leaf) {
        return of_own(elements, id, bytes, own);
    }
    let Some(span) = elements.bytes_of(element, leaf, bytes) else {
        let structure = &elements.get(element).declaration.name;
        return Members::one(if own.is_empty() { structure } else { own }.to_owned(), bytes);
    };
    let members = elements.members(element, span);
    let is_told = !site.field.is_none() && !elements.get(named.element).declaration.is_atomic();
    if members.named.len() <= 1 && is_told && elements.agrees(named, element, span.offset_bytes) {
        return Members::one(own.to_owned(), bytes);
    }
    members
}

/// The same of what lies elsewhere.
fn of_own(elements: &Elements, id: SiteId, bytes: u32, own: &str) -> Members {
    let named = elements.named(id);
    if let Some(from) = named.offset_bytes
        && elements.get(named.element).is_laid_out()
    {
        // What is behind it nobody knows.
        let left = elements.get(named.element).declaration.bytes.saturating_sub(from);
        let span = Span { offset_bytes: from, bytes: bytes.min(left), behind: Behind::Unknown };
        let members = elements.members(named.element, span);
        if members.named.len() > 1 {
            return members;
        }
    }
    Members::one(own.to_owned(), bytes)
}

/// Accesses that may be of structures that their sites do not name: those to which several places lead, and those without a
/// name to blocks in which the structure is accessed, too. Where the block says what it consists of nothing is unsure.
fn add_unsure(structures: &mut Structures<'_>, program: &Program, analysis: &TraceAnalysis, by_spot: &BySpot) {
    let elements = analysis.heap().elements();
    let mut unnamed: BTreeMap<u32, u64> = BTreeMap::new();
    let mut named: BTreeSet<(u32, ElementId)> = BTreeSet::new();
    for (id, _, accesses) in analysis.counts().sites(program) {
        let of_site = elements.named(id);
        let mut rest = accesses;
        for (spot, sum) in by_spot.get(&id).map(Vec::as_slice).unwrap_or_default() {
            if spot.leaf != NO_LEAF {
                rest.subtract(*sum);
            } else if of_site.element != NO_ELEMENT {
                named.insert((spot.group, of_site.element));
            } else if of_site.other == NO_ELEMENT {
                *unnamed.entry(spot.group).or_default() += sum.count();
            }
        }
        if of_site.other != NO_ELEMENT {
            structures.add_unsure(of_site.other, rest.count());
        }
    }
    for (group, element) in named {
        structures.add_unsure(element, unnamed.get(&group).copied().unwrap_or(0));
    }
}

fn heap(
    program: &Program,
    analysis: &TraceAnalysis,
    (by_spot, statics): (&BySpot, &Statics<'_>),
    errors: &BTreeMap<Group, f64>,
) -> Vec<HeapRow> {
    let elements = analysis.heap().elements();
    let blocks = analysis.heap().blocks();
    let mut accesses: BTreeMap<Group, (Accesses, Sums)> = BTreeMap::new();
    let mut names = BlockNames::default();
    for (&id, spots) in by_spot {
        let (module, site) = program.site(id);
        let own = field(module, site);
        spots.iter().for_each(|(spot, sum)| names.add(spot.group, (module, site), sum.count()));
        for (spot, sum) in spots.iter().filter(|(spot, _)| statics.is_wanted(analysis.filter(), (module, site), spot)) {
            let (total, fields) = accesses.entry(spot.group).or_insert_with(|| (Accesses::default(), Sums::new()));
            total.add(*sum);
            let bytes = width(*sum);
            let members = match spot.leaf {
                NO_LEAF => of_own(elements, id, bytes, &own),
                leaf => of_leaf(elements, id, site, (spot.element, leaf), bytes, &own),
            };
            fields.add_parts(&members, *sum);
        }
    }
    let row = |(group, allocated): (Group, GroupBlocks)| {
        let (module, site) = program.site(blocks.site_of(group));
        let (accesses, fields) = accesses.remove(&group).unwrap_or((Accesses::default(), Sums::new()));
        let (place, mut callers) = allocated_at(module, site);
        callers.extend(callers_of(program, blocks, group));
        HeapRow {
            is_librarys: !is_own(&place),
            place,
            callers,
            allocator: module.name(site.detail).to_owned(),
            // A pointer that no variable holds is called by the call that it came from: the allocator's tells nothing.
            variable: Some(names.of(group, module, site, allocated.blocks))
                .filter(|name| name.strip_suffix("()") != Some(module.name(site.detail)))
                .unwrap_or_default()
                .to_owned(),
            type_name: module.name(site.structure).to_owned(),
            blocks: allocated.blocks,
            bytes: allocated.bytes,
            peak_bytes: allocated.peak_bytes,
            accesses,
            share_error: errors.get(&group).copied(),
            fields: fields.rows(),
        }
    };
    let on_heap = blocks.groups().filter(|(group, _)| statics.name(*group).is_none());
    let mut rows: Vec<HeapRow> = on_heap.map(row).collect();
    // Who asks for some accesses does not ask for blocks without any.
    rows.retain(|row| analysis.filter().is_empty() || row.accesses.count() > 0);
    rows.sort_by(|a, b| (b.accesses.count().cmp(&a.accesses.count())).then_with(|| a.place.cmp(&b.place)));
    rows
}

/// The function at whose beginning or end a site is, without a line: it is not where it calls.
pub(super) fn function_of(program: &Program, id: SiteId) -> Place {
    let (module, site) = program.site(id);
    let outermost = module.frames_of(site).last().map(|frame| place_of(module, site, frame));
    let Place { function, file, .. } = outermost.unwrap_or_else(|| place(module, site));
    Place { function, file, ..Place::default() }
}

/// Who called for the blocks of a group, the innermost first.
pub(super) fn callers_of(program: &Program, blocks: &Blocks, group: Group) -> impl Iterator<Item = Place> {
    blocks.callers_of(group).into_iter().map(|id| match id {
        Some(id) => function_of(program, id),
        None => Place { function: UNKNOWN_CALLERS.to_owned(), ..Place::default() },
    })
}

/// Where an allocation was written, and the calls that led there, as far as they were inlined. Allocators of the C++ library and of
/// Rust's are looked through: they are in every program's.
pub(super) fn allocated_at(module: &Module, site: &Site) -> (Place, Vec<Place>) {
    let mut frames: Vec<Place> = module.frames_of(site).map(|frame| place_of(module, site, frame)).collect();
    frames.drain(..frames.iter().position(is_own).unwrap_or(frames.len().saturating_sub(1)));
    if frames.is_empty() {
        return (place(module, site), Vec::new());
    }
    (frames.remove(0), frames)
}

/// Whether a place is not in the C++ library or Rust's.
pub(super) fn is_own(place: &Place) -> bool {
    let file = &*place.file;
    let is_header = file.starts_with("/usr/") && file.contains("/include/");
    !is_header && !toolchain_source::is_rusts(file)
}

/// Where a site was written in the program's own source, and where in a library if that was inlined there. Of a library's function
/// that is no part of another it is that.
fn written_at(module: &Module, site: &Site) -> (Place, Option<Place>) {
    let innermost = place(module, site);
    if is_own(&innermost) {
        return (innermost, None);
    }
    let mut frames = module.frames_of(site).map(|frame| place_of(module, site, frame));
    match frames.find(is_own) {
        Some(own) => (own, Some(innermost)),
        None => (innermost, None),
    }
}

fn place_of(module: &Module, site: &Site, frame: &Frame) -> Place {
    let text = |name: Name| module.name(name).to_owned();
    Place {
        function: text(if frame.function.is_none() { site.function } else { frame.function }),
        file: text(frame.file),
        line: frame.line,
        column: frame.column,
    }
}

/// Where the site was written: the innermost of inlined functions.
pub(super) fn place(module: &Module, site: &Site) -> Place {
    match module.frames_of(site).next() {
        Some(frame) => place_of(module, site, frame),
        None => Place { function: module.name(site.function).to_owned(), ..Place::default() },
    }
}

/// Where the innermost function is called, if it was inlined.
pub(super) fn called_at(module: &Module, site: &Site) -> Option<Place> {
    module.frames_of(site).nth(1).map(|frame| place_of(module, site, frame))
}

pub(super) fn line(place: &Place) -> String {
    if place.line == 0 { String::new() } else { format!("{}:{}", place.file, place.line) }
}

/// `type.field`; the type with an offset where no field is known.
pub(super) fn field(module: &Module, site: &Site) -> String {
    let (structure, field) = (module.name(site.structure), module.name(site.field));
    match (structure.is_empty(), field.is_empty(), site.offset_bytes) {
        (true, ..) => field.to_owned(),
        (false, false, _) => format!("{structure}.{field}"),
        (false, true, Some(offset)) => format!("{structure}+{offset}"),
        (false, true, None) => structure.to_owned(),
    }
}

/// Accesses by name.
struct Sums(BTreeMap<String, Accesses>);

impl Sums {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn add(&mut self, name: &str, accesses: Accesses) {
        match self.0.get_mut(name) {
            Some(sum) => sum.add(accesses),
            None => {
                self.0.insert(name.to_owned(), accesses);
            }
        }
    }

    /// Accesses that touch all of these members, each with the bytes that it has of them; those of paddings are nobody's.
    fn add_parts(&mut self, Members { named, bytes: all }: &Members, accesses: Accesses) {
        for (name, bytes) in named {
            self.add(name, accesses.part((*bytes).into(), (*all).into()));
        }
    }

    fn rows(self) -> Vec<NameRow> {
        let mut rows: Vec<NameRow> = self.0.into_iter().map(|(name, accesses)| NameRow { name, accesses }).collect();
        // Names are in order already.
        rows.sort_by_key(|row| std::cmp::Reverse(row.accesses.count()));
        rows
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::ModuleBuilder;

    use super::super::TraceBatch;
    use super::super::filter::Filter;
    use super::super::tests::visits_of;
    use super::*;

    #[test]
    fn what_a_library_has_inlined_is_its_users() {
        let mut builder = ModuleBuilder::new();
        let [total, fold, own, core, header] = [
            "app::total",
            "fold",
            "/w/src/main.rs",
            "/rustc/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/library/core/src/iter/range.rs",
            "/usr/include/c++/12/bits/stl_vector.h",
        ]
        .map(|text| builder.name(text));
        let frame = |function, file, line, caller| Frame { function, file, line, column: 0, caller };
        let outer = builder.frame(frame(total, own, 7, None));
        let [of_core, of_header] = [core, header].map(|file| builder.frame(frame(fold, file, 80, Some(outer))));
        let alone = builder.frame(frame(fold, core, 80, None));
        let sites = [of_core, of_header, outer, alone].map(|frame| Site {
            function: total,
            frame: Some(frame),
            ..Site::new(SiteKind::Load, 8)
        });
        let module = builder.finish("main.rs", "main.o", "/w", "test");
        let found = sites.map(|site| {
            let (place, inlined) = written_at(&module, &site);
            (place.function, place.line, inlined.map(|place| (place.function, place.line)))
        });
        let own = |inlined: Option<u32>| ("app::total".to_owned(), 7, inlined.map(|line| ("fold".to_owned(), line)));
        assert_eq!(found, [own(Some(80)), own(Some(80)), own(None), ("fold".to_owned(), 80, None)]);
    }

    #[test]
    fn sites_of_one_name_are_put_together() {
        let mut builder = ModuleBuilder::new();
        let [walk, file, list, node, next, key, malloc, make] =
            ["walk", "list.c", "list", "node", "next", "key", "malloc", "make"].map(|text| builder.name(text));
        let frame = |function, line| Frame { function, file, line, column: 3, caller: None };
        let [load, store, made] =
            [frame(walk, 7), frame(walk, 8), frame(make, 2)].map(|frame| Some(builder.frame(frame)));
        let known = Site { variable: list, structure: node, function: walk, ..Site::new(SiteKind::Load, 8) };
        builder.segment([
            Site { frame: load, field: next, ..known },
            Site { frame: store, field: key, kind: SiteKind::Store, size_bytes: 4, ..known },
            Site { frame: load, field: next, ..known },
        ]);
        let allocate = Site { frame: made, detail: malloc, structure: node, ..Site::new(SiteKind::Allocate, 0) };
        builder.segment([allocate, Site::new(SiteKind::Untraced, 0)]);
        let module = builder.finish("list.c", "list.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let words = [(1, vec![0x1000, 64]), (0, vec![0x1000, 0x1008, 0x2000]), (0, vec![0x1010, 0x2008, 0x2000])];
        let (words, visits) = visits_of(&program, &words);
        let mut analysis = TraceAnalysis::new();
        let batch = TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
        analysis.update(&program, &batch);
        let found = findings(&program, &analysis, &SplitRules::default());

        let accesses =
            |loads: u64, stores: u64| Accesses { loads, stores, loaded_bytes: loads * 8, stored_bytes: stores * 4 };
        let row = |name: &str, loads, stores| NameRow { name: name.to_owned(), accesses: accesses(loads, stores) };
        assert_eq!(found.total, accesses(4, 2));
        assert_eq!(found.variables, [row("list", 4, 2)]);
        assert_eq!(found.fields, [row("node.next", 4, 0), row("node.key", 0, 2)]);
        assert_eq!(found.functions, [row("walk", 4, 2)]);
        assert_eq!(found.lines, [row("list.c:7", 4, 0), row("list.c:8", 0, 2)]);
        assert_eq!(found.sites.len(), 3);
        assert_eq!(found.untraced, BTreeMap::from([(String::new(), 1)]));
        let [heap] = found.heap.as_slice() else { panic!("{:?}", found.heap) };
        assert_eq!((heap.allocator.as_str(), heap.blocks, heap.bytes, heap.peak_bytes), ("malloc", 1, 64, 64));
        assert_eq!(heap.fields, [row("node.next", 2, 0), row("node.key", 0, 1)]);
        assert_eq!(found.heap_total, accesses(2, 1));

        let filter = Filter { types: vec!["no?e".to_owned()], files: vec!["other.c".to_owned()], ..Filter::default() };
        let mut none = TraceAnalysis::of(filter);
        none.update(&program, &batch);
        let none = findings(&program, &none, &SplitRules::default());
        assert_eq!((none.total, none.unwanted, none.heap.len()), (accesses(0, 0), accesses(4, 2), 0));
    }
}
