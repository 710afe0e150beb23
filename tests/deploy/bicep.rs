//! The templates: they parse, hang together, and give each identity the roles that their names say.

use std::collections::{BTreeMap, BTreeSet};

use dbtick::config::{App, Settings};
use serde_json::{Value, json};

use super::{files, json as read_json, keys, parsed, read, texts};

const DIRECTORY: &str = "deploy/bicep";

/// As Microsoft publishes them, in the list of built-in roles.
const ROLES: [(&str, &str); 8] = [
    (
        "Storage Blob Data Owner",
        "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    ),
    (
        "Storage Blob Data Contributor",
        "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    ),
    (
        "Storage Queue Data Contributor",
        "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    ),
    (
        "Storage Queue Data Message Sender",
        "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a",
    ),
    (
        "Storage Table Data Contributor",
        "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
    ),
    (
        "Monitoring Metrics Publisher",
        "3913510d-42f4-4e42-8a64-420c390055eb",
    ),
    (
        "Key Vault Secrets User",
        "4633458b-17de-408a-b874-0445c86b69e6",
    ),
    (
        "Key Vault Secrets Officer",
        "b86a8fe4-44ce-4948-aee5-eccb2c155cd7",
    ),
];

pub(super) fn templates() -> BTreeMap<String, Value> {
    let mut paths = files(DIRECTORY, "bicep");
    paths.extend(files(&format!("{DIRECTORY}/modules"), "bicep"));
    serde_json::from_value(parsed(&paths)).unwrap()
}

/// Relative to the file that names it.
fn path_of(module: &Value, file: &str) -> String {
    let mut path: Vec<&str> = file.split('/').collect();
    path.pop();
    for step in module["of"].as_str().unwrap().split('/') {
        match step {
            ".." => drop(path.pop()),
            step => path.push(step),
        }
    }
    path.join("/")
}

/// Name → whether it must be given; of Bicep, or of a template in JSON.
fn parameters(path: &str, templates: &BTreeMap<String, Value>) -> BTreeMap<String, bool> {
    let (all, required): (Value, fn(&Value) -> bool) = match templates.get(path) {
        Some(template) => (template["parameters"].clone(), |it| it["required"] == true),
        None => (read_json(path)["parameters"].clone(), |it| {
            it.get("defaultValue").is_none()
        }),
    };
    let all = all.as_object().unwrap();
    all.iter()
        .map(|(name, it)| (name.clone(), required(it)))
        .collect()
}

#[test]
fn every_template_parses_and_uses_all_that_it_declares() {
    for (path, template) in templates() {
        assert_eq!(template["faults"], json!([]), "{path}");
        let (declared, mentioned) = (texts(&template["declared"]), texts(&template["mentioned"]));
        let unknown: Vec<_> = mentioned.difference(&declared).collect();
        assert!(unknown.is_empty(), "{path} declares no {unknown:?}");
        let of_its_own = [&template["parameters"], &template["variables"]];
        let unused: Vec<_> = of_its_own
            .into_iter()
            .flat_map(keys)
            .filter(|name| !mentioned.contains(name))
            .collect();
        assert!(unused.is_empty(), "{path} does not use {unused:?}");
    }
}

#[test]
fn every_module_is_used_and_gets_what_it_asks_for() {
    let templates = templates();
    let mut used = BTreeSet::new();
    for (path, template) in &templates {
        for (name, module) in template["modules"].as_object().unwrap() {
            let target = path_of(module, path);
            let parameters = parameters(&target, &templates);
            let given = keys(&module["body"]["params"]);
            for parameter in &given {
                let known = parameters.contains_key(*parameter);
                assert!(known, "{path}: {target} takes no {parameter}");
            }
            for (parameter, required) in &parameters {
                let given = given.contains(parameter.as_str());
                assert!(given || !required, "{path}: {target} asks for {parameter}");
            }
            let read = template["outputs_read"].as_array().unwrap().iter();
            for output in read.filter(|pair| pair[0] == **name) {
                let output = output[1].as_str().unwrap();
                let has = keys(&templates[&target]["outputs"]).contains(output);
                assert!(has, "{path}: {target} has no output {output}");
            }
            used.insert(target);
        }
    }
    for path in templates.keys().filter(|path| path.contains("/modules/")) {
        assert!(used.contains(path), "nobody uses {path}");
    }
    assert!(used.contains("deploy/azure/alerts.json"), "{used:?}");
}

#[test]
fn every_parameter_that_people_give_is_explained() {
    let templates = templates();
    for path in ["deploy/bicep/main.bicep", "deploy/bicep/app.bicep"] {
        for (name, parameter) in templates[path]["parameters"].as_object().unwrap() {
            assert_eq!(parameter["described"], true, "{path}: {name}");
        }
    }
    let given = read_json("deploy/bicep/main.parameters.json");
    let main = parameters("deploy/bicep/main.bicep", &templates);
    let given = keys(&given["parameters"]);
    for name in &given {
        assert!(main.contains_key(*name), "main.bicep has no {name}");
    }
    for (name, required) in &main {
        assert!(given.contains(name.as_str()) || !required, "{name}");
    }
}

/// Role → id, wherever one is named.
fn roles(template: &Value) -> BTreeMap<String, String> {
    let variables = template["variables"].as_object().unwrap();
    let objects = variables.values().filter_map(|it| it["value"].as_object());
    let pairs = objects.flatten().filter_map(|(name, id)| {
        let id = id.as_str()?;
        (name.contains(' ')).then(|| (name.clone(), id.to_owned()))
    });
    pairs.collect()
}

#[test]
fn every_role_has_the_id_of_its_name_and_each_set_is_what_it_says() {
    let published: BTreeMap<_, _> = ROLES.into_iter().collect();
    let explained = read("deploy/README.md");
    let templates = templates();
    let mut given = BTreeSet::new();
    for (path, template) in &templates {
        let roles = roles(template);
        for (name, id) in &roles {
            assert_eq!(
                published.get(name.as_str()),
                Some(&id.as_str()),
                "{path}: {name}"
            );
            assert!(explained.contains(name), "the README does not say {name}");
            given.insert(name.clone());
        }
        // No id without its name.
        let is_id = |text: &&str| text.len() == 36 && text.split('-').count() == 5;
        for id in texts(&template["texts"]).into_iter().filter(is_id) {
            assert!(roles.values().any(|it| it == id), "{path}: {id}");
        }
    }
    assert_eq!(given.len(), ROLES.len());
    let set = |name: &str| -> Vec<String> {
        let path = format!("deploy/bicep/modules/roles-{name}.bicep");
        roles(&templates[&path]).into_keys().collect()
    };
    assert_eq!(
        set("host"),
        [
            "Monitoring Metrics Publisher",
            "Storage Blob Data Owner",
            "Storage Queue Data Contributor",
            "Storage Table Data Contributor"
        ]
    );
    assert_eq!(
        set("dbtick"),
        [
            "Storage Blob Data Contributor",
            "Storage Queue Data Message Sender"
        ]
    );
}

/// Not the account, nor the group: each assignment is at the smallest place that there is.
#[test]
fn what_dbtick_may_do_is_bound_to_its_container_and_queues() {
    let template = &templates()["deploy/bicep/modules/roles-dbtick.bicep"];
    let resources = template["resources"].as_object().unwrap();
    let kind = |name: &str| {
        let of = resources[name]["of"].as_str().unwrap();
        of.split('@').next().unwrap().to_owned()
    };
    let mut scopes = Vec::new();
    for (name, resource) in resources {
        if kind(name) == "Microsoft.Authorization/roleAssignments" {
            let scope = resource["body"]["scope"]["expression"].as_str().unwrap();
            let scope = scope.split('[').next().unwrap();
            scopes.push(kind(scope));
        } else {
            assert_eq!(resource["existing"], true, "{name}");
        }
    }
    scopes.sort();
    assert_eq!(
        scopes,
        [
            "Microsoft.Storage/storageAccounts/blobServices/containers",
            "Microsoft.Storage/storageAccounts/queueServices/queues"
        ]
    );
}

#[test]
fn the_app_is_a_custom_handler_on_flex_consumption_with_an_identity() {
    let templates = templates();
    let template = &templates["deploy/bicep/modules/function-app.bicep"];
    let app = &template["resources"]["app"]["body"];
    assert_eq!(app["identity"]["type"], "SystemAssigned");
    let config = &app["properties"]["functionAppConfig"];
    assert_eq!(
        config["runtime"],
        json!({ "name": "custom", "version": "1.0" })
    );
    let storage = &config["deployment"]["storage"];
    assert_eq!(storage["authentication"]["type"], "SystemAssignedIdentity");
    let plan = &template["resources"]["plan"]["body"];
    assert_eq!(
        plan["sku"],
        json!({ "tier": "FlexConsumption", "name": "FC1" })
    );
    // These are refused, or mean nothing, on this plan.
    for (path, template) in &templates {
        let settings = template["variables"].to_string();
        for name in [
            "FUNCTIONS_WORKER_RUNTIME",
            "FUNCTIONS_EXTENSION_VERSION",
            "WEBSITE_RUN_FROM_PACKAGE",
        ] {
            assert!(!settings.contains(name), "{path} sets {name}");
        }
    }
    let account = &templates["deploy/bicep/modules/storage.bicep"]["resources"]["account"]["body"];
    let shared = &account["properties"]["allowSharedKeyAccess"]["expression"];
    assert_eq!(shared, "false");
}

/// The settings as the template makes them, given to the very code that reads them on Azure.
#[test]
fn dbtick_understands_the_settings_that_the_template_makes() {
    let templates = templates();
    let template = &templates["deploy/bicep/modules/app-settings.bicep"];
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    for group in ["host", "state"] {
        for (name, value) in template["variables"][group]["value"].as_object().unwrap() {
            let value = value.as_str().unwrap_or("account").to_owned();
            settings.insert(name.clone(), value);
        }
    }
    let default = &templates["deploy/bicep/app.bicep"]["parameters"];
    for secret in texts(&default["secretSettings"]["default"]) {
        let value = "postgres://reader:secret@db.example.com/shop".to_owned();
        settings.insert(secret.to_owned(), value);
    }
    let given = read_json("deploy/bicep/main.parameters.json");
    for name in keys(&given["parameters"]["settings"]["value"]) {
        settings.insert(
            name.to_owned(),
            "https://shop.example.com/orders".to_owned(),
        );
    }
    // As the platform adds it.
    settings.insert("WEBSITE_SITE_NAME".to_owned(), "func-shop".to_owned());
    settings.insert("CONTAINER_NAME".to_owned(), "one".to_owned());

    let app = tempfile::tempdir().unwrap();
    std::fs::write(app.path().join("host.json"), read("host.json")).unwrap();
    let function: Value = read_json("function-templates/poll-webhook/function.json");
    for (name, state) in [
        ("own", json!({})),
        (
            "other",
            json!({ "state": { "connection": "STATE", "container": default["stateContainer"]["default"] } }),
        ),
    ] {
        let mut function = function.clone();
        super::support::world::merge(&mut function["poller"], state);
        let directory = app.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("function.json"), function.to_string()).unwrap();
    }
    let settings: Settings = settings.iter().collect();
    let loaded = App::load(app.path(), &settings);
    let faults: Vec<String> = loaded.faults().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let states: BTreeSet<String> = loaded
        .pollers()
        .map(|poller| format!("{:?}", poller.state))
        .collect();
    assert_eq!(states.len(), 2, "{states:?}");
    for state in states {
        assert!(state.contains("db-state"), "{state}");
    }
}
