//! Form fields as a query or a body.

pub mod parts;

use crate::suite::Field;
use parts::disposition;
use std::fs;
use std::io;

/// A file to upload may be so large.
const UPLOAD_BYTES_MAX: u64 = 256 << 20;

/// Why fields cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct UploadError {
    /// The file to upload.
    pub file: String,
    /// Why it cannot be.
    pub source: io::Error,
}

/// `application/x-www-form-urlencoded`; files are not part of it.
#[must_use]
pub fn urlencoded(fields: &[(String, Field)]) -> String {
    let mut out = url::form_urlencoded::Serializer::new(String::new());
    for (name, field) in fields {
        if let Field::Text(value) = field {
            out.append_pair(name, value);
        }
    }
    out.finish()
}

/// The content type and the body of fields that are posted.
///
/// # Errors
/// A file that cannot be read.
pub fn body(fields: &[(String, Field)]) -> Result<(String, Vec<u8>), UploadError> {
    if !fields.iter().any(|(_, field)| matches!(field, Field::File { .. })) {
        return Ok(("application/x-www-form-urlencoded".to_owned(), urlencoded(fields).into_bytes()));
    }
    let mut parts = Vec::new();
    for (name, field) in fields {
        let (head, content) = match field {
            Field::Text(text) => (disposition(name, None), text.clone().into_bytes()),
            Field::File { path, name: told, headers } => {
                let refused = |source| UploadError { file: path.display().to_string(), source };
                let size = fs::metadata(path).map_err(refused)?.len();
                if size > UPLOAD_BYTES_MAX {
                    let much = format!("{size} bytes; {UPLOAD_BYTES_MAX} are the most that is sent");
                    return Err(refused(io::Error::other(much)));
                }
                let mut head = disposition(name, Some(told));
                if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                    head.push_str("Content-Type: application/octet-stream\r\n");
                }
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {}\r\n", value.replace(['\r', '\n'], " ")));
                }
                (head, fs::read(path).map_err(refused)?)
            }
        };
        parts.push((head, content));
    }
    let parts: Vec<(String, &[u8])> = parts.iter().map(|(head, content)| (head.clone(), content.as_slice())).collect();
    Ok(parts::joined(&parts, None))
}

/// Base64 as RFC 4648 has it, with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// What base64 stands for; `None` if it is none.
#[must_use]
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        word = (word << 6 | u32::from(value)) & 0x00ff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits & 0xff) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_make_it_multipart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, b"--weir-0000000000000000\r\nx").unwrap();
        let file = Field::File { path, name: "n\"a.txt".to_owned(), headers: vec![("X-A".to_owned(), "b".to_owned())] };
        let fields = [("t".to_owned(), Field::Text("v".to_owned())), ("f".to_owned(), file)];
        let (kind, body) = body(&fields).unwrap();
        assert_eq!(kind, "multipart/form-data; boundary=weir-0000000000000001");
        let expected = "--weir-0000000000000001\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\nv\r\n\
                        --weir-0000000000000001\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n%22a.txt\"\r\n\
                        Content-Type: application/octet-stream\r\nX-A: b\r\n\r\n--weir-0000000000000000\r\nx\r\n\
                        --weir-0000000000000001--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn base64_is_what_the_rfc_says() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(from_base64("Zm9*"), None);
    }

    proptest! {
        #[test]
        fn base64_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(from_base64(&base64(&bytes)), Some(bytes));
        }

        #[test]
        fn fields_come_back(pairs in proptest::collection::vec(("\\PC{0,8}", "\\PC{0,8}"), 0..4)) {
            let fields: Vec<_> = pairs.iter().map(|(name, value)| (name.clone(), Field::Text(value.clone()))).collect();
            let encoded = urlencoded(&fields);
            let read: Vec<_> = url::form_urlencoded::parse(encoded.as_bytes()).into_owned().collect();
            prop_assert_eq!(read, pairs);
        }
    }
}
