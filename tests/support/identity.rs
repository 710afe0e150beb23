//! A stand-in for the identity endpoint of App Service: it records who asks, and hands out tokens.

use std::sync::{Arc, Mutex};

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use data_encoding::BASE64URL_NOPAD;
use dbtick::clock::{Clock, SystemClock};
use serde_json::json;

/// In every token and in the header that unlocks the endpoint; nobody may ever print it.
pub const CANARY: &str = "canary-identity";

#[derive(Clone)]
pub struct IdentityEndpoint {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<dyn Fn(usize) -> Token + Send + Sync>,
    asked: Mutex<Vec<(String, HeaderMap)>>,
}

/// What to answer.
pub enum Token {
    ExpiresIn(i64),
    Refused(u16),
    Never,
}

impl IdentityEndpoint {
    /// The script gets the number of the request, from 0.
    pub async fn start(script: impl Fn(usize) -> Token + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            url: format!("http://127.0.0.1:{port}/msi/token"),
            shared,
        }
    }

    /// Query and headers of every request so far.
    pub fn asked(&self) -> Vec<(String, HeaderMap)> {
        self.shared.asked.lock().unwrap().clone()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let number = {
        let mut asked = shared.asked.lock().unwrap();
        asked.push((query.unwrap_or_default(), headers));
        asked.len() - 1
    };
    let seconds = match (shared.script)(number) {
        Token::ExpiresIn(seconds) => seconds,
        Token::Refused(status) => {
            let status = axum::http::StatusCode::from_u16(status).unwrap();
            return (status, CANARY).into_response();
        }
        Token::Never => std::future::pending().await,
    };
    let now = SystemClock.now().timestamp();
    let part = |value: serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let claims = json!({
        "aud": "https://storage.azure.com", "iss": "https://sts.windows.net/tenant/",
        "iat": now, "nbf": now - 5, "exp": now + seconds, "canary": CANARY
    });
    let header = part(json!({ "alg": "none", "typ": "JWT" }));
    let token = format!("{header}.{}.{}", part(claims), part(json!(CANARY)));
    Json(json!({
        "access_token": token, "expires_on": (now + seconds).to_string(),
        "resource": "https://storage.azure.com", "token_type": "Bearer"
    }))
    .into_response()
}
