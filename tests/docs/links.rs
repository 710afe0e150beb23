//! Links inside the repository lead to a file, and to a heading of it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::pages::{pages, prose, read, root};

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for target in targets(&prose(&page)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            if let Some(problem) = problem(&page, &target) {
                broken.push(format!("{}: ({target}) {problem}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 50, "{checked}");
}

#[test]
fn a_link_to_nowhere_is_noticed() {
    for target in [
        "nowhere.md",
        "faq.md#nowhere",
        "#nowhere",
        "../../etc/passwd",
    ] {
        assert!(
            problem(Path::new("docs/README.md"), target).is_some(),
            "{target}"
        );
    }
    for target in ["faq.md", "../README.md", "operations.md#stuck-work"] {
        assert_eq!(
            problem(Path::new("docs/README.md"), target),
            None,
            "{target}"
        );
    }
}

fn problem(page: &Path, target: &str) -> Option<String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = match path {
        "" => page.to_owned(),
        path => match resolved(&page.parent().unwrap().join(path)) {
            Some(path) => path,
            None => return Some("leads out of the repository".to_owned()),
        },
    };
    if !root().join(&path).exists() {
        return Some("is not there".to_owned());
    }
    let anchor = anchor?;
    let known = anchors(&read(&path));
    (!known.contains(&anchor.to_owned())).then(|| format!("has no such heading: {known:?}"))
}

/// Without `..`; what leads out of the repository is where nothing is.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(part) => parts.push(part),
            _ => {}
        }
    }
    Some(parts.into_iter().collect())
}

/// Of `[text](target)` and `src="target"`.
fn targets(text: &str) -> Vec<String> {
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    let sources = text
        .split("src=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'));
    let sets = text
        .split("srcset=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'));
    links
        .chain(sources)
        .chain(sets)
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// As GitHub makes them of headings: lower case, spaces to dashes, punctuation gone, a number for the second of a name.
fn anchors(text: &str) -> Vec<String> {
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let count = given.entry(slug.clone()).or_default();
        found.push(match *count {
            0 => slug,
            count => format!("{slug}-{count}"),
        });
        *count += 1;
    }
    found
}
