//! Tables: an object of the group's kinds, and what is wrong with it.

use auth::User;
use generic_server::resource::WriteContext;
use machinery::{Value, codec::json};

use super::*;

type Rule = fn(&WriteContext<'_>, &Field<'_>, &mut Errors);
type UpdateRule = fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors);

fn parse(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("valid JSON")
}

fn texts(errors: Errors) -> Vec<String> {
    errors.into_vec().iter().map(ToString::to_string).collect()
}

fn check(rule: Rule, object: &str, expect: &[&str]) {
    let (user, object) = (User::default(), parse(object));
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    let mut errors = Errors::default();
    rule(&cx, &Field::root(&object), &mut errors);
    assert_eq!(texts(errors), expect, "{object:?}");
}

fn check_update(rule: UpdateRule, new: &str, old: &str, expect: &[&str]) {
    let (user, new, old) = (User::default(), parse(new), parse(old));
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    let mut errors = Errors::default();
    rule(&cx, &Field::root(&new), &Field::root(&old), &mut errors);
    assert_eq!(texts(errors), expect, "{new:?}");
}

fn request(exactly: &str) -> String {
    let request = format!(r#"{{"name":"a","exactly":{{"deviceClassName":"c",{exactly}}}}}"#);
    format!(r#"{{"spec":{{"devices":{{"requests":[{request}]}}}}}}"#)
}

#[test]
fn requests_say_which_devices_and_how_many() {
    let all = r#""allocationMode":"All""#;
    check(claim, &request(all), &[]);
    check(
        claim,
        &request(r#""allocationMode":"ExactCount""#),
        &["spec.devices.requests[0].exactly.count: Invalid value: 0: must be greater than zero"],
    );
    check(
        claim,
        &request(&format!(r#"{all},"selectors":[{{}},{{"cel":{{"expression":"{}"}}}}]"#, "x".repeat(10241))),
        &[
            "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
            "spec.devices.requests[0].exactly.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
        ],
    );
    let alternatives: Vec<String> =
        (0..9).map(|i| format!(r#"{{"name":"n{i}","deviceClassName":"c","allocationMode":"All"}}"#)).collect();
    let of = |alternatives: &[String]| {
        let list = alternatives.join(",");
        format!(r#"{{"spec":{{"devices":{{"requests":[{{"name":"a","firstAvailable":[{list}]}}]}}}}}}"#)
    };
    check(claim, &of(&alternatives[..8]), &[]);
    check(
        claim,
        &of(&alternatives),
        &["spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"],
    );
}

#[test]
fn tolerations_compare_or_ask_for_existence() {
    let tolerations = r#"[{"operator":"Exists","value":"v"},{"operator":"Equal","value":"a b"},{"operator":"Near"},{},
        {"operator":"Exists","effect":"Never"}]"#;
    let place = "spec.devices.requests[0].exactly.tolerations";
    check(
        claim,
        &request(&format!(r#""allocationMode":"All","tolerations":{tolerations}"#)),
        &[
            &format!("{place}[0].value: Invalid value: \"v\": must be empty for operator `Exists`"),
            &format!(
                "{place}[1].value: Invalid value: \"a b\": a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
            &format!("{place}[2].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\""),
            &format!("{place}[3].operator: Required value"),
            &format!(
                "{place}[4].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""
            ),
        ],
    );
}

#[test]
fn configurations_are_objects_for_a_driver() {
    let config = |parameters: &str| {
        format!(r#"{{"spec":{{"config":[{{"opaque":{{"driver":"d.test","parameters":{parameters}}}}}]}}}}"#)
    };
    let place = "spec.config[0].opaque.parameters";
    check(class, &config("{}"), &[]);
    check(class, &config("null"), &[&format!("{place}: Required value")]);
    check(
        class,
        &config("[1]"),
        &[&format!("{place}: Invalid value: \"<value omitted>\": must be a valid JSON object")],
    );
    let long = config(&format!(r#"{{"x":"{}"}}"#, "y".repeat(10240)));
    let too_long = format!("{place}: Too long: may not be more than 10240 bytes");
    check(class, &long, &[&too_long]);
    check_update(class_update, &long, &long, &[]);
    check_update(class_update, &long, &config("{}"), &[&too_long]);
    check(class, r#"{"spec":{"extendedResourceName":"gpu.test/card"}}"#, &[]);
    check(
        class,
        r#"{"spec":{"extendedResourceName":"cpu"}}"#,
        &[r#"spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name"#],
    );
}

fn status(status: &str) -> String {
    let spec = r#"{"devices":{"requests":[{"name":"a","exactly":{}}]}}"#;
    format!(r#"{{"spec":{spec},"status":{status}}}"#)
}

#[test]
fn reports_are_about_allocated_devices() {
    let result = r#"{"request":"a","driver":"d.test","pool":"p","device":"d"}"#;
    let with = |more: &str| {
        let allocation = format!(r#"{{"devices":{{"results":[{result}]}}}}"#);
        status(&format!(r#"{{"allocation":{allocation},"devices":[{more}]}}"#))
    };
    let old = status("{}");
    let report = |device: &str, more: &str| format!(r#"{{"driver":"d.test","pool":"p","device":"{device}"{more}}}"#);
    check_update(claim_status, &with(&report("d", "")), &old, &[]);
    check_update(
        claim_status,
        &with(&report("e", "")),
        &old,
        &[
            "status.devices[0]: Invalid value: {\"Driver\":\"d.test\",\"Pool\":\"p\",\"Device\":\"e\",\"ShareID\":\"\"}: must be an allocated device in the claim",
        ],
    );
    check_update(
        claim_status,
        &with(&format!("{},{}", report("d", ""), report("d", ""))),
        &old,
        &["status.devices[1]: Duplicate value: d.test/p/d"],
    );
    check_update(
        claim_status,
        &with(&report("d", r#","networkData":{"ips":["10.9.8.7/24","10.9.8.07/24","x"]},"data":7"#)),
        &old,
        &[
            "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "status.devices[0].networkData.ips[1]: Invalid value: \"10.9.8.07/24\": must be in canonical form \
             (\"10.9.8.7/24\")",
            "status.devices[0].networkData.ips[2]: Invalid value: \"x\": must be a valid address in CIDR form, (e.g. \
             10.9.8.7/24 or 2001:db8::1/64)",
        ],
    );
}

#[test]
fn a_claim_that_goes_gets_no_new_users() {
    let claim = |deleted: bool, users: &str| {
        let metadata = if deleted { r#"{"deletionTimestamp":"2026-01-01T00:00:00Z"}"# } else { "{}" };
        let status = format!(r#"{{"allocation":{{"devices":{{}}}},"reservedFor":[{users}]}}"#);
        format!(r#"{{"metadata":{metadata},"spec":{{}},"status":{status}}}"#)
    };
    let (one, two) = (r#"{"resource":"pods","name":"p","uid":"1"}"#, r#"{"resource":"pods","name":"q","uid":"2"}"#);
    let both = format!("{one},{two}");
    check_update(claim_status, &claim(false, &both), &claim(false, one), &[]);
    check_update(claim_status, &claim(true, one), &claim(true, &both), &[]);
    let refused = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or \
                   `deletionTimestamp` are set";
    check_update(claim_status, &claim(true, &both), &claim(true, one), &[refused]);
    check_update(
        claim_status,
        &status(r#"{"allocation":{"devices":{}},"reservedFor":[{}]}"#),
        &status("{}"),
        &[
            "status.reservedFor[0].resource: Required value",
            "status.reservedFor[0].name: Required value",
            "status.reservedFor[0].uid: Required value",
        ],
    );
}

fn device(members: &str) -> String {
    let pool = r#"{"name":"p","generation":0,"resourceSliceCount":1}"#;
    let device = format!(r#"{{"name":"d"{members}}}"#);
    format!(r#"{{"spec":{{"driver":"d.test","pool":{pool},"allNodes":true,"devices":[{device}]}}}}"#)
}

#[test]
fn devices_wait_for_conditions_of_both_kinds() {
    check(slice, &device(r#","bindingConditions":["a"],"bindingFailureConditions":["b"]"#), &[]);
    check(
        slice,
        &device(r#","bindingConditions":["a","a"],"bindingFailureConditions":["a"]"#),
        &[
            r#"spec.devices[0].bindingConditions[1]: Duplicate value: "a""#,
            "spec.devices[0].bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap \
             with bindingConditions",
        ],
    );
    check(
        slice,
        &device(r#","bindingConditions":["a"]"#),
        &[
            "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use \
           bindingConditions",
        ],
    );
}

#[test]
fn devices_share_counters_and_capacity() {
    let policy = |policy: &str| {
        let capacity = format!(r#"{{"memory":{{"value":"10Gi","requestPolicy":{policy}}}}}"#);
        device(&format!(r#","allowMultipleAllocations":true,"capacity":{capacity}"#))
    };
    let place = "spec.devices[0].capacity[memory].requestPolicy";
    check(slice, &policy(r#"{"default":"1Gi","validRange":{"min":"1Gi","max":"4Gi","step":"1Gi"}}"#), &[]);
    check(
        slice,
        &policy(r#"{"default":"1500Mi","validRange":{"min":"1Gi","max":"20Gi","step":"1Gi"}}"#),
        &[
            &format!("{place}.validRange.max: Invalid value: \"20Gi\": max is larger than capacity value: 10Gi"),
            &format!(
                "{place}.validRange.step: Invalid value: \"1500Mi\": value is not a multiple of a given step (1Gi) from \
                 (1Gi)"
            ),
        ],
    );
    check(
        slice,
        &policy(r#"{"default":"3Gi","validValues":["2Gi","1Gi","1Gi"]}"#),
        &[
            &format!("{place}.validValues[1]: Invalid value: \"1Gi\": values must be sorted in ascending order"),
            &format!("{place}.validValues[2]: Duplicate value: \"1073741824\""),
            &format!(
                "{place}.validValues: Invalid value: \"3Gi\": default value is not valid according to the requestPolicy"
            ),
        ],
    );
    check(
        slice,
        &device(r#","capacity":{"memory":{"value":"1Gi","requestPolicy":{}}}"#),
        &[&format!("{place}: Forbidden: allowMultipleAllocations must be true")],
    );
    check(
        slice,
        &device(r#","consumesCounters":[{"counterSet":"s","counters":{"A":{"value":"1"}}},{"counterSet":"s"}]"#),
        &[
            "spec.devices[0].consumesCounters[0].counters: Invalid value: \"A\": a lowercase RFC 1123 label must consist of \
             lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. \
             'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.devices[0].consumesCounters[1].counters: Required value",
            r#"spec.devices[0].consumesCounters[1]: Duplicate value: "s""#,
        ],
    );
}

#[test]
fn slices_say_which_nodes_have_their_devices() {
    let slice_of = |members: &str| {
        let pool = r#"{"name":"p","generation":0,"resourceSliceCount":1}"#;
        format!(r#"{{"spec":{{"driver":"d.test","pool":{pool}{members}}}}}"#)
    };
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    check(slice, &slice_of(r#","nodeName":"n""#), &[]);
    check(slice, &slice_of(""), &[&format!("spec: Required value: {one}")]);
    check(
        slice,
        &slice_of(r#","nodeName":"","allNodes":false"#),
        &[
            "spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string",
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
            &format!("spec: Required value: {one}"),
        ],
    );
    check(
        slice,
        &slice_of(r#","perDeviceNodeSelection":true,"devices":[{"name":"a","allNodes":true},{"name":"b"}]"#),
        &[
            "spec.devices[1]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
           `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        ],
    );
    check(
        slice,
        &device(r#","nodeName":"n""#),
        &["spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if \
           `perDeviceNodeSelection` is set to true in the ResourceSlice spec"],
    );
    check(
        slice,
        &slice_of(r#","allNodes":true,"sharedCounters":[{"name":"s","counters":{"c":{"value":"1"}}}],"devices":[]"#),
        &[r#"spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed"#],
    );
}
