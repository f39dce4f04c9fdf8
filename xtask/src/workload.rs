//! Commands that benches measure and `cargo xtask harm` compares: programs of ours and Debian's, with generated input.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use sample_programs::{Optimization, Program};

use crate::target_dir;

/// A deterministic command that ends by itself.
pub(crate) struct Workload {
    /// Short name.
    pub(crate) name: String,
    program: PathBuf,
    arguments: Vec<String>,
    input: Option<PathBuf>,
    /// What kind of work it is, for the table.
    pub(crate) kind: &'static str,
}

impl Workload {
    pub(crate) fn new(
        name: &str,
        program: PathBuf,
        arguments: Vec<String>,
        input: Option<PathBuf>,
        kind: &'static str,
    ) -> Self {
        Self { name: name.to_owned(), program, arguments, input, kind }
    }

    /// The command, without its standard input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        // One Python hash seed, one collation order: the output must not depend on the run.
        command.env("PYTHONHASHSEED", "0").env("LC_ALL", "C");
        command
    }

    /// The command as a line of shell script, with its standard input.
    pub(crate) fn script(&self) -> String {
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words = [self.program.display().to_string()].into_iter().chain(self.arguments.iter().cloned());
        let line: Vec<String> = words.map(|word| quoted(&word)).collect();
        let input =
            self.input.as_ref().map_or(String::new(), |path| format!(" < {}", quoted(&path.display().to_string())));
        format!("exec {}{input}", line.join(" "))
    }

    /// Gives `command` the workload's standard input.
    pub(crate) fn with_input(&self, mut command: Command) -> Result<Command> {
        command.stdin(match &self.input {
            Some(path) => Stdio::from(File::open(path).with_context(|| path.display().to_string())?),
            None => Stdio::null(),
        });
        Ok(command)
    }
}

/// How the kind of those begins that allocate much.
pub(crate) const ALLOCATING: &str = "allocating";

/// What `bench overhead` measures: runs of two to four seconds, so that the ratio is of running, not of starting.
pub(crate) fn for_overhead() -> Result<Vec<Workload>> {
    let mut workloads = Vec::new();
    for (name, passes, kind) in [
        ("int4_two_loops", 300, "streaming"),
        ("art", 4, "streaming"),
        ("neighbor", 1000, "streaming"),
        ("list_chase", 120, "pointer chasing"),
        ("vec_struct", 400, "streaming, Rust"),
        ("alloc_churn", 30_000_000, "allocating, C"),
        ("alloc_maps", 5_000_000, "allocating, C++"),
        ("zones", 1000, "2 threads"),
    ] {
        workloads.push(sample(name, &[&passes.to_string()], kind)?);
    }
    // Sizes at which each takes two to four seconds.
    for (name, size) in [("xz", 6.0), ("perl", 24.0), ("python3", 18.0), ("sqlite3", 12.0), ("cc1", 2.0)] {
        workloads.push(of_debian(name, size)?);
    }
    Ok(workloads)
}

/// A program that does nothing: what recording it takes is the price of starting and ending.
pub(crate) fn shortest() -> Command {
    Command::new("/bin/true")
}

/// A program of ours at -O2.
pub(crate) fn sample(name: &str, arguments: &[&str], kind: &'static str) -> Result<Workload> {
    let program = Program::named(name)?.build(Optimization::O2, &target_dir()?.join("programs"))?;
    Ok(Workload::new(name, program, strings(arguments), None, kind))
}

/// Its argument is the number of steps.
pub(crate) const PYTHON: &str = "
import sys
words = {}
for i in range(int(sys.argv[1])):
    key = 'w%d' % (i * i % 50021)
    words.setdefault(key, []).append(i)
    if len(words[key]) > 9: del words[key]
print(len(words), sum(len(v) for v in words.values()))
";

