//! Hardware that samples accesses, as far as the kernel grants it to us here.

use std::io;
use std::path::Path;

use crate::perf_refusal;
use crate::perf_rings::{Negotiated, try_hardware};
use crate::pmu::{self, Plan, PmuEvent};

/// Hardware that can be used.
#[derive(Clone, Debug)]
pub(crate) struct UsableHardware {
    /// `AMD IBS` …
    pub(crate) name: &'static str,
    /// The events as they are planned.
    pub(crate) events: Vec<PmuEvent>,
    /// What of them the kernel refuses, one clause each.
    pub(crate) refused: Vec<String>,
}

/// Why there is none. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NoHardware {
    /// What is missing.
    pub reason: String,
    /// What would help.
    pub remedy: Option<String>,
}

impl UsableHardware {
    /// What `sources` describe and the kernel grants, found by opening it once; nothing is sampled.
    ///
    /// # Errors
    /// There is no such hardware, or no event of it is granted.
    pub(crate) fn find(sources: &Path, plan: &Plan) -> Result<Self, NoHardware> {
        Self::of(sources, plan, try_hardware)
    }

    fn of(sources: &Path, plan: &Plan, ask: impl FnOnce(&[PmuEvent]) -> Negotiated) -> Result<Self, NoHardware> {
        let described = pmu::hardware(sources).and_then(|hardware| Ok((hardware, pmu::attrs(sources, plan)?)));
        let (hardware, events) = described
            .map_err(|reason| NoHardware { remedy: reason.remedy().map(str::to_owned), reason: reason.to_string() })?;
        let negotiated = ask(&events);
        if !negotiated.has_any() {
            let errno = negotiated.error.as_ref().and_then(io::Error::raw_os_error);
            let paranoid = perf_refusal::paranoid_level();
            return Err(NoHardware {
                reason: format!("{} is refused: {}", hardware.name(), negotiated.refused.join("; ")),
                remedy: errno.and_then(|errno| perf_refusal::hardware_remedy(errno, paranoid)),
            });
        }
        Ok(Self { name: hardware.name(), events, refused: negotiated.refused })
    }

    /// What it is and what of it was refused, as one clause.
    pub(crate) fn description(&self) -> String {
        let refused = if self.refused.is_empty() { String::new() } else { format!("; {}", self.refused.join("; ")) };
        format!("{} samples accesses here{refused}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn amd() -> tempfile::TempDir {
        let sources = tempfile::tempdir().unwrap();
        fs::create_dir_all(sources.path().join("ibs_op")).unwrap();
        fs::write(sources.path().join("ibs_op/type"), "11\n").unwrap();
        sources
    }

    #[test]
    fn what_is_missing_is_one_line() {
        let sources = tempfile::tempdir().unwrap();
        let none = UsableHardware::find(sources.path(), &Plan::default()).unwrap_err();
        assert!(none.reason.starts_with("the kernel lists no AMD IBS") && none.remedy.is_some(), "{none:?}");

        let refused = || Negotiated {
            refused: vec!["ibs_op//: Invalid argument (os error 22)".to_owned()],
            error: Some(io::Error::from_raw_os_error(libc::EINVAL)),
            ..Negotiated::default()
        };
        let none = UsableHardware::of(amd().path(), &Plan::default(), |_| refused()).unwrap_err();
        assert_eq!(none.reason, "AMD IBS is refused: ibs_op//: Invalid argument (os error 22)");
        assert!(none.remedy.is_some_and(|remedy| remedy.contains("Linux 6.2")));
    }

    #[test]
    fn what_is_granted_in_part_is_told() {
        let ask = |events: &[PmuEvent]| {
            let refused = vec!["ibs_op//: no physical addresses (Permission denied (os error 13))".to_owned()];
            Negotiated { refused, ..Negotiated::granting(events) }
        };
        let amd = UsableHardware::of(amd().path(), &Plan::default(), ask).unwrap();
        assert_eq!((amd.name, amd.events.len()), ("AMD IBS", 1));
        assert_eq!(
            amd.description(),
            "AMD IBS samples accesses here; ibs_op//: no physical addresses (Permission denied (os error 13))"
        );
    }
}
