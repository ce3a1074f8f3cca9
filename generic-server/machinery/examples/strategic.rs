//! Applies a strategic merge patch to a built-in object, and shows the object as JSON and how long it is in protobuf.

use std::error::Error;

use machinery::{
    codec::{json, protobuf},
    patch::strategic,
    schema::builtin,
};

fn main() -> Result<(), Box<dyn Error>> {
    let pod = json::decode(
        br#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"},
             "spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"}]}}"#,
    )?;
    let patch = json::decode(br#"{"spec": {"containers": [{"name": "app", "image": "app:2"}]}}"#)?;
    let schema = builtin::schema_of("", "v1", "Pod").ok_or("the facts table has pods")?;
    let patched = strategic::apply(&pod, &patch, schema)?;
    println!("{}", String::from_utf8_lossy(&json::encode(&patched)));
    println!("{} bytes in protobuf", protobuf::encode(&patched)?.len());
    Ok(())
}
