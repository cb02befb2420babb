//! What a cache does over several requests.

use super::harness::{Bench, at, at_ms, bring, conditions, hit, read, response};
use crate::upstream::cache::answer::Answer;
use crate::upstream::cache::fetch::{Begun, Fetch};
use crate::upstream::cache::lookup::{Bypass, Invalidation, Lookup, Waiting, Waits};
use crate::upstream::cache::rules::{CacheRules, DiskRules, QueryKey, RequestDirectives, SetCookie};
use crate::upstream::cache::store::Cache;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LONG: &str = "Cache-Control: max-age=60|ETag: \"a\"|Last-Modified: @-90|Content-Type: text/plain";

fn bench() -> Bench {
    Bench::new(CacheRules::default())
}

fn filled(fields: &str) -> Bench {
    let mut bench = bench();
    bench.store("", 200, fields, "0123456789", at(0));
    assert_eq!(bench.stored(), 1);
    bench
}

fn answer(begun: Begun) -> Answer {
    match begun {
        Begun::Answer(answer) => *answer,
        other => panic!("no answer but {other:?}"),
    }
}

fn waiting(lookup: Lookup) -> Box<Waiting> {
    match lookup {
        Lookup::Wait(waiting) => waiting,
        other => panic!("it does not wait: {other:?}"),
    }
}

fn fetch(lookup: Lookup) -> Box<Fetch> {
    match lookup {
        Lookup::Fetch(fetch) => fetch,
        other => panic!("no fetch but {other:?}"),
    }
}

