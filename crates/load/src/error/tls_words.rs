//! Why a TLS session failed, in the words of its user.

use std::io;
use weir_client::tls_words::of_library;

/// What went wrong in a handshake or in the session after it.
pub(crate) fn words(error: &io::Error) -> String {
    match tls_error(error) {
        Some(error) => of_library(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake".to_owned()
        }
        None if error.kind() == io::ErrorKind::TimedOut => "the server did not answer the handshake".to_owned(),
        None => error.to_string(),
    }
}

/// Whether an error came from the TLS session rather than from the socket.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// What helps against it.
pub(crate) fn advice(words: &str) -> &'static str {
    if words.contains("its own authority") {
        "; trust it with --ca FILE (the certificate itself), or any with --insecure; with --pin too, only its key"
    } else if words.contains("its names: none") {
        "; make it with the name (openssl req -x509 -addext subjectAltName=DNS:NAME), or use --insecure with --pin"
    } else if words.contains("sha256:") {
        "; if the new key is right, give it with --pin"
    } else if words.contains("client certificate") {
        "; give one with --cert FILE --key FILE"
    } else if words.contains("is not for the name") {
        "; ask for the name that it has with --sni NAME, or believe any certificate with --insecure"
    } else if words.contains("the server's certificate") {
        "; trust its issuer with --ca FILE, or any certificate with --insecure"
    } else if words.contains("not speak TLS") || words.contains("speaks HTTP") {
        "; plain HTTP is http://"
    } else if ["corrupt message", "did not answer", "during the handshake"].iter().any(|part| words.contains(part)) {
        "; does the server speak TLS there? Plain HTTP is http://"
    } else {
        ""
    }
}
