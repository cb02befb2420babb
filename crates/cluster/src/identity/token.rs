//! Tokens with which a machine joins: each is of one use and a bounded life, and pins the cluster's authority.

use super::files::{self, Identity, IdentityError};
use crate::name::{NodeName, Role};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

const PREFIX: &str = "weir1.";
/// Characters of a token that is read.
const TEXT_CHARACTERS_MAX: usize = 512;
pub(crate) const SECRET_BYTES: usize = 32;
/// The longest life of a token.
const LIFE_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Tokens that are open at a time.
const OPEN_MAX: usize = 1_000;

/// A token cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is none.
    #[error("this is no token; copy all of it from `weir cluster token`")]
    NoToken,
    /// It is over.
    #[error("the token has expired; have `weir cluster token` make a new one")]
    Expired,
    /// It was used, or never made here.
    #[error("the token is not open: it was used, or another cluster made it; have `weir cluster token` make a new one")]
    NotOpen,
    /// It is for members with another role.
    #[error("the token is for the role {}; have `weir cluster token` make one for the other", .0.word())]
    OtherRole(Role),
    /// Its life is too long.
    #[error("a token may live for 7 days; ask for a shorter life")]
    TooLong,
    /// There are too many.
    #[error("{OPEN_MAX} tokens are open; use some of them, or wait until they expire")]
    TooMany,
    /// A file cannot be read or written.
    #[error(transparent)]
    Files(#[from] IdentityError),
}

/// A token. Its secret is zeroed when it is dropped, and not shown by `Debug`.
#[derive(Clone)]
pub struct Token {
    /// When it ends, seconds since 1970.
    pub expires_unix_s: u64,
    /// The SHA-256 of the authority's certificate.
    pub authority_fingerprint: [u8; 32],
    /// The member that admits.
    pub issuer: NodeName,
    /// What the new member may do.
    pub role: Role,
    pub(crate) secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl Token {
    /// The token as text; it is zeroed when it is dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(256));
        bytes.extend(self.expires_unix_s.to_be_bytes());
        bytes.extend(self.authority_fingerprint);
        bytes.extend(*self.secret);
        bytes.push(self.role as u8);
        bytes.extend(self.issuer.as_str().as_bytes());
        let mut text = Zeroizing::new(String::with_capacity(TEXT_CHARACTERS_MAX));
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(&*bytes, &mut text);
        text
    }

    /// Reads a token.
    ///
    /// # Errors
    /// [`TokenError::NoToken`], if the text is none.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let read = || {
            let text = text.trim();
            let encoded = text.strip_prefix(PREFIX).filter(|text| text.len() <= TEXT_CHARACTERS_MAX)?;
            let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(encoded).ok()?);
            let (expires, rest) = bytes.split_first_chunk::<8>()?;
            let (fingerprint, rest) = rest.split_first_chunk::<32>()?;
            let (secret, rest) = rest.split_first_chunk::<SECRET_BYTES>()?;
            let (role, name) = rest.split_first()?;
            Some(Self {
                expires_unix_s: u64::from_be_bytes(*expires),
                authority_fingerprint: *fingerprint,
                issuer: std::str::from_utf8(name).ok()?.parse().ok()?,
                role: Role::ALL.into_iter().find(|known| *known as u8 == *role)?,
                secret: Zeroizing::new(*secret),
            })
        };
        read().ok_or(TokenError::NoToken)
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: SystemTime) -> bool {
        unix_s(now) >= self.expires_unix_s
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (&self.issuer, self.role, self.expires_unix_s);
        f.debug_tuple("Token").field(&shown).finish_non_exhaustive()
    }
}

/// The open tokens, at the node with the authority: a file for each, named by a digest of its secret.
#[derive(Debug)]
pub struct Tokens {
    folder: PathBuf,
}

impl Tokens {
    /// The tokens of a member's directory.
    pub fn of(directory: &Path) -> Self {
        Self { folder: directory.join("tokens") }
    }

    /// Makes a token, and removes those that are over.
    ///
    /// # Errors
    /// [`TokenError`], if it would live too long, too many are open, or its file cannot be written.
    pub fn make(&self, identity: &Identity, role: Role, life: Duration, now: SystemTime) -> Result<Token, TokenError> {
        if life > LIFE_MAX {
            return Err(TokenError::TooLong);
        }
        files::make_directory(&self.folder)?;
        if self.sweep(now)? >= OPEN_MAX {
            return Err(TokenError::TooMany);
        }
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        let filled = SystemRandom::new().fill(&mut *secret);
        filled.map_err(|_| IdentityError::Key(super::key::KeyError::NoRandom))?;
        let token = Token {
            expires_unix_s: unix_s(now) + life.as_secs(),
            authority_fingerprint: identity.authority_fingerprint(),
            issuer: identity.member.name.clone(),
            role,
            secret,
        };
        let path = self.path(&token.secret[..]);
        let text = format!("{} {}\n", token.expires_unix_s, role.word());
        files::create(&path, text.as_bytes()).map_err(|source| IdentityError::File { path, source })?;
        Ok(token)
    }

    /// The role that a secret's token is for, if it is open.
    ///
    /// # Errors
    /// [`TokenError::NotOpen`] or [`TokenError::Expired`].
    pub(super) fn role(&self, secret: &[u8], now: SystemTime) -> Result<Role, TokenError> {
        let text = fs::read_to_string(self.path(secret)).map_err(|_| TokenError::NotOpen)?;
        let (expires, role) = read_entry(&text).ok_or(TokenError::NotOpen)?;
        if unix_s(now) >= expires { Err(TokenError::Expired) } else { Ok(role) }
    }

    /// Takes the token away; of several that try at once only one is let through.
    ///
    /// # Errors
    /// [`TokenError::NotOpen`], if it is gone.
    pub(super) fn use_up(&self, secret: &[u8]) -> Result<(), TokenError> {
        fs::remove_file(self.path(secret)).map_err(|_| TokenError::NotOpen)
    }

    /// A digest names the file: who reads the directory's listing learns no secret, and a lookup compares no secret.
    fn path(&self, secret: &[u8]) -> PathBuf {
        let name: String = digest(&SHA256, secret).as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }

    /// Removes tokens that are over; returns how many are open.
    fn sweep(&self, now: SystemTime) -> Result<usize, TokenError> {
        let failed = |source: io::Error| IdentityError::File { path: self.folder.clone(), source };
        let mut open = 0;
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            match read_entry(&text) {
                Some((expires, _)) if unix_s(now) < expires => open += 1,
                // Another process may have removed it meanwhile.
                _ => drop(fs::remove_file(&path)),
            }
        }
        Ok(open)
    }
}

fn read_entry(text: &str) -> Option<(u64, Role)> {
    let (expires, role) = text.trim().split_once(' ')?;
    Some((expires.parse().ok()?, Role::ALL.into_iter().find(|known| known.word() == role)?))
}

fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
