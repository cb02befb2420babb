//! A member's identity, and the directory that keeps it: key files with mode 0600 in a directory with mode 0700.

use super::certificate::{self, REVOKED, RevocationList, Validity};
use super::fingerprint::fingerprint;
use super::key::{KeyError, MemberKey};
use super::pem::pem;
use super::secret::ClusterSecret;
use crate::name::{Member, NodeName, Role};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

const AUTHORITY_KEY: &str = "authority.key";
pub(super) const AUTHORITY_CERTIFICATE: &str = "authority.crt";
const MEMBER_KEY: &str = "member.key";
const MEMBER_CERTIFICATE: &str = "member.crt";
const SECRET: &str = "cluster.secret";
/// For how many seconds the certificates of members are valid, at the node with the authority.
const LIFE: &str = "authority.life";
/// The names of the members whose certificates are revoked, there as well.
const REVOKED_MEMBERS: &str = "revoked.names";
/// Certificates of members by name, at the node with the authority.
pub(super) const ISSUED: &str = "issued";
/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// An identity cannot be made, read or kept.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The directory has one already.
    #[error("{} belongs to a cluster already; give another directory, or remove this one to leave the cluster", .0.display())]
    Exists(PathBuf),
    /// The authority is at another node.
    #[error("{} is missing: this node has not made the cluster; run the command on the node of `weir cluster init`", .0.display())]
    NoAuthority(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}; give a directory that this user may write", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Other users may read a key.
    #[error("other users may read {}; run chmod 600 on it, and make new keys if they may have done so", .0.display())]
    Readable(PathBuf),
    /// A file holds something else.
    #[error("{} holds no {wanted}; join the cluster again", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// A name is given to another member.
    #[error("{0} is the name of another member; choose another name")]
    NameTaken(NodeName),
    /// It has no certificate of this authority.
    #[error("{0} has no certificate of this authority; join it to the cluster")]
    NotIssued(NodeName),
    /// An address has the certificate of another member of etcd.
    #[error("{0} has the certificate of a member of etcd already; give the address of this machine")]
    EtcdTaken(IpAddr),
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A certificate cannot be made.
    #[error("the certificate cannot be made: {0}; report this")]
    Certificate(#[from] rcgen::Error),
}

/// What a member shows and believes. Its key and the cluster's secret are zeroed when it is dropped.
#[derive(Debug)]
pub struct Identity {
    /// Its name and role, as in its certificate.
    pub member: Member,
    /// Its certificate.
    pub certificate: CertificateDer<'static>,
    /// The certificate of the cluster's authority.
    pub authority: CertificateDer<'static>,
    /// Its key.
    pub key: MemberKey,
    /// The cluster's secret.
    pub secret: ClusterSecret,
}

impl Identity {
    /// Keeps it in a directory.
    ///
    /// # Errors
    /// [`IdentityError`], if a file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), IdentityError> {
        make_directory(directory)?;
        let write = |name: &str, bytes: &[u8]| write_file(&directory.join(name), bytes);
        write(AUTHORITY_CERTIFICATE, pem("CERTIFICATE", &self.authority).as_bytes())?;
        write(MEMBER_CERTIFICATE, pem("CERTIFICATE", &self.certificate).as_bytes())?;
        write(MEMBER_KEY, pem("PRIVATE KEY", self.key.pkcs8()).as_bytes())?;
        // The last one: a directory is complete with it.
        write(SECRET, &self.secret.encode())
    }

    /// Reads it from a directory.
    ///
    /// # Errors
    /// [`IdentityError`], if a file is missing, readable for other users, or holds something else.
    pub fn load(directory: &Path) -> Result<Self, IdentityError> {
        let certificate = load_certificate(&directory.join(MEMBER_CERTIFICATE))?;
        let member = member_of(&certificate).ok_or_else(|| IdentityError::Content {
            path: directory.join(MEMBER_CERTIFICATE),
            wanted: "certificate of a member",
        })?;
        Ok(Self {
            member,
            certificate,
            authority: load_authority_certificate(directory)?,
            key: load_key(&directory.join(MEMBER_KEY))?,
            secret: load_secret(directory)?,
        })
    }

    /// When its certificate is valid; none if that cannot be read.
    pub fn validity(&self) -> Option<Validity> {
        certificate::read(&self.certificate).map(|facts| facts.validity)
    }

    /// The SHA-256 of the authority's certificate, as tokens hold it.
    pub fn authority_fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.authority)
    }
}

