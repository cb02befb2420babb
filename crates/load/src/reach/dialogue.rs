//! What is said to a proxy until it lets the connection through: a state machine over bytes, without a socket.
//!
//! ```text
//! HTTP:    CONNECT ------------------------------> 2xx: through
//! SOCKS 5: methods -> (user, password ->) connect -> 0: through
//! SOCKS 4: connect ------------------------------> 90: through
//! ```

use crate::reach::answer::{Answer, Step};
pub use crate::reach::answer::{Credentials, Destination, Language};
use crate::reach::refusal::Refusal;
use crate::reach::{http_connect, socks4, socks5};

/// What both sides have said so far.
#[derive(Debug)]
pub struct Dialogue {
    step: Step,
    /// What is said when its turn comes.
    later: Vec<Vec<u8>>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
}

impl Dialogue {
    /// Begins a dialogue.
    ///
    /// # Errors
    /// What cannot be said in this language, such as a name of more than 255 bytes.
    pub fn new(language: Language, to: &Destination, credentials: Option<&Credentials>) -> Result<Self, Refusal> {
        let (step, mut later) = match language {
            Language::HttpConnect => (Step::HttpConnect, vec![http_connect::request(to, credentials)]),
            Language::Socks5 => {
                let (methods, login) = socks5::beginning(credentials)?;
                let login_offered = credentials.is_some();
                (Step::Socks5Method { login_offered }, vec![methods, login, socks5::connect(to)?])
            }
            Language::Socks4 => (Step::Socks4Connect, vec![socks4::connect(to, credentials)?]),
        };
        later.reverse();
        let out = later.pop().unwrap_or_default();
        Ok(Self { step, later, out, sent: 0, input: Vec::new() })
    }

