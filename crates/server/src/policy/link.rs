//! A client's bandwidth and round trip, from what the kernel counts of its connection anyway (TCP_INFO).
//!
//! The bandwidth is what the client has acknowledged over the time in which there was something to send:
//! `tcpi_bytes_acked` over `tcpi_busy_time`. Time in which the client's own window was full (`tcpi_rwnd_limited`) is
//! part of that, since a client that reads slowly is a slow client. Where our own buffer was the limit
//! (`tcpi_sndbuf_limited`) the client could have taken more, so that such a reading only raises the estimate.
//! `tcpi_delivery_rate` is the rate of the last segments only, without the pauses around them, and is of no use here.

use crate::policy::advice::Link;
use crate::policy::link_prior::Priors;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// Connections whose readings a loop keeps.
const LINKS_MAX: usize = 4096;
/// Connections whose last look is at hand without a search, each in the place of its number.
const AT_HAND: usize = 256;
/// From one look to the next, of one connection.
pub(crate) const LOOK_MS: u64 = 100;
/// After so long without a look a connection's readings are given away where room is wanted.
const UNUSED_MS: u64 = 30_000;
/// A reading is made of so many bytes, or of so long a time: less says how large the first window was.
const READING_BYTES_MIN: u64 = 128 << 10;
const READING_US_MIN: u64 = 50_000;
/// So many bytes that were taken say how fast a client is at least: more than a line lets through at once.
const BOUND_BYTES_MIN: u64 = 16 << 10;
/// The kernel counts time in its ticks, the longest of which is this (100 a second): what took less counts as that, and
/// as a bound, as it may have been faster.
const TICK_US: u64 = 10_000;
/// Round trips that a reading by time takes at least: until then TCP tries out how much it may send.
const READING_TRIPS_MIN: u64 = 4;
/// After so much time with something to send, two thirds of what is known are new.
const MEMORY_US: f64 = 500_000.0;
/// From one word on a connection's round trip to the next, where no bandwidth is told with it.
const RTT_TOLD_MS: u64 = 1_000;
/// The least weight of a reading.
const WEIGHT_MIN: f64 = 0.25;

/// What the kernel has counted of a connection, from its beginning; `struct tcp_info` of linux/tcp.h.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) acked_bytes: u64,
    pub(crate) busy_us: u64,
    /// Of it, time in which our buffer was full.
    pub(crate) sndbuf_limited_us: u64,
    /// 0 = unknown.
    pub(crate) rtt_us: u32,
    pub(crate) min_rtt_us: u32,
}

impl Counted {
    /// Asks the kernel; none for what is no TCP, or of a kernel before 4.10.
    pub(crate) fn read(socket: RawFd) -> Option<Self> {
        const WANTED: usize = 192;
        let mut info = [0_u8; WANTED];
        let mut len = WANTED as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into the memory; both live over the call.
        let result = unsafe {
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
        };
        if result != 0 || (len as usize) < WANTED {
            return None;
        }
        // Places in the structure, which grows at its end only.
        let short = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| info[at + byte]));
        Some(Self {
            acked_bytes: long(120),
            busy_us: long(168),
            sndbuf_limited_us: long(184),
            rtt_us: short(68),
            min_rtt_us: short(148),
        })
    }
}

/// What is known of one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    base: Counted,
    looked_ms: u64,
    link: Link,
    /// When others of the client were told of its round trip; none: they were not.
    rtt_told_ms: Option<u64>,
    /// The same, with what is expected of the client where nothing was measured.
    told: Link,
}

