//! Each rule on an explanation and a configuration made for it, and on the same with one thing as it should be.

use super::{Case, beyond_settings, findings};
use crate::configuration::{Configuration, Syntax, apache, assignments, ini, nginx};
use crate::finding::Finding;
use crate::observed::Observed;
use crate::recorded::Recorded;
use crate::servers::{Ini, Kind, Process, Server, Servers};
use serde_json::{Value, json};

fn server(kind: Kind, text: &str) -> Server {
    let (syntax, entries) = match kind {
        Kind::Apache => (Syntax::Apache, apache::parse(text, 0)),
        Kind::Nginx => (Syntax::Nginx, nginx::parse(text, 0)),
        Kind::Postgres => (Syntax::Assignments, assignments::parse(text, 0)),
        Kind::PhpFpm | Kind::Mariadb => (Syntax::Ini, ini::parse(text, 0)),
    };
    let entries = entries.expect("a configuration");
    let configuration =
        Configuration { files: vec!["/etc/server.conf".into()], entries, ..Configuration::empty(syntax) };
    let name = ["apache2", "nginx", "php-fpm8.2", "postgres", "mariadbd"][kind as usize].to_owned();
    let process = Process { name, ..Process::default() };
    Server { kind, process, children: Vec::new(), configuration, ini: Ini::default(), root: "/".into() }
}

/// An explanation of 1000 responses a second of 10 ms each, with these parts (ms) and who or what is blamed for them.
fn observed(parts: &[(&str, f64, &str)], more: Value) -> Observed {
    let mut whole = json!({
        "requests": 1000, "rate_per_s": 1000.0, "bytes": 1_000_000, "joined_fraction": 1.0,
        "response_ns": {"mean": 10e6}, "slow_response_ns": 50e6,
    });
    for (part, ms, _) in parts {
        whole["parts_ns"][part] = json!(ms * 1e6);
        whole["slow_parts_ns"][part] = json!(ms * 5e6);
    }
    let blamed = parts.iter().filter(|(_, _, who)| !who.is_empty());
    whole["causes"] =
        blamed.map(|(part, ms, who)| json!({"part": part, "mean_ns": ms * 1e6, "who": [[who, 1.0]]})).collect();
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(name, value)| whole[name] = value);
    }
    serde_json::from_value(whole).expect("an explanation")
}

fn advised(observed: &Observed, url: &str, servers: Vec<Server>) -> Vec<Finding> {
    let recorded = Recorded { url: Some(url.to_owned()), cpus: 4, here: true, ..Recorded::default() };
    let servers = Servers { list: servers, problems: Vec::new() };
    findings(&Case { observed, recorded: &recorded, servers: &servers })
}

/// The rule is found with a wrong configuration, named by its line, and not with the right one.
fn told_apart(rule: &str, observed: &Observed, kind: Kind, wrong: &str, right: &str, line: Option<usize>) -> Finding {
    let url = "https://127.0.0.1/";
    let found = advised(observed, url, vec![server(kind, wrong)]);
    let found =
        found.into_iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("no {rule} with {wrong:?}"));
    assert_eq!(found.settings[0].line, line, "{:?}", found.settings);
    assert_eq!(found.settings[0].file.as_deref(), Some("/etc/server.conf".as_ref()));
    let share = found.effect.share;
    assert!(share.low_ns <= share.likely_ns && share.likely_ns <= share.high_ns && share.high_ns <= 1.0);
    let others = advised(observed, url, vec![server(kind, right)]);
    assert!(others.iter().all(|finding| finding.rule != rule), "{rule} with {right:?}");
    found
}

#[test]
fn tls_sessions() {
    let observed = observed(&[("connect", 5.0, "")], json!({}));
    let wrong = "http {\nssl_session_tickets off;\n}";
    let found = told_apart("tls_without_resumption", &observed, Kind::Nginx, wrong, "http { }", None);
    assert_eq!((found.settings[0].text.as_str(), found.can_try), ("ssl_session_cache shared:weir:10m;", false));
    let wrong = "SSLSessionTickets Off\nSSLSessionCache none\n";
    told_apart(
        "tls_without_resumption",
        &observed,
        Kind::Apache,
        wrong,
        "SSLSessionTickets Off\nSSLSessionCache shmcb:/x\n",
        Some(2),
    );
    assert!(advised(&observed, "http://127.0.0.1/", vec![server(Kind::Apache, wrong)]).is_empty(), "not without TLS");
}

