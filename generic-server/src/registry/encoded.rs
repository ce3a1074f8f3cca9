//! A store that objects are written to in protobuf or CBOR, as upstream's server writes them. Whatever is read is read as it
//! is: registries read all forms.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use machinery::codec::{cbor, json, protobuf};
use storage::{Error, Expect, Layer, Revision, Store};

/// What objects are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Built-in ones.
    Protobuf,
    /// Custom resources.
    Cbor,
}

impl Form {
    /// How it begins in the store.
    fn magic(self) -> &'static [u8] {
        match self {
            Form::Protobuf => protobuf::MAGIC,
            Form::Cbor => cbor::SELF_DESCRIBED,
        }
    }

    fn encode(self, text: &[u8]) -> Result<Bytes, Error> {
        let failed = |why: String| Error::Unavailable(format!("an object cannot be written as {self:?}: {why}"));
        let object = json::decode(text).map_err(|error| failed(error.to_string()))?;
        match self {
            Form::Protobuf => protobuf::encode(&object).map(Bytes::from).map_err(|error| failed(error.to_string())),
            Form::Cbor => Ok(cbor::encode_plain(&object).into()),
        }
    }
}

/// The store of one resource, whose objects have such a form.
pub(super) struct Encoded {
    pub(super) store: Arc<dyn Store>,
    pub(super) form: Form,
}

#[async_trait]
impl Layer for Encoded {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.store.put(key, self.form.encode(&value)?, expect, ttl).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        let then = then.iter().map(|value| self.form.encode(value)).collect::<Result<_, _>>()?;
        self.store.put_series(key, self.form.encode(&value)?, then, expect).await
    }

    /// What is there in JSON is written anew by an update that changes nothing, so that a migration ends.
    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        let (found, _) = self.store.get(key).await?;
        Ok(found.is_some_and(|found| !found.value.starts_with(self.form.magic())) || self.store.is_stale(key).await?)
    }
}

#[cfg(test)]
mod tests {
    use machinery::Value;
    use storage::memory::Memory;

    use super::*;

    async fn check(form: Form, text: &'static [u8], read: impl FnOnce(&[u8]) -> Value) {
        let inner: Arc<dyn Store> = Memory::new();
        let store: Arc<dyn Store> = Arc::new(Encoded { store: inner.clone(), form });
        inner.put("/c", Bytes::from_static(text), Expect::Absent, None).await.expect("it is written");
        assert!(store.is_stale("/c").await.expect("it is there"));
        let (found, _) = store.get("/c").await.expect("it is there");
        let expect = Expect::Revision(found.expect("it is there").mod_revision);
        store.put("/c", Bytes::from_static(text), expect, None).await.expect("it is written");
        let (found, _) = inner.get("/c").await.expect("it is there");
        let value = found.expect("it is there").value;
        assert_eq!(read(&value).str_at(&["data", "a"]), Some("b"));
        assert!(!store.is_stale("/c").await.expect("it is there"));
    }

    #[tokio::test]
    async fn objects_are_written_in_their_form_and_those_in_json_are_written_anew() {
        let map = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"n"},"data":{"a":"b"}}"#;
        check(Form::Protobuf, map, |bytes| protobuf::decode(bytes).expect("protobuf")).await;
        let custom = br#"{"kind":"C","apiVersion":"a.b/v1","metadata":{"name":"c"},"data":{"a":"b"}}"#;
        check(Form::Cbor, custom, |bytes| cbor::decode(bytes).expect("CBOR")).await;
    }
}
