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

/// Certificates of clients in a directory: `clients.pem` is their authority, `revoked.pem` its list of those that it has
/// revoked; with their keys `client.pem` (good, of Ada in the company A, B), `left.pem` (revoked) and `stranger.pem` (of
/// another authority).
pub(crate) fn make_clients(directory: &Path) {
    let script = "set -e
        new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        openssl req -x509 $new -days 2 -subj /CN=clients -keyout clients.key -out clients.pem
        openssl req -x509 $new -days 2 -subj /CN=stranger -keyout stranger.key -out stranger.pem
        for name in client left; do
            openssl req $new -subj \"/C=DE/O=A, B/CN=Ada $name\" -keyout $name.key -out $name.csr
            printf 'basicConstraints=critical,CA:FALSE\nextendedKeyUsage=clientAuth\n' >client.ext
            openssl x509 -req -in $name.csr -extfile client.ext -CA clients.pem -CAkey clients.key -CAcreateserial \
                -days 2 -out $name.pem
        done
        printf '[ca]\ndefault_ca=d\n[d]\ndatabase=revoked.txt\ncrlnumber=revoked.number\ndefault_md=sha256\n' >ca.conf
        printf 'default_crl_days=30\ncrl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid:always\n' >>ca.conf
        : >revoked.txt
        echo 01 >revoked.number
        openssl ca -config ca.conf -keyfile clients.key -cert clients.pem -revoke left.pem
        openssl ca -config ca.conf -keyfile clients.key -cert clients.pem -gencrl -out revoked.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).output();
    let made = made.expect("a shell starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
