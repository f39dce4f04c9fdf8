//! A small project: a program, a library with a build script, a procedural macro, and a shared library that the program opens.

/// Its files.
pub(crate) const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        r#"[workspace]
resolver = "3"
members = ["app", "bodies", "plugin", "marks"]
[workspace.package]
version = "0.1.0"
edition = "2024"
"#,
    ),
    (
        "app/Cargo.toml",
        r#"[package]
name = "app"
version.workspace = true
edition.workspace = true
[dependencies]
bodies = { path = "../bodies" }
"#,
    ),
    (
        "bodies/Cargo.toml",
        r#"[package]
name = "bodies"
version.workspace = true
edition.workspace = true
[dependencies]
marks = { path = "../marks" }
"#,
    ),
    (
        "plugin/Cargo.toml",
        r#"[package]
name = "plugin"
version.workspace = true
edition.workspace = true
[lib]
crate-type = ["cdylib", "rlib"]
[dependencies]
bodies = { path = "../bodies" }
"#,
    ),
    (
        "marks/Cargo.toml",
        r#"[package]
name = "marks"
version.workspace = true
edition.workspace = true
[lib]
proc-macro = true
"#,
    ),
    (
        "marks/src/lib.rs",
        r#"use proc_macro::TokenStream;
/// Counts the fields of a structure.
#[proc_macro_derive(Fields)]
pub fn fields(item: TokenStream) -> TokenStream {
    let text = item.to_string();
    let name = text.split("struct ").nth(1).unwrap().split([' ', '{', '<']).next().unwrap();
    let fields = text.matches(':').count();
    format!("impl {name} {{ pub const FIELDS: usize = {fields}; }}").parse().unwrap()
}
"#,
    ),
    (
        "bodies/build.rs",
        r#"fn main() {
    let squares: Vec<u64> = (0..100).map(|n| n * n).collect();
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    std::fs::write(out.join("size.rs"), format!("pub const N: usize = {};", squares[10] * 10)).unwrap();
}
"#,
    ),
    ("bodies/src/lib.rs", BODIES),
    (
        "plugin/src/lib.rs",
        r#"/// # Safety
/// So many bodies must be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plugin_weigh(all: *const bodies::Body, n: usize) -> f64 {
    bodies::weigh(unsafe { std::slice::from_raw_parts(all, n) })
}
"#,
    ),
    ("app/src/main.rs", APP),
];

const BODIES: &str = r#"
include!(concat!(env!("OUT_DIR"), "/size.rs"));
#[derive(Clone, marks::Fields)]
pub struct Body { pub name: [u8; 36], pub x: f64, pub speed: f64, pub mass: f64, pub tag: u32 }
pub struct Node { pub key: u64, pub next: Option<Box<Node>> }
pub enum Shape { Disc { radius: f64, holes: u32 }, Box(f64, f64) }
pub static TICKS: [std::sync::atomic::AtomicU32; 4] = [const { std::sync::atomic::AtomicU32::new(0) }; 4];

/// ```
/// let mut all = bodies::make(3);
/// bodies::drift(&mut all);
/// assert_eq!(all[2].x, 3.0);
/// ```
#[inline(never)]
pub fn drift(bodies: &mut [Body]) { for body in bodies { body.x += body.speed; } }
#[inline(never)]
pub fn make(n: usize) -> Vec<Body> {
    let mut all = Vec::with_capacity(n);
    for i in 0..n { all.push(Body { name: [0; 36], x: i as f64, speed: 1.0, mass: 2.0, tag: 7 }); }
    all
}
#[inline(never)]
pub fn weigh(bodies: &[Body]) -> f64 {
    let mut sum = 0.0;
    for i in 0..bodies.len() { sum += bodies[i].mass; }
    sum
}
#[inline(never)]
pub fn list(n: u64) -> Option<Box<Node>> {
    let mut list = None;
    for key in 0..n { list = Some(Box::new(Node { key, next: list })); }
    list
}
#[inline(never)]
pub fn total(mut list: &Option<Box<Node>>) -> u64 {
    let mut sum = 0;
    while let Some(node) = list { sum += node.key; list = &node.next; }
    sum
}
#[inline(never)]
pub fn radii(shapes: &Vec<Shape>) -> f64 {
    shapes.iter().map(|shape| match shape { Shape::Disc { radius, .. } => *radius, Shape::Box(..) => 0.0 }).sum()
}
#[inline(never)]
pub fn tick(n: u32) { for i in 0..n { TICKS[1].fetch_add(i, std::sync::atomic::Ordering::Relaxed); } }
pub struct Guard<'a>(pub &'a mut [u64; 8]);
impl Drop for Guard<'_> {
    #[inline(never)]
    fn drop(&mut self) { for slot in self.0.iter_mut() { *slot += 1; } }
}
#[inline(never)]
pub fn fail_at(values: &[u32], slots: &mut [u64; 8]) -> u32 {
    let guard = Guard(slots);
    let mut sum = 0;
    for value in values { if *value == 77 { panic!("seventy-seven"); } sum += *value; }
    drop(guard);
    sum
}
#[cfg(test)]
mod tests {
    #[test]
    fn drifts() {
        let mut all = super::make(4);
        super::drift(&mut all);
        assert_eq!((all[3].x, super::Body::FIELDS), (4.0, 5));
    }
}
"#;

const APP: &str = r#"
use std::ffi::{c_char, c_int, c_void};
use bodies::*;
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
fn main() {
    let mut all = make(N);
    for _ in 0..20 { drift(&mut all); }
    let sums: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| { tick(50); weigh(&all) })).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let list = list(500);
    let sum: u64 = (0..3).map(|_| total(&list)).sum();
    let shapes: Vec<Shape> = (0..60u32)
        .map(|n| if n % 3 > 0 { Shape::Disc { radius: n.into(), holes: n } } else { Shape::Box(1.0, 2.0) })
        .collect();
    let radii = radii(&shapes);
    let mut slots = [0; 8];
    let values: Vec<u32> = (0..100).collect();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fail_at(&values, &mut slots)));
    println!("{} {sums:?} {sum} {radii} {} {slots:?}", all[7].x, failed.is_err());
    let path = std::env::current_exe().unwrap().parent().unwrap().join("libplugin.so");
    let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    let weigh: unsafe extern "C" fn(*const Body, usize) -> f64 = unsafe {
        let library = dlopen(path.as_ptr(), 2);
        std::mem::transmute(dlsym(library, c"plugin_weigh".as_ptr()))
    };
    println!("{}", unsafe { weigh(all.as_ptr(), all.len()) });
    std::process::exit(3);
}
"#;
