use super::*;

fn keyset(columns: &[&str], order: &[usize], filter: Option<&str>) -> Keyset {
    Keyset {
        dialect: Dialect::Sqlite,
        from: From::Table {
            schema: "main".into(),
            table: "t".into(),
        },
        filter: filter.map(|filter| Fragment::parse(filter).unwrap()),
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        order: order.to_vec(),
        present: Vec::new(),
    }
}

#[test]
fn a_page_is_one_range_per_column_of_the_order() {
    assert_eq!(
        keyset(&["id", "c"], &[1, 0], None).page(true),
        r#"SELECT "main"."t"."id", "main"."t"."c" FROM "main"."t" WHERE "main"."t"."c" COLLATE BINARY = ?1 AND "main"."t"."id" COLLATE BINARY > ?2
UNION ALL
SELECT "main"."t"."id", "main"."t"."c" FROM "main"."t" WHERE "main"."t"."c" COLLATE BINARY > ?1
ORDER BY 2 COLLATE BINARY, 1 COLLATE BINARY
LIMIT ?3"#
    );
}

#[test]
fn the_first_page_compares_nothing() {
    assert_eq!(
        keyset(&["id"], &[0], None).page(false),
        r#"SELECT "main"."t"."id" FROM "main"."t"
ORDER BY 1 COLLATE BINARY
LIMIT ?1"#
    );
}

#[test]
fn a_filter_cannot_reach_outside_its_parentheses() {
    let sql = keyset(&["id"], &[0], Some("a = 1 OR b = 2 -- both")).page(true);
    assert!(
        sql.contains("> ?1 AND (\na = 1 OR b = 2\n)\nORDER BY"),
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
