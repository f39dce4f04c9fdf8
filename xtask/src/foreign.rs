//! Programs that nobody here wrote, built with debug information from Debian's source packages into
//! `<target>/foreign`. Nothing of them enters the repository.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::measure::{read, timed};
use crate::{setup, target_dir};

/// The built programs with an input each.
pub(crate) struct Foreign {
    pub(crate) svm_train: PathBuf,
    pub(crate) svm_input: PathBuf,
    pub(crate) lua: PathBuf,
    pub(crate) lua_input: PathBuf,
    pub(crate) bzip2: PathBuf,
    pub(crate) bzip2_input: PathBuf,
}

const LUA: &str = r#"
local points = {}
for i = 1, 100000 do points[i] = { x = i % 97, y = i % 89, mass = 1.5, name = "p" .. i % 50 } end
local sum = 0
for pass = 1, 60 do
  for i = 1, #points do local p = points[i]; sum = sum + p.x * p.mass; p.y = p.y + 1 end
end
print(sum, points[100].y)
"#;

/// Downloads and builds what isn't there yet.
pub(crate) fn build() -> Result<Foreign> {
    let directory = target_dir()?.join("foreign");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let file = |name: &str| directory.join(name);
    let built = Foreign {
        svm_train: file("svm-train"),
        svm_input: file("svm-input"),
        lua: file("lua"),
        lua_input: file("input.lua"),
        bzip2: file("bzip2"),
        bzip2_input: file("bzip2-input"),
    };
    std::fs::write(&built.svm_input, svm_problem())?;
    std::fs::write(&built.lua_input, LUA)?;
    std::fs::write(&built.bzip2_input, (0..2_500_000).map(|i: u32| format!("{i}\n")).collect::<String>())?;

    let compile = |package: &str, compiler: &str, sources: &str, output: &Path| -> Result<()> {
        if output.exists() {
            return Ok(());
        }
        let script = format!("{compiler} -O2 -g -w {sources} -lm -o \"$OUTPUT\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(source(package, &directory)?).env("OUTPUT", output);
        timed(command).with_context(|| format!("building {package}")).map(|_| ())
    };
    compile("libsvm", "g++", "svm.cpp svm-train.c", &built.svm_train)?;
    compile("lua5.4", "gcc -DLUA_USE_POSIX", "$(ls src/*.c | grep -v luac.c)", &built.lua)?;
    let bzip2 = "blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c bzip2.c";
    compile("bzip2", "gcc -D_FILE_OFFSET_BITS=64", bzip2, &built.bzip2)?;
    Ok(built)
}

/// Two classes of sparse vectors of random numbers.
fn svm_problem() -> String {
    let mut random = 88_172_645_463_325_252_u64;
    let mut text = String::new();
    for _ in 0..2500 {
        let mut features = String::new();
        for column in 1..=40 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
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

/// The unpacked upstream source of a Debian source package.
fn source(package: &str, directory: &Path) -> Result<PathBuf> {
    let unpacked = directory.join(format!("{package}.source"));
    if unpacked.exists() {
        return Ok(unpacked);
    }
    setup::install(setup::SOURCES)?;
    let lists = source_lists(directory)?;
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.arg("-o").arg("Dir::Etc::sourcelist=/dev/null");
        command.arg("-o").arg(format!("Dir::Etc::sourceparts={}", lists.display()));
        command.arg("-o").arg(format!("Dir::State::lists={}", lists.join("lists").display()));
        command.args(arguments).current_dir(directory);
        timed(command)
    };
    apt_get(&["update", "-qq"])?;
    apt_get(&["source", "-qq", "--tar-only", package])?;
    let tar = std::fs::read_dir(directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{package}_")) && name.contains(".orig.tar.")
        })
        .with_context(|| format!("apt-get source {package} left no upstream source"))?;
    let unfinished = directory.join(format!("{package}.unpacking"));
    std::fs::create_dir_all(&unfinished)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&tar).arg("--strip-components=1").arg("-C").arg(&unfinished);
    timed(unpack)?;
    std::fs::rename(&unfinished, &unpacked)?;
    Ok(unpacked)
}

/// A directory with this machine's own apt sources, asked for source packages instead of binary ones; the system's
/// configuration stays as it is.
fn source_lists(directory: &Path) -> Result<PathBuf> {
    let lists = directory.join("apt");
    std::fs::create_dir_all(lists.join("lists/partial"))?;
    let system = Path::new("/etc/apt/sources.list.d/debian.sources");
    let ubuntu = Path::new("/etc/apt/sources.list.d/ubuntu.sources");
    if let Some(deb822) = [system, ubuntu].into_iter().find(|path| path.exists()) {
        std::fs::write(lists.join("sources.sources"), read(deb822)?.replace("Types: deb\n", "Types: deb-src\n"))?;
    } else {
        let lines = read(Path::new("/etc/apt/sources.list")).context("neither debian.sources nor sources.list")?;
        let lines: Vec<String> = lines
            .lines()
            .filter_map(|line| line.strip_prefix("deb "))
            .map(|source| format!("deb-src {source}\n"))
            .collect();
        if lines.is_empty() {
            bail!("/etc/apt/sources.list names no archive");
        }
        std::fs::write(lists.join("sources.list"), lines.concat())?;
    }
    Ok(lists)
}