impl Probe {
    /// Takes in what the kernel says now; the bandwidth since the last reading, where that is enough for one.
    fn take(&mut self, now: Counted) -> Option<f64> {
        self.link.rtt_s = (now.rtt_us > 0).then(|| f64::from(now.rtt_us) / 1e6);
        let acked_bytes = now.acked_bytes.saturating_sub(self.base.acked_bytes);
        let busy_us = now.busy_us.saturating_sub(self.base.busy_us);
        let limited_us = now.sndbuf_limited_us.saturating_sub(self.base.sndbuf_limited_us);
        let trips_us = READING_TRIPS_MIN * u64::from(now.min_rtt_us);
        let is_long = busy_us >= READING_US_MIN && busy_us >= trips_us;
        if !(is_long || acked_bytes >= READING_BYTES_MIN) {
            return None;
        }
        self.base = now;
        let reading_bps = acked_bytes as f64 * 8e6 / busy_us.max(TICK_US) as f64;
        let is_ours = limited_us * 2 > busy_us;
        let is_bound = is_ours || busy_us < TICK_US;
        self.link.bandwidth_bps = match self.link.bandwidth_bps {
            Some(known_bps) if is_bound && reading_bps < known_bps => Some(known_bps),
            Some(known_bps) => {
                let weight = (1.0 - (-(busy_us as f64) / MEMORY_US).exp()).max(WEIGHT_MIN);
                // Of logarithms, as bandwidths differ by factors: a client that becomes slow is known as slow at once.
                Some(known_bps * (reading_bps.max(1.0) / known_bps.max(1.0)).powf(weight))
            }
            None => Some(reading_bps),
        };
        self.link.bandwidth_bps.filter(|_| !is_ours)
    }
}

impl Probe {
    /// How fast the client is at least, by what is too little for a reading: it was sent while TCP tried out how much
    /// it may send, so that the line can be faster and not slower.
    fn bound(&self, now: Counted) -> Option<f64> {
        let acked_bytes = now.acked_bytes.saturating_sub(self.base.acked_bytes);
        let busy_us = now.busy_us.saturating_sub(self.base.busy_us);
        (acked_bytes >= BOUND_BYTES_MIN).then(|| acked_bytes as f64 * 8e6 / busy_us.max(TICK_US) as f64)
    }
}

/// What was told of a connection at the last look.
#[derive(Debug, Clone, Copy, Default)]
struct AtHand {
    connection: u64,
    /// When another look is due; 0 where there was none.
    until_ms: u64,
    told: Link,
}

/// The connections of a loop that ask for governed paths.
#[derive(Debug, Default)]
pub(crate) struct Links {
    probes: HashMap<u64, Probe, RandomState>,
    /// What the last looks said, from the first look on.
    at_hand: Vec<AtHand>,
    /// Connections whose readings were evicted for those of others; the caller that counts them resets this.
    pub(crate) evicted: u64,
    /// Times that the kernel was asked; likewise.
    pub(crate) looks: u64,
}

impl Links {
    /// What is known of a connection where no look is due, and it is one of those whose last look is at hand.
    #[inline]
    pub(crate) fn at_hand(&self, connection: u64, now_ms: u64) -> Option<Link> {
        let AtHand { connection: of, until_ms, told } = self.at_hand.get(connection as usize % AT_HAND)?;
        (*of == connection && now_ms < *until_ms).then_some(*told)
    }

    /// What is known of a connection where no look is due.
    pub(crate) fn known(&self, connection: u64, now_ms: u64) -> Option<Link> {
        if let Some(told) = self.at_hand(connection, now_ms) {
            return Some(told);
        }
        let probe = self.probes.get(&connection)?;
        (now_ms.saturating_sub(probe.looked_ms) < LOOK_MS).then_some(probe.told)
    }

    /// When another look at a connection is due.
    pub(crate) fn until_ms(&self, connection: u64, now_ms: u64) -> u64 {
        let at_hand = self.at_hand.get(connection as usize % AT_HAND).filter(|one| one.connection == connection);
        at_hand.map_or(now_ms, |one| one.until_ms)
    }

