use super::*;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn made(more: &[&str]) -> CertificateDer<'static> {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "/dev/null"]);
    let output = command.args(more).output().expect("openssl is there (make deps)");
    CertificateDer::from_pem_slice(&output.stdout).expect("a certificate")
}

/// What is said of a certificate that is shown, where another is trusted, at so many days from now.
fn verdict(
    shown: &CertificateDer<'static>,
    trusted: &CertificateDer<'static>,
    name: &str,
    days: i64,
) -> Result<(), Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("an anchor");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let within = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let at = Duration::from_secs(now.saturating_add_signed(days * 86_400));
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let verifier = Anchored::new(within, vec![trusted.clone()]);
    verifier.verify_server_cert(shown, &[], &name, &[], UnixTime::since_unix_epoch(at)).map(drop)
}

fn kind(result: Result<(), Error>) -> String {
    format!("{:?}", result.expect_err("it is refused"))
}

#[test]
fn a_certificate_that_is_its_own_authority_is_believed_if_it_is_the_one_that_is_trusted() {
    let (own, other) = (made(&[]), made(&[]));
    assert_eq!(verdict(&own, &own, "localhost", 0), Ok(()));
    // RFC 9525: the name must match; RFC 5280 4.1.2.5: the time must be right.
    assert!(kind(verdict(&own, &own, "other.test", 0)).contains("NotValidForName"));
    assert!(kind(verdict(&own, &own, "localhost", 3)).contains("Expired"));
    assert!(kind(verdict(&own, &own, "localhost", -1)).contains("NotValidYet"));
    // Of the same name, but not the same.
    assert!(verdict(&other, &own, "localhost", 0).is_err());
    // One that is no authority was believed all along.
    let leaf = made(&["-addext", "basicConstraints=critical,CA:FALSE"]);
    assert_eq!(verdict(&leaf, &leaf, "localhost", 0), Ok(()));
}
