//! Why a line or a record is left out, and how often each reason was met.

/// Why a line or a record is no request that can be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is longer than [`crate::LINE_BYTES_MAX`].
    TooLong,
    /// It is of no form that is known.
    Form,
    /// Its time cannot be read.
    Time,
    /// Its time does not fit what counts seconds since 1970 in 32 bits.
    Century,
    /// Its quotes are not closed.
    Cut,
    /// A line end is lost in it.
    TwoRequests,
    /// Its connection brought no request.
    NoRequest,
    /// Its client sent bytes that are no HTTP, such as TLS to a plain port.
    NoHttp,
    /// The server could not read its request.
    BadRequest,
    /// It is the preface of HTTP/2, which the server did not speak.
    Preface,
    /// It asks for a tunnel.
    Tunnel,
    /// It asks for the server itself.
    Server,
    /// Its request has no version.
    Version,
    /// Its method is none.
    Method,
    /// Its path does not begin with a slash.
    Path,
    /// It is a comment.
    Comment,
    /// It is no object of JSON.
    NotJson,
    /// It is a part of an object of JSON.
    JsonOverLines,
    /// It holds more than one object of JSON.
    JsonSeveral,
    /// It is an object without a time.
    JsonTime,
    /// It is an object without a request.
    JsonRequest,
    /// Its `#Fields` do not name what is needed.
    W3cFields,
    /// It has fewer fields than `#Fields` names.
    W3cShort,
    /// The log ends within the record.
    RecordCut,
    /// The record's status is none.
    RecordStatus,
}

impl Reason {
    /// What is wrong with it, as the end of a sentence about the line.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::TooLong => "it is too long",
            Self::Form => "it is not HOST IDENT USER [TIME] \"METHOD PATH PROTOCOL\" STATUS BYTES",
            Self::Time => "its time is not like 10/Oct/2000:13:55:36 -0700 or 2000-10-10T13:55:36-07:00",
            Self::Century => "its time lies before 1970 or after 2105",
            Self::Cut => "it is cut: its quotes are not closed",
            Self::TwoRequests => "it holds two requests: a line end is lost",
            Self::NoRequest => "it holds no request, as of a connection that was closed without one",
            Self::NoHttp => "its client sent no HTTP, as where it speaks TLS to a plain port",
            Self::BadRequest => "its server could not read the request",
            Self::Preface => "it is the preface of HTTP/2, which the server did not speak",
            Self::Tunnel => "its method cannot be asked: CONNECT makes a tunnel",
            Self::Server => "it asks for the server itself (*), not for a path",
            Self::Version => "its request has no HTTP version",
            Self::Method => "its method cannot be asked",
            Self::Path => "its path does not begin with /",
            Self::Comment => "it is a comment",
            Self::NotJson => "it is no object of JSON",
            Self::JsonOverLines => "it is a part of an object of JSON; write each in a line, as `jq -c .` does",
            Self::JsonSeveral => "it holds several objects of JSON; write each in a line, as `jq -c .` does",
            Self::JsonTime => "it has no time (time, ts, timestamp) that can be read",
            Self::JsonRequest => "it has no method and target (uri, path, request)",
            Self::W3cFields => "no #Fields above it names date, time, cs-method and cs-uri-stem",
            Self::W3cShort => "it has fewer fields than #Fields names",
            Self::RecordCut => "it is cut",
            Self::RecordStatus => "its status has no such number",
        }
    }

    /// Whether the line was understood, and simply has no request for a path: a log of a server that the Internet
    /// reaches is full of these.
    #[must_use]
    pub fn is_understood(self) -> bool {
        matches!(
            self,
            Self::NoRequest
                | Self::NoHttp
                | Self::BadRequest
                | Self::Preface
                | Self::Tunnel
                | Self::Server
                | Self::Comment
        )
    }
}

/// How many of the lines that are left out are kept to be told of.
pub const TOLD_MAX: usize = 5;

/// What was left out of one or several logs, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    counts: Vec<(Reason, u64)>,
    first: Vec<(String, u64, Reason)>,
}

impl LeftOut {
    /// Counts a line or record: the log's name, its number from 1, and why.
    pub fn push(&mut self, log: &str, number: u64, reason: Reason) {
        match self.counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((reason, 1)),
        }
        if self.first.len() < TOLD_MAX {
            self.first.push((log.to_owned(), number, reason));
        }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// How many of them were not understood: see [`Reason::is_understood`].
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.counts.iter().filter(|(reason, _)| !reason.is_understood()).map(|(_, count)| count).sum()
    }

    /// Whether most of a log was not understood, whose `requests` were read: then what was read says little of it.
    #[must_use]
    pub fn is_most(&self, requests: u64) -> bool {
        let known = requests + self.count() - self.unknown();
        self.unknown() > known
    }

    /// Each reason with how often it was met, in the order in which they were met first.
    #[must_use]
    pub fn by_reason(&self) -> &[(Reason, u64)] {
        &self.counts
    }

    /// The first ones: log, line or record from 1, and why.
    #[must_use]
    pub fn first(&self) -> &[(String, u64, Reason)] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_counted_by_its_reason() {
        let mut left_out = LeftOut::default();
        assert!(!left_out.is_most(0));
        for number in 1..=8 {
            left_out.push("a.log", number, if number % 4 == 0 { Reason::Form } else { Reason::NoRequest });
        }
        assert_eq!((left_out.count(), left_out.unknown()), (8, 2));
        assert_eq!(left_out.by_reason(), [(Reason::NoRequest, 6), (Reason::Form, 2)]);
        assert_eq!((left_out.first().len(), left_out.first()[3].1), (TOLD_MAX, 4));
        // Connections without a request are known, so 2 of 8 were not understood.
        assert!(!left_out.is_most(0));
        (9..=13).for_each(|number| left_out.push("a.log", number, Reason::Form));
        assert!(left_out.is_most(0) && !left_out.is_most(1));
    }
}
