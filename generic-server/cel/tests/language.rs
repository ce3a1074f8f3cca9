//! What expressions mean: their values, their errors, what is wrong with them, what they cost.

use std::sync::Arc;

use cel::{Decl, Env, Type, Value, from_json};
use machinery::{array, object};

fn env() -> Env {
    Env::new().variable_of("self", Type::Dyn)
}

fn self_value() -> Value {
    let json = object! {
        "s" => "héllo", "i" => 7, "f" => 2.5, "b" => true, "n" => machinery::Value::Null,
        "l" => array![1, 2, 3], "m" => object! { "a" => 1, "b" => 2 }, "o" => object! { "p" => object! { "q" => "deep" } },
    };
    from_json(&json, &Arc::new(Decl::dynamic())).expect("any JSON is a value")
}

fn evaluate(text: &str) -> Result<Value, String> {
    let program = env().compile(text).map_err(|e| e.to_string())?;
    program.evaluate(&[self_value()][..], 1_000_000).0.map_err(|e| e.to_string())
}

#[track_caller]
fn holds(text: &str) {
    match evaluate(text) {
        Ok(Value::Bool(true)) => {}
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn fails(text: &str, expect: &str) {
    match evaluate(text) {
        Err(e) => assert_eq!(e, expect, "{text}"),
        other => panic!("{text}: {other:?}"),
    }
}

/// The first lines of the issues, `column: message`.
#[track_caller]
fn wrong(text: &str, expect: &[&str]) {
    let issues =
        env().variable_of("str", Type::String).variable_of("num", Type::Int).compile(text).expect_err("it is wrong");
    let found: Vec<String> = issues.iter().map(|i| format!("{}: {}", i.at + 1, i.message)).collect();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn operators() {
    for text in [
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && -7 % 3 == -1",
        "1.5 + 1.5 == 3.0 && 2u * 3u == 6u && 'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "1 < 2 && 2 <= 2 && 'a' < 'b' && 1 < 1.5 && 2u > 1 && b'a' < b'b' && false < true",
        "[1, 2] + [3] == [1, 2, 3] && 2 in [1, 2] && !('c' in {'a': 1})",
        "true ? 1 == 1 : 1 / 0 == 1",
        "!(1 / 0 == 1 && false) && (1 / 0 == 1 || true)",
        "dyn(1) == dyn(1.0) && dyn(1) == dyn(1u) && dyn('1') != dyn(1)",
        "{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && [5, 6][1] == 6",
        "--1 == 1 && !!true && -(-1) == 1 && 0x10 == 16 && 1e3 == 1000.0",
        "self.l[0] + self.i == 8 && self.o.p.q == 'deep' && self['i'] == 7",
        "type(1) == int && type('') == string && type([]) == list && type(self.f) == double && type(int) == type",
    ] {
        holds(text);
    }
    fails("1 / 0 == 1", "division by zero");
    fails("1 % 0 == 1", "modulus by zero");
    fails("9223372036854775807 + 1 == 0", "integer overflow");
    fails("0u - 1u == 0u", "unsigned integer overflow");
    fails("[1][3] == 1", "index out of bounds: 3");
    fails("self.none == 1", "no such key: none");
    fails("self.s.x == 1", "no such overload");
    fails("self.s + self.i == ''", "no such overload");
}

#[test]
fn macros() {
    for text in [
        "self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 2) && self.l.existsOne(x, x > 2)",
        "self.l.map(x, x * 2) == [2, 4, 6] && self.l.map(x, x > 1, x * 2) == [4, 6] && self.l.filter(x, x != 2) == [1, 3]",
        "self.m.all(k, self.m[k] > 0) && self.m.map(k, k) == ['a', 'b']",
        "has(self.s) && !has(self.none) && has(self.o.p) && !has(self.o.z)",
        "self.l.exists(i, v, i == 2 && v == 3) && self.m.all(k, v, v < 3 && k != 'z')",
        "self.l.transformList(i, v, i * v) == [0, 2, 6] && self.m.transformMap(k, v, v * 10) == {'a': 10, 'b': 20}",
        "self.m.transformMap(k, v, v > 1, v * 10) == {'b': 20}",
        "self.m.transformMapEntry(k, v, {string(v): k}) == {'1': 'a', '2': 'b'}",
        "[1, 2].map(x, [3, 4].map(y, x * y)) == [[3, 4], [6, 8]]",
        "[1, 2].exists(x, x / 0 == 1 || x == 2) && ![].exists(x, true) && [].all(x, false)",
        "self.l.filter(x, self.l.filter(y, y > x).size() == 1) == [2]",
    ] {
        holds(text);
    }
    fails("self.l.all(x, x / 0 == 1)", "division by zero");
    fails("self.m.transformMapEntry(k, v, {'same': v}) == {}", "insert failed: key same already exists");
}

#[test]
fn optionals() {
    for text in [
        "self.?s.orValue('x') == 'héllo' && self.?none.orValue('x') == 'x' && !self.?none.?deeper.hasValue()",
        "self.l[?9].orValue(5) == 5 && self.l[?0].value() == 1 && self.m[?'z'].orValue(0) == 0",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().optMap(x, x).hasValue()",
        "optional.of([1]).optFlatMap(l, l[?0]).value() == 1",
        "[?self.?none, ?self.?i] == [7] && {?'a': self.?none} == {}",
        "optional.none().or(optional.of(3)).value() == 3 && !optional.ofNonZeroValue('').hasValue()",
        "self.l.first().value() == 1 && ![].last().hasValue()",
    ] {
        holds(text);
    }
    fails("optional.none().value() == 1", "optional.none() dereference");
}

#[test]
fn strings() {
    for text in [
        "self.s.size() == 5 && size(self.s) == 5 && self.s.startsWith('hé') && self.s.endsWith('lo') && self.s.contains('éll')",
        "self.s.matches('^h.llo$') && matches('abc', 'b') && 'abc123'.find('[0-9]+') == '123'",
        "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "self.s.charAt(1) == 'é' && self.s.indexOf('l') == 2 && self.s.lastIndexOf('l') == 3 && 'aaa'.lastIndexOf('a', 1) == 1",
        "'Hello'.replace('l', 'L', 1) == 'HeLlo' && 'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'héllo'.substring(1, 3) == 'él' && '  x '.trim() == 'x' && ['a', 'b'].join('-') == 'a-b'",
        "'%s is %d'.format(['x', 3]) == 'x is 3' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
        r"'\u00e9\x41\101\n' == 'éAA\n' && r'\d' == '\\d' && b'\xff' != b'\x00' && '''a'b''' == 'a\'b'",
        "string(1.5) == '1.5' && string(b'ab') == 'ab' && string(1000000.0) == '1e+06' && double('1.5') == 1.5 && int('7') == 7",
    ] {
        holds(text);
    }
    fails("'abc'.substring(4) == ''", "index out of range: 4");
    fails("int('x') == 1", "type conversion error from 'string' to 'int'");
    fails("'abc'.matches(self.s + '(')", "error parsing regexp: missing closing ): `héllo(`");
}

#[test]
fn times() {
    for text in [
        "timestamp('2024-02-29T23:59:58.5Z').getFullYear() == 2024 && timestamp('2024-02-29T23:59:58.5Z').getMilliseconds() == 500",
        "timestamp('2024-02-29T23:59:58Z').getHours('America/New_York') == 18",
        "timestamp('2024-02-29T23:59:58Z').getDate('+05:30') == 1 && timestamp('2024-02-29T23:59:58Z').getDayOfWeek() == 4",
        "duration('90m').getHours() == 1 && duration('1h') + duration('30m') == duration('90m') && string(duration('90m')) == '5400s'",
        "timestamp('2024-01-01T00:00:00Z') + duration('1s') == timestamp('2024-01-01T00:00:01Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "string(timestamp('2024-02-29T23:59:58.500Z')) == '2024-02-29T23:59:58.5Z' && timestamp(0) < timestamp('2000-01-01T00:00:00Z')",
    ] {
        holds(text);
    }
    fails("timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)", "timestamp overflow");
}

#[test]
fn libraries() {
    for text in [
        "quantity('1.5Gi').isGreaterThan(quantity('1.5G')) && quantity('1k').asInteger() == 1000 && sign(quantity('-1')) == -1",
        "quantity('1k').add(quantity('500')) == quantity('1.5k') && quantity('1k').sub(1).asInteger() == 999 && !isQuantity('1 k')",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && ip('::1').isLoopback() && !isIP('::ffff:1.2.3.4') && string(ip('1.2.3.4')) == '1.2.3.4'",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && !isCIDR('10.0.0.0/33')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "url('https://a.example:80/p/q?x=1&x=2').getHost() == 'a.example:80' && url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://a.example/?k=a%20b').getQuery() == {'k': ['a b']} && !isURL('not a url') && url('/path').getEscapedPath() == '/path'",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).minor() == 2 && !isSemver('01.2.3')",
        "format.dns1123Label().validate('a-b').hasValue() == false && format.named('uuid').value().validate('x').value().size() == 1",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1, 2], [2, 3])",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 2].reverse() == [2, 1] && [1, 1].distinct() == [1] && lists.range(3) == [0, 1, 2]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3] && ['bb', 'a'].sortBy(s, size(s)) == ['a', 'bb']",
        "[1, 2].isSorted() && [1, 2].sum() == 3 && [1, 3].max() == 3 && ['b', 'a'].min() == 'a' && [1, 2, 1].lastIndexOf(1) == 2",
    ] {
        holds(text);
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    wrong("other.a", &["1: undeclared reference to 'other' (in container '')"]);
    wrong("str > 5", &["5: found no matching overload for '_>_' applied to '(string, int)'"]);
    wrong("str && true", &["1: expected type 'bool' but found 'string'"]);
    wrong("num == 1.0", &["5: found no matching overload for '_==_' applied to '(int, double)'"]);
    wrong("1 in ['a']", &["3: found no matching overload for '@in' applied to '(int, list(string))'"]);
    wrong("[1, 'a']", &["5: expected type 'int' but found 'string'"]);
    wrong("{'a': 1, 'b': 'c'}", &["15: expected type 'int' but found 'string'"]);
    wrong("true ? 1 : 'a'", &["6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"]);
    wrong("str.frobnicate()", &["15: undeclared reference to 'frobnicate' (in container '')"]);
    wrong("frobnicate(str)", &["11: undeclared reference to 'frobnicate' (in container '')"]);
    wrong(
        "str.startsWith('a', 'b')",
        &["15: found no matching overload for 'startsWith' applied to 'string.(string, string)'"],
    );
    wrong("size(str, 1)", &["5: found no matching overload for 'size' applied to '(string, int)'"]);
    wrong(
        "math.greatest(1, 2) == 2",
        &[
            "1: undeclared reference to 'math' (in container '')",
            "14: undeclared reference to 'greatest' (in container '')",
        ],
    );
    wrong("has(str)", &["5: invalid argument to has() macro"]);
    wrong("[1].all(1, true)", &["9: argument must be a simple name"]);
    wrong("[1].all(x, x)", &["12: expected type 'bool' but found 'int'"]);
    wrong(
        "str.all(x, true)",
        &["1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"],
    );
    wrong("str.matches('[')", &["13: invalid matches argument"]);
    wrong("duration('5 parsecs')", &["10: invalid duration argument"]);
    wrong("timestamp('today')", &["11: invalid timestamp argument"]);
    wrong("9223372036854775808", &["1: invalid int literal"]);
    wrong("18446744073709551616u", &["1: invalid uint literal"]);
    wrong("-1u == 1", &["1: found no matching overload for '-_' applied to '(uint)'"]);
    wrong("!1", &["1: found no matching overload for '!_' applied to '(int)'"]);
    wrong("quantity(str).sign()", &["19: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"]);
    wrong("'abc'.reverse()", &["14: found no matching overload for 'reverse' applied to 'string.()'"]);
    wrong(
        "'%d'.format(['x'])",
        &["14: error during formatting: decimal clause can only be used on integers, was given string"],
    );
    wrong("'%s %s'.format(['x'])", &["15: index 1 out of range"]);
    wrong("str.x", &["4: type 'string' does not support field selection"]);
    wrong("num == null", &["5: found no matching overload for '_==_' applied to '(int, null)'"]);
}

#[test]
fn functions_of_one_argument_say_what_they_were_given() {
    fails("size(dyn(5)) > 1", "no such overload: size");
    fails("dyn(5).size() > 1", "no such overload: size");
    fails("quantity(dyn(5)).isInteger()", "no such overload: quantity(int)");
    fails("isQuantity(dyn(5))", "no such overload: isQuantity(int)");
    fails("dyn(5).startsWith('a')", "no such overload");
}

#[test]
fn syntax_errors_say_what_was_expected_and_where_reading_goes_on() {
    const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                           IDENTIFIER}";
    let check = |text: &str, expect: &[&str]| {
        let expect: Vec<String> = expect.iter().map(|line| line.replace("OPERAND", OPERAND)).collect();
        wrong(text, &expect.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check("(true", &["6: Syntax error: missing ')' at '<EOF>'"]);
    check("((true", &["7: Syntax error: mismatched input '<EOF>' expecting ')'"]);
    check("[size('a'", &["10: Syntax error: mismatched input '<EOF>' expecting ')'"]);
    check("true ? (1 : 2", &["11: Syntax error: missing ')' at ':'"]);
    check("1 2 3", &["3: Syntax error: mismatched input '2' expecting <EOF>"]);
    check(
        "*",
        &[
            "1: Syntax error: mismatched input '*' expecting OPERAND",
            "2: Syntax error: mismatched input '<EOF>' expecting OPERAND",
        ],
    );
    check("!", &["2: Syntax error: extraneous input '<EOF>' expecting OPERAND"]);
    check(
        "-",
        &[
            "2: Syntax error: no viable alternative at input '-'",
            "2: Syntax error: mismatched input '<EOF>' expecting OPERAND",
        ],
    );
    check("size('a' 'b')", &["10: Syntax error: extraneous input ''b'' expecting ')'"]);
    check("[1 2 3]", &["4: Syntax error: mismatched input '2' expecting {']', ','}"]);
    check("[1,*]", &["4: Syntax error: extraneous input '*' expecting ']'"]);
    check("{1:2 3:4}", &["6: Syntax error: mismatched input '3' expecting {'}', ','}"]);
    check("x{a 1}", &["5: Syntax error: missing ':' at '1'"]);
    check("x{a", &["4: Syntax error: mismatched input '<EOF>' expecting ':'"]);
    check("x{a:1", &["6: Syntax error: mismatched input '<EOF>' expecting {'}', ','}"]);
    check("x{a:1,,}", &["7: Syntax error: extraneous input ',' expecting '}'"]);
    check(
        "x.?",
        &[
            "4: Syntax error: mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}",
            "4: unsupported ident kind",
        ],
    );
    check("[1,2", &["5: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]);
    check("{1:2", &["5: Syntax error: mismatched input '<EOF>' expecting {'}', ','}"]);
    check("{1:2,", &["6: Syntax error: missing '}' at '<EOF>'"]);
    check("[1,,2]", &["4: Syntax error: mismatched input ',' expecting ']'"]);
    check("[1 2]", &["4: Syntax error: extraneous input '2' expecting {']', ','}"]);
    check("{\"a\" 1}", &["6: Syntax error: missing ':' at '1'"]);
    check("true ? 1", &["9: Syntax error: mismatched input '<EOF>' expecting ':'"]);
    check("1 + + 2", &["5: Syntax error: extraneous input '+' expecting OPERAND"]);
    check("in a", &["1: Syntax error: extraneous input 'in' expecting OPERAND"]);
    check("..", &["2: Syntax error: no viable alternative at input '..'"]);
    check(
        "1 = 2",
        &["3: Syntax error: token recognition error at: '= '", "5: Syntax error: extraneous input '2' expecting <EOF>"],
    );
    check("'''abc", &["3: Syntax error: token recognition error at: ''abc'"]);
    check(
        r#""\q""#,
        &[
            r#"1: Syntax error: token recognition error at: '"\q'"#,
            r#"4: Syntax error: token recognition error at: '"'"#,
            "5: Syntax error: mismatched input '<EOF>' expecting OPERAND",
        ],
    );
    check("str.`a-b`", &["5: unsupported syntax: '`'"]);
    check("x{1:2}", &["3: Syntax error: mismatched input '1' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"]);
    holds("size([,]) == 0 && size({,}) == 0");
}

#[test]
fn nothing_that_is_deep_or_long_overflows() {
    let deep = format!("{}1{} == 1", "(".repeat(200), ")".repeat(200));
    holds(&deep);
    for text in [
        format!("{}1{}", "(".repeat(40_000), ")".repeat(40_000)),
        format!("1{}", " + 1".repeat(20_000)),
        format!("self{}", ".a".repeat(20_000)),
        format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000)),
    ] {
        let issues = env().compile(&text).expect_err("it is too deep").to_string();
        assert!(issues.contains("recursion limit exceeded"), "{}", &issues[..issues.len().min(200)]);
    }
    for open in
        ["[1].map(x, ", "[1].exists(x, x == 1 || ", "{'a': ", "true ? 1 : ", "self.f[", "optional.of(1).optMap(v, "]
    {
        let close = if open.ends_with("? 1 : ") {
            ""
        } else if open.ends_with('[') {
            "]"
        } else if open.starts_with('{') {
            "}"
        } else {
            ")"
        };
        let deep = format!("{}1{}", open.repeat(240), close.repeat(240));
        // That it does not work is no matter; that it is told is.
        if let Ok(program) = env().compile(&deep) {
            let _ = program.evaluate(&[self_value()][..], 1_000_000);
        }
    }
    holds(&format!("true{}", " && true".repeat(10_000)));
    let long = "1".repeat(100_001);
    assert!(
        env()
            .compile(&long)
            .expect_err("it is too long")
            .to_string()
            .contains("expression code point size exceeds limit")
    );
}

#[test]
fn evaluation_ends_when_it_has_cost_too_much() {
    for text in [
        "lists.range(100000).all(x, lists.range(100000).all(y, x >= 0))",
        "'aaaaaaaaaa'.replace('', 'bbbbbbbbbb').replace('', 'cccccccccccccccccccc').replace('', 'dddddddddddddddddddddddddd').replace('', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeee').replace('', 'fffffffff').size() > 0",
    ] {
        fails(text, "operation cancelled: actual cost limit exceeded");
    }
}
