//! Loops as a person knows them: by function and source lines.
//!
//! A loop belongs to the innermost function of the inline stacks that all of its instructions share: code inlined into
//! its body does not make it that code's loop, but a loop that was inlined as a whole is the inlined function's. Where
//! that is library code (`core::iter::…::fold`, `std::accumulate`), the program's line that called for it is told.
//! Its lines are the first and last that its instructions have *in that function*: the line of a call, not of what
//! was inlined there. A line of which no statement begins in the loop, by the line table, is that of code moved in from
//! elsewhere: it does not count.
//!
//! Compilers make several loops of one: vectorized, peeled and remainder loops, a copy for each outcome of a condition
//! (unswitching), one for each part of the body (distribution), clones of the function (`.constprop`). Loops of one
//! source loop have overlapping lines, and different loops with the same parent have not: so loops are joined that
//! have the same function, inline stack and parent, and lines that overlap; on a single line, columns that overlap. What a
//! macro makes on one line has the macro's column, and is one loop.

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::Svma;

use super::flow::Flow;
use super::nest::Nest;
use super::no_return::NoReturn;
use super::order::StepOrder;
use super::runtime_calls::RuntimeCalls;
use super::steps::{self, Callees};
use crate::data::wrappers::{Verdict, WrapperRules};
use crate::module::debug::Statement;
use crate::module::{Module, demangle};
use crate::tables::{Loop, LoopId, ModuleId, may_overlap};

/// All loops found so far, joined.
#[derive(Default)]
pub struct Loops {
    rows: Vec<Loop>,
    functions: FxHashMap<(ModuleId, Svma), Option<FunctionLoops>>,
    /// Rows by what must be the same for loops to be joined.
    joined: FxHashMap<JoinKey, Vec<LoopId>>,
    /// Linked name of the function that owns a loop, and how deep it was inlined.
    owners: FxHashMap<LoopId, (Option<String>, usize)>,
    /// Those with an instruction of their own that [is chased](Self::is_chased).
    chases: FxHashSet<LoopId>,
    no_return: NoReturn,
    callees: Callees,
    rules: WrapperRules,
}

/// Loops with different keys are different, whatever their lines.
#[derive(PartialEq, Eq, Hash)]
struct JoinKey {
    module: ModuleId,
    parent: Option<LoopId>,
    /// Linked name of the function without the marks of clones.
    function: String,
    /// From the function inwards to what owns the loop: (name, line and column of the call).
    inlined: Vec<(String, u32, u32)>,
    file: String,
}

/// The loops of a function.
#[derive(Default)]
struct FunctionLoops {
    /// Where blocks begin, in order, and the innermost loop of each.
    blocks: Vec<(Svma, Option<LoopId>)>,
    /// See [`Loops::is_chased`].
    chased: FxHashSet<Svma>,
}

impl FunctionLoops {
    fn innermost(&self, svma: Svma) -> Option<LoopId> {
        let after = self.blocks.partition_point(|&(start, _)| start <= svma);
        self.blocks[after.checked_sub(1)?].1
    }
}

