//! What a command line asks for by name, among what there is.

use anyhow::{Result, bail};

/// Those of `all` that `only` names; all if it names none. A name that fits none is an error.
pub(crate) fn select<T>(all: Vec<T>, name: impl Fn(&T) -> &str, only: &[String]) -> Result<Vec<T>> {
    if let Some(unknown) = only.iter().find(|wanted| all.iter().all(|one| name(one) != **wanted)) {
        let known: Vec<&str> = all.iter().map(&name).collect();
        bail!("no {unknown} among {}", known.join(" "));
    }
    Ok(all.into_iter().filter(|one| only.is_empty() || only.iter().any(|wanted| name(one) == wanted)).collect())
}
