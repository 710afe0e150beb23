//! Opens the port and serves until told to stop.
//!
//! Whoever connects gets so long for the head of a request, and so many may connect (S10).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::{CONCURRENT_INVOCATIONS, CONCURRENT_LOOKS, CONCURRENT_RELAYS, Handler, router};
use crate::stop::Stop;

const BACKLOG: u32 = 1024;
/// For the last answers to be written, once the last invocation has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// For a whole head, also the next one on a connection that is kept: longer than clients keep one that
/// is idle (the host for a minute), so that none of them is cut off while it asks.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Every place in a line, and some for probes. Others wait to be accepted: databases and receivers need
/// sockets too.
const MOST_CONNECTIONS: usize = CONCURRENT_INVOCATIONS + CONCURRENT_RELAYS + CONCURRENT_LOOKS + 32;
/// While the process has no file descriptor left.
const NO_ROOM: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ServeError {
    address: SocketAddr,
    #[source]
    cause: io::Error,
}

/// Returns once `stop` was raised and running invocations have ended.
pub async fn serve(handler: Handler, port: u16, stop: Stop) -> Result<(), ServeError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = (|| {
        let socket = TcpSocket::new_v4()?;
        // A restarted handler gets the port of its predecessor.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    })()
    .map_err(|cause| ServeError { address, cause })?;
    let running = handler.running.clone();
    let router = router(Arc::new(handler));
    tokio::select! {
        biased;
        () = accept(listener, router, stop.clone(), MOST_CONNECTIONS) => {}
        () = ended(stop, running) => {}
    }
    Ok(())
}

/// Until `stop` is raised and every connection has ended.
async fn accept(listener: TcpListener, router: Router, stop: Stop, most: usize) {
    let places = Arc::new(Semaphore::new(most));
    let connections = TaskTracker::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stop.clone().raised() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let conversation = converse(stream, router.clone(), stop.clone());
                connections.spawn(async move {
                    conversation.await;
                    drop(place);
                });
            }
            Err(error) if has_gone(&error) => {}
            Err(error) => {
                tracing::error!("no connection can be accepted: {error}");
                tokio::time::sleep(NO_ROOM).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Before it was accepted.
fn has_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// How a connection ends is its caller's to notice: what was asked on it is told elsewhere.
async fn converse(stream: TcpStream, router: Router, stop: Stop) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        ended = connection.as_mut() => return drop(ended),
        () = stop.raised() => connection.as_mut().graceful_shutdown(),
    }
    drop(connection.await);
}

/// Connections that never sent a whole request would otherwise keep the process for ever.
async fn ended(stop: Stop, running: TaskTracker) {
    stop.raised().await;
    running.close();
    running.wait().await;
    tokio::time::sleep(LAST_WORDS).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::stop;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    async fn serving(most: usize) -> (SocketAddr, stop::StopSwitch) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "served"));
        let (switch, stop) = stop::channel();
        tokio::spawn(accept(listener, router, stop, most));
        (address, switch)
    }

    async fn served(stream: &mut TcpStream) {
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        assert!(answer[..length].ends_with(b"served"));
    }

    /// S10. The clock stands still while anybody has something to do.
    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_come_to_the_end_of_a_head_is_hung_up_on() {
        let (address, _switch) = serving(10).await;
        for (sent, then_drips) in [
            ("", false),
            ("GET / HT", false),
            ("GET / HTTP/1.1\r\nHost: x\r\nX-", true),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let (mut reader, mut writer) = stream.into_split();
            let drips = async {
                while then_drips && writer.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(HEAD_TIMEOUT / 20).await;
                }
                std::future::pending::<()>().await
            };
            let mut answer = Vec::new();
            let hung_up = async {
                tokio::select! {
                    biased;
                    // A reset is an end, too.
                    ended = reader.read_to_end(&mut answer) => drop(ended),
                    () = drips => unreachable!("it goes on for ever"),
                }
            };
            let hung_up = tokio::time::timeout(HEAD_TIMEOUT * 2, hung_up).await;
            assert!(hung_up.is_ok(), "{sent:?}");
            assert_eq!(answer, b"", "{sent:?}");
        }
    }

    /// S10.
    #[tokio::test]
    async fn more_connections_than_there_are_places_wait_until_one_is_free() {
        let (address, _switch) = serving(2).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        served(&mut first).await;
        served(&mut second).await;
        let mut third = TcpStream::connect(address).await.unwrap();
        tokio::select! {
            biased;
            () = served(&mut third) => panic!("there was no place"),
            // Those who have one are served meanwhile.
            () = async { served(&mut first).await; served(&mut second).await; } => {}
        }
        drop(first);
        let mut answer = [0; 1024];
        let length = third.read(&mut answer).await.unwrap();
        assert!(answer[..length].ends_with(b"served"));
    }

    #[tokio::test]
    async fn a_stop_ends_connections_that_are_idle() {
        let (address, switch) = serving(2).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        served(&mut idle).await;
        switch.raise();
        assert_eq!(idle.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
