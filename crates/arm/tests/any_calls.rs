//! Any calls in any order, with any handles and numbers, while agents come, go and write nonsense: nothing breaks, and
//! each record is read once or counted as lost.
// scripts/test: waits

use proptest::prelude::*;
use std::ptr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_arm::{Begin, Field, Handle, Identity, Pieces, Report, Sort};
use weir_wire::arm::{
    CORRELATOR_BYTES, HEAD_HEARTBEAT, HEAD_LANELESS, LANE_DROPPED, LANE_READ, LANE_SLOTS, LANE_WRITTEN, LANES_AT,
    MEMORY_BYTES, POSITIONS_AT, SWITCHES_AT,
};
use weir_wire::{Kind, MAX_SLOTS, Record, SLOT_BYTES};

/// The whole memory file of this process, as an agent maps it.
struct Seen(*const AtomicU64);

// SAFETY: it points to atomics only, which stay mapped.
unsafe impl Send for Seen {}
// SAFETY: likewise.
unsafe impl Sync for Seen {}

static NUMBERS: LazyLock<[u16; 3]> = LazyLock::new(|| {
    // No real agent is to find this process.
    // SAFETY: this test is the only one of its program, and it has no other threads that read variables.
    unsafe { std::env::set_var("WEIR_ARM_DIR", "/nonexistent") };
    let name = |writer: &mut weir_arm::DefinitionWriter| assert!(writer.piece(Field::Name, 0, b"any"));
    let application = weir_arm::define(Sort::Application, 4, 0, name);
    [
        application,
        weir_arm::define(Sort::Transaction, 4, application, name),
        weir_arm::define(Sort::Instance, 4, application, name),
    ]
});

static MEMORY: LazyLock<Seen> = LazyLock::new(|| {
    let _ = *NUMBERS;
    let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let ours = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:weir-arm"))
    };
    let entry = open.into_iter().find(ours).expect("a memory");
    let descriptor = entry.file_name().to_string_lossy().parse().expect("a number");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file whose size is sealed.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), MEMORY_BYTES, protection, libc::MAP_SHARED, descriptor, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    Seen(mapped.cast())
});

fn word(index: usize) -> &'static AtomicU64 {
    assert!(8 * index < MEMORY_BYTES);
    // SAFETY: within the mapping.
    unsafe { &*MEMORY.0.add(index) }
}

/// A word of the positions of lane 0, the only thread's.
fn position(index: usize) -> &'static AtomicU64 {
    word(POSITIONS_AT / 8 + index)
}

/// How many records stand between two positions of lane 0, and whether each is whole and of a kind that is known.
fn records(from: u64, to: u64) -> usize {
    let (mut at, mut count) = (from, 0);
    while at < to {
        let slot = LANES_AT / 8 + (at as usize % LANE_SLOTS) * SLOT_BYTES / 8;
        let record = Record::from_slot(std::array::from_fn(|index| word(slot + index).load(Ordering::Relaxed)));
        let name = Kind::from_code(record.kind).map(|kind| kind.spec().name);
        assert!(name.is_some_and(|name| name.starts_with("arm_")), "{record:?}");
        assert!(usize::from(record.slots) <= MAX_SLOTS && at + u64::from(record.slots) < to);
        at += 1 + u64::from(record.slots);
        count += 1;
    }
    assert_eq!(at, to);
    count
}

#[derive(Debug, Clone)]
enum Call {
    Listen(bool),
    Switch(u32),
    Start { known: bool, parent: Option<[u64; 3]>, arrival_ns: u64, flags: u8, told: Vec<u8> },
    Stop { handle: usize, status: u32, told: Vec<u8> },
    Garbage(u64),
    Others(usize),
    Generate(Option<[u64; 3]>),
    Report(u64, Option<[u64; 3]>),
    Instance,
    Read,
    Nonsense(u64),
}

fn calls() -> impl Strategy<Value = Call> {
    let told = || proptest::collection::vec(any::<u8>(), 0..600);
    prop_oneof![
        2 => any::<bool>().prop_map(Call::Listen),
        1 => prop_oneof![Just(0), Just(u32::MAX), 1u32..20].prop_map(Call::Switch),
        8 => (any::<bool>(), any::<Option<[u64; 3]>>(), any::<u64>(), any::<u8>(), told()).prop_map(
            |(known, parent, arrival_ns, flags, told)| Call::Start { known, parent, arrival_ns, flags, told }
        ),
        8 => (any::<usize>(), any::<u32>(), told()).prop_map(|(handle, status, told)| Call::Stop { handle, status, told }),
        2 => any::<u64>().prop_map(Call::Garbage),
        4 => any::<usize>().prop_map(Call::Others),
        2 => any::<Option<[u64; 3]>>().prop_map(Call::Generate),
        2 => (any::<u64>(), any::<Option<[u64; 3]>>()).prop_map(|(time, own)| Call::Report(time, own)),
        1 => Just(Call::Instance),
        2 => Just(Call::Read),
        1 => any::<u64>().prop_map(Call::Nonsense),
    ]
}

fn identity(words: Option<[u64; 3]>) -> Option<Identity> {
    words.map(|[first, second, span]| Identity { trace: [first, second], span, flags: 1, format: Identity::FORMAT })
}

