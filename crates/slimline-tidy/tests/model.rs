//! A context against a model that knows of each object where it is, how large and what is in it.
#![allow(unsafe_code)]

mod counted;
mod refused;

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use counted::Counted;
use proptest::prelude::*;
use proptest::sample::Index;
use slimline_tidy::{Context, Error, UNIT_BYTES};

const DIMENSIONS: [usize; 2] = [3, 5];

#[derive(Clone, Debug)]
enum Step {
    Alloc { size: usize, align_bits: u32, hint: [usize; 2], zeroed: bool },
    Free(Index),
    Realloc(Index, usize),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![8 => 0..100_usize, 2 => 0..1500_usize, 1 => 0..20_000_usize];
    let align = prop_oneof![4 => 0..5_u32, 1 => 0..14_u32];
    prop_oneof![
        10 => (size(), align, any::<[usize; 2]>(), any::<bool>())
            .prop_map(|(size, align_bits, hint, zeroed)| Step::Alloc { size, align_bits, hint, zeroed }),
        8 => any::<Index>().prop_map(Step::Free),
        3 => (any::<Index>(), size()).prop_map(|(which, size)| Step::Realloc(which, size)),
        1 => Just(Step::Trim),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Object {
    pointer: NonNull<u8>,
    layout: Layout,
    arena: usize,
    fill: u8,
}

impl Object {
    /// As much as it takes in a bucket.
    fn rounded(&self) -> usize {
        self.layout.size().max(1).next_multiple_of(UNIT_BYTES)
    }

    fn fill(&self) {
        // SAFETY: the object is that large.
        unsafe { self.pointer.write_bytes(self.fill, self.layout.size()) };
    }

    fn is_filled(&self, bytes: usize) -> bool {
        // SAFETY: the object is at least that large, and was filled.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), bytes).iter().all(|byte| *byte == self.fill) }
    }
}

struct Model<'a> {
    context: Context<&'a Counted>,
    objects: Vec<Object>,
    next_fill: u8,
}

impl Model<'_> {
    fn is_large(&self, layout: Layout) -> bool {
        layout.size().max(layout.align()) > self.context.bucket_bytes()
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Alloc { size, align_bits, hint, zeroed } => {
                let layout = Layout::from_size_align(size, 1 << align_bits).unwrap();
                let pointer = if zeroed {
                    let pointer = self.context.alloc_zeroed(layout, &hint).unwrap();
                    let object = Object { pointer, layout, arena: 0, fill: 0 };
                    assert!(object.is_filled(size));
                    pointer
                } else {
                    self.context.alloc(layout, &hint).unwrap()
                };
                assert!(pointer.addr().get().is_multiple_of(layout.align()));
                let arena = hint[0] % DIMENSIONS[0] * DIMENSIONS[1] + hint[1] % DIMENSIONS[1];
                self.next_fill = self.next_fill.wrapping_add(1);
                let object = Object { pointer, layout, arena, fill: self.next_fill };
                object.fill();
                self.objects.push(object);
            }
            Step::Free(which) if !self.objects.is_empty() => {
                let object = self.objects.swap_remove(which.index(self.objects.len()));
                assert!(object.is_filled(object.layout.size()));
                // SAFETY: it is the context's, and removed from the model.
                unsafe { self.context.free(object.pointer) };
            }
            Step::Realloc(which, size) if !self.objects.is_empty() => {
                let which = which.index(self.objects.len());
                let mut object = self.objects[which];
                // SAFETY: it is the context's, of this layout, and used at its new place only.
                object.pointer = unsafe { self.context.realloc(object.pointer, object.layout, size).unwrap() };
                assert!(object.pointer.addr().get().is_multiple_of(object.layout.align()));
                assert!(object.is_filled(size.min(object.layout.size())));
                object.layout = Layout::from_size_align(size, object.layout.align()).unwrap();
                object.fill();
                // SAFETY: it is the context's.
                assert!(unsafe { self.context.usable_bytes(object.pointer) } >= size);
                self.objects[which] = object;
            }
            Step::Trim => self.context.trim(),
            Step::Free(_) | Step::Realloc(..) => {}
        }
    }

    fn check(&self) {
        let mut ranges = BTreeMap::new();
        for object in &self.objects {
            let begin = object.pointer.addr().get();
            assert!(ranges.insert(begin, begin + object.layout.size().max(1)).is_none());
        }
        for ((_, end), (begin, _)) in ranges.iter().zip(ranges.iter().skip(1)) {
            assert!(end <= begin);
        }
        let (large, small): (Vec<&Object>, Vec<_>) =
            self.objects.iter().partition(|object| self.is_large(object.layout));
        let statistics = self.context.statistics();
        assert_eq!(statistics.objects, small.len());
        assert_eq!(statistics.bytes, small.iter().map(|object| object.rounded()).sum::<usize>());
        assert_eq!(statistics.large_objects, large.len());
        assert_eq!(statistics.large_bytes, large.iter().map(|object| object.layout.size()).sum::<usize>());
        let arenas: BTreeSet<usize> = small.iter().map(|object| object.arena).collect();
        assert_eq!(statistics.arenas, arenas.len());
        let bucket = |object: &Object| object.pointer.addr().get() / self.context.bucket_bytes();
        let mut owners = BTreeMap::new();
        for object in &small {
            // A bucket is of one arena, and an object in one bucket.
            assert_eq!(*owners.entry(bucket(object)).or_insert(object.arena), object.arena);
            let last = object.pointer.addr().get() + object.rounded() - 1;
            assert_eq!(last / self.context.bucket_bytes(), bucket(object));
        }
        // No more of them than are needed but for one that each arena may keep.
        assert!((owners.len()..=owners.len() + 15).contains(&statistics.buckets));
        assert_eq!(statistics.bytes + statistics.wasted_bytes, statistics.buckets * self.context.bucket_bytes());
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: if cfg!(miri) { 3 } else { cases }, failure_persistence: None, ..ProptestConfig::default() }
}

