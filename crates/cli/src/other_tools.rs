//! Options as other load generators spell them: the refusal names the option of `weir load` for the same.

use std::ffi::OsString;

/// Options of wrk, ab, hey, oha, vegeta, k6, h2load, bombardier, siege and curl, and what does the same here.
const HINTS: &[(&[&str], &str)] = &[
    (&["-k"], "connections are kept here without it (ab -k); to believe any certificate (curl -k), write --insecure"),
    (&["-q", "--query-per-second"], "a rate is --rate R; -q is quiet and takes no value"),
    (&["-r"], "a rate (bombardier -r) is --rate R; that a run goes on after errors (ab -r) needs no option"),
    (
        &["-s", "--script", "--lua"],
        "scripts of wrk (wrk -s) run by weir wrk -s FILE; requests of a file are --urls FILE, users --sessions FILE",
    ),
    (&["--vus", "--virtual-users", "--concurrent", "--users"], "so many at a time are -c N"),
    (
        &["-u"],
        "users at a time (locust -u) are -c N; a file to put (ab -u) is --body @FILE -m PUT; headers are -H 'Name: value'",
    ),
    (&["--user-agent", "-A"], "header fields are -H 'Name: value', such as -H 'User-Agent: x'"),
    (&["--throughput", "--arrival-rate", "--constant-arrival-rate"], "a rate is --rate R"),
    (&["--run-time"], "a time (locust --run-time) is -d TIME"),
    (
        &["--stage", "--stages", "--spawn-rate", "--ramp-up"],
        "rates one after the other are --steps 100/10s,200/10s, or --ramp 100..1000/60s",
    ),
    (&["-b"], "a body is --body TEXT|@FILE, a cookie --cookie NAME=VALUE; buffers have no option (ab -b)"),
    (&["-f", "--body-file", "-D", "--data-file", "-p"], "a body that a file holds is --body @FILE -m POST"),
    (
        &["--data", "--data-binary", "--data-raw", "--json-body"],
        "a body is --body TEXT|@FILE, with -m POST; a message of gRPC --message JSON|@FILE",
    ),
    (&["--call"], "a method of gRPC (ghz --call) stands in the URL: grpc://HOST:PORT/package.Service/Method"),
    (&["--metadata", "--metadata-file", "--rpc-header"], "metadata of gRPC is -H 'name: value'"),
    (&["--plaintext", "-plaintext"], "grpc:// is in the clear, grpcs:// encrypted"),
    (&["--cacert"], "certificate authorities to trust are --ca FILE"),
    (&["-T", "--content-type"], "a content type is -H 'Content-Type: application/json'"),
    (&["-a", "--basic-auth"], "basic authentication is --user NAME:PASSWORD"),
    (&["-x"], "a proxy is --proxy http://HOST:PORT"),
    (
        &["-L", "--location", "--redirect", "--redirects"],
        "redirects are not followed: ask for the address that they lead to",
    ),
    (&["-i", "--input-file", "--targets", "--targets-file", "--urls-from-file"], "requests of a file are --urls FILE"),
    (
        &["-l", "--latencies", "--histogram", "--print"],
        "latencies are in every report; further percentiles are in --json",
    ),
    (
        &["--max-time", "--connect-timeout", "-w", "--wait-ongoing-requests-after-deadline"],
        "how long a request may take is --timeout TIME",
    ),
    (&["-o", "--output", "--output-format"], "the report as JSON is --json, the time series --csv FILE"),
    (&["--no-tui"], "-q shows no progress"),
    (&["--latency-correction"], "latency counts from the intended time here without it (--rate)"),
    (&["--disable-compression", "--compressed"], "nothing is compressed unless asked for: -H 'Accept-Encoding: gzip'"),
    (&["--http1.1", "--h1", "--http1"], "HTTP/1.1 is spoken without it; HTTP/1.0 is --http1.0"),
    (&["-h2", "--h2", "--alpn-list"], "HTTP/2 is --http2"),
    (&["--h3", "--http3-only"], "HTTP/3 is --http3"),
    (&["--max-concurrent-streams"], "requests at a time on a connection are --streams N, with --http2 or --http3"),
    (&["--warm-up-time", "--warmup"], "a warm-up is a run of its own before: -d TIME"),
    (&["--name", "--lib", "--max-workers"], "connections at a time are -c N, threads -t N"),
];

