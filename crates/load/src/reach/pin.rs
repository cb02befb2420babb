//! The public keys that a server's certificate may have, by their hashes.

use crate::requests::base64;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use std::fmt;
use std::str::FromStr;

/// The SHA-256 of a public key (its SubjectPublicKeyInfo in DER, as curl's `--pinnedpubkey` and RFC 7469 have it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// A text that is no pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given}: not a pin; write sha256: and 64 hexadecimal digits or 44 characters of Base64, as from: \
     openssl x509 -in cert.pem -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256"
)]
pub struct PinError {
    /// What was given.
    pub given: String,
}

impl Pin {
    /// The pin of a key.
    pub(crate) fn of(public_key: &[u8]) -> Self {
        // The suite's own hash: the library carries SHA-256 already.
        let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("a suite of TLS 1.3");
        let hash = suite.common.hash_provider.hash(public_key);
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(given: &str) -> Result<Self, PinError> {
        let wrong = || PinError { given: given.to_owned() };
        // With two slashes as curl writes it.
        let rest = given.strip_prefix("sha256:").or_else(|| given.strip_prefix("sha256//")).ok_or_else(wrong)?;
        let bytes = if rest.len() == 64 { from_hex(rest) } else { base64::decode(rest) };
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", base64::encode(&self.0))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes().chunks(2).map(|pair| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_in_both_writings() {
        // SHA-256 of nothing.
        let hex = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let text = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(hex.parse::<Pin>(), Ok(Pin::of(b"")));
        assert_eq!(text.parse::<Pin>(), Ok(Pin::of(b"")));
        assert_eq!(text.replacen(':', "//", 1).parse::<Pin>(), Ok(Pin::of(b"")));
        assert_eq!(Pin::of(b"").to_string(), text);
        for wrong in ["", "sha256:", "sha1:00", "sha256:zz", &hex[..70], &format!("{hex}0"), &hex.replace('e', "é")] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }
}
