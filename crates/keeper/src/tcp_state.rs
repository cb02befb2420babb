//! What is known of a TCP connection that stands still, with an encoding of its own.

use crate::encoding::{DecodeError, put_address, put_bytes, put_u32, take, take_address, take_bytes, take_u32};
use crate::flow::{Flow, Seen};
use std::net::SocketAddr;

/// `TCPI_OPT_TIMESTAMPS` of `struct tcp_info` (linux/tcp.h).
pub(crate) const OPTION_TIMESTAMPS: u8 = 1;
/// `TCPI_OPT_SACK`.
pub(crate) const OPTION_SACK: u8 = 2;
/// `TCPI_OPT_WSCALE`.
pub(crate) const OPTION_SCALE: u8 = 4;
/// The window's index of `snd_wnd`, bytes.
const SEND_WINDOW: usize = 1;
/// The window's index of `max_window`, bytes.
const MAX_WINDOW: usize = 2;

/// The state of a connection that stands still (tcp(7), `TCP_REPAIR`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpState {
    /// The service's end.
    pub local: SocketAddr,
    /// The client's end.
    pub peer: SocketAddr,
    /// Options of the handshake, as bits `TCPI_OPT_*` of `struct tcp_info`.
    pub options: u8,
    /// The client's window scale, bits.
    pub send_scale: u8,
    /// Our window scale, bits.
    pub receive_scale: u8,
    /// Largest segment, bytes.
    pub mss: u32,
    /// The next sequence number that is expected from the client.
    pub receive_next: u32,
    /// Bytes received and not read yet.
    pub unread_bytes: u32,
    /// The sequence number behind the last byte written, sent or not (`TCP_QUEUE_SEQ` of the send queue).
    pub send_next: u32,
    /// Bytes written and not acknowledged, unsent ones included (`SIOCOUTQ`).
    pub unacknowledged_bytes: u32,
    /// Of these, bytes not sent yet (`SIOCOUTQNSD`).
    pub unsent_bytes: u32,
    /// `struct tcp_repair_window`: `snd_wl1`, `snd_wnd`, `max_window`, `rcv_wnd`, `rcv_wup`.
    pub window: [u32; 5],
    /// `TCP_TIMESTAMP`: the clock of our timestamps; its lowest bit says whether it counts microseconds.
    pub timestamp: u32,
}

/// A connection that was brought to a stand, with the input that the program had not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// Its state.
    pub tcp: TcpState,
    /// The unread input, `tcp.unread_bytes` long.
    pub unread: Vec<u8>,
}

impl TcpState {
    /// The connection by its ends.
    #[must_use]
    pub fn flow(&self) -> Flow {
        Flow { client: self.peer, service: self.local }
    }

    /// The sequence number of the first byte that is not acknowledged.
    #[must_use]
    pub fn first_unacknowledged(&self) -> u32 {
        self.send_next.wrapping_sub(self.unacknowledged_bytes)
    }

    /// Takes in what the director saw of the client since: its newest acknowledgement and window.
    ///
    /// Returns the bytes acknowledged meanwhile, which are to be dropped from the front of what was sent. What the
    /// director saw is left alone if it acknowledges bytes that were never sent, or is older than this state.
    pub fn acknowledge(&mut self, seen: &Seen) -> u32 {
        let advance = seen.ack.wrapping_sub(self.first_unacknowledged());
        if advance > self.unacknowledged_bytes.saturating_sub(self.unsent_bytes) {
            return 0;
        }
        self.unacknowledged_bytes -= advance;
        // RFC 7323, section 2.3: a scale is at most 14.
        self.window[SEND_WINDOW] = seen.window << self.send_scale.min(14);
        self.window[MAX_WINDOW] = self.window[MAX_WINDOW].max(self.window[SEND_WINDOW]);
        advance
    }

