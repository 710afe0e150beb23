use proptest::prelude::*;

use super::*;

fn keyset(columns: &[&str], order: &[usize], filter: Option<&str>) -> Keyset {
    keyset_of(Dialect::Sqlite, Some("BINARY"), columns, order, filter)
}

fn keyset_of(
    dialect: Dialect,
    collation: Option<&'static str>,
    columns: &[&str],
    order: &[usize],
    filter: Option<&str>,
) -> Keyset {
    Keyset {
        dialect,
        from: From::Table {
            schema: "main".into(),
            table: "t".into(),
        },
        filter: filter.map(|filter| Fragment::parse(dialect, filter).unwrap()),
        columns: columns
            .iter()
            .map(|&name| Column {
                collation,
                ..Column::plain(name.to_owned(), false)
            })
            .collect(),
        order: order.to_vec(),
        present: Vec::new(),
        tombstones: None,
    }
}

#[test]
fn a_page_is_one_range_per_column_of_the_order() {
    assert_eq!(
        keyset(&["id", "c"], &[1, 0], None).page(true).sql,
        r#"SELECT "main"."t"."id", "main"."t"."c" FROM "main"."t" WHERE "main"."t"."c" COLLATE BINARY = ? AND "main"."t"."id" COLLATE BINARY > ?
UNION ALL
SELECT "main"."t"."id", "main"."t"."c" FROM "main"."t" WHERE "main"."t"."c" COLLATE BINARY > ?
ORDER BY 2 COLLATE BINARY, 1 COLLATE BINARY
LIMIT ?"#
    );
}

#[test]
fn the_first_page_compares_nothing() {
    assert_eq!(
        keyset(&["id"], &[0], None).page(false).sql,
        r#"SELECT "main"."t"."id" FROM "main"."t"
ORDER BY 1 COLLATE BINARY
LIMIT ?"#
    );
}

#[test]
fn a_filter_cannot_reach_outside_its_parentheses() {
    let sql = keyset(&["id"], &[0], Some("a = 1 OR b = 2 -- both"))
        .page(true)
        .sql;
    assert!(
        sql.contains("> ? AND (\na = 1 OR b = 2\n)\nORDER BY"),
        "{sql}"
    );
}

