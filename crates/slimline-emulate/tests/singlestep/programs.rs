//! What is stepped: installed programs on generated input, and kernels compiled here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program to step and how it is called in reports.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) command: Box<dyn Fn() -> Command>,
}

const CC1: &str = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1";

const NUMERIC: &str = r#"
#include <stdio.h>
#include <math.h>
#include <string.h>
#define N 4096
static double a[N], b[N], c[N]; static float f[N], g[N]; static int x[N], y[N]; static unsigned char s[N], t[N];
static short h[N], k[N]; static long q[N];
__attribute__((noinline)) void triad(double z) { for (int i = 0; i < N; i++) a[i] = b[i] + z * c[i]; }
__attribute__((noinline)) double dot(void) { double r = 0; for (int i = 0; i < N; i++) r += a[i] * b[i]; return r; }
__attribute__((noinline)) void roots(void) { for (int i = 0; i < N; i++) f[i] = sqrtf(f[i] * f[i] + g[i]) / (g[i] + 1.5f); }
__attribute__((noinline)) int count(int z) { int r = 0; for (int i = 0; i < N; i++) r += x[i] > z; return r; }
__attribute__((noinline)) void clip(void) { for (int i = 0; i < N; i++) y[i] = x[i] < 0 ? 0 : x[i] > 255 ? 255 : x[i]; }
__attribute__((noinline)) void blend(void) { for (int i = 0; i < N; i++) t[i] = (s[i] * 3 + t[i] * 5 + 4) >> 3; }
__attribute__((noinline)) void index_(void) { for (int i = 0; i < N; i++) a[i] += b[x[i] & (N - 1)]; }
__attribute__((noinline)) void conv(void) { for (int i = 0; i < N; i++) { c[i] = x[i]; f[i] = (float)b[i]; y[i] = (int)a[i]; } }
__attribute__((noinline)) void shorts(void) { for (int i = 0; i < N; i++) h[i] = (h[i] * k[i]) >> 4; }
__attribute__((noinline)) void longs(void) { for (int i = 0; i < N; i++) q[i] = q[i] * 31 + x[i]; }
__attribute__((noinline)) void column(void) { for (int j = 0; j < 64; j++) for (int i = 0; i < 64; i++) a[i * 64 + j] += 1.0; }
__attribute__((noinline)) void aos(void) { for (int i = 0; i < N / 4; i++) { b[4*i] += b[4*i+1]; b[4*i+2] = b[4*i+3] * 0.5; } }
__attribute__((noinline)) int sad(void) { int r = 0; for (int i = 0; i < N; i++) { int d = s[i] - t[i]; r += d < 0 ? -d : d; } return r; }
__attribute__((noinline)) double most(void) { double m = a[0]; for (int i = 0; i < N; i++) m = a[i] > m ? a[i] : m; return m; }
int main(void) {
  for (int i = 0; i < N; i++) { a[i] = i * 0.25; b[i] = i % 7 - 3; c[i] = 1.0 / (i + 1); f[i] = i; g[i] = i % 13;
    x[i] = i * 7919 % 5000 - 1000; s[i] = i * 31; t[i] = i * 17; h[i] = i; k[i] = i * 3; q[i] = i; }
  double r = 0;
  for (int n = 0; n < 200000; n++) { triad(1e-3); r += dot(); roots(); r += count(n % 100); clip(); blend(); index_(); conv();
    shorts(); longs(); column(); aos(); r += sad(); r += most(); if (r > 1e9) r = 0; }
  printf("%g\n", r); return 0; }
"#;

const STRINGS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  static char text[1 << 16], copy[1 << 16]; volatile size_t r = 0;
  for (int i = 0; i < (1 << 16) - 1; i++) text[i] = 'a' + i * 7919 % 26;
  for (int n = 0; n < 100000000; n++) { int o = n * 37 % 60000, l = n * 13 % 500; char c = text[o + l]; text[o + l] = 0;
    r += strlen(text + o); memcpy(copy + n % 64, text + o, l + 1); r += strcmp(copy + n % 64, text + o); r += (size_t)strchr(text + o, 'q');
    r += (size_t)memchr(text + o, 'z', l); r += strnlen(text + o, 100); r += (size_t)strrchr(text + o, 'b'); r += memcmp(copy, text + o, l);
    memset(copy + o % 97, n, l * 3); memmove(copy + 3, copy, l); r += strncmp(copy, text + o, 50); r += strcspn(text + o, "xyz"); r += (size_t)strstr(text + o, "jk");
    strcpy(copy, text + o); r += strcasecmp(copy, text + o); text[o + l] = c; char b[64]; r += snprintf(b, 64, "%d %s %g", n, "x", n * 0.5); r += strtol(b, 0, 10); }
  return 0; }
"#;

const RUST: &str = r#"
use std::collections::{BTreeMap, HashMap};
fn main() {
    let (mut map, mut tree, mut sum) = (HashMap::new(), BTreeMap::new(), 0_u64);
    for i in 0..u64::MAX {
        let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        *map.entry(key).or_insert(0_u64) += i;
        tree.insert(key, format!("{key:x}"));
        sum = sum.wrapping_add(map[&key]).rotate_left(5);
        let mut v: Vec<u64> = (0..64).map(|x| (x * key) ^ i).collect();
        v.sort_unstable();
        sum ^= v.iter().filter(|x| *x % 3 == 0).sum::<u64>() + tree.range(key..).take(4).map(|x| x.1.len() as u64).sum::<u64>();
        if sum == 1 { println!("{sum}"); }
    }
}
"#;

