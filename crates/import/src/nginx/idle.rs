//! Directives of nginx that weir does without, and remedies for those that it cannot carry out.

/// What weir does by itself, or what is of nginx's own workings.
pub(crate) const IDLE: &[&str] = &[
    "include mime.types", "default_type", "user", "worker_processes", "worker_cpu_affinity", "worker_rlimit_nofile",
    "worker_connections", "worker_shutdown_timeout", "pid", "load_module", "pcre_jit", "thread_pool", "events",
    "multi_accept", "use", "accept_mutex", "daemon", "master_process", "env", "sendfile", "sendfile_max_chunk",
    "tcp_nopush", "tcp_nodelay", "types_hash_max_size", "types_hash_bucket_size", "server_names_hash_bucket_size",
    "server_names_hash_max_size", "variables_hash_max_size", "variables_hash_bucket_size", "map_hash_bucket_size",
    "map_hash_max_size", "log_not_found", "open_file_cache", "open_file_cache_valid", "open_file_cache_min_uses",
    "open_file_cache_errors", "aio", "directio", "output_buffers", "postpone_output", "reset_timedout_connection",
    "gzip_vary", "gzip_proxied", "gzip_comp_level", "gzip_buffers", "gzip_http_version", "gzip_types", "gzip_disable",
    "gunzip", "brotli", "brotli_static", "brotli_comp_level", "brotli_types", "client_body_buffer_size",
    "client_header_buffer_size", "large_client_header_buffers", "client_body_temp_path", "client_body_in_file_only",
    "proxy_buffering", "proxy_buffers", "proxy_buffer_size", "proxy_busy_buffers_size", "proxy_request_buffering",
    "proxy_max_temp_file_size", "proxy_temp_path", "proxy_temp_file_write_size", "proxy_http_version",
    "proxy_socket_keepalive", "proxy_headers_hash_max_size", "proxy_headers_hash_bucket_size",
    "fastcgi_buffering", "fastcgi_buffers", "fastcgi_buffer_size", "fastcgi_busy_buffers_size",
    "fastcgi_request_buffering", "fastcgi_temp_file_write_size", "fastcgi_temp_path", "fastcgi_max_temp_file_size",
    "fastcgi_keep_conn", "fastcgi_split_path_info", "fastcgi_index", "uwsgi_buffering", "uwsgi_buffers",
    "uwsgi_buffer_size", "uwsgi_busy_buffers_size", "scgi_buffering", "keepalive_requests", "keepalive_disable",
    "lingering_close", "lingering_time", "lingering_timeout", "chunked_transfer_encoding", "etag",
    "if_modified_since", "merge_slashes", "absolute_redirect", "server_name_in_redirect", "port_in_redirect",
    "recursive_error_pages", "resolver", "resolver_timeout", "ssl_protocols", "ssl_ciphers",
    "ssl_prefer_server_ciphers", "ssl_session_cache", "ssl_session_timeout", "ssl_session_tickets",
    "ssl_session_ticket_key", "ssl_dhparam", "ssl_ecdh_curve", "ssl_buffer_size", "ssl_early_data", "ssl_stapling",
    "ssl_stapling_verify", "ssl_trusted_certificate", "ssl", "http2", "http2_max_concurrent_streams",
    "http2_push_preload", "http3", "quic_retry", "rewrite_log", "uninitialized_variable_warn", "error_log",
    "access_log", "log_format", "msie_padding", "max_ranges", "zone", "limit_req_log_level", "limit_conn_log_level",
    "server_tokens", "underscores_in_headers", "ignore_invalid_headers", "autoindex_exact_size",
    "autoindex_localtime", "autoindex_format", "charset", "charset_types", "override_charset", "source_charset",
    "break", "limit_req_zone", "limit_req_status", "proxy_ignore_client_abort", "fastcgi_ignore_client_abort",
    "keepalive_time", "disable_symlinks", "upstream", "map", "types",
];

/// What keeps clients away: where it cannot be carried over, the paths are refused.
pub(crate) const GUARDS: &[&str] = &[
    "auth_request", "auth_jwt", "auth_delay", "secure_link", "secure_link_md5", "secure_link_secret",
    "ssl_verify_client", "ssl_client_certificate", "ssl_crl", "limit_except", "valid_referers", "access_by_lua",
    "access_by_lua_block", "access_by_lua_file", "auth_pam", "auth_ldap", "auth_gssapi", "auth_digest",
    "modsecurity_rules", "js_access",
];

/// What to do in place of a directive.
pub(crate) fn remedy(name: &str) -> &'static str {
    match name {
        "auth_request" | "auth_jwt" => "let the application behind weir decide, or use `auth` with a file of users",
        "ssl_verify_client" | "ssl_client_certificate" | "ssl_crl" => "weir asks for no client certificates",
        "limit_except" => "write a [[host.route]] with not = { method = [...] } and fail = 403",
        "client_max_body_size" => "weir streams bodies to upstreams whatever their size: bound them in the application",
        "proxy_cache" | "fastcgi_cache" | "uwsgi_cache" | "scgi_cache" => {
            "add cache = true, or a [host.path.cache], to the table"
        }
        name if name.contains("_cache") => "see `cache` in docs/reference/configuration.md",
        "real_ip_header" | "set_real_ip_from" | "real_ip_recursive" => "add trusted_proxies at the top",
        "limit_conn" | "limit_conn_zone" => "add connections_per_address in [limits], or a [[throttle]]",
        "geo" | "split_clients" | "geoip_country" | "geoip2" => "weir knows `address` in routes, and no databases",
        "sub_filter" | "sub_filter_once" | "sub_filter_types" => "let the application write what is meant",
        "stub_status" => "add [admin], which has /metrics and /status.json",
        "ssi" => "weir assembles .shtml files: `includes`",
        "mirror" => "weir mirrors no requests",
        "stream" | "mail" => "weir serves HTTP only; keep nginx for it",
        "grpc_pass" | "memcached_pass" => "weir speaks HTTP/1.1, FastCGI, SCGI and uwsgi with upstreams",
        "dav_methods" => "weir has no WebDAV; let an application do it",
        "random_index" => "weir has no such index",
        "mp4" | "flv" | "image_filter" | "xslt_stylesheet" | "slice" => "weir changes no files; prepare them",
        "proxy_intercept_errors" | "fastcgi_intercept_errors" => "weir passes on the errors of upstreams with their pages",
        "proxy_redirect" => "let the application write addresses that its clients can use",
        "proxy_cookie_path" | "proxy_cookie_domain" | "proxy_cookie_flags" => {
            "let the application set cookies for the path that its clients see"
        }
        _ => "see docs/reference/configuration.md for what weir can say",
    }
}
