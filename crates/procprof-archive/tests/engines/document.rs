//! The statements of `docs/engines.md`, by the words behind the three backticks that begin them:
//!
//! ```text
//! sql ENGINE    views of the files, for one engine, separated by `;`
//! sql all       views over these, for all engines
//! sql           a statement for all engines
//! ```

use std::path::Path;

const VIEWS: usize = 6;
const STATEMENTS: usize = 10;

/// What one engine runs.
pub(super) struct Document {
    /// Statements that make views and tables.
    pub(super) views: Vec<String>,
    /// Statements that ask.
    pub(super) statements: Vec<String>,
}

/// The document's statements for an engine and an archive.
pub(super) fn read(engine: &str, archive: &str) -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/engines.md");
    let text = std::fs::read_to_string(path).unwrap();
    let of_files = blocks(&text, &format!("sql {engine}"));
    assert!(!of_files.is_empty(), "docs/engines.md has no views for {engine}");
    let hiding = blocks(&text, "sql all");
    assert_eq!(hiding.len(), VIEWS, "{hiding:?}");
    let mut views: Vec<String> =
        of_files.into_iter().chain(hiding).map(|view| view.replace("ARCHIVE", archive)).collect();
    if engine == "spark" {
        views.iter_mut().for_each(|view| *view = view.replace("CREATE VIEW", "CREATE TEMPORARY VIEW"));
    }
    let statements = blocks(&text, "sql");
    assert_eq!(statements.len(), STATEMENTS);
    Document { views, statements }
}

/// The statements in blocks with these words.
fn blocks(text: &str, words: &str) -> Vec<String> {
    let begin = format!("\n```{words}\n");
    let blocks = text.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    blocks.flat_map(|block| block.split(";\n")).map(|one| one.trim().trim_end_matches(';').to_owned()).collect()
}
