//! The address of the admin page, and the token that a client needs for it.

use ring::hmac;
use ring::rand::SystemRandom;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The shortest token: what is guessed too easily is none.
const TOKEN_BYTES_MIN: usize = 16;
/// Bytes of a file with a token.
const FILE_BYTES_MAX: u64 = 4096;

/// Where the server tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admin {
    /// At a Unix socket that only its owner can use. What is left there by a server that has gone is removed first.
    Unix {
        /// The socket's path.
        path: PathBuf,
        /// What clients have to bring as well; none = the file's mode is enough.
        token: Option<AdminToken>,
    },
    /// At an address of TCP, where a token is needed.
    Tcp {
        /// The address; with port 0 the system chooses one.
        addr: SocketAddr,
        /// What clients have to bring.
        token: AdminToken,
    },
}

/// Why the server cannot tell of itself as it was asked to.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The address is none of both kinds.
    #[error("`{text}` is neither unix:PATH nor ADDRESS:PORT; write unix:/run/weir-admin.sock or 127.0.0.1:9100")]
    Addr {
        /// The text as given.
        text: String,
    },
    /// Over TCP every user of the machine, or of others, could read the status.
    #[error(
        "at {addr} every program that can connect could read the status; give a file with a token (--admin-token \
         FILE, or `token_file` in [admin]), or use unix:PATH"
    )]
    NoToken {
        /// The address that was asked for.
        addr: SocketAddr,
    },
    /// The token's file cannot be read.
    #[error("cannot read the token in {path}: {source}; give a file with at least 16 characters", path = path.display())]
    TokenFile {
        /// The file as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The token is too short, too long, or has characters in it that cannot be sent.
    #[error(
        "the token in {path} is none; give 16 to 4096 visible ASCII characters: openssl rand -hex 24 > {path}",
        path = path.display()
    )]
    Token {
        /// The file as given.
        path: PathBuf,
    },
    /// Every user of the machine can read the token.
    #[error("every user can read the token in {path}; chmod 600 {path}", path = path.display())]
    TokenOpen {
        /// The file as given.
        path: PathBuf,
    },
}

impl Admin {
    /// At `unix:PATH` or `ADDRESS:PORT`.
    ///
    /// # Errors
    ///
    /// [`AdminError::Addr`], or [`AdminError::NoToken`] for an address of TCP without one.
    pub fn new(addr: &str, token: Option<AdminToken>) -> Result<Self, AdminError> {
        if let Some(path) = addr.strip_prefix("unix:").filter(|path| !path.is_empty() && !path.contains('\0')) {
            return Ok(Self::Unix { path: path.into(), token });
        }
        let addr: SocketAddr = addr.parse().map_err(|_| AdminError::Addr { text: addr.to_owned() })?;
        let token = token.ok_or(AdminError::NoToken { addr })?;
        Ok(Self::Tcp { addr, token })
    }

    pub(super) fn token(&self) -> Option<&AdminToken> {
        match self {
            Self::Unix { token, .. } => token.as_ref(),
            Self::Tcp { token, .. } => Some(token),
        }
    }
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Self::Tcp { addr, .. } => write!(f, "http://{addr}/"),
        }
    }
}

/// What a client shows to be told: `Authorization: Bearer TOKEN`.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    /// The token in a file, without the end of its line.
    ///
    /// # Errors
    ///
    /// Those of [`AdminError`] that concern a token's file.
    pub fn read(path: &Path) -> Result<Self, AdminError> {
        let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o004 != 0 {
            return Err(AdminError::TokenOpen { path: path.to_owned() });
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 2).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim_end_matches(['\r', '\n']);
        let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < TOKEN_BYTES_MIN || token.len() as u64 > FILE_BYTES_MAX || !is_visible {
            return Err(AdminError::Token { path: path.to_owned() });
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether the field Authorization brings it. Both are compared by digests under a fresh random key, so that the
    /// time tells nothing of how much was right.
    pub(super) fn lets_in(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|field| field.split_at_checked(7)) else { return false };
        let Ok(key) = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()) else { return false };
        let own = hmac::sign(&key, self.0.as_bytes());
        scheme.eq_ignore_ascii_case(b"bearer ") && hmac::verify(&key, given.trim_ascii(), own.as_ref()).is_ok()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn token(text: &str, mode: u32) -> Result<AdminToken, AdminError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("writes");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
        AdminToken::read(file.path())
    }

    #[test]
    fn over_tcp_a_token_is_needed() {
        assert!(matches!(Admin::new("127.0.0.1:9100", None), Err(AdminError::NoToken { .. })));
        let good = token("0123456789abcdef\n", 0o600).expect("a token");
        assert!(Admin::new("127.0.0.1:9100", Some(good.clone())).is_ok());
        assert!(Admin::new("[::1]:0", Some(good)).is_ok());
        assert!(Admin::new("unix:/run/a.sock", None).is_ok());
        for bad in ["", "unix:", "9100", "localhost", "localhost:9100", "unix:a\0b"] {
            assert!(matches!(Admin::new(bad, None), Err(AdminError::Addr { .. })), "{bad}");
        }
    }

    #[test]
    fn a_token_is_neither_short_nor_for_everybody_to_read() {
        assert!(matches!(token("0123456789abcdef", 0o644), Err(AdminError::TokenOpen { .. })));
        for bad in ["", "0123456789abcde\n", "0123456789 abcdef", "0123456789\u{e4}abcdef", &"x".repeat(5000)] {
            assert!(matches!(token(bad, 0o600), Err(AdminError::Token { .. })), "{bad}");
        }
        assert!(matches!(AdminToken::read(Path::new("/nowhere")), Err(AdminError::TokenFile { .. })));
        assert_eq!(format!("{:?}", token("0123456789abcdef", 0o640).expect("a token")), "AdminToken");
    }

    #[test]
    fn only_the_whole_token_lets_in() {
        let token = token("0123456789abcdef\n", 0o600).expect("a token");
        assert!(token.lets_in(Some(b"Bearer 0123456789abcdef")));
        assert!(token.lets_in(Some(b"bearer 0123456789abcdef ")));
        for bad in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Basic 0123456789abcdef"]
        {
            assert!(!token.lets_in(Some(bad.as_bytes())), "{bad}");
        }
        assert!(!token.lets_in(Some(b"Bearer 0123456789abcdef0")) && !token.lets_in(None));
    }
}
