//! The file that linkers read the runtime from.
//!
//! Build systems write down what they see linked: CMake reads the libraries of each compiler off its verbose output, and linkers
//! list their inputs as what a program is to be built anew for. So the file stays: it lies in the user's cache, by its content,
//! and is complete whenever it is there. And it is not called `.a`: CMake and autoconf would take it for a library of the
//! compiler's, to be given to linkers of other languages, which have it already.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Its name, in a directory that says which one it is.
const NAME: &str = "slimline-runtime";

/// The file with this archive in it: in the cache, else, where that can't be written, in `scratch`.
pub(crate) fn runtime_file(runtime: &[u8], scratch: &Path) -> io::Result<PathBuf> {
    if let Some(cached) = cache().and_then(|cache| in_cache(runtime, &cache).ok()) {
        return Ok(cached);
    }
    let file = scratch.join(NAME);
    fs::write(&file, runtime)?;
    Ok(file)
}

/// `$XDG_CACHE_HOME`, else `~/.cache`; none where there is neither.
fn cache() -> Option<PathBuf> {
    let named = |variable| Some(PathBuf::from(env::var_os(variable)?)).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))
}

/// The file in this cache, which is made where it is not there, or not whole.
fn in_cache(runtime: &[u8], cache: &Path) -> io::Result<PathBuf> {
    // Nobody else's: what root makes in it its owner could not replace, and what the owner makes root should not link.
    let existing = cache.ancestors().find_map(|directory| fs::metadata(directory).ok());
    if existing.is_none_or(|found| fs::metadata("/proc/self").is_ok_and(|own| own.uid() != found.uid())) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut hasher = DefaultHasher::new();
    runtime.hash(&mut hasher);
    let directory = cache.join("slimline").join(format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish()));
    let file = directory.join(NAME);
    if fs::read(&file).is_ok_and(|content| content == runtime) {
        return Ok(file);
    }
    fs::create_dir_all(&directory)?;
    // Others may be at it, too: whoever is last replaces the same with the same.
    let mut made = NamedTempFile::with_prefix_in(OsString::from(".made-"), &directory)?;
    made.write_all(runtime)?;
    made.persist(&file).map_err(|error| error.error)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_where_it_is() {
        let cache = tempfile::tempdir().unwrap();
        let file = in_cache(b"runtime", cache.path()).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        assert_eq!(in_cache(b"runtime", cache.path()).unwrap(), file);
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "written once");
        let other = in_cache(b"another", cache.path()).unwrap();
        assert_ne!(other.parent(), file.parent());
        assert_eq!((fs::read(&file).unwrap(), fs::read(&other).unwrap()), (b"runtime".to_vec(), b"another".to_vec()));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
        assert_eq!(file.extension(), None);
    }

    #[test]
    fn what_is_not_whole_is_replaced() {
        let cache = tempfile::tempdir().unwrap();
        let file = in_cache(b"runtime", cache.path()).unwrap();
        fs::write(&file, b"run").unwrap();
        assert_eq!(in_cache(b"runtime", cache.path()).unwrap(), file);
        assert_eq!(fs::read(&file).unwrap(), b"runtime");
    }

    #[test]
    fn many_at_once_all_find_it_whole() {
        let cache = tempfile::tempdir().unwrap();
        let content = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            let find = || fs::read(in_cache(&content, cache.path()).unwrap()).unwrap() == content;
            let all: Vec<_> = (0..8).map(|_| scope.spawn(find)).collect();
            assert!(all.into_iter().all(|one| one.join().unwrap()));
        });
    }

    #[test]
    fn a_cache_that_can_t_be_written_is_none() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("no-directory");
        fs::write(&file, b"").unwrap();
        assert!(in_cache(b"runtime", &file).is_err());
    }
}
