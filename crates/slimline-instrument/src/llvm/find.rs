//! Which libLLVM a compiler uses.

use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _};
use object::{Endianness, StringTable};

use super::LlvmError;

/// The libLLVM that this program needs: named in its dynamic section and looked for where the dynamic linker would.
pub fn libllvm_of(compiler: &Path) -> Result<PathBuf, LlvmError> {
    let failed = |reason: String| LlvmError::File { file: compiler.to_owned(), reason };
    // Often a link of links: `$ORIGIN` is where the file itself is.
    let file = fs::canonicalize(compiler).map_err(|error| failed(error.to_string()))?;
    let bytes = fs::read(&file).map_err(|error| failed(error.to_string()))?;
    let dynamic = Dynamic::of(&bytes).unwrap_or_default();
    let is_libllvm = |name: &&String| name.starts_with("libLLVM") && name.contains(".so");
    let origin = file.parent().unwrap_or(Path::new("/"));
    let beside = origin.join("../lib");
    let Some(name) = dynamic.needed.iter().find(is_libllvm) else {
        return Err(LlvmError::None { compiler: file });
    };
    let expanded = |path: &str| PathBuf::from(path.replace("$ORIGIN", &origin.display().to_string()));
    let directories = dynamic.run_path.split(':').filter(|path| !path.is_empty()).map(expanded).chain([beside]);
    let found = directories.map(|directory| directory.join(name)).find(|library| library.is_file());
    // Else where the dynamic linker looks by itself, which is asked by the bare name.
    Ok(found.unwrap_or_else(|| PathBuf::from(name)))
}

/// The parts of a dynamic section that matter here.
#[derive(Default)]
struct Dynamic {
    needed: Vec<String>,
    run_path: String,
}

impl Dynamic {
    /// None where the file is a script, or another machine's, or damaged.
    fn of(bytes: &[u8]) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let (entries, strings) = sections.iter().find_map(|section| {
            let (entries, link) = section.dynamic(endian, bytes).ok()??;
            let (from, size) = sections.section(link).ok()?.file_range(endian)?;
            Some((entries, StringTable::new(bytes, from, from.checked_add(size)?)))
        })?;
        let mut dynamic = Self::default();
        for entry in entries {
            let text = || {
                let offset = u32::try_from(entry.d_val(endian)).ok()?;
                Some(String::from_utf8_lossy(strings.get(offset).ok()?).into_owned())
            };
            match entry.d_tag(endian) {
                DT_NEEDED => dynamic.needed.extend(text()),
                DT_RUNPATH => dynamic.run_path = text().unwrap_or_default(),
                _ => {}
            }
        }
        Some(dynamic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_llvm_has_none() {
        let own = std::env::current_exe().unwrap();
        assert!(matches!(libllvm_of(&own), Err(LlvmError::None { .. })));
        assert!(!Dynamic::of(&fs::read(own).unwrap()).unwrap().needed.is_empty());
    }

    #[test]
    fn what_is_no_program_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("clang");
        fs::write(&script, "#!/bin/sh\nexec clang-19 \"$@\"\n").unwrap();
        assert!(matches!(libllvm_of(&script), Err(LlvmError::None { .. })));
        assert!(matches!(libllvm_of(&directory.path().join("missing")), Err(LlvmError::File { .. })));
    }
}
