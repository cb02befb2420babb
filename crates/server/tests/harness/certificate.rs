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
    CertificateFiles::new(certificate, key)
}

/// A certificate of an authority beside it, with an answer of that in FILE.der: for a week it is good, or it was
/// revoked.
pub(crate) fn make_answered(directory: &Path, file: &str, is_good: bool) -> CertificateFiles {
    let status = if is_good { "V\\t351231235959Z\\t" } else { "R\\t351231235959Z\\t251231235959Z" };
    let script = format!(
        "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
            -keyout authority.key -out authority.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={file} \
            -keyout {file}.key -out {file}.csr
        printf 'subjectAltName=DNS:{file}.example\nbasicConstraints=critical,CA:FALSE\n' >{file}.ext
        openssl x509 -req -in {file}.csr -extfile {file}.ext -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -out {file}.pem
        number=$(openssl x509 -in {file}.pem -noout -serial | cut -d= -f2)
        printf '{status}\\t%s\\tunknown\\t/CN={file}\\n' $number >index.txt
        openssl ocsp -issuer authority.pem -cert {file}.pem -no_nonce -reqout {file}.req
        openssl ocsp -index index.txt -CA authority.pem -rsigner authority.pem -rkey authority.key -ndays 7 \
            -reqin {file}.req -respout {file}.der"
    );
    let made = Command::new("sh").args(["-c", &script]).current_dir(directory).output();
    let made = made.expect("a shell starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [certificate, key, ocsp] = ["pem", "key", "der"].map(|extension| directory.join(format!("{file}.{extension}")));
    let mut files = CertificateFiles::new(certificate, key);
    files.ocsp = Some(ocsp);
    files
}
