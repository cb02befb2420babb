//! Certificates that `openssl` makes.

use std::path::Path;
use std::process::{Command, Stdio};
use weir_server::CertificateFiles;

/// A certificate of its own authority for these names, in the files NAME.pem and NAME.key.
pub(crate) fn make(directory: &Path, file: &str, names: &[&str]) -> CertificateFiles {
    let [certificate, key] = ["pem", "key"].map(|extension| directory.join(format!("{file}.{extension}")));
    let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", &format!("/CN={file}"), "-addext", &format!("subjectAltName={}", names.join(","))])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl starts; `make deps` installs it").success());
    CertificateFiles { certificate, key }
}
