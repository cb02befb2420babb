//! Samples of the tests as traces of any length: a body that is repeated, with later times each time.

use std::io::{Read, Write};
use std::path::Path;

/// How a time is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// `12.000000345`, seconds.
    Seconds,
    /// `12.345`, microseconds.
    Micros,
    /// A whole number of nanoseconds.
    Nanos,
    /// Eight bytes.
    Little,
    /// Eight bytes.
    Big,
    /// A number of protobuf's, of ten bytes always.
    Varint,
}

/// What stands before a time, and the time, nanoseconds.
#[derive(Debug)]
struct Piece {
    before: Vec<u8>,
    form: Form,
    at_ns: u64,
}

/// A part of a trace whose times are known.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pieces: Vec<Piece>,
    rest: Vec<u8>,
    /// How long it lasts, where its times do not say it, nanoseconds.
    pub(crate) lasts_ns: Option<u64>,
}

/// A trace: what comes once, what is repeated, what ends it.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Body,
    pub(crate) end: Vec<u8>,
}

/// The bytes of a sample of the tests, unpacked.
pub(crate) fn bytes(name: &str) -> std::io::Result<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = std::fs::read(path)?;
    if !name.ends_with(".gz") {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

/// A number of protobuf's, of ten bytes.
pub(crate) fn varint(number: u64) -> [u8; 10] {
    let mut bytes: [u8; 10] = std::array::from_fn(|index| (number >> (7 * index).min(63)) as u8 & 0x7f | 0x80);
    bytes[9] = (number >> 63) as u8;
    bytes
}

impl Form {
    fn write(self, at_ns: u64, to: &mut Vec<u8>) {
        let outcome = match self {
            Self::Seconds => write!(to, "{}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000),
            Self::Micros => write!(to, "{}.{:03}", at_ns / 1_000, at_ns % 1_000),
            Self::Nanos => write!(to, "{at_ns}"),
            Self::Little => to.write_all(&at_ns.to_le_bytes()),
            Self::Big => to.write_all(&at_ns.to_be_bytes()),
            Self::Varint => to.write_all(&varint(at_ns)),
        };
        outcome.expect("memory takes all");
    }
}

impl Body {
    /// Bytes of which some places hold times: `(where, bytes of it, its form, its value)`, in order.
    pub(crate) fn new(bytes: &[u8], times: impl IntoIterator<Item = (usize, usize, Form, u64)>) -> Self {
        let (mut pieces, mut from) = (Vec::new(), 0);
        for (at, length, form, at_ns) in times {
            pieces.push(Piece { before: bytes[from..at].to_vec(), form, at_ns });
            from = at + length;
        }
        Self { pieces, rest: bytes[from..].to_vec(), lasts_ns: None }
    }

    /// Text in which times stand behind a word: the first digit behind each, up to what is no digit and no point.
    pub(crate) fn of_text(text: &[u8], words: &[(&str, Form)]) -> Self {
        let mut times = Vec::new();
        for (word, form) in words {
            for found in memchr::memmem::find_iter(text, word.as_bytes()) {
                let at = found + word.len();
                let length = text[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                let written = String::from_utf8_lossy(&text[at..at + length]).into_owned();
                times.push((at, length, *form, nanoseconds(&written, *form)));
            }
        }
        times.sort_by_key(|(at, ..)| *at);
        Self::new(text, times)
    }

    /// How long it lasts, and a little more, nanoseconds.
    pub(crate) fn span_ns(&self) -> u64 {
        let times = || self.pieces.iter().map(|piece| piece.at_ns);
        let by_times = || times().max().unwrap_or(0) - times().min().unwrap_or(0);
        self.lasts_ns.unwrap_or_else(by_times) + 1_000_000
    }

    /// Writes it once more, so much later.
    pub(crate) fn write(&self, later_ns: u64, to: &mut Vec<u8>) {
        for Piece { before, form, at_ns } in &self.pieces {
            to.extend_from_slice(before);
            form.write(at_ns + later_ns, to);
        }
        to.extend_from_slice(&self.rest);
    }
}

fn nanoseconds(written: &str, form: Form) -> u64 {
    let (whole, fraction) = written.split_once('.').unwrap_or((written, ""));
    let digits = match form {
        Form::Seconds => 9,
        Form::Micros => 3,
        _ => 0,
    };
    let text = format!("{whole}{fraction:0<digits$}");
    text.parse().expect("a time of a sample")
}

impl Sample {
    /// Writes the trace with so many bytes, or somewhat more.
    pub(crate) fn write(&self, bytes: u64, mut to: impl Write) -> std::io::Result<()> {
        to.write_all(&self.head)?;
        let (mut written, mut later_ns, mut piece) = (0, 0, Vec::new());
        while written < bytes {
            piece.clear();
            while piece.len() < 1 << 20 {
                self.body.write(later_ns, &mut piece);
                later_ns += self.body.span_ns();
            }
            to.write_all(&piece)?;
            written += piece.len() as u64;
        }
        to.write_all(&self.end)?;
        to.flush()
    }
}
