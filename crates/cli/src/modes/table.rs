//! The commands, their options, and the modes in which some of these have no effect.

use super::mode::{Mode, Usage, any_given, given};
use clap::ArgMatches;
use std::path::PathBuf;

/// How connections are encrypted, which plain ones are not.
const TLS: &[&str] = &["cert", "key", "sni", "no_sni", "resume", "pin", "tls", "ciphers"];
/// What a client puts up with, and what is so without it: it holds where nothing is encrypted, too.
const TRUST: &[&str] = &["insecure", "ca", "no_resume"];
/// How a server is reached, but for its encryption.
const REACH: &[&str] =
    &["unix", "source", "ipv4", "ipv6", "resolve", "resolve_again", "select_address", "connect_to", "proxy"];
/// How many connections there are and what drives them.
const DRIVE: &[&str] = &[
    "connections",
    "no_keepalive",
    "pipeline",
    "http2",
    "http3",
    "streams",
    "early_data",
    "migrate_every",
    "threads",
    "cpu",
    "io",
    "timeout",
];
/// When requests are made and until when.
const WHEN: &[&str] = &["requests", "steps", "ramp", "bursts", "poisson", "speed"];
/// What is asked.
const REQUEST: &[&str] = &[
    "method",
    "headers",
    "body",
    "urls",
    "sessions",
    "think",
    "http1_0",
    "keepalive",
    "user",
    "bearer",
    "cookie",
    "cookie_jar",
    "traceparent",
    "replay",
];
const CROWD: &[&str] = &["flash_crowd", "client_requests", "client_pause", "hot_files"];
const MIX: &[&str] = &["mix", "directory_zipf"];
const FILE_SET: &[&str] = &["directories", "files", "fileset_seed"];
const SLOW: &[&str] = &["client", "limit_read", "limit_write", "latency", "patience"];
/// What goes over WebSockets, beside the message itself.
const MESSAGES: &[&str] =
    &["message_file", "message_size", "binary", "subprotocol", "answer", "fragment", "message_max"];
/// A message of a WebSocket, or of a call of gRPC.
const MESSAGE: &[&str] = &["message"];
/// Which method of gRPC is called.
const GRPC: &[&str] = &["proto", "proto_path", "descriptor"];
/// How streamed answers are looked at.
const STREAM: &[&str] = &["stream", "between_at_most", "stream_for"];
const OUTPUT: &[&str] = &["csv", "html"];
/// What only a single run has.
const OUTPUT_OF_RUN: &[&str] =
    &["interval", "hgrm", "hdr_log", "ndjson", "prometheus", "prometheus_listen", "prometheus_push"];
/// What a single load is compared with, and what a build reads of it.
const OF_GATE: &[&str] = &["junit", "markdown", "github", "baseline", "fail_on"];
/// The hosts that make a load together.
const OF_WORKERS: &[&str] = &["workers", "worker_cert", "worker_key", "worker_ca", "remote_weir", "ssh_config"];
/// A description that a load is made of.
const DESCRIBED: &[&str] = &["from", "form", "all", "only", "set", "variables"];
/// The server that is recorded.
const TARGET: &[&str] = &["port", "pid", "comm", "unit", "container", "cgroup"];
/// A recording that goes on for ever.
const OF_ALWAYS: &[&str] = &[
    "always",
    "window",
    "disk_per_hour",
    "cpu_share",
    "keep",
    "slo",
    "burn",
    "webhook",
    "tls_port",
    "prometheus_listen",
    "otlp",
];
/// Recordings on other hosts.
const OF_HOSTS: &[&str] = &["host", "remote_weir", "ssh_config", "send_run"];
/// How it is recorded.
const RECORDING: &[&str] = &[
    "probe",
    "packs",
    "allow_slow_probes",
    "keep_queries",
    "no_tls_probes",
    "watch",
    "watch_windows",
    "stacks",
    "arm",
    "no_questions",
    "trace_headers",
    "rung",
    "without_rung",
];
/// How a run is explained.
const EXPLAINING: &[&str] = &[
    "group",
    "server_side",
    "tls_port",
    "slo",
    "decisions",
    "cluster_events",
    "json",
    "html",
    "folded",
    "otlp",
    "spans",
];

const NOTHING_IS_LOADED: &str =
    "how to load, but nothing is loaded; add --load URL, or leave it out to take what comes anyway";
const RUN_IS_THERE: &str = "says how a run is made, but the run is there already; leave it out, or leave the run out";
const SHOWN_ALONE: &str = "nothing is compared here, only shown; leave it out";

/// Whether the URL is one that is not encrypted, and the only one.
fn has_scheme(url: Option<&String>, scheme: &str) -> bool {
    url.and_then(|url| url.get(..scheme.len())).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
}

fn is_websocket(matches: &ArgMatches) -> bool {
    let url = matches.try_get_one::<String>("url").ok().flatten();
    has_scheme(url, "ws://") || has_scheme(url, "wss://")
}

fn is_grpc(matches: &ArgMatches) -> bool {
    let url = matches.try_get_one::<String>("url").ok().flatten();
    has_scheme(url, "grpc://") || has_scheme(url, "grpcs://")
}

