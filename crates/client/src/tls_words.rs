//! Why a TLS session failed, in the words of its user.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What went wrong, as the library says it.
#[must_use]
pub fn of_library(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::AlertReceived(alert) => format!("the server refused with the alert {alert:?}{}", of_alert(*alert)),
        Error::PeerIncompatible(
            PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => "the server chose a version of TLS that was not offered".to_owned(),
        Error::NoApplicationProtocol => "the server speaks none of the protocols that were offered".to_owned(),
        error => error.to_string(),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => "the server's certificate is of an authority that is not trusted".to_owned(),
        CertificateError::BadSignature => {
            "the server's certificate was not signed by the key of the trusted authority that it names".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let own = if presented.is_empty() { "none".to_owned() } else { presented.join(", ") };
            format!("the server's certificate is not for the name {} (its names: {own})", expected.to_str())
        }
        CertificateError::NotValidForName => {
            "the server's certificate is not for the name that was asked for".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the server's certificate is signed in a way that is not supported".to_owned()
        }
        // The library has no kind of its own for it.
        CertificateError::Other(error) if error.0.to_string() == "CaUsedAsEndEntity" => {
            "the server's certificate is its own authority (self-signed), and it is not among those that are trusted"
                .to_owned()
        }
        // Our own verifiers speak through this.
        CertificateError::Other(error) => error.0.to_string(),
        error => format!("the server's certificate cannot be believed: {error}"),
    }
}

fn of_alert(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => ": it wants a client certificate",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::UnknownCA => ": it does not believe the client certificate",
        AlertDescription::HandshakeFailure => ": no common cipher suite or key, or it wants a client certificate",
        AlertDescription::ProtocolVersion => ": it does not speak the version of TLS that was offered",
        AlertDescription::UnrecognisedName => ": it does not know the name (--sni)",
        AlertDescription::NoApplicationProtocol => ": it speaks none of the protocols that were offered",
        _ => "",
    }
}
