use super::*;
use proptest::prelude::*;
use weir_wire::arm::Field;

const LIMITS: Limits = Limits { running: 64, attribute_bytes: 10_000 };

/// Keeps what it is told.
#[derive(Default)]
struct Heard {
    ended: Vec<(u64, u64, Status, u32)>,
    users: Vec<Option<String>>,
    gone: Vec<u64>,
    former: HashMap<u64, Vec<Whole>>,
    asked: u32,
}

impl Tell for Heard {
    fn correlated(&mut self, _: &Running) {}

    fn ended(&mut self, running: Running, end_ns: u64, status: Status) -> Option<Handle> {
        self.ended.push((running.handle.0, end_ns.saturating_sub(running.start_ns), status, running.updates));
        self.users.push(running.notes.user().map(std::borrow::Cow::into_owned));
        running.parent.map(|parent| Handle(parent.span))
    }

    fn gone(&mut self, running: &Running) {
        self.gone.push(running.handle.0);
    }

    fn former(&mut self, handle: Handle) -> Vec<Whole> {
        self.asked += 1;
        self.former.get(&handle.0).cloned().unwrap_or_default()
    }

    fn read(&mut self, _: u32, _: u64) -> Option<Reading> {
        None
    }

    fn unix_offset_ns(&self) -> i64 {
        1_000_000_000
    }
}

fn record(kind: Kind, handle: u64, time_ns: u64, b: u64) -> Record {
    Record { time_ns, kind: kind as u16, a: handle, b, ..Record::default() }
}

fn user(handle: u64, name: &[u8; 8]) -> Whole {
    let detail = Detail { field: Field::User as u8, index: 0, offset: 0, whole_bytes: 8 };
    (record(Kind::ArmDetail, handle, 0, detail.operand()), vec![[u64::from_ne_bytes(*name), 0, 0, 0]])
}

/// One pass over some records of lanes.
fn pass(pairing: &mut Pairing, heard: &mut Heard, several: bool, records: &[(u8, Whole)]) {
    pairing.begin_pass(several, LIMITS);
    for (lane, (record, slots)) in records {
        pairing.take(*lane, record, slots, heard);
    }
    pairing.end_pass(heard);
}

#[test]
fn with_one_lane_an_end_ends_at_once_and_a_second_one_is_counted() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let records = [
        (0, (record(Kind::ArmStart, 7, 100, 1), vec![])),
        (0, user(7, b"customer")),
        (0, (record(Kind::ArmUpdate, 7, 120, 0), vec![])),
        (0, (record(Kind::ArmStop, 7, 150, 2), vec![])),
        (0, (record(Kind::ArmStop, 7, 170, 0), vec![])),
    ];
    pass(&mut pairing, &mut heard, false, &records);
    assert_eq!(heard.ended, [(7, 50, Status::Failed, 1)]);
    assert_eq!(heard.users, [Some("customer".to_owned())]);
    assert_eq!((pairing.counts.unmatched, pairing.running_count(), pairing.attribute_bytes()), (1, 0, 0));
}

#[test]
fn what_a_begin_or_an_end_brings_along_is_told_of_it() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let mut bytes = [0; 32];
    bytes[..12].copy_from_slice(&[&[Field::User as u8, 0, 8, 0][..], b"customer"].concat());
    let slot: Slot = std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|at| bytes[word * 8 + at])));
    let records = [
        (0, (record(Kind::ArmStart, 7, 100, 1), vec![])),
        (0, (record(Kind::ArmStop, 7, 150, 0), vec![slot])),
        (0, (record(Kind::ArmStart, 8, 200, 1), vec![])),
        (0, (record(Kind::ArmPieces, 8, 200, 0), vec![slot])),
        (0, (record(Kind::ArmStop, 8, 230, 0), vec![])),
        // Behind a begin it stands after what its flags announce.
        (0, (record(Kind::ArmStart, 9, 300, 1), vec![slot])),
        (0, (record(Kind::ArmStop, 9, 330, 0), vec![])),
        (
            0,
            (
                Record { flags: HAS_PARENT | HAS_ARRIVAL, ..record(Kind::ArmStart, 10, 400, 1) },
                vec![[5; 4], [6; 4], slot],
            ),
        ),
    ];
    pass(&mut pairing, &mut heard, false, &records);
    assert_eq!(heard.users, vec![Some("customer".to_owned()); 3]);
    assert_eq!((pairing.attribute_bytes(), pairing.counts.unmatched), (12, 0));
    let running = pairing.running().next().expect("it runs");
    assert_eq!((running.parent.map(|parent| parent.span), running.arrival_ns), (Some(5), 6));
    assert_eq!(running.notes.user().as_deref(), Some("customer"));
    pass(&mut pairing, &mut heard, false, &[(0, (record(Kind::ArmStop, 10, 430, 0), vec![]))]);
    assert_eq!((heard.users.len(), pairing.attribute_bytes()), (4, 0));
}

