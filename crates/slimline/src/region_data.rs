//! Data whose accesses `slimline regions` tells: as it is asked for, and as it was found.

use std::collections::BTreeSet;
use std::env;
use std::num::NonZeroU64;

use anyhow::{Context, bail, ensure};
use slimline_analyze::full_trace::regions::{MemoryRange, RangeSource};
use slimline_analyze::origins::{DataKind, Origins};
use slimline_analyze::region_accesses::{Chosen, ChosenData, watched};
use slimline_analyze::sampled_regions::{AttributedRegions, TimedRange};
use slimline_regions::Profile;
use slimline_report::regions::ChosenRow;

use crate::cli;

/// Data that a session is told by where none is asked for.
const HOTTEST: usize = 5;

/// Data that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    names: Vec<String>,
    /// Name, first byte, bytes.
    memory: Vec<(String, u64, u64)>,
    /// Accesses were asked for in another way.
    has_machine: bool,
}

impl Asked {
    /// By options, and by variables where no option names an address.
    pub(crate) fn of(options: &cli::Regions) -> anyhow::Result<Self> {
        let cli::Regions { data, data_addr, data_size, data_name, machine, .. } = options;
        let (mut addresses, mut sizes, mut names) = (data_addr.clone(), data_size.clone(), data_name.clone());
        let mut what = ["--data-addr", "--data-size", "--data-name"];
        if addresses.is_empty() && sizes.is_empty() && names.is_empty() {
            what = ["SLIMLINE_DATA_ADDR", "SLIMLINE_DATA_SIZE", "SLIMLINE_DATA_NAME"];
            addresses = variable(what[0], cli::address)?;
            sizes = variable(what[1], cli::size)?;
            names = variable(what[2], |name| Ok(name.to_owned()))?;
        }
        let [address, size, name] = what;
        ensure!(
            addresses.len() == sizes.len(),
            "{address} and {size} go together: there are {} and {}",
            addresses.len(),
            sizes.len()
        );
        ensure!(
            names.is_empty() || names.len() == addresses.len(),
            "{address} and {name} go together: there are {} and {}",
            addresses.len(),
            names.len()
        );
        let mut names = names.into_iter();
        let memory = addresses.into_iter().zip(sizes.into_iter().map(NonZeroU64::get)).map(|(start, bytes)| {
            ensure!(
                start.checked_add(bytes).is_some(),
                "{address} {start:#x}: {bytes} bytes from there are beyond all memory"
            );
            Ok((names.next().unwrap_or_else(|| format!("{start:#x}")), start, bytes))
        });
        Ok(Self { names: data.clone(), memory: memory.collect::<anyhow::Result<_>>()?, has_machine: machine.is_some() })
    }

    /// Whether accesses are to be told.
    pub(crate) fn is_any(&self) -> bool {
        self.has_machine || !self.names.is_empty() || !self.memory.is_empty()
    }