fn is_no_websocket(matches: &ArgMatches) -> bool {
    !is_websocket(matches)
}

fn is_no_grpc(matches: &ArgMatches) -> bool {
    !is_grpc(matches)
}

fn has_no_messages(matches: &ArgMatches) -> bool {
    !is_websocket(matches) && !is_grpc(matches)
}

fn is_plain(matches: &ArgMatches) -> bool {
    let url = matches.try_get_one::<String>("url").ok().flatten();
    let plain = ["http://", "ws://", "grpc://"].into_iter().any(|scheme| has_scheme(url, scheme));
    plain && !any_given(matches, &["urls", "sessions", "make_fileset", "recorded"])
}

fn is_closed_loop(matches: &ArgMatches) -> bool {
    let open =
        ["rate", "steps", "ramp", "bursts", "replay", "flash_crowd", "find_max", "compare", "make_fileset", "recorded"];
    given(matches, "url") && !any_given(matches, &open)
}

fn has_nothing_random(matches: &ArgMatches) -> bool {
    let random = [
        "poisson",
        "traceparent",
        "compare",
        "urls",
        "sessions",
        "patience",
        "mix",
        "find_max",
        "make_fileset",
        "recorded",
    ];
    given(matches, "url") && !any_given(matches, &random)
}

fn has_run(matches: &ArgMatches) -> bool {
    given(matches, "recorded")
}

/// Whether the latest run is meant, as `weir advise` does where nothing is named.
fn has_any_run(matches: &ArgMatches) -> bool {
    has_run(matches) || !given(matches, "url") && !any_given(matches, TARGET)
}

fn watches(matches: &ArgMatches) -> bool {
    !given(matches, "recorded") && !given(matches, "url") && any_given(matches, TARGET)
}

fn watches_a_generator(matches: &ArgMatches) -> bool {
    given(matches, "generator")
}

fn makes_a_run_without_stacks(matches: &ArgMatches) -> bool {
    !given(matches, "recorded") && !given(matches, "stacks") && (given(matches, "url") || any_given(matches, TARGET))
}

const NO_WEBSOCKET_WORDS: &str = "an option of messages needs the URL of a WebSocket, ws:// or wss://; leave it out";
const NO_GRPC_WORDS: &str = "it names a method of gRPC, and needs a grpc:// or grpcs:// URL; leave it out";
const NO_MESSAGES_WORDS: &str =
    "a message needs the URL of a WebSocket (ws://, wss://) or of a method of gRPC (grpc://, grpcs://); leave it out";
const PLAIN_WORDS: &str = "an option of TLS needs an https:// URL; leave it out";
const CLOSED_WORDS: &str =
    "a closed loop has no arrivals of its own; add --rate, --steps, --ramp, --bursts or --replay, or leave it out";
const POISSON_WORDS: &str =
    "a closed loop has no arrivals to leave to chance; add --rate, --steps or --ramp, or leave it out";
const RANDOM_WORDS: &str =
    "nothing is drawn at random here; add --poisson, --urls, --sessions, --mix or --patience, or leave it out";

