use super::*;
use crate::format::fixtures::{bytes, check_hostile, decoded};
use crate::format::{Limits, decode, detect};

const FILES: [(&str, &str); 4] =
    [("zstd", "work.txt.zst"), ("zstd", "frames.zst"), ("xz", "work.txt.xz"), ("bzip2", "work.txt.bz2")];

#[test]
fn what_the_tools_pack_is_unpacked() {
    let plain = decoded(&bytes("collapsed/work.txt"));
    for (name, file) in FILES {
        let packed = bytes(&format!("packed/{file}"));
        let unpacked = decoded(&packed);
        assert_eq!((unpacked.format, unpacked.profile), ("collapsed", plain.profile.clone()), "{file}");
        assert_eq!(detect(&packed), Some("collapsed"), "{file}");
        assert_eq!(Packing::from_first_bytes(&packed).map(Packing::name), Some(name));
        check_hostile(&packed);
    }
}

#[test]
fn several_one_behind_the_other_are_one() {
    for (_, file) in FILES {
        let packed = bytes(&format!("packed/{file}"));
        assert_eq!(decoded(&packed.repeat(2)).profile.total(0), 2 * 1015, "{file}");
    }
}

#[test]
fn what_is_cut_off_or_changed_is_an_error_of_the_packing() {
    for (name, file) in FILES {
        let packed = bytes(&format!("packed/{file}"));
        let plain = decoded(&packed).profile;
        for end in 8..packed.len() {
            match decode(&packed[..end], &Limits::default()) {
                Err(error) => assert!(error.to_string().starts_with(name), "{file} {end}: {error}"),
                // A frame is whole by itself.
                Ok(part) => assert!(file == "frames.zst" && part.profile.total(0) < plain.total(0), "{file} {end}"),
            }
        }
        let mut changed = packed.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 0x10;
        let error = decode(&changed, &Limits::default()).unwrap_err().to_string();
        assert!(error.starts_with(name), "{file}: {error}");
        let garbage = [&packed[..], b"something else"].concat();
        let error = decode(&garbage, &Limits::default()).unwrap_err().to_string();
        assert!(error.starts_with(name), "{file}: {error}");
    }
}

#[test]
fn the_size_is_bounded() {
    for (name, file) in FILES {
        let limits = Limits { unpacked_bytes: 100, ..Limits::default() };
        let error = decode(&bytes(&format!("packed/{file}")), &limits).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: the unpacked size in bytes passes the limit of 100"), "{file}");
    }
}
