//! What addresses of loads are computed of: other loads, so that who knows what these will load knows the addresses beforehand.
//!
//! ```text
//!   a[b[i]]                      of b[i], which goes by a counter
//!   table[hash(keys[i]) & mask]  of keys[i], if hash is inlined
//!   node->key, node = node->next of node->next, a step before: it is carried
//! ```
//!
//! And how many instructions loops have, which says how many steps of one a core has under way at a time, and which loops they are in.
//!
//! What is computed outside the load's innermost loop stays as it is in it. What another function returns, or one of several ways to a place
//! leads to, nobody computes beforehand.

use std::collections::{HashMap, HashSet};

use slimline_trace::stream::sites::{Body, LoadedAddress};

use super::touch::{Attributes, touches_memory};
use crate::llvm::{Block, BlocksOfLoop, BodyBlocks, Function, Nesting, Opcode, TypeKind, Value};

/// Most values that an address is followed through.
const MOST_VALUES: usize = 64;
/// Most loads that it is computed of.
const MOST_LOADS: usize = 4;
/// Most sums between two values of a counter.
const MOST_SUMS: usize = 4;

/// Loads and stores of a function.
pub(super) struct Addresses<'a, 'm> {
    blocks: &'a [Block<'m>],
    nesting: Nesting<'m>,
    attributes: &'a Attributes,
    /// And their sites.
    accesses: HashMap<Value<'m>, u32>,
    /// What is told of as well.
    others: HashSet<Value<'m>>,
}

/// What an address is computed of.
struct Followed<'a, 'm> {
    within: &'a BlocksOfLoop<'m>,
    attributes: &'a Attributes,
    seen: HashSet<Value<'m>>,
    loads: Vec<Value<'m>>,
    is_carried: bool,
}

impl<'a, 'm> Addresses<'a, 'm> {
    /// Of a function with these blocks, its entry first.
    pub(super) fn of(
        blocks: &'a [Block<'m>],
        attributes: &'a Attributes,
        (accesses, others): (Vec<(Value<'m>, u32)>, Vec<Value<'m>>),
    ) -> Self {
        let (accesses, others) = (accesses.into_iter().collect(), others.into_iter().collect());
        Self { blocks, nesting: Nesting::of(blocks), attributes, accesses, others }
    }

    /// All that is known of loads, by site.
    pub(super) fn loaded(&self) -> Vec<LoadedAddress> {
        let loads = self.accesses.iter().filter(|(access, _)| access.opcode() == Some(Opcode::Load));
        let mut all: Vec<LoadedAddress> = loads.filter_map(|(load, site)| self.one(*load, *site)).collect();
        all.sort_unstable_by_key(|address| address.site);
        all
    }

    /// What steps of loops, and the function around them, are made of. A loop without accesses is within a step, with as many as it has by constants
    /// or as if it had one.
    #[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
    pub(super) fn bodies(&self) -> Vec<Body> {
        let sites = |block: &Block<'m>| {
            block.instructions().iter().filter_map(|it| self.accesses.get(it).copied()).collect::<Vec<_>>()
        };
        // What is told of otherwise, as atomic accesses and copies of memory, has what is usual with it: nothing of that is another loop's.
        let is_told = |it: Value<'m>| self.accesses.contains_key(&it) || self.others.contains(&it);
        let with_sites: HashSet<Block<'m>> =
            self.blocks.iter().copied().filter(|block| block.instructions().into_iter().any(is_told)).collect();
        let instructions = |(block, times): &(Block<'m>, u64)| {
            let once: u64 = block.instructions().into_iter().map(Value::instructions).sum();
            once.saturating_mul(*times)
        };
        let mut bodies = Vec::new();
        // By body: which one that has accesses of its own, or the next one around it that has.
        let mut numbers: Vec<Option<u32>> = Vec::new();
        for BodyBlocks { blocks, around } in self.nesting.bodies(self.blocks, |block| with_sites.contains(&block)) {
            let is_loop = around.is_some();
            let around = around.and_then(|around| numbers[around]);
            let sites: Vec<u32> = blocks.iter().flat_map(|(block, _)| sites(block)).collect();
            if sites.is_empty() {
                numbers.push(around);
                continue;
            }
            numbers.push(Some(bodies.len() as u32));
            let instructions = blocks.iter().map(instructions).fold(0, u64::saturating_add);
            let instructions = u32::try_from(instructions).unwrap_or(u32::MAX);
            bodies.push(Body { instructions, sites, around, is_loop });
        }
        bodies
    }

    fn one(&self, load: Value<'m>, site: u32) -> Option<LoadedAddress> {
        let leads_on = load.r#type().kind() == TypeKind::Pointer && leads_on(load, true);
        let computed = self.computed(load).unwrap_or_default();
        (leads_on || !computed.loads.is_empty()).then_some(LoadedAddress { site, leads_on, ..computed })
    }

    /// The sites that a load's address is computed of, whether in a step before, and by how many instructions.
    fn computed(&self, load: Value<'m>) -> Option<LoadedAddress> {
        let within = self.nesting.innermost(load.block()?)?;
        let (seen, loads) = Default::default();
        let mut followed = Followed { within, attributes: self.attributes, seen, loads, is_carried: false };
        let is_computed = followed.is_computed(load.operand(0)?);
        let sites: Option<Vec<u32>> = followed.loads.iter().map(|load| self.accesses.get(load).copied()).collect();
        let loads = sites.filter(|sites| is_computed && sites.len() <= MOST_LOADS)?;
        // All that it is computed by but other loads and phis: also what is called, which is an instruction or two.
        let computed = followed.seen.iter().filter(|of| of.opcode() != Some(Opcode::Load));
        let instructions = computed.map(|of| of.instructions()).sum::<u64>() as u32;
        Some(LoadedAddress { loads, is_carried: followed.is_carried, instructions, ..LoadedAddress::default() })
    }
}

