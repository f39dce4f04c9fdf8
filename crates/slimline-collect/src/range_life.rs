//! From events of large blocks and mappings to address ranges with a life.
//!
//! Events come from one ring a thread, and rings are drained one after another: a block freed by one thread and given
//! out anew to another may be told in the wrong order. So events are sorted by time, and those younger than the start
//! of the pass before are held back until the next.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use slimline_trace::address::{Avma, FileOffset};
use slimline_trace::tables::{Range, RangeOrigin, RangeSource, Ranges, StackRow};
use slimline_trace::wire::{NO_MODULE, RangeKind};

use crate::message::RangeMessage;

/// What happened to a range, its call path already interned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) time_ns: u64,
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) stack: Option<StackRow>,
    /// The same as the agent numbers it, and those of children that are forked from its process; 0 for none.
    pub(crate) path: u32,
    pub(crate) kind: RangeKind,
    pub(crate) source: RangeSource,
}

impl Event {
    pub(crate) fn new(message: &RangeMessage<'_>, stack: Option<StackRow>) -> Self {
        let (event, kind, name) = (message.event, message.kind, message.name());
        let source = match kind {
            RangeKind::ThreadLocal => {
                RangeSource { module_bias: Some(event.of).filter(|&bias| bias != NO_MODULE), ..RangeSource::default() }
            }
            _ => RangeSource {
                file_offset: name.is_some().then_some(FileOffset(event.of)),
                is_shared: (event.is_shared != 0).then_some(true),
                name,
                module_bias: None,
            },
        };
        let (time_ns, base, bytes, path) = (event.time_ns, event.base, event.bytes, event.stack);
        Self { time_ns, base, bytes, stack, path, kind, source }
    }

    /// A child that was forked then has this range of its parent's; `stack` is the call path there.
    pub(crate) fn inherited(living: &Living, stack: Option<StackRow>, forked_ns: u64) -> Self {
        let Living { range, path } = living;
        let kind = match range.origin {
            RangeOrigin::Heap => RangeKind::Allocated,
            RangeOrigin::Map => RangeKind::Mapped,
            RangeOrigin::ThreadLocal => RangeKind::ThreadLocal,
            RangeOrigin::InnerHeap => RangeKind::InnerAllocated,
        };
        let source = range.source.clone();
        Self { time_ns: forked_ns, base: range.base.0, bytes: range.bytes, stack, path: *path, kind, source }
    }
}

/// A range with its call path as the agent numbers it.
#[derive(Clone, Debug)]
pub(crate) struct Living {
    range: Range,
    pub(crate) path: u32,
}

/// Ranges that died longer ago are of no use to children that are found now. Children are found within a fraction of this.
const REMEMBERED_NS: u64 = 5_000_000_000;
/// More are not kept for children.
const MOST_REMEMBERED: usize = 1 << 16;

/// Ranges alive and dead.
#[derive(Debug, Default)]
pub(crate) struct RangeLives {
    waiting: Vec<Event>,
    // A large heap block usually lies in a mapping, so the kinds live apart.
    heap: BTreeMap<u64, Living>,
    map: BTreeMap<u64, Living>,
    /// In a stack, a mapping or, where the program gives threads their stacks, a block.
    thread_local: BTreeMap<u64, Living>,
    /// Of the program's own allocators.
    inner: BTreeMap<u64, Living>,
    /// Those that died last, for children that were forked before and are not found yet.
    remembered: VecDeque<Living>,
    /// Ranges that died since the last part.
    pub(crate) dead: Ranges,
}

impl RangeLives {
    /// Takes an event; events may come in any order.
    pub(crate) fn push(&mut self, event: Event) {
        self.waiting.push(event);
    }

    /// Applies all events before `until_ns`.
    pub(crate) fn settle(&mut self, until_ns: u64) {
        if self.waiting.is_empty() {
            return;
        }
        let (mut ripe, waiting): (Vec<_>, Vec<_>) =
            mem::take(&mut self.waiting).into_iter().partition(|event| event.time_ns < until_ns);
        self.waiting = waiting;
        ripe.sort_by_key(|event| event.time_ns);
        ripe.into_iter().for_each(|event| self.apply(event));
    }

    /// The ranges alive, by kind and base.
    pub(crate) fn live(&self) -> Ranges {
        let mut live = Ranges::default();
        let kinds = [&self.heap, &self.map, &self.thread_local, &self.inner];
        kinds.into_iter().flat_map(BTreeMap::values).for_each(|living| live.push(living.range.clone()));
        live
    }