#[test]
fn section_5_1_an_answer_says_its_age_and_where_it_comes_from() {
    let mut bench = bench();
    let mut fetch = bench.fetch("GET /x", "", at(0));
    let begun = bring(&mut fetch, 200, "Age: 7|Cache-Control: max-age=60|Connection-Like: b", "body", at(0));
    assert!(matches!(begun, Begun::Pass));
    let (status, fields, body) = hit(bench.get("", at(20)));
    assert_eq!((status, &*body), (200, "body"));
    assert_eq!(fields.matches("Age:").count(), 1);
    assert!(fields.contains("\r\nAge: 27\r\nCache-Status: weir; hit; ttl=33\r\n"), "{fields}");
    // RFC 9110 section 6.6.1.
    assert!(fields.contains("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{fields}");
    let misses = bench.cache.counts.misses.load(Ordering::Relaxed);
    assert_eq!((bench.cache.hits(), misses), (1, 1));
}

#[test]
fn cache_status_of_what_is_fetched() {
    let mut bench = bench();
    let status = |fetch: &Fetch| {
        let mut line = Vec::new();
        fetch.write_cache_status(&mut line);
        String::from_utf8(line).expect("text").trim_end().replace("Cache-Status: weir; ", "")
    };
    let mut first = bench.fetch("GET /x", "A: 1", at(0));
    first.on_head(&response(200, "Cache-Control: max-age=60|Vary: A|ETag: \"a\"", Some(0)), at(0));
    assert_eq!(status(&first), "fwd=uri-miss; stored");
    first.on_end(at(0));
    assert_eq!(status(&bench.fetch("GET /x", "A: 2", at(0))), "fwd=vary-miss");
    assert_eq!(status(&bench.fetch("GET /x", "A: 1", at(60))), "fwd=stale");
    assert_eq!(status(&bench.fetch("GET /x", "A: 1|Cache-Control: no-cache", at(1))), "fwd=request");
    assert_eq!(Bypass::Method.cache_status(), b"Cache-Status: weir; fwd=method\r\n");
}

#[test]
fn section_4_3_1_a_stale_response_is_validated_with_all_its_validators() {
    let mut bench = filled(LONG);
    let fetch = bench.fetch("GET /x", "If-None-Match: \"b\"|Range: bytes=0-1", at(60));
    let sent = conditions(&fetch);
    assert!(sent.starts_with("If-None-Match: \"a\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:48:07 GMT\r\n"), "{sent}");
    assert_eq!(fetch.left_away(), ["if-none-match", "if-modified-since", "if-range", "range"]);
}

#[test]
fn section_4_3_4_a_304_freshens_what_is_stored() {
    for (update, is_fresh) in [
        ("ETag: \"a\"|Cache-Control: max-age=90|X: new", true),
        ("Cache-Control: max-age=90|X: new", true),
        ("Last-Modified: @-90|Cache-Control: max-age=90|X: new", true),
        ("ETag: W/\"a\"|Cache-Control: max-age=90|X: new", true),
        ("ETag: \"a\"|Cache-Control: no-cache|X: new", false),
        ("ETag: \"a\"|Cache-Control: no-store|X: new", false),
    ] {
        let mut bench = filled(&format!("{LONG}|X: old|X: older|Y: old|Content-Encoding: a"));
        let mut fetch = bench.fetch("GET /x", "", at(70));
        let update = format!("{update}|Content-Encoding: b|Content-Type: b/b|Age: 3");
        let (status, fields, body) = read(&answer(fetch.on_head(&response(304, &update, None), at(70))));
        assert_eq!((status, &*body), (200, "0123456789"), "{update}");
        assert!(
            fields.contains("X: new\r\n") && fields.contains("Y: old\r\n") && !fields.contains("older"),
            "{fields}"
        );
        assert!(
            fields.contains("Content-Encoding: a\r\n") && fields.contains("Content-Type: text/plain\r\n"),
            "{fields}"
        );
        assert!(fields.contains("Age: 3\r\nCache-Status: weir; fwd=stale; fwd-status=304; ttl="), "{fields}");
        drop(fetch);
        let next = bench.get("", at(80));
        assert_eq!(matches!(next, Lookup::Hit(_)), is_fresh, "{update}");
        if is_fresh {
            let (_, fields, body) = hit(next);
            assert!(fields.contains("Age: 13\r\n") && body == "0123456789", "{fields}");
        }
    }
}

#[test]
fn section_4_3_4_a_304_for_another_response_changes_nothing() {
    for update in ["ETag: \"b\"", "ETag: W/\"b\"", "Last-Modified: @-80"] {
        let mut bench = filled(LONG);
        let mut fetch = bench.fetch("GET /x", "", at(70));
        assert!(matches!(fetch.on_head(&response(304, update, None), at(70)), Begun::FetchAgain), "{update}");
        assert_eq!((conditions(&fetch), bench.stored()), (String::new(), 0));
        assert!(matches!(bring(&mut fetch, 200, LONG, "new", at(71)), Begun::Pass));
        assert_eq!(hit(bench.get("", at(72))).2, "new");
    }
}

#[test]
fn section_4_3_3_a_whole_response_takes_the_place_and_an_error_does_not() {
    let mut bench = filled(LONG);
    let mut fetch = bench.fetch("GET /x", "", at(70));
    assert!(matches!(bring(&mut fetch, 503, "", "down", at(70)), Begun::Pass));
    assert_eq!(bench.stored(), 1);
    let mut fetch = bench.fetch("GET /x", "", at(71));
    bring(&mut fetch, 200, LONG, "new", at(71));
    assert_eq!((hit(bench.get("", at(72))).2, bench.stored()), ("new".to_owned(), 1));
    let mut fetch = bench.fetch("GET /x", "", at(140));
    bring(&mut fetch, 404, "Cache-Control: no-store", "gone", at(140));
    assert_eq!(bench.stored(), 0);
}

#[test]
fn section_4_3_2_conditions_of_clients_are_answered() {
    let mut bench = filled(LONG);
    for (fields, status) in [
        ("If-None-Match: \"a\"", 304),
        ("If-None-Match: W/\"a\"", 304),
        ("If-None-Match: \"b\", \"a\"", 304),
        ("If-None-Match: \"b\"|If-None-Match: \"a\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"b\"", 200),
        ("If-None-Match: a", 200),
        ("If-None-Match: \"b\"|If-Modified-Since: @0", 200),
        ("If-Modified-Since: @-90", 304),
        ("If-Modified-Since: @-91", 200),
        ("If-Modified-Since: yesterday", 200),
    ] {
        let (got, head, body) = hit(bench.get(fields, at(5)));
        assert_eq!((got, body.is_empty()), (status, status == 304), "{fields}");
        assert!(head.contains("ETag: \"a\"\r\n"));
        assert_eq!(head.contains("Content-Type"), status == 200, "{fields}");
    }
    // Without Last-Modified the date of the response counts.
    let mut bench = filled("Cache-Control: max-age=60|Date: @-10");
    assert_eq!(hit(bench.get("If-Modified-Since: @-10", at(5))).0, 304);
    assert_eq!(hit(bench.get("If-Modified-Since: @-11", at(5))).0, 200);
    // RFC 9110 section 13.2.1: conditions count for successes only.
    let mut bench = self::bench();
    bench.store("", 404, "Cache-Control: max-age=60|ETag: \"a\"", "none", at(0));
    assert_eq!(hit(bench.get("If-None-Match: \"a\"", at(5))).0, 404);
}

#[test]
fn section_4_3_2_a_condition_is_weighed_when_the_whole_response_comes() {
    let mut bench = bench();
    let mut fetch = bench.fetch("GET /x", "If-None-Match: \"a\"", at(0));
    assert_eq!((conditions(&fetch), fetch.left_away().len()), (String::new(), 4));
    let Begun::NotModified(fields) = bring(&mut fetch, 200, LONG, "body", at(0)) else { panic!("no 304") };
    let fields = String::from_utf8(fields).expect("text");
    assert!(fields.contains("ETag: \"a\"\r\n") && !fields.contains("Content-Type"), "{fields}");
    assert_eq!(hit(bench.get("", at(1))).2, "body");
    let mut fetch = bench.fetch("GET /y", "If-None-Match: \"b\"", at(0));
    assert!(matches!(bring(&mut fetch, 200, LONG, "body", at(0)), Begun::Pass));
}

#[test]
fn a_key_that_is_not_stored_keeps_its_conditions_and_its_clients_apart() {
    let mut bench = bench();
    bench.store("", 200, "Cache-Control: private|ETag: \"a\"", "body", at(0));
    let (one, mut other) = (bench.fetch("GET /x", "If-None-Match: \"a\"", at(1)), bench.fetch("GET /x", "", at(1)));
    assert!(one.left_away().is_empty());
    // It may change its mind.
    bring(&mut other, 200, LONG, "new", at(1));
    assert_eq!(hit(bench.get("", at(2))).2, "new");
    // A response to a known user, and a failure, say nothing of the next one.
    let mut bench = self::bench();
    let mut fetch = bench.fetch("GET /x", "Authorization: Basic YTpi", at(0));
    bring(&mut fetch, 200, "Cache-Control: max-age=60", "own", at(0));
    bench.store("", 503, "", "down", at(0));
    assert_eq!(bench.fetch("GET /x", "", at(0)).left_away().len(), 4);
}

#[test]
fn rfc_9110_section_14_2_ranges_are_taken_of_a_whole_response() {
    let mut bench = filled(LONG);
    for (fields, status, body) in [
        ("Range: bytes=2-4", 206, "234"),
        ("Range: bytes=-3", 206, "789"),
        ("Range: bytes=2-4|If-Range: \"a\"", 206, "234"),
        ("Range: bytes=2-4|If-Range: \"b\"", 200, "0123456789"),
        ("Range: bytes=2-4|If-Range: W/\"a\"", 200, "0123456789"),
        ("Range: bytes=2-4|If-Range: @-90", 206, "234"),
        ("Range: bytes=2-4|If-Range: @-91", 200, "0123456789"),
        ("Range: bytes=2-4|If-None-Match: \"a\"", 304, ""),
        ("Range: bytes=20-", 416, ""),
        ("Range: lines=2-4", 200, "0123456789"),
    ] {
        let (got, head, content) = hit(bench.get(fields, at(5)));
        assert_eq!((got, &*content), (status, body), "{fields}");
        assert_eq!(head.contains("Content-Range: "), matches!(status, 206 | 416), "{head}");
    }
    assert!(hit(bench.get("Range: bytes=2-4", at(5))).1.contains("Content-Range: bytes 2-4/10\r\n"));
    assert!(hit(bench.get("Range: bytes=20-", at(5))).1.contains("Content-Range: bytes */10\r\n"));
    assert_eq!(hit(bench.ask("HEAD /x", "Range: bytes=2-4", at(5))).0, 200);
    let (status, head, body) = hit(bench.get("Range: bytes=0-1, 8-9", at(5)));
    let boundary = head.split("boundary=").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("a boundary");
    let part = |range: &str, content: &str| {
        format!("\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {range}/10\r\n\r\n{content}")
    };
    assert_eq!(body, format!("{}{}\r\n--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89")));
    assert_eq!((status, head.matches("Content-Type:").count()), (206, 1));
}