/// The member that a certificate names; it is not verified here.
pub(crate) fn member_of(certificate: &CertificateDer<'_>) -> Option<Member> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    Member::from_certificate_names(parsed.valid_dns_names())
}

pub(super) fn refuse_existing(directory: &Path) -> Result<(), IdentityError> {
    let names = [AUTHORITY_KEY, MEMBER_KEY, SECRET];
    if names.iter().any(|name| directory.join(name).exists()) {
        return Err(IdentityError::Exists(directory.to_owned()));
    }
    Ok(())
}

/// The certificate of a member's directory, which another process may have renewed.
///
/// # Errors
/// [`IdentityError`], if the file cannot be read, or holds something else.
pub(crate) fn certificate_of(directory: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    load_certificate(&directory.join(MEMBER_CERTIFICATE))
}

pub(super) fn keep_certificate(directory: &Path, certificate: &CertificateDer<'_>) -> Result<(), IdentityError> {
    write_file(&directory.join(MEMBER_CERTIFICATE), pem("CERTIFICATE", certificate).as_bytes())
}

/// The secret of a member's directory.
pub(crate) fn load_secret(directory: &Path) -> Result<ClusterSecret, IdentityError> {
    let path = directory.join(SECRET);
    let secret = ClusterSecret::decode(&read_private(&path)?);
    secret.ok_or(IdentityError::Content { path, wanted: "secret of a cluster" })
}

/// Keeps the secret in place of the one before.
pub(crate) fn keep_secret(directory: &Path, secret: &ClusterSecret) -> Result<(), IdentityError> {
    write_file(&directory.join(SECRET), &secret.encode())
}

/// Keeps the list of revoked certificates.
pub(crate) fn keep_revoked(directory: &Path, list: &RevocationList) -> Result<(), IdentityError> {
    write_file(&directory.join(REVOKED), &list.der)
}

/// The list of revoked certificates, if there is one.
pub(crate) fn load_revoked(directory: &Path) -> Result<Option<RevocationList>, IdentityError> {
    let path = directory.join(REVOKED);
    let mut der = Vec::new();
    match File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut der)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| IdentityError::File { path: path.clone(), source })?,
    };
    let wanted = "list of revoked certificates";
    let number = certificate::made_at(&der).ok_or(IdentityError::Content { path, wanted })?;
    Ok(Some(RevocationList { number, der }))
}

/// The members that the list of revoked certificates names, at the node with the authority.
pub(crate) fn revoked_members(directory: &Path) -> Result<BTreeSet<NodeName>, IdentityError> {
    let path = directory.join(REVOKED_MEMBERS);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(source) => Err(IdentityError::File { path, source }),
        Ok(text) => Ok(text.lines().filter_map(|name| name.parse().ok()).collect()),
    }
}

pub(crate) fn keep_revoked_members(directory: &Path, members: &BTreeSet<NodeName>) -> Result<(), IdentityError> {
    let lines: String = members.iter().map(|name| format!("{name}\n")).collect();
    write_file(&directory.join(REVOKED_MEMBERS), lines.as_bytes())
}

/// When the authority's certificate of a member's directory is valid; none if that cannot be read.
pub fn authority_validity(directory: &Path) -> Option<Validity> {
    Some(certificate::read(&load_authority_certificate(directory).ok()?)?.validity)
}

/// Whether this member has the authority.
pub(crate) fn is_authority(directory: &Path) -> bool {
    directory.join(AUTHORITY_KEY).exists()
}

pub(super) fn load_life(directory: &Path) -> Result<Option<Duration>, IdentityError> {
    let path = directory.join(LIFE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| IdentityError::File { path: path.clone(), source })?,
    };
    let seconds = text.trim().parse().map_err(|_| IdentityError::Content { path, wanted: "number of seconds" })?;
    Ok(Some(Duration::from_secs(seconds)))
}