#[test]
fn a_quote_in_a_name_is_doubled() {
    assert_eq!(
        Dialect::Sqlite.quote(r#"a"; DROP TABLE t; --"#),
        r#""a""; DROP TABLE t; --""#
    );
}

/// As the server reads it: up to the first quote that is not doubled; the name, and what is behind it.
fn read_back(quoted: &str, quote: char) -> Option<(String, &str)> {
    let mut rest = quoted.strip_prefix(quote)?;
    let mut name = String::new();
    loop {
        let (before, after) = rest.split_once(quote)?;
        name.push_str(before);
        match after.strip_prefix(quote) {
            Some(more) => {
                name.push(quote);
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

proptest! {
    /// S11.
    #[test]
    fn any_name_is_read_back_as_it_is_and_nothing_of_it_is_behind_the_quotes(
        name in prop_oneof![any::<String>(), "[\"`'\\\\\\[\\]; -]{0,12}"],
    ) {
        for (dialect, quote) in [
            (Dialect::Sqlite, '"'),
            (Dialect::Postgres, '"'),
            (Dialect::MySql, '`'),
        ] {
            let quoted = dialect.quote(&name) + " FROM t";
            prop_assert_eq!(read_back(&quoted, quote), Some((name.clone(), " FROM t")));
        }
    }
}

#[test]
fn an_index_leaves_out_what_every_index_ends_with() {
    let keyset = keyset(&["id", "c"], &[1, 0], None);
    assert_eq!(
        keyset.index(|column| column == 0).as_deref(),
        Some(r#"CREATE INDEX "main"."t_c" ON "t" ("c" COLLATE BINARY)"#)
    );
    assert_eq!(
        keyset.index(|_| false).as_deref(),
        Some(r#"CREATE INDEX "main"."t_c_id" ON "t" ("c" COLLATE BINARY, "id" COLLATE BINARY)"#)
    );
}

#[test]
fn every_database_gets_the_form_that_is_a_range_of_its_index() {
    let page = |dialect| keyset_of(dialect, None, &["id", "a", "b"], &[1, 2, 0], None).page(true);
    let postgres = page(Dialect::Postgres);
    assert_eq!(
        postgres.sql.split_once("WHERE ").unwrap().1,
        r#"("main"."t"."a", "main"."t"."b", "main"."t"."id") > ($1, $2, $3)
ORDER BY "main"."t"."a", "main"."t"."b", "main"."t"."id"
LIMIT $4"#
    );
    assert_eq!(places(&postgres), [0, 1, 2]);
    let mysql = page(Dialect::MySql);
    assert_eq!(
        mysql
            .sql
            .replace("`main`.`t`.", "")
            .split_once("WHERE ")
            .unwrap()
            .1,
        "((`a` > ?) OR (`a` = ? AND `b` > ?) OR (`a` = ? AND `b` = ? AND `id` > ?))\n\
         ORDER BY `a`, `b`, `id`\nLIMIT ?"
    );
    assert_eq!(places(&mysql), [0, 0, 1, 0, 1, 2]);
}

fn places(statement: &Statement) -> Vec<usize> {
    let (last, values) = statement.parameters.split_last().unwrap();
    assert_eq!(*last, Parameter::Limit);
    let place = |parameter: &Parameter| match parameter {
        Parameter::Value(place) => *place,
        other => panic!("{other:?} in {}", statement.sql),
    };
    values.iter().map(place).collect()
}

#[test]
fn tombstones_are_merged_in_the_order_of_the_source() {
    let mut keyset = keyset_of(Dialect::Postgres, None, &["id", "x", "c"], &[2, 0], None);
    keyset.tombstones = Some(Tombstones {
        from: From::Table {
            schema: "main".into(),
            table: "gone".into(),
        },
        names: vec![Some("row".into()), None, Some("at".into())],
    });
    assert_eq!(
        keyset.page(true).sql.replace('"', ""),
        "SELECT u.* FROM (
(SELECT main.t.id AS c0, main.t.x AS c1, main.t.c AS c2, 0 AS mark FROM main.t WHERE (main.t.c, main.t.id) > ($1, $2)
ORDER BY main.t.c, main.t.id
LIMIT $3)
UNION ALL
(SELECT main.gone.row AS c0, NULL AS c1, main.gone.at AS c2, 1 AS mark FROM main.gone WHERE (main.gone.at, main.gone.row) > ($4, $5)
ORDER BY main.gone.at, main.gone.row
LIMIT $6)
) AS u
ORDER BY u.c2, u.c0, u.mark
LIMIT $7"
    );
}

#[test]
fn a_position_is_found_by_equality_in_every_column_of_the_order() {
    let mut keyset = keyset_of(
        Dialect::Postgres,
        None,
        &["id", "x", "c"],
        &[2, 0],
        Some("x > 1"),
    );
    assert_eq!(
        keyset.find(|_| false).sql.replace('"', ""),
        "SELECT main.t.id, main.t.x, main.t.c FROM main.t WHERE main.t.c = $1 AND main.t.id = $2 AND (\nx > 1\n)
LIMIT $3"
    );
    keyset.tombstones = Some(Tombstones {
        from: From::Table {
            schema: "main".into(),
            table: "gone".into(),
        },
        names: vec![Some("row".into()), None, Some("at".into())],
    });
    assert_eq!(
        keyset.find(|_| false).sql.replace('"', ""),
        "SELECT main.t.id AS c0, main.t.x AS c1, main.t.c AS c2, 0 AS mark FROM main.t WHERE main.t.c = $1 AND main.t.id = $2 AND (\nx > 1\n)
UNION ALL
SELECT main.gone.row AS c0, NULL AS c1, main.gone.at AS c2, 1 AS mark FROM main.gone WHERE main.gone.at = $3 AND main.gone.row = $4
ORDER BY mark
LIMIT $5"
    );
}

/// The index has the column in another order, which is no matter where it is one value.
#[test]
fn text_that_is_converted_to_be_ordered_is_also_sought_as_it_is() {
    let mut keyset = keyset_of(Dialect::MySql, None, &["k"], &[0], None);
    keyset.columns[0].converted = Some(("CAST(", " AS BINARY)"));
    let statement = keyset.find(|_| true);
    assert_eq!(
        statement.sql.replace("`main`.`t`.", ""),
        "SELECT `k` FROM `main`.`t` WHERE CAST(`k` AS BINARY) = ? AND `k` = ?\nLIMIT ?"
    );
    assert_eq!(
        statement.parameters,
        [Parameter::Value(0), Parameter::Native(0), Parameter::Limit]
    );
}

#[test]
fn a_count_is_a_range_of_the_index_on_both_sides() {
    let count = |dialect, after, up_to| {
        keyset_of(dialect, None, &["id", "c"], &[1, 0], None).count(after, up_to)
    };
    let postgres = count(Dialect::Postgres, true, true);
    assert_eq!(
        postgres.sql.replace("\"main\".\"t\".", ""),
        r#"SELECT count(*) FROM (
SELECT 1 AS one FROM "main"."t" WHERE ("c", "id") > ($1, $2) AND ("c", "id") <= ($3, $4)
ORDER BY "c", "id"
LIMIT $5
) AS n"#
    );
    assert_eq!(places(&postgres), [0, 1, 2, 3]);
    let mysql = count(Dialect::MySql, false, true);
    assert_eq!(
        mysql.sql.replace("`main`.`t`.", ""),
        "SELECT count(*) FROM (
SELECT 1 AS one FROM `main`.`t` WHERE ((`c` < ?) OR (`c` = ? AND `id` <= ?))
ORDER BY `c`, `id`
LIMIT ?
) AS n"
    );
    assert_eq!(places(&mysql), [0, 0, 1]);
    let sqlite = count(Dialect::Sqlite, true, true);
    assert_eq!(
        sqlite.sql.replace("\"main\".\"t\".", ""),
        r#"SELECT count(*) FROM (
SELECT 1 AS one FROM "main"."t" WHERE "c" > ? AND "c" <= ? AND (("c" < ?) OR ("c" = ? AND "id" <= ?))
UNION ALL
SELECT 1 AS one FROM "main"."t" WHERE "c" = ? AND "id" > ? AND "c" <= ? AND (("c" < ?) OR ("c" = ? AND "id" <= ?))
LIMIT ?
) AS n"#
    );
    assert_eq!(places(&sqlite), [0, 2, 2, 2, 3, 0, 1, 2, 2, 2, 3]);
}

/// An index that has the order has all that is asked for.
#[test]
fn looking_ahead_selects_nothing_but_the_place() {
    let mut keyset = keyset_of(Dialect::Postgres, None, &["id", "x", "c"], &[2, 0], None);
    keyset.columns[2].nullable = true;
    let statement = keyset.ahead(true);
    assert_eq!(
        statement.sql.replace("\"main\".\"t\".", ""),
        r#"SELECT "id", NULL, "c" FROM "main"."t" WHERE ("c", "id") > ($1, $2) AND "c" IS NOT NULL
ORDER BY "c", "id"
LIMIT 1 OFFSET $3"#
    );
    assert_eq!(statement.parameters.last(), Some(&Parameter::Passed));
}

#[test]
fn a_key_is_sought_without_the_filter_which_is_told_instead() {
    let filter = Some("x > 1");
    let mut keyset = keyset_of(
        Dialect::Postgres,
        Some("\"C\""),
        &["k", "x", "c"],
        &[2, 0],
        filter,
    );
    keyset.present = vec![2];
    let statement = keyset.with_key(&[0], |_| true);
    assert_eq!(
        statement.sql.replace("\"main\".\"t\".", ""),
        r#"SELECT "k", "x", "c", CASE WHEN (
x > 1
) THEN 1 ELSE 0 END AS passes FROM "main"."t" WHERE "k" COLLATE "C" = $1 AND "k" = $2
LIMIT $3"#
    );
}
