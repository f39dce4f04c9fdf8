//! vec_struct.rs after its split: {mass, position}, {kind, age} and the rest. Prints the same checksum.

#[path = "truth.rs"]
mod truth;

use truth::Truth;

struct BodyPlace {
    mass: f64,
    position: [f64; 3],
}

struct BodyKind {
    kind: u32,
    age: u16,
}

struct BodyRest {
    alive: bool,
    velocity: [f64; 3],
    name: u64,
}

static FILL: Truth = Truth::new("fill");
static WEIGH: Truth = Truth::new("weigh");
static COUNT_OLD: Truth = Truth::new("count_old");

/// Sum of mass times position.
fn weigh(bodies: &[BodyPlace]) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for body in bodies {
        sum[0] += body.mass * body.position[0];
        sum[1] += body.mass * body.position[1];
        sum[2] += body.mass * body.position[2];
    }
    sum
}

/// Where the running count of old bodies, weighed by kind, ends up.
fn count_old(bodies: &[BodyKind], age: u16) -> u32 {
    let mut count = 0u32;
    for body in bodies {
        if body.age > age {
            count = count.rotate_left(1) ^ body.kind;
        }
    }
    count
}

fn main() {
    let passes = truth::argument(1, 150);
    let n = truth::argument(2, 1 << 20);
    let mut places: Vec<BodyPlace> = Vec::with_capacity(n);
    let mut kinds: Vec<BodyKind> = Vec::with_capacity(n);
    let mut rests: Vec<BodyRest> = Vec::with_capacity(n);
    FILL.time(|| {
        for i in 0..n {
            let d = (i % 509) as f64;
            places.push(BodyPlace { mass: 1.0 + d / 64.0, position: [d, d + 1.0, d + 2.0] });
            kinds.push(BodyKind { kind: (i % 5) as u32, age: (i % 97) as u16 });
            rests.push(BodyRest { alive: i % 3 != 0, velocity: [1.0, 0.0, -1.0], name: i as u64 });
        }
    });

    let mut centre = [0.0; 3];
    let mut old = 0u32;
    for pass in 0..passes {
        let sum = WEIGH.time(|| weigh(&places));
        for axis in 0..3 {
            centre[axis] += sum[axis];
        }
        places[pass % n].mass += 1.0;
        old = old.wrapping_add(COUNT_OLD.time(|| count_old(&kinds, (pass % 3) as u16)));
    }
    let last = &rests[n - 1];
    println!(
        "{:.6e} {:.6e} {:.6e} {old} {} {} {}",
        centre[0], centre[1], centre[2], last.alive, last.velocity[2], last.name
    );
    truth::write(&[&FILL, &WEIGH, &COUNT_OLD]);
}