pub(super) fn save_authority(directory: &Path, key: &MemberKey, life: Duration) -> Result<(), IdentityError> {
    make_directory(directory)?;
    write_file(&directory.join(LIFE), format!("{}\n", life.as_secs()).as_bytes())?;
    write_file(&directory.join(AUTHORITY_KEY), pem("PRIVATE KEY", key.pkcs8()).as_bytes())
}

pub(super) fn load_authority(directory: &Path) -> Result<MemberKey, IdentityError> {
    let path = directory.join(AUTHORITY_KEY);
    if path.exists() { load_key(&path) } else { Err(IdentityError::NoAuthority(path)) }
}

pub(super) fn load_authority_certificate(directory: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    load_certificate(&directory.join(AUTHORITY_CERTIFICATE))
}

pub(super) fn save_authority_certificate(
    directory: &Path,
    certificate: &CertificateDer<'_>,
) -> Result<(), IdentityError> {
    write_file(&directory.join(AUTHORITY_CERTIFICATE), pem("CERTIFICATE", certificate).as_bytes())
}

/// Whether a name is given to a member already.
pub(super) fn is_issued(directory: &Path, name: &NodeName) -> bool {
    directory.join(ISSUED).join(name.as_str()).exists()
}

/// Enters a member into the list of those with a certificate; of two with one name only the first gets it.
pub(super) fn enter(directory: &Path, member: &Member, certificate: &CertificateDer<'_>) -> Result<(), IdentityError> {
    let folder = directory.join(ISSUED);
    make_directory(&folder)?;
    let path = folder.join(member.name.as_str());
    let text = format!("{}\n{}", member.role.word(), pem("CERTIFICATE", certificate).as_str());
    match create(&path, text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(IdentityError::NameTaken(member.name.clone()))
        }
        Err(source) => Err(IdentityError::File { path, source }),
        Ok(()) => Ok(()),
    }
}

/// The members with a certificate, at the node with the authority.
pub(super) fn issued(directory: &Path) -> Result<Vec<Member>, IdentityError> {
    let folder = directory.join(ISSUED);
    let failed = |source| IdentityError::File { path: folder.clone(), source };
    let mut members = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(name) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let text = fs::read_to_string(entry.path()).map_err(failed)?;
        let role = Role::ALL.into_iter().find(|role| text.lines().next() == Some(role.word()));
        let wanted = "member of the cluster";
        let role = role.ok_or_else(|| IdentityError::Content { path: entry.path(), wanted })?;
        members.push(Member { name, role });
    }
    members.sort();
    Ok(members)
}

/// Makes a directory that only this user may enter, unless it exists.
pub(super) fn make_directory(directory: &Path) -> Result<(), IdentityError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| IdentityError::File { path: directory.to_owned(), source })
}

/// Makes a file with mode 0600; it must not exist yet.
pub(super) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // It would be found half written at the next start.
        let _ = fs::remove_file(path);
    })
}

/// Writes a file with mode 0600 as a whole, in place of the one before.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    let beside = path.with_extension("new");
    let write = || {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        create(&beside, bytes)?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| IdentityError::File { path: path.to_owned(), source })
}

fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |source| IdentityError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(IdentityError::Readable(path.to_owned()));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn load_key(path: &Path) -> Result<MemberKey, IdentityError> {
    let text = read_private(path)?;
    let der = PrivatePkcs8KeyDer::from_pem_slice(&text)
        .map_err(|_| IdentityError::Content { path: path.to_owned(), wanted: "private key in PEM" })?;
    Ok(MemberKey::from_pkcs8(Zeroizing::new(der.secret_pkcs8_der().to_vec()))?)
}

pub(super) fn load_certificate(path: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    let failed = |source| IdentityError::File { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    CertificateDer::from_pem_slice(&text)
        .map_err(|_| IdentityError::Content { path: path.to_owned(), wanted: "certificate in PEM" })
}
