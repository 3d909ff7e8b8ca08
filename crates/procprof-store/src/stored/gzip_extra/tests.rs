//! Headers of every shape.

use std::io::Read;

use flate2::Compression;
use flate2::GzBuilder;
use flate2::read::GzDecoder;

use super::{body, compose, needed, read};

fn unpack(file: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(file).read_to_end(&mut unpacked).unwrap();
    unpacked
}

#[test]
fn facts_go_in_front_of_any_gzip() {
    let plain = GzBuilder::new;
    let files = [
        plain(),
        plain().filename("a name"),
        plain().comment("words"),
        plain().filename("n").comment("c").extra(vec![b'x', b'y', 1, 0, 9]),
    ];
    for builder in files {
        let mut encoder = builder.write(Vec::new(), Compression::fast());
        std::io::Write::write_all(&mut encoder, b"content").unwrap();
        let file = encoder.finish().unwrap();
        assert_eq!(read(&file), None);
        let mut kept = compose(b"{}", &[0, 255]).unwrap();
        kept.extend_from_slice(body(&file).unwrap());
        assert_eq!(read(&kept), Some((b"{}".as_slice(), [0, 255].as_slice())));
        assert_eq!(unpack(&kept), b"content");
        assert_eq!(body(&kept), body(&file));
        let head = needed(&kept).unwrap();
        assert!(read(&kept[..head]).is_some() && read(&kept[..head - 1]).is_none());
    }
}

#[test]
fn too_many_facts_are_refused() {
    assert!(compose(&vec![b'x'; 59_000], &[0; 900]).is_ok());
    let error = compose(&vec![b'x'; 59_000], &[0; 1000]).unwrap_err().to_string();
    assert_eq!(error, "facts and summary of the profile: 60008 bytes exceed the limit of 60000");
}

#[test]
fn broken_headers_are_no_facts() {
    let whole = compose(b"{\"a\":1}", b"strip").unwrap();
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end]), None);
        let _ = (needed(&whole[..end]), body(&whole[..end]));
    }
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[at] = byte;
            let _ = (read(&changed), needed(&changed), body(&changed));
        }
    }
}
