//! Traces of other tools' making are read as these tools themselves tell them.
// scripts/test: counts

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{Cursor, Read};
use std::path::Path;
use weir_formats::{
    Counts, Event, Made, Markers, Options, ReadError, Skipped, What, import, read_chrome_json, read_ctf_bytes,
    read_ftrace_text, read_jfr, read_otlp_json, read_otlp_protobuf, read_perf_data, read_perfetto, read_trace_dat,
};
use weir_trace::RunReader;
use weir_wire::Kind;
use weir_wire::socket::{NOT_ACCEPTED, SocketOpen};

/// Files that are damaged and read.
const ROUNDS: usize = 60;

fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("it is packed by gzip");
    unpacked
}

/// Events one per line, without those that only name tasks, in an order that ties cannot change.
fn lines(read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError>) -> (Vec<String>, Counts) {
    let mut lines = Vec::new();
    let counts = read(&mut |event| {
        if matches!(event.what, What::Named { .. } | What::Lost(_)) {
            return;
        }
        let mut line = format!("{:020} {:?} {:?} ", event.at_ns, event.cpu, event.task);
        match event.what {
            // What a tool's text does not show, or not in full.
            What::CallBegins(call) => write!(line, "enter {}", call.name),
            What::CallEnds { call, result } => write!(line, "exit {} {result}", call.name),
            What::Waking { task, .. } => write!(line, "waking {task:?}"),
            What::Fork { child, .. } => write!(line, "fork {child:?}"),
            what => write!(line, "{what:?}"),
        }
        .expect("a text grows");
        lines.push(line);
    });
    lines.sort();
    (lines, counts.expect("it is read"))
}

#[test]
fn perf_data_says_what_perf_script_says() {
    let (binary, counts) = lines(|take| read_perf_data(Cursor::new(sample("perf.data.gz")), &Markers::default(), take));
    let (text, of_text) = lines(|take| read_ftrace_text(&sample("perf.script.txt.gz")[..], &Markers::default(), take));
    assert_eq!(binary.len(), 1_775);
    assert_eq!(counts.events, of_text.events);
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!(binary, text);
    }
    assert_eq!((counts.lost, counts.cpus), (0, 2));
    assert_eq!(counts.clock.as_deref(), Some("the scheduler's clock"));
}

/// The sample as `perf record -z` writes it: its records packed by zstd, in pieces that end anywhere.
fn packed_perf_data(kind: u32) -> Vec<u8> {
    let whole = sample("perf.data.gz");
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (data, size) = (number(40), number(48));
    let packed = zstd::stream::encode_all(&whole[data..data + size], 3).expect("it is packed");
    let mut records = Vec::new();
    for piece in packed.chunks(1_000) {
        // The newer one tells the length of what is packed, and is filled up to words.
        let body = match kind {
            81 => piece.to_vec(),
            _ => [
                &(piece.len() as u64).to_le_bytes()[..],
                piece,
                &vec![0; piece.len().next_multiple_of(8) - piece.len()],
            ]
            .concat(),
        };
        records.extend_from_slice(&kind.to_le_bytes());
        records.extend_from_slice(&[0, 0]);
        records.extend_from_slice(&(8 + body.len() as u16).to_le_bytes());
        records.extend(body);
    }
    let (mut head, mut end) = (whole[..data].to_vec(), whole[data + size..].to_vec());
    head[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    // Behind the records stands where the other sections lie.
    let sections: u32 = head[72..104].iter().map(|byte| byte.count_ones()).sum();
    for place in (0..sections as usize).map(|section| section * 16) {
        let offset = u64::from_le_bytes(end[place..place + 8].try_into().expect("eight bytes"));
        let moved = offset.wrapping_add(records.len() as u64).wrapping_sub(size as u64);
        end[place..place + 8].copy_from_slice(&moved.to_le_bytes());
    }
    [head, records, end].concat()
}

#[test]
fn perf_data_that_is_packed_says_what_it_says_unpacked() {
    let plain = lines(|take| read_perf_data(Cursor::new(sample("perf.data.gz")), &Markers::default(), take));
    for kind in [81, 83] {
        let packed = packed_perf_data(kind);
        let (told, counts) = lines(|take| read_perf_data(Cursor::new(&packed), &Markers::default(), take));
        assert_eq!((&told, &counts), (&plain.0, &plain.1), "{kind}");
    }
}

#[test]
fn trace_dat_says_what_trace_cmd_report_says() {
    let (binary, counts) = lines(|take| read_trace_dat(Cursor::new(sample("trace.dat.gz")), &Markers::default(), take));
    let (text, of_text) = lines(|take| read_ftrace_text(&sample("trace.report.txt.gz")[..], &Markers::default(), take));
    assert_eq!(counts.events, of_text.events);
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!(binary, text);
    }
    assert_eq!((binary.len(), counts.lost, counts.cpus), (1_560, 0, 2));
    assert_eq!(counts.clock.as_deref(), Some("mono"));
}

