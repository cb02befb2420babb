//! What proxies answer, and how they and other places are named.

use crate::Choices;
use weir_load::reach::dialogue::{Destination, Dialogue, Language};
use weir_load::reach::{Credentials, Pin, Place, Proxy, Resolved};
use weir_load::{Request, Url};
use weir_measure::objective::Objective;

/// Reads any bytes as the answers of a proxy: whether it lets us through does not depend on the pieces that they come in.
pub fn proxy_answer(input: &[u8]) {
    let mut choices = Choices(input);
    let (how, mut splits) = (choices.byte(), choices.word());
    let whole = through(choices.0, how, || usize::MAX);
    let pieces = through(choices.0, how, || {
        splits = splits.rotate_left(5);
        1 + (splits % 16) as usize
    });
    // A proxy that speaks out of turn is found out only where all of its bytes come at once.
    assert!(whole.is_none() || whole == pieces);
}

/// Whether the proxy lets us through; `None` where it refuses.
fn through(input: &[u8], how: u8, mut piece: impl FnMut() -> usize) -> Option<bool> {
    let language = [Language::HttpConnect, Language::Socks5, Language::Socks4][usize::from(how & 3) % 3];
    let to = Destination { host: "h.test".into(), port: 443, address: None };
    let who = Credentials { user: "me".into(), password: "pw".into() };
    let mut dialogue = Dialogue::new(language, &to, (how & 4 != 0).then_some(&who)).expect("it can be said");
    let mut at = 0;
    while at < input.len() {
        let count = dialogue.to_send().len();
        dialogue.sent(count);
        let end = at + piece().min(input.len() - at);
        dialogue.receive(&input[at..end]).ok()?;
        at = end;
    }
    Some(dialogue.is_through())
}

/// Reads any text as a proxy's URL, a place and told addresses: what is read is written the same way again.
pub fn places(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(proxy) = text.parse::<Proxy>() {
        let again: Proxy = proxy.to_string().parse().expect("what was written");
        assert_eq!((again.kind, again.host, again.port), (proxy.kind, proxy.host, proxy.port));
    }
    if let Ok(place) = text.parse::<Place>() {
        assert!(!place.host.is_empty() && place.port > 0);
    }
    if let Ok(resolved) = text.parse::<Resolved>() {
        assert!(!resolved.addresses.is_empty());
    }
}

/// Reads any text as the pin of a public key, as an objective and as a header: what is read is
/// within its bounds, and a pin is written so that it is read as the same.
pub fn pins_and_objectives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(pin) = text.parse::<Pin>() {
        assert_eq!(pin.to_string().parse(), Ok(pin));
    }
    if let Ok(objective) = text.parse::<Objective>() {
        let allowed = objective.allowed();
        assert!(allowed > 0.0 && allowed < 1.0, "{text}: {allowed}");
        if let Objective::Latency { limit_ns, .. } = objective {
            assert!((1..=1_000_000_000_000_000).contains(&limit_ns), "{text}");
        }
    }
    if let Ok(header) = Request::header(text) {
        let url = Url::parse("http://localhost/").expect("a URL");
        let request = Request { headers: vec![header], ..Request::default() };
        if let Ok(bytes) = request.bytes(&url, true) {
            // One line of its own at most, whether it replaces another or is added.
            let head = String::from_utf8_lossy(&bytes);
            assert!(head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1, "{head:?}");
            assert!(head.lines().count() <= 6, "{head:?}");
        }
    }
}
