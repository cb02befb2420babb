//! What the server does while a certificate is obtained.

use crate::certificate::ChallengeCertificate;
use std::io;
use std::path::Path;

/// What the server does for the manager.
pub trait Answers {
    /// Has the server answer `/.well-known/acme-challenge/TOKEN` at port 80 with the key authorization, for any host.
    ///
    /// # Errors
    ///
    /// It cannot: then no attempt is made.
    fn answer_http01(&mut self, token: &str, key_authorization: &str) -> io::Result<()>;

    /// Ends that.
    fn remove_http01(&mut self, token: &str);

    /// Has the server answer handshakes with the protocol `acme-tls/1` for a name with this certificate.
    ///
    /// # Errors
    ///
    /// It cannot: then no attempt is made.
    fn answer_tls_alpn01(&mut self, name: &str, certificate: &ChallengeCertificate) -> io::Result<()>;

    /// Ends that.
    fn remove_tls_alpn01(&mut self, name: &str);

    /// A certificate for these names lies in the file now, with its key.
    fn install(&mut self, names: &[&str], file: &Path);

    /// Something happened that the server's owner should know, in words.
    fn tell(&mut self, what: &str);
}
