"""Every error of the query front end: its whole text, and the place it points to.

In the queries below ``@`` marks the place; the language itself has no use for that character.
"""

import ast
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import joinery_gen
from joinery_gen.parse import parse, parse_file
from joinery_gen.query import JoineryError, Query, QueryError

SOURCES = Path(joinery_gen.__file__).parent
QUERIES = sorted((Path(__file__).parents[1] / "gen" / "queries").glob("*.cql"))

R = "CREATE STREAM r (a INT, b DECIMAL(8,2), s STRING(4), f BOOLEAN, t TIMESTAMP(s), n BIGINT);\n"
Q = "CREATE STREAM q (a INT, c UINT(8), s STRING(3), u TIMESTAMP(ms), t TIMESTAMP(s));\n"
X = " FROM r [ROWS 5], q [ROWS 5]"
T = " FROM r [RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t]"

EXPRESSIONS = (
    "+ - * ^ & |, abs(), = <> < <= > >=, AND, OR, NOT, BETWEEN, IN, integers, decimals, "
    "'strings', TRUE, FALSE and TIMESTAMP '...'"
)
LANGUAGE = (
    "a query has SELECT, FROM, JOIN, ON, WHERE and GROUP BY, and its expressions have "
    f"{EXPRESSIONS}"
)
INNER = (
    "joins are inner: FROM r [...] JOIN s [...] ON condition, or FROM r [...], s [...] WHERE "
    "condition"
)
TYPES = (
    "TINYINT, SMALLINT, INT, BIGINT, INT(bits), UINT(bits), BOOLEAN, DECIMAL(digits,decimals), "
    "STRING(bytes), TIMESTAMP(s), TIMESTAMP(ms), TIMESTAMP(us)"
)
UNITS = "MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"
OF_JOINS = "the windows of a join are [ROWS n] and [RANGE t WATTR c SLACK k]"
OF_AGGREGATES = (
    "the windows of an aggregate are [RANGE t SLIDE u WATTR c SLACK k], "
    "[PARTITION BY key ROWS n SLIDE a] and [PARTITION BY key RANGE t SLIDE u WATTR c SLACK k]"
)
NAME = "cannot be a name; names are made of ASCII letters, digits and _, and begin with a letter"
LIST = (
    "The SELECT list of a query over one stream has key columns, the WATTR column and aggregates, "
    "each by itself; aggregates are count, sum, min, max, avg and, with PARTITION BY, median"
)
TIME = "A TIMESTAMP literal stands beside a TIMESTAMP column, whose unit it takes"
HALF_OF_64 = "-9223372036854775808 to 9223372036854775807"


def where(condition: str) -> str:
    """A join with a condition."""
    return f"{R}{Q}SELECT r.a{X} WHERE {condition}"


def joined(select: str) -> str:
    return f"{R}{Q}SELECT {select}{X}"


def totals(select: str, rest: str = "") -> str:
    """An aggregate."""
    return f"{R}SELECT {select}{T} {rest}"


def both(left: str, right: str = "[ROWS 5]") -> str:
    """A join with the windows given."""
    return f"{R}{Q}SELECT r.a FROM r {left}, q {right}"


def over(window: str) -> str:
    """An aggregate with the window given."""
    return f"{R}SELECT count(*) FROM r {window}"


def stream(columns: str) -> str:
    return f"CREATE STREAM x ({columns}); SELECT count(*) FROM x [PARTITION BY a ROWS 5]"


TEXT = [  # the characters and words of the text
    (where("r.a @! 5"), "Unexpected character '!'; a query is written in names, numbers, 'strings' "
     "and operators"),
    (where("r.a = @٣"), "Unexpected character '٣'; a query is written in names, numbers, 'strings' "
     "and operators"),
    (where("r.s = @'it''s"), "This string is never closed"),
    (where("@\"r.s = 'x'"), "This quoted name is never closed"),
    (where("r.a @/* = 5"), "This comment is never closed"),
    (where("r.a = @0x1F"), "0x1F is not a number; write integers as 42 and decimals as 0.25"),
    (where("r.a = @1_000"), "1_000 is not a number; write integers as 42 and decimals as 0.25"),
    (where("r.b = @1.5e3"), "1.5e3 is a floating-point number; write it out in digits"),
    (where("r.b = @1E999999999"), "1E999999999 is a floating-point number; write it out in digits"),
    (both("[ROWS @1e3]"), "1e3 is a floating-point number; write it out in digits"),
    (where("r.a = @" + "9" * 101), "A number has at most 100 digits"),
    (both("[ROWS @" + "9" * 5000 + "]"), "A number has at most 100 digits"),
    (stream("a INT(@" + "9" * 5000 + ")"), "A number has at most 100 digits"),
]  # fmt: skip

