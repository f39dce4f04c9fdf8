//! `slimline links`: the compilers as commands of one word.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use slimline_trace::path_text::text_of;

use super::print;
use crate::cli::{COMPILERS, Links};

/// Makes a link to this program for each compiler, or brings those that are there up to date.
pub(crate) fn run(options: &Links) -> anyhow::Result<u8> {
    let own = std::env::current_exe().context("/proc/self/exe")?;
    let directory = match &options.directory {
        Some(directory) => directory.as_path(),
        None => own.parent().unwrap_or(Path::new("/")),
    };
    let shown = text_of(directory.as_os_str());
    let canonical = fs::canonicalize(directory).with_context(|| shown.to_string())?;
    let target =
        if own.parent() == Some(&canonical) { PathBuf::from(own.file_name().unwrap_or_default()) } else { own.clone() };
    for compiler in COMPILERS {
        let link = canonical.join(format!("slimline-{compiler}"));
        make(&link, &target).with_context(|| text_of(link.as_os_str()).into_owned())?;
    }
    let names = COMPILERS.map(|compiler| format!("slimline-{compiler}")).join(", ");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found =
        std::env::split_paths(&path).any(|known| fs::canonicalize(known).is_ok_and(|known| known == canonical));
    let note = if is_found { "" } else { "; it is not in PATH: name them by their whole path, or add it" };
    print(&format!("{names}: links in {shown}{note}\n"))?;
    Ok(0)
}

/// A link that is there is replaced at once, so that whoever calls it finds the one or the other. Anything else is left alone.
fn make(link: &Path, target: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(link) {
        Ok(found) if !found.is_symlink() => {
            bail!("is there already, and no link; remove it, or name another directory")
        }
        Ok(_) if fs::read_link(link).is_ok_and(|to| to == target) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut name = link.file_name().unwrap_or(OsStr::new("")).to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = link.with_file_name(name);
    symlink(target, &new)?;
    fs::rename(&new, link).inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(())
}
