//! SOCKS 4, which knows IPv4 addresses, and its extension 4a, which knows names.

use crate::reach::answer::{Answer, Credentials, Destination, Step};
use crate::reach::refusal::Refusal;
use std::net::{IpAddr, Ipv4Addr};

const VERSION: u8 = 4;
const CONNECT: u8 = 1;
/// The address by which 4a says that a name follows.
const NAME_FOLLOWS: Ipv4Addr = Ipv4Addr::new(0, 0, 0, 1);
const ANSWER_BYTES: usize = 8;

/// The request to connect.
pub(crate) fn connect(to: &Destination, credentials: Option<&Credentials>) -> Result<Vec<u8>, Refusal> {
    let (address, name) = match to.address.or_else(|| to.host.parse().ok()) {
        Some(IpAddr::V4(address)) => (address, None),
        Some(IpAddr::V6(_)) => return Err(Refusal::new("SOCKS 4 knows IPv4 addresses only; use socks5://")),
        None => (NAME_FOLLOWS, Some(to.host.as_str())),
    };
    let user = credentials.map_or("", |credentials| credentials.user.as_str());
    if user.contains('\0') || name.is_some_and(|name| name.contains('\0')) {
        return Err(Refusal::new("a name has a NUL in it, which SOCKS 4 cannot say"));
    }
    let mut request = vec![VERSION, CONNECT];
    request.extend_from_slice(&to.port.to_be_bytes());
    request.extend_from_slice(&address.octets());
    for text in [Some(user), name].into_iter().flatten() {
        request.extend_from_slice(text.as_bytes());
        request.push(0);
    }
    Ok(request)
}

/// What the proxy says to it.
pub(crate) fn connected(input: &[u8]) -> Result<Answer, Refusal> {
    if input[0] != 0 {
        return Err(Refusal::new("the proxy's answer is not SOCKS 4"));
    }
    if input.len() < ANSWER_BYTES {
        return Ok(Answer::Unfinished);
    }
    let why = match input[1] {
        90 => return Ok(Answer::Next { taken: ANSWER_BYTES, step: Step::Through, login_passed_over: false }),
        91 => "request rejected or failed",
        92 => "request rejected: it cannot reach identd here",
        93 => "request rejected: identd here says another user",
        code => return Err(Refusal(format!("the proxy answered: code {code}"))),
    };
    Err(Refusal(format!("the proxy answered: {why} (code {})", input[1])))
}