/// A function that keeps a compiler busy for some milliseconds.
fn translation_unit_part(number: usize) -> String {
    format!(
        "struct s{number} {{ int a, b; double c; struct s{number} *next; }};\n\
         static int g{number}(int x) {{ return x * {number} + (x >> 3 ^ x); }}\n\
         int f{number}(struct s{number} *p, int n) {{ int r = 0; for (int i = 0; i < n; i++) {{ switch (p->a & 7) {{\n\
         case 0: r += g{number}(i); break; case 1: r -= p->b; break; case 3: p->c *= 1.5; break; default: r ^= i * {number}; }}\n\
         if (p->next && r % 17) p = p->next; }} return r; }}\n"
    )
}

fn installed(path: &str) -> bool {
    Path::new(path).is_file()
}

fn compile(
    directory: &Path,
    name: &str,
    source: &str,
    extension: &str,
    compiler: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let (from, to) = (directory.join(format!("{name}.{extension}")), directory.join(name));
    fs::write(&from, source).expect("the temporary directory is writable");
    let done = Command::new(compiler)
        .args(flags)
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .arg(if extension == "c" { "-lm" } else { "-O" })
        .output();
    done.is_ok_and(|done| done.status.success()).then_some(to)
}

/// Everything that this machine can run, with its input in `directory`.
pub(crate) fn programs(directory: &Path) -> Vec<Program> {
    let text = directory.join("lines.txt");
    let mut lines = String::new();
    let mut seed = 1_u64;
    for _ in 0..60_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        lines.push_str(&format!("{:x} the quick {} fox {}\n", seed >> 40, seed >> 50 & 7, seed >> 33 & 0xffff));
    }
    fs::write(&text, lines.repeat(3)).expect("the temporary directory is writable");
    let unit = directory.join("unit.i");
    fs::write(&unit, (0..600).map(translation_unit_part).collect::<String>())
        .expect("the temporary directory is writable");

    let mut programs = Vec::new();
    let mut add = |name, path: &str, arguments: &[&str], input: Option<&Path>, locale: Option<&'static str>| {
        if !installed(path) {
            return;
        }
        let path = path.to_owned();
        let mut arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        arguments.extend(input.map(|input| input.display().to_string()));
        let command = move || {
            let mut command = Command::new(&path);
            command.args(&arguments);
            if let Some(locale) = locale {
                command.env("LC_ALL", locale);
            }
            command
        };
        programs.push(Program { name, command: Box::new(command) });
    };
    add("xz", "/usr/bin/xz", &["-T1", "-6", "-k", "-c"], Some(&text), None);
    add("gzip", "/usr/bin/gzip", &["-9", "-c"], Some(&text), None);
    add("sort C", "/usr/bin/sort", &["--parallel=1"], Some(&text), Some("C"));
    add("sort C.UTF-8", "/usr/bin/sort", &["--parallel=1"], Some(&text), Some("C.UTF-8"));
    add("sort -n", "/usr/bin/sort", &["--parallel=1", "-k", "5n"], Some(&text), Some("C"));
    let script = "my %h; while (<>) { my @w = split; $h{$w[0]}++; s/qu(i)ck/$1/; push @a, join ':', sort @w } print scalar keys %h";
    add("perl", "/usr/bin/perl", &["-e", script], Some(&text), None);
    let script = "import re\nd={}\nfor i in range(10**7):\n  s='%x %d' % (i*7919, i)\n  d[s[:4]]=re.sub('[0-9]+','n',s).upper()\n  x=sum(k*1.5 for k in range(20))\n";
    for python in ["/usr/bin/python3", "/root/.pyenv/shims/python3"] {
        if installed(python) && fs::read(python).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
            add("python3", python, &["-c", script], None, None);
            break;
        }
    }
    if let Some(python) = pyenv_python().filter(|_| !installed("/usr/bin/python3")) {
        add("python3", &python.display().to_string(), &["-c", script], None, None);
    }
    add("cc1", CC1, &["-quiet", "-fpreprocessed", "-O2", "-o", "/dev/null"], Some(&unit), None);
    let native = ["-O3", "-march=native", "-w"];
    for (name, source, flags) in [
        ("numeric native", NUMERIC, &native[..]),
        ("numeric zmm", NUMERIC, &["-O3", "-march=native", "-mprefer-vector-width=512", "-w"][..]),
        ("numeric avx2", NUMERIC, &["-O3", "-march=haswell", "-w"][..]),
        ("numeric sse2", NUMERIC, &["-O3", "-w"][..]),
        ("numeric fast", NUMERIC, &["-Ofast", "-march=native", "-w"][..]),
        ("strings", STRINGS, &["-O1", "-fno-builtin", "-w"][..]),
    ] {
        if let Some(path) = compile(directory, &name.replace(' ', "_"), source, "c", "gcc", flags) {
            add(name, &path.display().to_string(), &[], None, None);
        }
    }
    if let Some(path) = compile(directory, "rust", RUST, "rs", "rustc", &["--edition=2024"]) {
        add("rust", &path.display().to_string(), &[], None, None);
    }
    programs
}

fn pyenv_python() -> Option<PathBuf> {
    let versions = PathBuf::from(std::env::var_os("HOME")?).join(".pyenv/versions");
    let found = fs::read_dir(versions).ok()?.filter_map(Result::ok).map(|entry| entry.path().join("bin/python3"));
    found.filter(|path| path.exists()).max()
}
