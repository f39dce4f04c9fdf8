//! What perf notes about the recording besides its records: machine, command, names of events and PMUs.

use std::collections::HashMap;
use std::rc::Rc;

use slimline_trace::path_text::text_of_bytes;
use slimline_trace::session::{Cache, Machine};

use crate::perf_event::{ByteOrder, EventAttr, Fields, Malformed};

/// Numbers of features, as perf gives them.
mod number {
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const OSRELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCH: u32 = 6;
    pub(super) const NRCPUS: u32 = 7;
    pub(super) const CPUDESC: u32 = 8;
    pub(super) const CPUID: u32 = 9;
    pub(super) const TOTAL_MEM: u32 = 10;
    pub(super) const CMDLINE: u32 = 11;
    pub(super) const EVENT_DESC: u32 = 12;
    pub(super) const PMU_MAPPINGS: u32 = 16;
    pub(super) const CACHE: u32 = 20;
    pub(super) const CLOCK_DATA: u32 = 29;
}

const WITHIN: &str = "feature";
/// Longest list that is believed: CPUs, events, caches of the largest machines are a tenth of it.
const MOST_ENTRIES: u32 = 1 << 20;
/// Longest name, word of a command line or other text. What is longer is cut.
const MOST_TEXT_BYTES: usize = 4 << 10;

/// What was noted, as far as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Features {
    pub(super) machine: Machine,
    pub(super) perf_version: String,
    /// The recording's own command line.
    pub(super) command: Vec<String>,
    /// Names of events, by each of their ids.
    pub(super) event_names: HashMap<u64, Rc<str>>,
    /// Names of PMUs, by the type of their events.
    pub(super) pmus: HashMap<u32, String>,
    /// Main ID register of the cores, of a recording on AArch64.
    pub(super) midr: Option<u64>,
    /// A moment in nanoseconds since 1970, and on the clock of the records.
    pub(super) wall_clock: Option<(u64, u64)>,
}

impl Features {
    /// Takes a feature in. Those that say nothing of concern are passed over.
    ///
    /// # Errors
    /// It ends before its fields do.
    pub(super) fn take(&mut self, feature: u32, bytes: &[u8], order: ByteOrder) -> Result<(), Malformed> {
        let mut fields = Fields::new(bytes, order);
        match feature {
            number::HOSTNAME => self.machine.host = string(&mut fields)?,
            number::OSRELEASE => self.machine.kernel = string(&mut fields)?,
            number::VERSION => self.perf_version = string(&mut fields)?,
            number::ARCH => self.machine.architecture = string(&mut fields)?,
            number::NRCPUS => {
                fields.u32(WITHIN)?;
                self.machine.logical_cpus = fields.u32(WITHIN)?;
            }
            number::CPUDESC => self.machine.cpu = string(&mut fields)?,
            number::CPUID => {
                let text = string(&mut fields)?;
                self.midr = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            }
            number::TOTAL_MEM => self.machine.memory_bytes = fields.u64(WITHIN)?.saturating_mul(1024),
            number::CMDLINE => {
                let words = entries(&mut fields)?;
                self.command = (0..words).map(|_| string(&mut fields)).collect::<Result<_, _>>()?;
            }
            number::EVENT_DESC => self.take_events(&mut fields)?,
            number::PMU_MAPPINGS => {
                for _ in 0..entries(&mut fields)? {
                    let kind = fields.u32(WITHIN)?;
                    self.pmus.insert(kind, string(&mut fields)?);
                }
            }
            number::CACHE => self.take_caches(&mut fields)?,
            number::CLOCK_DATA => {
                // Version and number of the clock.
                fields.take(8, WITHIN)?;
                self.wall_clock = Some((fields.u64(WITHIN)?, fields.u64(WITHIN)?));
            }
            _ => {}
        }
        Ok(())
    }

    /// Name of the event with this attribute and these ids, else what its attribute says.
    pub(super) fn event_name(&self, attr: &EventAttr, ids: &[u64]) -> String {
        let given = ids.iter().find_map(|id| self.event_names.get(id));
        given.map(|name| name.to_string()).unwrap_or_else(|| match self.pmus.get(&attr.kind) {
            Some(pmu) => format!("{pmu}/config={:#x}/", attr.config),
            None => format!("event type {}, config {:#x}", attr.kind, attr.config),
        })
    }

    fn take_events(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        let events = entries(fields)?;
        let attr_bytes = fields.u32(WITHIN)?;
        for _ in 0..events {
            fields.sized(attr_bytes.into(), WITHIN)?;
            let ids = fields.u32(WITHIN)?;
            let name: Rc<str> = string(fields)?.into();
            let ids = fields.words(ids.into(), WITHIN)?;
            self.event_names.extend(ids.iter().map(|id| (id, name.clone())));
        }
        Ok(())
    }

    /// Every cache of the machine is listed; those of CPU 0 are kept.
    fn take_caches(&mut self, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        fields.u32(WITHIN)?;
        let caches = entries(fields)?;
        self.machine.caches.clear();
        for _ in 0..caches {
            let (level, line_bytes) = (fields.u32(WITHIN)?, fields.u32(WITHIN)?);
            fields.u32(WITHIN)?;
            let ways = fields.u32(WITHIN)?;
            let (kind, size, shared_by) = (string(fields)?, string(fields)?, string(fields)?);
            let is_of_first_cpu = shared_by == "0" || shared_by.starts_with("0-") || shared_by.starts_with("0,");
            if let Some(bytes) = cache_bytes(&size)
                && is_of_first_cpu
            {
                self.machine.caches.push(Cache { level, kind, bytes, line_bytes, ways, shared_by });
            }
        }
        self.machine.caches.sort_by_key(|cache| cache.level);
        Ok(())
    }
}

