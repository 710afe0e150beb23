//! Whom a webhook trusts (S5), and what it is never connected to (S3).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dbtick::config::secret::SecretUrl;
use dbtick::model::address::Network;
use dbtick::sink::{DeliveryFailure, FailureKind, Verdict};
use reqwest::Certificate;
use tempfile::TempDir;

use crate::support::azurite;
use crate::support::certificate::Certificate as ServerCertificate;
use crate::support::verify::python;
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