#[test]
fn a_weak_date_takes_no_range() {
    // RFC 9110 section 8.8.2.2: it changed in the second in which it was sent.
    let mut bench = filled("Cache-Control: max-age=60|Date: @0|Last-Modified: @0");
    assert_eq!(hit(bench.get("Range: bytes=0-1|If-Range: @0", at(5))).0, 200);
}

#[test]
fn section_4_head_is_answered_by_what_get_stored_and_stores_nothing() {
    let mut bench = filled(LONG);
    assert!(matches!(bench.ask("HEAD /x", "", at(5)), Lookup::Hit(_)));
    assert!(matches!(bench.ask("HEAD /y", "", at(5)), Lookup::Bypass { .. }));
}

#[test]
fn section_4_3_5_a_response_to_head_freshens_or_invalidates() {
    for (fields, length, is_fresh) in [
        ("Cache-Control: max-age=90|ETag: \"a\"|X: new", Some(10), true),
        ("Cache-Control: max-age=90|X: new", None, true),
        ("Cache-Control: max-age=90|ETag: \"b\"", Some(10), false),
        ("Cache-Control: max-age=90|Last-Modified: @-80", None, false),
        ("Cache-Control: max-age=90|ETag: \"a\"", Some(11), false),
    ] {
        let mut bench = filled(LONG);
        let mut fetch = bench.fetch("HEAD /x", "", at(70));
        assert!(matches!(fetch.on_head(&response(200, fields, length), at(70)), Begun::Pass));
        fetch.on_end(at(70));
        assert_eq!(
            (bench.stored() == 1, matches!(bench.get("", at(71)), Lookup::Hit(_))),
            (is_fresh, is_fresh),
            "{fields}"
        );
    }
}

