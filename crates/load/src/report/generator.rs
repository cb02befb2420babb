//! How the generator itself fared.

use crate::options::settings::Io;

/// How the generator itself fared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// Share of the time that its busiest thread ran, 0 to 1.
    pub cpu_share: f64,
    /// Share of the time that this thread could have run but waited for the CPU, 0 to 1.
    pub runnable_share: f64,
    /// CPU time of all threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Arrivals that were taken up more than 1 ms after their time.
    pub late: u64,
    /// Whether the generator rather than the server may have set the figures.
    pub bottleneck: bool,
    /// How bytes came and went: [`Io::Uring`] if they did so on any connection, else [`Io::Epoll`].
    pub io: Io,
}
