//! The texts of pages in the language of the request.
//!
//! English is written where it is shown, as `t!("{0} of {1}", a, b)`, and is the key of a row of [`TABLE`], which has
//! the other languages: a text without a row does not compile. The language of a request is that of the task that
//! answers it, so that it need not be passed through every part of every page. What the server reports of nodes, in
//! problems and in its log stays English.

mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use axum::extract::{RawQuery, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, Render, html};

use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use table::TABLE;

/// The cookie with the language that was chosen.
const COOKIE: &str = "procprof-language";

/// A language of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Japanese,
    Chinese,
}

impl Language {
    /// In the order of the columns of texts.
    pub(crate) const ALL: [Language; 3] = [Language::English, Language::Japanese, Language::Chinese];

    /// As in `<html lang>`.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Japanese => "ja",
            Language::Chinese => "zh-CN",
        }
    }

    /// In its own words.
    fn name(self) -> &'static str {
        match self {
            Language::English => "English",
            Language::Japanese => "日本語",
            Language::Chinese => "中文",
        }
    }

    /// The language of the page that is being made.
    pub(crate) fn current() -> Language {
        PAGE.try_with(|page| page.language).unwrap_or(Language::English)
    }

    /// The language that a request asks for: the chosen one, else the first of those that it accepts.
    fn from_headers(headers: &HeaderMap) -> Language {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut chosen = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('=').and_then(Language::from_tag));
        let accepted = || headers.get(header::ACCEPT_LANGUAGE).and_then(|accepted| accepted.to_str().ok());
        chosen.next().or_else(|| accepted().and_then(Language::accepted)).unwrap_or(Language::English)
    }

    /// The language of a tag such as `zh-Hans-CN`; all kinds of Chinese are read in the one that there is.
    fn from_tag(tag: &str) -> Option<Language> {
        let primary = tag.trim().split('-').next().unwrap_or_default().to_ascii_lowercase();
        Language::ALL.into_iter().find(|language| language.tag().split('-').next() == Some(&primary))
    }

    /// The best language of a header such as `fr;q=0.9, ja;q=0.8`.
    fn accepted(header: &str) -> Option<Language> {
        let ranges = header.split(',').filter_map(|range| {
            let mut parts = range.split(';');
            let language = Language::from_tag(parts.next()?)?;
            let weight = parts.find_map(|part| part.trim().strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f64>);
            weight.ok().filter(|weight| *weight > 0.0).map(|weight| (language, weight))
        });
        // Of equal ones the first.
        let better = |best: Option<(Language, f64)>, range: (Language, f64)| match best {
            Some(best) if best.1 >= range.1 => Some(best),
            _ => Some(range),
        };
        ranges.fold(None, better).map(|(language, _)| language)
    }
}

/// What pages know of the request that they answer.
struct Page {
    language: Language,
    /// Path and query.
    address: String,
}

tokio::task_local! {
    static PAGE: Page;
}

/// Answers a request in its language.
pub(crate) async fn in_language(request: Request, next: Next) -> Response {
    let language = Language::from_headers(request.headers());
    let address = request.uri().path_and_query().map_or("/", |address| address.as_str()).to_owned();
    PAGE.scope(Page { language, address }, next.run(request)).await
}

/// `GET /language?to=&back=`: remembers a language, and leads back.
pub(crate) async fn choose_language(RawQuery(query): RawQuery) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["to", "back"])?;
    let language = Language::ALL.into_iter().find(|language| params.get("to") == Some(language.tag()));
    let language = language.ok_or_else(|| Problem::bad_request("to: expected en, ja or zh-CN"))?;
    let cookie = format!("{COOKIE}={}; Path=/; Max-Age=31536000; SameSite=Lax", language.tag());
    let cookie = HeaderValue::try_from(cookie).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(params.own_place("back").unwrap_or("/"))).into_response())
}

/// The address of the page without its parameters, if it has any.
pub(crate) fn without_query() -> Option<String> {
    PAGE.try_with(|page| page.address.split_once('?').map(|(path, _)| path.to_owned())).ok().flatten()
}

