//! Programs that nobody here wrote, built with debug information from Debian's source packages or from crates.io into
//! `<target>/foreign`. Nothing of them enters the repository.
//!
//! Debian's need `apt-get` and the archives that this machine's own apt sources name; the system's configuration needs no
//! `deb-src`, and stays as it is. Elsewhere, `SLIMLINE_FOREIGN` names a directory with the finished executables.

pub(crate) mod inputs;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::compilers::Compilers;
use crate::measure::{read, timed};
use crate::{setup, target_dir};

/// How a program is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    /// What the executable is called.
    pub(crate) name: &'static str,
    /// Where its source comes from, and what makes the executable of it.
    pub(crate) from: Origin,
}

/// Where a program's source comes from, and what makes the executable of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// A source package of Debian's; shell words: the compiler (`$CC` or `$CXX`) with its options, and the source files.
    Compiled { package: &'static str, compiler: &'static str, sources: &'static str },
    /// A source package of Debian's; a shell script that leaves the executable at `$OUTPUT`. Where it does not say `$CC`, only
    /// its makefile knows the compiler.
    Made { package: &'static str, script: &'static str },
    /// A crate of that version that has an executable of its name.
    Crate { version: &'static str },
}

/// Support vector machines, C++.
pub(crate) const SVM_TRAIN: Build = Build {
    name: "svm-train",
    from: Origin::Compiled { package: "libsvm", compiler: "$CXX", sources: "svm.cpp svm-train.c" },
};

/// An interpreter, C.
pub(crate) const LUA: Build = Build {
    name: "lua",
    // Its hash seed is random otherwise, and with it the collisions: each run would have shares of its own.
    from: Origin::Compiled {
        package: "lua5.4",
        compiler: "$CC -DLUA_USE_POSIX '-Dluai_makeseed(L)=0x5eedu'",
        sources: "$(ls src/*.c | grep -v luac.c)",
    },
};

/// A compressor, C.
pub(crate) const BZIP2: Build = Build {
    name: "bzip2",
    from: Origin::Compiled {
        package: "bzip2",
        compiler: "$CC -D_FILE_OFFSET_BITS=64",
        sources: "blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c bzip2.c",
    },
};

/// An interpreter, C.
pub(crate) const MUJS: Build =
    Build { name: "mujs", from: Origin::Compiled { package: "mujs", compiler: "$CC", sources: "one.c main.c" } };

/// A SAT solver, C.
pub(crate) const PICOSAT: Build = Build {
    name: "picosat",
    // What its configure writes; and its exit status, 20, is no failure.
    from: Origin::Compiled {
        package: "picosat",
        compiler: "$CC -DNDEBUG -DPICOSAT_VERSION='\"\"' -DPICOSAT_CC='\"\"' -DPICOSAT_CFLAGS='\"\"'",
        sources: "$(: >config.h; sed 's/return \\(.*\\);/\\1; return 0;/' main.c >start.c; echo start.c app.c picosat.c version.c)",
    },
};

/// A compressor, C.
pub(crate) const ZSTD: Build = Build {
    name: "zstd",
    from: Origin::Made {
        package: "libzstd",
        script: "make -s -C programs zstd MOREFLAGS='-g -w' && cp programs/zstd \"$OUTPUT\"",
    },
};

/// A database, C.
pub(crate) const SQLITE3: Build = Build {
    name: "sqlite3",
    from: Origin::Made {
        package: "sqlite3",
        script: "./configure --disable-tcl >/dev/null && make -s sqlite3.c shell.c >/dev/null && \
                 $CC -O2 -g -w -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION shell.c sqlite3.c -lm -o \"$OUTPUT\"",
    },
};

/// A server, C.
pub(crate) const REDIS_SERVER: Build = Build {
    name: "redis-server",
    from: Origin::Made {
        package: "redis",
        script: "make -s -C src MALLOC=libc OPTIMIZATION=-O2 CFLAGS=-w redis-server >/dev/null 2>&1 && \
                 cp src/redis-server \"$OUTPUT\"",
    },
};

/// A build tool, C++ with the standard library's containers.
pub(crate) const NINJA: Build = Build {
    name: "ninja",
    from: Origin::Compiled {
        package: "ninja-build",
        compiler: "$CXX",
        sources: "$(ls src/*.cc | grep -vE 'test|bench|win32|browse|\\.in\\.')",
    },
};

/// A search tool, Rust.
pub(crate) const RIPGREP: Build = Build { name: "ripgrep", from: Origin::Crate { version: "14.1.1" } };

impl Build {
    /// The executable; downloads and builds what isn't there yet.
    pub(crate) fn executable(&self) -> Result<PathBuf> {
        let name = self.name;
        if let Some(finished) = std::env::var_os("SLIMLINE_FOREIGN") {
            let executable = Path::new(&finished).join(name);
            if !executable.is_file() {
                bail!("no {}, though SLIMLINE_FOREIGN is set", executable.display());
            }
            return Ok(executable);
        }
        self.executable_by(&Compilers::gnu())
    }

    /// The executable that these compilers make. It is built here, whatever `SLIMLINE_FOREIGN` says.
    pub(crate) fn executable_by(&self, compilers: &Compilers) -> Result<PathBuf> {
        let name = self.name;
        let directory = directory()?;
        let (package, script) = match self.from {
            Origin::Compiled { package, compiler, sources } => {
                (Some(package), format!("{compiler} -O2 -g -w {sources} -lm -o \"$OUTPUT\""))
            }
            Origin::Made { package, script } => (Some(package), script.to_owned()),
            Origin::Crate { version } => (
                None,
                format!(
                    "CARGO_PROFILE_RELEASE_DEBUG=2 CARGO_TARGET_DIR={name}.target \
                     cargo install --quiet --locked --root {name}.root --version {version} {name} && \
                     cp {name}.root/bin/* \"$OUTPUT\" && rm -r {name}.target"
                ),
            ),
        };
        if !Compilers::are_asked_for(&script) && *compilers != Compilers::gnu() {
            bail!("{name} can't be built with another compiler than that of its own makefile");
        }
        let script = compilers.in_script(&script);
        let executable = directory.join(format!("{name}.{:016x}", hash(&script)));
        if compilers.are_older_than(&executable) {
            return Ok(executable);
        }
        let sources = match package {
            None => directory,
            Some(_) if setup::on_path("apt-get") => source(package.unwrap_or_default(), &directory)?,
            Some(package) => bail!(
                "needs apt-get for Debian's source package {package}; or, but for `bench trace`, set SLIMLINE_FOREIGN to a \
                 directory that has {name}, built with -O2 -g"
            ),
        };
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(sources).env("OUTPUT", &executable);
        timed(command).with_context(|| format!("building {name}"))?;
        Ok(executable)
    }
}

/// Arguments for the program of that name, in which `INPUT` stands for a file with this text. Where none does the file is to be
/// its standard input.
pub(crate) fn arguments(name: &str, words: &[&str], text: &str) -> Result<(Vec<String>, Option<PathBuf>)> {
    let file = input(name, text)?;
    let path = file.display().to_string();
    let arguments = words.iter().map(|word| if *word == "INPUT" { &path } else { *word }.to_owned());
    Ok((arguments.collect(), (!words.contains(&"INPUT")).then_some(file)))
}

/// An input file for the program of that name.
pub(crate) fn input(name: &str, text: &str) -> Result<PathBuf> {
    // Named by what is in it: the oracle keeps its answers by the arguments.
    let input = directory()?.join(format!("{name}.{:016x}.input", hash(text)));
    std::fs::write(&input, text).with_context(|| input.display().to_string())?;
    Ok(input)
}

fn directory() -> Result<PathBuf> {
    let directory = target_dir()?.join("foreign");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
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
