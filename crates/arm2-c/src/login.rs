//! The login user, for an application that names its user `"*"`.
//!
//! Read from the system's own files: the C library may ask a directory over the network and wait for it.

use std::fs::File;
use std::io::Read;

/// A larger file of users is not searched beyond this.
const MOST_BYTES: u64 = 1 << 20;
/// The kernel's number for a process that no login started.
const NO_LOGIN: u32 = u32::MAX;

/// The name, else `uid 1000`.
pub(crate) fn name() -> Vec<u8> {
    let by_login = read("/proc/self/loginuid").and_then(|text| text.trim().parse().ok()).filter(|uid| *uid != NO_LOGIN);
    let uid = by_login.or_else(|| uid_of(&read("/proc/self/status")?)).unwrap_or(NO_LOGIN);
    let found = read("/etc/passwd").and_then(|users| user_of(&users, uid));
    found.unwrap_or_else(|| format!("uid {uid}")).into_bytes()
}

fn read(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The real user of a process.
fn uid_of(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

fn user_of(users: &str, uid: u32) -> Option<String> {
    let mut entries = users.lines().map(|line| line.split(':'));
    entries.find_map(|mut entry| {
        let name = entry.next().filter(|name| !name.is_empty())?;
        (entry.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_user_is_found_by_the_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\n:x:1000::\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n";
        assert_eq!((user_of(users, 0), user_of(users, 1000)), (Some("root".into()), Some("ann".into())));
        assert_eq!(user_of(users, 7), None);
        assert_eq!(uid_of("Name:\tcat\nUid:\t1000\t0\t0\t0\n"), Some(1000));
        assert!(!name().is_empty());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_readers(text in ".{0,200}", uid: u32) {
            let _ = user_of(&text, uid);
            let _ = uid_of(&text);
        }
    }
}
