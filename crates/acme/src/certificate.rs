//! Keys, certificate requests, the certificate of TLS-ALPN-01, and the look at a chain that was issued.

use crate::error::AcmeError;
use crate::jws::digest_of;
use crate::x509::Validity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// Certificates of a chain.
const CHAIN_MAX: usize = 16;
/// Letters of a line in PEM (RFC 7468 section 2).
const PEM_LINE: usize = 64;

/// What answers TLS-ALPN-01 (RFC 8737 section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct ChallengeCertificate {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// Its key, in PKCS #8.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ChallengeCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChallengeCertificate").finish_non_exhaustive()
    }
}

/// A key that a certificate is asked for, and the request (RFC 2986).
pub(crate) struct Request {
    /// In PKCS #8.
    pub(crate) key: Vec<u8>,
    /// In DER.
    pub(crate) csr: Vec<u8>,
}

/// A chain that was issued or kept, with its key.
pub(crate) struct Issued {
    /// The first certificate, in DER.
    pub(crate) leaf: Vec<u8>,
    pub(crate) validity: Validity,
}

fn failed(what: &'static str) -> impl Fn(rcgen::Error) -> AcmeError {
    move |error| AcmeError::Crypto { what, why: error.to_string() }
}

impl Request {
    /// A new key on P-256, and the request for this name.
    pub(crate) fn new(name: &str) -> Result<Self, AcmeError> {
        let key = KeyPair::generate().map_err(failed("a key"))?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed("a certificate request"))?;
        params.distinguished_name = DistinguishedName::new();
        let csr = params.serialize_request(&key).map_err(failed("a certificate request"))?;
        Ok(Self { key: key.serialize_der(), csr: csr.der().to_vec() })
    }
}

impl ChallengeCertificate {
    /// For a name and the key authorization of its challenge.
    pub(crate) fn new(name: &str, key_authorization: &str) -> Result<Self, AcmeError> {
        let key = KeyPair::generate().map_err(failed("a key"))?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed("a certificate"))?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest_of(key_authorization))];
        let certificate = params.self_signed(&key).map_err(failed("a certificate"))?;
        Ok(Self { certificate: certificate.der().to_vec(), key: key.serialize_der() })
    }
}

/// A file with the chain, then the key, all in PEM: one file, so that both change at once.
pub(crate) fn file_of(chain: &str, key: &[u8]) -> String {
    let mut text = chain.trim_end().to_owned();
    text.push('\n');
    text.push_str(&pem("PRIVATE KEY", key));
    text
}

/// Bytes as PEM (RFC 7468).
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}

/// Reads such a file: the key must be that of the first certificate, and this for the name.
pub(crate) fn read(name: &str, text: &str) -> Result<Issued, String> {
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).take(CHAIN_MAX + 1).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("its chain is no PEM: {error}"))?;
    let first = chain.first().ok_or("it has no certificate")?.clone();
    if chain.len() > CHAIN_MAX {
        return Err(format!("its chain has more than {CHAIN_MAX} certificates"));
    }
    let validity = Validity::of(&first).ok_or("its validity cannot be read")?;
    let leaf = webpki::EndEntityCert::try_from(&first).map_err(|error| error.to_string())?;
    let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
    leaf.verify_is_valid_for_subject_name(&server).map_err(|_| format!("it is not for {name}"))?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| format!("its key is no PEM: {error}"))?;
    CertifiedKey::from_der(chain.clone(), key, &rustls::crypto::ring::default_provider())
        .map_err(|error| format!("it does not go with its key: {error}"))?;
    Ok(Issued { leaf: first.to_vec(), validity })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file as it is kept, by no authority.
    pub(crate) fn self_signed(name: &str, years: (i32, i32)) -> String {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let der = params.self_signed(&key).expect("signs");
        file_of(&pem("CERTIFICATE", der.der()), &key.serialize_der())
    }

    fn contains(all: &[u8], part: &[u8]) -> bool {
        all.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn a_request_names_its_host_and_nothing_else() {
        let request = Request::new("shop.example.org").expect("a request");
        assert!(contains(&request.csr, b"shop.example.org"));
        assert!(!contains(&request.csr, b"rcgen"), "no subject that the library would choose");
        // An empty subject: SEQUENCE { INTEGER 0, SEQUENCE {} ... }.
        assert!(contains(&request.csr, &[0x02, 0x01, 0x00, 0x30, 0x00]), "{:02x?}", request.csr);
    }

    #[test]
    fn openssl_accepts_the_request() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let request = Request::new("shop.example.org").expect("a request");
        let child = Command::new("openssl")
            .args(["req", "-inform", "DER", "-noout", "-verify", "-text"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return eprintln!("skipped: there is no openssl") };
        child.stdin.take().expect("a pipe").write_all(&request.csr).expect("writes");
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("verify OK"), "{text}");
        assert!(text.contains("DNS:shop.example.org"), "{text}");
    }

    #[test]
    fn the_certificate_of_a_challenge_holds_the_digest_in_a_critical_extension() {
        let made = ChallengeCertificate::new("a.example", "token.thumbprint").expect("a certificate");
        // 1.3.6.1.5.5.7.1.31, critical, OCTET STRING { OCTET STRING of 32 bytes } (RFC 8737 section 3).
        let extension =
            [0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f, 0x01, 0x01, 0xff, 0x04, 0x22, 0x04, 0x20];
        let expected = [&extension[..], &digest_of("token.thumbprint")].concat();
        assert!(contains(&made.certificate, &expected), "{:02x?}", made.certificate);
        assert!(!format!("{made:?}").contains("key"), "keys are never printed");
    }

    #[test]
    fn a_kept_file_is_read_and_others_are_told() {
        let text = self_signed("a.example", (2024, 2025));
        assert!(read("a.example", &text).is_ok_and(|issued| Validity::of(&issued.leaf) == Some(issued.validity)));
        let why = |name: &str, text: &str| read(name, text).err().expect("it is refused");
        assert!(why("b.example", &text).contains("not for b.example"));
        let other = self_signed("a.example", (2024, 2025));
        let at = text.find("-----BEGIN PRIVATE").expect("a key");
        let other_at = other.find("-----BEGIN PRIVATE").expect("a key");
        assert!(why("a.example", &format!("{}{}", &text[..at], &other[other_at..])).contains("go with its key"));
        assert!(why("a.example", &text[..at]).contains("key is no PEM"));
        assert!(why("a.example", "").contains("no certificate"));
    }
}
