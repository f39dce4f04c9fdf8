//! Arguments of `slimline cc`, `gcc` and `cargo`, and what is to be known of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

/// Subcommands that build programs. A link to this program that is called `slimline-` and one of these runs it.
pub(crate) const COMPILERS: [&str; 7] = ["cc", "c++", "flang", "gcc", "g++", "gfortran", "cargo"];

/// The arguments with the subcommand that the program's own name stands for.
pub(crate) fn with_subcommand(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|own| Path::new(own).file_name()?.to_str()?.strip_prefix("slimline-"));
    if let Some(compiler) = COMPILERS.into_iter().find(|compiler| name == Some(compiler)) {
        arguments.insert(1, compiler.into());
    }
    arguments
}

/// Make the compilers commands of one word, for build systems that need that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline links && CC=slimline-cc CXX=slimline-c++ ./configure\n  \
        slimline links ~/bin && CC=slimline-gcc FC=slimline-gfortran meson setup build\n\n\
        slimline-cc, slimline-c++, slimline-flang, slimline-gcc, slimline-g++, slimline-gfortran and slimline-cargo are links to \
        this program, which knows by its name what to do. A copy of slimline by such a name is the same.")]
pub(crate) struct Links {
    /// Directory to make them in [default: the one that slimline is in]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

/// What a compiler takes besides clang's arguments.
pub(crate) const COMPILE_OPTIONS: &str = "\
Options of slimline's own:
  --slimline-values  Have what is loaded and stored told, too, of all up to 8 bytes: `slimline
                     trace` shows least, greatest, zeros and the narrowest type of each field.
                     Code and trace are about twice as large";

/// Arguments of a compiler.
#[derive(Debug, Args)]
#[command(before_help = COMPILE_OPTIONS, after_help = "Examples:\n  \
        make CC='slimline cc' CXX='slimline c++'\n  \
        slimline c++ -O2 -o program program.cpp && slimline trace --live -- ./program\n  \
        make CC='slimline cc --slimline-values'\n  \
        slimline flang -O2 -o program program.f90 && slimline trace --live -- ./program\n\n\
        The code is optimized as it would be, and debug information is added (-g). SLIMLINE_CLANG and SLIMLINE_FLANG name \
        the compilers to use, of version 19 to 22 with their libLLVM; else the newest in PATH are taken. Ends with the \
        compiler's status, or with 2 where the code can't be traced.\n\n\
        Allocators of the program's own are those of slimline.toml, in this directory or the nearest above it, or of \
        the file that SLIMLINE_CONFIGURATION names.")]
pub(crate) struct Compile {
    /// As the compiler takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// What is to be known of gcc's way, before its own help.
pub(crate) const GCC_NOTES: &str = "\
gcc's own calls of hooks before each access become records: the slower fallback, two to three times
a native build's time even where nothing is traced. Where clang compiles the program as well, use
`slimline cc`. Loops are not vectorized. Not told: values (slimline cc --slimline-values), what
inline assembly accesses, copies of a few words that gcc makes by instructions instead of calls,
and what functions with `no_sanitize_thread` do. Names come of the debug information when the
program is traced: don't strip it.";

/// Examples of gcc's way.
pub(crate) const GCC_EXAMPLES: &str = "Examples:
  make CC='slimline gcc' CXX='slimline g++' FC='slimline gfortran'
  slimline gfortran -O2 -o program program.f90 && slimline trace --live -- ./program
  SLIMLINE_GCC=gcc-13 slimline g++ -O2 -c part.cpp

Debug information is added (-g). SLIMLINE_GCC names the gcc to use, of version 11 or newer for
x86-64 Linux, and g++ and gfortran beside it; else they are looked for in PATH. Ends with gcc's
status, or with 2 where the code can't be traced: static programs, sanitizers, link-time
optimization.

Allocators of the program's own are those of slimline.toml, in this directory or the nearest above
it, or of the file that SLIMLINE_CONFIGURATION names.";

/// Both.
pub(crate) fn gcc_help() -> String {
    format!("{GCC_NOTES}\n\n{GCC_EXAMPLES}")
}

/// Arguments of one of gcc's compilers.
#[derive(Debug, Args)]
#[command(before_help = GCC_NOTES, after_help = GCC_EXAMPLES)]
pub(crate) struct Gcc {
    /// As gcc takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// What cargo takes besides its own arguments.
pub(crate) const CARGO_OPTIONS: &str = "\
Options of slimline's own:
  --slimline-values  Have what is loaded and stored told, too, of all up to 8 bytes
                     (see slimline cc)

Allocators of the program's own are those of slimline.toml, in this directory or the nearest above
it, or of the file that SLIMLINE_CONFIGURATION names.

Examples:
  slimline cargo build --release
  slimline trace --live -- target/slimline/x86_64-unknown-linux-gnu/release/program
  slimline trace --live -- slimline cargo test --release";

/// Arguments of cargo.
#[derive(Debug, Args)]
#[command(before_help = CARGO_OPTIONS)]
pub(crate) struct Cargo {
    /// As cargo takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}
