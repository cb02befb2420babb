//! A watched request as people read it.

use chrono::DateTime;
use serde_json::Value;
use std::fmt::Write as _;
use weir_report::{clean, nanoseconds};

/// Columns of the names of categories.
const NAME_COLUMNS: usize = 9;
/// Bytes that are shown in hexadecimal digits on a line.
const HEX_BYTES_OF_LINE: usize = 16;

fn paint(has_colours: bool, code: &str, text: &str) -> String {
    if has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A request: a line, and below it those of its categories.
pub(super) fn request(line: &Value, has_colours: bool) -> String {
    let number = |key: &str| line.get(key).and_then(Value::as_u64).unwrap_or(0);
    let status = number("status");
    let colour = match status {
        0 if line.get("parts").is_some() => "0",
        0 | 500.. => "31",
        400.. => "33",
        300.. => "36",
        _ => "32",
    };
    let at_sockets = line.get("parts").is_some();
    let status = match status {
        0 if at_sockets => String::new(),
        0 => "no status".to_owned(),
        status => status.to_string(),
    };
    let (method, target) = (string(line, "/method"), string(line, "/target"));
    let before = line.get("begun_before").and_then(Value::as_bool) == Some(true);
    let asked = match optional(line, "/network/server") {
        Some(port) if method.is_empty() => format!("request to {port}"),
        _ if method.is_empty() && before => "a request that began before".to_owned(),
        _ if method.is_empty() => "no request that can be read".to_owned(),
        _ => format!("{method} {target}"),
    };
    let mut out = format!(
        "{}  session {}  {}  {}  {}\n",
        time(number("at_unix_us")),
        number("session"),
        paint(has_colours, "1", &asked),
        paint(has_colours, colour, &status),
        took(number("whole_us")),
    );
    let before = before.then(|| ("begun", vec!["before it was watched; what is told is from then on".to_owned()]));
    for (name, lines) in before.into_iter().chain(categories(line)) {
        for (at, text) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            let name = paint(has_colours, "2", &format!("{name:<NAME_COLUMNS$}"));
            // Writing to memory does not fail.
            let _ = writeln!(out, "  {name} {}", clean(text));
        }
    }
    out
}

/// What was left out, since the last line that tells it.
pub(super) fn left(left_out: u64, dropped: u64, has_colours: bool) -> String {
    let text = format!("-- {left_out} left out as the budget had no room, {dropped} not looked at as too many came");
    paint(has_colours, "2", &text) + "\n"
}

/// The names of categories, and the lines of each.
pub(super) fn categories(line: &Value) -> Vec<(&'static str, Vec<String>)> {
    type Teller = fn(&Value) -> Vec<String>;
    let tellers: [(&'static str, Teller); 13] = [
        ("network", network),
        ("head", head),
        ("routes", routes),
        ("cache", cache),
        ("file", file),
        ("script", script),
        ("upstream", upstream),
        ("rules", rules),
        ("arm", arm),
        ("response", response),
        ("timing", timing),
        ("bodies", bodies),
        ("parts", parts),
    ];
    let told = tellers.into_iter().filter_map(|(name, tell)| Some((name, tell(line.get(name)?))));
    told.filter(|(_, lines)| !lines.is_empty()).collect()
}

fn network(of: &Value) -> Vec<String> {
    let port = count(of, "/port");
    let client = string(of, "/client");
    let client = match port {
        Some(port) if client.contains(':') => format!("[{client}]:{port}"),
        Some(port) => format!("{client}:{port}"),
        None if client.is_empty() => "a client that is not known".to_owned(),
        None => format!("{client}, as a proxy tells"),
    };
    let tls = if of.get("tls").and_then(Value::as_bool) == Some(true) { "TLS" } else { "in the clear" };
    let stream = count(of, "/stream").map_or_else(String::new, |stream| format!(", stream {stream}"));
    // Over HTTP/1 sockets do not tell its version.
    let protocol = optional(of, "/protocol").map_or_else(String::new, |protocol| format!(", {protocol}"));
    let of_loop = count(of, "/loop").map_or_else(String::new, |number| format!(", loop {number}"));
    let bytes = count(of, "/response_bytes").map_or_else(String::new, |bytes| {
        format!(", {} bytes asked, {bytes} answered", count(of, "/request_bytes").unwrap_or(0))
    });
    vec![format!("{client}{protocol}, {tls}{stream}{of_loop}{bytes}")]
}

fn head(of: &Value) -> Vec<String> {
    let mut lines = vec![format!("{} {}", string(of, "/method"), string(of, "/target"))];
    lines.extend(fields(of));
    lines
}

fn routes(of: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(optional(of, "/host").map(|host| format!("host {host}")));
    lines.extend(strings(of, "/routes"));
    lines.extend(optional(of, "/mapped").map(|mapped| format!("the tables are asked for {mapped}")));
    lines.extend(strings(of, "/tables"));
    lines.extend(strings(of, "/limits"));
    lines.push(string(of, "/answer"));
    lines
}

fn cache(of: &Value) -> Vec<String> {
    let told = [
        ("hits", "hit", "hits"),
        ("misses", "miss", "misses"),
        ("fills", "fill", "fills"),
        ("stale", "stale", "stale"),
        ("evictions", "eviction", "evictions"),
    ];
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|(key, one, several)| {
            let number = count(of, &format!("/{key}")).filter(|number| *number > 0)?;
            Some(format!("{number} {}", if number == 1 { one } else { several }))
        })
        .collect();
    vec![if told.is_empty() { "not asked".to_owned() } else { told.join(", ") }]
}

