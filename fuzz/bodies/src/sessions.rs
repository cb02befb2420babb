//! Files of web tests and recorded sessions, and what web pages say.

use std::path::Path;
use weir_session::recording::Recording;
use weir_session::specification::{self, Value};
use weir_session::{convert, har, interpret, literal, monkeywrench, page, pattern, replay};

fn no_variable(_: &str) -> Option<String> {
    None
}

/// Reads any bytes as a specification: what was read means the same when its values are written again.
pub fn web_tests(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(read) = specification::parse(&text, &no_variable) else { return };
    for parameter in read.globals.iter().chain(read.tests.iter().flat_map(|test| &test.parameters)) {
        let again = specification::parse(&format!("{} = {}\n", parameter.name, parameter.value), &no_variable);
        let again =
            again.map(|again| again.globals.into_iter().map(|parameter| parameter.value).collect::<Vec<Value>>());
        // A global parameter of that name would begin a test.
        assert!(parameter.name == "test_name" || again == Ok(vec![parameter.value.clone()]), "{again:?}");
    }
    if let Ok(suite) = interpret::suite(&read, Path::new(".")) {
        assert_eq!(suite.tests.len(), read.tests.len());
    }
}

/// Reads any bytes as Perl literals, JSON and TOML of sessions.
pub fn monkeywrench_sessions(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(read) = literal::parse(&text, &no_variable) {
        let _either = monkeywrench::suite_of_literals(&read);
    }
    let _either = (monkeywrench::suite_of_json(&text), monkeywrench::suite_of_toml(&text));
}

/// Reads any bytes as an HTTP Archive: what is written of it is read as the same, and what it is converted to can be
/// read.
pub fn http_archive(input: &[u8]) {
    let Ok(archive) = har::read(&String::from_utf8_lossy(input)) else { return };
    let read = archive.recording;
    let untimed = |recording: &Recording| {
        let mut entries = recording.entries.clone();
        entries.iter_mut().for_each(|entry| entry.seconds = 0.0);
        Recording { entries }
    };
    let again = |recording| {
        let archive = har::read(&har::write(recording)).expect("what we write is of the form");
        assert!(archive.unread.is_empty(), "{:?}", archive.unread);
        archive.recording
    };
    let once = again(&read);
    let twice = again(&once);
    assert_eq!(untimed(&once), untimed(&twice));
    let tests = replay::suite(&read, &replay::Replay { sizes: Some(1.0), pauses: true, ..replay::Replay::default() });
    let usable = read.entries.len() - convert::left_out(&read);
    // Bodies that are no text are asked again, but cannot be written as tests.
    assert!(tests.suite.tests.len() >= usable);
    let specification = specification::parse(&convert::webtest(&read), &no_variable).expect("a specification");
    assert_eq!(specification.tests.len(), usable);
    literal::parse(&convert::monkeywrench(&read), &no_variable).expect("literals");
    let lines = convert::sessions(&read);
    assert!(lines.lines().all(|line| line.starts_with(['/', '#', ' '])), "{lines}");
}

/// Reads any bytes as a page, and as a pattern that is looked for in it.
pub fn web_page(input: &[u8]) {
    let _page = page::Page::read(input);
    if let Ok(pattern) = pattern::Pattern::new(&String::from_utf8_lossy(input), true) {
        let _either = pattern.is_in(input);
    }
}
