//! What is fuzzed: a function for each parser, shared by the fuzz targets and the ordinary tests.
//!
//! Each takes any bytes and panics where the parser breaks a promise, not only where it panics itself.

mod acme;
mod activity;
mod adapt;
mod agent;
mod cache;
mod cluster;
mod comparison;
mod configuration;
mod console;
mod descriptions;
mod directory;
mod dropin;
mod exporters;
mod formats;
mod gateways;
mod handed_on;
mod imports;
mod isapi;
mod keeper;
mod load;
mod load_grpc;
mod load_streams;
mod load_workers;
mod mcp;
mod moved_sessions;
mod objects;
mod plan;
mod programs;
mod proxies;
mod proxy;
mod recording;
mod relayed;
mod requests;
mod routing;
mod scenario;
mod scripts;
mod server_http2;
mod server_http3;
mod sessions;
mod sound;
mod upstreams;
mod watching;

pub use acme::acme_message;
pub use activity::{activity_file, request_filter};
pub use adapt::{adapt_policy, adapt_readings};
pub use agent::{agent_lines, arm_memory};
pub use cache::cache_control;
pub use cluster::{cluster_certificate, cluster_events, cluster_gossip, cluster_join, cluster_message, cluster_names};
pub use comparison::{comparison_history, comparison_plan};
pub use configuration::{arm_directives, server_configuration, sql, weir_configuration};
pub use console::{console_admission, console_requests, load_now};
pub use descriptions::descriptions;
pub use directory::directory_manifest;
pub use dropin::dropin_arguments;
pub use exporters::exporter_answers;
pub use formats::{
    foreign_trace, line_forms, trace_chrome_json, trace_ctf, trace_jfr, trace_lines, trace_otlp, trace_perfetto,
};
pub use gateways::{cgi_response, fastcgi_response};
pub use handed_on::handed_on;
pub use imports::{caddyfile, htaccess, nginx_configuration};
pub use isapi::{isapi_head, isapi_variables};
pub use keeper::keeper_messages;
pub use load::{
    access_log, flash_crowd, load_gate, load_http3, nul_list, rate_profile, session_list, set_cookie, url_list,
};
pub use load_grpc::{load_grpc_messages, load_grpc_proto};
pub use load_streams::{load_events, load_websocket};
pub use load_workers::load_workers;
pub use mcp::mcp_messages;
pub use moved_sessions::moved_session;
pub use objects::objects_table;
pub use plan::{plan_policy, planned_log};
pub use programs::{containers, go_table, probe_notes, program, query_text, questions, stream_heads};
pub use proxies::{client_address, proxy_protocol};
pub use proxy::{pins_and_objectives, places, proxy_answer};
pub use recording::{bpf_expand, client_records, manifest, ring_consumer, segment_reader, sent_run, stack_records};
pub use relayed::relayed_response;
pub use requests::{
    accept_encoding, certificate_name, certificate_staple, certificate_validity, http_request, http_response,
    http2_frames, page_template, ranges, url, url_file,
};
pub use routing::route;
pub use scenario::scenario;
pub use scripts::{
    scripts_correlator, scripts_fastcgi, scripts_marks, scripts_remote, scripts_requests, scripts_status,
};
pub use server_http2::server_http2;
pub use server_http3::server_http3;
pub use sessions::{http_archive, monkeywrench_sessions, web_page, web_tests};
pub use sound::sound_frames;
pub use upstreams::{upstream_http2, upstream_response};
pub use watching::watch_filter;
pub use weir_k6::readers::read as k6_texts;

// The server keeps its parsers to itself, so they are compiled a second time, from the same files, in modules with the
// names that they have there.
#[allow(unreachable_pub, reason = "the server's crate shows some of it")]
#[path = "."]
mod http {
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/access.rs"]
    pub(crate) mod access;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/authority.rs"]
    pub(crate) mod authority;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/basic_user.rs"]
    pub(crate) mod basic_user;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/client_address.rs"]
    pub(crate) mod client_address;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/client_certificate.rs"]
    pub(crate) mod client_certificate;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/client_hints.rs"]
    pub(crate) mod client_hints;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/coding.rs"]
    pub(crate) mod coding;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/field_lines.rs"]
    pub(crate) mod field_lines;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/fields.rs"]
    pub(crate) mod fields;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/framing.rs"]
    pub(crate) mod framing;
    #[path = "."]
    pub(crate) mod frames {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/http/frames/allowance.rs"]
        pub(crate) mod allowance;
        pub(crate) use crate::server_http2::{frame, hpack};
    }
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/higher_version.rs"]
    pub(crate) mod higher_version;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/limits.rs"]
    pub(crate) mod limits;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/list_fields.rs"]
    pub(crate) mod list_fields;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/parse.rs"]
    pub(crate) mod parse;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/preface.rs"]
    pub(crate) mod preface;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/proxy_protocol.rs"]
    pub(crate) mod proxy_protocol;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/query.rs"]
    pub(crate) mod query;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/range.rs"]
    pub(crate) mod range;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/request.rs"]
    pub(crate) mod request;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/http/target.rs"]
    pub(crate) mod target;
    pub(crate) mod response {
        pub(crate) use weir_server::Variant;
    }
}
#[path = "."]
mod telemetry {
    pub(crate) mod request_filter {
        pub(crate) use weir_server::{FilterKey, RequestFacts, RequestFilter};
    }
    #[path = "."]
    pub(crate) mod recent {
        use super::request_filter::RequestFilter;

        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/telemetry/recent/entry.rs"]
        mod entry;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/telemetry/recent/past.rs"]
        mod past;