STATEMENTS = [
    ("@", "There is no SELECT; a query declares streams and selects from them"),
    ("@-- nothing\n", "There is no SELECT; a query declares streams and selects from them"),
    ("CREATE STREAM x (a INT);@",
     "There is no SELECT; a query declares streams and selects from them"),
    (R + "@INSERT INTO r", "Expected CREATE STREAM or SELECT, found INSERT"),
    (R + "@'SELECT' a", "Expected CREATE STREAM or SELECT, found 'SELECT'"),
    ("@SELECT r.a" + X,
     "No stream is declared; write CREATE STREAM name (column TYPE, ...); first"),
    (totals("count(*)", ";\n@CREATE STREAM z (a INT)"), "No stream is declared after a SELECT; a "
     "query declares its streams first"),
    (Q + totals("count(*)", f";@SELECT r.a{X}"), "A query file may have several SELECTs where they "
     "are aggregates, and there is a join among these"),
    (totals("count(*)", ";@SELECT a, count(*) FROM r [PARTITION BY a ROWS 5]"), "A query file may "
     "have several SELECTs where their windows are [RANGE t SLIDE u WATTR c SLACK k], and this one "
     "is not"),
    *(
        (Q + totals("count(*)", f";@SELECT count(*) FROM {rest}"), "A query file may have several "
         f"SELECTs where they have the same {what}, and this one has another than the first")
        for rest, what in (
            ("r [RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t] AS x", "stream under one name"),
            ("q [RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t]", "stream under one name"),
            ("r [RANGE 9 SLIDE 3 WATTR a]", "WATTR column"),
            ("r [RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t SLACK 1 SECOND]", "SLACK"),
            ("r [RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t] GROUP BY a", "GROUP BY"),
        )
    ),
    (R + "CREATE STREAM @R (a INT); SELECT 1", "Stream R is declared twice"),
]  # fmt: skip

STREAMS = [
    ("CREATE @TABLE x (a INT); SELECT 1", "Expected STREAM, found TABLE"),
    ("CREATE STREAM @(a INT); SELECT 1", "Expected the name of the stream, found ("),
    ("CREATE STREAM @_x (a INT); SELECT 1", f"'_x' {NAME}"),
    ('CREATE STREAM @"" (a INT); SELECT 1', f"'' {NAME}"),
    ("CREATE STREAM x @a INT; SELECT 1", "Expected (, found a"),
    ("CREATE STREAM x@; SELECT 1", "Expected (, found the end"),
    (stream("@"), "Expected the name of a column, found )"),
    (stream("a INT, @"), "Expected the name of a column, found )"),
    (stream("a INT, @5 INT"), "Expected the name of a column, found 5"),
    (stream('a INT, @"b c" INT'), f"'b c' {NAME}"),
    (stream("a INT, @größe INT"), f"'größe' {NAME}"),
    (stream("a INT, b INT, @a INT"), "Column a is declared twice"),
    (stream("a INT, @A INT"), "Column A is declared twice, as a (case makes no difference)"),
    (stream("a@"), f"Expected the type of column a, one of {TYPES}, found )"),
    (stream("a @'INT'"), f"Expected the type of column a, one of {TYPES}, found 'INT'"),
    (stream("a INT @b INT"), "Expected , or ) after a column, found b"),
    ("CREATE STREAM x (a INT@; SELECT 1", "Expected , or ) after a column, found the end"),
    ("CREATE STREAM x (a INT) @WITH; SELECT 1", "Expected ; after a stream, found WITH"),
    (stream("a @VARCHAR"), f"Type VARCHAR is not supported; supported are {TYPES}"),
    (stream("a @float"),
     f"Type FLOAT is not supported; declare a real number as DECIMAL; supported are {TYPES}"),
    (stream("a @DOUBLE(5)"),
     f"Type DOUBLE is not supported; declare a real number as DECIMAL; supported are {TYPES}"),
    (stream("a @BIGINT(5)"), "BIGINT takes no parameters"),
    (stream("a @Boolean(1)"), "BOOLEAN takes no parameters"),
    (stream("a INT(@)"), "Expected a parameter of the type, found )"),
    (stream("a DECIMAL(5,@)"), "Expected a parameter of the type, found )"),
    ("CREATE STREAM x (a INT(5@; SELECT 1", "Expected ), found the end"),
    (stream("a @INT(5,6)"), f"INT is written as in INT(20); supported are {TYPES}"),
    (stream("a @INT(x)"), f"INT is written as in INT(20); supported are {TYPES}"),
    (stream("a @UINT"), f"UINT is written as in UINT(20); supported are {TYPES}"),
    (stream("a @UINT(1.5)"), f"UINT is written as in UINT(20); supported are {TYPES}"),
    (stream("a @DECIMAL"), f"DECIMAL is written as in DECIMAL(10,2); supported are {TYPES}"),
    (stream("a @STRING"), f"STRING is written as in STRING(4); supported are {TYPES}"),
    (stream("a @TIMESTAMP"), f"TIMESTAMP is written as in TIMESTAMP(s); supported are {TYPES}"),
    (stream("a @TIMESTAMP(3)"), f"TIMESTAMP is written as in TIMESTAMP(s); supported are {TYPES}"),
    (stream("a INT(@0)"), "A signed integer has 1 to 64 bits, not 0"),
    (stream("a INT(@65)"), "A signed integer has 1 to 64 bits, not 65"),
    (stream("a UINT(@64)"), "An unsigned integer has 1 to 63 bits, not 64"),
    (stream("a DECIMAL(@19,2)"), "A declared DECIMAL has 1 to 18 digits, not 19"),
    (stream("a DECIMAL(@0)"), "A declared DECIMAL has 1 to 18 digits, not 0"),
    (stream("a DECIMAL(@5,6)"), "A DECIMAL(5) has 0 to 5 digits after the point, not 6"),
    (stream("a STRING(@65)"), "A STRING has 1 to 64 bytes, not 65"),
    (stream("a TIMESTAMP(@ns)"), "A TIMESTAMP counts s, ms or us, not 'ns'"),
]  # fmt: skip

