//! The fields of a line: by Apache's letters, or as JSON.

use thiserror::Error;

/// What a line is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) is_json: bool,
    /// Which of both it is, if it is one of them.
    pub(super) clf: Option<Clf>,
}

/// The forms that most logs have (Apache's documentation, mod_log_config).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clf {
    Common,
    Combined,
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Short),
    /// `%h`, `%a`: the client's address.
    Client,
    /// `%u`: the user that was let in.
    User,
    /// `%t`: the time in brackets.
    Time,
    /// The time as RFC 3339 has it.
    Rfc3339,
    /// `%{sec}t`: seconds since 1970.
    Seconds,
    /// `%r`: the first line of the request.
    Line,
    /// `%m`.
    Method,
    /// `%U`: the path as it came.
    Path,
    /// `%q`: the query with its question mark.
    Query,
    /// The target: path and query.
    Target,
    /// `%H`.
    Protocol,
    /// `%s`, `%>s`.
    Status,
    /// `%v`: the host that answered, by its first name.
    Host,
    /// `%{Host}i`: the host that was asked for.
    AskedHost,
    /// `%{Referer}i`.
    Referrer,
    /// `%{User-Agent}i`.
    UserAgent,
    /// What is known at the end only.
    Late(Late),
}

/// Some bytes that stand in every line: as many as a register holds, so that they are written by one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    pub(super) bytes: [u8; TEXT_BYTES],
    pub(super) used: u8,
}

/// Bytes of a format's text that are written at once.
pub(super) const TEXT_BYTES: usize = 8;

impl Short {
    /// A text in as many pieces as it needs.
    fn pieces(text: &str) -> impl Iterator<Item = Piece> {
        text.as_bytes().chunks(TEXT_BYTES).map(|chunk| {
            let mut bytes = [0; TEXT_BYTES];
            bytes[..chunk.len()].copy_from_slice(chunk);
            // A chunk has no more.
            Piece::Text(Self { bytes, used: chunk.len() as u8 })
        })
    }
}

/// What is known only when the response has been sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// `%b`: bytes of the body; `-` where there are none.
    #[default]
    BodyOrDash,
    /// `%B`: bytes of the body.
    Body,
    /// `%O`: bytes with the head.
    All,
    /// `%D`, `%{us}T`; from when the request was read.
    Microseconds,
    /// `%{ms}T`.
    Milliseconds,
    /// `%T`, `%{s}T`.
    Seconds,
}

impl Late {
    /// The one of this place in the order above.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        const ALL: [Late; 6] =
            [Late::BodyOrDash, Late::Body, Late::All, Late::Microseconds, Late::Milliseconds, Late::Seconds];
        ALL.get(usize::from(number)).copied()
    }
}

/// Places in a line for what is known only at the end.
pub(crate) const LATE_MAX: usize = 8;

const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";
const COMBINED: &str = "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"";

impl Format {
    pub(crate) fn common() -> Self {
        // A test reads it.
        Self::read(COMMON).unwrap_or(Self { pieces: Vec::new(), is_json: false, clf: None })
    }

    pub(crate) fn combined() -> Self {
        Self::read(COMBINED).unwrap_or(Self { pieces: Vec::new(), is_json: false, clf: None })
    }

    /// An object for each line.
    pub(crate) fn json() -> Self {
        let fields = [
            ("time", Piece::Rfc3339),
            ("client", Piece::Client),
            ("user", Piece::User),
            ("host", Piece::AskedHost),
            ("method", Piece::Method),
            ("target", Piece::Target),
            ("protocol", Piece::Protocol),
            ("status", Piece::Status),
            ("bytes", Piece::Late(Late::Body)),
            ("duration_us", Piece::Late(Late::Microseconds)),
            ("referrer", Piece::Referrer),
            ("user_agent", Piece::UserAgent),
        ];
        let mut pieces = Vec::new();
        for (number, (name, piece)) in fields.into_iter().enumerate() {
            pieces.extend(Short::pieces(&format!("{}\"{name}\":", if number == 0 { "{" } else { "," })));
            pieces.push(piece);
        }
        pieces.extend(Short::pieces("}"));
        Self { pieces, is_json: true, clf: None }
    }

