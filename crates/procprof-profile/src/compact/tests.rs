use crate::{Addr, Function, Line, Location, Mapping, Profile, ProfileBuilder};

/// Two samples in two mappings, the second with a label.
fn two() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.intern("nobody needs this");
    for name in ["main", "lib", "other"] {
        let filename = builder.intern(name);
        let mapping = builder.mapping(Mapping { filename, ..Mapping::default() });
        let name = builder.intern(&format!("{name}_function"));
        let function = builder.function(Function { name, ..Function::default() });
        let location = Location { mapping: Some(mapping), address: Addr(16), ..Location::default() };
        let location = builder.location(location, &[Line { function, line: 1, column: 0 }]);
        let label = builder.text_label("of", name_of(mapping.index()));
        let labels = if mapping.index() == 1 { vec![label] } else { vec![] };
        if mapping.index() > 0 {
            builder.sample(&[location], &[mapping.index() as i64, 10], &labels);
        }
    }
    builder.finish().unwrap()
}

fn name_of(index: usize) -> &'static str {
    ["first", "second", "third"][index]
}

fn texts(profile: &Profile) -> Vec<String> {
    profile.parts().strings.iter().map(str::to_owned).collect()
}

#[test]
fn compacting_keeps_what_samples_need_and_the_main_mapping() {
    let mut parts = two().into_parts();
    parts.retain_samples(|index| index == 1);
    parts.compact().unwrap();
    let profile = parts.finish().unwrap();
    assert_eq!(texts(&profile), ["", "samples", "count", "cpu", "nanoseconds", "main", "other", "other_function"]);
    assert_eq!((profile.mappings().len(), profile.locations().len(), profile.functions().len()), (2, 1, 1));
    let sample = profile.sample(0);
    assert_eq!((sample.values, sample.labels.len()), (&[2, 10][..], 0));
    let line = profile.lines(sample.stack[0])[0];
    assert_eq!(profile.string(profile.function(line.function).name), "other_function");
    let mapping = profile.location(sample.stack[0]).mapping.unwrap();
    assert_eq!(profile.string(profile.mapping(mapping).filename), "other");
}

#[test]
fn compacting_twice_changes_nothing() {
    let mut once = two().into_parts();
    once.compact().unwrap();
    let mut twice = once.clone();
    twice.compact().unwrap();
    assert_eq!(once, twice);
}

#[test]
fn sample_types_are_chosen_by_position() {
    let swapped = two().with_sample_types(&[1, 0]).unwrap();
    assert_eq!(swapped.sample_type(0), ("cpu", "nanoseconds"));
    assert_eq!(swapped.sample(1).values, [10, 2]);
    assert_eq!(two().with_sample_types(&[2]).unwrap_err().to_string(), "invalid profile: sample type 2 of 2");
    assert!(two().with_sample_types(&[]).is_err());
}
