//! Certificates that are renewed, and those that are revoked, by the node with the authority.
//!
//! A renewal is for the key that the member has had signed when it joined, and for the member that asks over its link:
//! nothing that is asked for can be another's. So one file is replaced, and no process can see a key and a certificate
//! that do not belong together.

use super::authority::Authority;
use super::certificate::{self, RevocationList};
use super::etcd;
use super::files::{self, IdentityError};
use super::key::{PUBLIC_KEY_BYTES, PublicKey};
use super::pem::pem;
use crate::name::{Member, NodeName};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of the object's description in front of a public key on P-256 (RFC 5480, section 2.1.1).
const KEY_HEAD_BYTES: usize = 26;
/// Certificates of one key that the list may name; older ones have ended long before.
const KEPT_MAX: usize = 32;
/// Until when a list says that it is the newest. Nothing that reads it looks at that.
const LIST_VALID: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What a renewal brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// The member's certificate.
    pub certificate: CertificateDer<'static>,
    /// Those of its etcd, by their addresses.
    pub etcd: Vec<(IpAddr, CertificateDer<'static>)>,
}

impl Authority {
    /// Signs the keys of a member and of its etcd again, at the node with the authority.
    ///
    /// # Errors
    /// [`IdentityError`], if it has no certificate, or a file cannot be read or written.
    pub(crate) fn renew(&self, directory: &Path, member: &Member, now: SystemTime) -> Result<Renewed, IdentityError> {
        let _alone = alone(directory)?;
        let path = directory.join(files::ISSUED).join(member.name.as_str());
        if !path.exists() {
            return Err(IdentityError::NotIssued(member.name.clone()));
        }
        let mut entry = Entry::read(path)?;
        if entry.of != member.role.word() {
            return Err(IdentityError::NotIssued(member.name.clone()));
        }
        let certificate = self.issue(member, &entry.key()?, now)?;
        entry.add(certificate.clone(), now)?;
        let mut renewed = Renewed { certificate, etcd: Vec::new() };
        for (address, mut entry) in of_etcd(directory)? {
            if entry.of == member.name.as_str() {
                let certificate = self.issue_etcd(address, &entry.key()?, now)?;
                entry.add(certificate.clone(), now)?;
                renewed.etcd.push((address, certificate));
            }
        }
        Ok(renewed)
    }

    /// The certificates of these members and of their etcd, as a list that the authority has signed.
    ///
    /// # Errors
    /// [`IdentityError`], if a file cannot be read.
    pub fn revoke(
        &self,
        directory: &Path,
        removed: &BTreeSet<NodeName>,
        now: SystemTime,
    ) -> Result<RevocationList, IdentityError> {
        let _alone = alone(directory)?;
        let mut serials = BTreeSet::new();
        for name in removed {
            let path = directory.join(files::ISSUED).join(name.as_str());
            if path.exists() {
                serials.extend(Entry::read(path)?.serials());
            }
        }
        for (_, entry) in of_etcd(directory)? {
            if removed.iter().any(|name| name.as_str() == entry.of) {
                serials.extend(entry.serials());
            }
        }
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let this_update = rcgen::date_time_ymd(1970, 1, 1) + since_1970;
        let revoked = |serial: Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update,
            next_update: this_update + LIST_VALID,
            crl_number: SerialNumber::from(since_1970.as_secs()),
            issuing_distribution_point: None,
            revoked_certs: serials.into_iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let der = params.signed_by(&self.issuer())?.der().to_vec();
        Ok(RevocationList { number: since_1970.as_secs(), der })
    }
}

