//! A proxy in front of a real HTTP server that does harm by script, and writes down every exchange.
//!
//! Requests and answers travel byte for byte: signatures cover them. Each request gets a connection
//! of its own to the server and is forwarded only when it has arrived whole, so a request of a
//! process that was killed in the middle of it never lands, and one that lands is always written down.

use std::io::{ErrorKind, Result};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dbtick::clock::{Clock, SystemClock};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::azurite::{self, ACCOUNT, Azurite};
use super::wire::{Message, Stream};
use super::within;

/// What happens to one exchange.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The server does it; its answer is lost with the connection.
    AnswerDropped,
    /// The server does it; its answer comes late.
    AnswerDelayed(Duration),
    /// The request reaches the server late, whether or not anybody still waits for it.
    RequestDelayed(Duration),
    /// The request reaches the server when the test lets it go.
    RequestHeld,
    /// The request never reaches the server, and the connection is reset.
    Reset,
    /// The server does it; half of the answer arrives.
    Truncated,
    /// An answer that the server never gave: status and headers.
    Say(u16, &'static [(&'static str, &'static str)]),
    /// The server's last answer to a GET of this path, once more.
    Stale,
}

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub at: Instant,
    pub method: String,
    /// With the query.
    pub path: String,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    pub body: Bytes,
    pub fault: Option<Fault>,
    /// What the server said, or what was said in its place; `None` while nobody has spoken.
    pub status: Option<u16>,
    /// Of the server's answer.
    pub etag: Option<String>,
}

impl Exchange {
    /// The server has applied it.
    pub fn landed(&self) -> bool {
        self.etag.is_some() && self.status.is_some_and(|status| status < 300)
    }

    pub fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path.contains(path)
    }

    /// Method, last part of the path, condition, status: short enough to compare.
    pub fn line(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let condition = match (&self.if_match, &self.if_none_match) {
            (Some(_), _) => " if-match",
            (None, Some(_)) => " if-none-match",
            (None, None) => "",
        };
        let status = match self.status {
            None => "?".to_owned(),
            // A range that holds the whole.
            Some(206) => "200".to_owned(),
            Some(status) => status.to_string(),
        };
        format!("{} {name}{condition} {status}", self.method)
    }
}

/// Counts the requests that it matches; the fault befalls those from `first` to `last`, from 1.
#[derive(Debug)]
struct Rule {
    method: &'static str,
    path: String,
    first: usize,
    last: usize,
    seen: usize,
    fault: Fault,
}

#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    rules: Mutex<Vec<Rule>>,
    exchanges: Mutex<Vec<Exchange>>,
    /// How many of them a test has looked at.
    looked_at: Mutex<usize>,
    /// The last good answer per path.
    answers: Mutex<Vec<(String, Bytes)>>,
    changed: watch::Sender<u64>,
    listening: Mutex<Option<JoinHandle<()>>>,
    open: watch::Sender<bool>,
    gate: watch::Sender<bool>,
    tasks: TaskTracker,
}

impl Proxy {
    pub fn before(azurite: &Azurite) -> Self {
        Self::to(azurite.port())
    }

    pub fn to(server: u16) -> Self {
        let shared = Arc::new(Shared {
            server,
            rules: Mutex::default(),
            exchanges: Mutex::default(),
            looked_at: Mutex::default(),
            answers: Mutex::default(),
            changed: watch::Sender::new(0),
            listening: Mutex::default(),
            open: watch::Sender::new(true),
            gate: watch::Sender::new(false),
            tasks: TaskTracker::new(),
        });
        let port = shared.listen(0);
        Self { port, shared }
    }

    /// Azurite's, as an app setting holds it, but through here.
    pub fn connection_string(&self) -> String {
        azurite::connection_string(&format!("http://127.0.0.1:{}/{ACCOUNT}", self.port))
    }

    /// The n-th request from now that matches, counting from one. An empty method is any.
    pub fn nth(&self, n: usize, method: &'static str, path: &str, fault: Fault) {
        self.add(n, n, method, path, fault);
    }

