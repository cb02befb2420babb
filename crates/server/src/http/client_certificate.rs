//! What is told of the certificate that a client has shown: to programs as variables, to servers elsewhere as fields.

/// What a table wants of the certificates of clients; the later one wants more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CertificateNeed {
    /// Nothing.
    #[default]
    None,
    /// One may be shown, and what was found out about it is told.
    Ask,
    /// Nothing is answered without one that an authority of the host has issued.
    Require,
}

/// A part of what is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificatePart {
    /// `SUCCESS`, `FAILED:` with a reason, or `NONE`.
    Verify,
    /// Whose it is, as RFC 4514 writes names.
    Subject,
    /// Who has issued it, likewise.
    Issuer,
    /// Its number, in hexadecimal digits.
    Serial,
    /// SHA-256 of the whole, in hexadecimal digits.
    Fingerprint,
    /// All of it: PEM as a variable, `:BASE64:` as a field (RFC 9440).
    Certificate,
}

/// The parts, their words in a configuration, and their variables, which are those of nginx and of Apache's mod_ssl.
pub(crate) const PARTS: [(CertificatePart, &str, &str); 6] = [
    (CertificatePart::Verify, "verify", "SSL_CLIENT_VERIFY"),
    (CertificatePart::Subject, "subject", "SSL_CLIENT_S_DN"),
    (CertificatePart::Issuer, "issuer", "SSL_CLIENT_I_DN"),
    (CertificatePart::Serial, "serial", "SSL_CLIENT_M_SERIAL"),
    (CertificatePart::Fingerprint, "fingerprint", "SSL_CLIENT_FINGERPRINT"),
    (CertificatePart::Certificate, "certificate", "SSL_CLIENT_CERT"),
];

/// What is told of a client's certificate. Of one that no authority of the host stands for, only that it failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToldCertificate {
    /// In the order of [`PARTS`]; empty ones are not told. The last one is Base64.
    values: [String; 6],
}

impl ToldCertificate {
    /// One of which only this is told.
    pub(crate) fn verified(word: String) -> Self {
        let mut told = Self::default();
        told.set(CertificatePart::Verify, word);
        told
    }

    pub(crate) fn set(&mut self, part: CertificatePart, value: String) {
        self.values[part as usize] = value;
    }

    /// The value of a field; none if it is not told.
    pub(crate) fn field(&self, part: CertificatePart) -> Option<String> {
        let value = Some(&self.values[part as usize]).filter(|value| !value.is_empty())?;
        Some(if part == CertificatePart::Certificate { format!(":{value}:") } else { value.clone() })
    }

    /// Names and values of variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let told = PARTS.iter().zip(&self.values).filter(|(_, value)| !value.is_empty());
        told.map(|((part, _, name), value)| {
            (*name, if *part == CertificatePart::Certificate { pem(value) } else { value.clone() })
        })
    }
}

/// Fields by which servers elsewhere are told, by their names. What clients send by these names never passes.
pub(crate) type CertificateFields = [(String, CertificatePart)];

/// Whether a client's field has one of the names; programs take a hyphen and an underscore for the same.
fn is_kept_back(name: &[u8], fields: &CertificateFields) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    fields.iter().any(|(own, _)| own.bytes().map(|byte| plain(&byte)).eq(name.iter().map(plain)))
}

/// A head of HTTP/1 with these fields in place of those that the client has sent by their names.
pub(crate) fn head_with(head: &[u8], fields: &CertificateFields, told: &ToldCertificate) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + 256);
    let mut is_begun = false;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let is_empty = matches!(line, b"\r\n" | b"\n");
        if is_begun && is_empty {
            break;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        // Empty lines may stand before the first one, which is the request's.
        if !is_begun || !is_kept_back(name, fields) {
            out.extend_from_slice(line);
        }
        is_begun |= !is_empty;
    }
    for (name, part) in fields {
        let Some(value) = told.field(*part) else { continue };
        for piece in [name.as_str(), ": ", &value, "\r\n"] {
            out.extend_from_slice(piece.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The same of fields of HTTP/2 and HTTP/3.
pub(crate) fn fields_with(
    block: &crate::http::fields::Fields,
    fields: &CertificateFields,
    told: &ToldCertificate,
) -> crate::http::fields::Fields {
    let mut out = crate::http::fields::Fields::default();
    block.iter().filter(|(name, _)| !is_kept_back(name, fields)).for_each(|(name, value)| out.push(name, value));
    for (name, part) in fields {
        if let Some(value) = told.field(*part) {
            out.push(name.to_ascii_lowercase().as_bytes(), value.as_bytes());
        }
    }
    out
}

/// Base64 as PEM has it.
fn pem(base64: &str) -> String {
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in base64.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fields::Fields;

    fn told() -> ToldCertificate {
        let mut told = ToldCertificate::verified("SUCCESS".to_owned());
        told.set(CertificatePart::Certificate, "QUJD".to_owned());
        told
    }

    #[test]
    fn what_a_client_sends_by_the_names_does_not_pass() {
        let fields =
            [("X-Verify".to_owned(), CertificatePart::Verify), ("X-Serial".to_owned(), CertificatePart::Serial)];
        let head = b"\r\nGET /x-verify:a HTTP/1.1\r\nx-verify: SUCCESS\r\nA: b\r\nX_SERIAL: 1\nX-Verify2: c\r\n\r\n";
        let expected = "\r\nGET /x-verify:a HTTP/1.1\r\nA: b\r\nX-Verify2: c\r\nX-Verify: SUCCESS\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&head_with(head, &fields, &told())), expected);
        let mut block = Fields::default();
        for (name, value) in [(":path", "/"), ("x-serial", "1"), ("a", "b"), ("x_verify", "SUCCESS")] {
            block.push(name.as_bytes(), value.as_bytes());
        }
        let block = fields_with(&block, &fields, &ToldCertificate::verified("NONE".to_owned()));
        let lines: Vec<_> = block.iter().map(|(name, value)| [name, b"=", value].concat()).collect();
        assert_eq!(lines, [&b":path=/"[..], b"a=b", b"x-verify=NONE"]);
    }

    #[test]
    fn a_certificate_is_pem_for_programs_and_a_byte_sequence_for_servers() {
        let variables: Vec<_> = told().variables().collect();
        assert_eq!(variables[0], ("SSL_CLIENT_VERIFY", "SUCCESS".to_owned()));
        assert_eq!(variables[1].1, "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n");
        assert_eq!(told().field(CertificatePart::Certificate).as_deref(), Some(":QUJD:"));
        assert_eq!(told().field(CertificatePart::Issuer), None);
    }
}
