//! One line on standard error: a library has no other way to speak to who started the program.

/// Writes `procprof: …` in one piece.
pub(crate) fn tell(line: &str) {
    let line = format!("procprof: {line}\n");
    // SAFETY: reads that many bytes of `line`. Where standard error is closed there is nobody to tell.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