impl Loops {
    /// No loop yet. `rules` tell library code.
    pub fn new(rules: WrapperRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The innermost loop of an instruction. The first question about a function looks at all of it.
    pub fn innermost(&mut self, module: &Module<'_>, id: ModuleId, svma: Svma) -> Option<LoopId> {
        self.function(module, id, svma)?.innermost(svma)
    }

    /// Whether the address of an instruction's memory operand comes from what an earlier turn of its innermost loop loaded.
    pub fn is_chased(&mut self, module: &Module<'_>, id: ModuleId, svma: Svma) -> bool {
        self.function(module, id, svma).is_some_and(|loops| loops.chased.contains(&svma))
    }

    /// What binds the steps of a loop and of the one around it to their order.
    pub(super) fn step_order(&self, innermost: LoopId) -> StepOrder {
        let inner = &self.rows[innermost.index()];
        let outer = inner.parent.map(|parent| &self.rows[parent.index()]);
        StepOrder {
            // What the inner loop calls the outer one calls.
            call: inner.call.clone().or_else(|| outer?.call.clone()),
            leaves_early: inner.leaves_early || outer.is_some_and(|outer| outer.leaves_early),
            is_chase: self.chases.contains(&innermost),
        }
    }

    fn function(&mut self, module: &Module<'_>, id: ModuleId, svma: Svma) -> Option<&FunctionLoops> {
        let (start, end) = module.function_bounds(svma)?;
        if !self.functions.contains_key(&(id, start)) {
            let loops = self.read_function(module, id, start, end);
            self.functions.insert((id, start), loops);
        }
        self.functions.get(&(id, start))?.as_ref()
    }

    /// The table.
    pub fn into_rows(self) -> Vec<Loop> {
        self.rows
    }

    fn read_function(&mut self, module: &Module<'_>, id: ModuleId, start: Svma, end: Svma) -> Option<FunctionLoops> {
        let flow = Flow::of_function(module, &self.no_return, start, end)?;
        let nest = Nest::new(&flow.successors, &flow.roots);
        if nest.loops.is_empty() {
            return Some(FunctionLoops::default());
        }
        let name = module.linked_name(start);
        let runtime = RuntimeCalls::of(module, &flow);
        let mut stacks = InlineStacks::default();
        let places: Vec<BlockPlaces> = (0..flow.blocks.len())
            .map(|block| match nest.innermost[block] {
                Some(_) => stacks.of_block(module, &flow, block),
                None => BlockPlaces::default(),
            })
            .collect();
        let mut ids: Vec<LoopId> = Vec::with_capacity(nest.loops.len());
        let mut chased = FxHashSet::default();
        for (index, found) in nest.loops.iter().enumerate() {
            let body: Vec<usize> = (0..flow.blocks.len())
                .filter(|&block| nest.innermost[block].is_some_and(|inner| nest.is_inside(inner, index)))
                .collect();
            // A dispatch that several jumps share is no code: the first case then stands for it.
            let header =
                if found.header < flow.blocks.len() { found.header } else { body.first().copied().unwrap_or(0) };
            let end_of = |block: usize| flow.instructions_of(block).last().map_or(0, |last| last.next_ip());
            let start = body.iter().map(|&block| flow.address_of(block)).min().unwrap_or(flow.address_of(header));
            let end = Svma(body.iter().map(|&block| end_of(block)).max().unwrap_or(start.0));
            let is_its_own = |svma: &Svma| {
                let after = flow.blocks.partition_point(|block| flow.instructions[block.first].ip() <= svma.0);
                after.checked_sub(1).is_some_and(|block| nest.innermost[block] == Some(index))
            };
            let own_chased: Vec<Svma> = steps::chased(&flow, &runtime, &body).into_iter().filter(is_its_own).collect();
            let call = self.callees.first_with_effects(module, &self.no_return, (&flow, &runtime), &body);
            // Around another loop, instrumented code has parts of copies whose ends can't be told from the loop's own.
            let is_read = runtime.is_empty() || nest.loops.iter().all(|of| of.parent != Some(index));
            let leaves_early = is_read && steps::leaves_early(module, (&flow, &runtime), &body);
            let body: Vec<&BlockPlaces> = body.into_iter().map(|block| &places[block]).collect();
            let parent = found.parent.map(|parent| ids[parent]);
            let row = Loop {
                module: id,
                header: flow.address_of(header),
                start,
                end,
                function: demangle(&name),
                file: None,
                first_line: 0,
                last_line: 0,
                columns: None,
                parent,
                depth: parent.map_or(0, |parent| self.rows[parent.index()].depth) + 1,
                irreducible: found.irreducible,
                call,
                leaves_early,
            };
            let joined = match stacks.extent(&body, &self.rules, module.file_name()) {
                Some(extent) => self.join(row, &name, extent),
                None => self.push(row),
            };
            ids.push(joined);
            if !own_chased.is_empty() {
                self.chases.insert(joined);
            }
            chased.extend(own_chased);
        }
        let innermost = nest.innermost.iter().map(|found| found.map(|index| ids[index]));
        let blocks = (0..flow.blocks.len()).map(|block| flow.address_of(block)).zip(innermost).collect();
        Some(FunctionLoops { blocks, chased })
    }

    fn push(&mut self, row: Loop) -> LoopId {
        self.rows.push(row);
        LoopId(self.rows.len() as u32 - 1)
    }

    /// Joins a loop with one that is the same in the source, else enters it.
    fn join(&mut self, row: Loop, function: &str, extent: Extent) -> LoopId {
        if let Some(parent) = row.parent
            && self.is_inlined_recursion(parent, &extent)
        {
            return self.widen(parent, &row, &extent);
        }
        let key = JoinKey {
            module: row.module,
            parent: row.parent,
            function: without_clone_marks(function).to_owned(),
            inlined: extent.inlined.clone(),
            file: extent.file.clone(),
        };
        let known = self.joined.entry(key).or_default();
        let same = known.iter().copied().find(|known| {
            let other = &self.rows[known.index()];
            other.first_line <= extent.last_line
                && extent.first_line <= other.last_line
                && may_overlap(other.columns, extent.columns)
        });
        if let Some(same) = same {
            return self.widen(same, &row, &extent);
        }
        let id = LoopId(self.rows.len() as u32);
        known.push(id);
        self.owners.insert(id, (extent.function.clone(), extent.inlined.len()));
        self.push(Loop {
            function: extent.function.map_or(row.function, |name| demangle(&name)),
            file: Some(extent.file),
            first_line: extent.first_line,
            last_line: extent.last_line,
            columns: extent.columns,
            ..row
        })
    }

    fn widen(&mut self, same: LoopId, row: &Loop, extent: &Extent) -> LoopId {
        let known = &mut self.rows[same.index()];
        known.header = known.header.min(row.header);
        known.start = known.start.min(row.start);
        known.end = known.end.max(row.end);
        known.first_line = known.first_line.min(extent.first_line);
        known.last_line = known.last_line.max(extent.last_line);
        // Those of one line: where it now has several, or one without, there are none.
        known.columns = known
            .columns
            .zip(extent.columns)
            .filter(|_| known.first_line == known.last_line)
            .map(|(known, more)| (known.0.min(more.0), known.1.max(more.1)));
        known.irreducible |= row.irreducible;
        known.leaves_early |= row.leaves_early;
        if known.call.is_none() {
            known.call.clone_from(&row.call);
        }
        same
    }

    /// Whether a loop is another copy of the loop around it: of the same function, inlined deeper, on its lines.
    fn is_inlined_recursion(&self, parent: LoopId, extent: &Extent) -> bool {
        let known = &self.rows[parent.index()];
        self.owners.get(&parent).is_some_and(|(function, depth)| {
            function.is_some() && *function == extent.function && extent.inlined.len() > *depth
        }) && known.file.as_ref() == Some(&extent.file)
            && known.first_line <= extent.last_line
            && extent.first_line <= known.last_line
    }
}

/// A function's name without what compilers append to clones of it: `.constprop.0`, `.isra.0`, `.part.0`, `.cold`.
fn without_clone_marks(name: &str) -> &str {
    let marks = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm."];
    let end = marks.iter().filter_map(|mark| name.find(mark)).min().unwrap_or(name.len());
    &name[..end]
}

/// Where a loop is in the source.
struct Extent {
    /// Linked name of the function that owns it, where debug information names it.
    function: Option<String>,
    inlined: Vec<(String, u32, u32)>,
    file: String,
    first_line: u32,
    last_line: u32,
    /// Of a single line, where known.
    columns: Option<(u32, u32)>,
}

/// A function where it was inlined. Number 0 is the function that the code really belongs to.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Inlined {
    /// Number of the one that it was inlined into.
    into: u32,
    name: Option<String>,
    line: u32,
    column: u32,
}

