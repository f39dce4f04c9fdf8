//! Which size buckets should have: a mesh whose nodes were made in an order by chance is gone through strip by strip.
//!
//! `cargo bench -p slimline-tidy --bench buckets`. Rounds over all sizes and over malloc's nodes are interleaved; shown are the
//! medians of how much less time one takes than malloc's of the same round.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use slimline_tidy::Context;

const ROUNDS: usize = 9;
/// Nodes along each side, and strips of them that have a hint of their own.
const SIDE: usize = 1024;
const STRIPS: usize = 64;

/// What a mesh's node may have: 48 bytes.
#[repr(C)]
struct Node {
    x: f64,
    y: f64,
    value: [f64; 4],
}

/// The nodes by row and column.
fn mesh(mut alloc: impl FnMut(Layout, usize, usize) -> *mut u8) -> Vec<*mut Node> {
    let mut order: Vec<usize> = (0..SIDE * SIDE).collect();
    let mut state = 88_172_645_463_325_252_u64;
    for at in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    let mut nodes = vec![std::ptr::null_mut(); order.len()];
    for at in order {
        let (row, column) = (at / SIDE, at % SIDE);
        let node: *mut Node = alloc(Layout::new::<Node>(), row, column).cast();
        // SAFETY: it was just allocated for one.
        unsafe { node.write(Node { x: column as f64, y: row as f64, value: [1.0; 4] }) };
        nodes[at] = node;
    }
    nodes
}

/// Each patch of the mesh, as a solver would go through it; seconds.
fn walk(nodes: &[*mut Node]) -> f64 {
    let began = Instant::now();
    let patch = SIDE / STRIPS;
    let mut sum = 0.0;
    for (row, column) in (0..STRIPS).flat_map(|row| (0..STRIPS).map(move |column| (row, column))) {
        for (y, x) in (0..patch).flat_map(|y| (0..patch).map(move |x| (y, x))) {
            // SAFETY: nodes are there until their context is dropped, malloc's for ever.
            let node = unsafe { &mut *nodes[(row * patch + y) * SIDE + column * patch + x] };
            node.value[0] = node.x.mul_add(0.5, node.y + node.value[1]);
            sum += node.value[0];
        }
    }
    black_box(sum);
    began.elapsed().as_secs_f64()
}

fn main() {
    // SAFETY: no size is 0.
    let of_malloc = mesh(|layout, _, _| unsafe { System.alloc(layout) });
    let sizes: Vec<usize> = (6..=13).map(|bits| 1 << bits).collect();
    let contexts: Vec<Context> =
        sizes.iter().map(|bytes| Context::with_bucket_bytes(&[STRIPS, STRIPS], *bytes).expect("a context")).collect();
    let patch = SIDE / STRIPS;
    let hinted = |context: &Context| {
        mesh(|layout, row, column| context.alloc(layout, &[row / patch, column / patch]).expect("memory").as_ptr())
    };
    let meshes: Vec<Vec<*mut Node>> = contexts.iter().map(hinted).collect();
    let mut ratios = vec![Vec::new(); sizes.len()];
    for _ in 0..ROUNDS {
        for (mesh, ratios) in meshes.iter().zip(&mut ratios) {
            ratios.push(walk(mesh) / walk(&of_malloc));
        }
    }
    println!("bucket, bytes   time by malloc's   held by the context, MiB");
    for ((bytes, ratios), context) in sizes.iter().zip(&mut ratios).zip(&contexts) {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{bytes:13}   {:16.2}   {:24.1}",
            ratios[ROUNDS / 2],
            context.statistics().held_bytes as f64 / 1048576.0
        );
    }
}
