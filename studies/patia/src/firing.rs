//! The first thing that rules did, by the decisions that `weir serve --decisions` has kept.

use anyhow::Context;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The first decision to serve something smaller.
#[derive(Debug, PartialEq)]
pub(crate) struct Firing {
    /// Seconds from when the load began.
    pub(crate) at_s: f64,
    /// The tests that it was made on, each with its value in words and whether it held.
    pub(crate) readings: Vec<(String, String, bool)>,
}

impl Firing {
    /// The first one of a recording, which began somewhen before `begun_ms`, milliseconds since 1970; none if nothing
    /// fired from then on.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(crate) fn first(file: &Path, begun_ms: f64) -> anyhow::Result<Option<Self>> {
        let open = std::fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        for line in BufReader::new(open).lines() {
            let line = line.with_context(|| format!("cannot read {}", file.display()))?;
            // Of very many lines few are decisions.
            if let Some(firing) =
                Some(line).filter(|line| line.contains("\"decided\"")).and_then(|line| of(&line, begun_ms))
            {
                return Ok(Some(firing));
            }
        }
        Ok(None)
    }

    /// Whether a forecast led to it, and no plain test beside it.
    pub(crate) fn is_of_forecast(&self) -> bool {
        let mut held = self.readings.iter().filter(|(.., held)| *held).peekable();
        held.peek().is_some() && held.all(|(test, ..)| test.contains(" predicted "))
    }

    /// Its tests that held, with their values; what else there was behind them.
    pub(crate) fn shown(&self) -> String {
        let of = |wanted: bool| self.readings.iter().filter(move |(.., held)| *held == wanted);
        let mut shown: Vec<String> = of(true).map(|(test, value, _)| format!("`{test}` was {value}")).collect();
        shown.extend(of(false).map(|(test, value, _)| format!("`{test}` did not hold ({value})")));
        shown.join("; ")
    }
}

fn of(line: &str, begun_ms: f64) -> Option<Firing> {
    let decision = &serde_json::from_str::<Value>(line).ok()?["decided"];
    let at_s = (decision["at_ms"].as_f64()? - begun_ms) / 1e3;
    let is_use = decision["orders"].as_array()?.iter().any(|order| order["do"] == "use" && order["variant"] == "small");
    let readings = decision["readings"].as_array()?.iter().map(|reading| {
        let unit = if reading["resource"] == "rate" { " requests/s" } else { "" };
        let value = reading["value"].as_f64().map_or("unknown".to_owned(), |value| format!("{value:.1}{unit}"));
        let fit = reading["fit"].as_f64().map_or(String::new(), |fit| format!(", fit {fit:.2}"));
        let test = reading["test"].as_str().unwrap_or_default().to_owned();
        (test, value + &fit, reading["held"] == true)
    });
    (decision["outcome"]["kind"] == "fired" && is_use && at_s >= 0.0)
        .then(|| Firing { at_s, readings: readings.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ms: u64, kind: &str, variant: &str, plain: bool) -> String {
        format!(
            r#"{{"at_ms":{at_ms},"decided":{{"number":1,"at_ms":{at_ms},"rule":"crowd","file":"f","line":4,"subject":{{"number":1,"atom":"/a"}},"outcome":{{"kind":"{kind}"}},"orders":[{{"do":"use","variant":"{variant}"}}],"readings":[{{"test":"rate@here > 150rps","resource":"rate","value":40.0,"age_ms":1,"readings":1,"held":{plain}}},{{"test":"rate@here over 20s predicted in 15s fit >= 0.5 > 60rps","resource":"rate","value":61.25,"age_ms":1,"readings":20,"fit":0.78,"held":true}}]}}}}"#
        )
    }

    #[test]
    fn the_first_firing_is_told_with_what_led_to_it() {
        let file = std::env::temp_dir().join(format!("weir-firing-{}.jsonl", std::process::id()));
        let lines = [
            r#"{"at_ms":1000,"tick":true}"#.to_owned(),
            line(1000, "fired", "small", false),
            line(2500, "unknown", "small", false),
            line(2600, "fired", "full", false),
            line(12_500, "fired", "small", false),
            line(13_000, "fired", "small", true),
        ];
        std::fs::write(&file, lines.join("\n")).expect("writes");
        let first = Firing::first(&file, 2000.0).expect("reads").expect("one fired");
        assert!(first.at_s == 10.5 && first.is_of_forecast(), "{first:?}");
        let shown = first.shown();
        assert!(
            shown.starts_with("`rate@here over 20s predicted") && shown.contains("61.2 requests/s, fit 0.78"),
            "{shown}"
        );
        assert!(shown.ends_with("`rate@here > 150rps` did not hold (40.0 requests/s)"), "{shown}");
        let later = Firing::first(&file, 12_900.0).expect("reads").expect("one fired");
        assert!(!later.is_of_forecast(), "the plain test held, too");
        assert_eq!(Firing::first(&file, 14_000.0).expect("reads"), None);
        std::fs::remove_file(&file).expect("removes");
    }
}