#[test]
fn with_several_lanes_the_end_may_be_read_before_the_begin_and_details_after_it() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    pass(&mut pairing, &mut heard, true, &[(1, (record(Kind::ArmStop, 7, 150, 0), vec![]))]);
    assert!(heard.ended.is_empty() && pairing.counts.unmatched == 0);
    let records = [(0, (record(Kind::ArmStart, 7, 100, 1), vec![])), (2, user(7, b"customer"))];
    pass(&mut pairing, &mut heard, true, &records);
    assert_eq!((heard.ended.len(), heard.users.len()), (1, 1));
    assert_eq!((heard.ended[0].1, heard.users[0].as_deref()), (50, Some("customer")));

    // An end that is read with its begin waits for what other lanes have of it.
    let whole = [(0, (record(Kind::ArmStart, 8, 100, 1), vec![])), (0, (record(Kind::ArmStop, 8, 130, 0), vec![]))];
    pass(&mut pairing, &mut heard, true, &whole);
    assert_eq!(heard.ended.len(), 1);
    pass(&mut pairing, &mut heard, true, &[(1, user(8, b"tomorrow"))]);
    assert_eq!(heard.users[1].as_deref(), Some("tomorrow"));
    assert!(!pairing.is_waiting());
}

#[test]
fn an_instance_that_stops_discards_what_began_before() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let of =
        |handle, time_ns, instance: u64| (0, (record(Kind::ArmStart, handle, time_ns, 1 | instance << 16), vec![]));
    let stop = (0, (record(Kind::ArmInstance, 5, 200, 0), vec![]));
    pass(&mut pairing, &mut heard, true, &[of(1, 100, 5), of(2, 100, 6), stop, of(3, 300, 5)]);
    pass(&mut pairing, &mut heard, true, &[]);
    assert_eq!((heard.gone, pairing.counts.discarded, pairing.running_count()), (vec![1], 1, 2));
}

#[test]
fn what_a_former_agent_saw_begin_is_found_again_once() {
    let mut heard = Heard::default();
    let begin = (record(Kind::ArmStart, 7, 100, 1), vec![]);
    heard.former.insert(7, vec![begin, user(7, b"customer")]);
    let mut pairing = Pairing::new(LIMITS);
    let stop = |handle| (0, (record(Kind::ArmStop, handle, 150, 0), vec![]));
    pass(&mut pairing, &mut heard, false, &[stop(7), stop(7), stop(9)]);
    assert_eq!((heard.ended.len(), heard.users[0].as_deref()), (1, Some("customer")));
    assert_eq!((pairing.counts.recovered, pairing.counts.unmatched), (1, 2));
}

#[test]
fn a_report_has_the_details_that_stand_before_it_and_the_time_that_it_tells() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let report = record(Kind::ArmReport, 9, 5_000_000, 1);
    let told = |stopped_ms: u64| vec![[250, stopped_ms, 1, 0]];
    let records = [(0, user(9, b"customer")), (0, (report, told(3000))), (0, (report, told(u64::MAX)))];
    pass(&mut pairing, &mut heard, false, &records);
    assert_eq!(heard.ended, [(9, 250, Status::Aborted, 0), (9, 250, Status::Aborted, 0)]);
    assert_eq!(heard.users, [Some("customer".to_owned()), None]);
    assert_eq!((pairing.attribute_bytes(), pairing.counts.reported), (0, 2));
}