WINDOWS = [
    (both("@[ROWS 5"), "This bracket is never closed"),
    (both("@[ROWS [5]"), "This bracket is never closed"),
    (both("ROWS 5@]"), "There is no [ for this bracket"),
    (both("[@5 ROWS]"), "Found 5 where a window has ROWS, RANGE, SLIDE, WATTR, SLACK or "
     "PARTITION BY"),
    (over("[RANGE 9 SECONDS@, SLIDE 3 SECONDS]"),
     "Found , where a window has ROWS, RANGE, SLIDE, WATTR, SLACK or PARTITION BY"),
    (both("[ROWS 5 @rows 6]"), "ROWS stands twice in this window"),
    (over("[PARTITION BY a @PARTITION BY n ROWS 5]"), "PARTITION BY stands twice in this window"),
    (both("[ROWS @]"), "Expected a number after ROWS, found the end"),
    (both("[ROWS @-5]"), "Expected a number after ROWS, found -"),
    (both("[RANGE @t WATTR t]"), "Expected a number after RANGE, found t"),
    (both("[ROWS 5 @TUPLES]"), f"Expected a unit of time ({UNITS}) or the next clause of the "
     "window, found TUPLES"),
    (both("[RANGE 5 SECONDS WATTR@]"), "Expected the name of the column that has the time, "
     "found the end"),
    (over("[PARTITION @a ROWS 5]"), "Expected BY, found a"),
    (over("[PARTITION BY @5 ROWS 5]"), "Expected the name of the key column, found 5"),
    (over("[PARTITION BY a,@]"), "Expected the name of a key column, found the end"),
    (both("@[]"), f"A window needs ROWS or RANGE; {OF_JOINS}"),
    (both("@[SLACK 5 SECONDS]"), f"A window needs ROWS or RANGE; {OF_JOINS}"),
    (over("@[PARTITION BY a]"), f"A window needs ROWS or RANGE; {OF_AGGREGATES}"),
    (both("[ROWS 5 @RANGE 5 SECONDS]"), f"A window has ROWS or RANGE, not both; {OF_JOINS}"),
    (over("[@RANGE 5 SECONDS ROWS 5]"), f"A window has ROWS or RANGE, not both; {OF_AGGREGATES}"),
    (both("[ROWS 5 @SLIDE 1]"),
     f"SLIDE belongs to aggregates, and this is a join; {OF_JOINS}"),
    (both("[@PARTITION BY a ROWS 5]"),
     f"PARTITION BY belongs to aggregates, and this is a join; {OF_JOINS}"),
    (both("[ROWS 5 @WATTR t]"), "WATTR does not belong in [ROWS n]"),
    (both("@[RANGE 5 SECONDS]"), "WATTR is missing; write [RANGE t WATTR c SLACK k]"),
    (over("@[ROWS 5]"), "PARTITION BY is missing; write [PARTITION BY key ROWS n SLIDE a]"),
    (over("[ROWS 5 @SLACK 5 PARTITION BY a]"),
     "SLACK does not belong in [PARTITION BY key ROWS n SLIDE a]"),
    (over("@[RANGE 5 SECONDS WATTR t]"),
     "SLIDE is missing; write [RANGE t SLIDE u WATTR c SLACK k]"),
    (over("@[RANGE 5 SECONDS SLIDE 5 SECONDS PARTITION BY a]"),
     "WATTR is missing; write [PARTITION BY key RANGE t SLIDE u WATTR c SLACK k]"),
    (both("[ROWS @0]"), "ROWS counts tuples here and takes a whole number from 1 to 1000000000, "
     "not 0"),
    (both("[ROWS @1.5]"), "ROWS counts tuples here and takes a whole number from 1 to 1000000000, "
     "not 1.5"),
    (both("[ROWS @5 SECONDS]"), "ROWS counts tuples here and takes a whole number from 1 to "
     "1000000000, not 5 SECONDS"),
    (both("[ROWS @1000000001]"), "ROWS counts tuples here and takes a whole number from 1 to "
     "1000000000, not 1000000001"),
    (over("[PARTITION BY a ROWS 5 SLIDE @0]"), "SLIDE counts tuples here and takes a whole number "
     "from 1 to 1000000000, not 0"),
    (both("[RANGE 5 SECONDS WATTR @time]"), "The stream has no column time; it has a, b, s, f, t, "
     "n"),
    (both("[RANGE 5 SECONDS WATTR @T]"), "The stream has no column T (did you mean t?); it has a, "
     "b, s, f, t, n"),
    (over("[PARTITION BY a, @x ROWS 5]"), "The stream has no column x; it has a, b, s, f, t, n"),
    (both("[RANGE 5 WATTR @b]"), "WATTR takes a TIMESTAMP or an integer column, and b is "
     "DECIMAL(8,2)"),
    (both("[RANGE @0.5 SECONDS WATTR t]"), "0.5 SECONDS is not a whole number of the units that "
     "TIMESTAMP(s) counts"),
    (both("[RANGE 5 SECONDS SLACK @7 milliseconds WATTR t]"), "7 milliseconds is not a whole "
     "number of the units that TIMESTAMP(s) counts"),
    (over("[RANGE @0 SECONDS SLIDE 1 SECOND WATTR t]"), "RANGE 0 SECONDS is out of range; "
     "TIMESTAMP(s) takes 1 to 253402300799 of its units"),
    (over("[RANGE 5 SECONDS SLIDE @0 SECONDS WATTR t]"), "SLIDE 0 SECONDS is out of range; "
     "TIMESTAMP(s) takes 1 to 253402300799 of its units"),
    (both("[RANGE @2147483648 WATTR a]"), "RANGE 2147483648 is out of range; INT takes 0 to "
     "2147483647 of its units"),
    (both("[RANGE 5 @SECONDS WATTR a]"), "The WATTR column is INT and has no unit of time; write "
     "the plain number of its steps, or declare it as TIMESTAMP"),
    (both("[RANGE @5 WATTR t]"), "5 needs a unit of time, as the WATTR column is TIMESTAMP(s): "
     f"{UNITS}"),
    (over("[RANGE 5 SECONDS @SLIDE 6 SECONDS WATTR t]"), "SLIDE is longer than RANGE, so that some "
     "tuples would be in no window; make it at most as long"),
]  # fmt: skip

