//! Specifications against real servers.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_session::client::{Client, Trust};
use weir_session::runner::{Outcome, run};
use weir_session::{interpret, report, specification};
use weir_testkit::{Apache, Certificate, Nginx, PhpFpm, RunningServer, Site, require};

fn run_with(source: &str, trust: &Trust, folder: &Path) -> Vec<Outcome> {
    let specification = specification::parse(source, &|_| None).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let suite = interpret::suite(&specification, folder).unwrap_or_else(|error| panic!("{error}\n{source}"));
    run(&suite, &Client::new(trust).expect("a client"), &mut |_| {})
}

fn run_text(source: &str) -> Vec<Outcome> {
    run_with(source, &Trust::System, Path::new("."))
}

/// Asserts that each test has failed as often as said.
fn failed(outcomes: &[Outcome], counts: &[usize]) {
    let found: Vec<usize> = outcomes.iter().map(|outcome| outcome.count(false)).collect();
    assert_eq!(found, counts, "{}", report::text(outcomes));
}

/// Pages that answer to forms, cookies and passwords.
const PHP: &[(&str, &str)] = &[
    (
        "form.php",
        r#"<html><body><a href="count.php">Count <b>on</b> me</a>
<form name="login" action="echo.php" method="post"><input type="hidden" name="token" value="t0&quot;ken">
<input name="user" value="guest"><input type="submit" name="go" value="Sign in"></form></body></html>"#,
    ),
    (
        "echo.php",
        r#"<?php header('Content-Type: text/plain'); echo $_SERVER['REQUEST_METHOD'], "\n"; ksort($_REQUEST);
foreach ($_REQUEST as $k => $v) { echo "$k=[$v]\n"; }
foreach ($_FILES as $k => $f) { echo "$k=", $f['name'], ':', file_get_contents($f['tmp_name']), "\n"; }
foreach (['HTTP_USER_AGENT', 'HTTP_X_ONE', 'HTTP_AUTHORIZATION', 'HTTP_ACCEPT_ENCODING'] as $k)
  { echo $k, '=', isset($_SERVER[$k]) ? $_SERVER[$k] : '-', "\n"; }"#,
    ),
    (
        "count.php",
        r#"<?php $n = isset($_COOKIE['n']) ? $_COOKIE['n'] + 1 : 1; setcookie('n', $n); header('Content-Type: text/html');
echo "<p>visit $n</p>";"#,
    ),
    (
        "hop.php",
        r#"<?php $n = (int) $_GET['n']; $code = isset($_GET['code']) ? (int) $_GET['code'] : 302; setcookie("hop$n", 'yes');
header('Location: ' . ($n ? "hop.php?n=" . ($n - 1) : 'echo.php'), true, $code);"#,
    ),
    ("slow.php", "<?php usleep(300000); echo 'late';"),
];

/// Apache with PHP and these pages.
fn php() -> Option<(Site, weir_testkit::RunningBackend, RunningServer)> {
    require::php_fpm()?;
    require::apache_module("proxy_fcgi")?;
    let site = Site::sample().expect("a site");
    for (name, text) in PHP {
        fs::write(site.path().join(name), text).expect("a page");
    }
    let php = PhpFpm::new().start().expect("php-fpm starts");
    let apache = Apache::event()
        .root(site.path())
        .php_fpm(&php)
        .directive("<Location \"/\">\nCGIPassAuth On\n</Location>")
        .start();
    Some((site, php, apache.expect("Apache starts")))
}

#[test]
fn each_check_passes_and_fails_where_it_should() {
    if require::nginx().is_none() {
        return;
    }
    let site = Site::sample().expect("a site");
    fs::write(site.path().join("page.html"), "<html>Hello World 42</html>\n").expect("a page");
    let server = Nginx::new().root(site.path()).start().expect("nginx starts");
    let url = server.url("/page.html");
    let outcomes = run_text(&format!(
        "test_name = as it should be\n url = {url}\n text_require = ( Hello\n World )\n text_forbid = ( hello )\n\
         regex_require = ( '\\d+</html>$' )\n regex_forbid = ( World \\d{{3}} )\n min_bytes = 28\n max_bytes = 28\n\
         min_rtime = 0\n max_rtime = 60\nend_test\n\
         test_name = none of it\n url = {url}\n status_code = 404\n text_require = ( hello )\n text_forbid = ( Hello )\n\
         regex_require = ( \\d{{3}} )\n regex_forbid = ( \\d\\d )\n min_bytes = 29\n max_bytes = 27\n min_rtime = 60\n\
         max_rtime = 0\nend_test\n\
         test_name = in any case\n url = {url}\n ignore_case = yes\n text_require = ( hello )\n\
         regex_require = ( wORLD )\n text_forbid = ( WORLD )\nend_test\n\
         test_name = not there\n url = {}\n status_code = 404\nend_test\n",
        server.url("/absent.html")
    ));
    failed(&outcomes, &[0, 9, 1, 0]);
    assert_eq!(outcomes[0].count(true), 10);
}