const PERL: &str = "
my (%count, $sum);
for my $i (1 .. $ARGV[0] * 500000) { my $k = 'k' . ($i * 7919 % 40009); $count{$k} .= chr(97 + $i % 26); }
for my $k (sort keys %count) { $sum += length($count{$k}) * ($count{$k} =~ tr/a-m//); }
print \"$sum\\n\";
";

/// One of them.
pub(crate) fn of_debian(name: &str, size: f64) -> Result<Workload> {
    let found = debian(size)?.into_iter().find(|workload| workload.name == name);
    found.with_context(|| format!("no program of Debian's is called {name} here"))
}

/// Debian's programs; `size` scales their input, 1 is about half a second each.
pub(crate) fn debian(size: f64) -> Result<Vec<Workload>> {
    let inputs = Inputs::in_directory(target_dir()?.join("workloads"))?;
    let lines = inputs.lines(size)?;
    let sql = inputs.sql(size)?;
    let source = inputs.c_source(size)?;
    let lines_path = lines.display().to_string();
    let cc1 = Command::new("gcc").arg("-print-prog-name=cc1").output().context("gcc")?;
    let cc1 = PathBuf::from(String::from_utf8_lossy(&cc1.stdout).trim());
    // Debian's own, whatever else the path holds: a version manager's python3 is a shell script.
    let installed = |name: &str| Path::new("/usr/bin").join(name);
    let quiet_c: [&str; 4] = ["-quiet", "-O2", "-o", "-"];
    let rows: Vec<(&str, PathBuf, Vec<String>, Option<&Path>)> = vec![
        ("xz", installed("xz"), strings(&["-c", "-T1", "-4", &lines_path]), None),
        ("gzip", installed("gzip"), strings(&["-c", "-n", "-9", &lines_path]), None),
        ("sort", installed("sort"), strings(&["-k", "2", "--parallel=2", &lines_path]), None),
        ("perl", installed("perl"), strings(&["-e", PERL, &size.to_string()]), None),
        ("python3", installed("python3"), strings(&["-c", PYTHON, &steps(size, 400_000).to_string()]), None),
        ("sqlite3", installed("sqlite3"), strings(&[":memory:"]), Some(&sql)),
        ("cc1", cc1, [strings(&quiet_c), strings(&[&source.display().to_string()])].concat(), None),
    ];
    Ok(rows
        .into_iter()
        .map(|(name, program, arguments, input)| {
            Workload::new(name, program, arguments, input.map(Path::to_owned), "Debian's")
        })
        .collect())
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// So many of what there are `each` in an input of size 1.
fn steps(size: f64, each: u32) -> u32 {
    (size * f64::from(each)) as u32
}

/// Generated files, the same on every machine.
struct Inputs {
    directory: PathBuf,
}

impl Inputs {
    fn in_directory(directory: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Self { directory })
    }

    /// Writes a file through `fill`, whatever was there before.
    fn file(&self, name: String, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<PathBuf> {
        let path = self.directory.join(name);
        let mut writer = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
        fill(&mut writer).and_then(|()| writer.flush()).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Lines of a log: some repetition, some noise.
    fn lines(&self, size: f64) -> Result<PathBuf> {
        self.file(format!("lines.{size}"), |out| {
            let mut random = 88_172_645_463_325_252_u64;
            for number in 0..steps(size, 30_000) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                writeln!(
                    out,
                    "{number} {:08x} request from host-{} took {} ms",
                    random >> 32,
                    random % 97,
                    random % 7
                )?;
            }
            Ok(())
        })
    }

    fn sql(&self, size: f64) -> Result<PathBuf> {
        self.file(format!("sql.{size}"), |out| {
            let rows = steps(size, 100_000);
            writeln!(
                out,
                "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                 INSERT INTO t SELECT i, (i * 7919) % 100003, 'row ' || (i % 1000) FROM n;
                 CREATE INDEX tb ON t(b);
                 SELECT count(*), sum(x.a * y.b % 1000) FROM t x JOIN t y ON y.b = x.a % 100003;
                 SELECT c, count(*), max(b) FROM t GROUP BY c ORDER BY 3 DESC, 1 LIMIT 5;"
            )
        })
    }

    /// C without headers: cc1 reads it without the preprocessor's paths.
    fn c_source(&self, size: f64) -> Result<PathBuf> {
        self.file(format!("functions.{size}.c"), |out| {
            for f in 0..steps(size, 250) {
                writeln!(
                    out,
                    "struct s{f} {{ long key; struct s{f} *next; double w[{len}]; }};
long walk{f}(struct s{f} *p, long n) {{
    long sum = {f};
    for (long i = 0; i < n && p; i++, p = p->next) {{
        for (int j = 0; j < {len}; j++) p->w[j] = p->w[j] * {f} + (double)i;
        switch (p->key & 7) {{ case 1: sum += p->key; break; case 5: sum ^= i; break; default: sum -= (long)p->w[0]; }}
    }}
    return sum;
}}",
                    len = f % 9 + 1
                )?;
            }
            Ok(())
        })
    }
}
