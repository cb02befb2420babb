//! A certificate for servers that speak TLS: made for one experiment, for 127.0.0.1, and self-signed.
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What makes it.
pub(crate) const OPENSSL: &str = "/usr/bin/openssl";

/// A certificate and its key, both as PEM.
#[derive(Debug, Default)]
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificate {
    /// Makes one by way of files in a folder, which are gone again.
    ///
    /// An elliptic-curve key (P-256), as today's certificates have: handshakes with RSA would cost the server ten times as
    /// much.
    pub(crate) fn make(folder: &Path) -> io::Result<Self> {
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
        let mut command = Command::new(OPENSSL);
        command
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "30", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .stdin(Stdio::null());
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(format!("openssl ended with {}: {said}", output.status)));
        }
        let made = Self { certificate: fs::read_to_string(&certificate)?, key: fs::read_to_string(&key)? };
        for file in [certificate, key] {
            fs::remove_file(file)?;
        }
        Ok(made)
    }
}
