//! Parser of the answers of a JVM: a code, and text that is not meant for programs.

/// Longest part of an answer that an error has, in characters.
const SHOWN: usize = 300;

/// The code in the first line, and what follows.
pub(super) fn split(bytes: &[u8]) -> Option<(i32, String)> {
    let text = String::from_utf8_lossy(bytes);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    Some((first.trim().parse().ok()?, rest.to_owned()))
}

/// The return code of a loaded agent: `return code: 0` from JDK 9 on, `0` before. Other text means that it could not be
/// loaded.
pub(super) fn agent_code(text: &str) -> Option<i32> {
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim();
    line.strip_prefix("return code:").unwrap_or(line).trim().parse().ok()
}

/// The first lines, as one, without control characters.
pub(super) fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(4).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// The name of a command.
pub(super) fn first_word(line: &str) -> String {
    line.split([' ', '\0']).next().unwrap_or_default().chars().take(SHOWN).collect()
}

/// The full version and its first number, in the answer of `VM.version`: `JDK 17.0.15`, `JDK 8.0_402`.
pub(super) fn version(text: &str) -> Option<(String, u32)> {
    let version = text.lines().find_map(|line| line.trim().strip_prefix("JDK "))?.trim();
    let first: String = version.chars().take_while(char::is_ascii_digit).collect();
    Some((version.chars().filter(|c| !c.is_control()).take(40).collect(), first.parse().ok()?))
}

/// The number of a recording that was started: `Started recording 3. The result will be written to:`.
pub(super) fn started(text: &str) -> Option<u32> {
    let rest = &text[text.find("Started recording ")? + "Started recording ".len()..];
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// Number and name of each recording in the answer of `JFR.check`:
/// `Recording 3: name=x duration=37s maxsize=64.0MB (running)`.
pub(super) fn recordings(text: &str) -> Vec<(u32, &str)> {
    fn recording(line: &str) -> Option<(u32, &str)> {
        let (number, rest) = line.trim().strip_prefix("Recording ")?.split_once(':')?;
        let name = rest.split_whitespace().find_map(|word| word.strip_prefix("name="))?;
        Some((number.parse().ok()?, name))
    }
    text.lines().filter_map(recording).collect()
}

/// Whether a recording was stopped and written: `Stopped recording 3, 508.4 kB written to:`. The code is 0 in either
/// case.
pub(super) fn stopped(text: &str) -> bool {
    text.contains("Stopped recording") && !text.contains("Could not") && !text.contains("failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_real_jvms_are_understood() {
        let (code, text) =
            split(b"0\nOpenJDK 64-Bit Server VM version 17.0.15+6-Debian-1deb12u1\nJDK 17.0.15\n").unwrap();
        assert_eq!((code, version(&text).unwrap()), (0, ("17.0.15".to_owned(), 17)));
        assert_eq!(version("OpenJDK 64-Bit Server VM version 25.402-b06\nJDK 8.0_402\n").unwrap().1, 8);
        assert_eq!(split(b"-1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n").unwrap().0, -1);
        assert_eq!(split(b"no number\n"), None);
        assert_eq!(split(b""), None);
        assert_eq!(split(b"0").unwrap(), (0, String::new()));
        assert_eq!(started("Started recording 12. The result will be written to:\n\n/tmp/x.jfr\n"), Some(12));
        assert_eq!(started("Module jdk.jfr not found.\n"), None);
        let check = "Recording 3: name=procprof-7-1-ff duration=37s maxsize=64.0MB (running)\nRecording 4: name=4 (stopped)\nNo\n";
        assert_eq!(recordings(check), [(3, "procprof-7-1-ff"), (4, "4")]);
        assert!(stopped("Stopped recording 1, 508.4 kB written to:\n\n/tmp/a.jfr\n"));
        assert!(!stopped(
            "Could not stop recording \"procprof\". Dump failed. Could not copy recording data. No space left\n"
        ));
        assert_eq!(
            (agent_code("return code: 200\n"), agent_code("0\n"), agent_code("x.so was not loaded.\n")),
            (Some(200), Some(0), None)
        );
    }
}
