//! Keys of other servers' configurations, with the key that replaces each here, or the word that there is none.

/// Not there yet, by the words for it.
const MISSING: [(&[&str], &str); 3] = [
    (
        &["cgi", "cgiplus", "rte", "isapi", "cgi_bin", "execcgi", "php", "script", "scriptalias", "addhandler"],
        "write php = true in [[host]], or cgi = true in [[host.path]] with prefix = \"/cgi-bin/\"",
    ),
    (
        &["try_files", "fallback", "fallback_resource", "fallbackresource", "spa", "not_found", "catch_all"],
        "write [[host.route]] with try_files = [\"$path\", \"/index.html\"]",
    ),
    (&["rewrite", "rewriterule", "uri", "url_rewrite", "map", "regex"], "write [[host.route]] with map = \"/NEW/$1\""),
];

/// What is said otherwise, by the words of others.
const OTHERWISE: [(&[&str], &str); 32] = [
    (
        &["proxy_pass", "reverse_proxy", "upstream", "upstreams", "backend", "backends", "proxypass", "forward"],
        "write proxy = \"http://ADDRESS:PORT\"",
    ),
    (
        &["balancer", "lb_policy", "load_balancing"],
        "write proxy = { to = [\"http://ADDRESS:PORT\"], balance = \"...\" }",
    ),
    (&["fastcgi_pass", "php_fastcgi", "fcgi"], "did you mean `fastcgi`?"),
    (&["scgi_pass"], "did you mean `scgi`?"),
    (&["uwsgi_pass", "wsgi", "wsgiscriptalias"], "did you mean `uwsgi`, or `proxy` for a server of HTTP?"),
    (
        &["set_real_ip_from", "real_ip", "remoteipheader"],
        "write trusted_proxies = [\"NETWORK\"] at the top of the file",
    ),
    (
        &["headers", "header", "add_header", "add_headers", "response_headers", "more_set_headers", "http_headers"],
        "did you mean `set_headers`?",
    ),
    (&["hide_headers", "unset_headers", "proxy_hide_header", "delete_headers"], "did you mean `remove_headers`?"),
    (&["error_headers", "headers_on_errors", "always"], "did you mean `set_error_headers`?"),
    (&["location", "locations", "paths", "handle"], "write [[host.path]] for each path"),
    (
        &["server", "servers", "hosts", "vhost", "virtual_host", "virtualhost", "site", "sites"],
        "write [[host]] for each",
    ),
    (
        &["server_name", "server_names", "hostname", "domain", "domains", "serveralias", "name"],
        "did you mean `names`, in [[host]]?",
    ),
    (
        &["port", "ports", "bind", "address", "addr", "interface"],
        "write listen = [\"ADDRESS:PORT\"] at the top of the file",
    ),
    (
        &["ssl", "certificate", "certificates", "cert", "tls_cert", "ssl_certificate", "key", "tls_key"],
        "write [tls] with certificates = [{ certificate = \"FILE\", key = \"FILE\" }]",
    ),
    (&["https"], "write [tls] with certificates; [[host.route]] with https = true redirects to it"),
    (
        &["letsencrypt", "auto_https", "certbot", "acme_email", "acme_ca", "autocert", "certresolver", "certresolvers"],
        "write [acme] with storage = \"DIRECTORY\", and certificate = \"acme\" in [[host]]",
    ),
    (&["http2", "h2"], "HTTP/2 is spoken without a word on it"),
    (&["http3", "quic", "h3"], "write http3 = true in [tls]"),
    (&["gzip", "brotli", "zstd", "encode", "compress", "deflate"], "did you mean `compression`?"),
    (&["autoindex", "browse", "directory_listing", "indexes", "dirlist"], "did you mean `listing`?"),
    (&["index_files", "indexes_names", "directoryindex", "directory_index", "default_file"], "did you mean `index`?"),
    (
        &["document_root", "documentroot", "docroot", "directory", "dir", "folder", "alias", "www"],
        "did you mean `root`?",
    ),
    (
        &["basic_auth", "basicauth", "auth_basic", "password", "htpasswd", "users"],
        "write auth = { realm = \"...\", users = \"FILE\" }",
    ),
    (&["limit_req", "rate_limit", "ratelimit", "throttling"], "write rate = { requests = 10, per = \"1 s\" }"),
    (&["limit_conn", "max_connections", "worker_connections"], "write connections = N in [limits]"),
    (&["return", "respond", "code"], "did you mean `status`, or `redirect` with an address?"),
    (&["error_page", "errordocument", "errors", "handle_errors"], "did you mean `error_pages`?"),
    (&["access_log", "accesslog", "logs", "customlog", "logging"], "write [log] with file = \"access.log\""),
    (&["expires", "cache_control", "max_age"], "write set_headers = { Cache-Control = \"max-age=SECONDS\" }"),
    (&["types", "mime", "mime_types", "default_type", "addtype"], "did you mean `media_types`?"),
    (&["workers", "threads", "worker_processes", "processes"], "did you mean `loops`?"),
    (&["keepalive_timeout", "keepalive", "idle_timeout", "timeout"], "write idle = \"60 s\" in [timeouts]"),
];

