//! The arithmetic of both authentication methods, and the key for passwords over plain connections.
//!
//! ```text
//! mysql_native_password   answer = SHA1(p) xor SHA1(nonce SHA1(SHA1(p)))              kept: SHA1(SHA1(p))
//! caching_sha2_password   answer = SHA256(p) xor SHA256(SHA256(SHA256(p)) nonce)      kept: SHA256(SHA256(p))
//! full authentication     p NUL over TLS; else RSA-OAEP(SHA-1) of (p NUL) xor nonce
//! ```

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Length of the nonce in the greeting, in bytes.
pub(super) const NONCE: usize = 20;

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut out = [0; 20];
    out.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, &parts.concat()).as_ref());
    out
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, &parts.concat()).as_ref());
    out
}

fn xor<const N: usize>(mut left: [u8; N], right: &[u8; N]) -> [u8; N] {
    for (left, right) in left.iter_mut().zip(right) {
        *left ^= right;
    }
    left
}

/// Whether an answer of `mysql_native_password` fits.
pub(super) fn native_fits(answer: &[u8], nonce: &[u8; NONCE], verifier: &[u8; 20]) -> bool {
    let Ok(answer) = <[u8; 20]>::try_from(answer) else { return false };
    let once = xor(answer, &sha1(&[nonce, verifier]));
    aws_lc_rs::constant_time::verify_slices_are_equal(&sha1(&[&once]), verifier).is_ok()
}

/// Whether an answer of `caching_sha2_password` fits.
pub(super) fn sha2_fits(answer: &[u8], nonce: &[u8; NONCE], verifier: &[u8; 32]) -> bool {
    let Ok(answer) = <[u8; 32]>::try_from(answer) else { return false };
    let once = xor(answer, &sha256(&[verifier, nonce]));
    aws_lc_rs::constant_time::verify_slices_are_equal(&sha256(&[&once]), verifier).is_ok()
}

/// The key with which clients encrypt a password on a plain connection; each process makes its own on first use.
pub(crate) struct RsaKey {
    key: OaepPrivateDecryptingKey,
    pem: Vec<u8>,
}

impl RsaKey {
    /// A new key of 2048 bits; takes some 100 ms.
    ///
    /// # Errors
    /// Only if no random numbers can be had.
    pub(crate) fn generate() -> Result<RsaKey, String> {
        let failed = |_| "no RSA key can be made".to_owned();
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(failed)?;
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(failed)?;
        let text = STANDARD.encode(der.as_ref());
        let mut pem = b"-----BEGIN PUBLIC KEY-----\n".to_vec();
        for line in text.as_bytes().chunks(64) {
            pem.extend_from_slice(line);
            pem.push(b'\n');
        }
        pem.extend_from_slice(b"-----END PUBLIC KEY-----\n");
        Ok(RsaKey { key: OaepPrivateDecryptingKey::new(key).map_err(failed)?, pem })
    }

    /// The public half, as PEM.
    pub(super) fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// The password a client hid; `None` if it cannot be read.
    pub(super) fn open(&self, hidden: &[u8], nonce: &[u8; NONCE]) -> Option<String> {
        let mut room = vec![0; self.key.min_output_size()];
        let text = self.key.decrypt(&OAEP_SHA1_MGF1SHA1, hidden, &mut room, None).ok()?;
        let text: Vec<u8> = text.iter().zip(nonce.iter().cycle()).map(|(byte, nonce)| byte ^ nonce).collect();
        String::from_utf8(text.strip_suffix(&[0])?.to_vec()).ok()
    }
}
