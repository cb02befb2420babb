//! SOCKS 5: RFC 1928, and its login with user and password, RFC 1929.

use crate::reach::answer::{Answer, Credentials, Destination, Step};
use crate::reach::refusal::Refusal;
use std::net::IpAddr;

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
const NONE_ACCEPTED: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The ways of login that are offered, and the login itself.
pub(crate) fn beginning(credentials: Option<&Credentials>) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let Some(Credentials { user, password }) = credentials else {
        return Ok((vec![VERSION, 1, NO_LOGIN], Vec::new()));
    };
    let mut login = vec![LOGIN_VERSION];
    for text in [user, password] {
        login.push(length_of(text, "the user's name or the password")?);
        login.extend_from_slice(text.as_bytes());
    }
    Ok((vec![VERSION, 2, NO_LOGIN, LOGIN], login))
}

/// The request to connect.
pub(crate) fn connect(to: &Destination) -> Result<Vec<u8>, Refusal> {
    let mut request = vec![VERSION, CONNECT, 0];
    match to.address.or_else(|| to.host.parse().ok()) {
        Some(IpAddr::V4(address)) => {
            request.push(IPV4);
            request.extend_from_slice(&address.octets());
        }
        Some(IpAddr::V6(address)) => {
            request.push(IPV6);
            request.extend_from_slice(&address.octets());
        }
        None => {
            request.extend_from_slice(&[NAME, length_of(&to.host, "the host's name")?]);
            request.extend_from_slice(to.host.as_bytes());
        }
    }
    request.extend_from_slice(&to.port.to_be_bytes());
    Ok(request)
}

/// The way of login that the proxy has chosen.
pub(crate) fn method(input: &[u8], login_offered: bool) -> Result<Answer, Refusal> {
    of_version(input[0])?;
    match input.get(1) {
        None => Ok(Answer::Unfinished),
        Some(&NO_LOGIN) => Ok(Answer::Next { taken: 2, step: Step::Socks5Connect, login_passed_over: true }),
        Some(&LOGIN) if login_offered => {
            Ok(Answer::Next { taken: 2, step: Step::Socks5Login, login_passed_over: false })
        }
        Some(&NONE_ACCEPTED) => Err(Refusal::new("the proxy accepts no way of login that was offered")),
        Some(method) => Err(Refusal(format!("the proxy chose the way of login {method}, that was not offered"))),
    }
}

/// What the proxy says to user and password.
pub(crate) fn login(input: &[u8]) -> Result<Answer, Refusal> {
    match (input[0], input.get(1)) {
        (LOGIN_VERSION, None) => Ok(Answer::Unfinished),
        (LOGIN_VERSION, Some(0)) => Ok(Answer::Next { taken: 2, step: Step::Socks5Connect, login_passed_over: false }),
        (LOGIN_VERSION, Some(_)) => Err(Refusal::new("the proxy does not accept the user and password")),
        _ => Err(Refusal::new("the proxy's answer to the login is not SOCKS 5")),
    }
}

/// What the proxy says to the request to connect.
pub(crate) fn connected(input: &[u8]) -> Result<Answer, Refusal> {
    of_version(input[0])?;
    match input.get(1) {
        None => return Ok(Answer::Unfinished),
        Some(0) => {}
        Some(code) => return Err(Refusal(format!("the proxy answered: {}", meaning(*code)))),
    }
    // The address that the proxy has bound tells nothing that is wanted here, but ends the answer.
    let address_bytes = match (input.get(3), input.get(4)) {
        (None, _) | (Some(&NAME), None) => return Ok(Answer::Unfinished),
        (Some(&IPV4), _) => 4,
        (Some(&IPV6), _) => 16,
        (Some(&NAME), Some(length)) => 1 + usize::from(*length),
        _ => return Err(Refusal::new("the proxy's answer has an address of no known kind")),
    };
    let taken = 4 + address_bytes + 2;
    if input.len() < taken {
        Ok(Answer::Unfinished)
    } else {
        Ok(Answer::Next { taken, step: Step::Through, login_passed_over: false })
    }
}

fn of_version(byte: u8) -> Result<(), Refusal> {
    if byte == VERSION { Ok(()) } else { Err(Refusal::new("the proxy's answer is not SOCKS 5")) }
}

fn length_of(text: &str, what: &str) -> Result<u8, Refusal> {
    match u8::try_from(text.len()) {
        Ok(length) if length > 0 => Ok(length),
        _ => Err(Refusal(format!("{what} has none or more than 255 bytes, which SOCKS 5 cannot say"))),
    }
}

/// RFC 1928 6.
fn meaning(code: u8) -> String {
    let words = match code {
        1 => "general failure",
        2 => "connection not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => return format!("code {code}"),
    };
    format!("{words} (code {code})")
}
