//! The variables of a request (RFC 3875 section 4.1, and those that programs of PHP and Python expect besides).

use super::fields::{Use, push_name, use_of};
use super::script::{Script, Unsendable};
use super::settings::{Gateway, Split};
use crate::counters::php_watch::id_text;
use crate::http::target::authority_of;
use crate::upstream::http1::digits;
use crate::upstream::message::Outgoing;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;

/// Fields of a request that are looked at; with more the request is refused. HTTP/2 has up to 5 besides those that the
/// server's own bound counts.
const FIELDS_MAX: usize = 128;
/// SERVER_SOFTWARE.
const SOFTWARE: &[u8] = b"weir";
/// SERVER_NAME of a request without a host over a socket without an address.
const NO_NAME: &[u8] = b"localhost";

/// How a protocol writes variables: [`begin`](Self::begin), bytes of the name, [`value`](Self::value), bytes of the
/// value, [`end`](Self::end). The bytes go straight to the memory that the request is written to.
pub(crate) trait Variables {
    /// Where bytes of names and values go.
    fn out(&mut self) -> &mut Vec<u8>;
    /// A name begins.
    fn begin(&mut self);
    /// The name has ended, the value begins.
    fn value(&mut self);
    /// The value has ended.
    fn end(&mut self);
    /// Takes back what was written since [`begin`](Self::begin).
    fn cancel(&mut self);

    /// A whole variable.
    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.begin();
        self.out().extend_from_slice(name);
        self.value();
        self.out().extend_from_slice(value);
        self.end();
    }
}

/// Writes all variables but CONTENT_LENGTH, whose place differs from protocol to protocol.
pub(crate) fn write(
    outgoing: &Outgoing<'_>,
    gateway: &Gateway,
    script: &Script<'_>,
    to: &mut impl Variables,
) -> Result<(), Unsendable> {
    let mut writer = Writer { params: &gateway.params, to };
    writer.of_path(gateway, script);
    writer.of_request(outgoing, script.query);
    writer.of_connection(outgoing);
    writer.of_fields(outgoing, gateway.passes_authorization)?;
    for (name, value) in &gateway.params {
        writer.to.add(name.as_bytes(), value.as_bytes());
    }
    Ok(())
}

/// Leaves the variables away that the configuration says itself.
struct Writer<'w, V> {
    params: &'w [(String, String)],
    to: &'w mut V,
}