    /// Looks at a connection; what is not known of it comes from others of the client and its network.
    pub(crate) fn look(
        &mut self,
        connection: u64,
        client: IpAddr,
        now_ms: u64,
        priors: &Priors,
        look: impl FnOnce() -> Option<Counted>,
    ) -> Link {
        self.looks += 1;
        // A new connection has no past, so its first reading is of all that it has.
        let mut probe = self.probes.get(&connection).copied().unwrap_or_default();
        probe.looked_ms = now_ms;
        let known = priors.known(client);
        if let Some(counted) = look() {
            if let Some(bandwidth_bps) = probe.take(counted) {
                priors.learn(client, Link { bandwidth_bps: Some(bandwidth_bps), ..probe.link }, now_ms);
                probe.rtt_told_ms = Some(now_ms);
            } else if let Some(bound_bps) = probe.bound(counted) {
                // It is a lower bound: it tells nothing about a client of unknown speed, but shows that one which is
                // expected to be slower is faster.
                // Only the bandwidth is asked for: no round trip has to be made of what is kept.
                let without_rtt = Link { rtt_s: Some(0.0), ..probe.link };
                let expected_bps = known.fill_up(without_rtt, now_ms).bandwidth_bps;
                if expected_bps.is_some_and(|expected_bps| expected_bps < bound_bps) {
                    probe.link.bandwidth_bps = Some(bound_bps);
                    priors.raise(client, bound_bps, now_ms);
                }
            }
            if probe.rtt_told_ms.is_none_or(|told_ms| now_ms.saturating_sub(told_ms) >= RTT_TOLD_MS) {
                // A client that takes small files only has a round trip, too. A new connection from a place that others
                // have lately shown adds little: it counts only if it stays.
                if probe.rtt_told_ms.is_some() || !known.holds_rtt(now_ms) {
                    priors.learn(client, Link { bandwidth_bps: None, ..probe.link }, now_ms);
                }
                probe.rtt_told_ms = Some(now_ms);
            }
        }
        probe.told = known.fill_up(probe.link, now_ms);
        self.keep(connection, probe, now_ms);
        self.at_hand.resize(AT_HAND, AtHand::default());
        let until_ms = now_ms.saturating_add(LOOK_MS);
        self.at_hand[connection as usize % AT_HAND] = AtHand { connection, until_ms, told: probe.told };
        probe.told
    }

