//! Modules that come with the program, and those that are refused.

/// A module by the name that scripts import.
pub(super) fn source(name: &str) -> Option<&'static str> {
    Some(match name {
        "k6" => include_str!("../js/k6.js"),
        "k6/http" => include_str!("../js/http.js"),
        "k6/metrics" => include_str!("../js/metrics.js"),
        "k6/data" => include_str!("../js/data.js"),
        "k6/encoding" => include_str!("../js/encoding.js"),
        "k6/crypto" => include_str!("../js/crypto.js"),
        "k6/execution" => include_str!("../js/execution.js"),
        "k6/html" => include_str!("../js/html.js"),
        "k6/timers" => include_str!("../js/timers.js"),
        "k6/ws" => include_str!("../js/ws.js"),
        "k6/websockets" | "k6/experimental/websockets" => include_str!("../js/websockets.js"),
        START => include_str!("../js/start.js"),
        "weir:sockets" => include_str!("../js/sockets.js"),
        "weir:webcrypto" => include_str!("../js/webcrypto.js"),
        "weir:jslib/url" => include_str!("../js/jslib_url.js"),
        "weir:jslib/k6-utils" => include_str!("../js/jslib_utils.js"),
        "weir:jslib/k6-summary" => include_str!("../js/jslib_summary.js"),
        _ => return None,
    })
}

/// The module that is evaluated for each user before the script.
pub(super) const START: &str = "weir:start";

/// The module that stands for one of jslib's, by its address.
pub(super) fn of_jslib(address: &str) -> Option<&'static str> {
    let rest = address.strip_prefix("https://jslib.k6.io/")?;
    let mut parts = rest.split('/');
    let (name, version, file) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || file != "index.js" || !version.starts_with(|sign: char| sign.is_ascii_digit()) {
        return None;
    }
    match name {
        "url" => Some("weir:jslib/url"),
        "k6-utils" => Some("weir:jslib/k6-utils"),
        "k6-summary" => Some("weir:jslib/k6-summary"),
        _ => None,
    }
}

/// Why a module of k6's is not there.
pub(super) fn refusal(name: &str) -> Option<String> {
    let why = match name {
        "k6/net/grpc" | "k6/experimental/grpc" => "gRPC in scripts is not there yet",
        "k6/browser" | "k6/experimental/browser" => "no browser is driven",
        "k6/secrets" => "there are no sources of secrets; take them from __ENV",
        "k6/experimental/redis" => "Redis is not there; read data by open() or a SharedArray",
        "k6/webcrypto" | "k6/experimental/webcrypto" => "only k6/crypto is there",
        "k6/experimental/timers" => "import it from k6/timers",
        _ if name.starts_with("k6/x/") => "extensions of k6 are programs of Go and cannot run here",
        _ if name == "k6" || name.starts_with("k6/") => {
            "the modules k6, k6/http, k6/ws, k6/websockets, k6/metrics, k6/data, k6/encoding, k6/crypto, k6/execution, k6/html and k6/timers are there"
        }
        _ => return None,
    };
    Some(format!("module {name} is refused: {why}"))
}