FROM = [
    (R + "SELECT r.a@", "FROM is missing; name one or two streams with their windows"),
    (R + Q + "SELECT r.a" + X + ", @r [ROWS 6] AS k",
     "A third stream cannot be joined; a query has one or two"),
    (R + "SELECT r.a FROM r [ROWS 5], @r [ROWS 5]",
     "Two streams in FROM are called r; give each its own name with AS"),
    (R + "SELECT x.a FROM r [ROWS 5] x, r [ROWS 5] @X",
     "Two streams in FROM are called X; give each its own name with AS"),
    (R + "SELECT x.a FROM r [ROWS 5] AS @_x, r [ROWS 5]", f"'_x' {NAME}"),
    (R + Q + "SELECT r.a FROM @r, q [ROWS 5]", f"Stream r has no window; {OF_JOINS}"),
    (R + "SELECT count(*) FROM @r AS x WHERE a > 5", f"Stream r has no window; {OF_AGGREGATES}"),
    (both("[ROWS 5] x @[ROWS 6]"), "Stream r has two windows; it takes one"),
    (R + Q + "SELECT r.a @[ROWS 5]" + X,
     "A window stands after a stream in FROM, and this one does not"),
    (R + "SELECT a FROM (@r [ROWS 5])",
     "FROM takes declared streams only, as name [window] AS alias"),
    (R + "SELECT a FROM @main.r [ROWS 5]",
     "FROM takes declared streams only, as name [window] AS alias"),
    (R + Q + "SELECT a FROM r [ROWS 5], @generate(5) [ROWS 5]",
     "FROM takes declared streams only, as name [window] AS alias"),
    (R + Q + "SELECT a FROM @r [ROWS 5] AS x (k), q [ROWS 5]",
     "FROM takes declared streams only, as name [window] AS alias"),
    (R + Q + "SELECT a FROM @x [ROWS 5]", "No stream is called x; declared are r, q"),
    (R + Q + "SELECT a FROM @R [ROWS 5]",
     "No stream is called R (did you mean r?); declared are r, q"),
]  # fmt: skip

