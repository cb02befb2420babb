//! What a page asks of the console (parameters of its list of requests, and who it is that asks), and what a load tells of
//! itself.

#[path = "../../../crates/console/src/admission.rs"]
mod admission;
#[path = "../../../crates/console/src/filter.rs"]
mod filter;
#[allow(dead_code, unreachable_pub, reason = "not all of it is fuzzed")]
#[path = "../../../crates/console/src/now.rs"]
mod now;
#[path = "../../../crates/console/src/parameters.rs"]
mod parameters;

/// A query of the list of requests. What it becomes is one question in SQL: outside of quoted texts stands nothing that
/// a parameter gave but numbers.
pub fn console_requests(input: &[u8]) {
    let Ok(query) = std::str::from_utf8(input) else { return };
    let Ok(read) = parameters::Parameters::of(query) else { return };
    // `site.rs` asks for it before.
    let _run = read.required("run").is_ok();
    let Ok(filter) = filter::Filter::of(&read) else { return };
    assert!(filter.limit > 0 && i64::try_from(filter.offset).is_ok());
    for question in [filter.question(), filter.counting()] {
        let bare: String = question.split('\'').step_by(2).collect();
        assert!(question.matches('\'').count() % 2 == 0, "a text is not closed: {question}");
        assert!(bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,()=<>+*_.-".contains(&byte)), "{question}");
    }
}

/// Whether a request is let in: a digit, 1 with the right token, and lines with its target, Host, Origin, Sec-Fetch-Site and
/// Sec-Fetch-Mode, empty where it has none. No call is let in without the token, or from a page of another origin.
pub fn console_admission(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.lines();
    let may_ask = lines.next() == Some("1");
    let target = lines.next().unwrap_or_default();
    let mut field = || lines.next().filter(|line| !line.is_empty());
    let (host, origin, site, mode) = (field(), field(), field(), field());
    let asked = admission::Asked { target, host, origin, site, mode };
    let Ok(rest) = admission::admitted(&asked, may_ask) else { return };
    assert_eq!(target, format!("/console/{rest}"));
    let is_call = rest.starts_with("api/");
    assert!(may_ask || !is_call, "a call without the token: {asked:?}");
    let is_own_site = site.is_none_or(|site| site == "same-origin" || site == "none");
    assert!(is_own_site || !is_call && mode == Some("navigate"), "from another site: {asked:?}");
    if let Some(origin) = origin {
        let (scheme, authority) = origin.split_once("://").expect("an origin that was let in has a scheme");
        assert!(["http", "https"].contains(&scheme) && host.is_some_and(|host| host.eq_ignore_ascii_case(authority)));
    }
}

/// A file in which a load tells what it does now: what is read keeps the bounds, and is read again once written.
pub fn load_now(input: &[u8]) {
    // `loads.rs` finds the file by this name, and reads so much of it.
    let _name = now::NOW_FILE;
    if input.len() as u64 > now::FILE_BYTES_MAX {
        return;
    }
    let first = input.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = now::parse_head(&first[..first.len().min(now::HEAD_BYTES_MAX as usize)]);
    let Ok(read) = now::parse(input) else { return };
    if first.len() as u64 <= now::HEAD_BYTES_MAX {
        let head = head.expect("a list shows what the room shows");
        assert!(head.share == read.head.share && head.state.is_under_way() == read.head.state.is_under_way());
    }
    assert!(read.points.len() <= now::NOW_POINTS_MAX && (0.0..=1.0).contains(&read.head.share));
    let lines = std::iter::once(serde_json::to_string(&read.head));
    let lines = lines.chain(read.points.iter().map(serde_json::to_string));
    let text: Vec<String> = lines.map(|line| line.expect("numbers of JSON are finite")).collect();
    let again = now::parse(text.join("\n").as_bytes()).expect("it was read before");
    assert!(again.points.len() == read.points.len() && again.head.target == read.head.target);
}
