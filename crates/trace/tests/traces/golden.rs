//! A segment of every released schema, committed once and read for ever.
//!
//! `WEIR_BLESS=1` writes the one of the present schema where there is none yet; an existing one is never written anew,
//! as the files of users are not either.

use crate::support;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Content, read};
use weir_testkit::require;
use weir_trace::{Clock, Source};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::Switch;
use weir_wire::{KINDS, Kind, Record, Slot, schema, text_from_slots, text_slots};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn present() -> PathBuf {
    folder().join(format!("schema-{}.{}.seg", schema::VERSION.0, schema::VERSION.1))
}

/// What a segment holds, as text; `read_segment.py` prints the same by other means.
fn dump(contents: &[Content]) -> String {
    let mut text = String::new();
    for Content { header, names, records } in contents {
        let clock = match header.clock {
            Clock::Monotonic => 1,
            Clock::Foreign(code) => code,
        };
        let source = match header.source {
            Source::Kernel => 1,
            Source::Client => 2,
            Source::Arm => 3,
            Source::Decisions => 4,
            Source::Other(code) => code,
        };
        let ((major, minor), lane, lost) = (header.schema, header.lane, header.lost);
        let (base, end, count) = (header.base_ns, header.end_ns, records.len());
        let _ = writeln!(
            text,
            "block schema {major}.{minor} clock {clock} source {source} lane {lane} base {base} end {end} lost {lost} records {count}"
        );
        for (id, name) in names {
            let _ = writeln!(text, "  name {id} {name}");
        }
        for (Record { time_ns, kind, flags, lane, a, b, .. }, payload) in records {
            let _ = writeln!(text, "  {time_ns} kind {kind:#06x} flags {flags} lane {lane} a {a:#x} b {b:#x}");
            for [first, second, third, fourth] in payload {
                let _ = writeln!(text, "    {first:#x} {second:#x} {third:#x} {fourth:#x}");
            }
        }
    }
    text
}

fn plain(time_ns: u64, kind: Kind, flags: u8, lane: u32, a: u64, b: u64) -> (Record, Vec<Slot>) {
    (Record { time_ns, kind: kind as u16, flags, slots: 0, lane, a, b }, Vec::new())
}

fn with<const N: usize>((record, slots): (Record, [Slot; N])) -> (Record, Vec<Slot>) {
    (record, slots.to_vec())
}

const SWITCH: Switch = Switch { prev: 4_000_000, next: 12, prev_state: 1, syscall: 232, descriptor: 0xabcd };

fn sockets() -> [SocketOpen; 2] {
    let v4 = SocketOpen {
        socket: 77,
        receive_base: 0xffff_fff0,
        send_base: 2000,
        cookie: 77 | 1 << 32,
        netns: 4_026_531_840,
        local: "127.0.0.1:80".parse().expect("an address"),
        remote: "192.0.2.7:40000".parse().expect("an address"),
    };
    let v6 = SocketOpen {
        socket: 78,
        cookie: 78,
        local: "[2001:db8::1]:443".parse().expect("an address"),
        remote: "[2001:db8::2]:50000".parse().expect("an address"),
        ..v4
    };
    [v4, v6]
}

fn connections() -> [ClientConnection; 2] {
    let [v4, v6] = sockets();
    let good = ClientConnection {
        connection: 1,
        connect_start_ns: 3000,
        connected_ns: 3010,
        failed: false,
        local: v4.remote,
        remote: v4.local,
    };
    [good, ClientConnection { connection: 2, failed: true, local: v6.remote, remote: v6.local, ..good }]
}

fn request(outcome: Outcome, done_ns: u64) -> ClientRequest {
    ClientRequest {
        connection: 1,
        intended_ns: 3000,
        started_ns: 3001,
        sent_ns: 3011,
        first_byte_ns: 3020,
        done_ns,
        request_offset: 1 << 40,
        request_bytes: 70_000,
        response_offset: 1 << 41,
        response_bytes: 1 << 33,
        status: 404,
        name: 7,
        outcome,
        opened_connection: outcome == Outcome::Done,
        encrypted: outcome == Outcome::Tls,
        retried: outcome == Outcome::Done,
        http_version: 1,
        stream: 0,
    }
}