fn invalidation(lookup: Lookup) -> Option<Box<Invalidation>> {
    match lookup {
        Lookup::Bypass { why: Bypass::Method, invalidation } => invalidation,
        other => panic!("no other method: {other:?}"),
    }
}

#[test]
fn section_4_4_unsafe_methods_invalidate() {
    for (line, status, fields, is_kept) in [
        ("POST /x", 200, "", false),
        ("PUT /x", 204, "", false),
        ("DELETE /x", 302, "", false),
        ("FOO /x", 200, "", false),
        ("POST /x", 400, "", true),
        ("POST /x", 500, "", true),
        ("OPTIONS /x", 200, "", true),
        ("PROPFIND /x", 207, "", true),
        ("POST /y", 200, "", true),
        ("POST /x?y", 200, "", true),
        ("POST /y", 201, "Location: /x", false),
        ("POST /y", 201, "Content-Location: http://A.example:80/x#part", false),
        ("POST /y", 201, "Location: //a.example/x", false),
        ("POST /y/z", 201, "Location: ../x", false),
        ("POST /y", 201, "Location: ./x", false),
        ("POST /y", 201, "Location: http://b.example/x", true),
        ("POST /y", 201, "Location: https://a.example/x", true),
        ("POST /y", 201, "Location: a:x", true),
        ("POST /y", 400, "Location: /x", true),
        ("POST /y", 201, "Link: </x>", true),
    ] {
        let mut bench = filled(LONG);
        let head = response(status, fields, None);
        let gone = invalidation(bench.ask(line, "", at(5))).map_or(0, |it| it.on_head(head.status, &head.fields));
        assert_eq!((bench.stored() == 1, gone == 0), (is_kept, is_kept), "{line} {status} {fields}");
        // The loop that knew it looks anew.
        assert_eq!(matches!(bench.get("", at(6)), Lookup::Hit(_)), is_kept, "{line}");
    }
}

