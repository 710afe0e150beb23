//! HTTP clients, and what they never connect to (S3).
//!
//! A name is judged by the addresses that it resolves to, and the connection goes to one of exactly
//! these: nobody asks for the name again in between. Addresses that are written out were judged
//! when the configuration was read.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, ClientBuilder, redirect};

use crate::config::WebhookConfig;
use crate::model::address::{Forbidden, Network, is_same_place};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("no HTTP client could be made; are CA certificates installed on this machine?")]
pub struct ClientError(#[from] reqwest::Error);

/// A name led where no receiver is.
#[derive(Debug, thiserror::Error)]
#[error("{name} is at {address}: {why}")]
pub(super) struct RefusedAddress {
    name: String,
    address: IpAddr,
    why: Forbidden,
}

/// One client for all webhooks of a process: connections are shared by receiver.
pub fn client() -> Result<Client, ClientError> {
    build(Network::Any, &[], &[])
}

/// The shared client, or one of its own for a webhook that trusts or refuses more than others: a
/// connection is never used under other rules than those that it was opened by.
pub(super) fn of(config: &WebhookConfig, shared: Client) -> Result<Client, ClientError> {
    let WebhookConfig {
        network,
        identity,
        authorities,
        ..
    } = config;
    if *network == Network::Any && identity.is_empty() && authorities.is_empty() {
        return Ok(shared);
    }
    build(*network, identity, authorities)
}

fn build(
    network: Network,
    identity: &[IpAddr],
    authorities: &[Certificate],
) -> Result<Client, ClientError> {
    let guard = Guard {
        network,
        identity: identity.into(),
        names: Arc::new(SystemNames),
    };
    Ok(builder(guard)
        .tls_certs_merge(authorities.iter().cloned())
        .build()?)
}

fn builder(guard: Guard) -> ClientBuilder {
    // Another part of the process may have installed the same provider first.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .user_agent(concat!("dbtick/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .no_proxy()
        .dns_resolver(Arc::new(guard))
}

/// A name with one forbidden address is refused as a whole: it is not in good hands.
struct Guard {
    network: Network,
    /// Who hands out tokens.
    identity: Arc<[IpAddr]>,
    names: Arc<dyn Resolve>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (network, asked) = (self.network, name.as_str().to_owned());
        let identity = Arc::clone(&self.identity);
        let found = self.names.resolve(name);
        Box::pin(async move {
            let found: Vec<_> = found.await?.collect();
            for address in found.iter().map(|socket| socket.ip()) {
                let is_identity = identity.iter().any(|known| is_same_place(*known, address));
                let judged = match is_identity {
                    true => Err(Forbidden::Identity),
                    false => network.judge(address),
                };
                if let Err(why) = judged {
                    let name = asked;
                    return Err(RefusedAddress { name, address, why }.into());
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The names that the operating system knows.
struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;

    /// Answers in turn, as a server does that means harm.
    struct Script(Mutex<Vec<Vec<&'static str>>>);

    impl Resolve for Script {
        fn resolve(&self, _: Name) -> Resolving {
            let answer = self.0.lock().unwrap().remove(0);
            let found: Vec<SocketAddr> = answer
                .into_iter()
                .map(|address| SocketAddr::new(address.parse().unwrap(), 0))
                .collect();
            Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
        }
    }

    fn guarded(network: Network, answers: Vec<Vec<&'static str>>) -> Client {
        guarded_beside(&[], network, answers)
    }

    fn guarded_beside(
        identity: &[IpAddr],
        network: Network,
        answers: Vec<Vec<&'static str>>,
    ) -> Client {
        let guard = Guard {
            network,
            identity: identity.into(),
            names: Arc::new(Script(Mutex::new(answers))),
        };
        builder(guard).build().unwrap()
    }

    async fn refusal(network: Network, found: Vec<&'static str>) -> Option<String> {
        refusal_beside(&[], network, found).await
    }

    async fn refusal_beside(
        identity: &[IpAddr],
        network: Network,
        found: Vec<&'static str>,
    ) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://receiver.test:{}/",
            listener.local_addr().unwrap().port()
        );
        let client = guarded_beside(identity, network, vec![found]);
        let request = client.post(url).send();
        tokio::select! {
            biased;
            error = request => {
                let error = error.unwrap_err();
                let refused = super::super::find::<RefusedAddress>(&error);
                Some(refused.expect("nothing else goes wrong").to_string())
            }
            accepted = listener.accept() => accepted.map(|_| None).unwrap(),
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_metadata_address_is_refused() {
        for found in [
            vec!["169.254.169.254"],
            vec!["::ffff:169.254.169.254"],
            vec!["::ffff:168.63.129.16"],
            vec!["fd00:ec2::254"],
            vec!["fe80::1"],
            vec!["64:ff9b::a9fe:a9fe"],
            vec!["127.0.0.1", "169.254.169.254"],
        ] {
            let refused = refusal(Network::Any, found.clone()).await.unwrap();
            assert!(refused.contains("metadata"), "{found:?} {refused}");
        }
        assert_eq!(refusal(Network::Any, vec!["127.0.0.1"]).await, None);
        let private = refusal(Network::Public, vec!["::ffff:127.0.0.1"]).await;
        assert!(private.unwrap().contains("deny_private"));
    }

    /// On the port of the endpoint; on another one, this machine is as good as any.
    #[tokio::test]
    async fn a_name_that_leads_to_the_identity_endpoint_is_refused() {
        let endpoint: [IpAddr; 1] = ["127.0.0.1".parse().unwrap()];
        for found in [
            "127.0.0.1",
            "127.0.0.2",
            "::1",
            "0.0.0.0",
            "::ffff:127.0.0.1",
        ] {
            let refused = refusal_beside(&endpoint, Network::Any, vec![found]).await;
            assert!(refused.unwrap().contains("identity endpoint"), "{found}");
        }
        assert_eq!(refusal(Network::Any, vec!["127.0.0.1"]).await, None);
    }

    #[tokio::test]
    async fn the_address_that_was_judged_is_the_one_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://receiver.test:{}/",
            listener.local_addr().unwrap().port()
        );
        // A second question would have another answer, and a third would panic.
        let client = guarded(
            Network::Any,
            vec![vec!["127.0.0.1"], vec!["169.254.169.254"]],
        );
        tokio::select! {
            biased;
            answer = client.post(&url).send() => panic!("{answer:?}"),
            accepted = listener.accept() => accepted.map(drop).unwrap(),
        }
        let error = client.post(&url).send().await.unwrap_err();
        assert!(super::super::find::<RefusedAddress>(&error).is_some());
    }
}
