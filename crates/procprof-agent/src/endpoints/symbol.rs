//! `GET` and `POST` of a symbol page, as jeprof and pprof request it.
//!
//! ```text
//! GET                    num_symbols: 1
//! POST 0x4005d4+0x4005e0 0x4005d4<TAB>main::work--main::inlined
//! ```
//! Callers come before the functions inlined into them, separated by `--`. An address without a name has no line.

use super::query::bad;
use super::refused;
use crate::request::{Method, Request, Response};
use crate::symbols;

/// The longest list of addresses, bytes.
pub(crate) const MAX_BODY: usize = 8 << 20;

/// The most addresses in it: as many as fit when each is spelled with 16 digits, as jeprof does.
const MAX_ADDRESSES: usize = MAX_BODY / 19;

const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn answer(request: &Request<'_>) -> Result<Response, Response> {
    if request.method != Method::Post {
        let known = u8::from(symbols::AVAILABLE);
        return Ok(Response::ok(TEXT, format!("num_symbols: {known}\n").into_bytes()));
    }
    if request.body.len() > MAX_BODY {
        return Err(Response::text(413, format!("at most {MAX_BODY} bytes of addresses")));
    }
    let text = std::str::from_utf8(request.body).map_err(|_| bad("expected 0xA+0xB".into()))?;
    let spelled: Vec<&str> =
        text.trim().split(['+', '\n']).filter(|word| !word.is_empty()).take(MAX_ADDRESSES + 1).collect();
    if spelled.len() > MAX_ADDRESSES {
        return Err(Response::text(413, format!("at most {MAX_ADDRESSES} addresses")));
    }
    let addresses = spelled.iter().map(|word| address(word)).collect::<Result<Vec<u64>, Response>>()?;
    let names = symbols::names(&addresses).map_err(|error| refused(&error))?;
    let mut body = String::new();
    for (word, names) in spelled.iter().zip(names).filter(|(_, names)| !names.is_empty()) {
        body.extend([word, "\t", &names, "\n"]);
    }
    Ok(Response::ok(TEXT, body.into_bytes()))
}

fn address(word: &str) -> Result<u64, Response> {
    let digits = word.trim().strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16).map_err(|_| bad(format!("{word}: expected a hexadecimal address")))
}