#[test]
fn what_was_asked_for_before_an_invalidation_is_not_stored_after_it() {
    let mut bench = bench();
    let mut before = bench.fetch("GET /x", "", at(0));
    let change = invalidation(bench.ask("POST /x", "", at(0))).expect("unsafe");
    change.on_head(200, b"");
    // A request from now on does not wait for the old one.
    let mut after = bench.fetch("GET /x", "", at(1));
    bring(&mut before, 200, LONG, "old", at(1));
    assert_eq!(bench.stored(), 0);
    bring(&mut after, 200, LONG, "new", at(2));
    assert_eq!(hit(bench.get("", at(3))).2, "new");
    let mut validation = bench.fetch("GET /x", "", at(80));
    bench.cache.purge_prefix(false, b"a.example", "/");
    assert_eq!(read(&answer(validation.on_head(&response(304, LONG, None), at(80)))).2, "new");
    assert_eq!(bench.stored(), 0);
}

#[test]
fn purges_by_target_prefix_and_tag() {
    let mut bench = bench();
    for (path, tag) in [("/a/1", "Surrogate-Key: one two"), ("/a/2", "Cache-Tag: two,three"), ("/b", "X: two")] {
        let mut fetch = bench.fetch(&format!("GET {path}"), "", at(0));
        bring(&mut fetch, 200, &format!("Cache-Control: max-age=60|{tag}"), "body", at(0));
    }
    let cache = Arc::clone(&bench.cache);
    assert_eq!((cache.purge_tag(b"tw"), cache.purge_tag(b"two"), bench.stored()), (0, 2, 1));
    assert_eq!(cache.purge_target(false, b"A.example", "/b?"), 0);
    assert_eq!(cache.purge_prefix(true, b"a.example", "/"), 0);
    assert_eq!((cache.purge_target(false, b"A.example:80", "/b"), bench.stored()), (1, 0));
    assert_eq!(cache.counts.invalidated.load(Ordering::Relaxed), 3);
}

#[test]
fn rfc_5861_section_4_stale_if_error() {
    for (fields, rules_s, request, after_s, is_answered) in [
        ("Cache-Control: max-age=1, stale-if-error=9", 0, "", 10, true),
        ("Cache-Control: max-age=1, stale-if-error=9", 0, "", 11, false),
        ("Cache-Control: max-age=1|ETag: \"a\"", 9, "", 10, true),
        ("Cache-Control: max-age=1|ETag: \"a\"", 0, "", 2, false),
        ("Cache-Control: max-age=1|ETag: \"a\"", 0, "Cache-Control: stale-if-error=9", 10, true),
        ("Cache-Control: max-age=1, must-revalidate, stale-if-error=9|ETag: \"a\"", 9, "", 2, false),
        ("Cache-Control: max-age=1, proxy-revalidate, stale-if-error=9|ETag: \"a\"", 9, "", 2, false),
        ("Cache-Control: max-age=1, no-cache, stale-if-error=9|ETag: \"a\"", 9, "", 2, false),
        ("Cache-Control: s-maxage=1|ETag: \"a\"", 9, "", 2, false),
        ("Cache-Control: s-maxage=1|ETag: \"a\"", 9, "Cache-Control: stale-if-error=9", 2, false),
        ("Cache-Control: s-maxage=1, stale-if-error=9|ETag: \"a\"", 0, "", 2, true),
    ] {
        let mut bench =
            Bench::new(CacheRules { stale_if_error: Duration::from_secs(rules_s), ..CacheRules::default() });
        bench.store("", 200, fields, "body", at(0));
        let unreachable = bench.fetch("GET /x", request, at(after_s)).on_failure(at(after_s));
        assert_eq!(unreachable.is_some(), is_answered, "{fields}");
        if let Some(answer) = unreachable {
            let (status, head, body) = read(&answer);
            assert!(status == 200 && body == "body" && head.contains("fwd=stale; detail=unreachable; ttl="), "{head}");
        }
        for status in [500, 502, 503, 504] {
            let mut fetch = bench.fetch("GET /x", request, at(after_s));
            let begun = fetch.on_head(&response(status, "", None), at(after_s));
            assert_eq!(matches!(begun, Begun::Answer(_)), is_answered, "{fields} {status}");
        }
        assert_eq!(bench.stored(), 1);
    }
    // Another error is an answer.
    let mut bench = filled("Cache-Control: max-age=1, stale-if-error=9");
    let mut fetch = bench.fetch("GET /x", "", at(2));
    assert!(matches!(fetch.on_head(&response(501, "", None), at(2)), Begun::Pass));
}