fn file(of: &Value) -> Vec<String> {
    let from = if of.get("in_memory").and_then(Value::as_bool) == Some(true) { "from memory" } else { "from the file" };
    let bytes = count(of, "/bytes").unwrap_or(0);
    vec![format!("{}, {bytes} bytes, {}, {from}", string(of, "/path"), string(of, "/content_type"))]
}

fn script(of: &Value) -> Vec<String> {
    let info = optional(of, "/path_info").filter(|info| !info.is_empty());
    let info = info.map_or_else(String::new, |info| format!(", path info {info}"));
    let file = optional(of, "/file").map_or_else(String::new, |file| format!(", file {file}"));
    let mut lines = vec![format!("{}{info}{file}", string(of, "/name"))];
    lines.extend(strings(of, "/output").into_iter().map(|line| format!("says: {line}")));
    lines
}

fn upstream(of: &Value) -> Vec<String> {
    let mut lines = vec![string(of, "/name")];
    let steps = of.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
    lines.extend(
        steps.iter().map(|step| format!("{:>10}  {}", took(count(step, "/at_us").unwrap_or(0)), string(step, "/what"))),
    );
    lines
}

fn rules(of: &Value) -> Vec<String> {
    let is = |key: &str| of.get(key).and_then(Value::as_bool) == Some(true);
    let mut lines = Vec::new();
    if is("asked") {
        let by = if is("by_lease") { "its lease answered" } else { "it was asked" };
        let chosen = match optional(of, "/variant") {
            Some(variant) => format!(", and it chose the variant {variant}"),
            None if is("chosen") => ", and it chose a variant".to_owned(),
            None => String::new(),
        };
        let stale = if is("stale") { ", and allowed what was not looked at" } else { "" };
        lines.push(format!("policy: {by}{chosen}{stale}"));
    }
    let decided = of.get("decided").and_then(Value::as_array);
    lines.extend(decided.into_iter().flatten().map(|by| {
        let line = count(by, "/line").unwrap_or(0);
        format!("rule {} ({}:{line}): {}", string(by, "/rule"), string(by, "/file"), string(by, "/orders"))
    }));
    let swapped = of.get("swapped").and_then(Value::as_array);
    lines.extend(swapped.into_iter().flatten().map(|swap| {
        format!(
            "after {} it went on in the variant {}",
            took(count(swap, "/at_us").unwrap_or(0)),
            string(swap, "/variant")
        )
    }));
    if is("undetermined") {
        lines.push("which rule decided cannot be told: the rules were busy at that moment".to_owned());
    }
    let waited = count(of, "/waited_ms").filter(|waited| *waited > 0);
    lines.extend(waited.map(|waited| format!("it waited {waited} ms for a place within a bound")));
    let names = strings(of, "/names");
    if !names.is_empty() {
        lines.push(names.join(" "));
    }
    lines
}

fn arm(of: &Value) -> Vec<String> {
    let is_told = of.get("told").and_then(Value::as_bool) == Some(true);
    if !is_told {
        return vec!["not told".to_owned()];
    }
    let name = optional(of, "/transaction").unwrap_or_else(|| "a business transaction".to_owned());
    let correlator = optional(of, "/correlator").map_or_else(String::new, |digits| format!(", correlator {digits}"));
    vec![format!("told as {name}{correlator}")]
}

fn response(of: &Value) -> Vec<String> {
    let whole = if of.get("is_complete").and_then(Value::as_bool) == Some(true) { "" } else { ", cut off" };
    let (body, sent) = (count(of, "/body_bytes").unwrap_or(0), count(of, "/sent_bytes").unwrap_or(0));
    let mut lines = vec![format!("{body} bytes of body, {sent} with its head{whole}")];
    lines.extend(fields(of));
    lines
}

/// What the time was spent on, as the kernel tells it.
fn parts(of: &Value) -> Vec<String> {
    let part = |part: &Value| {
        let who = part.get("who").and_then(Value::as_array).into_iter().flatten();
        let mut names: Vec<String> = who.map(|one| string(one, "/name")).collect();
        names.extend(count(part, "/others").filter(|others| *others > 0).map(|others| format!("{others} more")));
        let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        format!("{:>10}  {}{names}", nanoseconds(count(part, "/ns").unwrap_or(0) as f64), string(part, "/words"))
    };
    of.as_array().into_iter().flatten().map(part).collect()
}

/// The beginnings of both bodies, a line of them a line.
fn bodies(of: &Value) -> Vec<String> {
    ["request", "response"].into_iter().filter_map(|whose| Some(body(whose, of.get(whose)?))).flatten().collect()
}

