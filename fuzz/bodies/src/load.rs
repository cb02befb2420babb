//! Everything that says what a load asks and when: lists, logs, cookies.

use crate::Choices;
use std::time::{Duration, SystemTime};
use weir_load::access_log::AccessLog;
use weir_load::cookies::{COOKIES_MAX, CookieJar};
use weir_load::http3::Malformed;
use weir_load::http3::frames::{Event, Reader};
use weir_load::http3::inbound::{InboundStreams, Said};
use weir_load::http3::qpack::{Decoder, Head};
use weir_load::sessions::{Session, Sessions, Think, parse_sessions};
use weir_load::workload::Crowd;
use weir_load::{Check, Options, Profile, Request, Scope, Url, parse_server_list, parse_uri_log, parse_url_list};
use weir_measure::threshold::Threshold;

/// Reads any bytes as what a server says over HTTP/3, on the stream of a request or on its own ones, in one piece and in
/// many: the pieces make no difference.
pub fn load_http3(input: &[u8]) {
    let mut choices = Choices(input);
    let (mut splits, is_own) = (choices.word(), choices.byte() & 1 == 1);
    let input = choices.0;
    let mut piece = || {
        splits = splits.rotate_left(5);
        1 + (splits % 16) as usize
    };
    if is_own {
        assert_eq!(http3_own(input, || usize::MAX), http3_own(input, piece));
    } else {
        assert_eq!(http3_response(input, || usize::MAX), http3_response(input, &mut piece));
    }
}

/// What a response's stream says: blocks of fields as they were decoded, and content joined; and what is wrong with it.
fn http3_response(input: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<Http3Said>, Option<Malformed>) {
    let (mut reader, mut block, mut decoder) = (Reader::default(), Vec::new(), Decoder::default());
    decoder.keep_fields();
    decoder.keep_cookies();
    let (mut said, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let end = at + piece().min(input.len() - at);
        while at < end {
            let (used, event) = match reader.next(&input[at..end], &mut block) {
                Ok(next) => next,
                Err(malformed) => return (said, Some(malformed)),
            };
            assert!(used > 0 && used <= end - at, "no way forward, or too far");
            at += used;
            match event {
                Some(Event::Headers(block)) => {
                    let first = decoder.decode(block);
                    assert_eq!(decoder.decode(block), first, "a block means the same the second time");
                    match first {
                        Ok(head) => said.push(Http3Said::Head(head, decoder.fields().to_vec())),
                        Err(malformed) => return (said, Some(malformed)),
                    }
                }
                Some(Event::Content(content)) => match said.last_mut() {
                    Some(Http3Said::Content(before)) => before.extend_from_slice(content),
                    _ => said.push(Http3Said::Content(content.to_vec())),
                },
                None => {}
            }
        }
    }
    (said, None)
}

/// What a response's stream says.
#[derive(Debug, PartialEq)]
enum Http3Said {
    Head(Head, Vec<u8>),
    Content(Vec<u8>),
}

/// What one of a server's own streams says, and what is wrong with it.
fn http3_own(input: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<Said>, Option<Malformed>) {
    let (mut streams, mut said, mut rest) = (InboundStreams::default(), Vec::new(), input);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(piece().min(rest.len()));
        if let Err(malformed) = streams.take(3, now, &mut said) {
            return (said, Some(malformed));
        }
        rest = later;
    }
    let _ = streams.end(3);
    (said, None)
}

/// Reads any bytes as a list of URLs: requests that can be built, or an error with its line.
pub fn url_list(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let base = Url::parse("http://localhost:81/").expect("a URL");
    match parse_url_list(&text, Some(&base), &Request::default(), |_| Ok(b"body".to_vec())) {
        Ok((requests, _)) => {
            assert!(!requests.is_empty() && requests.len() <= text.lines().count());
            for listed in requests {
                assert!(listed.weight > 0);
                let bytes = listed.request.bytes(&listed.url, true).expect("it was tried");
                let head = String::from_utf8(bytes).expect("text");
                assert_eq!(head.lines().next().map(|line| line.split(' ').count()), Some(3), "{head:?}");
            }
        }
        Err(error) => assert!(error.line <= text.lines().count()),
    }
}

/// Reads any bytes as a file of sessions: requests that can be built and bursts of them, or an error with its line.
pub fn session_list(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let base = Url::parse("http://localhost:81/").expect("a URL");
    match parse_sessions(&text, Some(&base), &Request::default(), Think::None) {
        Ok((requests, sessions)) => {
            assert!(!sessions.is_empty() && sessions.len() <= text.lines().count());
            assert!(requests.iter().all(|listed| listed.request.bytes(&listed.url, true).is_ok()));
            let count: usize = sessions.iter().map(Session::requests).sum();
            assert!((sessions.len()..=text.lines().count()).contains(&count));
            let mut options = Options::new(base);
            options.requests.list = requests;
            options.requests.sessions = Some(Sessions { list: sessions, seed: 1 });
            // They may go to several hosts, which is refused in words.
            let _ = options.check();
        }
        Err(error) => assert!(error.line <= text.lines().count()),
    }
}

