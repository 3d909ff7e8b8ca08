//! A flame graph as a frontend gives it: the HTML page itself, or the archive that it keeps it in, gzip'd tar with one
//! page.

use std::io::{BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// The bytes of the archive beside its page: headers and padding.
const BESIDE: u64 = 64 << 10;

/// The page of a flame graph, of at most `limit` bytes, from the bytes of a page or of the archive of one.
///
/// # Errors
/// What is wrong with the archive; a page is not looked into.
pub fn page(bytes: Vec<u8>, limit: u64) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let wrong = |error: std::io::Error| format!("archive: {error}");
    let unpacked = MultiGzDecoder::new(bytes.as_slice()).take(limit.saturating_add(BESIDE));
    let mut archive = tar::Archive::new(BufReader::new(unpacked));
    let mut page = None;
    for entry in archive.entries().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if page.is_some() {
            return Err("archive: more than one entry".to_owned());
        }
        if !entry.header().entry_type().is_file() || !entry.path_bytes().ends_with(b".html") {
            return Err("archive: its entry is no .html file".to_owned());
        }
        let size = entry.size();
        if size > limit {
            return Err(format!("archive: its page has {size} bytes, more than {limit}"));
        }
        let mut content = Vec::new();
        entry.take(limit).read_to_end(&mut content).map_err(wrong)?;
        if (content.len() as u64) < size {
            return Err("archive: ends inside its page".to_owned());
        }
        page = Some(content);
    }
    // The rest is empty, but the checksum of all is at the end.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(wrong)?;
    page.ok_or_else(|| "archive: nothing in it".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LIMIT: u64 = 100_000;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append_data(&mut header, name, *content).unwrap();
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&builder.into_inner().unwrap()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_page_is_taken_as_it_is_and_from_an_archive() {
        assert_eq!(page(b"<html>".to_vec(), LIMIT), Ok(b"<html>".to_vec()));
        assert_eq!(page(archive(&[("a.html", b"<html>")]), LIMIT), Ok(b"<html>".to_vec()));
    }

    #[test]
    fn tricks_and_bombs_are_refused() {
        let error = |bytes: Vec<u8>| page(bytes, LIMIT).unwrap_err();
        assert!(error(archive(&[])).contains("nothing in it"));
        assert!(error(archive(&[("a.html", b"1"), ("b.html", b"2")])).contains("more than one entry"));
        assert!(error(archive(&[("a.txt", b"1")])).contains("no .html file"));
        assert!(error(archive(&[("a.html", &vec![0; 3_000_000])])).contains("more than 100000"));
        let whole = archive(&[("a.html", &[7; 5000])]);
        for length in 2..whole.len() {
            assert!(page(whole[..length].to_vec(), LIMIT).is_err(), "{length} bytes");
        }
    }
}
