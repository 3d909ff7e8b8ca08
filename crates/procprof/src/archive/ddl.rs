//! `archive ddl`: the views of docs/engines.md over an archive, for an engine.

use anyhow::{Result, bail};
use clap::ValueEnum;
use procprof_archive::Place;

/// The page, whose views and statements tests run.
const PAGE: &str = include_str!("../../../../docs/engines.md");
/// What stands for the archive on the page.
const ARCHIVE: &str = "ARCHIVE";

/// An engine that reads Parquet, or tables that an archive is loaded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Engine {
    DuckDb,
    ClickHouse,
    DataFusion,
    Databend,
    MariaDb,
    Spark,
    StarRocks,
    Trino,
}

impl Engine {
    /// Its heading on the page.
    fn heading(self) -> &'static str {
        match self {
            Engine::DuckDb => "DuckDB",
            Engine::ClickHouse => "ClickHouse",
            Engine::DataFusion => "DataFusion",
            Engine::Databend => "Databend",
            Engine::MariaDb => "MariaDB and MySQL",
            Engine::Spark => "Spark",
            Engine::StarRocks => "StarRocks",
            Engine::Trino => "Trino",
        }
    }
}

/// The statements that make the views, after what there is to know about them; with the ones that ask if they are
/// wanted.
///
/// # Errors
/// The engine names the place in a way that the page does not have, or cannot quote it.
pub(crate) fn ddl(engine: Engine, place: &Place, with_statements: bool) -> Result<String> {
    let mut text = String::new();
    let section = section(engine.heading());
    let (prose, views) = section.split_once("\n```sql ").unwrap_or((section, ""));
    comment(&mut text, prose.trim());
    let (_, views) = views.split_once('\n').unwrap_or_default();
    text.push_str(views.split("\n```").next().unwrap_or_default());
    text.push('\n');
    for view in blocks(PAGE, "all") {
        text.push_str(&format!("\n{view}\n"));
    }
    if with_statements {
        for (title, body) in numbered() {
            text.push('\n');
            comment(&mut text, title);
            text.push_str(body);
            text.push_str(";\n");
        }
    }
    placed(engine, place, &text)
}

/// The text below a heading.
fn section(heading: &str) -> &'static str {
    let begin = format!("\n### {heading}");
    let rest = PAGE.split_once(&begin).map_or("", |(_, rest)| rest);
    let end = ["\n### ", "\n## "].iter().filter_map(|next| rest.find(next)).min();
    &rest[..end.unwrap_or(rest.len())]
}

/// The blocks of SQL that are marked by a word.
fn blocks(text: &'static str, word: &str) -> impl Iterator<Item = &'static str> {
    let begin = format!("\n```sql {word}\n");
    text.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next()).collect::<Vec<_>>().into_iter()
}

/// The statements that ask, with their headings.
fn numbered() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGE.split("\n### ").filter_map(|part| {
        let (title, rest) = part.split_once('\n')?;
        let (_, body) = rest.split_once("\n```sql\n")?;
        Some((title, body.split("\n```").next()?.trim_end_matches(';')))
    })
}

fn comment(text: &mut String, prose: &str) {
    for line in prose.lines() {
        text.push_str(format!("-- {line}").trim_end());
        text.push('\n');
    }
}

/// The text with the archive's place, as the engine names it.
fn placed(engine: Engine, place: &Place, text: &str) -> Result<String> {
    let shown = match place {
        Place::Folder(folder) => std::path::absolute(folder)?.display().to_string(),
        bucket => bucket.to_string(),
    };
    // Engines quote it by different characters, and name it in comments.
    if let Some(odd) = shown.chars().find(|odd| "'\"`\\".contains(*odd) || odd.is_control()) {
        bail!("archive {shown:?}: its name has {odd:?}, which not every engine takes; use another path to it");
    }
    let bucket = |scheme: &str| shown.strip_prefix(scheme).map(|rest| rest.split_once('/').unwrap_or((rest, "")));
    let text = match (engine, place) {
        (_, Place::Folder(_)) => text.to_owned(),
        (Engine::ClickHouse, _) => {
            let (function, url) = match (bucket("s3://"), bucket("gs://")) {
                (Some((name, prefix)), _) => ("s3", format!("https://{name}.s3.amazonaws.com/{prefix}")),
                (_, Some((name, prefix))) => ("gcs", format!("https://storage.googleapis.com/{name}/{prefix}")),
                _ => bail!("ClickHouse reads Azure by azureBlobStorage(), for which docs/engines.md has no views"),
            };
            text.replace(&format!("file('{ARCHIVE}"), &format!("{function}('{}", url.trim_end_matches('/')))
        }
        (Engine::Databend, _) => text.replace(&format!("fs://{ARCHIVE}"), ARCHIVE),
        _ => text.to_owned(),
    };
    Ok(text.replace(ARCHIVE, &shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(engine: Engine, place: &str) -> String {
        ddl(engine, &place.parse().unwrap(), true).unwrap()
    }

    #[test]
    fn every_engine_has_its_views_and_all_statements() {
        for engine in Engine::value_variants() {
            let text = asked(*engine, "/var/lib/procprof/archive");
            assert!(!text.contains(ARCHIVE) && text.contains("/var/lib/procprof/archive"), "{engine:?}: {text}");
            for view in ["profile_files", "sample_files", "stack_files", "frame_files", "label_files", "self_values"] {
                assert!(text.contains(&format!("VIEW {view} AS")), "{engine:?}: {view}");
            }
            assert_eq!(text.matches("\n-- 10. ").count(), 1, "{engine:?}: {text}");
            assert!(!text.contains("```"), "{engine:?}: {text}");
        }
    }

    #[test]
    fn buckets_are_named_as_the_engine_does() {
        let text = asked(Engine::ClickHouse, "s3://prof/a/b");
        assert!(
            text.contains("FROM s3('https://prof.s3.amazonaws.com/a/b/samples/*/*/*.parquet', 'Parquet')"),
            "{text}"
        );
        assert!(asked(Engine::ClickHouse, "gs://prof").contains("gcs('https://storage.googleapis.com/prof/samples/"));
        assert!(ddl(Engine::ClickHouse, &"az://prof/a".parse().unwrap(), false).is_err());
        let odd = ddl(Engine::Spark, &"/data/it's".parse().unwrap(), false).unwrap_err();
        assert!(odd.to_string().contains("/data/it's"), "{odd}");
        assert!(asked(Engine::Databend, "s3://prof/a").contains("URL = 's3://prof/a/'"));
        assert!(asked(Engine::DuckDb, "s3://prof/a").contains("read_parquet('s3://prof/a/samples/*/*/*.parquet'"));
    }
}