    fn keep(&mut self, connection: u64, probe: Probe, now_ms: u64) {
        if self.probes.len() >= LINKS_MAX && !self.probes.contains_key(&connection) {
            let before = self.probes.len();
            self.probes.retain(|_, probe| now_ms.saturating_sub(probe.looked_ms) < UNUSED_MS);
            if self.probes.len() == before {
                // All of them are in use: the one that was looked at longest ago, among some.
                let some = self.probes.iter().take(64).min_by_key(|(_, probe)| probe.looked_ms);
                if let Some(oldest) = some.map(|(connection, _)| *connection) {
                    self.probes.remove(&oldest);
                }
            }
            self.evicted += (before - self.probes.len()) as u64;
        }
        self.probes.insert(connection, probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    impl Links {
        /// The link as a caller gets it: measured if a look is due.
        fn link(
            &mut self,
            connection: u64,
            client: IpAddr,
            now_ms: u64,
            priors: &Priors,
            counted: Option<Counted>,
        ) -> Link {
            self.known(connection, now_ms).unwrap_or_else(|| self.look(connection, client, now_ms, priors, || counted))
        }
    }

    fn counted(acked_bytes: u64, busy_ms: u64) -> Option<Counted> {
        Some(Counted { acked_bytes, busy_us: busy_ms * 1000, sndbuf_limited_us: 0, rtt_us: 40_000, min_rtt_us: 10_000 })
    }

    #[test]
    fn bandwidth_is_acknowledged_bytes_over_the_time_in_which_there_were_some() {
        let (mut links, priors) = (Links::default(), Priors::default());
        let mut at = |now_ms, counted| links.link(1, CLIENT, now_ms, &priors, counted);
        assert_eq!(at(0, counted(1000, 10)).bandwidth_bps, None, "a first window says nothing");
        assert_eq!(at(99, counted(100_000, 1000)).bandwidth_bps, None, "no look is due");
        assert_eq!(at(100, counted(100_000, 1000)).bandwidth_bps, Some(800_000.0));
        assert!((at(200, counted(100_000, 1000)).rtt_s.expect("known") - 0.04).abs() < 1e-9);
        // Slower from then on: most of it is known after a second of sending.
        let slower = at(1300, counted(110_000, 2000)).bandwidth_bps.expect("known");
        assert!(slower < 200_000.0, "{slower}");
        // A pause says nothing.
        assert_eq!(at(9000, counted(110_000, 2000)).bandwidth_bps, Some(slower));
        // Where our own buffer is the limit a reading does not lower it.
        let limited = counted(111_000, 4000).map(|counted| Counted { sndbuf_limited_us: 1_900_000, ..counted });
        assert_eq!(at(9900, limited).bandwidth_bps, Some(slower));
        // Another connection of the client begins with what is known, one of another network does not.
        let other = links.link(2, CLIENT, 9900, &priors, counted(0, 0)).bandwidth_bps.expect("by the client's address");
        assert!(other > slower && other < 800_000.0, "{other}");
        let stranger = links.link(3, IpAddr::from([192, 0, 2, 1]), 9900, &priors, counted(0, 0));
        assert_eq!(stranger.bandwidth_bps, None);
    }

    #[test]
    fn a_client_faster_than_the_kernels_ticks_is_known_to_be_fast() {
        let (mut links, priors) = (Links::default(), Priors::default());
        let mut at = |now_ms, counted| links.link(1, CLIENT, now_ms, &priors, counted).bandwidth_bps;
        assert_eq!(at(0, counted(1000, 0)), None, "a first window says nothing");
        assert_eq!(at(100, counted(126_000, 0)), None, "too few bytes");
        let fast = at(200, counted(150_000, 0)).expect("known");
        assert!((fast - 120e6).abs() < 1.0, "{fast}");
        // A bound only raises what is known.
        assert_eq!(at(300, counted(290_000, 0)), Some(fast));
        let slow = at(1400, counted(300_000, 1000)).expect("known");
        assert!(slow < fast / 10.0, "{slow}");
    }

    #[test]
    fn small_files_show_that_a_client_is_faster_than_expected_and_nothing_else() {
        let (mut links, priors) = (Links::default(), Priors::default());
        let mut at = |connection, now_ms, counted| {
            links.link(connection, CLIENT, now_ms, &priors, counted).bandwidth_bps.map(f64::round)
        };
        assert_eq!(at(1, 0, counted(20_000, 20)), None, "of a new client they say nothing");
        at(2, 0, counted(0, 0));
        assert_eq!(at(2, 100, counted(50_000, 1000)), Some(400_000.0), "slow by a reading");
        assert_eq!(at(3, 200, counted(0, 0)), Some(400_000.0), "and so are its others");
        assert_eq!(at(3, 300, counted(16_000, 20)), Some(400_000.0), "what a line lets through at once is no sign");
        assert_eq!(at(3, 400, counted(20_000, 20)), Some(8e6));
        assert_eq!(at(4, 500, counted(0, 0)), Some(8e6), "and so are its others again");
        assert_eq!(at(4, 600, counted(20_000, 40)), Some(8e6), "nothing is lowered by it");
    }

    #[test]
    fn readings_are_kept_for_so_many_connections() {
        let (mut links, priors) = (Links::default(), Priors::default());
        for connection in 0..10_000 {
            links.link(connection, CLIENT, connection, &priors, counted(0, 0));
            assert!(links.probes.len() <= LINKS_MAX && links.at_hand.len() == AT_HAND);
        }
        assert_eq!(links.evicted as usize + links.probes.len(), 10_000);
    }

    #[test]
    fn a_look_at_hand_is_that_of_the_connection_and_holds_as_long_as_any() {
        let (mut links, priors) = (Links::default(), Priors::default());
        let far = 1 + AT_HAND as u64;
        links.look(1, CLIENT, 1000, &priors, || counted(100_000, 1000));
        let told = |links: &Links, connection, now_ms| {
            links.known(connection, now_ms).map(|link| link.bandwidth_bps.map(f64::round))
        };
        assert_eq!((told(&links, 1, 1099), told(&links, 1, 1100)), (Some(Some(800_000.0)), None));
        assert_eq!(told(&links, far, 1000), None, "it has the same place");
        links.look(far, IpAddr::from([192, 0, 2, 1]), 1050, &priors, || None);
        assert_eq!((told(&links, far, 1050), told(&links, 1, 1050)), (Some(None), Some(Some(800_000.0))));
    }

    #[test]
    fn the_kernel_counts_what_a_client_has_taken() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut server, _) = listener.accept().expect("accepts");
        server.write_all(&[7; 10_000]).expect("sends");
        client.read_exact(&mut [0; 10_000]).expect("receives");
        let now = || Counted::read(server.as_raw_fd()).expect("of TCP");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while now().acked_bytes < 10_000 {
            assert!(std::time::Instant::now() < deadline, "{:?}", now());
        }
        assert!(now().busy_us < 10_000_000 && now().rtt_us > 0 && now().min_rtt_us <= now().rtt_us, "{:?}", now());
    }
}
