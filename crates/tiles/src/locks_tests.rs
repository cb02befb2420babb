use super::*;
use proptest::prelude::*;
use weir_wire::task::NO_SYSCALL;

/// Stretches as they are told: (lock, holder, from, to).
#[derive(Debug, Default)]
struct Noted(Vec<(u32, u32, u64, u64)>);

impl Holders for Noted {
    fn held(&mut self, lock: u32, holder: u32, from_ns: u64, to_ns: u64) {
        self.0.push((lock, holder, from_ns, to_ns));
    }
}

fn wait(time_ns: u64, sort: u8, pid: u32, holder: u32, key: u64) -> Record {
    let a = u64::from(pid) | u64::from(holder) << 32;
    Record { time_ns, kind: Kind::LockWait as u16, flags: sort, a, b: key, ..Record::default() }
}

fn waking(time_ns: u64, woken: u32) -> Record {
    Record { time_ns, kind: Kind::Waking as u16, a: 1 | u64::from(woken) << 32, ..Record::default() }
}

fn runs(time_ns: u64, pid: u32) -> Record {
    Switch { prev: 0, next: pid, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 }.write(time_ns, 0)
}

fn followed(records: &[Record], end_ns: u64) -> (Vec<LockLine>, Vec<Waited>, Noted) {
    let (mut follow, mut noted) = (LockFollow::new(0), Noted::default());
    // Tasks of a process are those of the same hundred.
    records.iter().for_each(|record| follow.push(record, &[], |pid| pid / 100 * 100, &mut noted));
    let (lines, waits, left_out) = follow.finish(end_ns, |pid| format!("task {pid}"), &mut noted);
    assert_eq!(left_out, 0);
    (lines, waits, noted)
}

#[test]
fn a_lock_of_a_file_that_passes_from_one_to_the_next() {
    // 7 holds it; 8 and 9 wait, 8 gets it, then 9.
    let records = [wait(100, 2, 8, 7, 55), wait(150, 2, 9, 7, 55), waking(300, 8), waking(400, 9), runs(410, 9)];
    let (lines, waits, noted) = followed(&records, 500);
    assert_eq!(noted.0, [(0, 7, 100, 150), (0, 7, 150, 300), (0, 8, 300, 400), (0, FREE, 400, 500)]);
    let one = |pid, from_ns, to_ns| Waited { lock: 0, pid, holder: 7, from_ns, to_ns };
    assert_eq!(waits, [one(8, 100, 300), one(9, 150, 400)]);
    assert_eq!((lines[0].waits, lines[0].waited_ns, lines[0].longest_ns, lines[0].held), (2, 450, 250, true));
    assert_eq!(lines[0].longest_from_ns, 150);
    assert_eq!((lines[0].first_ns, lines[0].last_ns, lines[0].name.as_str()), (100, 400, "flock of a file"));
}

#[test]
fn a_lock_of_the_kernels_ends_when_the_kernel_says_so() {
    let end = Record { time_ns: 900, kind: Kind::LockEnd as u16, a: 8, ..Record::default() };
    let (_, waits, _) = followed(&[wait(100, 4, 8, 0, 55), waking(200, 8), runs(210, 8), end], 1_000);
    assert_eq!(waits.iter().map(|one| (one.from_ns, one.to_ns)).collect::<Vec<_>>(), [(100, 900)]);
    // After the end of a window no events are recorded.
    let over = Record { time_ns: 600, kind: Kind::Window as u16, flags: 1, ..Record::default() };
    let (_, waits, _) = followed(&[wait(100, 4, 8, 0, 55), over], 1_000);
    assert_eq!(waits[0].to_ns, 600);
    // And the end of the recording ends all that is left.
    let (_, waits, noted) = followed(&[wait(100, 4, 8, 0, 55)], 1_000);
    assert_eq!((waits.len(), waits[0].to_ns), (1, 1_000));
    assert_eq!(noted.0, [(0, UNKNOWN_TASK, 100, 1_000)]);
}

#[test]
fn a_futex_belongs_to_its_process_and_only_a_sibling_holds_it() {
    let records = [wait(1, 1, 101, 102, 64), wait(2, 1, 201, 102, 64), waking(5, 101), waking(6, 201)];
    let (lines, waits, _) = followed(&records, 10);
    assert_eq!(lines.len(), 2, "the same address in two processes is two locks");
    assert_eq!((waits[0].holder, waits[1].holder), (102, 0));
    assert_eq!((lines[0].name.as_str(), lines[0].held), ("futex 0x40 of task 100", true));
    assert!(!lines[1].held, "a lock without a holder stands behind");
}

proptest! {
    /// For any waits, each lock's stretches follow each other without gap or overlap, the lock is held exactly while a
    /// task waits, and a replay of the waits tells the same.
    #[test]
    fn lanes_have_neither_gaps_nor_overlaps(
        raw in prop::collection::vec((0..40u64, 0..6u32, 0..4u32, 0..2u64, any::<bool>()), 1..80),
    ) {
        let mut at = 100;
        let records: Vec<Record> = raw
            .iter()
            .map(|(gap, pid, holder, key, waits)| {
                at += gap;
                if *waits { wait(at, 2, 10 + pid, *holder, *key) } else { waking(at, 10 + pid) }
            })
            .collect();
        let end_ns = at + 50;
        let (lines, waits, noted) = followed(&records, end_ns);
        prop_assert_eq!(lines.iter().map(|line| line.waits).sum::<u64>(), waits.len() as u64);
        for line in &lines {
            let lane: Vec<_> = noted.0.iter().filter(|one| one.0 == line.id).collect();
            prop_assert!(lane.windows(2).all(|pair| pair[0].3 == pair[1].2), "{:?}", lane);
            prop_assert!(lane.last().is_none_or(|last| last.3 == end_ns));
            for one in &lane {
                let waited = waits.iter().any(|wait| wait.lock == line.id && wait.from_ns <= one.2 && wait.to_ns >= one.3);
                prop_assert_eq!(one.1 != FREE, waited, "{:?}", one);
            }
        }
        let mut again = Noted::default();
        Sweeps::replay(&waits, 0, end_ns, &mut again);
        let held = |noted: &Noted| -> Vec<u64> {
            lines.iter().map(|line| noted.0.iter().filter(|one| one.0 == line.id && one.1 != FREE).map(|one| one.3 - one.2).sum()).collect()
        };
        prop_assert_eq!(held(&again), held(&noted));
    }

    #[test]
    fn any_records_are_followed(slots in prop::collection::vec(any::<[u64; 4]>(), 0..200)) {
        let (mut follow, mut noted) = (LockFollow::new(0), Noted::default());
        for slot in slots {
            follow.push(&Record::from_slot(slot), &[], |pid| pid, &mut noted);
        }
        let _ = follow.finish(u64::MAX, |pid| pid.to_string(), &mut noted);
    }

    #[test]
    fn a_wait_survives_being_written(numbers: [u32; 3], times: [u64; 2]) {
        let one = Waited { lock: numbers[0], pid: numbers[1], holder: numbers[2], from_ns: times[0], to_ns: times[1] };
        let json = serde_json::to_string(&one).expect("numbers");
        prop_assert_eq!(serde_json::from_str::<Waited>(&json).expect("numbers"), one);
    }
}