const OF_LOAD: [Mode; 14] = [
    Mode {
        example: "load --from f",
        is_on: |matches| given(matches, "from"),
        idle: &[
            &["make_fileset", "run", "verbose", "find_max", "ok", "from_rate", "compare", "seed", "queue", "check"],
            &["no_keepalive", "pipeline", "http2", "http3", "streams", "early_data", "migrate_every", "threads", "io"],
            &["timeout"],
            &["steps", "ramp", "bursts", "poisson", "speed"],
            &["no_resume"],
            OF_GATE,
            OUTPUT,
            OUTPUT_OF_RUN,
            REQUEST,
            TLS,
            REACH,
            SLOW,
            STREAM,
            MESSAGE,
            MESSAGES,
            GRPC,
            MIX,
            CROWD,
            FILE_SET,
            OF_WORKERS,
        ],
        words: "the scenario of --from says that; leave it out, or write the scenario by weir scenario --from FILE --out \
                FILE.toml and change it",
    },
    Mode {
        example: "load --make-fileset surge d",
        is_on: |matches| given(matches, "make_fileset"),
        idle: &[
            &["url", "run", "verbose", "duration", "seed", "queue", "find_max", "compare", "slo", "ok", "from_rate"],
            &["check"],
            OF_GATE,
            DRIVE,
            WHEN,
            REQUEST,
            TLS,
            TRUST,
            REACH,
            SLOW,
            STREAM,
            OUTPUT,
            OUTPUT_OF_RUN,
            MIX,
            CROWD,
            OF_WORKERS,
        ],
        words: "says how to load, and --make-fileset loads nothing; leave it out",
    },
    Mode {
        example: "load --find-max http://h/",
        is_on: |matches| given(matches, "find_max"),
        idle: &[
            &["rate", "requests", "steps", "ramp", "bursts", "speed", "poisson", "pipeline"],
            CROWD,
            &["run", "verbose"],
            OUTPUT_OF_RUN,
            OF_GATE,
            OF_WORKERS,
        ],
        words: "a search (--find-max) sets its rates and trials itself and shows no single run; leave it out",
    },
    Mode {
        example: "load --compare a b http://h/",
        is_on: |matches| given(matches, "compare"),
        idle: &[
            &["run", "verbose", "quiet", "rate", "queue", "find_max", "from_rate", "slo", "ok", "csv"],
            &["no_keepalive", "pipeline", "http2", "http3", "streams", "early_data", "migrate_every"],
            &["threads", "cpu", "io", "timeout", "check"],
            OF_GATE,
            WHEN,
            REQUEST,
            TLS,
            TRUST,
            REACH,
            SLOW,
            STREAM,
            OUTPUT_OF_RUN,
            MIX,
            CROWD,
            FILE_SET,
            OF_WORKERS,
        ],
        words: "a comparison (--compare) has its own load; leave it out, or write it into weir compare --load",
    },
    Mode {
        example: "load ws://h/",
        is_on: is_websocket,
        idle: &[
            &["method", "body", "urls", "sessions", "think", "http1_0", "keepalive", "cookie_jar", "traceparent"],
            &["replay", "speed", "find_max", "from_rate", "compare", "run", "check", "ok"],
            &["no_keepalive", "pipeline", "io"],
            STREAM,
            SLOW,
            MIX,
            CROWD,
            FILE_SET,
        ],
        words: "messages over WebSockets (ws://) have no such thing here; leave it out",
    },
    Mode {
        example: "load --workers local:2 http://h/",
        is_on: |matches| given(matches, "workers"),
        idle: &[&["cpu", "source", "unix"], STREAM, MESSAGE, MESSAGES, GRPC, CROWD],
        words: "it is of one generator on one host, and workers (--workers) share what can be split; leave it out",
    },
    Mode {
        example: "load grpc://h/s/m",
        is_on: is_grpc,
        idle: &[
            &["method", "body", "urls", "sessions", "think", "http1_0", "keepalive", "cookie_jar"],
            &["replay", "speed", "find_max", "from_rate", "compare", "run", "check"],
            &["pipeline", "http2", "http3", "early_data", "migrate_every", "io"],
            STREAM,
            SLOW,
            MIX,
            CROWD,
            FILE_SET,
            OF_WORKERS,
        ],
        words: "calls of gRPC (grpc://) have no such thing here, or say it themselves; leave it out",
    },
    Mode { example: "load http://h/", is_on: is_no_websocket, idle: &[MESSAGES], words: NO_WEBSOCKET_WORDS },
    Mode { example: "load http://h/", is_on: has_no_messages, idle: &[MESSAGE], words: NO_MESSAGES_WORDS },
    Mode { example: "load http://h/", is_on: is_no_grpc, idle: &[GRPC], words: NO_GRPC_WORDS },
    Mode { example: "load http://h/", is_on: is_plain, idle: &[TLS], words: PLAIN_WORDS },
    Mode { example: "load http://h/", is_on: is_closed_loop, idle: &[&["queue"]], words: CLOSED_WORDS },
    Mode { example: "load http://h/", is_on: is_closed_loop, idle: &[&["poisson"]], words: POISSON_WORDS },
    Mode { example: "load http://h/", is_on: has_nothing_random, idle: &[&["seed"]], words: RANDOM_WORDS },
];

const MAKING: &[&[&str]] = &[
    &["url", "run", "command", "rate", "duration", "seed", "queue"],
    TARGET,
    RECORDING,
    DRIVE,
    WHEN,
    REQUEST,
    TLS,
    TRUST,
    REACH,
    SLOW,
    STREAM,
    MIX,
    CROWD,
    FILE_SET,
];
const LOADING: &[&[&str]] = &[
    &["command", "rate", "seed", "queue"],
    DRIVE,
    WHEN,
    REQUEST,
    TLS,
    TRUST,
    REACH,
    SLOW,
    STREAM,
    MIX,
    CROWD,
    FILE_SET,
];

const EXPLAIN_URL: &str = "explain --load http://h/ --port 80";
const OF_GENERATOR: &[&str] = &["generator"];
const ONLY_A_GENERATOR: &str = "only the generator's sockets are watched: no server is recorded, and there is no run; leave it out, or --generator";
/// What does nothing where a generator is watched: all but `--json` and `--duration`.
const BESIDE_A_GENERATOR: &[&[&str]] = &[
    &["recorded", "url", "run", "command", "rate", "seed", "queue"],
    &["group", "server_side", "tls_port", "slo", "decisions", "cluster_events", "html", "folded", "otlp", "spans"],
    TARGET,
    RECORDING,
    DRIVE,
    WHEN,
    REQUEST,
    TLS,
    TRUST,
    REACH,
    SLOW,
    MIX,
    CROWD,
    FILE_SET,
];
const WITHOUT_STACKS: &str = "no stacks are sampled, so there are none to write; add --stacks";