    /// The ranges that lived at a time a moment ago, all events up to which were pushed.
    pub(crate) fn alive_at(&mut self, time_ns: u64) -> Vec<Living> {
        self.settle(time_ns.saturating_add(1));
        let kinds = [&self.heap, &self.map, &self.thread_local, &self.inner];
        let all = kinds.into_iter().flat_map(BTreeMap::values).chain(&self.remembered);
        let lived = |living: &&Living| {
            living.range.born_ns <= time_ns && living.range.died_ns.is_none_or(|died_ns| died_ns > time_ns)
        };
        all.filter(lived).cloned().collect()
    }

    fn apply(&mut self, event: Event) {
        let origin = match event.kind {
            RangeKind::Allocated | RangeKind::Freed => RangeOrigin::Heap,
            RangeKind::Mapped | RangeKind::Unmapped => RangeOrigin::Map,
            RangeKind::ThreadLocal | RangeKind::ThreadLocalGone => RangeOrigin::ThreadLocal,
            RangeKind::InnerAllocated | RangeKind::InnerFreed => RangeOrigin::InnerHeap,
        };
        let Self { dead, remembered, .. } = self;
        let mut die = |Living { range, path }: Living| {
            let range = Range { died_ns: Some(event.time_ns), ..range };
            dead.push(range.clone());
            remembered.push_back(Living { range, path });
            let is_old = |oldest: &Living| {
                oldest.range.died_ns.is_some_and(|died_ns| died_ns.saturating_add(REMEMBERED_NS) < event.time_ns)
            };
            while remembered.len() > MOST_REMEMBERED || remembered.front().is_some_and(is_old) {
                remembered.pop_front();
            }
        };
        let alive = match origin {
            RangeOrigin::Heap => &mut self.heap,
            RangeOrigin::Map => &mut self.map,
            RangeOrigin::ThreadLocal => &mut self.thread_local,
            RangeOrigin::InnerHeap => &mut self.inner,
        };
        let is_whole = matches!(event.kind, RangeKind::Freed | RangeKind::InnerFreed);
        if is_whole || event.kind == RangeKind::Unmapped && event.bytes == 0 {
            // A free tells no size, nor does who detaches shared memory.
            if let Some(block) = alive.remove(&event.base) {
                die(block);
            }
            return;
        }
        // Whatever was there is there no longer: unmapped, mapped over, or freed without our seeing it.
        let end = event.base.saturating_add(event.bytes);
        let first = alive.range(..event.base).next_back().map_or(event.base, |(&base, _)| base);
        let overlapping: Vec<u64> = alive
            .range(first..end)
            .filter(|(_, Living { range, .. })| range.base.0 + range.bytes > event.base)
            .map(|(&base, _)| base)
            .collect();
        for base in overlapping {
            let gone = alive.remove(&base).expect("just found");
            let (old, path) = (gone.range.clone(), gone.path);
            let old_end = old.base.0 + old.bytes;
            die(gone);
            if origin == RangeOrigin::Map {
                // What is left on either side lives on as a smaller range.
                let mut keep = |start: u64, end: u64| {
                    let mut rest =
                        Range { base: Avma(start), bytes: end - start, born_ns: event.time_ns, ..old.clone() };
                    if let Some(offset) = &mut rest.source.file_offset {
                        offset.0 = offset.0.wrapping_add(start - old.base.0);
                    }
                    alive.insert(start, Living { range: rest, path });
                };
                if base < event.base {
                    keep(base, event.base);
                }
                if end < old_end {
                    keep(end, old_end);
                }
            }
        }
        use RangeKind::{Allocated, InnerAllocated, Mapped, ThreadLocal};
        let is_begin = matches!(event.kind, Allocated | InnerAllocated | Mapped | ThreadLocal);
        if is_begin && event.bytes > 0 {
            let Event { time_ns: born_ns, base, bytes, stack, path, source, .. } = event;
            let range = Range { base: Avma(base), bytes, born_ns, died_ns: None, stack, origin, source };
            alive.insert(base, Living { range, path });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RangeKind::*;

    fn event(time_ns: u64, kind: RangeKind, base: u64, bytes: u64) -> Event {
        Event { time_ns, base, bytes, stack: None, path: 0, kind, source: RangeSource::default() }
    }

    /// Lives as (base, end, born, died), dead first.
    fn lives(events: &[Event]) -> Vec<(u64, u64, u64, Option<u64>)> {
        let mut ranges = RangeLives::default();
        events.iter().for_each(|event| ranges.push(event.clone()));
        ranges.settle(u64::MAX);
        let mut all = ranges.live();
        ranges.dead.append(&mut all);
        ranges
            .dead
            .iter()
            .map(|range| (range.base.0, range.base.0 + range.bytes, range.born_ns, range.died_ns))
            .collect()
    }

    #[test]
    fn a_block_lives_from_allocation_to_free() {
        let found = lives(&[event(5, Allocated, 100, 50), event(9, Freed, 100, 0), event(12, Allocated, 100, 20)]);
        assert_eq!(found, [(100, 150, 5, Some(9)), (100, 120, 12, None)]);
    }

    #[test]
    fn order_of_arrival_does_not_matter() {
        let found = lives(&[event(12, Allocated, 100, 20), event(9, Freed, 100, 0), event(5, Allocated, 100, 50)]);
        assert_eq!(found, [(100, 150, 5, Some(9)), (100, 120, 12, None)]);
    }

    #[test]
    fn a_free_that_was_missed_ends_with_the_next_allocation() {
        let found = lives(&[event(5, Allocated, 100, 50), event(9, Allocated, 120, 60), event(11, Freed, 777, 0)]);
        assert_eq!(found, [(100, 150, 5, Some(9)), (120, 180, 9, None)]);
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let found = lives(&[event(1, Mapped, 100, 100), event(2, Unmapped, 140, 20)]);
        assert_eq!(found, [(100, 200, 1, Some(2)), (100, 140, 2, None), (160, 200, 2, None)]);
    }

    #[test]
    fn what_is_left_of_a_file_begins_further_on_in_it() {
        let mut ranges = RangeLives::default();
        let source =
            RangeSource { name: Some("/f".into()), file_offset: Some(FileOffset(0x1000)), ..RangeSource::default() };
        ranges.push(Event { source, ..event(1, Mapped, 0x10_0000, 0x3000) });
        ranges.push(event(2, Unmapped, 0x10_1000, 0x1000));
        ranges.settle(u64::MAX);
        let live = ranges.live();
        assert_eq!(live.base, [Avma(0x10_0000), Avma(0x10_2000)]);
        let offsets: Vec<_> = live.source.iter().map(|source| source.file_offset).collect();
        assert_eq!(offsets, [Some(FileOffset(0x1000)), Some(FileOffset(0x3000))]);
    }

    #[test]
    fn a_threads_storage_goes_with_it_and_leaves_what_it_lies_in() {
        let found = lives(&[
            event(1, Mapped, 0, 1000),
            event(2, ThreadLocal, 500, 50),
            event(2, ThreadLocal, 550, 30),
            event(3, ThreadLocal, 900, 50),
            event(4, ThreadLocalGone, 500, 80),
        ]);
        assert_eq!(found, [(500, 550, 2, Some(4)), (550, 580, 2, Some(4)), (0, 1000, 1, None), (900, 950, 3, None)]);
    }

    #[test]
    fn mapping_over_replaces() {
        let found = lives(&[event(1, Mapped, 100, 50), event(1, Mapped, 150, 50), event(2, Mapped, 100, 100)]);
        assert_eq!(found, [(100, 150, 1, Some(2)), (150, 200, 1, Some(2)), (100, 200, 2, None)]);
    }

    #[test]
    fn a_heap_block_may_lie_in_a_mapping() {
        let found = lives(&[event(1, Mapped, 100, 100), event(2, Allocated, 120, 30), event(3, Freed, 120, 0)]);
        assert_eq!(found, [(120, 150, 2, Some(3)), (100, 200, 1, None)]);
    }

    #[test]
    fn what_lived_at_a_fork_is_known_a_while_after() {
        let mut ranges = RangeLives::default();
        let events = [
            event(1, Allocated, 100, 10),
            event(2, Mapped, 1000, 100),
            event(5, Freed, 100, 0),
            event(6, Unmapped, 1050, 50),
            event(7, Allocated, 200, 10),
        ];
        events.into_iter().for_each(|event| ranges.push(event));
        ranges.settle(u64::MAX);
        let alive = |ranges: &mut RangeLives, time_ns| {
            let mut all: Vec<_> =
                ranges.alive_at(time_ns).iter().map(|living| (living.range.base.0, living.range.bytes)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(alive(&mut ranges, 4), [(100, 10), (1000, 100)]);
        assert_eq!(alive(&mut ranges, 6), [(1000, 50)]);
        assert_eq!(alive(&mut ranges, 8), [(200, 10), (1000, 50)]);
        ranges.push(event(7 + REMEMBERED_NS, Freed, 200, 0));
        ranges.settle(u64::MAX);
        assert_eq!(alive(&mut ranges, 4), [], "what died is forgotten, and what is left of it began later");
    }

    #[test]
    fn young_events_wait() {
        let mut ranges = RangeLives::default();
        ranges.push(event(50, Allocated, 100, 10));
        ranges.settle(50);
        assert!(ranges.live().is_empty());
        ranges.push(event(40, Allocated, 100, 30));
        ranges.push(event(45, Freed, 100, 0));
        ranges.settle(51);
        assert_eq!(ranges.live().row(0).born_ns, 50);
        assert_eq!(ranges.dead.row(0).died_ns, Some(45));
    }
}