SQL = [
    (where("r.a @/ 2 = 5"), f"/ is not supported; {LANGUAGE}"),
    (where("r.a @<=> 2"), f"<=> is not supported; {LANGUAGE}"),
    (where("r.a @=> 2"), f"=> is not supported; {LANGUAGE}"),
    (where("@~r.a = 2"), f"~ is not supported; {LANGUAGE}"),
    (where("r.s @|| 'x' = 'x'"), f"|| is not supported; {LANGUAGE}"),
    (where("r.a IN (@SELECT 1)"), "A query has one SELECT, and this is another one; subqueries "
     "are not supported"),
    (R + Q + "SELECT r.a, @FROM r [ROWS 5]", "Expected something after the comma, found FROM"),
    (R + Q + "SELECT @FROM r [ROWS 5], q [ROWS 5]", "Expected something after SELECT, found FROM"),
    (R + "SELECT@", "Expected something after SELECT, found the end"),
    (R + Q + "SELECT r.a FROM@", "Expected something after FROM, found the end"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] JOIN@", "Expected something after JOIN, found the end"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] JOIN q [ROWS 5] ON@",
     "Expected something after ON, found the end"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] JOIN q [ROWS 5] ON @where r.a = 5",
     "Expected something after ON, found where"),
    (R + Q + "SELECT r.a" + X + " WHERE@", "Expected something after WHERE, found the end"),
    (totals("count(*)", "GROUP BY@"), "Expected something after BY, found the end"),
    (where("r.a IN (1, @)"), "Expected something after the comma, found )"),
    (where("r.a = 5 @LIMIT 7"), f"LIMIT is not supported; {LANGUAGE}"),
    (where("r.s @like 'x'"), f"LIKE is not supported; {LANGUAGE}"),
    (where("@CASE WHEN r.f THEN r.f END"), f"CASE is not supported; {LANGUAGE}"),
    (where("@CAST(r.a AS INT) = 5"), f"CAST is not supported; {LANGUAGE}"),
    (where("@CAST('2024-01-01' AS TIMESTAMP) = r.t"), f"CAST is not supported; {LANGUAGE}"),
    (where("r.t = @DATE '2024-01-01'"), f"DATE is not supported; {LANGUAGE}"),
    (where("r.t + @INTERVAL 5 SECOND = q.t"), f"INTERVAL is not supported; {LANGUAGE}"),
    (where("r.a @IS NULL"), f"IS is not supported; {LANGUAGE}"),
    (where("r.a = @NULL"), f"NULL is not supported; {LANGUAGE}"),
    (where("r.a BETWEEN @SYMMETRIC 1 AND 2"), f"SYMMETRIC is not supported; {LANGUAGE}"),
    (where("r.a BETWEEN @ASYMMETRIC 1 AND 2"), f"ASYMMETRIC is not supported; {LANGUAGE}"),
    (where("r.t = @CURRENT_TIMESTAMP"), f"CURRENT_TIMESTAMP is not supported; {LANGUAGE}"),
    (joined("@DISTINCT r.a"), f"DISTINCT is not supported; {LANGUAGE}"),
    (joined("@ALL r.a"), f"ALL is not supported; {LANGUAGE}"),
    (joined("AS @STRUCT r.a"), f"STRUCT is not supported; {LANGUAGE}"),
    (joined("* @EXCEPT (a)"), f"EXCEPT is not supported; {LANGUAGE}"),
    (totals("count(@DISTINCT a)"), f"DISTINCT is not supported; {LANGUAGE}"),
    (totals("sum(a) @OVER () AS x"), f"OVER is not supported; {LANGUAGE}"),
    (totals("sum(a) @FILTER (WHERE a > 5) AS x"), f"FILTER is not supported; {LANGUAGE}"),
    (totals("a, count(*)", "GROUP BY @DISTINCT a"), f"DISTINCT is not supported; {LANGUAGE}"),
    (totals("a, count(*)", "GROUP BY @ROLLUP(a)"), f"ROLLUP is not supported; {LANGUAGE}"),
    (totals("a, count(*)", "GROUP BY a @HAVING a > 5"), f"HAVING is not supported; {LANGUAGE}"),
    (totals("a, count(*)", "GROUP BY a @ORDER BY a"), f"ORDER is not supported; {LANGUAGE}"),
    (totals("count(*)", "@FOR UPDATE"), f"FOR is not supported; {LANGUAGE}"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] @LEFT OUTER JOIN q [ROWS 5] ON r.a = q.a",
     f"LEFT is not supported; {INNER}"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] @natural join q [ROWS 5]",
     f"NATURAL is not supported; {INNER}"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] JOIN q [ROWS 5] @USING (a)",
     "USING is not supported; write ON r.column = s.column"),
    (where("r.a = 5 @extra"), "The SQL cannot be read at extra: this is not expected here"),
    (where("(r.a = @5"), "The SQL cannot be read at 5: expected )"),
    (where("r.a @="), "The SQL cannot be read at =: an operand is missing"),
    (where("r.a = 5 AND\n= @5"), "The SQL cannot be read at 5: an operand is missing"),
    (where("abs(r.a, q.a@) = 5"), "The SQL cannot be read at ): too many arguments"),
    (R + Q + "SELECT r.a FROM @5 [ROWS 5]",
     "The SQL cannot be read at 5: expected the name of a stream"),
    (where("r.a = 5 @WHERE r.a = 6"),
     "The SQL cannot be read at WHERE: Found multiple 'WHERE' clauses"),
    (where("").replace("SELECT", "@SELECT") + "(" * 500 + "r.f" + ")" * 500,
     "The SQL is nested too deeply"),
]  # fmt: skip

