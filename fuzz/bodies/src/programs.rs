//! What is read of other people's programs: ELF files, the notes of static probes, instructions, and the texts that a
//! probe finds.

use std::path::PathBuf;
use weir_capture::asked::{Call, Conversation, Told};
use weir_capture::http2::Heads;
use weir_capture::user_probes::usdt::{argument, note};
use weir_capture::user_probes::{
    Binary, Dialect, Release, cost_of, go_functions, next_note, normalised, place, tls_edge, without_query,
};
use weir_wire::stream::{Flow, StreamFrame};

/// Reads any bytes as a program: functions, static probes and calls, each looked at for what a probe would cost there.
pub fn program(input: &[u8]) {
    let Ok(binary) = Binary::of(PathBuf::from("program"), input.to_vec()) else { return };
    let release = Release(6, 18);
    if let Ok(edge) = tls_edge(&binary, release) {
        assert!(edge.iter().all(|site| site.offset < input.len() as u64));
    }
    for name in ["cheap", "moved", "main", "usleep", ""] {
        for function in binary.functions(name).unwrap_or_default() {
            assert!(function.offset < input.len() as u64 && function.code.len() <= input.len());
            let placed = place(&function.code, &[], false, release);
            assert!(placed.shift <= function.code.len() as u64);
        }
        for call in binary.calls(name).unwrap_or_default() {
            let _ = input.get(call as usize..).map(|code| cost_of(code, release));
        }
    }
    for probe in binary.static_probes("demo", "round").unwrap_or_default() {
        assert!(probe.offset < input.len() as u64 && !probe.code.is_empty() && probe.arguments.len() <= 12);
    }
}

/// Reads any bytes as a section of notes, each note as a static probe's, and all as an argument.
pub fn probe_notes(input: &[u8]) {
    let mut rest = input;
    let mut notes = 0;
    while let Some((content, after)) = next_note(rest) {
        assert!(after.len() < rest.len(), "each note takes some bytes");
        rest = after;
        notes += 1;
        if let Some(note) = content.and_then(note) {
            assert!(!note.provider.is_empty() && !note.name.is_empty());
        }
    }
    assert!(notes <= input.len() / 12);
    let text = String::from_utf8_lossy(input);
    if let Some(argument) = argument(&text) {
        assert!([1, 2, 4, 8].contains(&argument.bytes));
    }
}

/// Reads any bytes as the table of functions of a program of Go.
pub fn go_table(input: &[u8]) {
    let found = go_functions(input, 0x1000, ["crypto/tls.(*Conn).Read", "main.main", ""]);
    if input.len() < 72 {
        assert_eq!(found, [None; 3]);
    }
}

/// Takes the literals out of any text.
pub fn query_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for dialect in [Dialect::PostgreSql, Dialect::MySql] {
        for is_cut in [false, true] {
            let out = normalised(&text, dialect, is_cut);
            assert!(out.len() <= 1003 && !out.contains(char::is_control), "{out:?}");
        }
        // A value between quotes, doubled where it holds them, is never shown.
        let value: String = text.chars().filter(|symbol| *symbol != '\\').collect();
        let query = format!("x = '{}' y", value.replace('\'', "''"));
        assert_eq!(normalised(&query, dialect, false), "x = ? y");
    }
    assert!(!without_query(&text).contains('?'));
}

/// What runtimes write of their containers: ids are whole and names are words, for any content.
pub fn containers(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let of_docker = weir_capture::containers::of_docker(&text);
    let pods = weir_capture::containers::of_kubernetes(&text).unwrap_or_default();
    let known = of_docker.into_iter().chain(weir_capture::containers::of_storage(&text)).chain(pods.containers);
    for known in known {
        assert!(known.id.len() == 64 && known.id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{known:?}");
        assert!(known.names.iter().all(|name| !name.is_empty() && !name.contains([' ', '\n'])), "{known:?}");
    }
}

/// Reads any frames' heads, of one connection in both directions: no name of a request has a query, and what was not seen
/// makes an end of reading.
pub fn stream_heads(input: &[u8]) {
    let mut heads = Heads::new(false).with_traces();
    let mut rest = input;
    let mut at_ns = 1;
    while let Some((&[what, kind, frame_flags, length], more)) = rest.split_first_chunk::<4>() {
        let (bytes, after) = more.split_at(usize::from(length).min(more.len()));
        let frame = StreamFrame {
            flow: Flow::Socket(1),
            stream: u32::from(what >> 4) * 2 + 1,
            kind: kind & 15,
            sent: what & 1 != 0,
            more: what & 2 != 0,
            older: what & 4 != 0,
            position: 0,
            length: u32::from(length),
            frame_flags,
        };
        heads.frame(at_ns, u32::from(what >> 3 & 1), frame);
        heads.bytes(at_ns, u32::from(what >> 3 & 1), bytes);
        if kind & 0x80 != 0 {
            heads.read(at_ns, &mut |head, _| assert!(!head.name.contains('?'), "{head:?}"));
        }
        (rest, at_ns) = (after, at_ns + 1);
    }
    heads.read(u64::MAX, &mut |head, _| assert!(!head.name.contains('?'), "{head:?}"));
}

/// Calls on a connection to something that a server asks, of any bytes, of which any number is copied: what is held is
/// bounded, times do not run backwards, and texts are on one line.
pub fn questions(input: &[u8]) {
    // A head that names a trace is looked at in the same bytes: what is read of it is a trace.
    assert!(weir_capture::traceparent(input).is_none_or(|context| context.trace != 0 && context.span != 0));
    let mut conversation = Conversation::new(false);
    let mut rest = input;
    let mut at_ns = 1;
    let check = |told: Told| {
        assert!(told.answered_ns >= told.asked_ns, "{told:?}");
        assert!(!told.shape.contains(['\t', '\n']) && !told.status.contains(['\t', '\n']), "{told:?}");
    };
    while let Some((&[what, length], more)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = more.split_at(usize::from(length).min(more.len()));
        // Some calls have more bytes than were copied.
        let call =
            Call { at_ns, pid: 1, given: what & 1 != 0, length: bytes.len() + usize::from(what >> 1) * 4, bytes };
        conversation.push(&call, &mut { check });
        assert!(conversation.held() <= 1024);
        (rest, at_ns) = (after, at_ns + 1);
    }
    conversation.close(&mut { check });
}
