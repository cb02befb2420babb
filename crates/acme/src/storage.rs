//! The directory that keeps what was obtained.
//!
//! ```text
//! STORAGE/                       0700
//!   lock                         held by the one process that writes
//!   account.key                  0600, the account's key in PKCS #8 (PEM)
//!   hosts/                       what a server reads: no file of the account lies there
//!     HOST/
//!       certificate.pem          0600, the chain, then its key, in PEM
//!       state.toml               0600, failures, the next attempt, the time of renewal
//! ```
//!
//! A file is written under another name, brought to the disk, and renamed: a reader sees the former one or the new one.
//! Chain and key are one file, so that no reader sees a chain with another one's key.

use crate::certificate::{self, Issued, pem};
use crate::error::AcmeError;
use crate::jws::AccountKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The directory with a directory for each host.
const HOSTS: &str = "hosts";
const CERTIFICATE: &str = "certificate.pem";
const STATE: &str = "state.toml";
const ACCOUNT_KEY: &str = "account.key";

/// Where the certificate of a host lies, followed by its key in the same file.
#[must_use]
pub fn certificate_file(storage: &Path, host: &str) -> PathBuf {
    storage.join(HOSTS).join(host).join(CERTIFICATE)
}

/// What is remembered of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct State {
    /// The authority that issued the certificate: with another one it is obtained anew.
    pub(crate) directory: String,
    /// Attempts that failed, one after the other. It is counted up before an attempt, so that one that ends with the
    /// process counts, too.
    pub(crate) failures: u32,
    /// When the next attempt may be made, in seconds since 1970.
    pub(crate) next_attempt_unix_s: i64,
    /// When the certificate is to be renewed; 0 = not decided yet.
    pub(crate) renew_at_unix_s: i64,
    /// When the authority is asked again about that.
    pub(crate) ask_again_unix_s: i64,
    /// Why the last attempt failed.
    pub(crate) last_error: String,
}

