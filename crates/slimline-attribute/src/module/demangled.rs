//! Names as people write them.

use cpp_demangle::{DemangleOptions, Symbol};

/// The demangled name of a Rust or C++ symbol, without hash, parameters or return type; any other name unchanged.
pub fn demangle(raw: &str) -> String {
    // Linkers append a version (`memcpy@@GLIBC_2.14`).
    let name = raw.split_once('@').map_or(raw, |(name, _)| name);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = Symbol::new(name)
        && let Ok(text) = symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type())
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_read_as_they_were_written() {
        let cases = [
            ("main", "main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN5space5innerIiEclEii", "space::inner<int>::operator()"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs15kBYyAo9fc_7mycrate3foo", "mycrate::foo"),
            ("_Z", "_Z"),
        ];
        for (raw, expected) in cases {
            assert_eq!(demangle(raw), expected);
        }
    }
}
