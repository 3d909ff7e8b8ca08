//! The first packets: the server's greeting, the client's answer, and the capabilities of both.
//!
//! ```text
//! greeting   0a, version NUL, u32 connection, nonce[0..8], 00, u16 capabilities, u8 charset, u16 status, u16 capabilities >> 16,
//!            u8 21, 10 zeros, nonce[8..20] 00, method NUL
//! answer     u32 capabilities, u32 packet limit, u8 charset, 23 zeros, user NUL, answer, [database NUL], [method NUL], [attributes]
//! ```
//! An answer of 32 bytes with the `SSL` capability requests TLS; the whole answer follows inside.

use super::column::UTF8;
use super::error::{SqlError, SqlErrorKind};
use super::packet::{PacketReader, put_nul_string};
use super::scramble::NONCE;

/// The server's version as sent to clients: one that lets them use the protocol of MySQL 8.0.
pub(super) const VERSION: &str = concat!("8.0.33-procprof-", env!("CARGO_PKG_VERSION"));

/// Capability bits.
pub(super) mod can {
    pub(in crate::mysql) const LONG_PASSWORD: u32 = 1;
    pub(in crate::mysql) const FOUND_ROWS: u32 = 1 << 1;
    pub(in crate::mysql) const LONG_FLAG: u32 = 1 << 2;
    pub(in crate::mysql) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(in crate::mysql) const COMPRESS: u32 = 1 << 5;
    pub(in crate::mysql) const PROTOCOL_41: u32 = 1 << 9;
    pub(in crate::mysql) const INTERACTIVE: u32 = 1 << 10;
    pub(in crate::mysql) const TLS: u32 = 1 << 11;
    pub(in crate::mysql) const TRANSACTIONS: u32 = 1 << 13;
    pub(in crate::mysql) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in crate::mysql) const MULTI_RESULTS: u32 = 1 << 17;
    pub(in crate::mysql) const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub(in crate::mysql) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(in crate::mysql) const CONNECT_ATTRIBUTES: u32 = 1 << 20;
    pub(in crate::mysql) const ENCODED_ANSWER: u32 = 1 << 21;
    pub(in crate::mysql) const DEPRECATE_EOF: u32 = 1 << 24;
}

/// Rows found and interactive clients make no difference here; some clients insist on them.
const OFFERED: u32 = can::LONG_PASSWORD
    | can::FOUND_ROWS
    | can::LONG_FLAG
    | can::CONNECT_WITH_DB
    | can::COMPRESS
    | can::PROTOCOL_41
    | can::INTERACTIVE
    | can::TRANSACTIONS
    | can::SECURE_CONNECTION
    | can::MULTI_RESULTS
    | can::PS_MULTI_RESULTS
    | can::PLUGIN_AUTH
    | can::CONNECT_ATTRIBUTES
    | can::ENCODED_ANSWER
    | can::DEPRECATE_EOF;

/// Bits of a connection's status.
pub(super) mod status {
    pub(in crate::mysql) const IN_TRANSACTION: u16 = 1;
    pub(in crate::mysql) const AUTOCOMMIT: u16 = 2;
}

/// An authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Native,
    CachingSha2,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Native => "mysql_native_password",
            Method::CachingSha2 => "caching_sha2_password",
        }
    }

    pub(super) fn named(name: &[u8]) -> Option<Method> {
        [Method::Native, Method::CachingSha2].into_iter().find(|method| method.name().as_bytes() == name)
    }
}

/// Appends the greeting.
pub(super) fn put_greeting(out: &mut Vec<u8>, connection: u32, nonce: &[u8; NONCE], method: Method, tls: bool) {
    let capabilities = OFFERED | if tls { can::TLS } else { 0 };
    out.push(10);
    put_nul_string(out, VERSION.as_bytes());
    out.extend_from_slice(&connection.to_le_bytes());
    put_nul_string(out, &nonce[..8]);
    out.extend_from_slice(&(capabilities as u16).to_le_bytes());
    out.push(UTF8 as u8);
    out.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
    out.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
    out.push(NONCE as u8 + 1);
    out.extend_from_slice(&[0; 10]);
    put_nul_string(out, &nonce[8..]);
    put_nul_string(out, method.name().as_bytes());
}

/// The client's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) capabilities: u32,
    pub(super) user: String,
    /// Answer to the nonce by `method`.
    pub(super) answer: Vec<u8>,
    pub(super) database: Option<String>,
    /// The client's method; `None` for an unknown one.
    pub(super) method: Option<Method>,
}

/// The first packet from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Go on with TLS.
    Tls,
    /// The answer itself.
    Hello(Hello),
}

impl First {
    pub(super) fn decode(payload: &[u8]) -> Result<First, SqlError> {
        let mut reader = PacketReader::new(payload, "the answer to the greeting");
        let capabilities = reader.u32()?;
        if capabilities & can::PROTOCOL_41 == 0 {
            return Err(SqlError::new(SqlErrorKind::Malformed, "only protocol 4.1 is spoken here"));
        }
        // The packet limit, charset and zeros: all text is UTF-8 here, and no client has a limit below our packets.
        reader.bytes(4 + 1 + 23)?;
        if capabilities & can::TLS != 0 && reader.is_empty() {
            return Ok(First::Tls);
        }
        let user = text(reader.until_nul()?, "user name")?;
        let answer = match capabilities {
            bits if bits & can::ENCODED_ANSWER != 0 => reader.string()?,
            bits if bits & can::SECURE_CONNECTION != 0 => {
                let length = reader.u8()?;
                reader.bytes(usize::from(length))?
            }
            _ => reader.until_nul()?,
        };
        let database = match capabilities & can::CONNECT_WITH_DB != 0 && !reader.is_empty() {
            true => Some(text(reader.until_nul()?, "database name")?).filter(|name| !name.is_empty()),
            false => None,
        };
        let method = match capabilities & can::PLUGIN_AUTH != 0 && !reader.is_empty() {
            true => Method::named(reader.until_nul()?),
            false => Some(Method::Native),
        };
        Ok(First::Hello(Hello {
            capabilities: capabilities & (OFFERED | can::TLS),
            user,
            answer: answer.to_vec(),
            database,
            method,
        }))
    }
}

/// Text of a packet.
pub(super) fn text(bytes: &[u8], what: &str) -> Result<String, SqlError> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| SqlError::new(SqlErrorKind::Malformed, format!("the {what} is not UTF-8")))
}
