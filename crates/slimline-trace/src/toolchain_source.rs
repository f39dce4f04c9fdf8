//! Which source files are of a language's toolchain, by their paths in debug information.

/// Whether a source file is of Rust's standard library or of a crate that it is made of.
///
/// ```text
///   /rustc/<commit>/library/core/src/ptr/mod.rs                 as the library was built
///   /rust/deps/hashbrown-0.16.1/src/raw.rs                      what it is made of
///   …/lib/rustlib/src/rust/library/core/src/ptr/mod.rs          where the sources are installed
/// ```
pub fn is_rusts(path: &str) -> bool {
    let is_built = path.starts_with("/rustc/") || path.starts_with("/rust/deps/");
    is_built || path.contains("/lib/rustlib/src/rust/library/")
}

#[cfg(test)]
mod tests {
    use super::is_rusts;

    #[test]
    fn paths_of_the_toolchain_are_told_from_the_programs() {
        let installed = "/home/me/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/core/src/mem/mod.rs";
        for path in
            ["/rustc/59807616e/library/core/src/ptr/mod.rs", "/rust/deps/hashbrown-0.16.1/src/raw.rs", installed]
        {
            assert!(is_rusts(path), "{path}");
        }
        for path in ["/home/me/rust/deps/pool.rs", "/src/rustc/driver.rs", "/w/rustlib/src/main.rs", "src/main.rs", ""]
        {
            assert!(!is_rusts(path), "{path}");
        }
    }
}
