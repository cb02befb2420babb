//! Names and passwords (RFC 7617), checked against password hashes, which are slow: a separate thread checks them, so
//! that no loop ever waits. The result is kept for a while under a keyed digest; the password is never kept.

use crate::io::epoll::Waker;
use base64::Engine;
use ring::hmac;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Credentials that a loop remembers.
const KNOWN_MAX: usize = 1024;
/// How long those that are right are remembered, and those that are not.
const RIGHT_MS: u64 = 600_000;
const WRONG_MS: u64 = 5_000;
/// Credentials that may wait to be checked, of all loops; one more is answered with 503.
const JOBS_MAX: usize = 64;
/// Bytes of name and password together.
const CREDENTIALS_BYTES_MAX: usize = 1024;

type Digest = [u8; 32];

/// The users that are let in.
#[derive(Debug)]
pub(crate) struct Auth {
    realm: String,
    /// The line of the head that asks for credentials.
    pub(crate) challenge: String,
    users: HashMap<String, String>,
    /// Tells users of one configuration from those of another.
    serial: u64,
}

impl Auth {
    /// The users with their hashes; there is at least one.
    pub(crate) fn new(realm: &str, users: HashMap<String, String>) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let challenge = format!("WWW-Authenticate: Basic realm=\"{realm}\", charset=\"UTF-8\"\r\n");
        Self { realm: realm.to_owned(), challenge, users, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }

    /// What the password is for.
    pub(crate) fn realm(&self) -> &str {
        &self.realm
    }

    /// Whether the password is the user's. It takes as long for a user that does not exist.
    fn is_right(&self, user: &str, password: &[u8]) -> bool {
        let own = self.users.get(user);
        let Some(hash) = own.or_else(|| self.users.values().next()) else { return false };
        verify(hash, password) && own.is_some()
    }
}

/// What keeps a hash from being used; none if nothing does.
pub(crate) fn hash_problem(hash: &str) -> Option<&'static str> {
    const UNKNOWN: &str = "is neither of argon2 ($argon2id$...) nor of bcrypt ($2y$...); `htpasswd -nB NAME` makes one";
    if hash.starts_with("$argon2") {
        let Ok(parsed) = argon2::PasswordHash::new(hash) else { return Some("is no well-formed hash of argon2") };
        let params = argon2::Params::try_from(&parsed).ok();
        let is_known = argon2::Algorithm::try_from(parsed.algorithm).is_ok();
        return match params {
            Some(params) if is_known && parsed.hash.is_some() && parsed.salt.is_some() => {
                (params.m_cost() > 1 << 18 || params.t_cost() > 32).then_some("costs more than 256 MiB or 32 passes")
            }
            _ => Some("is no well-formed hash of argon2"),
        };
    }
    let Ok(parts) = hash.parse::<bcrypt::HashParts>() else { return Some(UNKNOWN) };
    (parts.get_cost() > 16).then_some("costs more than 2^16 rounds of bcrypt")
}

fn verify(hash: &str, password: &[u8]) -> bool {
    use argon2::PasswordVerifier;
    if hash.starts_with("$argon2") {
        let parsed = argon2::PasswordHash::new(hash);
        return parsed.is_ok_and(|parsed| argon2::Argon2::default().verify_password(password, &parsed).is_ok());
    }
    bcrypt::verify(password, hash).unwrap_or(false)
}

/// What is known of a request's credentials.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// They are right: those of this user.
    Right(String),
    /// They are wrong, or there are none.
    Wrong,
    /// They are being checked.
    Wait,
    /// There are too many to be checked.
    Busy,
}

/// Where the thread puts what it has found, for one loop.
#[derive(Debug)]
pub(crate) struct Mailbox {
    mail: Mutex<Vec<(Digest, bool)>>,
    waker: Arc<Waker>,
}

#[derive(Debug)]
struct Job {
    auth: Arc<Auth>,
    user: String,
    password: Vec<u8>,
    digest: Digest,
    reply: Arc<Mailbox>,
}

/// One loop's memory of credentials.
#[derive(Debug)]
pub(crate) struct Credentials {
    key: hmac::Key,
    known: HashMap<Digest, (bool, u64)>,
    in_flight: HashSet<Digest>,
    mailbox: Arc<Mailbox>,
}

impl Credentials {
    /// None if the system has no randomness to make a key of.
    pub(crate) fn new(waker: Arc<Waker>) -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()).ok()?;
        let mailbox = Arc::new(Mailbox { mail: Mutex::default(), waker });
        Some(Self { key, known: HashMap::new(), in_flight: HashSet::new(), mailbox })
    }

    /// Judges the field Authorization; has it checked where that is still to be done.
    pub(crate) fn judge(&mut self, auth: &Arc<Auth>, field: Option<&[u8]>, now_ms: u64) -> Judged {
        let Some((user, password)) = field.and_then(credentials) else { return Judged::Wrong };
        let mut context = hmac::Context::with_key(&self.key);
        // A name has no zero in it, so that nothing can be moved from one to the other.
        for piece in [&auth.serial.to_ne_bytes()[..], user.as_bytes(), b"\0", &password] {
            context.update(piece);
        }
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        match self.known.get(&digest) {
            Some((true, until_ms)) if *until_ms > now_ms => return Judged::Right(user),
            Some((false, until_ms)) if *until_ms > now_ms => return Judged::Wrong,
            _ if self.in_flight.contains(&digest) => return Judged::Wait,
            _ => {}
        }
        let job = Job { auth: Arc::clone(auth), user, password, digest, reply: Arc::clone(&self.mailbox) };
        match checker().map(|sender| sender.try_send(job)) {
            Some(Ok(())) => {
                self.in_flight.insert(digest);
                Judged::Wait
            }
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => Judged::Busy,
        }
    }

    /// Takes note of what was found; whether there was anything.
    pub(crate) fn take_mail(&mut self, now_ms: u64) -> bool {
        let mail = std::mem::take(&mut *self.mailbox.mail.lock().unwrap_or_else(PoisonError::into_inner));
        for (digest, is_right) in &mail {
            self.in_flight.remove(digest);
            if self.known.len() >= KNOWN_MAX {
                self.known.retain(|_, (_, until_ms)| *until_ms > now_ms);
            }
            if self.known.len() >= KNOWN_MAX {
                // Passwords that are forgotten are checked again.
                self.known.clear();
            }
            self.known.insert(*digest, (*is_right, now_ms + if *is_right { RIGHT_MS } else { WRONG_MS }));
        }
        !mail.is_empty()
    }
}