/// Where keys of ours belong that stand elsewhere.
const ELSEWHERE: [(&[&str], &str); 5] = [
    (
        &[
            "root",
            "listing",
            "index",
            "dot_files",
            "redirect",
            "proxy",
            "fastcgi",
            "scgi",
            "uwsgi",
            "status",
            "set_headers",
            "set_error_headers",
            "remove_headers",
            "error_pages",
            "allow",
            "deny",
            "auth",
            "rate",
            "names",
        ],
        "[[host]]",
    ),
    (&["prefix", "exact", "glob"], "[[host.path]]"),
    (
        &[
            "listen",
            "loops",
            "reserve_loops",
            "io",
            "cache",
            "cached_file",
            "user",
            "sandbox",
            "arm",
            "trusted_proxies",
            "proxy_protocol",
        ],
        "the top of the file, before all tables",
    ),
    (&["listen_clear", "listen_quic"], "[tls]"),
    (&["rotate_size", "rotate_age", "keep", "queries", "addresses"], "[log]"),
];

/// How a word that is not known in a table is said here; none where it is no word of others.
pub(super) fn remedy(word: &str, table: &str) -> Option<String> {
    let plain = word.to_ascii_lowercase().replace('-', "_");
    let of = |list: &'static [(&'static [&'static str], &'static str)]| {
        list.iter().find(|(words, _)| words.contains(&plain.as_str())).map(|(_, said)| *said)
    };
    if let Some(place) = of(&ELSEWHERE).filter(|place| *place != table) {
        return Some(format!("`{plain}` belongs in {place}"));
    }
    // Tables of the file's own words, and of single settings, have other meanings for them.
    let is_of_sites = matches!(table, "" | "[[host]]" | "[[host.path]]");
    of(&MISSING).or_else(|| of(&OTHERWISE)).filter(|_| is_of_sites).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_understood() {
        for (word, table, expected) in [
            ("headers", "[[host]]", Some("`set_headers`")),
            ("Add-Header", "[[host.path]]", Some("`set_headers`")),
            ("try_files", "[[host.path]]", Some("[[host.route]] with try_files")),
            ("proxy_pass", "[[host.path]]", Some("write proxy =")),
            ("fastcgi_pass", "[[host.path]]", Some("`fastcgi`")),
            ("proxy", "", Some("belongs in [[host]]")),
            ("cgi_bin", "[[host]]", Some("or cgi = true in [[host.path]]")),
            ("fallback", "[[host]]", Some("[[host.route]] with try_files")),
            ("rewrite", "[[host.path]]", Some("[[host.route]] with map")),
            ("root", "", Some("belongs in [[host]]")),
            ("prefix", "[[host]]", Some("belongs in [[host.path]]")),
            ("listen", "[[host]]", Some("belongs in the top of the file")),
            ("proxy_pass", "[limits]", None),
            ("redriect", "[[host]]", None),
        ] {
            let said = remedy(word, table);
            let is_right = said.as_deref().map(|said| expected.is_some_and(|expected| said.contains(expected)));
            assert_eq!(is_right, expected.map(|_| true), "{word} {table} {said:?}");
        }
    }

    #[test]
    fn a_word_is_told_once() {
        let words = MISSING.iter().chain(&OTHERWISE).chain(&ELSEWHERE).flat_map(|(words, _)| words.iter());
        let words: Vec<_> = words.filter(|word| **word != "index").collect();
        assert!(words.iter().enumerate().all(|(at, word)| !words[..at].contains(word)), "{words:?}");
    }
}
