//! The image and the manifests, as far as they can be held to each other and to host.json without an engine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{json as read_json, read, yaml};

/// Instructions with what they are given, lines put together; stages by `FROM`.
fn stages() -> Vec<Vec<(String, String)>> {
    let text = read("deploy/container/Dockerfile").replace("\\\n", " ");
    let mut stages: Vec<Vec<(String, String)>> = Vec::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (instruction, rest) = line.split_once(' ').unwrap();
        let known = ["FROM", "RUN", "WORKDIR", "COPY", "ARG", "ENV"];
        assert!(known.contains(&instruction), "{line}");
        if instruction == "FROM" {
            stages.push(Vec::new());
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let stage = stages.last_mut().expect("FROM comes first");
        stage.push((instruction.to_owned(), words.join(" ")));
    }
    stages
}

fn given<'a>(stage: &'a [(String, String)], instruction: &str) -> Vec<&'a str> {
    let all = stage.iter().filter(|(name, _)| name == instruction);
    all.map(|(_, rest)| rest.as_str()).collect()
}

#[test]
fn the_image_is_the_package_in_the_functions_base_image() {
    let stages = stages();
    let [build, image] = &stages[..] else {
        panic!("{stages:?}");
    };
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split_once("channel = \"").unwrap().1;
    let version = version.split('"').next().unwrap();
    assert_eq!(
        given(build, "FROM"),
        [format!("rust:{version}-bookworm AS build")]
    );
    let package = "/package";
    let made = format!("deploy/package.sh \"$APP\" {package}");
    assert!(given(build, "RUN").contains(&made.as_str()), "{build:?}");
    assert_eq!(
        given(image, "FROM"),
        ["mcr.microsoft.com/azure-functions/dotnet:4"]
    );
    let settings = given(image, "ENV").join(" ");
    let settings: BTreeMap<&str, &str> = settings
        .split(' ')
        .map(|pair| pair.split_once('=').unwrap())
        .collect();
    let app = settings["AzureWebJobsScriptRoot"];
    assert_eq!(app, "/home/site/wwwroot");
    assert_eq!(settings["FUNCTIONS_WORKER_RUNTIME"], "custom");
    assert_eq!(
        settings["AzureFunctionsJobHost__Logging__Console__IsEnabled"],
        "true"
    );
    assert_eq!(
        given(image, "COPY"),
        [format!("--from=build {package} {app}")]
    );
}

#[test]
fn nothing_secret_and_nothing_large_goes_into_the_build() {
    let ignored = read("deploy/container/Dockerfile.dockerignore");
    for pattern in ["**/local.settings.json", "**/*.db", ".azure", "target"] {
        assert!(ignored.lines().any(|line| line == pattern), "{pattern}");
    }
}

fn container() -> Value {
    let deployment = yaml("deploy/kubernetes/app.yaml");
    assert_eq!(deployment["kind"], "Deployment");
    let spec = &deployment["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!(&spec["selector"]["matchLabels"], labels);
    let containers = spec["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    containers[0].clone()
}

#[test]
fn the_manifest_gives_the_host_and_dbtick_the_names_that_they_read() {
    let container = container();
    let mut values = BTreeMap::new();
    for variable in container["env"].as_array().unwrap() {
        values.insert(variable["name"].as_str().unwrap(), variable);
    }
    // A relay is called at the port that the host listens on.
    let port = &container["ports"][0]["containerPort"];
    assert_eq!(
        values["WEBSITE_HOSTNAME"]["value"],
        format!("localhost:{port}")
    );
    assert_eq!(
        values["ASPNETCORE_URLS"]["value"],
        format!("http://+:{port}")
    );
    assert!(values["DBTICK_APP"]["value"].is_string());
    // The key that the poller shows is the one that the host finds for the function that the poller names.
    let poller = read_json("function-templates/poll-relay/function.json");
    let relay = &poller["poller"]["deliver"][0]["relay"];
    let setting = relay["key"].as_str().unwrap().trim_matches('%');
    let key = &values[setting]["valueFrom"]["secretKeyRef"];
    let function = relay["function"].as_str().unwrap();
    assert_eq!(key["key"], format!("functions.{function}.dbtick"));
    assert_eq!(
        values["AzureWebJobsSecretStorageType"]["value"],
        "kubernetes"
    );
    let deployment = yaml("deploy/kubernetes/app.yaml");
    let volumes = &deployment["spec"]["template"]["spec"]["volumes"];
    assert_eq!(
        volumes,
        &json!([{ "name": "keys", "secret": { "secretName": key["name"] } }])
    );
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], "keys");
    assert_eq!(mount["mountPath"], "/run/secrets/functions-keys");
    // Whatever else is a setting comes from a secret, and none is written down here.
    assert!(container["envFrom"][0]["secretRef"]["name"].is_string());
    assert!(!values.contains_key("AzureWebJobsStorage"));
}

#[test]
fn timers_are_never_scaled_out_nor_put_to_sleep_by_their_own_queue() {
    let deployment = yaml("deploy/kubernetes/app.yaml");
    assert_eq!(deployment["spec"]["replicas"], 1);
    for (file, scaler) in [("hours", "cron"), ("queue", "azure-queue")] {
        let object = yaml(&format!("deploy/kubernetes/keda-{file}.yaml"));
        assert_eq!(object["apiVersion"], "keda.sh/v1alpha1");
        assert_eq!(object["kind"], "ScaledObject");
        let spec = &object["spec"];
        let target = &spec["scaleTargetRef"]["name"];
        assert_eq!(target, &deployment["metadata"]["name"]);
        let trigger = &spec["triggers"][0];
        assert_eq!(trigger["type"], scaler);
        // KEDA takes texts only.
        let metadata = trigger["metadata"].as_object().unwrap();
        assert!(metadata.values().all(Value::is_string), "{metadata:?}");
        if scaler == "cron" {
            assert_eq!(spec["maxReplicaCount"], 1);
            assert_eq!(metadata["desiredReplicas"], "1");
        } else {
            assert_eq!(spec["minReplicaCount"], 1);
            assert_eq!(metadata["connectionFromEnv"], "AzureWebJobsStorage");
        }
    }
}
