//! Verifiers of passwords, kept for the authentication methods of SQL clients.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// The verifier of a password for `mysql_native_password`: SHA1(SHA1(password)).
pub fn native_verifier(password: &str) -> [u8; 20] {
    let mut verifier = [0; 20];
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
    verifier.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref()).as_ref());
    verifier
}

/// The verifier of a password for the short way of `caching_sha2_password`: SHA256(SHA256(password)).
pub fn sha2_verifier(password: &str) -> [u8; 32] {
    let mut verifier = [0; 32];
    verifier.copy_from_slice(digest(&SHA256, digest(&SHA256, password.as_bytes()).as_ref()).as_ref());
    verifier
}