/// A size as the kernel writes it: `32K`, `1024K`, `8M`.
fn cache_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn entries(fields: &mut Fields<'_>) -> Result<u32, Malformed> {
    let count = fields.u32(WITHIN)?;
    if count <= MOST_ENTRIES { Ok(count) } else { Err(Malformed { within: WITHIN }) }
}

/// Text with its length before it, which counts padding. No more of it than [`MOST_TEXT_BYTES`].
fn string(fields: &mut Fields<'_>) -> Result<String, Malformed> {
    let bytes = fields.u32(WITHIN)?;
    let text = Fields::new(fields.sized(bytes.into(), WITHIN)?, fields.order()).text();
    Ok(text_of_bytes(&text[..text.len().min(MOST_TEXT_BYTES)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_event::encode::Encoder;

    fn take(features: &mut Features, number: u32, write: impl FnOnce(&mut Encoder)) -> Result<(), Malformed> {
        let mut encoder = Encoder::new(ByteOrder::Little);
        write(&mut encoder);
        for end in 0..encoder.bytes().len() {
            // Cut anywhere it is an error or less, never a panic.
            let _ = Features::default().take(number, &encoder.bytes()[..end], ByteOrder::Little);
        }
        features.take(number, encoder.bytes(), ByteOrder::Little)
    }

    fn put(to: &mut Encoder, text: &str) {
        let padded = (text.len() + 1).next_multiple_of(64);
        to.u32(padded as u32).raw(text.as_bytes()).raw(&vec![0; padded - text.len()]);
    }

    #[test]
    fn what_perf_writes_is_read() {
        let mut features = Features::default();
        take(&mut features, number::HOSTNAME, |to| put(to, "host")).unwrap();
        take(&mut features, number::NRCPUS, |to| {
            to.u32(8).u32(4);
        })
        .unwrap();
        take(&mut features, number::CMDLINE, |to| {
            to.u32(2);
            put(to, "/usr/bin/perf");
            put(to, "record");
        })
        .unwrap();
        take(&mut features, number::EVENT_DESC, |to| {
            to.u32(2).u32(16);
            for (name, ids) in [("ibs_op//", &[5, 6][..]), ("dummy:HG", &[7])] {
                to.raw(&[0; 16]).u32(ids.len() as u32);
                put(to, name);
                ids.iter().for_each(|&id| {
                    to.u64(id);
                });
            }
        })
        .unwrap();
        take(&mut features, number::PMU_MAPPINGS, |to| {
            to.u32(1).u32(11);
            put(to, "ibs_op");
        })
        .unwrap();
        take(&mut features, number::CACHE, |to| {
            to.u32(1).u32(3);
            for (level, kind, size, cpus) in
                [(3, "Unified", "32M", "0-7"), (1, "Data", "48K", "0"), (1, "Data", "48K", "1")]
            {
                to.u32(level).u32(64).u32(64).u32(12);
                [kind, size, cpus].into_iter().for_each(|text| put(to, text));
            }
        })
        .unwrap();
        assert_eq!((features.machine.host.as_str(), features.machine.logical_cpus), ("host", 4));
        assert_eq!(features.command, ["/usr/bin/perf", "record"]);
        let caches: Vec<_> = features.machine.caches.iter().map(|cache| (cache.level, cache.bytes)).collect();
        assert_eq!(caches, [(1, 48 << 10), (3, 32 << 20)]);
        let attr = EventAttr { kind: 11, config: 0x80000, ..EventAttr::default() };
        assert_eq!(features.event_name(&attr, &[6]), "ibs_op//");
        assert_eq!(features.event_name(&attr, &[]), "ibs_op/config=0x80000/");
        let unknown = EventAttr { kind: 4, config: 0x1cd, ..EventAttr::default() };
        assert_eq!(features.event_name(&unknown, &[9]), "event type 4, config 0x1cd");
    }

    #[test]
    fn one_long_name_of_many_ids_is_held_once_and_cut() {
        let mut features = Features::default();
        take(&mut features, number::EVENT_DESC, |to| {
            to.u32(1).u32(16).raw(&[0; 16]).u32(3);
            put(to, &"n".repeat(10_000));
            to.u64(5).u64(6).u64(7);
        })
        .unwrap();
        assert!(features.event_names.values().all(|name| name.len() == MOST_TEXT_BYTES));
        assert!(Rc::ptr_eq(&features.event_names[&5], &features.event_names[&7]));
    }

    #[test]
    fn sizes_that_no_number_holds_are_none() {
        assert_eq!(
            (cache_bytes("32K"), cache_bytes("8M"), cache_bytes("64")),
            (Some(32 << 10), Some(8 << 20), Some(64))
        );
        // Shifted by 20 bits this would be 0.
        assert_eq!((cache_bytes("17592186044416M"), cache_bytes("8G"), cache_bytes("")), (None, None, None));
    }

    #[test]
    fn counts_and_lengths_are_not_trusted() {
        let mut features = Features::default();
        for feature in 0..32 {
            for bytes in [[0xff; 64], [0x7f; 64]] {
                let _ = features.take(feature, &bytes, ByteOrder::Little);
            }
        }
        assert!(
            take(&mut features, number::CMDLINE, |to| {
                to.u32(u32::MAX);
            })
            .is_err()
        );
    }
}