#[test]
fn rfc_5861_section_3_one_request_refreshes_while_all_get_the_stale_response() {
    let mut bench = filled("Cache-Control: max-age=1, stale-while-revalidate=9|ETag: \"a\"");
    let Lookup::Stale { answer, refresh: Some(mut refresh) } = bench.get("", at(5)) else { panic!("not refreshed") };
    assert!(read(&answer).1.contains("Cache-Status: weir; hit; ttl=-4\r\n"));
    assert!(matches!(bench.get("", at(5)), Lookup::Stale { refresh: None, .. }));
    bring(&mut refresh, 200, "Cache-Control: max-age=60", "new", at(6));
    assert_eq!(hit(bench.get("", at(7))).2, "new");
    // A refresh that is cancelled is tried again.
    let mut bench = filled("Cache-Control: max-age=1, stale-while-revalidate=9");
    drop(bench.get("", at(5)));
    assert!(matches!(bench.get("", at(5)), Lookup::Stale { refresh: Some(_), .. }));
}

#[test]
fn section_3_3_what_is_cut_off_is_not_stored() {
    for (length, body, ends) in [(Some(5), "body", true), (Some(3), "body", true), (None, "body", false)] {
        let mut bench = bench();
        let mut fetch = bench.fetch("GET /x", "", at(0));
        fetch.on_head(&response(200, LONG, length), at(0));
        fetch.on_body(body.as_bytes());
        if ends {
            fetch.on_end(at(0));
        } else {
            assert!(fetch.on_failure(at(0)).is_none());
        }
        assert_eq!(bench.stored(), 0);
    }
}

#[test]
fn section_4_2_3_the_delay_of_the_response_counts() {
    let mut bench = bench();
    let mut fetch = bench.fetch("GET /x", "", at(0));
    fetch.on_head(&response(200, "Age: 1|Cache-Control: max-age=60", Some(0)), at_ms(5999));
    fetch.on_end(at_ms(9000));
    let (_, head, _) = hit(bench.get("", at_ms(7998)));
    assert!(head.contains("\r\nAge: 7\r\n"), "{head}");
}

#[test]
fn many_requests_become_one() {
    let mut bench = bench();
    let mut leader = bench.fetch("GET /x", "", at(0));
    let mut other_loop = Bench::on(&bench.cache);
    let same = [waiting(bench.get("", at(1))), waiting(other_loop.get("If-None-Match: \"a\"", at(1)))];
    leader.on_head(&response(200, LONG, Some(4)), at(1));
    leader.on_body(b"body");
    let mut same = same.map(|waiting| match waiting.go_on(at(2)) {
        Waits::NotYet(waiting) => waiting,
        other => panic!("too early: {other:?}"),
    });
    assert!(bench.wakes.take().is_empty());
    leader.on_end(at(2));
    assert_eq!((bench.wakes.take().len(), other_loop.wakes.take().len(), bench.cache.flights.len()), (1, 1, 0));
    same.reverse();
    for (waiting, expected) in same.into_iter().zip([304, 200]) {
        let Waits::Answer(answer) = waiting.go_on(at(3)) else { panic!("no answer") };
        let (status, head, _) = read(&answer);
        assert!(status == expected && head.contains("Cache-Status: weir; fwd=miss; collapsed; ttl=57\r\n"), "{head}");
    }
    assert_eq!(bench.cache.counts.collapsed.load(Ordering::Relaxed), 2);
}

