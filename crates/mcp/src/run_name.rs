//! Addresses of run directories as resources.

const PREFIX: &str = "weir://run/";

/// The address of a run, by its path below the folder of runs.
#[must_use]
pub fn run_uri(name: &str) -> String {
    // Such as a blank or a percent sign, which no address has as it is (RFC 3986 2.1).
    let mut address = PREFIX.to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
    address
}

/// The path of the run that an address names; `None` if it names none.
#[must_use]
pub fn run_name(uri: &str) -> Option<String> {
    let mut rest = uri.strip_prefix(PREFIX)?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        name.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_comes_back(name in "\\PC{1,40}") {
            prop_assert_eq!(run_name(&run_uri(&name)), Some(name));
        }

        #[test]
        fn any_address_is_read_or_refused(uri in "(weir://run/)?[a-zA-Z0-9%/._-]{0,30}") {
            if let Some(name) = run_name(&uri) {
                prop_assert_eq!(run_name(&run_uri(&name)), Some(name));
            }
        }
    }
}