    /// Every request that matches, until `heal`.
    pub fn every(&self, method: &'static str, path: &str, fault: Fault) {
        self.add(1, usize::MAX, method, path, fault);
    }

    fn add(&self, first: usize, last: usize, method: &'static str, path: &str, fault: Fault) {
        self.shared.rules.lock().unwrap().push(Rule {
            method,
            path: path.to_owned(),
            first,
            last,
            seen: 0,
            fault,
        });
    }

    pub fn heal(&self) {
        self.shared.rules.lock().unwrap().clear();
    }

    /// What is held goes on its way.
    pub fn let_go(&self) {
        self.shared.gate.send_replace(true);
    }

    /// Nobody listens any more, and who is connected is cut off.
    pub async fn close(&self) {
        let listening = self.shared.listening.lock().unwrap().take();
        if let Some(listening) = listening {
            listening.abort();
            // It ends when the listener is dropped; being aborted is how it should end.
            drop(listening.await);
        }
        self.shared.open.send_replace(false);
    }

    pub fn reopen(&self) {
        self.shared.open.send_replace(true);
        self.shared.listen(self.port);
    }

    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.exchanges.lock().unwrap().clone()
    }

    /// What came since the last time this was asked.
    pub fn fresh(&self) -> Vec<Exchange> {
        let exchanges = self.shared.exchanges.lock().unwrap();
        let mut looked_at = self.shared.looked_at.lock().unwrap();
        let fresh = exchanges[*looked_at..].to_vec();
        *looked_at = exchanges.len();
        fresh
    }

    /// `fresh`, as lines.
    pub fn fresh_lines(&self) -> Vec<String> {
        self.fresh().iter().map(Exchange::line).collect()
    }

    /// Resolves when what was written down satisfies `what`.
    #[track_caller]
    pub fn until(
        &self,
        what: &str,
        satisfied: impl Fn(&[Exchange]) -> bool,
    ) -> impl Future<Output = ()> {
        let shared = Arc::clone(&self.shared);
        let mut changed = shared.changed.subscribe();
        within(what, async move {
            loop {
                changed.borrow_and_update();
                if satisfied(&shared.exchanges.lock().unwrap()) {
                    return;
                }
                changed.changed().await.unwrap();
            }
        })
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, port: u16) -> u16 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], port).into()).unwrap();
        let listener = socket.listen(1024).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(self);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let connection = Connection {
                    shared: Arc::clone(&shared),
                    client: Stream::new(client),
                };
                shared.tasks.spawn(connection.serve());
            }
        });
        *self.listening.lock().unwrap() = Some(listening);
        port
    }

    /// Every rule counts; the first that is due befalls.
    fn fault_for(&self, method: &str, path: &str) -> Option<Fault> {
        let mut due = None;
        for rule in self.rules.lock().unwrap().iter_mut() {
            let same_method = rule.method.is_empty() || rule.method == method;
            if same_method && path.contains(&rule.path) {
                rule.seen += 1;
                if due.is_none() && (rule.first..=rule.last).contains(&rule.seen) {
                    due = Some(rule.fault.clone());
                }
            }
        }
        due
    }

    fn write_down(&self, request: &Message, fault: Option<Fault>) -> usize {
        let mut exchanges = self.exchanges.lock().unwrap();
        exchanges.push(Exchange {
            at: SystemClock.monotonic(),
            method: request.word(0),
            path: request.word(1),
            if_match: request.header("if-match"),
            if_none_match: request.header("if-none-match"),
            body: Bytes::copy_from_slice(&request.bytes[request.head..]),
            fault,
            status: None,
            etag: None,
        });
        let number = exchanges.len() - 1;
        drop(exchanges);
        self.changed.send_modify(|n| *n += 1);
        number
    }

    fn answered(&self, number: usize, status: u16, etag: Option<String>) {
        let mut exchanges = self.exchanges.lock().unwrap();
        exchanges[number].status = Some(status);
        exchanges[number].etag = etag;
        drop(exchanges);
        self.changed.send_modify(|n| *n += 1);
    }
}

