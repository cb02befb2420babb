//! Messages and records are read as they were written; other bytes and other versions are refused in words.

use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use weir_cluster::{
    Batch, Claim, ClusterSecret, Credit, Decline, Entries, FieldError, Holding, Keeping, KeysWord, Message, MoveId,
    Owner, PieceOf, Position, Record, RelayId, RelayState, RelayWord, Renewed, Replica, RevocationList, SameRelay,
    Shared, SocketOptions, Span, Surveyed, TicketKey, Timings, Turning, Unfit, Word,
};
use weir_keeper::{Birth, Flow, Seen, TcpState};
use zeroize::Zeroizing;

/// A record with so many raw bytes.
pub(crate) fn record(raw: usize) -> Record {
    let (client, service) = (SocketAddr::from(([10, 0, 0, 9], 999)), SocketAddr::from(([10, 0, 0, 1], 80)));
    let tcp = TcpState {
        local: service,
        peer: client,
        options: 7,
        send_scale: 7,
        receive_scale: 7,
        mss: 1_460,
        receive_next: 5,
        unread_bytes: 2,
        send_next: 9,
        unacknowledged_bytes: raw as u32 + 7,
        unsent_bytes: 3,
        window: [1, 2, 3, 4, 5],
        timestamp: 77,
    };
    Record {
        id: MoveId { giver: 1, number: 2 },
        epoch: 3,
        flow: Flow { client, service },
        tcp,
        unread: vec![1, 2],
        spans: vec![Span::Raw(vec![9; raw]), Span::Session { from: 100, len: 7 }],
        session: Zeroizing::new(b"session".to_vec()),
    }
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn flow() -> impl Strategy<Value = Flow> {
    (address(), address()).prop_map(|(client, service)| Flow { client, service })
}

fn id() -> impl Strategy<Value = MoveId> {
    (any::<u16>(), any::<u64>()).prop_map(|(giver, number)| MoveId { giver, number })
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Span::Raw),
        (any::<u64>(), 0..100_000_u64).prop_map(|(from, len)| Span::Session { from, len }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    let bytes = (vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..300), vec(span(), 0..8));
    (id(), any::<u64>(), flow(), bytes, any::<[u32; 10]>(), any::<[u8; 3]>()).prop_map(
        |(id, epoch, flow, (unread, session, spans), numbers, small)| {
            let unacknowledged = spans.iter().map(Span::len).sum::<u64>() as u32;
            let tcp = TcpState {
                local: flow.service,
                peer: flow.client,
                options: small[0],
                send_scale: small[1],
                receive_scale: small[2],
                mss: numbers[0],
                receive_next: numbers[1],
                unread_bytes: unread.len() as u32,
                send_next: numbers[2],
                unacknowledged_bytes: unacknowledged,
                unsent_bytes: unacknowledged / 2,
                window: [numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]],
                timestamp: numbers[8],
            };
            Record { id, epoch, flow, tcp, unread, spans, session: Zeroizing::new(session) }
        },
    )
}

fn seen() -> impl Strategy<Value = Seen> {
    (any::<[u32; 5]>(), any::<u64>()).prop_map(|([ack, sequence_end, window, ts_value, ts_echo], age)| Seen {
        ack,
        sequence_end,
        window,
        ts_value,
        ts_echo,
        age: Duration::from_nanos(age),
    })
}

fn decline() -> impl Strategy<Value = Decline> {
    prop_oneof![
        any::<u64>().prop_map(Decline::Epoch),
        Just(Decline::Closed),
        any::<u16>().prop_map(Decline::OtherOwner),
        Just(Decline::NotAllowed),
        Just(Decline::Unknown),
        ".{0,80}".prop_map(Decline::Table),
        any::<u16>().prop_map(Decline::NotDown),
        prop_oneof![Just(Unfit::NoBeginning), Just(Unfit::ClientSent), Just(Unfit::Over)].prop_map(Decline::Unfit),
    ]
}