/// Where one instruction is, from the outermost function inwards.
struct Place {
    levels: Vec<Level>,
}

/// The places of a block's instructions, and the statements that begin there.
#[derive(Default)]
struct BlockPlaces {
    places: Vec<Place>,
    statements: Vec<Statement>,
}

struct Level {
    /// Number of the inlined function.
    function: u32,
    /// Number of the file, line in it, and column in that; 0 is none.
    file: u32,
    line: u32,
    column: u32,
}

/// The inline stacks of a function's instructions, with names and files numbered.
#[derive(Default)]
struct InlineStacks {
    functions: Vec<Inlined>,
    numbers: FxHashMap<Inlined, u32>,
    files: Vec<String>,
    file_numbers: FxHashMap<String, u32>,
}

impl InlineStacks {
    /// Places of a block's instructions; those without a line are left out.
    fn of_block(&mut self, module: &Module<'_>, flow: &Flow, block: usize) -> BlockPlaces {
        let Some(debug) = module.debug() else { return BlockPlaces::default() };
        let end = flow.instructions_of(block).last().map_or(0, |last| last.next_ip());
        let statements = debug.statements_in(flow.address_of(block), Svma(end));
        let mut places = Vec::new();
        for instruction in flow.instructions_of(block) {
            // Innermost first: (name, file, line, column).
            let mut stack: Vec<(Option<String>, Option<u32>, u32, u32)> = Vec::new();
            debug.for_each_frame(Svma(instruction.ip()), |level| {
                let file = level.file.map(|file| self.file(file));
                let line = level.line.unwrap_or(0);
                stack.push((level.name.map(str::to_owned), file, line, level.column.unwrap_or(0)));
            });
            if stack.first().is_none_or(|innermost| innermost.1.is_none() || innermost.2 == 0) {
                continue;
            }
            let mut levels: Vec<Level> = Vec::with_capacity(stack.len());
            let mut call = (0, 0);
            for (name, file, line, column) in stack.into_iter().rev() {
                let into = levels.last().map_or(u32::MAX, |level| level.function);
                let function = self.number(Inlined { into, name, line: call.0, column: call.1 });
                levels.push(Level { function, file: file.unwrap_or(u32::MAX), line, column });
                call = (line, column);
            }
            places.push(Place { levels });
        }
        BlockPlaces { places, statements }
    }

