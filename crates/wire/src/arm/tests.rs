use super::field::FIELDS;
use super::*;
use proptest::prelude::*;

#[test]
fn regions_follow_each_other() {
    const { assert!(POSITIONS_AT >= SWITCHES_AT + MOST_DEFINITIONS * 4) };
    const { assert!(DEFINITIONS_AT >= POSITIONS_AT + LANES * POSITION_WORDS * 8) };
    const { assert!(LANES_AT >= DEFINITIONS_AT + DEFINITION_BYTES && LANES_AT.is_multiple_of(PAGE_BYTES)) };
    const { assert!(LANES.is_power_of_two() && LANE_SLOTS.is_power_of_two()) };
    for (at, field) in FIELDS.iter().enumerate() {
        assert_eq!(*field as usize, at + 1);
    }
}

#[test]
fn the_correlator_and_the_header_are_those_of_their_standards() {
    let identity = Identity {
        trace: [0x4bf9_2f35_77b3_4da6, 0xa3ce_929d_0e0e_4736],
        span: 0x00f0_67aa_0ba9_02b7,
        flags: Identity::RECORDED,
        format: Identity::FORMAT,
    };
    // The example of W3C Trace Context, 3.2.2.
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(identity.traceparent(), header);
    assert_eq!(Identity::of_traceparent(header), Some(identity));
    assert_eq!(identity.correlator()[..5], [0, 28, 0xd7, 0x40, 0x4b]);
    for wrong in ["", "00-0-0-0", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &format!("{header}-x")] {
        assert_eq!(Identity::of_traceparent(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn identities_come_back(trace: [u64; 2], span: u64, flags in 0u8..4) {
        let identity = Identity { trace, span, flags, format: Identity::FORMAT };
        prop_assert_eq!(Identity::of_correlator(&identity.correlator()), Some(identity));
        prop_assert_eq!(Identity::of_slot(&identity.slot()), identity);
    }

    #[test]
    fn no_bytes_break_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..700), text in ".{0,80}") {
        let _ = Identity::of_correlator(&bytes);
        let _ = Identity::of_traceparent(&text);
        if let Some((definition, taken)) = Definition::read(&bytes) {
            prop_assert!(taken <= bytes.len());
            prop_assert!(definition.pieces().count() <= bytes.len());
        }
    }

    #[test]
    fn metrics_come_back_in_either_form(format: u8, usage: u8, value: u64, short in 0u32..64) {
        let metric = Metric { format, usage, value: value >> short };
        let (bytes, used) = metric.to_number();
        prop_assert!(bytes[used..].iter().all(|byte| *byte == 0));
        prop_assert_eq!(Metric::of_number(&bytes[..used]), Some(metric));
        let is_number = [1, 2, 4, 5, 7, 8].contains(&format);
        prop_assert_eq!(Metric::of_value(&metric.to_value()), is_number.then_some(metric));
    }

    #[test]
    fn no_bytes_are_a_piece_beyond_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Metric::of_number(&bytes), Metric::of_value(&bytes));
        let mut rest = &bytes[..];
        while let Some((piece, behind)) = Piece::read(rest) {
            prop_assert_eq!(PIECE_HEAD + piece.bytes.len() + behind.len(), rest.len());
            rest = behind;
        }
    }

    #[test]
    fn definitions_come_back(pieces in proptest::collection::vec((1u8..24, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..20)) {
        let mut writer = DefinitionWriter::new(Sort::Transaction, 4, 7);
        for (field, index, piece) in &pieces {
            prop_assert!(writer.piece(FIELDS[usize::from(*field) - 1], *index, piece));
        }
        let bytes = writer.finish();
        let (definition, taken) = Definition::read(&bytes).expect("it was just written");
        prop_assert_eq!((taken, definition.belongs_to, definition.standard), (bytes.len(), 7, 4));
        let back: Vec<_> = definition.pieces().map(|(field, index, piece)| (field as u8, index, piece.to_vec())).collect();
        prop_assert_eq!(back, pieces);
    }

    #[test]
    fn handles_and_details_come_back(generation in 1u8.., lane in 0u32..128, slot in 0u64..1 << 48, detail: (u8, u8, u16, u32)) {
        let handle = Handle::new(generation, lane, slot);
        prop_assert!(handle.0 as i64 > 0 && handle.generation() == generation);
        prop_assert_eq!((handle.lane(), handle.slot()), (lane, slot));
        let detail = Detail { field: detail.0, index: detail.1, offset: detail.2, whole_bytes: detail.3 };
        prop_assert_eq!(Detail::of_operand(detail.operand()), detail);
    }

    #[test]
    fn spans_of_a_process_are_known_by_each_other(token: u64, lanes: (u32, u32), slots: (u64, u64)) {
        let handle = |generation, lane, slot: u64| Handle::new(generation, lane, slot >> 30);
        let one = Token(token).span(handle(1, lanes.0, slots.0));
        prop_assert!(Token::is_same(one, Token(token).span(handle(1, lanes.1, slots.1))));
        // After a fork it is another process.
        prop_assert!(!Token::is_same(one, Token(token).span(handle(2, lanes.1, slots.1))));
        let strangers = (1..2000u64).map(|number| Token(!token.rotate_left(7)).span(Handle(number.wrapping_mul(SPAN_FACTOR))));
        prop_assert!(strangers.filter(|stranger| Token::is_same(one, *stranger)).count() <= 1);
    }

    #[test]
    fn spans_of_a_process_differ(token: u64, first: u64, second: u64) {
        prop_assume!(first != second);
        let span = |handle| Token(token).span(Handle(handle));
        // Both at 1 is the one exception: that which would have been 0.
        prop_assert!(span(first) != span(second) || span(first) == 1);
    }
}
