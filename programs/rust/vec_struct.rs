//! A `Vec` of bodies, of which the hot loop reads the place and the mass. rustc puts the wide fields first, so the
//! offsets aren't those of the declaration.
//!
//! truth:
//! [[group]]
//! name = "bodies"
//! type = "Body"
//! element_bytes = 72
//! fields = { mass = 0, position = 8, velocity = 32, name = 56, kind = 64, age = 68, alive = 70 }
//! allocated_at = { function = "main", line = 73 }
//! split = [["mass", "position"], ["kind", "age"]]
//!
//! [[loop]]
//! name = "weigh"
//! function = "weigh"
//! lines = [51, 54]
//! group = "bodies"
//! fields = ["mass", "position"]
//! stride_bytes = 72
//!
//! [[loop]]
//! name = "count_old"
//! function = "count_old"
//! lines = [62, 64]
//! group = "bodies"
//! fields = ["kind", "age"]
//! stride_bytes = 72

#[path = "truth.rs"]
mod truth;

use truth::Truth;

struct Body {
    alive: bool,
    mass: f64,
    kind: u32,
    position: [f64; 3],
    age: u16,
    velocity: [f64; 3],
    name: u64,
}

static FILL: Truth = Truth::new("fill");
static WEIGH: Truth = Truth::new("weigh");
static COUNT_OLD: Truth = Truth::new("count_old");

/// Sum of mass times position.
fn weigh(bodies: &[Body]) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for body in bodies {
        sum[0] += body.mass * body.position[0];
        sum[1] += body.mass * body.position[1];
        sum[2] += body.mass * body.position[2];
    }
    sum
}

/// Where the running count of old bodies, weighed by kind, ends up.
fn count_old(bodies: &[Body], age: u16) -> u32 {
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
    let mut bodies: Vec<Body> = Vec::with_capacity(n);
    FILL.time(|| {
        for i in 0..n {
            let d = (i % 509) as f64;
            bodies.push(Body {
                alive: i % 3 != 0,
                mass: 1.0 + d / 64.0,
                kind: (i % 5) as u32,
                position: [d, d + 1.0, d + 2.0],
                age: (i % 97) as u16,
                velocity: [1.0, 0.0, -1.0],
                name: i as u64,
            });
        }
    });

    let mut centre = [0.0; 3];
    let mut old = 0u32;
    for pass in 0..passes {
        let sum = WEIGH.time(|| weigh(&bodies));
        for axis in 0..3 {
            centre[axis] += sum[axis];
        }
        bodies[pass % n].mass += 1.0;
        old = old.wrapping_add(COUNT_OLD.time(|| count_old(&bodies, (pass % 3) as u16)));
    }
    let last = &bodies[n - 1];
    println!(
        "{:.6e} {:.6e} {:.6e} {old} {} {} {}",
        centre[0], centre[1], centre[2], last.alive, last.velocity[2], last.name
    );
    truth::write(&[&FILL, &WEIGH, &COUNT_OLD]);
}
