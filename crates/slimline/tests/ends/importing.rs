//! `import`: from a foreign file to a report, and what is said of files that are none.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scratch::{Scratch, check_refused, skip, stderr, stdout};

const LULESH: &str = "variable=variable,file=source,line=line,time=time:hex,latency=latency,level=dataSource:pebs,\
                      cpu=cpu,index=index*8";

/// A file of the tests of the importer.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../slimline-collect/tests").join(name)
}

fn report(scratch: &Scratch) -> serde_json::Value {
    let output = scratch.slimline(["report", "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The variables in the order of their latencies, with their shares: as a sum over the table's own text gives them.
#[test]
fn variables_of_a_table_are_ranked_by_latency() {
    let scratch = Scratch::new();
    let table = fixture("tables/lulesh.csv");
    let output = scratch.slimline(["import".as_ref(), table.as_os_str(), "--columns".as_ref(), LULESH.as_ref()]);
    let output = { output }.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("602 samples"), "{}", stderr(&output));

    let (mut sums, mut lines): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    for line in fs::read_to_string(&table).unwrap().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let latency: u64 = cells[5].parse().unwrap();
        *sums.entry(cells[0].to_owned()).or_default() += latency;
        *lines.entry(cells[2].to_owned()).or_default() += latency;
    }
    let total: u64 = sums.values().sum();
    let report = report(&scratch);
    assert_eq!(report["session"]["weight"], "latency_cycles");
    let groups: Vec<(String, f64)> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["name"].as_str().unwrap().to_owned(), group["share"].as_f64().unwrap()))
        .filter(|(name, _)| name != "unattributed")
        .collect();
    assert_eq!(groups.len(), sums.len());
    for (name, share) in &groups {
        assert!((share - sums[name] as f64 / total as f64).abs() < 1e-9, "{name}: {share}");
    }
    assert!(groups.is_sorted_by(|before, after| before.1 >= after.1));
    let most = sums.iter().max_by_key(|(_, latency)| **latency).unwrap().0;
    assert_eq!((groups[0].0.as_str(), most.as_str()), ("m_x", "m_x"));

    let by_line = scratch.slimline(["report", "--by", "line"]).output().unwrap();
    let hottest = lines.iter().filter(|(line, _)| *line != "0").max_by_key(|(_, latency)| **latency).unwrap().0;
    let place = format!("LULESH_OMP.cc:{hottest}");
    assert!(stdout(&by_line).contains(&place), "{place} is not in\n{}", stdout(&by_line));
}

/// Page faults have exact addresses on every machine: one for each page of a variable that is touched for the first time.
#[test]
fn perf_finds_the_variable_that_faults() {
    const SOURCE: &str = "char block[200 * 4096];\nint main(void) {\n    for (int page = 0; page < 200; page++)\n        \
                          block[page * 4096] = 1;\n    return block[7];\n}\n";
    let scratch = Scratch::new();
    let program = scratch.compile("touch", SOURCE, &["-g", "-O1"]);
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-N", "-B", "-e", "page-faults:u", "-c", "1", "-d", "-g", "-o"]);
    perf.arg(scratch.path("perf.data")).arg("--").arg(program).current_dir(scratch.path(""));
    match perf.output() {
        Err(error) => return skip("perf_finds_the_variable_that_faults", &format!("perf can't be started: {error}")),
        Ok(output) if !output.status.success() => {
            return skip("perf_finds_the_variable_that_faults", &format!("perf refuses: {}", stderr(&output)));
        }
        Ok(_) => {}
    }
    let output = scratch.slimline(["import", "perf.data"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&scratch);
    let block = &report["groups"][0];
    assert_eq!((block["name"].as_str(), block["kind"].as_str()), (Some("block"), Some("static")), "{report:#}");
    // Large pages or faults ahead would make fewer of them: they are none of a file's private pages.
    let samples = report["session"]["samples"].as_u64().unwrap() as f64;
    let faults = block["share"].as_f64().unwrap() * samples;
    assert!((199.0..=201.0).contains(&faults.round()), "{faults} of {samples}");
    assert_eq!(
        report["session"]["command"].as_array().unwrap().last().unwrap(),
        scratch.path("touch").to_str().unwrap()
    );
}

#[test]
fn a_pipe_is_read_as_it_comes() {
    let scratch = Scratch::new();
    let script = |file: &str| format!("cat '{}' | $SLIMLINE import - -o piped", fixture(file).display());
    let output = scratch.bash(&script("perf-data/pipe.data")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("slimline: piped: 144 samples"), "{}", stderr(&output));
    let output = scratch.bash(&script("perf-data/file.data")).output().unwrap();
    // Its parts lie behind its records, so all of it is read before.
    let of_pipe = stderr(&output).replace("piped", "named");
    let output = scratch.slimline([
        "import".as_ref(),
        fixture("perf-data/file.data").as_os_str(),
        "-o".as_ref(),
        "named".as_ref(),
    ]);
    assert_eq!(stderr(&{ output }.output().unwrap()), of_pipe);
    let report = scratch.slimline(["report", "piped"]).output().unwrap();
    assert!(stdout(&report).contains("page-faults:u"), "{}", stdout(&report));
    check_refused(&scratch.bash("echo | $SLIMLINE import - -o piped").output().unwrap(), "-: not a perf.data file");
    // The session of before is still there.
    let report = scratch.slimline(["report", "piped"]).output().unwrap();
    assert!(stdout(&report).contains("page-faults:u"), "{}", stdout(&report));
}

#[test]
fn what_is_no_recording_is_refused() {
    let scratch = Scratch::new();
    let import = |arguments: &[&str]| {
        let mut all = vec!["import"];
        all.extend(arguments);
        scratch.slimline(all).output().unwrap()
    };
    check_refused(&import(&["missing"]), "missing: No such file");
    check_refused(&import(&["."]), ".: a directory");
    fs::write(scratch.path("text"), "variable,latency\nm_x,7\n").unwrap();
    check_refused(&import(&["text"]), "text: not a perf.data file");
    check_refused(
        &import(&["text", "--columns", "variable=name"]),
        "text: has no column `name`; it has variable, latency",
    );
    let whole = fs::read(fixture("perf-data/file.data")).unwrap();
    fs::write(scratch.path("cut"), &whole[..150]).unwrap();
    check_refused(&import(&["cut"]), "cut: truncated: it ends within its event");
    assert!(!scratch.session().exists());

    // Cut among the records, what there is is imported, and said to be cut.
    fs::write(scratch.path("cut"), &whole[..whole.len() / 2]).unwrap();
    let output = import(&["cut"]);
    assert!(output.status.success() && stderr(&output).contains("truncated"), "{}", stderr(&output));
    // Bad usage is clap's.
    let output = import(&["text", "--columns", "colour=red"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("begins with none of variable"), "{}", stderr(&output));
}
