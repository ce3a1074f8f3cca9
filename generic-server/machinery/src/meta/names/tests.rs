use super::*;

fn fine(rule: fn(&str) -> Vec<String>, texts: &[&str]) {
    for text in texts {
        assert_eq!(rule(text), Vec::<String>::new(), "{text}");
    }
}

fn wrong(rule: fn(&str) -> Vec<String>, text: &str, want: &[&str]) {
    assert_eq!(rule(text), want, "{text}");
}

const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn some_names_nobody_can_ask_for() {
    assert_eq!(unaskable_name("a.b"), None);
    assert_eq!(unaskable_name("").as_deref(), Some("resource name may not be empty"));
    let why = "invalid resource name \"a/b%\": [may not contain '/' may not contain '%']";
    assert_eq!(unaskable_name("a/b%").as_deref(), Some(why));
}

#[test]
fn dns_names() {
    fine(dns1123_label, &["a", "0", "a-b", "a--0"]);
    wrong(dns1123_label, "a.b", &["must not contain dots"]);
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    for text in ["", "-", "A", "a-", "a_b", "ä", "a..b"] {
        wrong(dns1123_label, text, &[label]);
    }
    wrong(dns1123_label, &"a".repeat(64), &["must be no more than 63 characters"]);
    fine(dns1123_subdomain, &["a", "a.b-c.0"]);
    for text in ["", ".", "a.", ".a", "a.-b", "A"] {
        wrong(dns1123_subdomain, text, &[SUBDOMAIN_MESSAGE]);
    }
    wrong(dns1123_subdomain, &"a".repeat(254), &["must be no more than 253 characters"]);
    fine(dns1035_label, &["a", "a-1"]);
    assert_eq!(dns1035_label("1a").len(), 1);
    fine(dns1123_subdomain_with_underscore, &["_tcp.a_b.c"]);
    assert_eq!(dns1123_subdomain_with_underscore("__a").len(), 1);
    fine(wildcard_dns1123_subdomain, &["*.a.b"]);
    assert_eq!(wildcard_dns1123_subdomain("*.*.b").len(), 1);
}

#[test]
fn label_keys_and_values() {
    fine(qualified_name, &["a", "A_b.c-9", "example.com/Name"]);
    wrong(qualified_name, "", &["name part must be non-empty", NAME_PART]);
    wrong(qualified_name, "/a", &["prefix part must be non-empty"]);
    wrong(qualified_name, "a/", &["name part must be non-empty", NAME_PART]);
    wrong(qualified_name, "UP/a", &[&format!("prefix part {SUBDOMAIN_MESSAGE}")]);
    wrong(qualified_name, &"a".repeat(64), &["name part must be no more than 63 bytes"]);
    assert!(qualified_name("a/b/c")[0].ends_with("prefix and '/' (e.g. 'example.com/MyName')"));
    fine(label_value, &["", "a", "A.b_c-1"]);
    wrong(label_value, &"a".repeat(64), &["must be no more than 63 bytes"]);
    assert_eq!(label_value("-a").len(), 1);
}

#[test]
fn keys_ports_and_path_segments() {
    fine(config_map_key, &["a", ".a", "A_b-c.d"]);
    wrong(config_map_key, ".", &["must not be '.'"]);
    wrong(config_map_key, "..x", &["must not start with '..'"]);
    fine(port_name, &["http", "a-1"]);
    let empty = [
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        "must contain at least one letter (a-z)",
    ];
    wrong(port_name, "", &empty);
    wrong(port_name, "a--b", &["must not contain consecutive hyphens"]);
    wrong(port_name, "-a", &["must not begin or end with a hyphen"]);
    fine(path_segment_name, &["a:b", "A B"]);
    wrong(path_segment_name, "..", &["may not be '..'"]);
    wrong(path_segment_name, "a/%", &["may not contain '/'", "may not contain '%'"]);
    fine(relaxed_env_var_name, &["1 a", "a.b"]);
    assert_eq!(relaxed_env_var_name("a=b").len(), 1);
    fine(percent, &["0%", "150%"]);
    assert_eq!(percent("%").len(), 1);
    fine(c_identifier, &["_a1"]);
    assert_eq!(c_identifier("1a").len(), 1);
}

#[test]
fn a_generate_name_may_end_in_a_dash() {
    assert!(name_is_dns_subdomain("web-", true).is_empty());
    assert!(name_is_dns_label("web--", true).is_empty());
    assert_eq!(name_is_dns_subdomain("web-", false).len(), 1);
    assert_eq!(name_is_dns_subdomain("-", true).len(), 1);
}

#[test]
fn generated_names_have_five_letters_more_and_at_most_63() {
    let name = generate_name("web-");
    assert_eq!(name.len(), 9);
    assert!(name.starts_with("web-") && dns1123_label(&name).is_empty());
    assert_ne!(name, generate_name("web-"));
    let long = name_with_suffix(&"a".repeat(100), 0);
    assert_eq!(long, format!("{}bbbbb", "a".repeat(58)));
}