#[test]
fn forms_files_headers_and_passwords_reach_php() {
    let Some((site, _php, server)) = php() else { return };
    fs::write(site.path().join("up.txt"), "uploaded").expect("a file");
    let url = server.url("/echo.php");
    let outcomes = run_with(
        &format!(
            "http_headers = ( X-One => 1 )\n\
             test_name = get\n url = {url}?a=b\n params = ( c => 'd e' f => ä&= )\n user_agent = Tester/1\n\
             auth = ( me\n secret )\n text_require = ( GET\n a=[b]\n c=[d e]\n f=[ä&=]\n HTTP_USER_AGENT=Tester/1\n\
             HTTP_X_ONE=1\n 'HTTP_AUTHORIZATION=Basic bWU6c2VjcmV0'\n HTTP_ACCEPT_ENCODING=identity )\nend_test\n\
             test_name = post\n url = {url}\n method = post\n params = ( c => 'd e' )\n text_require = ( POST\n c=[d e]\n\
             HTTP_AUTHORIZATION=- )\nend_test\n\
             test_name = upload\n url = {url}\n method = post\n params = ( a => b\n f => ( up.txt\n told.txt ) )\n\
             text_require = ( a=[b]\n f=told.txt:uploaded )\nend_test\n\
             test_name = other methods\n url = {url}\n method = delete\n text_require = ( DELETE )\nend_test\n"
        ),
        &Trust::System,
        site.path(),
    );
    failed(&outcomes, &[0, 0, 0, 0]);
}

#[test]
fn cookies_and_redirects_are_those_of_a_browser() {
    let Some((_site, _php, server)) = php() else { return };
    let (count, hop) = (server.url("/count.php"), server.url("/hop.php"));
    let visit = |n: u32, more: &str| {
        format!("test_name = visit {n}\n url = {count}\n text_require = ( visit {n} )\n {more}\nend_test\n")
    };
    let outcomes = run_text(
        &[
            visit(1, ""),
            visit(2, ""),
            visit(1, "send_cookies = no\n accept_cookies = no"),
            visit(3, "accept_cookies = no"),
            visit(3, ""),
            visit(8, "cookies = ( ( name => n\n value => 7 ) )"),
            visit(5, "cookies = ( ( 0\n n\n 4\n /\n 127.0.0.1\n '' ) )\n send_cookies = yes"),
        ]
        .concat(),
    );
    failed(&outcomes, &[0; 7]);

    let outcomes = run_text(&format!(
        "test_name = followed\n url = {hop}?n=3\n text_require = ( GET\n hop3=[yes]\n hop0=[yes] )\nend_test\n\
         test_name = posted once\n url = {hop}?n=0&code=302\n method = post\n params = ( a => b )\n\
         text_require = ( GET )\n text_forbid = ( a=[b] )\nend_test\n\
         test_name = posted again\n url = {hop}?n=0&code=307\n method = post\n params = ( a => b )\n\
         text_require = ( POST\n a=[b] )\nend_test\n\
         test_name = not followed\n url = {hop}?n=0\n handle_redirects = no\n status_code = 302\nend_test\n\
         test_name = without an end\n url = {hop}?n=50\nend_test\n"
    ));
    failed(&outcomes, &[0, 0, 0, 0, 1]);
    assert!(outcomes[4].error.as_ref().is_some_and(|error| error.contains("more than 10 redirects")));
}

#[test]
fn links_buttons_and_forms_are_clicked() {
    let Some((_site, _php, server)) = php() else { return };
    let form = server.url("/form.php");
    let open = format!("test_name = open\n url = {form}\nend_test\n");
    let outcomes = run_text(&[
        &*open,
        "test_name = link\n click_link = count on\n text_require = ( visit 1 )\nend_test\n",
        &open,
        // As the original has it: only what is given is sent, by the method that is given.
        "test_name = button\n click_button = sign\n method = post\n params = ( user => me )\n\
         text_require = ( POST\n user=[me] )\n text_forbid = ( token )\nend_test\n",
        &open,
        "test_name = as a browser\n click_button = sign\n form_fields = yes\n params = ( user => me )\n\
         text_require = ( POST\n user=[me]\n 'token=[t0\"ken]'\n go=[Sign in] )\nend_test\n",
        &open,
        "test_name = by name\n form_name = login\n form_fields = yes\n text_require = ( user=[guest] )\n\
         text_forbid = ( go= )\nend_test\n",
        "test_name = not a page\n click_link = x\nend_test\n",
        &open,
        "test_name = not there\n click_link = nowhere\nend_test\n",
        "test_name = next to the page before\n relative_urls = yes\n url = count.php\n status_code = 200\nend_test\n",
    ]
    .concat());
    failed(&outcomes, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1]);
    assert!(outcomes[8].error.as_ref().is_some_and(|error| error.contains("text/plain")));
    let error = outcomes[10].error.as_ref().expect("an error");
    assert!(error.contains("`nowhere`") && error.contains("`Count on me`"), "{error}");
}

