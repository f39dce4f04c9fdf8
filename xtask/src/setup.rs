//! System packages that tests and benches need.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// A Debian package.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    name: &'static str,
    /// A file name on PATH that it brings, for machines without dpkg.
    executable: Option<&'static str>,
}

const fn package(name: &'static str, executable: &'static str) -> Package {
    Package { name, executable: Some(executable) }
}

/// What `cargo xtask test` needs.
pub(crate) const TESTS: &[Package] = &[
    package("gcc", "gcc"),
    package("g++", "g++"),
    // Its debug information and code differ from gcc's.
    package("clang", "clang++"),
    // What instruments programs: the oldest that it knows, with its libLLVM.
    package("clang-19", "clang-19"),
    // OpenMP's runtime of clang, whose regions are profiled.
    Package { name: "libomp-19-dev", executable: None },
    // Translates programs for `trace --collector translate`: Debian's with plugins is of version 12.
    package("qemu-user", "qemu-x86_64"),
    // Its programs' accesses are traced as clang's are.
    package("flang-19", "flang-new-19"),
    package("gfortran", "gfortran"),
    package("make", "make"),
    // Build systems that call our compilers, and a cache in front of these.
    package("cmake", "cmake"),
    package("ninja-build", "ninja"),
    package("meson", "meson"),
    package("autoconf", "autoconf"),
    package("automake", "automake"),
    package("libtool", "libtoolize"),
    package("ccache", "ccache"),
    package("binutils", "objcopy"),
    // Moves debug information that files share to one of their own.
    package("dwz", "dwz"),
    // Moves functions of finished programs.
    package("bolt-16", "llvm-bolt-16"),
    package("graphviz", "dot"),
    // Opens the pages that reports are, as those who read them do.
    package("chromium", "chromium"),
    package("gzip", "gzip"),
    package("xz-utils", "xz"),
    package("perl", "perl"),
    package("python3", "python3"),
    package("sqlite3", "sqlite3"),
    package("redis-server", "redis-server"),
    package("redis-tools", "redis-cli"),
    // Whose counts the simulator's must equal, and whose callgrind_annotate reads what is exported.
    package("valgrind", "valgrind"),
    // Whose pprof reads it, too: Debian has no other reader of these profiles.
    package("golang-go", "go"),
    // An allocator to be preloaded below the agent's.
    Package { name: "libjemalloc2", executable: None },
    // Allocators to be linked statically, and one that is called by its own names.
    Package { name: "libjemalloc-dev", executable: None },
    Package { name: "libgoogle-perftools-dev", executable: None },
    Package { name: "libmimalloc-dev", executable: None },
    // Another C library, whose loader meets the agent in its environment.
    package("musl-tools", "musl-gcc"),
    // The separate debug file of a system library, for the look-up by build-id.
    Package { name: "libc6-dbg", executable: None },
];

/// What the torture suite of `cargo xtask harm` needs beyond [`TESTS`].
pub(crate) const TORTURE: &[Package] = &[
    Package { name: "libmimalloc2.0", executable: None },
    Package { name: "libtcmalloc-minimal4", executable: None },
    package("gdb", "gdb"),
    package("strace", "strace"),
    // Builds snmalloc.
    package("cmake", "cmake"),
    package("nginx-light", "nginx"),
    package("gunicorn", "gunicorn"),
    Package { name: "postgresql-15", executable: None },
    package("curl", "curl"),
];

/// What the oracle needs.
pub(crate) const ORACLE: &[Package] = &[package("valgrind", "valgrind"), package("gcc", "gcc")];

/// What `cargo xtask bench trace` needs.
pub(crate) const TRACING: &[Package] =
    &[package("clang-19", "clang-19"), package("binutils", "objcopy"), package("valgrind", "valgrind")];

/// What `cargo xtask bench translate` needs.
pub(crate) const TRANSLATING: &[Package] = &[
    package("gcc", "gcc"),
    package("g++", "g++"),
    package("qemu-user", "qemu-x86_64"),
    package("valgrind", "valgrind"),
    package("xz-utils", "xz"),
    package("perl", "perl"),
    package("python3", "python3"),
    package("sqlite3", "sqlite3"),
];