struct Connection {
    shared: Arc<Shared>,
    client: Stream,
}

impl Connection {
    async fn serve(mut self) {
        let mut open = self.shared.open.subscribe();
        loop {
            let request = tokio::select! {
                request = self.client.message(false) => request,
                _ = open.wait_for(|open| !open) => return self.cut(),
            };
            let Ok(Some(request)) = request else { return };
            if !self.exchange(request).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// Reset, not closed: that is what a lost connection looks like.
    fn cut(&self) {
        self.client.socket.set_zero_linger().ok();
    }

    /// False, or an error, ends the connection.
    async fn exchange(&mut self, request: Message) -> Result<bool> {
        let (method, path) = (request.word(0), request.word(1));
        let fault = self.shared.fault_for(&method, &path);
        let number = self.shared.write_down(&request, fault.clone());
        match fault {
            Some(Fault::Reset) => {
                self.cut();
                return Ok(false);
            }
            Some(Fault::Say(status, headers)) => {
                self.shared.answered(number, status, None);
                self.client.send(&made_up(status, headers)).await?;
                return Ok(true);
            }
            Some(Fault::Stale) => {
                let answers = self.shared.answers.lock().unwrap().clone();
                let (_, answer) = answers
                    .into_iter()
                    .rfind(|(of, _)| *of == path)
                    .expect("a stale answer needs an earlier one");
                self.shared.answered(number, 200, None);
                self.client.send(&answer).await?;
                return Ok(true);
            }
            Some(Fault::RequestDelayed(time)) => sleep(time).await,
            Some(Fault::RequestHeld) => {
                let mut gate = self.shared.gate.subscribe();
                gate.wait_for(|open| *open).await.unwrap();
            }
            _ => {}
        }
        let answer = forward(self.shared.server, &request).await?;
        if method == "GET" && matches!(answer.status(), 200 | 206) {
            let kept = (path, Bytes::copy_from_slice(&answer.bytes));
            self.shared.answers.lock().unwrap().push(kept);
        }
        self.shared
            .answered(number, answer.status(), answer.header("etag"));
        match fault {
            Some(Fault::AnswerDropped) => {
                self.cut();
                return Ok(false);
            }
            Some(Fault::AnswerDelayed(time)) => sleep(time).await,
            Some(Fault::Truncated) => {
                let body = answer.bytes.len() - answer.head;
                let half = match body {
                    0 => answer.head / 2,
                    _ => answer.head + body / 2,
                };
                self.client.send(&answer.bytes[..half]).await?;
                // Closed, not cut: a reset would take back what was sent.
                return Ok(false);
            }
            _ => {}
        }
        self.client.send(&answer.bytes).await?;
        Ok(true)
    }
}

pub async fn forward(port: u16, request: &Message) -> Result<Message> {
    let mut server = Stream::new(TcpStream::connect(("127.0.0.1", port)).await?);
    server.send(&request.bytes).await?;
    let answer = server.message(request.word(0) == "HEAD").await?;
    // Thousands of these would otherwise use up the ports.
    server.socket.set_zero_linger()?;
    answer.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

pub fn made_up(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let code = match status {
        401 => "NoAuthenticationInformation",
        403 => "AuthorizationFailure",
        404 => "BlobNotFound",
        409 => "BlobAlreadyExists",
        412 => "ConditionNotMet",
        429 | 503 => "ServerBusy",
        500 => "InternalError",
        _ => "Unexpected",
    };
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code>\
         <Message>made up by the proxy</Message></Error>"
    );
    let mut answer = format!(
        "HTTP/1.1 {status} Made up\r\nx-ms-error-code: {code}\r\nx-ms-request-id: made-up\r\n\
         content-type: application/xml\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        answer += &format!("{name}: {value}\r\n");
    }
    (answer + "\r\n" + &body).into_bytes()
}