#[test]
fn keep_alive() {
    let observed = observed(&[("connect", 2.0, ""), ("accept_queue", 1.0, "")], json!({}));
    told_apart(
        "keep_alive_off",
        &observed,
        Kind::Apache,
        "KeepAlive On\n<VirtualHost *>\nKeepAlive off\n</VirtualHost>",
        "KeepAlive On",
        Some(3),
    );
    told_apart(
        "keep_alive_off",
        &observed,
        Kind::Nginx,
        "http {\nkeepalive_timeout 0s;\n}",
        "http { keepalive_timeout 65s; }",
        Some(2),
    );
}

#[test]
fn a_slow_client() {
    let observed = observed(
        &[("wait_network", 4.0, "10.0.0.9:51000"), ("accept_queue", 3.0, "")],
        json!({"bytes": 100_000_000u64}),
    );
    let found = told_apart("slow_client", &observed, Kind::Apache, "Listen 80", "SendBufferSize 262144", None);
    assert_eq!(found.settings[0].text, "SendBufferSize 131072");
    let found = told_apart("slow_client", &observed, Kind::Nginx, "listen 80;", "listen 80 sndbuf=256k;", Some(1));
    assert_eq!(found.settings[0].text, "listen 80 sndbuf=128k;");
}

/// Only what Nagle's algorithm held back is the option's doing, not the way to the client.
#[test]
fn a_piece_that_is_held_back() {
    let held = observed(&[("response_transit", 8.0, "Nagle's algorithm until the client acknowledged")], json!({}));
    let found = advised(&held, "http://h/", vec![server(Kind::Nginx, "tcp_nodelay off;")]);
    assert_eq!((found[0].rule, found[0].settings[0].text.as_str()), ("tcp_nodelay", "tcp_nodelay on;"));
    assert_eq!((found[0].settings[0].line, found[0].can_try), (Some(1), true));
    let found = advised(&held, "http://h/", vec![server(Kind::Nginx, "listen 80;")]);
    assert_eq!((found[0].rule, found[0].can_try), ("tcp_nodelay", false));
    assert!(found[0].commands[0].contains("TCP_NODELAY"), "{:?}", found[0].commands);
    let way = observed(&[("response_transit", 8.0, "")], json!({}));
    assert!(advised(&way, "http://h/", vec![server(Kind::Nginx, "tcp_nodelay off;")]).is_empty());
}

#[test]
fn the_accept_mutex() {
    let observed = observed(&[("wait_lock", 3.0, "apache2 (12 processes)")], json!({}));
    let two = "LoadModule mpm_prefork_module x.so\nListen 80\nListen 81\nMutex file:/run mpm-accept\n";
    let one = "LoadModule mpm_prefork_module x.so\nListen 80\nMutex file:/run mpm-accept\n";
    let found = told_apart("accept_mutex", &observed, Kind::Apache, two, one, Some(4));
    assert_eq!(found.settings[0].text, "Mutex pthread mpm-accept");
    let event = two.replace("prefork", "event");
    assert!(advised(&observed, "http://h/", vec![server(Kind::Apache, &event)]).is_empty(), "the event model has none");
}

#[test]
fn logs() {
    let named = observed(&[("wait_disk", 3.0, "/var/log/access.log")], json!({}));
    told_apart(
        "log_unbuffered",
        &named,
        Kind::Apache,
        "CustomLog /var/log/access.log common",
        "CustomLog /var/log/access.log common\nBufferedLogs On",
        None,
    );
    let found = told_apart(
        "log_unbuffered",
        &named,
        Kind::Nginx,
        "http {\naccess_log /var/log/access.log;\n}",
        "access_log /var/log/access.log main buffer=64k;",
        Some(2),
    );
    assert_eq!(found.settings[0].text, "access_log /var/log/access.log combined buffer=64k flush=5s;");
    let other = observed(&[("wait_disk", 3.0, "/srv/data/photos.bin")], json!({}));
    assert!(
        advised(&other, "http://h/", vec![server(Kind::Nginx, "access_log /var/log/access.log;")]).is_empty(),
        "another file"
    );
}

#[test]
fn commits_of_a_database() {
    let edges = json!({"waiting": [{"from": "postgres", "to": "pg_wal/000001", "part": "wait_disk", "count": 9, "mean_ns": 4e6}]});
    let observed = observed(&[("wait_disk", 4.0, "")], edges);
    let found = told_apart(
        "synchronous_commit",
        &observed,
        Kind::Postgres,
        "port = 5432\nsynchronous_commit = on",
        "synchronous_commit = off",
        Some(2),
    );
    assert!(!found.can_try && found.against[0].contains("lost"));
}

