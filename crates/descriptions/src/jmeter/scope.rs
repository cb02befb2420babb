//! What holds for the samplers of a part of a plan.

use crate::jmeter::element::Element;

/// What holds for samplers: the elements around them, those of the outermost part first.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'x> {
    /// Defaults of requests.
    pub(super) defaults: Vec<Element<'x>>,
    pub(super) headers: Vec<Element<'x>>,
    pub(super) authorizations: Vec<Element<'x>>,
    pub(super) timers: Vec<Element<'x>>,
    pub(super) assertions: Vec<Element<'x>>,
    pub(super) extractors: Vec<Element<'x>>,
    pub(super) has_cookies: bool,
    /// Whether the users do their steps once, so that what is done once only is nothing special.
    pub(super) is_once: bool,
}

/// What an element is for those in the same part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Defaults,
    Headers,
    Cookies,
    Authorization,
    Timer,
    Assertion,
    Extractor,
    /// Variables and data: they have been collected.
    Values,
    /// It shows results, or changes nothing of a request.
    Idle,
    /// A step, or what is not known.
    Other,
}

/// What an element is.
pub(super) fn role(element: Element<'_>) -> Role {
    match element.kind() {
        "ConfigTestElement" if element.node.attribute("guiclass").is_some_and(|gui| gui.contains("HttpDefaults")) => {
            Role::Defaults
        }
        "HeaderManager" => Role::Headers,
        "CookieManager" => Role::Cookies,
        "AuthManager" => Role::Authorization,
        "ConstantTimer" | "UniformRandomTimer" | "GaussianRandomTimer" | "PoissonRandomTimer" => Role::Timer,
        "ResponseAssertion" | "JSONPathAssertion" => Role::Assertion,
        "RegexExtractor" | "JSONPostProcessor" | "BoundaryExtractor" | "HtmlExtractor" => Role::Extractor,
        "Arguments" | "CSVDataSet" => Role::Values,
        "ResultCollector" | "Summariser" | "BackendListener" | "CacheManager" | "DNSCacheManager" | "DebugSampler"
        | "DebugPostProcessor" | "KeystoreConfig" | "ResultSaver" | "ConfigTestElement" => Role::Idle,
        _ => Role::Other,
    }
}
