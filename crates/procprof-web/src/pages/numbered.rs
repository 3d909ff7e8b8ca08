//! Numbered pages of 100 rows, of lists that no page shows at once.

use maud::{Markup, html};

use super::grouped;
use crate::params::Params;
use crate::problem::ApiResult;
use crate::texts::t;

/// Rows of a page.
const ROWS: usize = 100;
/// Largest number of a page.
pub(crate) const PAGES_MAX: u64 = 1_000_000;

/// The rows of a page, and their place among all rows.
#[derive(Debug)]
pub(super) struct NumberedPage<T> {
    pub(super) rows: Vec<T>,
    /// From 1.
    number: usize,
    /// Rows of the pages before.
    before: usize,
    /// Rows of all pages.
    pub(super) all: usize,
}

impl<T> NumberedPage<T> {
    /// The page of the parameter `page`, the first one without; the last one if there are fewer.
    pub(super) fn new(rows: Vec<T>, params: &Params) -> ApiResult<NumberedPage<T>> {
        let wanted = params.number("page", 1, PAGES_MAX)?.and_then(|number| usize::try_from(number).ok()).unwrap_or(1);
        let all = rows.len();
        let number = wanted.clamp(1, all.div_ceil(ROWS).max(1));
        let before = (number - 1) * ROWS;
        Ok(NumberedPage { rows: rows.into_iter().skip(before).take(ROWS).collect(), number, before, all })
    }

    /// Whether it has all rows.
    pub(super) fn is_whole(&self) -> bool {
        self.rows.len() == self.all
    }

    /// Its place among all rows, and the pages beside it by their URLs; nothing if it has all rows.
    pub(super) fn links(&self, url: impl Fn(usize) -> String) -> Markup {
        let NumberedPage { rows, number, before, all } = self;
        let last = before + rows.len();
        html! {
            @if !self.is_whole() {
                nav class="pages" aria-label=(t!("Pages")) {
                    @if *number > 1 { a rel="prev" href=(url(number - 1)) { (t!("← Previous")) } }
                    span class="muted" { (t!("Rows {0} to {1} of {2}", before + 1, last, grouped(*all as u64))) }
                    @if last < *all { a rel="next" href=(url(number + 1)) { (t!("Next →")) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NumberedPage;
    use crate::params::Params;

    fn page(rows: usize, query: &str) -> NumberedPage<usize> {
        NumberedPage::new((0..rows).collect(), &Params::parse(query).unwrap()).unwrap()
    }

    #[test]
    fn pages_have_all_rows_once() {
        for rows in [0_usize, 1, 99, 100, 101, 250] {
            let pages = rows.div_ceil(100).max(1);
            let all: Vec<usize> = (1..=pages).flat_map(|number| page(rows, &format!("page={number}")).rows).collect();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
            assert_eq!(page(rows, "page=1000000").rows, page(rows, &format!("page={pages}")).rows, "the last one");
            assert_eq!(page(rows, "").is_whole(), rows <= 100);
        }
        let links = page(250, "page=2").links(|number| format!("/?page={number}")).into_string();
        assert!(
            links.contains("/?page=1\"") && links.contains("Rows 101 to 200 of 250") && links.contains("/?page=3\"")
        );
        let last = page(250, "page=3").links(|number| format!("/?page={number}")).into_string();
        assert!(last.contains("Rows 201 to 250 of 250") && !last.contains("rel=\"next\""), "{last}");
        NumberedPage::new(vec![0], &Params::parse("page=0").unwrap()).unwrap_err();
    }
}
