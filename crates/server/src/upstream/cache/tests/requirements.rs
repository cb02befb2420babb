//! A table: a response is offered to the cache, and a second request comes later.

use super::harness::{Bench, at, conditions};
use crate::upstream::cache::lookup::Lookup;
use crate::upstream::cache::rules::CacheRules;
use std::time::Duration;

/// What the second request gets.
#[derive(Debug, PartialEq, Eq)]
enum Gets {
    Hit,
    /// A stale response.
    Stale,
    /// A stale response, while a new one is fetched.
    Refreshed,
    /// The stored response is validated.
    Validated,
    /// The upstream is asked as if nothing was stored.
    Miss,
    Bypass,
    Only504,
}

use Gets::{Bypass, Hit, Miss, Only504, Refreshed, Stale, Validated};

/// Section of RFC 9111 if not said otherwise, fields of the first request, status and fields of its response, seconds until
/// the second request, its fields, what it gets.
type Case = (&'static str, &'static str, u16, &'static str, u64, &'static str, Gets);

fn gets(lookup: &Lookup) -> Gets {
    match lookup {
        Lookup::Hit(_) => Hit,
        Lookup::Stale { refresh: None, .. } => Stale,
        Lookup::Stale { refresh: Some(_), .. } => Refreshed,
        Lookup::Fetch(fetch) if conditions(fetch).is_empty() => Miss,
        Lookup::Fetch(_) => Validated,
        Lookup::Bypass { .. } => Bypass,
        Lookup::OnlyIfCached504 => Only504,
        Lookup::Wait(_) => panic!("a request waits for one that has ended"),
    }
}

fn check(cases: &[Case], rules: &CacheRules) {
    for case @ (_, first, status, fields, after_s, second, expected) in cases {
        let mut bench = Bench::new(rules.clone());
        bench.store(first, *status, fields, "body", at(0));
        let lookup = bench.get(second, at(*after_s));
        assert_eq!(gets(&lookup), *expected, "{case:?}");
        assert_eq!(bench.cache.flights.len(), usize::from(has_leader(&lookup)), "{case:?}");
    }
}

/// Whether others may wait for it, which the table does not say for each.
fn has_leader(lookup: &Lookup) -> bool {
    match lookup {
        Lookup::Fetch(fetch) => format!("{fetch:?}").contains("leader: Some"),
        Lookup::Stale { refresh, .. } => refresh.is_some(),
        _ => false,
    }
}

