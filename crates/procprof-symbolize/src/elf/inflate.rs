//! Decompresses some ranges of a section, without the memory for the rest.

use std::ops::Range;

use flate2::{Decompress, FlushDecompress};

/// Bytes that are decompressed at a time.
const WINDOW: usize = 128 << 10;

/// Decompresses a zlib stream up to the end of the last range; the ranges ascend and do not overlap.
///
/// Returns the bytes up to there. Those in no range are 0, and as nothing was ever written to them, a large stretch of
/// them takes no memory. Errs if the stream is invalid.
pub(crate) fn ranges(compressed: &[u8], ranges: &[Range<usize>]) -> Result<Vec<u8>, String> {
    let end = ranges.last().map_or(0, |range| range.end);
    let mut bytes = vec![0; end];
    let mut window = vec![0; WINDOW.min(end)];
    let mut stream = Decompress::new(true);
    let (mut at, mut left) = (0, ranges);
    while at < end {
        let rest = usize::try_from(stream.total_in()).ok().and_then(|read| compressed.get(read..)).unwrap_or_default();
        stream.decompress(rest, &mut window, FlushDecompress::None).map_err(|error| error.to_string())?;
        let behind = usize::try_from(stream.total_out()).unwrap_or(usize::MAX);
        if behind == at {
            return Err("cut short".to_owned());
        }
        left = &left[left.partition_point(|range| range.end <= at)..];
        for range in left.iter().take_while(|range| range.start < behind) {
            let (from, to) = (range.start.max(at), range.end.min(behind));
            bytes[from..to].copy_from_slice(&window[from - at..to - at]);
        }
        at = behind;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn gives_ranges_only() {
        let plain: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251 + 1) as u8).collect();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&plain).unwrap();
        let compressed = encoder.finish().unwrap();
        let wanted = [3..9, 131_000..262_200, 700_000..700_001];
        let bytes = ranges(&compressed, &wanted).unwrap();
        assert_eq!(bytes.len(), 700_001);
        for (place, byte) in bytes.iter().enumerate() {
            let is_wanted = wanted.iter().any(|range| range.contains(&place));
            assert_eq!(*byte, if is_wanted { plain[place] } else { 0 }, "{place}");
        }
        let end = std::slice::from_ref(&(999_000..1_000_000));
        assert_eq!(ranges(&compressed[..compressed.len() / 2], end).unwrap_err(), "cut short");
        assert!(ranges(b"not zlib", end).is_err());
        assert!(ranges(&compressed, &[]).unwrap().is_empty());
    }
}
