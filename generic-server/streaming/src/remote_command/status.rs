//! How a command has ended, as kubelets say it and as clients are told.

use machinery::{Value, json};

/// What a command has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has succeeded.
    Success,
    /// It has ended with a code.
    Exited(u8),
    /// It has not ended by itself, or something was in the way.
    Failed(String),
}

impl Outcome {
    /// The HTTP code that is counted.
    pub(super) fn code(&self) -> u16 {
        match self {
            Outcome::Success | Outcome::Exited(_) => 200,
            Outcome::Failed(_) => 500,
        }
    }

    /// The Status for the channel for errors. It has no kind, as upstream writes it.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let text = |text: &str| {
            let mut out = Vec::new();
            json::write_string(&mut out, text);
            String::from_utf8(out).expect("JSON is UTF-8")
        };
        let failure = |message: &str, reason: &str, cause: &str, code: &str| {
            let message = text(message);
            format!(
                r#"{{"metadata":{{}},"status":"Failure","message":{message},"reason":"{reason}","details":{{"causes":[{{{cause}}}]}}{code}}}"#
            )
        };
        let document = match self {
            Outcome::Success => r#"{"metadata":{},"status":"Success"}"#.to_owned(),
            Outcome::Exited(code) => failure(
                &format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
                "NonZeroExitCode",
                &format!(r#""reason":"ExitCode","message":"{code}""#),
                "",
            ),
            Outcome::Failed(why) => failure(
                &format!("Internal error occurred: {why}"),
                "InternalError",
                &if why.is_empty() { String::new() } else { format!(r#""message":{}"#, text(why)) },
                r#","code":500"#,
            ),
        };
        document.into_bytes()
    }

    /// Reads what a kubelet has said on the stream for errors, in the protocol that it speaks.
    pub(super) fn read(message: &[u8], version: u8) -> Self {
        if message.is_empty() {
            return Outcome::Success;
        }
        let text = || String::from_utf8_lossy(message).into_owned();
        match version {
            1 => Outcome::Failed(format!("Error executing remote command: {}", text())),
            2 | 3 => Outcome::Failed(format!("error executing remote command: {}", text())),
            _ => Self::of_status(message),
        }
    }

    fn of_status(message: &[u8]) -> Self {
        let failed = |why: String| Outcome::Failed(format!("error stream protocol error: {why}"));
        let status = match json::decode(message) {
            Ok(status) if status.as_object().is_some() => status,
            Ok(_) => return failed(format!("no Status in {}", quoted(message))),
            Err(why) => return failed(format!("{why} in {}", quoted(message))),
        };
        match status.str_at(&["status"]).unwrap_or_default() {
            "Success" => return Outcome::Success,
            "Failure" => {}
            _ => return failed("unknown error".to_owned()),
        }
        if status.str_at(&["reason"]) != Some("NonZeroExitCode") {
            return Outcome::Failed(status.str_at(&["message"]).unwrap_or_default().to_owned());
        }
        let Some(details) = status.get("details").filter(|details| !details.is_null()) else {
            return failed("details must be set".to_owned());
        };
        let causes = details.get("causes").and_then(Value::as_array).unwrap_or_default();
        let Some(cause) = causes.iter().find(|cause| cause.str_at(&["reason"]) == Some("ExitCode")) else {
            return failed("no ExitCode cause given".to_owned());
        };
        let code = cause.str_at(&["message"]).unwrap_or_default();
        match code.parse() {
            Ok(exit) if code.bytes().all(|b| b.is_ascii_digit()) => Outcome::Exited(exit),
            _ => failed(format!("invalid exit code value {}", quoted(code.as_bytes()))),
        }
    }
}

/// In quotation marks, as Go writes text.
fn quoted(text: &[u8]) -> String {
    machinery::meta::go_text::quote(&String::from_utf8_lossy(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_says_how_a_command_has_ended() {
        let check = |message: &str, version: u8, expect: Outcome| {
            assert_eq!(Outcome::read(message.as_bytes(), version), expect, "{message}");
        };
        let failed = |why: &str| Outcome::Failed(why.to_owned());
        check("", 4, Outcome::Success);
        check("oops", 1, failed("Error executing remote command: oops"));
        check("oops", 2, failed("error executing remote command: oops"));
        check("oops", 3, failed("error executing remote command: oops"));
        check(r#"{"metadata":{},"status":"Success"}"#, 4, Outcome::Success);
        check(r#"{"status":"Failure","message":"no such container"}"#, 4, failed("no such container"));
        check(r#"{"status":"Odd"}"#, 5, failed("error stream protocol error: unknown error"));
        let exit = |details: &str| format!(r#"{{"status":"Failure","reason":"NonZeroExitCode"{details}}}"#);
        let cause = |code: &str| {
            exit(&format!(r#","details":{{"causes":[{{"reason":"X"}},{{"reason":"ExitCode","message":"{code}"}}]}}"#))
        };
        check(&cause("3"), 4, Outcome::Exited(3));
        check(&cause("256"), 4, failed(r#"error stream protocol error: invalid exit code value "256""#));
        check(&cause("+3"), 4, failed(r#"error stream protocol error: invalid exit code value "+3""#));
        check(&exit(""), 4, failed("error stream protocol error: details must be set"));
        check(&exit(r#","details":{}"#), 4, failed("error stream protocol error: no ExitCode cause given"));
        let Outcome::Failed(why) = Outcome::read(b"{", 4) else { panic!("no JSON") };
        assert!(why.starts_with("error stream protocol error: ") && why.ends_with(r#" in "{""#), "{why}");
    }

    #[test]
    fn clients_are_told_as_upstream_does() {
        let check = |outcome: Outcome, code: u16, expect: &str| {
            assert_eq!((outcome.code(), String::from_utf8(outcome.to_json()).as_deref()), (code, Ok(expect)));
        };
        check(Outcome::Success, 200, r#"{"metadata":{},"status":"Success"}"#);
        check(
            Outcome::Exited(3),
            200,
            r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
        );
        check(
            Outcome::Failed("a \"b\" <c>".to_owned()),
            500,
            r#"{"metadata":{},"status":"Failure","message":"Internal error occurred: a \"b\" \u003cc\u003e","reason":"InternalError","details":{"causes":[{"message":"a \"b\" \u003cc\u003e"}]},"code":500}"#,
        );
    }
}