#[test]
fn a_neighbour_but_not_the_load_and_not_the_servers() {
    let of = |who: &str| {
        advised(
            &observed(&[("wait_cpu", 4.0, who)], json!({})),
            "http://h/",
            vec![server(Kind::Nginx, "worker_processes auto;")],
        )
    };
    let found = of("backup (99999999)");
    assert_eq!((found[0].rule, found.len()), ("noisy_neighbour", 1));
    assert!(found[0].commands[0].contains("backup"), "{:?}", found[0].commands);
    assert!(
        of("weir-load-0 (7)").is_empty() && of("nginx (4 processes)").is_empty() && of("php-fpm8.2 (3)").is_empty()
    );
    // A server's own tasks are no neighbours, also where advice does not know the server.
    let steps = json!({"examples": [{"steps": [{"task": "gunicorn (41)", "who": ""}]}]});
    assert!(advised(&observed(&[("wait_cpu", 4.0, "gunicorn (3 processes)")], steps), "http://h/", vec![]).is_empty());
}

#[test]
fn a_quota_is_no_neighbour() {
    let told = observed(&[("wait_cpu", 4.0, "the CPU quota of cgroup /shop")], json!({}));
    assert!(advised(&told, "http://h/", vec![server(Kind::Nginx, "worker_processes auto;")]).is_empty());
}

#[test]
fn a_lock_with_its_holder() {
    let two = "LoadModule mpm_prefork_module x.so\nListen 80\nListen 81\n";
    let held = observed(&[("wait_lock", 3.0, "semaphore held by apache2 (12)")], json!({}));
    let found = advised(&held, "http://h/", vec![server(Kind::Apache, two)]);
    assert_eq!((found[0].rule, found[0].settings[0].text.as_str()), ("accept_mutex", "ListenCoresBucketsRatio 1"));
    let foreign = observed(&[("wait_lock", 3.0, "flock of /run/app.lock held by backup (12)")], json!({}));
    assert!(advised(&foreign, "http://h/", vec![server(Kind::Apache, two)]).is_empty());
}

#[test]
fn look_ups_of_names() {
    let observed = observed(&[("wait_network", 3.0, "192.0.2.1:53")], json!({}));
    let found = advised(&observed, "http://h/", vec![server(Kind::Apache, "\nHostnameLookups On")]);
    assert_eq!((found[0].rule, found[0].settings[0].line, found[0].can_try), ("dns_look_up", Some(2), true));
    let others = self::observed(&[("wait_network", 3.0, "192.0.2.1:5432")], json!({}));
    assert!(advised(&others, "http://h/", vec![server(Kind::Apache, "HostnameLookups On")]).is_empty());
}

/// Without a server's own setting the resolver is what remains, which is the host's.
#[test]
fn look_ups_by_the_program() {
    let observed = observed(&[("wait_process", 3.0, "127.0.0.53:53: PTR 1.0.0.127.in-addr.arpa")], json!({}));
    let found = advised(&observed, "http://h/", vec![server(Kind::Nginx, "")]);
    assert_eq!((found[0].rule, found[0].settings.len(), found[0].can_try), ("dns_look_up", 0, false));
}

#[test]
fn the_opcode_cache() {
    let observed = observed(&[("run", 6.0, "")], json!({"processes": [{"name": "php-fpm8.2", "run_ns": 5e6}]}));
    let wrong = "[www]\npm.max_children = 50\nphp_admin_value[opcache.enable] = 0";
    let found = told_apart("opcache_off", &observed, Kind::PhpFpm, wrong, "[www]\npm.max_children = 50", Some(3));
    assert_eq!(found.settings[0].text, "php_admin_value[opcache.enable] = 1");
}

