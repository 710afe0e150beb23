//! The local Functions host keeps the real host's protocol: each test is one of its rules.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dbtick::clock::{Clock, Timestamp};
use dbtick::local::{
    AppDirectory, Environment, Events, HostEvent, HostOptions, InvocationFailure, LocalHost,
    LogLevel, LogSource, NotReady, StopReason,
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(20);

/// An app directory with a scripted handler.
struct World {
    directory: tempfile::TempDir,
    environment: Environment,
    host: Value,
    options: HostOptions,
}

impl World {
    fn new(script: Value) -> World {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record.jsonl");
        let environment = [
            ("SCRIPT", script.to_string()),
            ("RECORD", record.display().to_string()),
        ];
        World {
            environment: environment
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            host: json!({"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "handler"}}}),
            options: HostOptions {
                executable: Some(scripted_handler()),
                http_port: Some(0),
                http_key: Some("local-key".to_owned()),
                ..HostOptions::default()
            },
            directory,
        }
    }

    fn answering(answers: Value) -> World {
        World::new(json!({ "answers": answers }))
    }

    fn file(self, path: &str, content: Value) -> World {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
        self
    }

    fn function(self, name: &str, content: Value) -> World {
        self.file(&format!("{name}/function.json"), content)
    }

    /// A timer that fires only by hand, within the life of a test.
    fn tick(self) -> World {
        self.timer("Tick", json!({"schedule": "0 0 0 1 1 *"}))
    }

    fn timer(self, name: &str, timer: Value) -> World {
        self.function(name, json!({ "bindings": [timer_binding(timer)] }))
    }

    fn http(self, name: &str, trigger: Value, outputs: Value) -> World {
        let mut binding = json!({"type": "httpTrigger", "name": "req", "authLevel": "anonymous"});
        merge(&mut binding, trigger);
        let mut bindings = vec![binding];
        bindings.extend(outputs.as_array().unwrap().clone());
        self.function(name, json!({ "bindings": bindings }))
    }

    fn setting(mut self, name: &str, value: &str) -> World {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn host(mut self, host: Value) -> World {
        merge(&mut self.host, host);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut HostOptions)) -> World {
        change(&mut self.options);
        self
    }

    fn read(&self) -> Result<AppDirectory, String> {
        std::fs::write(
            self.directory.path().join("host.json"),
            self.host.to_string(),
        )
        .unwrap();
        AppDirectory::read(self.directory.path(), self.environment.clone())
            .map_err(|error| error.to_string())
    }

    async fn start(self) -> Running {
        let app = self.read().unwrap();
        let host = LocalHost::start(app, self.options.clone()).await.unwrap();
        Running {
            events: host.events(),
            host,
            world: self,
        }
    }
}

struct Running {
    host: LocalHost,
    events: Events,
    world: World,
}

impl Running {
    async fn until<T>(&mut self, pick: impl FnMut(HostEvent) -> Option<T>) -> T {
        until(&mut self.events, pick).await
    }

    fn record(&self) -> Vec<Value> {
        let text =
            std::fs::read_to_string(self.world.directory.path().join("record.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn starts(&self) -> Vec<Value> {
        self.record()
            .into_iter()
            .filter(|entry| entry["pid"].is_u64())
            .collect()
    }

    fn requests(&self) -> Vec<Value> {
        self.record()
            .into_iter()
            .filter(|entry| entry["method"].is_string())
            .collect()
    }

    fn bodies(&self) -> Vec<Value> {
        let bodies = self.requests();
        bodies
            .iter()
            .map(|entry| serde_json::from_str(entry["body"].as_str().unwrap()).unwrap())
            .collect()
    }

    async fn failure(&self, function: &str) -> InvocationFailure {
        self.host.invoke(function).await.outcome.unwrap_err()
    }

    /// Sends raw HTTP and returns the raw answer: clients hide too much.
    async fn http(&self, request: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.host.http_port()))
            .await
            .unwrap();
        let (line, rest) = request.split_once("\r\n").unwrap_or((request, "\r\n"));
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{rest}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(DEADLINE, read)
            .await
            .expect("an answer in time")
            .unwrap();
        answer
    }

    async fn status(&self, request: &str) -> u16 {
        self.http(request)
            .await
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    }
}

async fn until<T>(events: &mut Events, mut pick: impl FnMut(HostEvent) -> Option<T>) -> T {
    let search = async {
        loop {
            let event = events.next().await.expect("the host still reports");
            if let Some(found) = pick(event) {
                return found;
            }
        }
    };
    tokio::time::timeout(DEADLINE, search)
        .await
        .expect("the event in time")
}

fn timer_binding(timer: Value) -> Value {
    let mut binding = json!({"type": "timerTrigger", "direction": "in", "name": "tick"});
    merge(&mut binding, timer);
    binding
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn scripted_handler() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let handler = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/scripted-handler");
    assert!(
        handler.is_file(),
        "run `cargo build --example scripted-handler` first"
    );
    handler
}

fn started(event: HostEvent) -> Option<(u32, u16)> {
    match event {
        HostEvent::HandlerStarted { pid, port } => Some((pid, port)),
        _ => None,
    }
}

fn exited(event: HostEvent) -> Option<(u32, bool)> {
    match event {
        HostEvent::HandlerExited { pid, counted, .. } => Some((pid, counted)),
        _ => None,
    }
}

fn is_alive(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

#[derive(Debug)]
struct StoppedClock(&'static str);

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.0.parse().unwrap()
    }

    fn random(&self) -> u128 {
        0x9601_c2fb_a5ce_44c4_ae9e_86ca_2b12_1de3
    }
}

#[tokio::test]
async fn the_handler_gets_the_hosts_environment_arguments_and_directory() {
    let running = World::answering(json!([]))
        .tick()
        .setting("GREETING", "hello")
        .host(json!({"customHandler": {"description": {"arguments": ["serve", "--say", "%GREETING%%NOBODY%"]}}}))
        .with(|options| options.extra_env = [("EXTRA".to_owned(), "yes".to_owned())].into())
        .start()
        .await;
    running.host.wait_ready().await.unwrap();
    let start = &running.starts()[0];
    let environment = &start["environment"];
    let root = running.world.directory.path().display().to_string();
    assert_eq!(start["arguments"], json!(["serve", "--say", "hello"]));
    assert_eq!(start["directory"], root.as_str());
    assert_eq!(environment["FUNCTIONS_APP_ROOT_PATH"], root.as_str());
    assert_eq!(
        environment["FUNCTIONS_CUSTOMHANDLER_PORT"],
        environment["FUNCTIONS_HTTPWORKER_PORT"]
    );
    assert_eq!(
        environment["FUNCTIONS_CUSTOMHANDLER_WORKER_ID"],
        environment["FUNCTIONS_HTTPWORKER_ID"]
    );
    assert_eq!(
        environment["FUNCTIONS_HTTPWORKER_ID"]
            .as_str()
            .unwrap()
            .len(),
        36
    );
    assert_eq!(
        environment["WEBSITE_HOSTNAME"],
        format!("localhost:{}", running.host.http_port())
    );
    assert_eq!(
        (&environment["GREETING"], &environment["EXTRA"]),
        (&json!("hello"), &json!("yes"))
    );
    assert!(
        environment.get("HOME").is_none(),
        "only what the caller gave"
    );
}

#[tokio::test]
async fn the_invocation_body_equals_the_hosts_byte_for_byte() {
    let mut running = World::answering(json!([]))
        .timer(
            "Tick",
            json!({"schedule": "0 */5 * * * *", "runOnStartup": true}),
        )
        .with(|options| options.clock = Arc::new(StoppedClock("2026-11-16T10:18:00.012345Z")))
        .start()
        .await;
    running
        .until(|event| matches!(event, HostEvent::InvocationEnded { .. }).then_some(()))
        .await;
    assert_eq!(
        running.requests()[0]["body"],
        concat!(
            r#"{"Data":{"tick":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"#,
            r#""Last":"0001-01-01T00:00:00+00:00","Next":"2026-11-16T10:20:00+00:00","#,
            r#""LastUpdated":"0001-01-01T00:00:00+00:00"},"IsPastDue":false}},"#,
            r#""Metadata":{"sys":{"MethodName":"Tick","UtcNow":"2026-11-16T10:18:00.012345Z","#,
            r#""RandGuid":"9601c2fb-a5ce-44c4-ae9e-86ca2b121de3"}}}"#
        )
    );
}

#[tokio::test]
async fn the_invocation_carries_the_hosts_headers_with_or_without_a_length() {
    for chunked in [true, false] {
        let running = World::answering(json!([]))
            .tick()
            .with(|options| options.chunked = chunked)
            .start()
            .await;
        let result = running.host.invoke("tick").await;
        let request = &running.requests()[0];
        assert_eq!(
            (&request["method"], &request["path"]),
            (&json!("POST"), &json!("/Tick"))
        );
        let headers = &request["headers"];
        assert_eq!(headers["x-azure-functions-hostversion"], "4.1037.0.0");
        assert_eq!(headers["x-azure-functions-invocationid"], result.id);
        assert_eq!(headers["user-agent"], "Azure-Functions-Host/4.1037.0.0");
        assert_eq!(headers["content-type"], "application/json; charset=utf-8");
        assert_eq!(headers["transfer-encoding"] == "chunked", chunked);
        assert_eq!(headers.get("content-length").is_none(), chunked);
    }
}

#[tokio::test]
async fn a_handler_that_exits_zero_is_not_restarted() {
    let mut running = World::answering(json!([{"exit": 0}])).tick().start().await;
    running.failure("Tick").await;
    assert!(!running.until(exited).await.1, "not counted");
    assert_eq!(running.host.wait_ready().await, Err(NotReady::Gone));
    assert!(matches!(
        running.failure("Tick").await,
        InvocationFailure::NoAnswer(_)
    ));
    assert_eq!(running.starts().len(), 1);
}

#[tokio::test]
async fn exit_code_200_restarts_without_counting() {
    let mut running = World::answering(json!([{"exit": 200}]))
        .tick()
        .start()
        .await;
    for _ in 0..5 {
        running.failure("Tick").await;
        assert!(!running.until(exited).await.1);
    }
    running.host.wait_ready().await.unwrap();
    assert_eq!(running.starts().len(), 6);
}

#[tokio::test]
async fn the_third_error_stops_the_host() {
    let mut running = World::new(json!({"exit_at_start": 3, "stderr": ["no database"]}))
        .tick()
        .start()
        .await;
    let reason = running.host.wait().await;
    assert!(
        matches!(&reason, StopReason::TooManyErrors(last) if last.contains("no database")),
        "{reason}"
    );
    assert!(
        reason
            .to_string()
            .starts_with("Exceeded http worker restart retry count")
    );
    assert_eq!(running.starts().len(), 3);
    let told = running.until(|event| match event {
        HostEvent::ShuttingDown { reason } => Some(reason),
        _ => None,
    });
    assert_eq!(told.await, reason);
    assert_eq!(
        running.failure("Tick").await,
        InvocationFailure::HostStopping
    );
}

#[tokio::test]
async fn a_lifted_budget_outlives_many_kills_on_one_port_with_new_worker_ids() {
    let mut running = World::answering(json!([]))
        .tick()
        .with(|options| options.restart_budget = Some(u32::MAX))
        .start()
        .await;
    let mut ports = Vec::new();
    for _ in 0..5 {
        ports.push(running.until(started).await.1);
        let pid = running.host.wait_ready().await.unwrap();
        assert_eq!(running.host.handler_pid(), Some(pid));
        running.host.kill_handler().await;
        assert_eq!(running.until(exited).await, (pid, true));
        assert!(!is_alive(pid));
    }
    assert!(running.host.invoke("Tick").await.succeeded());
    ports.dedup();
    assert_eq!(ports.len(), 1);
    let mut ids: Vec<String> = running
        .starts()
        .iter()
        .map(|start| start["environment"]["FUNCTIONS_HTTPWORKER_ID"].to_string())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

#[tokio::test]
async fn a_handler_that_never_opens_its_port_counts_as_an_error() {
    let running = World::new(json!({"never_listen": true}))
        .tick()
        .host(json!({"customHandler": {"initializationTimeout": "00:00:00.2"}}))
        .start()
        .await;
    let reason = running.host.wait().await;
    assert!(
        matches!(&reason, StopReason::TooManyErrors(last) if last.contains("did not open port")),
        "{reason}"
    );
}

#[tokio::test]
async fn an_empty_200_hangs_until_the_timeout_and_the_handler_is_killed() {
    let limit = Duration::from_millis(200);
    let mut running = World::answering(json!([{"body": ""}]))
        .tick()
        .with(|options| options.function_timeout = Some(limit))
        .start()
        .await;
    let pid = running.host.wait_ready().await.unwrap();
    assert_eq!(
        running.failure("Tick").await,
        InvocationFailure::TimedOut(limit)
    );
    assert_eq!(running.until(exited).await, (pid, false));
    assert_ne!(running.host.wait_ready().await.unwrap(), pid);
}

#[tokio::test]
async fn a_timeout_kills_every_other_invocation_in_the_handler() {
    let never = json!({"schedule": "0 0 0 1 1 *"});
    let functions =
        json!({"Stuck": {"hang": true}, "Pace": {"work_ms": 2500}, "Victim": {"hang": true}});
    let running = World::new(json!({ "functions": functions }))
        .timer("Stuck", never.clone())
        .timer("Pace", never.clone())
        .timer("Victim", never)
        .setting("azurefunctionsjobhost__FUNCTIONTIMEOUT", "00:00:03")
        .start()
        .await;
    running.host.wait_ready().await.unwrap();
    // The victim starts late enough to meet the kill at 5 s before its own time-out.
    let late = async {
        assert!(running.host.invoke("Pace").await.succeeded());
        running.failure("Victim").await
    };
    let (stuck, victim) = tokio::join!(running.failure("Stuck"), late);
    assert_eq!(stuck, InvocationFailure::TimedOut(Duration::from_secs(3)));
    assert!(matches!(victim, InvocationFailure::NoAnswer(_)), "{victim}");
}

#[tokio::test]
async fn console_lines_have_the_hosts_levels() {
    let script = json!({"stdout": ["plain"], "stderr": ["a WARNing", "bad"]});
    let mut running = World::new(script).tick().start().await;
    let mut seen = Vec::new();
    let pick = |event| {
        if let HostEvent::Log {
            source,
            level,
            line,
        } = event
        {
            seen.push((source, level, line));
        }
        (seen.len() == 3).then(|| seen.clone())
    };
    let seen = running.until(pick).await;
    for (source, level, line) in [
        (LogSource::Stdout, LogLevel::Information, "plain"),
        (LogSource::Stderr, LogLevel::Warning, "a WARNing"),
        (LogSource::Stderr, LogLevel::Error, "bad"),
    ] {
        assert!(
            seen.contains(&(source, level, line.to_owned())),
            "{line}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn logs_of_an_answer_belong_to_its_invocation() {
    let mut running = World::answering(json!([{"body": {"Logs": ["read 3 rows"]}}]))
        .tick()
        .start()
        .await;
    let id = running.host.invoke("Tick").await.id;
    let source = running.until(|event| match event {
        HostEvent::Log { source, line, .. } if line == "read 3 rows" => Some(source),
        _ => None,
    });
    assert_eq!(source.await, LogSource::Invocation(id));
}

#[tokio::test]
async fn a_failed_answer_fails_the_invocation() {
    let running = World::answering(json!([
        {"status": 500, "body": {"Logs": ["lost"]}},
        {"content_type": "text/plain"},
        {"body": "{"},
    ]))
    .tick()
    .with(|options| options.chunked = false)
    .start()
    .await;
    assert_eq!(
        running.failure("Tick").await,
        InvocationFailure::Status(500)
    );
    assert!(matches!(
        running.failure("Tick").await,
        InvocationFailure::InvalidResponse(_)
    ));
    assert!(matches!(
        running.failure("Tick").await,
        InvocationFailure::InvalidResponse(_)
    ));
}

#[tokio::test]
async fn a_redirect_is_followed() {
    let answers = json!([{"status": 307, "location": "/elsewhere"}, {}]);
    let running = World::answering(answers)
        .tick()
        .with(|options| options.chunked = false)
        .start()
        .await;
    assert!(running.host.invoke("Tick").await.succeeded());
    assert_eq!(running.requests()[1]["path"], "/elsewhere");
}

#[tokio::test]
async fn one_timer_never_overlaps_itself_and_an_overrun_leaves_no_backlog() {
    let mut running = World::answering(json!([{"work_ms": 250}, {}]))
        .timer("Tick", json!({"schedule": "00:00:00.1"}))
        .start()
        .await;
    let mut open = 0;
    let mut ended = 0;
    let pick = |event| {
        match event {
            HostEvent::InvocationStarted { .. } => open += 1,
            HostEvent::InvocationEnded { .. } => {
                open -= 1;
                ended += 1;
            }
            _ => {}
        }
        assert!(open <= 1, "two runs at once");
        (ended == 4).then_some(())
    };
    running.until(pick).await;
    let times: Vec<Timestamp> = running
        .bodies()
        .iter()
        .map(|body| {
            body["Metadata"]["sys"]["UtcNow"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    let gaps: Vec<i64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).num_milliseconds())
        .collect();
    assert!(gaps[0] >= 250, "{gaps:?}");
    assert!(
        gaps[1] >= 90 && gaps[2] >= 90,
        "a backlog would follow at once: {gaps:?}"
    );
}

#[tokio::test]
async fn a_schedule_below_a_minute_has_no_status() {
    let mut running = World::answering(json!([]))
        .timer("Tick", json!({"schedule": "* * * * * *"}))
        .start()
        .await;
    running
        .until(|event| matches!(event, HostEvent::InvocationEnded { .. }).then_some(()))
        .await;
    let info = &running.bodies()[0]["Data"]["tick"];
    assert_eq!(
        (&info["ScheduleStatus"], &info["IsPastDue"]),
        (&Value::Null, &json!(false))
    );
}

#[tokio::test]
async fn a_run_missed_while_the_host_was_down_is_past_due_unless_the_schedule_changed() {
    for (schedule, past_due) in [("0 */5 * * * *", true), ("0 */10 * * * *", false)] {
        let kept = tempfile::tempdir().unwrap();
        let stored = r#"{"Last":"2026-11-16T09:00:00Z","Next":"2026-11-16T09:05:00Z"}"#;
        std::fs::write(kept.path().join("Tick.json"), stored).unwrap();
        let mut running = World::answering(json!([]))
            .timer("Tick", json!({"schedule": schedule, "runOnStartup": true}))
            .with(|options| {
                options.clock = Arc::new(StoppedClock("2026-11-16T10:18:00Z"));
                options.status_directory = Some(kept.path().to_owned());
            })
            .start()
            .await;
        running
            .until(|event| matches!(event, HostEvent::InvocationEnded { .. }).then_some(()))
            .await;
        let info = &running.bodies()[0]["Data"]["tick"];
        assert_eq!(info["IsPastDue"], past_due, "{schedule}");
        assert_eq!(info["ScheduleStatus"]["Last"], "2026-11-16T09:00:00+00:00");
    }
}

#[tokio::test]
async fn a_disabled_function_never_fires() {
    let now = json!({"schedule": "00:00:00.05", "runOnStartup": true});
    let mut running = World::answering(json!([]))
        .timer("Off", now.clone())
        .timer("Also-off", now.clone())
        .timer("On", now)
        .setting("AzureWebJobs.Off.Disabled", "1")
        .setting("AzureWebJobs_ALSO-OFF_Disabled", "True")
        .start()
        .await;
    let mut names = Vec::new();
    let pick = |event| {
        if let HostEvent::InvocationStarted { function, .. } = event {
            names.push(function);
        }
        (names.len() == 4).then(|| names.clone())
    };
    assert_eq!(running.until(pick).await, ["On"; 4]);
}

#[tokio::test]
async fn timers_that_are_switched_off_fire_only_by_hand() {
    let mut running = World::answering(json!([]))
        .timer(
            "Tick",
            json!({"schedule": "00:00:00.01", "runOnStartup": true}),
        )
        .with(|options| options.timers = false)
        .start()
        .await;
    let id = running.host.invoke("Tick").await.id;
    let first = running.until(|event| match event {
        HostEvent::InvocationStarted { id, .. } => Some(id),
        _ => None,
    });
    assert_eq!(first.await, id);
}

#[tokio::test]
async fn retries_keep_the_invocation_id_and_say_how_many() {
    let retry =
        json!({"strategy": "fixedDelay", "maxRetryCount": 2, "delayInterval": "00:00:00.01"});
    let binding = timer_binding(json!({"schedule": "0 0 0 1 1 *"}));
    let running = World::answering(json!([{"status": 500}]))
        .function("Tick", json!({"bindings": [binding], "retry": retry}))
        .start()
        .await;
    let result = running.host.invoke("Tick").await;
    assert_eq!(
        (result.attempts, result.outcome.unwrap_err()),
        (3, InvocationFailure::Status(500))
    );
    let requests = running.requests();
    assert!(
        requests
            .iter()
            .all(|request| request["headers"]["x-azure-functions-invocationid"] == result.id)
    );
    let contexts: Vec<Value> = running
        .bodies()
        .iter()
        .map(|body| body["Metadata"]["RetryContext"].clone())
        .collect();
    assert_eq!(
        contexts[0],
        json!({"RetryCount": 0, "MaxRetryCount": 2, "Exception": null, "Instance": null, "State": {}})
    );
    assert_eq!(contexts[2]["RetryCount"], 2);
    assert_eq!(
        contexts[2]["Exception"]["Message"],
        "the handler answered with status 500"
    );
}

#[tokio::test]
async fn an_http_function_gets_the_request_and_answers_through_its_output() {
    let res = json!({"statusCode": "201", "body": {"a": 1}, "headers": {"X-Made": "here"}});
    let running = World::answering(json!([{"body": {"Outputs": {"res": res}}}]))
        .http(
            "orders",
            json!({"route": "orders/{id}"}),
            json!([{"type": "http", "direction": "out", "name": "res"}]),
        )
        .start()
        .await;
    let request = "POST /api/orders/a%20b?x=1&x=2\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"n\":1,\"list\":[1,2] }";
    let answer = running.http(request).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(
        answer.contains("x-made: here") && answer.contains("text/plain"),
        "{answer}"
    );
    assert!(answer.ends_with("{\n  \"a\": 1\n}"), "{answer}");
    let body = &running.bodies()[0];
    let req = &body["Data"]["req"];
    assert_eq!(running.requests()[0]["path"], "/orders");
    assert_eq!(req["Url"], "http://localhost/api/orders/a%20b?x=1&x=2");
    assert_eq!(
        (&req["Method"], &req["Query"]),
        (&json!("POST"), &json!({"x": "1,2"}))
    );
    assert_eq!(req["Params"], json!({"id": "a b"}));
    assert_eq!(req["Headers"]["Content-Type"], json!(["application/json"]));
    assert_eq!(req["Body"], "{\"n\":1,\"list\":[1,2] }");
    assert_eq!(body["Metadata"]["id"], "\"a b\"");
    assert_eq!(body["Metadata"]["n"], "\"1\"");
    assert!(body["Metadata"].get("list").is_none());
}

#[tokio::test]
async fn a_chunked_request_loses_its_body() {
    let running = World::answering(json!([]))
        .http("hook", json!({}), json!([]))
        .start()
        .await;
    let request = "POST /api/hook\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    assert_eq!(running.status(request).await, 204);
    assert!(running.bodies()[0]["Data"]["req"].get("Body").is_none());
}

#[tokio::test]
async fn keys_methods_and_routes_are_enforced() {
    let running = World::answering(json!([]))
        .host(json!({"extensions": {"http": {"routePrefix": "v1"}}}))
        .http("open", json!({"methods": ["get"]}), json!([]))
        .http("keyed", json!({"authLevel": "function"}), json!([]))
        .http("off", json!({}), json!([]))
        .setting("AzureWebJobs.off.Disabled", "true")
        .start()
        .await;
    for (request, expected) in [
        ("GET /v1/open", 204),
        ("POST /v1/open\r\nContent-Length: 0\r\n\r\n", 404),
        ("GET /api/open", 404),
        ("GET /v1/other", 404),
        ("GET /v1/off", 404),
        ("GET /v1/keyed", 401),
        ("GET /v1/keyed?code=wrong", 401),
        ("GET /v1/keyed?code=local-key", 204),
        ("GET /v1/keyed\r\nx-functions-key: local-key\r\n\r\n", 204),
    ] {
        assert_eq!(running.status(request).await, expected, "{request}");
    }
}

#[tokio::test]
async fn an_output_that_is_not_written_fails_the_call() {
    let outputs = json!([
        {"type": "http", "direction": "out", "name": "res"},
        {"type": "blob", "direction": "out", "name": "items", "path": "x/y"}
    ]);
    let body = json!({"Outputs": {"res": {"statusCode": 200}, "items": ["a"]}});
    let mut running = World::answering(json!([{ "body": body }]))
        .http("relay", json!({}), outputs)
        .start()
        .await;
    assert_eq!(running.status("GET /api/relay").await, 500);
    let failure = running.until(|event| match event {
        HostEvent::InvocationEnded { result, .. } => result.outcome.err(),
        _ => None,
    });
    let failure = failure.await.to_string();
    assert!(
        failure.contains("'items' of type 'blob'") && failure.contains("does not write"),
        "{failure}"
    );
}

#[tokio::test]
async fn shutdown_waits_for_the_running_invocation_and_kills_the_handler() {
    let mut running = World::answering(json!([{"work_ms": 300}]))
        .timer(
            "Tick",
            json!({"schedule": "0 0 0 1 1 *", "runOnStartup": true}),
        )
        .start()
        .await;
    let pid = running.host.wait_ready().await.unwrap();
    running
        .until(|event| matches!(event, HostEvent::InvocationStarted { .. }).then_some(()))
        .await;
    running.host.shutdown().await;
    assert!(!is_alive(pid));
    let succeeded = until(&mut running.events, |event| match event {
        HostEvent::InvocationEnded { result, .. } => Some(result.succeeded()),
        _ => None,
    });
    assert!(succeeded.await);
}

#[tokio::test]
async fn a_dropped_host_leaves_no_handler_behind() {
    let running = World::answering(json!([])).tick().start().await;
    let pid = running.host.wait_ready().await.unwrap();
    let Running {
        host,
        mut events,
        world: _world,
    } = running;
    drop(host);
    assert_eq!(until(&mut events, exited).await, (pid, false));
    assert!(!is_alive(pid));
}

#[test]
fn every_fault_of_an_app_is_reported_at_once() {
    let world = World::new(json!({}))
        .host(json!({"version": "3.0", "functionTimeout": "soon"}))
        .file("local.settings.json", json!({"Values": {"A": "b"}}))
        .timer("9lives", json!({"schedule": "* * * * * *"}))
        .timer("Unset", json!({"schedule": "%X%"}))
        .timer("Last", json!({"schedule": "0 0 0 L * *", "name": "my_timer"}))
        .function("Two", json!({"bindings": [timer_binding(json!({"schedule": "* * * * * *"})), {"type": "httpTrigger", "name": "req"}]}))
        .function("None", json!({"bindings": []}))
        .file("notes/readme.json", json!({}));
    let faults = world.read().unwrap_err();
    for expected in [
        "host.json: version: it is \"3.0\" (write \"version\": \"2.0\"",
        "host.json: functionTimeout: 'soon' is not a time span",
        "local.settings.json: IsEncrypted: ",
        "9lives/function.json: '9lives' is not a function name",
        "Unset/function.json: bindings[0].schedule: '%X%' does not resolve to a value.",
        "Last/function.json: bindings[0].name: 'my_timer' is not a binding name",
        "Last/function.json: bindings[0].schedule: 'L' is not a valid day of month",
        "Two/function.json: bindings: 'tick' and 'req' are both triggers",
        "None/function.json: bindings: it has no binding",
    ] {
        assert!(faults.contains(expected), "{expected} in\n{faults}");
    }
    assert_eq!(faults.lines().count(), 9, "{faults}");
}

#[test]
fn settings_come_from_the_environment_then_from_local_settings() {
    let world = World::new(json!({}))
        .host(json!({"functionTimeout": "-1"}))
        .file(
            "local.settings.json",
            json!({"IsEncrypted": false, "Values": {"EVERY": "00:05:00", "TAKEN": "file"}, "Host": {"LocalHttpPort": 7072}}),
        )
        .function("Tick", json!({"bindings": [timer_binding(json!({"schedule": "%every%"}))], "poller": {"any": 1}}))
        .setting("TAKEN", "environment")
        .setting("AzureFunctionsJobHost__customHandler__description__arguments__0", "serve");
    let app = world.read().unwrap();
    assert_eq!(app.environment["TAKEN"], "environment");
    assert_eq!(app.local_http_port, Some(7072));
    assert_eq!(app.function_timeout, None);
    assert_eq!(app.handler.arguments, ["serve"]);
    assert_eq!(app.functions[0].name, "Tick");
}

#[tokio::test]
async fn the_executable_is_a_file_of_the_app_or_a_command_on_the_path() {
    let handler = scripted_handler();
    let folder = handler.parent().unwrap().display().to_string();
    let name =
        json!({"customHandler": {"description": {"defaultExecutablePath": "scripted-handler"}}});
    let world = |name| {
        World::answering(json!([]))
            .tick()
            .host(name)
            .with(|options| options.executable = None)
    };
    let on_path = world(name.clone()).setting("PATH", &folder).start().await;
    on_path.host.wait_ready().await.unwrap();
    let in_app = world(name.clone());
    std::fs::hard_link(&handler, in_app.directory.path().join("scripted-handler"))
        .or_else(|_| {
            std::fs::copy(&handler, in_app.directory.path().join("scripted-handler")).map(drop)
        })
        .unwrap();
    in_app.start().await.host.wait_ready().await.unwrap();
    let nowhere = world(name);
    let refused = LocalHost::start(nowhere.read().unwrap(), nowhere.options.clone())
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("neither a file below"),
        "{refused}"
    );
}
