//! What an authority of certificates sends, and the certificates that it issues.

/// Messages of JSON, problems and windows of renewal among them, and certificates in DER.
pub fn acme_message(input: &[u8]) {
    weir_acme::read_any_message(input);
    if let Some(validity) = weir_acme::Validity::of(input) {
        assert!(validity.not_before_unix_s < validity.not_after_unix_s);
        // Bytes behind a certificate do not change the result.
        assert_eq!(weir_acme::Validity::of(&[input, b"x"].concat()), Some(validity));
    }
}
