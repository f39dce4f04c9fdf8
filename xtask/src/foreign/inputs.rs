//! Inputs that keep foreign programs busy for some seconds, the same on every machine.

use std::fmt::Write as _;

/// A linked list of objects walked through again and again.
pub(crate) const JAVASCRIPT: &str = r"
var points = [];
for (var i = 0; i < 20000; i++) points[i] = { x: i % 97, y: i % 89, mass: 1.5, next: null };
for (var i = 1; i < 20000; i++) points[i - 1].next = points[i];
var sum = 0;
for (var pass = 0; pass < 480; pass++)
  for (var p = points[0]; p; p = p.next) { sum = sum + p.x * p.mass; p.y = p.y + 1; }
print(sum, points[100].y);
";

/// A table of so many tables, walked so often.
pub(crate) fn lua(points: u32, passes: u32) -> String {
    format!(
        r#"
local points = {{}}
for i = 1, {points} do points[i] = {{ x = i % 97, y = i % 89, mass = 1.5, name = "p" .. i % 50 }} end
local sum = 0
for pass = 1, {passes} do
  for i = 1, #points do local p = points[i]; sum = sum + p.x * p.mass; p.y = p.y + 1 end
end
print(sum, points[100].y)
"#
    )
}

/// Xorshift numbers (Marsaglia 2003), the same each time.
fn random_numbers() -> impl FnMut() -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    }
}

/// Random clauses of three variables each, as many for each variable as make them hard to satisfy (Mitchell, Selman,
/// Levesque 1992).
pub(crate) fn satisfiability_problem() -> String {
    const VARIABLES: u64 = 280;
    const CLAUSES: u64 = 1192;
    let mut random = random_numbers();
    let mut text = format!("p cnf {VARIABLES} {CLAUSES}\n");
    for _ in 0..CLAUSES {
        for _ in 0..3 {
            let sign = if random() >> 40 & 1 == 0 { "" } else { "-" };
            write!(text, "{sign}{} ", 1 + (random() >> 20) % VARIABLES).expect("a string takes all");
        }
        text.push_str("0\n");
    }
    text
}

/// Two classes of sparse vectors of random numbers.
pub(crate) fn svm_problem(vectors: u32) -> String {
    let mut next = random_numbers();
    let mut random = 0;
    let mut text = String::new();
    for _ in 0..vectors {
        let mut features = String::new();
        for column in 1..=40 {
            random = next();
            if random & 3 != 0 {
                let value = (random % 2000) as f64 / 1000.0 - 1.0;
                write!(features, " {column}:{value:.3}").expect("a string takes all");
            }
        }
        let class = if random & 64 == 0 { "-1" } else { "+1" };
        writeln!(text, "{class}{features}").expect("a string takes all");
    }
    text
}

/// So many numbers, one a line: text that compresses well.
pub(crate) fn numbers(count: u32) -> String {
    (0..count).map(|number| format!("{number}\n")).collect()
}

/// A table of so many rows with an index, a join and a grouping.
pub(crate) fn sql(rows: u32) -> String {
    format!(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
     INSERT INTO t SELECT i, (i * 7919) % 100003, 'row ' || (i % 1000) FROM n;
     CREATE INDEX tb ON t(b);
     SELECT count(*), sum(x.a * y.b % 1000) FROM t x JOIN t y ON y.b = x.a % 100003;
     SELECT c, count(*), max(b) FROM t GROUP BY c ORDER BY 3 DESC, 1 LIMIT 5;\n"
    )
}

/// What builds 3000 libraries of 40 parts each, in the language of ninja.
pub(crate) fn build_of_many_parts() -> String {
    let mut text = String::from(
        "flags = -O2 -g\nrule cc\n  command = cc $flags -c $in -o $out\nrule ar\n  command = ar rcs $out $in\n",
    );
    for library in 0..3000 {
        let mut parts = String::new();
        for part in 0..40 {
            let other = (library * 7 + part) % 3000;
            writeln!(
                text,
                "build lib{library}/part{part}.o: cc src{library}/part{part}.c | lib{library}.h lib{other}.h\n  \
                 flags = $flags -O3"
            )
            .expect("a string takes all");
            write!(parts, " lib{library}/part{part}.o").expect("a string takes all");
        }
        writeln!(text, "build lib{library}.a: ar{parts}").expect("a string takes all");
    }
    text
}