    /// Reads a format with Apache's letters; else what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, FormatError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            // Which of several requests or statuses is meant: here is only one.
            let after = after.trim_start_matches(['<', '>']);
            let (name, after) = match after.strip_prefix('{') {
                Some(inside) => {
                    let (name, after) = inside.split_once('}').ok_or(FormatError::Unclosed)?;
                    (Some(name), after)
                }
                None => (None, after),
            };
            let letter = after.chars().next().ok_or(FormatError::SignAtEnd)?;
            rest = &after[letter.len_utf8()..];
            match (letter, name) {
                ('%', _) => literal.push('%'),
                // The client's identity by RFC 1413, which no client tells any more.
                ('l', None) => literal.push('-'),
                _ => {
                    pieces.extend(Short::pieces(&std::mem::take(&mut literal)));
                    pieces.push(piece(letter, name)?);
                }
            }
        }
        literal.push_str(rest);
        pieces.extend(Short::pieces(&literal));
        if text.chars().any(char::is_control) {
            return Err(FormatError::Control);
        }
        if pieces.iter().filter(|piece| matches!(piece, Piece::Late(_))).count() > LATE_MAX {
            return Err(FormatError::TooManyLate);
        }
        let clf = match text {
            COMMON => Some(Clf::Common),
            COMBINED => Some(Clf::Combined),
            _ => None,
        };
        Ok(Self { pieces, is_json: false, clf })
    }

    /// Whether a line says how long something took.
    pub(crate) fn has_duration(&self) -> bool {
        let is = |piece: &Piece| matches!(piece, Piece::Late(Late::Microseconds | Late::Milliseconds | Late::Seconds));
        self.pieces.iter().any(is)
    }
}

/// Why a format of lines cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// `%{` without its end.
    #[error("a %{{ has no }}")]
    Unclosed,
    /// `%` without a letter.
    #[error("a % stands at the end; write %% for the sign itself")]
    SignAtEnd,
    /// A line break, for example.
    #[error("a line has no control characters in it")]
    Control,
    /// More than a line has room for of what is known at the end only.
    #[error("at most {LATE_MAX} of %b, %B, %O, %D and %T are possible")]
    TooManyLate,
    /// A field of requests that is not logged.
    #[error("of a request's fields there are %{{Host}}i, %{{Referer}}i and %{{User-Agent}}i")]
    Field,
    /// Another form of the time.
    #[error("a time is %t or %{{sec}}t")]
    Time,
    /// A letter without a meaning.
    #[error("there is no %{letter} here; there are %h %a %l %u %t %r %m %U %q %H %s %v %b %B %O %D %T and %{{...}}i")]
    Letter {
        /// The letter.
        letter: char,
    },
}

fn piece(letter: char, name: Option<&str>) -> Result<Piece, FormatError> {
    let lower = name.map(str::to_ascii_lowercase);
    Ok(match (letter, lower.as_deref()) {
        ('h' | 'a', None) => Piece::Client,
        ('u', None) => Piece::User,
        ('t', None) => Piece::Time,
        ('t', Some("sec")) => Piece::Seconds,
        ('r', None) => Piece::Line,
        ('m', None) => Piece::Method,
        ('U', None) => Piece::Path,
        ('q', None) => Piece::Query,
        ('H', None) => Piece::Protocol,
        ('s', None) => Piece::Status,
        ('v' | 'V', None) => Piece::Host,
        ('i', Some("host")) => Piece::AskedHost,
        ('i', Some("referer")) => Piece::Referrer,
        ('i', Some("user-agent")) => Piece::UserAgent,
        ('b', None) => Piece::Late(Late::BodyOrDash),
        ('B', None) => Piece::Late(Late::Body),
        ('O', None) => Piece::Late(Late::All),
        ('D', None) | ('T', Some("us")) => Piece::Late(Late::Microseconds),
        ('T', Some("ms")) => Piece::Late(Late::Milliseconds),
        ('T', None | Some("s")) => Piece::Late(Late::Seconds),
        ('i', _) => return Err(FormatError::Field),
        ('t', _) => return Err(FormatError::Time),
        _ => return Err(FormatError::Letter { letter }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_apache_has_them() {
        let text = |text: &str| Short::pieces(text).collect::<Vec<_>>();
        let expected = [
            vec![Piece::Client],
            text(" \""),
            vec![Piece::Line],
            text("\" "),
            vec![Piece::Status],
            text(" 100% "),
            vec![Piece::Late(Late::Milliseconds)],
        ]
        .concat();
        assert_eq!(Format::read("%h \"%r\" %>s 100%% %{ms}T").expect("known").pieces, expected);
        assert_eq!(Format::common().pieces.len(), 11);
        assert_eq!(Format::combined().pieces.len(), 16);
        for bad in ["%", "%{x", "%{X}i", "%z", "%{Cookie}i", "a\nb", "%b%b%b%b%b%b%b%b%b"] {
            assert!(Format::read(bad).is_err(), "{bad}");
        }
    }
}
