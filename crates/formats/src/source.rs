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
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Bytes of a file that tell its format.
const HEAD_BYTES: u64 = 64 << 10;
const BUFFER_BYTES: usize = 1 << 20;

/// A trace that is open.
#[derive(Debug)]
pub(crate) enum Input {
    File(File),
    Folder(PathBuf),
}

impl Input {
    /// Opens a trace and finds its format; none for what is not read.
    pub(crate) fn open(path: &Path, options: &Options) -> std::io::Result<Option<(Self, Format)>> {
        if path.is_dir() {
            return Ok(is_ctf(path).then(|| (Self::Folder(path.to_owned()), Format::Ctf)));
        }
        let mut input = File::open(path)?;
        if options.lines.is_some() {
            return Ok(Some((Self::File(input), Format::Lines)));
        }
        let mut head = Vec::new();
        Read::by_ref(&mut input).take(HEAD_BYTES).read_to_end(&mut head)?;
        input.rewind()?;
        Ok(sniff(&head).map(|format| (Self::File(input), format)))
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
    let file = match input {
        Input::Folder(folder) => return read_ctf(&folder, markers, take),
        Input::File(file) => file,
    };
    let text = |file| BufReader::with_capacity(BUFFER_BYTES, file);
    match format {
        Format::PerfData => read_perf_data(file, markers, take),
        Format::TraceDat => read_trace_dat(file, markers, take),
        Format::FtraceText => read_ftrace_text(text(file), markers, take),
        // These tell events of several threads one after the other.
        Format::Perfetto => sorted(take, |take| read_perfetto(text(file), markers, take)),
        Format::ChromeJson => sorted(take, |take| read_chrome_json(text(file), markers, take)),
        Format::Jfr => sorted(take, |take| read_jfr(file, markers, take)),
        Format::OtlpJson => sorted(take, |take| read_otlp_json(text(file), take)),
        Format::OtlpProtobuf => sorted(take, |take| read_otlp_protobuf(text(file), take)),
        Format::Lines => match &options.lines {
            Some(lines) => read_lines(text(file), lines, markers, take),
            None => Err(ReadError::wrong(0, "the form of its lines is not told: --lines")),
        },
        Format::Ctf => Err(ReadError::wrong(0, "CTF is a directory: name the one that metadata lies in")),
    }
}
