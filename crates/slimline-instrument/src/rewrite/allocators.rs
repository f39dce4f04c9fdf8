//! Functions that give out and take back memory, by the names that linkers see.

use slimline_trace::stream::sites::SiteKind;

/// What a call of an allocator means: which arguments are what, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allocator {
    /// Returns a new block of so many bytes.
    Allocate { bytes: u32 },
    /// Returns a new block of so many elements of so many bytes, all zeros.
    AllocateZeroed { count: u32, bytes: u32 },
    /// Stores a new block where an argument says, and returns zero if it could.
    AllocateInto { place: u32, bytes: u32 },
    /// Makes a block larger or smaller and returns where it is then.
    Resize { block: u32, bytes: u32 },
    /// The same for so many elements of so many bytes.
    ResizeElements { block: u32, count: u32, bytes: u32 },
    /// Takes a block back.
    Free { block: u32 },
    /// Flang's: makes the array that a descriptor says, which leads to it then, and returns zero if it could.
    AllocateDescribed { descriptor: u32 },
    /// Flang's: takes such an array back.
    FreeDescribed { descriptor: u32 },
}

impl Allocator {
    /// The allocator of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match rusts(name).unwrap_or(name) {
            // Size and alignment; block, old size, alignment and new size; block, size and alignment.
            "__rust_alloc" | "__rust_alloc_zeroed" => Self::Allocate { bytes: 0 },
            "__rust_realloc" => Self::Resize { block: 0, bytes: 3 },
            "__rust_dealloc" => Self::Free { block: 0 },
            "malloc" | "valloc" | "pvalloc" => Self::Allocate { bytes: 0 },
            "aligned_alloc" | "memalign" => Self::Allocate { bytes: 1 },
            "posix_memalign" => Self::AllocateInto { place: 0, bytes: 2 },
            "calloc" => Self::AllocateZeroed { count: 0, bytes: 1 },
            "realloc" => Self::Resize { block: 0, bytes: 1 },
            "reallocarray" => Self::ResizeElements { block: 0, count: 1, bytes: 2 },
            "free" | "cfree" => Self::Free { block: 0 },
            "_FortranAAllocatableAllocate"
            | "_FortranAAllocatableAllocateSource"
            | "_FortranAPointerAllocate"
            | "_FortranAPointerAllocateSource" => Self::AllocateDescribed { descriptor: 0 },
            "_FortranAAllocatableDeallocate"
            | "_FortranAAllocatableDeallocatePolymorphic"
            | "_FortranAPointerDeallocate"
            | "_FortranAPointerDeallocatePolymorphic" => Self::FreeDescribed { descriptor: 0 },
            // Itanium C++: operator new and new[] (`nw`, `na`), delete and delete[] (`dl`, `da`); `m` is the size, then
            // come alignment and nothrow, which change nothing here.
            _ => match name.strip_prefix("_Z")?.split_at_checked(2)? {
                ("nw" | "na", rest) if rest.starts_with('m') && is_standard(&rest[1..]) => Self::Allocate { bytes: 0 },
                ("dl" | "da", rest) if rest.starts_with("Pv") => {
                    let rest = &rest[2..];
                    is_standard(rest.strip_prefix('m').unwrap_or(rest)).then_some(Self::Free { block: 0 })?
                }
                _ => return None,
            },
        })
    }

    /// What its record is.
    pub(crate) fn kind(self) -> SiteKind {
        match self {
            Self::Allocate { .. } | Self::AllocateInto { .. } | Self::AllocateDescribed { .. } => SiteKind::Allocate,
            Self::AllocateZeroed { .. } => SiteKind::AllocateZeroed,
            Self::Resize { .. } | Self::ResizeElements { .. } => SiteKind::Resize,
            Self::Free { .. } | Self::FreeDescribed { .. } => SiteKind::Free,
        }
    }

    /// What its call says beforehand: the argument that is a block, which lives no more unless this fails.
    pub(crate) fn resized(self) -> Option<u32> {
        match self {
            Self::Resize { block, .. } | Self::ResizeElements { block, .. } => Some(block),
            _ => None,
        }
    }
}

/// The name of one of Rust's allocating functions, which are linked as `_RNvC…_7___rustc12___rust_alloc`.
fn rusts(name: &str) -> Option<&str> {
    let (_, own) = name.strip_prefix("_RNvC")?.split_once("_7___rustc")?;
    // Names that begin with `_` have another one before it.
    own.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix('_')
}

/// Whether these are parameters of one of the standard's operators: others are the program's own, placement among them.
fn is_standard(parameters: &str) -> bool {
    matches!(parameters, "" | "RKSt9nothrow_t" | "St11align_val_t" | "St11align_val_tRKSt9nothrow_t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_s_functions_by_their_linked_names() {
        let named = |name: &str| Allocator::named(&format!("_RNvCsfLfy6EI15iL_7___rustc{name}"));
        assert_eq!(named("12___rust_alloc"), Some(Allocator::Allocate { bytes: 0 }));
        assert_eq!(named("19___rust_alloc_zeroed"), Some(Allocator::Allocate { bytes: 0 }));
        assert_eq!(named("14___rust_realloc"), Some(Allocator::Resize { block: 0, bytes: 3 }));
        assert_eq!(Allocator::named("__rust_dealloc"), Some(Allocator::Free { block: 0 }));
        assert_eq!(named("35___rust_no_alloc_shim_is_unstable_v2"), None);
        assert_eq!(Allocator::named("_RNvCsfLfy6EI15iL_4main5alloc"), None);
    }

    #[test]
    fn operators_by_their_linked_names() {
        let new = Some(Allocator::Allocate { bytes: 0 });
        let free = Some(Allocator::Free { block: 0 });
        for name in ["_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t", "malloc"] {
            assert_eq!(Allocator::named(name), new, "{name}");
        }
        for name in ["_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdlPvSt11align_val_t", "_ZdaPvmSt11align_val_t", "free"] {
            assert_eq!(Allocator::named(name), free, "{name}");
        }
        // Placement, a class' own, and what only begins so.
        for name in ["_ZnwmPv", "_ZN4PoolnwEm", "_Znwj", "mallocate", "_Z", "_Zdl", "_Znw", ""] {
            assert_eq!(Allocator::named(name), None, "{name}");
        }
    }
}