    fn file(&mut self, file: &str) -> u32 {
        if let Some(&number) = self.file_numbers.get(file) {
            return number;
        }
        let number = self.files.len() as u32;
        self.files.push(file.to_owned());
        self.file_numbers.insert(file.to_owned(), number);
        number
    }

    fn number(&mut self, inlined: Inlined) -> u32 {
        let next = self.functions.len() as u32;
        *self.numbers.entry(inlined).or_insert_with_key(|inlined| {
            self.functions.push(inlined.clone());
            next
        })
    }

    /// The function that owns a loop with this body, and the lines of the body in it.
    fn extent(&self, blocks: &[&BlockPlaces], rules: &WrapperRules, module: &str) -> Option<Extent> {
        let body: Vec<&Place> = blocks.iter().flat_map(|block| &block.places).collect();
        let statements: FxHashSet<u32> =
            blocks.iter().flat_map(|block| &block.statements).map(|statement| statement.line).collect();
        let first = body.first()?;
        let shared = |depth: usize| {
            body.iter()
                .all(|place| place.levels.get(depth).map(|level| level.function) == Some(first.levels[depth].function))
        };
        let mut depth = (0..first.levels.len()).take_while(|&depth| shared(depth)).last()?;
        let is_library = |depth: usize| {
            let level = &first.levels[depth];
            let name = self.functions[level.function as usize].name.as_deref();
            let source = self.files.get(level.file as usize).map(String::as_str);
            name.is_some_and(|name| rules.judge(&demangle(name), module, source) == Verdict::Library)
        };
        while depth > 0 && is_library(depth) {
            depth -= 1;
        }
        // One file: that of most instructions (a body may include another).
        let files = |is_counted: &dyn Fn(u32) -> bool| {
            let mut lines: FxHashMap<u32, (usize, u32, u32)> = FxHashMap::default();
            for place in &body {
                let level = &place.levels[depth];
                // The line of a call holds whatever was inlined there.
                let is_call = depth + 1 < place.levels.len();
                if level.line != 0 && (is_call || is_counted(level.line)) {
                    let (count, first, last) = lines.entry(level.file).or_insert((0, level.line, level.line));
                    *count += 1;
                    *first = level.line.min(*first);
                    *last = level.line.max(*last);
                }
            }
            lines.into_iter().max_by_key(|&(file, (count, ..))| (count, std::cmp::Reverse(file)))
        };
        let (file, (_, first_line, last_line)) =
            files(&|line| statements.contains(&line)).or_else(|| files(&|_| true))?;
        let columns = body.iter().map(|place| &place.levels[depth]).filter(|level| {
            first_line == last_line && (level.file, level.line) == (file, first_line) && level.column != 0
        });
        let columns = columns.map(|level| level.column).fold(None, |all, column| match all {
            None => Some((column, column)),
            Some((first, last)) => Some((column.min(first), column.max(last))),
        });
        let path = first.levels[..=depth].iter().map(|level| &self.functions[level.function as usize]);
        Some(Extent {
            function: path.clone().next_back()?.name.clone(),
            inlined: path
                .skip(1)
                .map(|level| (level.name.clone().unwrap_or_default(), level.line, level.column))
                .collect(),
            file: self.files.get(file as usize)?.clone(),
            first_line,
            last_line,
            columns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::without_clone_marks;

    #[test]
    fn clones_have_the_name_of_their_origin() {
        let cases = [
            ("match.constprop.0", "match"),
            ("match.isra.0.cold", "match"),
            ("match", "match"),
            (".hidden", ".hidden"),
        ];
        for (name, expected) in cases {
            assert_eq!(without_clone_marks(name), expected);
        }
    }
}