    /// Takes the bytes that were never sent out of the state; how many. The next node's program writes them again, which
    /// costs less than to carry megabytes through a move.
    pub fn leave_unsent(&mut self) -> u32 {
        let unsent = std::mem::take(&mut self.unsent_bytes);
        self.send_next = self.send_next.wrapping_sub(unsent);
        self.unacknowledged_bytes = self.unacknowledged_bytes.saturating_sub(unsent);
        unsent
    }

    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_address(self.local, out);
        put_address(self.peer, out);
        out.extend([self.options, self.send_scale, self.receive_scale]);
        let numbers = [
            self.mss,
            self.receive_next,
            self.unread_bytes,
            self.send_next,
            self.unacknowledged_bytes,
            self.unsent_bytes,
            self.timestamp,
        ];
        numbers.iter().chain(&self.window).for_each(|number| put_u32(*number, out));
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let (local, peer) = (take_address(bytes)?, take_address(bytes)?);
        let [options, send_scale, receive_scale] = take(bytes)?;
        Ok(Self {
            local,
            peer,
            options,
            send_scale,
            receive_scale,
            mss: take_u32(bytes)?,
            receive_next: take_u32(bytes)?,
            unread_bytes: take_u32(bytes)?,
            send_next: take_u32(bytes)?,
            unacknowledged_bytes: take_u32(bytes)?,
            unsent_bytes: take_u32(bytes)?,
            timestamp: take_u32(bytes)?,
            window: [take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?],
        })
    }
}

impl Frozen {
    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.tcp.encode(out);
        put_bytes(&self.unread, out);
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { tcp: TcpState::decode(bytes)?, unread: take_bytes(bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn state() -> TcpState {
        TcpState {
            local: "10.0.0.80:80".parse().expect("valid"),
            peer: "10.0.0.2:40000".parse().expect("valid"),
            options: 7,
            send_scale: 7,
            receive_scale: 7,
            mss: 1460,
            receive_next: 1000,
            unread_bytes: 0,
            // 1,000 bytes are not acknowledged; they wrap.
            send_next: 500,
            unacknowledged_bytes: 1000,
            unsent_bytes: 200,
            window: [900, 64_000, 70_000, 65_535, 1000],
            timestamp: 1,
        }
    }

    fn seen(ack: u32, window: u32) -> Seen {
        Seen { ack, sequence_end: 1000, window, ts_value: 0, ts_echo: 0, age: Duration::ZERO }
    }

    #[test]
    fn what_the_client_acknowledged_meanwhile_is_dropped() {
        let mut tcp = state();
        assert_eq!(tcp.first_unacknowledged(), 500u32.wrapping_sub(1000));
        assert_eq!(tcp.acknowledge(&seen(300, 1000)), 800);
        assert_eq!((tcp.unacknowledged_bytes, tcp.unsent_bytes, tcp.first_unacknowledged()), (200, 200, 300));
        assert_eq!(tcp.window[1..3], [128_000, 128_000]);
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_or_an_old_one_changes_nothing() {
        for ack in [301, 500, 500u32.wrapping_sub(1001)] {
            let mut tcp = state();
            assert_eq!(tcp.acknowledge(&seen(ack, 1)), 0);
            assert_eq!(tcp, state(), "{ack}");
        }
    }

    #[test]
    fn what_was_never_sent_can_be_left() {
        let mut tcp = state();
        let first = tcp.first_unacknowledged();
        assert_eq!(tcp.leave_unsent(), 200);
        assert_eq!((tcp.send_next, tcp.unacknowledged_bytes, tcp.unsent_bytes), (300, 800, 0));
        assert_eq!((tcp.first_unacknowledged(), tcp.leave_unsent()), (first, 0));
    }

    proptest! {
        #[test]
        fn exactly_what_is_acknowledged_is_taken_in(
            send_next: u32, unsent in 0..500_u32, under_way in 0..500_u32, ack in -600..1_200_i64,
        ) {
            let unacknowledged = unsent + under_way;
            let mut tcp = TcpState { send_next, unacknowledged_bytes: unacknowledged, unsent_bytes: unsent, ..state() };
            let before = tcp.clone();
            let acknowledged = tcp.acknowledge(&seen(before.first_unacknowledged().wrapping_add(ack as u32), 10));
            let is_taken = (0..=i64::from(under_way)).contains(&ack);
            prop_assert_eq!(acknowledged, if is_taken { ack as u32 } else { 0 });
            prop_assert_eq!(tcp.unacknowledged_bytes, unacknowledged - acknowledged);
            prop_assert_eq!((tcp.send_next, tcp.unsent_bytes), (send_next, unsent));
            prop_assert_eq!(tcp.window == before.window, !is_taken);
        }
    }

    #[test]
    fn a_window_can_close_meanwhile() {
        let mut tcp = state();
        assert_eq!(tcp.acknowledge(&seen(tcp.first_unacknowledged(), 0)), 0);
        assert_eq!(tcp.window[1..3], [0, 70_000]);
    }
}
