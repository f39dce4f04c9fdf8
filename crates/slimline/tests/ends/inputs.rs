//! Inputs of all readers: packed, piped, cut off, appended to, and written by spreadsheets.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::scratch::{Scratch, check_refused, stderr, stdout};

const LACKEY: &str = " L 1ffeffe7d0,8\n S 1ffeffe7d8,8\n";

/// Runs a line of bash, in which `$PERF` is a directory of recordings of perf.
fn bash(scratch: &Scratch, line: &str) -> Output {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slimline-collect/tests/perf-data");
    scratch.bash(&format!("PERF='{}'; {line}", fixtures.display())).output().unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

#[test]
fn packed_recordings_are_what_they_are_unpacked() {
    let scratch = Scratch::new();
    for (name, samples) in [("file.data", "147 samples"), ("pipe.data", "144 samples")] {
        for pack in ["gzip -c", "zstd -qc", "lz4 -qc", "cat"] {
            let packed = bash(&scratch, &format!("{pack} $PERF/{name} >packed && $SLIMLINE import packed -o of-file"));
            done(&packed);
            assert!(stderr(&packed).contains(&format!(": {samples}")), "{}", stderr(&packed));
            let piped = bash(&scratch, "$SLIMLINE import - -o of-pipe <packed");
            done(&piped);
            assert_eq!(stderr(&piped).replace("of-pipe", "of-file"), stderr(&packed), "{pack} {name}");
        }
    }
    for (pack, unpack) in [("xz -c", "xz -dc"), ("bzip2 -c", "bzip2 -dc")] {
        let output = bash(&scratch, &format!("{pack} $PERF/pipe.data >packed && $SLIMLINE import packed"));
        check_refused(&output, "packed: packed by ");
        assert!(stderr(&output).contains(&format!("unpack it first ({unpack} packed >FILE)")), "{}", stderr(&output));
    }
    let output = bash(&scratch, "tar czf packed -C $PERF pipe.data && $SLIMLINE import packed");
    check_refused(&output, "packed: a tar archive, which is not read: unpack it first (tar xf packed)");
}

#[test]
fn what_follows_a_recording_or_is_cut_off_is_told() {
    let scratch = Scratch::new();
    let output = bash(
        &scratch,
        "cat $PERF/file.data $PERF/pipe.data >two && $SLIMLINE import two -o s && wc -c <$PERF/pipe.data",
    );
    let bytes = done(&output);
    let told = format!("; {} bytes behind the recording's end were not read", bytes.trim());
    assert!(stderr(&output).contains(&told), "{}", stderr(&output));
    for name in ["file.data", "pipe.data"] {
        let whole = bash(&scratch, &format!("$SLIMLINE import $PERF/{name} -o s"));
        assert!(
            !stderr(&whole).contains("bytes behind") && !stderr(&whole).contains("truncated"),
            "{}",
            stderr(&whole)
        );
        let cut = bash(&scratch, &format!("gzip -c $PERF/{name} | head -c -3 >cut && $SLIMLINE import cut -o s"));
        done(&cut);
        assert!(stderr(&cut).contains("; the file is truncated"), "{}", stderr(&cut));
    }
    let output =
        bash(&scratch, "cat $PERF/pipe.data $PERF/file.data | $SLIMLINE import - -o s && wc -c <$PERF/file.data");
    let bytes = done(&output);
    let told = format!("; {} bytes behind the recording's end were not read", bytes.trim());
    assert!(stderr(&output).contains(&told) && !stderr(&output).contains("truncated"), "{}", stderr(&output));
    // Text that is cut off within its packing is no whole trace.
    fs::write(scratch.path("l.txt"), LACKEY.repeat(1000)).unwrap();
    let cut = bash(&scratch, "gzip -c l.txt | head -c -3 >cut && $SLIMLINE simulate cut");
    check_refused(&cut, "cut: cut off: its gzip data has no end");
    let garbage = bash(&scratch, "(gzip -c l.txt; echo more) >garbage && $SLIMLINE simulate garbage");
    check_refused(&garbage, "garbage: its gzip data is damaged, or other bytes follow it");
}

#[test]
fn packed_traces_of_addresses_are_read() {
    let scratch = Scratch::new();
    fs::write(scratch.path("l.txt"), LACKEY).unwrap();
    let loads = |output: &Output| done(output).contains("1 load, 1 store\n");
    assert!(loads(&bash(&scratch, "$SLIMLINE simulate l.txt")));
    assert!(loads(&bash(&scratch, "gzip -kf l.txt && $SLIMLINE simulate l.txt.gz && rm l.txt.gz")));
    assert!(loads(&bash(&scratch, "zstd -q l.txt && $SLIMLINE simulate - <l.txt.zst")));
    let members = bash(&scratch, "(head -n1 l.txt | gzip; tail -n1 l.txt | gzip) | $SLIMLINE simulate -");
    assert!(loads(&members), "{}", stdout(&members));
    assert!(loads(&bash(&scratch, "(printf '\\xff\\xfe'; iconv -t UTF-16LE l.txt) | $SLIMLINE simulate -")));
}

/// Two threads of a core, one behind the other, each with a header and a footer.
#[test]
fn a_core_s_trace_has_all_of_its_threads() {
    let scratch = Scratch::new();
    let entry = |kind: u16, size: u16, value: u64| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    let thread = |number: u64, loads: u64| {
        let head =
            [entry(25, 0, 7), entry(28, 9, 0x1_0040), entry(22, 4, number), entry(24, 4, 9), entry(28, 2, number)];
        let loads = (0..loads).map(|load| entry(0, 8, 0x1000 * number + 64 * load));
        head.into_iter().chain(loads).chain([entry(23, 4, number), entry(26, 0, 0)]).collect::<Vec<_>>().concat()
    };
    fs::create_dir(scratch.path("d")).unwrap();
    let trace = [thread(1, 3), thread(2, 5)].concat();
    fs::write(scratch.path("d/drmemtrace.core.000000.trace"), &trace).unwrap();
    let whole = done(&bash(&scratch, "$SLIMLINE simulate d"));
    assert!(whole.contains("8 loads, 0 stores\n") && whole.contains("2 threads"), "{whole}");
    let from = |line: &str| done(&bash(&scratch, line)).split_once("\n\n").unwrap().1.to_owned();
    let expected = whole.split_once("\n\n").unwrap().1;
    for line in [
        "$SLIMLINE simulate d/drmemtrace.core.000000.trace",
        "$SLIMLINE simulate - <d/drmemtrace.core.000000.trace",
        "gzip d/*.trace && mv d/*.gz d/a.1.2.memtrace.gz && $SLIMLINE simulate d",
        "$SLIMLINE simulate d/a.1.2.memtrace.gz",
        "mv d/a.1.2.memtrace.gz any && $SLIMLINE simulate any",
    ] {
        assert_eq!(from(line), expected, "{line}");
    }
    fs::write(scratch.path("cut"), &trace[..trace.len() - 30]).unwrap();
    let cut = done(&bash(&scratch, "$SLIMLINE simulate cut"));
    assert!(cut.contains("the ends of 1 files, which are cut off"), "{cut}");
}

/// The same rows with commas, and as spreadsheets and other systems write them.
#[test]
fn tables_are_read_however_they_are_written() {
    let scratch = Scratch::new();
    let rows = [["address", "size", "at", "line"], ["0x1000", "8", "1.5", "7"], ["0x1040", "4", "2.25", "8"]];
    let table = |separator: &str| rows.map(|row| row.join(separator)).join("\n") + "\n";
    let columns = "--columns address=address,size=size,time=at:s,line=line --format json";
    let read = |bytes: &[u8]| {
        fs::write(scratch.path("table"), bytes).unwrap();
        done(&bash(&scratch, &format!("$SLIMLINE simulate table {columns}")))
    };
    let expected = read(table(",").as_bytes());
    let semicolons = table(";").replace('.', ",");
    let utf16: Vec<u8> = format!("\u{feff}{semicolons}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for written in [
        table("\t").into_bytes(),
        table(";").into_bytes(),
        table("|").into_bytes(),
        semicolons.clone().into_bytes(),
        semicolons.replace('\n', "\r\n").into_bytes(),
        format!("sep=;\r\n{semicolons}").into_bytes(),
        format!("\u{feff}{}", table(",").replace("8,", "\"8\",")).into_bytes(),
        utf16,
    ] {
        assert_eq!(read(&written), expected, "{:?}", String::from_utf8_lossy(&written));
    }
    // Of a pipe, and packed.
    fs::write(scratch.path("table"), &semicolons).unwrap();
    let piped = done(&bash(&scratch, &format!("gzip -c table | $SLIMLINE simulate - {columns}")));
    assert_eq!(piped.replace("\"-\"", "\"table\""), expected);
    // A separator in a cell that is not quoted would push cells into other columns.
    fs::write(scratch.path("table"), "address,function\n0x1000,map<int, int>\n").unwrap();
    let output = bash(&scratch, "$SLIMLINE simulate table --columns address=address,function=function");
    check_refused(&output, "table: line 2: ` int>` is in none of the 2 columns: is a separator in a cell not quoted?");
    fs::write(scratch.path("table"), [&b"PK\x03\x04"[..], &[0; 26], b"[Content_Types].xml"].concat()).unwrap();
    let output = bash(&scratch, "$SLIMLINE simulate table --columns address=address");
    check_refused(&output, "table: a spreadsheet, which is not read: save its table as CSV or Parquet");
}

#[test]
fn a_report_that_was_kept_may_be_packed() {
    let scratch = Scratch::new();
    let line = "$SLIMLINE import $PERF/file.data -o s && $SLIMLINE report s --format json >a.json && gzip -k a.json && \
                (printf '\\xef\\xbb\\xbf'; cat a.json) >b.json";
    done(&bash(&scratch, line));
    for other in ["a.json.gz", "b.json"] {
        done(&bash(&scratch, &format!("$SLIMLINE diff a.json {other}")));
    }
    let output = bash(&scratch, "(cat a.json; echo '{}') >c.json; $SLIMLINE diff a.json c.json");
    check_refused(&output, "c.json: not JSON: trailing characters");
}