/// The links that change the language of this page.
pub(crate) fn switch() -> Markup {
    let back = PAGE.try_with(|page| page.address.clone()).unwrap_or_else(|_| "/".to_owned());
    html! {
        nav class="languages" aria-label=(t!("Language")) {
            @for language in Language::ALL {
                a href=(format!("/language?to={}&back={}", language.tag(), encode(&back))) lang=(language.tag()) hreflang=(language.tag())
                    aria-current=[(language == Language::current()).then_some("true")] { (language.name()) }
            }
        }
    }
}

/// A text in every language: English, Japanese, Chinese.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text(&'static [&'static str; 3]);

impl Text {
    /// In the language of the page.
    pub(crate) fn get(self) -> &'static str {
        self.in_language(Language::current())
    }

    /// In English, as texts that are stored have it.
    pub(crate) fn english(self) -> &'static str {
        self.0[0]
    }

    fn in_language(self, language: Language) -> &'static str {
        match language {
            Language::English => self.0[0],
            Language::Japanese => self.0[1],
            Language::Chinese => self.0[2],
        }
    }

    /// The text with values in place of `{0}`, `{1}` and so on.
    pub(crate) fn with(self, values: &[&dyn fmt::Display]) -> String {
        let mut out = String::new();
        for piece in pieces(self.get()) {
            match piece {
                Piece::Words(words) => out.push_str(words),
                Piece::Value(number) => {
                    out.push_str(&values.get(number).map(ToString::to_string).unwrap_or_default());
                }
            }
        }
        out
    }

    /// The same with parts of a page.
    pub(crate) fn fill(self, values: &[Markup]) -> Markup {
        html! {
            @for piece in pieces(self.get()) {
                @match piece {
                    Piece::Words(words) => (words),
                    Piece::Value(number) => @if let Some(value) = values.get(number) { (value) },
                }
            }
        }
    }
}

impl Render for Text {
    fn render_to(&self, out: &mut String) {
        self.get().render_to(out);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// A piece of a text.
enum Piece<'a> {
    Words(&'a str),
    Value(usize),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    text.split('{').enumerate().flat_map(|(place, part)| {
        let value = part.split_once('}').filter(|_| place > 0);
        let number = value.and_then(|(number, _)| number.parse().ok()).map(Piece::Value);
        let words = value.map_or(part, |(_, words)| words);
        [number, Some(Piece::Words(words))].into_iter().flatten()
    })
}

/// The row of an English text.
///
/// # Panics
/// There is none, which fails the build, since only constants call this.
pub(crate) const fn text(english: &str) -> Text {
    let mut number = 0;
    while number < TABLE.len() {
        if is_equal(TABLE[number][0].as_bytes(), english.as_bytes()) {
            return Text(&TABLE[number]);
        }
        number += 1;
    }
    panic!("the text has no row in texts/table.rs")
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut place = 0;
    while place < a.len() {
        if a[place] != b[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// The text of the page's language; with values, a `String`.
macro_rules! t {
    ($english:literal) => {
        const { $crate::texts::text($english) }
    };
    ($english:literal, $($value:expr),+ $(,)?) => {
        const { $crate::texts::text($english) }.with(&[$(&$value),+])
    };
}
pub(crate) use t;

/// The texts of the script, which it looks up by their English: as JSON; empty in English.
pub(crate) fn of_script() -> String {
    let rows = SCRIPT.iter().map(|text| (text.0[0], text.get()));
    match Language::current() {
        Language::English => String::new(),
        _ => serde_json::to_string(&rows.collect::<std::collections::BTreeMap<_, _>>()).unwrap_or_default(),
    }
}

/// What the script shows.
const SCRIPT: &[Text] = &[
    text("Copy"),
    text("Copied"),
    text("Copy link"),
    text("Select profiles to view, compare or merge them."),
    text("{0} selected"),
    text("{0} to {1}: {2} bars of {3}"),
    text("{0} to {1}: 1 bar of {3}"),
    text("Clear"),
    text("Merge"),
    text("Compare with the day before"),
    text("List"),
];
