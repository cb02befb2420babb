//! Files of users with their hashes.

/// Why weir cannot use a file of users; none if it can.
pub(crate) fn problem(text: &str) -> Option<String> {
    let mut count = 0;
    let mut names: Vec<&str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let Some((name, hash)) = line.split_once(':') else {
            return Some(format!("its line {} is no NAME:HASH", number + 1));
        };
        if names.contains(&name) {
            return Some(format!("its line {} names a user twice", number + 1));
        }
        names.push(name);
        let is_known = ["$2a$", "$2b$", "$2x$", "$2y$", "$argon2"].iter().any(|begin| hash.starts_with(begin));
        if !is_known || name.is_empty() || hash.contains(':') {
            return Some(format!("the hash in its line {} is neither of bcrypt nor of argon2", number + 1));
        }
    }
    (count == 0).then(|| "it has no user".to_owned())
}

/// What to do about it.
pub(crate) const REMEDY: &str =
    "make a file with `htpasswd -nB NAME`, then replace the refusal by auth = { realm = \"...\", users = \"FILE\" }";

/// A realm as weir sends it.
pub(crate) fn realm(text: &str) -> String {
    text.chars().filter(|letter| matches!(letter, ' '..='~') && *letter != '"' && *letter != '\\').collect()
}