/// The commands.
pub(super) const COMMANDS: &[Usage] = &[
    Usage {
        path: &["explain"],
        options: &[
            OF_GENERATOR,
            &["recorded", "url", "run", "command", "rate", "duration", "seed", "queue"],
            EXPLAINING,
            TARGET,
            RECORDING,
            DRIVE,
            WHEN,
            REQUEST,
            TLS,
            TRUST,
            REACH,
            SLOW,
            STREAM,
            MIX,
            CROWD,
            FILE_SET,
        ],
        modes: &[
            Mode {
                example: "explain --generator 1",
                is_on: watches_a_generator,
                idle: BESIDE_A_GENERATOR,
                words: ONLY_A_GENERATOR,
            },
            Mode { example: "explain r", is_on: has_run, idle: MAKING, words: RUN_IS_THERE },
            Mode { example: "explain --port 80", is_on: watches, idle: LOADING, words: NOTHING_IS_LOADED },
            Mode {
                example: "explain --port 80",
                is_on: watches,
                idle: &[&["server_side"]],
                words: "nothing is loaded, so it is told from the server's side anyway; leave it out",
            },
            Mode {
                example: EXPLAIN_URL,
                is_on: makes_a_run_without_stacks,
                idle: &[&["folded"]],
                words: WITHOUT_STACKS,
            },
            Mode { example: EXPLAIN_URL, is_on: is_plain, idle: &[TLS], words: PLAIN_WORDS },
            Mode { example: EXPLAIN_URL, is_on: is_closed_loop, idle: &[&["queue"]], words: CLOSED_WORDS },
            Mode { example: EXPLAIN_URL, is_on: is_closed_loop, idle: &[&["poisson"]], words: POISSON_WORDS },
            Mode { example: EXPLAIN_URL, is_on: has_nothing_random, idle: &[&["seed"]], words: RANDOM_WORDS },
        ],
    },
    Usage {
        path: &["advise"],
        options: &[
            OF_GENERATOR,
            &["recorded", "url", "run", "command", "rate", "duration", "seed", "queue"],
            &["trial", "at", "blocks", "block_seconds", "smallest_effect"],
            EXPLAINING,
            TARGET,
            RECORDING,
            DRIVE,
            WHEN,
            REQUEST,
            TLS,
            TRUST,
            REACH,
            SLOW,
            STREAM,
            MIX,
            CROWD,
            FILE_SET,
        ],
        modes: &[
            Mode {
                example: "advise",
                is_on: |_| true,
                idle: &[&["html", "group", "slo", "generator"]],
                words: "advice has no classes, objectives or page, and none of generators; weir explain takes it",
            },
            Mode {
                example: "advise",
                is_on: has_any_run,
                // With a run, the target says which servers' settings are looked at.
                idle: &[
                    &["run", "command", "rate", "duration", "seed", "queue"],
                    RECORDING,
                    DRIVE,
                    WHEN,
                    REQUEST,
                    TLS,
                    TRUST,
                    REACH,
                    SLOW,
                    STREAM,
                    MIX,
                    CROWD,
                    FILE_SET,
                ],
                words: RUN_IS_THERE,
            },
            Mode { example: "advise --port 80", is_on: watches, idle: LOADING, words: NOTHING_IS_LOADED },
            Mode {
                example: "advise --load http://h/ --port 80",
                is_on: makes_a_run_without_stacks,
                idle: &[&["folded"]],
                words: WITHOUT_STACKS,
            },
            Mode { example: "advise --load http://h/ --port 80", is_on: is_plain, idle: &[TLS], words: PLAIN_WORDS },
        ],
    },
    Usage {
        path: &["load"],
        options: &[
            &["url", "make_fileset", "run", "json", "quiet", "verbose", "find_max", "slo", "ok", "from_rate"],
            &["compare", "rate", "duration", "seed", "queue", "check"],
            OF_GATE,
            OUTPUT,
            OUTPUT_OF_RUN,
            DRIVE,
            WHEN,
            REQUEST,
            TLS,
            TRUST,
            REACH,
            SLOW,
            STREAM,
            MESSAGE,
            MESSAGES,
            GRPC,
            MIX,
            CROWD,
            FILE_SET,
            OF_WORKERS,
            DESCRIBED,
        ],
        modes: &OF_LOAD,
    },
    Usage {
        path: &["worker"],
        options: &[&["listen", "stdio", "cert", "key", "ca", "most_rate", "most_connections", "allow_target"]],
        modes: &[],
    },
    Usage {
        path: &["plan"],
        options: &[
            &["logs", "slo", "nodes", "policy", "growth", "busiest", "service", "bandwidth", "service_of", "measured"],
            &["variation", "workers", "shared", "queue", "dispatch", "within_second", "seeds", "seed"],
            &["placement", "html", "json"],
        ],
        modes: &[Mode {
            example: "plan --service 1s --nodes 1 f",
            is_on: is_of_one_node,
            idle: &[&["dispatch"]],
            words: "of one node there is nothing to choose; give more --nodes, or leave it out",
        }],
    },
    Usage {
        path: &["predict"],
        options: &[&["run", "at", "workers", "cores", "faster", "check", "check_seconds", "jmt", "seed", "json"]],
        modes: &[],
    },
    Usage { path: &["what-if"], options: &[&["what", "faster", "run", "seed", "json"]], modes: &[] },
    Usage {
        path: &["record"],
        options: &[
            &["run", "duration", "keep_addresses", "disk", "decisions", "command", "kubernetes"],
            OF_ALWAYS,
            TARGET,
            RECORDING,
            OF_HOSTS,
        ],
        modes: &[
            Mode {
                example: "record --always --port 80",
                is_on: |matches| given(matches, "always"),
                idle: &[
                    &["duration", "command", "decisions", "disk"],
                    &["probe", "packs", "allow_slow_probes", "keep_queries", "no_tls_probes"],
                    &["watch", "watch_windows", "stacks", "arm", "no_questions", "trace_headers"],
                    OF_HOSTS,
                ],
                words: "it is for recordings with an end; --always records scheduler and sockets alone, on this \
                        host, within --disk-per-hour",
            },
            Mode {
                example: "record --host h --port 80",
                is_on: |matches| given(matches, "host"),
                idle: &[&["command", "decisions", "send_run"]],
                words: "it is for a server on this host; with --host the servers run already on the hosts that are \
                        named",
            },
            Mode {
                example: "record --send-run --port 80",
                is_on: |matches| given(matches, "send_run"),
                idle: &[&["run", "duration", "command", "decisions", "host", "remote_weir", "ssh_config"]],
                words: "where the run goes and when it ends is said by the host that asks for it",
            },
        ],
    },
    Usage {
        path: &["console"],
        options: &[&["directories", "port", "admin", "token", "cluster", "arm", "decisions"]],
        modes: &[Mode {
            example: "console --admin unix:s",
            is_on: is_admin_socket,
            idle: &[&["token"]],
            words: "only a server that is asked over TCP wants a token; leave it out",
        }],
    },
    Usage {
        path: &["top"],
        options: &[&["interval", "count", "once", "json", "sort", "tls_port", "rung", "without_rung"]],
        modes: &[],
    },
    Usage { path: &["doctor"], options: &[&["jobs", "json"]], modes: &[] },
    Usage { path: &["view"], options: &[&["run", "decisions", "objects", "port"]], modes: &[] },
    Usage {
        path: &["sql"],
        options: &[&["run", "question", "others", "objects", "saved", "list", "tables", "json", "csv"]],
        modes: &[],
    },
    Usage {
        path: &["export"],
        options: &[&["run", "others", "csv", "tables", "objects", "perfetto", "chrome", "ctf", "pprof", "parquet"]],
        modes: &[],
    },
    Usage { path: &["objects"], options: &[&["run", "objects", "only", "table", "json"]], modes: &[] },
    Usage {
        path: &["serve"],
        options: &[
            &["root", "example_config", "listen", "take_over", "tls_cert", "tls_key", "listen_clear", "http3"],
            &["listen_quic", "loops", "reserve_loops", "io", "cache_mib", "access_log", "log_format", "log_queries"],
            &["log_addresses", "arm", "policy", "tick", "node", "forecast", "decisions", "environment", "webhook"],
            &["admin", "admin_token", "admin_may", "history", "activity"],
            &["user", "no_sandbox", "no_listing", "no_compression", "no_includes"],
            &["media_type", "dot_files", "symlinks", "connections_max", "connections_per_address", "idle_timeout"],
            &["stop_timeout", "releases", "php", "cgi", "cluster", "keeper"],
        ],
        // What a file of configuration says or lacks is judged where that file is read.
        modes: &[Mode {
            example: "serve",
            is_on: serves_without_rules,
            idle: &[&["tick", "node", "forecast", "decisions", "environment", "webhook"]],
            words: "it is for rules; add --policy FILE, or leave it out",
        }],
    },
    Usage { path: &["check"], options: &[&["files", "json", "format", "cluster"]], modes: &[] },
    Usage {
        path: &["import"],
        options: &[
            &["file", "from", "out", "force", "root", "php", "run", "json"],
            &["request_begin", "request_end", "server", "lines", "line_forms"],
        ],
        modes: &[Mode {
            example: "import nginx.conf --out -",
            is_on: |matches| matches.get_one::<PathBuf>("out").is_some_and(|out| out.as_os_str() == "-"),
            idle: &[&["force"]],
            words: "standard output overwrites no file; leave it out",
        }],
    },
    Usage {
        path: &["script-server"],
        options: &[&["file", "check", "no_sandbox"]],
        modes: &[Mode {
            example: "script-server --check scripts.toml",
            is_on: |matches| given(matches, "check"),
            idle: &[&["no_sandbox"]],
            words: "nothing is served here, only looked at; leave it out",
        }],
    },
    Usage {
        path: &["cluster", "init"],
        options: &[&["folder", "name", "etcd_member", "etcd", "no_start", "certificates_for"]],
        modes: &[],
    },
    Usage { path: &["cluster", "remove"], options: &[&["folder", "name"]], modes: &[] },
    Usage { path: &["cluster", "renew"], options: &[&["folder", "authority"]], modes: &[] },
    Usage { path: &["cluster", "etcd"], options: &[&["folder", "user", "end"]], modes: &[] },
    Usage { path: &["cluster", "token"], options: &[&["folder", "director", "valid"]], modes: &[] },
    Usage { path: &["cluster", "admit"], options: &[&["folder", "listen", "count"]], modes: &[] },
    Usage { path: &["cluster", "join"], options: &[&["folder", "name", "at", "etcd_member", "no_start"]], modes: &[] },
    Usage { path: &["cluster", "director"], options: &[&["folder", "interface", "metrics"]], modes: &[] },
    Usage {
        path: &["cluster", "front"],
        options: &[&["folder", "proxy", "redirect", "dns", "dns_name", "tls_cert", "tls_key"]],
        modes: &[],
    },
    Usage { path: &["cluster", "move"], options: &[&["folder", "client", "to", "service"]], modes: &[] },
    Usage { path: &["cluster", "sessions"], options: &[&["folder", "json"]], modes: &[] },
    Usage { path: &["cluster", "drain"], options: &[&["folder", "to", "within", "undo"]], modes: &[] },
    Usage { path: &["cluster", "status"], options: &[&["folder", "json"]], modes: &[] },
    Usage { path: &["cluster", "activate"], options: &[&["folder", "json"]], modes: &[] },
    Usage { path: &["cluster", "events"], options: &[&["folder", "follow", "since", "json"]], modes: &[] },
    Usage {
        path: &["cluster", "publish"],
        options: &[&["folder", "content", "site", "expect", "wait", "json"]],
        modes: &[],
    },
    Usage { path: &["cluster", "versions"], options: &[&["folder", "site", "json"]], modes: &[] },
    Usage { path: &["cluster", "rollback"], options: &[&["folder", "to", "site"]], modes: &[] },
    Usage { path: &["cluster", "rules"], options: &[&["folder", "file", "expect", "json"]], modes: &[] },
    Usage { path: &["cluster", "atoms"], options: &[&["folder", "most", "json"]], modes: &[] },
    Usage { path: &["cluster", "nodes"], options: &[&["folder", "json"]], modes: &[] },
    Usage {
        path: &["cluster", "top"],
        options: &[&["folder", "every", "once", "json"]],
        modes: &[Mode {
            example: "cluster top d --once",
            is_on: |matches| any_given(matches, &["once", "json"]),
            idle: &[&["every"]],
            words: "the tables are shown once (--once, --json); leave it out",
        }],
    },
    Usage { path: &["keeper"], options: &[&["cluster", "service", "interface", "socket", "user", "mark"]], modes: &[] },
    Usage { path: &["route"], options: &[&["file", "url", "header", "method", "from", "at", "json"]], modes: &[] },
    Usage {
        path: &["watch"],
        options: &[
            &["filter", "admin", "token", "show", "budget", "requests", "json", "tls_port"],
            TARGET,
            &["rung", "without_rung"],
        ],
        modes: &[
            Mode {
                example: "watch",
                is_on: |matches| !any_given(matches, TARGET),
                idle: &[&["tls_port", "rung", "without_rung"]],
                words: "it is for servers of any kind (--port, --pid and the like); weir serve tells by itself",
            },
            Mode {
                example: "watch --port 80",
                is_on: |matches| any_given(matches, TARGET),
                idle: &[&["admin", "token", "show", "budget"]],
                words: "it is for weir serve (--admin); of other servers sockets tell what they tell",
            },
            Mode {
                example: "watch --admin unix:s",
                is_on: is_admin_socket,
                idle: &[&["token"]],
                words: "only a server that is asked over TCP wants a token; leave it out",
            },
        ],
    },
    Usage {
        path: &["env"],
        options: &[&["source", "token", "follow", "every", "decisions", "json"]],
        modes: &[
            Mode {
                example: "env unix:s",
                is_on: |matches| !is_address(matches),
                idle: &[&["token"]],
                words: "only a server that is asked over TCP wants a token; leave it out",
            },
            Mode {
                example: "env --json unix:s",
                is_on: |matches| given(matches, "json") && (is_address(matches) || is_socket(matches)),
                idle: &[&["decisions"]],
                words: "a server's JSON has all that it tells; leave it out",
            },
        ],
    },
    Usage {
        path: &["activity"],
        options: &[&["source", "token", "hours", "mark", "json"]],
        modes: &[
            Mode {
                example: "activity unix:s",
                is_on: |matches| !is_address(matches),
                idle: &[&["token"]],
                words: "only a server that is asked over TCP wants a token; leave it out",
            },
            Mode {
                example: "activity f",
                is_on: |matches| !is_address(matches) && !is_socket(matches),
                idle: &[&["mark"]],
                words: "a mark is set by a running server; give its --admin address in place of the file",
            },
            Mode {
                example: "activity --mark m unix:s",
                is_on: |matches| given(matches, "mark"),
                idle: &[&["hours", "json"]],
                words: "a mark is set here, and nothing shown; leave it out",
            },
        ],
    },
    Usage {
        path: &["requests"],
        options: &[&["source", "filter", "token", "limit", "json"]],
        modes: &[Mode {
            example: "requests unix:s",
            is_on: |matches| !is_address(matches),
            idle: &[&["token"]],
            words: "only a server that is asked over TCP wants a token; leave it out",
        }],
    },
    Usage {
        path: &["connections"],
        options: &[&["source", "token", "client", "stop", "stop_client", "json"]],
        modes: &[
            Mode {
                example: "connections unix:s",
                is_on: |matches| !is_address(matches),
                idle: &[&["token"]],
                words: "only a server that is asked over TCP wants a token; leave it out",
            },
            Mode {
                example: "connections --stop 0-1 unix:s",
                is_on: |matches| any_given(matches, &["stop", "stop_client"]),
                idle: &[&["client", "json"]],
                words: "something is ended here, and nothing shown; leave it out",
            },
        ],
    },
    Usage {
        path: &["replay"],
        options: &[&["policy", "readings", "decisions", "here", "forecast", "all", "json"]],
        modes: &[],
    },
    Usage { path: &["serve-certificates"], options: &[], modes: &[] },
    Usage { path: &["serve-node"], options: &[], modes: &[] },
    Usage { path: &["serve-php"], options: &[], modes: &[] },
    Usage { path: &["serve-scripts"], options: &[], modes: &[] },
    Usage { path: &["serve-isapi"], options: &[], modes: &[] },
    Usage { path: &["serve-persister"], options: &[&["decisions", "environment", "webhook"]], modes: &[] },
    Usage {
        path: &["compare"],
        options: &[
            &["plan", "a", "b", "same", "url", "url_a", "url_b", "path", "tls", "site", "connections"],
            &["server_cpu", "load_cpu", "beside_cpu", "load", "restart", "beside_a", "beside_b", "generators"],
            &["server", "start_timeout", "load_timeout", "smallest_effect", "no_cgroup"],
            EXPERIMENT,
            JUDGED,
            &["resume", "results_of", "subjects", "show_subject"],
        ],
        modes: &[
            Mode {
                example: "compare --subjects",
                is_on: |matches| any_given(matches, &["subjects", "show_subject"]),
                idle: &[EXPERIMENT, JUDGED, OF_TWO],
                words: SHOWN_ALONE,
            },
            Mode {
                example: "compare --show-subject nginx",
                is_on: |matches| given(matches, "show_subject"),
                idle: &[EXPERIMENT, JUDGED, OF_TWO],
                words: SHOWN_ALONE,
            },
            Mode {
                example: "compare --results-of d",
                is_on: |matches| given(matches, "results_of"),
                idle: &[EXPERIMENT, OF_TWO],
                words: "the experiment has ended, and nothing is measured; leave it out, or go on by --resume",
            },
            Mode {
                example: "compare plan.toml",
                is_on: |matches| given(matches, "plan"),
                idle: &[OF_TWO],
                words: "a plan says that itself, by keys such as load, site, restart and [cpus]; write it there, or leave it out",
            },
            Mode {
                example: "compare --resume d",
                is_on: |matches| given(matches, "resume"),
                idle: &[OF_TWO],
                words: "the experiment goes on as it was begun; leave it out, or begin another one",
            },
        ],
    },
    Usage {
        path: &["scenario"],
        options: &[
            &["file", "base", "check", "slo", "junit", "insecure", "ca", "resolve", "connect_to", "cpu", "json"],
            &["quiet", "out", "force", "users", "duration", "rate"],
            DESCRIBED,
        ],
        modes: &[
            Mode {
                example: "scenario f.toml --check",
                is_on: |matches| matches.get_flag("check"),
                idle: &[&["slo", "junit", "insecure", "ca", "resolve", "connect_to", "cpu", "json", "quiet"]],
                words: "the file is only read (--check), and nothing is loaded; leave it out",
            },
            Mode {
                example: "scenario --from f",
                is_on: |matches| given(matches, "from"),
                idle: &[&["check", "slo", "junit", "insecure", "ca", "resolve", "connect_to", "cpu", "json", "quiet"]],
                words: "a scenario is only written (--from), and nothing is loaded; leave it out, or play the scenario \
                        that was written",
            },
        ],
    },
    Usage { path: &["ab"], options: &[&["words"]], modes: &[] },
    Usage { path: &["http_load"], options: &[&["words"]], modes: &[] },
    Usage { path: &["httperf"], options: &[&["words"]], modes: &[] },
    Usage { path: &["wrk"], options: &[&["words"]], modes: &[] },
    Usage { path: &["k6"], options: &[&["words"]], modes: &[] },
    Usage {
        path: &["webtest"],
        options: &[
            &["files", "format", "convert", "to", "json", "junit"],
            &["base", "sizes", "pauses", "all_hosts", "secret", "ca", "insecure"],
        ],
        modes: &[Mode {
            example: "webtest --convert f --to webtest",
            is_on: |matches| given(matches, "convert"),
            idle: &[&[
                "files",
                "format",
                "json",
                "junit",
                "base",
                "sizes",
                "pauses",
                "all_hosts",
                "secret",
                "ca",
                "insecure",
            ]],
            words: "a recording is only written in another form (--convert), and nothing is asked; leave it out",
        }],
    },
    Usage {
        path: &["record-session"],
        options: &[
            &["to", "listen", "out", "session_cookie", "keep_secrets", "requests_max", "memory_mib", "body_kib"],
            &["ca", "insecure"],
        ],
        modes: &[Mode {
            example: "record-session --to http://h/ --out f.har",
            is_on: |matches| matches.get_one::<url::Url>("to").is_some_and(|url| url.scheme() == "http"),
            idle: &[&["ca", "insecure"]],
            words: "the server shows no certificate over http://; leave it out, or write https://",
        }],
    },
    Usage { path: &["arm", "list"], options: &[&["directory", "json"]], modes: &[] },
    Usage {
        path: &["arm", "top"],
        options: &[&["directory", "by", "sort", "seconds", "every", "once", "json"]],
        modes: &[Mode {
            example: "arm top --once",
            is_on: |matches| any_given(matches, &["once", "json"]),
            idle: &[&["every"]],
            words: "the table is shown once (--once, --json); leave it out",
        }],
    },
    Usage {
        path: &["arm", "tail"],
        options: &[&[
            "directory",
            "application",
            "transaction",
            "user",
            "at_least",
            "failed",
            "number",
            "duration",
            "json",
        ]],
        modes: &[],
    },
    Usage { path: &["arm", "show"], options: &[&["id", "directory", "json"]], modes: &[] },
    Usage {
        path: &["arm", "export"],
        options: &[&["state", "since", "application", "transaction", "user", "whole", "most", "format"]],
        modes: &[Mode {
            example: "arm export --whole",
            is_on: |matches| given(matches, "whole"),
            idle: &[&["format"]],
            words: "whole transactions are lines of JSON; leave it out",
        }],
    },
    Usage { path: &["arm", "off"], options: &[SWITCHED], modes: &[] },
    Usage { path: &["arm", "on"], options: &[SWITCHED, &["forget"]], modes: &[] },
    Usage { path: &["arm", "sample"], options: &[SWITCHED, &["share"]], modes: &[] },
    Usage { path: &["arm", "overhead"], options: &[&["directory", "seconds", "json", "pairs"]], modes: &[] },
    Usage {
        path: &["agent"],
        options: &[
            &["directory", "state", "no_state", "slow", "keep", "disk", "capture"],
            &["otlp", "otlp_header", "prometheus", "forward", "accept", "peer_key"],
        ],
        modes: &[
            Mode {
                example: "agent",
                is_on: |matches| !any_given(matches, &["forward", "accept"]),
                idle: &[&["peer_key"]],
                words: "only agents of other hosts are shown it; add --forward or --accept, or leave it out",
            },
            Mode {
                example: "agent --no-state",
                is_on: |matches| given(matches, "no_state"),
                idle: &[&["state", "keep", "disk"]],
                words: "nothing is kept (--no-state); leave it out",
            },
        ],
    },
    Usage { path: &["mcp"], options: &[&["runs", "hosts", "methods", "duration_max", "requests_max"]], modes: &[] },
    Usage { path: &["schema"], options: &[&["name"]], modes: &[] },
    Usage { path: &["man"], options: &[&["directory"]], modes: &[] },
    Usage { path: &["completions"], options: &[&["shell"]], modes: &[] },
];

