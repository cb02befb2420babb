//! What a server and the keeper of connections say to each other.

use weir_keeper::protocol::{Reply, Request};
use weir_keeper::{Flow, Seen, TcpState};

/// Reads any bytes as a request, as an answer, and as the states within them: what is understood has one encoding.
pub fn keeper_messages(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(request.encode(), input);
        if let Request::Restore { mut tcp, .. } = request {
            check_state(&mut tcp);
        }
    }
    if let Ok(reply) = Reply::decode(input) {
        assert_eq!(reply.encode(), input);
        if let Reply::Frozen(mut frozen) = reply {
            check_state(&mut frozen.tcp);
        }
    }
    let mut rest = input;
    if let Ok(flow) = Flow::decode(&mut rest) {
        let mut out = Vec::new();
        flow.encode(&mut out);
        assert!(input.starts_with(&out) && rest.len() == input.len() - out.len());
    }
}

/// An acknowledgement changes no more than it may, also in a state that never was one.
fn check_state(tcp: &mut TcpState) {
    let (bytes, next) = (tcp.unacknowledged_bytes, tcp.send_next);
    let seen = Seen {
        ack: tcp.mss,
        sequence_end: tcp.receive_next,
        window: tcp.timestamp,
        ts_value: 0,
        ts_echo: 0,
        age: std::time::Duration::ZERO,
    };
    let dropped = tcp.acknowledge(&seen);
    assert!(dropped <= bytes && tcp.unacknowledged_bytes == bytes - dropped && tcp.send_next == next);
    tcp.leave_unsent();
    assert_eq!(tcp.unsent_bytes, 0);
}