#[test]
fn too_many_running_ones_push_out_the_oldest_and_an_ended_process_leaves_unfinished_ones() {
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let starts: Vec<_> = (1..=65).map(|at| (0, (record(Kind::ArmStart, at, 1000 - at, 1), vec![]))).collect();
    pass(&mut pairing, &mut heard, false, &starts);
    assert_eq!((pairing.running_count(), pairing.counts.forgotten), (49, 16));
    heard.gone.sort_unstable();
    assert_eq!(heard.gone, (49..=64).collect::<Vec<u64>>());
    pairing.end(2000, &mut heard);
    assert_eq!((heard.ended.len(), pairing.counts.unfinished, pairing.running_count()), (49, 49, 0));
    assert!(heard.ended.iter().all(|ended| ended.2 == Status::Unfinished));
}

proptest! {
    /// For any records, each transaction that began is accounted for, and nothing is kept beyond its bound.
    #[test]
    fn what_began_is_accounted_for(passes in proptest::collection::vec((any::<bool>(), proptest::collection::vec((0u8..3, 0x0600u16..0x060e, 0u64..40, any::<u64>(), 0usize..9, any::<u8>()), 0..60)), 0..12)) {
        let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
        for (several, records) in passes {
            let records: Vec<_> = records.into_iter().map(|(lane, kind, handle, b, slots, flags)| {
                let record = Record { time_ns: b, kind, flags, slots: slots as u8, a: handle, b, lane: 1 };
                (lane, (record, vec![[b; 4]; slots]))
            }).collect();
            pass(&mut pairing, &mut heard, several, &records);
            prop_assert!(pairing.running_count() <= LIMITS.running && pairing.late.len() <= MOST_LATE);
            let counts = pairing.counts;
            let known = counts.finished + counts.discarded + counts.forgotten + pairing.running_count() as u64;
            prop_assert_eq!(counts.started, known);
            let told: usize = pairing.running.each().map(|running| running.notes.bytes()).sum();
            let early: usize = pairing.reported_early.values().map(Notes::bytes).sum();
            prop_assert_eq!(pairing.attribute_bytes(), told + early);
            prop_assert_eq!(heard.ended.len() as u64, counts.finished);
        }
        pairing.end(u64::MAX, &mut heard);
        prop_assert_eq!(pairing.counts.started, pairing.counts.finished + pairing.counts.discarded + pairing.counts.forgotten);
    }

    /// However the records of lanes are cut into passes, as long as causes are read a pass later at the latest, every
    /// transaction comes out whole.
    #[test]
    fn cuts_between_lanes_do_not_matter(cuts in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..40)) {
        let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
        // Each transaction begins in lane 0, is updated in lane 1 and ends in lane 2.
        let mut held: Vec<(u8, Whole)> = Vec::new();
        let count = cuts.len() as u64;
        for (at, (update_late, start_late)) in cuts.into_iter().enumerate() {
            let handle = at as u64 + 1;
            let mut now = std::mem::take(&mut held);
            let start = (0, (record(Kind::ArmStart, handle, 100, 1), vec![]));
            let update = (1, (record(Kind::ArmUpdate, handle, 110, 0), vec![]));
            if start_late { held.push(start); } else { now.push(start); }
            if update_late { held.push(update); } else { now.push(update); }
            now.push((2, (record(Kind::ArmStop, handle, 120, 0), vec![])));
            pass(&mut pairing, &mut heard, true, &now);
        }
        pass(&mut pairing, &mut heard, true, &held);
        pass(&mut pairing, &mut heard, true, &[]);
        prop_assert_eq!((heard.ended.len() as u64, pairing.counts.unmatched), (count, 0));
        prop_assert!(heard.ended.iter().all(|ended| ended.3 == 1));
    }
}