fn body(whose: &str, of: &Value) -> Vec<String> {
    let (bytes, kept) = (count(of, "/bytes").unwrap_or(0), count(of, "/kept_bytes").unwrap_or(0));
    let cut = if kept < bytes { format!(", of which the first {kept} are kept") } else { String::new() };
    let text = of.get("text").and_then(Value::as_str);
    let kind = if bytes > 0 && text.is_none() { ", no text" } else { "" };
    let mut lines = vec![format!("of the {whose}: {bytes} bytes{kind}{cut}")];
    lines.extend(text.into_iter().flat_map(str::lines).map(|line| format!("| {line}")));
    let digits = optional(of, "/hex").unwrap_or_default();
    lines.extend(digits.as_bytes().chunks(2 * HEX_BYTES_OF_LINE).map(|line| format!("| {}", pairs(line))));
    lines
}

/// Pairs of digits with spaces between them.
fn pairs(digits: &[u8]) -> String {
    digits.chunks(2).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}

fn timing(of: &Value) -> Vec<String> {
    let part = |key: &str, words: &str| count(of, key).map(|us| format!("{words} {}", took(us)));
    let parts = [part("/answer_us", "decision"), part("/head_us", "wait for the head"), part("/send_us", "response")];
    vec![parts.into_iter().flatten().collect::<Vec<_>>().join(", ")]
}

fn fields(of: &Value) -> Vec<String> {
    let list = of.get("fields").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut lines: Vec<String> =
        list.iter().map(|field| format!("{}: {}", string(field, "/0"), string(field, "/1"))).collect();
    lines.extend(count(of, "/fields_left").map(|left| format!("and {left} more fields")));
    lines
}

fn optional(of: &Value, at: &str) -> Option<String> {
    of.pointer(at).and_then(Value::as_str).map(clean)
}

fn string(of: &Value, at: &str) -> String {
    optional(of, at).unwrap_or_default()
}

fn strings(of: &Value, at: &str) -> Vec<String> {
    let list = of.pointer(at).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(clean).collect()
}

fn count(of: &Value, at: &str) -> Option<u64> {
    of.pointer(at).and_then(Value::as_u64)
}

/// The time of day, in UTC.
fn time(unix_us: u64) -> String {
    let at = i64::try_from(unix_us).ok().and_then(DateTime::from_timestamp_micros);
    at.map_or_else(String::new, |at| at.format("%H:%M:%S%.3f").to_string())
}

fn took(us: u64) -> String {
    nanoseconds(us as f64 * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_a_line_and_those_of_its_categories() {
        let line = r#"{"type":"request","number":1,"at_unix_us":1764500000123456,"session":7,"method":"GET","target":"/a?(hidden)",
            "status":502,"whole_us":12345,"upstream":{"name":"app","steps":[{"at_us":12,"what":"it has a place"}]},
            "timing":{"answer_us":10,"head_us":12000,"send_us":335,"whole_us":12345}}"#;
        let shown = request(&serde_json::from_str(line).expect("JSON"), false);
        assert_eq!(
            shown,
            "10:53:20.123  session 7  GET /a?(hidden)  502  12.3 ms\n  upstream  app\n               12.0 us  it has a place\n  \
             timing    decision 10.0 us, wait for the head 12.0 ms, response 335 us\n"
        );
    }

    #[test]
    fn what_began_before_and_what_rules_decided_is_said() {
        let line = r#"{"at_unix_us":1764500000123456,"session":7,"begun_before":true,"method":"","target":"","status":200,
            "whole_us":10,"rules":{"names":["policy","fit"],"asked":true,"chosen":true,"variant":"small",
            "decided":[{"rule":"fit","file":"a.policy","line":3,"orders":"use small"}]},
            "arm":{"told":true,"transaction":"page","correlator":"001cd740"}}"#;
        let shown = request(&serde_json::from_str(line).expect("JSON"), false);
        assert_eq!(
            shown,
            "10:53:20.123  session 7  a request that began before  200  10.0 us\n  \
             begun     before it was watched; what is told is from then on\n  \
             rules     policy: it was asked, and it chose the variant small\n            \
             rule fit (a.policy:3): use small\n            policy fit\n  \
             arm       told as page, correlator 001cd740\n"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_shown(text: String) {
            let line = serde_json::json!({
                "method": text, "target": text, "head": {"method": text, "target": text, "fields": [[text, text]]},
                "routes": {"host": text, "routes": [text], "tables": [text], "answer": text},
                "rules": {"asked": true, "variant": text, "names": [text], "decided": [{"rule": text, "file": text, "orders": text}]},
                "arm": {"told": true, "transaction": text, "correlator": text},
                "script": {"name": text, "path_info": text, "file": text, "output": [text]},
                "upstream": {"name": text, "steps": [{"at_us": 1, "what": text}]}, "network": {"client": text, "protocol": text},
            });
            let shown = request(&line, false);
            prop_assert!(shown.lines().all(|line| clean(line) == line), "{:?}", shown);
        }
    }
}
