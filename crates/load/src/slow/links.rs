//! Lines that clients are known to have.

use std::time::Duration;

/// How a client is connected to the network. A connection is one client's line: the streams of HTTP/2 and HTTP/3 share it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Bytes a second that it reads, if that is limited; over TLS those of the records, over QUIC those of the datagrams.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes a second that it writes, if that is limited; counted likewise.
    pub write_bytes_per_s: Option<f64>,
    /// What is added to the time of a round trip.
    pub latency: Duration,
}

/// Name, bits a second to the client and from it, added latency of a round trip in milliseconds.
///
/// The modem is http_load's: 3360 bytes a second of 33.6 kbit/s, as a byte takes ten bits on a serial line.
/// ISDN is the 64 kbit/s of a B channel (ITU-T I.412), without latency, as the standard gives none.
/// All others are the profiles of WebPageTest (settings/connectivity.ini.sample).
const KNOWN: [(&str, u32, u32, u32); 12] = [
    ("modem", 26_880, 26_880, 120),
    ("56k", 49_000, 30_000, 120),
    ("isdn", 64_000, 64_000, 0),
    ("dsl", 1_500_000, 384_000, 50),
    ("cable", 5_000_000, 1_000_000, 28),
    ("fiber", 20_000_000, 5_000_000, 4),
    ("edge", 240_000, 200_000, 840),
    ("2g", 280_000, 256_000, 800),
    ("3g-slow", 400_000, 400_000, 400),
    ("3g", 1_600_000, 768_000, 300),
    ("4g", 9_000_000, 9_000_000, 170),
    ("lte", 12_000_000, 12_000_000, 70),
];

impl Link {
    /// The line of a name, such as `modem`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (_, read, write, latency_ms) = KNOWN.into_iter().find(|(known, ..)| *known == name)?;
        Some(Self {
            read_bytes_per_s: Some(f64::from(read) / 8.0),
            write_bytes_per_s: Some(f64::from(write) / 8.0),
            latency: Duration::from_millis(u64::from(latency_ms)),
        })
    }

    /// The names that are known.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.into_iter().map(|(name, ..)| name)
    }

    /// What may be received before its time, in bytes: within the kernel and within the generator.
    ///
    /// Each is a quarter of a second's worth, so that nothing runs dry within a round trip; the kernel's at least 2304
    /// bytes, below which it does not go, and the generator's between 2 KiB and 64 KiB. The generator's holds, beside
    /// that, what is on its way along the line: what has come and is not shown for half of the latency. As it is filled
    /// again only where half of it is free, that is the worth of the whole latency, up to 1 MiB.
    #[must_use]
    pub fn receive_buffers(&self) -> Option<(usize, usize)> {
        let rate = self.read_bytes_per_s?;
        let each = rate / 4.0;
        let on_its_way = (rate * self.latency.as_secs_f64()).min(f64::from(1 << 20));
        // At most what the kernel takes for a signed number.
        Some((each.clamp(2304.0, f64::from(1 << 30)) as usize, (each.clamp(2048.0, 65_536.0) + on_its_way) as usize))
    }

    /// What a server may send over QUIC ahead of what was taken, in bytes: as much as may be received before its time over
    /// TCP.
    pub(crate) fn line_bytes(&self) -> Option<u64> {
        self.receive_buffers().map(|(kernel, own)| (kernel + own) as u64)
    }

    /// What the kernel is asked for, which makes it twice as large.
    pub(crate) fn receive_buffer(&self) -> Option<i32> {
        Some((self.receive_buffers()?.0 / 2) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_by_their_names() {
        let modem = Link::named("modem").expect("it is known");
        assert_eq!((modem.read_bytes_per_s, modem.receive_buffer()), (Some(3360.0), Some(1152)));
        let dsl = Link::named("dsl").expect("it is known");
        assert_eq!((dsl.receive_buffers(), dsl.receive_buffer()), (Some((46_875, 56_250)), Some(23_437)));
        assert_eq!(Link::default().receive_buffer(), None);
        assert!(Link::names().all(|name| Link::named(name).is_some()) && Link::named("MODEM").is_none());
    }
}