/// The directory, which no other process writes meanwhile.
#[derive(Debug)]
pub(crate) struct Storage {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

/// What lies under a name.
pub(crate) enum Found<T> {
    /// It is there.
    Whole(T),
    /// It is not there.
    Missing,
    /// It is there and cannot be used, for this reason.
    Damaged(String),
}

impl Storage {
    /// Opens the directory, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`AcmeError::Kept`] if another process has it; the system's refusal.
    pub(crate) fn open(path: &Path) -> Result<Self, AcmeError> {
        let refused = |at: &Path| {
            let path = at.to_owned();
            move |source| AcmeError::Storage { path, source }
        };
        make_directory(&path.join(HOSTS)).map_err(refused(path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(refused(path))?;
        let at = path.join("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&at);
        let lock = lock.map_err(refused(&at))?;
        // SAFETY: the call takes no pointers.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock => AcmeError::Kept { path: path.to_owned() },
                _ => refused(&at)(error),
            });
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The account's key; a new one is made where there is none, or a damaged one, which `tell` is told of.
    pub(crate) fn account_key(&self, tell: &mut dyn FnMut(&str)) -> Result<AccountKey, AcmeError> {
        let path = self.path.join(ACCOUNT_KEY);
        let read = |text: String| {
            let der = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok()?;
            AccountKey::read(der.secret_der())
        };
        match self.text(&path)? {
            Some(text) => match read(text) {
                Some(key) => return Ok(key),
                None => {
                    tell(&format!("{} is damaged; a new account is made", path.display()));
                    let aside = path.with_extension("key.damaged");
                    fs::rename(&path, aside).map_err(|source| AcmeError::Storage { path: path.clone(), source })?;
                }
            },
            None => tracing::info!("a new ACME account"),
        }
        let pkcs8 = AccountKey::generate()?;
        self.write(&path, pem("PRIVATE KEY", &pkcs8).as_bytes())?;
        let unreadable = || AcmeError::Crypto { what: "the account's key", why: "it cannot be read again".to_owned() };
        AccountKey::read(&pkcs8).ok_or_else(unreadable)
    }

    /// What is kept for a host.
    pub(crate) fn certificate(&self, host: &str) -> Result<Found<Issued>, AcmeError> {
        Ok(match self.text(&certificate_file(&self.path, host))? {
            None => Found::Missing,
            Some(text) => certificate::read(host, &text).map_or_else(Found::Damaged, Found::Whole),
        })
    }

    /// Keeps a certificate.
    pub(crate) fn put_certificate(&self, host: &str, text: &str) -> Result<(), AcmeError> {
        self.write(&certificate_file(&self.path, host), text.as_bytes())
    }

    /// What is remembered of a host.
    pub(crate) fn state(&self, host: &str) -> Result<Found<State>, AcmeError> {
        Ok(match self.text(&self.host(host).join(STATE))? {
            None => Found::Missing,
            Some(text) => toml::from_str(&text)
                .map_or_else(|error: toml::de::Error| Found::Damaged(error.message().to_owned()), Found::Whole),
        })
    }

    /// Remembers it.
    pub(crate) fn put_state(&self, host: &str, state: &State) -> Result<(), AcmeError> {
        let path = self.host(host).join(STATE);
        let text = toml::to_string(state).map_err(|error| AcmeError::Storage {
            path: path.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
        })?;
        self.write(&path, text.as_bytes())
    }

    fn host(&self, host: &str) -> PathBuf {
        self.path.join(HOSTS).join(host)
    }

    /// The text of a file; none if there is none. Text that is not UTF-8 comes out as damaged text.
    fn text(&self, path: &Path) -> Result<Option<String>, AcmeError> {
        let refused = |source| AcmeError::Storage { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(error)),
            Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(refused)?,
        };
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Replaces a file at once, for good.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), AcmeError> {
        let write = || {
            let folder = path.parent().unwrap_or(&self.path);
            make_directory(folder)?;
            let new = path.with_extension("new");
            // What a process left that ended meanwhile may have other rights.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|source| AcmeError::Storage { path: path.to_owned(), source })
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::tests::self_signed;
    use proptest::prelude::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_kept_is_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("acme");
        let storage = Storage::open(&path).expect("opens");
        storage.account_key(&mut |told| panic!("{told}")).expect("a key");
        let text = self_signed("a.example", (2024, 2025));
        storage.put_certificate("a.example", &text).expect("writes");
        let state = State { failures: 3, last_error: "why\"\n".to_owned(), ..State::default() };
        storage.put_state("a.example", &state).expect("writes");
        assert!(matches!(storage.state("a.example").expect("reads"), Found::Whole(read) if read == state));
        assert!(matches!(storage.certificate("a.example").expect("reads"), Found::Whole(_)));
        assert!(matches!(storage.certificate("b.example").expect("reads"), Found::Missing));
        for directory in [path.clone(), path.join("hosts"), path.join("hosts/a.example")] {
            assert_eq!(mode(&directory), 0o700, "{directory:?}");
        }
        for file in ["account.key", "lock", "hosts/a.example/certificate.pem", "hosts/a.example/state.toml"] {
            assert_eq!(mode(&path.join(file)), 0o600, "{file}");
        }
    }

    #[test]
    fn a_second_process_waits_for_the_first() {
        let folder = tempfile::tempdir().expect("a directory");
        let first = Storage::open(folder.path()).expect("opens");
        // A second open file has a lock of its own, as that of another process has.
        assert!(matches!(Storage::open(folder.path()), Err(AcmeError::Kept { .. })));
        drop(first);
        Storage::open(folder.path()).expect("it is free again");
    }

    #[test]
    fn damaged_files_are_told() {
        let folder = tempfile::tempdir().expect("a directory");
        let storage = Storage::open(folder.path()).expect("opens");
        let first = storage.account_key(&mut |told| panic!("{told}")).expect("a key").thumbprint();
        assert_eq!(storage.account_key(&mut |told| panic!("{told}")).expect("a key").thumbprint(), first);
        fs::write(folder.path().join("account.key"), "-----BEGIN PRIVATE KEY-----\nAAAA\n").expect("writes");
        let mut words = Vec::new();
        let second = storage.account_key(&mut |told| words.push(told.to_owned())).expect("a key").thumbprint();
        assert!(second != first && words.len() == 1 && words[0].contains("damaged"), "{words:?}");
        assert!(folder.path().join("account.key.damaged").exists(), "it may be wanted still");
        storage.put_certificate("a.example", "-----BEGIN CERTIFICATE-----").expect("writes");
        assert!(matches!(storage.certificate("a.example").expect("reads"), Found::Damaged(_)));
        fs::write(folder.path().join("hosts/a.example/state.toml"), "failures = -1").expect("writes");
        assert!(matches!(storage.state("a.example").expect("reads"), Found::Damaged(_)));
    }

    #[test]
    fn what_an_ended_process_left_is_replaced() {
        let folder = tempfile::tempdir().expect("a directory");
        let storage = Storage::open(folder.path()).expect("opens");
        fs::create_dir(folder.path().join("hosts/a.example")).expect("creates");
        fs::write(folder.path().join("hosts/a.example/state.new"), "fail").expect("writes");
        storage.put_state("a.example", &State::default()).expect("writes");
        assert!(matches!(storage.state("a.example").expect("reads"), Found::Whole(_)));
        assert_eq!(mode(&folder.path().join("hosts/a.example/state.toml")), 0o600);
    }

    proptest! {
        #[test]
        fn any_state_comes_back(failures: u32, next_attempt_unix_s: i64, last_error: String) {
            let state = State { failures, next_attempt_unix_s, last_error, ..State::default() };
            let text = toml::to_string(&state).expect("it has a form");
            prop_assert_eq!(toml::from_str::<State>(&text).expect("it is read"), state);
        }
    }
}
