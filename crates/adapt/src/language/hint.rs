//! What is meant by words of other languages, and by words of this one at a wrong place.

use super::syntax::StabilityPlaces;

/// What is written elsewhere, and the word for it here.
const MEANINGS: [(&str, &str); 104] = [
    ("memory", "mem"),
    ("ram", "mem"),
    ("rss", "mem"),
    ("load", "cpu"),
    ("loadavg", "cpu"),
    ("processor", "cpu"),
    ("latency", "wait"),
    ("response_time", "wait"),
    ("responsetime", "wait"),
    ("duration", "wait"),
    ("delay", "wait"),
    ("waiting_time", "wait"),
    ("time", "wait"),
    ("ping", "rtt"),
    ("round_trip", "rtt"),
    ("requests", "rate"),
    ("request", "rate"),
    ("req", "rate"),
    ("reqs", "rate"),
    ("request_rate", "rate"),
    ("qps", "rate"),
    ("rps", "rate"),
    ("rpm", "rate"),
    ("tps", "rate"),
    ("throughput", "rate"),
    ("traffic", "rate"),
    ("hits", "rate"),
    ("speed", "bandwidth"),
    ("bw", "bandwidth"),
    ("bitrate", "bandwidth"),
    ("failure", "errors"),
    ("failures", "errors"),
    ("failed", "errors"),
    ("error", "errors"),
    ("error_rate", "errors"),
    ("errors_rate", "errors"),
    ("status", "errors"),
    ("success", "errors"),
    ("success_rate", "errors"),
    ("connections", "active"),
    ("conns", "active"),
    ("concurrency", "active"),
    ("inflight", "active"),
    ("in_flight", "active"),
    ("running", "active"),
    ("sessions", "active"),
    ("backlog", "queue"),
    ("waiting", "queue"),
    ("pending", "queue"),
    ("queued", "queue"),
    ("queue_length", "queue"),
    ("mean", "avg"),
    ("average", "avg"),
    ("median", "avg"),
    ("p50", "avg"),
    ("p90", "p95"),
    ("p999", "p99"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("drop", "shed"),
    ("reject", "shed"),
    ("refuse", "shed"),
    ("deny", "shed"),
    ("block", "shed"),
    ("throttle", "shed"),
    ("return", "shed"),
    ("scale", "grow"),
    ("scale_up", "grow"),
    ("scale_down", "shrink"),
    ("notify", "alert"),
    ("warn", "alert"),
    ("log", "alert"),
    ("page", "alert"),
    ("say", "alert"),
    ("move", "switch"),
    ("migrate", "switch"),
    ("redirect", "switch"),
    ("cache", "stale"),
    ("serve_stale", "stale"),
    ("copy", "replicate"),
    ("degrade", "next"),
    ("downgrade", "next"),
    ("upgrade", "next"),
    ("when", "during"),
    ("while", "during"),
    ("whenever", "during"),
    ("always", "during"),
    ("on", "at"),
    ("do", "then"),
    ("elseif", "elif"),
    ("elsif", "elif"),
    ("otherwise", "else"),
    ("above", ">"),
    ("exceeds", ">"),
    ("greater", ">"),
    ("gt", ">"),
    ("below", "<"),
    ("under", "<"),
    ("less", "<"),
    ("lt", "<"),
    ("ge", ">="),
    ("le", "<="),
    ("between", "in"),
    ("is", "in"),
];

/// The word of these that another language's word stands for: by the whole of it, or by a part such as `cpu` of
/// `cpu_usage`.
pub(crate) fn meaning<'n>(word: &str, known: &[&'n str]) -> Option<&'n str> {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    let of = |part: &str| {
        let named = MEANINGS.iter().filter(|(name, _)| *name == part).map(|(_, meant)| *meant);
        named.chain([part]).find_map(|meant| known.iter().copied().find(|known| *known == meant))
    };
    // A name of several words says by the first that is known what it is of.
    of(&word).or_else(|| word.split(['_', '-']).filter(|_| word.contains(['_', '-'])).find_map(of))
}

/// Where a word of the language stands, which was found at another place.
pub(crate) fn place_of(word: &str) -> Option<String> {
    let example = match word {
        "for" => "for 10s",
        "until" => "until cpu < 70%",
        "hold" => "hold 30s",
        "cooldown" => "cooldown 120s",
        "limit" => "limit 3 per 60s",
        "every" => "every 5s",
        "during" | "select" => word,
        "at" => "at start",
        "priority" => "priority 2",
        "over" => "over 60s",
        "predicted" => "predicted in 30s",
        "fit" => "predicted in 30s fit >= 0.8",
        "variants" => "variants full > half;",
        _ => return None,
    };
    Some(match word {
        _ if StabilityPlaces::WORDS.contains(&word) => {
            format!("`{word}` stands behind what is done: if … then … {example}")
        }
        "over" | "predicted" | "fit" => {
            format!("`{word}` stands behind what is read, before the comparison: rate@atom {example} > 500rps")
        }
        "priority" => format!("`{word}` stands behind the rule's name: rule NAME {example}: …"),
        "variants" => format!("`{word}` stands first in the braces of the atom: {example}"),
        "select" => "`select` stands behind the rule's colon: rule NAME: select best (…)".to_owned(),
        _ => format!("`{word}` stands behind the rule's colon: rule NAME: {example} if …"),
    })
}

/// What stands here for a symbol of another language.
pub(crate) fn symbol(text: &str) -> Option<(usize, &'static str)> {
    const SYMBOLS: [(&str, &str); 14] = [
        ("&&", "write `and`"),
        ("||", "write `or`"),
        ("&", "write `and`"),
        ("|", "write `or`"),
        ("!", "write `not`"),
        ("≥", "write `>=`"),
        ("≤", "write `<=`"),
        ("≠", "write an interval such as `in [30kbps,40kbps)`"),
        ("'", "names of atoms and texts stand in double quotes"),
        ("“", "write straight double quotes"),
        ("”", "write straight double quotes"),
        ("`", "names of atoms and texts stand in double quotes"),
        ("$", "write the name of what is read without it, or remove it"),
        ("%", "write it directly behind a number, such as 90%"),
    ];
    SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol)).map(|(symbol, remedy)| (symbol.len(), *remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_languages_lead_to_those_that_are_meant() {
        let readings = ["cpu", "mem", "queue", "wait", "bandwidth", "rtt", "rate", "errors", "active"];
        for (word, meant) in [
            ("latency", Some("wait")),
            ("Memory", Some("mem")),
            ("cpu_usage", Some("cpu")),
            ("node_cpu", Some("cpu")),
            ("requests", Some("rate")),
            ("5xx", None),
            ("shed", None),
        ] {
            assert_eq!(meaning(word, &readings), meant, "{word}");
        }
        assert_eq!(meaning("latency", &["cpu"]), None);
    }

    #[test]
    fn clauses_at_a_wrong_place_are_told_where_theirs_is() {
        for word in StabilityPlaces::WORDS {
            let told = place_of(word).expect("a clause");
            assert!(told.contains("behind what is done") && told.contains(&format!("`{word}`")), "{told}");
        }
        assert!(place_of("every").is_some_and(|told| told.contains("rule NAME: every 5s if")));
        assert_eq!(place_of("cpu"), None);
    }
}
