//! The route template of an HTTP trigger: literals, `{name}`, a last `{name?}` or `{*name}`.

use std::collections::BTreeMap;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Parameter(String),
    Optional(String),
    Rest(String),
}

impl Route {
    /// Reads a template; constraints and defaults are refused.
    pub fn parse(template: &str) -> Result<Route, String> {
        let mut segments = Vec::new();
        for text in template.split('/').filter(|text| !text.is_empty()) {
            if matches!(
                segments.last(),
                Some(Segment::Optional(_) | Segment::Rest(_))
            ) {
                return Err(format!(
                    "'{text}' follows an optional or catch-all parameter"
                ));
            }
            segments.push(segment(text)?);
        }
        Ok(Route(segments))
    }

    /// The parameters, when `path` (segments already percent-decoded) matches.
    pub fn matches(&self, path: &[String]) -> Option<BTreeMap<String, String>> {
        let mut parameters = BTreeMap::new();
        let mut rest = path;
        for segment in &self.0 {
            match (segment, rest.split_first()) {
                (Segment::Literal(literal), Some((head, tail))) => {
                    if !literal.eq_ignore_ascii_case(head) {
                        return None;
                    }
                    rest = tail;
                }
                (Segment::Parameter(name) | Segment::Optional(name), Some((head, tail))) => {
                    parameters.insert(name.clone(), head.clone());
                    rest = tail;
                }
                (Segment::Rest(name), _) => {
                    if !rest.is_empty() {
                        parameters.insert(name.clone(), rest.join("/"));
                    }
                    rest = &[];
                }
                (Segment::Optional(_), None) => {}
                (Segment::Literal(_) | Segment::Parameter(_), None) => return None,
            }
        }
        rest.is_empty().then_some(parameters)
    }

    /// Orders routes that match the same path: literals win over parameters, those over the rest.
    pub fn precedence(&self) -> Vec<u8> {
        self.0
            .iter()
            .map(|segment| match segment {
                Segment::Literal(_) => 0,
                Segment::Parameter(_) => 1,
                Segment::Optional(_) => 2,
                Segment::Rest(_) => 3,
            })
            .collect()
    }
}

fn segment(text: &str) -> Result<Segment, String> {
    let Some(inner) = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    else {
        if text.contains(['{', '}']) {
            return Err(format!(
                "'{text}' mixes text and a parameter in one segment"
            ));
        }
        return Ok(Segment::Literal(text.to_owned()));
    };
    let (make, name): (fn(String) -> Segment, &str) = if let Some(name) = inner.strip_prefix('*') {
        (Segment::Rest, name)
    } else if let Some(name) = inner.strip_suffix('?') {
        (Segment::Optional, name)
    } else {
        (Segment::Parameter, inner)
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!(
            "'{text}' has a constraint or default, which the local host lacks"
        ));
    }
    Ok(make(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_its_template_and_yields_the_parameters() {
        for (template, path, expected) in [
            ("status", "Status", Some("")),
            ("status", "status/x", None),
            ("orders/{id}", "orders/7", Some("id=7")),
            ("orders/{id}", "orders", None),
            ("orders/{id?}", "orders", Some("")),
            ("{*rest}", "a/b", Some("rest=a/b")),
            ("{*rest}", "", Some("")),
        ] {
            let path: Vec<String> = path
                .split('/')
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
                .collect();
            let got = Route::parse(template)
                .unwrap()
                .matches(&path)
                .map(|parameters| {
                    let pairs = parameters
                        .iter()
                        .map(|(name, value)| format!("{name}={value}"));
                    pairs.collect::<Vec<_>>().join("&")
                });
            assert_eq!(got.as_deref(), expected, "{template} on {path:?}");
        }
    }

    #[test]
    fn templates_beyond_the_local_host_are_refused() {
        for template in ["{id:int}", "a{id}", "{id=5}", "{*rest}/x", "{id?}/x", "{}"] {
            assert!(Route::parse(template).is_err(), "{template}");
        }
    }
}
