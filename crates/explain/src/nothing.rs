//! Why a run holds nothing to explain: what came nevertheless, and what became of it.

use weir_timeline::{Seen, Statistics};

/// Why there is no response, a sentence each; the first is the likeliest.
pub(super) fn why(statistics: &Statistics, rung: &str) -> Vec<String> {
    let failed: u64 = statistics.failed.iter().sum();
    if failed > 0 {
        return vec![format!("every request failed ({failed})")];
    }
    let exchanges = &statistics.exchanges;
    let Seen { connections, arrivals, received, received_unknown, sent } = statistics.seen;
    let mut told = Vec::new();
    let mut tell = |count: u64, words: String| told.extend((count > 0).then_some(words));
    tell(
        exchanges.http2,
        format!(
            "{} exchanges came over HTTP/2 on connections that could not be followed, so that their requests are not told apart; a client that speaks HTTP/1.1 to this server (curl --http1.1, weir load) is explained",
            exchanges.http2
        ),
    );
    tell(
        exchanges.cut,
        format!(
            "{} requests were cut by an edge of the recording or of one of its windows; record for longer",
            exchanges.cut
        ),
    );
    tell(
        exchanges.unanswered,
        format!("{} requests came and none of them was answered meanwhile", exchanges.unanswered),
    );
    tell(exchanges.handshakes, format!("{} TLS handshakes came and no request after them", exchanges.handshakes));
    tell(
        exchanges.inner,
        format!(
            "{} requests came from processes that are recorded themselves, as part of whose work they count; name the server alone (--pid)",
            exchanges.inner
        ),
    );
    let taken = received + received_unknown;
    let untold = if taken == 0 { arrivals } else { 0 };
    tell(
        untold,
        format!(
            "data arrived {arrivals} times at the recorded ports, and no process of the server was seen to take it: it takes it by a way that the rung {rung:?} does not tell (splice, io_uring), or the process that takes it is not recorded; try another --rung, or name the process by --pid"
        ),
    );
    let apart = if received == 0 { received_unknown } else { 0 };
    tell(
        apart,
        format!(
            "the server received {received_unknown} times over sockets of which the recording knows no connection at a recorded port: Multipath TCP, or connections that are older than the recording and could not be listed"
        ),
    );
    let unasked = if exchanges.unasked > 0 && received == 0 { sent } else { 0 };
    tell(unasked, format!("the server sent {sent} times, and no request was seen to be taken before"));
    if !told.is_empty() {
        return told;
    }
    vec![match (connections, taken) {
        (0, 0) => "it holds no request: none came to the recorded ports meanwhile; record for longer, or load it with `weir load --run DIR URL` meanwhile".to_owned(),
        (_, 0) => format!("it holds no request: {connections} connections came to the recorded ports, and no data over them"),
        _ => format!(
            "it holds no request: the server received {taken} times, and what it took and sent is no request with an answer; record for longer, or load it with `weir load --run DIR URL` meanwhile"
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seen: Seen, change: impl FnOnce(&mut Statistics)) -> String {
        let mut statistics = Statistics { seen, ..Statistics::default() };
        change(&mut statistics);
        why(&statistics, "socket tracepoints").join("; ")
    }

    #[test]
    fn that_none_came_is_said_only_where_none_came() {
        assert!(words(Seen::default(), |_| {}).contains("none came"));
        let came = [
            words(Seen { arrivals: 7, ..Seen::default() }, |_| {}),
            words(Seen { arrivals: 7, received_unknown: 7, ..Seen::default() }, |_| {}),
            words(Seen { connections: 3, ..Seen::default() }, |_| {}),
            words(Seen { arrivals: 7, received: 7, ..Seen::default() }, |_| {}),
            words(Seen { arrivals: 7, received: 7, ..Seen::default() }, |one| one.exchanges.cut = 2),
            words(Seen { arrivals: 7, received: 7, ..Seen::default() }, |one| one.exchanges.http2 = 2),
            words(Seen { arrivals: 7, received: 7, ..Seen::default() }, |one| one.exchanges.inner = 2),
            words(Seen::default(), |one| one.failed[0] = 2),
        ];
        let named = [
            "splice",
            "Multipath",
            "3 connections",
            "received 7",
            "2 requests were cut",
            "HTTP/2",
            "recorded themselves",
            "failed (2)",
        ];
        for (told, named) in came.iter().zip(named) {
            assert!(told.contains(named) && !told.contains("none came"), "{told}");
        }
    }
}
