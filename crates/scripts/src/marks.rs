//! Marks in the output of one persistent process: the end of a response, and callouts.

use crate::sentinel::{Found, Sentinel};
use std::time::Duration;

/// Bytes of a callout.
const CALLOUT_BYTES_MAX: usize = 4096;
/// Lines for the log of one request.
const NOTICES_MAX: usize = 64;
/// Bytes behind what all marks of a process begin with.
const KIND_BYTES: usize = 4;
const END: &[u8; KIND_BYTES] = b"EOF$";
const ESCAPE: &[u8; KIND_BYTES] = b"ESC$";
const ESCAPE_END: &[u8; KIND_BYTES] = b"EOT$";
/// Minutes of a lifetime, at most: a year.
const LIFETIME_MAX: u64 = 366 * 24 * 60;

/// Whether the response has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sifted {
    /// More is to come.
    Going,
    /// It has ended.
    Ended,
    /// A callout is longer than callouts may be.
    Malformed,
}

/// Reads the output of one process.
#[derive(Debug)]
pub struct Marks {
    start: Sentinel,
    /// Output that may be the start of a mark.
    carried: Vec<u8>,
    /// Whether a newline may follow that belongs to the mark before it.
    is_behind_mark: bool,
    callout: Option<Vec<u8>>,
    said: Said,
    /// Bytes that came with the last end of a response, behind it.
    excess: usize,
}

/// What callouts have asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Lines for the stream of variables.
    pub answers: Vec<u8>,
    /// The form of variables from the next request on.
    pub is_struct: Option<bool>,
    /// How long the process is to be kept without a request; zero = for ever.
    pub idle: Option<Duration>,
    /// For the log.
    pub notices: Vec<String>,
}

impl Marks {
    /// Marks with 32 digits that no script can foresee.
    pub fn new(nonce: &str) -> Self {
        let start = Sentinel::new(format!("$CGIPLUS-{nonce}-").as_bytes());
        Self { start, carried: Vec::new(), is_behind_mark: false, callout: None, said: Said::default(), excess: 0 }
    }