#[test]
fn those_that_wait_go_on_at_once_if_nothing_is_stored() {
    for (status, fields) in [(200, "Cache-Control: private"), (503, ""), (200, "Cache-Control: no-cache|ETag: \"a\"")] {
        let mut bench = bench();
        let mut leader = bench.fetch("GET /x", "", at(0));
        let all: Vec<_> = (0..5).map(|_| waiting(bench.get("", at(0)))).collect();
        bring(&mut leader, status, fields, "body", at(1));
        let all = all.into_iter().map(|waiting| match waiting.go_on(at(1)) {
            Waits::Fetch(fetch) => fetch,
            other => panic!("it waits on: {other:?}"),
        });
        // They are all under way at the same time.
        let under_way: Vec<_> = all.collect();
        assert_eq!((under_way.len(), bench.cache.flights.len()), (5, 0));
    }
}

#[test]
fn those_that_wait_get_only_what_is_for_them() {
    let mut bench = bench();
    let mut leader = bench.fetch("GET /x", "A: 1", at(0));
    let (same, other) = (waiting(bench.get("A: 1", at(0))), waiting(bench.get("A: 2", at(0))));
    bring(&mut leader, 200, "Cache-Control: max-age=60|Vary: A", "one", at(1));
    assert!(matches!(same.go_on(at(1)), Waits::Answer(_)));
    assert!(matches!(other.go_on(at(1)), Waits::Fetch(_)));
    // Once it is known by what the response varies, only the same ones wait for each other.
    let _leader = bench.fetch("GET /x", "A: 3", at(2));
    let _another = bench.fetch("GET /x", "A: 4", at(2));
    waiting(bench.get("A: 3", at(2)));
}

#[test]
fn one_that_waits_takes_over_if_the_first_is_cancelled() {
    let mut bench = bench();
    let leader = bench.fetch("GET /x", "", at(0));
    let (gone, next, last) = (bench.get("", at(0)), waiting(bench.get("", at(0))), waiting(bench.get("", at(0))));
    drop(leader);
    assert_eq!(bench.wakes.take().len(), 1);
    // The one that is called goes as well.
    drop(gone);
    assert_eq!(bench.wakes.take().len(), 1);
    let Waits::Fetch(mut next) = next.go_on(at(1)) else { panic!("it does not take over") };
    let Waits::NotYet(last) = last.go_on(at(1)) else { panic!("it does not wait on") };
    bring(&mut next, 200, LONG, "body", at(2));
    assert!(matches!(last.go_on(at(2)), Waits::Answer(_)));
    // Without others there is nothing left.
    let leader = bench.fetch("GET /y", "", at(0));
    assert_eq!(bench.cache.flights.len(), 1);
    drop(leader);
    assert_eq!(bench.cache.flights.len(), 0);
}

#[test]
fn a_wait_has_an_end_and_a_failure_answers_all_from_what_is_stale() {
    let mut bench = bench();
    let _leader = bench.fetch("GET /x", "", at(0));
    let waits = waiting(bench.get("", at(0)));
    assert_eq!(waits.until_ms(), at(5).mono_ms);
    assert!(matches!(waits.go_on(at(5)), Waits::Fetch(_)));
    let mut bench = filled("Cache-Control: max-age=1, stale-if-error=9|ETag: \"a\"");
    let mut leader = bench.fetch("GET /x", "", at(2));
    let waits = waiting(bench.get("", at(2)));
    assert!(leader.on_failure(at(3)).is_some());
    assert!(matches!(waits.go_on(at(3)), Waits::Answer(_)));
}

