//! The templates as a person runs them.

use std::process::Stdio;

use tokio::process::Command;

use super::support::azurite::Azurite;
use super::support::handler::{BINARY, Lines};
use super::support::within;
use super::support::world::World;
use super::{queue, rows, stored};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_templates_of_poller_and_relay_run_together_under_dev() {
    let azurite = Azurite::queue();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let mut settings: serde_json::Value =
        serde_json::from_str(&read("local.settings.sample.json")).unwrap();
    let world = World::new().await.rows(3).await;
    settings["Values"]["ORDERS_DB"] = world.environment["ORDERS_DB"].clone().into();
    settings["Values"]["AzureWebJobsStorage"] = azurite.queue_connection_string().into();
    let poller = read("function-templates/poll-relay/function.json");
    let poller = poller.replace("*/15 * * * * *", "* * * * * *");
    let poller = poller.replace("\"version\"", "\"seq\"");
    let poller = poller.replace(
        "\"key\": \"id\"",
        "\"key\": \"id\", \"stamped_by\": \"database\"",
    );
    let world = world
        .file("host.json", &read("host.json"))
        .file("local.settings.json", &settings.to_string())
        .file("poll-relay/function.json", &poller)
        .file(
            "relay/function.json",
            &read("function-templates/relay/function.json"),
        );
    let mut child = Command::new(BINARY)
        .args(["dev", "--port", "0"])
        .arg(world.app())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("DBTICK_STATE_DIR", &world.environment["DBTICK_STATE_DIR"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdout = Lines::of(child.stdout.take().unwrap());
    let stderr = Lines::of(child.stderr.take().unwrap());
    stdout.line(&["3 rows in 1 batches committed"]).await;
    let texts = stored(&queue(&azurite, "orders")).await;
    let texts: Vec<String> = texts
        .iter()
        .map(|text| {
            String::from_utf8(data_encoding::BASE64.decode(text.as_bytes()).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(rows(&texts), [1, 2, 3]);
    child.start_kill().unwrap();
    within("dev ends", child.wait()).await.unwrap();
    let said = stdout.text() + &stderr.text();
    assert!(!said.contains("any-text-on-this-machine"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_needs_no_host_and_warns_where_the_real_one_lacks_the_binding() {
    let world = super::world("UseDevelopmentStorage=true", serde_json::json!({})).await;
    let check = || {
        let mut environment = world.environment.clone();
        environment.remove("FUNCTIONS_APP_ROOT_PATH");
        let output = std::process::Command::new(BINARY)
            .args(["check", "--json"])
            .arg(world.app())
            .env_clear()
            .envs(environment)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = check();
    assert!(
        said.contains("through the function carry to its queue output messages"),
        "{said}"
    );
    assert!(said.contains("host.json has no extensionBundle"), "{said}");
    let file = world.app().join("host.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut host: serde_json::Value = serde_json::from_str(&text).unwrap();
    host["extensionBundle"] =
        serde_json::json!({ "id": "Microsoft.Azure.Functions.ExtensionBundle" });
    std::fs::write(&file, host.to_string()).unwrap();
    let said = check();
    assert!(!said.contains("extensionBundle"), "{said}");
}