/// Every kind of schema 1.0, and what else a block may say.
fn written() -> Vec<Content> {
    let mut kernel = vec![
        plain(1000, Kind::ClockPair, 0, 0, 1_700_000_000_000_000_000, 0),
        plain(1001, Kind::CpuSteal, 0, 0, 12_345, 0),
        (
            plain(1002, Kind::TaskName, 1, 0, 12 | 10 << 32, 0).0,
            text_slots("nginx: worker process with quite a long näme"),
        ),
        (SWITCH.write(1003, 0), Vec::new()),
        plain(1004, Kind::Waking, 1, 0, 12 | 13 << 32, 0),
        plain(1005, Kind::Fork, 0, 0, 12 | 14 << 32, 14),
        plain(1006, Kind::Exec, 0, 0, 14, 0),
        plain(1007, Kind::Exit, 0, 0, 14, 0),
        plain(1008, Kind::SocketReady, 1, 0, 77 | 100 << 32, 0),
        plain(1009, Kind::SocketRecv, 1 | 2 | 4 | 8, 0, 77 | 100 << 32, 0),
        plain(1010, Kind::SocketSend, 0, 0, 77 | 200 << 32, 0),
        plain(1011, Kind::SocketState, 0, 0, 77 | 200 << 32, 1 | 8 << 8),
        plain(1012, Kind::ListenReady, 0, 0, 70 | 3 << 32, 0),
    ];
    kernel.extend(sockets().map(|open| with(open.write(1013, 0))));
    let lost = vec![plain(2000, Kind::Lost, 0, 3, 17, 0)];
    let mut client = vec![plain(2999, Kind::ClientLane, 0, 1, 500 | 499 << 32, 0)];
    client.extend(connections().map(|connection| with(connection.write(1))));
    client.extend(Outcome::ALL.iter().zip(3021..).map(|(outcome, done_ns)| with(request(*outcome, done_ns).write(1))));
    client.push(plain(u64::MAX, Kind::ClientDropped, 0, 1, 9, 3000));
    let unknown = Record { time_ns: 5, kind: 0x7f01, flags: 0xff, slots: 8, lane: u32::MAX, a: u64::MAX, b: 1 };
    let mut foreign =
        Content::new(Source::Other(9), u32::MAX, u64::MAX, &[], vec![(unknown, vec![[1, 2, 3, u64::MAX]; 8])]);
    foreign.header.clock = Clock::Foreign(7);
    // Each kind once more as the table has it, so that none can be added without its place in a golden segment.
    let table = KINDS.iter().zip(4000..).map(|(spec, time_ns)| {
        let record = Record { time_ns, kind: spec.code, flags: 3, slots: 1, lane: 5, a: u64::MAX - 1, b: 1 << 50 };
        (record, vec![[time_ns, 2, 3, 4]])
    });
    let table = Content::new(Source::Kernel, 5, 0, &[], table.collect());
    vec![
        Content::new(Source::Kernel, 0, 0, &[], kernel),
        Content::new(Source::Kernel, 3, 17, &[], lost),
        Content::new(Source::Client, 1, 0, &[(7, "GET /größe"), (1 << 31, "POST /")], client),
        foreign,
        table,
        Content::new(Source::Kernel, 4, 1, &[], Vec::new()),
    ]
}

#[test]
fn the_present_schema_has_its_segment() {
    let (path, contents) = (present(), written());
    if std::env::var_os("WEIR_BLESS").is_some() && !path.exists() {
        fs::write(&path, contents.iter().flat_map(Content::bytes).collect::<Vec<_>>()).expect("written");
        fs::write(path.with_extension("txt"), dump(&contents)).expect("written");
    }
    let bytes = fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; the schema was raised: write its segment by `WEIR_BLESS=1 cargo test --release --workspace --test traces golden`", path.display())
    });
    assert!(
        contents.iter().flat_map(Content::bytes).eq(bytes.iter().copied()),
        "what is written today is not schema {}.{} as its golden segment has it: raise weir_wire::schema::VERSION (before its first release: remove the segment and bless)",
        schema::VERSION.0,
        schema::VERSION.1
    );
    let seen: Vec<u16> =
        read(&bytes).blocks.iter().flat_map(|block| &block.records).map(|(record, _)| record.kind).collect();
    for spec in KINDS {
        assert!(seen.contains(&spec.code), "{} is missing in the golden segment", spec.name);
        assert!(spec.since <= schema::VERSION, "{} is of a schema to come", spec.name);
    }
}

#[test]
fn every_released_segment_reads_as_it_always_did() {
    let mut segments = 0;
    for file in fs::read_dir(folder()).expect("the golden segments") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            let expected = fs::read_to_string(path.with_extension("txt")).expect("its text");
            let got = read(&fs::read(&path).expect("readable"));
            assert!(got.error.is_none() && got.damaged_bytes == 0 && !got.cut, "{}: {got:?}", path.display());
            assert_eq!(dump(&got.blocks), expected, "{}", path.display());
            segments += 1;
        }
    }
    assert!(segments > 0);
}

#[test]
fn operands_of_schema_1_0_are_taken_apart_as_they_were_put_together() {
    let blocks = read(&fs::read(folder().join("schema-1.0.seg")).expect("readable")).blocks;
    let of = |kind: Kind| {
        let records = blocks.iter().flat_map(|block| &block.records);
        records.filter(move |(record, _)| record.kind == kind as u16).collect::<Vec<_>>()
    };
    assert_eq!(Switch::read(&of(Kind::Switch)[0].0), Some(SWITCH));
    assert_eq!(text_from_slots(&of(Kind::TaskName)[0].1), "nginx: worker process with quite a long näme");
    for ((record, slots), open) in of(Kind::SocketOpen).into_iter().zip(sockets()) {
        assert_eq!(SocketOpen::read(record, slots), Some(open));
    }
    for ((record, slots), connection) in of(Kind::ClientConnection).into_iter().zip(connections()) {
        assert_eq!(ClientConnection::read(record, slots), Some(connection));
    }
    for (((record, slots), outcome), done_ns) in of(Kind::ClientRequest).into_iter().zip(Outcome::ALL).zip(3021..) {
        assert_eq!(ClientRequest::read(record, slots), Some(request(outcome, done_ns)));
    }
}

#[test]
fn an_independent_reader_reads_the_same() {
    if require::program("python3").is_none() {
        return;
    }
    let script = folder().with_file_name("read_segment.py");
    for file in fs::read_dir(folder()).expect("the golden segments") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            let output = Command::new("python3").arg(&script).arg(&path).output().expect("python3 starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let expected = fs::read_to_string(path.with_extension("txt")).expect("its text");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", path.display());
        }
    }
}
