//! Spans leave by OTLP over HTTP, where the standard settings name an endpoint.
//!
//! Headers, time-outs, sampling and the queue are OpenTelemetry's own, by its own variables. Ours is the
//! client: the one that the process has, on its runtime, and the only one that says what goes wrong. That is
//! said once and without what the headers hold; no tick waits for it or fails by it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use crate::config::Settings;
use crate::sink::webhook;

/// For what is left at a clean stop.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// Beyond the time-out of the exporter, which gives up by itself but not from here.
const LONGEST: Duration = Duration::from_secs(60);
const LARGEST_ANSWER: u64 = 64 * 1024;

const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const SPOKEN: &str = "http/protobuf";

/// Spans go out for as long as this is kept.
#[derive(Debug)]
pub struct Export {
    provider: SdkTracerProvider,
}

impl Export {
    /// `None`: nobody asked for it. `Err`: it was asked for and cannot be, in a sentence.
    pub(super) fn configured(
        settings: &Settings,
        runtime: &Handle,
    ) -> Result<Option<Self>, String> {
        let is = |name: &str, value: &str| {
            let found = settings.filled(name);
            found.is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        let endpoint = ENDPOINTS.iter().find_map(|name| settings.filled(name));
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let protocol = PROTOCOLS
            .iter()
            .find_map(|name| Some((name, settings.filled(name)?)));
        if let Some((name, protocol)) = protocol.filter(|(_, protocol)| *protocol != SPOKEN) {
            return Err(format!(
                "{name} is {protocol:?}, and spans are sent by {SPOKEN} only: set it to that, with the \
                 collector's port for HTTP, usually 4318"
            ));
        }
        let client = Client {
            inner: webhook::client().map_err(|error| error.to_string())?,
            runtime: runtime.clone(),
            to: host_of(endpoint),
            fails: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(client)
            .build()
            // It may repeat the address, in which people put passwords.
            .map_err(|_| {
                format!(
                    "the address of the collector cannot be used: {}",
                    host_of(endpoint)
                )
            })?;
        let named = ["OTEL_SERVICE_NAME", "DBTICK_APP", "WEBSITE_SITE_NAME"];
        let named = named.iter().find_map(|name| settings.filled(name));
        let resource = Resource::builder().with_service_name(named.unwrap_or("dbtick").to_owned());
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self { provider }))
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("dbtick")
    }

    /// Sends what is left. The runtime must still be there.
    pub fn stop(self) {
        // What cannot be sent has been said.
        self.provider.shutdown_with_timeout(LAST_SPANS).ok();
    }
}

/// Without user, password, path and query: tokens are put into all of them.
fn host_of(endpoint: &str) -> String {
    let parsed = reqwest::Url::parse(endpoint).ok();
    let host = parsed.as_ref().and_then(|url| {
        let port = url
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
    });
    host.unwrap_or_else(|| "an address that is no URL".to_owned())
}

/// The exporter has a thread of its own, which knows no runtime.
#[derive(Debug)]
struct Client {
    inner: reqwest::Client,
    runtime: Handle,
    to: String,
    /// And that has been said.
    fails: AtomicBool,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = self.runtime.spawn(send(self.inner.clone(), request));
        let sent = match sending.await {
            Ok(sent) => sent,
            Err(error) => Err(error.into()),
        };
        let fault = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status().as_u16())),
            Err(error) => Some(story(error.as_ref())),
        };
        self.say(fault.as_deref());
        sent
    }
}

impl Client {
    fn say(&self, fault: Option<&str>) {
        let failed = self.fails.swap(fault.is_some(), Ordering::Relaxed);
        let to = &self.to;
        match fault {
            Some(fault) if !failed => tracing::warn!(
                "spans do not arrive at {to}: {fault}. Ticks go on as ever; this is said once, until it works again"
            ),
            None if failed => tracing::info!("spans arrive at {to} again"),
            _ => {}
        }
    }
}

async fn send(
    client: reqwest::Client,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (parts, body) = request.into_parts();
    let answer = client
        .request(parts.method, parts.uri.to_string())
        .headers(parts.headers)
        .timeout(LONGEST)
        .body(body)
        .send()
        .await
        .map_err(reqwest::Error::without_url)?;
    let status = answer.status();
    let short = answer
        .content_length()
        .is_some_and(|length| length <= LARGEST_ANSWER);
    // It says at the most which spans it did not want.
    let body = match short {
        true => answer.bytes().await.map_err(reqwest::Error::without_url)?,
        false => Bytes::new(),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    Ok(answer)
}

fn story(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_exported_unless_an_endpoint_is_named() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let on = |pairs: &[(&str, &str)]| {
            let settings: Settings = pairs.iter().copied().collect();
            Export::configured(&settings, runtime.handle()).map(|export| export.is_some())
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/x");
        for (pairs, expected) in [
            (&[][..], false),
            (&[("OTEL_SERVICE_NAME", "shop")], false),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], false),
            (&[endpoint], true),
            (&[traces], true),
            (&[endpoint, ("OTEL_SDK_DISABLED", "true")], false),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "none")], false),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "otlp")], true),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", SPOKEN)], true),
        ] {
            assert_eq!(on(pairs), Ok(expected), "{pairs:?}");
        }
        let grpc = on(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert!(
            grpc.contains("http/protobuf") && grpc.contains("4318"),
            "{grpc}"
        );
    }

    #[test]
    fn where_spans_go_is_told_without_what_may_be_secret() {
        for (endpoint, told) in [
            (
                "https://user:secret@collector:4318/secret?key=secret",
                "https://collector:4318",
            ),
            ("http://collector", "http://collector"),
            ("secret", "an address that is no URL"),
        ] {
            assert_eq!(host_of(endpoint), told);
        }
    }
}