/// Reads any lines as objectives and checks: what is read is shown as itself, and says which requests it is of.
pub fn load_gate(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let url = Url::parse("http://localhost:81/cart?id=7").expect("a URL");
    for line in text.lines() {
        if let Ok((Some(scope), rest)) = Scope::split(line, "x") {
            assert!(line.trim().ends_with(rest), "{line:?}");
            assert_eq!(scope.to_string().parse::<Scope>().as_ref(), Ok(&scope), "{line:?}");
            let _ = scope.contains(&url, &Request::default());
        }
        if let Ok(threshold) = line.parse::<Threshold>() {
            // Six digits are shown: what is smaller is shown as nothing, and is then none.
            if let Ok(again) = threshold.to_string().parse::<Threshold>() {
                assert_eq!(again.to_string(), threshold.to_string(), "{line:?}");
            }
        }
        if let Ok(check) = line.parse::<Check>() {
            assert_eq!(check.text(), line.trim());
            assert!(check.scope().is_some() || check.is_of(&url, &Request::default()), "{line:?}");
        }
    }
}

/// Reads any bytes as lists of URIs and of servers: what is read cannot break a request's first lines.
pub fn nul_list(input: &[u8]) {
    for list in [parse_uri_log(input), parse_server_list(input)].into_iter().flatten() {
        assert!(!list.is_empty() && list.iter().map(String::len).sum::<usize>() <= input.len());
        for entry in list {
            assert!(!entry.is_empty() && !entry.contains(|letter: char| letter.is_whitespace() || letter.is_control()));
        }
    }
}

/// Reads any lines as Set-Cookie headers: what is sent back is part of one line and of no other host.
pub fn set_cookie(input: &[u8]) {
    let url = Url::parse("http://www.example.org/x/y").expect("a URL");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut jar = CookieJar::default();
    for line in input.split(|byte| *byte == b'\n') {
        jar.set(line, &url, now);
        assert!(jar.len() <= COOKIES_MAX);
    }
    let mut sent = Vec::new();
    jar.write(&url, now, &mut sent);
    assert!(sent.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || *byte == b'\t'), "{}", sent.escape_ascii());
    assert!(sent.len() <= input.len() + 2 * jar.len(), "nothing is made up");
}

/// Reads any bytes as an access log: times ascend, and each of its requests can be asked.
pub fn access_log(input: &[u8]) {
    let Ok(log) = AccessLog::read(input) else { return };
    assert!(log.times_ns.is_sorted() && log.times_ns.len() == log.order.len());
    assert!(log.order.iter().all(|place| (*place as usize) < log.requests.len()));
    if !input.starts_with(&[0x1f, 0x8b]) {
        let lines = input.split(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
        assert!(log.left_out.count() + log.order.len() as u64 <= lines);
        assert!(log.left_out.first().iter().all(|(_, line, _)| (1..=lines).contains(line)));
    }
    let base = Url::parse("http://localhost:81/").expect("a URL");
    for listed in log.requests(&base, &Request::default()) {
        let bytes = listed.request.bytes(&listed.url, true).expect("it was read as a request");
        assert_eq!(String::from_utf8(bytes).expect("text").matches(" HTTP/1.1\r\n").count(), 1);
    }
}

/// The shape of a flash crowd.
///
/// # Panics
/// Where a crowd has no peak, or a rate that lies outside of it.
pub fn flash_crowd(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let seconds = |text: &str| Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok();
    let Ok(crowd) = Crowd::parse(&text, seconds) else { return };
    assert!(crowd.peak_per_s() > crowd.base_per_s, "{text:?}");
    let length_s = crowd.profile.duration().as_secs_f64();
    for share in 0..=10 {
        let rate = crowd.profile.rate_at(length_s * f64::from(share) / 10.0);
        let within = rate >= crowd.base_per_s * (1.0 - 1e-9) && rate <= crowd.peak_per_s() * (1.0 + 1e-9);
        assert!(within, "{text:?}: {rate}");
    }
}

/// Reads any text as rates over time: what was read can be inverted everywhere.
pub fn rate_profile(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let seconds = |text: &str| Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok();
    let Ok(profile) = Profile::parse(&text, seconds) else { return };
    let mut before_s = 0.0;
    for share in 0..10 {
        let time_s = profile.time_s_of(profile.arrivals() * f64::from(share) / 10.0).expect("before its end");
        assert!(time_s >= before_s && time_s <= profile.duration().as_secs_f64() * (1.0 + 1e-12), "{text:?}");
        before_s = time_s;
    }
    assert_eq!(profile.time_s_of(profile.arrivals()), None);
}