#[test]
fn times_are_measured_and_limited() {
    let Some((_site, _php, server)) = php() else { return };
    let slow = server.url("/slow.php");
    let outcomes = run_text(&format!(
        "test_name = late\n url = {slow}\n min_rtime = 0.3\n max_rtime = 20\nend_test\n\
         test_name = too late\n url = {slow}\n timeout = 0.1\nend_test\n\
         test_name = later\n url = {slow}\n delay = 0.2\n max_rtime = 0.2\nend_test\n"
    ));
    failed(&outcomes, &[0, 1, 1]);
    assert!(outcomes[0].seconds >= 0.3);
    assert_eq!(outcomes[1].error.as_deref(), Some("no whole response within 0.1 s"));
}

#[test]
fn certificates_are_believed_as_told() {
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("a certificate");
    let server = Nginx::new().tls(&certificate).start().expect("nginx starts");
    let source = format!("test_name = a\n url = {}\nend_test\n", server.url("/1k.txt"));
    for (trust, passes) in
        [(Trust::System, false), (Trust::File(certificate.certificate().to_owned()), true), (Trust::Anything, true)]
    {
        let outcomes = run_with(&source, &trust, Path::new("."));
        assert_eq!(outcomes[0].count(false) == 0, passes, "{trust:?}: {:?}", outcomes[0].error);
    }
}

#[test]
fn a_proxy_is_asked_with_its_password() {
    if require::nginx().is_none() || require::apache_module("proxy_connect").is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let log = tempfile::NamedTempFile::new().expect("a log");
    let proxy = Apache::event().module("proxy").module("proxy_http").module("proxy_connect");
    let ports =
        format!("ProxyRequests On\nAllowCONNECT {}\nLogFormat \"%m %U %{{Proxy-Authorization}}i\" seen", server.port);
    let proxy = proxy.directive(&ports).directive(&format!("CustomLog \"{}\" seen", log.path().display()));
    let proxy = proxy.start().expect("Apache starts");
    let url = server.url("/1k.txt");
    let outcomes = run_text(&format!(
        "proxies = ( http => {} )\n pauth = ( me\n secret )\ntest_name = a\n url = {url}\n min_bytes = 1024\nend_test\n",
        proxy.url("/")
    ));
    failed(&outcomes, &[0]);
    // Apache writes the line when the tunnel has ended.
    let seen = || fs::read_to_string(log.path()).expect("the log");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !seen().contains("CONNECT") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = seen();
    assert!(seen.contains("CONNECT") && seen.contains("Basic bWU6c2VjcmV0"), "{seen}");
}

#[test]
fn local_files_need_no_server() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.html"), "<a href='b.html'>next</a>").expect("a file");
    fs::write(folder.path().join("b.html"), "the second").expect("a file");
    let outcomes = run_with(
        &format!(
            "test_name = a\n file_path = a.html\n text_require = ( next )\nend_test\n\
             test_name = b\n click_link = next\n text_require = ( second )\nend_test\n\
             test_name = c\n url = file://{}/b.html\n max_bytes = 10\nend_test\n\
             test_name = d\n file_path = absent\n status_code = 404\nend_test\n",
            folder.path().display()
        ),
        &Trust::System,
        folder.path(),
    );
    failed(&outcomes, &[0, 0, 0, 0]);
}

#[test]
fn without_a_response_nothing_is_as_expected() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    drop(listener);
    let outcomes = run_text(&format!(
        "test_name = a\n url = http://127.0.0.1:{port}/\n status_code = 500\n text_forbid = ( x )\nend_test\n"
    ));
    failed(&outcomes, &[2]);
    assert!(outcomes[0].error.as_ref().is_some_and(|error| error.contains("refused")));
}

#[test]
fn a_monkeywrench_session_clicks_through_a_site() {
    let Some((_site, _php, server)) = php() else { return };
    let (count, echo) = (server.url("/count.php"), server.url("/echo.php"));
    let source = format!(
        "my $s = [\n {{ name => 'first', url => '{count}', success_res => [qr/VISIT 1/i], error_res => ['visit 2'],\n\
         acceptcookie => 1 }},\n\
         {{ name => 'second', url => '{count}', success_res => ['visit 2'], sendcookie => 1 }},\n\
         {{ name => 'post', url => '{echo}', method => 'post', params => {{ a => 'b c' }}, auth => ['me', 'secret'],\n\
         cookies => [[0, 'n', '7', '/', '127.0.0.1', '{}', '', '', '', '']], sendcookie => 1,\n\
         success_res => ['a=[b c]', qr/^POST/, 'Basic bWU6c2VjcmV0'] }},\n\
         {{ name => 'sent', url => '{count}', success_res => ['visit 8'], sendcookie => 1 }} ];\n\
         my $t = [ {{ url => '{count}', sendcookie => 1, success_res => ['visit 1'], error_res => [qr/v.sit/] }} ];\n",
        server.port
    );
    let literals = weir_session::literal::parse(&source, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    let suite = weir_session::monkeywrench::suite_of_literals(&literals).unwrap_or_else(|error| panic!("{error}"));
    let outcomes = run(&suite, &Client::new(&Trust::System).expect("a client"), &mut |_| {});
    // The last session is another user, without the cookies of the first; what it forbids is there.
    failed(&outcomes, &[0, 0, 0, 0, 1]);
}
