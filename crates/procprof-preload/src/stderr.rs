//! One line on standard error, a library's only way to report to its user.

/// Writes `procprof: …` in one piece.
pub(crate) fn print(line: &str) {
    let line = format!("procprof: {line}\n");
    // SAFETY: reads that many bytes of `line`. Where standard error is closed the line is lost.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
