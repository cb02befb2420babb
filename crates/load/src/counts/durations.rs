//! How long an exchange took.

/// The durations of an exchange whose response is whole, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Durations {
    pub(crate) latency_ns: u64,
    pub(crate) uncorrected_ns: u64,
    pub(crate) first_byte_ns: u64,
}
