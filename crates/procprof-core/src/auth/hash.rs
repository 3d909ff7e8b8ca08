//! Password hashes: argon2id in the PHC text form.

use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};

/// The hash of a password, with a fresh salt.
///
/// # Errors
/// Only if the password is longer than argon2 takes (4 GiB); the error is a text.
pub(super) fn hash_password(password: &str) -> Result<String, String> {
    let salt = SaltString::generate(&mut OsRng);
    Argon2::default()
        .hash_password(password.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// Whether a password has this hash; an unreadable hash matches nothing. Takes as long for a wrong password as for the
/// right one.
pub(super) fn verify_password(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Whether a text is a hash this server can check.
pub(crate) fn readable(hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2"))
}
