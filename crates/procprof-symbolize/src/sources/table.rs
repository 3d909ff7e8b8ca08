//! The sources of symbols, in the order in which they are queried.

use std::fmt;

use super::inquiry::Inquiries;
use super::{Sources, debug_info, debuginfod, kallsyms, own_symbols, perf_map, symbol_page, uploaded, vdso};
use crate::Source;

/// One source.
pub struct SourceRow {
    /// The source.
    pub source: Source,
    /// Its name.
    pub name: &'static str,
    /// Its requirements.
    pub needs: &'static str,
    /// Looks up the locations that are still unknown.
    pub(crate) ask: fn(&mut Inquiries<'_>, &mut Sources<'_>),
}

/// The sources, in the order in which they are queried. Each is queried for the locations that those before it left
/// unknown.
pub const SOURCES: &[SourceRow] = &[
    SourceRow {
        source: Source::DebugInfo,
        name: "debug-info",
        needs: "the mapping's file, or a debug file of the same build, with DWARF",
        ask: debug_info::ask,
    },
    SourceRow {
        source: Source::Uploaded,
        name: "uploaded",
        needs: "a symbol index that was pushed: of the same build, or the only one that fits",
        ask: uploaded::ask,
    },
    SourceRow {
        source: Source::Debuginfod,
        name: "debuginfod",
        needs: "a build id, and a server that has its debug file",
        ask: debuginfod::ask,
    },
    SourceRow {
        source: Source::GoTable,
        name: "go-table",
        needs: "the mapping's file with .gopclntab",
        ask: own_symbols::ask_go_table,
    },
    SourceRow {
        source: Source::SymbolTable,
        name: "symbol-table",
        needs: "the mapping's file with .symtab, .gnu_debugdata or .dynsym",
        ask: own_symbols::ask_symbol_table,
    },
    SourceRow {
        source: Source::PerfMap,
        name: "perf-map",
        needs: "memory without a file, and perf-PID.map of the live process or named",
        ask: perf_map::ask,
    },
    SourceRow {
        source: Source::Kallsyms,
        name: "kallsyms",
        needs: "kernel addresses, and kallsyms of the live process's machine or named",
        ask: kallsyms::ask,
    },
    SourceRow {
        source: Source::Vdso,
        name: "vdso",
        needs: "a live process on this machine, or the build id of this machine's vdso",
        ask: vdso::ask,
    },
    SourceRow {
        source: Source::SymbolPage,
        name: "symbol-page",
        needs: "a process that answers /pprof/symbol",
        ask: symbol_page::ask,
    },
];

impl Source {
    /// Its name as in [`SOURCES`].
    pub fn name(self) -> &'static str {
        SOURCES.iter().find(|row| row.source == self).map_or("", |row| row.name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for SourceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceRow").field("source", &self.source).field("needs", &self.needs).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_one_row_in_the_order_of_the_type() {
        assert!(SOURCES.windows(2).all(|pair| pair[0].source < pair[1].source && pair[0].name != pair[1].name));
        assert!(SOURCES.iter().all(|row| !row.needs.is_empty() && row.source.name() == row.name));
    }

    #[test]
    fn the_page_about_names_lists_them_in_order() {
        let page = include_str!("../../../../docs/names.md");
        let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let listed: Vec<&str> = listed.map(|(name, _)| name).filter(|name| !name.contains(['_', ' '])).collect();
        assert_eq!(listed, SOURCES.iter().map(|row| row.name).collect::<Vec<_>>());
    }
}