impl<'m> Followed<'_, 'm> {
    /// Whether a value is computed of loads, of what stays as it is, and of counters only; takes in which loads.
    fn is_computed(&mut self, value: Value<'m>) -> bool {
        if !self.within.computes(value) || !self.seen.insert(value) {
            return true;
        }
        if self.seen.len() > MOST_VALUES {
            return false;
        }
        match value.opcode() {
            Some(Opcode::Load) => {
                self.loads.push(value);
                !value.is_volatile() && !value.is_atomic()
            }
            Some(Opcode::Phi) if self.within.begins_with(value) => {
                if value.incoming().iter().all(|next| self.counts_up(*next, value, MOST_SUMS)) {
                    return true;
                }
                // A chase goes through a load whose own address is of it; what else goes on from step to step, as a hash does, nobody knows beforehand.
                self.is_carried = true;
                value.incoming().iter().all(|next| self.is_computed(*next))
                    && self.loads.iter().any(|load| self.leads_back(*load, value))
            }
            // Which way was gone is no matter where that was a step before.
            Some(Opcode::Phi) if self.is_carried => value.incoming().iter().all(|next| self.is_computed(*next)),
            Some(Opcode::Call) => {
                let computes = |called: &Function<'m>| {
                    called.value().name().starts_with("llvm.") && !touches_memory(*called, self.attributes)
                };
                value.called().and_then(Value::as_function).filter(computes).is_some()
                    && (0..value.arguments()).filter_map(|at| value.operand(at)).all(|of| self.is_computed(of))
            }
            _ if value.is_computation() => {
                (0..value.operands()).filter_map(|at| value.operand(at)).all(|of| self.is_computed(of))
            }
            _ => false,
        }
    }

    /// Whether what a load's address is computed of is this phi.
    fn leads_back(&self, load: Value<'m>, phi: Value<'m>) -> bool {
        let (mut seen, mut left) = (HashSet::new(), Vec::from_iter(load.operand(0)));
        while let Some(value) = left.pop() {
            if value == phi {
                return true;
            }
            if self.within.computes(value) && seen.len() < MOST_VALUES && seen.insert(value) {
                match value.opcode() {
                    Some(Opcode::Phi) => left.extend(value.incoming()),
                    _ => left.extend((0..value.operands()).filter_map(|at| value.operand(at))),
                }
            }
        }
        false
    }

    /// Whether what a phi becomes next is itself and what stays as it is, added up.
    fn counts_up(&self, next: Value<'m>, phi: Value<'m>, sums: usize) -> bool {
        if next == phi || !self.within.computes(next) {
            return true;
        }
        matches!(next.opcode(), Some(Opcode::Add | Opcode::Subtract | Opcode::ElementPointer))
            && sums > 0
            && (0..next.operands()).filter_map(|at| next.operand(at)).all(|of| self.counts_up(of, phi, sums - 1))
    }
}

/// Whether a pointer goes to another function or to a merge of ways; `may_be_member`: or the address of one of its members does.
fn leads_on(pointer: Value<'_>, may_be_member: bool) -> bool {
    pointer.users().into_iter().any(|user| match user.opcode() {
        Some(Opcode::Phi | Opcode::Return) => true,
        Some(Opcode::ElementPointer) => may_be_member && leads_on(user, false),
        _ => user.called().is_some_and(|called| called != pointer && !called.name().starts_with("llvm.")),
    })
}
