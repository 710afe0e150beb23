//! Stands before the store and before the receivers, and does harm. What has arrived whole is carried out, if at
//! all, whether or not its sender still lives; so whoever watches here misses nothing that happens behind.

use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until};

use super::faults::Harm;
use super::support::dice::Dice;
use super::support::proxy::{forward, made_up};
use super::support::wire::{Message, Stream};

/// Beyond that the rest of a dribbled answer comes at once: a long one would take for ever.
const MOST_DRIBBLED: usize = 200;
const DRIBBLE: Duration = Duration::from_millis(2);

/// Is told of every request that was carried out, with its answer.
pub(crate) trait Watcher: Send + Sync {
    fn exchanged(&self, request: &Message, answer: &Message);
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    server: u16,
    watcher: Option<Arc<dyn Watcher>>,
    dice: Mutex<Dice>,
    calm: AtomicBool,
    /// Nothing comes through before.
    dark_until: Mutex<Option<Instant>>,
    /// Requests that are carried out later.
    held_back: AtomicUsize,
    harms: AtomicU64,
}

impl Proxy {
    pub(crate) async fn start(
        server: u16,
        dice: Dice,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            server,
            watcher,
            dice: Mutex::new(dice),
            calm: AtomicBool::new(false),
            dark_until: Mutex::default(),
            held_back: AtomicUsize::new(0),
            harms: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).serve(client));
            }
        });
        proxy
    }

    /// No harm from now on.
    pub(crate) fn heal(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn held_back(&self) -> usize {
        self.held_back.load(Ordering::Relaxed)
    }

    pub(crate) fn harms(&self) -> u64 {
        self.harms.load(Ordering::Relaxed)
    }

    async fn serve(self: Arc<Self>, client: TcpStream) {
        let mut client = Stream::new(client);
        while let Ok(Some(request)) = client.message(false).await {
            if !self.exchange(&mut client, &request).await.unwrap_or(false) {
                return;
            }
        }
    }

    fn harm(&self) -> Option<Harm> {
        if self.calm.load(Ordering::Relaxed) {
            return None;
        }
        let now = SystemClock.monotonic();
        let mut dark_until = self.dark_until.lock().unwrap();
        if let Some(until) = dark_until.filter(|until| now < *until) {
            return Some(Harm::BlackHole(until - now));
        }
        let harm = Harm::drawn(&mut self.dice.lock().unwrap())?;
        self.harms.fetch_add(1, Ordering::Relaxed);
        if let Harm::BlackHole(lasts) = harm {
            *dark_until = Some(now + lasts);
        }
        Some(harm)
    }

    /// False, or an error, ends the connection.
    async fn exchange(&self, client: &mut Stream, request: &Message) -> Result<bool> {
        let harm = self.harm();
        match harm {
            Some(Harm::CutBefore) => return cut(client),
            Some(Harm::Busy) => {
                client.send(&made_up(503, &[])).await?;
                return Ok(true);
            }
            Some(Harm::BlackHole(lasts)) => {
                sleep_until(SystemClock.monotonic() + lasts).await;
                return cut(client);
            }
            Some(Harm::RequestDelayed(time)) => {
                self.held_back.fetch_add(1, Ordering::Relaxed);
                sleep(time).await;
            }
            _ => {}
        }
        let answer = forward(self.server, request).await;
        if let Some(Harm::RequestDelayed(_)) = harm {
            self.held_back.fetch_sub(1, Ordering::Relaxed);
        }
        let answer = answer?;
        if let Some(watcher) = &self.watcher {
            watcher.exchanged(request, &answer);
        }
        match harm {
            Some(Harm::CutAfter) => return cut(client),
            Some(Harm::Truncated) => {
                // Closed, not cut: a reset would take back what was sent.
                client.send(&answer.bytes[..answer.bytes.len() / 2]).await?;
                return Ok(false);
            }
            Some(Harm::AnswerDelayed(time)) => sleep(time).await,
            Some(Harm::Dribbled) => {
                let (slowly, rest) = answer.bytes.split_at(answer.bytes.len().min(MOST_DRIBBLED));
                for byte in slowly {
                    client.send(&[*byte]).await?;
                    sleep(DRIBBLE).await;
                }
                client.send(rest).await?;
                return Ok(true);
            }
            _ => {}
        }
        client.send(&answer.bytes).await?;
        Ok(true)
    }
}

/// Reset, not closed: that is what a lost connection looks like.
fn cut(client: &Stream) -> Result<bool> {
    client.socket.set_zero_linger()?;
    Ok(false)
}
