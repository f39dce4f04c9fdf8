//! Both versions of a function within one, block by block, and the loops at whose headers one may go on in the other.
//!
//! The inliner made both of one body, so they are alike; what is not is left as it is.

use std::collections::{HashMap, HashSet};

use super::loops::{Loop, goes_round, natural_loops, predecessors};
use super::nesting::successors_of;
use super::{Block, Function, Module, Opcode, TypeKind, Value, api};

/// Most crossings of a function times its blocks. Each has phis for all that lives there, and the time that code generation takes
/// for these grows with the function: with 71 crossings of 576 blocks it was 17 s, without them 2.
const MOST_WORK: usize = 10_000;

/// A loop in which one block leads to so many others goes from one instruction of an interpreter to the next, where nothing is as dear
/// as what is done each time: lua took 1.15 times its time.
const DISPATCH: usize = 16;

/// Instructions of a short loop within another that make up for asking the gate now and then; else it is asked in the other only.
const LONG_BODY: usize = 32;

/// Both versions of a function. Of the module that it was asked of, as long as no pass ran.
pub struct Versions {
    pub(super) function: api::Value,
    /// Each block of the untraced version with that of the traced one, the first first.
    pub(super) blocks: Vec<[api::Block; 2]>,
    /// Instructions of the untraced version with those of the traced one.
    pub(super) values: Vec<[api::Value; 2]>,
    /// Local variables, which are the function's.
    pub(super) variables: Vec<[api::Value; 2]>,
    pub(super) crossings: Vec<Crossing>,
    /// Blocks of the untraced version.
    plain: Vec<api::Block>,
    unasked: Option<Unasked>,
}

/// Why a function has loops in which nobody asks the gate: who is in one stays in its version until the function ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unasked {
    /// One jumps to [`DISPATCH`] places or more.
    Dispatch,
    /// One is entered at several places.
    Entries,
    /// One begins behind a computed jump, or where exceptions land.
    Jumps,
    /// There are more than [`MOST_WORK`] allows.
    Many,
    /// What lives there can't be handed over, as in coroutines.
    Values,
}

impl Unasked {
    /// In words.
    pub fn reason(self) -> String {
        match self {
            Self::Dispatch => format!("a loop jumps to {DISPATCH} places or more"),
            Self::Entries => "a loop is entered in its middle".to_owned(),
            Self::Jumps => "a loop begins behind a computed jump".to_owned(),
            Self::Many => "it has very many loops".to_owned(),
            Self::Values => "what its loops keep can't be handed over".to_owned(),
        }
    }
}

/// Where one version may go on in the other.
pub(super) struct Crossing {
    pub(super) place: Place,
    /// Blocks on the way into the untraced version and into the traced one.
    pub(super) ways: [api::Block; 2],
}

/// A crossing, for who puts something on its ways.
pub struct Ways<'m> {
    /// The first instruction of the loop's header in the traced version, behind its phis.
    pub header: Value<'m>,
    /// What stands at the end of the way into the traced version.
    pub to_traced: Value<'m>,
    /// What stands at the end of the way out of it.
    pub from_traced: Value<'m>,
}

/// A loop's header, and by which ways to it the gate is asked. Blocks are by number.
pub(super) struct Place {
    pub(super) header: usize,
    ways: HashMap<usize, Way>,
}

/// What becomes of a jump to a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The gate is asked.
    Asks,
    /// It is not.
    Passes,
    /// It is asked each so many times.
    Counts,
}

impl Place {
    /// What becomes of a jump from this block.
    pub(super) fn way(&self, from: usize) -> Way {
        self.ways.get(&from).copied().unwrap_or(Way::Asks)
    }

    /// Whether some jumps do this.
    pub(super) fn has(&self, way: Way) -> bool {
        self.ways.values().any(|it| *it == way)
    }
}

impl Function<'_> {
    /// Whether it has loops in which a version may go on in the other.
    pub fn has_crossings(self) -> bool {
        !self.is_coroutine() && !places(&reachable(self.blocks().first().copied())).0.is_empty()
    }

    /// Of a version by itself, in which nobody asks the gate: why, if it has loops.
    pub fn unasked_loops(self) -> Option<Unasked> {
        let (_, unasked) = places(&reachable(self.blocks().first().copied()));
        if unasked.is_none() && self.is_coroutine() { Some(Unasked::Values) } else { unasked }
    }

    fn is_coroutine(self) -> bool {
        self.attribute(self.value().module.attribute_kind("presplitcoroutine")).is_some()
    }
}