/// What to write instead, for a line that clap has refused.
pub(crate) fn hint(command: &clap::Command, line: &[OsString]) -> Option<String> {
    let words: Vec<&str> = line.iter().skip(1).map_while(|word| word.to_str()).collect();
    let (name, words) = words.split_first()?;
    if !["load", "explain", "advise"].contains(name) {
        return None;
    }
    let command = command.find_subcommand(name)?;
    let longs: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    words.iter().zip(words.iter().skip(1).map(Some).chain([None])).find_map(|(word, next)| {
        let option = word.split('=').next().unwrap_or(word);
        if option == "-d"
            && next.is_some_and(|next| !next.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.'))
        {
            return Some(
                "hint: -d is the duration, such as -d 10s; a body (curl -d) is --body TEXT|@FILE -m POST".to_owned(),
            );
        }
        if option == "-t" && next.is_some_and(|next| next.ends_with(['s', 'm', 'h'])) {
            return Some("hint: -t is the number of threads; a time is -d TIME".to_owned());
        }
        // vegeta and programs of its kind write long options with one dash.
        let bare = option.strip_prefix('-').filter(|bare| bare.len() > 2 && !bare.starts_with('-'));
        if let Some(bare) = bare.filter(|bare| longs.contains(bare)) {
            return Some(format!("hint: {option}: long options have two dashes: --{bare}"));
        }
        let is_known = |spelling: &str| command.get_arguments().any(|argument| is_spelled(argument, spelling));
        let (_, words) = HINTS.iter().find(|(spellings, _)| spellings.contains(&option))?;
        // An option of here of that name is refused for its value, and -q takes none.
        if is_known(option) && !(option == "-q" && next.is_some_and(|next| next.parse::<f64>().is_ok())) {
            return None;
        }
        Some(format!("hint: {option}: {words}"))
    })
}

fn is_spelled(argument: &clap::Arg, spelling: &str) -> bool {
    match spelling.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => {
            let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
            spelling.chars().nth(1).is_some_and(|short| shorts.contains(&short)) && spelling.len() == 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn hinted(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = crate::Cli::command();
        let refused = command.clone().try_get_matches_from(&words);
        refused.err().and_then(|_| hint(&command, &words))
    }

    #[test]
    fn spellings_of_other_tools_are_answered_with_those_of_here() {
        for (line, told) in [
            ("weir load -k http://h/", "--insecure"),
            ("weir load -q 100 http://h/", "--rate"),
            ("weir load -t 10s http://h/", "-d TIME"),
            ("weir load -duration=5s http://h/", "two dashes: --duration"),
            ("weir load -rate 50 http://h/", "two dashes: --rate"),
            ("weir load --vus 10 http://h/", "-c N"),
            ("weir load --users 10 http://h/", "-c N"),
            ("weir load -u 10 http://h/", "-c N"),
            ("weir load --spawn-rate 5 http://h/", "--ramp"),
            ("weir load --run-time 1m http://h/", "-d TIME"),
            ("weir load -s a.lua http://h/", "--sessions"),
            ("weir load -d {\"a\":1} http://h/", "--body"),
            ("weir load --data-binary @f http://h/", "--body"),
            ("weir load -L http://h/", "redirects"),
            ("weir load -o json http://h/", "--json"),
            ("weir load --h2 http://h/", "--http2"),
        ] {
            assert!(hinted(line).is_some_and(|hint| hint.contains(told)), "{line}: {:?}", hinted(line));
        }
        assert_eq!(hinted("weir load --connections x http://h/"), None);
    }

    #[test]
    fn harmless_spellings_are_understood() {
        for line in [
            "weir load --concurrency 5 --num-requests 9 http://h/",
            "weir load -z 10s --qps 50 http://h/",
            "weir load -R 50 -X POST http://h/",
            "weir load --http2-prior-knowledge --clients 3 http://h/",
            "weir load --disable-keepalive --headers A:b http://h/",
            "weir load --duration 1m --connections 3 --iterations 7 http://h/",
        ] {
            let read = crate::Cli::command().try_get_matches_from(line.split(' '));
            assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
        }
    }

    #[test]
    fn every_hint_is_for_an_option_that_is_not_here() {
        let command = crate::Cli::command();
        let load = command.find_subcommand("load").expect("the command");
        for spelling in HINTS.iter().flat_map(|(spellings, _)| spellings.iter()).filter(|spelling| **spelling != "-q") {
            assert!(!load.get_arguments().any(|argument| is_spelled(argument, spelling)), "{spelling}");
        }
    }
}
