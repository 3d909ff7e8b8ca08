//! Graphviz's own drawing, in its plain format: lengths in inches, y grows upwards.
//!
//! ```text
//! graph 1 7.5 10.2
//! node N1 3.1 9.9 1.2 0.6 "label" filled box black "#f8f8f8"
//! edge N1 N2 4 3.1 9.5 3.0 9.2 3.0 9.0 3.0 8.8 " 6.11s" 3.3 9.1 solid black
//! stop
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::measure::{Box, Edge, Graph, Point};

/// Graphviz without the plugins that look for fonts: it takes the widths of letters from a table of its own, whatever
/// fonts are installed.
pub(super) struct Graphviz {
    plugins: TempDir,
}

impl Graphviz {
    pub(super) fn new() -> Graphviz {
        let shown = Command::new("dot").args(["-v", "-Tplain"]).stdin(Stdio::null()).output();
        let shown = shown.expect("`dot` (package graphviz) must be installed for this test");
        let shown = String::from_utf8_lossy(&shown.stderr).into_owned();
        let installed = shown.lines().find_map(|line| line.strip_prefix("libdir = \"")?.strip_suffix('"'));
        let plugins = tempfile::tempdir().unwrap();
        for plugin in std::fs::read_dir(installed.unwrap_or_else(|| panic!("no libdir: {shown}"))).unwrap() {
            let plugin = plugin.unwrap();
            let name = plugin.file_name().to_string_lossy().into_owned();
            if name.starts_with("libgvplugin_core.") || name.starts_with("libgvplugin_dot_layout.") {
                symlink(plugin.path(), plugins.path().join(name)).unwrap();
            }
        }
        let configured = Command::new("dot").arg("-c").env("GVBINDIR", plugins.path()).status().unwrap();
        assert!(configured.success(), "dot -c");
        Graphviz { plugins }
    }

    /// Graphviz's layout of a graph.
    pub(super) fn drawn(&self, dot: &str) -> Graph {
        let mut child = Command::new("dot")
            .arg("-Tplain")
            .env("GVBINDIR", self.plugins.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = dot.to_owned();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        parsed(&String::from_utf8(output.stdout).unwrap())
    }
}

fn parsed(plain: &str) -> Graph {
    let mut graph = Graph::default();
    let mut numbers = BTreeMap::new();
    for line in plain.replace("\\\n", "").lines() {
        let words = words(line);
        let inches = |index: usize| words[index].parse::<f64>().unwrap() * 72.0;
        let height = graph.height;
        let at = |index: usize| Point { x: inches(index), y: height - inches(index + 1) };
        match words[0].as_str() {
            "graph" => (graph.width, graph.height) = (inches(2), inches(3)),
            "node" => {
                numbers.insert(words[1].clone(), graph.nodes.len());
                graph.nodes.push(Box { center: at(2), width: inches(4), height: inches(5) });
            }
            "edge" => {
                let count: usize = words[3].parse().unwrap();
                let curve = (0..count).map(|index| at(4 + 2 * index)).collect();
                graph.edges.push(Edge { from: numbers[&words[1]], to: numbers[&words[2]], curve });
            }
            _ => {}
        }
    }
    graph
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in line.chars() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    words
}