EXPRESSION = [
    (where("r.f AND @z.a = 5"), "Nothing in FROM is called z; it has r and q"),
    (where("@R.a = 5"), "Nothing in FROM is called R (did you mean r?); it has r and q"),
    (joined("@z.*"), "Nothing in FROM is called z; it has r and q"),
    (where("@a = 5"), "Column a is ambiguous; write r.a or q.a"),
    (where("@x = 5"), "There is no column x; r has a, b, s, f, t, n; q has a, c, s, u, t"),
    (where("r.@x = 5"), "There is no column r.x; r has a, b, s, f, t, n"),
    (where("q.@C = 5"), "There is no column q.C (did you mean c?); q has a, c, s, u, t"),
    (where("@main.r.a = 5"), "A column is written column or source.column"),
    (joined("@main.r.*"), "A column is written column or source.column"),
    (where("@r.a"), "WHERE takes a condition, and this is a whole number"),
    (where("@r.a * 0.5"), "WHERE takes a condition, and this is a number with 1 decimals"),
    (R + Q + "SELECT r.a FROM r [ROWS 5] JOIN q [ROWS 5] ON @r.t",
     "ON takes a condition, and this is a time in s"),
    (where("r.f AND @r.s"), "AND takes a condition, and this is a string"),
    (where("r.f OR r.f OR (@r.a)"), "OR takes a condition, and this is a whole number"),
    (where("NOT @r.a"), "NOT takes a condition, and this is a whole number"),
    (where("r.a @= r.s"), "A whole number cannot be compared with a string"),
    (where("(abs(r.a)) @= (r.f)"), "A whole number cannot be compared with a condition"),
    (where("r.t @< q.u"), "A time in s cannot be compared with a time in ms"),
    (where("r.t @< 5"), "A time in s cannot be compared with a whole number"),
    (where("@r.a BETWEEN 1 AND 'x'"), "A whole number cannot be compared with a string"),
    (where("r.a IN (1, @'x')"), "A whole number cannot be compared with a string"),
    (where("TRUE @< FALSE"), "Conditions have no order; < needs numbers or strings"),
    (where("r.a < 5 @< 6"), "A condition cannot be compared with a whole number"),
    (where("r.t @+ q.t = r.t"), "Two times cannot be added; subtract them, or add an integer"),
    (where("r.t @- q.u = 5"), "The times count different units, s and ms"),
    (where("5 @- r.t = r.t"), "A time cannot be subtracted from a plain number"),
    (where("r.t @- 0.5 = r.t"), "A time is moved by whole units only; use an integer"),
    (where("r.s @+ 1 = 5"), "+ takes numbers, and this is a string"),
    (where("r.a @* r.t = 5"), "* takes plain numbers, and this is a time in s"),
    (where("r.f = (@-r.s)"), "- takes numbers, and this is a string"),
    (where("5 = @-((r.t))"), "- takes plain numbers, and this is a time in s"),
    (where("5 = @abs(r.t)"), "abs takes plain numbers, and this is a time in s"),
    (where("@abs(r.f)"), "abs takes numbers, and this is a condition"),
    (where("r.a @& r.b = 5"), "& takes integers, and a DECIMAL is not one"),
    (where("r.f @| r.f"), "| takes numbers, and this is a condition"),
    (where("r.a & q.a @| 5 = 5"),
     "& and | side by side mean different things in different databases; add parentheses"),
    (where("r.n @* r.n = 5"), "The result can have 128 bits, and 126 is the most"),
    (where("r.a = @" + "9" * 38), "The result can have 127 bits, and 126 is the most"),
    (where("r.s = @'" + "x" * 65 + "'"), "A STRING has 1 to 64 bytes, not 65"),
    (where("r.s = @'a\0'"), "'a\\x00' contains a NUL character"),
    (where("@r.a" + " + 1" * 100 + " = 5"), "More than 100 operators are inside each other"),
    (where("r.a = TIMESTAMP @'2024-01-01'"), TIME),
    (where("TIMESTAMP @'2024-01-01' < TIMESTAMP '2024-01-02'"), TIME),
    (where("r.t + TIMESTAMP @'noon' = r.t"), "'noon' is not a time such as 2024-05-31 12:00:00"),
    (where("r.t = TIMESTAMP @'2024-01-01 00:00:00.5'"),
     "2024-01-01 00:00:00.500000 is finer than the s that TIMESTAMP(s) counts"),
    (where("r.t = TIMESTAMP @'0001-01-01 00:00:00+02:00'"), "0001-01-01 00:00:00+02:00 does not "
     "fit TIMESTAMP(s), which holds 0001-01-01 00:00:00 to 9999-12-31 23:59:59"),
    (joined("TIMESTAMP @'2024-01-01' AS x"), TIME),
    (where("r.a = @count(*)"),
     "count() is an aggregate; it stands alone in the SELECT list of a query over one stream"),
    (totals("sum(@Max(a)) AS x"),
     "max() is an aggregate; it stands alone in the SELECT list of a query over one stream"),
    (where("r.a = @Greatest(q.a, 5)"),
     f"Function Greatest() is not supported in an expression; supported are {EXPRESSIONS}"),
    (where("r.a = @foo()"),
     f"Function foo() is not supported in an expression; supported are {EXPRESSIONS}"),
    (where("@r.* = 5"), f"This is not supported in an expression; supported are {EXPRESSIONS}"),
    (where("(@r.a, q.a) = (1, 2)"),
     f"This is not supported in an expression; supported are {EXPRESSIONS}"),
    (where("r.s = @'a' 'b'"),
     f"This is not supported in an expression; supported are {EXPRESSIONS}"),
    (where("@r.a IN q.a"), f"This is not supported in an expression; supported are {EXPRESSIONS}"),
    (totals("sum(@*) AS x"),
     f"This is not supported in an expression; supported are {EXPRESSIONS}"),
]  # fmt: skip

JOINS = [
    (both("[ROWS 5]", "[RANGE 5 SECONDS WATTR t]").replace(", q", ", @q"),
     "Both windows of a join are of one kind, [ROWS ...] or [RANGE ...]; r and q have different "
     "ones"),
    (both("[RANGE 5 SECONDS WATTR t]", "[RANGE 5 SECONDS WATTR u]").replace(", q", ", @q"),
     "Both WATTR columns of a join count the same unit; r.t is TIMESTAMP(s) and q.u is "
     "TIMESTAMP(ms)"),
    (both("[RANGE 5 SECONDS WATTR t]", "[RANGE 5 WATTR a] AS x").replace(", q", ", @q"),
     "Both WATTR columns of a join count the same unit; r.t is TIMESTAMP(s) and x.a is INT"),
    (both("[RANGE 5 WATTR n]", "[RANGE 6 WATTR a]").replace(", q", ", @q"),
     "Both windows of a join have the same RANGE; r has 5 and q has 6 units of its WATTR column"),
    (where("r.a = 5 @GROUP BY r.a"),
     "GROUP BY belongs to aggregates over one stream, and this is a join"),
    (joined("@* AS x"), "* stands for several columns and takes no AS"),
    (joined("r.b, @q.* x"), "* stands for several columns and takes no AS"),
    (joined("(@r.a + 1)"), "An expression in SELECT needs a name; add AS name"),
    (joined("@5"), "An expression in SELECT needs a name; add AS name"),
    (joined('r.a AS @"a b"'), f"'a b' {NAME}"),
    (joined("r.a, @q.a"), "Two columns of the result are called a; rename one with AS"),
    (joined("r.a AS x, @q.a AS X"), "Two columns of the result are called X; rename one with AS"),
    (joined("r.b AS r_a, @*"), "Two columns of the result are called r_a; rename one with AS"),
    (joined("r.n @+ 1 AS x"), f"The result can be -9223372036854775807 to 9223372036854775808, "
     f"and BIGINT holds {HALF_OF_64}"),
    (joined("@abs(r.n) AS x"), f"The result can be 0 to 9223372036854775808, and BIGINT holds "
     f"{HALF_OF_64}"),
    (joined("r.b * 0.00000000000000000001 @* 0.00000000000000000001 AS x"),
     "The result can have 42 digits, and 38 is the most"),
    (joined("r.t @+ r.n AS x"), "The result can be a time far outside the years 1 to 9999 of "
     "TIMESTAMP(s); add or subtract a narrower number"),
]  # fmt: skip

