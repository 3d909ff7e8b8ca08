//! Call trees as Instruments of Xcode puts them on the clipboard ("Deep Copy"): a table with tabs, whose symbol names
//! are indented by their depth.
//!
//! ```text
//! Weight <tab> Self Weight <tab> <tab> Symbol Name
//! 1.50 s  100.0% <tab> 0 s <tab>  <tab> work (4711)
//! 1.50 s  100.0% <tab> 0 s <tab>  <tab>  main
//! 1.20 s   80.0% <tab> 1.20 s <tab>  <tab>   hot
//! ```
//! Instruments 16 has `Weight`, `Self Weight` and `Symbol Names` alone; older versions have `Running Time` and
//! `Self (ms)`, some `Source Path`, Allocations has `Bytes Used` and `Count`. What a row used itself
//! is its `Self Weight`, else its weight less that of the rows below it. The sample type is `cpu`, `space`, `cycles`
//! (`3.00 Gc`; `Kc`, `Mc` and `Gc` are thousands of each other), or `samples` where weights have no unit. It is that of
//! the first weight above 0; weights of other units are left out and counted.

use super::call_tree::{self, CallTree, Frame, UNLABELLED};
use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{Error, LocationId, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "instruments";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "Instruments' deep copy", detect, decode, events: None, encode: None };

const WEIGHTS: [&str; 3] = ["Weight", "Running Time", "Bytes Used"];
const OWN: &str = "Self Weight";
const SYMBOL: [&str; 2] = ["Symbol Name", "Symbol Names"];
const PATH: &str = "Source Path";

/// Whether the first line names the columns of such a table.
pub fn detect(bytes: &[u8]) -> Detect {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_cut = line.len() == bytes.len();
    let Ok(line) = std::str::from_utf8(line) else { return Detect::No };
    match Columns::read(line.trim_end()) {
        Some(_) if !is_cut => Detect::Yes,
        _ if is_cut && WEIGHTS.iter().any(|weight| line.starts_with(weight) || weight.starts_with(line)) => {
            Detect::NeedMore
        }
        _ => Detect::No,
    }
}

/// The positions of the columns.
struct Columns {
    weight: usize,
    own: Option<usize>,
    symbol: usize,
    path: Option<usize>,
}

impl Columns {
    fn read(line: &str) -> Option<Columns> {
        let place = |names: &[&str]| line.split('\t').position(|column| names.contains(&column.trim()));
        Some(Columns { weight: place(&WEIGHTS)?, own: place(&[OWN]), symbol: place(&SYMBOL)?, path: place(&[PATH]) })
    }
}

/// A row of the table.
struct Row {
    depth: usize,
    frame: LocationId,
    weight: i64,
    own: Option<i64>,
}

impl Row {
    /// Reads a row without its values, its weight and its own, or says what is wrong with it.
    fn read<'a>(
        line: &'a str,
        columns: &Columns,
        tree: &mut CallTree,
    ) -> std::result::Result<(Row, Amount<'a>, Option<Amount<'a>>), String> {
        let cell = |column: usize| line.split('\t').nth(column);
        let symbol = cell(columns.symbol).ok_or("a row without a symbol name")?;
        let weight = cell(columns.weight).unwrap_or_default();
        let weight = Amount::read(weight).ok_or_else(|| format!("expected a weight, found {weight:?}"))?;
        let file = columns.path.and_then(cell).unwrap_or_default().trim();
        let frame = tree.frame(&Frame { name: symbol.trim(), file, ..Frame::default() });
        let own = columns.own.and_then(cell).and_then(Amount::read);
        Ok((Row { depth: symbol.len() - symbol.trim_start().len(), frame, weight: 0, own: None }, weight, own))
    }
}

/// Decodes a call tree.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let malformed = |line: usize, what: String| Error::Malformed { format: NAME, place: Place::Line(line + 1), what };
    let (first, head) = lines.next().ok_or(Error::Empty)?;
    let columns = Columns::read(head.trim_end())
        .ok_or_else(|| malformed(first, "expected the names of the columns".to_owned()))?;
    // Each of several processes that were copied has the names of the columns above it.
    let lines: Vec<(usize, &str)> = lines.filter(|(_, line)| line.trim_end() != head.trim_end()).collect();
    let weights = lines.iter().filter_map(|(_, line)| Amount::read(line.split('\t').nth(columns.weight)?));
    let unit = weights.filter(|weight| weight.value != 0).map(|weight| weight.unit).next().unwrap_or(Unit::Count);
    let mut tree = CallTree::new(NAME, &[unit.sample_type()], bytes.len(), limits);
    let (mut rows, mut left_out, mut others) = (Vec::new(), LeftOut::default(), OtherUnits::default());
    for (number, line) in lines {
        let read = Row::read(line, &columns, &mut tree).map_err(|what| malformed(number, what));
        let Some((mut row, weight, own)) = left_out.keep(read)? else { continue };
        row.weight = others.value(&weight, unit, number);
        row.own = own.map(|own| others.value(&own, unit, number));
        rows.push(row);
    }
    left_out.end(NAME, rows.is_empty(), warnings)?;
    others.warn(unit, warnings);
    let below = weights_below(&rows);
    let mut open = Vec::new();
    for (row, below) in rows.iter().zip(below) {
        while open.last().is_some_and(|(depth, _)| *depth >= row.depth) {
            open.pop();
        }
        let parent = open.last().map_or(call_tree::ROOT, |(_, node)| *node);
        let node = tree.child(parent, row.frame)?;
        open.push((row.depth, node));
        tree.add(node, UNLABELLED, &[row.own.unwrap_or_else(|| row.weight.saturating_sub(below).max(0))]);
    }
    tree.finish()
}