/// How an experiment is made.
const EXPERIMENT: &[&str] =
    &["block_seconds", "blocks", "aa", "warm_up", "until", "budget", "starts", "results", "seed", "parts", "no_parts"];
/// What two servers are and how they are asked, where no plan says it.
const OF_TWO: &[&str] = &[
    "b",
    "same",
    "url",
    "url_a",
    "url_b",
    "path",
    "tls",
    "site",
    "connections",
    "server_cpu",
    "load_cpu",
    "beside_cpu",
    "load",
    "restart",
    "beside_a",
    "beside_b",
    "generators",
    "server",
    "start_timeout",
    "load_timeout",
    "smallest_effect",
    "no_cgroup",
];
/// How its outcome is shown and judged.
const JUDGED: &[&str] =
    &["history", "label", "accept_shift", "json", "markdown", "html", "details", "junit", "fail_if_worse"];
/// The transactions that a switch is for.
const SWITCHED: &[&str] = &["name", "application", "transaction", "directory", "json"];

fn is_of_one_node(matches: &ArgMatches) -> bool {
    matches.get_one::<u32>("nodes") == Some(&1) && !given(matches, "slo")
}

/// Whether a directory is served: then no configuration names a policy.
fn serves_without_rules(matches: &ArgMatches) -> bool {
    let is_file = |root: &PathBuf| root.metadata().is_ok_and(|metadata| !metadata.is_dir());
    !given(matches, "policy") && !matches.get_one::<PathBuf>("root").is_some_and(is_file)
}

fn is_address(matches: &ArgMatches) -> bool {
    matches.get_one::<String>("source").is_some_and(|source| source.parse::<std::net::SocketAddr>().is_ok())
}

/// Whether `--admin` names no address of TCP.
fn is_admin_socket(matches: &ArgMatches) -> bool {
    let is_socket = |admin: &String| admin.parse::<std::net::SocketAddr>().is_err();
    matches.get_many::<String>("admin").is_some_and(|mut all| all.all(is_socket))
}

fn is_socket(matches: &ArgMatches) -> bool {
    matches.get_one::<String>("source").is_some_and(|source| source.starts_with("unix:"))
}
