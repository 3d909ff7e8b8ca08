//! `cargo xtask test`: all tests of the workspace, after checking that the programs they compare with are installed.

use anyhow::Result;

use crate::cargo::{self, Step};
use crate::{browser, clients, ports, side_by_side, tools};

/// Runs all tests, the documentation's examples, the pages in a browser, and the unwinder's tests on aarch64; with more
/// arguments only `cargo test` with these.
///
/// # Errors
/// A program is missing, or tests fail; those that follow run all the same.
pub(crate) fn run(more: &[String]) -> Result<()> {
    tools::ensure()?;
    clients::ensure()?;
    let named = std::env::var("RUST_TEST_THREADS").ok();
    if !more.is_empty() {
        let words = words(more.iter().map(String::as_str));
        let threads = named.unwrap_or_else(|| (2 * cores()).to_string());
        return Step::new(&words).env("RUST_TEST_THREADS", threads).run();
    }
    // Most tests wait for processes of their own. Two binaries run at a time, so with this many threads in each there
    // are more than two tests for each core.
    let tests = side_by_side::run(&named.unwrap_or_else(|| (cores() + 1).to_string()));
    // The same packages and features as those of the tests, so that nothing is built again.
    let examples = Step::new(&words(["--doc"])).run();
    let pages = browser::test();
    let emulated = ports::test();
    tests.and(examples).and(pages).and(emulated)
}

/// `cargo test` of the product, with more arguments.
fn words<'a>(more: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    ["test", "--locked", "--no-fail-fast"].into_iter().chain(cargo::PRODUCT).chain(more).collect()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
