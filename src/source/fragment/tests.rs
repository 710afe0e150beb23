use super::*;

fn check(text: &str, expect: Result<&str, FragmentFault>) {
    check_in(Dialect::Sqlite, text, expect);
}

fn check_in(dialect: Dialect, text: &str, expect: Result<&str, FragmentFault>) {
    let found = Fragment::parse(dialect, text);
    assert_eq!(found.as_ref().map(Fragment::sql), expect.as_ref().copied());
}

#[test]
fn what_trails_a_query_is_left_out() {
    check("SELECT 1", Ok("SELECT 1"));
    check("SELECT 1 ;\n ; ", Ok("SELECT 1"));
    check("SELECT 1 -- all of it", Ok("SELECT 1"));
    check("SELECT 1; -- done; really\n", Ok("SELECT 1"));
    check("a = 1 /* x */", Ok("a = 1"));
}

#[test]
fn marks_inside_quotes_and_comments_mean_nothing() {
    for text in [
        "a = 'x;)--?'",
        "a = 'it''s; fine'",
        "\"a;b\" = [c;d]",
        "`a;` = 1",
        "a -- ; ) '\n = 1",
        "a /* ; ( ' */ = 1",
    ] {
        check(text, Ok(text));
    }
}

#[test]
fn a_piece_that_would_escape_its_parentheses_is_refused() {
    check("1; DELETE FROM t", Err(FragmentFault::SecondStatement));
    check("a = 1) OR (1 = 1", Err(FragmentFault::Unbalanced));
    check("(a = 1", Err(FragmentFault::Unbalanced));
    check("a = 'x", Err(FragmentFault::Open));
    check("a = 1 /* x", Err(FragmentFault::Open));
    check("a = 1\0 AND b", Err(FragmentFault::Open));
    for text in ["a = ?", "a > $1", "a > :min", "a > @min"] {
        check(text, Err(FragmentFault::Placeholder));
    }
    check(" ; -- nothing", Err(FragmentFault::Empty));
}

#[test]
fn the_syntax_of_postgres_is_read_as_postgres_reads_it() {
    let check = |text: &str| check_in(Dialect::Postgres, text, Ok(text));
    for text in [
        "a = $$x; ) '$$",
        "a = $tag$x $$ ; ) '$tag$ AND b",
        r"a = E'it\'s; )'",
        r"a = e'\\' AND b = 'c'",
        "a = E'x'\n'\\'; )'",
        r"a = '\' AND b",
        "a::text = 'x' AND b[1:2] = c",
        "j @> '{}' AND j ? 'k' AND j ?| k AND j ->> 'x' = @ 5",
        "f(a := 1)",
        "a /* ; /* ' */ ) */ = 1",
        "\"a;\"\"b\" = a$1",
        "type'x' = 1",
    ] {
        check(text);
    }
}

#[test]
fn what_would_escape_in_postgres_is_refused() {
    let check = |text, fault| check_in(Dialect::Postgres, text, Err(fault));
    check("a > $1", FragmentFault::Placeholder);
    check(
        "a = 1 -- x\r; DELETE FROM t",
        FragmentFault::SecondStatement,
    );
    check("a = 1 /* /* */ x", FragmentFault::Open);
    check("a = $x$ $y$", FragmentFault::Open);
    check(r"a = E'\'", FragmentFault::Open);
    check(
        "a = '\\'; DELETE FROM t; --'",
        FragmentFault::SecondStatement,
    );
    check("`; DELETE FROM t; `", FragmentFault::SecondStatement);
    check("a[1]) OR (b[1]", FragmentFault::Unbalanced);
}

#[test]
fn the_syntax_of_mysql_is_read_as_mysql_reads_it() {
    let check = |text: &str| check_in(Dialect::MySql, text, Ok(text));
    for text in [
        r"a = 'it\'s; )'",
        r#"a = "it\"s; )" AND b"#,
        r"a = '\\' AND b = 'c;'",
        "`a;``b` = 1",
        "a # ; ) '\n = 1",
        "a --1 = 2 AND (b)",
        "a -- ; '\n = 1",
        "a --\t; '\n = 1",
        "j->'$.a[0]' = b$c",
        "a = 'x' /* ; # ' */ OR b",
    ] {
        check(text);
    }
    check_in(Dialect::MySql, "a = 1 # all", Ok("a = 1"));
    check_in(Dialect::MySql, "a = 1; --", Ok("a = 1"));
}

#[test]
fn what_would_escape_in_mysql_is_refused() {
    let check = |text, fault| check_in(Dialect::MySql, text, Err(fault));
    check(r"a = 'x\'; DELETE FROM t", FragmentFault::Open);
    check(r"a = 'x\\'; DELETE FROM t", FragmentFault::SecondStatement);
    check("a = 1 --x\n; DELETE FROM t", FragmentFault::SecondStatement);
    check("a = 1 /*! ) OR (1 = 1 */", FragmentFault::Executable);
    check("a = 1 /*M!100000 OR 1 */", FragmentFault::Executable);
    check("a = @x", FragmentFault::Placeholder);
    check("a = @@version", FragmentFault::Placeholder);
    check("a = ?", FragmentFault::Placeholder);
    check("a[1) OR (b]", FragmentFault::Unbalanced);
    check("a = `x", FragmentFault::Open);
}