impl<V: Variables> Writer<'_, V> {
    #[inline]
    fn is_free(&self, name: &[u8]) -> bool {
        self.params.iter().all(|(param, _)| param.as_bytes() != name)
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.is_free(name) {
            self.to.add(name, value);
        }
    }

    /// A variable whose value `write` appends.
    #[inline]
    fn add_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_free(name) {
            self.to.begin();
            self.to.out().extend_from_slice(name);
            self.to.value();
            write(self.to.out());
            self.to.end();
        }
    }

    fn add_number(&mut self, name: &[u8], number: u16) {
        self.add_with(name, |out| digits::decimal(u64::from(number), out));
    }

    fn add_address(&mut self, name: &[u8], address: IpAddr) {
        self.add_with(name, |out| digits::address(address, out));
    }

    fn of_path(&mut self, gateway: &Gateway, script: &Script<'_>) {
        let root = gateway.root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let below_root = |path: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(root);
            out.extend_from_slice(path);
        };
        let alias = script.name.len().min(gateway.alias_bytes);
        if !matches!(gateway.split, Split::Application { .. }) {
            self.add_with(b"SCRIPT_FILENAME", |out| below_root(&script.name[alias..], out));
            // php-cgi takes a request only with this one, so that it is not run by its own URL.
            self.add(b"REDIRECT_STATUS", b"200");
            if !script.info.is_empty() {
                self.add_with(b"PATH_TRANSLATED", |out| below_root(script.info, out));
            }
        }
        self.add(b"SCRIPT_NAME", script.name);
        self.add(b"PATH_INFO", script.info);
        self.add_with(b"DOCUMENT_URI", |out| {
            out.extend_from_slice(script.name);
            out.extend_from_slice(script.info);
        });
        self.add(b"DOCUMENT_ROOT", if root.is_empty() { b"/" } else { root });
    }

    fn of_request(&mut self, outgoing: &Outgoing<'_>, query: &[u8]) {
        let head = &outgoing.head;
        self.add(b"REQUEST_METHOD", head.method().as_bytes());
        self.add(b"QUERY_STRING", query);
        self.add(b"REQUEST_URI", origin_form(head.target().as_bytes()));
        let protocol: &[u8] = match head.version() {
            10 => b"HTTP/1.0",
            11 => b"HTTP/1.1",
            20 => b"HTTP/2.0",
            _ => b"HTTP/3.0",
        };
        self.add(b"SERVER_PROTOCOL", protocol);
        self.add(b"GATEWAY_INTERFACE", b"CGI/1.1");
        self.add(b"SERVER_SOFTWARE", SOFTWARE);
        if let Some(user) = outgoing.user {
            self.add(b"REMOTE_USER", user.as_bytes());
            self.add(b"AUTH_TYPE", b"Basic");
        }
        if head.is_secure() {
            self.add(b"REQUEST_SCHEME", b"https");
            self.add(b"HTTPS", b"on");
        } else {
            self.add(b"REQUEST_SCHEME", b"http");
        }
        if let Some(certificate) = head.request.certificate {
            certificate.variables().for_each(|(name, value)| self.add(name.as_bytes(), value.as_bytes()));
        }
        if let Some(id) = outgoing.request_id {
            self.add(b"REQUEST_ID", id_text(id).as_bytes());
        }
        if let Some(identity) = head.arm {
            // As mod_arm has it: the correlator in hexadecimal digits.
            self.add_with(b"ARM_CORRELATOR", |out| digits::of_bytes(&identity.correlator(), out));
        }
    }

    fn of_connection(&mut self, outgoing: &Outgoing<'_>) {
        let host = host_of(outgoing);
        if let Some(host) = host {
            self.add(b"HTTP_HOST", host);
        }
        match (host.map(without_port).filter(|name| !name.is_empty()), outgoing.local) {
            (Some(name), _) => self.add(b"SERVER_NAME", name),
            (None, Some(local)) => self.add_address(b"SERVER_NAME", local.ip()),
            (None, None) => self.add(b"SERVER_NAME", NO_NAME),
        }
        match outgoing.local {
            Some(local) => {
                self.add_address(b"SERVER_ADDR", local.ip());
                self.add_number(b"SERVER_PORT", local.port());
            }
            None => self.add_number(b"SERVER_PORT", if outgoing.head.is_secure() { 443 } else { 80 }),
        }
        self.add_address(b"REMOTE_ADDR", outgoing.client);
        if outgoing.client_port != 0 {
            self.add_number(b"REMOTE_PORT", outgoing.client_port);
        }
    }

    /// Writes the fields of the head, each name once, in the order of their first lines.
    fn of_fields(&mut self, outgoing: &Outgoing<'_>, passes_authorization: bool) -> Result<(), Unsendable> {
        let mut fields = [const { MaybeUninit::<(&str, &[u8])>::uninit() }; FIELDS_MAX];
        let mut count = 0;
        for field in outgoing.head.fields() {
            fields.get_mut(count).ok_or(Unsendable::TooLarge)?.write(field);
            count += 1;
        }
        // SAFETY: the first `count` of them were written, and what may be uninitialised has the layout of what is not.
        let fields = unsafe { std::slice::from_raw_parts(fields.as_ptr().cast::<(&str, &[u8])>(), count) };
        // A bit for each field that an earlier one of its name has taken along.
        let mut joined: u128 = 0;
        let mut content_type: Option<&[u8]> = None;
        for (at, &(name, value)) in fields.iter().enumerate() {
            if joined >> at & 1 == 1 {
                continue;
            }
            let joint = match use_of(name, outgoing.user.is_some() && !passes_authorization) {
                Use::Variable { joint } => joint,
                Use::ContentType => {
                    content_type = content_type.or(Some(value));
                    continue;
                }
                Use::Left => continue,
            };
            self.to.begin();
            let start = self.to.out().len();
            self.to.out().extend_from_slice(b"HTTP_");
            if !push_name(name, self.to.out()) || !self.is_free_from(start) {
                self.to.cancel();
                continue;
            }
            self.to.value();
            self.to.out().extend_from_slice(value);
            for (further, &(other, value)) in fields.iter().enumerate().skip(at + 1) {
                if other.len() == name.len() && other.eq_ignore_ascii_case(name) {
                    joined |= 1 << further;
                    self.to.out().extend_from_slice(joint);
                    self.to.out().extend_from_slice(value);
                }
            }
            self.to.end();
        }
        if let Some(value) = content_type {
            self.add(b"CONTENT_TYPE", value);
        }
        Ok(())
    }

    /// Whether the configuration does not say the variable whose name begins at this byte of what was written.
    fn is_free_from(&mut self, start: usize) -> bool {
        let name = &self.to.out()[start..];
        self.params.iter().all(|(param, _)| param.as_bytes() != name)
    }
}

