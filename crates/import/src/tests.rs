//! Whole translations: files like real ones, and any text.

use super::*;
use proptest::prelude::*;

fn imported(kind: Kind, text: &str) -> Imported {
    let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
    let imported = import(kind, "file", text, &wanted, &NoFiles).unwrap_or_else(|error| panic!("{error}\n{text}"));
    is_well_formed(&imported.text);
    imported
}

/// The text is TOML, and no comment of it ends early.
fn is_well_formed(text: &str) {
    toml::from_str::<toml::Table>(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for line in text.lines() {
        let is_known = line.is_empty()
            || line.starts_with('#')
            || line.starts_with('[')
            || line
                .split_once(" = ")
                .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        assert!(is_known, "{line}\n{text}");
    }
}

/// The lines that are no comments.
fn lines(imported: &Imported) -> Vec<&str> {
    imported.text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

#[track_caller]
fn has(imported: &Imported, expected: &[&str]) {
    let lines = lines(imported);
    for line in expected {
        assert!(lines.contains(line), "{line}\n{}", imported.text);
    }
}

const WORDPRESS: &str = "\
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
";

const LARAVEL: &str = "\
<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>

    RewriteEngine On

    # Handle Authorization Header
    RewriteCond %{HTTP:Authorization} .
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]

    # Redirect Trailing Slashes If Not A Folder...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]

    # Send Requests To Front Controller...
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
";

const SYMFONY: &str = "\
DirectoryIndex index.php
<IfModule mod_negotiation.c>
    Options -MultiViews
</IfModule>
<IfModule mod_rewrite.c>
    Options +FollowSymlinks
    RewriteEngine On
    RewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$
    RewriteRule .* - [E=BASE:%1]
    RewriteCond %{HTTP:Authorization} .+
    RewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]
    RewriteCond %{ENV:REDIRECT_STATUS} =\"\"
    RewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ %{ENV:BASE}/index.php [L]
</IfModule>
<IfModule !mod_rewrite.c>
    <IfModule mod_alias.c>
        RedirectMatch 307 ^/$ /index.php/
    </IfModule>
</IfModule>
";

#[test]
fn the_files_of_frameworks_are_carried_over() {
    let wordpress = imported(Kind::Htaccess, WORDPRESS);
    assert!(wordpress.losses.is_empty(), "{:?}", wordpress.losses);
    let tried = "try_files = [\"$path\", \"$path/\", \"/index.php\"]";
    has(&wordpress, &["regex = '^/index\\.php$'", "pass = true", tried, "glob = \"**.php\""]);
    let laravel = imported(Kind::Htaccess, LARAVEL);
    has(&laravel, &[tried, "listing = false"]);
    // A slash at the end is taken off where no directory is: weir has no such condition.
    let losses: Vec<usize> = laravel.losses.iter().map(|loss| loss.place.line).collect();
    assert_eq!(losses, [15], "{:?}", laravel.losses);
    let symfony = imported(Kind::Htaccess, SYMFONY);
    assert!(symfony.losses.is_empty(), "{:?}", symfony.losses);
    let tried = "try_files = [\"$path\", \"/index.php\"]";
    has(
        &symfony,
        &["index = [\"index.php\"]", "regex = '^/index\\.php(?:/(.*)|$)'", "redirect = \"/$1$query\"", tried],
    );
}

#[test]
fn a_front_controller_of_nginx_is_carried_over() {
    let text = "
        upstream php { server unix:/run/php/php-fpm.sock; }
        server {
            listen 80;
            server_name example.org www.example.org;
            root /var/www/html;
            index index.php;
            location = /favicon.ico { log_not_found off; access_log off; }
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ { include fastcgi_params; fastcgi_pass php; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }
            location ~* \\.(js|css|png)$ { expires max; log_not_found off; }
            location ~ /\\.ht { deny all; }
        }";
    let imported = imported(Kind::Nginx, text);
    let losses: Vec<&str> = imported.losses.iter().map(|loss| loss.what.as_str()).collect();
    assert!(losses.iter().all(|what| what.contains("fastcgi_params")), "{losses:?}");
    has(
        &imported,
        &[
            "listen = [\":80\"]",
            "names = [\"example.org\", \"www.example.org\", \"*\"]",
            "root = \"/var/www/html\"",
            "try_files = [\"$path\", \"$path/\", \"/index.php\"]",
            "glob = \"**.php\"",
            "fastcgi = \"unix:/run/php/php-fpm.sock\"",
            "glob = \"**/.ht**\"",
            "deny = [\"all\"]",
            "set_headers = { Cache-Control = \"max-age=315360000\" }",
        ],
    );
}

