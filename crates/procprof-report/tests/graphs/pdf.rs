//! PDF files as poppler reads them.

use std::path::Path;
use std::process::Command;

use procprof_profile::Profile;
use procprof_report::{Options, Sources, render};

use crate::{escaping, samples};

fn run(program: &str, arguments: &[&str], file: &Path) -> String {
    let output =
        Command::new(program).args(arguments).arg(file).arg("-").output().unwrap_or_else(|error| {
            panic!("`{program}` (package poppler-utils) must be installed for this test: {error}")
        });
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && complaints.is_empty(), "{program}: {complaints}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn written(profile: &Profile, pairs: &[(&str, &str)], folder: &Path) -> std::path::PathBuf {
    let options = Options::parse(pairs.iter().copied()).unwrap();
    let path = folder.join("graph.pdf");
    std::fs::write(&path, render(profile, "pdf", &options, &Sources::default()).unwrap()).unwrap();
    path
}

#[test]
fn a_pdf_has_all_texts_of_the_graph() {
    let folder = tempfile::tempdir().unwrap();
    let profile = samples::file("go.cpu.pb.gz");
    let text = run("pdftotext", &["-raw"], &written(&profile, &[], folder.path()));
    let dot = samples::text(&profile, "dot", &[]);
    let labels = dot
        .lines()
        .filter(|line| line.starts_with('N'))
        .map(|line| line.split("label=\"").nth(1).unwrap().split('"').next().unwrap());
    let lines: Vec<&str> =
        labels.flat_map(|label| label.split("\\n")).map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(lines.len() > 300);
    for line in lines {
        assert!(text.contains(line), "{line:?} is not in the text");
    }
}

#[test]
fn characters_of_all_scripts_are_found_and_hostile_names_are_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let mut stacks: Vec<(&[&str], i64)> = vec![(&["main", "计算_π", "größe(a\\)", "функция", "🦀ferris"], 10)];
    stacks.push((&escaping::NAMES, 5));
    let path = written(&samples::stacks(&stacks), &[], folder.path());
    let text = run("pdftotext", &["-raw"], &path);
    for name in ["计算_π", "größe(a\\)", "функция", "🦀ferris"] {
        assert!(text.contains(name), "{name:?} in {text}");
    }
    let picture = Command::new("pdftoppm")
        .args(["-r", "40", "-gray"])
        .arg(&path)
        .output()
        .expect("`pdftoppm` must be installed for this test");
    assert!(picture.status.success() && picture.stderr.is_empty(), "{}", String::from_utf8_lossy(&picture.stderr));
    let dark = picture.stdout.iter().filter(|byte| **byte < 128).count();
    assert!(picture.stdout.starts_with(b"P5") && dark > 500, "{dark} dark dots");
}

#[test]
fn a_page_is_as_large_as_the_graph_and_no_larger_than_viewers_take() {
    let folder = tempfile::tempdir().unwrap();
    let size = |path: &Path| -> Vec<f64> {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let sides = text.split("/MediaBox [").nth(1).unwrap().split(']').next().unwrap();
        let unit = text
            .split("/UserUnit ")
            .nth(1)
            .map_or(1.0, |rest| rest.split_whitespace().next().unwrap().parse().unwrap());
        sides.split_whitespace().map(|side| side.parse::<f64>().unwrap()).chain([unit]).collect()
    };
    let small = size(&written(&samples::mixed(), &[], folder.path()));
    let svg = super::svg::parsed(&samples::text(&samples::mixed(), "svg", &[]));
    assert_eq!(small, [0.0, 0.0, svg.width, svg.height, 1.0]);
    let wide: Vec<String> = (0..1_000).map(|index| format!("function_with_a_long_name_{index}")).collect();
    let stacks: Vec<[&str; 2]> = wide.iter().map(|name| ["main", name.as_str()]).collect();
    let stacks: Vec<(&[&str], i64)> = stacks.iter().map(|stack| (stack.as_slice(), 10)).collect();
    let large = size(&written(&samples::stacks(&stacks), &[("nodecount", "0"), ("nodefraction", "0")], folder.path()));
    assert!(large[2] <= 14_400.0 && large[4] > 1.0, "{large:?}");
}
