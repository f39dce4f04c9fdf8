//! How the kernel describes a PMU: its number, where each field of an event lies, the events it names, what it can do.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Reason;
use crate::machine::cpus_in;
use crate::perf_event::EventAttr;

/// No file of a description is longer (a page).
const MOST_BYTES: u64 = 4096;

/// A PMU as the kernel describes it.
#[derive(Clone, Debug)]
pub(super) struct Pmu {
    /// Name of its directory.
    pub(super) name: String,
    /// Its number: [`EventAttr::kind`].
    pub(super) kind: u32,
    /// CPUs that it is of, as where there are two kinds of cores; `None` where it says nothing of that.
    pub(super) cpus: Option<Vec<u32>>,
    directory: PathBuf,
}

/// The PMUs in `sources` whose names are wanted, by name.
pub(super) fn pmus(sources: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Pmu>, Reason> {
    let Ok(entries) = fs::read_dir(sources) else { return Ok(Vec::new()) };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_wanted(name));
    names.sort_unstable();
    names.into_iter().map(|name| Pmu::open(sources.join(&name), name)).collect()
}

impl Pmu {
    fn open(directory: PathBuf, name: String) -> Result<Self, Reason> {
        let mut pmu = Self { name, kind: 0, cpus: None, directory };
        let kind = pmu.required("type")?;
        pmu.kind = kind.parse().map_err(|_| pmu.wrong("type", "is no number"))?;
        // A core's PMU names the one, others the other.
        for file in ["cpus", "cpumask"] {
            if pmu.cpus.is_none() {
                pmu.cpus = pmu.read(file)?.map(|list| cpus_in(&list)).filter(|cpus| !cpus.is_empty());
            }
        }
        Ok(pmu)
    }

    /// Whether it names this event.
    pub(super) fn has_event(&self, name: &str) -> bool {
        self.directory.join("events").join(name).exists()
    }

    /// Whether its events have this field.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.directory.join("format").join(name).exists()
    }

    /// A number that says what it can do; `None` where it says nothing.
    pub(super) fn capability(&self, name: &str) -> Result<Option<u64>, Reason> {
        let file = format!("caps/{name}");
        let number = |text: String| number(&text).ok_or_else(|| self.wrong(&file, "is no number"));
        self.read(&file)?.map(number).transpose()
    }

    /// Sets in `attr` what the event of this name is made of.
    pub(super) fn set_event(&self, attr: &mut EventAttr, name: &str) -> Result<(), Reason> {
        let file = format!("events/{name}");
        let terms = self.required(&file)?;
        for term in terms.split(',') {
            let (field, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = number(value).ok_or_else(|| self.wrong(&file, &format!("{field} has no value")))?;
            self.set(attr, field, value)?;
        }
        Ok(())
    }

    /// Sets a field of an event. What was in it before is gone.
    pub(super) fn set(&self, attr: &mut EventAttr, field: &str, value: u64) -> Result<(), Reason> {
        let file = format!("format/{field}");
        let format = self.required(&file)?;
        let place = Place::parse(&format).ok_or_else(|| self.wrong(&file, &format!("{format:?} is no place")))?;
        let word = match place.word {
            0 => &mut attr.config,
            1 => &mut attr.config1,
            2 => &mut attr.config2,
            _ => &mut attr.config3,
        };
        *word = place
            .put(*word, value)
            .ok_or_else(|| self.wrong(&file, &format!("has {} bits: {value} is too large", place.width())))?;
        Ok(())
    }

    fn required(&self, file: &str) -> Result<String, Reason> {
        self.read(file)?.ok_or_else(|| self.wrong(file, "is missing"))
    }

    /// The file's text; `None` where there is no such file.
    fn read(&self, file: &str) -> Result<Option<String>, Reason> {
        let read = fs::File::open(self.directory.join(file)).and_then(|file| {
            let mut text = String::new();
            file.take(MOST_BYTES).read_to_string(&mut text).map(|_| text)
        });
        match read {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.wrong(file, &error.to_string())),
        }
    }

    fn wrong(&self, file: &str, what: &str) -> Reason {
        Reason::Description { file: format!("{}/{file}", self.name), what: what.to_owned() }
    }
}

/// `12` or `0xc`
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Where a field lies: `config1:0-15`, `config:0-7,32-35`. Its low bits come first.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// 0 for `config`, 1 for `config1` …
    word: u8,
    /// First and last bit of each piece.
    bits: Vec<(u32, u32)>,
}

impl Place {
    fn parse(format: &str) -> Option<Self> {
        let (word, bits) = format.split_once(':')?;
        let word = match word.strip_prefix("config")? {
            "" => 0,
            "1" => 1,
            "2" => 2,
            "3" => 3,
            _ => return None,
        };
        let range = |piece: &str| {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        Some(Self { word, bits: bits.split(',').map(range).collect::<Option<_>>()? })
    }

    fn width(&self) -> u32 {
        self.bits.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// `word` with `value` in this place; `None` where it has more bits than the place.
    fn put(&self, mut word: u64, value: u64) -> Option<u64> {
        let mut rest = u128::from(value);
        for &(first, last) in &self.bits {
            let width = last - first + 1;
            let mask = (1_u128 << width) - 1;
            word = word & !((mask << first) as u64) | ((rest & mask) << first) as u64;
            rest >>= width;
        }
        (rest == 0).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_lie_in_pieces() {
        let place = Place::parse("config:0-7,32-35").unwrap();
        assert_eq!((place.word, place.width()), (0, 12));
        // AMD's event select: 0x1ab is 0xab in the low eight bits and 1 from bit 32 on.
        assert_eq!(place.put(0xff, 0x1ab), Some(0x1_0000_00ab));
        assert_eq!(place.put(0, 0x1000), None);
        assert_eq!(Place::parse("config1:0-63").unwrap().put(7, u64::MAX), Some(u64::MAX));
        assert_eq!(Place::parse("config2:63").unwrap().put(1, 1), Some(1 << 63 | 1));
        for wrong in
            ["", "config", "config:", "config4:0", "config:7-0", "config:64", "config:0-", "period:0", "config:a"]
        {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}
