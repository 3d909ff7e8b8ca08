//! The symbols that a server has and lacks, for the terminal.

use serde_json::Value;

/// The list as text: a row for each file, then the files whose symbols are missing.
pub(super) fn rendered(listed: &Value) -> String {
    let rows: Vec<[String; 7]> = array(&listed["symbols"]).map(row).collect();
    let mut text = if rows.is_empty() { "no symbols\n".to_owned() } else { columns(&rows) };
    let (bytes, limit) = (number(&listed["bytes"]), number(&listed["bytes_max"]));
    text.push_str(&format!("{} of {} taken\n", size(bytes), size(limit)));
    let mut wanted = array(&listed["wanted"]).peekable();
    if wanted.peek().is_some() {
        text.push_str("\nwanted by stored profiles:\n");
    }
    for file in wanted {
        let build_id = match word(&file["build_id"]) {
            "" => "no build id known".to_owned(),
            build_id => format!("build id {build_id}"),
        };
        let percent = file["percent"].as_f64().unwrap_or(0.0);
        text.push_str(&format!(
            "  {} ({build_id}): up to {percent:.1} % of samples in {} profiles\n",
            word(&file["file"]),
            number(&file["profiles"])
        ));
    }
    text
}

const HEAD: [&str; 7] = ["KEY", "FILE", "SIZE", "FUNCTIONS", "STORED", "LAST USED", "PROFILES"];

fn row(symbols: &Value) -> [String; 7] {
    let name = word(&symbols["name"]).to_owned();
    let lines = if word(&symbols["detail"]) == "lines" { "" } else { " (no lines)" };
    let by = match word(&symbols["by"]) {
        "" => String::new(),
        by => format!(" by {by}"),
    };
    let waiting = match number(&symbols["profiles_wanting"]) {
        0 => String::new(),
        count => format!(" + {count} waiting"),
    };
    [
        word(&symbols["key"]).to_owned(),
        name,
        size(number(&symbols["bytes"])),
        format!("{}{lines}", number(&symbols["functions"])),
        format!("{}{by}", moment(word(&symbols["stored"]))),
        symbols["last_used"].as_str().map_or("never".to_owned(), moment),
        format!("{}{waiting}", number(&symbols["profiles_using"])),
    ]
}

fn columns(rows: &[[String; 7]]) -> String {
    let mut widths = HEAD.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; 7]| {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let body = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(HEAD)).chain(body).collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// To the minute, in UTC.
fn moment(time: &str) -> String {
    time.get(..16).map_or(time.to_owned(), |minute| format!("{}Z", minute.replace('T', " ")))
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_columns_and_what_is_wanted_behind_them() {
        let listed = serde_json::json!({
            "symbols": [{ "key": "00ff", "name": "be", "bytes": 2048, "functions": 7, "detail": "functions", "stored": "2026-11-21T01:02:03.000Z",
                          "by": "ann", "last_used": null, "profiles_using": 1, "profiles_wanting": 2 }],
            "bytes": 2048, "bytes_max": 4_294_967_296_u64,
            "wanted": [{ "file": "/opt/fe", "build_id": "", "percent": 12.34, "profiles": 3 }],
        });
        let expected = "\
KEY   FILE  SIZE     FUNCTIONS     STORED                    LAST USED  PROFILES
00ff  be    2.0 KiB  7 (no lines)  2026-11-21 01:02Z by ann  never      1 + 2 waiting
2.0 KiB of 4.0 GiB taken

wanted by stored profiles:
  /opt/fe (no build id known): up to 12.3 % of samples in 3 profiles
";
        assert_eq!(rendered(&listed), expected);
    }
}
