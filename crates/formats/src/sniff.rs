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
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfData => "perf.data",
            Self::TraceDat => "trace.dat",
            Self::FtraceText => "ftrace text",
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
    let head = &head[..head.len().min(HEAD_BYTES)];
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.any(crate::ftrace_text::is_event).then_some(Format::FtraceText)
}
