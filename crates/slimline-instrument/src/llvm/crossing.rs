//! Has one version of a function go on in the other at headers of loops.
//!
//! The gate is asked in a block of its own before the header, which becomes the loop's. Its phis are the header's:
//!
//! ```text
//!   ask:     i = phi …, [traced i, untraced way]       the same in the traced version
//!            if (gate == 0) goto traced way
//!   header:  …
//!            goto ask
//! ```
//!
//! In short loops the gate is asked now and then only ([`Way`]):
//!
//! ```text
//!   ask:     if (gate == 0) goto traced way
//!   header:  left = phi [1024, before], [1024, ask], [left - 1, back]
//!            …
//!   back:    goto left - 1 ? header : ask
//! ```
//!
//! Then each value has two definitions, one in each version, and where both may reach, a phi joins them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::build::INTEGER_EQUAL;
use super::reaching::{Flow, Reaches};
use super::versions::{Crossing, Way};
use super::{Block, Function, Module, Opcode, Value, Versions, api};

/// How many times a short loop goes round before the gate is asked again: for a microsecond, or a hundred where each time
/// misses the caches.
const STRIP: u64 = 1024;

/// A crossing's block that asks the gate, with what came of the header's phis: in it, and for uses in the loop.
struct Asking {
    block: api::Block,
    /// In the order of the header's phis.
    phis: Vec<api::Value>,
    in_loop: Vec<api::Value>,
}

