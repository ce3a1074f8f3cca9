//! Expressions about claims and users.

use std::sync::{Arc, LazyLock};

use cel::{
    Decl, Env, Program, Type,
    syntax::{
        self,
        ast::{Call, Expr, ExprKind, Literal, operator},
    },
};
use machinery::{Map, Str, Value, object};

use crate::{User, evaluate::evaluate};

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    /// As it was written.
    pub text: Str,
    program: Program,
}

/// An expression that must be true.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The expression.
    pub expression: Expression,
    /// What is said when it is false.
    pub message: Str,
}

/// The expressions of one identity provider.
#[derive(Clone, Debug, Default)]
pub struct Expressions {
    /// The user's name.
    pub username: Option<Expression>,
    /// Its groups.
    pub groups: Option<Expression>,
    /// Its unique id.
    pub uid: Option<Expression>,
    /// More facts, by key.
    pub extra: Vec<(Str, Expression)>,
    /// What must hold of claims.
    pub claim_rules: Vec<Rule>,
    /// What must hold of users.
    pub user_rules: Vec<Rule>,
}

impl Expressions {
    /// Whether any of them is about claims.
    pub(super) fn read_claims(&self) -> bool {
        [&self.username, &self.groups, &self.uid].into_iter().any(Option::is_some)
            || !self.extra.is_empty()
            || !self.claim_rules.is_empty()
    }
}

/// What is wrong with an expression, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionError {
    /// It is wrong as it is written.
    Invalid(String),
    /// It cannot be made ready to run.
    Internal(String),
}

/// Claims can be anything. What JSON calls them can be written as fields of expressions are.
static CLAIMS: LazyLock<Arc<Decl>> = LazyLock::new(|| Arc::new(Decl::map_of(Decl::dynamic()).with_escaped_keys()));

static USER: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let text = || Arc::new(Decl::string());
    let texts = || Decl::list_of(Decl::string());
    let extra = Decl::map_of(texts()).with_escaped_keys();
    let fields = vec![("username", text()), ("uid", text()), ("groups", Arc::new(texts())), ("extra", Arc::new(extra))];
    Arc::new(Decl::object("kubernetes.UserInfo", fields))
});

/// Compiles an expression about claims. What it gives is only known when it is evaluated, unless it must be a bool.
///
/// # Errors
/// What is wrong with it.
pub fn claims_expression(text: &Str, is_condition: bool) -> Result<Expression, ExpressionError> {
    compile(&Env::new().variable_with("claims", &CLAIMS), text, is_condition)
}

/// Compiles a condition on users.
///
/// # Errors
/// What is wrong with it.
pub fn user_expression(text: &Str) -> Result<Expression, ExpressionError> {
    compile(&Env::new().variable_with("user", &USER), text, true)
}

fn compile(env: &Env, text: &Str, is_condition: bool) -> Result<Expression, ExpressionError> {
    let program =
        env.compile(text).map_err(|issues| ExpressionError::Invalid(format!("compilation failed: {issues}")))?;
    if is_condition && *program.result() != Type::Bool {
        return Err(ExpressionError::Invalid("must evaluate to bool".to_owned()));
    }
    match program.fault() {
        Some(why) => Err(ExpressionError::Internal(format!("program instantiation failed: {why}"))),
        None => Ok(Expression { text: text.clone(), program }),
    }
}

impl Expression {
    /// The value.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn evaluate(&self, variable: &cel::Value) -> Result<cel::Value, String> {
        evaluate(&self.program, variable).map_err(|why| format!("expression '{}' resulted in error: {why}", self.text))
    }

    /// The value, which must be a text.
    ///
    /// # Errors
    /// What went wrong; `what` is what the expression gives.
    pub(super) fn text(&self, claims: &cel::Value, what: &str) -> Result<Str, String> {
        match self.evaluate(claims)? {
            cel::Value::String(text) => Ok(text),
            _ => Err(format!("{what} claim expression must return a string")),
        }
    }

    /// The value: a text, or a list of them. Empty ones are as good as none.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn texts(&self, claims: &cel::Value) -> Result<Vec<Str>, String> {
        texts_of(&self.evaluate(claims)?)
    }
}

/// The texts in a value. Empty ones are as good as none.
///
/// # Errors
/// It holds anything else.
pub(super) fn texts_of(value: &cel::Value) -> Result<Vec<Str>, String> {
    all_texts(value).ok_or_else(|| "expression must return a string or a list of strings".to_owned())
}

