//! Where the routes of a host lead a plain request, for warnings.

use crate::http::request::{Method, Request};
use crate::http::target::Target;
use crate::routing::routes::condition::Scene;
use crate::routing::routes::mapping::Mapped;
use crate::routing::routes::scan::{self, End, NoTrace};
use crate::routing::rules::Rules;
use std::net::{IpAddr, Ipv4Addr};

/// Where routes send a client from a path of a name, or what path they lead to.
pub(super) enum Led {
    /// To this address, by the route of this number.
    Away(usize, Vec<u8>),
    /// To what the tables say of this path.
    Tables(Vec<u8>),
    /// To an answer of another kind.
    Nowhere,
}

/// What the routes of a host do with a plain GET from this machine.
pub(super) fn lead(rules: &Rules, host: u16, (is_secure, name, path): (bool, &str, &[u8])) -> Led {
    let request = Request { method: Method::Get, method_text: "GET", ..Request::empty() };
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let scene = Scene { request: &request, client, is_secure, host: name.as_bytes(), unix_s: 0 };
    let mut mapped = Mapped::default();
    let routes = &rules.hosts[usize::from(host)].routes;
    let asked = Target { path, query: b"" };
    let scanned = scan::scan(routes, &scene, &asked, &mut mapped, &mut NoTrace);
    match (scanned.end, scanned.by) {
        (End::Redirect(_, line) | End::Https(_, line), Some(by)) => Led::Away(by, line),
        (End::Tables, _) => Led::Tables(if scanned.is_mapped { mapped.path } else { path.to_vec() }),
        _ => Led::Nowhere,
    }
}