    /// The three marks, with the names of their variables.
    pub fn variables(&self) -> [(&'static str, Vec<u8>); 3] {
        [("CGIPLUSEOF", END), ("CGIPLUSESC", ESCAPE), ("CGIPLUSEOT", ESCAPE_END)]
            .map(|(name, kind)| (name, [self.start.text(), kind].concat()))
    }

    /// What callouts have asked for since this was called last.
    pub fn take_said(&mut self) -> Said {
        std::mem::take(&mut self.said)
    }

    /// Bytes that came with the last end of a response and belong to none.
    pub fn excess(&self) -> usize {
        self.excess
    }

    /// Whether bytes are held that may be the start of a mark, or a callout that has not ended.
    pub(crate) fn is_within(&self) -> bool {
        self.callout.is_some() || !self.carried.is_empty()
    }

    /// Moves the answers to callouts to the end of what a script is told.
    pub(crate) fn take_answers(&mut self, to: &mut Vec<u8>) {
        to.append(&mut self.said.answers);
    }

    /// Appends what was kept of the reads before; how many bytes that are.
    pub fn restore(&mut self, out: &mut Vec<u8>) -> usize {
        let bytes = self.carried.len();
        out.append(&mut self.carried);
        bytes
    }

    /// Takes marks and callouts out of the output behind a place, and keeps what may be the start of one.
    pub fn sift(&mut self, at: usize, out: &mut Vec<u8>) -> Sifted {
        let mut from = at;
        loop {
            if self.is_behind_mark && from < out.len() {
                self.is_behind_mark = false;
                if out[from] == b'\n' {
                    out.remove(from);
                }
            }
            let place = match self.start.find(&out[from..]) {
                Found::No => return self.hold_callout(from, out.len(), out),
                Found::Part(place) => {
                    self.carried.extend_from_slice(&out[from + place..]);
                    out.truncate(from + place);
                    return self.hold_callout(from, from + place, out);
                }
                Found::Whole(place) => from + place,
            };
            let kind_at = place + self.start.text().len();
            let Some(kind) = out.get(kind_at..kind_at + KIND_BYTES) else {
                self.carried.extend_from_slice(&out[place..]);
                out.truncate(place);
                return self.hold_callout(from, place, out);
            };
            let kind: [u8; KIND_BYTES] = [kind[0], kind[1], kind[2], kind[3]];
            self.is_behind_mark = true;
            match (&kind, self.callout.is_some()) {
                (END, _) => {
                    // A callout that was not ended is none.
                    let end = if self.callout.take().is_some() { from } else { place };
                    let behind = &out[kind_at + KIND_BYTES..];
                    self.is_behind_mark = behind.is_empty();
                    self.excess = behind.len() - usize::from(behind.first() == Some(&b'\n'));
                    out.truncate(end);
                    return Sifted::Ended;
                }
                (ESCAPE, false) => {
                    self.callout = Some(Vec::new());
                    out.drain(place..kind_at + KIND_BYTES);
                    from = place;
                }
                (ESCAPE_END, true) => {
                    if let Some(mut text) = self.callout.take() {
                        text.extend_from_slice(&out[from..place]);
                        self.answer(&text);
                    }
                    out.drain(from..kind_at + KIND_BYTES);
                }
                // A mark where it means nothing is output like any other; what follows it is looked at again, for itself.
                _ => {
                    self.is_behind_mark = false;
                    if let Some(text) = &mut self.callout {
                        text.extend_from_slice(&out[from..place]);
                        out.drain(from..kind_at + if &kind == ESCAPE { KIND_BYTES } else { 0 });
                    } else {
                        from = kind_at;
                    }
                }
            }
        }
    }

    /// Within a callout, moves output to it.
    fn hold_callout(&mut self, from: usize, until: usize, out: &mut Vec<u8>) -> Sifted {
        let Some(text) = &mut self.callout else { return Sifted::Going };
        text.extend_from_slice(&out[from..until]);
        out.truncate(from);
        if text.len() > CALLOUT_BYTES_MAX { Sifted::Malformed } else { Sifted::Going }
    }

    /// Answers the lines of a callout.
    fn answer(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let (is_quiet, line) = match line.strip_prefix(b"!").or_else(|| line.strip_prefix(b"#")) {
                Some(line) => (true, line),
                None => (false, line),
            };
            let answer = self.one(&String::from_utf8_lossy(line));
            if !is_quiet {
                self.said.answers.extend_from_slice(answer.as_bytes());
                self.said.answers.push(b'\n');
            }
        }
    }

