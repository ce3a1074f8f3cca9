//! The JSONPath of printer columns, as far as client-go reads it.

use machinery::{Str, Value};

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(Str),
    /// `..`: this and everything below.
    Recurse,
    /// `*`
    All,
    /// `[start:end:step]`; an index is a slice of one.
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
        one: bool,
    },
    Union(Vec<Step>),
    Filter {
        left: Operand,
        compare: Option<(Compare, Operand)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How many values a path may find on its way; more are not looked at.
const MAX_VALUES: usize = 10_000;

impl JsonPath {
    /// Reads a path; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let steps = reader.steps()?;
        reader.rest.is_empty().then_some(JsonPath(steps))
    }

    /// The first value that the path finds.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }

    fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                step.walk(value, &mut next);
                if next.len() > MAX_VALUES {
                    next.truncate(MAX_VALUES);
                    break;
                }
            }
            found = next;
        }
        found
    }
}

impl Step {
    fn walk<'a>(&self, value: &'a Value, out: &mut Vec<&'a Value>) {
        match self {
            Step::Member(name) => out.extend(value.get(name)),
            Step::Recurse => below(value, out),
            Step::All => out.extend(children(value)),
            Step::Slice { start, end, step, one } => {
                let list = value.as_array().unwrap_or_default();
                slice(list, *start, *end, *step, *one, out);
            }
            Step::Union(steps) => steps.iter().for_each(|s| s.walk(value, out)),
            Step::Filter { left, compare } => {
                out.extend(children(value).filter(|item| holds(item, left, compare.as_ref())));
            }
        }
    }
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().unwrap_or_default().iter();
    list.chain(value.as_object().into_iter().flat_map(|m| m.values()))
}

fn below<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    if out.len() < MAX_VALUES {
        out.push(value);
        children(value).for_each(|child| below(child, out));
    }
}

fn slice<'a>(list: &'a [Value], start: Option<i64>, end: Option<i64>, step: i64, one: bool, out: &mut Vec<&'a Value>) {
    let length = list.len() as i64;
    let at = |i: i64| if i < 0 { i + length } else { i };
    let start = at(start.unwrap_or(0));
    let end = if one { start.saturating_add(1) } else { end.map_or(length, at).min(length) };
    let mut i = start;
    while step > 0 && (0..length).contains(&i) && i < end {
        out.push(&list[i as usize]);
        i = i.saturating_add(step);
    }
}

