//! How long the public key in a certificate is.

use crate::der::element;

/// Bits of a certificate's public key (DER; RFC 5280 4.1): an RSA modulus, or the field of an elliptic curve.
#[must_use]
pub fn key_bits(certificate: &[u8]) -> Option<u32> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
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
