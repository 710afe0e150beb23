use super::*;
use crate::source::survey::Database;

fn survey(columns: &[(&str, Class)], key: &[&str], unique: &[&[&str]]) -> Survey {
    let owned = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>()
    };
    Survey {
        database: Database::Postgres,
        schema: "public".into(),
        table: "orders".into(),
        is_view: false,
        columns: columns
            .iter()
            .map(|&(name, class)| Surveyed {
                name: name.trim_end_matches('?').into(),
                type_name: format!("{class:?}"),
                nullable: name.ends_with('?'),
                class,
            })
            .collect(),
        primary_key: owned(key),
        unique: unique.iter().map(|set| owned(set)).collect(),
        indexes: vec![owned(key)],
    }
}

#[track_caller]
fn check(survey: &Survey, cursor: &str, key: &[&str]) {
    let proposal = propose(survey, Wanted::default()).unwrap();
    assert_eq!(
        (proposal.cursor, proposal.key.as_slice()),
        (
            vec![cursor.to_owned()],
            key.iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
                .as_slice()
        )
    );
}

#[test]
fn a_time_of_the_last_change_comes_before_everything_else() {
    let columns = [
        ("id", Class::Integer),
        ("created_at", Class::Instant),
        ("version", Class::Integer),
        ("UpdatedAt", Class::Instant),
    ];
    check(&survey(&columns, &["id"], &[]), "UpdatedAt", &["id"]);
    check(&survey(&columns[..3], &["id"], &[]), "version", &["id"]);
    check(&survey(&columns[..2], &["id"], &[]), "id", &["id"]);
}

#[test]
fn a_name_without_the_right_type_is_no_cursor() {
    let columns = [("id", Class::Integer), ("updated_by", Class::Other)];
    check(&survey(&columns, &["id"], &[]), "id", &["id"]);
}

#[test]
fn a_unique_column_stands_in_for_a_primary_key_if_it_is_never_null() {
    let columns = [
        ("a?", Class::Integer),
        ("b", Class::Other),
        ("created", Class::Local),
    ];
    check(&survey(&columns, &[], &[&["a"], &["b"]]), "created", &["b"]);
    let error = propose(&survey(&columns, &[], &[&["a"]]), Wanted::default()).unwrap_err();
    assert!(error.contains("--key"), "{error}");
}

#[test]
fn what_cannot_be_guessed_is_asked_for() {
    let columns = [("id", Class::Other), ("note", Class::Other)];
    let error = propose(&survey(&columns, &["id"], &[]), Wanted::default()).unwrap_err();
    assert!(error.contains("--cursor: id, note"), "{error}");
    let wanted = Wanted {
        cursor: vec!["nope".into()],
        key: Vec::new(),
    };
    let error = propose(&survey(&columns, &["id"], &[]), wanted).unwrap_err();
    assert!(error.contains("no column \"nope\""), "{error}");
}

#[test]
fn an_index_serves_if_it_begins_with_cursor_and_key() {
    let mut survey = survey(
        &[("id", Class::Integer), ("updated", Class::Instant)],
        &["id"],
        &[],
    );
    let proposal = propose(&survey, Wanted::default()).unwrap();
    assert!(!is_indexed(&survey, &proposal));
    survey
        .indexes
        .push(vec!["updated".into(), "id".into(), "x".into()]);
    assert!(is_indexed(&survey, &proposal));
}
