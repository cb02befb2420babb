//! All that reads foreign text, at once: for the fuzz target `k6_texts`.

use crate::cookies::Cookie;
use crate::options::{Given, Named, plan};
use crate::script::Sources;
use weir_scenario::metrics::{Kind, Threshold};

/// Reads a text as options, thresholds, names of modules, cookies, pages, selectors, durations, challenges, command lines
/// and data of a summary: each is read or refused.
///
/// # Panics
/// If a reader is wrong: what it reads breaks its own promise.
pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let named = Named { functions: vec!["default".to_owned()], ..Named::default() };
    if let Ok(plan) = plan(Some(&text), &Given::default(), &named) {
        assert_eq!(plan.scenarios.len(), plan.settings.scenarios.len());
        let _ = crate::reaching::reaching(&plan);
    }
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    if let Some((name, _)) = crate::selector::selector(first) {
        assert!(!name.is_empty());
    }
    for kind in [Kind::Counter, Kind::Gauge, Kind::Rate, Kind::Trend] {
        let _ = Threshold::parse(first, kind);
    }
    let _ = Sources::default().resolve("/nowhere/main.js", first);
    let _ = Cookie::parse(first);
    let _ = (crate::time::duration(first), crate::time::http_date(first));
    let credentials = crate::digest_auth::Credentials { user: "a", password: "b" };
    let _ = crate::digest_auth::answer(first, credentials, "GET", "/");
    if let Ok(selector) = crate::html::Selector::parse(first) {
        let page = crate::html::Dom::parse(rest);
        page.descendants(0).into_iter().filter(|at| selector.matches(&page, *at)).count();
        assert!(page.inner_html(0).starts_with("<html"));
    }
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = crate::arguments::parse(&words);
    if let Ok(data) = serde_json::from_str(&text) {
        let _ = (crate::summary::text(&data, &data), crate::summary::export(&data));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn seeds_of_the_fuzzer_are_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/k6_texts");
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            super::read(&std::fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 8);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\\n]{0,200}") {
            super::read(text.as_bytes());
        }

        #[test]
        fn any_options_are_followed_or_refused(
            name in "vus|duration|iterations|stages|scenarios|thresholds|hosts|tags|batch|setupTimeout|[a-z]{1,9}",
            value in "[0-9]{1,12}|-1|null|true|\"[0-9]{0,4}[smh]{0,2}\"|\\[\\]|\\{\\}|\\{\"a\":\\{\"executor\":\"[a-z-]{0,20}\"\\}\\}",
        ) {
            super::read(format!("{{\"{name}\":{value}}}").as_bytes());
        }
    }
}
