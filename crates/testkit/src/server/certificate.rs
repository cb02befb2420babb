//! A certificate for the tests of TLS.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::process::run;

/// A self-signed certificate for localhost and 127.0.0.1, valid for two days; its files live as
/// long as the last copy.
#[derive(Debug, Clone)]
pub struct Certificate {
    dir: Arc<TempDir>,
}

impl Certificate {
    /// Makes one with the `openssl` program: an elliptic-curve key, so that handshakes are quick.
    pub fn self_signed() -> io::Result<Self> {
        Self::made(&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
    }

    /// The same with a key of RSA, which other suites of TLS 1.2 need.
    pub fn self_signed_by_rsa() -> io::Result<Self> {
        Self::made(&["-newkey", "rsa:2048"])
    }

    fn made(key: &[&str]) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("weir-certificate-").tempdir()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let made = Self { dir: Arc::new(dir) };
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-nodes"])
            .args(key)
            .args(["-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(made.key())
            .arg("-out")
            .arg(made.certificate());
        run(command, "")?;
        Ok(made)
    }

    /// The certificate's file (PEM); a client that is told to trust it accepts the server.
    pub fn certificate(&self) -> PathBuf {
        self.path().join("cert.pem")
    }

    /// The key's file (PEM).
    pub fn key(&self) -> PathBuf {
        self.path().join("key.pem")
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}