/// Name and password of a field Authorization.
fn credentials(field: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, text) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") || text.len() > CREDENTIALS_BYTES_MAX {
        return None;
    }
    let plain = base64::engine::general_purpose::STANDARD.decode(text.trim_ascii()).ok()?;
    let colon = memchr::memchr(b':', &plain)?;
    let user = String::from_utf8(plain[..colon].to_vec()).ok()?;
    let is_plain = user.bytes().all(|byte| byte >= b' ' && byte != 127);
    is_plain.then(|| (user, plain[colon + 1..].to_vec()))
}

/// The way to the thread that checks; it is started with the first credentials. None = it cannot be.
fn checker() -> Option<&'static SyncSender<Job>> {
    static CHECKER: OnceLock<Option<SyncSender<Job>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = sync_channel(JOBS_MAX);
        let thread = std::thread::Builder::new().name("weir-passwords".to_owned());
        thread.spawn(move || check(&receiver)).ok().map(|_| sender)
    };
    CHECKER.get_or_init(start).as_ref()
}

fn check(jobs: &Receiver<Job>) {
    for job in jobs {
        let is_right = job.auth.is_right(&job.user, &job.password);
        job.reply.mail.lock().unwrap_or_else(PoisonError::into_inner).push((job.digest, is_right));
        job.reply.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Of "secret"; made by libxcrypt and by PHP.
    const HASHES: [&str; 4] = [
        "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$argon2id$v=19$m=64,t=1,p=1$cG80TE9LUkZqTnpTd25CQw$3+iBnaazj9CcRoElFRWsLXu57KKGLVa3E+RquYh7RBU",
        "$argon2i$v=19$m=64,t=1,p=1$bU01eXFEQnNCckFkeTguMA$B33W8kKookEBDKEixd2K3EA2EckZ+Zfn3TymvhjrkrM",
    ];

    #[test]
    fn hashes_of_others_are_understood() {
        for hash in HASHES {
            assert_eq!(hash_problem(hash), None, "{hash}");
            assert!(verify(hash, b"secret"), "{hash}");
            assert!(!verify(hash, b"Secret") && !verify(hash, b""), "{hash}");
        }
    }

    #[test]
    fn hashes_of_other_kinds_are_named() {
        for bad in
            ["", "secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "$apr1$x$y", "$argon2id$v=19$m=1", "$2y$04$short"]
        {
            assert!(hash_problem(bad).is_some(), "{bad}");
        }
        assert!(hash_problem(&HASHES[0].replace("$04$", "$31$")).is_some());
        assert!(hash_problem(&HASHES[2].replace("m=64", "m=999999")).is_some());
    }

    #[test]
    fn credentials_are_read_as_they_are_meant() {
        let encode = |text: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text));
        let read = |text: &str| {
            credentials(text.as_bytes()).map(|(user, password)| (user, String::from_utf8_lossy(&password).into_owned()))
        };
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(read(&encode("anna:a:b")), pair("anna", "a:b"));
        assert_eq!(read(&encode("anna:").replace("Basic", "bASIC")), pair("anna", ""));
        for bad in
            ["", "Basic", "Basic !", "Bearer YTpi", &encode("anna"), &encode("a\0:b"), &encode(&"x:".repeat(999))]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_finds_out_and_the_loop_is_told() {
        let auth = Arc::new(Auth::new("r", HashMap::from([("anna".to_owned(), HASHES[0].to_owned())])));
        let waker = Arc::new(Waker::new().expect("a waker"));
        let mut loop_memory = Credentials::new(waker).expect("randomness");
        let field =
            |text: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text)).into_bytes();
        for (text, expected) in [
            ("anna:secret", Judged::Right("anna".to_owned())),
            ("anna:wrong", Judged::Wrong),
            ("bert:secret", Judged::Wrong),
        ] {
            assert_eq!(loop_memory.judge(&auth, Some(&field(text)), 1), Judged::Wait);
            assert_eq!(loop_memory.judge(&auth, Some(&field(text)), 1), Judged::Wait);
            let deadline = Instant::now() + Duration::from_secs(60);
            while !loop_memory.take_mail(1) {
                assert!(Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(loop_memory.judge(&auth, Some(&field(text)), 2), expected, "{text}");
        }
        assert_eq!(loop_memory.judge(&auth, Some(&field("anna:secret")), 1 + RIGHT_MS), Judged::Wait);
        assert_eq!(loop_memory.judge(&auth, None, 1), Judged::Wrong);
    }
}
