//! Names and passwords within addresses.

/// An address without `user:password@`, and these.
pub(super) fn without_user(address: &str) -> (std::borrow::Cow<'_, str>, Option<(String, String)>) {
    let Some(begin) = address.find("://").map(|at| at + 3) else { return (address.into(), None) };
    let end = address[begin..].find(['/', '?', '#']).map_or(address.len(), |at| begin + at);
    let Some(at) = address[begin..end].rfind('@').map(|at| begin + at) else { return (address.into(), None) };
    let (user, password) = address[begin..at].split_once(':').unwrap_or((&address[begin..at], ""));
    let plain = format!("{}{}", &address[..begin], &address[at + 1..]);
    (plain.into(), Some((decoded(user), decoded(password))))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_cut_out_of_addresses() {
        let (address, user) = without_user("http://a%40b:c%3Ad@h:8080/p@q?x");
        assert_eq!((&*address, user), ("http://h:8080/p@q?x", Some(("a@b".to_owned(), "c:d".to_owned()))));
        assert_eq!(without_user("http://h/a@b"), ("http://h/a@b".into(), None));
    }
}