/// The host that was asked for: that of an absolute target (RFC 9112 section 3.2.2) or that of the field.
fn host_of<'r>(outgoing: &Outgoing<'r>) -> Option<&'r [u8]> {
    let target: &'r [u8] = outgoing.head.target().as_bytes();
    let absolute = if target.first() == Some(&b'/') { None } else { authority_of(target) };
    absolute.or(outgoing.head.request.host)
}

/// A target without scheme and host.
fn origin_form(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let Some(authority) = authority_of(target) else { return target };
    // Behind the scheme, its colon and two slashes.
    let scheme = memchr::memchr(b':', target).map_or(0, |colon| colon + 3);
    match target.get(scheme + authority.len()..) {
        Some(rest) if rest.first() == Some(&b'/') => rest,
        _ => b"/",
    }
}

/// A host that was checked, without its port; an IPv6 address keeps its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let from = memchr::memchr(b']', host).unwrap_or(0);
    memchr::memchr(b':', &host[from..]).map_or(host, |colon| &host[..from + colon])
}

/// Requests for the tests of all gateways.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::exchange::application::RequestHead;
    use crate::http::limits::Limits;
    use crate::http::parse::parse;
    use crate::http::request::{AllFields, Head, Request};

    /// Parses a head, which a test has written well.
    pub(crate) fn request(head: &[u8]) -> Request<'_> {
        match parse(head, &Limits::default()) {
            Head::Complete(mut request, _) => {
                request.all = AllFields::Head(head);
                request
            }
            other => panic!("{other:?}"),
        }
    }

    /// The request of a client that is none of the network.
    pub(crate) fn outgoing<'r>(request: &'r Request<'r>) -> Outgoing<'r> {
        let client = IpAddr::from([192, 0, 2, 1]);
        let head = RequestHead {
            request,
            client,
            peer: client,
            is_secure: false,
            socket: None,
            ends: None,
            user: None,
            arm: None,
        };
        let local = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 8080)));
        Outgoing { head, target: request.target, client, client_port: 4711, local, user: None, request_id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{outgoing, request};
    use super::*;
    use crate::upstream::gateway::script::{Scratch, find};
    use std::collections::BTreeMap;

    /// Lines of names and values.
    #[derive(Default)]
    struct Lines(Vec<u8>, usize);

    impl Variables for Lines {
        fn out(&mut self) -> &mut Vec<u8> {
            &mut self.0
        }
        fn begin(&mut self) {
            self.1 = self.0.len();
        }
        fn value(&mut self) {
            self.0.push(b'=');
        }
        fn end(&mut self) {
            self.0.push(b'\n');
        }
        fn cancel(&mut self) {
            self.0.truncate(self.1);
        }
    }

    fn variables(outgoing: &Outgoing<'_>, gateway: &Gateway) -> BTreeMap<String, String> {
        let (mut scratch, mut lines) = (Scratch::default(), Lines::default());
        let script = find(outgoing.target, gateway, &mut |_| true, &mut scratch).expect("a script");
        write(outgoing, gateway, &script, &mut lines).expect("is written");
        let text = String::from_utf8(lines.0).expect("UTF-8");
        let mut variables = BTreeMap::new();
        for line in text.lines() {
            let (name, value) = line.split_once('=').expect("a variable");
            assert_eq!(variables.insert(name.to_owned(), value.to_owned()), None, "{name} twice");
        }
        variables
    }

    const HEAD: &[u8] = b"POST /dir/a.php/x%20y?q=1 HTTP/1.1\r\nHost: Example.org:8080\r\nContent-Type: text/plain\r\n\
        Content-Length: 5\r\nAccept: a\r\nX_Odd: 1\r\nX.Odd: 2\r\nX-Odd: 3\r\nProxy: evil\r\nCookie: a=1\r\naccept: b\r\n\
        Cookie: b=2\r\nConnection: keep-alive\r\nAuthorization: Basic eDp5\r\nEmpty:\r\n\r\n";

    #[test]
    fn a_request_has_the_variables_of_cgi() {
        let request = request(HEAD);
        let variables = variables(&outgoing(&request), &Gateway::php("/srv/www/".into()));
        let expected = [
            ("AUTH_TYPE", None),
            ("CONTENT_LENGTH", None),
            ("CONTENT_TYPE", Some("text/plain")),
            ("DOCUMENT_ROOT", Some("/srv/www")),
            ("DOCUMENT_URI", Some("/dir/a.php/x y")),
            ("GATEWAY_INTERFACE", Some("CGI/1.1")),
            ("HTTPS", None),
            ("HTTP_ACCEPT", Some("a, b")),
            ("HTTP_AUTHORIZATION", Some("Basic eDp5")),
            ("HTTP_CONNECTION", None),
            ("HTTP_COOKIE", Some("a=1; b=2")),
            ("HTTP_EMPTY", Some("")),
            ("HTTP_HOST", Some("Example.org:8080")),
            ("HTTP_PROXY", None),
            ("HTTP_X_ODD", Some("3")),
            ("PATH_INFO", Some("/x y")),
            ("PATH_TRANSLATED", Some("/srv/www/x y")),
            ("QUERY_STRING", Some("q=1")),
            ("REDIRECT_STATUS", Some("200")),
            ("REMOTE_ADDR", Some("192.0.2.1")),
            ("REMOTE_PORT", Some("4711")),
            ("REMOTE_USER", None),
            ("REQUEST_METHOD", Some("POST")),
            ("REQUEST_SCHEME", Some("http")),
            ("REQUEST_URI", Some("/dir/a.php/x%20y?q=1")),
            ("SCRIPT_FILENAME", Some("/srv/www/dir/a.php")),
            ("SCRIPT_NAME", Some("/dir/a.php")),
            ("SERVER_ADDR", Some("127.0.0.1")),
            ("SERVER_NAME", Some("Example.org")),
            ("SERVER_PORT", Some("8080")),
            ("SERVER_PROTOCOL", Some("HTTP/1.1")),
            ("SERVER_SOFTWARE", Some("weir")),
        ];
        for (name, value) in expected {
            assert_eq!(variables.get(name).map(String::as_str), value, "{name}");
        }
        assert_eq!(variables.len(), expected.iter().filter(|(_, value)| value.is_some()).count());
    }

    #[test]
    fn a_checked_password_stays_with_the_server() {
        let request = request(HEAD);
        let mut outgoing = outgoing(&request);
        (outgoing.user, outgoing.head.is_secure, outgoing.local) = (Some("ada"), true, None);
        outgoing.client = "::ffff:192.0.2.7".parse().expect("an address");
        let variables = variables(&outgoing, &Gateway::application("/".into(), "/dir".to_owned()));
        for (name, value) in [
            ("REMOTE_USER", "ada"),
            ("AUTH_TYPE", "Basic"),
            ("HTTPS", "on"),
            ("REQUEST_SCHEME", "https"),
            ("SERVER_PORT", "443"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("SCRIPT_NAME", "/dir"),
            ("PATH_INFO", "/a.php/x y"),
            ("DOCUMENT_ROOT", "/"),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
        for name in ["HTTP_AUTHORIZATION", "SCRIPT_FILENAME", "PATH_TRANSLATED", "SERVER_ADDR", "REDIRECT_STATUS"] {
            assert_eq!(variables.get(name), None, "{name}");
        }
    }

    #[test]
    fn a_program_gets_the_correlator_of_the_server_and_not_that_of_a_client() {
        let request =
            request(b"GET /dir/a HTTP/1.1\r\nHost: a\r\nARM-Correlator: 00ff\r\nARM_CORRELATOR: 00fe\r\n\r\n");
        let mut outgoing = outgoing(&request);
        let gateway = Gateway::application("/".into(), "/dir".to_owned());
        assert_eq!(variables(&outgoing, &gateway).get("ARM_CORRELATOR"), None);
        let format = weir_arm::Identity::FORMAT;
        outgoing.head.arm = Some(weir_arm::Identity { trace: [1, 2], span: 0xab, flags: 1, format });
        let found = variables(&outgoing, &gateway);
        let digits = found.get("ARM_CORRELATOR").expect("it is there");
        assert!(
            digits.len() == 56 && digits.starts_with("001cd740") && digits.ends_with("00000000000000ab"),
            "{digits}"
        );
    }

    #[test]
    fn a_rewritten_target_and_params_win() {
        let request = request(b"GET http://other.org/nice/name?a HTTP/1.1\r\nHost: example.org\r\nX-Own: 1\r\n\r\n");
        let mut outgoing = outgoing(&request);
        outgoing.target = "/index.php?b";
        let mut gateway = Gateway::php("/srv".into());
        for (name, value) in [("HTTPS", "on"), ("SCRIPT_FILENAME", "/other/index.php"), ("HTTP_X_OWN", "2")] {
            gateway.params.push((name.to_owned(), value.to_owned()));
        }
        let variables = variables(&outgoing, &gateway);
        for (name, value) in [
            ("REQUEST_URI", "/nice/name?a"),
            ("SCRIPT_NAME", "/index.php"),
            ("QUERY_STRING", "b"),
            ("HTTP_HOST", "other.org"),
            ("SERVER_NAME", "other.org"),
            ("HTTPS", "on"),
            ("SCRIPT_FILENAME", "/other/index.php"),
            ("HTTP_X_OWN", "2"),
            ("PATH_INFO", ""),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn hosts_and_targets_are_taken_apart() {
        assert_eq!(without_port(b"[::1]:80"), b"[::1]");
        assert_eq!(without_port(b"[::1]"), b"[::1]");
        assert_eq!(without_port(b"a:"), b"a");
        assert_eq!(without_port(b"a"), b"a");
        assert_eq!(without_port(b""), b"");
        assert_eq!(origin_form(b"https://a:1/x?y"), b"/x?y");
        assert_eq!(origin_form(b"http://a"), b"/");
        assert_eq!(origin_form(b"http://a?x"), b"/");
        assert_eq!(origin_form(b"*"), b"*");
    }
}
