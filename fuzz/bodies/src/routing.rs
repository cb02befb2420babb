//! Routes of a host, and the heads of requests that they look at.

use crate::Choices;
use crate::http::limits::Limits;
use crate::http::parse;
use crate::http::request::{AllFields, Head};
use crate::http::target::{self, Target};
use crate::routes::condition::{Condition, Scene, Wanted};
use crate::routes::hours::Hours;
use crate::routes::location::Location;
use crate::routes::mapping::{Mapped, Mapping};
use crate::routes::path_test::PathTest;
use crate::routes::route::{Act, Failed, Route, UserSite};
use crate::routes::scan::{End, NoTrace, Trace, scan};
use crate::routes::text_glob::TextGlob;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

thread_local! {
    static ROUTES: Vec<Route> = routes();
}

/// A few of each kind.
fn routes() -> Vec<Route> {
    let like = |text: &str| Wanted::Like(TextGlob::new(text, true).expect("small"));
    let prefix = |text: &str| Some(PathTest::Prefix(text.to_owned()));
    let map = |path: Option<PathTest>, to: &str| {
        let act = Act::Map(Mapping::read(to, path.as_ref()).expect("well-formed"));
        (path, Vec::new(), act)
    };
    let redirect = |path: Option<PathTest>, to: &str| {
        let to = Location::read(to, path.as_ref()).expect("well-formed");
        (path, Vec::new(), Act::Redirect { status: 302, to })
    };
    let named = |make: fn(String, Wanted) -> Condition, name: &str, wanted| make(name.to_owned(), wanted);
    let set = |condition| (None, vec![condition], Act::Set);
    let all = [
        set(named(Condition::Header, "X-A", like("a*b?"))),
        set(Condition::Not(vec![named(Condition::Cookie, "c", Wanted::Absent), Condition::Secure(true)])),
        set(named(Condition::Query, "q", like("*1*"))),
        set(Condition::Time(vec![Hours::read("Mon-Fri 22:00-06:00 +05:30").expect("hours")])),
        map(PathTest::regex("^/([^/]*)\\.(.*)$").ok(), "/$2/$1"),
        map(PathTest::glob("/*/~**"), "/~$2?of=$1&$args"),
        map(prefix("/a"), "/$rest"),
        (
            None,
            Vec::new(),
            Act::User { sites: HashMap::from([(b"anna".to_vec(), UserSite { site: 1, scripts: Some(9) })]) },
        ),
        redirect(PathTest::regex("(?s-u)^/r(.*)$").ok(), "/$1"),
        redirect(prefix("/s"), "https://$host/$1?x=$1$args#$path"),
        (prefix("/t"), Vec::new(), Act::Https { status: 308, port: Some(8443) }),
        (prefix("/p"), Vec::new(), Act::Pass),
    ];
    let route = |(path, conditions, act): (Option<PathTest>, Vec<Condition>, Act)| {
        let vary = Route::vary_of(&conditions);
        Route { path, conditions, act, sets_fields: true, statuses: Vec::new(), vary, line: 1 }
    };
    all.into_iter().map(route).collect()
}

/// Has everything that is told said in words.
struct Words(usize);

impl Trace for Words {
    fn failed(&mut self, _: usize, why: Failed<'_>, scene: &Scene<'_>, now: &Target<'_>) {
        if let Failed::Condition(condition) = why {
            let actual = condition.actual(scene, now.path, now.query);
            assert!(!actual.chars().any(char::is_control), "{actual:?}");
            self.0 += actual.len();
        }
    }

    fn holds(&mut self, _: usize) {}
    fn mapped(&mut self, _: usize, _: &Target<'_>) {}
    fn tried(&mut self, _: usize, _: &[u8], _: bool) {}
}

/// Has routes look at the head of a request: what comes of it stays in the grammar of paths and of heads, and is the
/// same whether it is told or not.
pub fn route(input: &[u8]) {
    let mut choices = Choices(input);
    let (flags, time) = (choices.byte(), choices.byte());
    let head = choices.0;
    let Head::Complete(mut request, bytes) = parse::parse(head, &Limits::default()) else { return };
    request.all = AllFields::Head(&head[..bytes]);
    let mut decoded = Vec::new();
    let Ok(asked) = target::resolve(request.target, true, &mut decoded) else { return };
    let scene = Scene {
        request: &request,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_secure: flags & 1 == 1,
        host: request.host.unwrap_or_default(),
        unix_s: u64::from(time) * 3600,
    };
    ROUTES.with(|routes| {
        let (mut mapped, mut again) = (Mapped::default(), Mapped::default());
        let scanned = scan(routes, &scene, &asked, &mut mapped, &mut NoTrace);
        assert_eq!(scan(routes, &scene, &asked, &mut again, &mut Words(0)), scanned);
        if scanned.is_mapped {
            let mut normal = Vec::new();
            target::normalise(&mapped.path, &mut normal).expect("it is a path");
            assert_eq!(normal, mapped.path);
            assert!(target::is_written(&mapped.query) && (mapped.query.is_empty() || mapped.query[0] == b'?'));
        }
        match scanned.end {
            End::Redirect(_, line) | End::Https(_, line) => {
                let address = line.strip_prefix(b"Location: ").and_then(|line| line.strip_suffix(b"\r\n"));
                let address = address.expect("one line");
                assert!(!address.iter().any(u8::is_ascii_control) && !address.starts_with(b"//"));
            }
            End::User { mount_bytes, .. } => assert!(mount_bytes == b"/~anna".len()),
            End::UserScript { upstream } => {
                let path = if scanned.is_mapped { &*mapped.path } else { asked.path };
                assert!(upstream == 9 && path.starts_with(b"/~anna/cgi-bin/"));
            }
            End::Tables | End::Fail(_) | End::Try => {}
        }
    });
}