impl Module<'_> {
    /// Opens the ways between versions. Phis are made anew, which is why nobody may have handles.
    pub fn cross(&mut self, versions: Versions, gate: &std::ffi::CStr) {
        let Versions { function, blocks, mut values, variables, crossings, .. } = versions;
        if crossings.is_empty() {
            return;
        }
        for [one, other] in variables {
            // SAFETY: variables of this function's, which are alike; the other is not used any more.
            unsafe {
                (self.api().LLVMReplaceAllUsesWith)(other, one);
                (self.api().LLVMInstructionEraseFromParent)(other);
            }
        }
        let phis: HashSet<_> = crossings.iter().flat_map(|it| self.phis(blocks[it.place.header][0])).collect();
        values.retain(|[one, _]| !phis.contains(one));
        let numbers = [0, 1].map(|version| {
            blocks.iter().enumerate().map(|(number, pair)| (pair[version], number)).collect::<HashMap<_, _>>()
        });
        let mut asking = Vec::new();
        for crossing in &crossings {
            let [one, other] =
                [0, 1].map(|version| self.ask(crossing, version, function, gate, &blocks, &numbers[version]));
            for (way, from, to) in [(crossing.ways[1], &one, &other), (crossing.ways[0], &other, &one)] {
                self.lead(way, from, to);
            }
            values.extend(one.in_loop.iter().zip(&other.in_loop).map(|(one, other)| [*one, *other]));
            asking.extend([one.block, other.block]);
        }
        self.join(function, &values, &asking);
    }

    fn phis(&self, block: api::Block) -> Vec<api::Value> {
        let instructions = Block { module: self, raw: block }.instructions();
        let phis = instructions.into_iter().take_while(|value| value.opcode() == Some(Opcode::Phi));
        phis.map(|phi| phi.raw).collect()
    }

    /// Puts the block that asks the gate before the header.
    fn ask(
        &self,
        crossing: &Crossing,
        version: usize,
        function: api::Value,
        gate: &std::ffi::CStr,
        blocks: &[[api::Block; 2]],
        number: &HashMap<api::Block, usize>,
    ) -> Asking {
        let api = self.api();
        let place = &crossing.place;
        let header = blocks[place.header][version];
        let old = self.phis(header);
        // SAFETY: everything is of this function and of the types that the functions ask for; the builder is ours. Phis are
        // replaced by equal ones, of which nobody has handles, as the caller has the module by `&mut`.
        unsafe {
            let block = |name: &std::ffi::CStr| {
                let block = (api.LLVMAppendBasicBlockInContext)(self.context, function, name.as_ptr());
                (api.LLVMMoveBasicBlockBefore)(block, header);
                block
            };
            let ask = block(c"ask");
            let back = place.has(Way::Counts).then(|| block(c"back"));
            let has_own = back.is_some() || place.has(Way::Passes);
            // Before anything leads there but the program's own jumps.
            let jumps = self.jumps_to(header);
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            let ways: Vec<_> = jumps
                .into_iter()
                .map(|(jump, successor)| {
                    let from = (api.LLVMGetInstructionParent)(jump);
                    (jump, successor, from, number.get(&from).map_or(Way::Asks, |from| place.way(*from)))
                })
                .collect();
            let way: HashMap<_, _> = ways.iter().map(|(_, _, from, way)| (*from, *way)).collect();
            let first = Block { module: self, raw: header }.first_behind_phis();
            let location = first.map(|first| (api.LLVMInstructionGetDebugLoc)(first.raw));
            (api.LLVMSetCurrentDebugLocation2)(builder, location.unwrap_or(std::ptr::null_mut()));
            let mut phis = Vec::new();
            let mut in_loop = Vec::new();
            for &phi in &old {
                let r#type = (api.LLVMTypeOf)(phi);
                let new = |at: api::Block| {
                    (api.LLVMPositionBuilderAtEnd)(builder, at);
                    (api.LLVMBuildPhi)(builder, r#type, c"".as_ptr())
                };
                let asked = new(ask);
                let again = back.map(|back| (new(back), back));
                let used = if has_own {
                    (api.LLVMPositionBuilderBefore)(builder, old[0]);
                    let used = (api.LLVMBuildPhi)(builder, r#type, c"".as_ptr());
                    self.add_incoming(used, asked, ask);
                    used
                } else {
                    asked
                };
                if let Some((again, back)) = again {
                    self.add_incoming(asked, again, back);
                    self.add_incoming(used, again, back);
                }
                for number in 0..(api.LLVMCountIncoming)(phi) {
                    let from = (api.LLVMGetIncomingBlock)(phi, number);
                    let to = match (way.get(&from), again) {
                        (Some(Way::Passes), _) => used,
                        (Some(Way::Counts), Some((again, _))) => again,
                        _ => asked,
                    };
                    self.add_incoming(to, (api.LLVMGetIncomingValue)(phi, number), from);
                }
                phis.push(asked);
                in_loop.push(used);
            }
            for &(jump, successor, _, way) in &ways {
                match (way, back) {
                    (Way::Passes, _) => {}
                    (Way::Counts, Some(back)) => (api.LLVMSetSuccessor)(jump, successor, back),
                    _ => (api.LLVMSetSuccessor)(jump, successor, ask),
                }
            }
            // The old ones stay until all are made: they use each other.
            for (&old, &new) in old.iter().zip(&in_loop) {
                (api.LLVMReplaceAllUsesWith)(old, new);
            }
            if let Some(back) = back {
                let count = self.constant(32, STRIP);
                self.position_at_beginning(builder, header);
                let left = (api.LLVMBuildPhi)(builder, self.integer(32), c"".as_ptr());
                (api.LLVMPositionBuilderAtEnd)(builder, back);
                let less = (api.LLVMBuildAdd)(builder, left, self.constant(32, u64::from(u32::MAX)), c"".as_ptr());
                let is_over = (api.LLVMBuildICmp)(builder, INTEGER_EQUAL, less, self.constant(32, 0), c"".as_ptr());
                let branch = (api.LLVMBuildCondBr)(builder, is_over, ask, header);
                self.mark_unlikely(branch);
                self.add_incoming(left, count, ask);
                self.add_incoming(left, less, back);
                let passes = ways.iter().filter(|(_, _, _, way)| *way == Way::Passes);
                passes.for_each(|(_, _, from, _)| self.add_incoming(left, count, *from));
            }
            for &phi in &old {
                (api.LLVMInstructionEraseFromParent)(phi);
            }
            (api.LLVMPositionBuilderAtEnd)(builder, ask);
            let is_open = self.is_open(builder, self.address_anew(builder, gate));
            let [to_plain, to_traced] = crossing.ways;
            if version == 0 {
                let branch = (api.LLVMBuildCondBr)(builder, is_open, to_traced, header);
                self.mark_unlikely(branch);
            } else {
                let is_closed = (api.LLVMBuildNot)(builder, is_open, c"".as_ptr());
                let branch = (api.LLVMBuildCondBr)(builder, is_closed, to_plain, header);
                self.mark_unlikely(branch);
            }
            (api.LLVMDisposeBuilder)(builder);
            Asking { block: ask, phis, in_loop }
        }
    }

    /// The gate's address, from the object's table. Code generation would keep it in a register from one time to the next, which the
    /// loop needs more; so it does not know what this is.
    ///
    /// # Safety
    ///
    /// A builder that stands somewhere.
    unsafe fn address_anew(&self, builder: *mut api::BuilderRaw, gate: &std::ffi::CStr) -> api::Value {
        const ATT: i32 = 0;
        let api = self.api();
        let text = format!("movq {}@GOTPCREL(%rip), $0", gate.to_string_lossy());
        let constraints = "=r";
        // SAFETY: promised by the caller; assembly that gives a pointer and takes nothing.
        unsafe {
            let r#type = (api.LLVMFunctionType)(self.pointer(), std::ptr::null_mut(), 0, 0);
            let (text, bytes) = (text.as_ptr().cast(), text.len());
            let (wants, wants_bytes) = (constraints.as_ptr().cast(), constraints.len());
            let assembly = (api.LLVMGetInlineAsm)(r#type, text, bytes, wants, wants_bytes, 1, 0, ATT, 0);
            (api.LLVMBuildCall2)(builder, r#type, assembly, std::ptr::null_mut(), 0, c"".as_ptr())
        }
    }

    /// Jumps to this block, with the numbers of the ways there.
    fn jumps_to(&self, block: api::Block) -> Vec<(api::Value, u32)> {
        let api = self.api();
        // SAFETY: a block; what uses it and ends a block is a jump, and no more of its ways are asked for than it has.
        unsafe {
            let users = Value::new(self, (api.LLVMBasicBlockAsValue)(block)).users();
            let jumps: BTreeSet<_> = users.iter().filter(|user| user.opcode().is_some()).map(|user| user.raw).collect();
            let ways = jumps.into_iter().flat_map(|jump| (0..(api.LLVMGetNumSuccessors)(jump)).map(move |n| (jump, n)));
            ways.filter(|(jump, number)| (api.LLVMGetSuccessor)(*jump, *number) == block).collect()
        }
    }

    /// Has a builder stand where phis do, before what is told of variables there.
    ///
    /// # Safety
    ///
    /// A builder of ours, and a block with an instruction.
    unsafe fn position_at_beginning(&self, builder: *mut api::BuilderRaw, block: api::Block) {
        let api = self.api();
        // SAFETY: promised by the caller.
        unsafe {
            let first = (api.LLVMGetFirstInstruction)(block);
            (api.LLVMPositionBuilderBeforeInstrAndDbgRecords)(builder, first);
        }
    }

    /// Has a way lead from where one version asks to where the other does.
    fn lead(&self, way: api::Block, from: &Asking, to: &Asking) {
        let api = self.api();
        // SAFETY: blocks and phis of one function; the way ends where it leads nowhere. The builder is ours.
        unsafe {
            (api.LLVMInstructionEraseFromParent)((api.LLVMGetBasicBlockTerminator)(way));
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            (api.LLVMPositionBuilderAtEnd)(builder, way);
            (api.LLVMBuildBr)(builder, to.block);
            (api.LLVMDisposeBuilder)(builder);
        }
        for (phi, value) in to.phis.iter().zip(&from.phis) {
            self.add_incoming(*phi, *value, way);
        }
    }

    fn add_incoming(&self, phi: api::Value, value: api::Value, block: api::Block) {
        // SAFETY: a phi, and a value of its type that comes from this block; one of each.
        unsafe { (self.api().LLVMAddIncoming)(phi, [value].as_mut_ptr(), [block].as_mut_ptr(), 1) };
    }

    /// Puts phis where both definitions of a value may reach, and has uses refer to what reaches them.
    fn join(&self, function: api::Value, values: &[[api::Value; 2]], asking: &[api::Block]) {
        let api = self.api();
        let blocks = Function(Value::new(self, function)).blocks();
        let number: HashMap<_, _> = blocks.iter().enumerate().map(|(number, block)| (block.raw, number)).collect();
        let successors: Vec<Vec<usize>> =
            blocks.iter().map(|block| block.successors().iter().map(|to| number[&to.raw]).collect()).collect();
        let flow = Flow::new(&successors);
        let asking: Vec<_> = asking.iter().map(|block| number[block]).collect();
        // SAFETY: values of this module that are instructions in blocks; their uses are operands of instructions of the function.
        unsafe {
            let builder = (api.LLVMCreateBuilderInContext)(self.context);
            for &pair in values {
                let made = pair.map(|value| number[&(api.LLVMGetInstructionParent)(value)]);
                let uses: Vec<_> = pair
                    .iter()
                    .zip(made)
                    .flat_map(|(value, made)| self.uses_elsewhere(*value, blocks[made].raw))
                    .collect();
                if uses.is_empty() {
                    continue;
                }
                let lives = flow.lives(&made, uses.iter().map(|it| number[&it.block]));
                if !asking.iter().any(|block| lives.contains(block)) {
                    continue;
                }
                let reaching = flow.reaching(&made, &lives);
                let mut phis = BTreeMap::new();
                for (&block, reaches) in &reaching {
                    if *reaches == Reaches::Joined(block) {
                        self.position_at_beginning(builder, blocks[block].raw);
                        let phi = (api.LLVMBuildPhi)(builder, (api.LLVMTypeOf)(pair[0]), c"".as_ptr());
                        phis.insert(block, phi);
                    }
                }
                let value = |reaches: Option<Reaches>| match reaches {
                    Some(Reaches::Joined(block)) => phis[&block],
                    Some(Reaches::Made(block)) if block == made[0] => pair[0],
                    Some(Reaches::Made(_)) => pair[1],
                    // All ways to a use lead through a definition.
                    None => (api.LLVMGetPoison)((api.LLVMTypeOf)(pair[0])),
                };
                for (&block, &phi) in &phis {
                    for &from in &flow.before[block] {
                        self.add_incoming(phi, value(Flow::at_end(from, &made, &reaching)), blocks[from].raw);
                    }
                }
                for Use { user, operand, block } in uses {
                    let block = number[&block];
                    let is_phi = Value::new(self, user).opcode() == Some(Opcode::Phi);
                    let reaches =
                        if is_phi { Flow::at_end(block, &made, &reaching) } else { reaching.get(&block).copied() };
                    (api.LLVMSetOperand)(user, operand, value(reaches));
                }
            }
            (api.LLVMDisposeBuilder)(builder);
        }
    }

    /// Uses in other blocks than this, in which it is made. That of a phi is where it comes from.
    fn uses_elsewhere(&self, value: api::Value, made: api::Block) -> Vec<Use> {
        let mut users: Vec<_> = Value::new(self, value).users().into_iter().map(|user| user.raw).collect();
        users.sort_unstable();
        users.dedup();
        let mut uses = Vec::new();
        for user in users {
            // SAFETY: a user of an instruction is one; a phi has as many operands as ways into it.
            unsafe {
                let api = self.api();
                let parent = (api.LLVMGetInstructionParent)(user);
                let is_phi = Value::new(self, user).opcode() == Some(Opcode::Phi);
                for operand in 0..(api.LLVMGetNumOperands)(user).max(0) as u32 {
                    if (api.LLVMGetOperand)(user, operand) == value {
                        let block = if is_phi { (api.LLVMGetIncomingBlock)(user, operand) } else { parent };
                        uses.push(Use { user, operand, block });
                    }
                }
            }
        }
        uses.retain(|it| it.block != made);
        uses
    }
}

/// An operand of an instruction.
struct Use {
    user: api::Value,
    operand: u32,
    /// Where the value must have arrived.
    block: api::Block,
}
