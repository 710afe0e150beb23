//! Whom a webhook trusts (S5), and what it is never connected to (S3).

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dbtick::config::secret::SecretUrl;
use dbtick::model::address::Network;
use dbtick::sink::{DeliveryFailure, FailureKind, Verdict};
use reqwest::Certificate;
use serde_json::json;
use tempfile::TempDir;

use crate::support::azurite;
use crate::support::certificate::{Certificate as ServerCertificate, Flaw};

use crate::support::command::run;
use crate::support::identity::{CANARY, IdentityEndpoint, Token};
use crate::support::verify::python;
use crate::support::world::World;
use crate::{PATIENT, WebhookConfig, deliver, open};

const SERVER: &str = r#"
import http.server, ssl, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Over TLS, with a certificate of `localhost` that no system trusts.
struct TlsReceiver {
    port: u16,
    authority: Vec<Certificate>,
    process: Child,
    _directory: TempDir,
}

impl TlsReceiver {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let certificate = ServerCertificate::in_directory(directory.path());
        Self::with(&certificate, directory)
    }

    fn with(certificate: &ServerCertificate, directory: TempDir) -> Self {
        let mut process = Command::new(python())
            .args(["-c", SERVER])
            .args([&certificate.certificate, &certificate.key])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        Self {
            port: port.trim().parse().unwrap(),
            authority: authority(&certificate.authority),
            process,
            _directory: directory,
        }
    }

    fn webhook(&self, host: &str, authorities: &[Certificate]) -> WebhookConfig {
        let url = format!("https://{host}:{}/path-canary", self.port);
        WebhookConfig {
            timeout: PATIENT,
            attempts: 1,
            authorities: authorities.to_vec(),
            ..WebhookConfig::new(SecretUrl::new(url.parse().unwrap()))
        }
    }
}

impl Drop for TlsReceiver {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn authority(path: &Path) -> Vec<Certificate> {
    Certificate::from_pem_bundle(&std::fs::read(path).unwrap()).unwrap()
}

async fn failure(config: WebhookConfig) -> DeliveryFailure {
    match deliver(&open(config)).await {
        Verdict::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_receiver_is_trusted_by_the_authority_that_is_named_and_by_no_other() {
    let receiver = TlsReceiver::start();
    let right = receiver.webhook("localhost", &receiver.authority);
    assert_eq!(deliver(&open(right)).await, Verdict::Acknowledged);

    let other = authority(&azurite::certificates().join("ca.pem"));
    for authorities in [&[][..], &other] {
        let mut config = receiver.webhook("localhost", authorities);
        config.attempts = 3;
        let failure = failure(config).await;
        assert!(failure.reason.contains("certificate"), "{failure}");
        assert_eq!(failure.kind, FailureKind::Refused, "a person must act");
    }
    // The certificate is not of this name.
    let failure = failure(receiver.webhook("127.0.0.1", &receiver.authority)).await;
    assert!(failure.reason.contains("certificate"), "{failure}");
}

#[tokio::test]
async fn a_name_with_a_private_address_is_refused_where_that_is_told() {
    let receiver = TlsReceiver::start();
    let mut config = receiver.webhook("localhost", &receiver.authority);
    config.network = Network::Public;
    config.attempts = 3;
    let failure = failure(config).await;
    for part in ["localhost is at ", "deny_private"] {
        assert!(failure.reason.contains(part), "{failure}");
    }
}

/// S5: by the right authority, for the right name, and still not to be trusted.
#[tokio::test]
async fn a_certificate_that_is_expired_early_or_self_signed_is_refused() {
    for (flaw, said) in [
        (Flaw::Expired, "expired"),
        (Flaw::NotYetValid, "not valid yet"),
        (Flaw::SelfSigned, "UnknownIssuer"),
    ] {
        let directory = TempDir::new().unwrap();
        let certificate = ServerCertificate::with_flaw(flaw, directory.path());
        let receiver = TlsReceiver::with(&certificate, directory);
        let mut config = receiver.webhook("localhost", &receiver.authority);
        config.attempts = 3;
        let failure = failure(config).await;
        assert!(failure.reason.contains(said), "{flaw:?}: {failure}");
        assert_eq!(failure.kind, FailureKind::Refused, "a person must act");
    }
}

/// S5: better not to start than to find out with the first batch.
#[tokio::test]
async fn without_authorities_to_trust_nothing_is_started_and_the_error_says_why() {
    let nothing = TempDir::new().unwrap();
    let world = World::with_orders(json!({}))
        .await
        .setting("SSL_CERT_DIR", &nothing.path().display().to_string())
        .setting("SSL_CERT_FILE", "/nowhere/ca.pem");
    for command in [&["serve", "--port", "1"][..], &["check"]] {
        let said = run(&world, command);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("CA certificates"), "{said:?}");
    }
}

/// S3: whoever stands between would be the one that connects, to whatever it likes.
#[tokio::test]
async fn no_proxy_that_the_environment_names_is_asked() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let endpoint = IdentityEndpoint::start(|_| Token::ExpiresIn(3600)).await;
    let hook = json!({ "url": "%HOOK%", "entra": { "audience": "api://x" } });
    let mut world = World::with_orders(json!({ "deliver": [{ "webhook": hook }] }))
        .await
        .rows(1)
        .await
        .setting("IDENTITY_ENDPOINT", &endpoint.url)
        .setting("IDENTITY_HEADER", CANARY)
        .setting("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        world = world.setting(name, &address);
        world = world.setting(&name.to_lowercase(), &address);
    }
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{}", handler.everything_said());
    assert_eq!(world.receiver.count(), 1);
    assert_eq!(endpoint.asked().len(), 1);
    let asked = proxy.accept();
    assert!(
        matches!(&asked, Err(error) if error.kind() == ErrorKind::WouldBlock),
        "{asked:?}"
    );
}