/// Keeps what a renewal has brought in the member's directory; says whether its etcd has a new certificate too.
///
/// # Errors
/// [`IdentityError`], if the certificate is another member's, or a file cannot be written.
pub(crate) fn keep_renewed(directory: &Path, renewed: &Renewed) -> Result<bool, IdentityError> {
    let path = directory.join("member.crt");
    let known = files::certificate_of(directory)?;
    let point = |certificate| point_of(certificate);
    let is_own = files::member_of(&known) == files::member_of(&renewed.certificate)
        && point(&known).is_some()
        && point(&known) == point(&renewed.certificate);
    if !is_own {
        return Err(IdentityError::Content { path, wanted: "certificate of this member's key" });
    }
    files::keep_certificate(directory, &renewed.certificate)?;
    let path = directory.join(etcd::CERTIFICATE);
    if !path.exists() {
        return Ok(false);
    }
    let known = files::load_certificate(&path)?;
    let own = renewed.etcd.iter().find(|(_, certificate)| point(certificate) == point(&known));
    let Some((_, certificate)) = own else { return Ok(false) };
    files::write_file(&path, pem("CERTIFICATE", certificate).as_bytes())?;
    Ok(true)
}

/// What was issued: to whom, or as what, and the certificates, of which the newest is the last.
struct Entry {
    path: PathBuf,
    of: String,
    certificates: Vec<CertificateDer<'static>>,
}

impl Entry {
    fn read(path: PathBuf) -> Result<Self, IdentityError> {
        let wanted = "member with its certificates";
        let content = || IdentityError::Content { path: path.clone(), wanted };
        let text = fs::read_to_string(&path).map_err(|source| IdentityError::File { path: path.clone(), source })?;
        let of = text.lines().next().ok_or_else(content)?.to_owned();
        let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.ok().filter(|found| !found.is_empty()).ok_or_else(content)?;
        Ok(Self { path, of, certificates })
    }

    /// The key of the newest certificate.
    fn key(&self) -> Result<PublicKey, IdentityError> {
        let point = self.certificates.last().and_then(point_of);
        let wanted = "certificate of a key on P-256";
        let point = point.ok_or_else(|| IdentityError::Content { path: self.path.clone(), wanted })?;
        Ok(PublicKey::signed_for(&point))
    }

    /// Adds one, and drops those that have ended: a list of revoked ones needs them no more.
    fn add(&mut self, certificate: CertificateDer<'static>, now: SystemTime) -> Result<(), IdentityError> {
        self.certificates.retain(|known| certificate::read(known).is_none_or(|it| !it.validity.left(now).is_zero()));
        self.certificates.push(certificate);
        let first = self.certificates.len().saturating_sub(KEPT_MAX);
        let pems = self.certificates[first..].iter().map(|it| pem("CERTIFICATE", it).to_string());
        let text = format!("{}\n{}", self.of, pems.collect::<String>());
        files::write_file(&self.path, text.as_bytes())
    }

    fn serials(&self) -> impl Iterator<Item = Vec<u8>> {
        self.certificates.iter().filter_map(|it| Some(certificate::read(it)?.serial))
    }
}

/// What was issued for members of etcd, by their addresses.
fn of_etcd(directory: &Path) -> Result<Vec<(IpAddr, Entry)>, IdentityError> {
    let folder = directory.join(etcd::ISSUED);
    let failed = |source| IdentityError::File { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let address = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(address) = address {
            found.push((address, Entry::read(entry.path())?));
        }
    }
    Ok(found)
}

/// The public key of a certificate; none if it is not on P-256.
fn point_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let point = info.get(KEY_HEAD_BYTES..).filter(|point| point.len() == PUBLIC_KEY_BYTES)?;
    Some(point.to_vec())
}

/// Of several processes that renew and revoke one does at a time, or a certificate would be missing from the lists.
fn alone(directory: &Path) -> Result<File, IdentityError> {
    let path = directory.join(files::ISSUED);
    let lock = || {
        let folder = File::open(&path)?;
        // SAFETY: the descriptor is open over the call, which touches no memory.
        let locked = unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) };
        if locked == 0 { Ok(folder) } else { Err(io::Error::last_os_error()) }
    };
    lock().map_err(|source| IdentityError::File { path: path.clone(), source })
}
