//! What HTTP/3 does not offer is refused in words.

use std::time::Duration;
use weir_load::sessions::{Session, Sessions};
use weir_load::{Io, Options, Protocol, Url, Version};

fn refusal(change: impl FnOnce(&mut Options)) -> String {
    let mut options = Options::new(Url::parse("https://h/").expect("a URL"));
    options.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every: None };
    change(&mut options);
    options.check().err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn what_it_does_not_offer_is_refused() {
    assert_eq!(refusal(|_| {}), "");
    type Case = (&'static str, fn(&mut Options));
    let http3 = |streams, early_data, migrate_every| Protocol::Http3 { streams, early_data, migrate_every };
    let cases: [Case; 12] = [
        ("always encrypted", |options| options.url = Url::parse("http://h/").expect("a URL")),
        ("--unix", |options| options.reach.unix = Some("/run/s".into())),
        ("--proxy", |options| options.reach.proxy = Some("socks5://h:1".parse().expect("a proxy"))),
        ("TLS 1.3 only", |options| options.reach.tls.version = Some(weir_load::reach::TlsVersion::Tls12)),
        ("--sessions", |options| {
            options.requests.sessions = Some(Sessions { list: vec![Session::new().burst(&[0])], seed: 1 });
        }),
        ("io_uring", |options| options.io = Io::Uring),
        ("no pipeline", |options| options.pipeline = 2),
        ("HTTP/1.0", |options| options.request.version = Version::Http10),
        ("word for word", |options| options.verbatim = Some(b"GET / HTTP/1.1\r\n\r\n".to_vec())),
        ("h3", |options| options.reach.tls.alpn = vec![b"h2".to_vec()]),
        ("reset by its socket", |options| options.sockets.reset = true),
        ("one stream", |options| {
            options.keep_alive = false;
            options.protocol = Protocol::Http3 { streams: 2, early_data: false, migrate_every: None };
        }),
    ];
    for (words, change) in cases {
        assert!(refusal(change).contains(words), "{words}: {}", refusal(change));
    }
    assert!(refusal(|options| options.protocol = http3(0, false, None)).contains("between 1 and 10000"));
    assert!(refusal(|options| options.protocol = http3(1, true, None)).contains("--resume"));
    let often = Some(Duration::from_millis(50));
    assert!(refusal(|options| options.protocol = http3(1, false, often)).contains("100 ms"));
    let once = |options: &mut Options| {
        options.keep_alive = false;
        options.protocol =
            Protocol::Http3 { streams: 1, early_data: false, migrate_every: Some(Duration::from_secs(1)) };
    };
    assert!(refusal(once).contains("--migrate-every"));
}