const STEPS: usize = if cfg!(miri) { 40 } else { 400 };

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn as_the_model_says(bits in 6..14_u32, steps in prop::collection::vec(step(), 1..STEPS)) {
        let below = Counted::new();
        let context = Context::over(&below, &DIMENSIONS, 1 << bits).unwrap();
        let mut model = Model { context, objects: Vec::new(), next_fill: 0 };
        for (number, step) in steps.into_iter().enumerate() {
            model.run(step);
            if number % 16 == 0 {
                model.check();
            }
        }
        model.check();
        prop_assert_eq!(model.context.statistics().held_bytes, below.held());
        for object in std::mem::take(&mut model.objects) {
            prop_assert!(object.is_filled(object.layout.size()));
            // SAFETY: it is the context's, and used no longer.
            unsafe { model.context.free(object.pointer) };
        }
        model.context.trim();
        let statistics = model.context.statistics();
        prop_assert_eq!((statistics.buckets, statistics.objects, statistics.large_objects), (0, 0, 0));
        // The table of arenas, one part of it, and nodes of the map: no slab.
        prop_assert!(statistics.held_bytes <= 8 + 15 * 64 + (16 << 10) + 8 * (24 << 10));
        drop(model);
        prop_assert_eq!(below.held(), 0);
    }

    /// What is not freed goes back with the context.
    #[test]
    fn a_dropped_context_gives_everything_back(steps in prop::collection::vec(step(), 1..STEPS / 2)) {
        let below = Counted::new();
        let context = Context::over(&below, &DIMENSIONS, 512).unwrap();
        let mut model = Model { context, objects: Vec::new(), next_fill: 0 };
        steps.into_iter().for_each(|step| model.run(step));
        drop(model);
        prop_assert_eq!(below.held(), 0);
    }

    /// The nth object of a hint is behind the one before it, up to the end of a bucket.
    #[test]
    fn objects_of_one_hint_are_neighbours(
        bits in 6..14_u32,
        units in 1..9_usize,
        hints in prop::collection::vec(0..6_usize, 1..STEPS),
    ) {
        let context = Context::with_bucket_bytes(&[6], 1 << bits).unwrap();
        let size = units * UNIT_BYTES;
        let layout = Layout::from_size_align(size, UNIT_BYTES).unwrap();
        let in_bucket = context.bucket_bytes() / size;
        let mut placed: [Vec<usize>; 6] = Default::default();
        for hint in hints {
            placed[hint].push(context.alloc(layout, &[hint]).unwrap().addr().get());
        }
        let mut buckets = 0;
        for objects in &placed {
            for bucket in objects.chunk_by(|one, next| one / context.bucket_bytes() == next / context.bucket_bytes()) {
                // Up to the end, and then from the beginning.
                let breaks = bucket.windows(2).filter(|pair| pair[1] != pair[0] + size);
                prop_assert!(breaks.clone().count() <= 1);
                prop_assert!(breaks.into_iter().all(|pair| pair[1] % context.bucket_bytes() == 0));
                // An object may not fit into what is left on either side of the first one.
                let is_last = bucket.last() == objects.last();
                prop_assert!(bucket.len() <= in_bucket && (is_last || bucket.len() + 1 >= in_bucket));
                buckets += 1;
            }
        }
        prop_assert_eq!(context.statistics().buckets, buckets);
    }

    /// Where there is no memory nothing changes, and what was there before can be freed.
    #[test]
    fn no_memory_is_an_error(limit in 0..400_000_usize, steps in prop::collection::vec((0..9000_usize, any::<[usize; 2]>()), 1..60)) {
        let below = Counted::new();
        below.limit_bytes.store(limit, Ordering::Relaxed);
        if let Ok(context) = Context::over(&below, &[100, 100], 1024) {
            let mut live = Vec::new();
            for (size, hint) in steps {
                let layout = Layout::from_size_align(size, 8).unwrap();
                match context.alloc(layout, &hint) {
                    Ok(object) => live.push(object),
                    Err(error) => prop_assert_eq!(error, Error::OutOfMemory),
                }
            }
            let statistics = context.statistics();
            prop_assert_eq!(statistics.objects + statistics.large_objects, live.len());
            for object in live {
                // SAFETY: it is the context's, and used no longer.
                unsafe { context.free(object) };
            }
        }
        prop_assert_eq!(below.held(), 0);
    }
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "it starts programs")]
fn without_membarrier() {
    refused::run_all_but("without_membarrier");
}