    /// The bytes that are to go to the proxy now.
    #[must_use]
    pub fn to_send(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// So many of them went.
    pub fn sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.out.len());
    }

    /// Whether the proxy has let the connection through.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.step == Step::Through
    }

    /// Takes bytes of the proxy.
    ///
    /// # Errors
    /// The proxy refused, or its answer makes no sense. Bytes behind its last answer are an error, too: the client
    /// speaks first through a tunnel.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.input.extend_from_slice(bytes);
        while !self.is_through() && !self.input.is_empty() {
            let answer = match self.step {
                Step::HttpConnect => http_connect::answer(&self.input)?,
                Step::Socks5Method { login_offered } => socks5::method(&self.input, login_offered)?,
                Step::Socks5Login => socks5::login(&self.input)?,
                Step::Socks5Connect => socks5::connected(&self.input)?,
                Step::Socks4Connect => socks4::connected(&self.input)?,
                Step::Through => break,
            };
            match answer {
                Answer::Unfinished => return Ok(()),
                Answer::Next { taken, step, login_passed_over } => {
                    if !self.to_send().is_empty() {
                        return Err(Refusal::new("the proxy answered before it was asked"));
                    }
                    self.input.drain(..taken);
                    self.step = step;
                    if login_passed_over {
                        self.later.pop();
                    }
                    if step != Step::Through && step != Step::HttpConnect {
                        self.out = self.later.pop().unwrap_or_default();
                        self.sent = 0;
                    }
                }
            }
        }
        match self.input.len() {
            0 => Ok(()),
            count => Err(Refusal(format!("the proxy sent {count} bytes behind its answer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to(host: &str, address: Option<&str>) -> Destination {
        Destination { host: host.into(), port: 443, address: address.map(|a| a.parse().expect("an address")) }
    }

    fn credentials() -> Credentials {
        Credentials { user: "me".into(), password: "pw".into() }
    }

    fn begun(language: Language, destination: &Destination, login: bool) -> Dialogue {
        let who = credentials();
        Dialogue::new(language, destination, login.then_some(&who)).expect("it can be said")
    }

    fn said(dialogue: &mut Dialogue) -> Vec<u8> {
        let bytes = dialogue.to_send().to_vec();
        dialogue.sent(bytes.len());
        bytes
    }

    #[test]
    fn socks5_with_and_without_a_login() {
        let mut dialogue = begun(Language::Socks5, &to("h.test", None), true);
        assert_eq!(said(&mut dialogue), [5, 2, 0, 2]);
        dialogue.receive(&[5, 2]).expect("the login");
        assert_eq!(said(&mut dialogue), b"\x01\x02me\x02pw");
        dialogue.receive(&[1, 0]).expect("let in");
        assert_eq!(said(&mut dialogue), b"\x05\x01\x00\x03\x06h.test\x01\xbb");
        for byte in [5, 0, 0, 1, 127, 0, 0, 1, 0] {
            dialogue.receive(&[byte]).expect("in pieces");
            assert!(!dialogue.is_through());
        }
        dialogue.receive(&[80]).expect("the end");
        assert!(dialogue.is_through() && dialogue.to_send().is_empty());
        // A proxy may want no login although one was offered.
        let mut dialogue = begun(Language::Socks5, &to("h", Some("::1")), true);
        said(&mut dialogue);
        dialogue.receive(&[5, 0]).expect("no login");
        assert_eq!(said(&mut dialogue)[..5], [5, 1, 0, 4, 0]);
        dialogue.receive(b"\x05\x00\x00\x03\x01h\x00\x50").expect("a name is bound");
        assert!(dialogue.is_through());
    }

    #[test]
    fn socks4_and_4a() {
        let mut dialogue = begun(Language::Socks4, &to("h", Some("127.0.0.1")), true);
        assert_eq!(said(&mut dialogue), b"\x04\x01\x01\xbb\x7f\x00\x00\x01me\x00");
        dialogue.receive(&[0, 90, 0, 0, 0, 0, 0, 0]).expect("granted");
        assert!(dialogue.is_through());
        assert_eq!(
            said(&mut begun(Language::Socks4, &to("h", None), false)),
            b"\x04\x01\x01\xbb\x00\x00\x00\x01\x00h\x00"
        );
        let error = Dialogue::new(Language::Socks4, &to("h", Some("::1")), None).expect_err("version 4 only");
        assert!(error.0.contains("IPv4"), "{error}");
    }

    #[test]
    fn connect_with_a_login_and_interim_answers() {
        let mut dialogue = begun(Language::HttpConnect, &to("::1", None), true);
        let text = String::from_utf8(said(&mut dialogue)).expect("text");
        assert!(text.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"), "{text}");
        assert!(text.ends_with("Proxy-Authorization: Basic bWU6cHc=\r\n\r\n"), "{text}");
        dialogue.receive(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Connection est").expect("not whole");
        assert!(!dialogue.is_through());
        dialogue.receive(b"ablished\r\nContent-Length: 0\r\n\r\n").expect("through");
        assert!(dialogue.is_through());
    }

    #[test]
    fn refusals_are_in_the_proxys_words() {
        let refused = |language, login, answers: &[&[u8]]| {
            let mut dialogue = begun(language, &to("h", Some("127.0.0.1")), login);
            for answer in answers {
                said(&mut dialogue);
                if let Err(refusal) = dialogue.receive(answer) {
                    return refusal.0;
                }
            }
            panic!("not refused: {dialogue:?}")
        };
        use Language::{HttpConnect, Socks4, Socks5};
        for (words, given) in [
            (
                "407 Proxy Authentication Required",
                refused(HttpConnect, false, &[b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"]),
            ),
            (
                "403 Forbidden",
                refused(HttpConnect, false, &[b"HTTP/1.0 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!"]),
            ),
            ("not HTTP", refused(HttpConnect, false, &[b"SSH-2.0-OpenSSH\r\n\r\n"])),
            ("behind its answer", refused(HttpConnect, false, &[b"HTTP/1.1 200 OK\r\n\r\nmore"])),
            ("no way of login", refused(Socks5, false, &[&[5, 255]])),
            ("that was not offered", refused(Socks5, false, &[&[5, 2]])),
            ("user and password", refused(Socks5, true, &[&[5, 2], &[1, 1]])),
            ("not allowed", refused(Socks5, false, &[&[5, 0], &[5, 2, 0, 1]])),
            ("connection refused", refused(Socks5, false, &[&[5, 0], &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]])),
            ("code 77", refused(Socks5, false, &[&[5, 0], &[5, 77, 0, 1]])),
            ("not SOCKS 5", refused(Socks5, false, &[b"HTTP"])),
            ("rejected", refused(Socks4, false, &[&[0, 91, 0, 0, 0, 0, 0, 0]])),
            ("not SOCKS 4", refused(Socks4, false, &[&[5, 0, 0, 0, 0, 0, 0, 0]])),
        ] {
            assert!(given.contains(words), "{words}: {given}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_understood_or_refused_in_any_pieces(
            language in 0..3usize,
            login: bool,
            begin in 0..4usize,
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            cuts in proptest::collection::vec(1..9usize, 1..20),
        ) {
            let language = [Language::HttpConnect, Language::Socks5, Language::Socks4][language];
            let head: &[u8] = [&b""[..], b"HTTP/1.1 2", &[5, 0], &[5, 2, 1, 0]][begin];
            let bytes = [head, &bytes].concat();
            let run = |cuts: &[usize]| {
                let mut dialogue = begun(language, &to("h", Some("127.0.0.1")), login);
                let (mut at, mut turn) = (0, 0);
                while at < bytes.len() {
                    said(&mut dialogue);
                    let end = (at + cuts[turn % cuts.len()]).min(bytes.len());
                    turn += 1;
                    if dialogue.receive(&bytes[at..end]).is_err() {
                        return None;
                    }
                    at = end;
                }
                Some(dialogue.is_through())
            };
            // Byte by byte a proxy may speak out of turn unseen; otherwise pieces change nothing.
            let (one, other) = (run(&[1]), run(&cuts));
            if other.is_some() && one.is_some() {
                prop_assert_eq!(one, other);
            }
        }
    }
}