fn carry_out(call: Call, handles: &mut Vec<Handle>) {
    let [_, transaction, instance] = *NUMBERS;
    let pick = |handles: &[Handle], at: usize| handles.get(at % handles.len().max(1)).copied().unwrap_or(Handle(0));
    match call {
        Call::Listen(whether) => word(HEAD_HEARTBEAT).store(u64::from(whether), Ordering::Relaxed),
        Call::Switch(value) => {
            // SAFETY: within the mapping.
            let switches = unsafe { MEMORY.0.cast::<AtomicU32>().add(SWITCHES_AT / 4) };
            // SAFETY: likewise; the number is one of a definition.
            unsafe { &*switches.add(usize::from(transaction)) }.store(value, Ordering::Relaxed);
        }
        Call::Start { known, parent, arrival_ns, flags, told } => {
            let number = if known { transaction } else { 0 };
            let begin = Begin { transaction: number, instance, flags, parent: identity(parent), arrival_ns };
            let handle = weir_arm::start_with(&begin, |telling| telling.piece(Field::User, 3, &told));
            assert!(handle.0 as i64 >= 0);
            let own = weir_arm::identity(handle, begin.parent, false).correlator();
            assert_eq!(usize::from(own[1]), CORRELATOR_BYTES);
            handles.push(handle);
            handles.push(weir_arm::start(number, instance));
            let (one_in, time_ns) = (u32::from(flags), weir_arm::now_ns());
            handles.push(weir_arm::start_request_at(
                &begin,
                one_in,
                time_ns,
                |room| room.piece(Field::User, 3, &told),
                |telling| telling.piece(Field::User, 3, &told),
            ));
        }
        Call::Stop { handle, status, told } => {
            assert!(weir_arm::stop_with(pick(handles, handle), status, |telling| {
                telling.piece(Field::Diagnosis, 0, &told);
            }));
            assert!(weir_arm::stop_request(
                pick(handles, handle),
                status,
                |room, _| room.piece(Field::Diagnosis, 0, &told),
                |telling, _| telling.piece(Field::Diagnosis, 0, &told),
            ));
        }
        Call::Garbage(number) => {
            let _ = weir_arm::stop(Handle(number), 0);
            let _ = weir_arm::discard(Handle(number | 1 << 63));
            let _ = weir_arm::end_instance(number as i64);
            let _ = weir_arm::instance_of(number as i64);
            let _ = weir_arm::release(number as i32);
            let _ = weir_arm::is_live(number as u16);
            let _ = weir_arm::id_of(number as u16);
            let _ = weir_arm::number_of(Sort::Transaction, &[number as u8; 16]);
        }
        Call::Others(at) => {
            let handle = pick(handles, at);
            let block = weir_arm::block(handle, |_| {}).expect("the handle is ours");
            assert!(weir_arm::update_with(handle, |_| {}) && weir_arm::bind(handle, true));
            assert!(weir_arm::unblock(handle, block) && weir_arm::stop(handle, 0));
        }
        Call::Generate(parent) => {
            let begin = Begin { transaction, instance, parent: identity(parent), ..Begin::default() };
            let _ = weir_arm::generate(&begin, |_| {});
        }
        Call::Report(response_ns, own) => {
            let report = Report { transaction, instance, response_ns, own: identity(own), ..Report::default() };
            let _ = weir_arm::report_with(&report, |_| {});
        }
        Call::Instance => {
            let handle = weir_arm::begin_instance(instance);
            assert!(weir_arm::instance_of(handle) == Some(instance) && weir_arm::end_instance(handle));
        }
        Call::Read => position(LANE_READ).store(position(LANE_WRITTEN).load(Ordering::Relaxed), Ordering::Relaxed),
        Call::Nonsense(number) => position(LANE_READ).store(number, Ordering::Relaxed),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn nothing_breaks_and_nothing_is_lost_uncounted(calls in proptest::collection::vec(calls(), 1..80)) {
        carry_out(Call::Read, &mut Vec::new());
        carry_out(Call::Switch(0), &mut Vec::new());
        let mut handles = Vec::new();
        for call in calls {
            let before = position(LANE_WRITTEN).load(Ordering::Relaxed);
            carry_out(call, &mut handles);
            let after = position(LANE_WRITTEN).load(Ordering::Relaxed);
            prop_assert!(after >= before && after - before <= LANE_SLOTS as u64);
            let _ = records(before, after);
        }
        // And with a reader in order again, every pair is there.
        carry_out(Call::Listen(true), &mut handles);
        carry_out(Call::Switch(0), &mut handles);
        carry_out(Call::Read, &mut handles);
        let before = position(LANE_WRITTEN).load(Ordering::Relaxed);
        for _ in 0..10 {
            prop_assert!(weir_arm::stop(weir_arm::start(NUMBERS[1], NUMBERS[2]), 0));
        }
        prop_assert_eq!(records(before, position(LANE_WRITTEN).load(Ordering::Relaxed)), 20);
        // Without room, each start is counted, and none is written.
        let room = position(LANE_READ).load(Ordering::Relaxed) + LANE_SLOTS as u64;
        for _ in position(LANE_WRITTEN).load(Ordering::Relaxed)..room {
            prop_assert!(weir_arm::start(NUMBERS[1], NUMBERS[2]).0 > 0);
        }
        let dropped = position(LANE_DROPPED).load(Ordering::Relaxed);
        for _ in 0..7 {
            prop_assert_eq!(weir_arm::start(NUMBERS[1], NUMBERS[2]), Handle(0));
        }
        prop_assert_eq!(position(LANE_DROPPED).load(Ordering::Relaxed), dropped + 7);
        prop_assert_eq!(word(HEAD_LANELESS).load(Ordering::Relaxed), 0);
    }
}
