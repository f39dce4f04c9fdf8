//! slimline demo: an array of structures of which each loop needs a part.
//!
//! `kick` reads mass alone, `drift` moves x by vx; the rest is set up once and never needed again. 64 bytes a body, 8 or
//! 16 of them used by each loop: splitting {mass} and {x, vx} off touches 8 and 4 times fewer cache lines.

struct Body {
    x: f64,
    y: f64,
    z: f64,
    vx: f64,
    vy: f64,
    vz: f64,
    mass: f64,
    id: u64,
}

const BODIES: usize = 2_000_000;

#[inline(never)]
fn kick(bodies: &[Body]) -> f64 {
    let mut heaviest = 0.0;
    for body in bodies {
        if body.mass > heaviest {
            heaviest = body.mass;
        }
    }
    heaviest
}

#[inline(never)]
fn drift(bodies: &mut [Body], step: f64) {
    for body in bodies {
        body.x += body.vx * step;
    }
}

fn main() {
    let mut bodies = Vec::with_capacity(BODIES);
    for i in 0..BODIES {
        let at = i as f64;
        bodies.push(Body { x: at, y: at, z: at, vx: 1.0, vy: 2.0, vz: 3.0, mass: (i % 1000) as f64, id: i as u64 });
    }
    let mut sum = 0.0;
    for _ in 0..120 {
        sum += kick(&bodies);
        drift(&mut bodies, 0.5);
        drift(&mut bodies, 0.25);
    }
    let middle = &bodies[BODIES / 2];
    println!("{sum:.1} {:.1} {}", middle.x + middle.y + middle.z + middle.vy + middle.vz, middle.id);
}
