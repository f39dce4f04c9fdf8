//! What `slimline learn` prints for Rust compiles, and does what it says: the lines between the marks are what a test of slimline-report
//! (`hint_code`) has printed.

use slimline_tidy::Error;

struct Owner {
    group: u32,
}

struct Node<'o> {
    owner: &'o Owner,
    x: f64,
    id: i64,
}

/// How many arenas three objects are in, of which two are near to each other.
fn arenas() -> Result<u64, Error> {
    let owners = [1, 2, 60].map(|group| Owner { group });
    // Printed from here on.
    // In this run x: -1 to 1, id: -10 to 40, owner.group: 0 to 6399.
    let node_context = slimline_tidy::Context::new(&[64, 64, 64])?;
    let node_pool = slimline_tidy::Pool::new(&node_context);
    // Up to here, and then, of each object:
    let mut made = Vec::new();
    for (owner, x, id) in [(&owners[0], -1.0, -10), (&owners[1], -0.99, -10), (&owners[2], 1.0, 40)] {
        let object = Node { owner, x, id };
        // Printed from here on.
        let object = node_pool.alloc(
            object,
            &[((x - -1.0 + 0.00000200002) * 31.9997) as usize, (id + 10) as usize, (owner.group / 100) as usize],
        )?;
        // Up to here.
        made.push(object);
    }
    assert!(made.iter().all(|node| node.x.abs() <= 1.0 && node.id >= -10 && node.owner.group <= 60));
    Ok(node_context.statistics().arenas as u64)
}

#[test]
fn code_that_is_printed_for_rust_allocates() {
    assert_eq!(arenas(), Ok(2));
}
