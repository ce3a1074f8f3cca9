//! `jsonpatch.escapeKey`: a map's key as a part of a JSON pointer.

use std::sync::LazyLock;

use super::{Function, Overload, args};
use crate::types::Type;
use crate::value::Value;

/// The functions, which only expressions that make JSON patches have.
pub(crate) fn functions() -> [(&'static str, &'static Function); 1] {
    static ESCAPE: LazyLock<Function> = LazyLock::new(|| Function {
        overloads: vec![Overload {
            id: "string_jsonpatch_escapeKey_string",
            member: false,
            args: vec![Type::String],
            result: Type::String,
            call: |a| args!(a, Value::String(key) => Ok(Value::string(key.replace('~', "~0").replace('/', "~1")))),
        }],
    });
    [("jsonpatch.escapeKey", &ESCAPE)]
}

#[cfg(test)]
mod tests {
    use crate::{Env, Value};

    #[test]
    fn keys_are_escaped_only_where_patches_are_made() {
        let text = "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'";
        let program = Env::new().with_patch_functions().compile(text).expect("it compiles");
        assert!(matches!(program.evaluate(&[][..] as &[Value], 100).0, Ok(Value::Bool(true))));
        let unknown = Env::new().compile(text).expect_err("there is no such function").to_string();
        assert!(unknown.contains("undeclared reference to 'jsonpatch'"), "{unknown}");
    }
}
