//! Which format a file has, by how it begins.

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `perf record`.
    PerfData,
    /// `trace-cmd record`.
    TraceDat,
    /// The text of ftrace, `trace-cmd report` and `perf script`.
    FtraceText,
    /// A directory of LTTng's, or of `perf data convert --to-ctf`.
    Ctf,
    /// Perfetto's protobuf.
    Perfetto,
    /// The JSON of Chrome's trace viewer.
    ChromeJson,
    /// The flight recorder of Java.
    Jfr,
    /// OpenTelemetry's spans as JSON, one export or one a line.
    OtlpJson,
    /// OpenTelemetry's spans as protobuf.
    OtlpProtobuf,
    /// Lines of a form that the user names.
    Lines,
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfData => "perf.data",
            Self::TraceDat => "trace.dat",
            Self::FtraceText => "ftrace text",
            Self::Ctf => "CTF",
            Self::Perfetto => "Perfetto",
            Self::ChromeJson => "Chrome JSON",
            Self::Jfr => "JFR",
            Self::OtlpJson => "OTLP JSON",
            Self::OtlpProtobuf => "OTLP protobuf",
            Self::Lines => "lines",
        }
    }
}

/// Bytes of a file's begin that suffice.
const HEAD_BYTES: usize = 64 << 10;

/// The format of a file that begins so; none for one that is not read.
#[must_use]
pub fn sniff(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Some(Format::PerfData);
    }
    if head.starts_with(b"\x17\x08\x44tracing") {
        return Some(Format::TraceDat);
    }
    if head.starts_with(b"FLR\0") {
        return Some(Format::Jfr);
    }
    let head = &head[..head.len().min(HEAD_BYTES)];
    let text = head.trim_ascii_start();
    if matches!(text.first(), Some(b'{' | b'[')) {
        return json(text);
    }
    // Both are messages of protobuf whose field 1 repeats: Perfetto's packets and OpenTelemetry's resources.
    if head.first() == Some(&0x0a) {
        return protobuf(head);
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.any(crate::ftrace_text::is_event).then_some(Format::FtraceText)
}

fn json(text: &[u8]) -> Option<Format> {
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    if has(b"\"resourceSpans\"") || has(b"\"resource_spans\"") {
        return Some(Format::OtlpJson);
    }
    let is_chrome = text.starts_with(b"[") || has(b"\"traceEvents\"") || has(b"\"ph\"");
    is_chrome.then_some(Format::ChromeJson)
}

/// Tells the two apart by what the first message holds: OpenTelemetry's resources have the fields 1 to 3 alone, all of
/// them messages or texts; Perfetto's packets have numbers, messages of higher fields, or, as field 1, events that begin
/// with the number of a CPU.
fn protobuf(head: &[u8]) -> Option<Format> {
    let mut message = crate::protobuf::Message::new(head);
    let (_, first) = message.next_within()?;
    let crate::protobuf::Field::Bytes(first) = first else { return None };
    let mut inner = crate::protobuf::Message::new(first);
    while let Some((number, field)) = inner.next_within() {
        match field {
            crate::protobuf::Field::Bytes(bytes) if number == 1 && bytes.first() == Some(&0x08) => {
                return Some(Format::Perfetto);
            }
            crate::protobuf::Field::Bytes(_) if (1..=3).contains(&number) => {}
            _ => return Some(Format::Perfetto),
        }
    }
    Some(Format::OtlpProtobuf)
}
