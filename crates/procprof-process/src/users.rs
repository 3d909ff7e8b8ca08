//! Names of the users of this host, from `/etc/passwd`.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::mapped_file::open_regular;

/// Bytes of the file that are read.
const BYTES_MAX: u64 = 4 << 20;

/// The names as they were when the file was last written to.
static KNOWN: Mutex<Option<(SystemTime, HashMap<u32, String>)>> = Mutex::new(None);

/// The name of a user of this host; its number if `/etc/passwd` has none. Users of other services (LDAP) are not asked
/// for.
pub fn user_name(uid: u32) -> String {
    const FILE: &str = "/etc/passwd";
    let written = std::fs::metadata(FILE).and_then(|state| state.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_none_or(|(time, _)| *time != written) {
        *known = Some((written, names(&text(Path::new(FILE)))));
    }
    known.as_ref().and_then(|(_, names)| names.get(&uid).cloned()).unwrap_or_else(|| uid.to_string())
}

fn text(file: &Path) -> String {
    let mut bytes = Vec::new();
    // A file that can't be read names nobody.
    let _ = open_regular(file).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `NAME:PASSWORD:UID:…`, of which the first line of a number counts.
fn names(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(uid)) = (fields.next().filter(|name| !name.is_empty()), fields.nth(1)) else { continue };
        if let Ok(uid) = uid.parse() {
            names.entry(uid).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{names, user_name};

    #[test]
    fn users_have_their_first_names() {
        let names =
            names("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:/bin/sh\n\n#x\n:x:5:\nann:x:1000:1000::/:/bin/sh");
        assert_eq!((names.len(), &*names[&0], &*names[&1000]), (2, "root", "ann"));
        assert_eq!(user_name(4_294_967_294), "4294967294");
    }
}