/// For each row the weight of those right below it.
fn weights_below(rows: &[Row]) -> Vec<i64> {
    let mut below = vec![0i64; rows.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        while open.last().is_some_and(|parent| rows[*parent].depth >= row.depth) {
            open.pop();
        }
        if let Some(parent) = open.last() {
            below[*parent] = below[*parent].saturating_add(row.weight);
        }
        open.push(index);
    }
    below
}

/// Weights in another unit than that of the table.
#[derive(Default)]
struct OtherUnits {
    count: usize,
    /// The line of the first.
    first: usize,
}

impl OtherUnits {
    /// The value in that unit; 0 for one of another, which counts.
    fn value(&mut self, amount: &Amount<'_>, unit: Unit<'_>, line: usize) -> i64 {
        if amount.unit == unit || amount.value == 0 {
            return amount.value;
        }
        self.first = if self.count == 0 { line + 1 } else { self.first };
        self.count += 1;
        0
    }

    fn warn(&self, unit: Unit<'_>, warnings: &mut Vec<String>) {
        if let count @ 1.. = self.count {
            let (_, unit) = unit.sample_type();
            let first = self.first;
            warnings
                .push(format!("{NAME}: left out {count} weights in another unit than {unit}, from line {first} on"));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit<'a> {
    Nanoseconds,
    Bytes,
    Cycles,
    Count,
    /// As the table has it.
    Other(&'a str),
}

impl<'a> Unit<'a> {
    fn sample_type(self) -> (&'static str, &'a str) {
        match self {
            Unit::Nanoseconds => ("cpu", "nanoseconds"),
            Unit::Bytes => ("space", "bytes"),
            Unit::Cycles => ("cycles", "count"),
            Unit::Count => ("samples", "count"),
            Unit::Other(unit) => ("samples", unit),
        }
    }
}

/// The amount in `1.50 s  100.0%`, `2.50 Gc` or `12.5`.
struct Amount<'a> {
    value: i64,
    unit: Unit<'a>,
}

impl<'a> Amount<'a> {
    fn read(cell: &'a str) -> Option<Amount<'a>> {
        let cell = cell.trim();
        let end = cell.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(cell.len());
        let number: f64 = cell[..end].replace(',', "").parse().ok()?;
        let word = cell[end..].split_whitespace().next().unwrap_or_default().trim_end_matches(',');
        let (factor, unit) = match word {
            "ns" => (1.0, Unit::Nanoseconds),
            "µs" | "μs" | "us" => (1e3, Unit::Nanoseconds),
            "ms" => (1e6, Unit::Nanoseconds),
            "s" => (1e9, Unit::Nanoseconds),
            "min" => (6e10, Unit::Nanoseconds),
            "h" => (3.6e12, Unit::Nanoseconds),
            "Bytes" | "B" | "bytes" => (1.0, Unit::Bytes),
            "KB" | "KiB" => (1024.0, Unit::Bytes),
            "MB" | "MiB" => (1024.0 * 1024.0, Unit::Bytes),
            "GB" | "GiB" => (1024.0 * 1024.0 * 1024.0, Unit::Bytes),
            "TB" | "TiB" => (1024.0 * 1024.0 * 1024.0 * 1024.0, Unit::Bytes),
            "c" | "cycles" => (1.0, Unit::Cycles),
            "Kc" => (1e3, Unit::Cycles),
            "Mc" => (1e6, Unit::Cycles),
            "Gc" => (1e9, Unit::Cycles),
            "Tc" => (1e12, Unit::Cycles),
            // A share of the whole follows.
            word if word.starts_with(|c: char| c.is_ascii_digit()) || matches!(word, "" | "%") => (1.0, Unit::Count),
            word => (1.0, Unit::Other(word)),
        };
        Some(Amount { value: (number * factor).round() as i64, unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{check, decoded, error};

    fn stacks(profile: &Profile) -> Vec<(String, i64)> {
        let name = |id: &LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name).to_owned();
        let stack = |stack: &[LocationId]| stack.iter().rev().map(name).collect::<Vec<_>>().join(";");
        profile.samples().map(|sample| (stack(sample.stack), sample.values[0])).collect()
    }

    #[test]
    fn a_call_tree_is_read() {
        let profile = check("instruments/time.txt", NAME).profile;
        assert_eq!((profile.sample_type(0), profile.total(0)), (("cpu", "nanoseconds"), 1_500_000_000));
        assert_eq!(stacks(&profile)[0], ("work (4711);Main Thread;main;hot".to_owned(), 1_200_000_000));
    }

    #[test]
    fn without_a_column_the_own_weight_is_what_is_left() {
        let text = "Bytes Used\tCount\t\tSymbol Name\r\n1.50 KB  100.0%\t12\t \tmain\r\n1.00 KB   66.7%\t8\t \t fill\r\n256 Bytes\t1\t \t free\r\n";
        let profile = decoded(text.as_bytes()).profile;
        assert_eq!(profile.sample_type(0), ("space", "bytes"));
        assert_eq!(
            stacks(&profile),
            [("main".to_owned(), 256), ("main;fill".to_owned(), 1024), ("main;free".to_owned(), 256)]
        );
    }

    #[test]
    fn version_16_has_three_columns_and_names_them_for_each_process() {
        let process = "Weight\tSelf Weight\tSymbol Names\n4.93 s  100.0%\t0 s\t   start\n4.90 s  99.4%\t2.00 s\t    main\n\
            2.90 s   0.0%\t2.90 s\t     delta()\n30.00 ms   0.6%\t30.00 ms\t    exit\n";
        let decoded = decoded(format!("{process}\n{process}").as_bytes());
        assert_eq!(decoded.warnings, [""; 0]);
        let expected =
            [("start;main", 4_000_000_000), ("start;main;delta()", 5_800_000_000), ("start;exit", 60_000_000)];
        assert_eq!(stacks(&decoded.profile), expected.map(|(stack, value)| (stack.to_owned(), value)));
    }

    #[test]
    fn the_path_of_the_source_is_the_file() {
        let text = "Running Time\tSelf (ms)\t\tSymbol Name\tSource Path\n5.0ms  100.0%\t5.0\t \tmain\t/src/a.c\n";
        let profile = decoded(text.as_bytes()).profile;
        let function = profile.function(profile.lines(profile.sample(0).stack[0])[0].function);
        assert_eq!((profile.string(function.filename), profile.total(0)), ("/src/a.c", 5_000_000));
    }

    #[test]
    fn cycles_have_units_that_are_thousands_of_each_other() {
        let text = "Weight\tSelf Weight\t\tSymbol Name\n3.00 Gc  100.0%\t-\t \tserver (1)\n3.00 Gc  100.0%\t500.00 Mc\t \t main\n\
            2.50 Gc   83.3%\t2.50 Gc\t \t  work\n";
        let profile = decoded(text.as_bytes()).profile;
        assert_eq!(profile.sample_type(0), ("cycles", "count"));
        let work = "server (1);main;work".to_owned();
        assert_eq!(stacks(&profile), [("server (1);main".to_owned(), 500_000_000), (work, 2_500_000_000)]);
    }

    #[test]
    fn weights_of_other_units_are_left_out_and_counted() {
        let text =
            "Weight\tSelf Weight\t\tSymbol Name\n0\t0\t \troot\n3 widgets\t1 widgets\t \tmain\n2 s\t2 s\t \t work\n";
        let decoded = decoded(text.as_bytes());
        assert_eq!((decoded.profile.sample_type(0), decoded.profile.total(0)), (("samples", "widgets"), 1));
        let expected = "instruments: left out 2 weights in another unit than widgets, from line 4 on";
        assert_eq!(decoded.warnings, [expected]);
    }

    #[test]
    fn what_is_wrong_is_an_error_with_its_line() {
        assert!(
            error(b"Weight\tSymbol Name\nx\tmain\n").contains("instruments: line 2: expected a weight, found \"x\"")
        );
        assert!(error(b"Weight\tSymbol Name\n1 s\n").contains("instruments: line 2: a row without a symbol name"));
        for (text, expected) in [
            ("Weight", Detect::NeedMore),
            ("Weight\tName\n", Detect::No),
            ("Wei", Detect::NeedMore),
            ("Weights are heavy\n", Detect::No),
        ] {
            assert_eq!(detect(text.as_bytes()), expected, "{text:?}");
        }
    }
}