    fn one(&mut self, line: &str) -> &'static str {
        let (word, rest) = line.split_once(':').unwrap_or((line, ""));
        let rest = rest.trim();
        match (word.trim().to_ascii_uppercase().as_str(), rest.to_ascii_lowercase().as_str()) {
            ("CGIPLUS", "struct") => self.said.is_struct = Some(true),
            ("CGIPLUS", "record") => self.said.is_struct = Some(false),
            ("CGIPLUS", _) => return "400 CGIPLUS: takes struct or record",
            ("LIFETIME", "none" | "do-not-disturb") => self.said.idle = Some(Duration::ZERO),
            ("LIFETIME", minutes) => match minutes.parse::<u64>() {
                Ok(minutes @ 1..=LIFETIME_MAX) => self.said.idle = Some(Duration::from_secs(minutes * 60)),
                _ => return "400 LIFETIME: takes minutes, or none",
            },
            ("NOOP", _) => {}
            ("NOTICED", _) if self.said.notices.len() >= NOTICES_MAX => {
                return "400 NOTICED: is for 64 lines in a request";
            }
            ("NOTICED", _) => self.said.notices.push(rest.to_owned()),
            _ => return "501 weir does not know this callout",
        }
        "200 OK"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes out, and the rest behind the end.
    fn sift(marks: &mut Marks, pieces: &[&[u8]]) -> (Vec<u8>, Option<usize>) {
        let mut output = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let mut out = b"before".to_vec();
            marks.restore(&mut out);
            out.extend_from_slice(piece);
            let sifted = marks.sift(6, &mut out);
            output.extend_from_slice(&out[6..]);
            if sifted != Sifted::Going {
                return (output, Some(number));
            }
        }
        (output, None)
    }

    fn texts(marks: &Marks) -> [Vec<u8>; 3] {
        marks.variables().map(|(_, text)| text)
    }

    #[test]
    fn a_response_ends_with_its_mark_and_the_newline_belongs_to_it() {
        let mut marks = Marks::new("0f");
        let [end, ..] = texts(&marks);
        let response = [b"a\n\nb$CGIPLUS-0e-EOF$", &end[..], b"\n"].concat();
        assert_eq!(sift(&mut marks, &[&response]), (b"a\n\nb$CGIPLUS-0e-EOF$".to_vec(), Some(0)));
        // The newline may come with the next response.
        let mut marks = Marks::new("0f");
        assert_eq!(sift(&mut marks, &[&[b"a", &end[..]].concat()]), (b"a".to_vec(), Some(0)));
        assert_eq!(sift(&mut marks, &[b"\n", b"\nb", &end]), (b"\nb".to_vec(), Some(2)));
        assert_eq!(sift(&mut marks, &[b"c", &end[..5], &end[5..12], &end[12..]]), (b"c".to_vec(), Some(3)));
    }

    #[test]
    fn callouts_are_taken_out_and_answered() {
        let mut marks = Marks::new("0f");
        let [end, escape, escape_end] = texts(&marks);
        let all = [
            b"a",
            &escape[..],
            b"\nCGIPLUS: struct\n!lifetime: 5\nNOTICED: x y\nMAP-FILE: /\nLIFETIME: 0\n",
            &escape_end,
            b"\nb",
            &end,
        ]
        .concat();
        assert_eq!(sift(&mut marks, &[&all]), (b"ab".to_vec(), Some(0)));
        let said = marks.take_said();
        let answers = "200 OK\n200 OK\n501 weir does not know this callout\n400 LIFETIME: takes minutes, or none\n";
        assert_eq!(String::from_utf8_lossy(&said.answers), answers);
        assert_eq!((said.is_struct, said.idle), (Some(true), Some(Duration::from_secs(300))));
        assert_eq!(said.notices, ["x y"]);
        let endless = [&escape[..], &[b'x'; CALLOUT_BYTES_MAX + 1]].concat();
        let mut out = endless;
        assert_eq!(marks.sift(0, &mut out), Sifted::Malformed);
    }

    #[test]
    fn what_stands_around_a_mark_without_meaning_becomes_no_mark() {
        let [end, escape, _] = texts(&Marks::new("0f"));
        let (start, rest) = end.split_at(5);
        // Within a callout, a mark is put into the midst of another one, and one stands before another.
        for within in [[start, &escape[..], rest].concat(), b"$CGIPLUS-0f-".to_vec()] {
            let all = [&escape[..], &within, b"x", &end].concat();
            let pieces: Vec<_> = all.chunks(1).collect();
            let mut marks = Marks::new("0f");
            assert_eq!(sift(&mut marks, &pieces), (Vec::new(), Some(pieces.len() - 1)));
            assert_eq!(sift(&mut Marks::new("0f"), &[&all]), (Vec::new(), Some(0)));
            assert_eq!(marks.excess(), 0);
        }
        let all = [&escape[..], b"$CGIPLUS-0f-", &end].concat();
        assert_eq!(sift(&mut Marks::new("0f"), &[&all]), (Vec::new(), Some(0)));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            parts in prop::collection::vec(prop_oneof![
                Just(0_usize), Just(1), Just(2), Just(3), Just(4), Just(5),
            ], 0..12),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let [end, escape, escape_end] = texts(&Marks::new("0f"));
            let words: [&[u8]; 6] = [b"x", b"\n", &escape, &escape_end, b"$CGIPLUS-0f", b"NOOP:\n"];
            let mut all: Vec<u8> = parts.iter().flat_map(|&part| words[part].to_vec()).collect();
            all.extend_from_slice(&end);
            let mut whole = Marks::new("0f");
            let (expected, _) = sift(&mut whole, &[&all]);
            let mut pieces = Vec::new();
            let (mut rest, mut cuts) = (&all[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            let mut marks = Marks::new("0f");
            let (output, ended) = sift(&mut marks, &pieces);
            prop_assert_eq!(output, expected);
            prop_assert_eq!(ended, Some(pieces.len() - 1));
            prop_assert_eq!(marks.take_said(), whole.take_said());
        }
    }
}