/// What building Debian's source packages needs.
pub(crate) const SOURCES: &[Package] = &[package("dpkg-dev", "dpkg-source"), package("make", "make")];

/// What reads exports, of npm, in this directory below the project's: speedscope's own page, the Firefox Profiler without its page, and
/// Microsoft's validator of SARIF, which is one executable file.
const VIEWERS: [(&str, &str); 3] = [
    ("speedscope", "1.25.0"),
    ("@firefox-devtools/profiler-cli", "0.10.0"),
    ("@microsoft/sarif-multitool-linux", "5.7.0"),
];
const VIEWERS_DIRECTORY: &str = "target/viewers";
const SARIF_VALIDATOR: &str = "node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool";

/// What tests need: packages, and what opens exports, where there is npm to get it by. Without, the test of that says that it was skipped.
pub(crate) fn for_tests() -> Result<()> {
    install(TESTS)?;
    let viewers = crate::root().join(VIEWERS_DIRECTORY);
    let has_version = |&(name, version): &(&str, &str)| {
        let package = fs::read_to_string(viewers.join("node_modules").join(name).join("package.json"));
        package.is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
    };
    if VIEWERS.iter().all(has_version) {
        return make_executable(&viewers);
    }
    if !on_path("npm") {
        return Ok(());
    }
    // All of them at once: npm removes what it is not asked for.
    let packages = VIEWERS.map(|(name, version)| format!("{name}@{version}"));
    eprintln!("installing {} in {VIEWERS_DIRECTORY}", packages.join(", "));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&viewers);
    let status = npm.args(&packages).stdout(std::io::stderr()).status().context("npm")?;
    if !status.success() {
        eprintln!("npm install {}: {status}; tests of what is not there will be skipped", packages.join(" "));
        return Ok(());
    }
    make_executable(&viewers)
}

/// npm makes only that executable what a package declares to be.
fn make_executable(viewers: &Path) -> Result<()> {
    let validator = viewers.join(SARIF_VALIDATOR);
    fs::set_permissions(&validator, Permissions::from_mode(0o755)).with_context(|| validator.display().to_string())
}

/// Sees to it that all of `packages` are installed: installs them where it may, else names them.
pub(crate) fn install(packages: &[Package]) -> Result<()> {
    let debian = on_path("dpkg-query");
    let missing: Vec<&str> = packages
        .iter()
        .filter(
            |package| if debian { !installed(package.name) } else { package.executable.is_some_and(|e| !on_path(e)) },
        )
        .map(|package| package.name)
        .collect();
    install_missing(&missing, debian)
}

/// The same for packages that only Debian has.
pub(crate) fn install_debian(names: &[&str]) -> Result<()> {
    let missing: Vec<&str> = names.iter().copied().filter(|name| !installed(name)).collect();
    install_missing(&missing, on_path("dpkg-query"))
}

fn install_missing(missing: &[&str], debian: bool) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let missing_names = missing.join(" ");
    if !debian || !on_path("apt-get") {
        bail!("install what Debian calls {missing_names}, then try again");
    }
    if !is_root()? {
        bail!("run this first: sudo apt-get install {missing_names}");
    }
    eprintln!("installing {missing_names}");
    apt_get(&["update", "-qq"])?;
    apt_get(&[&["install", "-qq", "-y", "--no-install-recommends"], missing].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    // Its chatter goes to standard error: standard output is for what the task prints.
    let status = Command::new("apt-get")
        .args(["-o", "Dpkg::Use-Pty=0"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()
        .context("apt-get")?;
    if !status.success() {
        bail!("apt-get {}: {status}", arguments.join(" "));
    }
    Ok(())
}

fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

/// Whether a program of that name is on PATH.
pub(crate) fn on_path(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("id -u")?;
    Ok(output.stdout.trim_ascii() == b"0")
}