fn holds(item: &Value, left: &Operand, compare: Option<&(Compare, Operand)>) -> bool {
    let value = |operand: &Operand| match operand {
        Operand::Path(path) => path.first(item).cloned(),
        Operand::Literal(value) => Some(value.clone()),
    };
    let Some((compare, right)) = compare else { return value(left).is_some() };
    let (Some(left), Some(right)) = (value(left), value(right)) else { return false };
    let order = match (&left, &right) {
        (Value::String(a), Value::String(b)) => a.as_str().partial_cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
        (a, b) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    let Some(order) = order else { return *compare == Compare::NotEqual && left != right };
    match compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterOrEqual => order.is_ge(),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Steps until something that is none.
    fn steps(&mut self) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.take("..") {
                steps.push(Step::Recurse);
                if !self.rest.starts_with('[') {
                    steps.push(self.member()?);
                }
            } else if self.take(".") {
                let root = self.rest.is_empty() && steps.is_empty();
                if !root && !self.rest.starts_with('[') {
                    steps.push(self.member()?);
                }
            } else if self.take("[") {
                steps.push(self.brackets()?);
            } else {
                return Some(steps);
            }
        }
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// A name up to the next step; a backslash takes the next character as it is.
    fn member(&mut self) -> Option<Step> {
        let mut name = String::new();
        let mut letters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((i, letter)) = letters.next() {
            match letter {
                '\\' => name.push(letters.next()?.1),
                '.' | '[' | ']' | ' ' | ')' | '=' | '!' | '<' | '>' | ',' => {
                    end = i;
                    break;
                }
                letter => name.push(letter),
            }
        }
        self.rest = &self.rest[end..];
        match name.as_str() {
            "" => None,
            "*" => Some(Step::All),
            name => Some(Step::Member(name.into())),
        }
    }

    fn brackets(&mut self) -> Option<Step> {
        self.spaces();
        if self.take("?(") {
            let step = self.filter()?;
            self.spaces();
            return (self.take(")") && self.take("]")).then_some(step);
        }
        let mut parts = vec![self.part()?];
        loop {
            self.spaces();
            if self.take("]") {
                return if parts.len() == 1 { parts.pop() } else { Some(Step::Union(parts)) };
            }
            if !self.take(",") {
                return None;
            }
            parts.push(self.part()?);
        }
    }

    /// What stands in brackets: a name in quotes, `*`, an index or a slice.
    fn part(&mut self) -> Option<Step> {
        self.spaces();
        if self.take("*") {
            return Some(Step::All);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|name| Step::Member(name.into()));
        }
        let end = self.rest.find([']', ',']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let mut numbers = text.trim().split(':').map(|n| match n.trim() {
            "" => Ok(None),
            n => n.parse::<i64>().map(Some),
        });
        let start = numbers.next()?.ok()?;
        let Some(end) = numbers.next() else {
            return start.map(|start| Step::Slice { start: Some(start), end: None, step: 1, one: true });
        };
        let step = numbers.next().transpose().ok()?.flatten().unwrap_or(1);
        numbers.next().is_none().then_some(Step::Slice { start, end: end.ok()?, step, one: false })
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((i, letter)) = letters.next() {
            match letter {
                '\\' => text.push(letters.next()?.1),
                letter if letter == quote => {
                    self.rest = &self.rest[i + 1..];
                    return Some(text);
                }
                letter => text.push(letter),
            }
        }
        None
    }

    fn filter(&mut self) -> Option<Step> {
        let left = self.operand()?;
        self.spaces();
        let compares = [
            ("==", Compare::Equal),
            ("!=", Compare::NotEqual),
            ("<=", Compare::LessOrEqual),
            (">=", Compare::GreaterOrEqual),
            ("<", Compare::Less),
            (">", Compare::Greater),
        ];
        let found = compares.into_iter().find(|(token, _)| self.rest.starts_with(token));
        let compare = match found {
            None => None,
            Some((token, compare)) => {
                self.take(token);
                Some((compare, self.operand()?))
            }
        };
        Some(Step::Filter { left, compare })
    }

    fn operand(&mut self) -> Option<Operand> {
        self.spaces();
        if self.take("@") || self.rest.starts_with('.') {
            return self.steps().map(|steps| Operand::Path(JsonPath(steps)));
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(text.into()));
        }
        let end = self.rest.find([' ', ')', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let value = match word {
            "true" => Value::from(true),
            "false" => Value::from(false),
            word => match word.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(word.parse::<f64>().ok()?),
            },
        };
        Some(Operand::Literal(value))
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn paths_find_what_client_gos_do() {
        let object = json::decode(
            br#"{"spec":{"a.b":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z"}]},
                "status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Live","status":"False"}]}}"#,
        )
        .expect("JSON");
        let check = |path: &str, expect: &str| {
            let found = JsonPath::parse(path).map(|p| p.find(&object).into_iter().cloned().collect::<Value>());
            assert_eq!(found, Some(json::decode(expect.as_bytes()).expect("JSON")), "{path}");
        };
        check(".spec.list[0].n", r#"["x"]"#);
        check(".spec.list[-1].n", r#"["z"]"#);
        check(".spec.list[*].v", "[1,2]");
        check(".spec.list[0:2].n", r#"["x","y"]"#);
        check(".spec.list[7].n", "[]");
        check(r".spec.a\.b", "[1]");
        check(".spec['a.b']", "[1]");
        check(r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#);
        check(".status.conditions[?(@.type != 'Ready')].type", r#"["Live"]"#);
        check(".spec.list[?(@.v>1)].n", r#"["y"]"#);
        check(".spec.list[?(@.v)].n", r#"["x","y"]"#);
        check("..v", "[1,2]");
        check(".missing.path", "[]");
    }

    #[test]
    fn malformed_paths_are_refused() {
        for path in [".spec[", ".spec[x]", ".spec[?(@.a==)]", ".spec..", ".a['b", "spec", ".a.[?(@"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
