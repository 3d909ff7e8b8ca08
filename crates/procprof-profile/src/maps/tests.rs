use super::*;
use crate::ProfileBuilder;
use crate::format::fixtures;

fn entry(start: u64, limit: u64, executable: Option<bool>, offset: u64, path: &str, build_id: &str) -> MapsEntry {
    let (start, limit, offset) = (Addr(start), Addr(limit), FileOffset(offset));
    MapsEntry { start, limit, executable, offset, path: path.to_owned(), build_id: build_id.to_owned() }
}

#[test]
fn all_forms_are_read() {
    let expected = [
        entry(0x40_0000, 0xfc_b000, Some(true), 0, "/usr/bin/my prog", ""),
        entry(0xfc_b000, 0xfc_c000, Some(false), 0xbc_b000, "/usr/bin/my prog", ""),
        entry(0x7f00_0000_1000, 0x7f00_0000_2000, Some(true), 0x1000, "/usr/lib/libc.so.6", ""),
        entry(0x7f00_0000_3000, 0x7f00_0000_4000, None, 0, "/usr/lib/libm-2.15.so", ""),
        entry(0x7f00_0000_5000, 0x7f00_0000_6000, None, 0x1000, "/opt/lib/x.so", "abcdef12"),
        entry(0x7ffd_3a5f_e000, 0x7ffd_3a60_0000, Some(true), 0, "[vdso]", ""),
    ];
    assert_eq!(parse(&fixtures::bytes("../maps/all-forms.txt")), expected);
}

#[test]
fn what_is_no_entry_is_passed_over() {
    let lines = [
        "",
        "build=/usr/bin",
        "12 34x foo",
        "400000",
        "500000-400000 r-xp 0 0:0 0",
        "11111111111111111-2 r-xp",
        "deadbeef foo",
        "a-b-c",
    ];
    for line in lines {
        assert_eq!(parse_entry(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn replacing_variables_is_bounded() {
    let mut text = format!("v={}\n", "x".repeat(60_000));
    for _ in 0..2_000 {
        text.push_str("1000-2000 r-xp 0 0:0 0 $v$v$v$v\n");
    }
    let total: usize = parse(text.as_bytes()).iter().map(|entry| entry.path.len()).sum();
    assert!(total < text.len() * 6 + (64 << 10), "{total}");
}

/// Start, limit, file offset and path.
type Range = (u64, u64, u64, String);

/// Attaches a map, and gives the mappings and the mapping of each address.
fn attached(map: &str, addresses: Addresses, probes: &[u64]) -> (Vec<Range>, Vec<Option<u32>>) {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    builder.parts_mut().addresses = addresses;
    let locations: Vec<_> = probes.iter().map(|address| builder.address(None, Addr(*address))).collect();
    attach(&parse(map.as_bytes()), &mut builder);
    let profile = builder.finish().unwrap();
    let mappings = profile.mappings().iter();
    let mappings =
        mappings.map(|m| (m.start.0, m.limit.0, m.file_offset.0, profile.string(m.filename).to_owned())).collect();
    (mappings, locations.iter().map(|id| profile.location(*id).mapping.map(|mapping| mapping.0)).collect())
}

#[test]
fn the_main_binary_comes_first_and_pieces_are_joined() {
    let map = "7f00-7f10 r-xp 0 0:0 0 /lib/libc.so.6\n\
               2000-3000 r-xp 1000 0:0 0 /bin/main\n\
               3000-4000 r-xp 2000 0:0 0 /bin/main\n\
               4000-5000 rw-p 3000 0:0 0 /bin/main\n";
    let (mappings, found) = attached(map, Addresses::RawReturn, &[0x1000, 0x1001, 0x2000, 0x4000, 0x4001, 0x7f10, 0]);
    assert_eq!(
        mappings,
        [(0x1000, 0x4000, 0, "/bin/main".to_owned()), (0x7f00, 0x7f10, 0, "/lib/libc.so.6".to_owned())]
    );
    assert_eq!(found, [None, Some(0), Some(0), Some(0), None, Some(1), None]);
}

#[test]
fn the_usual_start_is_restored() {
    let (mappings, _) = attached("401000-402000 r-xp 1000 0:0 0 /bin/main\n", Addresses::CallSite, &[]);
    assert_eq!(mappings, [(0x40_0000, 0x40_2000, 0, "/bin/main".to_owned())]);
    let (mappings, _) = attached(
        "400000-401000 r-xp 0 0:0 0 /anon_hugepage\n401000-402000 r-xp 1000 0:0 0 /bin/main\n",
        Addresses::CallSite,
        &[],
    );
    assert_eq!(mappings, [(0x40_0000, 0x40_2000, 0, "/bin/main".to_owned())]);
}

#[test]
fn addresses_are_looked_up_as_what_they_are() {
    let map = "1000-2000 r-xp 0 0:0 0 /bin/main\n";
    let probes = [0x1000, 0x1fff, 0x2000];
    let cases = [
        (Addresses::CallSite, [Some(0), Some(0), None]),
        (Addresses::RawReturn, [None, Some(0), Some(0)]),
        (Addresses::RawCpu, [Some(0), Some(0), Some(0)]),
    ];
    for (addresses, expected) in cases {
        assert_eq!(attached(map, addresses, &probes).1, expected, "{addresses:?}");
    }
}

#[test]
fn the_first_of_overlapping_mappings_wins() {
    let map = "1000-9000 r-xp 0 0:0 0 /bin/main\n2000-3000 r-xp 0 0:0 0 /lib/a.so\n8000-a000 r-xp 0 0:0 0 /lib/b.so\n";
    let (_, found) = attached(map, Addresses::CallSite, &[0x2800, 0x8800, 0x9800]);
    assert_eq!(found, [Some(0), Some(0), Some(2)]);
}

#[test]
fn libraries_are_recognized_by_name() {
    for (path, expected) in [
        ("/lib/libc.so.6", true),
        ("/a/b.so", true),
        ("/a/b.so_1", true),
        ("/a/b.solo", false),
        ("/a/prog", false),
        ("x.so.d/prog", false),
    ] {
        assert_eq!(is_library(path), expected, "{path}");
    }
}

#[test]
fn rendered_maps_are_read_again() {
    let map =
        "1000-2000 r-xp 00000000 00:00 0 /bin/my main\n7f0000001000-7f0000002000 r-xp 00005000 00:00 0 /lib/a.so\n";
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    attach(&parse(map.as_bytes()), &mut builder);
    let text = render(&builder.finish().unwrap());
    assert_eq!(parse(text.as_bytes()), parse(map.as_bytes()));
}
