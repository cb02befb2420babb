//! Networks, and the proxies that are believed what they say of clients.

use super::table::{Table, Value};
use crate::config::options::Options;
use crate::http::access::Network;
use crate::http::client_address::{ClientField, NETWORKS_MAX, TrustedProxies};
use crate::io::listen::ListenAddr;

/// The networks of a list; `all` stands for every address.
pub(super) fn read(value: &Value<'_, '_>) -> Vec<Network> {
    let items = value.strings();
    let read = items.iter().flat_map(|item| match item.text() {
        "all" => vec!["0.0.0.0/0".parse(), "::/0".parse()].into_iter().flatten().collect(),
        text => {
            let network = text.parse::<Network>();
            if network.is_err() {
                item.wrong(
                    format!("\"{text}\" is no network"),
                    "write an address, a network such as 10.0.0.0/8 without bits beyond it, or all",
                );
            }
            network.into_iter().collect::<Vec<_>>()
        }
    });
    read.collect()
}

/// `trusted_proxies`: networks, or a table of them and of the field that they write.
pub(super) fn trusted_proxies(table: &Table<'_, '_>) -> TrustedProxies {
    let mut trusted = TrustedProxies::default();
    let Some(value) = table.get("trusted_proxies") else { return trusted };
    if value.is_table() {
        let Some(own) = value.table("trusted_proxies") else { return trusted };
        match own.get("networks") {
            Some(value) => trusted.networks = read(&value),
            None => own.wrong("it does not say which proxies", "add networks = [\"10.0.0.0/8\"]"),
        }
        if let Some(field) = own.get("field") {
            match field.string() {
                Some("x-forwarded-for") => trusted.field = ClientField::XForwardedFor,
                Some("forwarded") => trusted.field = ClientField::Forwarded,
                Some(other) => field.wrong(
                    format!("\"{other}\" is no field that says where a client is"),
                    "write \"x-forwarded-for\" or \"forwarded\"",
                ),
                None => {}
            }
        }
        own.finish();
    } else {
        trusted.networks = read(&value);
    }
    if value.is_text() && value.text() == "all" || trusted.networks.iter().any(|network| network.is_everything()) {
        value.doubt("every client is believed what it says of its address", "name the networks of your proxies only");
    }
    if trusted.networks.len() > NETWORKS_MAX {
        value.wrong(
            format!("there are {} networks", trusted.networks.len()),
            format!("at most {NETWORKS_MAX} are possible"),
        );
        trusted.networks.truncate(NETWORKS_MAX);
    }
    trusted
}

/// `proxy_protocol`: true for all addresses of TCP, or some of them.
pub(super) fn proxy_protocol(table: &Table<'_, '_>, options: &mut Options) {
    let Some(value) = table.get("proxy_protocol") else { return };
    let listened: Vec<ListenAddr> = options.listen.iter().chain(&options.listen_clear).cloned().collect();
    if value.is_text() || value.is_list() {
        for item in value.strings() {
            match item.text().parse::<ListenAddr>() {
                Ok(address) if listened.contains(&address) => options.proxy_protocol.push(address),
                Ok(address) => {
                    item.wrong(format!("{address} is not listened on"), "write one of `listen` or `listen_clear`");
                }
                Err(error) => item.wrong(error.to_string(), "write one of `listen` or `listen_clear`"),
            }
        }
    } else if value.boolean() == Some(true) {
        options.proxy_protocol = listened;
    }
    let is_open = options.proxy_protocol.iter().any(|address| !matches!(address, ListenAddr::Unix(_)));
    if is_open && table.get("trusted_proxies").is_none() {
        value.doubt(
            "every client that reaches these addresses says what its address is",
            "add trusted_proxies = [\"NETWORK\"]: connections from elsewhere are refused then",
        );
    }
}