#[test]
fn large_bodies_go_to_the_disk_and_a_lost_file_is_a_miss() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = DiskRules { directory: folder.path().to_owned(), bytes: 64 << 20, object: 4 << 20 };
    let rules = CacheRules { memory: 1 << 20, memory_object: 1000, disk: Some(disk), ..CacheRules::default() };
    let mut bench = Bench::new(rules);
    let body = "0123456789".repeat(1000);
    for path in ["/known", "/unknown"] {
        let mut fetch = bench.fetch(&format!("GET {path}"), "", at(0));
        fetch.on_head(&response(200, LONG, (path == "/known").then_some(10_000)), at(0));
        body.as_bytes().chunks(700).for_each(|piece| fetch.on_body(piece));
        fetch.on_end(at(0));
        assert_eq!(hit(bench.ask(&format!("GET {path}"), "", at(1))).2, body);
        assert_eq!(hit(bench.ask(&format!("GET {path}"), "Range: bytes=-3", at(1))).2, "789");
        let (_, _, parts) = hit(bench.ask(&format!("GET {path}"), "Range: bytes=0-2,5-6", at(1)));
        assert!(parts.contains("\r\n\r\n012\r\n--") && parts.contains("\r\n\r\n56\r\n--"));
    }
    assert_eq!(bench.cache.size().2, 20_000);
    let files = |folder: &std::path::Path| -> Vec<_> {
        std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect()
    };
    let own = &files(folder.path())[0];
    for file in files(own).iter().filter(|path| path.is_dir()).flat_map(|path| files(path)) {
        std::fs::remove_file(file).expect("removes");
    }
    // Another program removed them: the upstream is asked, and the error is counted.
    let mut again = fetch(bench.ask("GET /known", "", at(2)));
    assert_eq!(bench.cache.counts.disk_errors.load(Ordering::Relaxed), 1);
    std::fs::remove_dir_all(own).expect("removes");
    assert!(matches!(bring(&mut again, 200, LONG, &body, at(2)), Begun::Pass));
    assert_eq!(bench.cache.counts.disk_errors.load(Ordering::Relaxed), 2);
    assert!(matches!(bench.ask("GET /known", "", at(3)), Lookup::Fetch(_)));
}

#[test]
fn a_body_that_is_too_large_goes_on_and_is_not_stored() {
    for length in [Some(2000), None] {
        let mut bench = Bench::new(CacheRules { memory: 64 << 10, memory_object: 1000, ..CacheRules::default() });
        let mut leader = bench.fetch("GET /x", "", at(0));
        let waits = waiting(bench.get("", at(0)));
        assert!(matches!(leader.on_head(&response(200, LONG, length), at(0)), Begun::Pass));
        leader.on_body(&[b'x'; 1500]);
        // Those that wait go on before its end.
        assert!(matches!(waits.go_on(at(0)), Waits::Fetch(_)));
        leader.on_body(&[b'x'; 500]);
        leader.on_end(at(0));
        assert_eq!((bench.stored(), bench.cache.counts.no_room.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(bench.cache.places.memory.used(), 0);
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("writes");
    let disk = DiskRules { directory: file, bytes: 1 << 20, object: 1 << 20 };
    assert!(Cache::new(CacheRules { disk: Some(disk), ..CacheRules::default() }).is_err());
}

#[test]
fn settings_of_keys_cookies_and_directives() {
    let rules = CacheRules {
        query: QueryKey::Without(vec!["utm".to_owned()]),
        set_cookie: SetCookie::Stored,
        request_directives: RequestDirectives::Ignored,
        ..CacheRules::default()
    };
    let mut bench = Bench::new(rules);
    let mut fetch = bench.fetch("GET /x?a=1&utm=2", "Cache-Control: no-store", at(0));
    bring(&mut fetch, 200, "Cache-Control: max-age=60|Set-Cookie: a=b", "body", at(0));
    let (_, head, _) = hit(bench.ask("GET /x?utm=3&a=1", "Cache-Control: no-cache", at(1)));
    assert!(head.contains("Set-Cookie: a=b\r\n"));
    assert!(matches!(bench.ask("GET /x?a=2", "Cache-Control: only-if-cached", at(1)), Lookup::OnlyIfCached504));
}
