//! Nothing is stored that section 3 forbids, as a second reading of it has it.

use super::harness::{Bench, at};
use crate::upstream::cache::rules::CacheRules;
use proptest::prelude::*;
use std::time::Duration;

const RESPONSE: [&str; 14] = [
    "max-age=60",
    "max-age=0",
    "s-maxage=60",
    "no-store",
    "no-cache",
    "private",
    "private=\"b\"",
    "public",
    "must-revalidate",
    "must-understand",
    "proxy-revalidate",
    "immutable",
    "x=\"y, no-store\"",
    "stale-if-error=60",
];

/// Whether section 3 forbids it, of directives that were not parsed.
fn is_forbidden(status: u16, directives: &[&str], request: &[&str], others: &[&str]) -> bool {
    let has = |name: &str| directives.contains(&name);
    let is_known = [200, 203, 204, 301, 302, 404, 410, 503].contains(&status);
    let is_final = status >= 200;
    let forbids_store = if has("must-understand") { !is_known } else { has("no-store") };
    let is_authorized = request.contains(&"Authorization: a");
    let allows_authorized = has("public") || has("must-revalidate") || has("s-maxage=60");
    let is_explicit = has("public")
        || has("s-maxage=60")
        || has("max-age=60")
        || has("max-age=0")
        || others.contains(&"Expires: @60")
        || [200, 203, 204, 301, 404, 410].contains(&status);
    !is_final
        || [206, 304].contains(&status)
        || forbids_store
        || request.contains(&"Cache-Control: no-store")
        || has("private")
        || has("private=\"b\"")
        || is_authorized && !allows_authorized
        || others.contains(&"Set-Cookie: a=b")
        || others.contains(&"Vary: *")
        || !is_explicit
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn nothing_is_stored_that_is_forbidden(
        directives in proptest::sample::subsequence(&RESPONSE[..], 0..5).prop_shuffle(),
        request in proptest::sample::subsequence(vec!["Authorization: a", "Cache-Control: no-store", "A: b"], 0..3),
        others in proptest::sample::subsequence(
            vec!["ETag: \"a\"", "Last-Modified: @-90", "Set-Cookie: a=b", "Vary: *", "Vary: A", "Expires: @60"], 0..6),
        status in proptest::sample::select(vec![200_u16, 203, 204, 206, 299, 301, 302, 304, 404, 410, 451, 503, 599]),
        one_line in any::<bool>(),
        heuristic in any::<bool>(),
    ) {
        let mut fields = others.clone();
        let control = if one_line {
            format!("Cache-Control: {}", directives.join(", "))
        } else {
            directives.iter().map(|directive| format!("cache-control: {directive}|")).collect()
        };
        fields.push(&control);
        let ttl = heuristic.then_some(Duration::from_secs(60));
        let mut bench = Bench::new(CacheRules { default_ttl: ttl, heuristic: ttl, ..CacheRules::default() });
        bench.store(&request.join("|"), status, &fields.join("|"), "body", at(0));
        let forbidden = is_forbidden(status, &directives, &request, &others);
        prop_assert!(!forbidden || bench.stored() == 0);
        // What may be stored, and lives, is: the cache does not pass the test by storing nothing.
        let lives = directives.contains(&"s-maxage=60") && !directives.contains(&"no-cache");
        prop_assert!(forbidden || !lives || bench.stored() == 1);
    }
}