fn keeping() -> impl Strategy<Value = Keeping> {
    prop_oneof![
        Just(Keeping::Absent),
        any::<u64>().prop_map(|modified_unix_s| Keeping::Has { modified_unix_s }),
        any::<u64>().prop_map(|modified_unix_s| Keeping::Keeps { modified_unix_s }),
    ]
}

fn timings() -> impl Strategy<Value = Timings> {
    (any::<[u32; 5]>(), any::<u64>()).prop_map(|(us, remade_bytes)| Timings {
        prepare_us: us[0],
        steer_us: us[1],
        restore_us: us[2],
        confirm_us: us[3],
        activate_us: us[4],
        remade_bytes,
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    (id(), flow(), any::<u64>(), any::<u16>(), any::<bool>()).prop_map(|(id, flow, epoch, taker, is_refused)| Claim {
        id,
        flow,
        epoch,
        taker,
        is_refused,
    })
}

fn relay_word() -> impl Strategy<Value = RelayWord> {
    let of = || (id(), any::<u16>()).prop_map(|(id, place)| RelayId { id, place });
    let piece = (of(), any::<u64>(), vec(any::<u8>(), 0..60), any::<bool>());
    let piece = piece.prop_map(|(of, from, bytes, is_last)| PieceOf { of, from, bytes, is_last });
    let states = [RelayState::Open, RelayState::Ended, RelayState::Closed, RelayState::Unknown];
    let credit = (of(), any::<u64>(), any::<u64>(), prop::sample::select(states.to_vec()));
    let credit = credit.prop_map(|(of, one, other, state)| {
        let (taken, come) = (one.min(other), one.max(other));
        Credit { of, come, taken, state }
    });
    let same = (of(), of(), any::<i64>()).prop_map(|(of, is, ahead)| RelayWord::Same(SameRelay { of, is, ahead }));
    let turn = (of(), any::<u16>(), of()).prop_map(|(of, to, by)| RelayWord::Turn { of, to, by });
    let now = prop_oneof![Just(Turning::Waits), any::<u64>().prop_map(Turning::Turned), Just(Turning::Stays)];
    let turning = (of(), now).prop_map(|(of, now)| RelayWord::Turning { of, now });
    let (pieces, credits) =
        (vec(piece, 0..6).prop_map(RelayWord::Pieces), vec(credit, 0..6).prop_map(RelayWord::Credits));
    prop_oneof![pieces, credits, same, turn, turning]
}

fn holding() -> impl Strategy<Value = Holding> {
    prop_oneof![Just(Holding::Has), id().prop_map(Holding::Gives), id().prop_map(Holding::Takes)]
}

fn entries() -> impl Strategy<Value = Entries> {
    let lists = (vec((flow(), any::<u16>()), 0..8), vec(flow(), 0..8), vec(any::<u16>(), 0..8));
    (any::<u64>(), any::<[bool; 2]>(), lists).prop_map(|(epoch, [is_begin, is_end], (here, gone, draining))| Entries {
        epoch,
        is_begin,
        is_end,
        here,
        gone,
        draining,
    })
}

fn position() -> impl Strategy<Value = Position> {
    (proptest::option::of(any::<[u32; 2]>()), any::<[u64; 5]>()).prop_map(|(birth, numbers)| Position {
        birth: birth.map(|[send, receive]| Birth { send, receive }),
        written: numbers[0],
        acknowledged: numbers[1],
        received: numbers[2],
        offset: numbers[3],
        response_bytes: numbers[4],
    })
}

fn replica() -> impl Strategy<Value = Replica> {
    let options = (any::<[u8; 3]>(), any::<[u32; 3]>()).prop_map(|(small, numbers)| SocketOptions {
        options: small[0],
        send_scale: small[1],
        receive_scale: small[2],
        mss: numbers[0],
        timestamp: numbers[1],
        round_trip_us: numbers[2],
    });
    (id(), flow(), position(), options, vec(any::<u8>(), 0..300)).prop_map(|(id, flow, position, options, session)| {
        Replica { id, flow, position, options, session: Zeroizing::new(session) }
    })
}

fn word() -> impl Strategy<Value = Word> {
    let batch = (any::<[u64; 2]>(), any::<bool>(), vec(flow(), 0..4), vec(replica(), 0..4));
    prop_oneof![
        batch.prop_map(|([start, number], is_anew, ended, replicas)| {
            Word::Replicas(Batch { start, number, is_anew, ended, replicas })
        }),
        (id(), flow(), any::<u64>(), position()).prop_map(|(id, flow, epoch, position)| Word::TakeOver {
            id,
            flow,
            epoch,
            position
        }),
        (id(), seen(), proptest::option::of(any::<[u32; 2]>())).prop_map(|(id, seen, birth)| Word::TakenOver {
            id,
            seen,
            birth: birth.map(|[send, receive]| Birth { send, receive }),
        }),
        vec((id(), flow()), 0..4).prop_map(|discarded| Word::Watch { discarded }),
        (vec(any::<u16>(), 0..4), vec((id(), flow()), 0..4), vec((any::<u16>(), flow()), 0..4))
            .prop_map(|(down, taken, orphans)| Word::Watched { down, taken, orphans }),
        vec(flow(), 0..4).prop_map(|flows| Word::Orphaned { flows }),
    ]
}

fn secret() -> impl Strategy<Value = ClusterSecret> {
    (any::<[u8; 32]>(), any::<bool>()).prop_map(|(bytes, is_next)| {
        let first = ClusterSecret::from_bytes(&bytes).expect("32 bytes");
        if is_next { first.next(&"n3".parse().expect("a name")).expect("random bytes") } else { first }
    })
}

fn keys_word() -> impl Strategy<Value = KeysWord> {
    let list = (any::<u64>(), vec(any::<u8>(), 0..60)).prop_map(|(number, der)| RevocationList { number, der });
    let tickets = vec(any::<u64>().prop_map(|made| TicketKey::generate(made).expect("random bytes")), 0..9);
    let shared = (secret(), tickets, proptest::option::of(list));
    let shared = shared.prop_map(|(secret, tickets, revoked)| Shared { secret, tickets, revoked });
    let certificate = || vec(any::<u8>(), 0..60).prop_map(rustls::pki_types::CertificateDer::from);
    let renewed = (certificate(), vec((any::<IpAddr>(), certificate()), 0..4));
    let renewed = renewed.prop_map(|(certificate, etcd)| Renewed { certificate, etcd });
    prop_oneof![
        Just(KeysWord::Ask),
        shared.prop_map(KeysWord::Shared),
        Just(KeysWord::Renew),
        renewed.prop_map(KeysWord::Renewed),
        Just(KeysWord::NoAuthority),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let owner = prop_oneof![Just(Owner::Giver), Just(Owner::Taker), Just(Owner::Unknown)];
    prop_oneof![
        any_record().prop_map(|record| Message::Record(Arc::new(record))),
        (id(), timings()).prop_map(|(id, timings)| Message::Done { id, timings }),
        (id(), any::<bool>(), ".{0,80}").prop_map(|(id, is_settled, why)| Message::Refused { id, is_settled, why }),
        (id(), flow(), any::<u64>()).prop_map(|(id, flow, epoch)| Message::Steer { id, flow, epoch }),
        (id(), proptest::option::of(seen())).prop_map(|(id, seen)| Message::Steered { id, seen }),
        (id(), flow()).prop_map(|(id, flow)| Message::Confirm { id, flow }),
        id().prop_map(|id| Message::Confirmed { id }),
        claim().prop_map(Message::Reclaim),
        (id(), owner, any::<u64>()).prop_map(|(id, owner, epoch)| Message::Owned { id, owner, epoch }),
        (id(), decline()).prop_map(|(id, why)| Message::Declined { id, why }),
        flow().prop_map(|flow| Message::Who { flow }),
        (flow(), proptest::option::of(any::<u16>())).prop_map(|(flow, node)| Message::Has { flow, node }),
        ".{0,80}".prop_map(|why| Message::Failed { why }),
        any::<bool>().prop_map(|is_draining| Message::Draining { is_draining }),
        Just(Message::Noted),
        Just(Message::Time),
        (any::<u64>(), any::<u64>()).prop_map(|(received_us, told_us)| Message::TimeTold { received_us, told_us }),
        vec(any::<u8>(), 0..300).prop_map(|preview| Message::Expect { preview }),
        (any::<[u8; 32]>(), any::<u64>(), any::<u32>()).prop_map(|(digest, from, bytes)| Message::Fetch {
            digest,
            from,
            bytes
        }),
        (any::<u64>(), any::<u64>(), vec(any::<u8>(), 0..300)).prop_map(|(total_bytes, modified_unix_s, bytes)| {
            Message::Piece { total_bytes, modified_unix_s, bytes }
        }),
        any::<[u8; 32]>().prop_map(|digest| Message::Absent { digest }),
        any::<u64>().prop_map(|epoch| Message::Survey { epoch }),
        any::<u64>().prop_map(|epoch| Message::Resigned { epoch }),
        (any::<u64>(), vec(any::<(u16, u16)>(), 0..20))
            .prop_map(|(epoch, weights)| Message::Weights { epoch, weights }),
        (vec((flow(), holding()), 0..8), any::<u32>())
            .prop_map(|(flows, left_out)| Message::Surveyed(Surveyed { flows, left_out })),
        vec(any::<[u8; 32]>(), 0..20).prop_map(|digests| Message::Inquire { digests }),
        vec(keeping(), 0..20).prop_map(|contents| Message::Keeping { contents }),
        entries().prop_map(Message::Entries),
        word().prop_map(Message::replica),
        relay_word().prop_map(Message::relay),
        keys_word().prop_map(Message::keys),
    ]
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read(message in message()) {
        let bytes = encoded(&message);
        if let Message::Record(record) = &message {
            prop_assert!(bytes.len() <= record.encoded_bytes() + 2);
        }
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn parts_and_additions_are_refused(message in message(), cut: prop::sample::Index) {
        let mut bytes = encoded(&message);
        prop_assert!(Message::decode(&bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert_eq!(Message::decode(&bytes), Err(FieldError::TooLong(1)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..400), kind in 0..106_u8, fit: bool) {
        if fit && bytes.len() > 2 {
            bytes[..2].copy_from_slice(&[1, kind]);
        }
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(encoded(&message), bytes);
        }
    }

    #[test]
    fn other_versions_are_refused_in_words(message in message(), version: u8) {
        prop_assume!(version != 1);
        let mut bytes = encoded(&message);
        bytes[0] = version;
        let refused = Message::decode(&bytes).map_err(|error| error.to_string());
        let words = format!("the message has version {version}, and this weir knows 1");
        prop_assert!(refused.is_err_and(|why| why.starts_with(&words)));
        if matches!(message, Message::Record(_)) {
            bytes[..3].copy_from_slice(&[1, 1, version]);
            let refused = Message::decode(&bytes).map_err(|error| error.to_string());
            prop_assert!(refused.is_err_and(|why| why.contains("record of a session has version")));
        }
    }
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    let refused = |change: fn(&mut Record)| {
        let mut record = record(10);
        change(&mut record);
        let refused = Message::decode(&encoded(&Message::Record(Arc::new(record))));
        assert!(matches!(refused, Err(FieldError::Unknown(_))), "{refused:?}");
    };
    refused(|record| record.tcp.unacknowledged_bytes += 1);
    refused(|record| record.tcp.unsent_bytes = record.tcp.unacknowledged_bytes + 1);
    refused(|record| record.unread.push(1));
    refused(|record| record.flow.client.set_port(1));
    refused(|record| record.spans.push(Span::Session { from: 0, len: u64::MAX }));
}