#[test]
fn a_pool_by_its_own_queue_and_by_littles_law() {
    let pool = "[www]\nlisten = /run/php.sock\npm = dynamic\npm.max_children = 2\npm.start_servers = 1\npm.max_spare_servers = 2\n";
    let large = pool.replace("pm.max_children = 2", "pm.max_children = 200");
    // Followed: the queue of the pool is seen as such.
    let followed = observed(&[("accept_queue", 8.0, "php-fpm8.2 (2 processes)")], json!({}));
    let found = told_apart("php_pool_too_small", &followed, Kind::PhpFpm, pool, "[www]\npm = static\n", Some(4));
    assert!(
        found.settings.iter().any(|setting| setting.name == "pm.max_spare_servers" && setting.line == Some(6)),
        "{:?}",
        found.settings
    );
    // Not followed: nine requests are at two children, so seven wait.
    let behind = observed(&[("wait_process", 9.0, "/run/php.sock")], json!({}));
    let found = told_apart("php_pool_too_small", &behind, Kind::PhpFpm, pool, &large, Some(4));
    assert_eq!(found.settings[0].proposed.parse::<u32>().ok(), Some(15));
    assert!(found.effect.saved_ns.high_ns <= 7e6 + 1.0);
}

#[test]
fn workers_of_apache_and_nginx() {
    let observed =
        observed(&[("accept_queue", 5.0, "")], json!({"server_cpu": {"utilisation": 0.8, "used_ns_per_request": 8e5}}));
    let found = told_apart(
        "too_few_workers",
        &observed,
        Kind::Apache,
        "LoadModule mpm_prefork_module x\nMaxRequestWorkers 8",
        "MaxRequestWorkers 256",
        Some(2),
    );
    assert!(found.effect.saved_ns.high_ns <= 5e6);
    told_apart("too_few_workers", &observed, Kind::Nginx, "worker_processes 1;", "worker_processes auto;", Some(1));
    // A queue that is blamed on the pool behind is not the front's.
    let behind = self::observed(&[("accept_queue", 5.0, "php-fpm8.2 (1)")], json!({}));
    assert!(advised(&behind, "http://h/", vec![server(Kind::Nginx, "worker_processes 1;")]).is_empty());
}

#[test]
fn files_and_sendfile() {
    let observed = observed(&[("run", 8.0, "")], json!({"bytes": 2_000_000_000u64}));
    let plain = |text: &str| advised(&observed, "http://h/", vec![server(Kind::Nginx, text)]);
    let found = plain("http {\nsendfile off;\n}");
    assert_eq!((found[0].rule, found[0].settings[0].line), ("sendfile_off", Some(2)));
    assert_eq!(plain("http {\n}")[0].settings[0].line, None, "off unless it is switched on");
    assert!(plain("http { sendfile on; }").is_empty());
}

#[test]
fn slow_queries() {
    let query = |text: &str| json!({"queries": [{"server": "postgresql", "text": text, "count": 1000, "mean_ns": 7e6, "max_ns": 90_000_000}]});
    let of =
        |text: &str| advised(&observed(&[("wait_process", 8.0, "postgres (9)")], query(text)), "http://h/", vec![]);
    let found = of("SELECT * FROM orders WHERE customer = ?");
    assert_eq!(found[0].rule, "missing_index");
    assert!(found[0].commands[0].starts_with("EXPLAIN (ANALYZE, BUFFERS) SELECT"), "{:?}", found[0].commands);
    assert_eq!(found[0].commands[1], "CREATE INDEX CONCURRENTLY orders_customer ON orders (customer);");
    let found = of("SELECT pg_sleep(?)");
    assert_eq!((found[0].rule, found[0].commands.len()), ("slow_query", 1));
    assert!(found[0].reasoning.contains("reads no table"));
}

#[test]
fn a_part_that_no_setting_changes_is_told_with_its_reason() {
    let observed = observed(&[("wait_timer", 6.0, "worker (3)"), ("run", 0.2, "")], json!({}));
    let (recorded, servers) = (Recorded::default(), Servers::default());
    let case = Case { observed: &observed, recorded: &recorded, servers: &servers };
    let found = findings(&case);
    let beyond = beyond_settings(&case, &found);
    assert!(found.is_empty() && beyond.len() == 1 && beyond[0].contains("worker (3)"), "{beyond:?}");
}

#[test]
fn findings_are_in_the_order_of_their_effect() {
    let observed = observed(&[("connect", 1.0, ""), ("wait_cpu", 6.0, "backup (99999999)")], json!({}));
    let found = advised(&observed, "http://h/", vec![server(Kind::Apache, "KeepAlive Off")]);
    let order: Vec<(usize, &str)> = found.iter().map(|finding| (finding.number, finding.rule)).collect();
    assert_eq!(order, [(1, "noisy_neighbour"), (2, "keep_alive_off")]);
}