TOTALS = [
    (totals("@t"), "The SELECT list of a query over one stream needs an aggregate: count, sum, "
     "min, max, avg and, with PARTITION BY, median"),
    (totals("@*"), LIST),
    (totals("t, @r.*"), LIST),
    (totals("@sum(a) + 1 AS x"), LIST),
    (totals("@stddev(a)"), LIST),
    (totals("count(*), @5"), LIST),
    (totals("@a, count(*)"), "a is neither a key nor the WATTR column nor in an aggregate; add it "
     "to GROUP BY, or put an aggregate around it"),
    (f"{R}SELECT @a, count(*) FROM r [PARTITION BY n ROWS 5]", "a is neither a key nor the WATTR "
     "column nor in an aggregate; add it to PARTITION BY, or put an aggregate around it"),
    (totals("count(*), @COUNT(*)"), "Two columns of the result are called count; rename one with "
     "AS"),
    (totals("count(*) AS @_x"), f"'_x' {NAME}"),
    (totals("@count()"), "count() takes one argument"),
    (totals("@max(a, n)"), "max() takes one argument"),
    (totals("@median(a)"), "median() needs a window with PARTITION BY; without it there are count, "
     "sum, min, max and avg"),
    (totals("@avg(a + 1)"), "avg() of an expression needs a name; add AS name"),
    (totals("@count(a = 5)"), "count() of an expression needs a name; add AS name"),
    (totals("sum(@s)"), "sum() takes numbers, and this is a string"),
    (totals("avg(@t)"), "avg() takes numbers, and this is a time in s"),
    (totals("min(@f)"), "min() takes numbers and times, and this is a condition"),
    (totals("@max(n + 1) AS x"), f"The result can be -9223372036854775807 to 9223372036854775808, "
     f"and BIGINT holds {HALF_OF_64}"),
    (totals("@avg(b * 0.000000000000000000000000000000001) AS x"),
     "A DECIMAL(38) has 0 to 38 digits after the point, not 39"),
    (totals("a, count(*)", "@GROUP BY 1"), "GROUP BY takes columns of the stream, one or more"),
    (totals("a, count(*)", "@group by r.*"), "GROUP BY takes columns of the stream, one or more"),
    (totals("a, count(*)", "@GROUP BY a, ()"), "GROUP BY takes columns of the stream, one or more"),
    (totals("a, count(*)", "GROUP BY a, @t"), "t is the WATTR column, and its windows are a "
     "grouping already; leave it out"),
    (over("[PARTITION BY @t RANGE 9 SECONDS SLIDE 3 SECONDS WATTR t]"), "t is the WATTR column, "
     "and its windows are a grouping already; leave it out"),
    (totals("a, count(*)", "GROUP BY a, @r.a"), "a is a key twice"),
    (over("[PARTITION BY a, n, @a ROWS 5]"), "a is a key twice"),
    (over("[PARTITION BY a, n ROWS 5] @GROUP BY n"), "GROUP BY has other columns than PARTITION BY "
     "a, n; leave GROUP BY out"),
]  # fmt: skip

CASES = [*TEXT, *STATEMENTS, *STREAMS, *WINDOWS, *FROM, *SQL, *EXPRESSION, *JOINS, *TOTALS]


def marked(text: str) -> tuple[str, int, int, str]:
    """Take the mark out of ``text``; return the rest, and the line, column and line of the mark."""
    before, after = text.split("@")
    lines = before.split("\n")
    return (
        before + after,
        len(lines),
        len(lines[-1]) + 1,
        (before + after).split("\n")[len(lines) - 1],
    )


@pytest.mark.parametrize(("text", "message"), CASES, ids=[message[:40] for _, message in CASES])
def test_errors(text, message):
    text, line, column, source = marked(text)
    whole = f"query:{line}:{column}: {message}\n  {source}\n  {' ' * (column - 1)}^"
    with pytest.raises(QueryError, match=f"^{re.escape(whole)}$") as caught:
        parse(text)
    error = caught.value
    assert (error.message, error.line, error.column) == (message, line, column)
    assert isinstance(error, JoineryError)


def front_end_errors() -> set[tuple[str, int]]:
    """Every place in the sources of the front end that makes or raises an error."""
    found = set()
    for path in [*SOURCES.glob("parse*.py"), SOURCES / "brackets.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            makes = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if isinstance(node, ast.Raise) or (
                makes and node.func.attr in ("error", "_error", "unexpected")
            ):
                found.add((path.name, node.lineno))
    return found


def lines_run(action) -> set[tuple[str, int]]:
    """The lines of the front end that ``action`` runs until it raises."""
    reached = set()

    def trace(frame, event, argument):
        folder, _, name = frame.f_code.co_filename.rpartition("/")
        if folder != str(SOURCES):
            return None
        reached.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(JoineryError) as caught:
            action()
    finally:
        sys.settrace(before)
    # Python stops tracing where the stack overflows, so look at what was raised too.
    raised = {(Path(entry.path).name, entry.lineno + 1) for entry in caught.traceback}
    return reached | raised


