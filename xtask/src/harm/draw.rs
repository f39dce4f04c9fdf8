//! Which Debian packages are drawn: the lists that apt has, rules, and an order by chance that a seed fixes.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::packages::Drawn;

/// The seed of the draw.
pub(super) const SEED: u64 = 48;

/// Tags that a package must have: it holds programs for the command line.
const NEEDED_TAGS: [&str; 2] = ["role::program", "interface::commandline"];

/// How tags begin that no package may have: it needs a display, hardware, a network, a mailbox or an administrator.
const REFUSED_TAGS: [&str; 12] = [
    "admin::",
    "hardware::",
    "interface::daemon",
    "interface::graphical",
    "interface::x11",
    "mail::",
    "network::",
    "protocol::",
    "role::dummy",
    "role::metapackage",
    "uitoolkit::",
    "x11::",
];

/// Sections of packages that do nothing unattended, or hold no programs.
const REFUSED_SECTIONS: [&str; 9] =
    ["admin", "comm", "hamradio", "kernel", "libdevel", "mail", "net", "oldlibs", "otherosfs"];

/// Installed size that is too large, in KiB.
const MOST_KIB: u64 = 50_000;

/// Prints what became of the first `count` packages of the draw. Whether each was dealt with.
pub(super) fn print(count: usize, drawn: &Drawn) -> Result<bool> {
    let output = Command::new("apt-cache").arg("dumpavail").output().context("apt-cache")?;
    if !output.status.success() {
        bail!("apt-cache dumpavail: {}", String::from_utf8_lossy(&output.stderr));
    }
    let order = order(&candidates(&String::from_utf8_lossy(&output.stdout)), SEED);
    if order.is_empty() {
        bail!("apt has no lists of packages: run apt-get update");
    }
    let mut all_known = true;
    for (place, name) in (1..).zip(order.iter().take(count)) {
        let fate = drawn.fate_of(name);
        all_known &= fate.is_some();
        println!("{place:4} {name}: {}", fate.as_deref().unwrap_or("in neither list"));
    }
    Ok(all_known)
}

/// Names of the packages that the rules leave, each once.
fn candidates(lists: &str) -> Vec<String> {
    let mut names: Vec<String> =
        lists.split("\n\n").map(fields).filter(is_candidate).map(|fields| fields["Package"].clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The fields of a stanza of a Packages file (deb-control(5)), their lines joined.
fn fields(stanza: &str) -> BTreeMap<&str, String> {
    let mut fields = BTreeMap::new();
    let mut last = "";
    for line in stanza.lines() {
        if line.starts_with(' ') {
            fields.entry(last).and_modify(|value: &mut String| value.push_str(line));
        } else if let Some((name, value)) = line.split_once(':') {
            fields.insert(name, value.trim().to_owned());
            last = name;
        }
    }
    fields
}

fn is_candidate(fields: &BTreeMap<&str, String>) -> bool {
    let value = |name| fields.get(name).map_or("", String::as_str);
    let tags: Vec<&str> = value("Tag").split(',').map(str::trim).collect();
    let size_kib = value("Installed-Size").parse().unwrap_or(0_u64);
    !value("Package").is_empty()
        && value("Architecture") == "amd64"
        && NEEDED_TAGS.iter().all(|needed| tags.contains(needed))
        && !tags.iter().any(|tag| REFUSED_TAGS.iter().any(|refused| tag.starts_with(refused)))
        && !REFUSED_SECTIONS.contains(&value("Section"))
        && size_kib <= MOST_KIB
}

/// The names by a hash of the seed and each of them: a package that Debian adds or removes moves no other.
fn order(names: &[String], seed: u64) -> Vec<String> {
    let mut ordered: Vec<(u64, &String)> = names.iter().map(|name| (rank(name, seed), name)).collect();
    ordered.sort();
    ordered.into_iter().map(|(_, name)| name.clone()).collect()
}

/// FNV-1a, then the finalizer of SplitMix64.
fn rank(name: &str, seed: u64) -> u64 {
    let fnv = format!("{seed}:{name}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (fnv ^ fnv >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZA: &str = "Package: tool\nArchitecture: amd64\nInstalled-Size: 100\nSection: utils\n\
                          Tag: implemented-in::c, interface::commandline,\n role::program, scope::utility\n";

    #[test]
    fn rules_leave_programs_of_the_command_line() {
        assert_eq!(candidates(STANZA), ["tool"]);
        assert_eq!(candidates(&format!("{STANZA}\n{STANZA}")), ["tool"]);
        let refused = |from: &str, to: &str| candidates(&STANZA.replace(from, to)).is_empty();
        assert!(refused("amd64", "all"));
        assert!(refused("Size: 100", "Size: 50001"));
        assert!(refused("Section: utils", "Section: net"));
        assert!(refused(" role::program,", " role::plugin,"));
        assert!(refused("scope::utility", "hardware::usb"));
    }

    #[test]
    fn the_order_is_that_of_the_seed() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(order(&names, 1), order(&["d", "c", "b", "a"].map(str::to_owned), 1));
        assert!((2..20).any(|seed| order(&names, seed) != order(&names, 1)));
        let mut fewer = order(&names, 1);
        fewer.retain(|name| name != "b");
        assert_eq!(order(&["a", "c", "d"].map(str::to_owned), 1), fewer);
    }
}
