use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::{FrameEncoder, FrameInfo};

use super::*;

const TEXT: &[u8] = b"What an input holds, long enough to be worth packing: ";

fn plain() -> Vec<u8> {
    TEXT.repeat(5000)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(FrameInfo::new(), Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    snap::read::FrameEncoder::new(bytes).read_to_end(&mut packed).unwrap();
    packed
}

type Pack = fn(&[u8]) -> Vec<u8>;

const PACKINGS: [(&str, Pack); 4] = [("gzip", gzip), ("zstd", zstd), ("lz4", lz4), ("snappy", snappy)];

fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (mut all, mut rest) = unpack(Box::new(Cursor::new(bytes.to_vec())), 1 << 12)?;
    rest.read_to_end(&mut all).map(|_| all)
}

#[test]
fn what_is_packed_is_read_to_its_end() {
    for (name, pack) in PACKINGS {
        let plain = plain();
        assert!(read(&pack(&plain)).unwrap() == plain, "{name}");
        let members: Vec<u8> = plain.chunks(100_003).flat_map(pack).collect();
        assert!(read(&members).unwrap() == plain, "{name}: members, one behind the other");
        assert!(read(&gzip(&pack(&plain))).unwrap() == plain, "{name}: packed twice");
        assert_eq!(read(&pack(b"x")).unwrap(), b"x", "{name}");
    }
    assert_eq!(read(TEXT).unwrap(), TEXT);
    assert_eq!(read(b"").unwrap(), b"");
    assert_eq!(read(&[gzip(b"padded"), vec![0; 5000]].concat()).unwrap(), b"padded");
    // Frames that say nothing, in front, between and behind.
    let skipped = |bytes: &[u8]| [&[0x55, 0x2a, 0x4d, 0x18, bytes.len() as u8, 0, 0, 0][..], bytes].concat();
    for pack in [zstd as Pack, lz4] {
        let frames = [skipped(b"abc"), pack(b"one"), skipped(b""), pack(b"two"), skipped(&[7; 200])].concat();
        assert_eq!(read(&frames).unwrap(), b"onetwo");
    }
}

#[test]
fn what_is_cut_off_anywhere_is_an_error() {
    for (name, pack) in PACKINGS {
        let plain = plain();
        let packed = pack(&plain);
        let places = (1..60).chain((60..packed.len()).step_by(97)).chain(packed.len() - 12..packed.len());
        for cut in places.filter(|cut| Packing::of(&packed[..*cut]).is_some()) {
            // A stream of snappy has no end of its own.
            let is_end = name == "snappy" && read(&packed[..cut]).is_ok_and(|read| plain.starts_with(&read));
            let error = read(&packed[..cut]).map(|read| read.len());
            match error {
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{name} {cut}: {error}"),
                Ok(read) => assert!(is_end, "{name} cut off at {cut} of {}: {read} bytes", packed.len()),
            }
        }
    }
}

#[test]
fn other_bytes_behind_the_end_are_an_error() {
    for (name, pack) in PACKINGS {
        for behind in [&b"garbage that is no packing"[..], b"x\0\0\0\0\0\0"] {
            let error =
                read(&[&pack(b"packed"), behind].concat()).map(|read| String::from_utf8_lossy(&read).into_owned());
            assert!(error.unwrap_err().to_string().contains(name));
        }
    }
}

#[test]
fn a_decoder_that_failed_stays_so() {
    let packed = gzip(b"short");
    let (begin, mut rest) = unpack(Box::new(Cursor::new(packed[..packed.len() - 2].to_vec())), 64).unwrap();
    assert_eq!(begin, b"short");
    for _ in 0..2 {
        let error = rest.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.to_string(), "cut off: its gzip data has no end");
    }
}

#[test]
fn a_file_is_opened_as_what_it_holds() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("any name");
    let mut all = Vec::new();
    for bytes in [plain(), gzip(&plain()), zstd(&plain())] {
        std::fs::write(&path, bytes).unwrap();
        all.clear();
        Input::open(&path).unwrap().into_stream().read_to_end(&mut all).unwrap();
        assert!(all == plain());
        let (mut file, is_cut) = Input::open(&path).unwrap().into_file().unwrap();
        all.clear();
        file.read_to_end(&mut all).unwrap();
        assert!(all == plain() && !is_cut);
    }
    let packed = gzip(&plain());
    std::fs::write(&path, &packed[..packed.len() - 1]).unwrap();
    assert!(Input::open(&path).unwrap().into_file().unwrap().1);
    std::fs::write(&path, b"BZh91AY&SY").unwrap();
    let refused = Input::open(&path).unwrap_err().to_string();
    assert!(refused.starts_with("packed by bzip2, which is not read: unpack it first (bzip2 -dc '"), "{refused}");
    std::fs::write(&path, gzip(b"PK\x03\x04")).unwrap();
    assert!(Input::open(&path).unwrap_err().to_string().contains("unzip -p"));
}