#[test]
fn a_proxy_and_its_redirect_to_tls_are_one_host() {
    let text = "
        http {
            map $http_upgrade $connection_upgrade { default upgrade; '' close; }
            upstream app { least_conn; server 127.0.0.1:3000 weight=2; server 127.0.0.1:3001; keepalive 16; }
            server { listen 80; server_name a.org; return 301 https://$host$request_uri; }
            server {
                listen 443 ssl; server_name a.org;
                ssl_certificate /etc/a.pem; ssl_certificate_key /etc/a.key;
                location / {
                    proxy_pass http://app;
                    proxy_set_header Host $host;
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection $connection_upgrade;
                    proxy_read_timeout 90s;
                }
            }
        }";
    let imported = imported(Kind::Nginx, text);
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    has(
        &imported,
        &[
            "listen = [\":443\"]",
            "listen_clear = [\":80\"]",
            "scheme = \"http\"",
            "redirect = \"https://$host$path$query\"",
            "proxy = { to = [{ to = \"http://127.0.0.1:3000\", weight = 2 }, \"http://127.0.0.1:3001\"], balance = \
             \"waiting\", keep = 16, timeouts = { head = \"90 s\", body = \"90 s\" } }",
        ],
    );
    assert_eq!(lines(&imported).iter().filter(|line| **line == "[[host]]").count(), 1);
}

#[test]
fn services_of_grpc_are_asked_over_http2() {
    let text = "
        server {
            listen 80;
            location /a.A/ { grpc_pass grpc://127.0.0.1:50051; grpc_set_header Host $host; grpc_read_timeout 90s; }
            location /b.B/ { grpc_pass unix:/run/b.sock; }
            location /c.C/ { grpc_pass grpcs://c.example.org; grpc_ssl_verify on; }
        }";
    let nginx = imported(Kind::Nginx, text);
    has(
        &nginx,
        &[
            "proxy = { to = \"http://127.0.0.1:50051\", protocol = \"2\", forwarded = \"none\", timeouts = { head = \
             \"90 s\", body = \"90 s\" } }",
            "proxy = { to = \"unix:/run/b.sock\", protocol = \"2\", host = \"localhost\", forwarded = \"none\" }",
            "proxy = { to = \"https://c.example.org:443\", protocol = \"2\", host = \"c.example.org\", \
             forwarded = \"none\" }",
        ],
    );
    assert_eq!(nginx.losses.len(), 0, "{:?}", nginx.losses);
}

#[test]
fn certificates_of_clients_are_asked_for_as_before() {
    let text = |asks| {
        format!(
            "server {{
                listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; root /srv;
                ssl_client_certificate /etc/ca.pem; ssl_crl /etc/crl.pem; ssl_verify_client {asks};
            }}"
        )
    };
    for (asks, word) in [("on", "require"), ("optional", "ask")] {
        let nginx = imported(Kind::Nginx, &text(asks));
        let own = format!("client_certificate = \"{word}\"");
        has(&nginx, &["client_ca = \"/etc/ca.pem\"", "client_crl = \"/etc/crl.pem\"", &own]);
        assert_eq!(nginx.losses.len(), 0, "{:?}", nginx.losses);
    }
    let off = imported(Kind::Nginx, &text("off"));
    assert!(off.losses.is_empty() && !off.text.contains("client_"), "{:?}\n{}", off.losses, off.text);
    let unknown = imported(Kind::Nginx, &text("optional_no_ca"));
    has(&unknown, &["deny = [\"all\"]"]);
    assert!(unknown.losses.iter().any(|loss| loss.what.contains("ssl_verify_client")), "{:?}", unknown.losses);
}

#[test]
fn servers_behind_tls_and_http2_are_asked_so() {
    let text = "
        upstream app { server 127.0.0.1:3000; }
        server {
            listen 80;
            location /a/ {
                proxy_pass https://own.example.org; proxy_set_header Host $host; proxy_ssl_server_name on;
            }
            location /b/ {
                proxy_pass https://app; proxy_set_header Host $host; proxy_ssl_verify on;
                proxy_ssl_trusted_certificate /etc/ca.pem;
                proxy_ssl_certificate /etc/own.pem; proxy_ssl_certificate_key /etc/own.key;
            }
        }";
    let nginx = imported(Kind::Nginx, text);
    let own = "proxy = { to = \"https://own.example.org:443\", forwarded = \"none\" }";
    let app = "proxy = { to = \"https://127.0.0.1:3000\", server_name = \"app\", ca = \"/etc/ca.pem\", \
               client_certificate = \"/etc/own.pem\", client_key = \"/etc/own.key\", forwarded = \"none\" }";
    has(&nginx, &[own, app]);
    let told: Vec<_> = nginx.losses.iter().map(|loss| loss.what.clone()).collect();
    assert!(told.len() == 1 && told[0].contains("takes any certificate here"), "{told:?}");
    let text = "http://a.org {
        handle /x/* {
            reverse_proxy https://b.example.org
        }
        handle /y/* {
            reverse_proxy h2c://127.0.0.1:50051
        }
        handle /z/* {
            reverse_proxy 127.0.0.1:8443 {
                transport http {
                    tls_server_name c.example.org
                }
            }
        }
        handle /v/* {
            reverse_proxy https://b.example.org http://c.example.org
        }
        handle /w/* {
            reverse_proxy 127.0.0.1:8443 {
                transport http {
                    tls_insecure_skip_verify
                }
            }
        }
    }";
    let caddy = imported(Kind::Caddy, text);
    has(
        &caddy,
        &[
            "proxy = \"https://b.example.org:443\"",
            "proxy = \"h2c://127.0.0.1:50051\"",
            "proxy = { to = \"https://127.0.0.1:8443\", server_name = \"c.example.org\" }",
        ],
    );
    let told: Vec<_> = caddy.losses.iter().map(|loss| loss.what.clone()).collect();
    assert!(told.iter().any(|what| what.contains("one scheme")), "{told:?}");
    assert!(told.iter().any(|what| what.contains("tls_insecure_skip_verify")), "{told:?}");
}

#[test]
fn what_keeps_clients_away_is_refused_if_it_cannot_be_said() {
    for (kind, text, expected) in [
        (Kind::Nginx, "server { root /srv; location /a/ { auth_request /check; } }", "prefix = \"/a/\""),
        (
            Kind::Nginx,
            "server { root /srv; location /a/ { auth_basic x; auth_basic_user_file none; } }",
            "prefix = \"/a/\"",
        ),
        (Kind::Nginx, "server { root /srv; if ($geoip_country = XX) { return 403; } }", "root = \"/srv\""),
        (Kind::Htaccess, "Require group staff", "root = \"/srv\""),
        (
            Kind::Htaccess,
            "RewriteEngine on\nRewriteCond %{QUERY_STRING} base64 \nRewriteRule ^ - [F]",
            "root = \"/srv\"",
        ),
        (Kind::Htaccess, "<Files \"x\">\nRequire expr %{TIME} > 1\n</Files>", "glob = \"/x\""),
    ] {
        let imported = imported(kind, text);
        has(&imported, &[expected, "deny = [\"all\"]"]);
        assert!(imported.losses.iter().any(|loss| loss.is_refused), "{text}");
        assert!(imported.text.contains("# REFUSED"), "{}", imported.text);
    }
    let caddy = imported(Kind::Caddy, ":80 {\n forward_auth a:1 {\n uri /x\n }\n root * /srv\n file_server\n}");
    has(&caddy, &["fail = 403"]);
    assert!(caddy.losses[0].is_refused);
}

#[test]
fn a_caddyfile_is_carried_over() {
    let text = "
{
    email admin@example.org
}
(security) {
    header X-Frame-Options {args.0}
}
example.org, www.example.org {
    import security DENY
    root * /srv/www
    encode gzip zstd
    redir /old /new permanent
    @post {
        method POST
        path /form
    }
    respond @post 403
    handle_path /api/* {
        reverse_proxy 127.0.0.1:9000 127.0.0.1:9001 {
            lb_policy round_robin
        }
    }
    handle {
        try_files {path} /index.html
        file_server
    }
}";
    let imported = imported(Kind::Caddy, text);
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    has(
        &imported,
        &[
            "contact = \"admin@example.org\"",
            "certificate = \"acme\"",
            "set_headers = { X-Frame-Options = \"DENY\" }",
            "exact = \"/old\"",
            "redirect = \"/new\"",
            "fail = 403",
            "prefix = \"/api\"",
            "proxy = { to = [\"http://127.0.0.1:9000\", \"http://127.0.0.1:9001\"], balance = \"round robin\", path = \"/\" }",
            "try_files = [\"$path\", \"/index.html\"]",
            "not = { prefix = \"/api/\" }",
        ],
    );
}

#[test]
fn mistakes_of_the_grammar_have_their_place() {
    let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
    for (kind, text, expected) in [
        (Kind::Nginx, "server {\n  root /srv\n}", "f:2:3: the directive has no end"),
        (Kind::Nginx, "server {", "f:1:8: the block is not closed"),
        (Kind::Nginx, "}", "f:1:1: `}` closes nothing"),
        (Kind::Nginx, "events { }", "f: there is no site in it"),
        (Kind::Caddy, ":80 {\n root * \"x", "f:2:9: the text in quotes does not end"),
        (Kind::Caddy, ":80 {\n", "f:1:1: the block is not closed"),
        (Kind::Htaccess, "<Files x>\nRequire all denied", "f:1:1: the section <Files> is not closed"),
        (Kind::Htaccess, "</Files>", "f:1:1: `</Files>` closes no section"),
    ] {
        let error = import(kind, "f", text, &wanted, &NoFiles).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let deep = "a {".repeat(200);
    assert!(matches!(import(Kind::Nginx, "f", &deep, &wanted, &NoFiles), Err(ImportError::TooLarge { .. })));
}

#[test]
fn the_kind_is_told_by_name_or_content() {
    for (name, text, expected) in [
        ("/etc/caddy/Caddyfile", "", Some(Kind::Caddy)),
        ("site", "server {\n listen 80;\n}", Some(Kind::Nginx)),
        ("site", "RewriteEngine on\n", Some(Kind::Htaccess)),
        ("x/.htaccess", "", Some(Kind::Htaccess)),
        ("site", "example.org {\n  reverse_proxy a:1\n}", Some(Kind::Caddy)),
        ("site", "hello", None),
    ] {
        assert_eq!(Kind::recognise(name, text), expected, "{name} {text}");
    }
}

const OF_NGINX: &[&str] = &[
    "server {",
    "location / {",
    "location ~ \\.php$ {",
    "location ^~ /a {",
    "location = /b {",
    "location @c {",
    "}",
    "}",
    "root /srv;",
    "alias /x/;",
    "try_files $uri $uri/ @c;",
    "try_files $uri =404;",
    "proxy_pass http://a:1;",
    "proxy_pass http://a/x/;",
    "fastcgi_pass unix:/s;",
    "return 301 https://$host$request_uri;",
    "return 404;",
    "return 200 'x\ny';",
    "rewrite ^/x/(.*)$ /y/$1?a=$2 last;",
    "rewrite ^ /z break;",
    "if ($host = x) {",
    "if (!-e $request_filename) {",
    "if ($http_x ~* bot) {",
    "deny all;",
    "allow 10.0.0.0/8;",
    "auth_basic x;",
    "add_header X-A \"b\" always;",
    "expires 30d;",
    "error_page 404 /x;",
    "zzz_unknown a;",
    "server_name a.org;",
    "listen 443 ssl;",
    "internal;",
    "set $a b;",
    "index a b/c;",
    "autoindex on;",
    "limit_except GET { deny all; }",
];

const OF_CADDY: &[&str] = &[
    ":80 {",
    "a.org {",
    "handle /a/* {",
    "handle {",
    "route {",
    "handle_path /b/* {",
    "@m {",
    "}",
    "}",
    "path /x /y*",
    "method GET",
    "not path /z",
    "root * /srv",
    "file_server",
    "file_server browse",
    "reverse_proxy /p a:1",
    "reverse_proxy @m a:1",
    "php_fastcgi a:9000",
    "redir /a /b{uri} 301",
    "rewrite * /x{path}?{query}",
    "respond @m 403",
    "respond \"x\" 200",
    "header -Server",
    "header @m X-A \"b\"",
    "basicauth {",
    "bob $2a$14$x",
    "try_files {path} /i.html",
    "uri strip_prefix /q",
    "zzz_unknown a",
    "forward_auth x",
    "encode gzip",
    "tls internal",
];

const OF_HTACCESS: &[&str] = &[
    "RewriteEngine On",
    "RewriteBase /x",
    "RewriteCond %{REQUEST_FILENAME} !-f",
    "RewriteCond %{HTTP_HOST} ^www [NC,OR]",
    "RewriteCond %{REQUEST_URI} (.+)/$",
    "RewriteRule ^(a|b)/(.*)$ c.php?d=$2&e=%1 [L,QSA]",
    "RewriteRule . - [F]",
    "RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301]",
    "Redirect 301 /a https://b/",
    "RedirectMatch 404 /\\.git",
    "<Files ~ \"^\\.ht|x$\">",
    "<FilesMatch \"\\.(a|b)$\">",
    "</Files>",
    "</FilesMatch>",
    "<IfModule x>",
    "</IfModule>",
    "Require all denied",
    "Require ip 10",
    "Require valid-user",
    "<RequireAll>",
    "</RequireAll>",
    "Order deny,allow",
    "Deny from all",
    "Allow from 1.2.3.4",
    "Header set X \"y\"",
    "ExpiresByType text/css \"access plus 1 day\"",
    "ZzzUnknown a",
    "Options +Indexes",
    "DirectoryIndex a.php",
    "AddType a/b .c .d",
    "ErrorDocument 404 /x",
    "Satisfy Any",
    "<Limit POST>",
    "</Limit>",
    "FallbackResource /i.php",
];

/// Words of each dialect, put together by chance.
fn soup(kind: Kind) -> impl Strategy<Value = String> {
    let words = match kind {
        Kind::Nginx => OF_NGINX,
        Kind::Caddy => OF_CADDY,
        Kind::Htaccess => OF_HTACCESS,
    };
    proptest::collection::vec(proptest::sample::select(words), 0..24).prop_map(|words| words.join("\n"))
}

#[test]
fn a_second_site_for_all_names_is_listed_where_it_begins() {
    let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
    let text = ":80 {\n}\n:80 {\n}\n:80 {\nrespond 200\n}\n";
    let imported = import(Kind::Caddy, "f", text, &wanted, &NoFiles).expect("it is a Caddyfile");
    let lines: Vec<usize> = imported.losses.iter().map(|loss| loss.place.line).collect();
    assert_eq!(lines, [3, 5], "{:?}", imported.losses);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any text is translated or refused; what is written is TOML, and what is not known is listed.
    #[test]
    fn any_text_is_carried_over_or_listed(
        (kind, text) in prop_oneof![
            soup(Kind::Nginx).prop_map(|text| (Kind::Nginx, text)),
            soup(Kind::Caddy).prop_map(|text| (Kind::Caddy, text)),
            soup(Kind::Htaccess).prop_map(|text| (Kind::Htaccess, text)),
        ],
        closes in 0_usize..6,
    ) {
        // What was opened is mostly closed.
        let begin = if kind == Kind::Caddy { ":80 {\n" } else { "" };
        let end = if kind == Kind::Htaccess { String::new() } else { "\n}".repeat(closes) };
        let text = format!("{begin}{text}{end}");
        let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
        let Ok(imported) = import(kind, "f", &text, &wanted, &NoFiles) else { return Ok(()) };
        is_well_formed(&imported.text);
        for (number, line) in text.lines().enumerate() {
            if line.to_ascii_lowercase().starts_with("zzz") {
                // A block that is lost is listed with all that is in it.
                let opens = |line: usize| text.lines().nth(line - 1).is_some_and(|line| line.contains(['{', '<']));
                let is_of = |loss: &Loss| loss.place.line == number + 1 || loss.place.line <= number && opens(loss.place.line);
                let is_told = imported.losses.iter().any(is_of)
                    || imported.losses.iter().any(|loss| loss.is_refused)
                    || imported.idle.iter().any(|idle| idle.name.starts_with('<'))
                    // Outside of a block it is a site's address, as Caddy takes it too.
                    || imported.text.lines().any(|line| line.starts_with("names = ") && line.contains("zzz"))
                    || text.contains("@m {") || text.contains("basicauth {") || text.contains("internal");
                prop_assert!(is_told, "{}\n{}", line, text);
            }
        }
    }

    /// Nor does any other text harm.
    #[test]
    fn no_text_panics(text in "[ -~\n\t{}<>/$\\\\\"']{0,200}") {
        let wanted = Wanted { folder: "/srv".to_owned(), ..Wanted::default() };
        for kind in [Kind::Nginx, Kind::Caddy, Kind::Htaccess] {
            if let Ok(imported) = import(kind, "f", &text, &wanted, &NoFiles) {
                is_well_formed(&imported.text);
            }
        }
    }
}
