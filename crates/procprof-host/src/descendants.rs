//! The processes that some processes have started, and those these have started.

/// All descendants that run now.
pub(crate) fn descendants(of: &[u32]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pairs: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    below(of, &pairs)
}

/// The parent of a process: the second field behind its name in `/proc/PID/stat`, which is in parentheses and may have
/// any characters.
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&text[end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The descendants by pairs of a process and its parent.
fn below(of: &[u32], pairs: &[(u32, u32)]) -> Vec<u32> {
    let mut found: Vec<u32> = of.to_vec();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        for (pid, _) in pairs.iter().filter(|(_, of)| *of == parent) {
            if !found.contains(pid) {
                found.push(*pid);
            }
        }
        next += 1;
    }
    found.split_off(of.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_all_generations_are_found_once() {
        let pairs = [(2, 1), (3, 2), (4, 2), (5, 9), (6, 4), (1, 1)];
        assert_eq!(below(&[1], &pairs), [2, 3, 4, 6]);
        assert_eq!(below(&[2, 4], &pairs), [3, 6]);
        assert_eq!(below(&[7], &pairs), []);
        assert_eq!(below(&[], &pairs), []);
    }

    #[test]
    fn the_parent_of_this_process_is_known() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
