//! Names as people write them.

use cpp_demangle::{DemangleOptions, Symbol};
use slimline_trace::fortran_names;

/// The demangled name of a Rust, C++ or Fortran symbol, without hash, parameters or return type; any other name unchanged.
pub fn demangle(raw: &str) -> String {
    // Linkers append a version (`memcpy@@GLIBC_2.14`).
    let name = raw.split_once('@').map_or(raw, |(name, _)| name);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        return fortran_names::written(name).unwrap_or_else(|| name.to_owned());
    }
    // What compilers append to clones (`.isra.0`, `.cold`) is no part of the name.
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    let options = DemangleOptions::new().no_params().no_return_type();
    let whole = Symbol::new(name).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    whole.or_else(|| plain_name(name)).unwrap_or_else(|| name.to_owned())
}

/// The namespaces and name at the start of a C++ symbol that has something in its arguments that could not be
/// demangled: `std::__fill_a1<…>`.
fn plain_name(symbol: &str) -> Option<String> {
    let mut rest = symbol.strip_prefix("_Z")?;
    let is_nested = rest.starts_with('N');
    rest = rest.trim_start_matches(['N', 'K', 'V', 'L']);
    let mut parts = Vec::new();
    if let Some(inside) = rest.strip_prefix("St") {
        parts.push("std");
        rest = inside;
    }
    while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).filter(|&digits| digits > 0) {
        let length: usize = rest[..digits].parse().ok()?;
        parts.push(rest.get(digits..)?.get(..length)?);
        rest = &rest[digits + length..];
        if !is_nested {
            break;
        }
    }
    let arguments = if rest.starts_with('I') { "<…>" } else { "" };
    (!parts.is_empty()).then(|| format!("{}{arguments}", parts.join("::")))
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_read_as_they_were_written() {
        let cases = [
            ("main", "main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN5space5innerIiEclEii.isra.0.cold", "space::inner<int>::operator()"),
            ("_ZN5space5innerIiEclEii", "space::inner<int>::operator()"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs15kBYyAo9fc_7mycrate3foo", "mycrate::foo"),
            ("_QMmeshPstep", "mesh::step"),
            ("__mesh_MOD_step", "mesh::step"),
            // What `c++filt` can and the crate can't.
            (
                "_ZSt9__fill_a1IPN3sky8ParticleES1_EN9__gnu_cxx11__enable_ifIXntsrSt11__is_scalarIT0_E7__valueEvE6__typeET_SA_RKS6_",
                "std::__fill_a1<…>",
            ),
            ("_Z", "_Z"),
            ("_Z99999999999999999999x", "_Z99999999999999999999x"),
        ];
        for (raw, expected) in cases {
            assert_eq!(demangle(raw), expected);
        }
    }
}
