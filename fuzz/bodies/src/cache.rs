//! The cache of responses: what fields say, what may be stored, how it ages.

use crate::Choices;
use crate::http::field_lines::lines;
use crate::upstream::cache::control::{Control, Flags, ResponseControl};
use crate::upstream::cache::freshness::{self, Authorization, Now, RequestControl, Reuse, Times};
use crate::upstream::cache::key::{Selecting, write_selecting};
use crate::upstream::cache::rules::CacheRules;
use crate::upstream::cache::validators::{Conditions, Validators, freshened, stored_fields};
use std::time::Duration;

/// Reads any bytes as the fields of a request and of its response, at any times: what must not be stored is not, nothing
/// is fresh beyond its lifetime, and a stored head has one date and no age.
pub fn cache_control(input: &[u8]) {
    let mut choices = Choices(input);
    let status = 200 + u16::from(choices.byte()) * 2;
    let mut now = || Now { wall_s: choices.word(), mono_ms: choices.word() };
    let (times, later) = (Times { requested: now(), received: now() }, now());
    let (request, response) = choices.0.split_at(memchr::memchr(0, choices.0).unwrap_or(0));
    let mut control = Control::default();
    for (_, value) in lines(request).filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control")) {
        control.add(value);
    }
    let has_authorization = lines(request).any(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
    let authorization = if has_authorization { Authorization::Present } else { Authorization::None };
    let read = ResponseControl::read(response);
    let ttl = Some(Duration::from_secs(60));
    let rules = CacheRules { default_ttl: ttl, heuristic: ttl, ..CacheRules::default() };
    let judged = freshness::judge(&RequestControl { control, authorization }, status, &read, &times, &rules);
    if let Ok(freshness) = judged {
        let flags = read.control.flags;
        assert!(!flags.has(Flags::PRIVATE.or(Flags::GARBLED)) && !control.flags.has(Flags::NO_STORE));
        assert!(!flags.has(Flags::NO_STORE) || flags.has(Flags::MUST_UNDERSTAND));
        assert!((200..=599).contains(&status) && !has_authorization || freshness.for_authorized);
        let is_left = freshness.left_s(later) > 0;
        assert_eq!(is_left, freshness.age_s(later) < freshness.lifetime_s);
        if freshness.reuse(&control, later) == Reuse::Fresh {
            assert!(is_left && !flags.has(Flags::NO_CACHE) && !control.flags.has(Flags::NO_CACHE));
        }
    }
    heads(request, response, times.received.wall_s);
}

fn heads(request: &[u8], response: &[u8], received_s: u64) {
    let count = |fields: &[u8], own: &[u8]| lines(fields).filter(|(name, _)| name.eq_ignore_ascii_case(own)).count();
    let stored = stored_fields(response, received_s);
    assert_eq!((count(&stored, b"date"), count(&stored, b"age")), (1, 0));
    let newer = freshened(&stored, &stored);
    assert_eq!(lines(&newer).count(), lines(&stored).count());
    let validators = Validators::of(&stored, received_s);
    assert!(validators.agree_with(&validators) || validators.etag.is_none());
    let mut conditions = Conditions::default();
    conditions.if_none_match[0] = validators.etag;
    assert_eq!(validators.are_known_to(&conditions), validators.etag.is_some());
    if let Ok(selecting) = Selecting::of(response, || lines(request)) {
        let mut values = Vec::new();
        write_selecting(&mut values, &selecting.names, || lines(request));
        assert_eq!(*values, *selecting.values);
    }
}
