//! What the client has acknowledged while the flow was held: the connection is restored behind that.

use weir_keeper::{Seen, TcpState};

/// The place of the window's size in `struct tcp_repair_window`.
const SEND_WINDOW: usize = 1;
/// The place of the largest window seen.
const WINDOW_MAX: usize = 2;

/// Drops from `sent` what the client has acknowledged by what the director saw, and takes over its window.
///
/// Acknowledgements that were dropped at the hold do not come again, so the connection would stall without it. What does
/// not fit to the connection changes nothing.
pub fn catch_up(tcp: &mut TcpState, sent: &mut Vec<u8>, seen: &Seen) {
    let first = tcp.send_next.wrapping_sub(tcp.unacknowledged_bytes);
    let acknowledged = seen.ack.wrapping_sub(first);
    let sent_bytes = tcp.unacknowledged_bytes.saturating_sub(tcp.unsent_bytes);
    // An older acknowledgement lies before `first`, and its distance is a large number.
    if acknowledged > sent_bytes || acknowledged as usize > sent.len() {
        return;
    }
    sent.drain(..acknowledged as usize);
    tcp.unacknowledged_bytes -= acknowledged;
    // RFC 7323, section 2.2: a scale is at most 14.
    let window = seen.window.checked_shl(u32::from(tcp.send_scale.min(14))).unwrap_or(u32::MAX);
    tcp.window[SEND_WINDOW] = window;
    tcp.window[WINDOW_MAX] = tcp.window[WINDOW_MAX].max(window);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    fn connection(send_next: u32, unacknowledged: u32, unsent: u32) -> TcpState {
        let end = SocketAddr::from(([127, 0, 0, 1], 80));
        TcpState {
            local: end,
            peer: end,
            options: 7,
            send_scale: 7,
            receive_scale: 7,
            mss: 1460,
            receive_next: 1,
            unread_bytes: 0,
            send_next,
            unacknowledged_bytes: unacknowledged,
            unsent_bytes: unsent,
            window: [1, 100, 200, 300, 1],
            timestamp: 1,
        }
    }

    fn seen(ack: u32) -> Seen {
        Seen { ack, sequence_end: 1, window: 10, ts_value: 0, ts_echo: 0, age: Duration::ZERO }
    }

    proptest! {
        #[test]
        fn exactly_what_is_acknowledged_goes(
            send_next: u32, unsent in 0..500_u32, under_way in 0..500_u32, ack in -600..1_200_i64,
        ) {
            let unacknowledged = unsent + under_way;
            let mut tcp = connection(send_next, unacknowledged, unsent);
            let mut sent: Vec<u8> = (0..unacknowledged).map(|at| at as u8).collect();
            let first = send_next.wrapping_sub(unacknowledged);
            catch_up(&mut tcp, &mut sent, &seen(first.wrapping_add(ack as u32)));
            let gone = if (0..=i64::from(under_way)).contains(&ack) { ack as u32 } else { 0 };
            prop_assert_eq!(tcp.unacknowledged_bytes, unacknowledged - gone);
            prop_assert_eq!(sent.len() as u32, unacknowledged - gone);
            prop_assert_eq!(sent.first().copied(), (gone < unacknowledged).then_some(gone as u8));
            let is_taken = (0..=i64::from(under_way)).contains(&ack);
            prop_assert_eq!(tcp.window[1], if is_taken { 1_280 } else { 100 });
            prop_assert_eq!(tcp.send_next, send_next);
        }
    }
}
