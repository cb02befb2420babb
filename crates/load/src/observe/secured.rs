//! What two ends of an encrypted connection agreed on, as an observer may ask for it.

use crate::reach::tls::openssl_name;
use rustls::{ClientConnection, NamedGroup, ProtocolVersion};

/// An encrypted connection's session, after its handshake.
#[derive(Debug)]
pub struct Secured<'a> {
    session: &'a ClientConnection,
}

impl<'a> Secured<'a> {
    pub(crate) fn new(session: &'a ClientConnection) -> Self {
        Self { session }
    }

    /// The version, as OpenSSL writes it: `TLSv1.3`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self.session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "unknown",
        }
    }

    /// The cipher suite by OpenSSL's name: `ECDHE-RSA-AES128-GCM-SHA256`, `TLS_AES_256_GCM_SHA384`.
    #[must_use]
    pub fn cipher(&self) -> String {
        self.session.negotiated_cipher_suite().map(|suite| openssl_name(&suite)).unwrap_or_default()
    }

    /// Bits of the cipher's key.
    #[must_use]
    pub fn cipher_bits(&self) -> u32 {
        let cipher = self.cipher();
        if cipher.contains("AES128") || cipher.contains("AES_128") { 128 } else { 256 }
    }

    /// The group of the key exchange and the bits of its keys: `X25519`, 253.
    #[must_use]
    pub fn group(&self) -> Option<(&'static str, u32)> {
        match self.session.negotiated_key_exchange_group()?.name() {
            NamedGroup::X25519 => Some(("X25519", 253)),
            NamedGroup::secp256r1 => Some(("ECDH prime256v1", 256)),
            NamedGroup::secp384r1 => Some(("ECDH secp384r1", 384)),
            _ => None,
        }
    }

    /// Bits of the public key in the server's certificate, where it is of a kind that is known.
    #[must_use]
    pub fn key_bits(&self) -> Option<u32> {
        key_bits(self.session.peer_certificates()?.first()?)
    }
}

/// Bits of a certificate's public key (DER; RFC 5280 4.1): an RSA modulus, or the field of an elliptic curve.
pub(crate) fn key_bits(certificate: &[u8]) -> Option<u32> {
    const SEQUENCE: u8 = 0x30;
    const EC_CURVES: [(&[u8], u32); 3] = [
        (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 256),
        (&[0x2b, 0x81, 0x04, 0x00, 0x22], 384),
        (&[0x2b, 0x81, 0x04, 0x00, 0x23], 521),
    ];
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&0xa0) {
        fields = element(fields)?.2;
    }
    // Serial number, signature's algorithm, issuer, validity, subject.
    for _ in 0..5 {
        fields = element(fields)?.2;
    }
    let (tag, key, _) = element(fields)?;
    let (_, algorithm, bits) = element(key)?;
    let (_, kind, parameters) = element(algorithm)?;
    if tag != SEQUENCE {
        return None;
    }
    match kind {
        // rsaEncryption
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01] => {
            // The bit string begins with the number of bits that its last byte lacks, which is none.
            let (_, string, _) = element(bits)?;
            let (_, numbers, _) = element(string.get(1..)?)?;
            let (_, modulus, _) = element(numbers)?;
            let significant = &modulus[modulus.iter().position(|byte| *byte != 0)?..];
            Some(u32::try_from(significant.len()).ok()?.checked_mul(8)? - significant[0].leading_zeros())
        }
        // id-ecPublicKey
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01] => {
            let (_, curve, _) = element(parameters)?;
            EC_CURVES.iter().find(|(known, _)| *known == curve).map(|(_, bits)| *bits)
        }
        // id-Ed25519
        [0x2b, 0x65, 0x70] => Some(253),
        _ => None,
    }
}

/// The first element of DER: its tag, its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use std::process::Command;

    fn made(algorithm: &[&str]) -> Vec<u8> {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", "/dev/null"]);
        let output = command.args(algorithm).output().expect("openssl is there (make deps)");
        CertificateDer::from_pem_slice(&output.stdout).expect("a certificate").to_vec()
    }

    #[test]
    fn keys_have_the_bits_that_openssl_gives_them() {
        assert_eq!(key_bits(&made(&["-newkey", "rsa:2048"])), Some(2048));
        assert_eq!(key_bits(&made(&["-newkey", "rsa:3072"])), Some(3072));
        assert_eq!(key_bits(&made(&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])), Some(256));
        assert_eq!(key_bits(&made(&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"])), Some(384));
    }

    proptest! {
        #[test]
        fn damaged_certificates_are_read_to_a_number_or_none(
            at in 0usize..400, value: u8, cut in 0usize..1000, bytes: Vec<u8>,
        ) {
            let _ = key_bits(&bytes);
            static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let mut damaged = WHOLE.get_or_init(|| made(&["-newkey", "rsa:2048"])).clone();
            if let Some(byte) = damaged.get_mut(at) {
                *byte = value;
            }
            damaged.truncate(cut);
            let _ = key_bits(&damaged);
        }
    }
}
