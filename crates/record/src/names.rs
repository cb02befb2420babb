//! Names of a load's requests in a run.

use std::collections::HashMap;
use weir_load::{Options, Request, Url};

/// The most names of requests in a run; each thread's stream has them all.
const NAMES_MAX: usize = 10_000;

/// Gives every request the number of its name, and returns the names: method and path, without queries.
pub(crate) fn number_names(options: &mut Options) -> Vec<String> {
    if let Some(names) = of_a_mix(options) {
        return names;
    }
    let several = options.requests.hosts().len() > 1;
    let name = |url: &Url, request: &Request| {
        let path = weir_terminal::privacy::without_query(&url.target);
        let host = if several { url.authority() } else { String::new() };
        format!("{} {host}{path}", request.method)
    };
    if options.requests.list.is_empty() {
        return vec![name(&options.url, &options.request)];
    }
    let (mut names, mut numbers) = (Vec::new(), HashMap::new());
    for listed in &mut options.requests.list {
        let name = name(&listed.url, &listed.request);
        listed.request.name = match numbers.get(&name) {
            Some(number) => *number,
            // What is beyond the bound shares the last name.
            None if names.len() == NAMES_MAX => NAMES_MAX as u32 - 1,
            None => {
                let number = names.len() as u32;
                names.push(if names.len() == NAMES_MAX - 1 { "(further requests)".to_owned() } else { name.clone() });
                numbers.insert(name, number);
                number
            }
        };
    }
    names
}

/// The names of a mix's requests in a run: one for each kind of file.
fn of_a_mix(options: &mut Options) -> Option<Vec<String>> {
    let files = &options.requests.mix.as_ref()?.files;
    let mut names = Vec::new();
    for (number, listed) in (0..).zip(&mut options.requests.list) {
        listed.request.name = number;
        names.push(format!("{} {} of {}", listed.request.method, files.kind_name(number), files.name()));
    }
    Some(names)
}
