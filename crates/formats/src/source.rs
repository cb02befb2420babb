//! Which reader a trace goes to.

use crate::chrome_json::read_chrome_json;
use crate::ctf::{is_ctf, read_ctf};
use crate::jfr::read_jfr;
use crate::lines::read_lines;
use crate::otlp::{read_otlp_json, read_otlp_protobuf};
use crate::perfetto::read_perfetto;
use crate::sorter::sorted;
use crate::{Counts, Event, Format, Options, ReadError, read_ftrace_text, read_perf_data, read_trace_dat, sniff};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Bytes of a file that tell its format.
const HEAD_BYTES: u64 = 64 << 10;
const BUFFER_BYTES: usize = 1 << 20;

/// A trace that is open.
#[derive(Debug)]
pub(crate) enum Input {
    File(File),
    /// What cannot be read twice: a pipe, with the bytes that its format was told from.
    Pipe {
        head: Vec<u8>,
        rest: File,
    },
    Folder(PathBuf),
}

impl Input {
    /// Opens a trace and finds its format; none for what is not read.
    pub(crate) fn open(path: &Path, options: &Options) -> std::io::Result<Option<(Self, Format)>> {
        if path.is_dir() {
            return Ok(is_ctf(path).then(|| (Self::Folder(path.to_owned()), Format::Ctf)));
        }
        let is_standard_input = path == Path::new("-");
        let mut input = if is_standard_input {
            File::from(std::io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
        if options.lines.is_some() {
            return Ok(Some((Self::File(input), Format::Lines)));
        }
        let mut head = Vec::new();
        Read::by_ref(&mut input).take(HEAD_BYTES).read_to_end(&mut head)?;
        let Some(format) = sniff(&head) else { return Ok(None) };
        let input = match input.rewind() {
            Ok(()) => Self::File(input),
            Err(error) if error.kind() == ErrorKind::NotSeekable => Self::Pipe { head, rest: input },
            Err(error) => return Err(error),
        };
        Ok(Some((input, format)))
    }
}

/// Hands out the events of a trace.
pub(crate) fn read(
    input: Input,
    format: Format,
    options: &Options,
    take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let markers = &options.markers;
    match (input, format) {
        (Input::Folder(folder), _) => read_ctf(&folder, markers, take),
        (Input::File(file), Format::PerfData) => read_perf_data(file, markers, take),
        (Input::File(file), Format::TraceDat) => read_trace_dat(file, markers, take),
        // It tells events of several threads one after the other.
        (Input::File(file), Format::Jfr) => sorted(take, |take| read_jfr(file, markers, take)),
        (Input::File(file), _) => read_once(BufReader::with_capacity(BUFFER_BYTES, file), format, options, take),
        (Input::Pipe { head, rest }, _) => {
            let rest = BufReader::with_capacity(BUFFER_BYTES, rest);
            read_once(Cursor::new(head).chain(rest), format, options, take)
        }
    }
}

/// Hands out the events of a trace that is read from its begin to its end.
fn read_once(
    input: impl BufRead,
    format: Format,
    options: &Options,
    take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let markers = &options.markers;
    match format {
        Format::FtraceText => read_ftrace_text(input, markers, take),
        // These tell events of several threads one after the other.
        Format::Perfetto => sorted(take, |take| read_perfetto(input, markers, take)),
        Format::ChromeJson => sorted(take, |take| read_chrome_json(input, markers, take)),
        Format::OtlpJson => sorted(take, |take| read_otlp_json(input, take)),
        Format::OtlpProtobuf => sorted(take, |take| read_otlp_protobuf(input, take)),
        Format::Lines => match &options.lines {
            Some(lines) => read_lines(input, lines, markers, take),
            None => Err(ReadError::wrong(0, "the form of its lines is not told: --lines or --line-forms")),
        },
        Format::PerfData | Format::TraceDat | Format::Jfr => {
            let what = format!("{} cannot be read from a pipe: write it into a file first", format.name());
            Err(ReadError::wrong(0, what))
        }
        Format::Ctf => Err(ReadError::wrong(0, "CTF is a directory: name the one that metadata lies in")),
    }
}
