//! The scan of a host's routes.

use super::condition::Scene;
use super::mapping::{Mapped, Unmapped};
use super::route::{Act, Failed, Route};
use crate::http::target::{self, Target};

/// Is told what a scan does, one route after the other.
pub(crate) trait Trace {
    /// A route does not hold.
    fn failed(&mut self, route: usize, why: Failed<'_>, scene: &Scene<'_>, now: &Target<'_>);
    /// A route holds.
    fn holds(&mut self, route: usize);
    /// It has put another path in place of the one before.
    fn mapped(&mut self, route: usize, now: &Target<'_>);
    /// It has looked for a file.
    fn tried(&mut self, route: usize, path: &[u8], is_there: bool);
}

/// Is told nothing, and costs nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoTrace;

impl Trace for NoTrace {
    #[inline(always)]
    fn failed(&mut self, _: usize, _: Failed<'_>, _: &Scene<'_>, _: &Target<'_>) {}
    #[inline(always)]
    fn holds(&mut self, _: usize) {}
    #[inline(always)]
    fn mapped(&mut self, _: usize, _: &Target<'_>) {}
    #[inline(always)]
    fn tried(&mut self, _: usize, _: &[u8], _: bool) {}
}

/// How a scan ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The tables decide.
    Tables,
    /// The client is sent elsewhere: a status, and the line of the head that says where.
    Redirect(u16, Vec<u8>),
    /// The same to this address over TLS, for which no password is asked in the clear.
    Https(u16, Vec<u8>),
    /// The request is refused.
    Fail(u16),
    /// The directory of a user answers: the number of its site, and the bytes of the path that stand for it.
    User { site: usize, mount_bytes: usize },
    /// A script in the directory of a user answers, by the number of its upstream.
    UserScript { upstream: usize },
    /// One of several files answers; which is not known yet.
    Try,
}

/// What came of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) end: End,
    /// The route that ended it.
    pub(crate) by: Option<usize>,
    /// The path and query are those of [`Mapped`].
    pub(crate) is_mapped: bool,
    /// Routes that set fields, a bit each.
    pub(crate) sets: u128,
    /// Routes of whose conditions caches must know.
    pub(crate) varies: u128,
}

/// Looks at the routes in their order, until one ends the scan. The path as it was asked for is `asked`; where a route
/// puts another in its place, it is in `mapped`.
pub(crate) fn scan(
    routes: &[Route],
    scene: &Scene<'_>,
    asked: &Target<'_>,
    mapped: &mut Mapped,
    trace: &mut impl Trace,
) -> Scanned {
    let mut scanned = Scanned { end: End::Tables, by: None, is_mapped: false, sets: 0, varies: 0 };
    let mut spare = Mapped::default();
    for (number, route) in routes.iter().enumerate() {
        let now = if scanned.is_mapped { mapped.target() } else { Target { ..*asked } };
        let (failed, varies) = route.failed(scene, &now);
        scanned.varies |= u128::from(varies) << number;
        if let Some(why) = failed {
            trace.failed(number, why, scene, &now);
            continue;
        }
        trace.holds(number);
        scanned.sets |= u128::from(route.sets_fields) << number;
        if let Act::Map(mapping) = &route.act {
            let outcome = mapping.render(&route.values(scene, &now, mapping.has_captures()), &mut spare);
            match outcome {
                Ok(()) => {
                    trace.mapped(number, &spare.target());
                    std::mem::swap(mapped, &mut spare);
                    scanned.is_mapped = true;
                    continue;
                }
                Err(why) => scanned.end = End::Fail(status_of(why)),
            }
        } else if let Some(end) = end(route, scene, asked, &now) {
            scanned.end = end;
        } else {
            continue;
        }
        scanned.by = Some(number);
        break;
    }
    scanned
}

/// The status for a path that cannot be made.
pub(crate) fn status_of(why: Unmapped) -> u16 {
    match why {
        Unmapped::Malformed => 400,
        Unmapped::TooLong => 414,
    }
}

/// How a route that holds ends the scan; none if it goes on.
fn end(route: &Route, scene: &Scene<'_>, asked: &Target<'_>, now: &Target<'_>) -> Option<End> {
    Some(match &route.act {
        Act::Set | Act::Map(_) => return None,
        Act::Pass => End::Tables,
        Act::Fail(status) => End::Fail(*status),
        Act::Try(_) => End::Try,
        Act::Redirect { status, to } => {
            let line = to.render(&route.values(scene, now, to.has_captures()));
            line.map_or(End::Fail(414), |line| End::Redirect(*status, line))
        }
        // There is no address to send the client to.
        Act::Https { .. } if scene.host.is_empty() => End::Fail(400),
        Act::Https { status, port } => {
            let mut line = [b"Location: https://", scene.host].concat();
            if let Some(port) = port {
                line.extend_from_slice(format!(":{port}").as_bytes());
            }
            target::encode(asked.path, &mut line);
            line.extend_from_slice(asked.query);
            line.extend_from_slice(b"\r\n");
            End::Https(*status, line)
        }
        Act::User { sites } => {
            let end = now.path.iter().skip(1).position(|byte| *byte == b'/').map_or(now.path.len(), |at| at + 1);
            let name = now.path.get(2..end).unwrap_or_default();
            match sites.get(name) {
                None => End::Fail(404),
                Some(user) => match user.upstream(now.path, end) {
                    Some(upstream) => End::UserScript { upstream },
                    None => End::User { site: user.site, mount_bytes: end },
                },
            }
        }
    })
}

impl Mapped {
    /// What it is the path and query of.
    pub(crate) fn target(&self) -> Target<'_> {
        Target { path: &self.path, query: &self.query }
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition::{Condition, Wanted};
    use super::super::hours::Hours;
    use super::super::location::Location;
    use super::super::mapping::Mapping;
    use super::super::path_test::PathTest;
    use super::super::route::UserSite;
    use super::super::text_glob::TextGlob;
    use super::*;
    use crate::http::limits::Limits;
    use crate::http::parse;
    use crate::http::request::{AllFields, Head, Request};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn route(path: Option<PathTest>, conditions: Vec<Condition>, act: Act) -> Route {
        let vary = Route::vary_of(&conditions);
        Route { path, conditions, act, sets_fields: false, statuses: Vec::new(), vary, line: 0 }
    }

    fn prefix(text: &str) -> Option<PathTest> {
        Some(PathTest::Prefix(text.to_owned()))
    }

    fn map(path: &str, to: &str) -> Route {
        let test = prefix(path);
        let mapping = Mapping::read(to, test.as_ref()).expect("well-formed");
        route(test, Vec::new(), Act::Map(mapping))
    }

    fn redirect(path: &str, to: &str) -> Route {
        let test = prefix(path);
        let to = Location::read(to, test.as_ref()).expect("well-formed");
        route(test, Vec::new(), Act::Redirect { status: 302, to })
    }

    /// Takes note of everything.
    #[derive(Default)]
    struct All(Vec<String>);

    impl Trace for All {
        fn failed(&mut self, route: usize, why: Failed<'_>, scene: &Scene<'_>, now: &Target<'_>) {
            if let Failed::Condition(condition) = why {
                self.0.push(format!("{route} {condition}: {}", condition.actual(scene, now.path, now.query)));
            }
        }
        fn holds(&mut self, route: usize) {
            self.0.push(format!("{route} holds"));
        }
        fn mapped(&mut self, route: usize, now: &Target<'_>) {
            self.0.push(format!("{route} {}", String::from_utf8_lossy(now.path)));
        }
        fn tried(&mut self, _: usize, _: &[u8], _: bool) {}
    }

    fn run(routes: &[Route], head: &str, is_secure: bool) -> (Scanned, String, Vec<String>) {
        let Head::Complete(mut request, _) = parse::parse(head.as_bytes(), &Limits::default()) else {
            panic!("no request: {head}")
        };
        request.all = AllFields::Head(head.as_bytes());
        let scene = Scene {
            request: &request,
            client: "10.1.2.3".parse().expect("an address"),
            is_secure,
            host: b"a.org",
            // Thursday, 12:00 UTC.
            unix_s: 1_795_651_200 + 12 * 3600,
        };
        let mut decoded = Vec::new();
        let asked = target::resolve(request.target, true, &mut decoded).expect("resolves");
        let (mut mapped, mut trace) = (Mapped::default(), All::default());
        let scanned = scan(routes, &scene, &asked, &mut mapped, &mut trace);
        let mut again = Mapped::default();
        assert_eq!(scan(routes, &scene, &asked, &mut again, &mut NoTrace), scanned);
        let now = if scanned.is_mapped { mapped.target() } else { asked };
        let text = [now.path, now.query].concat();
        (scanned, String::from_utf8_lossy(&text).into_owned(), trace.0)
    }

    fn get(target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: a.org\r\n\r\n")
    }

    #[test]
    fn routes_act_in_their_order() {
        let routes = [
            map("/a", "/b/$1"),
            route(prefix("/b/open"), Vec::new(), Act::Pass),
            route(prefix("/b"), Vec::new(), Act::Fail(403)),
            redirect("/c", "/d/$1$query"),
            map("/d", "/../../etc".strip_prefix("/../..").expect("a prefix")),
        ];
        let line = |text: &str| format!("Location: {text}\r\n").into_bytes();
        for (target, end, by, now) in [
            ("/a/open/x?q", End::Tables, Some(1), "/b/open/x?q"),
            ("/a/x", End::Fail(403), Some(2), "/b/x"),
            ("/b/open", End::Tables, Some(1), "/b/open"),
            ("/c/x?q", End::Redirect(302, line("/d/x?q")), Some(3), "/c/x?q"),
            ("/d/x", End::Tables, None, "/etc"),
            ("/x", End::Tables, None, "/x"),
        ] {
            let (scanned, path, _) = run(&routes, &get(target), false);
            assert_eq!((scanned.end, scanned.by, path.as_str()), (end, by, now), "{target}");
        }
    }

    #[test]
    fn https_keeps_all_and_never_loops() {
        let routes = [map("/a", "/b"), route(None, Vec::new(), Act::Https { status: 308, port: Some(8443) })];
        let (scanned, ..) = run(&routes, &get("/a/x%20y?q=1"), false);
        assert_eq!(scanned.end, End::Https(308, b"Location: https://a.org:8443/a/x%20y?q=1\r\n".to_vec()));
        assert_eq!(run(&routes, &get("/a"), true).0.end, End::Tables);
    }

    #[test]
    fn users_have_directories() {
        let user = |site, scripts| UserSite { site, scripts };
        let sites = HashMap::from([(b"anna".to_vec(), user(7, None)), (b"bert".to_vec(), user(8, Some(9)))]);
        let routes = [route(None, Vec::new(), Act::User { sites })];
        for (target, end) in [
            ("/~anna/x", End::User { site: 7, mount_bytes: 6 }),
            ("/~anna", End::User { site: 7, mount_bytes: 6 }),
            ("/~anna/cgi-bin/x", End::User { site: 7, mount_bytes: 6 }),
            ("/~bert/x", End::User { site: 8, mount_bytes: 6 }),
            ("/~bert/cgi-bin", End::User { site: 8, mount_bytes: 6 }),
            ("/~bert/cgi-binx/y", End::User { site: 8, mount_bytes: 6 }),
            ("/~bert/cgi-bin/x", End::UserScript { upstream: 9 }),
            ("/~bert/cgi%2Dbin//x", End::UserScript { upstream: 9 }),
            ("/~root/x", End::Fail(404)),
            ("/~", End::Fail(404)),
            ("/anna", End::Tables),
        ] {
            assert_eq!(run(&routes, &get(target), false).0.end, end, "{target}");
        }
    }

    #[test]
    fn every_condition_has_to_hold() {
        let like = |text: &str| Wanted::Like(TextGlob::new(text, true).expect("small"));
        let head =
            "POST /x?a=1&b HTTP/1.1\r\nHost: a.org\r\nX-A: 1\r\nx-a: 2\r\nCookie: c=3\r\nContent-Length: 0\r\n\r\n";
        let networks = |text: &str| vec![text.parse().expect("a network")];
        for (condition, expected, actual) in [
            (Condition::Method(vec!["GET".to_owned()]), false, "POST"),
            (Condition::Method(vec!["GET".to_owned(), "POST".to_owned()]), true, ""),
            (Condition::Secure(true), false, "http"),
            (Condition::Host(vec![TextGlob::new("*.org", false).expect("small")]), true, ""),
            (Condition::Host(vec![TextGlob::new("b.org", false).expect("small")]), false, "\"a.org\""),
            (Condition::Address(networks("10.0.0.0/8")), true, ""),
            (Condition::Address(networks("11.0.0.0/8")), false, "10.1.2.3"),
            (Condition::Header("X-A".to_owned(), like("2")), true, ""),
            (Condition::Header("X-A".to_owned(), like("3")), false, "\"1\", \"2\""),
            (Condition::Header("X-A".to_owned(), Wanted::Absent), false, "\"1\", \"2\""),
            (Condition::Header("X-B".to_owned(), Wanted::Absent), true, ""),
            (Condition::Header("X-B".to_owned(), Wanted::Present), false, "none"),
            (Condition::Cookie("c".to_owned(), like("3")), true, ""),
            (Condition::Cookie("d".to_owned(), Wanted::Present), false, "none"),
            (Condition::Query("b".to_owned(), Wanted::Present), true, ""),
            (Condition::Query("a".to_owned(), like("2")), false, "\"1\""),
            (Condition::Time(vec![Hours::read("Thu 11:00-13:00").expect("hours")]), true, ""),
            (Condition::Time(vec![Hours::read("Fri").expect("hours")]), false, "Thu 12:00"),
            (Condition::Not(vec![Condition::Secure(false), Condition::Path(prefix("/y").expect("one"))]), true, ""),
            (Condition::Not(vec![Condition::Secure(false)]), false, "all of that holds"),
        ] {
            let text = condition.to_string();
            let routes = [route(None, vec![Condition::Secure(false), condition], Act::Fail(410))];
            let (scanned, _, trace) = run(&routes, head, false);
            assert_eq!(scanned.end == End::Fail(410), expected, "{text}");
            let told = if expected { "0 holds".to_owned() } else { format!("0 {text}: {actual}") };
            assert_eq!(trace, [told], "{text}");
            assert_eq!(scanned.varies == 1, text.starts_with("header") || text.starts_with("cookie"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_target_ends_well(target in "/[ -~]{0,30}", is_secure: bool) {
            let routes = [
                map("/a", "/$1"),
                route(Some(PathTest::glob("/*.*/**").expect("small")), Vec::new(),
                    Act::Map(Mapping::read("/$3/$1", Some(&PathTest::glob("/*.*/**").expect("small"))).expect("good"))),
                redirect("/b", "/$1"),
                route(prefix("/s"), Vec::new(), Act::Https { status: 301, port: None }),
            ];
            let request = Request { target: &target, ..Request::empty() };
            let client = "::1".parse().expect("an address");
            let scene = Scene { request: &request, client, is_secure, host: b"a.org", unix_s: 0 };
            let mut decoded = Vec::new();
            let Ok(asked) = target::resolve(&target, true, &mut decoded) else { return Ok(()) };
            let (mut mapped, mut again) = (Mapped::default(), Mapped::default());
            let scanned = scan(&routes, &scene, &asked, &mut mapped, &mut NoTrace);
            prop_assert_eq!(&scan(&routes, &scene, &asked, &mut again, &mut All::default()), &scanned);
            if scanned.is_mapped {
                let mut normal = Vec::new();
                prop_assert!(target::normalise(&mapped.path, &mut normal).is_ok());
                prop_assert_eq!(&normal, &mapped.path);
            }
            if let End::Redirect(_, line) | End::Https(_, line) = &scanned.end {
                let inner = line.strip_suffix(b"\r\n").expect("a line");
                prop_assert!(!inner.iter().any(u8::is_ascii_control));
                prop_assert!(!inner.starts_with(b"Location: //"));
            }
        }
    }
}