#[test]
fn storing() {
    check(
        &[
            ("3 explicit max-age", "", 200, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 explicit s-maxage", "", 200, "Cache-Control: s-maxage=60", 5, "", Hit),
            ("3 explicit Expires", "", 200, "Date: @0|Expires: @60", 5, "", Hit),
            ("3 nothing allows", "", 200, "", 5, "", Miss),
            ("3 a validator is worth it", "", 200, "ETag: \"a\"", 5, "", Validated),
            ("3 Last-Modified is one", "", 200, "Last-Modified: @-60", 5, "", Validated),
            ("3 no-store", "", 200, "Cache-Control: no-store, max-age=60", 5, "", Miss),
            ("3 no-store in upper case", "", 200, "Cache-Control: NO-STORE, MAX-AGE=60", 5, "", Miss),
            ("3 no-store in another line", "", 200, "Cache-Control: max-age=60|Cache-Control: no-store", 5, "", Miss),
            ("3 private", "", 200, "Cache-Control: private, max-age=60", 5, "", Miss),
            ("5.2.2.7 private with fields", "", 200, "Cache-Control: private=\"a\", max-age=60", 5, "", Miss),
            ("3 no-store of the request", "Cache-Control: no-store", 200, "Cache-Control: max-age=60", 5, "", Miss),
            ("3 a part", "", 206, "Cache-Control: max-age=60", 5, "", Miss),
            ("3 Content-Range", "", 200, "Cache-Control: max-age=60|Content-Range: bytes 0-1/4", 5, "", Miss),
            ("3 304 without a question", "", 304, "Cache-Control: max-age=60", 5, "", Miss),
            ("3 an unknown final status", "", 299, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 an unknown error", "", 599, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 no heuristic for 201", "", 201, "ETag: \"a\"", 5, "", Miss),
            ("3 public allows it", "", 201, "ETag: \"a\"|Cache-Control: public", 5, "", Validated),
            ("3 302 explicit", "", 302, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 302 not", "", 302, "ETag: \"a\"", 5, "", Miss),
            ("3 404", "", 404, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 410", "", 410, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 500", "", 500, "Cache-Control: max-age=60", 5, "", Hit),
            ("3 204", "", 204, "Cache-Control: max-age=60", 5, "", Hit),
            ("5.2.2.3 understood", "", 200, "Cache-Control: must-understand, no-store, max-age=60", 5, "", Hit),
            ("5.2.2.3 not understood", "", 299, "Cache-Control: must-understand, max-age=60", 5, "", Miss),
            (
                "5.2.2.3 status of an extension",
                "",
                599,
                "Cache-Control: must-understand, no-store, max-age=60",
                5,
                "",
                Miss,
            ),
            ("7.3 Set-Cookie", "", 200, "Cache-Control: max-age=60|Set-Cookie: a=b", 5, "", Miss),
            ("4.1 Vary: *", "", 200, "Cache-Control: max-age=60|Vary: *", 5, "", Miss),
            ("4.1 Vary: * among others", "", 200, "Cache-Control: max-age=60|Vary: a, *", 5, "", Miss),
            ("5.2 a quote without end", "", 200, "Cache-Control: max-age=60, a=\"no-store", 5, "", Miss),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn authorization() {
    const WITH: &str = "Authorization: Basic YTpi";
    check(
        &[
            ("3.5", WITH, 200, "Cache-Control: max-age=60", 5, "", Miss),
            ("3.5 public", WITH, 200, "Cache-Control: max-age=60, public", 5, "", Hit),
            ("3.5 must-revalidate", WITH, 200, "Cache-Control: max-age=60, must-revalidate", 5, "", Hit),
            ("3.5 s-maxage", WITH, 200, "Cache-Control: s-maxage=60", 5, "", Hit),
            ("3.5 proxy-revalidate is none", WITH, 200, "Cache-Control: max-age=60, proxy-revalidate", 5, "", Miss),
            ("3.5 garbled s-maxage", WITH, 200, "Cache-Control: s-maxage=x, max-age=60", 5, "", Miss),
            ("3.5 for a user again", WITH, 200, "Cache-Control: max-age=60, public", 5, WITH, Hit),
            ("3.5 of an unknown client", "", 200, "Cache-Control: max-age=60", 5, WITH, Miss),
            ("3.5 of an unknown client, public", "", 200, "Cache-Control: max-age=60, public", 5, WITH, Hit),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn freshness() {
    check(
        &[
            ("4.2 fresh", "", 200, "Cache-Control: max-age=60", 59, "", Hit),
            ("4.2 stale", "", 200, "ETag: \"a\"|Cache-Control: max-age=60", 60, "", Validated),
            ("4.2 stale without validator", "", 200, "Cache-Control: max-age=60", 60, "", Miss),
            ("4.2.1 s-maxage first", "", 200, "Cache-Control: max-age=1, s-maxage=60", 5, "", Hit),
            ("4.2.1 s-maxage shorter", "", 200, "Cache-Control: max-age=60, s-maxage=1|ETag: \"a\"", 5, "", Validated),
            ("5.3 max-age over Expires", "", 200, "Date: @0|Cache-Control: max-age=60|Expires: @-60", 5, "", Hit),
            (
                "5.3 max-age over a late Expires",
                "",
                200,
                "Date: @0|Cache-Control: max-age=1|Expires: @60|ETag: \"a\"",
                5,
                "",
                Validated,
            ),
            ("5.3 Expires in the past", "", 200, "Date: @0|Expires: @-1|ETag: \"a\"", 0, "", Validated),
            ("5.3 Expires of now", "", 200, "Date: @0|Expires: @0|ETag: \"a\"", 0, "", Validated),
            ("5.3 Expires: 0", "", 200, "Expires: 0|ETag: \"a\"", 0, "", Validated),
            ("5.3 Expires without Date", "", 200, "Expires: @60", 59, "", Hit),
            ("5.3 Expires twice", "", 200, "Expires: @60|Expires: @90|ETag: \"a\"", 5, "", Validated),
            ("4.2.1 against Date, not the clock", "", 200, "Date: @-100|Expires: @-40|ETag: \"a\"", 0, "", Validated),
            ("4.2.1 differing values", "", 200, "Cache-Control: max-age=60, max-age=90|ETag: \"a\"", 5, "", Validated),
            ("4.2.1 equal values", "", 200, "Cache-Control: max-age=60, max-age=60", 5, "", Hit),
            ("4.2.1 an invalid value", "", 200, "Cache-Control: max-age=6x|ETag: \"a\"", 0, "", Validated),
            ("4.2.1 negative", "", 200, "Cache-Control: max-age=-60|ETag: \"a\"", 0, "", Validated),
            ("4.2.1 with a point", "", 200, "Cache-Control: max-age=60.5|ETag: \"a\"", 0, "", Validated),
            (
                "4.2.1 invalid hides Expires",
                "",
                200,
                "Cache-Control: max-age=x|Expires: @60|ETag: \"a\"",
                0,
                "",
                Validated,
            ),
            ("5.2 quoted", "", 200, "Cache-Control: max-age=\"60\"", 5, "", Hit),
            ("1.2.2 too large", "", 200, "Cache-Control: max-age=99999999999999999999", 99999, "", Hit),
            ("5.2.3 unknown directives", "", 200, "Cache-Control: a, max-age=60, b=\"c, no-store\"", 5, "", Hit),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn ages_and_directives_of_responses() {
    check(
        &[
            ("4.2.3 Age", "", 200, "Age: 30|Cache-Control: max-age=60|ETag: \"a\"", 30, "", Validated),
            ("4.2.3 Age within", "", 200, "Age: 30|Cache-Control: max-age=60", 29, "", Hit),
            ("4.2.3 apparent age", "", 200, "Date: @-30|Cache-Control: max-age=60|ETag: \"a\"", 30, "", Validated),
            (
                "4.2.3 the larger of both",
                "",
                200,
                "Date: @-30|Age: 50|Cache-Control: max-age=60|ETag: \"a\"",
                10,
                "",
                Validated,
            ),
            ("4.2.3 Date in the future", "", 200, "Date: @100|Cache-Control: max-age=60", 59, "", Hit),
            ("5.1 Age is a list", "", 200, "Age: 0, 100|Cache-Control: max-age=60", 5, "", Hit),
            (
                "5.1 Age in two lines",
                "",
                200,
                "Age: 100|Age: 0|Cache-Control: max-age=60|ETag: \"a\"",
                0,
                "",
                Validated,
            ),
            ("5.1 Age is none", "", 200, "Age: -100|Cache-Control: max-age=60", 5, "", Hit),
            ("5.1 Age with a point", "", 200, "Age: 100.0|Cache-Control: max-age=60", 5, "", Hit),
            (
                "1.2.2 Age too large",
                "",
                200,
                "Age: 99999999999999999999|Cache-Control: max-age=60|ETag: \"a\"",
                0,
                "",
                Validated,
            ),
            ("5.2.2.4 no-cache", "", 200, "Cache-Control: no-cache, max-age=60|ETag: \"a\"", 0, "", Validated),
            (
                "5.2.2.4 no-cache with fields",
                "",
                200,
                "Cache-Control: no-cache=\"b\", max-age=60|ETag: \"a\"",
                0,
                "",
                Validated,
            ),
            ("5.2.2.4 no-cache is useless", "", 200, "Cache-Control: no-cache, max-age=60", 0, "", Miss),
            ("5.4 Pragma of a response", "", 200, "Pragma: no-cache|Cache-Control: max-age=60", 5, "", Hit),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn heuristics() {
    let rules = CacheRules {
        heuristic: Some(Duration::from_secs(100)),
        default_ttl: Some(Duration::from_secs(10)),
        ..CacheRules::default()
    };
    check(
        &[
            ("4.2.2 a tenth", "", 200, "Last-Modified: @-600", 59, "", Hit),
            ("4.2.2 no more", "", 200, "Last-Modified: @-600", 60, "", Validated),
            ("4.2.2 the cap", "", 200, "Last-Modified: @-600000", 100, "", Validated),
            ("4.2.2 Last-Modified in the future", "", 200, "Last-Modified: @600", 0, "", Validated),
            ("4.2.2 the default", "", 200, "", 9, "", Hit),
            ("4.2.2 the default is over", "", 200, "", 10, "", Miss),
            (
                "4.2.2 no heuristic beside an explicit time",
                "",
                200,
                "Last-Modified: @-600|Expires: 0",
                0,
                "",
                Validated,
            ),
            ("4.2.2 404", "", 404, "", 9, "", Hit),
            ("4.2.2 201", "", 201, "Last-Modified: @-600", 5, "", Miss),
            ("4.2.2 201 public", "", 201, "Last-Modified: @-600|Cache-Control: public", 5, "", Hit),
            ("4.2.2 500", "", 500, "Last-Modified: @-600", 5, "", Miss),
        ],
        &rules,
    );
}

#[test]
fn directives_of_requests() {
    const LONG: &str = "Cache-Control: max-age=60|ETag: \"a\"";
    check(
        &[
            ("5.2.1.1 max-age", "", 200, LONG, 10, "Cache-Control: max-age=5", Validated),
            ("5.2.1.1 max-age is enough", "", 200, LONG, 5, "Cache-Control: max-age=5", Hit),
            ("5.2.1.1 max-age=0", "", 200, LONG, 0, "Cache-Control: max-age=0", Validated),
            ("5.2.1.1 invalid", "", 200, LONG, 0, "Cache-Control: max-age=x", Validated),
            ("5.2.1.3 min-fresh", "", 200, LONG, 10, "Cache-Control: min-fresh=51", Validated),
            ("5.2.1.3 min-fresh is there", "", 200, LONG, 10, "Cache-Control: min-fresh=50", Hit),
            ("5.2.1.2 max-stale", "", 200, LONG, 70, "Cache-Control: max-stale", Stale),
            ("5.2.1.2 max-stale within", "", 200, LONG, 70, "Cache-Control: max-stale=10", Stale),
            ("5.2.1.2 max-stale beyond", "", 200, LONG, 71, "Cache-Control: max-stale=10", Validated),
            ("5.2.1.2 max-stale invalid", "", 200, LONG, 71, "Cache-Control: max-stale=x", Validated),
            ("5.2.1.4 no-cache", "", 200, LONG, 0, "Cache-Control: no-cache", Validated),
            (
                "5.2.1.4 no-cache without validator",
                "",
                200,
                "Cache-Control: max-age=60",
                0,
                "Cache-Control: no-cache",
                Miss,
            ),
            ("5.2.1.5 no-store", "", 200, LONG, 0, "Cache-Control: no-store", Bypass),
            ("5.2.1.7 only-if-cached", "", 200, LONG, 0, "Cache-Control: only-if-cached", Hit),
            ("5.2.1.7 stale", "", 200, LONG, 60, "Cache-Control: only-if-cached", Only504),
            ("5.2.1.7 stale is taken", "", 200, LONG, 60, "Cache-Control: only-if-cached, max-stale", Stale),
            ("5.2.1.7 nothing", "", 200, "Cache-Control: no-store", 0, "Cache-Control: only-if-cached", Only504),
            ("5.4 Pragma", "", 200, LONG, 0, "Pragma: no-cache", Validated),
            ("5.4 Pragma beside Cache-Control", "", 200, LONG, 0, "Pragma: no-cache|Cache-Control: max-age=9", Hit),
            (
                "8246 2 reload",
                "",
                200,
                "Cache-Control: max-age=60, immutable|ETag: \"a\"",
                5,
                "Cache-Control: max-age=0",
                Hit,
            ),
            (
                "8246 2 forced reload",
                "",
                200,
                "Cache-Control: max-age=60, immutable|ETag: \"a\"",
                5,
                "Cache-Control: no-cache",
                Validated,
            ),
            (
                "8246 2 only while fresh",
                "",
                200,
                "Cache-Control: max-age=60, immutable|ETag: \"a\"",
                60,
                "Cache-Control: max-age=0",
                Validated,
            ),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn stale_responses() {
    const STALE: &str = "Cache-Control: max-stale";
    check(
        &[
            (
                "4.2.4 must-revalidate",
                "",
                200,
                "Cache-Control: max-age=1, must-revalidate|ETag: \"a\"",
                5,
                STALE,
                Validated,
            ),
            (
                "4.2.4 proxy-revalidate",
                "",
                200,
                "Cache-Control: max-age=1, proxy-revalidate|ETag: \"a\"",
                5,
                STALE,
                Validated,
            ),
            ("4.2.4 s-maxage", "", 200, "Cache-Control: s-maxage=1|ETag: \"a\"", 5, STALE, Validated),
            ("4.2.4 no-cache", "", 200, "Cache-Control: max-age=1, no-cache|ETag: \"a\"", 5, STALE, Validated),
            ("5861 3", "", 200, "Cache-Control: max-age=1, stale-while-revalidate=9", 5, "", Refreshed),
            (
                "5861 3 over",
                "",
                200,
                "Cache-Control: max-age=1, stale-while-revalidate=9|ETag: \"a\"",
                10,
                "",
                Validated,
            ),
            (
                "5861 3 must-revalidate",
                "",
                200,
                "Cache-Control: max-age=1, stale-while-revalidate=9, must-revalidate|ETag: \"a\"",
                5,
                "",
                Validated,
            ),
            ("5861 3 s-maxage", "", 200, "Cache-Control: s-maxage=1, stale-while-revalidate=9", 5, "", Refreshed),
            (
                "5861 3 the client wants a new one",
                "",
                200,
                "Cache-Control: max-age=1, stale-while-revalidate=9|ETag: \"a\"",
                5,
                "Cache-Control: max-age=0",
                Validated,
            ),
            (
                "5861 3 invalid",
                "",
                200,
                "Cache-Control: max-age=1, stale-while-revalidate=x|ETag: \"a\"",
                1,
                "",
                Validated,
            ),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn stale_responses_by_the_settings() {
    let rules = CacheRules { stale_while_revalidate: Duration::from_secs(9), ..CacheRules::default() };
    check(
        &[
            ("5861 3 by the settings", "", 200, "Cache-Control: max-age=1", 5, "", Refreshed),
            (
                "5861 3 the response says none",
                "",
                200,
                "Cache-Control: max-age=1, stale-while-revalidate=0|ETag: \"a\"",
                5,
                "",
                Validated,
            ),
            ("4.2.4 not beside s-maxage", "", 200, "Cache-Control: s-maxage=1|ETag: \"a\"", 5, "", Validated),
        ],
        &rules,
    );
}

#[test]
fn targeted_fields() {
    check(
        &[
            ("9213 2.2", "", 200, "CDN-Cache-Control: max-age=60|Cache-Control: no-store", 5, "", Hit),
            ("9213 2.2 stricter", "", 200, "CDN-Cache-Control: no-store|Cache-Control: max-age=60", 5, "", Miss),
            ("9213 2.2 over Expires", "", 200, "CDN-Cache-Control: max-age=60|Expires: 0", 5, "", Hit),
            ("9213 2.2 empty", "", 200, "CDN-Cache-Control: |Cache-Control: max-age=60", 5, "", Hit),
            ("9213 2.1 garbled", "", 200, "CDN-Cache-Control: a=\"|Cache-Control: max-age=60", 5, "", Hit),
            ("9213 2.2 Age counts", "", 200, "CDN-Cache-Control: max-age=60|Age: 60|ETag: \"a\"", 0, "", Validated),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn varying() {
    const VARY: &str = "Cache-Control: max-age=60|Vary: A, b";
    check(
        &[
            ("4.1 the same", "A: 1|B: 2", 200, VARY, 5, "a: 1|b: 2", Hit),
            ("4.1 another", "A: 1|B: 2", 200, VARY, 5, "A: 1|B: 3", Miss),
            ("4.1 absent in both", "A: 1", 200, VARY, 5, "A: 1", Hit),
            ("4.1 absent in one", "A: 1|B: 2", 200, VARY, 5, "A: 1", Miss),
            ("4.1 absent is not empty", "A: 1|B:", 200, VARY, 5, "A: 1", Miss),
            ("4.1 white space", "A: 1 ,2", 200, VARY, 5, "A:  1, 2 ", Hit),
            ("4.1 lines of a list", "A: 1|A: 2", 200, VARY, 5, "A: 1, 2", Hit),
            ("4.1 order counts", "A: 1, 2", 200, VARY, 5, "A: 2, 1", Miss),
            ("4.1 case of values counts", "A: x", 200, VARY, 5, "A: X", Miss),
            (
                "4.1 Vary in two lines",
                "A: 1|B: 2",
                200,
                "Cache-Control: max-age=60|Vary: A|Vary: B",
                5,
                "A: 1|B: 3",
                Miss,
            ),
            ("4.1 an empty Vary", "A: 1", 200, "Cache-Control: max-age=60|Vary: ", 5, "A: 2", Hit),
            ("4.1 other fields do not count", "A: 1|C: 1", 200, VARY, 5, "A: 1|C: 2", Hit),
        ],
        &CacheRules::default(),
    );
}

#[test]
fn requests_that_go_by() {
    const LONG: &str = "Cache-Control: max-age=60|ETag: \"a\"";
    check(
        &[
            ("4.3.2 If-Match is for the origin", "", 200, LONG, 5, "If-Match: \"a\"", Bypass),
            ("4.3.2 If-Unmodified-Since too", "", 200, LONG, 5, "If-Unmodified-Since: @0", Bypass),
            ("9110 9.3.1 content of GET", "", 200, LONG, 5, "Content-Length: 4", Bypass),
            ("9110 7.8 Upgrade", "", 200, LONG, 5, "Upgrade: websocket|Connection: Upgrade", Bypass),
            ("a cookie of the settings", "", 200, LONG, 5, "Cookie: a=1; session=2", Bypass),
            ("another cookie", "", 200, LONG, 5, "Cookie: a=session; sessions=2", Hit),
            ("3.3 a range of nothing", "", 200, "Cache-Control: no-store", 5, "Range: bytes=0-1", Bypass),
        ],
        &CacheRules { bypass_cookies: vec!["session".to_owned()], ..CacheRules::default() },
    );
}
