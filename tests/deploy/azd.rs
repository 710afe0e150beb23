//! What azd is told, and what publishing leaves out.

use std::collections::BTreeSet;

use super::bicep::templates;
use super::{is_executable, json, keys, read, root, yaml};

#[test]
fn azd_finds_the_template_the_service_and_the_package() {
    let azure = yaml("azure.yaml");
    let templates = templates();
    let infra = &azure["infra"];
    let part = |name: &str| infra[name].as_str().unwrap();
    let main = format!("{}/{}.bicep", part("path"), part("module"));
    assert!(templates.contains_key(&main), "{main}");
    // Found by its tag.
    let [service] = keys(&azure["services"]).into_iter().collect::<Vec<_>>()[..] else {
        panic!("one service: {azure}");
    };
    let app = &templates["deploy/bicep/app.bicep"]["modules"]["functionApp"]["body"];
    let tags = app["params"]["tags"]["expression"].as_str().unwrap();
    let tag = format!("'azd-service-name': '{service}'");
    assert!(tags.contains(&tag), "{tags}");
    let service = &azure["services"][service];
    assert_eq!(service["host"], "function");
    let made = service["dist"].as_str().unwrap();
    let hook = |name: &str| service["hooks"][name]["run"].as_str().unwrap();
    assert!(hook("prepackage").ends_with(made), "{made}");
    for (hook, script) in [
        ("prepackage", "deploy/package.sh"),
        ("postdeploy", "deploy/relay-key.sh"),
    ] {
        let run = service["hooks"][hook]["run"].as_str().unwrap();
        assert!(run.contains(script) && is_executable(script), "{run}");
    }
}

/// Names that begin with `$`.
fn variables(text: &str) -> BTreeSet<&str> {
    let is_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let names = text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        rest.split(|letter| !is_name(letter)).next().unwrap()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// A name that nobody sets would be empty without a word.
#[test]
fn every_variable_of_azd_is_set_by_somebody() {
    let main = &templates()["deploy/bicep/main.bicep"];
    let outputs = keys(&main["outputs"]);
    let of_azd = ["AZURE_ENV_NAME", "AZURE_LOCATION", "AZURE_PRINCIPAL_ID"];
    let readme = read("deploy/README.md");
    for path in ["azure.yaml", "deploy/bicep/main.parameters.json"] {
        let text = read(path);
        let used = variables(&text);
        assert!(used.len() >= 4, "{used:?}");
        for name in used {
            let told = readme.contains(&format!("azd env set {name} "));
            assert!(
                outputs.contains(name) || of_azd.contains(&name) || told,
                "{path}: {name}"
            );
        }
    }
}

/// As .gitignore: a pattern without a slash means a name at any depth.
fn is_left_out(path: &str, patterns: &[&str]) -> bool {
    let matches = |pattern: &str, name: &str| {
        let parts: Vec<&str> = pattern.split('*').collect();
        let mut rest = name;
        for (index, part) in parts.iter().enumerate() {
            let found = match index {
                0 => rest.strip_prefix(part),
                _ => rest.find(part).map(|at| &rest[at + part.len()..]),
            };
            match found {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        rest.is_empty() || pattern.ends_with('*')
    };
    path.split('/')
        .any(|name| patterns.iter().any(|pattern| matches(pattern, name)))
}

#[test]
fn publishing_leaves_out_everything_but_the_app() {
    let ignored = read(".funcignore");
    let lines = ignored.lines().map(str::trim);
    let patterns: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    for path in [
        "host.json",
        "dbtick",
        "orders/function.json",
        "certificates/ca.pem",
    ] {
        assert!(!is_left_out(path, &patterns), "{path} would be missing");
    }
    for path in ["local.settings.json", "orders.db", "orders.db-wal"] {
        assert!(is_left_out(path, &patterns), "{path} would be published");
    }
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_app = ["host.json", "dbtick"].contains(&&*name)
            || root().join(&name).join("function.json").exists();
        assert!(
            is_app || is_left_out(&name, &patterns),
            "{name} would be published"
        );
    }
    // The sample is one of an app, and it is what the package is made of.
    let program = &json("host.json")["customHandler"]["description"]["defaultExecutablePath"];
    assert_eq!(program, "dbtick");
}
