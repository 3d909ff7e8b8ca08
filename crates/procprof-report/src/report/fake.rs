//! A report for tests: this file and its row in the table are all that makes one.

use procprof_profile::{Profile, ProfileBuilder};

use super::{NOTHING, Needs, REPORTS, Report, render};
use crate::listing::sources::Sources;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Budget, Error, Options, Result};

pub(super) const ROW: Report = Report {
    name: "fake",
    extension: "fake.txt",
    media_type: "text/plain; charset=utf-8",
    help: "A line for each sample, and the source files it was given, for tests",
    needs: Needs { sources: Some(|_, _| Ok(vec!["main.c".to_owned()])), ..NOTHING },
    adjusts: true,
    render: write,
};

fn write(view: &View<'_>, _options: &Options, sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    for sample in view.profile.samples() {
        out.text.push_str(&format!("sample {}\n", sample.values[0]));
        out.drain()?;
    }
    sources.files.iter().for_each(|(path, text)| out.text.push_str(&format!("{path}: {text}\n")));
    Ok(())
}

fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    for value in 1..4 {
        let frame = builder.frame(&format!("f{value}"));
        builder.sample(&[frame], &[value], &[]);
    }
    builder.finish().unwrap()
}

#[test]
fn a_report_is_a_file_and_a_row() {
    let report = Report::named("fake").unwrap();
    assert!(REPORTS.iter().any(|row| row.name == report.name), "menus show it");
    assert!(report.takes_sources() && !report.takes_code() && !report.takes_symbol());

    let (profile, options) = (profile(), Options::default());
    let mut sources = Sources::default();
    for path in report.source_files(&profile, &options).unwrap() {
        sources.files.insert(path, "int main;".to_owned());
    }
    let bytes = render(&profile, "fake", &options, &sources).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), "sample 1\nsample 2\nsample 3\nmain.c: int main;\n");
}

#[test]
fn its_output_is_bounded_and_a_name_close_to_it_suggests_it() {
    let options = Options { budget: Budget::new(20, u64::MAX), ..Options::default() };
    let refused = render(&profile(), "fake", &options, &Sources::default());
    assert!(matches!(refused, Err(Error::OutputLimit { .. })), "{refused:?}");
    let unknown = Report::named("fakes").err().unwrap().to_string();
    assert!(unknown.contains("fake"), "{unknown}");
}