#[test]
fn a_file_that_is_cut_anywhere_is_told_with_its_byte_or_read_to_there() {
    let (perf, trace) = (sample("perf.data.gz"), sample("trace.dat.gz"));
    for part in 0..400 {
        let outcomes = [
            read_perf_data(Cursor::new(&perf[..perf.len() * part / 400]), &Markers::default(), |_| {}),
            read_trace_dat(Cursor::new(&trace[..trace.len() * part / 400]), &Markers::default(), |_| {}),
        ];
        for outcome in outcomes {
            let error = outcome.expect_err("it is cut").to_string();
            assert!(error.starts_with("byte "), "{part}: {error}");
        }
    }
}

/// Each format that is not read elsewhere here, by the file that it is tried on.
fn read(name: &str, bytes: &[u8], take: &mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError> {
    let markers = Markers::new("request/id/uri".parse().expect("one"), "request/id".parse().expect("one"));
    match name {
        "perf.data.gz" => read_perf_data(Cursor::new(bytes), &markers, take),
        "trace.dat.gz" => read_trace_dat(Cursor::new(bytes), &markers, take),
        "perfetto.pftrace" => read_perfetto(bytes, &markers, take),
        "chrome.json.gz" => read_chrome_json(bytes, &markers, take),
        "java.jfr.gz" => read_jfr(Cursor::new(bytes), &markers, take),
        "otlp.json.gz" => read_otlp_json(bytes, take),
        "otlp.pb" => read_otlp_protobuf(bytes, take),
        "ctf-ust/channel0_0.gz" => read_ctf_bytes(&sample("ctf-ust/metadata.gz"), &[bytes], &markers, take),
        "ctf-perf/perf_stream_0.gz" => read_ctf_bytes(&sample("ctf-perf/metadata.gz"), &[bytes], &markers, take),
        other => panic!("no reader of {other}"),
    }
}

const SAMPLES: [&str; 7] = [
    "perfetto.pftrace",
    "chrome.json.gz",
    "java.jfr.gz",
    "otlp.json.gz",
    "otlp.pb",
    "ctf-ust/channel0_0.gz",
    "ctf-perf/perf_stream_0.gz",
];

/// Events by name in a text of babeltrace2.
fn by_name(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        // `[time] (+delta) host name: { …`
        let name = line.split(": {").next().and_then(|head| head.rsplit(' ').next()).unwrap_or_default();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn ctf_of_lttng_says_what_babeltrace_says() {
    let text = String::from_utf8(sample("ctf-ust.babeltrace2.txt.gz")).expect("a text");
    let markers = Markers::new(
        "shop:request_begin/id/uri".parse().expect("a pattern"),
        "shop:request_end/id".parse().expect("a pattern"),
    );
    let (metadata, first, second) =
        (sample("ctf-ust/metadata.gz"), sample("ctf-ust/channel0_0.gz"), sample("ctf-ust/channel0_1.gz"));
    let (mut marks, mut times) = (Vec::new(), Vec::new());
    let counts = read_ctf_bytes(&metadata, &[&first, &second], &markers, |event| {
        if let What::Mark(mark) = event.what {
            marks.push(format!("{:?} {:?} {:?} {:?}", mark.edge, mark.key, mark.name, event.process));
            times.push(event.at_ns);
        }
    });
    let counts = counts.expect("it is read");
    assert_eq!((counts.events.clone(), counts.lost), (by_name(&text), 0));
    assert_eq!((counts.clock.as_deref(), counts.host.as_deref()), (Some("monotonic"), Some("vm")));
    assert_eq!(marks[0], "Begin Some(\"1\") Some(\"/item/1\") Some(26272)");
    assert_eq!(marks[1], "End Some(\"1\") None Some(26272)");
    // The first line: 07:55:42.112203900, the second 685370 ns later.
    assert_eq!((marks.len(), times[1] - times[0]), (100, 685_370));
    assert!(times.is_sorted());
}

#[test]
fn ctf_of_perf_says_what_babeltrace_says() {
    let text = String::from_utf8(sample("ctf-perf.babeltrace2.txt.gz")).expect("a text");
    let mut calls = Vec::new();
    let counts = read("ctf-perf/perf_stream_0.gz", &sample("ctf-perf/perf_stream_0.gz"), &mut |event| {
        if let What::CallBegins(call) = event.what {
            calls.push(format!("{:.9} {} {:?}", event.at_ns as f64 / 1e9, call.name, call.first));
        }
    });
    let counts = counts.expect("it is read");
    assert_eq!((counts.events.clone(), counts.cpus > 0), (by_name(&text), true));
    // By the text: the second event is a call of accept4 (288) with the descriptor 4, by 43087.420023123.
    assert_eq!(calls[0], "43087.420023123 accept4 Some(4)");
    let called = text.lines().filter(|line| line.contains("sys_enter")).count();
    assert_eq!(calls.len(), called);
}

#[test]
fn the_flight_recorders_events_are_those_that_jfr_counts() {
    let text = include_str!("samples/java.jfr.summary.txt");
    let counted: BTreeMap<String, u64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, count)| (name.to_owned(), count.parse().expect("a count")))
        .collect();
    let (mut waits, mut stacks, mut names) = (BTreeMap::<String, (u64, u64)>::new(), Vec::new(), Vec::new());
    let counts = read("java.jfr.gz", &sample("java.jfr.gz"), &mut |event| match event.what {
        What::Stretch(stretch) => {
            let (count, ns) = waits.entry(stretch.name.to_owned()).or_default();
            (*count, *ns) = (*count + 1, *ns + event.at_ns - stretch.begun_ns);
        }
        What::Sample { stack, .. } => stacks.push(stack.to_owned()),
        What::Named { task, .. } => names.push(task.name.to_owned()),
        _ => {}
    });
    assert_eq!(counts.expect("it is read").events, counted);
    // `T` parks five times for 30 ms, and sleeps 20 times for 25 ms, once for 100 and once for 20.
    let (parks, parked_ns) = waits["park"];
    let (sleeps, slept_ns) = waits["sleep"];
    assert!(parks == 5 && (150_000_000..300_000_000).contains(&parked_ns), "{waits:?}");
    assert!(sleeps == 22 && (620_000_000..1_200_000_000).contains(&slept_ns), "{waits:?}");
    assert!(waits.keys().any(|name| name.starts_with("enter monitor java.lang.Object")), "{waits:?}");
    assert!(stacks.iter().any(|stack| stack.contains("T.burn\nT.main\n")), "{stacks:?}");
    assert!(["main", "writer"].iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
}

#[test]
fn perfettos_switches_and_slices_are_read_by_one_clock() {
    // Made by Perfetto's own Python classes: 1 switch as an event, 40 in columns, 20 wakings, 20 slices by another clock.
    let (mut switches, mut wakings, mut slices) = (0, 0, Vec::new());
    let counts = read("perfetto.pftrace", &sample("perfetto.pftrace"), &mut |event| match event.what {
        What::Switch { from, to, .. } => {
            switches += 1;
            assert_ne!(from.number, to.number);
        }
        What::Waking { task, .. } => wakings += u32::from(task.number == 43 && task.name == "worker"),
        What::Mark(mark) => slices.push((event.at_ns, event.task, mark.name.map(str::to_owned))),
        _ => {}
    });
    let counts = counts.expect("it is read");
    assert_eq!((switches, wakings, counts.clock.as_deref()), (41, 20, Some("CLOCK_BOOTTIME")));
    // 1420 us after the snapshot's moment, by the monotonic clock; the boot's is 100 ms ahead.
    let first = (1_001_420_000, Some(43), Some("/item/0".to_owned()));
    assert_eq!((slices.len(), &slices[0]), (40, &first));
    assert_eq!((counts.events["request"], counts.events["sched_switch"]), (20, 41));
}

#[test]
fn chromes_json_is_read_as_object_and_as_array() {
    let object = sample("chrome.json.gz");
    let (told, counts) = lines(|take| read("chrome.json.gz", &object, take));
    assert_eq!(counts.events.values().sum::<u64>(), 8 * 30);
    let of = |name: &str| told.iter().filter(|line| line.contains(&format!("name: {name:?}"))).count();
    assert_eq!((of("handle"), of("parse \"q\""), of("async")), (30, 30, 30));
    // From 1000.5 us on, for 42.25 us.
    let is_first = |line: &String| line.starts_with("00000000000001042750") && line.contains("begun_ns: 1000500,");
    assert!(told.iter().any(is_first), "{told:#?}");
    // Marks and flows that no pattern names.
    assert_eq!(counts.skipped.get(&Skipped::NotMapped), Some(&90));
    let begin = memchr::memmem::find(&object, b"[{\"ph\"").expect("the events");
    let end = memchr::memmem::find(&object, b"], \"metadata\"").expect("their end");
    // The array's end may be missing.
    let (of_array, counted) = lines(|take| read("chrome.json.gz", &object[begin..end], take));
    assert_eq!((of_array, counted.events), (told, counts.events));
}

#[test]
fn otlps_two_encodings_say_the_same() {
    let (json, counts) = lines(|take| read("otlp.json.gz", &sample("otlp.json.gz"), take));
    let (protobuf, counted) = lines(|take| read("otlp.pb", &sample("otlp.pb"), take));
    assert_eq!((&json, &counts), (&protobuf, &counted));
    assert_eq!((json.len(), counts.events["GET /item"], counts.events["SELECT"]), (25, 25, 25));
    assert_eq!(json.iter().filter(|line| line.contains("status: Some(500), has_failed: true")).count(), 5);
    assert_eq!(counts.host.as_deref(), Some("web-1"));
}

#[test]
fn a_trace_that_is_cut_is_told_with_its_byte_or_read_to_there() {
    for name in SAMPLES {
        let whole = sample(name);
        let mut all = 0;
        read(name, &whole, &mut |_| all += 1).expect("it is read");
        let steps = whole.len().min(if name == "java.jfr.gz" { 20 } else { 300 });
        for step in 0..steps {
            let mut events = 0;
            let outcome = read(name, &whole[..whole.len() * step / steps], &mut |_| events += 1);
            assert!(events <= all, "{name}: a part has more events than the whole");
            if let Err(error) = outcome {
                assert!(error.to_string().starts_with("byte "), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_damaged_trace_ends_in_an_error_or_in_other_events_and_never_in_a_panic() {
    let mut random = fastrand::Rng::with_seed(2);
    for name in SAMPLES {
        let whole = sample(name);
        for round in 0..ROUNDS {
            let mut bytes = whole.clone();
            let most = if round % 2 == 0 { bytes.len().min(512) } else { bytes.len() };
            for _ in 0..random.usize(1..8) {
                bytes[random.usize(..most)] = random.u8(..);
            }
            drop(read(name, &bytes, &mut |_| {}));
        }
    }
    // The metadata of CTF, too, which then describe other streams.
    for (metadata, stream) in
        [("ctf-ust/metadata.gz", "ctf-ust/channel0_0.gz"), ("ctf-perf/metadata.gz", "ctf-perf/perf_stream_0.gz")]
    {
        let (described, stream) = (sample(metadata), sample(stream));
        for _ in 0..ROUNDS {
            let mut bytes = described.clone();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..bytes.len());
                bytes[at] = *random.choice(b"0123456789;{}=<>").expect("one");
            }
            drop(read_ctf_bytes(&bytes, &[&stream], &Markers::default(), |_| {}));
        }
    }
}

#[test]
fn damaged_bytes_end_in_an_error_or_in_other_events_and_never_in_a_panic() {
    let (perf, trace) = (sample("perf.data.gz"), sample("trace.dat.gz"));
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..ROUNDS {
        for (whole, is_perf) in [(&perf, true), (&trace, false)] {
            let mut bytes = whole.clone();
            // The headers are hit as often as what they describe.
            let most = if round % 2 == 0 { 4_096 } else { bytes.len() };
            for _ in 0..random.usize(1..16) {
                let at = random.usize(..most);
                bytes[at] = random.u8(..);
            }
            let cursor = Cursor::new(bytes);
            let markers = Markers::default();
            let outcome = if is_perf {
                read_perf_data(cursor, &markers, |_| {})
            } else {
                read_trace_dat(cursor, &markers, |_| {})
            };
            drop(outcome);
        }
    }
}

/// Lines as `perf script` prints them: two connections, of which the second client's is on another host, and two requests.
fn tcp_lines() -> String {
    let ends = |port: u16, client: &str| {
        format!(
            "family=AF_INET sport=80 dport={port} saddr=192.0.2.1 daddr={client} saddrv6=::ffff:192.0.2.1 daddrv6=::ffff:{client}"
        )
    };
    let (own, far) = (ends(5_000, "192.0.2.1"), ends(5_001, "203.0.113.9"));
    let probe = |port: u16, client: &str, bytes: u32| {
        format!(
            "tcp:tcp_probe: family=AF_INET src=192.0.2.1:80 dest={client}:{port} mark=0 data_len={bytes} snd_nxt=0x1"
        )
    };
    let (first, second, none) =
        (probe(5_000, "192.0.2.1", 84), probe(5_001, "203.0.113.9", 40), probe(5_000, "192.0.2.1", 0));
    let call = |descriptor: u32, at: u32, tcp: &str, bytes: u32| {
        format!(
            "nginx 10/10 [001] 1.{at:09}: syscalls:sys_enter_recvfrom: fd: {descriptor:#010x}, ubuf: 0x1\n\
             nginx 10/10 [001] 1.{:09}: tcp:tcp_rcv_space_adjust: {tcp} sock_cookie=1\n\
             nginx 10/10 [001] 1.{:09}: syscalls:sys_exit_recvfrom: {bytes:#x}\n",
            at + 1,
            at + 2
        )
    };
    [
        format!("curl 90/90 [000] 1.000001000: sock:inet_sock_set_state: {own} oldstate=TCP_SYN_RECV newstate=TCP_ESTABLISHED\n"),
        format!("curl 90/90 [000] 1.000002000: {first}\n"),
        "nginx 10/10 [001] 1.000003000: syscalls:sys_enter_accept4: fd: 0x00000004, upeer: 0x0\n".to_owned(),
        "nginx 10/10 [001] 1.000003500: syscalls:sys_exit_accept4: 0x9\n".to_owned(),
        call(9, 4_000, &own, 84),
        "nginx 10/10 [001] 1.000005000: syscalls:sys_enter_accept4: fd: 0x00000004, upeer: 0x0\n".to_owned(),
        "nginx 10/10 [001] 1.000005500: syscalls:sys_exit_accept4: 0xa\n".to_owned(),
        format!("curl 90/90 [000] 1.000006000: {second}\n"),
        format!("curl 90/90 [000] 1.000006100: {none}\n"),
        format!("curl 90/90 [000] 1.000006500: {first}\n"),
        call(10, 7_000, &far, 40),
        call(9, 8_000, &own, 84),
    ]
    .concat()
}

#[test]
fn requests_arrive_when_tcp_tells_it_and_connections_have_their_ends() {
    let folder = std::env::temp_dir().join(format!("weir-formats-arrivals-{}", std::process::id()));
    let (trace, run) = (folder.join("trace.txt"), folder.join("run"));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(&trace, tcp_lines()).expect("it is written");
    let made = Made { version: "test", command: Vec::new() };
    let imported = import(&trace, &run, &Options::default(), &made).expect("it is read");
    assert!(imported.not_kept.is_empty() && imported.counts.skipped.is_empty(), "{imported:?}");
    let (mut arrivals, mut opened) = (Vec::new(), Vec::new());
    RunReader::open(&run).expect("a run").merge().each(|told| {
        let (socket, position) = told.record.a_halves();
        if told.record.kind == Kind::SocketReady as u16 {
            arrivals.push((told.record.time_ns - 1_000_000_000, socket, position, told.record.flags));
        }
        if let Some(open) = SocketOpen::read(&told.record, told.payload) {
            opened.push(open);
            assert!(arrivals.iter().all(|(_, socket, ..)| *socket != open.socket), "it is told of before what comes");
        }
        true
    });
    let notes = std::fs::read_to_string(run.join("manifest.jsonl")).expect("a manifest");
    std::fs::remove_dir_all(&folder).expect("it is removed");
    // The first data came before their connection was accepted.
    assert_eq!(arrivals, [(2_000, 1, 84, NOT_ACCEPTED), (6_000, 2, 40, 0), (6_500, 1, 168, 0)]);
    let ends: Vec<_> = opened.iter().map(|open| (open.local.to_string(), open.remote.port())).collect();
    assert_eq!(ends, [("192.0.2.1:80".to_owned(), 5_000), ("192.0.2.1:80".to_owned(), 5_001)]);
    assert_eq!(opened[0].remote.to_string(), "192.0.2.1:5000");
    assert!(opened[1].remote.to_string().starts_with("[fd77:6569:7200:0:"), "{}", opened[1].remote);
    assert!(notes.contains("tells when data arrived of 3 of 3"), "{notes}");
}
