//! The parts of a form, `multipart/form-data` (RFC 7578).

/// A field of the form, or a file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The field's name.
    pub name: String,
    /// The file's name, if it is one.
    pub file: Option<String>,
    /// Its content type.
    pub kind: Option<String>,
    /// What it holds.
    pub content: Vec<u8>,
}

/// The content type and the body; `boundary` is used unless a part holds it.
#[must_use]
pub fn multipart(parts: &[Part], boundary: Option<&str>) -> (String, Vec<u8>) {
    let parts: Vec<(String, &[u8])> = parts
        .iter()
        .map(|part| {
            let mut head = disposition(&part.name, part.file.as_deref());
            if let Some(kind) = &part.kind {
                head.push_str(&format!("Content-Type: {}\r\n", kind.replace(['\r', '\n'], " ")));
            }
            (head, part.content.as_slice())
        })
        .collect();
    joined(&parts, boundary)
}

/// The content type and the body of parts with heads that are written.
pub(super) fn joined(parts: &[(String, &[u8])], boundary: Option<&str>) -> (String, Vec<u8>) {
    let boundary = boundary
        .filter(|boundary| is_boundary(boundary) && !is_held(parts, boundary))
        .map_or_else(|| free_boundary(parts), str::to_owned);
    let mut out = Vec::new();
    for (head, content) in parts {
        out.extend_from_slice(format!("--{boundary}\r\n{head}\r\n").as_bytes());
        out.extend_from_slice(content);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    // RFC 2045 5.1: a value with other letters than those of a token stands in quotes.
    let quote =
        if boundary.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"'+_-.".contains(&byte)) { "" } else { "\"" };
    (format!("multipart/form-data; boundary={quote}{boundary}{quote}"), out)
}

/// The head of a part.
pub(super) fn disposition(name: &str, file: Option<&str>) -> String {
    // As HTML has it: the three that would end the quotes or the line are percent-encoded.
    let quoted = |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let file = file.map_or(String::new(), |file| format!("; filename=\"{}\"", quoted(file)));
    format!("Content-Disposition: form-data; name=\"{}\"{file}\r\n", quoted(name))
}

/// RFC 2046 5.1.1: 1 to 70 letters of these, the last no space.
fn is_boundary(text: &str) -> bool {
    (1..=70).contains(&text.len())
        && !text.ends_with(' ')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte))
}

fn is_held(parts: &[(String, &[u8])], boundary: &str) -> bool {
    let held = |content: &[u8]| content.windows(boundary.len()).any(|window| window == boundary.as_bytes());
    parts.iter().any(|(_, content)| held(content))
}

/// A boundary that none of the parts holds; the same for the same parts.
fn free_boundary(parts: &[(String, &[u8])]) -> String {
    let mut number = 0_u64;
    loop {
        let boundary = format!("weir-{number:016x}");
        if !is_held(parts, &boundary) {
            return boundary;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_with_the_boundary_that_was_announced() {
        let field = Part { name: "orgId".into(), file: None, kind: None, content: b"50b8".to_vec() };
        let file = Part {
            name: "f".into(),
            file: Some("a.txt".into()),
            kind: Some("text/plain".into()),
            content: b"data".to_vec(),
        };
        let (kind, body) = multipart(&[field.clone(), file], Some("XYZ"));
        assert_eq!(kind, "multipart/form-data; boundary=XYZ");
        // RFC 7578 4.1 to 4.4.
        let expected = "--XYZ\r\nContent-Disposition: form-data; name=\"orgId\"\r\n\r\n50b8\r\n\
                        --XYZ\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\
                        Content-Type: text/plain\r\n\r\ndata\r\n--XYZ--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        // One that a part holds would end it.
        assert!(multipart(std::slice::from_ref(&field), Some("50b8")).0.contains("boundary=weir-"));
        assert_eq!(multipart(&[field], Some("a b")).0, "multipart/form-data; boundary=\"a b\"");
    }
}
