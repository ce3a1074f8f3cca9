//! Reads and writes of keys as JSON over HTTP, as etcd's gateway has them: `/v3/kv/range`, `put`, `deleterange`, `compaction`.
//!
//! Bytes are in base64, and numbers of 64 bits are strings. What is as it is by default is left out of answers.

use ::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tonic::{Code, Request, Status};

use crate::{
    proto::{
        CompactionRequest, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, ResponseHeader,
        kv_server::Kv as _,
        range_request::{SortOrder, SortTarget},
    },
    services::Kv,
};

/// Answers a request to a path below `/v3/kv/`; `None` if there is no such.
pub(super) async fn answer(kv: &Kv, method: &str, body: &[u8]) -> Option<(StatusCode, String)> {
    let call = async {
        let parsed = if body.is_empty() { Ok(json!({})) } else { serde_json::from_slice(body) };
        let fields = Fields(parsed.map_err(|error| Status::invalid_argument(error.to_string()))?);
        match method {
            "range" => range(kv, &fields).await.map(Some),
            "put" => put(kv, &fields).await.map(Some),
            "deleterange" => delete_range(kv, &fields).await.map(Some),
            "compaction" => {
                let request =
                    CompactionRequest { revision: fields.number("revision")?, physical: fields.flag("physical") };
                let response = kv.compact(Request::new(request)).await?.into_inner();
                Ok(Some(json!({"header": header(response.header)})))
            }
            _ => Ok(None),
        }
    };
    match call.await {
        Ok(None) => None,
        Ok(Some(answer)) => Some((StatusCode::OK, answer.to_string())),
        Err(status) => {
            let answer = json!({"error": status.message(), "code": status.code() as i32, "message": status.message()});
            Some((http_status(status.code()), answer.to_string()))
        }
    }
}

async fn range(kv: &Kv, fields: &Fields) -> Result<Value, Status> {
    let request = RangeRequest {
        key: fields.bytes("key")?,
        range_end: fields.bytes("range_end")?,
        limit: fields.number("limit")?,
        revision: fields.number("revision")?,
        sort_order: fields.name("sort_order", |name| SortOrder::from_str_name(name).map(|order| order as i32))?,
        sort_target: fields.name("sort_target", |name| SortTarget::from_str_name(name).map(|target| target as i32))?,
        serializable: fields.flag("serializable"),
        keys_only: fields.flag("keys_only"),
        count_only: fields.flag("count_only"),
        min_mod_revision: fields.number("min_mod_revision")?,
        max_mod_revision: fields.number("max_mod_revision")?,
        min_create_revision: fields.number("min_create_revision")?,
        max_create_revision: fields.number("max_create_revision")?,
    };
    let response = kv.range(Request::new(request)).await?.into_inner();
    let mut answer = Answer::new(response.header);
    answer.items("kvs", response.kvs);
    answer.number("count", response.count);
    if response.more {
        answer.0.insert("more".into(), true.into());
    }
    Ok(answer.0.into())
}

async fn put(kv: &Kv, fields: &Fields) -> Result<Value, Status> {
    let request = PutRequest {
        key: fields.bytes("key")?,
        value: fields.bytes("value")?,
        lease: fields.number("lease")?,
        prev_kv: fields.flag("prev_kv"),
        ignore_value: fields.flag("ignore_value"),
        ignore_lease: fields.flag("ignore_lease"),
    };
    let response = kv.put(Request::new(request)).await?.into_inner();
    let mut answer = Answer::new(response.header);
    if let Some(previous) = response.prev_kv {
        answer.0.insert("prev_kv".into(), key_value(previous));
    }
    Ok(answer.0.into())
}

async fn delete_range(kv: &Kv, fields: &Fields) -> Result<Value, Status> {
    let request = DeleteRangeRequest {
        key: fields.bytes("key")?,
        range_end: fields.bytes("range_end")?,
        prev_kv: fields.flag("prev_kv"),
    };
    let response = kv.delete_range(Request::new(request)).await?.into_inner();
    let mut answer = Answer::new(response.header);
    answer.number("deleted", response.deleted);
    answer.items("prev_kvs", response.prev_kvs);
    Ok(answer.0.into())
}

/// What a request says.
struct Fields(Value);

impl Fields {
    fn bytes(&self, name: &str) -> Result<Bytes, Status> {
        let text = self.0[name].as_str().unwrap_or_default();
        let decoded = STANDARD.decode(text).map_err(|error| Status::invalid_argument(format!("{name}: {error}")))?;
        Ok(decoded.into())
    }

    fn number(&self, name: &str) -> Result<i64, Status> {
        let number = match &self.0[name] {
            Value::Null => Some(0),
            Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        };
        number.ok_or_else(|| Status::invalid_argument(format!("{name}: no number")))
    }

    fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or_default()
    }

    fn name(&self, name: &str, parse: impl Fn(&str) -> Option<i32>) -> Result<i32, Status> {
        let number = match &self.0[name] {
            Value::Null => Some(0),
            Value::String(text) => parse(text),
            value => value.as_i64().and_then(|number| i32::try_from(number).ok()),
        };
        number.ok_or_else(|| Status::invalid_argument(format!("{name}: no such value")))
    }
}

struct Answer(Map<String, Value>);

impl Answer {
    fn new(from: Option<ResponseHeader>) -> Answer {
        Answer(Map::from_iter([("header".to_owned(), header(from))]))
    }

    fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.0.insert(name.into(), number.to_string().into());
        }
    }

    fn items(&mut self, name: &str, items: Vec<KeyValue>) {
        if !items.is_empty() {
            self.0.insert(name.into(), items.into_iter().map(key_value).collect());
        }
    }

    fn bytes(&mut self, name: &str, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.0.insert(name.into(), STANDARD.encode(bytes).into());
        }
    }
}

fn key_value(kv: KeyValue) -> Value {
    let mut answer = Answer(Map::new());
    answer.bytes("key", &kv.key);
    answer.number("create_revision", kv.create_revision);
    answer.number("mod_revision", kv.mod_revision);
    answer.number("version", kv.version);
    answer.bytes("value", &kv.value);
    answer.number("lease", kv.lease);
    answer.0.into()
}

fn header(header: Option<ResponseHeader>) -> Value {
    let header = header.unwrap_or_default();
    json!({
        "cluster_id": header.cluster_id.to_string(),
        "member_id": header.member_id.to_string(),
        "revision": header.revision.to_string(),
        "raft_term": header.raft_term.to_string(),
    })
}

/// The status that stands for a code, as gateways have it.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