fn all_texts(value: &cel::Value) -> Option<Vec<Str>> {
    let text = |item: &cel::Value| match item {
        cel::Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let found = match value {
        cel::Value::Null => Vec::new(),
        cel::Value::List(items) => items.iter().map(text).collect::<Option<_>>()?,
        cel::Value::Data(data) => {
            data.json().as_array()?.iter().map(|item| item.as_shared_str().cloned()).collect::<Option<_>>()?
        }
        value => vec![text(value)?],
    };
    Some(found.into_iter().filter(|text| !text.is_empty()).collect())
}

/// Checks rules one after the other.
///
/// # Errors
/// The first that is not true, or that cannot be evaluated.
pub(super) fn check(rules: &[Rule], variable: &cel::Value) -> Result<(), String> {
    // All are evaluated before one is judged, as upstream does.
    let values: Vec<_> = rules.iter().map(|rule| rule.expression.evaluate(variable)).collect::<Result<_, _>>()?;
    for (rule, value) in rules.iter().zip(values) {
        match value {
            cel::Value::Bool(true) => {}
            cel::Value::Bool(false) => {
                return Err(format!("validation expression '{}' failed: {}", rule.expression.text, rule.message));
            }
            _ => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}

/// Claims as expressions see them: their numbers are those of JSON, which knows no integers.
pub(super) fn claims_value(claims: &Value) -> cel::Value {
    cel::from_json(&with_doubles(claims), &CLAIMS).unwrap_or(cel::Value::Null)
}

fn with_doubles(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(*number as f64),
        Value::Array(items) => Value::from(items.iter().map(with_doubles).collect::<Vec<_>>()),
        Value::Object(members) => {
            Value::Object(Map::from_entries(members.iter().map(|(k, v)| (k.clone(), with_doubles(v))).collect()))
        }
        other => other.clone(),
    }
}

/// A user as expressions see it.
pub(super) fn user_value(user: &User) -> cel::Value {
    let extra: Map = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
    let value = object! {
        "username" => &user.name, "uid" => &user.uid, "groups" => user.groups.clone(), "extra" => extra,
    };
    cel::from_json(&value, &USER).unwrap_or(cel::Value::Null)
}

/// Whether an expression reads `claims.NAME`, or `claims.?NAME`.
pub fn reads_claim(text: &str, name: &str) -> bool {
    syntax::parse(text).is_ok_and(|parsed| reads(&parsed.expr, name))
}

fn reads(expr: &Expr, name: &str) -> bool {
    let is_claims = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(ident) if ident == "claims");
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Ident(_) => false,
        ExprKind::Select(select) => {
            (is_claims(&select.operand) && select.field == name) || reads(&select.operand, name)
        }
        ExprKind::Call(call) => {
            let Call { function, target, args } = call.as_ref();
            let is_field =
                |expr: &Expr| matches!(&expr.kind, ExprKind::Literal(Literal::String(field)) if field == name);
            let opt_select = target.is_none()
                && function == operator::OPT_SELECT
                && matches!(args.as_slice(), [of, field] if is_claims(of) && is_field(field));
            opt_select || args.iter().chain(target).any(|part| reads(part, name))
        }
        ExprKind::List(items) => items.iter().any(|item| reads(&item.value, name)),
        ExprKind::Map(entries) => entries.iter().any(|entry| reads(&entry.key, name) || reads(&entry.value, name)),
        ExprKind::Struct(made) => made.fields.iter().any(|member| reads(&member.value, name)),
        ExprKind::Fold(fold) => [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
            .into_iter()
            .any(|part| reads(part, name)),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn claims() -> cel::Value {
        claims_value(
            &json::decode(br#"{"sub":"u","n":7,"a.b":"dot","l":["x","",1],"o":{"c-d":["y"]},"null":null}"#)
                .expect("JSON"),
        )
    }

    #[test]
    fn numbers_of_claims_are_doubles_and_names_can_be_escaped() {
        let value = |text: &str| claims_expression(&text.into(), false).expect(text).texts(&claims());
        let texts = |list: &[&str]| Ok(list.iter().map(|text| Str::from(*text)).collect::<Vec<_>>());
        let wrong = Err("expression must return a string or a list of strings".to_owned());
        assert_eq!(value("claims.sub"), texts(&["u"]));
        assert_eq!(value("'one:' + claims.sub"), texts(&["one:u"]));
        assert_eq!(value("claims.a__dot__b"), texts(&["dot"]));
        assert_eq!(value("claims['a.b']"), texts(&["dot"]));
        assert_eq!(value("claims.o.c__dash__d"), texts(&["y"]));
        assert_eq!(value("['', 'a', '']"), texts(&["a"]));
        assert_eq!(value("''"), texts(&[]));
        assert_eq!(value("null"), texts(&[]));
        assert_eq!(value("claims['null']"), texts(&[]));
        assert_eq!(value("claims.?roles.orValue([])"), texts(&[]));
        assert_eq!(value("claims.n > 3 ? 'high' : 'low'"), texts(&["high"]));
        assert_eq!(value("string(claims.n)"), texts(&["7"]));
        assert_eq!(value("claims.n"), wrong);
        assert_eq!(value("claims.l"), wrong);
        assert_eq!(value("claims"), wrong);
        assert_eq!(
            value("string(claims.n + 1)"),
            Err("expression 'string(claims.n + 1)' resulted in error: no such overload".to_owned())
        );
        assert_eq!(
            value("claims.missing"),
            Err("expression 'claims.missing' resulted in error: no such key: missing".to_owned())
        );
    }

    #[test]
    fn users_are_read_by_expressions() {
        let user = User { name: "ann".into(), extra: vec![("a.b/c".into(), vec!["x".into()])], ..User::default() };
        let check = |text: &str, expect: Result<(), &str>| {
            let rule = Rule { expression: user_expression(&text.into()).expect(text), message: "no".into() };
            let found = check(&[rule], &user_value(&user));
            assert_eq!(found, expect.map_err(str::to_owned), "{text}");
        };
        check("user.username == 'ann' && user.uid == '' && user.groups.size() == 0", Ok(()));
        check("user.extra['a.b/c'] == ['x'] && user.extra.a__dot__b__slash__c[0] == 'x'", Ok(()));
        check("'z' in user.groups", Err("validation expression ''z' in user.groups' failed: no"));
    }

    #[test]
    fn claims_that_an_expression_reads_are_found_in_all_of_it() {
        let check = |text: &str, expect: bool| assert_eq!(reads_claim(text, "email"), expect, "{text}");
        check("claims.email", true);
        check("claims.?email.orValue('')", true);
        check("has(claims.email) ? 'a' : 'b'", true);
        check("['a', claims.email]", true);
        check("claims.list.map(x, x + claims.email)[0]", true);
        check("{'a': claims.email.startsWith('x')}.a ? 'a' : ''", true);
        check("claims.email_verified", false);
        check("claims.other.email", false);
        check("claims['email']", false);
        check("'claims.email'", false);
    }
}