    /// Memory, by first byte and bytes.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        self.memory.iter().map(|&(_, start, bytes)| (start, bytes)).collect()
    }

    /// Memory that samples of processes with these regions are told by, by the processes' numbers in the session.
    pub(crate) fn timed_ranges(&self, profiles: &[Option<Profile>]) -> Vec<TimedRange> {
        let asked = (0..).zip(&self.memory).map(|(number, &(_, start, bytes))| TimedRange {
            range: MemoryRange { source: RangeSource::Asked(number), start, bytes },
            during_ns: 0..u64::MAX,
        });
        let watched = (0..).zip(profiles).flat_map(|(process, profile)| {
            (0..).zip(profile.iter().flat_map(|profile| &profile.watched)).map(move |(number, watched)| TimedRange {
                range: MemoryRange {
                    source: RangeSource::Watched { process, number },
                    start: watched.start,
                    bytes: watched.bytes,
                },
                during_ns: watched.from_ns..watched.until_ns,
            })
        });
        asked.chain(watched).collect()
    }

    /// The same with the data that was met most, where none was asked for.
    pub(crate) fn or_hottest(self, found: &AttributedRegions) -> Self {
        match self.names.is_empty() && self.memory.is_empty() {
            true => Self { names: found.hottest(HOTTEST), ..self },
            false => self,
        }
    }

    /// The same without names of nothing that was met, and of variables in several files; and what is wrong with these, in words.
    pub(crate) fn known(self, origins: &Origins) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let lacking: Vec<String> = origins.lacking(&self.names).into_iter().map(str::to_owned).collect();
        if !lacking.is_empty() {
            complaints.push(no_data("was accessed", &lacking, origins));
        }
        let mut names = self.names;
        names.retain(|name| {
            let is_known = !lacking.contains(name);
            let ambiguous = is_known.then(|| is_one(origins, name).err()).flatten();
            complaints.extend(ambiguous.as_ref().map(ToString::to_string));
            is_known && ambiguous.is_none()
        });
        (Self { names, ..self }, complaints)
    }

    /// All that is told apart: what was asked for by name, then ranges in the order in which accesses have them.
    ///
    /// # Errors
    /// A name is of nothing that `seen` ("was accessed"), or of variables in several files.
    pub(crate) fn chosen(&self, origins: &Origins, seen: &str) -> anyhow::Result<Vec<Chosen>> {
        let lacking = origins.lacking(&self.names);
        if !lacking.is_empty() {
            let lacking: Vec<String> = lacking.into_iter().map(str::to_owned).collect();
            bail!(no_data(seen, &lacking, origins));
        }
        self.names.iter().try_for_each(|name| is_one(origins, name))?;
        let named = self.names.iter().map(|name| Chosen::Named(name.clone()));
        Ok(named.chain((0..origins.ranges().len() as u32).map(Chosen::Memory)).collect())
    }

    /// The same as reports have it, of what was found of each. Profiles are by the numbers of their processes.
    pub(crate) fn rows(&self, origins: &Origins, found: &[ChosenData], profiles: &[(u32, Profile)]) -> Vec<ChosenRow> {
        let (of_names, of_memory) = found.split_at(self.names.len());
        let named = self.names.iter().zip(of_names).map(|(name, found)| ChosenRow::named(name, found));
        let watched: Vec<_> = watched(origins).collect();
        let ranges = (0..).zip(origins.ranges()).zip(of_memory).map(|((place, range), found)| {
            let memory = (range.start, range.bytes);
            match watched.iter().find(|(of, ..)| *of == place) {
                Some(&(_, process, number)) => {
                    let profile = profiles.iter().find(|(of, _)| *of == process).map(|(_, profile)| profile);
                    let pid = profile.map_or(0, |profile| profile.process);
                    let name =
                        profile.and_then(|profile| profile.watched.get(number as usize)).map(|of| of.name.as_str());
                    let name = name
                        .filter(|name| !name.is_empty())
                        .map_or_else(|| format!("{:#x}", range.start), str::to_owned);
                    // It may have been asked for, too.
                    let name = if self.names.contains(&name) { format!("{name} (watched)") } else { name };
                    ChosenRow::memory(&name, Some(pid), memory, found)
                }
                None => ChosenRow::memory(
                    self.memory.get(place as usize).map_or("", |(name, ..)| name),
                    None,
                    memory,
                    found,
                ),
            }
        });
        named.chain(ranges).collect()
    }

    /// What of it is not as asked for, in words: code is where data was named, or nothing was watched.
    pub(crate) fn doubts<'p>(&self, profiles: impl IntoIterator<Item = &'p Profile>) -> Vec<String> {
        let mut doubts = Vec::new();
        for profile in profiles {
            let code_in = |start: u64, bytes: u64| {
                let end = start.saturating_add(bytes);
                profile.mappings.iter().find(|mapping| mapping.is_code && mapping.start < end && start < mapping.end)
            };
            let pid = profile.process;
            for (name, start, bytes) in &self.memory {
                if let Some(code) = code_in(*start, *bytes) {
                    doubts.push(format!("{name}: in process {pid} code of {} is there, not data alone", code.path));
                }
            }
            for of in &profile.watched {
                let name = if of.name.is_empty() { format!("{:#x}", of.start) } else { of.name.clone() };
                if of.bytes == 0 {
                    doubts.push(format!("{name}: process {pid} watches 0 bytes of it"));
                } else if let Some(code) = code_in(of.start, of.bytes) {
                    doubts.push(format!("{name}: process {pid} watches code of {}, not data alone", code.path));
                }
            }
        }
        doubts
    }
}

fn no_data(seen: &str, names: &[String], origins: &Origins) -> String {
    format!("no data that {seen} is called {}: there is {}", names.join(" or "), origins.data_names())
}

/// What a variable has, with commas between.
fn variable<T>(name: &str, read: fn(&str) -> Result<T, String>) -> anyhow::Result<Vec<T>> {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(Vec::new()) };
    let value = value.into_string().ok().with_context(|| format!("{name}: is no text"))?;
    let each = value.split(',').map(|part| read(part.trim()).map_err(|why| anyhow::anyhow!("{name}: {part}: {why}")));
    each.collect()
}

/// Whether a name is that of variables in one file; patterns and names behind a file's mean all that they match.
fn is_one(origins: &Origins, name: &str) -> anyhow::Result<()> {
    if name.contains(['*', '?', ':']) {
        return Ok(());
    }
    let is_it = |data: &&slimline_analyze::origins::Data| {
        data.kind == DataKind::Static && data.is_called(name) && data.type_name != name
    };
    let files: BTreeSet<&str> = origins
        .data()
        .iter()
        .filter(is_it)
        .map(|data| data.allocated_at.file.as_str())
        .filter(|file| !file.is_empty())
        .collect();
    let files: Vec<&str> = files.into_iter().collect();
    if let [first, _, ..] = files[..] {
        let short = first.rsplit('/').next().unwrap_or(first);
        bail!("{name}: is a variable in {}: {short}:{name} names one", files.join(" and in "));
    }
    Ok(())
}
