//! Writes PEM (RFC 7468), which etcd and openssl read as well.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const LINE_CHARACTERS: usize = 64;

/// The text of one object with its label, such as `CERTIFICATE`; it is zeroed when it is dropped.
pub(crate) fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(STANDARD.encode(der));
    // The whole length is reserved, so that no copy is left behind by growing.
    let bytes = encoded.len() + encoded.len() / LINE_CHARACTERS + 2 * label.len() + 40;
    let mut text = Zeroizing::new(String::with_capacity(bytes));
    for part in ["-----BEGIN ", label, "-----\n"] {
        text.push_str(part);
    }
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE_CHARACTERS));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    for part in ["-----END ", label, "-----\n"] {
        text.push_str(part);
    }
    text
}