        /// How many entries of a block there are, and how many of them a filter lets pass; none if it is no filter.
        pub(crate) fn search(filter: &str, block: &[u8]) -> Option<(usize, usize)> {
            let filter = filter.parse::<RequestFilter>().ok()?;
            let passing = past::entries(block).filter(|past| filter.is_for(&past.facts())).count();
            Some((past::entries(block).count(), passing))
        }
    }
}
mod http2 {
    pub(crate) use crate::server_http2::encode;
}
#[path = "."]
mod exchange {
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/exchange/drain.rs"]
    pub(crate) mod drain;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/exchange/relayed_form.rs"]
    pub(crate) mod relayed_form;
    pub(crate) mod application {
        pub(crate) use weir_server::RequestHead;
    }
}
#[path = "."]
mod upstream {
    #[path = "."]
    pub(crate) mod cache {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/cache/control.rs"]
        pub(crate) mod control;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/cache/freshness.rs"]
        pub(crate) mod freshness;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/cache/key.rs"]
        pub(crate) mod key;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/cache/rules.rs"]
        pub(crate) mod rules;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/cache/validators.rs"]
        pub(crate) mod validators;
    }
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/upstream/message.rs"]
    pub(crate) mod message;
    #[path = "."]
    pub(crate) mod http1 {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http1/chunks.rs"]
        pub(crate) mod chunks;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http1/digits.rs"]
        mod digits;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http1/names.rs"]
        pub(crate) mod names;
        #[path = "../../../crates/server/src/upstream/http1/oracle.rs"]
        pub(crate) mod oracle;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http1/response.rs"]
        pub(crate) mod response;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http1/upgrade.rs"]
        pub(crate) mod upgrade;
    }
    #[path = "."]
    pub(crate) mod http2 {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http2/connection.rs"]
        pub(crate) mod connection;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http2/request.rs"]
        pub(crate) mod request;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http2/response.rs"]
        pub(crate) mod response;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http2/settings.rs"]
        pub(crate) mod settings;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/http2/stream.rs"]
        pub(crate) mod stream;
    }
    #[path = "."]
    pub(crate) mod gateway {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/gateway/response.rs"]
        pub(crate) mod response;
    }
    #[path = "."]
    pub(crate) mod fastcgi {
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/fastcgi/record.rs"]
        pub(crate) mod record;
        #[allow(dead_code, reason = "not all of it is fuzzed")]
        #[path = "../../../crates/server/src/upstream/fastcgi/response.rs"]
        pub(crate) mod response;
    }
}
#[path = "."]
mod pages {
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/pages/template.rs"]
    pub(crate) mod template;
}
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/routing/routes/mod.rs"]
mod routes;
#[path = "."]
mod media {
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/media/audio/mod.rs"]
    pub(crate) mod audio;
}
#[path = "."]
mod certificates {
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/certificates/der.rs"]
    pub(crate) mod der;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/certificates/distinguished_name.rs"]
    pub(crate) mod distinguished_name;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/certificates/staple.rs"]
    pub(crate) mod staple;
    #[allow(dead_code, reason = "not all of it is fuzzed")]
    #[path = "../../../crates/server/src/certificates/validity.rs"]
    pub(crate) mod validity;
}
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/server/src/quic/handed.rs"]
mod handed;

// Libraries keep these to themselves, so they are compiled a second time, too.
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/compat/src/getopt.rs"]
mod getopt;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/isapi/src/head.rs"]
mod isapi_heads;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/compat/src/printf.rs"]
mod printf;
#[allow(dead_code, unused_imports, reason = "not all of it is fuzzed")]
#[path = "../../../crates/advise/src/configuration/mod.rs"]
mod servers;
#[allow(dead_code, reason = "not all of it is fuzzed")]
#[path = "../../../crates/advise/src/rules/sql.rs"]
mod statements;

/// Takes bytes off the input as choices of the fuzzer; zeros when it is used up.
struct Choices<'i>(&'i [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, at| word | u64::from(self.byte()) << (8 * at))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