def test_every_error_of_the_front_end_is_among_the_cases(tmp_path):
    (tmp_path / "bad.cql").write_bytes(b"\xff")
    reached = lines_run(lambda: parse_file(tmp_path / "bad.cql"))
    reached |= lines_run(lambda: parse_file(tmp_path / "none.cql"))
    for text, _ in CASES:
        reached |= lines_run(lambda text=text: parse(marked(text)[0]))
    wanted = front_end_errors()
    assert len(wanted) > 80
    assert sorted(wanted - reached) == []


def test_a_place_after_tabs_and_in_crlf_lines():
    text = R.replace("\n", "\r\n") + "SELECT\tcount(*),\r\n\t'x\ty'\t+ z" + T
    with pytest.raises(QueryError) as caught:
        parse(text, "mine")
    assert str(caught.value).split("\n")[0] == f"mine:3:2: {LIST}"
    assert str(caught.value).split("\n")[1:] == ["  \t'x\ty'\t+ z" + T, "  \t^"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_all_kinds_are_counted(end):
    text = end.join([R.strip(), Q.strip(), "-- one", "SELECT 'ab", "c' AS x, z.a" + X])
    with pytest.raises(QueryError, match=r"^query:5:10: Nothing in FROM is called z; it has r and"):
        parse(text)


def test_a_file_that_is_not_there(tmp_path):
    path = tmp_path / "none.cql"
    message = f"^The query {re.escape(str(path))} cannot be read: No such file or directory$"
    with pytest.raises(JoineryError, match=message):
        parse_file(path)


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "latin.cql"
    path.write_bytes("-- größe".encode("latin-1"))
    message = f"^The query {re.escape(str(path))} is not UTF-8 text: byte 5 cannot be read$"
    with pytest.raises(JoineryError, match=message):
        parse_file(path)


def test_a_file_is_named_in_its_errors(tmp_path):
    path = tmp_path / "wrong.cql"
    path.write_text("SELECT 1")
    with pytest.raises(QueryError) as caught:
        parse_file(path)
    assert str(caught.value).startswith(f"{path}:1:1: No stream is declared; ")


# Whatever the text, the answer is a query or an error that points into it.

VALID = [path.read_text() for path in QUERIES] + [
    R + Q + "SELECT r.*, q.a + 1 AS x, abs(r.a - q.c) AS d FROM r [ROWS 5] INNER JOIN q [ROWS 6] "
    "ON NOT (r.a = q.a) AND r.f OR r.s IN ('a', 'b''c') AND r.t BETWEEN TIMESTAMP '2020-01-01' AND "
    "TIMESTAMP '2021-01-01' WHERE -r.b * 2 <= (3 ^ 5) AND r.f = TRUE;",
    totals("a, t, sum(b * 2) AS x, count(*), min(t)", "WHERE a > 5 GROUP BY a"),
]
WORD = re.compile(r"--.*|'[^']*'|\w+|\s+|[<>]=|<>|.")
OTHERS = [
    "SELECT", "FROM", "DISTINCT", "CASE", "NULL", "LATERAL", "UNION", "WITH", "OVER", "LEFT", "ALL",
    "(", ")", "[", "]", ";", ",", "*", "'", '"', "--", "/*", "*/", "()", "''", '""', "N'x'", "1.5",
    ".", "|", ">", "&", "-", "é", "東", "\n", "\t", "\0", "TRUE", "TIMESTAMP", "ROWS", "x",
]  # fmt: skip


@st.composite
def damaged(draw):
    words = WORD.findall(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        at, other = draw(st.integers(0, len(words) - 1)), draw(st.integers(0, len(words) - 1))
        match draw(st.sampled_from(["delete", "double", "swap", "move", "insert", "replace"])):
            case "delete":
                words[at] = ""
            case "double":
                words.insert(at, words[at])
            case "swap":
                words[at], words[other] = words[other], words[at]
            case "move":
                words.insert(at, words[other])
            case "insert":
                words.insert(at, draw(st.sampled_from(OTHERS)))
            case "replace":
                words[at] = draw(st.sampled_from(OTHERS))
    return "".join(words)


def assert_answered(text: str) -> None:
    """Hold the answer to ``text``, a query or an error, to what is promised of both."""
    try:
        answer = parse(text)
    except QueryError as error:
        answer = error
    if isinstance(answer, Query):
        assert answer.text == text
        return
    lines = re.split(r"\r\n?|\n", text)
    assert 1 <= answer.line <= len(lines)
    source = lines[answer.line - 1]
    assert 1 <= answer.column <= len(source) + 1
    head, caret = str(answer).rsplit("\n", 1)
    assert head == f"query:{answer.line}:{answer.column}: {answer.message}\n  {source}"
    assert caret.replace("\t", " ") == " " * (answer.column + 1) + "^"


@settings(max_examples=1500)
@given(damaged())
def test_damaged_queries_are_read_or_refused(text):
    assert_answered(text)


@settings(max_examples=300)
@given(
    st.text(st.sampled_from("aAr.,;()[]'\"-+*/<>=&|^ \n\t019eé\\%") | st.characters(), max_size=40)
)
def test_noise_is_refused(noise):
    assert_answered(noise)
    assert_answered(where(noise))
    assert_answered(over(noise))
