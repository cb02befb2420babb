//! The options of curl, by curl(1) of 8.14, and what each means for a scenario.

/// What an option means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    Method,
    Header,
    Data,
    DataRaw,
    DataBinary,
    DataUrlencode,
    Json,
    Form,
    FormString,
    User,
    Bearer,
    Cookie,
    Agent,
    Referer,
    Location,
    RedirectsMax,
    Get,
    Head,
    Upload,
    Url,
    UrlQuery,
    Compressed,
    Range,
    TimeMax,
    /// Braces and brackets of an address are letters.
    NoGlob,
    /// The next request has options of its own.
    Next,
    /// It changes nothing of a request.
    Idle,
    /// The request is made without it: what to do instead.
    Lost(&'static str),
    /// The request cannot be made without it.
    Needed(&'static str),
}

/// An option: its long name, its letter, whether a value follows, and what it means.
pub(super) struct Known {
    pub(super) long: &'static str,
    pub(super) letter: Option<char>,
    pub(super) has_value: bool,
    pub(super) means: Means,
}

const fn with(long: &'static str, letter: char, means: Means) -> Known {
    Known { long, letter: if letter == ' ' { None } else { Some(letter) }, has_value: true, means }
}

const fn flag(long: &'static str, letter: char, means: Means) -> Known {
    Known { long, letter: if letter == ' ' { None } else { Some(letter) }, has_value: false, means }
}

const VERSIONS: &str = "a scenario goes over HTTP/1.1; weir load has --http2 and --http3";
const AUTH: &str = "this authentication needs an answer of the server first; write a header of its own";
const CERTIFICATE: &str = "a scenario has no client certificates; weir load has --cert";

/// What changes nothing of a request: output, retries of the connection's making, and curl's own ways.
const IDLE_FLAGS: &[(&str, char)] = &[
    ("silent", 's'),
    ("show-error", 'S'),
    ("verbose", 'v'),
    ("include", 'i'),
    ("show-headers", ' '),
    ("remote-name", 'O'),
    ("remote-header-name", 'J'),
    ("remote-name-all", ' '),
    ("fail", 'f'),
    ("fail-early", ' '),
    ("fail-with-body", ' '),
    ("no-buffer", 'N'),
    ("progress-bar", '#'),
    ("progress-meter", ' '),
    ("parallel", 'Z'),
    ("parallel-immediate", ' '),
    ("create-dirs", ' '),
    ("tcp-nodelay", ' '),
    ("tcp-fastopen", ' '),
    ("keepalive", ' '),
    ("no-keepalive", ' '),
    ("http1.1", ' '),
    ("ipv4", '4'),
    ("ipv6", '6'),
    ("styled-output", ' '),
    ("basic", ' '),
    ("path-as-is", ' '),
    ("disable", 'q'),
    ("junk-session-cookies", 'j'),
    ("tlsv1.2", ' '),
    ("tlsv1.3", ' '),
    ("tlsv1", '1'),
    ("ssl-no-revoke", ' '),
    ("xattr", ' '),
    ("raw", ' '),
    ("tr-encoding", ' '),
    ("no-clobber", ' '),
    ("sessionid", ' '),
    ("no-sessionid", ' '),
    ("alpn", ' '),
    ("no-alpn", ' '),
    ("trace-time", ' '),
    ("trace-ids", ' '),
];
const IDLE_VALUES: &[(&str, char)] = &[
    ("output", 'o'),
    ("output-dir", ' '),
    ("write-out", 'w'),
    ("dump-header", 'D'),
    ("stderr", ' '),
    ("trace", ' '),
    ("trace-ascii", ' '),
    ("cookie-jar", 'c'),
    ("connect-timeout", ' '),
    ("keepalive-time", ' '),
    ("parallel-max", ' '),
    ("max-filesize", ' '),
    ("etag-save", ' '),
    ("happy-eyeballs-timeout-ms", ' '),
    ("expect100-timeout", ' '),
];

const OPTIONS: &[Known] = &[
    with("request", 'X', Means::Method),
    with("header", 'H', Means::Header),
    with("data", 'd', Means::Data),
    with("data-ascii", ' ', Means::Data),
    with("data-raw", ' ', Means::DataRaw),
    with("data-binary", ' ', Means::DataBinary),
    with("data-urlencode", ' ', Means::DataUrlencode),
    with("json", ' ', Means::Json),
    with("form", 'F', Means::Form),
    with("form-string", ' ', Means::FormString),
    with("user", 'u', Means::User),
    with("oauth2-bearer", ' ', Means::Bearer),
    with("cookie", 'b', Means::Cookie),
    with("user-agent", 'A', Means::Agent),
    with("referer", 'e', Means::Referer),
    flag("location", 'L', Means::Location),
    flag(
        "location-trusted",
        ' ',
        Means::Lost("a scenario sends no credentials to another host; it follows as -L does"),
    ),
    with("max-redirs", ' ', Means::RedirectsMax),
    flag("get", 'G', Means::Get),
    flag("head", 'I', Means::Head),
    with("upload-file", 'T', Means::Upload),
    with("url", ' ', Means::Url),
    with("url-query", ' ', Means::UrlQuery),
    flag("compressed", ' ', Means::Compressed),
    with("range", 'r', Means::Range),
    with("max-time", 'm', Means::TimeMax),
    flag("globoff", 'g', Means::NoGlob),
    flag("next", ':', Means::Next),
    flag("insecure", 'k', Means::Lost("add --insecure where the scenario is run")),
    with("cacert", ' ', Means::Lost("add --ca FILE where the scenario is run")),
    with("resolve", ' ', Means::Lost("add --resolve where the scenario is run")),
    with("connect-to", ' ', Means::Lost("add --connect-to HOST:PORT where the scenario is run")),
    with("proxy", 'x', Means::Lost("a scenario goes to the server itself; weir load has --proxy")),
    with("preproxy", ' ', Means::Lost("a scenario goes to the server itself; weir load has --proxy")),
    with("socks5", ' ', Means::Lost("a scenario goes to the server itself; weir load has --proxy")),
    with("socks5-hostname", ' ', Means::Lost("a scenario goes to the server itself; weir load has --proxy")),
    with("proxy-user", 'U', Means::Lost("a scenario goes to the server itself; weir load has --proxy")),
    with("noproxy", ' ', Means::Idle),
    with("interface", ' ', Means::Lost("a scenario takes the address that the system gives; weir load has --source")),
    with("unix-socket", ' ', Means::Needed("a scenario goes over TCP; weir load has --unix")),
    with("abstract-unix-socket", ' ', Means::Needed("a scenario goes over TCP; weir load has --unix")),
    with("cert", 'E', Means::Lost(CERTIFICATE)),
    with("key", ' ', Means::Lost(CERTIFICATE)),
    with("cert-type", ' ', Means::Lost(CERTIFICATE)),
    with("key-type", ' ', Means::Lost(CERTIFICATE)),
    with("pass", ' ', Means::Lost(CERTIFICATE)),
    with("pinnedpubkey", ' ', Means::Lost("a scenario looks at no key; weir load has --pin")),
    with("ciphers", ' ', Means::Lost("a scenario takes any cipher; weir load has --ciphers")),
    with("limit-rate", ' ', Means::Lost("a scenario reads as fast as it can; weir load has --limit-read")),
    with("rate", ' ', Means::Lost("write rate = \"...\" into the scenario")),
    with("retry", ' ', Means::Lost("a scenario sends a request once, and counts what failed")),
    with("retry-delay", ' ', Means::Lost("a scenario sends a request once, and counts what failed")),
    with("retry-max-time", ' ', Means::Lost("a scenario sends a request once, and counts what failed")),
    flag("retry-connrefused", ' ', Means::Lost("a scenario sends a request once, and counts what failed")),
    flag("retry-all-errors", ' ', Means::Lost("a scenario sends a request once, and counts what failed")),
    flag("http1.0", '0', Means::Lost(VERSIONS)),
    flag("http2", ' ', Means::Lost(VERSIONS)),
    flag("http2-prior-knowledge", ' ', Means::Lost(VERSIONS)),
    flag("http3", ' ', Means::Lost(VERSIONS)),
    flag("http3-only", ' ', Means::Lost(VERSIONS)),
    flag("http0.9", ' ', Means::Lost(VERSIONS)),
    flag("post301", ' ', Means::Lost("a scenario goes on with GET, as browsers do")),
    flag("post302", ' ', Means::Lost("a scenario goes on with GET, as browsers do")),
    flag("post303", ' ', Means::Lost("a scenario goes on with GET, as browsers do")),
    flag("digest", ' ', Means::Needed(AUTH)),
    flag("ntlm", ' ', Means::Needed(AUTH)),
    flag("negotiate", ' ', Means::Needed(AUTH)),
    flag("anyauth", ' ', Means::Needed(AUTH)),
    with("aws-sigv4", ' ', Means::Needed(AUTH)),
    flag("netrc", 'n', Means::Needed("give the name and password by -u")),
    flag("netrc-optional", ' ', Means::Needed("give the name and password by -u")),
    with("netrc-file", ' ', Means::Needed("give the name and password by -u")),
    with("config", 'K', Means::Needed("write the options of that file into the command line")),
    with("request-target", ' ', Means::Needed("write that target into the address")),
    with("continue-at", 'C', Means::Needed("give --range")),
    with("time-cond", 'z', Means::Needed("write the header If-Modified-Since")),
    with("etag-compare", ' ', Means::Needed("write the header If-None-Match")),
];

/// The option of a long name.
pub(super) fn by_name(name: &str) -> Option<(bool, Means)> {
    let own = OPTIONS.iter().find(|option| option.long == name).map(|option| (option.has_value, option.means));
    let idle = |list: &[(&str, char)]| list.iter().any(|(long, _)| *long == name);
    own.or_else(|| idle(IDLE_FLAGS).then_some((false, Means::Idle)))
        .or_else(|| idle(IDLE_VALUES).then_some((true, Means::Idle)))
}

/// The option of a letter, with its long name.
pub(super) fn by_letter(letter: char) -> Option<(&'static str, bool, Means)> {
    let own = OPTIONS.iter().find(|option| option.letter == Some(letter));
    let own = own.map(|option| (option.long, option.has_value, option.means));
    let idle = |list: &[(&'static str, char)]| {
        list.iter().find(|(_, own)| *own == letter && letter != ' ').map(|(long, _)| *long)
    };
    own.or_else(|| idle(IDLE_FLAGS).map(|long| (long, false, Means::Idle)))
        .or_else(|| idle(IDLE_VALUES).map(|long| (long, true, Means::Idle)))
}

/// All long names, for the nearest of one that is unknown.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let idle = IDLE_FLAGS.iter().chain(IDLE_VALUES).map(|(long, _)| *long);
    OPTIONS.iter().map(|option| option.long).chain(idle)
}