/// Blocks that can be reached from the first one, which comes first.
fn reachable(first: Option<Block<'_>>) -> Vec<Block<'_>> {
    let mut blocks: Vec<_> = first.into_iter().collect();
    let mut seen: HashSet<_> = blocks.iter().map(|block| block.raw).collect();
    let mut next = 0;
    while let Some(block) = blocks.get(next).copied() {
        blocks.extend(block.successors().into_iter().filter(|to| seen.insert(to.raw)));
        next += 1;
    }
    blocks
}

/// The loops of these blocks, the first of which begins, in which versions are to cross, and why there are others in which they don't.
/// The header of such a loop is one that nothing but plain jumps lead to.
fn places(blocks: &[Block<'_>]) -> (Vec<Place>, Option<Unasked>) {
    let successors = successors_of(blocks);
    if !goes_round(&successors, &HashSet::new()) {
        return (Vec::new(), None);
    }
    if blocks.iter().any(|block| has_what_no_phi_joins(*block)) {
        return (Vec::new(), Some(Unasked::Values));
    }
    let loops = natural_loops(&successors);
    let before = predecessors(&successors);
    let ways = |block: usize| successors[block].iter().collect::<HashSet<_>>().len();
    let is_dispatch = |it: &Loop| it.blocks.iter().any(|block| ways(*block) >= DISPATCH);
    if loops.iter().any(is_dispatch) {
        return (Vec::new(), Some(Unasked::Dispatch));
    }
    let crosses = |header: usize| {
        let jumps = before[header].iter().all(|from| {
            let end = blocks[*from].instructions().last().and_then(|last| last.opcode());
            matches!(end, Some(Opcode::Branch | Opcode::Switch))
        });
        let first = blocks[header].first_behind_phis().and_then(Value::opcode);
        jumps && !matches!(first, None | Some(Opcode::LandingPad))
    };
    let calls: Vec<bool> = blocks.iter().map(|block| block.instructions().into_iter().any(calls_anything)).collect();
    // Who turns tracing on or off means the loop that follows, however few times it goes round.
    let turns = blocks.iter().any(|block| block.instructions().into_iter().any(turns_tracing));
    let is_short = |it: &Loop| !turns && it.is_innermost && !it.blocks.iter().any(|block| calls[*block]);
    let instructions = |it: &Loop| it.blocks.iter().map(|block| blocks[*block].instructions().len()).sum::<usize>();
    let crossed: Vec<_> = loops.iter().filter(|it| crosses(it.header)).collect();
    let is_nested = |it: &Loop| crossed.iter().any(|other| other.header != it.header && other.has(it.header));
    let is_worth_it = |it: &Loop| !is_short(it) || !is_nested(it) || instructions(it) >= LONG_BODY;
    let (mut chosen, brief): (Vec<_>, Vec<_>) = crossed.iter().copied().partition(|it| is_worth_it(it));
    chosen.sort_by_key(|it| std::cmp::Reverse(it.blocks.len()));
    chosen.truncate((MOST_WORK / blocks.len()).max(1));
    let asked: HashSet<usize> = chosen.iter().chain(&brief).map(|it| it.header).collect();
    let unasked = goes_round(&successors, &asked).then(|| {
        let mut others = loops.iter().filter(|it| !asked.contains(&it.header));
        match others.next() {
            Some(it) if crosses(it.header) => Unasked::Many,
            Some(_) => Unasked::Jumps,
            None => Unasked::Entries,
        }
    });
    let place = |it: &Loop| {
        let way = |from: usize| if it.has(from) { Way::Counts } else { Way::Passes };
        let ways = before[it.header].iter().filter(|_| is_short(it)).map(|from| (*from, way(*from)));
        Place { header: it.header, ways: ways.collect() }
    };
    (chosen.into_iter().map(place).collect(), unasked)
}

/// Whether it is a call of what may take its time.
fn calls_anything(instruction: Value<'_>) -> bool {
    let is_intrinsic = |called: Value<'_>| called.name().starts_with("llvm.") || called.is_assembly();
    instruction.is_call() && !instruction.called().is_some_and(is_intrinsic)
}

/// Whether it is a call by which the program says that tracing begins or ends.
fn turns_tracing(instruction: Value<'_>) -> bool {
    instruction.called().is_some_and(|called| ["__slimline_start", "__slimline_stop"].contains(&&*called.name()))
}

/// Whether a value of a type that no phi may have leaves the block.
fn has_what_no_phi_joins(block: Block<'_>) -> bool {
    let leaves = |value: &Value<'_>| value.users().iter().any(|user| user.block() != Some(block));
    block.instructions().iter().any(|value| {
        matches!(value.r#type().kind(), TypeKind::Token | TypeKind::MatrixTile | TypeKind::TargetExtension)
            && leaves(value)
    })
}

impl Module<'_> {
    /// Both versions of a function that chooses between them with its first block; none where that is not what it does.
    pub fn versions(&self, function: Function<'_>) -> Option<Versions> {
        let entry = function.blocks().first().copied()?;
        let [traced, plain] = entry.successors().try_into().ok()?;
        let mut versions = Versions {
            function: function.value().raw,
            blocks: Vec::new(),
            values: Vec::new(),
            variables: Vec::new(),
            crossings: Vec::new(),
            plain: Vec::new(),
            unasked: None,
        };
        let (plain, traced) = (reachable(Some(plain)), reachable(Some(traced)));
        let is_alike = versions.pair(entry, &plain, &traced);
        versions.plain = plain.iter().map(|block| block.raw).collect();
        versions.blocks = plain.iter().zip(&traced).map(|(plain, traced)| [plain.raw, traced.raw]).collect();
        if is_alike && plain.len() == traced.len() {
            let (places, unasked) = places(&plain);
            versions.crossings = places.into_iter().map(|place| self.crossing(function, place)).collect();
            versions.unasked = unasked;
        } else {
            versions.unasked = Some(Unasked::Values);
            // The traced ones are all that anybody asks for.
            versions.blocks = traced.iter().map(|block| [block.raw; 2]).collect();
        }
        Some(versions)
    }

    /// Makes the blocks on the ways, which lead nowhere yet.
    fn crossing(&self, function: Function<'_>, place: Place) -> Crossing {
        let api = self.api();
        let ways = [c"untraced", c"traced"].map(|name| {
            // SAFETY: a function of this module; the builder is ours.
            unsafe {
                let block = (api.LLVMAppendBasicBlockInContext)(self.context, function.value().raw, name.as_ptr());
                let builder = (api.LLVMCreateBuilderInContext)(self.context);
                (api.LLVMPositionBuilderAtEnd)(builder, block);
                (api.LLVMBuildUnreachable)(builder);
                (api.LLVMDisposeBuilder)(builder);
                block
            }
        });
        Crossing { place, ways }
    }
}

impl Versions {
    /// The blocks of the traced version, the first first.
    pub fn traced_blocks<'m>(&self, module: &'m Module<'_>) -> Vec<Block<'m>> {
        self.blocks.iter().map(|[_, traced]| Block { module, raw: *traced }).collect()
    }

    /// The blocks of the untraced version.
    pub fn plain_blocks<'m>(&self, module: &'m Module<'_>) -> Vec<Block<'m>> {
        self.plain.iter().map(|raw| Block { module, raw: *raw }).collect()
    }

    /// Why there are loops in which nobody asks the gate.
    pub fn unasked(&self) -> Option<Unasked> {
        self.unasked
    }

    /// The ways between them.
    pub fn ways<'m>(&self, module: &'m Module<'_>) -> Vec<Ways<'m>> {
        let end = |raw| Block { module, raw }.instructions().last().copied();
        let ways = self.crossings.iter().filter_map(|crossing| {
            let [_, header] = self.blocks[crossing.place.header];
            let [from_traced, to_traced] = crossing.ways;
            Some(Ways {
                header: Block { module, raw: header }.first_behind_phis()?,
                to_traced: end(to_traced)?,
                from_traced: end(from_traced)?,
            })
        });
        ways.collect()
    }

    /// Pairs what is in these blocks; whether they are alike.
    fn pair(&mut self, entry: Block<'_>, plain: &[Block<'_>], traced: &[Block<'_>]) -> bool {
        let mut other = HashMap::new();
        for (one, two) in plain.iter().zip(traced) {
            let (one, two) = (one.instructions(), two.instructions());
            if one.len() != two.len() {
                return false;
            }
            for (one, two) in one.into_iter().zip(two) {
                other.insert(one.raw, two.raw);
                self.values.push([one.raw, two.raw]);
            }
        }
        let number = |blocks: &[Block<'_>]| -> HashMap<_, _> {
            blocks.iter().enumerate().map(|(number, block)| (block.raw, number)).collect()
        };
        let numbers = [number(plain), number(traced)];
        let is_same_way = |one: &Block<'_>, two: &Block<'_>| numbers[0].get(&one.raw) == numbers[1].get(&two.raw);
        let mut variables = HashMap::new();
        let mut is_same = |one: Value<'_>, two: Value<'_>| {
            if one.raw == two.raw || other.get(&one.raw) == Some(&two.raw) {
                return true;
            }
            if one.r#type().kind() == TypeKind::Metadata || one.is_block() && two.is_block() {
                return true;
            }
            let is_variable = |value: Value<'_>| value.opcode() == Some(Opcode::Alloca) && value.block() == Some(entry);
            let is_pair = is_variable(one) && is_variable(two);
            is_pair && *variables.entry(one.raw).or_insert(two.raw) == two.raw
        };
        let is_alike = plain.iter().zip(traced).all(|(one, two)| {
            let (ways_one, ways_two) = (one.successors(), two.successors());
            ways_one.len() == ways_two.len()
                && ways_one.iter().zip(&ways_two).all(|(one, two)| is_same_way(one, two))
                && one.instructions().into_iter().zip(two.instructions()).all(|(one, two)| {
                    let count = one.operands();
                    one.does_as(two)
                        && one.r#type() == two.r#type()
                        && count == two.operands()
                        && (0..count).all(|number| match (one.operand(number), two.operand(number)) {
                            (Some(one), Some(two)) => is_same(one, two),
                            (one, two) => one.is_none() && two.is_none(),
                        })
                })
        });
        let distinct: HashSet<_> = variables.values().collect();
        let is_one_to_one = distinct.len() == variables.len();
        self.variables = variables.into_iter().map(|(one, two)| [one, two]).collect();
        is_alike && is_one_to_one
    }
}
