//! What programs that listen are, by the names of their files.

use weir_capture::Listener;

/// What a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// It serves the web, or stands before those that do.
    WebServer,
    /// It runs programs that may serve the web.
    Runtime,
    /// It answers requests of other programs.
    Backend,
    /// Not known.
    Unknown,
    /// What it exchanges are no requests and responses: shells, mail, names.
    NoRequests,
}

/// File names, or how they begin where a `*` ends them, and what they are.
const KNOWN: &[(&str, Sort, &str)] = &[
    ("nginx", Sort::WebServer, "web server"),
    ("apache2", Sort::WebServer, "web server"),
    ("httpd", Sort::WebServer, "web server"),
    ("caddy", Sort::WebServer, "web server"),
    ("h2o", Sort::WebServer, "web server"),
    ("lighttpd", Sort::WebServer, "web server"),
    ("weir", Sort::WebServer, "weir"),
    ("haproxy", Sort::WebServer, "proxy"),
    ("varnishd", Sort::WebServer, "cache"),
    ("traefik", Sort::WebServer, "proxy"),
    ("envoy", Sort::WebServer, "proxy"),
    ("squid", Sort::WebServer, "proxy"),
    ("docker-proxy", Sort::WebServer, "proxy of a container"),
    ("php-fpm*", Sort::Runtime, "PHP"),
    ("php*", Sort::Runtime, "PHP"),
    ("node", Sort::Runtime, "JavaScript"),
    ("bun", Sort::Runtime, "JavaScript"),
    ("deno", Sort::Runtime, "JavaScript"),
    ("python*", Sort::Runtime, "Python"),
    ("gunicorn", Sort::Runtime, "Python"),
    ("uwsgi*", Sort::Runtime, "Python"),
    ("ruby*", Sort::Runtime, "Ruby"),
    ("puma", Sort::Runtime, "Ruby"),
    ("perl*", Sort::Runtime, "Perl"),
    ("java", Sort::Runtime, "Java"),
    ("dotnet", Sort::Runtime, ".NET"),
    ("beam.smp", Sort::Runtime, "Erlang"),
    ("postgres", Sort::Backend, "database"),
    ("mysqld", Sort::Backend, "database"),
    ("mariadbd", Sort::Backend, "database"),
    ("mongod", Sort::Backend, "database"),
    ("redis-server", Sort::Backend, "database"),
    ("valkey-server", Sort::Backend, "database"),
    ("memcached", Sort::Backend, "cache"),
    ("etcd", Sort::Backend, "database"),
    ("sshd*", Sort::NoRequests, "shells"),
    ("dropbear", Sort::NoRequests, "shells"),
    ("systemd*", Sort::NoRequests, "system"),
    ("init", Sort::NoRequests, "system"),
    ("dnsmasq", Sort::NoRequests, "names"),
    ("named", Sort::NoRequests, "names"),
    ("unbound", Sort::NoRequests, "names"),
    ("exim4", Sort::NoRequests, "mail"),
    ("master", Sort::NoRequests, "mail"),
    ("dovecot", Sort::NoRequests, "mail"),
    ("rpcbind", Sort::NoRequests, "system"),
];

/// What the program of a file name is, and a word for it, empty where it is not known.
pub(crate) fn sort_of(program: &str) -> (Sort, &'static str) {
    let fits = |name: &str| match name.strip_suffix('*') {
        Some(begin) => program.starts_with(begin),
        None => program == name,
    };
    let known = KNOWN.iter().find(|(name, _, _)| fits(name));
    known.map_or((Sort::Unknown, ""), |(_, sort, words)| (*sort, *words))
}

/// Whether it exchanges requests and responses, as far as is known.
pub(crate) fn may_serve(listener: &Listener) -> bool {
    sort_of(&listener.program).0 != Sort::NoRequests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names_and_the_begins_of_these() {
        assert_eq!(sort_of("nginx"), (Sort::WebServer, "web server"));
        assert_eq!(sort_of("php-fpm8.2"), (Sort::Runtime, "PHP"));
        assert_eq!(sort_of("python3.11"), (Sort::Runtime, "Python"));
        assert_eq!(sort_of("sshd-session").0, Sort::NoRequests);
        assert_eq!(sort_of("nginx-exporter"), (Sort::Unknown, ""));
    }
}
