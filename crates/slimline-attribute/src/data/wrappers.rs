//! Which functions only pass memory on, so that a data structure is named by the program's own line.

use slimline_trace::toolchain_source::is_rusts;

/// Rules by name. Lists are data: configuration adds to them.
#[derive(Clone, Debug)]
pub struct WrapperRules {
    /// Beginnings of names: whole libraries that allocate for their caller.
    pub prefixes: Vec<String>,
    /// Whole names (without namespaces) of functions that return memory that is new to their caller.
    pub functions: Vec<String>,
    /// Parts of the paths of source files that are a library's, beside those of Rust's. Debug information may name its
    /// functions without their namespace.
    pub sources: Vec<String>,
    /// Beginnings of file names of modules whose code never is the program's own.
    pub modules: Vec<String>,
}

impl Default for WrapperRules {
    fn default() -> Self {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Self {
            prefixes: owned(&[
                // Rust's libraries. `hashbrown` is what std's maps are made of.
                "std::",
                "core::",
                "alloc::",
                "hashbrown::",
                "indexmap::",
                "smallvec::",
                "__rust_",
                "__rdl_",
                "__rg_",
                // C++'s: `std::` as above, GNU's and LLVM's own namespaces.
                "__gnu_cxx::",
                "std::__",
                "operator new",
                "boost::container::",
                "boost::alignment::",
                "absl::container_internal::",
            ]),
            functions: owned(&[
                "strdup",
                "strndup",
                "asprintf",
                "vasprintf",
                "getline",
                "getdelim",
                "realpath",
                "fopen",
                "fdopen",
                "opendir",
                "scandir",
            ]),
            // C++'s headers.
            sources: owned(&["/include/c++/"]),
            modules: owned(&[
                "libc.so",
                "libc-",
                "ld-linux",
                "ld-musl",
                "libpthread",
                "libstdc++.so",
                "libc++.so",
                "libc++abi.so",
                "libgcc_s.so",
                "libasan.so",
            ]),
        }
    }
}

/// What the rules say of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passes memory on, whatever it does besides.
    Library,
    /// Has the name of an allocator (`xmalloc`, `pool_alloc`): it is one if it returns what it got and no more.
    NamedLikeAllocator,
    /// The program's own.
    Program,
}

impl WrapperRules {
    /// Whether a source file is a library's, whose code was inlined into the program.
    pub fn is_library_source(&self, path: &str) -> bool {
        is_rusts(path) || self.sources.iter().any(|part| path.contains(part.as_str()))
    }

    /// Whether a function or type with that name is a library's. `<alloc::vec::Vec<T> as core::clone::Clone>::clone`
    /// belongs to the type's crate.
    pub fn is_library_name(&self, name: &str) -> bool {
        let owner = name.trim_start_matches(['<', '&', '*']).trim_start_matches("mut ");
        self.prefixes.iter().any(|prefix| owner.starts_with(prefix.as_str()))
    }

    /// What the rules say of `function` in `module` (a file name), whose code is written in the file `source`.
    pub fn judge(&self, function: &str, module: &str, source: Option<&str>) -> Verdict {
        if source.is_some_and(|path| self.is_library_source(path)) {
            return Verdict::Library;
        }
        if self.modules.iter().any(|prefix| module.starts_with(prefix.as_str())) {
            return Verdict::Library;
        }
        if self.is_library_name(function) {
            return Verdict::Library;
        }
        let name = last_segment(function);
        if self.functions.iter().any(|known| known == name) {
            return Verdict::Library;
        }
        if is_named_like_allocator(name) { Verdict::NamedLikeAllocator } else { Verdict::Program }
    }
}

/// The name without namespaces and template arguments: `allocate` of `ns::Pool<a::B>::allocate<int>`.
fn last_segment(function: &str) -> &str {
    let mut depth = 0_i32;
    let mut start = 0;
    let mut end = function.len();
    let bytes = function.as_bytes();
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => {
                if depth == 0 && index > start {
                    end = index;
                }
                depth += 1;
            }
            b'>' => depth -= 1,
            b':' if depth == 0 => {
                start = index + 1;
                end = function.len();
            }
            b'(' | b' ' | b'.' if depth == 0 && index > start => end = end.min(index),
            _ => {}
        }
    }
    function.get(start..end).unwrap_or(function)
}

/// `xmalloc`, `g_malloc0_n`, `my_calloc`, `AllocateBytes`, `pool_alloc`; not `deallocate`, `allocator_stats`.
fn is_named_like_allocator(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let Some(place) = lower.find("alloc") else { return false };
    let rest = &lower[place + "alloc".len()..];
    !lower.contains("dealloc") && !rest.starts_with("ator") && !rest.starts_with("ation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_code_and_allocators_are_told_from_the_program() {
        let rules = WrapperRules::default();
        use Verdict::{Library, NamedLikeAllocator, Program};
        let cases = [
            ("std::vector<Node, std::allocator<Node> >::_M_realloc_insert<Node const&>", "prog", Library),
            ("__gnu_cxx::new_allocator<Node>::allocate", "prog", Library),
            ("operator new[]", "libstdc++.so.6.0.30", Library),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "prog", Library),
            ("<alloc::vec::Vec<T> as core::iter::traits::collect::FromIterator<T>>::from_iter", "prog", Library),
            ("<prog::Tree as core::clone::Clone>::clone", "prog", Program),
            ("prog::main", "prog", Program),
            ("std::rt::lang_start", "prog", Library),
            ("__libc_start_call_main", "libc.so.6", Library),
            ("xmalloc", "sort", NamedLikeAllocator),
            ("g_malloc0", "libglib-2.0.so.0", NamedLikeAllocator),
            ("Pool<std::string>::Allocate<int>", "prog", NamedLikeAllocator),
            ("xcalloc.part.0", "prog", NamedLikeAllocator),
            ("my::Pool::deallocate", "prog", Program),
            ("print_allocation_table", "prog", Program),
            ("xstrdup", "prog", Program),
            ("build_tree", "prog", Program),
            ("alloc_stats::print", "prog", Program),
        ];
        for (function, module, expected) in cases {
            assert_eq!(rules.judge(function, module, None), expected, "{function}");
        }
        let header = Some("/usr/include/c++/12/bits/stl_algo.h");
        assert_eq!(rules.judge("__sort<int*, main()::<lambda(int, int)> >", "prog", header), Library);
        let deps = Some("/rust/deps/hashbrown-0.16.1/src/raw.rs");
        assert_eq!(rules.judge("reserve_rehash<(u32, u64)>", "prog", deps), Library);
        for own in ["/home/me/include/main.cpp", "/home/me/rust/deps/pool.rs", "/w/rustc/main.rs"] {
            assert_eq!(rules.judge("main", "prog", Some(own)), Program);
        }
        assert!(rules.is_library_name("alloc::collections::btree::node::LeafNode<u64, prog::Node>"));
        assert!(!rules.is_library_name("struct node") && !rules.is_library_name("prog::Node<std::string>"));
    }

    #[test]
    fn last_segments() {
        let cases = [
            ("ns::Pool<a::B>::allocate<int>", "allocate"),
            ("main", "main"),
            ("<a::B as c::D>::clone", "clone"),
            ("xcalloc.part.0", "xcalloc"),
            ("a::b::{closure#0}", "{closure#0}"),
            ("operator new", "operator"),
            ("", ""),
        ];
        for (function, expected) in cases {
            assert_eq!(last_segment(function), expected);
        }
    }
}
