//! What is encoded is decoded again, and no bytes break the decoder.

use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weir_keeper::protocol::{Orphans, Refusal, Reply, Request};
use weir_keeper::repair::Step;
use weir_keeper::{DecodeError, Flow, Frozen, KeeperCounts, RepairError, Seen, TcpState};

fn address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::new(IpAddr::from(ip), port));
    let v6 = any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddr::new(IpAddr::from(ip), port));
    prop_oneof![v4, v6]
}

fn flow() -> impl Strategy<Value = Flow> {
    (address(), address()).prop_map(|(client, service)| Flow { client, service })
}

fn tcp_state() -> impl Strategy<Value = TcpState> {
    (address(), address(), any::<[u8; 3]>(), any::<[u32; 7]>(), any::<[u32; 5]>()).prop_map(
        |(local, peer, [options, send_scale, receive_scale], numbers, window)| TcpState {
            local,
            peer,
            options,
            send_scale,
            receive_scale,
            mss: numbers[0],
            receive_next: numbers[1],
            unread_bytes: numbers[2],
            send_next: numbers[3],
            unacknowledged_bytes: numbers[4],
            unsent_bytes: numbers[5],
            timestamp: numbers[6],
            window,
        },
    )
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        any::<u64>().prop_map(|epoch| Request::Freeze { epoch }),
        any::<u32>().prop_map(|bytes| Request::SendQueue { bytes }),
        Just(Request::Thaw),
        Just(Request::Discard),
        (flow(), any::<u64>()).prop_map(|(flow, epoch)| Request::Hold { flow, epoch }),
        flow().prop_map(|flow| Request::Release { flow }),
        (tcp_state(), bytes(), bytes(), any::<u64>()).prop_map(|(tcp, unread, sent, epoch)| Request::Restore {
            tcp,
            unread,
            sent,
            epoch
        }),
        Just(Request::Activate),
        Just(Request::Counts),
        flow().prop_map(|flow| Request::Renew { flow }),
        any::<u64>().prop_map(|server| Request::Guard { server }),
        any::<u64>().prop_map(|server| Request::Keep { server }),
        prop::collection::vec(flow(), 0..9).prop_map(|flows| Request::LetGo { flows }),
        Just(Request::Orphans),
        flow().prop_map(|flow| Request::Adopted { flow }),
    ]
}

fn repair_error() -> impl Strategy<Value = RepairError> {
    prop_oneof![
        any::<u8>().prop_map(RepairError::State),
        Just(RepairError::AlreadyFrozen),
        Just(RepairError::NotFrozen),
        Just(RepairError::Unsettled),
        any::<(u32, u32)>().prop_map(|(expected, got)| RepairError::Length { expected, got }),
        (address(), address()).prop_map(|(local, peer)| RepairError::Families(local, peer)),
        any::<i32>().prop_map(|errno| RepairError::System { step: Step::FillSent, errno }),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(asked, newest)| Refusal::OldEpoch { asked, newest }),
        repair_error().prop_map(Refusal::Repair),
        address().prop_map(Refusal::NotAService),
        any::<u32>().prop_map(Refusal::HoldsFull),
        any::<u64>().prop_map(Refusal::BytesFull),
        flow().prop_map(Refusal::Busy),
        flow().prop_map(Refusal::HoldIsOver),
        Just(Refusal::NoDescriptor),
        Just(Refusal::Malformed(DecodeError::Short)),
        Just(Refusal::Malformed(DecodeError::Unknown("step"))),
        "[a-z ]{0,40}".prop_map(Refusal::Filter),
        any::<u64>().prop_map(Refusal::UnknownServer),
        any::<u32>().prop_map(Refusal::GuardedFull),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        (tcp_state(), bytes()).prop_map(|(tcp, unread)| Reply::Frozen(Frozen { tcp, unread })),
        bytes().prop_map(Reply::Bytes),
        Just(Reply::Restored),
        any::<(u64, u64)>().prop_map(|(holds, dropped_packets)| Reply::Counts(KeeperCounts {
            holds,
            dropped_packets,
            ..KeeperCounts::default()
        })),
        refusal().prop_map(Reply::Refused),
        (prop::collection::vec(any::<u64>(), 0..5), prop::collection::vec(flow(), 0..9))
            .prop_map(|(servers, flows)| Reply::Orphans(Orphans { servers, flows })),
    ]
}

proptest! {
    #[test]
    fn states_and_flows_come_back(tcp in tcp_state(), flow in flow(), rest in bytes()) {
        let mut out = Vec::new();
        tcp.encode(&mut out);
        flow.encode(&mut out);
        out.extend_from_slice(&rest);
        let mut left = &out[..];
        prop_assert_eq!(TcpState::decode(&mut left), Ok(tcp));
        prop_assert_eq!(Flow::decode(&mut left), Ok(flow));
        prop_assert_eq!(left, &rest[..]);
    }

    #[test]
    fn what_was_seen_comes_back(numbers in any::<[u32; 5]>(), age_ns in any::<u64>()) {
        let [ack, sequence_end, window, ts_value, ts_echo] = numbers;
        let seen = Seen { ack, sequence_end, window, ts_value, ts_echo, age: Duration::from_nanos(age_ns) };
        let mut out = Vec::new();
        seen.encode(&mut out);
        prop_assert_eq!(Seen::decode(&mut &out[..]), Ok(seen));
        prop_assert_eq!(Seen::decode(&mut &out[..out.len() - 1]), Err(DecodeError::Short));
    }

    #[test]
    fn requests_come_back_whole_or_not_at_all(request in request(), cut in any::<prop::sample::Index>()) {
        let message = request.encode();
        prop_assert_eq!(Request::decode(&message), Ok(request));
        prop_assert!(Request::decode(&message[..cut.index(message.len())]).is_err());
        prop_assert_eq!(Request::decode(&[&message[..], &[0]].concat()), Err(DecodeError::Long));
    }

    #[test]
    fn replies_come_back_whole_or_not_at_all(reply in reply(), cut in any::<prop::sample::Index>()) {
        let message = reply.encode();
        prop_assert_eq!(Reply::decode(&message), Ok(reply));
        prop_assert!(Reply::decode(&message[..cut.index(message.len())]).is_err());
    }

    #[test]
    fn any_acknowledgement_leaves_a_state_that_adds_up(tcp in tcp_state(), numbers in any::<[u32; 2]>()) {
        let mut tcp = tcp;
        tcp.unsent_bytes = tcp.unsent_bytes.min(tcp.unacknowledged_bytes);
        let before = tcp.clone();
        let [ack, window] = numbers;
        let seen = Seen { ack, sequence_end: 0, window, ts_value: 0, ts_echo: 0, age: Duration::ZERO };
        let dropped = tcp.acknowledge(&seen);
        prop_assert_eq!(before.unacknowledged_bytes - dropped, tcp.unacknowledged_bytes);
        prop_assert!(tcp.unsent_bytes <= tcp.unacknowledged_bytes);
        prop_assert_eq!(tcp.send_next, before.send_next);
    }
}

#[test]
fn another_version_is_refused_in_words() {
    let mut message = Request::Thaw.encode();
    message[0] += 1;
    let error = Request::decode(&message).expect_err("another version");
    assert_eq!(error, DecodeError::Unknown("version"));
    assert!(error.to_string().contains("run the same version of weir"), "{error}");
}
